"""Profiles by a model behind a loopback provider: its prompts, its faulty replies, and the resulting profiles."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from core.agents.profiler import PROMPTS, REASON_MEANINGS, LLMProfiler, Profiled
from core.asking.ask import MAX_ASKS
from core.asking.calls import Voice
from core.asking.scene import CallFailed
from core.case import Case
from core.errors import ProfilingError
from core.events import Called
from core.prompts import load_pack
from core.text.profiles import REASONS
from tests.support.asking import make_model, make_spec
from tests.support.fake_provider import running
from tests.support.replies import Reply, failing

CASE = Case(
    case_key="t/1",
    dataset="t",
    specialty="Dermatology",
    answer="Psoriasis",
    question="What ails this man?",
    choices=("Psoriasis", "Scabies", "Eczema", "Tinea"),
    vignette="A 40-year-old man has had scaly patches on his elbows for 3 months. He denies fever. Examination shows "
    "pitted nails.",
)
PACK = load_pack("automedic", PROMPTS)
PASSES = json.dumps({"suitable": True, "reason": None, "note": "A man with a skin complaint."})
PROFILE: dict[str, Any] = {
    "speaker": "patient",
    "demographics": [{"key": "age", "value": "40-year-old", "lay": "I'm 40."}],
    "basic": [
        {"key": "chief complaint", "value": "scaly patches on his elbows", "lay": "My elbows are scaly."},
        {"key": "duration", "value": "for 3 months", "lay": "For three months."},
        {"key": "fever", "value": "denies fever", "lay": "No fever."},
        {"key": "family history", "value": "parents are well", "lay": "My parents are well.", "imputed": True},
    ],
    "optional": [{"key": "nails", "section": "examination", "value": "pitted nails"}],
}
GOOD = json.dumps(PROFILE)


def without(part: str) -> str:
    return json.dumps({key: value for key, value in PROFILE.items() if key != part})


def generate(*replies: str | Reply) -> tuple[Profiled, list[str]]:
    """Return the profiler's result, and the last message of each request."""
    with running(list(replies)) as provider:

        async def listen() -> list[Any]:
            model = make_model(make_spec(provider.base_url))
            try:
                return [item async for item in LLMProfiler(Voice(model), PACK).generate(CASE)]
            finally:
                await model.aclose()

        items = asyncio.run(listen())
        last = items[-1]
        assert isinstance(last, Profiled)
        assert tuple(i.call.call_id for i in items if isinstance(i, Called)) == last.call_ids
        return last, [body["messages"][-1]["content"] for body in provider.bodies]


def test_the_filters_prompt_has_the_complete_item_and_the_profile_prompt_vignette_and_answer() -> None:
    _, (first, second) = generate(PASSES, GOOD)

    assert all(part in first for part in (CASE.vignette, CASE.question, *CASE.choices))
    assert all(reason in first for reason in REASONS)
    assert CASE.vignette in second
    assert "Psoriasis" in second
    assert not any(part in second for part in (CASE.question, "Scabies", "Eczema", "Tinea"))
    assert set(REASON_MEANINGS) == set(REASONS)


def test_a_good_reply_becomes_a_profile_by_the_model() -> None:
    last, prompts = generate(PASSES, GOOD)
    generated = last.generated

    assert len(prompts) == 2
    assert last.dropped == ()
    assert (generated.suitable, generated.made_by, generated.note, generated.speaker) == (
        True,
        "openai/test",
        "A man with a skin complaint.",
        "patient",
    )
    assert generated.profile is not None
    assert [f.value for f in generated.profile.demographics] == ["40-year-old"]
    assert [(f.key, f.imputed) for f in generated.profile.basic] == [
        ("chief complaint", False),
        ("duration", False),
        ("fever", False),
        ("family history", True),
    ]
    assert [(f.section, f.value) for f in generated.profile.optional] == [("examination", "pitted nails")]


def test_a_rejection_keeps_its_reason_and_costs_one_call(subtests: pytest.Subtests) -> None:
    for reason in REASONS:
        with subtests.test(reason=reason):
            last, prompts = generate(json.dumps({"suitable": False, "reason": reason, "note": "No."}))

            assert (last.generated.suitable, last.generated.reason, last.generated.profile) == (False, reason, None)
            assert len(prompts) == 1


def test_text_around_the_json_does_no_harm(subtests: pytest.Subtests) -> None:
    for wrapped in [f"Sure [as asked]! Here:\n```json\n{GOOD}\n```\nAnything else?", f"{{not json}} {GOOD} {{"]:
        with subtests.test(wrapped=wrapped):
            last, prompts = generate(PASSES, wrapped)

            assert len(prompts) == 2
            assert last.generated.profile is not None


def test_a_reply_that_cannot_be_used_is_requested_again_with_the_reason(subtests: pytest.Subtests) -> None:
    table: list[tuple[str, str]] = [
        ('{"basic": [{"key": "chief com', "basic: Field required|JSON"),
        ("I cannot do that.", "no JSON object"),
        (without("basic"), "basic: Field required"),
        ('{"basic": "none"}', "basic: Input should be a valid list"),
        (json.dumps({**PROFILE, "optional": [{"key": "x", "section": "mood", "value": "y"}]}), "optional.0.section"),
        (json.dumps({**PROFILE, "basic": [{"key": "cough", "value": "denies fever"}]}), "chief complaint"),
        (
            json.dumps({**PROFILE, "basic": [{"key": "chief complaint", "value": "hiccups", "imputed": True}]}),
            "chief complaint",
        ),
        ("[1, 2]", "no JSON object"),
    ]
    for bad, complaint in table:
        with subtests.test(bad=bad, complaint=complaint):
            last, prompts = generate(PASSES, bad, f"{bad} ", GOOD)

            assert last.generated.profile is not None
            assert len(prompts) == 4
            assert "cannot be used" not in prompts[1]
            assert re.search(rf"cannot be used: .*(?:{complaint})", prompts[2])


def test_a_filter_reply_without_a_reason_is_asked_for_again() -> None:
    last, prompts = generate('{"suitable": false}', '{"suitable": false, "reason": "boring"}', PASSES, GOOD)

    assert last.generated.suitable
    assert len(prompts) == 4
    assert 'cannot be used: the reply: "suitable" is false, so "reason" is one of research_setting, ' in prompts[1]


def test_after_three_useless_replies_the_case_is_named_with_the_reason(subtests: pytest.Subtests) -> None:
    for replies, which in [(("no", "never", "no"), "filter"), ((PASSES, "no", "never", "no"), "profile")]:
        with (
            subtests.test(replies=replies, which=which),
            pytest.raises(ProfilingError, match=rf"openai/test gave no {which} that can be used for t/1 in {MAX_ASKS}"),
        ):
            generate(*replies)


def test_an_invented_result_is_dropped_counted_and_noted() -> None:
    invented = {"key": "biopsy", "section": "other_tests", "value": "acanthosis"}
    last, _ = generate(PASSES, json.dumps({**PROFILE, "optional": [*PROFILE["optional"], invented]}))

    assert last.generated.profile is not None
    assert [f.value for f in last.generated.profile.optional] == ["pitted nails"]
    assert [(d.part, d.value) for d in last.dropped] == [("optional", "acanthosis")]
    assert last.generated.note.endswith("1 proposed fact did not hold and was dropped.")


def test_a_fact_without_a_value_is_left_out_and_the_patient_does_not_speak_of_the_patient() -> None:
    allergies = {"key": "allergies", "value": "None mentioned.", "lay": "I have no allergies."}
    smoking = {"key": "smoking", "value": "never smoked", "lay": "The patient has never smoked."}
    last, _ = generate(PASSES, json.dumps({**PROFILE, "basic": [*PROFILE["basic"], allergies, smoking]}))

    assert last.generated.profile is not None
    facts = {f.key: f.lay for f in last.generated.profile.basic}
    assert list(facts) == [*(f["key"] for f in PROFILE["basic"]), "smoking"]
    assert facts["smoking"] == "never smoked"


def test_numbers_for_texts_are_read() -> None:
    last, _ = generate(PASSES, json.dumps({**PROFILE, "demographics": [{"key": "age", "value": 40}]}))

    assert last.generated.profile is not None
    assert last.generated.profile.demographics[0].value == "40"


def test_a_providers_failure_is_no_rejection(subtests: pytest.Subtests) -> None:
    for replies in [(failing(401),), (PASSES, failing(400)), (Reply(text=""),)]:
        with subtests.test(replies=replies), pytest.raises(CallFailed):
            generate(*replies)


def test_a_servers_error_that_passes_is_survived() -> None:
    last, _ = generate(failing(500), PASSES, GOOD)

    assert last.generated.suitable
