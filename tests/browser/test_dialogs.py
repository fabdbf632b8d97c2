"""Dialogs: no key reaches what is behind one, Escape closes it, and the keyboard goes back to where it was."""

import string

from browsing import embeddings, expect

NAMED = ("Delete", "Backspace", "Home", "End", "PageUp", "PageDown", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight")
WITH_CONTROL = ("Control+a", "Control+z", "Control+y", "Control+Shift+Z")
KEYS = (*string.ascii_lowercase, *string.digits, *"/?.+-[]", *NAMED, *WITH_CONTROL)


def open_help(tab):
    tab.press("?")


def open_names(tab):
    tab.locator("#steps").get_by_role("button", name="Name classes").click()


def open_class(tab):
    tab.get_by_role("button", name="Change ash").click()


def open_accept(tab):
    tab.get_by_role("button", name="Accept …").click()


def open_export(tab):
    tab.locator("#export").click()


def open_export_and_write(tab):
    open_export(tab)
    tab.get_by_role("button", name="Write").click()
    expect(tab.locator(".outcome .done")).to_contain_text("Written to")


def open_question_about_many(tab):
    tab.locator("#grid").focus()
    tab.press("Control+a", "1")


def open_question_about_a_name(tab):
    tab.press("l")
    tab.type("birhc")
    tab.press("Enter")


def open_picture(tab):
    tab.press("+")


OPENERS = [
    open_help,
    open_names,
    open_class,
    open_accept,
    open_export,
    open_export_and_write,
    open_question_about_many,
    open_question_about_a_name,
    open_picture,
]


def situation(tab):
    """All that a key could change behind a dialog."""
    version = tab.evaluate("async () => (await (await fetch('api/project')).json()).version")
    return (
        version,
        tab.locator("#selected").text_content(),
        tab.locator("#views [aria-selected=true]").all_inner_texts(),
    )


def test_no_key_reaches_what_is_behind(studio, page, own_digits):
    folder, _ = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        for place, name in enumerate(("ash", "birch")):
            tab.item(place).click()
            tab.label_as(name)
        tab.wait_for_counts(lambda counts: sum(counts.values()) == 200)
        for opener in OPENERS:
            for focused in (True, False):
                tab.item(5).click()
                opener(tab)
                dialog = tab.locator("dialog[open]")
                expect(dialog).to_have_count(1)
                before = situation(tab)
                if not focused:
                    tab.evaluate("document.activeElement.blur()")
                for key in KEYS:
                    tab.press(key)
                expect(dialog).to_have_count(1)
                assert situation(tab) == before, opener
                tab.press("Escape")
                expect(dialog).to_have_count(0)
                assert tab.evaluate("document.activeElement !== document.body"), opener
                assert situation(tab) == before, opener


def test_the_focus_stays_inside_and_goes_back(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running:
        tab = page(running.address)
        for place, name in enumerate(("ash", "birch")):
            tab.item(place).click()
            tab.label_as(name)
        tab.locator("#export").focus()
        tab.press("Enter")
        tab.get_by_role("button", name="Write").click()
        expect(tab.locator(".outcome .done")).to_be_visible()
        assert tab.evaluate("document.activeElement.closest('dialog') !== null")
        for _ in range(12):
            tab.press("Tab")
            assert tab.evaluate("document.activeElement.closest('dialog, body').tagName") in ("DIALOG", "BODY")
        tab.press("Escape")
        expect(tab.locator("#export")).to_be_focused()


def test_many_items_are_asked_about_once_and_few_are_not(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 300)) as running:
        tab = page(running.address)
        for item, name in (("row 3", "ash"), ("row 4", "birch")):  # by name: the first answers sort the page
            tab.item_called(item).click()
            tab.label_as(name)
        tab.locator("#grid").focus()
        tab.press("Control+a", "n")
        question = tab.get_by_role("dialog", name="Mark 300 items as none of the classes?")
        expect(question).to_contain_text("It replaces 2 labels that you gave.")
        question.get_by_role("button", name="Cancel").click()
        assert tab.counts()["None of these"] == 0
        tab.press("Control+a", "n", "Enter")
        tab.wait_for_counts(lambda counts: counts["None of these"] == 300)
        tab.press("u")
        tab.wait_for_counts(lambda counts: counts["None of these"] == 0)
        tab.item(3).click()
        tab.item(9).click(modifiers=["Shift"])
        tab.press("1")
        tab.says("Labelled 7 items “ash”.")


def test_a_name_one_typing_error_away_is_asked_about(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running:
        tab = page(running.address)
        tab.item(0).click()
        tab.label_as("tractor")
        tab.press("l")
        tab.type("tractr")
        tab.press("Enter")
        question = tab.get_by_role("dialog", name="Did you mean tractor?")
        question.get_by_role("button", name="Use tractor").click()
        tab.wait_for_counts(lambda counts: counts["tractor"] == 2)
        tab.get_by_role("textbox", name="Find or add a class").fill("tracotr")
        tab.press("Enter")
        question.get_by_role("button", name="New class tracotr").click()
        tab.wait_for_counts(lambda counts: "tracotr" in counts)
        tab.get_by_role("button", name="Name classes").click()
        tab.type("combine, tracter")
        tab.get_by_role("button", name="Add them").click()
        question.get_by_role("button", name="Use tractor").click()
        tab.wait_for_counts(lambda counts: "combine" in counts)
        assert "tracter" not in tab.counts()
        for name in ("type A", "type B", "lot 1", "lot 2"):  # one letter or number apart on purpose
            tab.get_by_role("textbox", name="Find or add a class").fill(name)
            tab.press("Enter")
            tab.wait_for_counts(lambda counts, name=name: name in counts)


def test_no_class_is_called_none_of_these(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running:
        tab = page(running.address)
        tab.item(0).click()
        tab.press("l")
        tab.type("None of these")
        tab.press("Enter")
        tab.wait_for_counts(lambda counts: counts == {"None of these": 1})
        tab.get_by_role("textbox", name="Find or add a class").fill("none of  THESE")
        tab.press("Enter")
        tab.says("A class cannot be called")
        tab.faults.clear()  # the browser reported that the server refused
