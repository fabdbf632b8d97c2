"""The page's files: small, whole, and without what its content security policy forbids."""

import re
from pathlib import Path

import marginshot.studio

FOLDER = Path(marginshot.studio.__file__).parent / "static"
MODULES = {path.name: path.read_text() for path in FOLDER.glob("*.js")}
HTML = (FOLDER / "index.html").read_text()


def test_all_files_together_are_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 200_000


def test_nothing_comes_from_elsewhere_or_runs_inline():
    assert not re.search(r"<script(?![^>]* src=\"static/)|\son\w+=|\sstyle=", HTML)
    for text in (HTML, (FOLDER / "style.css").read_text(), *MODULES.values()):
        outside = re.sub(r"http://www\.w3\.org/2000/svg", "", text)
        assert "http://" not in outside
        assert "https://" not in outside


def test_names_cannot_become_markup():
    for name, text in MODULES.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )


def test_numbers_of_items_and_labels_are_in_the_singular_where_they_are_one():
    for name, text in MODULES.items():
        assert not re.search(r"\$\{[^{}]*\} (items|labels)\b", text), name  # instead of items(n), labels(n)


def test_every_import_and_every_element_is_there():
    ids = set(re.findall(r'id="([\w-]+)"', HTML))
    for name, text in MODULES.items():
        for imported, module in re.findall(r"import \{([^}]+)\} from \"\./(\w+\.js)\"", text):
            for word in re.findall(r"[\w$]+", imported):
                assert re.search(rf"export [^;]*?{re.escape(word)}(?!\w)", MODULES[module]), (name, word)
        # Elements that the page makes itself are asked for with `?`.
        assert set(re.findall(r'\$\("([\w-]+)"\)(?!\?)', text)) <= ids, name
