"""Reading of command-line values that several commands share."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from marginshot.data.sampler import TaskSettings
    from marginshot.methods.base import Method


def at_least(least: int) -> Callable[[int | None], int | None]:
    """A check of an option's value, which may be left out."""

    def check(value: int | None) -> int | None:
        if value is not None and value < least:
            raise typer.BadParameter(f"at least {least}; got {value}.")
        return value

    return check


def _check_jobs(jobs: int) -> int:
    if jobs < 1 and jobs != -1:
        raise typer.BadParameter(f"workers are at least 1, or -1 for all cores; got {jobs}.")
    return jobs


Jobs = Annotated[
    int,
    typer.Option("--jobs", "-j", callback=_check_jobs, help="Workers; -1: all cores. Accuracies do not depend on it."),
]


Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="Python file with methods of your own under @register; it is run. Repeatable."),
]


def load_plugins(paths: Sequence[Path] | None) -> None:
    """Run the files, which register their methods.

    The source text itself is compiled. Python's import would leave byte code in the user's folder, and would trust old
    byte code of a file that was edited within the same second.
    """
    for path in paths or ():
        if not path.is_file():
            raise typer.BadParameter(f"there is no file {path}.", param_hint="--plugin")
        module = ModuleType(f"marginshot_plugin_{path.stem}")
        module.__file__ = str(path)
        sys.modules[module.__name__] = module  # dataclasses look up their module by name
        try:
            exec(compile(path.read_bytes(), path, "exec"), module.__dict__)
        except (Exception, SystemExit) as error:
            raise ValueError(f"{path} stopped with {type(error).__name__}: {error}") from error


def parse_tasks(
    ways: Sequence[int], shots: Sequence[str], query: int, dirichlet: float | None, present: int | None, foreign: int
) -> list[TaskSettings]:
    """Every way with every shot, in the order given."""
    from marginshot.data.sampler import TaskSettings

    return [
        TaskSettings(
            n_way=way,
            n_shot=_parse_shot(shot, way),
            n_query_per_class=query,
            dirichlet=dirichlet,
            present=present,
            foreign=foreign,
        )
        for way in dict.fromkeys(ways)
        for shot in dict.fromkeys(shots)
    ]


def _parse_shot(text: str, way: int) -> int | tuple[int, ...]:
    from marginshot.data.sampler import spread_shots

    if re.fullmatch(r"\d+", text):
        return int(text)
    if match := re.fullmatch(r"(\d+)-(\d+)", text):
        return spread_shots(int(match[1]), int(match[2]), way)
    if re.fullmatch(r"\d+(,\d+)+", text):
        return tuple(int(part) for part in text.split(","))
    raise typer.BadParameter(
        f"{text!r} is not a number of shots. Give a number (5), one per class (1,5,5,3,2) or a range (1-5).",
        param_hint="--shot",
    )


def parse_methods(names: str, config: Path | None) -> dict[str, Method]:
    """Comma-separated names -> methods with their settings from the config file."""
    from marginshot.methods import METHODS, get_method

    tables = {} if config is None else read_config(config)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise typer.BadParameter("no method given. See `marginshot methods`.", param_hint="--methods")
    if wanted == ["all"]:
        wanted = [*sort_methods(METHODS), *(name for name in tables if name not in METHODS)]
    for name, table in tables.items():
        if "method" not in table and name not in METHODS:
            raise ValueError(
                f"[methods.{name}] is not a method, and does not say which method it is a variant of "
                '(method = "..."). Correct its name, or give the file of that method with --plugin.'
            )
        get_method(table.get("method", name))  # raises for an unknown method even if it is not used
    methods = {}
    for label in dict.fromkeys(wanted):
        settings = dict(tables.get(label, {}))
        methods[label] = get_method(settings.pop("method", label), **settings)
    return methods


def sort_methods(names: Iterable[str]) -> list[str]:
    """The paper's own methods first, then the others by name."""
    return sorted(names, key=lambda name: (not name.startswith("fs-"), name))


def read_config(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Tables ``[methods.NAME]`` of a TOML file: settings of a method, or a variant with ``method = "..."``."""
    from marginshot._lib.reading import reading

    with reading(path, "valid TOML"):
        content = tomllib.loads(path.read_bytes().decode("utf-8"))
    strange = sorted(set(content) - {"methods", "tuned"})
    tables = content.get("methods", {})
    if strange or not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        found = f"it has {strange[0]!r}" if strange else "methods is not a table of tables"
        raise ValueError(f"{path.name}: a config file holds tables [methods.NAME] with settings; {found}.")
    return {name: {key: _frozen(value) for key, value in table.items()} for name, table in tables.items()}


def _frozen(value: Any) -> Any:
    """TOML's lists as tuples: the settings of a method never change."""
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
