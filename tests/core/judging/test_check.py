"""Checks of judges: edits of conversations, the answers that must follow from them, and the questions that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from core.asking.scene import Dialogue, Turn
from core.events import Speaker
from core.judging.check import (
    FAILED,
    PASSED,
    ROUNDS,
    WRONG_EXPECTATIONS,
    CheckKind,
    applies,
    difference,
    edited,
    exchanges,
    failing_questions,
    greeted,
    is_failure,
    lengthened,
    removals,
    reordered,
    respelled,
    without_exchanges,
)
from core.judging.form import FormQuestion
from core.judging.judgement import Judge, Judgement, Quotation
from core.judging.request import FormAnswer

ROOT = Path(__file__).parents[3]
D: Speaker = "doctor"
P: Speaker = "patient"
TALK: Dialogue = (
    Turn(D, "Hello, what brings you in?", scripted=True),
    Turn(P, "My knee hurts."),
    Turn(D, "Do you smoke?"),
    Turn(P, "No, I don't."),
    Turn(D, "Have you had a fever?"),
    Turn(P, "Yes, on Monday."),
    Turn(D, "How high was it?"),
    Turn(P, "I forgot."),
    Turn(D, "You have gout"),
)
MET = FormQuestion.model_validate(
    {"id": "q", "title": "Q", "wording": "Fever is asked about.", "options": {"met": "Met", "not met": "Not met"}}
    | {"yes": ("met",)}
)
JUDGE = Judge("openai/judge", "model", "abc", 0)


def texts(dialogue: Dialogue | None) -> list[str]:
    return [turn.text for turn in dialogue or ()]


def test_each_edit_changes_what_it_says_and_nothing_else() -> None:
    assert [list(exchange) for exchange in exchanges(TALK)] == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
    assert texts(without_exchanges(TALK, {5})) == texts(TALK[:4] + TALK[6:])
    assert texts(without_exchanges(TALK, {1, 3, 5, 7, 8})) == [""]

    # the question after the fever says "it", so that only smoking and fever can change places
    assert texts(reordered(TALK)) == texts(TALK[:2] + TALK[4:6] + TALK[2:4] + TALK[6:])
    assert reordered(TALK[4:]) is None
    about_one = (Turn(D, "Is your cough dry?"), Turn(P, "No."), Turn(D, "Since when the cough?"), Turn(P, "May."))
    assert reordered(about_one) is None

    assert texts(greeted(TALK))[1] == "Hello. My knee hurts."
    assert texts(greeted((Turn(P, "His belly aches."),))) == ["Hello. His belly aches."]
    assert texts(greeted((Turn(P, "Hi doctor, it itches"),))) == ["Hi doctor, it itches. Thanks."]
    assert texts(respelled((Turn(P, "Color and colors"),))) == ["Colour and colours"]
    assert texts(respelled(TALK))[3] == "No, I dont."
    assert respelled(TALK[:3]) is None

    long = lengthened(TALK)
    assert [turn for turn in long if turn.role == P] == [turn for turn in TALK if turn.role == P]
    assert long[0] == TALK[0]  # nobody's words
    spoken = [n for n, turn in enumerate(TALK) if turn.role == D and not turn.scripted]
    assert all(len(long[n].text) >= 2 * len(TALK[n].text) for n in spoken)
    assert long[-1].text.startswith("You have gout. ")
    assert [line[:1] for line in difference(TALK, greeted(TALK) or ()).splitlines()].count("+") == 1


def test_the_same_conversation_has_the_same_harmless_change_and_conversations_share_the_kinds() -> None:
    changes = {subject: texts(edited("wording", TALK, subject)) for subject in map(str, range(30))}
    assert changes == {subject: texts(edited("wording", TALK, subject)) for subject in changes}
    assert len({str(change) for change in changes.values()}) == 3
    assert edited("repeat", TALK, "s") == TALK
    assert edited("other case", TALK, "s", TALK[:2]) == TALK[:2]
    assert edited("other case", TALK, "s") is None


def answer(value: str, *messages: int, void: bool = False) -> FormAnswer:
    return FormAnswer(MET, value, tuple(Quotation(n, "words") for n in messages), void=void)


def test_what_is_quoted_is_removed_until_no_evidence_is_left() -> None:
    # answers to each conversation, None at the end → texts of the last conversation
    rounds = removals(TALK, answer("met", 4), MET, "doctor")
    assert texts(next(rounds)) == texts(TALK[:4] + TALK[6:])
    assert texts(rounds.send(answer("met", 2))) == texts(TALK[:2] + TALK[6:])
    left = rounds.send(answer("met", 2))
    assert texts(left) == [""]  # all words of the doctor, with their exchanges

    ended = []
    for last in (answer("not met"), answer("met", 2, void=True), answer("met")):
        rounds = removals(TALK, answer("met", 4), MET, "doctor")
        next(rounds)
        try:
            rounds.send(last)
        except StopIteration:
            ended.append(last.value)
    assert ended == ["not met", "met", "met"]
    assert ROUNDS == 3


def test_what_must_change_and_what_must_stay() -> None:
    scale = FormQuestion.model_validate({**MET.model_dump(), "kind": "scale", "yes": ()})
    of_case = MET.model_copy(update={"of_case": True})
    # kind, question, answer before → does the check apply; and the answers after it that are failures
    rows: list[tuple[CheckKind, FormQuestion, str, bool, list[str]]] = [
        ("evidence", MET, "met", True, ["met"]),
        ("evidence", MET, "not met", False, []),
        ("evidence", scale, "met", False, []),
        ("other case", MET, "met", False, []),
        ("other case", of_case, "met", True, ["met"]),
        ("other case", of_case, "not met", False, []),
        ("wording", scale, "met", True, ["not met", "cannot judge"]),
        ("repeat", MET, "not met", True, ["met", "cannot judge"]),
        ("length", MET, "met", True, ["not met", "cannot judge"]),
    ]
    wrong = []
    for kind, question, before, right, failures in rows:
        got = applies(kind, question, "doctor", before)
        failed = [after for after in ("met", "not met", "cannot judge") if is_failure(kind, question, before, after)]
        if got != right or (right and failed != failures):
            wrong.append((kind, before, got, failed))
    assert wrong == []
    assert not applies("evidence", MET, "none", "met")


def results(failed: int, passed: int, form: str = "check:f", kind: str = "length", h: str = "h") -> list[Judgement]:
    common: dict[str, Any] = {"subject": "talk:t", "form": form, "question": "q", "judge": JUDGE, "at": 1.0}
    values = [FAILED] * failed + [PASSED] * passed
    return [Judgement(**common, value=value, against=f"{h} {kind}") for value in values]


def test_a_question_fails_if_the_whole_interval_of_its_failures_is_above_a_fifth() -> None:
    # 95 % intervals of Wilson: 6 of 10 from 0.31, 4 of 10 from 0.17, 8 of 20 from 0.22, 4 of 4 are too few
    rows = [
        (results(6, 4), True),
        (results(4, 6), False),
        (results(8, 12), True),
        (results(4, 0), False),
        (results(3, 5) + results(3, 5, kind="repeat"), False),  # each kind by itself
        (results(0, 20) + results(6, 4, kind="wording"), True),
        (results(6, 4, form="f"), False),  # answers about real conversations
        ([Judgement(**{**vars(r), "value": None, "failure": "down"}) for r in results(9, 0)], False),
    ]
    wrong = [number for number, (judged, fails) in enumerate(rows) if bool(failing_questions(judged)) != fails]
    assert wrong == []
    assert failing_questions(results(6, 4) + results(0, 9, h="other")) == {(JUDGE, "h")}


def test_the_counts_of_wrong_expectations_are_those_of_the_pairs_that_were_read() -> None:
    pairs = json.loads((ROOT / "benchmarks" / "judge_check_pairs.json").read_text(encoding="utf-8"))
    read = {
        kind: (sum(not p["holds"] for p in pairs if p["kind"] == kind), sum(p["kind"] == kind for p in pairs))
        for kind in WRONG_EXPECTATIONS
    }
    assert read == WRONG_EXPECTATIONS
    assert len(pairs) == 40
