"""Mistakes of users and bad luck, and the notes and errors that result: one row per situation.

A row gives the user's steps (``Steps``), the places where they look, and the facts that must be true there: names,
numbers, no value. Facts in words (``says``) match the decisive words, so that they can be checked in other places too.
Steps, looks and facts are explained in ``tests/support/careless.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from core.events import Answered, Finished, Graded, Started
from core.jobs.begun import journals
from core.journal import read_header
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import a_trial
from tests.pages.conftest import _awaited_at_rest, _scanned_once  # noqa: F401 (pages are looked at here, too)
from tests.support.careless import (
    Fact,
    Look,
    Page,
    Seen,
    Step,
    assert_sees,
    every_row,
    row,
    says,
    silent,
    status,
    values,
)
from tests.support.stores import campaign

HANDLED, NOT_YET = "handled", "not yet"

pytestmark = pytest.mark.slow
IMPORT = "import cases {files}/toes.jsonl"
CHOICES = "run --cases toes --concurrency 8 --arms vignette:mcq"
FREE = "run --cases toes --concurrency 8 --arms vignette:frq --trials 1 --limit 10"
SPOKEN = "run --cases toes --concurrency 8 --arms multi_turn:frq --trials 1 --limit 5"
SUMMED_UP = "run --cases toes --concurrency 8 --arms summarized:frq --trials 1 --limit 5"
CAST = "--patient openai/patient-a --grader openai/fair --summariser openai/summary"
STAGED = "run --protocol automedic --concurrency 8 --trials 1 --limit 4"
HISTORIES = "run --protocol consultation --concurrency 8 --trials 1 --limit 12 --cases library"
BY_RULE = "--patient reference --grader reference"


def ids(first: int, last: int) -> str:
    return ",".join(f"toe-{number}" for number in range(first, last + 1))


# ------------------------------------------------------------------------------------- facts that one situation needs


def errors_never_narrow(seen: Seen) -> None:
    """The lower bound of 99 right trials in 100 is no higher than that of 100 in 100."""
    low = {record["model"]: float(record["ci_low"]) for record in seen.rows}
    assert low["openai/slips"] <= low["openai/gout"] < 1, seen.text


def not_compared(seen: Seen) -> None:
    """No difference and no p-value is given: a sentence, or a row without them."""
    assert seen.status or seen.rows
    assert not any(record["difference"] or record["p"] for record in seen.rows), seen.text


def no_evidence(seen: Seen) -> None:
    """There is no p-value or a large one; the interval is not a point."""
    (record,) = seen.rows
    assert record["p"] == "" or float(record["p"]) > 0.5, seen.text
    assert record["ci_low"] == "" or float(record["ci_low"]) < float(record["ci_high"]), seen.text


def refused(number: int) -> Fact:
    """Return a fact: ``number`` answers are counted as refused, excluded or not."""

    def check(seen: Seen) -> None:
        (record,) = seen.rows
        excluded = dict(part.split("=") for part in record["excluded_by_reason"].split())
        reasons = [int(n) for reason, n in excluded.items() if reason.startswith("refused")]
        assert sum(reasons) + int(record["n_refused_in_words"]) == number, seen.text

    return check


def blank(number: int) -> Fact:
    """Return a fact: ``number`` answers are counted as blank, excluded or not."""

    def check(seen: Seen) -> None:
        (record,) = seen.rows
        counted = [cell for name, cell in record.items() if "blank" in name or "empty" in name]
        assert str(number) in counted or f"empty={number}" in record["excluded_by_reason"], seen.text

    return check


def no_certain_icc(seen: Seen) -> None:
    """If all trials agree, the correlation has no interval, or one that is not a point."""
    (icc,) = (record for record in seen.rows if record["figure"] == "ICC")
    assert icc["ci_low"] == "" or float(icc["ci_low"]) < 1, seen.text


def corrected_over_twelve(seen: Seen) -> None:
    """Twelve p-values; the smallest is multiplied by twelve (Holm), and none by less than one."""
    pairs = [(float(record["p"]), float(record["p_adjusted"])) for record in seen.rows]
    assert len(pairs) == 12, seen.text
    smallest, adjusted = min(pairs)
    assert adjusted == pytest.approx(min(1.0, 12 * smallest), abs=1e-4), seen.text
    assert all(p <= adjusted for p, adjusted in pairs), seen.text


def prompts_apart(seen: Seen) -> None:
    """The verdicts under each version of the grader's prompts are separate rows."""
    means = sorted(float(record["mean"]) for record in seen.rows if record["judge"].startswith("openai/strict"))
    assert means == [0, 1], seen.text


def scaled_over_both(seen: Seen) -> None:
    """Each doctor has one value of a part, the mean over both data sets: 1 for the best in both, 0 for the worst."""
    values_of = {
        record["model"]: (record["value"], record["n_datasets"])
        for record in seen.rows
        if record["measure"] == "robustness"
    }
    assert values_of == {"reference/bayes": ("1", "2"), "openai/gout": ("0", "2")}, seen.text


# -------------------------------------------------------------------------------------- a step that one situation needs


def many_of_version_0_4(store: Store) -> None:
    """Write a second run as version 0.4 did: with the answers of all cases as choices."""
    (path,) = journals()
    header = read_header(path)
    answers = sorted({case.answer for case in header.cases})
    changes = {
        "run_id": "of-0-4",
        "fingerprint": "of-0-4",
        "arms": [("vignette", "mcq_many")],
        "many_choices": answers,
        "seed": header.seed + 1,
        "created_at": header.created_at - 1000,
    }
    trials = [
        a_trial(
            [
                Started(trial_id=f"of-0-4/{case.case_key}", case_key=case.case_key, trial=0, seed=number, at=1.0),
                Answered(format="vignette", question_type="mcq_many", response=case.answer),
                *(
                    Graded(
                        format="vignette",
                        question_type="mcq_many",
                        grader="rule",
                        rule=rule,
                        extracted=None,
                        verdict="correct",
                        at=2.0,
                        rule_version=version,
                    )
                    for rule, version in (("mcq_loose", 1), ("mcq_strict", 2))
                ),
                Finished(at=9.0),
            ],
            run_id="of-0-4",
            trial_id=f"of-0-4/{case.case_key}",
            case_key=case.case_key,
            seed=number,
        )
        for number, case in enumerate(header.cases)
    ]
    journal = store.journals / "of-0-4" / "journal.jsonl"
    journal.parent.mkdir()
    with journal.open("wb") as file:
        for line in (header.model_copy(update=changes), *trials):
            fields = line.model_dump(mode="json")
            fields.pop("schema_version", None)  # lines of version 0.4 have none
            file.write(orjson.dumps(fields) + b"\n")
    fold(store)


# ---------------------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Situation:
    """A row. ``sees`` are places with their facts; ``expected`` is the reason if they are not true yet."""

    name: str
    does: tuple[Step, ...]
    sees: tuple[tuple[Look, tuple[Fact, ...]], ...]
    expected: str = HANDLED


def situation(name: str, does: tuple[Step, ...], *sees: Look | Fact, expected: str = HANDLED) -> Situation:
    """Return a row; each place where the user looks is followed by its facts."""
    places: list[tuple[Look, list[Fact]]] = []
    for item in sees:
        if isinstance(item, (str, Page)):
            places.append((item, []))
        else:
            places[-1][1].append(item)
    return Situation(name, does, tuple((where, tuple(facts)) for where, facts in places), expected)


SITUATIONS = (
    # ------------------------------------------------------------------------------------------------- conditions
    situation(
        "one of two runs is graded again by a lenient grader, then both are compared",
        (
            IMPORT,
            f"{FREE} --doctor openai/gout-a --grader openai/strict",
            f"{FREE} --doctor openai/gout-b --grader openai/strict",
            "job regrade --run {run2} --grader openai/lenient",
        ),
        Page("compare"),
        says("openai/lenient", "openai/strict"),
        silent(r"the same on both sides:[^.]*\bgrader[,.]"),
    ),
    situation(
        "a re-grading covers four of ten answers",
        (IMPORT, f"{FREE} --doctor openai/gout-a {CAST}", "job regrade --run {run1} --grader openai/strict --limit 4"),
        "report accuracy",
        values("model", 2),
        row({"model": "openai/strict"}, mean=0, n_trials=4),
        says("4 of 10"),
    ),
    situation(
        "a doctor's own model is left in all other seats",
        (IMPORT,),
        f"{SPOKEN} --doctor openai/gout-a --dry-run",
        says("patient[^.]*openai/gout-a", "grader[^.]*openai/gout-a", "own model", "grades itself"),
    ),
    situation(
        "two doctors have different patients",
        (
            IMPORT,
            f"{SPOKEN} --doctor openai/gout-a {CAST}",
            f"{SPOKEN} --doctor openai/gout-b {CAST.replace('patient-a', 'patient-b')}",
        ),
        Page("compare"),
        says("patient.*openai/patient-a.*openai/patient-b"),
        silent(r"the same on both sides:[^.]*\bpatient[,.]"),
    ),
    situation(
        "two doctors have different summarisers",
        (
            IMPORT,
            f"{SUMMED_UP} --doctor openai/gout-a {CAST}",
            f"{SUMMED_UP} --doctor openai/gout-b {CAST.replace('openai/summary', 'openai/other-summary')}",
        ),
        "report monitor --versions openai/gout-a,openai/gout-b",
        says("openai/summary", "openai/other-summary"),
    ),
    situation(
        "one doctor runs at two temperatures",
        (
            IMPORT,
            f"{CHOICES} --limit 10 --trials 1 --doctor openai/gout --temperature 0",
            f"{CHOICES} --limit 10 --trials 1 --doctor openai/gout --temperature 1",
        ),
        "report accuracy",
        row({"model": "temperature 0"}, n_trials=10),
        row({"model": "temperature 1"}, n_trials=10),
    ),
    situation(
        "the provider changes the served model within a run",
        (IMPORT, f"{CHOICES} --limit 10 --trials 1 --doctor openai/drifts"),
        "report accuracy",
        says("drifts-june", "drifts-july"),
        "report accuracy --by served",
        row({"served": "drifts-june"}, n_trials=5),
        row({"served": "drifts-july"}, n_trials=5),
    ),
    situation(
        "the provider serves another model under the same name in the second run",
        (
            IMPORT,
            f"served=v-june {CHOICES} --limit 10 --trials 1 --doctor openai/gout",
            f"served=v-july {CHOICES} --limit 10 --trials 1 --doctor openai/gout --seed 21",
        ),
        "report accuracy",
        row({"model": "v-june"}, n_trials=10),
        row({"model": "v-july"}, n_trials=10),
    ),
    situation(
        "two servers have a model of the same name",
        (
            IMPORT,
            f"{CHOICES} --limit 10 --trials 1 --doctor openai/gout --base-url {{here}}",
            f"{CHOICES} --limit 10 --trials 1 --doctor openai/gout --base-url {{there}} --seed 21",
        ),
        "report accuracy",
        says(r"127\.0\.0\.1", "localhost"),
    ),
    situation(
        "the second doctor of a study is planned without naming the other seats",
        (IMPORT, f"{SPOKEN} --doctor openai/gout-a {CAST}"),
        f"{SPOKEN} --doctor openai/gout-b --dry-run",
        says("patient.*openai/patient-a", "grader.*openai/fair", "openai/gout-a"),
        silent("own model", "grades itself"),
    ),
    # ---------------------------------------------------------------------------------------------------- subsets
    situation(
        "a run that stopped at its budget is compared with a finished one",
        (
            IMPORT,
            f"-{CHOICES} --limit 20 --trials 2 --doctor openai/gout-costly --budget-usd 0.2 --concurrency 1",
            f"{CHOICES} --limit 20 --trials 2 --doctor openai/bunion",
        ),
        "report accuracy",
        says(r"\b1[0-4] ?(?:of|/) ?(?:its |the |all )?40\b"),
        "report monitor --versions openai/gout-costly,openai/bunion",
        row(n_cases=lambda n: 10 <= n <= 14, second_mean=0),
    ),
    situation(
        "20 cases of one doctor are compared with 40 of another",
        (
            IMPORT,
            f"{CHOICES} --limit 20 --trials 1 --doctor openai/first-15",
            f"{CHOICES} --limit 40 --trials 1 --doctor openai/first-20",
        ),
        "report monitor --versions openai/first-15,openai/first-20",
        # the second doctor is right in half of its 40 cases, and in all 20 shared ones
        row(n_cases=20, first_mean=0.75, second_mean=1, difference=0.25),
    ),
    situation(
        "two doctors were asked different cases of one set",
        (
            IMPORT,
            f"{CHOICES.replace('toes', f'toes:{ids(0, 9)}')} --trials 1 --doctor openai/gout",
            f"{CHOICES.replace('toes', f'toes:{ids(20, 29)}')} --trials 1 --doctor openai/bunion",
        ),
        "report monitor --versions openai/gout,openai/bunion",
        not_compared,
        Page("compare"),
        says("no case"),
        silent(r"Adjusted p: [\d<]"),
    ),
    situation(
        "two doctors are compared on a single case",
        (
            IMPORT,
            f"{CHOICES} --limit 1 --trials 1 --doctor openai/gout",
            f"{CHOICES} --limit 1 --trials 1 --doctor openai/bunion",
        ),
        "report monitor --versions openai/gout,openai/bunion",
        row(n_cases=1, difference=-1),
        no_evidence,
        "report accuracy",
        row({"model": "openai/gout"}, mean=1, ci_low=lambda low: low < 0.5),
    ),
    situation(
        "the same campaign is run twice with the same seed",
        (
            IMPORT,
            f"{CHOICES} --limit 10 --trials 2 --doctor openai/first-5",
            f"{CHOICES} --limit 10 --trials 2 --doctor openai/first-5 --fresh",
        ),
        "report accuracy",
        row(n_cases=10, n_trials=20, mean=0.5),
        says("repeat|same seed|twice"),
        "report repeatability",
        silent(r"pass\^[34]"),
    ),
    situation(
        "five trials of each case are one and the same reply",
        (IMPORT, f"{CHOICES} --limit 10 --trials 5 --temperature 0 --doctor openai/first-5"),
        "report repeatability",
        row({"figure": "flip rate"}, value=0, ci_high=lambda high: high > 0),
        no_certain_icc,
    ),
    # ---------------------------------------------------------------------------------------------------- answers
    situation(
        "a provider fails in a fifth of one doctor's trials, and in all of another's",
        (
            IMPORT,
            f"{CHOICES} --limit 10 --trials 1 --doctor openai/fifth",
            f"-{CHOICES} --limit 10 --trials 1 --doctor openai/broken",
        ),
        "report accuracy",
        row({"model": "openai/fifth"}, mean=1, n_cases=8, n_excluded=2, excluded_by_reason="provider_error=2"),
        row({"model": "openai/broken"}, mean=None, ci_low=None, n_cases=0, n_excluded=10),
        f"{CHOICES} --limit 5 --trials 1 --doctor openai/broken",
        status(1),
        says("5 of 5 answers", "no capacity"),
    ),
    situation(
        "a model replies with nothing",
        (IMPORT, f"-{CHOICES} --limit 10 --trials 1 --doctor openai/blank"),
        "report accuracy",
        blank(10),
        silent("provider_error"),
    ),
    situation(
        "a model declines, and the grader says so in its own words",
        (IMPORT, f"-{FREE} --doctor openai/declines --grader openai/echo"),
        "report accuracy",
        refused(10),
        silent("ungradable"),
    ),
    situation(
        "summaries are cut at their limit",
        (IMPORT, f"-{SUMMED_UP} --doctor openai/gout {CAST.replace('openai/summary', 'openai/cut-summary')}"),
        "report accuracy",
        row(n_excluded=5, n_cases=0, excluded_by_reason="cut"),
    ),
    situation(
        "half of the answers list every choice",
        (IMPORT, f"{CHOICES} --limit 10 --trials 1 --doctor openai/lists"),
        "report accuracy",
        row(mean=1),
        says(r"strict", r"\.50?0?\b"),
    ),
    situation(
        "a file holds three cases twice",
        (),
        "import cases {files}/doubled.jsonl",
        says("again-0.*same.*toe-0", "again-1.*same.*toe-1", "again-2.*same.*toe-2"),
        "check cases doubled",
        status(1),
        says("3 remarks"),
    ),
    situation(
        "an answer is a part of another choice",
        (),
        "import cases {files}/nested.jsonl",
        says(r"toe-4.*\b2\b.*\b12\b"),
        "check cases nested",
        says(r"toe-4.*\b2\b.*\b12\b"),
    ),
    situation(
        "some cases ask for a treatment, next to a published figure of diagnoses",
        (
            "import cases {files}/mixed.jsonl --name craftmd",
            f"{CHOICES.replace('toes', 'craftmd')} --trials 1 --doctor openai/gout",
        ),
        Page("accuracy", {"source": ["Mine", "Published"]}),
        says("4[^.\n]*treatment|treatment[^.\n]*4"),
    ),
    # ---------------------------------------------------------------------------------------------------- figures
    situation(
        "all of a hundred trials are right, and then one is wrong",
        (
            IMPORT,
            f"{CHOICES} --limit 20 --trials 5 --doctor openai/gout",
            f"{CHOICES} --limit 20 --trials 5 --doctor openai/slips",
        ),
        "report accuracy",
        row({"model": "openai/slips"}, mean=0.99),
        errors_never_narrow,
    ),
    situation(
        "two doctors differ in all of five cases",
        (
            IMPORT,
            f"{CHOICES} --limit 5 --trials 1 --doctor openai/gout",
            f"{CHOICES} --limit 5 --trials 1 --doctor openai/bunion",
        ),
        "report monitor --versions openai/gout,openai/bunion",
        # of the 32 ways to give five differences a sign two are as far from zero
        row(difference=-1, p=lambda p: p >= 2 / 32 - 1e-6, ci_low=-1, ci_high=lambda high: high > -1),
    ),
    situation(
        "twelve specialties are compared at once",
        (IMPORT, f"{CHOICES} --trials 1 --doctor openai/first-20", f"{CHOICES} --trials 1 --doctor openai/gout"),
        "report monitor --by specialty --versions openai/first-20,openai/gout",
        corrected_over_twelve,
        every_row(change="unclear"),
    ),
    situation(
        "histories of two doctors are compared on twelve cases",
        (
            f"{HISTORIES} --doctor reference/oracle-direct",
            f"{HISTORIES} --doctor openai/gout --solver openai/gout {BY_RULE}",
        ),
        "report history --part change --models reference/oracle-direct,openai/gout",
        # twelve differences of one sign: 2 in 4,096 by their signs, times seventeen measures at most
        row({"measure": "accuracy"}, n_cases=12, change=-1, p_holm=lambda p: p <= 17 * 2 / 4096 + 1e-6),
    ),
    situation(
        "two doctors play two data sets under AutoMedic",
        (
            "import cases {files}/library2.jsonl",
            *(
                f"{STAGED} --cases {data_set} --doctor {doctor}"
                for data_set in ("library", "library2")
                for doctor in ("reference/bayes", f"openai/gout --staff reference {BY_RULE}")
            ),
        ),
        "report care --part normalised",
        scaled_over_both,
    ),
    situation(
        "memorisation of one model is tested on two data sets",
        (
            "import cases {files}/library2.jsonl",
            "job completions --model openai/gout --cases library --limit 4",
            "job completions --model openai/gout --cases library2",
        ),
        "report memorisation",
        every_row(n=lambda n: n in (4, 6)),
        says("library2"),
        "report memorisation --cases library2",
        row(n=6),
    ),
    situation(
        "the prompts of a grader change between two gradings",
        (
            IMPORT,
            f"{FREE} --doctor openai/gout --grader openai/fair",
            "job regrade --run {run1} --grader openai/strict --prompts {files}/before/grading",
            "job regrade --run {run1} --grader openai/strict --prompts {files}/after/grading",
        ),
        "report graders --part accuracy",
        prompts_apart,
    ),
    situation(
        "answers to the long list of choices are next to those of version 0.4",
        (
            IMPORT,
            f"{CHOICES.replace('mcq', 'mcq_many')} --limit 10 --trials 1 --doctor openai/gout --grader openai/fair",
            many_of_version_0_4,
        ),
        "report accuracy",
        values("question_type", 2),
        every_row(n_trials=10),
    ),
    situation(
        "a printed figure of Mistral-7B is looked up on two pages",
        (),
        # two tables print it: whichever number a page shows, it names both with their tables
        Page("accuracy"),
        says(r"\.222\b.*\btable 4\b", r"\.211\b.*\btable 22\b"),
        Page("monitoring"),
        says(r"\.222\b.*\btable 4\b", r"\.211\b.*\btable 22\b"),
    ),
    situation(
        "a model and a data set are misspelt in a filter",
        (IMPORT, f"{CHOICES} --limit 10 --trials 1 --doctor openai/gout"),
        "report accuracy --models openai/gaut",
        status(2),
        says("openai/gaut", "openai/gout"),
        silent("nothing to report"),
        "report accuracy --cases toez",
        status(2),
        says("toez", r"\btoes\b"),
        silent("nothing to report"),
    ),
    situation(
        "a link leads to a run that was deleted",
        (campaign, "delete run-a --yes"),
        Page("conversations", {"trial": "run-a/1/0"}),
        says("not stored"),
        Page("runs", {"run": "run-a"}),
        says("not stored"),
    ),
    situation(
        "reports are asked for before anything was run",
        (),
        "report accuracy",
        status(1),
        says("python -m core run"),
        "report graders",
        status(1),
        says("a campaign needs free responses"),
        "report memorisation",
        status(1),
        says("python -m core job completions"),
        "report care",
        status(1),
        says("--protocol automedic"),
        "runs",
        status(0),
        says("no run yet"),
    ),
)


def _marked(case: Situation) -> object:
    # a failing step raises another error, which must not count as an expected failure
    missing = pytest.mark.xfail(reason=case.expected, strict=True, raises=AssertionError)
    return pytest.param(case, id=case.name, marks=[missing] * (case.expected != HANDLED))


@pytest.mark.parametrize("case", [_marked(case) for case in SITUATIONS])
def test_the_user_is_warned(case: Situation, tmp_path: Path) -> None:
    assert_sees(case.does, case.sees, tmp_path)


def test_there_are_36_situations() -> None:
    assert len(SITUATIONS) == 36
    assert len({case.name for case in SITUATIONS}) == 36
