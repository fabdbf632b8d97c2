"""From a folder of pictures and no class to class folders, by mouse and by keyboard alone."""

import pytest
from browsing import expect

NAMES = ("zero", "one", "two", "three")


def first_of(truth, digit, skip=0):
    """Name of a picture of that digit."""
    return [name for name, target in truth.items() if target == digit][skip]


def right_share(folder, truth):
    """Share of the pictures that lie in the folder of their class."""
    placed = {path.name: path.parent.name for path in folder.rglob("*.png")}
    assert set(placed) == set(truth)
    return sum(placed[name] == NAMES[digit] for name, digit in truth.items()) / len(truth)


def test_by_mouse(studio, page, own_digits, tmp_path):
    folder, truth = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        for digit, name in enumerate(NAMES):
            tab.item_called(first_of(truth, digit)).click()
            tab.get_by_role("combobox", name="Label the selection as").fill(name)
            tab.get_by_role("option", name=f"New class {name}").click()
            tab.says(name)
        tab.item_called(first_of(truth, 2, skip=1)).click()
        tab.get_by_role("button", name="Label the selection two").click()
        tab.says("two")
        tab.wait_for_counts(lambda counts: sum(counts.values()) == len(truth))

        tab.get_by_role("button", name="Accept …").click()
        tab.get_by_role("slider", name="At least").fill("50")
        sentence = tab.locator("dialog .large-words")
        expect(sentence).to_contain_text("Accept all at 50 % and above")
        expect(sentence).to_contain_text("wrong")
        tab.get_by_role("button", name="Accept", exact=True).click()
        tab.says("ccept")

        tab.get_by_role("button", name="Export …").click()
        tab.get_by_role("combobox", name="What").select_option("folders")
        tab.get_by_role("textbox", name="Where").fill(str(tmp_path / "sorted"))
        tab.get_by_role("button", name="Look first").click()
        expect(tab.locator(".plan tr").first).to_be_visible()
        assert not (tmp_path / "sorted").exists()
        expect(tab.locator(".command code")).to_contain_text("--export folders")
        tab.get_by_role("button", name="Write").click()
        expect(tab.locator(".outcome .done")).to_be_visible()
    assert right_share(tmp_path / "sorted", truth) > 0.9
    assert len(list(folder.glob("*.png"))) == len(truth)  # copied, not moved


def tab_to(tab, name):
    """Press Tab until the element with that accessible name has the keyboard."""
    for _ in range(80):
        tab.press("Tab")
        found = tab.evaluate("(document.activeElement.ariaLabel || document.activeElement.textContent).trim()")
        if found.startswith(name):
            return
    pytest.fail(f"Tab never reaches {name!r}")


def test_by_keyboard_alone(studio, page, own_digits, tmp_path):
    folder, truth = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        tab.press("ArrowRight")
        for place, (name, digit) in enumerate(list(truth.items())[:8]):
            expect(tab.locator(f".cell.cursor[aria-label^='{name}, ']")).to_be_visible()
            if place < 4:
                tab.label_as(NAMES[digit])  # the pictures begin 0, 1, 2, 3; each act goes on to the next
            else:
                tab.press(str(digit + 1))
        tab.wait_for_counts(lambda counts: sum(counts.values()) == len(truth))
        tab.press("n")
        tab.wait_for_counts(lambda counts: counts["None of these"] == 1)
        tab.press("u")
        tab.wait_for_counts(lambda counts: counts["None of these"] == 0)

        tab_to(tab, "Export …")
        tab.press("Enter")
        expect(tab.get_by_role("dialog")).to_be_visible()
        tab_to(tab, "What")
        tab.type("Class")  # a list goes to the entry that begins so
        tab_to(tab, "Where")
        tab.press("Control+a")
        tab.type(str(tmp_path / "sorted"))
        tab.press("Enter")
        expect(tab.locator(".outcome .done")).to_be_visible()
        tab.press("Escape")
        expect(tab.get_by_role("dialog")).to_be_hidden()
    assert right_share(tmp_path / "sorted", truth) > 0.9
