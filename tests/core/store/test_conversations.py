"""Conversations filtered by case, answer, text, speaker and verdict under either rule; their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.store.database import Store
from core.store.fold import fold
from core.store.queries.trials import (
    ConversationFilters,
    conversation_ids,
    conversations,
    count_conversations,
    counted_page,
    offer,
)
from core.store.queries.utterances import dialogues, first_matches
from core.store.selection import Selection
from tests.core.store.builders import (
    Ended,
    Utterance,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    grades,
    invalid,
    write_journal,
)
from tests.support.stores import copy_of

MCQ = "multi_turn:mcq"


def trial(case: int, reply: str, *events, number: int = 0):
    stream = [
        Utterance(turn=0, role="doctor", text="Hello, does it itch?"),
        Utterance(turn=1, role="patient", text=reply),
        Ended(reason="no_question", doctor_turns=0),
        *events,
    ]
    return a_trial(stream, trial_id=f"run/{case}/{number}", case_key=f"ours/case_{case}", trial=number)


def mcq(loose: str, strict: str):
    rules = (("mcq_loose", loose), ("mcq_strict", strict))
    return [answered("multi_turn", "mcq"), *(graded(v, "multi_turn", "mcq", rule=r) for r, v in rules)]


def fill(store: Store) -> None:
    """Cases 2, 10 and 1 (eczema, plaque psoriasis, guttate psoriasis), in that order; case 1 with two trials."""
    answers = {2: "Eczema", 10: "Plaque psoriasis", 1: "Guttate psoriasis"}
    cases = [a_case(n, case_key=f"ours/case_{n}", answer=a, choices=(a, "Lupus")) for n, a in answers.items()]
    write_journal(
        store.journals,
        "run",
        a_header(cases=cases, arms=[("multi_turn", "mcq")]),
        trial(2, "It ITCHES (a lot).", *mcq("correct", "multiple")),
        trial(10, "Nothing itches.", *mcq("incorrect", "incorrect")),
        trial(1, "Straße", *mcq("correct", "correct")),
        trial(1, "A rash", invalid("refused", "multi_turn", "mcq"), number=1),
    )
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def ids(store: Store, **filters: object) -> list[str]:
    with store.read() as cursor:
        selection = Selection(**filters)  # type: ignore[arg-type]
        trial_ids = conversation_ids(cursor, selection)
        assert [c.trial_id for c in conversations(cursor, selection)] == trial_ids
        assert count_conversations(cursor, selection) == len(trial_ids)
        assert counted_page(cursor, selection, limit=1)[0] == len(trial_ids)
    return trial_ids


def test_cases_come_in_the_order_of_their_numbers(filled: Store) -> None:
    assert ids(filled) == ["run/1/0", "run/1/1", "run/2/0", "run/10/0"]


@pytest.mark.slow
def test_a_case_is_found_by_its_id_or_by_parts_of_the_id_and_the_answer(
    filled: Store, subtests: pytest.Subtests
) -> None:
    rows: list[tuple[str, list[str]]] = [
        ("case_1", ["run/1/0", "run/1/1"]),  # not case_10 as well
        ("ours/CASE_10", ["run/10/0"]),
        ("case_", ["run/1/0", "run/1/1", "run/2/0", "run/10/0"]),
        ("Psoriasis", ["run/1/0", "run/1/1", "run/10/0"]),
        ("%", []),
        ("gout", []),
    ]
    for case, trial_ids in rows:
        with subtests.test(case=case, trial_ids=trial_ids):
            assert ids(filled, case=case) == trial_ids


@pytest.mark.slow
def test_text_matches_literally_and_ignores_upper_and_lower_case(filled: Store, subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str | None, list[str]]] = [
        ("itch", None, ["run/1/0", "run/1/1", "run/2/0", "run/10/0"]),
        ("itch", "patient", ["run/2/0", "run/10/0"]),
        ("it itches (a lot).", "patient", ["run/2/0"]),
        ("STRASSE", None, []),
        ("straße", None, ["run/1/0"]),
        (".*", None, []),
        ("\\E.*", None, []),
    ]
    for text, speaker, trial_ids in rows:
        with subtests.test(text=text, speaker=speaker):
            assert ids(filled, text=text, speaker=speaker) == trial_ids


def test_verdicts_are_those_of_the_chosen_rule(filled: Store) -> None:
    assert ids(filled, arm=MCQ, verdicts=("correct",)) == ["run/1/0", "run/2/0"]
    assert ids(filled, arm=MCQ, verdicts=("correct",), mcq_rule="mcq_strict") == ["run/1/0"]
    assert ids(filled, arm=MCQ, verdicts=("multiple", "refused"), mcq_rule="mcq_strict") == ["run/1/1", "run/2/0"]
    assert ids(filled, arm=MCQ, rules_differ=True) == ["run/2/0"]
    assert ids(filled, arm="multi_turn:frq", rules_differ=True) == []


def test_the_list_shows_the_verdict_of_the_chosen_rule_and_the_newest(filled: Store) -> None:
    def listed(**filters) -> list[dict[str, str]]:
        with filled.read() as cursor:
            return [c.verdicts for c in conversations(cursor, Selection(**filters))]

    assert [v[MCQ] for v in listed()] == ["correct", "refused", "correct", "incorrect"]
    assert [v[MCQ] for v in listed(mcq_rule="mcq_strict")] == ["correct", "refused", "multiple", "incorrect"]
    write_journal(
        filled.journals, "run", grades("run/10/0", graded("correct", "multi_turn", "mcq", rule="mcq_loose", at=99.0))
    )
    fold(filled)
    assert [v[MCQ] for v in listed(case="case_10")] == ["correct"]


def test_the_list_without_a_limit_equals_all_pages(filled: Store) -> None:
    with filled.read() as cursor:
        pages = [c for offset in (0, 3) for c in conversations(cursor, limit=3, offset=offset)]
        assert conversations(cursor, limit=None) == pages
        assert counted_page(cursor, limit=3, offset=3) == (4, pages[3:])
        assert counted_page(cursor, limit=3, offset=4) == (0, [])


def test_the_first_message_with_the_words_is_named(filled: Store) -> None:
    with filled.read() as cursor:
        trial_ids = ["run/2/0", "run/1/0"]
        assert first_matches(cursor, trial_ids, "itch", "patient") == {"run/2/0": "It ITCHES (a lot)."}
        assert first_matches(cursor, trial_ids, "ITCH") == dict.fromkeys(trial_ids, "Hello, does it itch?")


def test_filters_offer_what_is_stored(filled: Store, tmp_path) -> None:
    write_journal(filled.journals, "none", a_header("none", doctor="openai/idle", arms=[("vignette", "frq")]))
    fold(filled)
    with filled.read() as cursor:
        filters = offer(cursor)
    assert filters == ConversationFilters(4, {"run": "openai/a"}, ("ours",), ("Dermatology",), ("no_question",), (MCQ,))
    assert filters.models == ["openai/a"]
    with Store(tmp_path / "empty.duckdb").read() as cursor:
        assert offer(cursor) == ConversationFilters(0, {}, (), (), (), ())


def test_the_first_message_is_scripted_if_the_program_wrote_it(store: Store) -> None:
    """Rows: run header, role of the first message, whether it and the second have a call; whether it is scripted."""
    model, rule = {"doctor": "openai/a"}, {"doctor": "reference/bayes"}
    tagged = {"protocol": "automedic", "settings": {"staff": "reference/staff"}}
    table = [
        ("greeting", model, "doctor", (False, True), True),
        ("own-first", model, "doctor", (True, True), False),
        ("opening", {**model, "protocol": "consultation"}, "patient", (False, True), True),
        ("rules", rule, "doctor", (False, False), True),
        ("person", {"doctor": "human/ada"}, "doctor", (False, False), True),
        ("release", model, "doctor", (False, False), True),
        ("log", {**model, "source": "imported"}, "doctor", (False, False), False),
        ("log-with-calls", {**model, "source": "imported"}, "doctor", (False, True), True),
        ("tags", {**model, **tagged}, "doctor", (True, True), False),
        ("tags-by-rule", {**rule, **tagged}, "doctor", (False, True), False),
    ]
    for name, changes, role, calls, _ in table:
        roles = (role, "patient" if role == "doctor" else "doctor", role)
        spoken = [
            Utterance(turn=n, role=who, text="Hello.", call_id=f"c{n}" if n < 2 and calls[n] else None)
            for n, who in enumerate(roles)
        ]
        line = a_trial([*spoken, Ended(reason="no_question", doctor_turns=1)], trial_id=name, run_id=name)
        write_journal(store.journals, name, a_header(name, [a_case(1)], **changes), line)
    fold(store)
    with store.write() as connection:  # the import of a release writes its run
        connection.execute("UPDATE runs SET source = 'release' WHERE run_id = 'release'")
    with store.read() as cursor:
        by_trial = dialogues(cursor, [name for name, *_ in table])
    scripted = {name: [turn.scripted for turn in dialogue] for name, dialogue in by_trial.items()}
    assert scripted == {name: [first, False, False] for name, *_, first in table}
