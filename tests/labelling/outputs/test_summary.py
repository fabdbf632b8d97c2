from __future__ import annotations

import numpy as np
import pytest

from marginshot.labelling.answers.classify import Answers
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.kinds import EMBEDDING
from marginshot.labelling.outputs.labelling import Labelling
from marginshot.labelling.outputs.summary import Line, summarize


def make_labelling(sizes, doubtful=(), sure=0.999, foreign=0, rejected=False):
    """Class ``c000`` with so many items, and so on; of the classes ``doubtful`` every item is to be checked."""
    best = np.repeat(np.arange(len(sizes)), sizes)
    probabilities = np.zeros((len(best), len(sizes)))
    probabilities[np.arange(len(best)), best] = np.where(np.isin(best, doubtful), 0.6, sure)
    probabilities[np.arange(len(best)), (best + 1) % len(sizes)] = np.where(np.isin(best, doubtful), 0.4, 1 - sure)
    names = tuple(f"c{place:03d}" for place in range(len(sizes)))
    marked = np.arange(len(best)) < foreign
    answers = Answers(names, np.full(len(best), -1), probabilities, marked)
    items = tuple(map(str, range(len(best))))
    collection = Collection(EMBEDDING, items, best, ("",) * len(best), np.ones(len(best), dtype=bool))
    return Labelling(collection, np.zeros((len(best), 2), dtype=np.float32), answers, rejected, model=None)


def test_the_table_ends_with_totals():
    summary = summarize(make_labelling([3, 5], doubtful=[1]))
    assert summary.classes == (Line("c000", 3, 0), Line("c001", 5, 5))
    assert summary.others is None
    assert summary.totals == (Line("total", 8, 5),)


def test_rejected_items_are_in_the_total():
    summary = summarize(make_labelling([3, 5], foreign=2, rejected=True))
    assert summary.totals == (Line("no label", 2, 0), Line("total", 8, 0))
    assert sum(line.n_items for line in summary.classes) == 6


@pytest.mark.parametrize("n_classes", [31, 150])
def test_many_classes_are_the_largest_and_the_most_doubtful(n_classes):
    sizes = [n_classes + 5 - place for place in range(n_classes)]
    labelling = make_labelling(sizes, doubtful=[n_classes - 1, n_classes - 2], sure=0.9499)
    summary = summarize(labelling)
    names = [line.name for line in summary.classes]
    assert len(names) == 30
    assert names == sorted(names)
    assert set(names) > {f"c{place:03d}" for place in (*range(20), n_classes - 1, n_classes - 2)}
    assert summary.others.name == f"{n_classes - 30} smaller classes"
    assert sum(line.n_items for line in (*summary.classes, summary.others)) == sum(sizes)
    assert len(summarize(labelling, whole=True).classes) == n_classes


def test_the_runner_up_is_never_the_label_itself():
    probabilities = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])
    answers = Answers(("a", "b", "c"), np.full(2, -1), probabilities, np.zeros(2, bool), accepted=np.array([1, -1]))
    assert answers.best.tolist() == [1, 1]
    assert answers.runner_up.tolist() == [0, 2]


def test_without_a_label_no_accuracy_is_expected():
    labelling = make_labelling([3, 5], foreign=8, rejected=True)
    assert labelling.expected_accuracy() is None
    assert not labelling.to_check.any()
