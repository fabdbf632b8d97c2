from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marginshot.labelling.session.acts.act import Now, apply
from marginshot.labelling.session.acts.classes import AddClasses, DeleteClass, Merge, Rename
from marginshot.labelling.session.acts.items import Clear, NoneOfThese, Renamed
from marginshot.labelling.session.acts.label import Accept, Examples, Label
from marginshot.labelling.session.acts.undo import Redo, Undo
from marginshot.labelling.session.opening import KeyTable
from marginshot.labelling.session.state import Event, State

KEYS = tuple("abcdef")
NAMES = ("ant", "bee", "cat", "δelta")

keys = st.lists(st.sampled_from((*KEYS, "gone", "elsewhere")), min_size=1, max_size=4, unique=True)
names = st.sampled_from(NAMES)
sayings = st.one_of(
    st.builds(lambda name, own: Label({name: own}), names, keys),
    st.builds(lambda name, own: Accept({name: own}), names, keys),
    st.builds(NoneOfThese, keys),
    st.builds(Clear, keys),
    st.builds(lambda name: AddClasses.described({name: ["described"]}), names),
    st.builds(Rename, names, st.sampled_from((*NAMES, "dog"))),
    st.builds(Merge, names, names),
    st.builds(DeleteClass, names),
    st.builds(lambda name, own: Examples({name: own}), names, keys),
    st.builds(lambda old, new: Renamed(dict(zip(old, new, strict=False))), keys, keys),
    st.just(Undo()),
    st.just(Redo()),
)


def live(said: list) -> tuple[State, list[Event]]:
    """The state after all that could be said, and its events."""
    state, table, events = State.empty(len(KEYS)), KeyTable(KEYS), []
    for saying in said:
        try:
            act = saying.on(Now(state, KEYS, KEYS))
        except ValueError:
            continue
        events.append(Event(len(events) + 1, 0.0, act.kind, json.loads(json.dumps(act.payload))))
        state, _ = apply(state, events[-1], table.slots_of)
    return state, events


def replay(events: list[Event], keys: tuple[str, ...] = KEYS) -> State:
    state, table = State.empty(len(keys)), KeyTable(keys)
    for event in events:
        state, _ = apply(state, event, table.slots_of)
    return state


def content(state: State) -> tuple:
    return state.classes, state.slot_given.tolist(), state.slot_checked.tolist()


@given(st.lists(sayings, max_size=30))
@settings(max_examples=150, deadline=None)
def test_replay_is_the_live_state(said):
    state, events = live(said)
    again = replay(events)
    assert content(again) == content(state)
    assert (again.version, again.can_undo, again.can_redo) == (state.version, state.can_undo, state.can_redo)
    assert set(state.slot_given.tolist()) <= {-1, -2, *(known.id for known in state.classes)}


@given(st.lists(sayings, max_size=30), st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_undo_then_redo_is_the_identity(said, n_steps):
    state, events = live(said)
    n_steps = min(n_steps, len(state.done))
    for kind in ["undo"] * n_steps + ["redo"] * n_steps:
        events.append(Event(len(events) + 1, 0.0, kind, {}))
    again = replay(events)
    assert content(again) == content(state)
    assert again.can_undo == state.can_undo
    assert again.version == state.version + 2 * n_steps


@given(st.lists(sayings, max_size=30))
@settings(max_examples=50, deadline=None)
def test_undoing_everything_leaves_nothing(said):
    state, events = live(said)
    for _ in state.done:
        events.append(Event(len(events) + 1, 0.0, "undo", {}))
    empty = replay(events)
    assert not empty.classes
    assert (empty.slot_given == -1).all()
    assert not empty.slot_checked.any()


@given(st.lists(sayings, max_size=20), st.permutations(KEYS[1:]))
@settings(max_examples=50, deadline=None)
def test_labels_follow_their_items_when_the_source_changes(said, order):
    state, events = live(said)
    table = KeyTable(KEYS)
    moved = replay(events, ("new", *order))
    for key in order:
        slot = table.slots_of([key])[0]
        place = KeyTable(("new", *order)).slots_of([key])[0]
        assert moved.given[place] == state.given[slot]
    assert moved.given[0] == -1


def test_ids_are_never_used_again():
    state, _ = live([Label({"ant": ["a"]}), Undo(), Label({"bee": ["a"]}), DeleteClass("bee")])
    state, _ = apply(state, Event(5, 0.0, "add_class", {"classes": [("cat", [])]}), KeyTable(KEYS).slots_of)
    assert [known.id for known in state.classes] == [2]


def test_a_state_is_never_changed():
    state, events = live([Label({"ant": ["a", "b"]})])
    before = content(state)
    apply(state, replace(events[0], version=2, payload={"labels": {"bee": ["a"]}}), KeyTable(KEYS).slots_of)
    assert content(state) == before
    with pytest.raises(ValueError, match="read-only"):
        state.given[0] = 3


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="Event 1 is of the kind 'dance', which this version does not know"):
        apply(State.empty(1), Event(1, 0.0, "dance", {}), KeyTable("a").slots_of)


def test_merging_keeps_what_was_only_accepted_apart():
    state, _ = live([Label({"ant": ["a"]}), Accept({"bee": ["b"]}), Merge("bee", "ant")])
    assert state.given[:2].tolist() == [0, 0]
    np.testing.assert_array_equal(state.checked[:2], [True, False])
