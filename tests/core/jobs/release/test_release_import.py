"""Importing a small release: what is stored, what a second import does, and how damaged files are treated."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from core.case import Case
from core.datasets import imported
from core.errors import AnamnesisError, UsageError
from core.events import Answered, Ended, Failed, Finished, Graded, Started, Summarised, Utterance
from core.frameworks.craftmd.release import RELEASE
from core.live.start import load_trial
from core.measures.accuracy import accuracy
from core.store.database import Store
from core.store.queries.answers import case_scores
from core.store.queries.grades import latest_grades
from core.store.queries.releases import document, quarantined
from core.store.queries.run_cases import run_cases
from core.store.queries.runs import runs
from core.store.queries.trials import conversations, trial_events
from core.store.selection import Selection
from tests.support.importing import a_run, dump, import_all
from tests.support.release import PROMPT, a_conversation, a_file, a_row, a_trial, write_cases, write_file, write_release

GPT, MISTRAL = "craftmd-gpt3_1106", "craftmd-mistral-v1"


@pytest.fixture(autouse=True)
def db(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "db" / "anamnesis.duckdb"
    monkeypatch.setenv("ANAMNESIS_DB", str(path))
    return path


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_release(tmp_path / "release")


def trial_ids(run_id: str) -> dict[tuple[str, int], str]:
    with Store().read() as cursor:
        listed = conversations(cursor, Selection(runs=[run_id]))
    return {(conversation.case_key, conversation.trial): conversation.trial_id for conversation in listed}


def correct(run_id: str) -> dict[tuple[str, str], list[tuple[int, int]]]:
    counts: dict[tuple[str, str], list[tuple[int, int]]] = {}
    label = a_run(run_id).doctor
    with Store().read() as cursor:
        for score in case_scores(cursor):
            if score.model == label:
                counts.setdefault((score.format, score.question_type), []).append((score.correct, score.counted))
    return counts


@pytest.mark.slow
def test_a_run_for_each_model(release: Path) -> None:
    report = import_all(release)
    assert [(m.label, m.taken, m.trials) for m in report.models] == [("gpt_3_5", 2, 10), ("mistral_v1_7b", 2, 10)]
    gpt = a_run(GPT)
    assert (gpt.doctor, gpt.patient, gpt.grader, gpt.summariser) == ("gpt_3_5", "gpt_4", "gpt_4", "gpt_3_5")
    assert (gpt.source, gpt.trials, gpt.planned, gpt.done, gpt.state) == ("release", 5, 10, 10, "complete")
    assert gpt.settings["max_messages"] is None
    assert a_run(MISTRAL).settings["max_messages"] == 30
    assert (gpt.answers, gpt.excluded) == (80, 0)
    assert {(row["model"], row.estimate) for row in accuracy(Store())} == {("gpt_3_5", 1.0), ("mistral_v1_7b", 1.0)}


def test_the_order_of_the_data_set_is_kept(tmp_path: Path) -> None:
    rows = [a_row("case_10"), a_row("case_2"), a_row("case_1"), a_row("case_3")]
    files = {name: a_file(name) for name in ("case_1", "case_2", "case_10")}
    import_all(write_release(tmp_path / "r", {"gpt3_1106": files}, rows))
    with Store().read() as cursor:
        assert [case.case_key for case in run_cases(cursor, GPT)] == [
            "craftmd/case_10",
            "craftmd/case_2",
            "craftmd/case_1",
        ]
        positions = cursor.execute("SELECT position FROM run_cases ORDER BY position").fetchall()
    assert positions == [(0,), (1,), (2,)]


def test_specialties_and_single_diagnoses_are_mapped(tmp_path: Path) -> None:
    rows = [
        a_row("case_0", dataset="dermatology_public"),
        a_row("case_1", dataset="dermatology_public"),
        a_row("case_100", dataset="dermatology_private"),
        a_row("case_300", category="Renal and Genitourinary System"),
    ]
    root = write_release(tmp_path / "r", {"gpt3_1106": {r["case_id"]: a_file(r["case_id"]) for r in rows}}, rows)
    notes = root / "results" / "expert_annotations"
    notes.mkdir()
    quality = b"case_id,only_possible_answer,single_most_likely_answer\npublic_case01,Yes,\npublic_case02,No,No\n"
    (notes / "case_vignette_qc.csv").write_bytes(quality + b"private_case01,No,Yes\n")
    report = import_all(root)
    with Store().read() as cursor:
        cases = {case.case_key: case for case in run_cases(cursor, GPT)}
        annotations = document(cursor, "results/expert_annotations/case_vignette_qc.csv")
    assert {key: case.single_diagnosis for key, case in cases.items()} == {
        "craftmd/case_0": True,
        "craftmd/case_1": False,
        "craftmd/case_100": True,
        "craftmd/case_300": None,
    }
    assert cases["craftmd/case_300"].specialty == "Urology and Nephrology"
    assert report.documents == ("results/expert_annotations/case_vignette_qc.csv",)
    assert annotations == quality + b"private_case01,No,Yes\n"


def test_a_conversation_reads_back_as_events(tmp_path: Path) -> None:
    trial = a_trial(vignette_frq=None, evaluation_vignette_frq=-1, multiturn_mcq="Gout")
    root = write_release(tmp_path / "r", {"mistral-v1": {"case_0": a_file("case_0", trial_2=trial)}})
    import_all(root)
    trial_id = trial_ids(MISTRAL)["craftmd/case_0", 2]
    with Store().read() as cursor:
        events = trial_events(cursor, trial_id)
    assert isinstance(events[0], Started)
    assert (events[0].case_key, events[0].trial) == ("craftmd/case_0", 2)
    assert [(e.turn, e.role, e.text) for e in events if isinstance(e, Utterance)] == [
        (0, "doctor", "Hi! What brings you in?"),
        (1, "patient", "I itch."),
        (2, "doctor", "Since when?"),
        (3, "patient", "A week."),
        (4, "doctor", "**Final Diagnosis:** Scabies"),
    ]
    assert [(e.reason, e.doctor_turns) for e in events if isinstance(e, Ended)] == [("final_diagnosis", 2)]
    assert [e.text for e in events if isinstance(e, Summarised)] == ["A patient who itches."]
    answers = {(e.format, e.question_type): e for e in events if isinstance(e, Answered)}
    assert len(answers) == 8
    assert answers["vignette", "frq"].status == "invalid"
    grades = {(e.format, e.rule): e.verdict for e in events if isinstance(e, Graded)}
    assert grades["multi_turn", "mcq_loose"] == "incorrect"
    assert grades["multi_turn", "frq"] == "correct"
    assert ("vignette", "frq") not in grades
    assert len(grades) == 11
    assert isinstance(events[-1], Finished)
    places = {type(e).__name__: n for n, e in enumerate(events)}
    assert places["Utterance"] < places["Ended"] < places["Summarised"]
    stored = load_trial(trial_id)
    assert stored is not None
    case, again, _ = stored
    assert isinstance(case, Case)
    assert again == events


@pytest.mark.slow
def test_importing_twice_changes_nothing(release: Path) -> None:
    import_all(release)
    before = dump()
    stamp = Store().version
    report = import_all(release)
    assert [(m.taken, m.unchanged) for m in report.models] == [(0, 2), (0, 2)]
    assert not report.changed
    assert dump() == before
    assert Store().version == stamp  # not even opened for writing


@pytest.mark.slow
def test_a_changed_file_replaces_its_trials_only(release: Path) -> None:
    import_all(release)
    old, other = trial_ids(GPT), trial_ids(MISTRAL)
    changed = {f"trial_{n}": a_trial(vignette_mcq="Gout") for n in range(4)}
    write_file(release, "gpt3_1106", "case_1", a_file("case_1", **changed, trial_4=None))
    report = import_all(release)
    assert [(m.taken, m.replaced, m.unchanged) for m in report.models] == [(1, 1, 1), (0, 0, 2)]
    new = trial_ids(GPT)
    assert {k: v for k, v in new.items() if k[0] == "craftmd/case_0"} == {
        k: v for k, v in old.items() if k[0] == "craftmd/case_0"
    }
    assert not set(new.values()) & {v for k, v in old.items() if k[0] == "craftmd/case_1"}
    assert trial_ids(MISTRAL) == other
    assert correct(GPT)["vignette", "mcq"] == [(5, 5), (0, 4)]
    rows = dump()
    stored = {trial_id for trial_id, *_ in rows["trials"]}
    for name in ("utterances", "answers", "grades"):
        assert {row[0] for row in rows[name]} <= stored
    assert len(rows["release_files"]) == 4
    assert import_all(release).changed is False


@pytest.mark.slow
def test_a_changed_case_of_the_data_set_is_judged_again(release: Path) -> None:
    import_all(release)
    write_cases(release, [a_row("case_0"), a_row("case_1", choice_2="Scabies mite")])
    report = import_all(release)
    assert [(m.taken, m.unchanged) for m in report.models] == [(1, 1), (1, 1)]
    with Store().read() as cursor:
        assert run_cases(cursor, GPT)[1].choices[1] == "Scabies mite"


def test_a_missing_trial_is_excluded_and_not_wrong(tmp_path: Path) -> None:
    import_all(write_release(tmp_path / "r", {"gpt3_1106": {"case_0": a_file("case_0", trial_3=None)}}))
    assert set(map(tuple, correct(GPT).values())) == {((5 - 1, 5 - 1),)}
    run = a_run(GPT)
    assert (run.done, run.failed, run.excluded) == (5, 1, 8)
    with Store().read() as cursor:
        events = trial_events(cursor, trial_ids(GPT)["craftmd/case_0", 3])
    assert [e.message for e in events if isinstance(e, Failed)] == ["trial_3 is missing in the release"]
    (row, *_) = accuracy(Store())
    assert (row["n_trials"], row["n_excluded"], row.excluded) == (4, 1, {"ungradable": 1})


def test_a_damaged_file_is_quarantined_and_the_others_are_imported(release: Path) -> None:
    whole = (release / "results" / "gpt3_1106" / "case_0.json").read_bytes()
    write_file(release, "gpt3_1106", "case_0", whole[: len(whole) // 2])
    write_file(release, "gpt3_1106", "case_77", a_file("case_77"))
    report = import_all(release)
    assert [(f.path, (f.fault or "")[:24]) for f in report.quarantined] == [
        ("results/gpt3_1106/case_0.json", "it is not whole JSON (un"),
        ("results/gpt3_1106/case_77.json", "the data set file has no"),
    ]
    assert [m.taken for m in report.models] == [1, 2]
    assert {key for key, _ in trial_ids(GPT)} == {"craftmd/case_1"}
    with Store().read() as cursor:
        assert [f.path for f in quarantined(cursor)] == [f.path for f in report.quarantined]
    before = dump()
    assert len(import_all(release).quarantined) == 2
    assert dump() == before
    write_file(release, "gpt3_1106", "case_0", whole)
    assert [f.path for f in import_all(release).quarantined] == ["results/gpt3_1106/case_77.json"]
    assert {key for key, _ in trial_ids(GPT)} == {"craftmd/case_0", "craftmd/case_1"}
    with Store().read() as cursor:
        assert [f.path for f in quarantined(cursor)] == ["results/gpt3_1106/case_77.json"]


@pytest.mark.slow
def test_a_file_that_is_damaged_later_keeps_its_imported_trials(release: Path) -> None:
    import_all(release)
    before = trial_ids(GPT)
    write_file(release, "gpt3_1106", "case_0", b'{"case_id": "case_0", ')
    assert len(import_all(release).quarantined) == 1
    assert trial_ids(GPT) == before
    write_file(release, "gpt3_1106", "case_0", a_file("case_0", trial_0=a_trial(vignette_mcq="Gout")))
    import_all(release)
    assert correct(GPT)["vignette", "mcq"] == [(4, 5), (5, 5)]


def test_a_release_without_usable_files_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    root = write_release(tmp_path / "r", {"gpt3_1106": {"case_0": b"{", "case_1": b""}})
    with pytest.raises(AnamnesisError, match=r"None of the 2 case files can be used \(results/gpt3_1106/case_0"):
        import_all(root)
    assert {name for name, rows in dump().items() if rows} == {"migrations"}
    assert imported.names() == []


def test_imported_files_that_are_missing_later_stay(release: Path) -> None:
    import_all(release)
    (release / "results" / "gpt3_1106" / "case_0.json").unlink()
    report = import_all(release)
    assert (report.models[0].kept, report.models[0].unchanged) == (1, 1)
    assert len(trial_ids(GPT)) == 10


@pytest.mark.slow
def test_only_the_chosen_models(release: Path) -> None:
    import_all(release, ["mistral_v1_7b"])
    with Store().read() as cursor:
        assert [run.run_id for run in runs(cursor)] == [MISTRAL]
    import_all(release, ["gpt3_1106", "gpt_3_5"])
    with Store().read() as cursor:
        assert {run.run_id for run in runs(cursor)} == {GPT, MISTRAL}
    with pytest.raises(UsageError, match=r"no model 'gpt_4'.*gpt_3_5 \(gpt3_1106\), mistral_v1_7b"):
        import_all(release, ["gpt_4"])


def test_an_unknown_folder_keeps_its_name(tmp_path: Path) -> None:
    import_all(write_release(tmp_path / "r", {"new-model": {"case_0": a_file("case_0")}}))
    assert a_run("craftmd-new-model").doctor == "new-model"


@pytest.mark.slow
def test_prompts_that_differ_only_in_the_specialty_count_as_equal(tmp_path: Path) -> None:
    rows = [a_row("case_0"), a_row("case_1", category="Other"), a_row("case_2")]
    bare = PROMPT.replace(" specializing in {}", "")
    other = PROMPT.format("Dermatology") + " Be brief."

    def with_prompt(case_id: str, prompt: str) -> dict[str, Any]:
        conversation = a_conversation("Hi?", "I itch.", "Final Diagnosis: gout", prompt=prompt)
        return a_file(case_id, **{f"trial_{n}": a_trial(multiturn_conversation=conversation) for n in range(5)})

    same = {"case_0": with_prompt("case_0", PROMPT.format("Dermatology")), "case_1": with_prompt("case_1", bare)}
    root = write_release(tmp_path / "r", {"gpt3_1106": same, "mistral-v1": same}, rows)
    import_all(root)
    assert a_run(GPT).prompt_hash == a_run(MISTRAL).prompt_hash
    assert [p["conversations"] for p in a_run(GPT).settings["prompts"].values()] == [10]
    write_file(root, "gpt3_1106", "case_2", with_prompt("case_2", other))
    report = import_all(root)
    assert a_run(GPT).prompt_hash != a_run(MISTRAL).prompt_hash
    prompts = a_run(GPT).settings["prompts"]
    assert [p["conversations"] for p in prompts.values()] == [10, 5]
    assert list(prompts.values())[1]["template"].endswith(
        "specializing in {specialty}. Ask one question at a time. Be brief."
    )
    assert sum(report.models[0].prompts.values()) == 5


def test_the_cases_become_a_data_set_once(release: Path) -> None:
    assert import_all(release).saved_cases
    assert [case.case_key for case in imported.load("craftmd")] == ["craftmd/case_0", "craftmd/case_1"]
    imported.save("craftmd", imported.load("craftmd")[:1])
    assert not import_all(release).saved_cases
    assert len(imported.load("craftmd")) == 1


def test_own_grades_stay_apart_from_those_of_the_release(release: Path) -> None:
    import_all(release)
    trial_id = trial_ids(GPT)["craftmd/case_0", 0]
    with Store().write() as connection:
        connection.execute(
            "INSERT INTO grades VALUES (?, 'vignette', 'frq', 'frq', 'me', NULL, 'incorrect', [], 9e9, '', 1)",
            [trial_id],
        )
    with Store().read() as cursor:
        newest = {(g.format, g.rule): g.verdict for g in latest_grades(cursor, trial_id)}
        played = {(e.format, e.rule): e.verdict for e in trial_events(cursor, trial_id) if isinstance(e, Graded)}
    assert newest["vignette", "frq"] == "incorrect"
    assert played["vignette", "frq"] == "correct"


def test_a_wrong_header_is_named(release: Path) -> None:
    write_cases(release, [a_row("case_0")], columns=("case_vignette", "choice_1", "answer", "case_id"))
    with pytest.raises(AnamnesisError, match=r"line 1: the columns choice_2, choice_3, choice_4, category, dataset"):
        import_all(release)
    assert not any(rows for name, rows in dump().items() if name != "migrations")


def test_links_out_of_the_folder_are_not_followed(release: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret.json"
    shutil.copy(release / "results" / "gpt3_1106" / "case_0.json", outside)
    target = release / "results" / "gpt3_1106" / "case_0.json"
    target.unlink()
    target.symlink_to(outside)
    report = import_all(release)
    assert [f.fault for f in report.quarantined] == ["it is a link that leads out of the release's folder"]
    shutil.move(release / "results" / "mistral-v1", tmp_path / "elsewhere")
    (release / "results" / "mistral-v1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AnamnesisError, match="results/mistral-v1 is a link that leads out"):
        import_all(release)


@pytest.mark.parametrize(
    ("lacking", "words"),
    [("data", "has results, but not data/usmle_and_derm_dataset.csv"), ("results", "no results/MODEL/case_N.json")],
)
def test_a_folder_that_lacks_a_part(release: Path, lacking: str, words: str) -> None:
    shutil.rmtree(release / lacking)
    with pytest.raises(AnamnesisError, match=words):
        RELEASE.find(release, "release")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(AnamnesisError, match="name a copy of the CRAFT-MD authors' repository"):
        RELEASE.find(tmp_path, "here")
