"""Variants of steps in the database: they are read back complete and in order, and deleted with their trial."""

from __future__ import annotations

from pathlib import Path

from core.asking.parts import PromptPart
from core.events import CallRecord
from core.journal import DeletedLine
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.variants import JOURNAL, Variant, line_of, variants_of
from tests.core.store.builders import a_header, a_trial, keep_lines, write_journal

MESSAGES = (
    PromptPart("system", "Be “brief”.\n", "system", "prompts/craftmd/doctor.md", "0a", "doctor", {"specialty": "x"}),
    PromptPart("user", "A. Gout", "question", prompt="answer_mcq", values={"choices": [["A", "Gout"]]}, joined=True),
)


def a_variant(step_key: str = "ask:2", **changes: object) -> Variant:
    return Variant("run/1/0", step_key, MESSAGES, "openai/m", **changes)  # type: ignore[arg-type]


def a_call(cost: float | None, error: str | None = None) -> CallRecord:
    return CallRecord(
        call_id="c",
        role="doctor",
        purpose="answer",
        model="openai/m",
        request={"messages": []},
        error=error,
        prompt_tokens=5,
        completion_tokens=2,
        latency_s=1.5,
        cost_usd=cost,
    )


def test_a_variant_is_read_back_complete_and_the_oldest_comes_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "x.duckdb")
    later = a_variant(
        response="Gout",
        extracted="gout",
        verdicts=(("frq", "correct"),),
        grader="g",
        calls=(a_call(0.5),),
        note="brief",
        made_at=9.0,
    )
    failed = a_variant(reason="refused", detail="no", made_at=5.0)
    other = a_variant("answer:vignette:mcq", made_at=7.0)
    for variant in (later, failed, other):
        keep_lines(store, JOURNAL, [line_of(variant)])
    with store.read() as cursor:
        assert variants_of(cursor, "run/1/0") == [failed, other, later]
        assert variants_of(cursor, "run/1/0", "ask:2") == [failed, later]
        assert variants_of(cursor, "run/1/1") == []


def test_the_variants_of_a_deleted_trial_go_with_it(tmp_path: Path) -> None:
    store = Store(tmp_path / "x.duckdb")
    write_journal(store.journals, "run", a_header(), a_trial())
    fold(store)
    keep_lines(store, JOURNAL, [line_of(a_variant())])
    write_journal(store.journals, "run", DeletedLine(run_id="run", trial_id="run/1/0"))
    fold(store)
    with store.read() as cursor:
        assert variants_of(cursor, "run/1/0") == []
