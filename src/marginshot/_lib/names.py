"""Untrusted names made safe: as CSV cells, as text on a terminal, as folder names."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

# The start of a formula in a spreadsheet, after any apostrophes that `safe_cell` put before it. East Asian versions
# take the wide signs for the usual ones.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_MARKED = re.compile(r"'+[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

_MOST_LISTED = 20  # names in an error: a table may have a million columns

# Characters that reverse the text after them, so that a name reads as another.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# Names of devices on Windows, in any case and with any suffix.
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)


def safe_cell(value: Any) -> Any:
    """The value of a CSV cell, with an apostrophe first where a spreadsheet would take the text for a formula.

    Numbers stay as they are, negative ones included. `original_cell` takes the apostrophe away again.

    Examples
    --------
    >>> safe_cell("=1+1"), safe_cell("-0.5"), safe_cell("'=1"), safe_cell("cat")
    ("'=1+1", '-0.5', "''=1", 'cat')
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def original_cell(text: str) -> str:
    """The text `safe_cell` was given.

    Examples
    --------
    >>> original_cell("'=1+1"), original_cell("'s Gravenhage")
    ('=1+1', "'s Gravenhage")
    """
    return text[1:] if _MARKED.match(text) else text


def shown(text: str) -> str:
    r"""Text for a terminal, with control characters and characters that reverse text escaped.

    Examples
    --------
    >>> shown("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(letter.encode("unicode_escape").decode() if _acts(letter) else letter for letter in text)


def listed(names: Collection[str]) -> str:
    """The first of these names with commas between, and how many more there are.

    Examples
    --------
    >>> listed(["path", "label"]), listed([f"c{place}" for place in range(1_000_000)])[-25:]
    ('path, label', 'c18, c19 and 999,980 more')
    """
    first = [name for name, _ in zip(names, range(_MOST_LISTED), strict=False)]
    return ", ".join(first) + (f" and {len(names) - len(first):,} more" if len(names) > len(first) else "")


def counted(n: int, one: str, several: str) -> str:
    """A number with what it counts: ``one`` of them, or ``several``."""
    return f"{n:,} {one if n == 1 else several}"


def codings(name: str) -> tuple[str, ...]:
    """The name as it is, and with its accents coded in the other ways: macOS writes two characters, others one."""
    return tuple(dict.fromkeys((name, unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name))))


def first_twice(names: Iterable[str]) -> str | None:
    """The first name that occurs more than once; None where all differ."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def is_plain(name: str) -> bool:
    """Whether a name is one line of UTF-8 text without control characters."""
    return not any(_acts(letter) or letter in "\n\t" for letter in name)


def _acts(letter: str) -> bool:
    if letter in "\n\t":
        return False
    return letter in _DIRECTIONS or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")


def folder_name(name: str) -> str:
    """A folder name for ``name``; a name that is a device on Windows gets an underscore.

    Examples
    --------
    >>> folder_name("Aux"), folder_name("nul.txt"), folder_name("cat")
    ('Aux_', 'nul_.txt', 'cat')
    """
    return _DEVICES.sub(r"\1_\2", name) if _DEVICES.fullmatch(name) else name
