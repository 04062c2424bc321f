"""The Runs page without a browser: estimate, a campaign in its own process to the end, stop and resume.

Campaigns of the Consultation protocol: ``test_runs_consultation_app``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.datasets.select import select
from core.jobs.begun import find_header
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


def test_a_model_that_is_not_known_is_said_once_and_cannot_start(open_page: Open) -> None:
    app = open_page("runs")
    app.selectbox(key="runs_doctor").set_value("another model…").run()
    app.text_input(key="runs_doctor_other").set_value("unknown/model").run()
    assert len(app.warning) == 1
    assert not has_button(app, START)
    assert trouble(app) == []


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
