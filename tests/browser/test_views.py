"""Every view from every state of a session, one after the other: nothing breaks, and nothing reports a problem."""

import numpy as np
from browsing import DESK, embeddings, expect

VIEWS = ("By class", "By doubt", "None of these", "Map", "Changed", "Label next", "Check list", "Random check")


def nothing(tab):
    """The page as it opens."""


def a_class_without_example(tab):
    tab.get_by_role("textbox", name="Find or add a class").fill("ash")
    tab.press("Enter")
    tab.wait_for_counts(lambda counts: "ash" in counts)


def one_class(tab):
    tab.show("By class")
    tab.item(0).click()
    tab.label_as("ash")


def two_classes(tab):
    tab.show("By class")
    tab.item(1).click()
    tab.label_as("birch")
    tab.wait_for_counts(lambda counts: sum(counts.values()) == 60)


def own_item_open(tab):
    tab.show("By class")
    tab.locator(".cell.checked").first.click()
    expect(tab.locator("#item-label")).to_contain_text("given by you")


def nothing_found(tab):
    tab.get_by_role("searchbox").fill("no such item")
    expect(tab.locator("#empty")).to_have_text("Nothing found.")


def audit_drawn(tab):
    own_item_open(tab)
    tab.show("Random check")
    tab.locator("#controls").get_by_role("button", name="Draw 30 random items").click()
    expect(tab.locator("#controls")).to_contain_text("0 of 30 checked")


def audit_finished(tab):
    tab.show("Random check")
    tab.item(0).click()
    tab.press(*["1"] * 30)
    expect(tab.locator("#controls")).to_contain_text("of all 60 items")


def class_deleted_after_audit(tab):
    tab.get_by_role("button", name="Change birch").click()
    tab.get_by_role("button", name="Delete").click()
    tab.wait_for_counts(lambda counts: "birch" not in counts)


def all_labelled(tab):
    tab.show("By class")
    tab.locator("#grid").focus()
    tab.press("Control+a", "1")
    tab.wait_for_counts(lambda counts: counts["ash"] == 60)


STATES = [
    nothing,
    a_class_without_example,
    one_class,
    two_classes,
    own_item_open,
    nothing_found,
    audit_drawn,
    audit_finished,
    class_deleted_after_audit,
    all_labelled,
]


def test_every_view_opens_from_every_state(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running:
        tab = page(running.address)
        for reach in STATES:
            reach(tab)
            for view in VIEWS:
                tab.show(view)
                tab.wait_for_timeout(150)
                if view != "Map" and tab.item(0).count():
                    tab.item(0).click()
                    expect(tab.locator("#item-body")).to_be_visible()
                expect(tab.locator("#status .problem")).to_have_count(0)
                shown = tab.locator("#map:not([hidden]), #grid .cell:not([hidden]), #empty:not([hidden])")
                expect(shown.first).to_be_attached()
                assert not tab.faults, (reach, view)


PLACES_OF_FIRST = """
window.places = new Set();
const look = () => {
  const first = document.querySelector("#grid .cell:not([hidden])");
  if (first) places.add(first.getBoundingClientRect().y);
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


def test_items_stay_where_they_appear_while_a_page_opens(studio, page, chromium, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running, chromium.new_context(viewport=DESK) as context:
        context.add_init_script(PLACES_OF_FIRST)
        tab = page(running.address, context=context)
        expect(tab.item(0)).to_contain_text("row 1")
        expect(tab.locator("#guide")).to_be_visible()
        assert tab.evaluate("places.size") == 1


def test_a_filter_narrows_ways_to_look_but_not_the_steps(studio, page, own_digits):
    folder, _ = own_digits
    (folder / "trip").mkdir()
    for number in range(10):
        (folder / f"{number:03d}.png").rename(folder / "trip" / f"{number:03d}.png")
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        tab.locator("#filter").select_option(label="Folder: trip (10)")
        expect(tab.locator("#grid .cell:not([hidden])")).to_have_count(10)
        for place, name in enumerate(("nought", "one")):
            tab.item(place).click()
            tab.label_as(name)
        tab.show("Label next")
        expect(tab.locator("#controls")).to_contain_text("0 of 12 done")
        expect(tab.locator("#controls")).to_contain_text("The filter does not apply here")
        expect(tab.locator("#grid .cell:not([hidden])")).to_have_count(12)


def test_labels_that_look_wrong_are_looked_at_and_mended(studio, page, tmp_path):
    with np.load(embeddings(tmp_path / "points.npz", 300)) as stored:
        X = stored["X"]
    names = np.array([f"kind {'abcde'[row % 5]}" if row < 30 else "" for row in range(300)])
    names[[0, 6]] = "kind c", "kind a"
    np.savez(tmp_path / "points.npz", X=X, label=names)
    with studio(tmp_path / "points.npz", "--label", "label") as running:
        tab = page(running.address)
        expect(tab.locator("#advice-words")).to_contain_text("2 labels look wrong")
        tab.get_by_role("button", name="Look at them").click()
        expect(tab.locator("#grid .cell:not([hidden])")).to_have_count(2)
        expect(tab.locator("#grid")).to_contain_text("By the other labels: kind a")
        tab.item_called("row 1").click()
        tab.label_as("kind a")
        expect(tab.locator("#advice-words")).to_contain_text("1 label looks wrong")
        tab.get_by_role("button", name="Done").click()
        expect(tab.locator("#advice-words")).not_to_contain_text("wrong")
