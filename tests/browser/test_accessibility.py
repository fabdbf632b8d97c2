"""Rules of axe-core in every view, light and dark, on a desk and on a phone: no serious finding."""

import os
from pathlib import Path

import pytest
from browsing import DESK, PHONE, embeddings, expect

PLACES = (os.environ.get("MARGINSHOT_AXE"), ".venv/axe/node_modules/axe-core/axe.min.js")
AXE = next((Path(place) for place in PLACES if place and Path(place).is_file()), None)

pytestmark = pytest.mark.skipif(AXE is None, reason="needs axe-core: `make axe`, or its file in MARGINSHOT_AXE")

VIEWS = ("By class", "By doubt", "None of these", "Map", "Changed", "Label next", "Check list", "Random check")
FINDINGS = """async () => (await axe.run()).violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 160)} ${node.failureSummary}`))"""


def findings(tab):
    """Serious and critical findings on the page as it is."""
    tab.evaluate(AXE.read_text())
    return tab.evaluate(FINDINGS)


@pytest.mark.parametrize("size", [DESK, PHONE, {"width": 683, "height": 384}], ids=["desk", "phone", "200 %"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_finding_in_any_view(scheme, size, studio, page, tmp_path):
    with studio(embeddings(tmp_path / "points.npz", 60)) as running:
        tab = page(running.address, viewport=size, color_scheme=scheme)
        assert findings(tab) == []
        for place, name in enumerate(("ash", "birch", "cedar")):
            tab.item(place).click()
            tab.label_as(name)
        tab.wait_for_counts(lambda counts: sum(counts.values()) == 60)
        for view in VIEWS:
            tab.evaluate(
                "(name) => [...document.querySelectorAll('[role=tab], #steps button')]"
                ".find((node) => node.textContent.includes(name)).click()",
                view,
            )
            tab.wait_for_timeout(200)
            assert findings(tab) == [], view
        if size != DESK:
            for part in ("Classes", "Look"):
                tab.get_by_role("group", name="Parts").get_by_role("button", name=part).click()
                assert findings(tab) == [], part


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_finding_in_any_dialog(scheme, studio, page, own_digits):
    folder, _ = own_digits
    with studio(folder, "--encoder", "pixels") as running:
        tab = page(running.address, color_scheme=scheme)
        for place, name in enumerate(("ash", "birch")):
            tab.item(place).click()
            tab.label_as(name)
        tab.wait_for_counts(lambda counts: sum(counts.values()) == 200)
        tab.item(3).click()
        assert findings(tab) == []
        openers = [
            lambda: tab.press("?"),
            lambda: tab.press("+"),
            lambda: tab.locator("#steps").get_by_role("button", name="Name classes").click(),
            lambda: tab.get_by_role("button", name="Change ash").click(),
            lambda: tab.get_by_role("button", name="Accept …").click(),
            lambda: tab.locator("#export").click(),
        ]
        for opener in openers:
            opener()
            expect(tab.locator("dialog[open]")).to_have_count(1)
            assert findings(tab) == []
            tab.press("Escape")
            expect(tab.locator("dialog[open]")).to_have_count(0)
