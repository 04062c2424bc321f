"""Annotations come in from workbooks and CSV files, once, and go out again without telling what is blinded."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest

from core import access
from core.errors import AnamnesisError, UsageError
from core.measures.experts.adjudication import decisions_of, imported_reviews
from core.measures.experts.workbooks import FILES, WorkbookRow, import_release_answers, matching_item
from core.reviews.exchange import HIDDEN, export_answers, import_csv, import_file
from core.reviews.reviewing import unblind
from core.store.database import Store
from core.store.queries.judgements import judgements
from tests.core.measures.experts.reviews import MODELS, a_review, answer_all
from tests.core.measures.experts.test_experts import workbook

RELEASE = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE")
HEAD = "item,model,case,annotator,question,value,comment\n"


def a_csv(*lines: str, head: str = HEAD) -> bytes:
    return (head + "\n".join(lines) + "\n").encode()


def test_a_csv_comes_in_row_by_row_and_rejected_lines_are_named(store: Store) -> None:
    content = a_csv(
        "talk:t00,,,Ada,medical_terms,Yes,plain words",
        f",{MODELS[1]},ours/2,Ada,medical_terms,no,",
        ",gpt_9,ours/2,Ada,medical_terms,no,",
        "talk:nowhere,,,Ada,medical_terms,no,",
        "talk:t00,,,Ada,fine,no,",
        "talk:t00,,,Ada,medical_terms,perhaps,",
        "talk:t00,,,,medical_terms,no,",
        "chat:t00,,,Ada,medical_terms,no,",
        ",,,Ada,medical_terms,no,",
    )
    result = import_csv(store, content)
    assert (result.added, result.items, result.matched) == (3, 3, 2)
    assert [line for line, _ in result.rejected] == [5, 6, 7, 8, 9, 10]
    reasons = dict(result.rejected)
    assert "no stored trial for talk:nowhere" in reasons[5]
    assert "'fine' is not one of" in reasons[6]
    assert "'perhaps' is not an answer" in reasons[7]
    assert "is no item" in reasons[9]
    with store.read() as cursor:
        stored = {entry.subject: entry for entry in judgements(cursor, review_id="imported")}
    assert set(stored) == {"talk:t00", "talk:t12", "release:gpt_9:ours/2"}
    assert (stored["talk:t00"].value, stored["talk:t00"].comment) == ("yes", "plain words")


def test_a_rejected_row_has_the_line_on_which_it_begins(store: Store) -> None:
    rows = (
        'talk:t00,,,Ada,medical_terms,yes,"two\nlines"',
        "talk:t00,,,Ada,fine,no,",
        "talk:t00,,,Ada,medical_terms,?,",
    )
    result = import_csv(store, a_csv(*rows))
    assert (result.added, [line for line, _ in result.rejected]) == (1, [4, 5])


def test_the_same_file_adds_nothing_twice_and_a_changed_row_does(store: Store) -> None:
    import_csv(store, a_csv("talk:t00,,,Ada,medical_terms,yes,", "talk:t01,,,Ada,medical_terms,no,"))
    again = import_csv(store, a_csv("talk:t00,,,Ada,medical_terms,yes,", "talk:t01,,,Ada,medical_terms,yes,"))
    assert (again.added, again.unchanged) == (1, 1)


@pytest.mark.slow
def test_of_three_who_judged_the_last_breaks_the_tie(store: Store) -> None:
    for name, value in (("Ada", "yes"), ("Ben", "no"), ("Cyd", "no")):
        import_csv(store, a_csv(f"talk:t00,,,{name},medical_terms,{value},"))
    (decision,) = decisions_of(imported_reviews(store)[0])
    assert (decision.model, decision.answer) == (MODELS[0], "no")
    assert decision.answers == {"Ada": "yes", "Ben": "no"}


@pytest.mark.parametrize(("content", "says"), [(b"a,b\n1,2\n", "lacks columns"), (b"\xff\xfe\x00", "not CSV in UTF-8")])
def test_what_is_no_such_csv_is_said(store: Store, content: bytes, says: str) -> None:
    with pytest.raises(AnamnesisError, match=says):
        import_csv(store, content)


def test_only_a_csv_that_can_be_read_is_imported(store: Store, tmp_path: Path) -> None:
    book = tmp_path / "mine.xlsx"
    book.write_bytes(workbook([["case_7.json", "…", "Yes", "no", None]]))
    with pytest.raises(UsageError, match=r"is not \.csv"):
        import_file(store, book)
    with pytest.raises(UsageError, match="cannot be read"):
        import_file(store, tmp_path / "gone.csv")


def test_a_workbooks_conversation_is_found_by_its_words() -> None:
    messages = "Doctor-AI : What brings you in? \n Patient-AI : I itch -  at night! "
    row = WorkbookRow("gpt_3_5", "case_7", "d1", messages, "**Final Diagnosis:** Scabies.", {})
    spoken = ["What brings you in?", "I itch - at night!"]
    conversations = {
        "a": [*spoken, "**Final Diagnosis:** Gout"],
        "b": [*spoken, "**Final Diagnosis:** Scabies"],
        "c": ["What brings you in?", "I itch.", "**Final Diagnosis:** Scabies"],
    }
    pair = ("gpt_3_5", "craftmd/case_7")
    assert str(matching_item(row, pair, conversations)) == "talk:b"
    assert str(matching_item(row, pair, {"a": conversations["a"]})) == "talk:a"
    assert str(matching_item(row, pair, {"c": conversations["c"]})) == "release:gpt_3_5:craftmd/case_7"


def exported(store: Store) -> list[dict[str, str]]:
    text = io.StringIO()
    export_answers(store, text)
    return list(csv.DictReader(io.StringIO(text.getvalue())))


def test_an_export_has_only_own_answers_of_a_blinded_review_without_models(store: Store) -> None:
    review = a_review(store, number=12, shared=0)
    for name in ("Ada", "Ben"):
        answer_all(store, review, name)
    import_csv(store, a_csv("talk:t00,,,Ada,medical_terms,yes,"))
    assert [row["review"] for row in exported(store)] == ["imported"]
    with access.acting(access.Visitor("ada", "look")):
        rows = exported(store)
    assert {row["annotator"] for row in rows} == {"Ada"}
    blinded = [row for row in rows if row["review"] == "First"]
    assert {row["model"] for row in blinded} == {HIDDEN}
    assert all(row["item"].startswith("item ") for row in blinded)
    assert [row["model"] for row in rows if row["review"] == "imported"] == [MODELS[0]]
    unblind(store, "First", "Ada")
    assert {row["model"] for row in exported(store) if row["review"] == "First"} == set(MODELS)


def test_the_releases_workbooks_hang_on_the_conversations_with_the_same_words(store: Store) -> None:
    if not RELEASE:
        pytest.skip("needs the CRAFT-MD authors' release: set ANAMNESIS_CRAFTMD_RELEASE to its folder")
    with store.write() as connection:
        for path in FILES.values():
            content = (Path(RELEASE) / path).read_bytes()
            connection.execute("INSERT INTO release_documents VALUES (?, 'x', ?, 1.0)", [path, content])
    result = import_release_answers(store)
    assert (result.items, result.matched) == (180, 0)  # none of its conversations is stored here
    assert import_release_answers(store).added == 0
    decisions = decisions_of(imported_reviews(store)[0])
    yes = sum(entry.answer == "yes" for entry in decisions if entry.question == "medical_terms")
    assert (yes, sum(entry.question == "medical_terms" for entry in decisions)) == (13, 180)
