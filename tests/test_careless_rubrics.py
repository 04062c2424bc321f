"""Mistakes with rubrics and their judges, and what users see then: rows as in ``tests/test_careless_user.py``.

The doctor openai/gout says gout at once and reaches 5 of 8 points of the rubric *feet*; openai/bunion reaches none.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.careless import Seen, assert_sees, row, says, silent, status
from tests.test_careless_user import IMPORT, Situation, situation

pytestmark = pytest.mark.slow
RUN = (
    "run --cases toes --concurrency 8 --arms multi_turn:frq --trials 1 --limit 5 --patient reference "
    "--grader reference --doctor openai/"
)
FEET = "rubrics import {files}/feet.yaml"
TWO = (IMPORT, FEET, f"{RUN}gout-a", f"{RUN}bunion-b")
JUDGE = "job judge rubric:feet --by openai/judge"


def no_score(seen: Seen) -> None:
    assert seen.rows
    assert not any(record["score"] for record in seen.rows), seen.text


SITUATIONS = (
    situation(
        "a judge of the doctor's maker, that nobody calibrated, puts its verdicts between code fences",
        (*TWO, JUDGE),
        "report rubric_scores",
        row({"model": "gout"}, score=0.625, n_criteria=15, n_unjudged=0),
        row({"model": "bunion"}, score=0, n_criteria=15),
        says("not calibrated", "same maker"),
        "report rubric_differences --against openai/gout-a",
        row({"axis": "all axes"}, first="openai/gout-a", difference=-0.625, n_cases=5),
        row({"axis": "reasoning"}, difference=-1),
        # three axes, of which safety has a must-not alone
        says("safety"),
        "report calibration rubric:feet",
        row({"model": "gout"}, figure="judge alone", value=0.625),
    ),
    situation(
        "a judge answers in German",
        (*TWO, "-job judge rubric:feet --by openai/judge-german"),
        "report rubric_scores",
        no_score,
        says("no readable reply 30", "openai/judge-german"),
        "report agreement rubric:feet --part answers",
        row({"figure": "unreadable"}, share=1),
    ),
    situation(
        "a judge quotes the patient where the doctor must have said it",
        (*TWO, f"{JUDGE}-patient"),
        "report rubric_scores",
        no_score,
        says("no words of the doctor quoted 30"),
        silent("nothing to attain"),
        "report rubric_safety",
        row({"model": "gout", "figure": "must missed"}, share=None, n_failed=0),
        row({"model": "gout", "figure": "pass^1"}, share=None, n_cases=0),
    ),
    situation(
        "a criterion is worded anew after judging",
        (*TWO, JUDGE, "rubrics import {files}/feet-worded.yaml --name feet --replace"),
        "report rubric_scores",
        row({"model": "gout"}, n_criteria=10, n_unjudged=5),
        says("10 of 30 criteria .33%. are unjudged", "saved after 30 of its verdicts"),
    ),
    situation(
        "points are changed after judging",
        (*TWO, JUDGE, "rubrics import {files}/feet-heavy.yaml --name feet --replace"),
        "report rubric_scores",
        row({"model": "gout"}, score=0.9, n_criteria=15),
        says("saved after 30 of its verdicts"),
        "rubrics lint feet",
        says("name: points: it has 90% of all positive points"),
    ),
    situation(
        "two judges disagree, and a third name is asked for",
        (*TWO, JUDGE, f"{JUDGE}-kind"),
        "report rubric_scores",
        row({"model": "bunion"}, score=0.5),
        says(r"Also judged by openai/judge\b"),
        "report rubric_scores --judge panel",
        row({"model": "gout"}, score=None, n_criteria=5, n_unjudged=10),
        row({"model": "bunion"}, score=None, n_unjudged=15),
        says("judges disagree 25"),
        "report rubric_scores --judge openai/nobody",
        status(2),
        says("openai/nobody", "panel"),
    ),
    situation(
        "a rubric has only what must not happen",
        (IMPORT, "rubrics import {files}/harm.yaml", f"{RUN}gout-a", "job judge rubric:harm --by openai/judge"),
        "report rubric_scores",
        no_score,
        says("nothing to attain=5"),
        "report rubric_safety",
        row({"figure": "must-not done"}, share=0, n_criteria=5),
        "rubrics lint harm",
        says("there is no score"),
    ),
    situation(
        "files with a key that occurs twice, with huge points and without one of the columns are imported",
        (),
        "rubrics import {files}/feet-twice.yaml",
        status(2),
        says("line 5", "all occurs twice"),
        "rubrics import {files}/feet-huge.yaml",
        status(2),
        says("all.0: points", "10000"),
        "rubrics import {files}/toes.jsonl --name toes",
        status(2),
        says("columns criterion and points", "It has id, vignette"),
    ),
    situation(
        "some conversations failed before they were judged",
        (IMPORT, FEET, f"{RUN}fifth", JUDGE),
        "report rubric_scores",
        row(n_cases=4, n_conversations=4),
        says("1 conversations cannot be judged and enter no figure: error 1"),
    ),
    situation(
        "criteria are judged three times, and all at once, and the command is repeated",
        (*TWO, f"{JUDGE} --apart --repeat 3", f"{JUDGE} --together"),
        "report agreement rubric:feet --by form",
        row({"judges": "itself", "measure": "percent"}, value=1, n=30),
        row({"judges": "(all together) and", "measure": "percent"}, value=1, n=30),
        "report rubric_scores",
        row({"model": "gout"}, score=0.625, n_criteria=15),
        says("(all together)"),
        f"{JUDGE} --apart --repeat 3",
        says("90 answered before"),
    ),
    situation(
        "options are impossible, names misspelt, and a rubric is deleted",
        (*TWO, JUDGE, "rubrics delete feet --yes"),
        f"{JUDGE} --limit 0",
        status(2),
        f"{JUDGE} --together --apart",
        status(2),
        "job judge rubric:fet --by openai/judge",
        status(2),
        says("'fet'", "library"),
        "report rubric_scores",
        status(2),
        says("no rubric 'feet'"),
        "report rubric_scores --rubric library",
        status(1),
        says("job judge rubric:NAME"),
    ),
)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in SITUATIONS])
def test_the_user_is_warned(case: Situation, tmp_path: Path) -> None:
    assert_sees(case.does, case.sees, tmp_path)
