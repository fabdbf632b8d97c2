"""Keywords of pictures as photo managers keep them: in an XMP sidecar beside the picture, or inside it."""

from __future__ import annotations

from pathlib import Path
from xml.dom import minidom

from marginshot._lib.xml import read_xml
from marginshot.data.pictures import read_info

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_DC = "http://purl.org/dc/elements/1.1/"
_ALTERNATIVES = ("Bag", "Seq", "Alt")

_EMPTY = (
    f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="{_RDF}"><rdf:Description rdf:about=""/>'
    "</rdf:RDF></x:xmpmeta>"
).encode()


def find_sidecar(picture: Path) -> Path | None:
    """The sidecar of a picture: ``a.jpg.xmp`` (darktable, digiKam) or ``a.xmp`` (Adobe); None where there is none."""
    names = (f"{picture.name}.xmp", f"{picture.name}.XMP", f"{picture.stem}.xmp", f"{picture.stem}.XMP")
    return next((path for name in names if (path := picture.with_name(name)).is_file()), None)


def keywords_of(picture: Path) -> tuple[str, ...]:
    """Keywords of a picture, those of its sidecar or else those inside it; raises ValueError for damaged XML."""
    sidecar = find_sidecar(picture)
    if sidecar is not None:
        return read_keywords(sidecar.read_bytes(), sidecar)
    embedded = _embedded(picture)
    return () if embedded is None else read_keywords(embedded, picture)


def read_keywords(content: bytes, source: Path) -> tuple[str, ...]:
    """The keywords (``dc:subject``) in an XMP document, each once."""
    found = [_text(item) for item in _items(_read(content, source))]
    return tuple(dict.fromkeys(word for word in found if word))


def with_keyword(content: bytes | None, keyword: str, source: Path) -> bytes:
    """An XMP document with one keyword more; everything that ``content`` held stays.

    Examples
    --------
    >>> made = with_keyword(None, "heron & egret", Path("a.xmp"))
    >>> read_keywords(with_keyword(made, "gull", Path("a.xmp")), Path("a.xmp"))
    ('heron & egret', 'gull')
    """
    document = _read(_EMPTY if content is None else content, source)
    if keyword not in map(_text, _items(document)):
        item = document.createElementNS(_RDF, "rdf:li")
        item.setAttribute("xmlns:rdf", _RDF)
        item.appendChild(document.createTextNode(keyword))
        _bag(document, source).appendChild(item)
    return document.toxml(encoding="utf-8")


def _read(content: bytes, source: Path) -> minidom.Document:
    try:
        return read_xml(content.strip(b"\0 \r\n\t"))
    except ValueError as error:
        raise ValueError(f"The XMP of {source} cannot be used: {error}. Remove it, or write it again.") from error


def _items(document: minidom.Document) -> list[minidom.Element]:
    subjects = document.getElementsByTagNameNS(_DC, "subject")
    return [item for subject in subjects for item in subject.getElementsByTagNameNS(_RDF, "li")]


def _text(item: minidom.Element) -> str:
    return "".join(part.data for part in item.childNodes if isinstance(part, minidom.Text)).strip()


def _bag(document: minidom.Document, source: Path) -> minidom.Element:
    """The list of keywords, made where there is none."""
    for subject in document.getElementsByTagNameNS(_DC, "subject"):
        for kind in _ALTERNATIVES:
            if found := subject.getElementsByTagNameNS(_RDF, kind):
                return found[0]
    described = document.getElementsByTagNameNS(_RDF, "Description")
    if not described:
        raise ValueError(f"The XMP of {source} has no rdf:Description. Remove it, or write it again.")
    subject, bag = document.createElementNS(_DC, "dc:subject"), document.createElementNS(_RDF, "rdf:Bag")
    subject.setAttribute("xmlns:dc", _DC)
    bag.setAttribute("xmlns:rdf", _RDF)
    subject.appendChild(bag)
    described[0].appendChild(subject)
    return bag


def _embedded(picture: Path) -> bytes | None:
    """The XMP inside a picture, whose pixels are not read; None where it has none or cannot be opened."""
    info = read_info(picture)
    found = info.get("xmp") or info.get("XML:com.adobe.xmp")
    return found.encode() if isinstance(found, str) else found if isinstance(found, bytes) else None
