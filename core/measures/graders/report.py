"""``report graders`` and ``report graded_choices``: how far graders agree with each other and with the rules.

They list their differences and contradictions, and the accuracy by each grader.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Annotated, Any, Literal

from core.errors import UsageError
from core.events import COUNTED, Verdict
from core.frameworks.starts import CAMPAIGN, GRADING, GRADING_CHOICES, RELEASE, Missing
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, bounded, metric
from core.measures.conversations import case_sums
from core.measures.graders.agreement import (
    VerdictTable,
    accuracy_by_judge,
    agreement_rows,
    arm_of,
    corrected_by_judge,
    crossed_rows,
    flip_rates,
    members,
    read_judged,
)
from core.stats.ratios import ratio
from core.stats.smoothed import mean_interval, ratio_interval
from core.store.database import Store
from core.store.queries.grades import (
    CHOICE_RULES,
    CHOICES,
    FREE_RESPONSES,
    Answers,
    VerdictCount,
    differences,
    stored_graders,
)
from core.store.selection import Selection, conditions
from core.words import VERDICT

NEEDED = (
    "Correcting an accuracy for the grader's error needs experts' judgements of free responses: plan a review of "
    "answers drawn at random or by stratum (page Trust, Experts), and unblind it when all is answered."
)
CORRECTED = (
    "Corrected by Rogan and Gladen: (accuracy + specificity − 1) / (sensitivity + specificity − 1), with each grader’s "
    "sensitivity and specificity against the experts of the review. Empty: there is no review of this format, or the "
    "grader is no better than chance on its items. With experts: prediction-powered mean over answers (PPI++) of the "
    "grader’s verdicts and those of the experts on the same model; it needs no assumption on the grader’s error."
)


GradersPart = Literal["agreement", "crossed", "flips", "differences", "accuracy", "judged"]
VERDICTS: Mapping[str, str] = dict(VERDICT.items())
_LONG = 60
"""Maximum number of characters of a response in a table."""


@metric(
    "graders",
    "run",
    "models",
    "source",
    "cases",
    "pool",
    "asks_for",
    empty="There is nothing to report on graders.",
    starts=(CAMPAIGN, RELEASE),
    page="trust",
)
def report(
    request: MetricRequest,
    part: Annotated[
        GradersPart,
        "Agreement of graders, the verdicts of each two crossed, their contradictions, answers on which two differ, "
        "accuracy by grader, or the number of answers that each judged.",
    ] = "agreement",
    panel: Annotated[
        str | None,
        "Graders with commas: a panel whose majority counts (accuracy), the graders to compare (agreement, crossed), "
        "or the two to compare (differences; without it, the newest verdict and the previous one).",
    ] = None,
    graders: Annotated[
        str | None, "Only rows of these graders, with commas; all without it (not for differences)."
    ] = None,
    common: Annotated[
        bool, "For accuracy: only answers that all graders have judged; otherwise each has its own answers."
    ] = False,
) -> Iterator[Listed]:
    """Report on graders of free responses; the newest verdict of a grader on an answer counts.

    A row is about the answers of one model under one condition on one data set. A grader with other prompts is a
    separate grader, named with their hash.
    """
    if part not in ("judged", "differences"):
        _set_conditions(request)
    in_panel = members(panel) if panel else []
    only = [name.strip() for name in graders.split(",")] if graders else []
    if part in ("agreement", "crossed"):
        judged = _verdict_table(request, in_panel, () if in_panel else only, least=2)
        rows = list(agreement_rows(judged) if part == "agreement" else crossed_rows(judged))
        if not rows:
            graders_here = ", ".join(map(request.name, judged.judges))
            raise Missing(
                f"Nothing to compare: no answer was judged by two graders ({graders_here}). "
                "Another grader can grade a run's answers again; the reference grader needs no key.",
                GRADING,
            )
        yield from rows
    elif part == "flips":
        yield from _contradictions(request, only)
    elif part == "differences":
        if in_panel and len(in_panel) != 2:
            raise UsageError("Differences are between two graders: --panel openai/gpt-4o,reference/names.")
        if in_panel:
            _verdict_table(request, in_panel, least=math.inf)  # raises an error if one is unknown
        differing = list(difference_lines(request, (in_panel[0], in_panel[1]) if in_panel else None))
        if not differing:
            raise Missing("There is no difference: every verdict agrees with the other.", GRADING)
        yield from differing
    elif part == "judged":
        for stored in request.read(read_graders, request.selection):
            if not only or stored["grader"] in only:
                at = datetime.fromtimestamp(stored["newest"], UTC)
                counts = {name: stored[name] for name in ("grader", "answers", "verdicts")}
                prompts = ", ".join(stored["prompts"])
                yield {**counts, "prompts": prompts, "last_verdict": f"{at:%Y-%m-%d %H:%M} UTC"}
    else:
        yield from _accuracies(request, in_panel, only, common=common)


def read_graders(store: Store, selection: Selection | None = None) -> list[dict[str, Any]]:
    with store.read() as cursor:
        return stored_graders(cursor, selection)


def difference_lines(
    request: MetricRequest, pair: tuple[str, str] | None, of: Answers = FREE_RESPONSES
) -> Iterator[dict[str, Any]]:
    """Yield the answers on which two judges differ, or the newest verdict and the one before; long responses are cut.

    Only a table cuts them: CSV and JSON have the whole response.
    """
    with request.store.read() as cursor:
        for line in differences(cursor, pair, request.selection, of):
            words = " ".join(line["response"].split()) if request.short else line["response"]
            yield {**line, "response": f"{words[:_LONG]}…" if request.short and len(words) > _LONG else words}


def _set_conditions(request: MetricRequest) -> None:
    """Set the conditions that notes are about: here the grader does not distinguish conditions."""
    if request.selection.conditions is not None:
        chosen = conditions(request.store, request.selection, without=("grader",))
        runs = {run for condition in chosen for run in condition.runs}
        request.basis = replace(request.selection, conditions=None)
        behind = conditions(request.store, request.basis)
        request.conditions = [condition.name for condition in behind if not runs.isdisjoint(condition.runs)]


def _verdict_table(
    request: MetricRequest, required: Sequence[str] = (), only: Sequence[str] = (), *, least: float = 1
) -> VerdictTable:
    """Return the verdicts of the ``required`` graders and of those in ``only`` (all graders if both are empty).

    The verdicts of fewer than ``least`` graders are not read. Raises ``UsageError`` if a required grader has judged
    nothing, or if none in ``only`` has.
    """
    stored = tuple(grader["grader"] for grader in request.read(read_graders, request.selection))
    if not stored:
        raise Missing("No grader has judged a free response here: a campaign needs free responses.", CAMPAIGN, RELEASE)
    some = [grader for grader in stored if grader in only]
    names = list(dict.fromkeys([*(some or only), *required])) if only or required else stored
    chosen = VerdictTable(stored, ()).of(names)
    return chosen if len(names) < least else request.read(read_judged, stored, request.selection).of(names)


def _contradictions(request: MetricRequest, graders: Sequence[str]) -> list[Row]:
    rows = [row for row in request.read(flip_rates, request.selection) if not graders or row.label["grader"] in graders]
    if not rows:
        raise Missing(
            "No grader has judged the same response, or one answer, twice yet. Several trials of a case give equal "
            "responses, and a grader can be asked again.",
            replace(GRADING, command="job regrade --run RUN --grader M --again"),
        )
    return rows


def _accuracies(request: MetricRequest, panel: Sequence[str], only: Sequence[str], *, common: bool) -> Iterator[Row]:
    judged = _verdict_table(request, panel if only else (), only)
    rows = accuracy_by_judge(judged, panel, common=common)
    corrections = {
        (row.label["judge"], row.label["model"], row.label["format"], "frq"): row
        for row in request.read(corrected_by_judge, judged.judges, tuple(panel))
    }
    for row in rows:
        correction = corrections.get((row.label["judge"], *arm_of(row)))
        columns = {
            "corrected": correction and correction.estimate,
            "corrected_low": correction and correction.low,
            "corrected_high": correction and correction.high,
            **_together(correction),
            "review": correction and correction.more["review"],
        }
        yield replace(row, more={**row.more, **(columns if corrections else {})})
    request.note(CORRECTED if corrections else NEEDED)
    if ties := sum(row.more["ties"] for row in rows):
        request.note(f"The panel tied on {ties:,} answers, which are excluded.", kind="excluded")
    numbers = {(arm_of(row), row.more["n_trials"]) for row in rows}
    if len({arm for arm, _ in numbers}) < len(numbers):
        request.note("The graders judged different answers: the numbers of trials differ.", kind="part")


def _together(correction: Row | None) -> dict[str, float | int | None]:
    """Return the accuracy by grader and experts together, within 0 to 1, as columns."""
    result = correction and correction.more["with_experts"]
    if not result:
        return dict.fromkeys(("with_experts", "with_experts_low", "with_experts_high", "n_by_experts"))
    low, estimate, high = (
        None if math.isnan(value) else min(1.0, max(0.0, value))
        for value in (result.interval.low, result.estimate, result.interval.high)
    )
    return {
        "with_experts": estimate,
        "with_experts_low": low,
        "with_experts_high": high,
        "n_by_experts": result.labelled,
    }


AGREEMENT = Section(
    "Agreement of graders",
    report,
    {"part": "agreement"},
    kind="dots",
    series="measure",
    place="graders",
    panel="verdicts",
    axis="Agreement",
    heads={"n_answers": "Answers", "left_out": "Not judged by all"},
    words={"right or not": "Right or not", "all kinds": "All kinds of verdicts"},
    caption="Only answers that all of these graders judged. 1 is full agreement.",
    help="The newest verdict of each grader on an answer counts. Kappa and AC1 subtract agreement by chance; if one "
    "verdict is rare, Cohen’s kappa is low even for graders who rarely differ, and Gwet’s AC1 is not. 95 % intervals "
    "leave out one case at a time.",
    folded=True,
    page="trust",
)
CROSSED = Section(
    "Verdicts of one grader against those of another",
    report,
    {"part": "crossed"},
    kind="table",
    heads={
        "first": "First grader", "second": "Second grader", "first_verdict": "Verdict of the first",
        "second_verdict": "Of the second", "share": "Share of the first’s", "n_answers": "Answers",
    },
    words=VERDICTS,
    page="trust",
)  # fmt: skip
DIFFERENCES = Section(
    "Answers on which two verdicts differ",
    report,
    {"part": "differences"},
    kind="table",
    columns=(
        "model", "case", "trial", "format", "question_type", "answer", "response", "first_grader", "first_read_as",
        "first_verdict", "second_grader", "second_read_as", "second_verdict",
    ),
    heads={
        "case": "Case", "answer": "Right answer", "first_grader": "First grader", "second_grader": "Second grader",
        "first_read_as": "Read as", "second_read_as": "Read as by the second",
    },
    words=VERDICTS,
    page="trust",
)  # fmt: skip
JUDGED = Section(
    "Who judged what",
    report,
    {"part": "judged"},
    kind="table",
    heads={"answers": "Answers judged", "last_verdict": "Last verdict"},
    words={"": "the run’s own, or none"},
    help="Prompts: hashes of the two prompts of a regrading; empty for the run’s prompts, or none.",
    page="trust",
)
ACCURACY = Section(
    "Accuracy by grader",
    report,
    {"part": "accuracy"},
    controls=("common",),
    kind="dots",
    series="judge",
    place="model",
    axis="Accuracy",
    columns=(
        "model", "format", "question_type", "judge", "mean", "ci_low", "ci_high", "corrected", "corrected_low",
        "corrected_high", "with_experts", "with_experts_low", "with_experts_high", "n_by_experts", "review", "n_cases",
        "n_trials", "n_excluded", "excluded_by_reason", "ties",
    ),
    heads={
        "common": "Only answers that all judged",
        "judge": "Judged by",
        "n_trials": "Answers",
        "corrected_low": "Corrected, low",
        "corrected_high": "Corrected, high",
        "with_experts": "With experts",
        "with_experts_low": "With experts, low",
        "with_experts_high": "With experts, high",
        "n_by_experts": "By experts",
        "excluded_by_reason": "Why excluded",
    },
    caption="Accuracy as each grader judges it: mean over a case’s answers, then over cases.",
    help="95 % intervals by the smoothed bootstrap over cases.",
    page="trust",
)  # fmt: skip
CONTRADICTIONS = Section(
    "Share of pairs that a grader judged both ways",
    report,
    {"part": "flips"},
    kind="dots",
    series="grader",
    place="judged_again",
    panel="model",
    axis="Share judged both ways",
    words={
        "the same response": "The same response",
        "the same diagnosis": "The same diagnosis read out",
        "the same answer": "One answer, judged again",
    },
    heads={"judged_again": "Judged more than once", "both_ways": "Both ways", "pairs": "Of pairs"},
    help="A pair is a right answer with the same response, or with the same diagnosis extracted from it, that a grader "
    "judged more than once under the same prompts; “one answer, judged again” is the same answer. Judged both ways: "
    "right in one judgement and not right in another. A verdict copied from an earlier identical answer is not counted "
    "again. Answers of different models are never mixed; 95 % intervals resample right answers.",
    page="trust",
)


_COLUMNS = {
    "first_grader": "rule",
    "first_verdict": "by_rule",
    "second_grader": "grader",
    "second_read_as": "read_as",
    "second_verdict": "by_grader",
}


@metric(
    "graded_choices",
    "run",
    "models",
    "source",
    "cases",
    "formats",
    "questions",
    empty="No grader has judged an answer with choices: a campaign can ask with many choices, and a grader can judge "
    "the answers with four choices again.",
    starts=(CAMPAIGN, GRADING_CHOICES),
    compared=False,
    page="trust",
)
def report_choices(
    request: MetricRequest,
    part: Annotated[
        Literal["agreement", "differences"], "How often grader and rule agree, or the answers on which they differ."
    ] = "agreement",
) -> Iterator[Listed]:
    """Report verdicts of graders on answers with four or many choices next to those of the rules.

    Both are compared as correct or not on the same answers. Accuracies are means over a case's answers, then over
    cases.
    """
    judged = request.read(read_judged, None, request.selection, CHOICES)
    if part == "agreement":
        yield from choice_rows(judged)
        return
    for rule, grader in product(CHOICE_RULES, judged.judges[len(CHOICE_RULES) :]):
        for line in difference_lines(request, (rule, grader), CHOICES):
            if "correct" in (line["first_verdict"], line["second_verdict"]):
                yield {_COLUMNS.get(name, name): value for name, value in line.items()}


def choice_rows(judged: VerdictTable) -> Iterator[Row]:
    """Yield a row for each condition, arm, rule and grader: the share (0 to 1) of answers on which both agree.

    ``by_rule`` and ``by_grader`` are the accuracies by each on these answers; ``rule_only`` and ``grader_only`` count
    the answers that one of them alone calls correct.
    """
    arms: dict[tuple[str, str, str], list[VerdictCount]] = {}
    for count in judged.counts:
        arms.setdefault((count.model, count.question_type, count.format), []).append(count)
    pairs = product(CHOICE_RULES, judged.judges[len(CHOICE_RULES) :])
    for ((model, question_type, format_), counts), (rule, grader) in product(arms.items(), list(pairs)):
        places = judged.place(rule), judged.place(grader)
        by_rule = [count for count in counts if count.verdicts[places[0]]]
        if any(count.verdicts[places[1]] for count in by_rule):
            label = {
                "model": model, "format": format_, "question_type": question_type, "rule": rule, "grader": grader,
            }  # fmt: skip
            yield _choice_row(label, [(c.case_key, c.verdicts[places[0]], c.verdicts[places[1]], c.n) for c in by_rule])


def _choice_row(label: dict[str, str], judged: Iterable[tuple[str, Verdict | None, Verdict | None, int]]) -> Row:
    """Return the row of the answers of a rule: case, its verdict, the grader's verdict, number of answers."""
    excluded, counted = Counter[str](), list[tuple[str, bool, bool, int]]()
    for case, by_rule, by_grader, n in judged:
        reasons = [str(verdict) for verdict in (by_rule, by_grader) if verdict not in COUNTED]
        if reason := "not judged by this grader" if by_grader is None else next(iter(reasons), ""):
            excluded[reason] += n
        else:
            counted.append((case, by_rule == "correct", by_grader == "correct", n))
    agreed, answers = case_sums((case, n * (one == other), n) for case, one, other, n in counted)
    more: dict[str, Any] = {
        "n_cases": len(answers),
        "rule_only": sum(n for _, one, other, n in counted if one > other),
        "grader_only": sum(n for _, one, other, n in counted if other > one),
    }
    for name, side in (("by_rule", 1), ("by_grader", 2)):
        right, _ = case_sums((each[0], each[3] * bool(each[side]), 0) for each in counted)
        means = right / answers
        more |= bounded(name, float(means.mean()) if means.size else None, mean_interval(means))
    return Row(
        label,
        ratio(agreed, answers),
        *ratio_interval(agreed, answers),
        int(answers.sum()),
        dict(excluded),
        more,
        unit="answers",
        columns=Columns("agreement", "low", "high", "n_answers", "excluded"),
    )


CHOICES_AGREEMENT = Section(
    "Choices by a grader and by the rules",
    report_choices,
    {"part": "agreement"},
    kind="table",
    columns=(
        "model", "format", "question_type", "rule", "grader", "agreement", "low", "high", "by_rule", "by_rule_low",
        "by_rule_high", "by_grader", "by_grader_low", "by_grader_high", "rule_only", "grader_only", "n_answers",
        "n_cases", "excluded",
    ),
    heads={
        "agreement": "Agreement", "by_rule": "Accuracy by the rule", "by_rule_low": "Rule, low",
        "by_rule_high": "Rule, high", "by_grader": "Accuracy by the grader", "by_grader_low": "Grader, low",
        "by_grader_high": "Grader, high", "rule_only": "Correct by the rule only",
        "grader_only": "Correct by the grader only", "n_answers": "Answers", "excluded": "Excluded",
    },
    help="Answers that both judged, as correct or not; 95 % intervals resample cases. Four choices count by a rule, "
    "many choices by the grader.",
    page="trust",
)  # fmt: skip
CHOICES_DIFFERENCES = Section(
    "Answers on which they differ",
    report_choices,
    {"part": "differences"},
    kind="table",
    columns=(
        "model", "case", "trial", "format", "question_type", "answer", "response", "rule", "by_rule", "grader",
        "read_as", "by_grader",
    ),
    heads={"case": "Case", "by_rule": "By the rule", "read_as": "Read as", "by_grader": "By the grader"},
    words=VERDICTS,
    page="trust",
)  # fmt: skip
SECTIONS = (
    AGREEMENT, CROSSED, DIFFERENCES, JUDGED, ACCURACY, CONTRADICTIONS, CHOICES_AGREEMENT, CHOICES_DIFFERENCES,
)  # fmt: skip
