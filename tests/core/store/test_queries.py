"""The queries behind the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.case import ASKS_FOR
from core.events import Called, CallRecord
from core.measures.base import MetricRequest
from core.measures.measuring import measure_trials
from core.measures.spend import spend
from core.measures.unsaid import UnsaidInSummaries
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import case_scores, results
from core.store.queries.calls import calls_of, replies_cut
from core.store.queries.cases import add_cases, case, cases
from core.store.queries.grades import latest_grades
from core.store.queries.judgements import add_judgements, judgeable_items, judgements
from core.store.queries.run_cases import run_cases
from core.store.queries.runs import run, runs
from core.store.queries.scores import Summaries, summaries_by_run
from core.store.queries.trials import conversations, count_conversations, transcripts, trial_events
from core.store.queries.utterances import utterances_of
from core.store.selection import Selection
from core.text.questions import question_kind
from tests.core.store.builders import a_call, a_case, a_header, a_stream, a_trial, answered, invalid, write_journal
from tests.support.answering import an_answer
from tests.support.stores import copy_of, shared

TRIAL = "run/1/0"


def fill(store: Store) -> None:
    """Run ``run``: two cases × two trials, two trials done. Run ``later``: another model, one trial that failed."""
    second = a_trial(
        [*a_stream("run/2/0")[:-1], invalid("refused", "vignette", "frq"), a_stream()[-1]],
        trial_id="run/2/0",
        case_key="ours/2",
        finished_at=50.0,
    )
    two = [a_case(2, specialty="Cardiology", dataset="other", answer="Asthma"), a_case(1)]
    write_journal(store.journals, "run", a_header(cases=two), a_trial(), second)
    write_journal(
        store.journals,
        "later",
        a_header("later", doctor="openai/b", created_at=200.0),
        a_trial(a_stream()[:4], trial_id="later/1/0", run_id="later"),
    )
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


@pytest.fixture
def unchanged() -> Store:
    return shared(fill)


def test_a_conversation_is_read_back_as_the_events_that_happened(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        assert trial_events(cursor, TRIAL) == a_stream()
        assert trial_events(cursor, "no such trial") == []


def test_its_parts_are_the_same_objects(unchanged: Store) -> None:
    stream = a_stream()
    with unchanged.read() as cursor:
        assert utterances_of(cursor, TRIAL) == [stream[1], stream[3], stream[6]]
        assert [Called(call=c) for c in calls_of(cursor, TRIAL)] == [stream[2], stream[5]]
        assert latest_grades(cursor, TRIAL)[0].at == 10.0


def test_runs_tell_how_far_they_are(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        later, first = runs(cursor)
    assert (later.run_id, first.run_id) == ("later", "run")
    assert (first.planned, first.done, first.failed, first.state) == (4, 2, 0, "partial")
    assert (first.answers, first.excluded) == (5, 3)
    assert (first.settings, first.arms[0]) == ({"max_messages": 30}, ("vignette", "mcq"))
    assert (later.planned, later.done, later.failed) == (None, 1, 1)


def test_runs_tell_what_each_role_used(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        stored = run(cursor, "run")
        assert run(cursor, "no such run") is None
    assert stored is not None
    doctor, patient = stored.use["doctor"], stored.use["patient"]
    assert (doctor.calls, doctor.prompt_tokens, doctor.completion_tokens, doctor.cost_usd) == (2, 20, 6, 0.5)
    assert patient.cost_usd is None
    assert stored.cost_usd is None


def test_a_call_that_failed_costs_nothing(store: Store) -> None:
    failed = a_call("c9", error="timeout: too slow", cost_usd=None, response=None)
    write_journal(store.journals, "run", a_header(), a_trial([a_call("c1"), failed]))
    fold(store)
    with store.read() as cursor:
        (stored,) = runs(cursor)
    assert stored.use["doctor"].failed == 1
    assert stored.cost_usd == 0.25


def test_cut_replies_are_counted_by_run_model_and_role(store: Store) -> None:
    """A call that failed has no reply; a reply whose end was not recorded is neither cut nor whole."""
    ends = [("doctor", "stop"), ("doctor", "MAX_TOKENS"), ("doctor", None), ("staff", "length"), ("staff", "length")]
    calls = [a_call(f"c{n}", role=role, finish_reason=end) for n, (role, end) in enumerate(ends)]
    failed = a_call("c9", role="staff", finish_reason="length", response=None, error="empty: only thinking")
    events = a_stream("run/1/0")
    write_journal(store.journals, "run", a_header(), a_trial([events[0], *calls, failed, events[-1]]))
    fold(store)
    with store.read() as cursor:
        counted = {(row.run_id, row.role): row[3:] for row in replies_cut(cursor) if row.model == "openai/a"}
        assert counted == {("run", "doctor"): (3, 1, 1), ("run", "staff"): (2, 2, 0)}
        assert replies_cut(cursor, ["other"]) == []
    listed = {row["role"]: row for row in spend.rows(MetricRequest(store)) if isinstance(row, dict)}
    assert {role: (row["cut"], row["ending_unknown"]) for role, row in listed.items()} == {
        "doctor": (1, 1),
        "staff": (2, 0),
    }


def test_summaries_are_counted_that_state_what_no_message_states(filled: Store) -> None:
    """Both trials of the run have the summary “A man with a lump.”, and no message has a man."""
    with filled.read() as cursor:
        assert summaries_by_run(cursor, ["run", "later"]) == {"run": Summaries(2, 0, 0)}
    measure_trials(filled, [UnsaidInSummaries()])
    with filled.read() as cursor:
        assert summaries_by_run(cursor, ["run", "later"]) == {"run": Summaries(2, 2, 2)}
        judgeable = judgeable_items(cursor, summarised=True)
        assert {conversation.trial_id for conversation in judgeable} == {"run/1/0", "run/2/0"}
        assert not judgeable_items(cursor, trials=["later/1/0"], summarised=True)


def test_cases_come_back_as_they_were(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        assert case(cursor, "ours/1") == a_case(1)
        assert case(cursor, "no such case") is None
        assert [c.case_key for c in run_cases(cursor, "run")] == ["ours/2", "ours/1"]
        assert [c.case_key for c in cases(cursor, "ours")] == ["ours/1"]
        assert len(cases(cursor)) == 2


def test_the_newest_content_of_a_case_is_the_default(filled: Store) -> None:
    changed = a_case(1, vignette="Rewritten.", profile=None, age=None, single_diagnosis=None)
    with filled.write() as connection:
        assert add_cases(connection, [changed, changed, a_case(1)]) == 1
    with filled.read() as cursor:
        assert case(cursor, "ours/1") == changed
        assert case(cursor, "ours/1", a_case(1).content_hash) == a_case(1)


def test_conversations_are_listed_with_their_verdicts(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        newest, first, second = conversations(cursor)
    assert (newest.trial_id, newest.status, newest.verdicts) == ("later/1/0", "failed", {})
    assert (first.trial_id, first.answer, first.specialty) == (TRIAL, "Eczema", "Dermatology")
    assert first.verdicts == {"vignette:mcq": "correct", "multi_turn:frq": "provider_error"}
    assert second.verdicts["vignette:frq"] == "refused"


def test_conversations_are_found(unchanged: Store, subtests: pytest.Subtests) -> None:
    rows: list[tuple[Selection, list[str]]] = [
        (Selection(runs=["run"]), ["run/1/0", "run/2/0"]),
        (Selection(models=["openai/b"]), ["later/1/0"]),
        (Selection(specialties=["Cardiology"]), ["run/2/0"]),
        (Selection(datasets=["ours"]), ["later/1/0", "run/1/0"]),  # by the newest content of the case
        (Selection(statuses=["failed"]), ["later/1/0"]),
        (Selection(end_reasons=["final_diagnosis"], cases=["ours/1"]), ["run/1/0"]),
        (Selection(verdicts=["refused"], arm="vignette:frq"), ["run/2/0"]),
        (Selection(verdicts=["correct"]), []),
        (Selection(text="Lump on my neck", runs=["run"]), ["run/1/0", "run/2/0"]),
        (Selection(text="lump", speaker="doctor"), []),
        (Selection(text="100%_'; DROP TABLE trials"), []),
    ]
    for selection, trial_ids in rows:
        with subtests.test(selection=selection, trial_ids=trial_ids), unchanged.read() as cursor:
            assert [c.trial_id for c in conversations(cursor, selection)] == trial_ids
            assert count_conversations(cursor, selection) == len(trial_ids)


def test_conversations_come_by_the_page(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        pages = [[c.trial_id for c in conversations(cursor, limit=2, offset=o)] for o in (0, 2, 4)]
    assert pages == [["later/1/0", "run/1/0"], ["run/2/0"], []]


def test_results_have_a_row_for_each_answer_and_rule(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        table = results(cursor, Selection(runs=["run"], specialties=["Dermatology"]))
    rows = table.to_pylist()
    assert [(r["rule"], r["verdict"]) for r in rows] == [
        ("frq", "provider_error"),
        ("mcq_loose", "correct"),
        ("mcq_strict", "incorrect"),
    ]
    assert {r["model"] for r in rows} == {"openai/a"}


def test_transcripts_have_calls_only_on_request(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        plain, full = list(transcripts(cursor, "run")), list(transcripts(cursor, "run", calls=True))
    assert [t["trial_id"] for t in plain] == ["run/1/0", "run/2/0"]
    kinds = [e["kind"] for e in plain[0]["events"]]
    assert "called" not in kinds
    assert kinds[0] == "started"
    assert full[0]["events"][2]["call"]["request"]["messages"]


def test_of_annotations_the_newest_of_a_person_counts(store: Store) -> None:
    first = an_answer("t1", "ann", "relevant history", "no", at=1.0)
    changed = an_answer("t1", "ann", "relevant history", "yes", "on reflection", at=2.0)
    other = an_answer("t1", "bob", "relevant history", "no", at=1.0)
    with store.write() as connection:
        assert add_judgements(connection, [changed, first, other]) == 3
    with store.read() as cursor:
        assert judgements(cursor, kinds=("person",)) == [changed, other]


def test_odd_texts_survive(store: Store) -> None:
    odd = "nul \u0000, quote ' \" \\, emoji 🩺, line\nbreak"
    call = a_call("c1", request={"messages": [{"role": "user", "content": odd}], "temperature": 0.5}, response=odd)
    write_journal(store.journals, "run", a_header(), a_trial([call, answered(response=odd)]))
    fold(store)
    with store.read() as cursor:
        stored: list[CallRecord] = calls_of(cursor, TRIAL)
        assert stored == [call.call]
        assert trial_events(cursor, TRIAL)[1] == answered(response=odd)


@pytest.mark.slow
def test_a_selection_filters_by_what_the_question_asks_for(store: Store) -> None:
    treated = a_case(2, question="Which of the following is the best treatment?")
    stated = a_case(3, question="What now?", asks_for="test")
    listed = [a_case(1), treated, stated]
    trials = [a_trial(trial_id=f"run/{n}/0", case_key=f"ours/{n}") for n in (1, 2, 3)]
    write_journal(store.journals, "run", a_header(cases=listed), *trials)
    fold(store)
    with store.read() as cursor:
        case_keys = {
            kind: [score.case_key for score in case_scores(cursor, Selection(asks_for=[kind], formats=["vignette"]))]
            for kind in ASKS_FOR
        }
        assert [question_kind(case) for case in cases(cursor)] == ["diagnosis", "treatment", "test"]
        assert cases(cursor) == listed
    assert {kind: keys for kind, keys in case_keys.items() if keys} == {
        "diagnosis": ["ours/1"],
        "treatment": ["ours/2"],
        "test": ["ours/3"],
    }
