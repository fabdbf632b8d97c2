"""The page: it counts what the table counts, keeps names whole, and stays readable with many classes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from marginshot.labelling.answers.classify import Answers
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.kinds import TEXT
from marginshot.labelling.outputs.gallery import LARGEST_PAGE, render_gallery
from marginshot.labelling.outputs.labelling import Labelling
from marginshot.labelling.outputs.summary import summarize


def make_labelling(n_classes=3, n_items=60, rejected=False, name="a_rather_long_class", **others):
    """Texts of so many classes, of each of which the first is an example; some foreign, some suggested."""
    rng = np.random.default_rng(0)
    best = np.arange(n_items) % n_classes
    given = np.where(np.arange(n_items) < n_classes, best, -1)
    probabilities = rng.dirichlet(np.full(n_classes, 0.5), n_items)
    probabilities[np.arange(n_items), best] += 1.0
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    foreign = (np.arange(n_items) % 7 == 3) & (given < 0)
    answers = Answers(
        tuple(f"{name}_{place:03d}" for place in range(n_classes)),
        given,
        probabilities,
        foreign,
        suggested=tuple(np.flatnonzero((given < 0) & ~foreign)[:4].tolist()),
    )
    items = tuple(f"row {place}" for place in range(n_items))
    texts = [f"text {place}" for place in range(n_items)]
    collection = Collection(TEXT, items, texts, ("",) * n_items, np.ones(n_items, dtype=bool))
    X = rng.normal(size=(n_items, 4)).astype(np.float32)
    return Labelling(collection, X, answers, rejected, model=None, **others)


@pytest.mark.parametrize("rejected", [False, True])
def test_the_page_counts_what_the_table_counts(rejected):
    labelling = make_labelling(rejected=rejected)
    page = re.sub(r"<wbr>", "", render_gallery(labelling))
    for line in summarize(labelling).classes:
        head = re.search(rf"</span>{line.name} <small>(\d+) texts(?:, (\d+) to check)?</small>", page)
        assert (int(head[1]), int(head[2] or 0)) == (line.n_items, line.n_to_check)
        section = page[head.end() :].partition("</section>")[0]
        n_examples, n_found = (int(re.search(rf"(\d+) {word}", section)[1]) for word in ("example", "found"))
        assert n_examples + n_found == line.n_items
        assert section.count('class="item') == line.n_items
    total = sum(int(count) for count in re.findall(r'<div class="number">(\d+)', page))
    assert total == summarize(labelling).totals[-1].n_items + (0 if rejected else labelling.n_foreign)


def test_captions_keep_the_name_of_the_class_whole():
    page = render_gallery(make_labelling(name="x" * 80))
    assert f"<b>{'x' * 80}_<wbr>000</b>" in page
    rules = re.search(r"\.item \.what b, \.item \.or \{([^}]*)\}", page)[1]
    assert "nowrap" not in rules
    assert "overflow-wrap: anywhere" in rules


def test_files_left_out_are_a_list():
    problems = {f"<b>{place}.jpg": "cannot be read as a picture" for place in range(30)}
    page = render_gallery(make_labelling(problems=problems))
    assert page.count("<li><b>&lt;b&gt;") == 30
    assert "<summary>30 rows left out</summary>" in page


def test_the_map_tells_examples_from_suggestions_by_shape():
    labelling = make_labelling()
    drawn = re.search(r"<svg viewBox=\"0 0 620 430\".*?</svg>", render_gallery(labelling), re.DOTALL)[0]
    n_stars, n_diamonds = drawn.count("M0 -8l2.2"), drawn.count("M0 -6l6 6")
    assert (n_stars, n_diamonds) == (3, 4)
    assert drawn.count('fill="#fff"') == labelling.n_foreign
    assert drawn.count("<title>") == 60


def test_many_classes_are_an_index_in_columns_and_a_small_page():
    assert 'class="top many"' not in render_gallery(make_labelling())
    page = render_gallery(make_labelling(n_classes=150, n_items=9_000))
    assert 'class="top many"' in page
    assert page.count('class="item') < LARGEST_PAGE + 150 * 2 + 200
    assert page.count('<a href="#class-') == 150
