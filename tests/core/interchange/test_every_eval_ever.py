from __future__ import annotations

import hashlib
import json
import shlex
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import numpy as np
import pytest

from core.case import Case
from core.cli.app import main
from core.errors import AnamnesisError
from core.events import Finished
from core.interchange.answer_basis import AnswerBasis
from core.interchange.every_eval_ever import Publisher, write_evaluations
from core.interchange.public import PublicNames
from core.interchange.run_facts import command_of, model_info
from core.measures.accuracy import accuracy
from core.prompts import load_pack
from core.store.conditions import Condition
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import run_records
from core.store.selection import Selection, conditions
from tests.core.interchange import exchanged as campaign
from tests.core.interchange.exchanged import COUNTED, EXCLUDED, MEAN, RUN, SECRET, SECRET_MESSAGE
from tests.core.store.builders import a_case, a_header, a_trial, answered, graded, grades, invalid, write_journal
from tests.support.stores import copy_of

SCHEMAS = Path(__file__).parent / "every_eval_ever"
PUBLISHER = Publisher("An institute", "third_party")
FREE = "multi_turn:frq"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    return copy_of(campaign.exchanged, tmp_path)


def export(store: Store, folder: Path, run: str = RUN, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Export one condition; return its aggregate and its lines, both valid by the published schemas."""
    written = write_evaluations(store, Selection(runs=[run]), folder, PUBLISHER, **options)
    aggregate_path, lines_path = written.files
    aggregate = json.loads(aggregate_path.read_bytes())
    lines = [json.loads(line) for line in lines_path.read_bytes().splitlines()]
    _valid(aggregate, "eval.schema.json")
    for line in lines:
        _valid(line, "instance_level_eval.schema.json")
    return aggregate, lines


def _valid(document: dict[str, Any], schema: str) -> None:
    jsonschema.Draft7Validator(json.loads((SCHEMAS / schema).read_bytes())).validate(document)


def result_of_arm(aggregate: dict[str, Any], arm: str = FREE) -> dict[str, Any]:
    (result,) = [r for r in aggregate["evaluation_results"] if r["evaluation_result_id"] == arm]
    return result


@pytest.mark.slow
def test_an_export_has_the_scores_answers_judges_and_messages_of_a_run(store: Store, tmp_path: Path) -> None:
    aggregate, lines = export(store, tmp_path / "out")
    rows = accuracy(store, selection=Selection(runs=[RUN]), interval="bootstrap")
    assert len(aggregate["evaluation_results"]) == len(rows) == 2
    for row in rows:
        details = result_of_arm(aggregate, f"{row['format']}:{row['question_type']}")["score_details"]
        interval = details["uncertainty"]["confidence_interval"]
        assert (details["score"], interval["lower"], interval["upper"]) == (row.estimate, row.low, row.high)
        assert details["uncertainty"]["num_samples"] == row.n
    free = result_of_arm(aggregate)
    assert free["score_details"]["score"] == MEAN
    by_case = defaultdict(list)
    for line in lines:
        if line["evaluation_result_id"] == FREE:
            by_case[line["sample_id"]].append(line["evaluation"]["score"])
    assert sum(map(len, by_case.values())) == COUNTED
    assert np.mean([np.mean(scores) for scores in by_case.values()]) == MEAN
    # an excluded answer has no line, and is counted by its reason
    failed = [line for line in lines if line["metadata"]["trial_id"] == f"{RUN}/3/0"]
    assert [line["evaluation_result_id"] for line in failed] == ["vignette:mcq"]
    details = free["score_details"]["details"]
    assert details["excluded_provider_error"] == details["n_excluded"] == str(EXCLUDED)
    assert aggregate["detailed_evaluation_results"]["total_rows"] == len(lines) == 8 + COUNTED
    # a refusal in words is an answer that is not correct
    (refusal,) = [line for line in lines if line["metadata"]["verdict"] == "refused_in_words"]
    assert refusal["evaluation"] == {"score": 0.0, "is_correct": False, "num_turns": 5, "tool_calls_count": 0}
    detail = aggregate["detailed_evaluation_results"]
    content = (tmp_path / "out" / detail["file_path"]).read_bytes()
    assert detail["file_path"].startswith("data/craftmd-ours/openai/gpt-4o/")
    assert detail["checksum"] == hashlib.sha256(content).hexdigest()
    scoring = free["metric_config"]["llm_scoring"]
    assert [judge["model_info"]["id"] for judge in scoring["judges"]] == ["openai/g"]
    assert load_pack("craftmd").prompts["grader_judge"].source in scoring["input_prompt"]
    assert "llm_scoring" not in result_of_arm(aggregate, "vignette:mcq")["metric_config"]
    (line,) = [
        line for line in lines if line["metadata"]["trial_id"] == f"{RUN}/1/0" and line["evaluation_result_id"] == FREE
    ]
    assert [(m["role"], m["content"]) for m in line["messages"]] == [
        ("assistant", "Hello, what brings you in?"),
        ("user", "A lump on my neck since 1 weeks."),
        ("assistant", "Does it itch?"),
        ("user", "Which diagnosis is most likely?"),
        ("assistant", "Eczema"),
    ]
    assert line["messages"][-1]["reasoning_trace"] == "It itches."
    assert line["answer_attribution"][0]["turn_idx"] == 4
    assert line["answer_attribution"][0]["extracted_value"] == "eczema"
    assert line["answer_attribution"][0]["extraction_method"] == "llm_judge"
    # one message of the dialogue (10 + 3 tokens), and the call for the answer (20 + 5, of which 1 for reasoning)
    assert line["token_usage"] == {
        "input_tokens": 30, "output_tokens": 8, "total_tokens": 38, "reasoning_tokens": 1,
    }  # fmt: skip


@pytest.mark.slow
def test_arm_without_a_counted_answer_has_no_score(tmp_path: Path, store: Store) -> None:
    header = a_header("run-broken", [a_case(1, licence="MIT")], trials=1, doctor="openai/broken")
    events = [answered("vignette", "mcq"), graded("correct", "vignette", "mcq"), invalid("refused"), Finished(at=2.0)]
    write_journal(store.journals, "run-broken", header, a_trial(events, trial_id="b/1", run_id="run-broken"))
    fold(store)
    aggregate, lines = export(store, tmp_path / "out", "run-broken")
    assert [result["evaluation_result_id"] for result in aggregate["evaluation_results"]] == ["vignette:mcq"]
    assert aggregate["source_metadata"]["additional_details"]["arms_without_score"] == "multi_turn:frq (refused 1)"
    assert len(lines) == 1


@pytest.mark.slow
def test_nothing_is_written_if_no_answer_counts(tmp_path: Path, store: Store) -> None:
    header = a_header("run-none", [a_case(1)], trials=1, doctor="openai/none", arms=[("multi_turn", "frq")])
    trial = a_trial([invalid("refused"), Finished(at=2.0)], trial_id="n/1", run_id="run-none")
    write_journal(store.journals, "run-none", header, trial)
    fold(store)
    with pytest.raises(AnamnesisError):
        write_evaluations(store, Selection(runs=["run-none"]), tmp_path / "out", PUBLISHER)
    assert not list((tmp_path / "out").rglob("*.json*"))


@pytest.mark.slow
def test_equal_answers_give_equal_files_and_a_new_verdict_others(store: Store, tmp_path: Path) -> None:
    def files(name: str) -> dict[str, bytes]:
        export(store, tmp_path / name)
        folder = tmp_path / name
        return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    first = files("first")
    assert files("second") == first
    again = write_evaluations(store, Selection(runs=[RUN]), tmp_path / "first", PUBLISHER)
    assert {str(path.relative_to(tmp_path / "first")) for path in again.files} == set(first)
    write_journal(store.journals, RUN, grades(f"{RUN}/2/1", graded("correct", at=20.0), run_id=RUN))
    fold(store)
    assert not set(files("third")) & set(first)


def test_texts_of_a_case_without_an_open_licence_are_withheld(store: Store, tmp_path: Path) -> None:
    _, lines = export(store, tmp_path / "out")
    text = json.dumps(lines)
    assert SECRET not in text
    assert SECRET_MESSAGE not in text
    withheld = [line for line in lines if line["sample_id"] == "ours/4"]
    assert len(withheld) == 4
    assert {line["input"]["raw"] for line in withheld} == {"[withheld]"}
    assert all(message["content"] is None for line in withheld for message in line["messages"])
    _, complete = export(store, tmp_path / "all", with_cases=True)
    assert SECRET in json.dumps(complete)
    assert SECRET_MESSAGE in json.dumps(complete)
    hashes = [{line["sample_hash"] for line in found if line["sample_id"] == "ours/4"} for found in (lines, complete)]
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 1


def test_names_of_people_and_folders_do_not_leave(store: Store, tmp_path: Path) -> None:
    for number, doctor in enumerate(("human/Ada Lovelace", "hf//root/models/secret-place/tiny")):
        run = f"run-{number}"
        header = a_header(run, [a_case(1, licence="MIT")], trials=1, doctor=doctor, arms=[("vignette", "mcq")])
        events = [answered("vignette", "mcq"), graded("correct", "vignette", "mcq"), Finished(at=2.0)]
        write_journal(store.journals, run, header, a_trial(events, trial_id=f"{run}/1", run_id=run))
    fold(store)
    written = write_evaluations(store, Selection(runs=["run-0", "run-1"]), tmp_path / "out", PUBLISHER)
    text = "".join(f"{path} {path.read_text()}" for path in written.files)
    assert "Ada" not in text
    assert "secret-place" not in text
    assert written.by_people
    assert {path.parent.relative_to(tmp_path / "out/data").parts[1:] for path in written.files} == {
        ("human", "1"),
        ("hf", "tiny"),
    }


def test_people_are_numbered_alike_everywhere() -> None:
    names = PublicNames()
    assert names("human/Ada") == "human/1"
    assert names("human/Ben B. · library") == "human/2 · library"
    assert names("Excluded: human/Ada · order 2 (3 answers), human/Ben B.") == (
        "Excluded: human/1 · order 2 (3 answers), human/2"
    )
    assert names("human/1: 2 refused; human/2 has 3 cases.") == "human/1: 2 refused; human/2 has 3 cases."


def test_people_who_are_listed_first_have_the_order_of_their_names() -> None:
    names = PublicNames(["Zoë", "Ann", "2", "release d3"])
    assert [names.person(name) for name in ("Ann", "Zoë", "2", "release d3")] == ["1", "3", "2", "release d3"]
    assert names("human/Anna, human/Ann, human/Zoë · x, human/2") == "human/4, human/1, human/3 · x, human/2"
    assert names.in_words("Ann and Annabel: Zoë.") == "1 and Annabel: 3."
    assert names.replaced == 3


def test_names_of_people_stay_if_they_are_to() -> None:
    names = PublicNames(["Ann"], with_names=True)
    assert names("human/Ann on hf//root/models/tiny") == "human/Ann on hf/tiny"
    assert names.person("Ann") == names.in_words("Ann") == "Ann"
    assert names.replaced == 0


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("hf//root/models/tiny · library", "hf/tiny · library"),
        ("hf/~/models/tiny", "hf/tiny"),
        ("http/http://10.0.0.1:9000/chat", "http/address"),
        ("served as /root/models/tiny.gguf", "served as tiny.gguf"),
        (
            "Address of the doctor: http://10.0.0.1:8000/v1, and no other.",
            "Address of the doctor: address, and no other.",
        ),
        ("grader openai/gpt-4o / anthropic/claude", "grader openai/gpt-4o / anthropic/claude"),
        ("hf/mistralai/Mistral-7B-Instruct-v0.1", "hf/mistralai/Mistral-7B-Instruct-v0.1"),
    ],
)
def test_folders_and_addresses_are_left_out(text: str, public: str) -> None:
    assert PublicNames()(text) == public


@pytest.mark.parametrize(
    ("name", "id_", "deployment"),
    [
        ("openai/gpt-4o", "openai/gpt-4o", "externally_managed"),
        ("gpt_4", "openai/gpt-4-1106-preview", "externally_managed"),
        ("mistral_v1_7b", "mistralai/Mistral-7B-Instruct-v0.1", "self_deployed"),
        ("ollama/llama3.1:8b", "ollama/llama3.1-8b", None),
        ("somebody", "unattributed/somebody", "unknown"),
        ("reference/bayes", "reference/bayes", "unknown"),
    ],
)
def test_model_has_an_id_that_is_a_folder(name: str, id_: str, deployment: str | None) -> None:
    info = model_info(name, PublicNames())
    assert info["id"] == id_
    assert deployment is None or info["additional_details"]["deployment_type"] == deployment


@pytest.mark.slow
def test_command_plays_the_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "own.duckdb"))
    first = "run --doctor reference/bayes --limit 2 --trials 1 --max-messages 12 --arms vignette:mcq --max-tokens 99"
    assert main(first.split()) == 0
    store = Store()
    with store.read() as cursor:
        (run,) = run_records(cursor)
    command = command_of(run)
    assert command is not None
    assert main(shlex.split(command)[3:]) == 0
    with store.read() as cursor:
        assert len({stored.fingerprint for stored in run_records(cursor)}) == 1
        repeated = {**vars(run_records(cursor)[0]), "run_id": "", "created_at": 0.0}
    assert repeated == {**vars(run), "run_id": "", "created_at": 0.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"doctor": "human/Ada"},
        {"doctor": "hf//root/models/tiny"},
        {"settings": {"base_url": "http://10.0.0.1:8000/v1"}},
        {"prompt_pack": "/root/my prompts"},
        {"source": "release"},
    ],
)
def test_command_that_names_this_machine_or_a_person_is_left_out(store: Store, changes: dict[str, Any]) -> None:
    with store.read() as cursor:
        (run,) = run_records(cursor)
    assert command_of(run) is not None
    assert command_of(replace(run, **changes)) is None


@pytest.mark.slow
def test_condition_that_judged_a_part_again_is_its_own_file(store: Store, tmp_path: Path) -> None:
    regraded = graded("correct", grader="openai/second", at=50.0, prompt_hash="b" * 16)
    write_journal(store.journals, RUN, grades(f"{RUN}/4/0", regraded, run_id=RUN))
    fold(store)
    expected: list[Condition] = conditions(store, Selection(runs=[RUN]))
    written = write_evaluations(store, Selection(runs=[RUN]), tmp_path / "out", PUBLISHER)
    aggregates = [json.loads(path.read_bytes()) for path in written.files if path.suffix == ".json"]
    assert len(expected) == len(aggregates) == 2
    assert len({aggregate["evaluation_id"] for aggregate in aggregates}) == 2
    scores = {result_of_arm(aggregate)["score_details"]["score"] for aggregate in aggregates}
    assert scores == {MEAN, 1.0}


def test_the_messages_before_an_answer_are_those_that_were_sent() -> None:
    """Of a conversation the dialogue and the question, of a vignette its request; nothing of a withheld case."""
    case = a_case(1)
    pictured = [{"type": "image_url"}, {"type": "text", "text": "Look"}, {"type": "text", "text": "here"}]
    request = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": pictured}]
    spoken = [
        SimpleNamespace(role="doctor", text="What is it?", reasoning="so"),
        SimpleNamespace(role="patient", text="Pain.", reasoning=None),
    ]
    basis = AnswerBasis({"t": spoken}, {"c": SimpleNamespace(messages=request, reasoning="because")}, {}, {})  # type: ignore[dict-item, list-item]

    def sent(
        format_: str, call: str = "c", trial: str = "t", case: Case | None = case, *, open_: bool = True
    ) -> list[Any]:
        answer: Any = SimpleNamespace(trial_id=trial, call_id=call, format=format_, response="Gout")
        messages = basis.messages(answer, case, "doctor", open_=open_)
        assert [message["turn_idx"] for message in messages] == list(range(len(messages)))
        return [(message["role"], message["content"], message.get("reasoning_trace")) for message in messages]

    talk = [("assistant", "What is it?", "so"), ("user", "Pain.", None)]
    answer, bare = ("assistant", "Gout", "because"), ("assistant", "Gout", None)
    assert sent("multi_turn") == [*talk, ("user", "Look\nhere", None), answer]
    assert sent("multi_turn", call="none") == [*talk, ("user", case.question, None), bare]
    assert sent("closing") == talk
    assert sent("closing", trial="none") == [answer]
    assert sent("vignette") == [("system", "Be brief.", None), ("user", "Look\nhere", None), answer]
    assert sent("vignette", call="none") == [("user", case.question, None), bare]
    assert sent("vignette", call="none", case=None) == [("user", None, None), bare]
    assert {content for _, content, _ in sent("multi_turn", open_=False)} == {None}
    assert {reasoning for *_, reasoning in sent("multi_turn", open_=False)} == {None}
