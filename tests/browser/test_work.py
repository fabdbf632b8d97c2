"""What a person relies on while working: a view that stays, one key an item, every view, the map, the numbers."""

import re
import time

from browsing import DESK, PHONE, embeddings, expect


def ids(tab):
    """Items on screen, in their order."""
    return tab.locator("#grid .cell:not([hidden])").evaluate_all("cells => cells.map((cell) => cell.id)")


def begin(tab, n_classes=3):
    """One example each of the first classes of `embeddings`, by keyboard."""
    for number in range(n_classes):
        tab.item(number).click()
        tab.label_as(f"class {number}")


def test_the_view_stays_until_asked(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 300)) as running:
        tab = page(running.address)
        before = ids(tab)
        begin(tab)
        tab.wait_for_counts(lambda counts: min(counts.get(f"class {number}", 0) for number in range(3)) > 20)
        assert ids(tab) == before
        expect(tab.item(10).locator(".caption")).to_contain_text("class")
        resort = tab.get_by_role("button", name=re.compile("Sort again: [0-9]+ items belong elsewhere"))
        resort.click()
        expect(resort).to_be_hidden()
        assert ids(tab) != before


def test_accessible_names_say_name_label_and_probability(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 100)) as running:
        tab = page(running.address)
        begin(tab, 2)
        expect(tab.item(20)).to_have_attribute("aria-label", re.compile(r"^.+, class [01], [0-9.]+ %"))
        expect(tab.item(0)).to_have_attribute("aria-label", re.compile("class 0, given by you"))
        nameless = tab.evaluate(
            """[...document.querySelectorAll("button, input, select, [role=grid], canvas[tabindex]")]
            .filter((node) => !(node.ariaLabel || node.textContent.trim() || node.labels?.length))
            .map((node) => node.outerHTML)"""
        )
        assert nameless == []


def test_select_by_range_frame_and_all(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 200)) as running:
        tab = page(running.address)
        tab.item(1).click()
        tab.item(7).click(modifiers=["Shift"])
        expect(tab.locator("#selected")).to_have_text("7 selected")
        tab.item(9).click(modifiers=["Control"])
        expect(tab.locator("#selected")).to_have_text("8 selected")
        first, last = tab.item(0).bounding_box(), tab.item(9).bounding_box()
        tab.mouse.move(first["x"] + 20, first["y"] + 20)
        tab.mouse.down()
        tab.mouse.move(last["x"] + 20, last["y"] + 20, steps=5)
        tab.mouse.up()
        framed = int(tab.locator("#selected").text_content().split()[0])
        assert 2 <= framed <= 10
        tab.press("Escape", "Control+a")
        expect(tab.locator("#selected")).to_have_text("200 selected")
        tab.press("ArrowDown")  # only moves
        expect(tab.locator("#selected")).to_have_text("1 selected")
        assert tab.counts() == {"None of these": 0}


def test_classes_are_renamed_merged_deleted_and_all_of_it_undone(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 100)) as running:
        tab = page(running.address)
        begin(tab)
        tab.get_by_role("button", name="Change class 0").click()
        tab.get_by_role("textbox", name="New name").fill("ash")
        tab.get_by_role("button", name="Rename").click()
        tab.wait_for_counts(lambda counts: "ash" in counts)
        tab.get_by_role("button", name="Change ash").click()
        tab.get_by_role("combobox", name="Merge into").select_option("class 1")
        tab.get_by_role("button", name="Merge").click()
        tab.wait_for_counts(lambda counts: "ash" not in counts)
        tab.get_by_role("button", name="Change class 2").click()
        tab.get_by_role("button", name="Delete").click()
        tab.wait_for_counts(lambda counts: "class 2" not in counts)
        for _ in range(3):
            with tab.expect_response("**/api/act"):
                tab.get_by_role("button", name="Undo").click()
            expect(tab.get_by_role("button", name="Undo")).to_be_enabled()
            tab.wait_for_timeout(200)
        tab.wait_for_counts(lambda counts: {"class 0", "class 1", "class 2"} <= set(counts))


def test_every_view_and_when_to_stop(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 400)) as running:
        tab = page(running.address)
        begin(tab, 4)
        expect(tab.locator("#expected")).to_contain_text("Expected accuracy")
        tab.show("Label next")
        expect(tab.locator("#controls")).to_contain_text("0 of 12 done")
        tab.item(0).click()
        tab.press("1", "2")
        expect(tab.locator("#controls")).to_contain_text("2 of 12 done")
        tab.show("Changed")
        tab.show("Check list")
        expect(tab.locator("#controls")).to_contain_text("To be right:")
        tab.show("By doubt")
        expect(tab.locator(".head").first).to_contain_text("Least certain first")
        tab.show("Random check")
        tab.locator("#controls").get_by_role("button", name="Draw 30 random items").click()
        expect(tab.locator("#controls")).to_contain_text("of 30 checked")
        tab.item(0).click()
        tab.press(*["1"] * 30)
        expect(tab.locator("#controls")).to_contain_text(re.compile(r"Accuracy \d+ % \(\d+–\d+\) of all 400 items"))
        tab.show("None of these")
        tab.show("By class")
        expect(tab.item(0)).to_be_visible()
        tab.get_by_role("searchbox").fill("17")
        expect(tab.locator(".head").first).to_contain_text("Found: 17")


def test_the_worklist_says_when_it_is_done_and_what_was_reached(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 300)) as running:
        tab = page(running.address)
        begin(tab, 4)  # of five: something is in doubt
        tab.show("Check list")
        controls = tab.locator("#controls")
        tab.get_by_role("spinbutton", name="Target").fill("100")
        tab.press("Enter")
        expect(controls).to_contain_text(
            re.compile(r"0 of \d+ items checked\. Now [\d.]+ % of all 300 items are expected")
        )
        tab.press("Escape")
        tab.locator("#grid").focus()
        tab.press("Control+a", "1")
        tab.agree()
        expect(controls).to_contain_text("Reached: 100.0 % of all 300 items are expected to be right.")
        expect(tab.locator("#progress")).to_contain_text("Expected accuracy, all items")


def test_a_bulk_act_says_how_many_of_ones_own_labels_it_replaces(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 100)) as running:
        tab = page(running.address)
        begin(tab)
        tab.item(0).click()
        tab.press("n")
        undo = tab.get_by_role("button", name="Undo this")
        expect(undo).to_be_hidden()  # one item is before one's eyes
        tab.item(9).click(modifiers=["Shift"])
        tab.item(0).click(modifiers=["Control"])
        tab.press("n")
        tab.says("It replaces 2 labels that you gave.")  # classes 1 and 2; the first was none of these already
        undo.click()
        tab.says("Undone")
        expect(undo).to_be_hidden()
        tab.wait_for_counts(lambda counts: counts["None of these"] == 1)


def test_undo_after_a_refused_act_selects_what_it_takes_back(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 100)) as running:
        tab = page(running.address)
        begin(tab)
        tab.item(7).click()
        tab.press("l")
        tab.type("-1")
        tab.press("Enter")
        tab.says("stands for no label")
        tab.faults.clear()  # the browser reported that the server refused
        for row in (2, 1):
            tab.press("Control+z")
            expect(tab.item(row)).to_have_attribute("aria-selected", "true")
            expect(tab.locator("#grid [aria-selected=true]")).to_have_count(1)
        tab.press("Control+y")
        tab.says("Redone")
        tab.press("Control+z")
        expect(tab.item(1)).to_have_attribute("aria-selected", "true")


def test_an_audit_hides_the_answer_until_the_person_has_said_theirs(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 200)) as running:
        tab = page(running.address)
        begin(tab, 5)
        tab.wait_for_counts(lambda counts: sum(counts.values()) == 200)
        tab.show("Random check")
        tab.locator("#controls").get_by_role("button", name="Draw 30 random items").click()
        expect(tab.item(0)).to_have_attribute("aria-label", re.compile("not labelled, answer hidden"))
        assert "class" not in tab.locator("#grid").inner_text()
        tab.item(0).click()
        expect(tab.locator("#item-label")).to_contain_text("answer hidden")
        expect(tab.locator("#item-more")).not_to_contain_text("Probabilities")
        tab.press("Enter")
        tab.says("The random check hides the answer")
        tab.press("1")
        expect(tab.item(0).locator(".caption")).to_contain_text(re.compile("class 0 was (right|class [1-4])"))
        expect(tab.item(1)).to_have_attribute("aria-label", re.compile("answer hidden"))


def test_heads_of_groups_stay_true_while_items_stay_in_place(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running:
        tab = page(running.address)
        head = tab.locator(".head").first
        expect(head).to_contain_text("Not labelled yet60")
        tab.item(0).click()
        tab.label_as("ash")
        expect(head).to_contain_text("Not labelled yet60, 1 of them has another label now")
        tab.label_as("oak")
        expect(head).to_contain_text("All of these have a label now60")


def test_pictures_that_cannot_be_read_say_so(studio, page, own_digits):
    folder, _ = own_digits
    (folder / "000-broken.png").write_bytes(b"no picture")
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        expect(tab.item_called("000.png").locator("p")).to_be_hidden()
        tab.press("ArrowRight", "End")  # such pictures come last
        broken = tab.item_called("000-broken.png")
        expect(broken).to_have_attribute("aria-label", re.compile("cannot be read"))
        expect(broken.locator("p")).to_be_visible()
        expect(broken.locator("p")).to_have_text(re.compile("^000-broken.png: .+"))


def test_groups_among_none_of_these_become_classes(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 300, n_classes=4)) as running:
        tab = page(running.address)
        begin(tab, 2)
        for place in (2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23):  # classes 2 and 3
            tab.item(place).click()
            tab.press("n")
        tab.wait_for_counts(lambda counts: counts["None of these"] == 12)
        tab.show("None of these")
        tab.get_by_role("button", name="Make it a class").first.click()
        tab.wait_for_counts(lambda counts: counts.get("New class 1", 0) >= 2)


def test_the_lasso_selects_on_the_map(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 300)) as running:
        tab = page(running.address)
        begin(tab, 2)
        tab.show("Map")
        expect(tab.locator("#map-wait")).to_be_hidden()
        box = tab.locator("#map").bounding_box()
        right, bottom = box["x"] + box["width"] - 5, box["y"] + box["height"] - 5
        tab.mouse.move(box["x"] + 5, box["y"] + 60)
        tab.mouse.down()
        for corner in ((right, box["y"] + 60), (right, bottom), (box["x"] + 5, bottom)):
            tab.mouse.move(*corner, steps=4)
        tab.mouse.up()
        assert int(tab.locator("#selected").text_content().split()[0]) > 200
        tab.get_by_role("button", name="Show selected").click()
        expect(tab.locator("#map")).to_be_hidden()
        expect(tab.item(0)).to_be_visible()
        tab.press("/")
        tab.type("row 17")
        tab.press("Enter")
        # What the search does not show is no longer selected: a key would act on it unseen.
        expect(tab.locator("#selected")).to_have_text(re.compile("^(1?[0-9] selected|Nothing selected)$"))


def test_the_map_by_keyboard_and_by_two_fingers(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 300)) as running:
        tab = page(running.address, has_touch=True)
        begin(tab, 2)
        tab.show("Map")
        expect(tab.locator("#map-wait")).to_be_hidden()
        tab.locator("#map-over").focus()
        tab.press(*["ArrowLeft"] * 14, *["ArrowUp"] * 11, *["Shift+ArrowRight"] * 30, *["Shift+ArrowDown"] * 30)
        tab.press("Enter")
        tab.says("items selected")
        everything = int(tab.locator("#selected").text_content().split()[0])
        assert everything > 200
        tab.press("1")
        tab.get_by_role("button", name=f"Yes, {everything} items").click()
        tab.wait_for_counts(lambda counts: counts["class 0"] >= everything)

        touch = tab.context.new_cdp_session(tab.page)
        box = tab.locator("#map").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        places = tab.evaluate("() => [...document.querySelectorAll('#map canvas')].map((c) => c.toDataURL())")

        def fingers(kind, apart):
            points = [{"x": x - apart, "y": y}, {"x": x + apart, "y": y}] if apart else []
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        fingers("touchStart", 20)
        fingers("touchMove", 60)
        fingers("touchMove", 120)
        fingers("touchEnd", 0)
        tab.wait_for_timeout(200)
        assert tab.evaluate("() => [...document.querySelectorAll('#map canvas')].map((c) => c.toDataURL())") != places
        expect(tab.locator("#selected")).to_have_text("Nothing selected")  # two fingers draw no lasso


def test_twenty_thousand_items_scroll_and_label(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 20_000)) as running:
        tab = page(running.address)
        begin(tab)
        tab.wait_for_counts(lambda counts: sum(counts.values()) == 20_000)
        assert tab.locator("#grid .cell").count() < 500  # only what is on screen is in the page
        for share in (0.3, 0.7, 1):
            tab.locator("#grid").evaluate("(grid, share) => { grid.scrollTop = share * grid.scrollHeight; }", share)
            tab.wait_for_timeout(100)
        expect(tab.locator("#item-19999")).to_have_attribute("aria-label", re.compile(r", class [0-2], [0-9.]+ %"))
        cell = tab.locator("#grid .cell:not([hidden])").last
        cell.click()
        tab.press("3")
        expect(tab.locator(".cell.checked")).to_have_count(1)


def test_phone(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 100)) as running:
        tab = page(running.address, viewport=PHONE, has_touch=True, is_mobile=True)
        tab.item(0).tap()
        tab.get_by_role("combobox", name="Label the selection as").fill("ash")
        tab.get_by_role("option", name="New class ash").tap()
        tab.says("ash")
        tab.item(0).tap()
        tab.item(1).tap()
        expect(tab.locator("#selected")).to_have_text("1 selected")
        tab.get_by_role("button", name="Classes", exact=True).tap()
        expect(tab.get_by_role("navigation", name="Classes")).to_be_visible()
        tab.get_by_role("button", name="Look", exact=True).tap()
        expect(tab.locator("#item-name")).to_be_visible()
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def take_examples(folder, truth):
    """Move twelve pictures into class folders: beside other pictures these are examples."""
    for name in sorted(truth)[:12]:
        (folder / f"digit {truth[name]}").mkdir(exist_ok=True)
        (folder / name).rename(folder / f"digit {truth[name]}" / name)


def late(route):
    """The project arrives after the answers."""
    time.sleep(0.5)
    route.continue_()


def test_the_page_opens_sorted_beside_what_cannot_be_read(studio, page, own_digits, chromium):
    folder, truth = own_digits
    (folder / "000-broken.png").write_bytes(b"no picture")
    take_examples(folder, truth)
    groups = [*(f"digit {number}" for number in range(4)), "Cannot be read"]
    with studio(folder, "--encoder", "pixels") as running, chromium.new_context(viewport=DESK) as context:
        context.route("**/api/project", late)
        tab = page(running.address, context=context)
        for size in (DESK, PHONE):
            tab.set_viewport_size(size)
            tab.reload()
            expect(tab.locator(".head .name")).to_have_text(groups)
            expect(tab.locator("#resort")).to_be_hidden()


def test_the_first_answers_sort_a_page_that_nobody_has_touched(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 100)) as running:
        tab = page(running.address)
        untouched = page(tab.url, context=tab.context)
        before = ids(tab)
        begin(tab, 2)
        expect(untouched.locator(".head .name")).to_have_text(["class 0", "class 1"])
        assert ids(tab) == before


def test_a_class_of_examples_alone_is_not_said_to_be_right(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 40)) as running:
        tab = page(running.address)
        begin(tab, 2)
        first = tab.locator("#class-list .look").first.locator(".number")
        expect(first.nth(2)).to_have_text(re.compile(r"\d+ %"))
        tab.press("Control+a", "1")
        tab.item(1).click()
        tab.press("2")
        expect(first).to_have_text(["39", "39", ""])


def test_nothing_sticks_out_between_phone_and_desk(studio, page, tmp_path):
    with studio(embeddings(tmp_path / f"{'a long name ' * 8}.npz", 40)) as running:
        tab = page(running.address, viewport={"width": 740, "height": 800})
        begin(tab, 2)
        expect(tab.locator("#expected")).to_contain_text("Expected accuracy")
        outside = """(part) => [...part.querySelectorAll("button")]
            .filter((button) => button.getBoundingClientRect().right > part.getBoundingClientRect().right)
            .map((button) => button.id)"""
        assert [tab.locator(part).evaluate(outside) for part in ("#top", "#bar")] == [[], []]


def test_marks_cover_no_text(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 40)) as running:
        tab = page(running.address)
        begin(tab, 1)
        expect(tab.item(0)).to_have_class(re.compile("checked"))
        free = tab.item(0).evaluate(
            """(cell) => {
                const text = document.createRange();
                cell.text.textContent = "many words ".repeat(20);
                text.selectNodeContents(cell.text);
                return cell.getBoundingClientRect().right - text.getBoundingClientRect().right;
            }"""
        )
        mark = tab.item(0).evaluate("(cell) => getComputedStyle(cell, '::after')")
        right, width = (float(mark[side].removesuffix("px")) for side in ("right", "width"))
        assert free >= right + width


def test_undo_says_that_examples_of_the_source_are_taken_back(studio, page, own_digits):
    folder, truth = own_digits
    take_examples(folder, truth)
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address, viewport=PHONE)
        tab.press("u")
        tab.says("Undone: take 12 items of the source as examples:")
        said = tab.locator("#status span").first
        assert said.evaluate("(words) => words.scrollWidth <= words.clientWidth")  # on a phone it is said in full
        assert tab.locator("#project .name").evaluate("(name) => name.scrollWidth <= name.clientWidth")
