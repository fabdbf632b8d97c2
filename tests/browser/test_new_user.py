"""What a new user meets: one recommended step, exports that work as offered, a page that survives what happens."""

import re
import shutil
import zipfile

import numpy as np
from browsing import PHONE, embeddings, expect

ADVICE = "#advice-words"


def begin(tab, names=("ash", "birch", "cedar")):
    for place, name in enumerate(names):
        tab.item(place).click()
        tab.label_as(name)


NAMES = ("ash", "birch", "cedar")


def label_all(tab, n_items):
    """Label what is shown; row r is of class r % 3."""
    for place in range(n_items):
        tab.item(place).click()
        row = int(tab.item(place).get_attribute("id").removeprefix("item-"))
        tab.press(str(row % 3 + 1))
        tab.says(f"“{NAMES[row % 3]}”")


def say_that_these_are_all(tab):
    """Answer the question about other classes where it is asked: a tenth of the items may look like none of them."""
    expect(tab.locator("#status")).not_to_contain_text("Answers follow")
    tab.wait_for_timeout(1000)
    if "Are these all your classes?" in tab.locator(ADVICE).text_content():
        tab.get_by_role("button", name="Yes, these are all").click()


def follow_advice(tab):
    """Do what is recommended until enough is expected to be right."""
    for _ in range(8):
        expect(tab.locator("#status")).not_to_contain_text("Answers follow")
        tab.wait_for_timeout(500)
        if "Make sure with 30 random ones" in tab.locator(ADVICE).text_content():
            return
        tab.locator("#advice-buttons .main").click()
        expect(tab.locator("#controls")).to_contain_text(re.compile(r"(^|\D)0 of"))
        label_all(tab, tab.locator("#grid .cell:not([hidden])").count())


def test_one_step_is_recommended_from_nothing_to_done(studio, page, tmp_path):
    source = embeddings(tmp_path / "points.npz", 200, n_classes=3)
    with studio(source) as running:
        tab = page(running.address)
        expect(tab.locator(ADVICE)).to_contain_text("Name your classes")
        tab.press(".")  # does what is recommended
        tab.get_by_role("textbox", name="Names of classes").fill("\n".join(NAMES))
        tab.get_by_role("button", name="Add them").click()
        expect(tab.locator(ADVICE)).to_contain_text("Still without: ash, birch, cedar.")
        tab.get_by_role("button", name="Show typical items").click()
        label_all(tab, 12)
        say_that_these_are_all(tab)
        follow_advice(tab)
        tab.locator("#advice-buttons .main").click()
        expect(tab.locator(ADVICE)).to_contain_text("0 of 30 done")
        label_all(tab, 30)
        say_that_these_are_all(tab)
        expect(tab.locator("#guide.done")).to_contain_text("Done. All 200 items have a label.")
        tab.locator("#guide.done .main").click()
        expect(tab.get_by_role("dialog", name="Export")).to_be_visible()


def test_a_class_without_a_name_is_asked_about_once(studio, page, tmp_path):
    """A quarter of the items is of a fourth class, which nobody named."""
    with studio(embeddings(tmp_path / "points.npz", 200, n_classes=4)) as running:
        tab = page(running.address)
        for row in (row for row in range(20) if row % 4 < 3):
            tab.locator(f"#item-{row}").click()
            tab.label_as(NAMES[row % 4])
        expect(tab.locator(ADVICE)).to_contain_text("Are these all your classes?")
        tab.get_by_role("button", name="Yes, these are all").click()
        expect(tab.locator(ADVICE)).not_to_contain_text("Are these all your classes?")


def test_every_export_works_as_it_is_offered(studio, page, own_digits):
    folder, _ = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        begin(tab)
        tab.wait_for_counts(lambda counts: sum(counts.values()) == 200)
        for what in ("table", "model", "label-studio", "fiftyone", "bulk", "folders"):
            shutil.rmtree(folder.parent / "digits-labelled", ignore_errors=True)
            tab.locator("#export").click()
            tab.get_by_role("combobox", name="What").select_option(what)
            tab.get_by_role("button", name="Write").click()
            expect(tab.locator(".outcome .done")).to_contain_text(str(folder.parent / "digits-labelled"))
            assert any((folder.parent / "digits-labelled").iterdir())
            tab.press("Escape")


def test_the_result_is_downloaded(studio, page, own_digits, tmp_path):
    folder, truth = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        begin(tab)
        tab.wait_for_counts(lambda counts: sum(counts.values()) == 200)
        tab.locator("#export").click()
        for what, name in (("table", "labels.csv"), ("folders", "digits-labelled.zip")):
            tab.get_by_role("combobox", name="What").select_option(what)
            with tab.expect_download() as started:
                tab.get_by_role("button", name="Download").click()
            assert started.value.suggested_filename == name
            started.value.save_as(tmp_path / name)
            expect(tab.locator(".outcome .done")).to_contain_text(f"{name} is in your downloads")
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 201
    packed = [name for name in zipfile.ZipFile(tmp_path / "digits-labelled.zip").namelist() if name.endswith(".png")]
    assert sorted(name.split("/")[1] for name in packed) == sorted(truth)
    assert {name.split("/")[0] for name in packed} <= {"ash", "birch", "cedar"}
    assert not (folder.parent / "digits-labelled").exists()


def test_view_and_target_survive_a_reload(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 200)) as running:
        tab = page(running.address)
        begin(tab)
        tab.show("Check list")
        tab.get_by_role("spinbutton", name="Target").fill("99")
        tab.press("Enter")
        expect(tab.locator("#controls")).to_contain_text("items checked")
        tab.reload()
        expect(tab.get_by_role("spinbutton", name="Target")).to_have_value("99")
        tab.show("By doubt")
        tab.reload()
        expect(tab.get_by_role("tab", name="By doubt")).to_have_attribute("aria-selected", "true")


def keys_of(tab):
    rows = (
        "rows => Object.fromEntries(rows.map((row) => ['.name', 'kbd'].map((p) => row.querySelector(p).textContent)))"
    )
    return tab.locator("#class-list .class:not(.fixed)").evaluate_all(rows)


def test_keys_of_classes_stay_and_can_be_chosen(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 100)) as running:
        tab = page(running.address)
        begin(tab)
        assert keys_of(tab) == {"ash": "1", "birch": "2", "cedar": "3"}
        tab.get_by_role("button", name="Change ash").click()
        tab.get_by_role("button", name="Delete").click()
        tab.wait_for_counts(lambda counts: "ash" not in counts)
        assert keys_of(tab) == {"birch": "2", "cedar": "3"}
        tab.get_by_role("button", name="Change cedar").click()
        tab.get_by_role("combobox", name="Key").select_option("c")
        tab.get_by_role("button", name="Use this key").click()
        tab.says("the key C")
        expect(tab.locator("#class-list kbd")).to_have_text(["2", "C", "N"])
        tab.reload()
        tab.item(20).click()
        tab.press("c")
        tab.says("Labelled “cedar”.")
        tab.press("u")
        tab.says("Undone: label")
        tab.press("u")
        tab.says("Undone: give")
        expect(tab.locator("#class-list kbd")).to_have_text(["2", "3", "N"])


def test_an_old_page_says_what_to_do_and_follows_the_new_one(studio, page, tmp_path):
    source = embeddings(tmp_path / "points.npz", 60)
    with studio(source) as running:
        port = running.address.split(":")[2].split("/")[0]
        tab = page(running.address)
        begin(tab)
        old = tab.url
        running.kill()
        expect(tab.get_by_role("alert").first).to_contain_text("does not answer")
    with studio(source, "--port", port) as running:
        expect(tab.get_by_role("alert").first).to_contain_text("was started again")
        stray = tab.context.new_page()
        stray.goto(old)
        expect(stray.get_by_role("heading")).to_have_text("This page belongs to a studio that was stopped")
        new = page(running.address, context=tab.context)
        expect(tab.locator("#lost")).to_be_hidden()
        assert tab.url == new.url != old
        tab.wait_for_counts(lambda counts: counts.get("ash", 0) > 0)
        tab.faults.clear()  # the browser reported that the server was gone, then that it refused


def test_an_encoder_that_cannot_be_loaded_is_said_at_the_top(studio, page, own_digits):
    folder, _ = own_digits
    with studio(folder, "--encoder", "no-such-model") as running:
        tab = page(running.address)
        expect(tab.locator("#broken")).to_contain_text("'no-such-model' is neither")
        expect(tab.locator("#broken")).to_contain_text("--encoder")
        expect(tab.locator("#lost")).to_be_hidden()
        tab.item(0).click()
        tab.label_as("kept all the same")


def test_zoom_leaves_room_for_the_items(studio, page, own_digits):
    folder, _ = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        for width, height in ((720, 450), (683, 384)):
            tab = page(running.address, viewport={"width": width, "height": height})
            assert tab.locator("#grid").bounding_box()["height"] > 0.5 * height
            tab.item(0).click()
            assert tab.locator("#grid").bounding_box()["height"] > 0.4 * height
            assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_pictures_are_zoomed_moved_and_compared(studio, page, own_digits):
    folder, _ = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        tab.item(0).click()
        tab.get_by_role("button", name="Look at 000.png large").click()
        image = tab.locator(".viewer img")
        small = image.bounding_box()["width"]
        tab.press("+", "+")
        assert image.bounding_box()["width"] > 1.5 * small
        left = image.bounding_box()["x"]
        tab.press("ArrowRight")
        assert image.bounding_box()["x"] < left
        box = tab.locator(".frame-of").bounding_box()
        tab.mouse.move(box["x"] + 100, box["y"] + 100)
        tab.mouse.wheel(0, -300)
        wide = image.bounding_box()
        tab.mouse.down()
        tab.mouse.move(box["x"] + 160, box["y"] + 130)
        tab.mouse.up()
        assert image.bounding_box()["x"] > wide["x"]
        tab.get_by_role("button", name="Fit").click()
        assert abs(image.bounding_box()["width"] - small) < 1
        tab.press("Escape")
        tab.item(1).click(modifiers=["Control"])
        tab.get_by_role("button", name="Side by side").click()
        expect(tab.locator(".viewer img")).to_have_count(2)
        tab.press("+")
        widths = tab.locator(".viewer img").evaluate_all(
            "(all) => all.map((image) => image.getBoundingClientRect().width)"
        )
        assert abs(widths[0] - widths[1]) < 1


def test_ids_and_columns_of_a_table(studio, page, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "points.npz", X=rng.normal(size=(40, 8)), items=np.array([f"T-{n:03d}" for n in range(40)]))
    with studio(tmp_path / "points.npz") as running:
        tab = page(running.address)
        tab.get_by_role("searchbox").fill("t-017")
        expect(tab.locator("#grid .cell:not([hidden])")).to_have_count(1)
        tab.item(0).click()
        expect(tab.locator("#item-name")).to_have_text("T-017")


def test_labelling_from_the_single_item_of_a_phone(studio, page, own_digits):
    folder, _ = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address, viewport=PHONE, has_touch=True, is_mobile=True)
        tab.item(0).tap()
        for name in ("ash", "birch"):  # each act goes on to the next item
            tab.get_by_role("combobox", name="Label the selection as").fill(name)
            tab.get_by_role("option", name=f"New class {name}").tap()
            tab.says(name)
        tab.get_by_role("button", name="Look", exact=True).tap()
        acts = tab.get_by_role("group", name="Label this item")
        shown = tab.locator("#item-name")
        expect(shown).to_have_text("002.png")
        acts.get_by_role("button", name="birch").tap()
        expect(shown).to_have_text("003.png")
        acts.get_by_role("button", name="None of these").tap()
        expect(shown).to_have_text("004.png")
        acts.get_by_role("button", name="Previous item").tap()
        expect(shown).to_have_text("003.png")
        expect(tab.locator("#item-label")).to_contain_text("none of these")
        tab.wait_for_counts(lambda counts: counts["None of these"] == 1)
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_messages_wrap_and_long_names_keep_their_end(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running:
        tab = page(running.address)
        names = [f"a very long name of a class that goes on and on, number {number}" for number in range(2)]
        begin(tab, names)
        said = tab.locator("#status span").first
        assert said.evaluate("(words) => words.scrollWidth <= words.clientWidth")
        back = tab.locator("#class-list .name .back").first
        expect(back).to_have_text("mber 0")
        assert back.evaluate("(end) => end.scrollWidth <= end.clientWidth + 1")
        # Measured in one step: answers that come in meanwhile draw the list anew.
        heights = tab.locator("#class-list .class").evaluate_all("(all) => all.map((row) => row.clientHeight)")
        assert max(heights) < 32
