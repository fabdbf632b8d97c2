"""What the page looks like: numbers that agree with each other, columns under their heads, classes within reach."""

import re

from browsing import PHONE, embeddings, expect

NAMES = ("Laysan Albatross", "Chuck will Widow", "Vermilion Flycatcher")


def begin(tab, names=NAMES):
    for place, name in enumerate(names):
        tab.item(place).click()
        tab.label_as(name)
    tab.wait_for_counts(lambda counts: sum(counts.values()) == 60)


def test_what_is_not_certain_is_not_said_to_be(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60, n_classes=3)) as running:
        tab = page(running.address)
        begin(tab)
        tab.press("r")
        guess = tab.locator(".cell:not(.checked):not([hidden])").last
        guess.click()
        expect(guess.locator(".caption b")).to_have_text(re.compile(r"^ \d\d? %$"))
        expect(tab.locator("#item-label")).not_to_contain_text("%")  # which stands below
        expect(tab.locator(".probability b").first).to_have_text(re.compile(r"^\d\d(\.\d)? %$"))
        expect(tab.locator(".probability b").last).not_to_contain_text("0.0")
        for shown in ("#expected", "#class-list .number:last-child >> nth=0", ".facts-list dd >> nth=1"):
            expect(tab.locator(shown)).to_have_text(re.compile(r"(^|\D)\d\d\.\d %"))


def test_a_target_keeps_its_half(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60, n_classes=3)) as running:
        tab = page(running.address)
        begin(tab)
        tab.show("Check list")
        tab.get_by_role("spinbutton", name="Target").fill("89.5")
        tab.press("Enter")
        tab.show("By class")
        expect(tab.locator("#advice-words")).to_contain_text("89.5 % reached")


COLUMNS = """() => {
  const right = (node) => node.getBoundingClientRect().right;
  const head = [...document.querySelectorAll("#class-head span")].slice(1).map(right);
  const rows = [...document.querySelectorAll("#class-list .look")];
  const under = (cell, i) => Math.abs(right(cell) - head[i]) < 1;
  return rows.every((row) => [...row.querySelectorAll(".number")].every(under));
}"""


def test_numbers_of_classes_stand_under_their_heads(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60, n_classes=3)) as running:
        tab = page(running.address, viewport={"width": 1440, "height": 900})
        begin(tab)
        assert tab.evaluate(COLUMNS)
        name = tab.locator("#class-list .name").first
        assert name.evaluate("(name) => name.firstChild.scrollWidth <= name.firstChild.clientWidth")  # it fits
        tab.set_viewport_size(PHONE)
        tab.get_by_role("group", name="Parts").get_by_role("button", name="Classes").click()
        assert tab.evaluate(COLUMNS)


def test_every_class_is_within_reach_on_the_single_item_of_a_phone(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running:
        tab = page(running.address, viewport=PHONE, has_touch=True, is_mobile=True)
        tab.locator("#advice-buttons .main").tap()
        tab.get_by_role("textbox", name="Names of classes").fill("\n".join(f"kind {n}" for n in range(60)))
        tab.get_by_role("button", name="Add them").tap()
        tab.wait_for_counts(lambda counts: len(counts) == 61)
        tab.item(0).tap()
        tab.get_by_role("button", name="Look", exact=True).tap()
        expect(tab.locator("#item-name")).to_have_text("row 1")
        find = tab.get_by_role("combobox", name="Label this item as")
        find.fill("kind 57")
        tab.get_by_role("option", name="kind 57", exact=False).first.tap()
        expect(tab.locator("#item-name")).to_have_text("row 2")
        find.fill("a new kind")
        tab.get_by_role("option", name="New class a new kind").tap()
        expect(tab.locator("#item-name")).to_have_text("row 3")
        tab.wait_for_counts(lambda counts: counts["kind 57"] and counts.get("a new kind"))
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
