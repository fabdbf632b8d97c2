"""XMP sidecars, and XML from strangers."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from marginshot._lib.xml import read_xml
from marginshot.labelling import RefusedError, label_images, label_texts
from marginshot.labelling.items.xmp import keywords_of, read_keywords, with_keyword

Image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")

SIDECAR = b"""<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:crs="urn:crs" crs:Exposure="+0.50">
<dc:subject><rdf:Bag><rdf:li>harbour</rdf:li></rdf:Bag></dc:subject></rdf:Description></rdf:RDF></x:xmpmeta>"""

ENTITIES = b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd"><!ENTITY b "&e;&e;">]><a>&b;</a>'


def keywords(content: bytes) -> list[str]:
    """All keywords in a sidecar, whoever gave them."""
    return [item.firstChild.data for item in read_xml(content).getElementsByTagName("rdf:li")]


@pytest.fixture(autouse=True)
def quick_encoder(encoded):
    return encoded


def test_sidecars_hold_the_label_and_what_was_there(workplace):
    result = label_images("photos", "examples")
    first, second, *_ = result.columns()["item"]
    Path("photos", first).with_suffix(".xmp").write_bytes(SIDECAR)
    Path("photos", f"{second}.xmp").write_bytes(ENTITIES)
    with pytest.warns(UserWarning, match=r"1 sidecars are not in the archive.*document type"):
        result.write("labelled", exports=["xmp"])
    with zipfile.ZipFile("labelled/xmp-sidecars.zip") as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    assert len(held) == len(result.columns()["item"]) - 1
    kept = held[Path(first).with_suffix(".xmp").as_posix()]
    assert keywords(kept) == ["harbour", result.labels[0]]
    assert b'crs:Exposure="+0.50"' in kept
    assert b"<?xpacket begin" in kept
    assert Path("photos", first).with_suffix(".xmp").read_bytes() == SIDECAR


def test_what_sidecars_hold_is_kept_where_pictures_are_moved(workplace):
    result = label_images("photos", "examples")
    first = result.columns()["item"][0]
    Path("photos", f"{first}.xmp").write_bytes(SIDECAR)
    result.write("labelled", exports=["xmp"], transfer="move")
    with zipfile.ZipFile("labelled/xmp-sidecars.zip") as archive:
        kept = archive.read(f"{result.labels[0]}/{first}.xmp")
    assert keywords(kept) == ["harbour", result.labels[0]]


def test_pictures_of_one_name_share_a_sidecar(workplace):
    first = Path("photos/red-2.png")
    Image.open(first).save(first.with_suffix(".bmp"))
    first.with_suffix(".xmp").write_bytes(SIDECAR)
    label_images("photos", "examples").write("labelled", exports=["xmp"])
    with zipfile.ZipFile("labelled/xmp-sidecars.zip") as archive:
        assert archive.namelist().count("red-2.xmp") == 1
        assert keywords(archive.read("red-2.xmp")) == ["harbour", "red"]


def test_a_guess_is_no_keyword_of_a_person_and_gives_way_to_the_next(workplace):
    def put_beside(*examples):
        result = label_images("photos", examples)
        result.write("labelled", exports=["xmp"], force=True)
        with zipfile.ZipFile("labelled/xmp-sidecars.zip") as archive:
            archive.extractall("photos")
        return dict(zip(result.columns()["item"], result.labels, strict=False))

    Path("photos/red-2.xmp").write_bytes(SIDECAR)
    guessed = put_beside("examples")
    with pytest.raises(ValueError, match="there is only 'harbour'"):
        label_images("photos", "xmp")
    assert keywords_of(Path("photos/red-2.png")) == ("harbour",)
    Path("known.csv").write_text("path,label\nred-2.png,rose\nblue-2.png,blue\n")
    put_beside("known.csv")
    assert keywords(Path("photos/red-2.xmp").read_bytes()) == ["harbour", "rose"]
    assert keywords_of(Path("photos/red-2.png")) == ("harbour", "rose")
    others = {item: keywords(Path("photos", f"{item}.xmp").read_bytes()) for item in guessed if item != "red-2.png"}
    assert {len(found) for found in others.values()} == {1}


@pytest.mark.parametrize(
    "mark", ['m:guess="red"/>', "><m:guess>red</m:guess></rdf:Description>"], ids=["attribute", "element"]
)
def test_the_mark_of_a_guess_is_found_as_other_programs_write_it(mark):
    namespace = 'xmlns:m="https://marginshot.readthedocs.io/ns/1.0/"'
    marked = f'<rdf:Description rdf:about="" {namespace} {mark}</rdf:RDF>'
    held = SIDECAR.decode().replace("harbour", "red").replace("</rdf:RDF>", marked).encode()
    assert read_keywords(held, Path("x")) == ()
    assert read_keywords(with_keyword(held, "rose", Path("x")), Path("x")) == ("rose",)


@pytest.mark.parametrize("subject", ["", "<dc:subject/>", "<dc:subject>  </dc:subject>"])
@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
def test_keywords_go_where_none_are_yet(subject, coding):
    start, _, rest = SIDECAR.decode().partition("\n")[2].partition("<dc:subject>")
    held = (start + subject + rest.partition("</dc:subject>")[2] + "\n").encode(coding)
    made = with_keyword(held, "red", Path("x"))
    assert read_keywords(made, Path("x")) == ("red",)
    assert made.count(b"<dc:subject") == 1


def test_keywords_inside_a_picture_are_read(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", xmp=SIDECAR)
    assert keywords_of(tmp_path / "a.jpg") == ("harbour",)
    (tmp_path / "a.jpg.xmp").write_bytes(with_keyword(None, "gull", tmp_path / "a.jpg"))
    assert keywords_of(tmp_path / "a.jpg") == ("gull",)
    Image.new("RGB", (8, 8)).save(tmp_path / "b.png")
    assert keywords_of(tmp_path / "b.png") == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (ENTITIES, "document type"),
        (b"<a>" * 200 + b"</a>" * 200, "more than 100 elements"),
        (b"<a>", "not readable XML"),
        (b"<?xml version='1.0' encoding='nonsense'?><a/>", "not readable XML"),
        (b" " * (2**24 + 1), "more than 16,777,216"),
        (b"\xff\xfe<", "not readable XML"),
    ],
)
def test_xml_that_could_do_harm_is_refused(content, words):
    with pytest.raises(ValueError, match=words):
        read_xml(content)


def test_texts_have_no_sidecars(tmp_path):
    result = label_texts(["late train", "train is late", "sweet cake"], ["travel", "", "food"], cache=False)
    with pytest.raises(RefusedError, match="sidecars describe pictures"):
        result.write(tmp_path / "labels.csv", exports=["xmp"], cache=False)
    assert not any(tmp_path.iterdir())
