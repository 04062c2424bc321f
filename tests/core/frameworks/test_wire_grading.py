"""The requests of the grader's two steps, and how its replies are read."""

from __future__ import annotations

from typing import Any

import pytest

from core.events import Graded
from tests.core.frameworks.stage import CASE, Actors, Rules, is_extraction, last, of, play, sent_to, verdicts
from tests.support.fake_provider import FakeProvider

FREE = Rules(arms=(("vignette", "frq"),))
TOP3 = Rules(arms=(("vignette", "frq_top3"),))


def extractions(provider: FakeProvider) -> list[dict[str, Any]]:
    return [b for b in sent_to(provider, "grader") if is_extraction(b)]


def judged(provider: FakeProvider) -> list[str]:
    """Return the pairs of the second step's requests, from their last lines."""
    return [last(b).splitlines()[-1] for b in sent_to(provider, "grader") if not is_extraction(b)]


async def test_the_response_is_extracted_and_then_compared(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(answer="It looks like contact eczema to me.", extract="Contact eczema.")
    events = await play(fake_provider, FREE)
    (extraction,) = extractions(fake_provider)
    assert [m["role"] for m in extraction["messages"]] == ["user"]
    assert last(extraction).endswith("Doctor's text:\n<quoted>\nIt looks like contact eczema to me.\n</quoted>")
    assert CASE.answer not in last(extraction)  # the first step does not get the right answer
    assert judged(fake_provider) == ["1: Allergic contact dermatitis | 2: Contact eczema →"]
    (grade,) = of(events, Graded)
    assert (grade.grader, grade.rule, grade.extracted, grade.verdict) == (
        "openai/grader",
        "frq",
        "Contact eczema",
        "correct",
    )
    called = [e.call.call_id for e in events if e.kind == "called" and e.call.role == "grader"]
    assert list(grade.call_ids) == called
    assert len(called) == 2


@pytest.mark.parametrize(
    ("extraction", "verdict"),
    [
        ("Multiple", "multiple"),
        ("multiple.", "multiple"),
        ("None", "no_diagnosis"),
        ("**None**", "no_diagnosis"),
        ('"Multiple"', "multiple"),
        ("Final diagnosis: None", "no_diagnosis"),
    ],
)
async def test_multiple_and_none_are_never_compared(fake_provider: FakeProvider, extraction: str, verdict: str) -> None:
    fake_provider.script = Actors(extract=extraction)
    events = await play(fake_provider, FREE)
    assert verdicts(events) == {"vignette:frq": [verdict]}
    assert len(extractions(fake_provider)) == 1
    assert judged(fake_provider) == []


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("Yes", "correct"),
        ("no", "incorrect"),
        ("**Yes**", "correct"),
        ("No, it is another disease.", "incorrect"),
        ("yes.", "correct"),
    ],
)
async def test_verdicts_are_read(fake_provider: FakeProvider, reply: str, verdict: str) -> None:
    fake_provider.script = Actors(extract="Contact eczema", judge=reply)
    assert verdicts(await play(fake_provider, FREE)) == {"vignette:frq": [verdict]}
    assert len(judged(fake_provider)) == 1


@pytest.mark.parametrize("reply", ["Maybe", "They are not the same.", "I say yes", "Yesterday", "1", "Nothing"])
async def test_an_unreadable_verdict_is_repaired_twice(fake_provider: FakeProvider, reply: str) -> None:
    # equal replies would end the repairs
    fake_provider.script = Actors(judge=lambda body: reply + "." * len(judged(fake_provider)))
    events = await play(fake_provider, FREE)
    sent = [str(body) for body in sent_to(fake_provider, "grader") if not is_extraction(body)]
    assert len(set(sent)) == len(sent) == 3, "no two requests are equal"
    assert verdicts(events) == {"vignette:frq": ["ungradable"]}
    (grade,) = of(events, Graded)
    assert len(grade.call_ids) == 4


@pytest.mark.parametrize("readable_at", [1, 2, 3])
async def test_the_first_readable_verdict_ends_the_requests(fake_provider: FakeProvider, readable_at: int) -> None:
    fake_provider.script = Actors(
        extract="Contact eczema",
        judge=lambda body: "No" if (n := len(judged(fake_provider))) >= readable_at else f"It depends{'.' * n}",
    )
    assert verdicts(await play(fake_provider, FREE)) == {"vignette:frq": ["incorrect"]}
    assert len(judged(fake_provider)) == readable_at


async def test_an_ungradable_pair_is_not_judged_again_at_temperature_0(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(judge=lambda body: "Yes" if (n := len(judged(fake_provider))) > 3 else "Hm" * n)
    events = await play(fake_provider, Rules(arms=(("vignette", "frq"), ("single_turn", "frq"))))
    assert verdicts(events) == {"vignette:frq": ["ungradable"], "single_turn:frq": ["ungradable"]}
    assert len(judged(fake_provider)) == 3


async def test_one_answer_is_read_once_and_one_pair_gets_one_verdict(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(judge=lambda body: "Yes" if len(judged(fake_provider)) == 1 else "No")
    events = await play(fake_provider, Rules(arms=(("vignette", "frq"), ("single_turn", "frq"))))
    assert verdicts(events) == {"vignette:frq": ["correct"], "single_turn:frq": ["correct"]}
    assert len(extractions(fake_provider)) == 1
    assert len(judged(fake_provider)) == 1


async def test_a_refusal_in_words_has_its_own_verdict(fake_provider: FakeProvider) -> None:
    """The grader's first step quotes the refusal; for choices it is called only if no choice is named."""
    words = "I can't help with that."
    fake_provider.script = Actors(answer=words, extract=f"Refused: {words}")
    arms = (("vignette", "frq"), ("vignette", "frq_top3"), ("vignette", "mcq"))
    events = await play(fake_provider, Rules(arms=arms))
    assert verdicts(events) == {
        "vignette:frq": ["refused_in_words"],
        "vignette:frq_top3": ["refused_in_words"],
        "vignette:mcq": ["incorrect", "refused_in_words"],
    }
    assert {g.extracted for g in of(events, Graded) if g.rule != "mcq_loose"} == {"Refused: “I can't help with that”"}
    assert (len(extractions(fake_provider)), judged(fake_provider)) == (1, []), "the same words are read once"


async def test_of_three_diagnoses_each_is_compared_until_one_fits(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(
        answer="**Final Diagnosis:**\n1. Scabies\n2. Contact eczema\n3. Psoriasis\n4. Gout",
        judge=lambda body: "Yes" if last(body).endswith("| 2: Contact eczema →") else "No",
    )
    events = await play(fake_provider, TOP3)
    assert judged(fake_provider) == [
        "1: Allergic contact dermatitis | 2: Scabies →",
        "1: Allergic contact dermatitis | 2: Contact eczema →",
    ]
    assert extractions(fake_provider) == []
    (grade,) = of(events, Graded)
    assert (grade.rule, grade.verdict, grade.extracted) == ("frq_top3", "correct", "Scabies, Contact eczema, Psoriasis")


async def test_a_fourth_diagnosis_does_not_count(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(
        answer="1. Scabies\n2. Gout\n3. Psoriasis\n4. Contact eczema",
        judge=lambda body: "Yes" if "2: Contact eczema" in last(body).splitlines()[-1] else "No",
    )
    assert verdicts(await play(fake_provider, TOP3)) == {"vignette:frq_top3": ["incorrect"]}
    assert len(judged(fake_provider)) == 3


async def test_choices_are_judged_by_both_rules_without_a_grader(fake_provider: FakeProvider) -> None:
    fake_provider.script = Actors(answer="Scabies, Psoriasis, Allergic contact dermatitis or Tinea manuum")
    events = await play(fake_provider, Rules(arms=(("vignette", "mcq"),)))
    assert [(g.rule, g.verdict, g.grader) for g in of(events, Graded)] == [
        ("mcq_loose", "correct", "rule"),  # the answer occurs in the response
        ("mcq_strict", "multiple", "rule"),  # all other choices occur too
    ]
    assert sent_to(fake_provider, "grader") == []
