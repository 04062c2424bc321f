"""The defaults of seats: rules next to rules, models next to a model; named before a run starts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.datasets.select import select
from core.errors import UsageError
from core.events import Called
from core.frameworks.base import Arm, Campaign, framework, paper_arms
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.frameworks.seats import remarks
from core.frameworks.settings import FrameworkSettings
from core.jobs.engine import Options
from core.jobs.estimate import estimate
from core.jobs.plan import campaign_of, campaigns_of_doctors, header_of, in_full, who_sits
from core.jobs.run import check_startable
from tests.core.jobs.workshop import FREE, begun, go, plan, registry, small_cases, trial_lines
from tests.support.fake_provider import running

DEFAULTS = """
[defaults]
patient = "openai/patient"
grader = "gpt_4"
solver = "openai/solver"
"""
CONVERSATION: tuple[Arm, ...] = (
    ("vignette", "frq"),
    ("multi_turn", "frq"),
    ("single_turn", "frq"),
    ("summarized", "frq"),
)
HERE = "http://127.0.0.1:9/v1"


def own(tmp_path: Path, text: str = DEFAULTS) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(text)
    return path


def seated(doctor: str, *files: Path, protocol: str = "craftmd", **seats: Any) -> dict[str, str]:
    """Role → name in its seat, for a campaign with every arm of its protocol."""
    arms = paper_arms(framework(protocol))
    campaign = plan(1, names=CastNames(doctor, **seats), protocol=protocol, arms=arms, settings=FrameworkSettings())
    return dict(in_full(replace(campaign, prompts=protocol), registry(*files)).names)


RULES = {"patient": "reference/profile", "grader": "reference/names", "summariser": "reference/quotes"}


@pytest.mark.parametrize("doctor", ["reference/bayes", "human"])
def test_the_reference_cast_plays_with_the_reference_doctor_and_a_human(doctor: str) -> None:
    assert seated(doctor) == {"doctor": doctor, **RULES}


def test_a_model_takes_every_open_seat() -> None:
    assert set(seated("openai/gpt-4o").values()) == {"openai/gpt-4o"}
    assert set(seated("gpt_4").values()) == {"openai/gpt-4-1106-preview"}, "under its full name"
    assert seated("openai/gpt-4o", protocol="consultation")["solver"] == "openai/gpt-4o"
    assert seated("openai/gpt-4o", protocol="automedic")["staff"] == "openai/gpt-4o"


def test_the_oracle_of_consultation_plays_with_rules() -> None:
    seats = seated("reference/oracle-direct", protocol="consultation")
    assert (seats["patient"], seats["solver"]) == ("reference/profile", "reference/solver")
    assert seated("reference", protocol="automedic")["staff"] == "reference/staff"


def test_named_seats_stay_and_the_others_take_the_doctors_model() -> None:
    seats = seated("openai/a", grader="openai/b", patient="reference")
    assert seats == {
        "doctor": "openai/a",
        "patient": "reference/profile",
        "grader": "openai/b",
        "summariser": "openai/a",
    }
    assert seated("reference/bayes", patient="openai/b")["grader"] == "reference/names"


def test_defaults_of_the_models_file_take_precedence_over_the_doctors_model(tmp_path: Path) -> None:
    file = own(tmp_path)
    seats = seated("openai/a", file)
    assert seats == {
        "doctor": "openai/a",
        "patient": "openai/patient",
        "grader": "openai/gpt-4-1106-preview",
        "summariser": "openai/a",
    }
    assert seated("openai/a", file, patient="openai/b")["patient"] == "openai/b"
    assert seated("openai/a", file, protocol="consultation")["solver"] == "openai/solver"
    assert seated("openai/a", file, protocol="automedic")["staff"] == "openai/a"
    assert seated("human", file)["patient"] == "openai/patient"
    assert seated("reference/bayes", file) == {"doctor": "reference/bayes", **RULES}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[defaults]\npatient = "gpt-4p"', r"\[defaults\].*patient.*did you mean"),
        ('[defaults]\ndoctor = "openai/gpt-4o"', r"wrong at defaults\.doctor"),
        ('[defaults]\ngrader = "reference/bayes"', "the reference kind is called reference/names"),
    ],
)
def test_a_wrong_default_is_reported_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        seated("openai/gpt-4o", own(tmp_path, text))


def test_a_default_uses_its_own_address_and_other_seats_the_doctors(tmp_path: Path) -> None:
    """The doctor's server does not receive the grader's requests, also when the run is resumed."""
    with running(lambda _: "Bunion") as judge, running(lambda _: "Gout") as here:
        file = own(
            tmp_path, f'[defaults]\ngrader = "openai/judge"\n[models."openai/judge"]\nbase_url = "{judge.base_url}"'
        )
        header = begun(plan(2, names=CastNames("openai/doctor"), arms=FREE, base_url=here.base_url), file)
        assert (header.grader, header.settings["own_address"]) == ("openai/judge", "grader")
        file.write_text(file.read_text().replace("[defaults]", "[aliases]"))
        go(header, file)
        assert {b["model"] for b in here.bodies} == {"doctor"}
        assert {b["model"] for b in judge.bodies} == {"judge"}
    assert campaign_of(header).settings.address_of("grader") is None
    assert campaign_of(header).settings.address_of("patient") == here.base_url


def test_a_default_needs_its_own_key_before_anything_is_written(tmp_path: Path) -> None:
    models = registry(own(tmp_path, '[defaults]\ngrader = "openai/gpt-4o"'))
    campaign = in_full(plan(1, names=CastNames("openai/doctor"), arms=CONVERSATION, base_url=HERE), models)
    with pytest.raises(UsageError, match="key for openai/gpt-4o is missing"):
        check_startable(campaign, models, Options())
    campaign = in_full(plan(1, names=CastNames("openai/doctor", grader="openai/gpt-4o"), base_url=HERE), models)
    with pytest.raises(UsageError, match="key for openai/gpt-4o is missing"):
        check_startable(campaign, models, Options())  # --base-url is the doctor's address, also with a named grader


def test_the_line_gives_name_reason_and_address(tmp_path: Path) -> None:
    def line(planned: Campaign, *files: Path) -> str:
        models = registry(*files)
        return who_sits(planned, in_full(planned, models), models)

    campaign = plan(1, names=CastNames("openai/gpt-4o"), arms=CONVERSATION)
    assert line(campaign) == (
        "patient, grader, summariser: openai/gpt-4o (the doctor's own model). "
        "Name others with --patient, --grader, --summariser."
    )
    there = replace(campaign, names=CastNames("openai/x", grader="openai/y"), settings=CraftMdSettings(base_url=HERE))
    assert line(there, own(tmp_path)) == (
        "patient: openai/patient (from [defaults], at https://api.openai.com/v1); "
        f"summariser: openai/x (the doctor's own model, at {HERE}). Name others with --patient, --summariser."
    )
    assert line(replace(campaign, names=CastNames("reference/bayes"))) == ""
    assert line(replace(campaign, names=CastNames("openai/gpt-4o", *RULES.values()))) == ""
    paper = replace(campaign, arms=(("vignette", "mcq"),))
    assert line(paper) == "", "only the doctor gets requests"
    automedic = replace(campaign, protocol="automedic", prompts="automedic", arms=(("multi_turn", "mcq"),))
    assert line(automedic).startswith("patient, staff: openai/gpt-4o (the doctor's own model). Name others with --pat")


def test_remarks_on_a_cast() -> None:
    assert remarks("openai/a", {"patient": "openai/b", "grader": "openai/c"}) == ()
    assert remarks("reference/bayes", {"patient": "reference/profile", "grader": "reference/names"}) == ()
    assert remarks("human/Ann", {"grader": "reference/names"}) == ()
    assert remarks("openai/a", {"patient": "reference/profile", "grader": "openai/c"}) == ("rules play the patient",)
    assert remarks("openai/a", {**RULES}) == ("rules play the patient, the grader and the summariser",)
    assert remarks("openai/a", {"patient": "openai/a", "grader": "openai/a"}) == ("openai/a grades itself",)
    assert remarks("openai/a", {"solver": "openai/b", "grader": "openai/b"}) == ("openai/b grades itself",)
    assert remarks("openai/a", {"patient": "reference/profile", "grader": "openai/a"}) == (
        "rules play the patient",
        "openai/a grades itself",
    )


@pytest.mark.slow
def test_the_estimate_equals_the_calls_of_the_run() -> None:
    """The doctor's model in all seats, six questions and a diagnosis, as the estimate assumes."""
    number = iter(range(1000))  # a new number each time, so that no answer is judged from the cache

    def speak(body: dict[str, Any]) -> str:
        first, replies = str(body["messages"][0]["content"]), sum(m["role"] == "assistant" for m in body["messages"])
        if first.startswith("Below is what a doctor wrote"):
            return f"Disease {next(number)}"
        if first.startswith("Do diagnosis 1"):
            return "No"
        if "described below" in first or first.startswith("Below are the things a patient said"):
            return "It began last night."
        return f"Question {next(number)}?" if replies < 7 else f"**Final Diagnosis:** Gout {next(number)}"

    with running(speak) as provider:
        campaign = plan(2, names=CastNames("openai/doctor"), arms=CONVERSATION, trials=2, base_url=provider.base_url)
        size = estimate(in_full(campaign, registry()), registry(), 4)
        header = begun(campaign)
        go(header)
        made = len(provider.requests)
    counted = Counter(e.call.role for line in trial_lines(header.run_id) for e in line.events if isinstance(e, Called))
    assert {role.role: role.calls for role in size.roles} == dict(counted)
    assert size.calls == made == 4 * (7 + 7 + 4 + 4 * 2 + 1)


DRY = ("run", "--doctor", "openai/gpt-4o", "--limit", "2", "--trials", "1", "--arms", "multi_turn:frq", "--dry-run")


def test_a_dry_run_says_who_sits_and_counts_them(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DRY]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "patient, grader: openai/gpt-4o (the doctor's own model). Name others with --patient, --grader."
    )
    assert lines[-1] == "Note that openai/gpt-4o grades itself."
    calls = {fields[0]: fields[2] for fields in map(str.split, lines[3:]) if fields[2].isdigit()}
    assert calls == {"doctor": "16", "patient": "14", "grader": "4", "summariser": "0"}


def test_a_dry_run_marks_rules_beside_a_model(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*DRY, "--patient", "reference", "--grader", "openai/gpt-4.1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 cases, 2 trials, "), "no further line"
    assert lines[-1] == "Note that rules play the patient."


@pytest.mark.slow
def test_a_run_lists_its_seats_before_it_starts(db: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(lambda _: "**Final Diagnosis:** Gout") as provider:
        arguments = ["run", "--doctor", "openai/d", "--base-url", provider.base_url, "--limit", "1", "--trials", "1"]
        assert main([*arguments, "--arms", "vignette:frq", "--grader", "openai/g"]) == 0
        assert capsys.readouterr().out.startswith("Run "), "every seat in use was named"
        main([*arguments, "--arms", "vignette:frq,vignette:mcq"])
        lines = capsys.readouterr().out.splitlines()
    where = f"(the doctor's own model, at {provider.base_url})"
    assert lines[0] == f"grader: openai/d {where}. Name others with --grader."
    assert {b["model"] for b in provider.bodies} == {"d", "g"}


def test_two_doctors_compared_have_the_same_patient() -> None:
    """Open seats take the first model on both sides, also next to rules."""
    case = tuple(select("library", 1))
    campaign = Campaign(names=CastNames("reference/bayes"), cases=case, trials=1)
    rules, model = campaigns_of_doctors(campaign, ["reference/bayes", "openai/gpt-4o"], registry())
    assert rules.names == CastNames("reference/bayes", *["openai/gpt-4o"] * 3)
    assert model.names == CastNames(*["openai/gpt-4o"] * 4)
    campaigns = campaigns_of_doctors(campaign, ["openai/a", "openai/b"], registry())
    assert [c.names.patient for c in campaigns] == ["openai/a", "openai/a"]
    assert [c.names.patient for c in campaigns_of_doctors(campaign, ["reference"] * 2, registry())] == [
        "reference/profile"
    ] * 2


def test_the_header_stores_the_names_and_a_resumed_run_keeps_them(tmp_path: Path) -> None:
    header = header_of(plan(1, names=CastNames("openai/doctor"), arms=CONVERSATION, base_url=HERE), registry())
    assert (header.patient, header.grader, header.summariser) == ("openai/doctor",) * 3
    assert "own_address" not in header.settings
    again = in_full(campaign_of(header), registry(own(tmp_path)))
    assert again.names == CastNames(*["openai/doctor"] * 4), "later defaults change nothing"
    old = header.model_copy(update={"patient": "reference/profile", "grader": "reference/names"})
    assert in_full(campaign_of(old), registry()).names.patient == "reference/profile"
    assert small_cases(1) == tuple(header.cases)
