"""Keys of classes, names that no class can have, and items found by what they are like."""

import numpy as np
import pytest

from marginshot.labelling import Session


@pytest.fixture
def session():
    rng = np.random.default_rng(0)
    with Session.from_embeddings(3.0 * np.eye(4)[np.arange(40) % 4] + 0.1 * rng.normal(size=(40, 4))) as session:
        yield session


def keys(session):
    return {known.name: known.key for known in session.state.classes}


def test_a_class_keeps_its_key_when_others_go(session):
    session.add_classes(["ash", "birch", "cedar"])
    assert keys(session) == {"ash": "1", "birch": "2", "cedar": "3"}
    session.delete_class("ash")
    session.merge("birch", "cedar")
    assert keys(session) == {"cedar": "3"}
    session.add_class("elm")  # takes the first that is free
    assert keys(session) == {"cedar": "3", "elm": "1"}
    session.rename("cedar", "yew")
    assert keys(session)["yew"] == "3"


def test_a_chosen_key_is_swapped_undone_and_kept_in_the_log(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 3))
    with Session.from_embeddings(X, log=tmp_path / "log.sqlite") as session:
        session.add_classes(["ash", "birch"])
        session.set_key("birch", "B")
        session.set_key("ash", "b")
        assert keys(session) == {"ash": "b", "birch": "1"}
        assert session.state.can_undo == 'give "ash" the key B'
        session.undo()
        assert keys(session) == {"ash": "1", "birch": "b"}
    with Session.from_embeddings(X, log=tmp_path / "log.sqlite") as session:
        assert keys(session) == {"ash": "1", "birch": "b"}
        with pytest.raises(ValueError, match=r"A class can have one of the keys 1 2 .* got 'n'"):
            session.set_key("ash", "n")


def test_more_classes_than_keys_have_none(session):
    session.add_classes([f"class {number}" for number in range(40)])
    found = list(keys(session).values())
    assert len(set(found[:31])) == 31
    assert set(found[31:]) == {""}
    session.set_key("class 39", "1")
    assert (keys(session)["class 39"], keys(session)["class 0"]) == ("1", "")


@pytest.mark.parametrize("name", ["None of these", "none  of these", "None of the classes"])
def test_no_class_is_called_none_of_these(session, name):
    session.add_class("ash")
    for act in (
        lambda: session.add_class(name),
        lambda: session.label([0], name),
        lambda: session.rename("ash", name),
    ):
        with pytest.raises(ValueError, match="A class cannot be called"):
            act()
    assert list(keys(session)) == ["ash"]


def test_items_like_an_item_come_first(session):
    found = session.lookup.similar(5)
    assert found[0] == 5
    assert set(found[:10] % 4) == {1}
    assert not session.lookup.reads_words
    with pytest.raises(ValueError, match="reads no words"):
        session.lookup.described("anything")
