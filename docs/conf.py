"""The site: ``make docs`` builds it, with warnings as errors and every example run."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any

import typer
from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import marginshot
from marginshot.cli.app import app

HERE = Path(__file__).parent

project = "marginshot"
author = "The marginshot developers"
version = release = marginshot.__version__
project_copyright = author

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.md5", "**/sg_execution_times.rst"]
nitpicky = False
default_role = "py:obj"

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

templates_path = ["_templates"]
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# The notice that code is being compiled would become part of an example's printed result.
logging.getLogger("marginshot").setLevel(logging.ERROR)

sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": [str(HERE.parent / "examples" / part) for part in ("concepts", "recipes")],
    "gallery_dirs": ["gallery/concepts", "gallery/recipes"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "marginshot"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}


def write_commands(_: object) -> None:
    """Write the page of all commands with their options, from the command line itself."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("marginshot", [], resilient_parsing=True)
    lines = ["# Command line", "", "`marginshot COMMAND --help` prints the same.", ""]
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        lines += [f"## {name}", "", *_description(command.help or ""), ""]
        options = [parameter for parameter in command.params if getattr(parameter, "help", None)]
        lines += ["| option | meaning |", "|---|---|"] if options else []
        lines += [f"| {_spelling(one)} | {_cell(one.help)} |" for one in options] + [""]
    target = HERE / "reference" / "commands.md"
    target.parent.mkdir(exist_ok=True)
    content = "\n".join(lines)
    if not target.exists() or target.read_text() != content:
        target.write_text(content)


def _description(text: str) -> list[str]:
    """Paragraphs of a docstring; an example becomes a block of code."""
    out: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        example = paragraph.strip().removeprefix("Example: ")
        out += ["```console", f"$ {example}", "```", ""] if paragraph.startswith("Example: ") else [paragraph, ""]
    return out


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _write_math(display: str) -> Any:
    """A renderer of formulas that needs no script and no network: browsers draw MathML themselves."""

    def visit(writer: Any, node: Any) -> None:
        writer.body.append(convert(node.astext(), display=display))
        raise SkipNode

    return visit


def keep_intervals_together(_app: object, _name: str, source: list[str]) -> None:
    """Keep "86.7 ± 0.3" on one line of a narrow table."""
    source[0] = source[0].replace(" ± ", "\u00a0±\u00a0")


def leave_foreign_labels(_app: object, _what: str, _name: str, member: Any, _options: object, lines: list[str]) -> None:
    """Drop what scikit-learn says after the first line of inherited methods: it refers to labels of its own site."""
    if (getattr(member, "__module__", None) or "").startswith("sklearn."):
        del lines[1:]


def setup(sphinx: Any) -> None:
    """Connect what is written before the pages are read, and how formulas are drawn."""
    sphinx.connect("builder-inited", write_commands)
    sphinx.connect("source-read", keep_intervals_together)
    sphinx.connect("autodoc-process-docstring", leave_foreign_labels)
    sphinx.add_html_math_renderer("mathml", (_write_math("inline"), None), (_write_math("block"), None))
