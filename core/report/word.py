"""A report as a Word file, by python-docx: headings, tables, links inside the file, and pictures as SVG.

Word shows an SVG since version 2016; for other programs each picture has a PNG that says so. Nothing in the file refers
to another file or address.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from docx import Document
from docx.document import Document as WordDocument
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Inches, Pt, RGBColor
from docx.text.paragraph import Paragraph as WordParagraph
from PIL import Image, ImageDraw

from core.export.visible import visible
from core.report.blocks import (
    Block,
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
    cell_text,
    is_numeric,
)

_PAGE_INCHES = 6.5
_SVG = (
    '<a:extLst xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
    '<a:ext uri="{{96DAC541-7B7A-43D3-8B79-37D633B846F1}}">'
    '<asvg:svgBlip xmlns:asvg="http://schemas.microsoft.com/office/drawing/2016/SVG/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" r:embed="{id}"/>'
    "</a:ext></a:extLst>"
)
_THUMBNAIL = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/thumbnail"
_SOFT, _ACCENT = RGBColor(0x5A, 0x6B, 0x6B), RGBColor(0x0B, 0x6E, 0x69)


def to_docx(report: Report) -> bytes:
    """Return the report as a Word file."""
    document = Document()
    for section in document.sections:
        section.left_margin = section.right_margin = Inches(1)
    document.styles["Normal"].font.size = Pt(10)
    _describe(document, report)
    document.add_paragraph(visible(report.kind))
    document.add_heading(visible(report.title), 0)
    for number, block in enumerate(report.blocks):
        _WRITERS[type(block)](document, block, number)
    document.add_paragraph(visible(f"{report.made} None of it is for care."))
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def _describe(document: WordDocument, report: Report) -> None:
    """Set the properties of the file; those of python-docx's template would be left: its date, remark and picture."""
    properties = document.core_properties
    properties.title = visible(report.title)[:255]
    properties.subject = visible(report.kind)[:255]
    properties.author = properties.last_modified_by = "Anamnesis"
    properties.language = "en"
    properties.comments = ""
    properties.created = properties.modified = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    package = document.part.package
    for id_, relation in list(package.rels.items()):
        if relation.reltype in (RELATIONSHIP_TYPE.EXTENDED_PROPERTIES, _THUMBNAIL):
            package.rels.pop(id_)


def _heading(document: WordDocument, block: Heading, number: int) -> None:
    mark = f" ({block.mark})" if block.mark else ""
    paragraph = document.add_heading(visible(f"{block.text}{mark}"), block.level - 1)
    if block.anchor:
        _bookmark(paragraph, block.anchor, number)


def _bookmark(paragraph: WordParagraph, anchor: str, number: int) -> None:
    start, end = OxmlElement("w:bookmarkStart"), OxmlElement("w:bookmarkEnd")
    for element in (start, end):
        element.set(qn("w:id"), str(number))
    start.set(qn("w:name"), _name_of(anchor))
    properties = paragraph._p.pPr
    paragraph._p.insert(0 if properties is None else 1, start)  # the properties of a paragraph must come first
    paragraph._p.append(end)


def _name_of(anchor: str) -> str:
    """Return the name of a bookmark, which has at most 40 letters, digits and underscores."""
    return "".join(letter if letter.isalnum() else "_" for letter in anchor)[:40]


def _add_link(paragraph: WordParagraph, link: Link) -> None:
    run = paragraph.add_run(visible(link.text))
    run.font.color.rgb = _ACCENT
    element = OxmlElement("w:hyperlink")
    element.set(qn("w:anchor"), _name_of(link.anchor))
    paragraph._p.remove(run._r)
    element.append(run._r)
    paragraph._p.append(element)


def _paragraph(document: WordDocument, block: Paragraph, number: int) -> None:
    style = "Intense Quote" if block.tone in ("warning", "open") else None
    run = document.add_paragraph(style=style).add_run(visible(block.text))
    if block.tone == "command":
        run.font.name, run.font.size = "Courier New", Pt(8)
    if block.tone == "soft":
        run.font.color.rgb = _SOFT


def _bullets(document: WordDocument, block: Bullets, number: int) -> None:
    for text in block.items:
        document.add_paragraph(visible(text), style="List Bullet")


def _reference(document: WordDocument, block: Reference, number: int) -> None:
    _add_link(document.add_paragraph(visible(block.before)), block.link)


def _table(document: WordDocument, block: Table, number: int) -> None:
    """Add a table, written as XML: python-docx takes seconds for a table of a hundred rows."""
    if block.caption:
        document.add_paragraph(visible(block.caption), style="Caption")
    columns = [(name, is_numeric(block, name)) for name in block.columns]
    heads = "".join(_cell(escape(block.head(name)), numeric, bold=True) for name, numeric in columns)
    rows = [f"<w:tr><w:trPr><w:tblHeader/></w:trPr>{heads}</w:tr>"]
    for row in block.rows:
        cells = (_cell_of(row.get(name), name, numeric) for name, numeric in columns)
        rows.append(f"<w:tr>{''.join(cells)}</w:tr>")
    grid = "<w:gridCol/>" * len(columns)
    table = parse_xml(
        f'<w:tbl {nsdecls("w")}><w:tblPr><w:tblStyle w:val="TableGrid"/><w:tblW w:w="5000" w:type="pct"/>'
        '<w:tblLook w:val="0020" w:firstRow="1"/></w:tblPr>'
        f"<w:tblGrid>{grid}</w:tblGrid>{''.join(rows)}</w:tbl>"
    )
    document.add_paragraph()._p.addprevious(table)


def _cell_of(value: Any, column: str, numeric: bool) -> str:
    text = escape(visible(cell_text(value, column)))
    return _cell(text, numeric, anchor=_name_of(value.anchor) if isinstance(value, Link) else "")


def _cell(text: str, numeric: bool, *, bold: bool = False, anchor: str = "") -> str:
    """Return the XML of a cell with an escaped text."""
    weight = "<w:b/>" if bold else ""
    run = f'<w:r><w:rPr>{weight}<w:sz w:val="16"/></w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'
    if anchor:
        run = f'<w:hyperlink w:anchor="{anchor}">{run}</w:hyperlink>'
    side = '<w:jc w:val="right"/>' if numeric else ""
    return f'<w:tc><w:p><w:pPr><w:spacing w:after="0"/>{side}</w:pPr>{run}</w:p></w:tc>'


def _picture(document: WordDocument, block: Picture, number: int) -> None:
    shape = document.add_picture(io.BytesIO(_placeholder(block)), width=Inches(_PAGE_INCHES))
    shape._inline.docPr.set("descr", visible(block.alternative)[:2000])
    package = document.part.package
    part = Part(PackURI(f"/word/media/picture{number}.svg"), "image/svg+xml", block.svg.encode("utf-8"), package)
    relation = document.part.relate_to(part, RELATIONSHIP_TYPE.IMAGE)
    blip = shape._inline.graphic.graphicData.pic.blipFill.blip
    blip.append(parse_xml(_SVG.format(id=relation)))
    document.add_paragraph(visible(block.caption), style="Caption")


def _placeholder(block: Picture) -> bytes:
    """Return a picture of the same shape for programs that draw no SVG: the figures in words."""
    image = Image.new("RGB", (block.width * 2, block.height * 2), "white")
    words = textwrap.fill(f"This program draws no SVG. {block.alternative}", block.width // 4)
    ImageDraw.Draw(image).multiline_text((20, 20), words.encode("latin-1", "replace").decode("latin-1"), fill="black")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _listing(document: WordDocument, block: Listing, number: int) -> None:
    document.add_paragraph(visible(block.title), style="Caption")
    run = document.add_paragraph().add_run(visible(block.text))
    run.font.name, run.font.size = "Courier New", Pt(8)


def _message(document: WordDocument, block: QuotedMessage, number: int) -> None:
    paragraph = document.add_paragraph()
    paragraph.add_run(f"{visible(block.speaker)}: ").bold = True
    paragraph.add_run(visible(block.text))


_WRITERS: Mapping[type[Block], Callable[[WordDocument, Any, int], None]] = {
    Heading: _heading,
    Paragraph: _paragraph,
    Bullets: _bullets,
    Reference: _reference,
    Table: _table,
    Picture: _picture,
    Listing: _listing,
    QuotedMessage: _message,
}
