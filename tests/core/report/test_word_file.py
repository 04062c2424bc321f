"""The Word file of a report against the rules of Office Open XML, as far as they can be checked without Word."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from core.report.blocks import (
    Bullets,
    Heading,
    Link,
    Listing,
    Paragraph,
    Picture,
    QuotedMessage,
    Reference,
    Report,
    Table,
)
from core.report.word import to_docx

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100"><text x="1" y="20">a</text></svg>'
REPORT = Report(
    "Evaluation of gpt_4",
    "Evaluation report · CHART",
    (
        Heading("Methods", 2, "checklist"),
        Paragraph("Mind this.", "warning"),
        Bullets(("first", "second")),
        Reference("See ", Link("Accuracy", "part-accuracy")),
        Heading("5ai Prompts", 3, "item-5ai", "filled"),
        Heading("Accuracy", 4, "part-accuracy"),
        Table(("model", "mean"), ({"model": Link("a < b", "item-5ai"), "mean": 0.5},), "Accuracy"),
        Picture(SVG, SVG, 200, 100, "Figure", "Mean 0.5 of a"),
        Picture(SVG, SVG, 200, 100, "Figure", "Another"),
        Listing("Prompt", "a\nb"),
        QuotedMessage("doctor", "Since when?\x0b"),
    ),
    "Made today.",
)


@pytest.fixture(scope="module")
def parts() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(to_docx(REPORT))) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def body(parts: dict[str, bytes]) -> ElementTree.Element:
    return ElementTree.fromstring(parts["word/document.xml"])


def test_every_part_is_well_formed_has_a_type_and_every_relationship_a_target(parts: dict[str, bytes]) -> None:
    for name, content in parts.items():
        if name.endswith((".xml", ".rels", ".svg")):
            ElementTree.fromstring(content)
    types = ElementTree.fromstring(parts["[Content_Types].xml"])
    overrides = {node.get("PartName") for node in types if node.get("PartName")}
    endings = {node.get("Extension") for node in types if node.get("Extension")}
    for name in parts.keys() - {"[Content_Types].xml"}:
        assert f"/{name}" in overrides or name.rpartition(".")[2] in endings, name
    for name in (name for name in parts if name.endswith(".rels")):
        folder = posixpath.dirname(posixpath.dirname(name))
        for relation in ElementTree.fromstring(parts[name]):
            assert relation.get("TargetMode") != "External"
            assert posixpath.normpath(posixpath.join(folder, relation.get("Target", ""))).lstrip("/") in parts
    used = set(re.findall(rb'r:(?:embed|id|link)="(\w+)"', parts["word/document.xml"]))
    known = set(re.findall(rb' Id="(\w+)"', parts["word/_rels/document.xml.rels"]))
    assert used <= known


def test_the_properties_of_paragraphs_and_tables_come_first(parts: dict[str, bytes]) -> None:
    """Otherwise Word calls the file damaged, or shows a heading as plain text."""
    document = body(parts)
    for element in (*document.iter(f"{W}p"), *document.iter(f"{W}r"), *document.iter(f"{W}tbl")):
        names = [child.tag.removeprefix(W) for child in element]
        assert not [name for name in names[1:] if name in ("pPr", "rPr", "tblPr")]
    assert all(cell[-1].tag == f"{W}p" for cell in document.iter(f"{W}tc"))


def test_links_lead_to_bookmarks_of_this_file(parts: dict[str, bytes]) -> None:
    document = body(parts)
    marks = list(document.iter(f"{W}bookmarkStart"))
    names = [mark.get(f"{W}name", "") for mark in marks]
    assert names == ["checklist", "item_5ai", "part_accuracy"]
    assert len({mark.get(f"{W}id") for mark in marks}) == 3
    assert sorted(mark.get(f"{W}id", "") for mark in document.iter(f"{W}bookmarkEnd")) == sorted(
        mark.get(f"{W}id", "") for mark in marks
    )
    assert {link.get(f"{W}anchor") for link in document.iter(f"{W}hyperlink")} <= {*names}


def test_headings_tables_and_pictures_can_be_read_aloud(parts: dict[str, bytes]) -> None:
    document = body(parts)
    styles = [style.get(f"{W}val", "") for style in document.iter(f"{W}pStyle")]
    headings = [style for style in styles if style == "Title" or style.startswith("Heading")]
    assert headings == ["Title", "Heading1", "Heading2", "Heading3"]
    defined = set(re.findall(rb'w:styleId="([^"]+)"', parts["word/styles.xml"]))
    assert {style.encode() for style in styles} <= defined
    (table,) = document.iter(f"{W}tbl")
    assert [row.find(f"{W}trPr/{W}tblHeader") is not None for row in table.iter(f"{W}tr")] == [True, False]
    look = table.find(f"{W}tblPr/{W}tblLook")
    assert look is not None
    assert look.get(f"{W}firstRow") == "1"
    pictures = [node for node in document.iter() if node.tag.endswith("}docPr")]
    assert [picture.get("descr") for picture in pictures] == ["Mean 0.5 of a", "Another"]
    assert len({picture.get("id") for picture in pictures}) == 2


def test_the_properties_are_the_reports_and_not_those_of_the_template(parts: dict[str, bytes]) -> None:
    core = {node.tag.rpartition("}")[2]: node.text or "" for node in ElementTree.fromstring(parts["docProps/core.xml"])}
    assert core["title"] == "Evaluation of gpt_4"
    assert core["creator"] == core["lastModifiedBy"] == "Anamnesis"
    assert core["language"] == "en"
    assert core["description"] == ""
    made = datetime.fromisoformat(core["created"])
    assert datetime.now(UTC) - made < timedelta(minutes=5)
    assert not any("thumbnail" in name for name in parts)
    assert not any(b"python-docx" in content or b"Macintosh" in content for content in parts.values())
