"""AutoMedic's labels of endings, misuses and ratings."""

from __future__ import annotations

from typing import get_args

from core.events import Assessed, Ended
from core.frameworks.automedic.speech import TagSpeech
from core.frameworks.automedic.tags import EMPATHY, MISUSE, MISUSE_WORDS, TAGS, TagMisuse

SPEECH = TagSpeech()


def test_an_ending_has_the_number_of_queries_that_were_passed_on() -> None:
    ended, capped = Ended(reason="end_tag", doctor_turns=8), Ended(reason="turn_cap", doctor_turns=1)
    assert SPEECH.ending(ended) == "the doctor wrote the end tag; 8 queries were passed on"
    assert SPEECH.ending(capped) == "the message limit was reached; 1 query was passed on"


def test_every_misuse_has_a_label_and_an_unknown_misuse_its_name() -> None:
    assert set(MISUSE_WORDS) == set(get_args(TagMisuse))
    misuse = Assessed(name=MISUSE, turn=2, values=("unclosed", "empty", "shouted_tag"))
    assert SPEECH.remark(misuse) == (
        "Against the tag protocol: it leaves a tag open; it has an empty tag; shouted tag."
    )


def test_a_remark_on_a_rating_names_the_rater_or_that_it_is_missing() -> None:
    rated = Assessed(name=EMPATHY, value=4, most=5, by="openai/p")
    assert SPEECH.remark(rated) == "Empathy 4 of 5, rated by openai/p as the patient"
    assert SPEECH.remark(rated.model_copy(update={"value": None})) == "Empathy not rated by openai/p as the patient"
    ruled = SPEECH.remark(rated.model_copy(update={"by": "reference/profile"}))
    assert "not judged" in ruled
    assert "4" not in ruled


def test_the_tags_are_those_of_the_doctors_prompt() -> None:
    assert set(TAGS) == {"<patient>", "</patient>", "<clinical>", "</clinical>", "</end>"}
