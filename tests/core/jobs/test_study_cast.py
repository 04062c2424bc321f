"""The cast of a study: the open seats next to a second doctor, the reason for them, and their addresses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.cli.app import main
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.settings import FrameworkSettings
from core.jobs.begun import find_header
from core.jobs.plan import campaign_of, header_of, in_full, study_cast, who_sits
from core.journal import RunHeader
from core.store.queries.runs import Run
from tests.core.jobs.workshop import FREE, begun, go, plan, registry, run_ids
from tests.support.fake_provider import running

HERE, THERE = "http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"
CONVERSATION: Any = (("multi_turn", "frq"),)


def a_run(campaign: Campaign, created_at: float = 100.0, **changes: Any) -> Run:
    """The stored run of a campaign, as ``registry()`` fills its seats."""
    header = header_of(in_full(campaign, registry()), registry(), created_at)
    fields = header.model_dump(exclude={"cases", "many_choices", "fork", "edited", "type", "schema_version"})
    arms = tuple((format_, question_type) for format_, question_type in header.arms)
    return Run(**{**fields, "arms": arms, "cases": len(header.cases), **changes})


def asking_campaign(doctor: str, base_url: str | None = HERE, **changes: Any) -> Campaign:
    fields: dict[str, Any] = {
        "names": CastNames(doctor),
        "arms": CONVERSATION,
        "settings": FrameworkSettings(base_url=base_url),
    }
    return plan(2, **{**fields, **changes})


def seats(doctor: str, *runs: Run, base_url: str | None = HERE, case_set: str = "small", **others: Any) -> CastNames:
    campaign = asking_campaign(doctor, base_url, names=CastNames(doctor, **others))
    return in_full(campaign, registry(), study_cast(runs, "craftmd", case_set, doctor, registry())).names


FIRST = a_run(asking_campaign("openai/first", names=CastNames("openai/first", grader="openai/judge")))


def test_a_second_doctor_gets_the_cast_of_the_study() -> None:
    assert seats("openai/second") == CastNames("openai/second", *["openai/second"] * 3)
    cast = seats("openai/second", FIRST)
    assert (cast.patient, cast.grader) == ("openai/first", "openai/judge")
    assert seats("openai/second", FIRST, patient="openai/named").patient == "openai/named"
    assert seats("openai/first", FIRST).grader == "openai/first", "the doctor's own run is not a study of others"
    second = a_run(replace(asking_campaign("openai/second"), names=cast), 200.0)
    assert seats("openai/first", FIRST, second) == CastNames(
        "openai/first", "openai/first", "openai/judge", cast.summariser
    ).but(summariser="openai/first"), "the first doctor, tested again, keeps its cast"


def test_the_newest_run_on_the_data_set_or_a_part_of_it_counts() -> None:
    newer = a_run(
        asking_campaign(
            "openai/third", names=CastNames("openai/third", patient="openai/new"), case_set="small (first 2)"
        ),
        200.0,
    )
    for case_set in ("small", "small:Rheumatology", "small (sample of 2, seed 3)"):
        assert seats("openai/second", FIRST, newer, case_set=case_set).patient == "openai/new"
    assert seats("openai/second", FIRST, newer, case_set="smaller").patient == "openai/second"


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "consultation"},
        {"source": "release"},
        {"source": "live"},
        {"settings": {"study": "sample"}},
        {"doctor": "reference/bayes"},
        {"doctor": "human/Ann"},
        {"doctor": "python:mine:reply"},
    ],
)
def test_other_runs_give_no_cast(changes: dict[str, Any]) -> None:
    assert seats("openai/second", replace(FIRST, **changes)).patient == "openai/second"


def test_rules_and_humans_play_with_rules() -> None:
    for doctor in ("reference/bayes", "human"):
        assert seats(doctor, FIRST).patient == "reference/profile"


def test_defaults_of_the_models_files_take_precedence(tmp_path: Path) -> None:
    own = tmp_path / "models.toml"
    own.write_text('[defaults]\npatient = "openai/usual"')
    models = registry(own)
    study = study_cast([FIRST], "craftmd", "small", "openai/second", models)
    full = in_full(asking_campaign("openai/second"), models, study)
    assert (full.names.patient, full.names.grader) == ("openai/usual", "openai/judge")


def test_a_seat_comes_from_the_newest_run_that_used_it() -> None:
    vignettes = a_run(
        asking_campaign("openai/third", names=CastNames("openai/third", grader="openai/new"), arms=FREE), 200.0
    )
    cast = seats("openai/second", FIRST, vignettes)
    assert (cast.patient, cast.grader) == ("openai/first", "openai/new")


def test_the_cast_of_a_study_includes_rules_but_no_human() -> None:
    ruled = a_run(
        asking_campaign("openai/third", names=CastNames("openai/third", "reference/profile", "reference/names")), 200
    )
    assert seats("openai/second", ruled).patient == "reference/profile"
    assert seats("openai/second", replace(ruled, patient="human")).patient == "openai/second"
    assert seats("openai/second", replace(ruled, patient="nowhere/gone")).patient == "openai/second"


def test_a_model_of_the_study_keeps_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def address(base_url: str | None, run: Run) -> str | None:
        study = study_cast([run], "craftmd", "small", "openai/second", registry())
        full = in_full(asking_campaign("openai/second", base_url), registry(), study)
        header = header_of(full, registry())
        assert campaign_of(header).settings.address_of("doctor") == base_url
        return campaign_of(header).settings.address_of("patient")

    assert address(HERE, FIRST) == HERE
    assert address(THERE, FIRST) == HERE
    assert address(None, FIRST) == HERE
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    elsewhere = replace(FIRST, settings={**FIRST.settings, "own_address": "patient"})
    assert address(HERE, elsewhere) is None, "the address of the models files"


def test_an_unreachable_model_is_reported_and_replaced_by_the_doctors_model() -> None:
    models = registry()
    keyless = a_run(asking_campaign("openai/gpt-4o", None))
    campaign = asking_campaign("openai/second")

    def line(run: Run) -> str:
        study = study_cast([run], "craftmd", "small", "openai/second", models)
        full = in_full(campaign, models, study)
        assert (full.names.patient == "openai/second") == bool(study["patient"].problem)
        return who_sits(campaign, full, models, study)

    assert f"openai/gpt-4o of run {keyless.run_id} cannot be asked: the key OPENAI_API_KEY is missing" in line(keyless)
    assert "somebody else gave the address of its server" in line(replace(FIRST, visitor="ann@example.org"))
    assert line(FIRST).startswith(
        f"patient: openai/first (as in run {FIRST.run_id} of openai/first, at {HERE}); grader: openai/judge (as in"
    )


@pytest.mark.slow
def test_the_command_lists_the_cast_with_reasons_and_resumes_with_it(
    db: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = ("--arms", "vignette:frq", "--trials", "1")

    def run(doctor: str, *more: str) -> str:
        capsys.readouterr()
        assert main(["run", "--doctor", doctor, "--base-url", provider.base_url, *part, *more]) == 0
        return "".join(capsys.readouterr())

    with running(lambda _: "**Final Diagnosis:** Gout") as provider:
        assert "grader: openai/a (the doctor's own model" in run("openai/a", "--limit", "1")
        (first,) = run_ids(db)
        for more in (("--sample", "2", "--dry-run"), ("--sample", "2")):
            assert f"grader: openai/a (as in run {first} of openai/a" in run("openai/b", *more)
        (second,) = set(run_ids(db)) - {first}
        assert find_header(second).grader == "openai/a"
        # begun before the study had another grader, and stopped: the same command resumes with the original cast
        run("openai/c", "--limit", "1", "--grader", "openai/judge")
        header = header_of_half(provider.base_url, "openai/b", find_header(second))
        again = run("openai/b", "--sample", "3")
    assert f"Resuming the unfinished run {header.run_id} of the same campaign, with its original cast" in again
    assert "grader: openai/judge" not in again
    assert find_header(header.run_id).grader == "openai/a"


def header_of_half(base_url: str, doctor: str, like: RunHeader) -> RunHeader:
    """Begin the campaign of ``run --sample 3`` with the grader of ``like``, without playing it."""
    from core.datasets.select import choices_of, choose

    chosen = choose("library", sample=3)
    campaign = replace(campaign_of(like), cases=chosen.cases, case_set=chosen.name, many_choices=choices_of("library"))
    assert (campaign.tested, campaign.settings.base_url) == (doctor, base_url)
    return begun(campaign)


def test_an_older_header_without_a_data_set_hash_is_read_and_resumed() -> None:
    with running(lambda _: "**Final Diagnosis:** Gout") as provider:
        header = begun(asking_campaign("openai/doctor", provider.base_url, arms=FREE))
        old = header.model_dump(exclude={"data_set_hash", "data_set_cases"})
        read = RunHeader.model_validate(old)
        assert (read.data_set_hash, read.data_set_cases) == ("", 0)
        assert go(read).progress.done == 2
