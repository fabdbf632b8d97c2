"""README keeps to 120 lines, and its Python prints what README says."""

import re
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(path, capsys):
    """Run the first block of Python in a page; returns its names, and what it printed."""
    names = {}
    exec(re.search(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)[1], names)
    return names, capsys.readouterr().out.strip()


def test_readme_has_at_most_120_lines():
    assert len(README.splitlines()) <= 120


def test_readme_and_start_print_what_they_say(capsys):
    for path in (ROOT / "README.md", ROOT / "docs" / "start.md"):
        _, printed = run(path, capsys)
        assert f"# {printed}\n" in path.read_text(encoding="utf-8")


def test_the_peers_named_in_readme_get_what_it_says(capsys):
    names, _ = run(ROOT / "README.md", capsys)
    rows, truth, labels = names["X"], names["truth"], names["y"]
    known = labels >= 0
    spread = LabelSpreading(kernel="knn", n_neighbors=10).fit(rows, labels).transduction_
    regression = LogisticRegression(max_iter=5000).fit(rows[known], labels[known]).predict(rows)
    # Ties among neighbours are decided by rounding, which depends on the number of threads: whole percents.
    right = [f"{np.mean((answers == truth)[~known]):.0%}".replace("%", " %") for answers in (spread, regression)]
    assert tuple(right) == re.search(r"gets (\S+ %) right here, `LogisticRegression` (\S+ %)", README).groups()


def test_links_of_readme_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
