from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from marginshot.classifier.refit import Refitter
from marginshot.labelling import Session, label_embeddings, label_table
from marginshot.labelling.items.collection import UNKNOWN
from marginshot.labelling.items.embed import embed_batches, silent
from marginshot.labelling.items.kinds import PICTURE
from marginshot.labelling.items.tables import embedding_rows, read_table, write_table
from marginshot.labelling.session.checks import picked_rows
from marginshot.labelling.session.encoding import Encoding
from marginshot.labelling.session.events import EventLog, _choose_journal


@pytest.fixture
def clusters() -> tuple[np.ndarray, np.ndarray]:
    """90 rows in 3 clusters; the cluster of each."""
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    return rng.normal(0, 0.3, (90, 8)) + 2 * np.eye(8)[truth], truth


@pytest.fixture
def session(clusters) -> Session:
    opened = Session.from_embeddings(clusters[0])
    opened.label({0: "a", 1: "b", 2: "c"})
    return opened


def test_the_name_of_before_still_answers_with_a_warning(session):
    session.label({0: "ash", 1: "oak"})
    with pytest.warns(FutureWarning, match=r"Session\.answers is called Session\.solve\(\) since version 0\.3"):
        answers = session.answers
    assert answers is session.solve()


def test_answers_follow_what_is_said(session, clusters):
    answers = session.solve()
    assert answers.classes == ("a", "b", "c")
    assert answers.labels == ["abc"[code] for code in clusters[1]]
    assert answers.version == session.state.version == 1
    assert answers.confidence[:3].tolist() == [1, 1, 1]
    np.testing.assert_allclose(answers.probabilities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(answers.shares[:, 1].sum(), 1, rtol=1e-5)
    assert set(answers.runners_up) <= {"a", "b", "c"}
    assert session.solve() is answers
    session.label([3, 6], "b")
    assert {3, 6} <= set(np.flatnonzero(session.solve().codes != answers.codes).tolist())


def test_nothing_is_answered_before_two_classes_have_an_example(clusters):
    session = Session.from_embeddings(clusters[0])
    assert (session.solve().codes == -1).all()
    session.label(["row 1"], "a")
    session.add_class("b")
    assert session.solve().labels == ["a", *[""] * 89]
    assert len(session.next(7)) == 7
    assert session.expected_accuracy() is None
    with pytest.raises(ValueError, match="label examples of at least two classes"):
        session.labelling()
    with pytest.raises(ValueError, match=r"'row 2' has no answer to confirm yet"):
        session.confirm([1])


def test_classes_keep_their_order_of_creation(clusters):
    session = Session.from_embeddings(clusters[0])
    session.label({2: "zebra", 0: "ant", 1: "newt"})
    assert session.solve().classes == ("zebra", "ant", "newt")
    assert session.solve().labels[:3] == ["ant", "newt", "zebra"]


def test_none_of_these_has_no_answer(session):
    session.none_of_these([10])
    answers = session.solve()
    assert answers.codes[10] == -1
    assert answers.foreign[10]
    assert answers.labels[10] == ""
    labelling = session.labelling()
    assert labelling.labels[10] == ""
    assert "" not in labelling.labels[:10]


def test_acts_on_answers(session, clusters):
    n_sure, n_wrong = session.preview_accept(0.5)
    assert n_sure > 60
    assert 0 <= n_wrong < n_sure / 2
    session.confirm([4])
    session.accept(0.5)
    assert session.state.can_undo.startswith(f"accept {n_sure - 1} items ")
    assert session.state.checked.sum() == 4
    assert (session.state.given >= 0).sum() >= n_sure
    # What was accepted in bulk is no example, so it is no surer than before.
    assert session.solve().confidence.mean() < 1
    labelling = session.labelling()
    accepted = np.flatnonzero((session.state.given >= 0) & ~session.state.checked)
    assert {labelling.reviews[row] for row in accepted} <= {"accepted", "check"}
    assert labelling.answers.confidence[accepted].mean() < 1
    assert [labelling.labels[row] for row in accepted] == [session.solve().labels[row] for row in accepted]
    session.undo()
    assert session.state.given[4] == clusters[1][4]
    with pytest.raises(ValueError, match="lies between 0 and 1; got 95"):
        session.accept(95)
    session.accept(0.01)
    with pytest.raises(ValueError, match=r"No unlabelled item has an answer of probability 0\.01 or more"):
        session.accept(0.01)


def test_worklist_reaches_its_target(session):
    now = session.expected_accuracy()
    assert now.low <= now.value <= now.high
    target = 1 - (1 - now.value) / 2
    worklist = session.worklist(target)
    assert worklist.expected[-1] >= target > now.value
    assert (np.diff(worklist.expected) >= 0).all()
    assert not session.state.checked[worklist.rows].any()
    assert not len(session.worklist(now.value / 2).rows)
    assert session.worklist(1.0).expected[-1] == pytest.approx(1.0)


def test_audit_stays_until_it_is_finished(tmp_path, clusters):
    X, truth = clusters
    with Session.from_embeddings(X, log=tmp_path / "log.sqlite") as session:
        session.label({0: "a", 1: "b", 2: "c"})
        rows = session.audit(10)
        assert len(set(rows.tolist())) == 10
        assert session.audit_result() is None
    with Session.from_embeddings(X, log=tmp_path / "log.sqlite") as session:
        assert session.audit(10).tolist() == rows.tolist()
        session.none_of_these(rows[:1])
        session.label({int(row): "abc"[truth[row]] for row in rows[1:]})
        found = session.audit_result()
        # 13 of 90 are checked, nine of ten drawn were right: 1 - 77/90 * 1/10.
        assert found.value == pytest.approx(1 - 77 / 900)
        assert found.low < found.value < found.high
        session.merge("c", "b")
        assert session.audit_result().value == pytest.approx(found.value)
        assert set(session.audit(10).tolist()).isdisjoint(rows.tolist())


def test_an_audit_whose_items_are_gone_makes_room_for_the_next(tmp_path, clusters):
    X, items = clusters[0], [f"item {i}" for i in range(90)]
    with Session.from_embeddings(X, items=items, log=tmp_path / "log.sqlite") as session:
        session.label({0: "a", 1: "b", 2: "c"})
        drawn = set(session.audit(10).tolist())
    left = [i for i in range(90) if i not in drawn]
    with Session.from_embeddings(X[left], items=[items[i] for i in left], log=tmp_path / "log.sqlite") as session:
        assert session.audit_result() is None
        assert len(session.audit(5)) == 5


def test_items_with_one_name_never_share_a_key(clusters):
    keys = embedding_rows(clusters[0][:4], None, ["a", "a", "a #2", "a"]).keys
    assert keys == ("a", "a #3", "a #2", "a #4")


def test_labels_follow_embeddings_when_rows_of_a_file_move(tmp_path, clusters):
    X = clusters[0].astype(np.float32)
    for names in ({}, {"items": np.array([f"id {i}" for i in range(90)])}):
        path = tmp_path / f"{len(names)}.npz"
        np.savez(path, X=X, **names)
        with Session.open(path) as session:
            session.label({0: "a", 4: "b", 5: "c"})
        np.savez(path, X=X[:0:-1], **{key: held[:0:-1] for key, held in names.items()})
        with Session.open(path) as session:
            said = {row: session.solve().labels[row] for row in np.flatnonzero(session.state.given >= 0)}
            assert said == {85: "b", 84: "c"}
            assert len(session.missing) == 1


def test_a_database_of_another_program_is_left_as_it_is(tmp_path, clusters):
    path = tmp_path / "photos.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE events (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a database of another program"):
        Session.from_embeddings(clusters[0], log=path)
    assert path.read_bytes() == before


def test_what_is_no_name_and_no_description_is_refused_before_it_is_logged(session):
    for call, message in (
        (lambda: session.add_class("q", [5]), "A class is described in words; got 5"),
        (lambda: session.add_class(5), "The name of a class is a string; got 5"),
        (lambda: session.rename("a", None), "The name of a class is a string; got None"),
        (lambda: session.rename("a", "a"), "The class is called 'a' already"),
        (lambda: session.label([3], "nan"), "cannot be called 'nan', which stands for no label"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    session.add_class("q", "one description")
    assert session.state.find_class("q").description == ("one description",)


def test_nearest_examples_groups_map_and_curve(session, clusters):
    nearest = session.nearest_examples("row 4", 2)
    assert nearest[0][:2] == (0, "a")
    assert nearest[0][2] > nearest[1][2]
    assert session.map().shape == (90, 2)
    assert session.map() is session.map()
    session.none_of_these(range(5, 90, 3))
    groups = session.groups_of_none()
    assert set(np.concatenate([group.rows for group in groups]).tolist()) <= set(range(90))
    assert set(groups[0].typical.tolist()) <= set(groups[0].rows.tolist())
    assert session.curve[-1][0] == 32


def test_many_rows_are_answered_from_the_last_answers_and_settled_by_a_complete_fit():
    rng = np.random.default_rng(0)
    truth = np.arange(1500) % 5
    X = (rng.normal(0, 1, (5, 20))[truth] + rng.normal(0, 0.9, (1500, 20))).astype(np.float32)
    names = np.array(["ant", "bee", "cat", "dog", "elk"], dtype=object)
    with Session.from_embeddings(X) as session:
        session.label({row: str(names[truth[row]]) for row in range(40)})
        first = session.solve()
        session.label({40: str(names[truth[40]])})
        warm = session.solve()
        assert np.mean(warm.codes == first.codes) > 0.99
        assert session._answering.latest.drift == pytest.approx(1 / 40)
        assert session._answering._completing is None
        session.label({row: str(names[truth[row]]) for row in range(41, 50)})
        assert session.solve().version == 3
        session._answering._completing.join()
        settled = session.latest
        assert session._answering.latest.drift == 0
        assert session.solve(complete=True) is settled
        given = [*names[truth[:50]].tolist(), *[""] * 1450]
        fresh = label_embeddings(X, given)
        assert tuple(settled.labels) == fresh.labels
        np.testing.assert_allclose(settled.probabilities, fresh.answers.probabilities, atol=1e-5)
        assert session.labelling().labels == fresh.labels


@pytest.mark.usefixtures("encoded")
def test_texts_are_answered_from_the_names_of_classes_alone(tmp_path):
    texts = ["late train", "late bus train", "sweet cake", "sweet cake pie", "train", "cake"]
    write_table({"body": texts}, tmp_path / "t.csv")
    with Session.open(tmp_path / "t.csv", text="body", classes=["train", "cake"]) as session:
        assert session.solve().labels == ["train", "train", "cake", "cake", "train", "cake"]
        assert len(session.next(3)) == 3
        assert session.labelling().labels == tuple(session.solve().labels)
        session.rename("train", "travel")
        session.add_class("c17")
        assert session.solve().classes == ("travel", "cake")


@pytest.mark.usefixtures("encoded")
@pytest.mark.parametrize("complete", [False, True])
def test_names_are_beliefs_of_a_session_as_of_a_run(tmp_path, monkeypatch, complete):
    believed, fit = [], Refitter._fit

    def recorded(self, y, of_rows, last):
        believed.append(of_rows["class_prior"])
        return fit(self, y, of_rows, last)

    monkeypatch.setattr(Refitter, "_fit", recorded)
    texts = ["late train", "late bus train", "sweet cake", "sweet cake pie", "late bus", "sweet pie"]
    write_table({"body": texts}, tmp_path / "t.csv")
    with Session.open(tmp_path / "t.csv", text="body", classes=["train", "cake"]) as session:
        session.solve(complete=complete)
        session.label({0: "train", 1: "train", 2: "cake", 3: "cake"})
        answers = session.solve(complete=complete)
    write_table({"body": texts, "label": ["train", "train", "cake", "cake", "", ""]}, tmp_path / "r.csv")
    assert label_table(tmp_path / "r.csv", text="body", label="label").labels == tuple(answers.labels)
    assert believed[0] is None  # names alone are rows alone
    assert believed[1].argmax(axis=1)[:4].tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(believed[1][:6], believed[-1][:6, ::-1])  # a run sorts its classes


def correction_of(session):
    session.solve()
    return session._answering.latest.correction


def test_the_first_label_of_a_class_is_no_error_of_the_answers(session, clusters):
    session.solve()
    session.label([10, 11], "a new class")
    session.label([12], "b")
    assert correction_of(session)(np.array([0.9]))[0] > 0.85


def test_checked_answers_correct_what_is_promised(session, clusters):
    promised = session.expected_accuracy().value
    session.next(90)  # all items are proposed
    session.label({row: "abc"[(clusters[1][row] + 1) % 3] for row in range(10, 40)})
    assert correction_of(session)(np.array([0.9]))[0] < 0.6
    corrected = session.expected_accuracy()
    _, n_wrong = session.preview_accept(0.5)
    assert n_wrong > (1.0 - session.solve().confidence)[session.solve().confidence < 1].sum()
    session.undo()
    assert session.expected_accuracy().value == pytest.approx(promised, abs=1e-6)
    session.redo()
    assert session.expected_accuracy() == corrected
    session.label({10: "abc"[clusters[1][10]]})  # a label that was wrong, not the answer
    assert session.expected_accuracy().value > corrected.value


def test_corrections_that_a_person_picked_are_no_check(session, clusters):
    """Issue 32: who corrects what is wrong, and says nothing of what is right, is promised no less for it."""
    session.solve()
    session.label({row: "abc"[(clusters[1][row] + 1) % 3] for row in range(10, 20)})
    assert correction_of(session)(np.array([0.9]))[0] == pytest.approx(0.9)
    assert picked_rows(session.state).nonzero()[0].tolist() == list(range(10, 20))
    session.undo()
    assert not picked_rows(session.state).any()


def test_a_label_that_looks_wrong_and_is_given_again_is_not_asked_about_any_more(session, clusters):
    truth = clusters[1]
    session.label({row: "abc"[truth[row]] for row in range(3, 24)})
    wrong = "abc"[(truth[40] + 1) % 3]
    session.solve(complete=True)
    session.label([40], wrong)
    assert [doubt.row for doubt in session.solve(complete=True).doubts] == [40]
    session.label([40], wrong)
    assert session.solve(complete=True).doubts == ()
    session.label([40], "abc"[(truth[40] + 2) % 3])
    assert [doubt.row for doubt in session.solve(complete=True).doubts] == [40]


def test_what_looked_like_none_of_the_classes_was_no_answer_to_check():
    """Who says the class of an item that was thought to be foreign has not found the answer below right."""
    rng = np.random.default_rng(0)
    centres = 4.0 * np.eye(8)
    X = centres[np.repeat(np.arange(4), 40)] + 0.5 * rng.standard_normal((160, 8))
    with Session.from_embeddings(X) as session:
        session.label({40 * c + i: "abc"[c] for c in range(3) for i in range(5)})
        row = int(np.flatnonzero(session.solve().foreign)[0])
        answer = session.solve().labels[row]
        assert answer
        session.label([row], answer)
        session.label({40 * c + 20: "abc"[(c + 1) % 3] for c in range(3)})
        assert session.state.seen["answer"][row] == UNKNOWN
        assert picked_rows(session.state).nonzero()[0].tolist() == [20, 60, 100]


def test_promises_and_their_curve_survive_a_restart_and_follow_undo(tmp_path, clusters):
    X, truth = clusters
    with Session.from_embeddings(X, log=tmp_path / "log.sqlite") as session:
        session.label({0: "a", 1: "b", 2: "c"})
        promised = [session.expected_accuracy()]
        for rows in (range(10, 14), range(20, 30)):
            session.label({row: "abc"[(truth[row] + (row == 12)) % 3] for row in rows})
            promised.append(session.expected_accuracy())
        points = [(n, found.value) for n, found in zip((3, 7, 17), promised, strict=True)]
        assert session.curve == points
        worklist = session.worklist(0.999)
    with Session.from_embeddings(X, log=tmp_path / "log.sqlite") as session:
        assert session.curve == points[:-1]
        assert session.expected_accuracy() == promised[-1]
        assert session.worklist(0.999).rows.tolist() == worklist.rows.tolist()
        assert session.curve == points
        session.undo()
        assert session.curve == points[:1]
        assert session.expected_accuracy() == promised[1]
        assert session.curve == points[:2]


def test_the_table_asks_to_check_what_the_session_asks_to_check():
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 3
    X = (rng.normal(0, 1, (3, 10))[truth] + rng.normal(0, 1.6, (300, 10))).astype(np.float32)
    with Session.from_embeddings(X) as session:
        session.label({row: "abc"[truth[row]] for row in range(6)})
        session.solve()
        session.label({row: "abc"[truth[row]] for row in range(20, 30)})
        session.none_of_these([7])
        session.accept(0.9)
        labelling = session.labelling()
        assert labelling.expected_accuracy() == session.expected_accuracy()
        assert labelling.worklist().rows.tolist() == session.worklist().rows.tolist()
        asked = [row for row, review in enumerate(labelling.reviews) if review == "check"]
        assert asked == sorted(session.worklist().rows.tolist())
        assert asked
        assert labelling.model.label(X).classes == ("a", "b", "c")


def test_history_tells_undo_too(session):
    session.label([5], "a")
    session.undo()
    session.rename("c", "sea")
    assert [entry.words for entry in session.history(5)] == ['label 1 item "a"', 'undo: label 1 item "a"']
    assert session.history(5)[1].version == 3
    assert session.history(7) == []


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda s: s.label({"row 999": "a"}), "no item 'row 999'; items have names such as 'row 1'"),
        (lambda s: s.label({90: "a"}), "Rows count from 0 to 89; got 90"),
        (lambda s: s.label({-1: "a"}), "Rows count from 0 to 89; got -1"),
        (lambda s: s.label({True: "a"}), "by its name or its row number; got True"),
        (lambda s: s.label("row 1", "a"), "Give a list of items; got 'row 1'"),
        (lambda s: s.label([1]), "Give the class of the items"),
        (lambda s: s.label({1: "a"}, "b"), "either a mapping"),
        (lambda s: s.label({}), "No items were given"),
        (lambda s: s.clear([]), "No items were given"),
        (lambda s: s.label({1: 7}), "name of a class is text; got 7 for 'row 2'"),
        (lambda s: s.label({1: "  "}), "A class needs a name"),
        (lambda s: s.label({1: "A"}), "differ only in case"),
        (lambda s: s.label({1: "x\u202ey"}), "control characters"),
        (lambda s: s.label({1: "-1"}), "cannot be called '-1'"),
        (lambda s: s.label({1: "x" * 2000}), "is not the name of a class"),
        (lambda s: s.add_class("a"), "There is a class 'a' already"),
        (lambda s: s.rename("a", "b"), "merge 'a' into it instead"),
        (lambda s: s.rename("q", "b"), "no class 'q'; the classes are 'a', 'b', 'c'"),
        (lambda s: s.merge("a", "a"), "cannot be merged into itself"),
        (lambda s: s.delete_class("q"), "no class 'q'"),
        (lambda s: s.redo(), "nothing to redo"),
        (lambda s: s.worklist(2), "between 0 and 1; got 2"),
        (lambda s: s.audit(0), "at least one item; got 0"),
    ],
)
def test_errors_change_nothing(session, act, message):
    before = session.state
    with pytest.raises(ValueError, match=message):
        act(session)
    assert session.state is before


def test_renaming_to_another_case_of_itself(session):
    session.rename("a", "A")
    assert [known.name for known in session.state.classes] == ["A", "b", "c"]


def test_repeated_names_are_told_by_row():
    session = Session.from_embeddings(np.eye(3), items=["x", "x", "y"])
    with pytest.raises(ValueError, match="2 items are called 'x'; give their row numbers, such as 0"):
        session.label({"x": "a"})
    session.label({1: "a"})
    assert session.state.given.tolist() == [-1, 0, -1]


def test_threads_act_while_another_solves(session):
    errors: list[BaseException] = []

    def act(first: int) -> None:
        try:
            for row in range(first, 90, 4):
                session.label([row], f"class {row % 3}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=act, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert session.solve().version <= session.state.version
    assert not errors
    assert session.state.version == 91
    assert session.solve().version == 91
    assert (session.state.given >= 0).all()


def test_undo_and_redo_survive_a_restart(tmp_path, clusters):
    log = tmp_path / "log.sqlite"
    with Session.from_embeddings(clusters[0], log=log) as session:
        session.label([0, 3], "a")
        session.label([1], "b")
        session.undo()
    with Session.from_embeddings(clusters[0], log=log) as session:
        assert session.state.can_redo == 'label 1 item "b"'
        session.redo()
        assert session.state.given[[0, 1, 3]].tolist() == [0, 1, 0]
        session.undo()
        session.undo()
        assert (session.state.given == -1).all()
        assert session.state.version == 6
        assert session.save() == str(log)
    with pytest.raises(ValueError, match="The session is closed; open it again"):
        session.label([0], "a")


def test_two_processes_hear_each_other(tmp_path, clusters):
    first = Session.from_embeddings(clusters[0], log=tmp_path / "log.sqlite")
    second = Session.from_embeddings(clusters[0], log=tmp_path / "log.sqlite")
    first.label({0: "a"})
    assert second.label({1: "b"}) == 2
    assert second.state.given[:2].tolist() == [0, 1]
    assert first.solve().labels[:3] == second.solve().labels[:3]
    first.undo()
    assert second.refresh().given[:2].tolist() == [0, -1]


def test_a_newer_or_damaged_log_is_refused(tmp_path):
    path = tmp_path / "log.sqlite"
    Session.from_embeddings(np.eye(3), log=path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ValueError, match=r"newer marginshot \(format 99, this one reads 3\)"):
        Session.from_embeddings(np.eye(3), log=path)
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(ValueError, match=r"cannot be read .* Move it away"):
        Session.from_embeddings(np.eye(3), log=path)


@pytest.mark.usefixtures("encoded")
def test_a_folder_is_opened_and_opened_again(workplace, own_sessions, draw_picture):
    with Session.open("photos") as session:
        assert session.kind == PICTURE
        assert session.n_items == 24
        assert session.ready.all()
        assert session.encoding.phase == ""
        # The only sub-folder tells no class.
        assert session.state.version == 0
        session.label({"red-2.png": "red", "blue-2.png": "blue", "trip/day one/green-3.png": "green"})
        answers = dict(zip(session.items, session.solve().labels, strict=True))
    assert all(label == Path(item).name.partition("-")[0] for item, label in answers.items())
    (log,) = own_sessions.glob("*.sqlite")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(own_sessions.stat().st_mode) == 0o700
    (workplace / "photos" / "red-2.png").unlink()
    draw_picture(workplace / "photos" / "aaa.png", "red", 7)
    with Session.open(workplace / "photos") as session:
        assert session.missing == ("red-2.png",)
        assert session.n_items == 24
        named = {session.items[row]: code for row, code in enumerate(session.state.given) if code >= 0}
        assert named == {"blue-2.png": 1, "trip/day one/green-3.png": 2}
        assert session.label({"aaa.png": "red"}) == 2


@pytest.mark.usefixtures("encoded")
def test_labels_in_the_source_are_the_first_thing_said(workplace, tmp_path):
    write_table(
        {"body": ["late train", "late bus", "sweet cake", "sweet pie"], "label": ["go", "", "eat", ""]},
        tmp_path / "t.csv",
    )
    with Session.open(tmp_path / "t.csv", text="body", classes=["sleep"]) as session:
        assert session.state.version == 2
        assert session.solve().labels == ["go", "go", "eat", "eat"]
        assert [known.name for known in session.state.classes] == ["go", "eat", "sleep"]
        session.undo()
        session.undo()
    with Session.open(tmp_path / "t.csv", text="body") as session:
        assert session.state.classes == ()
        session.redo()
        written = session.labelling().write(tmp_path / "out.csv", gallery=False)
    assert written.files[0] == tmp_path / "out.csv"
    assert read_table(tmp_path / "out.csv").column("label") == ["go", "go", "eat", "eat"]
    with Session.open("photos", examples="examples") as session:
        assert session.state.can_undo == 'take 6 items of the source as examples: "blue", "green", "red"'


@pytest.mark.usefixtures("encoded")
def test_texts_are_known_by_what_they_say(tmp_path):
    table = tmp_path / "t.csv"
    write_table({"body": ["a b", "c d", "c d", "e f"]}, table)
    with Session.open(table, text="body") as session:
        session.label({0: "first", 2: "second copy"})
    write_table({"body": ["new", "c d", "e f", "c d"]}, table)
    with Session.open(table, text="body") as session:
        assert session.state.given.tolist() == [-1, -1, -1, 1]
        assert session.missing == ("a b",)


def test_encoding_goes_on_behind(workplace, encoded, monkeypatch):
    hold = threading.Event()

    def slowly(*args):
        for number, batch in enumerate(embed_batches(*args)):
            yield batch
            if number == 1:
                hold.wait(10)

    monkeypatch.setattr("marginshot.labelling.items.embed.BATCH_SIZE", 8)
    monkeypatch.setattr("marginshot.labelling.session.encoding.embed_batches", slowly)
    (workplace / "photos" / "broken.png").write_bytes(b"no picture")
    with Session.open("photos", background=True) as session:
        assert session.label({"red-2.png": "red", "blue-2.png": "blue"}) == 1
        assert session.next(3).shape[0] <= 3
        hold.set()
        session._encoding.wait()
        assert session.encoding.phase == ""
        assert session.ready.sum() == 24
        assert list(session.problems) == ["broken.png"]
        assert session.solve().labels[session.items.index("broken.png")] == ""
        assert "" not in [label for label, ready in zip(session.solve().labels, session.ready, strict=True) if ready]


def test_an_encoder_that_fails_behind_is_told(workplace, encoded, monkeypatch):
    def fail(self):
        raise ValueError("The model could not be loaded.")

    monkeypatch.setattr("marginshot.labelling.items.encoders.PictureEncoder.load", fail)
    with Session.open("photos", background=True) as session:
        session._encoding.wait()
        assert session.encoding.phase == ""
        with pytest.raises(ValueError, match="The model could not be loaded"):
            session.solve()


def test_the_time_left_is_that_of_what_is_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    encoding = Encoding(embedding_rows(np.zeros((4, 2), dtype=np.float32), None, None), None, None, silent, dict)
    encoding._tell("encoding", 32, 128)  # the first batch is there when it is told
    assert encoding.progress.seconds_left is None
    now[0] += 10.0
    encoding._tell("encoding", 64, 128)
    assert encoding.progress.seconds_left == 20.0


def test_answers_while_nothing_or_little_is_embedded(tmp_path, encoded, monkeypatch):
    hold = threading.Event()

    def slowly(*args):
        for number, batch in enumerate(embed_batches(*args)):
            if number == 1:
                hold.wait(10)
            yield batch

    monkeypatch.setattr("marginshot.labelling.items.embed.BATCH_SIZE", 1)
    monkeypatch.setattr("marginshot.labelling.session.encoding.embed_batches", slowly)
    write_table({"body": ["late train", "late bus", "sweet cake"]}, tmp_path / "t.csv")
    with Session.open(tmp_path / "t.csv", text="body", classes=["train", "cake"], background=True) as session:
        assert session.solve().labels == ["", "", ""]
        assert len(session.next()) == 0
        assert np.isnan(session.map()).all()
        hold.set()
        session._encoding.wait()
        assert session.solve().labels[0] == "train"


def test_a_folder_that_is_not_utf8_has_a_session(tmp_path, draw_picture, encoded):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        for seed in range(4):
            draw_picture(folder / f"{seed}.png", "red", seed)
    except OSError:
        pytest.skip("the file system takes UTF-8 alone")
    with Session.open(folder) as session:
        session.label({"1.png": "a"})
    with Session.open(folder) as session:
        assert session.state.version == 1


def test_a_log_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(
        ValueError, match=r"log .* cannot be written \(.*\). Choose another folder with MARGINSHOT_SESSIONS"
    ):
        Session.from_embeddings(np.eye(3), log=tmp_path / "file" / "log.sqlite")


@pytest.mark.parametrize("wal", ["delete", sqlite3.OperationalError("locking protocol")])
def test_a_truncated_journal_where_a_write_ahead_log_cannot_work(wal):
    asked = []

    class Connection:
        def execute(self, statement):
            asked.append(statement)
            if isinstance(wal, Exception) and "WAL" in statement:
                wal.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
                raise wal
            return self

        def fetchone(self):
            return (wal,)

    _choose_journal(Connection())
    assert asked == ["PRAGMA journal_mode = WAL", "PRAGMA journal_mode = TRUNCATE"]


def test_the_log_is_flushed_to_the_disk(tmp_path):
    log = EventLog(tmp_path / "log.sqlite")
    assert log._connection.execute("PRAGMA synchronous").fetchone()[0] == 2
    assert log._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    log.close()
