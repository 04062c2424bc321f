"""The request to a judge of medical terms, and how its answer is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.asking.scene import Turn
from core.jobs.judges import shown, terms_in, terms_pack
from core.store.queries.patient_judgements import JudgedTerm
from tests.core.measures.patients.patient_conversations import DIAGNOSIS, LATIN, OPENING, dialogue

CONVERSATION = (*dialogue(OPENING, LATIN), Turn("doctor", DIAGNOSIS))
PAPULES = JudgedTerm(3, "papules", 13, 20)  # "I have a few papules and pruritus."
PRURITUS = JudgedTerm(3, "pruritus", 25, 33)


def answer(*terms: tuple[Any, str]) -> str:
    return json.dumps({"terms": [{"turn": turn, "words": words} for turn, words in terms]})


def test_only_replies_are_numbered_and_the_prompt_has_no_diagnosis() -> None:
    assert shown(CONVERSATION) == [
        (None, "Doctor", OPENING[0]),
        (1, "Patient", OPENING[1]),
        (None, "Doctor", LATIN[0]),
        (3, "Patient", LATIN[1]),
    ]
    prompt = terms_pack().render("judge", dialogue=shown(CONVERSATION))
    assert f"[3] Patient: {LATIN[1]}\n" in prompt
    assert f"\nDoctor: {LATIN[0]}\n" in prompt
    assert DIAGNOSIS not in prompt


def test_terms_are_read_from_an_answer_with_other_text(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, tuple[JudgedTerm, ...]]] = [
        (answer((3, "pruritus"), (3, "papules")), (PAPULES, PRURITUS)),
        (f"In reply [3] there is one {{really}}:\n```json\n{answer((3, 'papules'))}\n```\nThat is all.", (PAPULES,)),
        (f"First I thought {answer((3, 'pruritus'))}, but rather {answer((3, 'papules'))}", (PAPULES,)),
        (answer(("3", " Papules ")), (PAPULES,)),  # as written in the reply; upper and lower case do not matter
        (answer((3, "papules"), (3, "papules")), (PAPULES,)),
        (answer(), ()),
    ]
    for text, terms in rows:
        with subtests.test(text=text, terms=terms):
            judgement = terms_in(text, CONVERSATION)
            assert (judgement.things, judgement.dropped) == (terms, 0)


def test_words_that_are_not_in_the_reply_are_dropped_and_counted(subtests: pytest.Subtests) -> None:
    rows: list[tuple[int, str]] = [
        (3, "erythema"),  # nowhere
        (1, "papules"),  # in another reply
        (2, "spots"),  # the doctor's message
        (9, "papules"),  # no such message
        (3, "papule"),  # half a word
        (3, " "),
    ]
    for turn, words in rows:
        with subtests.test(turn=turn, words=words):
            judgement = terms_in(answer((turn, words), (3, "pruritus")), CONVERSATION)
            assert (judgement.things, judgement.dropped) == ((PRURITUS,), 1)


def test_a_bare_list_is_accepted() -> None:
    assert terms_in("[]", CONVERSATION) == terms_in('{"terms": []}', CONVERSATION)
    assert terms_in('[{"turn": 3, "words": "pruritus"}]', CONVERSATION).things == (PRURITUS,)


def test_an_answer_of_another_form_is_unreadable(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("There is none.", "no JSON object"),
        ("{}", "terms"),
        ('{"terms": null}', "terms"),
        ('{"terms": [{"turn": "third", "words": "papules"}]}', "turn"),
        ('{"terms": [{"turn": 3, "words": "papules"', "no JSON object"),
        ("[3]", "terms"),
        ('{"a":' * 100_000, "JSON"),
    ]
    for text, fault in rows:
        with subtests.test(text=text, fault=fault), pytest.raises(ValueError, match=fault):
            terms_in(text, CONVERSATION)
