"""Campaigns of AutoMedic: prepared cases, fingerprint, refused plans, resuming and estimates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.case import Case, Fact, Profile
from core.errors import UsageError
from core.events import Answered, Assessed, Ended, Utterance
from core.frameworks.automedic import ARMS, AutoMedicSettings
from core.frameworks.base import Campaign, framework, read_settings
from core.frameworks.casting import CastNames
from core.jobs.engine import Options
from core.jobs.estimate import estimate
from core.jobs.plan import (
    campaign_of,
    header_of,
    in_full,
    left_out_words,
    models_of,
    parse_arms,
    playable_cases,
    prepared_cases,
    remarks_of,
)
from core.jobs.run import check_startable
from core.journal import journal_path
from core.measures.condition_notes import notes_of, read_basis
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.profiles import add_profiles
from core.store.selection import Selection
from core.text.profiles import Generated, Prepared
from tests.core.jobs.workshop import begun, go, plan, registry, small_cases, story, trial_lines
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing, rating

MODELS = beside_rules("openai/doctor", patient="openai/patient")
STAFF = CastNames("reference/bayes", staff="openai/staff")
PROFILE = Profile(
    demographics=(Fact(key="age", value="40-year-old", lay="I'm 40."), Fact(key="sex", value="male", lay="A man.")),
    basic=(Fact(key="chief complaint", value="hot, swollen big toe", lay="My big toe is hot and swollen."),),
    optional=(Fact(key="uric acid", value="9.1 mg/dL", lay="", section="laboratory"),),
)
GENERATED = Generated(suitable=True, profile=PROFILE, made_by="openai/profiler")
REFUSED = Generated(suitable=False, reason="abstract_concept", note="No patient.", made_by="a person")


def with_profiles(count: int) -> tuple[Case, ...]:
    return tuple(case.model_copy(update={"profile": PROFILE}) for case in small_cases(count))


def automedic(count: int = 3, **changes: Any) -> Campaign:
    fields: dict[str, Any] = {
        "names": CastNames("reference/bayes"),
        "protocol": "automedic",
        "prompts": "automedic",
        "arms": ARMS[:2],
        "settings": AutoMedicSettings(),
    }
    cases = changes.pop("cases", with_profiles(count))
    return replace(plan(count, **{**fields, **changes}), cases=cases)


def fingerprint(**changes: Any) -> str:
    return header_of(automedic(**changes), registry()).fingerprint


def with_a_changed_profile(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    other = PROFILE.model_copy(update={"optional": ()})
    return (cases[0].model_copy(update={"profile": other}), *cases[1:])


CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "cap": {"settings": AutoMedicSettings(max_turns=9)},
    "staff": {"names": STAFF},
    "free response": {"arms": ARMS},
    "judged": {"names": CastNames("reference/bayes", grader="openai/g"), "arms": ARMS},
    "another profile": {"cases": with_a_changed_profile(with_profiles(3))},
}


def test_what_changes_results_changes_the_fingerprint() -> None:
    assert len({fingerprint(**change) for change in CHANGES.values()}) == len(CHANGES)


def test_spelling_out_a_default_keeps_the_fingerprint() -> None:
    assert fingerprint() == fingerprint(
        names=CastNames("reference/bayes", staff="reference"), settings=AutoMedicSettings(max_turns=20)
    )


def test_a_header_names_the_cast_and_gives_the_campaign_back() -> None:
    header = header_of(automedic(names=CastNames("reference/bayes", staff="gpt_4")), registry())
    assert (header.protocol, header.prompt_pack) == ("automedic", "automedic")
    assert (header.settings["staff"], header.settings["max_turns"]) == ("openai/gpt-4-1106-preview", 20)
    assert header.cases[0].profile == PROFILE
    assert header_of(campaign_of(header), registry()).fingerprint == header.fingerprint


def test_other_protocols_do_not_have_these_settings() -> None:
    assert not {"staff", "max_turns"} & set(header_of(plan(1), registry()).settings)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"arms": (("summarized", "mcq"),)}, "does not ask summarized:mcq, but vignette:mcq, multi_turn:mcq"),
        ({"names": CastNames("reference/oracle-direct")}, "the reference kind is called reference/bayes"),
        ({"names": CastNames("reference/bayes", grader="human")}, "A person cannot play the grader"),
        ({"names": CastNames("reference/bayes", solver="openai/x")}, "--solver does not belong to automedic"),
        (
            {"names": CastNames("reference/bayes", staff="reference/bayes")},
            "clinical staff: the reference kind is called reference/st",
        ),
        ({"prompts": "craftmd"}, "have no opening.md"),
    ],
)
def test_impossible_campaigns_are_refused_with_a_message(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        header_of(automedic(**changes), registry())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_turns": 101}, "--cap must be from 1 to 100"),
        ({"max_turns": -1}, "--cap must be from 1 to 100"),
        ({"persona": "anxious"}, "--persona does not belong to automedic: leave it out, or choose craftmd"),
        ({"probe": True}, "--probe does not belong to automedic"),
        ({"max_questions": 5}, "does not belong to automedic: leave it out, or choose consultation"),
    ],
)
def test_impossible_settings_are_refused_with_a_message(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_settings(framework("automedic"), settings)


@pytest.mark.parametrize("protocol", ["craftmd", "consultation"])
def test_other_frameworks_have_no_staff(protocol: str) -> None:
    arms = (("multi_turn", "mcq"),)
    with pytest.raises(UsageError, match=f"--staff does not belong to {protocol}"):
        header_of(plan(1, names=STAFF, protocol=protocol, prompts=protocol, arms=arms, settings=None), registry())
    with pytest.raises(UsageError, match="choose automedic"):
        read_settings(framework(protocol), {"max_turns": 5})


def test_keywords_for_arms_mean_the_arms_of_the_protocol() -> None:
    assert parse_arms("paper", "automedic") == ARMS[:2] == (("vignette", "mcq"), ("multi_turn", "mcq"))
    assert parse_arms("all", "automedic") == ARMS


def test_the_staff_is_a_model_like_the_others() -> None:
    campaign = in_full(automedic(names=MODELS.but(staff="openai/staff")), registry())
    assert list(models_of(campaign).values()) == ["openai/doctor", "openai/patient", "openai/staff"]
    with pytest.raises(UsageError, match=r"none is known for openai/doctor, openai/patient, openai/staff"):
        check_startable(campaign, registry(), Options(budget_usd=1.0))


def test_a_case_uses_its_own_profile_or_the_stored_one() -> None:
    """A stored refusal leaves the case out; a case with its own profile keeps it."""
    plain = small_cases(4)
    cases = (plain[0], plain[1], plain[2].model_copy(update={"profile": PROFILE}), plain[3])
    store = Store()
    unprepared = prepared_cases(cases, framework("automedic"), store).cases
    assert [case.profile is not None for case in unprepared] == [False, False, True, False]
    assert not store.path.exists()  # looking needs no database
    with store.write() as connection:
        add_profiles(connection, [(cases[0], GENERATED), (cases[1], REFUSED)])
    prepared = prepared_cases(cases, framework("automedic"), store)
    assert [case.case_key for case in prepared.cases] == ["small/0", "small/2", "small/3"]
    assert [case.profile and case.profile.made_by for case in prepared.cases] == ["openai/profiler", "", None]
    assert prepared.cases[2] == cases[3]
    assert [case.case_key for case, _ in prepared.left_out] == ["small/1"]
    assert left_out_words(prepared) == (
        "1 of 4 cases are left out because they cannot become a patient: 1 abstract concept."
    )


@pytest.mark.slow
def test_cases_without_a_profile_are_noted_before_and_after_the_run() -> None:
    bare = small_cases(3)
    campaign = automedic(cases=(bare[0], bare[1], bare[2].model_copy(update={"profile": PROFILE})))
    warning = "the patient knows the whole vignette, also what examination and tests showed"
    assert f"2 of 3 cases have no profile: {warning}" in remarks_of(campaign)
    assert not any("no profile" in remark for remark in remarks_of(automedic()))

    assert go(begun(campaign)).stopped is None
    store = Store()
    fold(store)
    notes = notes_of(read_basis(lambda query, *values: query(store, *values), Selection()))
    (note,) = [note for note in notes if note.kind == "without_profile"]
    assert (note.severity, note.text) == (
        "high",
        f"Of the 3 cases of small, 2 were played without a profile: {warning}.",
    )


def test_if_no_case_can_be_played_the_reason_is_given() -> None:
    case = small_cases(1)[0]
    with pytest.raises(UsageError, match=r"No case can be played under AutoMedic\. 1 of 1 cases are left out"):
        playable_cases(Prepared((), ((case, REFUSED),)), framework("automedic"))
    with pytest.raises(UsageError, match=r"No case can be played under AutoMedic\.$"):
        playable_cases(Prepared((), ()), framework("automedic"))
    assert left_out_words(Prepared((case,), ())) == ""


@pytest.mark.slow
def test_an_interrupted_run_resumes_at_the_missing_trials() -> None:
    whole = begun(automedic(4))
    assert go(whole).stopped is None
    before = {line.case_key: story(line) for line in trial_lines(whole.run_id)}
    journal = journal_path(whole.run_id)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    assert go(whole).progress.done_here == 2
    assert {line.case_key: story(line) for line in trial_lines(whole.run_id)} == before


def script(body: dict[str, Any]) -> Reply | str:
    """The doctor asks patient and staff and ends; for the value of 41 mg/dL the staff's provider fails."""
    spoken = sum(m["role"] == "assistant" for m in body["messages"])
    text = str(body["messages"])
    if body["model"] == "doctor":
        if "Answer this question" in text:
            return "A. Gout"
        return ("<patient>What is it?</patient>", "<clinical>Uric acid?</clinical>", "</end>")[spoken]
    if body["model"] == "patient":
        return rating("What is it?", 3) if "How much empathy" in text else "My toe hurts."
    return failing(400, "too young") if "41 mg" in text else "Uric acid: 9.1 mg/dL."


def test_a_campaign_of_models_counts_its_answers(fake_provider_thread: FakeProvider) -> None:
    """The conversation of one of three cases breaks off: its answer is excluded, its static answer counts."""
    fake_provider_thread.script = script
    cases = list(with_profiles(3))
    odd = PROFILE.model_copy(update={"optional": (Fact(key="uric acid", value="41 mg/dL", lay=""),)})
    cases[1] = cases[1].model_copy(update={"profile": odd})
    settings = AutoMedicSettings(base_url=fake_provider_thread.base_url)
    names = MODELS.but(staff="openai/staff")
    outcome = go(begun(automedic(3, cases=tuple(cases), names=names, settings=settings)))
    assert outcome.verdicts == {"correct": 5, "provider_error": 1}
    lines = {line.case_key: line for line in trial_lines(outcome.header.run_id)}
    ends = {key: (e.reason, e.doctor_turns) for key, t in lines.items() for e in t.events if isinstance(e, Ended)}
    assert ends == {"small/0": ("end_tag", 2), "small/1": ("error", 1), "small/2": ("end_tag", 2)}
    assert [e.value for line in lines.values() for e in line.events if isinstance(e, Assessed) and e.turn is None] == [
        3,
        3,
    ]
    assert [e.role for e in lines["small/0"].events if isinstance(e, Utterance)] == [
        "doctor",
        "patient",
        "doctor",
        "staff",
        "doctor",
    ]
    assert len([e for e in lines["small/1"].events if isinstance(e, Answered) and e.status == "answered"]) == 1
    store = Store()
    fold(store)
    with store.read() as cursor:
        assert cursor.execute("SELECT rating, rater FROM ratings").fetchall() == [(3, "openai/patient")] * 2
        assert cursor.execute("SELECT count(*) FROM utterances WHERE role = 'staff'").fetchall() == [(2,)]


def test_an_estimate_by_hand(tmp_path: Path) -> None:
    """Six trials of 5 turns: 3 queries to the patient and 2 to the staff, one rating, two answers of the doctor."""
    names = CastNames("openai/gpt-4o", "openai/gpt-4o", "openai/gpt-4o")
    names, settings = names.but(staff="openai/gpt-4o"), AutoMedicSettings(max_turns=5)
    arms = (*ARMS[:2], ("multi_turn", "frq"))
    campaign = in_full(automedic(3, trials=2, names=names, settings=settings, arms=arms), registry())
    size = estimate(campaign, registry(), 2)
    roles = {role.role: role for role in size.roles}
    assert {name: role.calls for name, role in roles.items()} == {
        "doctor": 6 * (5 + 3),
        "patient": 6 * (3 + 1),
        "staff": 6 * 2,
        "grader": 6 * 2,
    }
    assert (size.counts["conversations"], size.counts["answers"]) == (6, 18)
    # 0 + 2 + 4 + 6 + 8 messages of 25 tokens before the doctor's five, and 10 messages before each of two answers
    vignette = len(small_cases(1)[0].vignette.split()) * 4 / 3
    conversation = 5 * 340 + 20 * 25
    answers = vignette + 20 + 130 + 2 * (340 + 10 * 25 + 130)
    assert roles["doctor"].prompt_tokens == pytest.approx(6 * (conversation + answers), abs=1)
    assert roles["doctor"].completion_tokens == 6 * (5 * 25 + 3 * 15)
    # "uric acid 9.1 mg/dL" is four words; the staff's queries have 1 and 3 messages before the reply
    assert roles["staff"].prompt_tokens == pytest.approx(6 * (2 * (170 + 4 * 4 / 3) + 4 * 25), abs=1)


def test_an_estimate_of_the_static_question_alone() -> None:
    names = beside_rules("openai/gpt-4o", patient="openai/gpt-4o")
    campaign = in_full(automedic(names=names.but(staff="openai/gpt-4o"), arms=ARMS[:1]), registry())
    size = estimate(campaign, registry(), 4)
    assert (size.counts["conversations"], size.counts["answers"], size.calls) == (0, 3, 3)
