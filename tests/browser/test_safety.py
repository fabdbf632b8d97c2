"""Nothing said is lost, and no name becomes markup."""

import importlib.util

import numpy as np
import pytest
from browsing import PATIENCE, embeddings, expect

HOSTILE = [
    "<img src=x onerror='window.hacked=1'>",
    "</bdi><script>window.hacked=1</script>",
    'javascript:window.hacked=1" autofocus onfocus="window.hacked=1',
    "\u202egnp.exe مرحبا بالعالم",
    "🦜🏳️‍🌈 " + "very long " * 18,
]


def test_undo_after_a_power_cut(studio, page, tmp_path):
    source = embeddings(tmp_path / "points.npz", 200)
    with studio(source) as running:
        tab = page(running.address)
        for number in range(2):
            tab.item(number).click()
            tab.label_as(f"class {number}")
        tab.wait_for_counts(lambda counts: sum(counts.values()) == 200)
        tab.get_by_role("button", name="Accept …").click()
        tab.get_by_role("slider", name="At least").fill("50")
        tab.get_by_role("button", name="Accept", exact=True).click()
        tab.says("ccept")
        expect(tab.locator(".cell.accepted").first).to_be_visible()
        running.kill()
        expect(tab.get_by_role("alert")).to_contain_text("does not answer")
        tab.close()
        tab.faults.clear()  # the browser reported that the server is gone
    with studio(source) as running:
        tab = page(running.address)
        expect(tab.locator(".cell.accepted").first).to_be_visible()
        tab.press("u")
        tab.says("Undone")
        expect(tab.locator(".cell.accepted")).to_have_count(0)
        expect(tab.locator("#numbers")).to_contain_text("2 labelled")


def test_two_tabs_see_each_other(studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running:
        one = page(running.address)
        two = page(one.page.url, context=one.context)
        one.item(0).click()
        one.label_as("ash")
        two.wait_for_counts(lambda counts: counts.get("ash") == 1)
        two.item(1).click()
        two.label_as("oak")
        one.wait_for_counts(lambda counts: counts.get("ash", 0) + counts.get("oak", 0) == 60)
        one.press("u")
        two.wait_for_counts(lambda counts: "oak" not in counts)
        expect(two.locator(".cell.checked")).to_have_count(1)


@pytest.mark.parametrize("kind", ["class", "file"])
def test_hostile_names_stay_names(kind, studio, page, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")
    folder = tmp_path / "pictures"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, name in enumerate(HOSTILE if kind == "file" else "abcde"):
        pixels = rng.integers(0, 255, (20, 20, 3), dtype=np.uint8)
        image.fromarray(pixels).save(folder / f"{name.replace('/', '∕')[:60]}{number}.png")
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        # The session refuses characters that turn the direction of what follows.
        names = [name.replace("\u202e", "") for name in HOSTILE] if kind == "class" else ["one", "two"]
        for place, name in enumerate(names):
            tab.item(place).click()
            tab.press("l")
            tab.locator("#label-as").fill(name)
            tab.press("Enter")
            tab.wait_for_counts(lambda counts, name=name: name.strip() in counts)
        for view in ("By doubt", "Label next", "Changed", "None of these", "Map", "By class"):
            tab.show(view)
        tab.item(0).click()
        expect(tab.locator("#item-name")).not_to_be_empty()
        tab.get_by_role("button", name="Change").first.click()
        expect(tab.get_by_role("dialog")).to_be_visible()
        assert tab.evaluate("window.hacked") is None
        assert tab.evaluate("document.documentElement.scrollWidth") <= 1280


def test_texts_are_labelled_from_names_alone(studio, page, tmp_path):
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("needs extra `text`")
    texts = {
        "sports": ["The striker scored twice.", "She won the tennis final.", "The marathon starts at nine."],
        "cooking": ["Fry the onions in butter.", "Bake the bread for an hour.", "Add salt to the soup."],
    }
    lines = [text for pair in zip(*texts.values(), strict=True) for text in pair] * 4
    (tmp_path / "texts.csv").write_text("body\n" + "\n".join(f'"{line} {n}"' for n, line in enumerate(lines)))
    with studio(tmp_path / "texts.csv", "--text", "body") as running:
        tab = page(running.address)
        expect(tab.locator("#encoding")).to_be_hidden(timeout=4 * PATIENCE)  # the encoder takes long to load
        for name in texts:
            tab.get_by_role("textbox", name="Find or add a class").fill(name)
            tab.press("Enter")
            tab.wait_for_counts(lambda counts, name=name: name in counts)
        counts = tab.wait_for_counts(lambda counts: counts["sports"] + counts["cooking"] == len(lines))
        assert counts["sports"] == counts["cooking"] == len(lines) // 2


def test_a_source_that_changed_between_two_openings_is_shown(studio, page, own_digits):
    folder, _ = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        tab.item(0).click()
        tab.label_as("zero")
        tab.close()
    (folder / "000.png").rename(folder / "nought.png")
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address)
        tab.get_by_text("The source has changed").click()
        expect(tab.locator("#notes li")).to_have_text("1 item was renamed, and its label went with it: nought.png.")
