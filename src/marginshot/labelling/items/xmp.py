"""Keywords of pictures as photo managers keep them: in an XMP sidecar beside the picture, or inside it."""

from __future__ import annotations

import codecs
from collections.abc import Collection as Names
from collections.abc import Iterable
from pathlib import Path
from xml.dom import minidom

from marginshot._lib.names import counted
from marginshot._lib.xml import read_xml
from marginshot.data.pictures import read_info
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.collection import MEAN_UNKNOWN

#: What stands for the keywords of the pictures among the folders and tables of examples.
KEYWORDS = "xmp"

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_DC = "http://purl.org/dc/elements/1.1/"
_OURS = "https://marginshot.readthedocs.io/ns/1.0/"
_ALTERNATIVES = ("Bag", "Seq", "Alt")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_EMPTY = (
    f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="{_RDF}"><rdf:Description rdf:about=""/>'
    "</rdf:RDF></x:xmpmeta>"
).encode()


def find_sidecar(picture: Path) -> Path | None:
    """The sidecar of a picture: ``a.jpg.xmp`` (darktable, digiKam) or ``a.xmp`` (Adobe); None where there is none."""
    names = (f"{picture.name}.xmp", f"{picture.name}.XMP", f"{picture.stem}.xmp", f"{picture.stem}.XMP")
    return next((path for name in names if (path := picture.with_name(name)).is_file()), None)


def is_keywords(source: Path) -> bool:
    """Whether a source of examples stands for keywords; a folder or file of that name does not."""
    return str(source) == KEYWORDS and not source.exists()


def labels_by_keyword(
    folder: Path, pictures: Iterable[Path], classes: Names[str]
) -> tuple[list[tuple[Path, str]], list[str]]:
    """The ``pictures`` of a ``folder`` that have one keyword, with that, and sentences on the others.

    Where ``classes`` are named, no other keyword counts. Raises RefusedError where no picture is left.
    """
    found, n_several, unusable = [], 0, []
    for picture in pictures:
        try:
            words = keywords_of(picture)
        except (OSError, ValueError) as error:
            unusable.append(str(error))
            continue
        own = [word for word in words if (word in classes if classes else word not in MEAN_UNKNOWN)]
        found += [(picture, own[0])] if len(own) == 1 else []
        n_several += len(own) > 1
    several = counted(n_several, "has several", "have several")
    if not found and n_several:
        raise RefusedError(
            "no picture of {folder} has one keyword alone, and {several}. Name those that are classes with {classes}.",
            at_fault=Option.EXAMPLES,
            folder=folder,
            several=several,
            classes=Option.CLASSES,
        )
    if not found:
        why = unusable[0] if unusable else "There is no keyword in their sidecars nor inside them."
        raise RefusedError(f"no picture of {folder} has a keyword of a person. {why}", at_fault=Option.EXAMPLES)
    one = counted(len(found), "picture has one, and is an example", "pictures have one, and are examples")
    rest = f"; {several}, and {'is' if n_several == 1 else 'are'} not" if n_several else ""
    unread = [f"{counted(len(unusable), 'picture is', 'pictures are')} no example. {unusable[0]}"] if unusable else []
    return found, [f"Keywords: {one}{rest}.", *unread]


def keywords_of(picture: Path) -> tuple[str, ...]:
    """Keywords of a picture, those of its sidecar or else those inside it; raises ValueError for damaged XML."""
    sidecar = find_sidecar(picture)
    if sidecar is not None:
        return read_keywords(sidecar.read_bytes(), sidecar)
    embedded = _embedded(picture)
    return () if embedded is None else read_keywords(embedded, picture)


def read_keywords(content: bytes, source: Path) -> tuple[str, ...]:
    """The keywords (``dc:subject``) in an XMP document, each once, without one that we guessed."""
    document = _read(content, source)
    guess = _guess(document)
    return tuple(dict.fromkeys(word for word in map(_text, _items(document)) if word not in ("", guess)))


def with_keyword(content: bytes | None, keyword: str, source: Path, *, guessed: bool = False) -> bytes:
    """An XMP document with one keyword more; everything that ``content`` held stays, but for an earlier guess.

    A keyword that was ``guessed`` is marked, so that it is not taken for a person's later.

    Examples
    --------
    >>> made = with_keyword(None, "heron & egret", Path("a.xmp"))
    >>> read_keywords(with_keyword(made, "gull", Path("a.xmp")), Path("a.xmp"))
    ('heron & egret', 'gull')
    """
    document = _read(_EMPTY if content is None else content, source)
    described = document.getElementsByTagNameNS(_RDF, "Description")
    if not described:
        raise ValueError(f"The XMP of {source} has no rdf:Description. Remove it, or write it again.")
    earlier = _guess(document)
    for item in _items(document):
        if earlier and _text(item) == earlier:
            item.parentNode.removeChild(item)  # type: ignore[union-attr]
    _forget_guess(document)
    if keyword not in map(_text, _items(document)):
        _bag(document, described[0]).appendChild(_item(document, keyword))
        if guessed:
            described[0].setAttribute("xmlns:marginshot", _OURS)
            described[0].setAttributeNS(_OURS, "marginshot:guess", keyword)
    return document.toxml(encoding="utf-8")


def _guess(document: minidom.Document) -> str:
    """The keyword that we guessed; empty where there is none. Other programs turn attributes into elements."""
    elements = document.getElementsByTagNameNS(_OURS, "guess")
    described = document.getElementsByTagNameNS(_RDF, "Description")
    found = [*map(_text, elements), *(one.getAttributeNS(_OURS, "guess") for one in described)]
    return next(filter(None, found), "")


def _forget_guess(document: minidom.Document) -> None:
    for element in document.getElementsByTagNameNS(_OURS, "guess"):
        element.parentNode.removeChild(element)  # type: ignore[union-attr]
    for one in document.getElementsByTagNameNS(_RDF, "Description"):
        if one.hasAttributeNS(_OURS, "guess"):
            one.removeAttributeNS(_OURS, "guess")


def _item(document: minidom.Document, keyword: str) -> minidom.Element:
    item = document.createElementNS(_RDF, "rdf:li")
    item.setAttribute("xmlns:rdf", _RDF)
    item.appendChild(document.createTextNode(keyword))
    return item


def _read(content: bytes, source: Path) -> minidom.Document:
    try:
        return read_xml(content if content.startswith(_UTF_16) else content.strip(b"\0 \r\n\t"))
    except ValueError as error:
        raise ValueError(f"The XMP of {source} cannot be used: {error}. Remove it, or write it again.") from error


def _items(document: minidom.Document) -> list[minidom.Element]:
    subjects = document.getElementsByTagNameNS(_DC, "subject")
    return [item for subject in subjects for item in subject.getElementsByTagNameNS(_RDF, "li")]


def _text(item: minidom.Element) -> str:
    return "".join(part.data for part in item.childNodes if isinstance(part, minidom.Text)).strip()


def _bag(document: minidom.Document, described: minidom.Element) -> minidom.Element:
    """The list of keywords, made where there is none: a property stands there once, also where it is empty."""
    subjects = document.getElementsByTagNameNS(_DC, "subject")
    for subject in subjects:
        for kind in _ALTERNATIVES:
            if found := subject.getElementsByTagNameNS(_RDF, kind):
                return found[0]
    subject = subjects[0] if subjects else document.createElementNS(_DC, "dc:subject")
    if not subjects:
        subject.setAttribute("xmlns:dc", _DC)
        described.appendChild(subject)
    bag = document.createElementNS(_RDF, "rdf:Bag")
    bag.setAttribute("xmlns:rdf", _RDF)
    subject.appendChild(bag)
    return bag


def _embedded(picture: Path) -> bytes | None:
    """The XMP inside a picture, whose pixels are not read; None where it has none or cannot be opened."""
    info = read_info(picture)
    found = info.get("xmp") or info.get("XML:com.adobe.xmp")
    return found.encode() if isinstance(found, str) else found if isinstance(found, bytes) else None
