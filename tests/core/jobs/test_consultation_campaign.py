"""Campaigns of the Consultation protocol: fingerprint, refused plans, resuming, budget and estimates."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import orjson
import pytest

from core import __version__
from core.case import case_set_hash
from core.errors import UsageError
from core.events import Answered, Ended, Utterance
from core.frameworks.base import ALL_ARMS, Campaign, default_pack, framework, read_settings
from core.frameworks.casting import CastNames
from core.frameworks.consultation import ConsultationSettings
from core.jobs.engine import Options
from core.jobs.estimate import estimate
from core.jobs.plan import campaign_of, header_of, in_full, parse_arms
from core.jobs.run import check_startable
from core.journal import journal_path
from core.text.case_items import itemized
from tests.core.jobs.workshop import PRICED, begun, go, plan, registry, small_cases, story, trial_lines
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

MCQ = (("multi_turn", "mcq"),)
ORACLE = CastNames("reference/oracle-random")
MODELS = beside_rules("openai/doctor", patient="openai/patient")


def consultation(cases: int = 3, **changes: Any) -> Campaign:
    fields: dict[str, Any] = {"names": ORACLE, "protocol": "consultation", "prompts": "consultation", "arms": MCQ}
    return plan(cases, **{**fields, "settings": ConsultationSettings(), **changes})


def fingerprint(**changes: Any) -> str:
    return header_of(consultation(**changes), registry()).fingerprint


def test_the_fingerprint_of_a_default_craftmd_campaign() -> None:
    """Put together by hand: settings of other protocols are not part of it."""
    cases = small_cases(2)
    header = header_of(Campaign(CastNames("reference/bayes"), cases, arms=ALL_ARMS), registry())
    by_hand = {
        "protocol": "craftmd",
        "doctor": "reference/bayes",
        "patient": "reference/profile",
        "grader": "reference/names",
        "summariser": "reference/quotes",
        "prompt_pack": "craftmd",
        "prompt_hash": default_pack().hash,
        "case_set": "library",
        "case_set_hash": case_set_hash(list(cases)),
        "arms": [list(arm) for arm in ALL_ARMS],
        "many_choices": ["Bunion", "Cellulitis", "Fracture", "Gout"],
        "trials": 5,
        "seed": 20,
        "settings": {"temperature": None, "max_tokens": None, "model_seed": None, "max_messages": 30, "base_url": None},
        "code_version": __version__,
    }
    assert header.fingerprint == hashlib.sha256(orjson.dumps(by_hand, option=orjson.OPT_SORT_KEYS)).hexdigest()
    assert header.settings.keys() - by_hand["settings"].keys() == {"prompts_by_seat"}


def test_a_temperature_and_a_seed_of_zero_are_kept() -> None:
    settings = read_settings(framework(), {"temperature": 0.0, "model_seed": 0})
    header = header_of(plan(1, settings=settings), registry())
    assert campaign_of(header).settings == settings


CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "order": {"names": CastNames("reference/oracle-direct")},
    "bound": {"names": CastNames("reference/upper-bound")},
    "cap": {"names": MODELS, "settings": ConsultationSettings(max_questions=9)},
    "solver": {"names": ORACLE.but(solver="openai/solver")},
    "long prompt": {"names": MODELS},
    "short prompt": {"names": MODELS, "settings": ConsultationSettings(doctor_prompt="short")},
    "free response": {"arms": (*MCQ, ("multi_turn", "frq"))},
    "judged": {"names": CastNames("reference/oracle-random", grader="openai/g"), "arms": (*MCQ, ("multi_turn", "frq"))},
}


def test_what_changes_results_changes_the_fingerprint() -> None:
    assert len({fingerprint(**change) for change in CHANGES.values()}) == len(CHANGES)


def test_spelling_out_a_default_keeps_the_fingerprint() -> None:
    assert fingerprint() == fingerprint(
        names=ORACLE.but(solver="reference"), settings=ConsultationSettings(max_questions=10)
    )
    assert fingerprint() == fingerprint(settings=ConsultationSettings(max_questions=3))  # the oracle has no cap
    assert fingerprint(names=MODELS) == fingerprint(names=MODELS, settings=ConsultationSettings(max_questions=10))
    assert fingerprint() == fingerprint(
        settings=ConsultationSettings(doctor_prompt="short")
    )  # the oracle has no prompt
    assert fingerprint(names=MODELS) == fingerprint(names=MODELS, settings=ConsultationSettings(doctor_prompt="long"))


def test_a_header_names_the_cast_and_gives_the_campaign_back() -> None:
    header = header_of(consultation(names=ORACLE.but(solver="gpt_4")), registry())
    assert (header.protocol, header.doctor, header.prompt_pack) == (
        "consultation",
        "reference/oracle-random",
        "consultation",
    )
    assert header.settings["solver"] == "openai/gpt-4-1106-preview"
    assert "max_questions" not in header.settings
    capped = header_of(consultation(names=MODELS), registry())
    assert capped.settings["max_questions"] == 10
    again = campaign_of(header)
    assert header_of(again, registry()).fingerprint == header.fingerprint
    assert again.protocol == "consultation"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"names": CastNames("reference/oracle")}, "choose one of reference/bayes, reference/oracle-direct"),
        ({"arms": (("vignette", "mcq"),)}, "does not ask vignette:mcq, but multi_turn:mcq, multi_turn:frq"),
        ({"names": ORACLE.but(solver="reference/bayes")}, "the reference kind is called reference/solver"),
        ({"names": ORACLE.but(solver="human")}, "A person cannot play the solver"),
        ({"prompts": "craftmd"}, "have no doctor_long.md"),
        (
            {"protocol": "craftmd", "prompts": "craftmd", "settings": None},
            "the reference kind is called reference/bayes",
        ),
        ({"protocol": "osce"}, "There is no protocol 'osce': choose craftmd or consultation."),
    ],
)
def test_impossible_campaigns_are_refused_with_a_message(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        header_of(consultation(**changes), registry())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"persona": "anxious"}, "--persona does not belong to consultation: leave it out, or choose craftmd"),
        ({"probe": True}, "--probe does not belong to consultation"),
        ({"max_messages": 20}, "--max-messages does not belong to consultation"),
        ({"max_questions": 101}, "--cap must be from 1 to 100"),
        ({"max_questions": -1}, "--cap must be from 1 to 100"),
        ({"doctor_prompt": "loud"}, "--doctor-prompt cannot be 'loud': choose long or short"),
    ],
)
def test_impossible_settings_are_refused_with_a_message(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_settings(framework("consultation"), settings)


@pytest.mark.parametrize("settings", [{"max_questions": 5}, {"doctor_prompt": "short"}])
def test_craftmd_takes_none_of_these_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="does not belong to craftmd: leave it out, or choose consultation"):
        read_settings(framework("craftmd"), settings)


def test_keywords_for_arms_mean_the_arms_of_the_protocol() -> None:
    assert parse_arms("paper", "consultation") == MCQ
    assert parse_arms("all", "consultation") == (*MCQ, ("multi_turn", "frq"))


def test_a_human_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="A campaign cannot wait for a person"):
        check_startable(in_full(consultation(names=CastNames("human")), registry()), registry(), Options())


def test_the_solver_needs_a_price_under_a_budget(tmp_path: Path) -> None:
    campaign = in_full(consultation(names=ORACLE.but(solver="openai/solver")), registry())
    with pytest.raises(UsageError, match=r"none is known for openai/solver"):
        check_startable(campaign, registry(), Options(budget_usd=1.0))


@pytest.mark.slow
def test_an_interrupted_run_resumes_at_the_missing_trials() -> None:
    """Missing trials are played as in the first run, also the random order of questions."""
    whole = begun(consultation(4))
    assert go(whole).stopped is None
    before = {line.case_key: story(line) for line in trial_lines(whole.run_id)}
    journal = journal_path(whole.run_id)
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    assert go(whole).progress.done_here == 2
    assert {line.case_key: story(line) for line in trial_lines(whole.run_id)} == before


def script(body: dict[str, Any]) -> Reply | str:
    """The doctor asks twice and thanks; for the patient of 41 the solver's provider fails."""
    spoken = sum(m["role"] == "assistant" for m in body["messages"])
    if body["model"] == "doctor":
        return ("How old are you?", "Does it hurt?", "Thank you.")[spoken]
    if body["model"] == "patient":
        age = next(word for word in str(body).split() if word.endswith("-year-old"))
        return f"I am {age}."
    return failing(400, "too young") if "41-year-old" in str(body) else "Gout"


def test_a_campaign_of_models_counts_its_answers(fake_provider_thread: FakeProvider, tmp_path: Path) -> None:
    """Three cases: two answers are correct, the failed one is excluded and not wrong."""
    fake_provider_thread.script = script
    settings = ConsultationSettings(base_url=fake_provider_thread.base_url, doctor_prompt="short")
    outcome = go(begun(consultation(3, names=MODELS.but(solver="openai/solver"), settings=settings)))
    assert outcome.verdicts == {"correct": 2, "provider_error": 1}
    lines = trial_lines(outcome.header.run_id)
    for line in lines:
        assert [e.role for e in line.events if isinstance(e, Utterance)] == ["patient", "doctor"] * 3
        assert [(e.reason, e.doctor_turns) for e in line.events if isinstance(e, Ended)] == [("no_question", 3)]
    assert [e.response for line in lines for e in line.events if isinstance(e, Answered)].count("Gout") == 2


def test_a_budget_stops_the_run(fake_provider_thread: FakeProvider, tmp_path: Path) -> None:
    """An answer costs one call of $0.018, so that $0.03 are used up by the second of five."""
    fake_provider_thread.script = ["Gout"]
    own = tmp_path / "models.toml"
    own.write_text(PRICED)
    settings = ConsultationSettings(base_url=fake_provider_thread.base_url)
    header = begun(
        consultation(5, names=CastNames("reference/upper-bound", solver="openai/doctor"), settings=settings), own
    )
    outcome = go(header, own, budget_usd=0.03)
    assert outcome.stopped == "The budget of $0.03 is used up."
    assert len(fake_provider_thread.bodies) == 2


def test_an_estimate_by_hand() -> None:
    """Six trials of three questions: doctor and patient are called 3 times, the solver once; 1 + 3 + 5 messages."""
    settings = ConsultationSettings(max_questions=3)
    names = beside_rules("openai/gpt-4o", patient="openai/gpt-4o", solver="openai/gpt-4o")
    campaign = in_full(consultation(3, trials=2, names=names, settings=settings), registry())
    roles = {role.role: role for role in estimate(campaign, registry(), 2).roles}
    assert {name: role.calls for name, role in roles.items()} == {"doctor": 18, "patient": 18, "solver": 6, "grader": 0}
    assert roles["doctor"].prompt_tokens == 6 * (3 * 330 + 9 * 20)
    assert roles["doctor"].completion_tokens == 18 * 20
    assert roles["solver"].prompt_tokens == 6 * (7 * 20 + 130)  # seven messages
    words = len(small_cases(1)[0].vignette.split())
    assert roles["patient"].prompt_tokens == pytest.approx(6 * (3 * (190 + words * 4 / 3) + 9 * 20), abs=1)


def test_an_estimate_of_the_oracle_counts_the_items() -> None:
    """The patient tells each item of each case, independent of the cap; the oracle costs nothing."""
    names = CastNames("reference/oracle-random", "openai/gpt-4o")
    campaign = in_full(consultation(3, names=names, settings=ConsultationSettings(max_questions=1)), registry())
    size = estimate(campaign, registry(), 4)
    assert [len(itemized(case).items) for case in small_cases(3)] == [2, 2, 2]
    assert {role.role: role.calls for role in size.roles}["patient"] == 6


def test_an_estimate_of_a_bound_is_the_solver_alone() -> None:
    names = CastNames("reference/upper-bound", "openai/gpt-4o")
    campaign = in_full(consultation(names=names.but(solver="openai/gpt-4o")), registry())
    size = estimate(campaign, registry(), 4)
    assert (size.counts["conversations"], size.counts["answers"], size.calls) == (0, 3, 3)
    assert dataclasses.replace(size, roles=()).calls == 0
