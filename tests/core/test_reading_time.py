"""Parsers are fast on every reply: 200 kB of repeated text are read in half a second on an idle machine.

The first lane reads 40 kB, which shows a reader whose time explodes; `make test-all` reads all 200 kB.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable

import pytest

from core.agents.grader import _SEPARATORS, named_in_list, read_extracted, read_name, read_yes_no
from core.agents.mcq import judge_strict
from core.agents.probe import BeliefReply, read_belief
from core.agents.profiler import read_profile
from core.agents.sections_model import read_split
from core.asking.ask import json_in, quotation, read_json
from core.asking.scene import Turn
from core.frameworks.automedic.tags import plain_words, read_tags
from core.jobs.openings import read_opening
from core.judging.form import form_named
from core.judging.patient_rule import marks_in
from core.judging.request import Material, answers_in
from core.knowledge.base import knowledge, normalise_name
from core.models.thinking import Thinking, looks_like_thought
from core.text.extraction import NUMBERED, extract_by_rule, listed_diagnoses
from tests.core.agents.acting import case_with

SIZE = 200_000
SHORT = 40_000
ENOUGH_S = {SIZE: 1.0, SHORT: 0.4}
"""CPU seconds by length, best of three; a busy machine takes twice as long as an idle one."""
REPEATED = (
    "a", " ", "*", '"', "(", "\n", "1. ", "Option A ", "<think>", "{", "[", "Yes ", "no, ", " \n", "=>", "-", "1",
    "A) ", "a</think>", "I cannot help. ", "I am a ", "Gout or ", "<patient>", "? ", '{"a":',
)  # fmt: skip
CASE = case_with("Gout")
TERMS = form_named("patient_terms")
QUESTION = Turn("doctor", "What is it?")
DECLINES = "I'm sorry, I cannot help with that."


def thought(text: str, *, opened: bool = False) -> None:
    """Separate reasoning and reply in a stream of small pieces."""
    thinking = Thinking(opened=opened)
    for start in range(0, len(text), 20):
        list(thinking.take(text[start : start + 20]))
    list(thinking.end(cut_off=False))
    assert len(thinking.text) + len(thinking.reasoning) <= len(text)


def replied(text: str) -> tuple[Turn, Turn]:
    return QUESTION, Turn("patient", text)


READERS: dict[str, Callable[[str], object]] = {
    "a verdict": read_yes_no,
    "a name": lambda text: read_name(text, DECLINES),
    "a name behind a refusal": lambda text: read_name(f"Refused: {text}", text),
    "a refusal that is said again": lambda text: read_name(f"{DECLINES} {text}", f"{text} {DECLINES}"),
    "what was extracted": read_extracted,
    "a name to compare": lambda text: _SEPARATORS.sub(" ", text),
    "a list of diagnoses": named_in_list,
    "whether it is a list": NUMBERED.search,
    "a differential": listed_diagnoses,
    "a diagnosis by rule": lambda text: extract_by_rule(text, knowledge()),
    "a diagnosis's plain name": normalise_name,
    "the choice": lambda text: judge_strict(text, "Gout", ("Gout", "Gout with tophi", "Option A")),
    "the choice without letters": lambda text: judge_strict(text, "Gout", ("Gout", "Bunion"), lettered=False),
    "a belief": read_belief,
    "all JSON": json_in,
    "JSON of a form": lambda text: read_json(text, BeliefReply),
    "a profile": lambda text: read_profile(text, CASE),
    "an opening": lambda text: read_opening(text, CASE),
    "sections": lambda text: read_split(text, CASE.vignette),
    "a sentence of a section": lambda text: read_split(
        json.dumps({"sections": [{"section": "other", "sentence": text}]}), CASE.vignette
    ),
    "a judge's places": lambda text: answers_in(text, TERMS, TERMS.questions, Material(replied("It hurts."))),
    "a judge's quotation": lambda text: answers_in(
        json.dumps({"q1": {"quotations": [{"message": 1, "words": text[:1_000]}]}}),
        TERMS,
        TERMS.questions,
        Material(replied(text)),
    ),
    "a quotation": lambda text: quotation(text[: SIZE // 2] + "x", text),
    "tags": lambda text: read_tags.__wrapped__(text),
    "words in tags": lambda text: read_tags.__wrapped__(f"<patient>a</patient><clinical>{text}</clinical>"),
    "words behind a label": lambda text: read_tags.__wrapped__(f"Patient: {text}"),
    "a message's words": plain_words,
    "thoughts": thought,
    "thoughts that the template begins": lambda text: thought(text, opened=True),
    "unmarked thoughts": looks_like_thought,
    "a patient's slips": lambda text: marks_in(CASE, replied(text)),
}


def seconds(read: Callable[[str], object], text: str) -> float:
    began = time.process_time()
    with contextlib.suppress(ValueError):  # unreadable replies raise
        read(text)
    return time.process_time() - began


SLOWEST = {"a diagnosis by rule", "a patient's slips"}


@pytest.mark.slow
def test_repetitive_replies_are_read_quickly() -> None:
    assert too_slow(set(READERS) - SLOWEST, SHORT) == {}


@pytest.mark.slow
def test_long_repetitive_replies_are_read_quickly() -> None:
    assert too_slow(READERS, SIZE) == {}


def too_slow(readers: Iterable[str], size: int) -> dict[tuple[str, str], float]:
    """Return (reader, repeated text) → CPU seconds where they are too many."""
    slow = {}
    for name in readers:
        read = READERS[name]
        seconds(read, "Gout")  # fills the caches
        for repeated in REPEATED:
            text = (repeated * (size // len(repeated) + 1))[:size]
            duration = 0.0
            for _ in range(3):
                if (duration := seconds(read, text)) <= ENOUGH_S[size]:
                    break
            else:
                slow[name, repeated] = duration
    return slow
