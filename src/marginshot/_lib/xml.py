"""XML from strangers: no document type, hence no entities, nothing fetched, and a bound on size and depth."""

from __future__ import annotations

from typing import Any
from xml.dom import minidom
from xml.parsers import expat

_MOST_BYTES = 16 * 2**20
_DEEPEST = 100  # elements in each other; a sidecar has 6


def read_xml(content: bytes) -> minidom.Document:
    """The document in ``content``; raises ValueError where it is none, or one that could do harm.

    Examples
    --------
    >>> read_xml(b"<a><b/></a>").documentElement.tagName
    'a'
    """
    if len(content) > _MOST_BYTES:
        raise ValueError(f"it has {len(content):,} bytes of XML, more than {_MOST_BYTES:,}")
    depth = 0

    def refuse(*_: Any) -> None:
        raise ValueError("it declares a document type, which could define entities")

    def enter(*_: Any) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise ValueError(f"it has more than {_DEEPEST} elements in each other")

    def leave(*_: Any) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler, parser.StartElementHandler, parser.EndElementHandler = refuse, enter, leave
    try:
        parser.Parse(content, True)
        return minidom.parseString(content)  # the same parser, which found neither entities nor too many levels
    except (expat.ExpatError, UnicodeError, LookupError) as error:
        raise ValueError(f"it is not readable XML ({error})") from error
