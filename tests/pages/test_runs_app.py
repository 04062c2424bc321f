"""The Runs page without a browser: estimate, a campaign in its own process to the end, stop and resume.

Campaigns of the Consultation protocol: ``test_runs_consultation_app``.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core import paths
from core.datasets.select import select
from core.jobs import progress
from core.jobs.begun import find_header
from core.jobs.progress import is_running
from core.journal import TrialLine, journal_path, read_lines
from core.store.database import Store
from core.store.queries.trials import conversations
from core.store.selection import Selection
from pages.runs.study import askable_models
from tests.core.store.builders import a_case, a_header, a_stream, a_trial, as_released, write_journal
from tests.support.campaigns import await_end, full, metrics, run_ids, stop_all
from tests.support.fake_provider import running
from tests.support.pages import button, has_button, run_until, trouble, words

START = "Start the campaign"
Open = Callable[..., AppTest]


@pytest.fixture(autouse=True)
def _nothing_left_running(database: Path) -> Iterator[None]:
    yield
    stop_all()


def small(app: AppTest, cases: int, trials: int) -> AppTest:
    app.number_input(key="runs_limit_library").set_value(cases)
    return app.number_input(key="runs_trials").set_value(trials).run()


def test_a_first_visitor_finds_a_ready_campaign_whose_estimate_follows_what_is_asked_for(open_page: Open) -> None:
    app = open_page("runs")
    assert trouble(app) == []
    assert [e.label for e in app.expander if e.proto.expanded] == ["New campaign"]
    assert not button(app, START).disabled
    assert "No run yet." in words(app)
    assert metrics(app)["Trials"] == "300"
    assert metrics(app)["Cost"] == "$0.00"
    assert not app.dataframe
    # the estimate follows the form
    small(app, 2, 1)
    assert metrics(app)["Trials"] == "2"
    assert metrics(app)["Answers"] == "50"
    app.number_input(key="runs_trials").set_value(3).run()
    assert metrics(app)["Trials"] == "6"
    assert metrics(app)["Answers"] == "150"
    formats = next(group for group in app.get("button_group") if group.key == "runs_formats_craftmd")
    formats.set_value(["vignette"]).run()
    assert metrics(app)["Answers"] == "24"
    formats = next(group for group in app.get("button_group") if group.key == "runs_formats_craftmd")
    formats.set_value([]).run()
    assert "Choose at least one format and one question type" in words(app).replace("\\", "")
    assert not has_button(app, START)
    assert trouble(app) == []


def test_a_study_offers_the_models_that_can_be_asked_and_one_s_own_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    models = tmp_path / "models.toml"
    models.touch()
    monkeypatch.setenv("ANAMNESIS_MODELS", str(models))
    assert askable_models() == []
    models.write_text('[models."server/mine"]\nbase_url = "http://127.0.0.1:1/v1"\n')
    assert askable_models() == ["server/mine"]
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    first, *others = askable_models()
    assert first == "server/mine"
    assert others
    assert all(name.startswith("openai/") for name in others)


def test_a_missing_key_disables_the_start_but_not_the_estimate(open_page: Open) -> None:
    app = open_page("runs")
    app.selectbox(key="runs_doctor").set_value("openai/gpt-4o").run()
    assert button(app, START).disabled
    assert "OPENAI_API_KEY" in words(app).replace("\\", "")
    # a pilot first: 20 cases, one trial, 4 arms; 7 questions, 7 replies, 4 answers, 2 free responses in 2 steps each
    assert metrics(app)["Trials"] == "20"
    assert metrics(app)["Answers"] == "80"
    assert metrics(app)["Model calls"] == f"{20 * (7 + 7 + 4 + 2 * 2)}"
    pilot = metrics(app)["Cost"]
    figures = metrics(full(app))
    assert figures["Trials"] == "300"
    assert figures["Answers"] == f"{300 * 25:,}"
    assert 0 < float(pilot.removeprefix("$")) < float(figures["Cost"].removeprefix("$"))


@pytest.mark.slow
def test_the_seats_show_who_sits_there_and_the_estimate_counts_them_and_beliefs(open_page: Open) -> None:
    app = small(open_page("runs"), 2, 1)
    seats = ("runs_patient", "runs_grader", "runs_summariser")
    assert [app.selectbox(key=key).options[0] for key in seats] == [
        "Default: Reference patient (rules, no model)",
        "Default: Reference grader (names and synonyms)",
        "Default: Reference summariser (quotes the patient)",
    ]
    assert "Note that" not in words(app)
    full(app.selectbox(key="runs_doctor").set_value("openai/gpt-4o").run())
    assert {app.selectbox(key=key).options[0] for key in seats} == {"Default: openai/gpt-4o (the doctor’s own model)"}
    # 2 trials: 7 questions and 24 answers each; 7 replies; 6 free responses, the closing diagnosis and 6 of many
    # choices in 2 steps, 6 of three in 3; a summary
    assert metrics(app)["Model calls"] == f"{2 * (7 + 24 + 7 + 13 * 2 + 6 * 3 + 1)}"
    assert "Note that openai/gpt-4o grades itself." in words(app).replace("\\", "")
    before = int(metrics(app)["Model calls"])
    app.toggle(key="runs_probe").set_value(True).run()
    assert int(metrics(app)["Model calls"]) - before == 2 * 7  # 2 conversations of 7 assumed questions
    app.toggle(key="runs_probe").set_value(False)
    app.selectbox(key="runs_patient").set_value("reference/profile")
    app.selectbox(key="runs_grader").set_value("openai/gpt-4.1").run()
    assert metrics(app)["Model calls"] == f"{2 * (7 + 24 + 13 * 2 + 6 * 3 + 1)}"
    assert "Note that rules play the patient." in words(app)
    app.selectbox(key="runs_doctor").set_value("openai/gpt-4o-mini").run()
    assert [app.selectbox(key=key).value for key in seats] == ["reference/profile", "openai/gpt-4.1", ""]
    assert app.selectbox(key=seats[2]).options[0] == "Default: openai/gpt-4o-mini (the doctor’s own model)"
    app.selectbox(key="runs_patient").set_value("").run()
    app.selectbox(key="runs_doctor").set_value("reference/bayes").run()
    assert app.selectbox(key="runs_patient").value == ""
    assert trouble(app) == []


@pytest.mark.slow
def test_a_default_of_the_models_file_is_shown_and_needs_its_own_key(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "models.toml"
    own.write_text('[defaults]\ngrader = "gpt_4"')
    monkeypatch.setenv("ANAMNESIS_MODELS", str(own))
    app = open_page("runs")
    app.selectbox(key="runs_doctor").set_value("another model…").run()
    assert app.selectbox(key="runs_patient").options[0] == "Default: the doctor’s own model"
    app.text_input(key="runs_doctor_other").set_value("openai/mine")
    app.text_input(key="runs_base_url").set_value("http://127.0.0.1:9/v1").run()
    assert app.selectbox(key="runs_patient").options[0] == "Default: openai/mine (the doctor’s own model)"
    assert app.selectbox(key="runs_grader").options[0] == "Default: openai/gpt-4-1106-preview"
    assert "openai/gpt-4-1106-preview needs a key" in words(app).replace("\\", "")
    assert button(app, START).disabled
    app.selectbox(key="runs_grader").set_value("reference/names").run()
    assert not button(app, START).disabled
    assert trouble(app) == []


@pytest.mark.slow
def test_a_model_plays_all_seats_of_the_campaign_that_the_form_starts(open_page: Open) -> None:
    with running(lambda body: "**Final Diagnosis:** Gout") as provider:
        app = small(open_page("runs"), 1, 1)
        app.selectbox(key="runs_doctor").set_value("another model…").run()
        app.text_input(key="runs_doctor_other").set_value("openai/mine")
        full(app.text_input(key="runs_base_url").set_value(provider.base_url).run())
        button(app, START).click().run(timeout=120)
        await_end(1)
        run_until(app, lambda a: "Complete: 1 of 1" in words(a))
    header = find_header(run_ids()[0])
    assert {header.patient, header.grader, header.summariser} == {"openai/mine"}
    assert "**Note that** openai/mine grades itself" in words(app).replace("\\", "")
    assert trouble(app) == []


def test_a_model_that_is_not_known_is_said_once_and_cannot_start(open_page: Open) -> None:
    app = open_page("runs")
    app.selectbox(key="runs_doctor").set_value("another model…").run()
    app.text_input(key="runs_doctor_other").set_value("unknown/model").run()
    assert len(app.warning) == 1
    assert not has_button(app, START)
    assert trouble(app) == []


def test_a_persona_is_offered_for_a_patient_that_is_a_model(open_page: Open) -> None:
    app = small(open_page("runs"), 2, 1)
    assert "runs_temperament" not in [select.key for select in app.selectbox]
    model = next(name for name in app.selectbox(key="runs_patient").options if name.startswith("openai/"))
    app.selectbox(key="runs_patient").set_value(model).run()
    assert app.selectbox(key="runs_temperament").value == "plain"


def test_a_click_on_resume_starts_the_run_again(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    header = a_header("cut-short", [a_case()], trials=2)
    write_journal(Store().journals, "cut-short", header, a_trial(trial_id="cut-short/1/0", run_id="cut-short"))
    resumed: list[str] = []
    monkeypatch.setattr("pages.runs.run.go_on", resumed.append)
    app = open_page("runs", run="cut-short")
    button(app, "Resume").click().run()
    assert resumed == ["cut-short"]
    assert trouble(app) == []


@pytest.mark.slow
def test_a_campaign_runs_to_its_end_in_a_process_of_its_own(open_page: Open) -> None:
    app = small(open_page("runs"), 2, 1)
    assert not app.toggle, "the reference doctor shows its belief without being asked"
    button(app, START).click().run(timeout=120)
    assert trouble(app) == []
    (run_id,) = run_ids()
    assert app.query_params["run"] in (run_id, [run_id])
    await_end(2)
    run_until(app, lambda a: "Complete: 2 of 2 trials" in words(a))
    assert trouble(app) == []
    (listed, _) = [frame.value for frame in app.dataframe]
    assert list(listed["State"]) == ["Complete"]
    assert list(listed["Trials"]) == ["2 of 2"]
    sample = [case.case_key for case in select("library", sample=2)]
    with Store().read() as cursor:
        played = conversations(cursor, Selection(runs=[run_id]))
    assert sorted(conversation.case_key for conversation in played) == sorted(sample)
    (chart,) = app.get("plotly_chart")
    bars = json.loads(chart.proto.spec)["data"]
    assert {bar["name"] for bar in bars} == {"Multiple choice", "Many choices", "Free response", "Top three"}
    assert all("error_y" in bar for bar in bars)
    assert not has_button(app, "Stop")
    assert not has_button(app, "Resume")
    header = find_header(run_id)
    assert (header.case_set, header.data_set_cases) == ("library (sample of 2, seed 20)", 60)
    assert "probe" not in header.settings
    other = open_page("runs", run="no-such-run")
    assert "not stored here" in words(other)
    assert run_id in words(other)
    assert trouble(other) == []


@pytest.mark.slow
def test_a_campaign_of_two_doctors_is_a_run_of_each_on_the_same_cases(open_page: Open) -> None:
    with running(lambda body: "**Final Diagnosis:** Gout") as provider:
        app = small(open_page("runs"), 1, 1)
        app.multiselect(key="runs_more_doctors").set_value(["openai/gpt-4o-mini"])
        app.text_input(key="runs_base_url").set_value(provider.base_url).run()
        assert not has_button(app, START)
        full(app)
        assert metrics(app)["Trials"] == "2"
        app.button(key="runs_start").click().run(timeout=120)
        assert trouble(app) == []
    headers = sorted((find_header(run_id) for run_id in run_ids()), key=lambda header: header.doctor)
    assert [header.doctor for header in headers] == ["openai/gpt-4o-mini", "reference/bayes"]
    assert {(header.patient, header.case_set, header.seed) for header in headers} == {
        ("openai/gpt-4o-mini", "library (sample of 1, seed 20)", 20)
    }


@pytest.mark.slow
def test_the_seats_show_the_cast_of_the_study_and_a_sample_is_offered_first(open_page: Open) -> None:
    store = Store()
    first = a_header(
        "first", [a_case(1, case_key="library/1")], doctor="openai/a", patient="openai/gpt-4o", case_set="library"
    )
    settings = {**first.settings, "base_url": "http://127.0.0.1:9/v1"}
    write_journal(store.journals, "first", first.model_copy(update={"settings": settings}))
    app = open_page("runs")
    app.selectbox(key="runs_doctor").set_value("another model…").run()
    app.text_input(key="runs_doctor_other").set_value("openai/b")
    app.text_input(key="runs_base_url").set_value("http://127.0.0.1:9/v1").run()
    assert trouble(app) == []
    label = app.selectbox(key="runs_patient").options[0]
    assert label == "Default: openai/gpt-4o (as in run first of openai/a)"
    text = words(app).replace("\\", "").replace("`", "")
    assert "patient: openai/gpt-4o (as in run first of openai/a, at http://127.0.0.1:9/v1)" in text
    assert not button(app, START).disabled
    part = next(group for group in app.get("button_group") if group.key == "runs_part")
    assert part.value == "sample"
    app.selectbox(key="runs_patient").set_value("reference/profile").run()
    assert "Note that rules play the patient" in words(app)


@pytest.mark.slow
def test_a_run_is_stopped_and_resumed(open_page: Open) -> None:
    app = small(open_page("runs"), 60, 50)
    button(app, START).click().run(timeout=120)
    (run_id,) = run_ids()
    run_until(app, lambda a: has_button(a, "Stop"))
    button(app, "Stop").click().run()
    run_until(app, lambda a: has_button(a, "Resume"), 30)
    assert not is_running(run_id)
    assert "Stopped:" in words(app)
    before = _finished(run_id)
    assert len(before) < 3000
    button(app, "Resume").click().run(timeout=120)
    run_until(app, lambda a: has_button(a, "Stop"))
    assert trouble(app) == []
    assert "Running:" in words(app)
    assert run_ids() == [run_id]
    deadline = time.monotonic() + 30
    while len(_finished(run_id)) <= len(before):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    finished = _finished(run_id)
    assert finished[: len(before)] == before
    assert len(set(finished)) == len(finished)


def _finished(run_id: str) -> list[str]:
    return [line.trial_id for _, line in read_lines(journal_path(run_id)) if isinstance(line, TrialLine)]


@pytest.mark.slow
def test_a_pack_that_cannot_ask_for_beliefs_is_refused_in_a_sentence(open_page: Open, database: Path) -> None:
    own = database.parent / "prompts" / "mine"
    shutil.copytree(paths.PROMPTS / "craftmd", own)
    (own / "belief.md").unlink()
    app = open_page("runs")
    app.selectbox(key="runs_pack").set_value("mine").run()
    assert has_button(app, START), "rules read no prompts"
    app.selectbox(key="runs_doctor").set_value("another model…").run()
    app.text_input(key="runs_doctor_other").set_value("hf/some/model").run()
    app.toggle(key="runs_probe").set_value(True).run()
    assert "The prompts mine have no belief.md" in words(app).replace("\\", "")
    assert not has_button(app, START)
    assert trouble(app) == []


@pytest.mark.slow
def test_only_campaigns_and_releases_are_listed(open_page: Open, database: Path) -> None:
    sources = ("local", "live", "bench", "fork", "release")
    for number, source in enumerate(sources):
        run = f"{source}-run"
        kind = "local" if source == "release" else source
        header = a_header(run, [a_case()], source=kind, trials=1, created_at=100.0 + number)
        write_journal(
            Store(database).journals, run, header, a_trial(a_stream(f"{run}/0"), trial_id=f"{run}/0", run_id=run)
        )
    as_released(Store(database), "release-run")
    app = open_page("runs")
    assert trouble(app) == []
    assert list(app.dataframe[0].value["Run"]) == ["release-run", "local-run"]
    assert "is not stored here" in words(open_page("runs", run="fork-run"))


@pytest.mark.slow
def test_a_run_that_waits_for_a_batch_says_since_when_and_what_it_will_take(open_page: Open, database: Path) -> None:
    header = a_header("run-a", [a_case(1)], doctor="openai/a", trials=3)
    write_journal(Store().journals, "run-a", header, a_trial(trial_id="run-a/0", run_id="run-a"))
    waits = "waiting for a batch since 2026-11-23 17:34 UTC: 2 of 4 requests done"
    status = {"at": time.time() + 60, "done": 1, "planned": 3, "done_here": 0, "started_at": time.time() - 60}
    status |= {"share": 0.6, "calls_so_far": 12, "calls_expected": 20, "seconds_left": None}
    status |= {
        "words": waits,
        "details": waits,
        "trouble": "",
        "batch": {"since": 0.0, "done": 2, "of": 4, "words": waits},
    }
    status |= {"forecast": "By what the first 3 of 60 took: about 80 calls, 900 tokens, $1.00 in all."}
    with progress.running("run-a") as stop_file:
        path, fresh = stop_file.with_name("status.json"), time.time() + 60
        path.write_text(json.dumps(status))
        os.utime(path, (fresh, fresh))
        app = open_page("runs")
        assert trouble(app) == []
        text = words(app).replace("\\", "")
        assert "Waiting: 1 of 3 trials, 12 of about 20 calls; 6" in text
        assert app.get("progress")[0].proto.value == 60
        assert waits in text
        assert "By what the first 3 of 60 took: about 80 calls" in text
        elsewhere = open_page("cases")
        assert any(waits in page_link.proto.label.replace("\\", "") for page_link in elsewhere.get("page_link"))


def test_a_run_is_named_tagged_noted_and_deleted(open_page: Open, database: Path) -> None:
    store = Store()
    cases = [a_case(n) for n in (1, 2)]
    header = a_header("run-a", cases, doctor="openai/a")
    trials = [a_trial(trial_id=f"run-a/{n}", run_id="run-a", trial=n) for n in (0, 1)]
    write_journal(store.journals, "run-a", header, *trials)
    app = open_page("runs")
    assert "openai/a on" in words(app).replace("\\", "")
    app.text_input(key="label_name_run-a").set_value("Short prompt")
    app.text_area(key="label_note_run-a").set_value("Ten questions at most.")
    button(app, "Save").click().run()
    assert "Short prompt" in words(app)
    assert "Ten questions at most" in words(app).replace("\\", "")
    assert app.dataframe[0].value["Name"].tolist() == ["Short prompt"]
    assert "Deleted with it: 2 trials" in words(app)
    button(app, "Delete for good").click().run()
    assert trouble(app) == []
    assert "No run yet." in words(app)
    with store.read() as cursor:
        assert cursor.execute("SELECT count(*) FROM trials").fetchall() == [(0,)]
