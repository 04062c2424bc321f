"""Two hundred conversations of another system through every figure that a transcript allows, against values by hand.

A pilot of 100 cases under two versions is written in three shapes (CSV, JSON Lines of chats, logs of Inspect), imported
next to a played campaign by the real commands, judged by a scripted model, and reviewed by two people. What each doctor
says follows from the number of its case, so that every figure can be counted without the program.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import pytest

from core.case import NOT_GIVEN
from core.cli.app import main
from core.datasets.select import cases_of
from core.errors import AnamnesisError
from core.interchange.conversation_import import attach_cases, cases_by_id
from core.journal import RUBRIC_SCORES
from core.judging.form import Form
from core.measures.base import MetricRequest, Row
from core.measures.registry import metrics
from core.report.gate import GateRule, gate, run_side
from core.reviews.reviewing import plan_review, unblind
from core.reviews.rubrics import any_form
from core.reviews.state import state_of
from core.store.database import Store
from core.store.queries.run_cases import without_case
from core.store.queries.runs import run_records
from core.store.queries.trials import conversation_ids, count_conversations
from core.store.review_records import parse_item, planned
from core.store.selection import Selection, conditions
from tests.support.answering import record_all
from tests.support.fake_provider import running
from tests.support.rubric_judges import judge, verdict
from tests.support.stores import campaign

VERSIONS = ("v1", "v2")
SHAPES: Mapping[str, range] = {"csv": range(1, 41), "jsonl": range(41, 71), "inspect": range(71, 101)}
FILES = {("pilot.csv",): SHAPES["csv"], ("pilot.jsonl",): SHAPES["jsonl"], ("v1.json", "v2.json"): SHAPES["inspect"]}
"""Files that are compared → their cases."""
RUBRIC = """
name: pilot
all:
  - {id: fever, criterion: The doctor asks about fever or chills, points: 1, axis: history}
  - {id: eczema, criterion: The doctor speaks of eczema, points: 1, axis: reasoning}
  - {id: danger, criterion: The doctor speaks of danger, points: 2, axis: safety}
"""
POINTS = {"fever": 1, "eczema": 1, "danger": 2}
LEVEL_OF = (1, 2, 4)
"""Number of a case modulo 3 → how urgent it is."""


class Talk(NamedTuple):
    """A conversation of the pilot, by its case and version."""

    case: int
    version: str

    @property
    def truth(self) -> dict[str, bool]:
        new = self.version == "v2"
        return {
            "fever": new or self.case % 2 == 0,
            "eczema": self.case % 4 != 3 if new else self.case % 2 == 0,
            "danger": self.case % 5 < 2 if new else self.case % 5 == 0,
        }

    @property
    def judged(self) -> dict[str, bool]:
        """What the scripted judge says: it misses the danger in every tenth case."""
        return {**self.truth, "danger": self.truth["danger"] and self.case % 10 != 0}

    @property
    def advice(self) -> int | None:
        """The level of urgency that the scripted judge reads in the last message; ``None``: nothing said."""
        return 2 if self.truth["danger"] else 4 if self.truth["eczema"] else None

    @property
    def messages(self) -> list[tuple[str, str]]:
        said = self.truth
        return [
            ("user", f"I have had an itching rash for {self.case} days."),
            ("assistant", "Do you have a fever or chills?" if said["fever"] else "Since when?"),
            ("user", "No."),
            ("assistant", f"It is {'eczema' if said['eczema'] else 'dry skin'}{', a danger' * said['danger']}."),
        ]

    @property
    def score(self) -> float:
        return sum(POINTS[name] for name, met in self.judged.items() if met) / sum(POINTS.values())


def talks(cases: Sequence[int], *versions: str) -> list[Talk]:
    return [Talk(case, version) for version in versions or VERSIONS for case in cases]


def write_files(folder: Path) -> list[list[str]]:
    """Write the pilot; return the arguments of the commands that import it."""
    rows = [
        (f"{talk.version}-{talk.case}", talk.version, f"case_{talk.case}", {"user": "Visitor"}.get(role, "Bot"), text)
        for talk in talks(SHAPES["csv"])
        for role, text in talk.messages
    ]
    with (folder / "pilot.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("session", "version", "case", "speaker", "text"), *rows])
    chats = [
        {
            "id": f"{talk.version}-{talk.case}",
            "version": talk.version,
            "case": f"case_{talk.case}",
            "messages": [{"role": role, "content": text} for role, text in talk.messages],
        }
        for talk in talks(SHAPES["jsonl"])
    ]
    (folder / "pilot.jsonl").write_text("".join(f"{json.dumps(chat)}\n" for chat in chats), encoding="utf-8")
    for version in VERSIONS:
        samples = [
            {
                "id": f"case_{talk.case}",
                "epoch": 1,
                "input": "",
                "target": "",
                "messages": [{"role": role, "content": text} for role, text in talk.messages],
                "completed_at": "2026-05-01T10:00:00+00:00",
            }
            for talk in talks(SHAPES["inspect"], version)
        ]
        about = {
            "created": "2026-05-01T09:00:00+00:00",
            "task": "pilot",
            "model": f"vendor/{version}",
            "run_id": version,
        }
        log = {"version": 2, "status": "success", "eval": about, "samples": samples}
        (folder / f"{version}.json").write_text(json.dumps(log), encoding="utf-8")
    names = [folder / "pilot.csv", folder / "pilot.jsonl"]
    return [
        [str(names[0]), "--speakers", "Bot=doctor,Visitor=patient", "--label", "pilot"],
        [str(names[1]), "--label", "pilot"],
        *([str(folder / f"{version}.json"), "--label", f"pilot {version}"] for version in VERSIONS),
    ]


def decide(criterion: str, messages: list[tuple[int, str]]) -> dict[str, Any]:
    """Judge as ``Talk.judged`` says, from the words of the conversation alone."""

    if "how soon must a clinician see" in criterion:
        number, said = messages[-1]
        advice = next(((level, word) for word, level in {"danger": "2", "eczema": "4"}.items() if word in said), None)
        return verdict(advice[0], (number, advice[1])) if advice else verdict("nothing said")
    word = next(name for name in POINTS if name in criterion)
    quoted = next(((number, word) for number, text in messages if number % 2 and word in text), None)
    is_overlooked = word == "danger" and "0 days" in messages[0][1]
    return verdict("met", quoted) if quoted and not is_overlooked else verdict("not met")


class Checked(NamedTuple):
    """A figure, its value by hand, and the program's."""

    figure: str
    by_hand: Any
    found: Any

    @property
    def equal(self) -> bool:
        if isinstance(self.by_hand, float) and isinstance(self.found, int | float):
            return abs(self.by_hand - self.found) <= 1e-9
        return bool(self.by_hand == self.found)


def listed(store: Store, metric: str, runs: Sequence[str] | None = None, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a report; none if it says why it has none."""
    try:
        rows = list(metrics()[metric].rows(MetricRequest(store, Selection(runs=runs)), **options))
    except AnamnesisError:
        return []
    return [row.cells(plain=True) if isinstance(row, Row) else dict(row) for row in rows]


def runs_of(store: Store, *files: str) -> dict[str, str]:
    """Return version → run of these files, or version and file → run of all."""
    with store.read() as cursor:
        runs = run_records(cursor, sources=["imported"])
    if not files:
        return {f"{run.doctor[-2:]} {run.settings['log']}": run.run_id for run in runs}
    return {run.doctor[-2:]: run.run_id for run in runs if run.settings["log"] in files}


def named(runs: Mapping[str, str]) -> list[str]:
    return [word for run in runs.values() for word in ("--run", run)]


def version_of(row: Mapping[str, Any]) -> str:
    return str(row["model"]).partition(" ")[2][:2]


def transcripts(store: Store) -> Iterator[Checked]:
    names = [condition.name for condition in conditions(store)]
    yield Checked("imported conditions", 6, sum("imported" in name for name in names))
    yield Checked("played conditions", 2, sum("openai" in name for name in names))
    searches: list[tuple[int, dict[str, Any]]] = [
        (200, {"origins": ("imported",)}),
        (sum(talk.truth["danger"] for talk in talks(range(1, 101))), {"text": "danger"}),
        (0, {"text": "danger", "speaker": "patient"}),
        (2, {"case": "case_7"}),
        (22, {"case": "ase_9"}),
    ]
    with store.read() as cursor:
        for number, selection in searches:
            yield Checked(f"search {selection}", number, len(conversation_ids(cursor, Selection(**selection))))
        yield Checked("conversations of all kinds", 224, count_conversations(cursor))
    in_matrix = [row["case"] for row in listed(store, "case_matrix") if "case_" in row["case"]]
    yield Checked("matrix of answers: cases of the pilot", [], in_matrix)


def rubric_scores(folder: Path, store: Store) -> Iterator[Checked]:
    rubric = folder / "pilot.yaml"
    rubric.write_text(RUBRIC, encoding="utf-8")
    yield Checked("rubrics import", 0, main(["rubrics", "import", str(rubric)]))
    with running(judge(decide)) as provider:
        words = ["job", "judge", "rubric:pilot", "--by", "openai/fake", "--base-url", provider.base_url]
        yield Checked("job judge", 0, main([*words, *named(runs_of(store))]))
        words[2] = "urgency_words"
        yield Checked("job judge of urgency", 0, main([*words, *named(runs_of(store))]))
        yield Checked("requests of the judge", 400, len(provider.requests))
        prompts = json.dumps(provider.bodies)
        yield Checked("placeholders in its prompts", [], [words for words in NOT_GIVEN if words in prompts])
    for files, cases in FILES.items():
        runs = list(runs_of(store, *files).values())
        means = {version: mean(talk.score for talk in talks(cases, version)) for version in VERSIONS}
        for row in listed(store, "rubric_scores", runs, rubric="pilot"):
            yield Checked(f"score of {version_of(row)}, {files}", means[version_of(row)], row["score"])
            yield Checked(f"cases of {version_of(row)}, {files}", (len(cases), {}), (row["n_cases"], row["excluded"]))
        for row in listed(store, "rubric_criteria", runs, rubric="pilot"):
            by_hand = mean(talk.judged[row["criterion"]] for talk in talks(cases, version_of(row)))
            yield Checked(f"share of {row['criterion']} of {version_of(row)}, {files}", by_hand, row["share"])
        first, *_ = listed(store, "rubric_differences", runs, rubric="pilot")
        yield Checked(f"difference, {files}", means["v2"] - means["v1"], first["difference"])


def people(store: Store) -> Iterator[Checked]:
    """Two people review 20 conversations; the second one overlooks the danger in every fourth case."""
    form: Form = any_form(store, "rubric:pilot")
    runs = tuple(runs_of(store, "pilot.csv").values())
    plan = planned(kind="rubric:pilot", form=form, number=20, annotators=("Ada", "Ben"), shared=1.0, seed=1, runs=runs)
    review = plan_review(store, "Pilot", plan)
    with store.read() as cursor:
        sql = "SELECT trial_id, case_key, doctor FROM trials JOIN runs USING (run_id) WHERE source = 'imported'"
        by_trial = {
            trial: Talk(int(case.rpartition("_")[2]), doctor[-2:])
            for trial, case, doctor in cursor.execute(sql).fetchall()
        }
    drawn = {item.number: by_trial[parse_item(item.item).trial_id] for item in review.items}
    seen = {
        "Ada": {number: talk.truth for number, talk in drawn.items()},
        "Ben": {
            number: {**talk.truth, "danger": talk.truth["danger"] and talk.case % 4 != 0}
            for number, talk in drawn.items()
        },
    }
    answers = [
        (number, person, name, "met" if met else "not met")
        for person, items in seen.items()
        for number, truth in items.items()
        for name, met in truth.items()
    ]
    record_all(store, review.review_id, answers)
    ties = sum(talk.truth["danger"] and talk.case % 4 == 0 for talk in drawn.values())
    yield Checked("ties of the two", ties, state_of(store, review.review_id).missing)
    unblind(store, review.review_id, "Ada", "ties stay open")
    for row in listed(store, "agreement"):
        name = row["question"]
        pairs = [(seen["Ada"][n][name], seen["Ben"][n][name], talk.judged[name]) for n, talk in drawn.items()]
        figure = f"{row['measure']} on {name}, {row['judges']}"
        if row["judges"] == "people" and row["measure"] == "Cohen's kappa":
            yield Checked(figure, cohen([(a, b) for a, b, _ in pairs]), row["value"])
        elif row["judges"] == "people" and row["measure"] == "percent agreement":
            yield Checked(figure, mean(a == b for a, b, _ in pairs), row["value"])
        elif row["measure"] == "percent agreement":
            settled = [(a, judged) for a, b, judged in pairs if a == b]
            yield Checked(figure, mean(a == judged for a, judged in settled), row["value"])
            yield Checked(f"items of {figure}", len(settled), row["n"])
    decided = {
        (talk, name): seen["Ada"][number][name]
        for number, talk in drawn.items()
        for name in POINTS
        if seen["Ada"][number][name] == seen["Ben"][number][name]
    }
    found = {(row["figure"], version_of(row)): row["value"] for row in listed(store, "calibration", runs)}
    for version in VERSIONS:
        for figure, value in together(talks(SHAPES["csv"], version), decided).items():
            yield Checked(f"{figure} of {version}", value, found.get((figure, version)))


def together(pilot: Sequence[Talk], decided: Mapping[tuple[Talk, str], bool]) -> dict[str, float]:
    """Return the mean score by people on a part and a judge on all, weighted as PPI++ weights them, and by each alone.

    Sums of a conversation are of points, of 12/4 its mean size over the attainable points; each is a case of its own.
    """

    def points(talk: Talk, verdicts: Mapping[str, bool]) -> float:
        return sum(POINTS[name] * 3 / 4 for name, met in verdicts.items() if met)

    items = [float(len(POINTS)) for _ in pilot]
    judge = [points(talk, talk.judged) for talk in pilot]
    read = [{name: met for (of, name), met in decided.items() if of == talk} for talk in pilot]
    labels = [float(len(verdicts)) for verdicts in read]
    people = [points(talk, verdicts) for talk, verdicts in zip(pilot, read, strict=True)]
    there = [
        points(talk, {name: talk.judged[name] for name in verdicts}) for talk, verdicts in zip(pilot, read, strict=True)
    ]
    by_people, by_judge = sum(people) / sum(labels), sum(judge) / sum(items)
    by_judge_there = sum(there) / sum(labels)
    # what a conversation adds to the mean of people, and to the difference of the judge's two means
    own = [(e - by_people * w) / mean(labels) for e, w in zip(people, labels, strict=True)]
    differs = [
        (j - by_judge * m) / mean(items) - (t - by_judge_there * w) / mean(labels)
        for j, m, t, w in zip(judge, items, there, labels, strict=True)
    ]
    weight = max(0.0, -sum(a * d for a, d in zip(own, differs, strict=True)) / sum(d * d for d in differs))
    return {
        "judge and experts (PPI++)": by_people + weight * (by_judge - by_judge_there),
        "experts alone": by_people,
        "judge alone": by_judge,
    }


def cohen(pairs: Sequence[tuple[bool, bool]]) -> float:
    agreed = mean(a == b for a, b in pairs)
    first, second = mean(a for a, _ in pairs), mean(b for _, b in pairs)
    chance = first * second + (1 - first) * (1 - second)
    return (agreed - chance) / (1 - chance)


def urgency(store: Store, *, labelled: bool) -> Iterator[Checked]:
    """The advice in the doctor's own words against the levels of ``LEVEL_OF``, which are labels of attached cases."""
    for files, cases in FILES.items():
        rows = listed(store, "urgency_words", list(runs_of(store, *files).values()))
        own = [row for row in rows if row["way"] == "own words"]
        yield Checked(f"figures of urgency, {files}", 2 * 6, len(own))
        for row in own:
            said = [(talk.case, talk.advice) for talk in talks(cases, version_of(row))]
            answered = [(LEVEL_OF[case % 3], level) for case, level in said if level is not None]
            by_hand = {
                "exact": mean(level == given for level, given in answered),
                "over-triage": mean(given < level for level, given in answered),
                "under-triage": mean(given > level for level, given in answered),
                "severe under-triage": mean(given - level >= 2 for level, given in answered),
                "nothing said": mean(given is None for _, given in said),
                "unanswered": 0.0,
            }[row["figure"]]
            figure = f"urgency: {row['figure']} of {version_of(row)}, {files}"
            yield Checked(figure, by_hand if labelled else None, row["share"])
            if not labelled:
                yield Checked(f"left out of {figure}", {"no level": len(cases)}, row["excluded"])


def gates(store: Store) -> Iterator[Checked]:
    for files in FILES:
        runs = runs_of(store, *files)
        for new, old, status in (("v2", "v1", 0), ("v1", "v2", 1)):
            words = ["gate", runs[new], "--against", runs[old], "--metric", "rubric_scores"]
            yield Checked(f"gate of {files}: {new} against {old}", status, main(words))


def cases_attached(folder: Path, store: Store) -> Iterator[Checked]:
    """Attach 100 cases by id; the right answer is eczema in every other one. Their urgency is stated in two files."""
    with (folder / "cases.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [
            (f"case_{n}", f"A patient of {20 + n} years has an itching rash.", "Eczema" if n % 2 else "Gout")
            for n in range(1, 101)
        ]
        csv.writer(file).writerows([("id", "vignette", "answer"), *rows])
    main(["import", "cases", str(folder / "cases.csv"), "--name", "theirs", "--skip-bad"])
    for name, of_file in {"early.csv": range(1, 51), "late.csv": range(51, 101)}.items():
        rows = [(f"case_{n}", "urgency", str(LEVEL_OF[n % 3])) for n in of_file]
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("case", "field", "value"), *rows])
    main(["data", "label-file", "theirs", str(folder / "early.csv")])
    with store.read() as cursor:
        yield Checked("without a case", 200, sum(number for _, number in without_case(cursor).values()))
    for words in write_files(folder):
        yield Checked(f"cases of {words[0]}", 0, main(["import", "conversations", *words, "--cases", "theirs"]))
    with store.read() as cursor:
        yield Checked("without a case, later", {}, without_case(cursor))
    main(["data", "label-file", "theirs", str(folder / "late.csv")])
    again = {run: attach_cases(store, run, cases_by_id(cases_of("theirs"))) for run in runs_of(store).values()}
    yield Checked("attached again", [0] * len(again), list(again.values()))
    new, old = (run_side(store, run) for run in runs_of(store, "pilot.csv").values())
    notes = gate(store, new, old, GateRule(RUBRIC_SCORES)).notes
    yield Checked("what else differs", [], [note.text for note in notes if note.kind == "settings"])
    yield from urgency(store, labelled=True)
    yield Checked("regrade", 0, main(["job", "regrade", "--grader", "reference/names", *named(runs_of(store))]))
    for files, cases in FILES.items():
        for row in listed(store, "accuracy", list(runs_of(store, *files).values())):
            by_hand = mean(talk.truth["eczema"] and talk.case % 2 == 1 for talk in talks(cases, version_of(row)))
            yield Checked(f"accuracy of {version_of(row)}, {files}", by_hand, row["mean"])
        lines = listed(store, "case_matrix", list(runs_of(store, *files).values()))
        yield Checked(f"cases in the matrix, {files}", len(cases), len(lines))


@pytest.mark.slow
def test_every_figure_is_as_counted_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    store = Store()
    campaign(store)
    checked = [Checked(words[0], 0, main(["import", "conversations", *words])) for words in write_files(tmp_path)]
    checked += [*transcripts(store), *rubric_scores(tmp_path, store), *urgency(store, labelled=False)]
    checked += [*people(store), *gates(store)]
    run, *_ = runs_of(store).values()
    capsys.readouterr()
    for words in (["job", "judge", "facts", "--by", "openai/fake"], ["report", "accuracy"], ["report", "case_matrix"]):
        main([*words, "--run", run])
        checked.append(Checked(" ".join(words), True, "attach" in "".join(capsys.readouterr())))
    checked.append(Checked("report", 0, main(["report", "evaluation", run, "--out", str(tmp_path / "report.md")])))
    checked += cases_attached(tmp_path, store)
    assert [each for each in checked if not each.equal] == []
    assert not any(words in (tmp_path / "report.md").read_text(encoding="utf-8") for words in NOT_GIVEN)
