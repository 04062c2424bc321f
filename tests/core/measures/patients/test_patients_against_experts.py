"""The rule for medical terms against the experts: on a workbook made by hand, and on the authors' release."""

from __future__ import annotations

import io
import os
from pathlib import Path

import openpyxl
import pytest

from core.errors import AnamnesisError
from core.measures.experts.workbooks import FILES
from core.measures.patients import ALL, PAPER, dialogue_of, terms_against_experts
from core.store.database import Store

RELEASE = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE")
LATIN = "Doctor-AI : What is it? \n Patient-AI : I have papules. \n Doctor-AI : Since when?"
PLAIN = "Doctor-AI : What is it? \n Patient-AI : I have bumps."
ROWS = [(LATIN, "Yes"), (LATIN, "Yes"), (LATIN, "No"), (PLAIN, "Yes"), (PLAIN, "No"), (PLAIN, "No")]


def put(store: Store, documents: dict[str, bytes]) -> None:
    with store.write() as connection:
        for path, content in documents.items():
            connection.execute("INSERT INTO release_documents VALUES (?, 'x', ?, 1.0)", [path, content])


def workbook(rows: list[tuple[str, str]]) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "GPT-4"
    sheet.append(["case_id", "multi-turn conversation", "Q1", "Q2", "Q3"])
    for number, (conversation, answer) in enumerate(rows):
        sheet.append([f"case_{number}.json", conversation, None, None, answer])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def test_a_conversation_is_read_from_its_labels() -> None:
    assert [(turn.role, turn.text) for turn in dialogue_of(LATIN)] == [
        ("doctor", "What is it?"),
        ("patient", "I have papules."),
        ("doctor", "Since when?"),
    ]


def test_precision_recall_and_kappa_by_hand(tmp_path: Path) -> None:
    store = Store(tmp_path / "results.duckdb")
    put(store, {FILES["d1"]: workbook(ROWS), FILES["d2"]: workbook([]), FILES["d3"]: workbook([])})
    rows = terms_against_experts(store)
    assert [row["model"] for row in rows] == [ALL, "gpt_4"]
    row = rows[0]
    assert (row.n, row["both"], row["rule_only"], row["experts_only"], row["neither"], row["no_text"]) == (
        6,
        2,
        1,
        1,
        2,
        0,
    )
    assert row["precision"] == row["recall"] == pytest.approx(2 / 3)
    assert row.estimate == row["rule"] == pytest.approx(1 / 2)
    assert row["kappa"] == pytest.approx((4 / 6 - 0.5) / 0.5)  # four of six agree, three would by chance


def test_without_the_workbooks_the_error_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(AnamnesisError, match="import craftmd"):
        terms_against_experts(Store(tmp_path / "results.duckdb"))


def test_on_the_release_the_experts_share_is_the_papers(tmp_path: Path) -> None:
    if not RELEASE:
        pytest.skip("needs the CRAFT-MD authors' release: set ANAMNESIS_CRAFTMD_RELEASE to its folder")
    store = Store(tmp_path / "results.duckdb")
    put(store, {path: (Path(RELEASE) / path).read_bytes() for path in FILES.values()})
    row = terms_against_experts(store)[0]
    assert (row["both"] + row["experts_only"], row.n) == PAPER
    assert row["no_text"] == 0
    assert row["recall"] > 0.7
    assert row["kappa"] > 0.25
