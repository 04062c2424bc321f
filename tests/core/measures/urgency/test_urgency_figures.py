"""Urgency: exact, over- and under-triage by hand; unanswered conversations are counted and never a wrong level."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.asking.scene import Turn
from core.cli.app import main
from core.datasets import imported
from core.datasets.select import cases_of
from core.errors import AnamnesisError, UsageError
from core.frameworks.answering import reason_of
from core.jobs.ask_job import run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging
from core.journal import RowLine
from core.judging.form import form_named
from core.judging.judgement import Judge, Judgement, Quotation
from core.judging.request import Material, answers_in
from core.measures.base import MetricRequest, Result, Row
from core.measures.notes import result_of
from core.measures.rubrics.reading import read_outcomes, status_words
from core.measures.urgency import (
    FORCED,
    LEVELS,
    WORDS,
    TriagedConversation,
    UrgencyReading,
    is_severe,
    levels_of_files,
    read_urgency,
    report_urgency,
    report_urgency_words,
    triage_of,
)
from core.models.registry import load_registry
from core.report.evaluation import read_facts
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import state_of
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.case_labels import add_labels, label_of
from core.store.queries.judgements import judgement_row
from core.store.review_records import parse_item, planned
from core.store.selection import Selection
from core.store.written import write
from tests.core.store.builders import a_call, a_case, a_header, a_trial, keep_lines, write_journal
from tests.support.answering import record_all
from tests.support.fake_provider import FakeProvider, running
from tests.support.replies import Reply, failing
from tests.support.stores import copy_of
from tests.support.urgency_doctors import NO_WAIT, about, asked, says, set_levels, write_conversations

LEVEL_OF_CASE = {1: 1, 2: 2, 3: 3, 4: 4, 5: 2}
"""Case 6 has no level."""
REPLIES = {
    "1.0": says(1),  # exact
    "1.1": says(3),  # two levels too late
    "2.0": says(4),  # two levels too late, and an emergency that waits for an appointment
    "2.1": says(2),
    "3.0": says(2),  # over-triage
    "3.1": says(4),  # one level too late
    "4.0": says(5),  # one level too late
    "4.1": says(5),
    "5.0": "I cannot tell.",  # unreadable
    "5.1": says(2, "my leg hurts"),  # in no message
    "6.0": says(1),
    "6.1": says(1),
}


def result(store: Store, **options: Any) -> Result:
    return result_of(report_urgency, MetricRequest(store), options)


def by_figure(store: Store, **options: Any) -> dict[str, Row]:
    return {row["figure"]: row for row in result(store, **options).figures}


def store_with_answers(store: Store) -> None:
    write_conversations(store, "run", dict.fromkeys(range(1, 7), 2), settings={"temperature": 0.7})
    set_levels(store, LEVEL_OF_CASE)
    with running() as provider:
        outcome = asked(store, provider, REPLIES, "run")
    assert (outcome.done, outcome.failed) == (11, 1)


@pytest.fixture
def answered_store(tmp_path: Path) -> Store:
    return copy_of(store_with_answers, tmp_path)


def test_a_doctor_who_has_answered_everything_is_asked_nothing(answered_store: Store) -> None:
    with running() as provider:
        assert asked(answered_store, provider, {"5.0": says(2)}, "run").done == 1  # the one without a readable answer
        again = asked(answered_store, provider, {}, "run")
    assert (again.kept, again.done, again.failed) == (12, 0, 0)


def test_the_shares_are_means_over_cases(answered_store: Store) -> None:
    rows = by_figure(answered_store)
    expected = {
        "exact": (0.5 + 0.5 + 0 + 0) / 4,
        "over-triage": (0 + 0 + 0.5 + 0) / 4,
        "under-triage": (0.5 + 0.5 + 0.5 + 1) / 4,
        "severe under-triage": (0.5 + 0.5 + 0 + 0) / 4,
    }
    for figure, share in expected.items():
        row = rows[figure]
        assert (row.estimate, row.n) == (pytest.approx(share), 4), figure
        assert row.low is not None
        assert row.high is not None
        assert 0 <= row.low < share < row.high <= 1
        assert row.excluded == {"no level": 2, "unreadable": 1, "invented quotation": 1}
    assert (rows["under-triage"]["n_of_these"], rows["under-triage"]["n_conversations"]) == (5, 8)
    assert (rows["unanswered"].estimate, rows["unanswered"].n) == (pytest.approx(1 / 5), 5)
    assert rows["unanswered"].excluded == {"no level": 2}
    notes = result(answered_store).notes
    (unanswered,) = [note for note in notes if note.kind == "unanswered"]
    assert unanswered.severity == "high"
    assert "2 of 12 conversations (17%)" in unanswered.text
    assert any("1 cases have no level" in note.text for note in notes)
    assert any("file 5" in note.text for note in notes)


def test_shares_by_group_levels_and_what_is_too_late_by_hand(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the conversations about levels 1, 1, 2 and 2, two are exact, one is one level too late, and one three."""

    def played(number: int, level: int | None, given: str | None, specialty: str, **fields: Any) -> TriagedConversation:
        quoted = (Quotation(number, f"words {number}"),)
        judge = Judge("openai/a", "model", "p")
        answer = Judgement(
            subject=f"talk:{number}", form=FORCED, question="level", judge=judge, value=given, at=1.0,
            quotations=quoted, reason=f"reason {number}", **fields,
        )  # fmt: skip
        return TriagedConversation(
            trial_id=str(number), model="openai/a", doctor="openai/a", case_key=f"ours/{number}", dataset="ours",
            specialty=specialty, ended=True, served=None, level=level, source="person", answer=answer,
        )  # fmt: skip

    conversations = [
        played(1, 1, "1", "Cardiology"),
        played(2, 1, "4", "Dermatology"),
        played(3, 2, "2", "Dermatology"),
        played(4, 2, "3", ""),
        played(5, None, "1", "Cardiology"),
        played(6, 2, None, "Cardiology", failure="timeout: no reply"),
    ]
    broken = replace(conversations[0], trial_id="7", ended=False, answer=None)
    reading = UrgencyReading([*conversations, broken], conversations[0].answer)
    monkeypatch.setattr("core.measures.urgency.read_urgency", lambda *_: reading)

    def rows(**options: Any) -> list[dict[str, Any]]:
        found = report_urgency.rows(MetricRequest(store), **options)
        return [row.cells(plain=True) if isinstance(row, Row) else row for row in found]

    whole = {row["figure"]: row for row in rows()}
    assert [whole[figure]["share"] for figure in ("exact", "over-triage", "under-triage", "severe under-triage")] == [
        0.5, 0, 0.5, 0.25,
    ]  # fmt: skip
    assert whole["exact"]["excluded"] == {"conversation broke off": 1, "no level": 1, reason_of("timeout"): 1}
    assert (whole["unanswered"]["share"], whole["unanswered"]["n_cases"]) == (pytest.approx(1 / 5), 5)
    for by, expected in (
        ("level", {f"1 {LEVELS[1]}": (0.5, 2), f"2 {LEVELS[2]}": (0.5, 2)}),
        ("specialty", {"Cardiology": (1.0, 1), "Dermatology": (0.5, 2), "unknown": (0.0, 1)}),
        ("dataset", {"ours": (0.5, 4)}),
    ):
        exact = {row[by]: (row["share"], row["n_cases"]) for row in rows(by=by) if row["figure"] == "exact"}
        assert exact == expected
    table = rows(part="levels")
    assert [[row[f"given {level}"] for level in LEVELS] + [row["unanswered"]] for row in table][:2] == [
        [1, 0, 0, 1, 0, 0],
        [0, 1, 1, 0, 0, 1],
    ]
    assert [row["cases"] for row in table] == [2, 3, 0, 0, 0]
    late = rows(part="list")
    assert [(row["trial_id"], row["severe"], row["words"], row["reason"]) for row in late] == [
        ("2", True, "words 2", "reason 2"),
        ("4", False, "words 4", "reason 4"),
    ]


@pytest.mark.slow
def test_the_interval_treats_the_conversations_of_a_case_as_one(
    store: Store, fake_provider_thread: FakeProvider
) -> None:
    """Twenty conversations on two cases tell as much as two, if those of a case agree."""
    levels = {1: 2, 2: 2}
    widths = []
    for run_id, trials in (("few", 1), ("many", 10)):
        write_conversations(store, run_id, dict.fromkeys(levels, trials), doctor=f"openai/{run_id}")
        set_levels(store, levels)
        replies = {f"{case}.{n}": says(2 if case == 1 else 3) for case in levels for n in range(trials)}
        asked(store, fake_provider_thread, replies, run_id)
        rows = report_urgency.rows(MetricRequest(store, Selection(runs=[run_id])))
        row = next(row for row in rows if row["figure"] == "under-triage")
        assert row.estimate == 0.5
        widths.append(row.high - row.low)
    assert widths[0] == pytest.approx(widths[1])


@pytest.mark.slow
def test_levels_by_levels_and_the_late_ones_with_their_words(answered_store: Store) -> None:
    table = {row["level"][0]: row for row in result(answered_store, part="levels").rows}
    given = {level: [row[f"given {n}"] for n in LEVELS] + [row["unanswered"]] for level, row in table.items()}
    assert given == {
        "1": [1, 0, 1, 0, 0, 0],
        "2": [0, 1, 0, 1, 0, 2],
        "3": [0, 1, 0, 1, 0, 0],
        "4": [0, 0, 0, 0, 2, 0],
        "5": [0, 0, 0, 0, 0, 0],
    }
    late = result(answered_store, part="list").rows
    assert [(row["trial_id"], row["severe"]) for row in late] == [
        ("run/1/1", True),
        ("run/2/0", True),
        ("run/3/1", False),
        ("run/4/0", False),
        ("run/4/1", False),
    ]
    assert {(row["message"], row["words"]) for row in late} == {(1, "my chest hurts")}
    emergencies = [row for row in result(answered_store, by="level").figures if row["level"].startswith("2")]
    assert {row["figure"]: row.estimate for row in emergencies}["severe under-triage"] == 0.5


def test_a_persons_label_takes_precedence_over_the_file_and_needs_the_words_of_the_case(
    store: Store, fake_provider_thread: FakeProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("core.measures.urgency.LEVEL_FILES", tmp_path)
    (tmp_path / "ours.csv").write_text("case,level,reason\n1,4,by file\n2,4,by file\n3,4,by file\n")
    levels_of_files.cache_clear()
    try:
        write_conversations(store, "run", {1: 1, 2: 1, 3: 1})
        set_levels(store, {1: 2})
        add_labels(store, [label_of(a_case(3), "urgency", "1", "model", "openai/m 1234")])
        other_words = label_of(a_case(2, vignette="Other words."), "urgency", "1", "person", "Ada")
        with store.write() as connection:
            write(connection, "case_label", [vars(other_words)])
        asked(store, fake_provider_thread, {"1.0": says(4), "2.0": says(4), "3.0": says(4)}, "run")
        levels = {
            conversation.case_key: conversation.level for conversation in read_urgency(store, Selection()).conversations
        }
        assert levels == {"ours/1": 2, "ours/2": 4, "ours/3": 4}
        notes = result(store).warnings
        assert any("The levels of 2 cases are by one author" in note.text for note in notes)
    finally:
        levels_of_files.cache_clear()


def test_answers_of_earlier_versions_keep_their_outcomes(store: Store) -> None:
    write_conversations(store, "run", dict.fromkeys(range(1, 8), 1))
    set_levels(store, dict.fromkeys(range(1, 8), 2))
    # outcome, level and failure as they were stored → the outcome now
    rows: list[tuple[str, int | None, str]] = [
        ("answered", 2, ""),
        ("invented quotation", 4, ""),
        ("unreadable", None, "openai/a gave no readable answer in 3 tries: it holds no JSON object that is whole."),
        ("refused", None, "refused: the content filter stopped it"),
        ("empty", None, "blank: it wrote nothing"),
        ("provider_error", None, "server: 500"),
        ("provider_error", None, "empty: no text"),
    ]
    lines = []
    for number, (outcome, level, failure) in enumerate(rows, start=1):
        quotation = '{"message":1,"words":"my chest hurts"}' if level else None
        row = {"trial_id": f"run/{number}/0", "model": "openai/a", "prompt_hash": "old", "outcome": outcome}
        row |= {"level": level, "quotation": quotation, "reason": "so", "failure": failure, "served_by": None}
        lines.append(RowLine(table="urgency_answers", row={**row, "call_ids": ["c"], "asked_at": 5.0 + number}))
    keep_lines(store, "urgency-x", lines)
    read = read_urgency(store, Selection()).conversations
    assert [played.outcome for played in read] == [outcome for outcome, _, _ in rows]
    assert [played.given for played in read] == [2, *[None] * 6]
    assert read[0].answer is not None
    assert (read[0].answer.quotations[0].words, read[0].answer.calls) == ("my chest hurts", ("c",))
    assert by_figure(store)["exact"].excluded == {
        **{"invented quotation": 1, "unreadable": 1, "refused": 1, "empty": 1, "provider_error": 2}
    }


OWN_WORDS = {
    "1.0": (1, "now"),  # exact; 1 by choice
    "1.1": (1, "now"),  # exact; two levels too late by choice
    "2.0": (3, "now"),  # one level too late; two by choice
    "2.1": ("nothing said", ""),
    "3.0": (3, "now"),  # exact; over-triage by choice
    "3.1": (4, "my chest hurts"),  # of the patient: void
    "4.0": (4, "now"),  # exact; one level too late by choice
    "4.1": failing(500),
    "5.0": (2, "now"),  # exact, and no level by choice
    "5.1": ("cannot judge", ""),
    "6.0": (1, "now"),  # no level of the case
    "6.1": (1, "now"),
}


def test_own_words_next_to_the_forced_choice(answered_store: Store, fake_provider_thread: FakeProvider) -> None:
    def reply(body: Mapping[str, Any]) -> Reply | str:
        said = OWN_WORDS[about(body)]
        if isinstance(said, Reply):
            return said
        quotations = [{"message": 2, "words": "Eczema" if said[1] == "now" else said[1]}]
        entry = {"quotations": quotations if said[1] else [], "reason": "So.", "answer": said[0]}
        return json.dumps({"q1": entry})

    fake_provider_thread.script = reply
    job = Judging("urgency_words", ("openai/judge",), base_url=fake_provider_thread.base_url)
    run_job(job, answered_store, load_registry(retry=NO_WAIT), Options(1))
    made = result_of(report_urgency_words, MetricRequest(answered_store), {})
    cells = {(row["way"], row["figure"]): row for row in made.figures}
    shares = {key: (row.estimate, row.n) for key, row in cells.items()}
    expected = {
        ("forced choice", "exact"): (1 / 4, 4),  # as in the report of the forced choice
        ("forced choice", "unanswered"): (1 / 5, 5),
        # cases 1, 2, 3, 4 and 5 have levels in own words: 1 1, 3 –, 3 –, 4 –, 2 –
        ("own words", "exact"): (4 / 5, 5),
        ("own words", "over-triage"): (0, 5),
        ("own words", "under-triage"): (1 / 5, 5),
        ("own words", "severe under-triage"): (0, 5),
        ("own words", "nothing said"): (0.5 / 5, 5),
        ("own words", "unanswered"): ((0 + 0 + 0.5 + 0.5 + 0.5) / 5, 5),
        # conversations 1.0, 1.1, 2.0, 3.0 and 4.0 have both
        ("gap", "exact"): ((0.5 + 0 + 1 + 1) / 4, 4),
        ("gap", "over-triage"): (-1 / 4, 4),
        ("gap", "under-triage"): ((-0.5 + 0 + 0 - 1) / 4, 4),
        ("gap", "severe under-triage"): ((-0.5 - 1) / 4, 4),
    }
    assert {key: shares[key] for key in expected} == {
        key: (pytest.approx(share), n) for key, (share, n) in expected.items()
    }
    assert cells["own words", "exact"].excluded == {
        **{"no level": 2, "nothing said": 1, "invented quotation": 1, "provider_error": 1, "cannot judge": 1}
    }
    assert cells["gap", "exact"]["n_conversations"] == 5
    assert any("openai/judge" in note.text for note in made.warnings)
    assert by_figure(answered_store)["exact"].n == 4, "the forced choice is another form"
    with pytest.raises(UsageError, match=FORCED):
        run_job(Judging(FORCED, ("openai/judge",)), answered_store, load_registry(), Options(1))


def test_the_judge_of_own_words_is_calibrated_by_a_review(store: Store) -> None:
    write_conversations(store, "run", dict.fromkeys(range(1, 7), 10))
    asked_hash = form_named(WORDS).questions[0].hash
    values = {f"run/{case}/{n}": "1" if n % 2 else "nothing said" for case in range(1, 7) for n in range(10)}
    given = [
        Judgement(
            subject=f"talk:{trial}", form=WORDS, question="level", against=asked_hash, value=value, at=5.0,
            judge=Judge("openai/judge", "model", "p"),
        )
        for trial, value in values.items()
    ]  # fmt: skip
    keep_lines(store, "judging-x", [RowLine(table="judgements", row=judgement_row(answer)) for answer in given])
    plan = planned(kind=WORDS, number=60, annotators=("Ada",), shared=0.0, runs=("run",))
    review_id = plan_review(store, "Own words", plan).review_id
    items = state_of(store, review_id).items
    record_all(store, review_id, [(i.number, "Ada", "level", values[parse_item(i.item).trial_id]) for i in items])
    seen = []
    for unblinded in (False, True):
        if unblinded:
            unblind(store, review_id, "Ada")
        notes = result_of(report_urgency_words, MetricRequest(store), {}).notes
        seen += [(note.severity, "not calibrated" in note.text) for note in notes if note.kind == "judge"]
    assert seen == [("high", True), ("low", False)]
    # the panel next to a conversation shows the answers to any form
    (played,) = read_outcomes(store, Selection(trials=("run/1/1",)), WORDS, people=False).conversations
    assert [status_words(outcome.criterion, outcome.status) for outcome in played.outcomes] == ["Immediately"]


def test_a_level_is_1_to_5() -> None:
    for value in ("0", "6", "yes", "soon"):
        with pytest.raises(UsageError):
            label_of(a_case(), "urgency", value, "person", "Ada")


def test_severe_is_two_levels_too_late() -> None:
    severe = {(level, given) for level in LEVELS for given in LEVELS if is_severe(level, given)}
    assert severe == {(1, 3), (1, 4), (1, 5), (2, 4), (2, 5), (3, 5)}
    assert [triage_of(3, given) for given in LEVELS] == [
        "over-triage",
        "over-triage",
        "exact",
        "under-triage",
        "under-triage",
    ]


def test_the_model_gets_its_own_conversation_with_the_settings_of_its_run(
    store: Store, fake_provider_thread: FakeProvider
) -> None:
    write_conversations(store, "run", {2: 2}, settings={"temperature": 0.7})
    asked(store, fake_provider_thread, REPLIES, "run")
    body = next(body for body in fake_provider_thread.bodies if about(body) == "2.1")
    assert [message["role"] for message in body["messages"]] == ["system", "assistant", "user", "assistant", "user"]
    assert body["messages"][2]["content"] == "I am patient 2.1, and my chest hurts."
    assert (body["model"], body["temperature"], body["seed"]) == ("a", 0.7, 101)
    assert not re.search("Eczema|Vignette", body["messages"][0]["content"] + body["messages"][-1]["content"])


@pytest.mark.slow
def test_a_cap_for_short_messages_does_not_cut_the_reply(store: Store, fake_provider_thread: FakeProvider) -> None:
    for run_id, cap in (("short", 50), ("long", 5000)):
        write_conversations(store, run_id, {1: 1}, doctor=f"openai/{run_id}", settings={"max_tokens": cap})
    asked(store, fake_provider_thread, {"1.0": says(1)}, "short", "long")
    caps = {body["model"]: body["max_tokens"] for body in fake_provider_thread.bodies}
    assert caps == {"short": 1024, "long": 5000}


@pytest.mark.slow
def test_a_provider_that_fails_leaves_the_conversation_unanswered_until_the_next_time(
    store: Store, fake_provider_thread: FakeProvider
) -> None:
    write_conversations(store, "run", {1: 1, 2: 1, 3: 1})
    set_levels(store, {1: 1, 2: 2, 3: 3})
    replies = {"1.0": says(1), "2.0": failing(500), "3.0": says(9)}
    outcome = asked(store, fake_provider_thread, replies, "run")
    assert (outcome.done, outcome.failed) == (1, 2)
    rows = by_figure(store)
    assert (rows["exact"].estimate, rows["exact"].n) == (1.0, 1)
    assert rows["exact"].excluded == {"provider_error": 1, "unreadable": 1}
    assert rows["unanswered"].estimate == pytest.approx(2 / 3)
    fake_provider_thread.requests.clear()
    again = asked(store, fake_provider_thread, {**replies, "2.0": says(2), "3.0": says("3")}, "run")
    assert (again.done, again.kept) == (2, 1)
    assert {about(body) for body in fake_provider_thread.bodies} == {"2.0", "3.0"}
    rows = by_figure(store)
    assert (rows["exact"].estimate, rows["exact"].n, rows["exact"].excluded) == (1.0, 3, {})
    store.path.unlink()
    fold(store)
    assert by_figure(store)["exact"].n == 3, "the answers are journaled"


@pytest.mark.slow
def test_whoever_cannot_be_asked_is_named(store: Store, fake_provider_thread: FakeProvider) -> None:
    write_conversations(store, "rule", {1: 1}, doctor="reference/bayes")
    write_conversations(store, "person", {1: 1}, doctor="human/Ada")
    write_conversations(store, "log", {1: 1}, doctor="openai/b", source="release")
    write_conversations(store, "broken", {1: 1}, "error", doctor="openai/c")
    with pytest.raises(AnamnesisError, match=r"reference/bayes is a rule"):
        asked(store, fake_provider_thread, {}, "rule", "person", "log", "broken")
    write_conversations(store, "run", {1: 1})
    asked(store, fake_provider_thread, {"1.0": says(1)}, "rule", "person", "log", "broken", "run")
    assert len(fake_provider_thread.bodies) == 1
    conversations = {
        conversation.trial_id: conversation.outcome for conversation in read_urgency(store, Selection()).conversations
    }
    assert (conversations["run/1/0"], conversations["rule/1/0"], conversations["broken/1/0"]) == (
        "answered",
        "not asked",
        "conversation broke off",
    )


@pytest.mark.slow
def test_a_model_that_the_provider_has_replaced_is_noted(store: Store, fake_provider_thread: FakeProvider) -> None:
    write_conversations(store, "run", {1: 1})
    call = a_call("c9", served_by="a-2025-01-01")
    write_journal(store.journals, "calls", a_header("calls", [a_case()]), a_trial([call], trial_id="x", run_id="calls"))
    fold(store)
    with store.write() as connection:
        connection.execute("UPDATE served SET run_id = 'run' WHERE run_id = 'calls'")
    set_levels(store, {1: 1})
    asked(store, fake_provider_thread, {"1.0": says(1)}, "run")  # served as fake-1
    assert any(note.kind == "served" and "another version" in note.text for note in result(store).warnings)


def test_a_level_needs_a_quotation_of_any_message() -> None:
    form = form_named(FORCED)
    dialogue = (Turn("doctor", "Any pain?", scripted=True), Turn("patient", "Yes, my “chest” hurts badly."))
    # what the doctor says → void and the states of the quotations, or None for an unreadable reply
    rows: list[tuple[str, object]] = [
        (says(2, "hurts badly"), (False, ["verified"])),
        (says(2, 'my "chest" HURTS'), (False, ["repaired"])),
        (says("2", "my arm hurts"), (True, ["unverified"])),
        (says(2, "Any pain?"), (True, ["verified"])),  # scripted
        *((text, None) for text in (says(2, ""), says(0, "hurts"), says(None), says("cannot judge"), "2", "")),
    ]
    wrong = []
    for text, right in rows:
        try:
            (answer,) = answers_in(text, form, form.questions, Material(dialogue), numbers=False)
            read: object = (answer.void, [quoted.state for quoted in answer.quotations])
        except ValueError:
            read = None
        if read != right:
            wrong.append((text, read))
    assert wrong == []


def test_the_levels_are_worded_once() -> None:
    of_cases, forced = (form_named(name).questions[0] for name in ("urgency", FORCED))
    assert forced.options == of_cases.options
    assert list(LEVELS) == [1, 2, 3, 4, 5]
    assert all(forced.options[level - 1].label.lower().startswith(f"{words}.") for level, words in LEVELS.items())


@pytest.mark.slow
def test_the_commands_read_levels_from_a_table_and_print_the_figures(
    answered_store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(answered_store.path))
    imported.save("ours", [a_case(n) for n in range(1, 7)])
    table = tmp_path / "levels.csv"
    table.write_text("case,field,value\n6,urgency,3\n")
    assert main(["data", "label-file", "ours", str(table)]) == 0
    capsys.readouterr()
    assert main(["report", "urgency", "--format", "csv"]) == 0
    rows = {row["figure"]: row for row in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert (float(rows["over-triage"]["share"]), rows["over-triage"]["n_cases"]) == (pytest.approx(1.5 / 5), "5")
    assert main(["job", "judge", FORCED, "--run", "run", "--dry-run"]) == 0


@pytest.mark.slow
def test_the_evaluation_report_shows_it_under_harm(answered_store: Store) -> None:
    facts = read_facts(answered_store, ["run"])
    assert {row["figure"] for row in facts.results["urgency"].figures} >= {"severe under-triage", "unanswered"}


def test_every_case_of_the_library_has_a_level_and_a_reason() -> None:
    levels = levels_of_files()
    assert {case.case_key for case in cases_of("library")} == set(levels)
    assert all(entry.level in LEVELS and entry.reason for entry in levels.values())


def test_one_danger_has_one_level_and_no_reason_contradicts_its_level() -> None:
    levels = levels_of_files()
    # ketones in new diabetes, and two patients with blocked liver veins, ascites and jaundice
    assert {levels[f"library/{case}"].level for case in ("gastroenterology-5", "hematology_and_oncology-5")} == {2}
    assert levels["library/endocrinology-1"].level == 2
    # level 3 is "seen today or tomorrow": a reason that demands the same day, or hours, belongs to an earlier level
    earlier = ("same day", "within hours", "within minutes", "at once")
    contradicting = {
        case: entry.reason
        for case, entry in levels.items()
        if entry.level >= 3 and any(words in entry.reason for words in earlier)
    }
    assert contradicting == {}


YARDSTICK = {
    "cardiology-1": "Pericarditis and Myocarditis",
    "cardiology-3": "Aortic Dissection",
    "cardiology-4": "Hypertrophic Cardiomyopathy — Emergency Presentations",
    "gastroenterology-2": "Sigmoid Volvulus",
    "hematology_and_oncology-3": "Thrombotic Thrombocytopenic Purpura",
    "neurology-3": "Guillain-Barré Syndrome",
    "obstetrics-1": "Ectopic Pregnancy",
    "obstetrics-2": "Placental Abruption",
    "obstetrics-3": "HELLP Syndrome",
    "other-2": "Acute Angle-Closure Glaucoma",
    "other-3": "Carbon Monoxide Poisoning",
    "pediatrics-1": "Pyloric Stenosis",
    "pediatrics-2": "Croup",
    "pediatrics-3": "Kawasaki Disease",
    "urology_and_nephrology-1": "Testicular Torsion",
}
DIFFERENT = {"obstetrics-3": 1, "pediatrics-1": 3, "pediatrics-3": 2}
"""Case → its level in the yardstick, where the library's differs: a stable mother and child; a dehydrated infant of
five weeks; a treatment that is in time for days."""


@pytest.mark.skipif(
    "ANAMNESIS_URGENCY" not in os.environ, reason="ANAMNESIS_URGENCY names no table of urgency levels (OpenEM, tier 1)"
)
def test_the_levels_are_those_of_openem_except_for_three() -> None:
    with Path(os.environ["ANAMNESIS_URGENCY"]).open(encoding="utf-8", newline="") as file:
        others = {row["condition"]: int(row["esi"]) for row in csv.DictReader(file)}
    own = {case: levels_of_files()[f"library/{case}"].level for case in YARDSTICK}
    different = {case: others[name] for case, name in YARDSTICK.items() if others[name] != own[case]}
    assert different == DIFFERENT
    assert all(abs(own[case] - level) == 1 for case, level in different.items())
