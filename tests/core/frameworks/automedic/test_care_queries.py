"""The rows of AutoMedic trials: words of queries, verdicts, failures with quotes, and ratings."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.events import Started, Utterance
from core.frameworks.automedic.queries import failures, ratings, trial_rows
from core.frameworks.automedic.speech import TagSpeech
from core.frameworks.automedic.tags import plain_words, read_tags
from core.frameworks.speech import Speech
from core.store.database import Store
from core.store.fold import fold
from core.store.selection import Selection
from tests.core.frameworks.automedic.measures.consultations import BROKEN, SIX, a_consultation, automedic
from tests.core.store.builders import a_header, a_trial, answered, graded, grades, write_journal
from tests.support.stores import copy_of, shared


def fill(store: Store) -> None:
    write_journal(store.journals, "run", automedic(), *SIX, BROKEN)
    write_journal(store.journals, "craft", a_header("craft"), a_trial(trial_id="craft/1/0", run_id="craft"))
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


@pytest.fixture
def unchanged() -> Store:
    return shared(fill)


def columns(store: Store, *names: str, **filters: object) -> list[dict[str, object]]:
    """Return, for each column, its values by case number; a missing value is ``None``."""
    with store.read() as cursor:
        table = trial_rows(cursor, Selection(**filters))  # type: ignore[arg-type]
    keys, rows = table["case_key"].str.removeprefix("ours/"), table.astype(object).where(table.notna(), None)
    return [dict(zip(keys, rows[name], strict=True)) for name in names]


def column(store: Store, name: str, **filters: object) -> dict[str, object]:
    return columns(store, name, **filters)[0]


def test_queries_and_their_words(unchanged: Store) -> None:
    turns, words, to_staff, repeated = columns(unchanged, "turns", "words", "to_staff", "repeated")
    assert turns == {"1": 4, "2": 5, "3": 5, "4": 1, "5": 2, "6": 0, "7": 0}
    # words outside the tags count: two of case 2, and six of case 5 that the doctor writes for the patient; the words
    # of a message that ends the conversation do not
    assert words == {"1": 20, "2": 36, "3": 9, "4": 10, "5": 8, "6": 0, "7": 0}
    assert to_staff == {"1": 1, "2": 1, "3": 0, "4": 0, "5": 0, "6": 0, "7": 0}
    # case 2 repeats its second query with other letters, lines and punctuation; both have the comma
    assert repeated == {"1": 0, "2": 1, "3": 0, "4": 0, "5": 0, "6": 0, "7": 0}


MESSAGES = (
    "<patient>Since when?</patient>",
    "  <clinical>\nWhat do the\n\nlaboratory  tests show?\n</clinical>\n",
    "<think>What is left to ask?</think>\n<patient>Do you smoke?</patient>",
    "<think>The temperature is <38, so <b>no</b> fever.</think><patient>Any fever?</patient>",
    "<THINK>Hm.</THINK> <patient>Any cough at all?</patient>",
    "all this was thought</think><patient>Any rash?</patient>",
    "<patient>Is it < 38 or > 38 degrees?</patient>",
    "<patient>Fièvre\u00a0depuis quand\u2003docteur ?</patient>",
    "<patient>Is it\tworse\x0bat night\x85now?</patient>",
    "<patient>你发烧吗 昨天</patient>",
    "<patient>First one?</patient><clinical>And the second query?</clinical>",
    "Hello there. <clinical>Vital signs?</clinical> Thank you.",
    "<patient> one </patient>",
    "<patient>Since <b>when</b>?</patient>",
    "<patient>Any <clinical>nested one</clinical>?</patient> <clinical>Then this is it</clinical>",
)


@pytest.mark.slow
def test_words_in_sql_are_those_of_the_tag_protocol(store: Store) -> None:
    lines = [a_consultation(n, [message, "</end>"]) for n, message in enumerate(MESSAGES)]
    write_journal(store.journals, "run", automedic(cases=range(len(MESSAGES))), *lines)
    fold(store)
    tags = {str(n): read_tags(message) for n, message in enumerate(MESSAGES)}
    assert all(message_tags.queries for message_tags in tags.values()), "every message of the test must have a query"
    words, turns, to_staff = columns(store, "words", "turns", "to_staff")
    assert words == {str(n): len(plain_words(message)) for n, message in enumerate(MESSAGES)}
    assert turns == {n: len(message_tags.queries) for n, message_tags in tags.items()}
    assert to_staff == {n: sum(q.to == "staff" for q in message_tags.queries) for n, message_tags in tags.items()}


@pytest.mark.slow
def test_a_framework_without_a_pattern_reads_every_message_itself(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("turns", "words", "to_staff", "repeated")
    by_pattern = columns(filled, *names)
    monkeypatch.setattr(TagSpeech, "one_query", "")
    assert columns(filled, *names) == by_pattern
    monkeypatch.setattr(TagSpeech, "queries", Speech.queries)
    turns, words = columns(filled, "turns", "words")
    assert turns == by_pattern[0], "the number of turns follows the replies"
    # case 2 with its tags: 10 words, 9 (tags without a space join two words), 10 with the reasoning, 8
    assert words["2"] == 37


def test_only_answered_queries_are_turns(store: Store) -> None:
    line = a_consultation(1, ["<patient>Since when?</patient><patient>And where is it?</patient>", "</end>"])
    replies = [event for event in line.events if isinstance(event, Utterance) and event.role == "patient"]
    events = [
        event.model_copy(update={"turn": 2}) if isinstance(event, Utterance) and event.text == "</end>" else event
        for event in line.events
        if event is not replies[-1]
    ]
    write_journal(store.journals, "run", automedic(), line.model_copy(update={"events": events}))
    fold(store)
    assert columns(store, "turns", "words") == [{"1": 1}, {"1": 6}]


@pytest.mark.slow
def test_an_answered_message_without_tags_counts_as_one_query(store: Store) -> None:
    """A human in the doctor's seat writes no tags."""
    line = a_consultation(1, ["</end>"])
    conversation = [
        Utterance(turn=0, role="doctor", text="Since\n when?"),
        Utterance(turn=1, role="patient", text="Monday."),
        Utterance(turn=2, role="doctor", text="</end>"),
    ]
    others = [event for event in line.events if not isinstance(event, Utterance | Started)]
    write_journal(
        store.journals, "run", automedic(), line.model_copy(update={"events": [line.events[0], *conversation, *others]})
    )
    fold(store)
    assert columns(store, "turns", "words") == [{"1": 1}, {"1": 2}]


def test_a_trial_that_a_provider_broke_does_not_count(unchanged: Store) -> None:
    conv, static, counted, complete = columns(unchanged, "conv", "static", "counted", "whole")
    assert (conv["7"], static["7"], complete["7"]) == ("provider_error", "correct", False)
    assert counted == {**dict.fromkeys("123456", True), "7": False}


def test_refusals_and_ungraded_answers_have_their_reasons(store: Store) -> None:
    unjudged = a_consultation(3, ["</end>"], conv=None)
    refused = a_consultation(1, ["<patient>When?</patient>"], conv=None, reason="refusal")
    no_answer = a_consultation(2, ["</end>"], conv="refused")
    events = [*unjudged.events, answered("multi_turn", "mcq")]
    write_journal(
        store.journals, "run", automedic(), refused, no_answer, unjudged.model_copy(update={"events": events})
    )
    fold(store)
    conv, complete, counted = columns(store, "conv", "whole", "counted")
    assert conv == {"1": "refused", "2": "refused", "3": "ungraded"}
    assert complete == {"1": False, "2": True, "3": True}
    assert set(counted.values()) == {False}


def test_a_new_grade_changes_the_verdict(filled: Store) -> None:
    new = graded("incorrect", "multi_turn", "mcq", rule="mcq_strict", at=99.0)
    write_journal(filled.journals, "run", grades("run/1/0", new))
    fold(filled)
    assert column(filled, "conv")["1"] == "incorrect"


@pytest.mark.slow
def test_an_arm_that_a_run_does_not_have_is_missing_and_not_excluded(store: Store) -> None:
    header = automedic(arms=[("vignette", "mcq")])
    write_journal(store.journals, "run", header, a_consultation(1, ["</end>"], conv=None))
    fold(store)
    assert columns(store, "conv", "static") == [{"1": None}, {"1": "correct"}]
    with store.read() as cursor:
        assert trial_rows(cursor, question_type="frq").empty


def test_free_answers_are_judged_by_the_rule_for_free_answers(store: Store) -> None:
    header = automedic(arms=[("vignette", "frq"), ("multi_turn", "frq")])
    line = a_consultation(1, ["</end>"], conv="no_diagnosis", question_type="frq", response="I cannot say")
    write_journal(store.journals, "run", header, line)
    fold(store)
    with store.read() as cursor:
        table = trial_rows(cursor, question_type="frq")
        trial_failures = failures(cursor, table)
    assert table["conv"].tolist() == ["no_diagnosis"]
    assert [(f.kind, f.cause, f.quote) for f in trial_failures] == [
        ("abrupt_termination", "early_end", "</end>"),
        ("invalid_answer", "no_diagnosis", "I cannot say"),
    ]


@pytest.mark.slow
def test_selections(filled: Store) -> None:
    with filled.write() as connection:
        connection.execute("UPDATE runs SET source = 'live' WHERE run_id = 'run'")
    assert column(filled, "turns") == {}
    assert len(column(filled, "turns", runs=["run"])) == 7
    assert column(filled, "turns", runs=["run"], models=["openai/b"]) == {}
    assert column(filled, "turns", runs=["run"], datasets=["other"]) == {}
    assert column(filled, "turns", runs=["run"], specialties=["Cardiology"]) == {}


def test_failures_have_a_cause_and_a_quote(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        trial_failures = failures(cursor, trial_rows(cursor))
    assert [(f.case_key[-1], f.kind, f.cause, f.turn, f.quote) for f in trial_failures] == [
        ("3", "role_breaking", "speaks_for_others", 0, "For two days."),
        ("4", "abrupt_termination", "no_tag", 2, "It is eczema."),
        ("5", "role_breaking", "speaks_for_others", 0, "Patient: On my neck, it itches."),
        ("5", "abrupt_termination", "misplaced_end", 4, "<patient>Why?</patient></end>"),
        ("6", "abrupt_termination", "early_end", 0, "</end>"),
        ("6", "invalid_answer", "multiple", None, "A or B"),
    ]
    assert {(f.run_id, f.model, f.dataset) for f in trial_failures} == {("run", "openai/a", "ours")}
    assert trial_failures[0].trial_id == "run/3/0"


@pytest.mark.slow
@pytest.mark.parametrize(("turns", "cause"), [(3, "early_end"), (4, None)])
def test_an_end_is_abrupt_up_to_the_third_turn(store: Store, turns: int, cause: str | None) -> None:
    messages = [f"<patient>Question {n}?</patient>" for n in range(turns)]
    write_journal(store.journals, "run", automedic(), a_consultation(1, [*messages, "</end>"]))
    fold(store)
    assert column(store, "abrupt") == {"1": cause}


def test_the_cap_is_no_abrupt_end(store: Store) -> None:
    line = a_consultation(1, ["<patient>When?</patient>"], reason="turn_cap")
    write_journal(store.journals, "run", automedic(), line)
    fold(store)
    assert columns(store, "turns", "abrupt") == [{"1": 1}, {"1": None}]


def test_ratings_with_their_words_the_worst_first(unchanged: Store) -> None:
    with unchanged.read() as cursor:
        worst_first = ratings(cursor, trial_rows(cursor))
        assert failures(cursor, trial_rows(cursor, Selection(runs=["none"]))) == []
    assert [(r.case_key[-1], r.rating) for r in worst_first] == [
        ("6", 1),
        ("4", 2),
        ("3", 3),
        ("2", 4),
        ("1", 5),
        ("5", None),
    ]
    assert (worst_first[0].words, worst_first[0].rater) == ("I would give 1.", "openai/p")
