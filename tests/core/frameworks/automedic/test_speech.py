"""AutoMedic's own words for what happens in its conversations."""

from __future__ import annotations

from typing import get_args

from core.events import Assessed, Ended
from core.frameworks.automedic.speech import TagSpeech
from core.frameworks.automedic.tags import EMPATHY, MISUSE, MISUSE_WORDS, TAGS, TagMisuse

SPEECH = TagSpeech()


def test_what_counts_is_the_queries_that_were_passed_on() -> None:
    ended, capped = Ended(reason="end_tag", doctor_turns=8), Ended(reason="turn_cap", doctor_turns=1)
    assert SPEECH.ending(ended) == "the doctor wrote the end tag; 8 queries were passed on"
    assert SPEECH.ending(capped) == "the cap was reached; 1 query was passed on"


def test_every_misuse_has_its_words_and_one_of_another_version_is_still_said() -> None:
    assert set(MISUSE_WORDS) == set(get_args(TagMisuse))
    misuse = Assessed(name=MISUSE, turn=2, values=("unclosed", "empty", "shouted_tag"))
    assert SPEECH.remark(misuse) == (
        "Against the tag protocol: it leaves a tag open; it has an empty tag; shouted tag."
    )


def test_a_rating_says_by_whom_and_that_there_is_none() -> None:
    rated = Assessed(name=EMPATHY, value=4, most=5, by="openai/p")
    assert SPEECH.remark(rated) == "Empathy 4 of 5, rated by openai/p as the patient"
    assert SPEECH.remark(rated.model_copy(update={"value": None})) == "Empathy not rated by openai/p as the patient"


def test_the_tags_are_those_that_the_doctor_is_told() -> None:
    assert set(TAGS) == {"<patient>", "</patient>", "<clinical>", "</clinical>", "</end>"}
