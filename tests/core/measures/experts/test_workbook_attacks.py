"""Experts' files made to do harm: each is read as text or refused in a sentence, soon, and nothing half of it stays."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from itertools import product

import openpyxl
import pytest

from core.errors import AnamnesisError
from core.measures.experts.workbooks import read_rows
from core.reviews.exchange import export_answers, import_csv
from core.reviews.state import state_of
from core.store.database import Store
from core.store.queries.judgements import judgements
from tests.core.measures.experts.reviews import a_review
from tests.core.measures.experts.test_experts import HEADER, workbook
from tests.core.measures.experts.test_experts_importing import a_csv

ROW = ["case_7.json", "…", "yes", "no", "no"]
SHEET = "xl/worksheets/sheet1.xml"
LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY a "ha">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + n, b"&%c;" % (97 + n) * 10) for n in range(9))
    + b"]>"
)
OUTSIDE = b'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY j SYSTEM "file:///etc/passwd">]>'


def repacked(content: bytes, change: Callable[[str, bytes], bytes], **more: bytes) -> bytes:
    """Return a workbook with each of its parts changed, and more parts."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as book,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as changed,
    ):
        for name in book.namelist():
            changed.writestr(name, change(name, book.read(name)))
        for name, part in more.items():
            changed.writestr(name, part)
    return out.getvalue()


def with_entities(declared: bytes, part: str) -> bytes:
    def change(name: str, xml: bytes) -> bytes:
        if name != part:
            return xml
        body = xml.partition(b"?>")[2] if xml.startswith(b"<?xml") else xml
        return declared + body.replace(b"case_7.json", b"&j;").replace(b"GPT-4", b"&j;")

    return repacked(workbook([ROW]), change)


def refusal(content: bytes) -> str | None:
    """Return the sentence with which a workbook is refused, or None for one that is read."""
    try:
        read_rows(content, "d1")
    except AnamnesisError as error:
        return str(error)
    return None


def test_entities_are_not_resolved() -> None:
    began = time.process_time()
    refusals = {
        (declared, part): refusal(with_entities(declared, part))
        for declared, part in product((LAUGHS, OUTSIDE), (SHEET, "xl/workbook.xml", "[Content_Types].xml"))
    }
    assert [key for key, words in refusals.items() if not words or "root:" in words or len(words) >= 400] == []
    assert time.process_time() - began < 5


@pytest.mark.slow
@pytest.mark.parametrize("part", ["xl/worksheets/sheet2.xml", "xl/sharedStrings.xml"])
def test_a_workbook_that_unpacks_without_end_is_refused_before_it_is_unpacked(part: str) -> None:
    content = repacked(workbook([ROW]), lambda _, xml: xml, **{part: b" " * 150_000_000})
    assert len(content) < 1_000_000
    began = time.process_time()
    with pytest.raises(AnamnesisError, match="unpacks to more"):
        read_rows(content, "d1")
    assert time.process_time() - began < 1


def test_wrong_bytes_are_a_sentence() -> None:
    whole = workbook([ROW] * 5)
    read: list[int] = []
    for seed in range(0, 60, 3):
        content = bytearray(whole)
        for position in range(seed, len(content), 97):
            content[position] ^= 0x5A
        if refusal(bytes(content)) is None:
            read.append(seed)
    assert read == []


def test_a_part_that_holds_something_else_is_read_or_is_a_sentence() -> None:
    whole = workbook([ROW])
    parts = (SHEET, "xl/sharedStrings.xml", "xl/workbook.xml", "xl/styles.xml")
    contents = (b"", b"<", b"<worksheet/>", b"\0" * 10, "<a>ü</a>".encode("utf-16"), b"<sst><si/></sst>")
    for part, xml in product(parts, contents):
        content = repacked(whole, lambda name, original, part=part, xml=xml: xml if name == part else original)
        try:
            rows = read_rows(content, "d1")
        except AnamnesisError:
            continue
        assert all(set(row.answers.values()) <= {"yes", "no"} for row in rows), (part, xml)


def test_an_answer_that_is_neither_yes_nor_no_is_refused_by_its_row() -> None:
    cells = (1, True, 1.5, "maybe", "yes, no", "y" * 32_000, "'=1+1")
    refusals = {str(cell)[:9]: refusal(workbook([[*ROW[:2], cell, "no", "no"]])) for cell in cells}
    assert [cell for cell, words in refusals.items() if not words or "row 4" not in words or len(words) >= 200] == []


def test_a_formula_that_was_never_computed_is_an_empty_cell() -> None:
    for cell in ('=HYPERLINK("https://evil.example","yes")', "='[https://evil.example/a.xlsx]S'!A1"):
        rows = read_rows(workbook([[*ROW[:2], cell, "no", "no"]]), "d1")
        assert [row.answers for row in rows] == [{"complete_history": "no", "medical_terms": "no"}], cell


def test_macros_are_neither_run_nor_kept() -> None:
    content = repacked(workbook([ROW]), lambda _, xml: xml, **{"xl/vbaProject.bin": b"\xd0\xcf\x11\xe0" * 100})
    assert [row.case for row in read_rows(content, "d1")] == ["case_7"]


def test_a_workbook_with_a_hidden_sheet_is_refused() -> None:
    book = openpyxl.load_workbook(io.BytesIO(workbook([ROW])))
    hidden = book.create_sheet("GPT-3.5")
    hidden.sheet_state = "veryHidden"
    for row in (HEADER, ["case_9.json", "…", "no", "no", "no"]):
        hidden.append(row)
    content = io.BytesIO()
    book.save(content)
    with pytest.raises(AnamnesisError, match=r"hidden sheet \(GPT-3.5\)"):
        read_rows(content.getvalue(), "d1")


def test_rows_for_a_running_review_never_reach_it(store: Store) -> None:
    """Neither under another reviewer's name nor for items of another review, twice or with ids that do not exist."""
    review = a_review(store, annotators=("Ada", "Ben"))
    before = state_of(store, review.review_id)
    result = import_csv(
        store,
        a_csv(
            "talk:t00,,,Ada,medical_terms,yes,",
            "talk:t00,,,Ada,medical_terms,no,changed",
            "talk:t00,,,Ben,medical_terms,no,",
            "talk:t00' OR 1=1 --,,,Ada,medical_terms,yes,",
            "talk:../../etc/passwd,,,Ada,medical_terms,yes,",
            "talk:,,,Ada,medical_terms,yes,",
            "answer:t00:multi_turn:mcq,,,Ada,medical_terms,yes,",
            ",=cmd|' /C calc'!A0,<script>,=1+1,medical_terms,yes,=1+1",
            "talk:t00,,,Ada,medical_terms,=1+1,",
            "talk:t00,,,Ada,drop_table,yes,",
            ",,,,,,",
        ),
    )
    assert state_of(store, review.review_id).newest == before.newest
    assert [line for line, _ in result.rejected] == [5, 6, 7, 8, 10, 11, 12]
    out = io.StringIO()
    export_answers(store, out)
    assert not any(cell.startswith(("=", "+", "@")) for cell in out.getvalue().replace("\n", ",").split(","))
    with store.read() as cursor:
        assert len(list(judgements(cursor, kinds=("person",)))) == 3
