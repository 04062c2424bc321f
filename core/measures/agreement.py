"""``report agreement``: how far people, models and rules agree on the questions of any form, and whom to trust.

A judge is a model with its prompts, or a rule. It is calibrated on a question if enough of its answers were also given
by people and enough of them are equal; it is bound to its prompts and to the form. People's answers to an item are
compared with a judge as they were decided, on a scale one by one: this is comparable with the agreement of two people,
which no comparison with a mean is. Items on which people disagree, with nobody to decide, are excluded as tied.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import Annotated, Any, Literal

from core.judging.agreement import (
    COEFFICIENTS,
    ON_SCALES,
    UNREADABLE,
    Agreement,
    among,
    between,
    quoted_words,
    why_excluded,
)
from core.judging.calibration import ENOUGH_AGREEMENT, ENOUGH_LABELS, Trust, agreement_with_experts, status_of
from core.judging.form import CANNOT_JUDGE
from core.judging.judgement import Judge, Judgement, worth_of
from core.measures.base import Columns, Listed, MetricRequest, Row, Section
from core.measures.conversations import case_sums
from core.measures.opinions import (
    FormOption,
    Opinions,
    ReviewOption,
    judge_names,
    labelled,
    metric_of_opinions,
    read_opinions,
)
from core.stats.intervals import NOTHING
from core.stats.ratios import ratio
from core.stats.smoothed import ratio_interval, share_of
from core.store.database import Store
from core.store.queries.cases import cases_of

PEOPLE, ITSELF = "people", "itself"
ALL = "all"
"""Of axes, or of questions."""
_VALUE = Columns("value", "low", "high", "n", "excluded")
_SHARE = Columns("share", "low", "high", "n")
By = Literal["question", "axis", "form", "condition", "model"]
Part = Literal["agreement", "status", "answers", "difficulty", "words"]


@metric_of_opinions("agreement", empty="No two judges answered the same question about the same item.")
def report(
    request: MetricRequest,
    form: FormOption = None,
    review: ReviewOption = None,
    part: Annotated[
        Part,
        "Agreement of people, of each judge with people, of two judges, and of a judge that is asked again; the status "
        "of each judge by question; what became of its answers and quotations; the share that cannot be judged by the "
        "difficulty of the case; or the words that two judges quote.",
    ] = "agreement",
    by: Annotated[
        By,
        "Rows by question; by axis; all questions of a form together; these by condition; or by question and model "
        "(not of answers and difficulty).",
    ] = "question",
    judges: Annotated[Literal["all", "people"], "All judges, or only people: also every two of them by name."] = "all",
    least_items: Annotated[int, "Items judged by people below which a judge is not calibrated."] = ENOUGH_LABELS,
    least_agreement: Annotated[
        float, "Share of answers equal to people's (0 to 1) below which it is not."
    ] = ENOUGH_AGREEMENT,
) -> Iterator[Listed]:
    """Report how far people, models and rules agree on the questions of forms."""
    read = request.read(read_opinions, request.selection, form, review)
    if read.lost:
        request.note(f"Answers by these forms are left out, because they are no longer there: {', '.join(read.lost)}.")
    for each in read.opinions:
        request.judged_by(each.form, each.judges)
    if part == "status":
        rows = list(statuses(grouped(read.opinions, by), Trust(least_items, least_agreement)))
        note_status(request, rows)
        yield from rows
    elif part == "answers":
        yield from _answers(read.opinions)
    elif part == "difficulty":
        yield from _by_difficulty(request.store, read.opinions)
    else:
        rows_of = agreement_rows if part == "agreement" else _words
        for label, group in grouped(read.opinions, by):
            yield from rows_of(label, group, judges == "people")


def grouped(opinions: Sequence[Opinions], by: By = "question") -> Iterator[tuple[dict[str, str], Opinions]]:
    """Yield the label and the answers of each group; ``by`` is an option of the metric."""
    if by in ("question", "model"):
        for each in opinions:
            label = {"form": each.form, "question": each.question.title}
            yield from _by_model(label, each) if by == "model" else [(label, each)]
        return
    together: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], list[Opinions]] = defaultdict(list)
    for each in opinions:
        for axis in (ALL, each.question.axis) if by == "axis" and each.question.axis else (ALL,):
            together[each.form, axis, each.question.values, each.question.yes].append(each)
    for (form, axis, *_), members in together.items():
        joined = _joined(members)
        if by == "condition":
            yield from _by_model({"form": form, "question": ALL}, joined)
        else:
            yield {"form": form, **({"axis": axis} if by == "axis" else {"question": ALL})}, joined


def _by_model(label: Mapping[str, str], opinions: Opinions) -> Iterator[tuple[dict[str, str], Opinions]]:
    models: dict[str, set[str]] = defaultdict(set)
    for subject, item in opinions.items.items():
        models[item.model].add(subject)
    for model in sorted(models):
        yield {"model": model, **label}, opinions.only(models[model])


def _joined(members: Sequence[Opinions]) -> Opinions:
    judges: dict[Judge, list[Judgement]] = defaultdict(list)
    for each in members:
        for judge, answers in each.judges.items():
            judges[judge] += answers
    people, decided = ([a for each in members for a in getattr(each, of)] for of in ("people", "decided"))
    failing = frozenset[Judge]().union(*(each.failing for each in members))
    return replace(members[0], people=people, decided=decided, judges=dict(sorted(judges.items())), failing=failing)


def _sides(opinions: Opinions, only_people: bool) -> Iterator[tuple[str, str, list[Judgement], list[Judgement]]]:
    """Yield the names and the answers of every two sides: people with judges, two judges, or two people."""
    if only_people:
        by_person: dict[str, list[Judgement]] = defaultdict(list)
        for answer in opinions.people:
            by_person[answer.judge.name].append(answer)
        for first, second in combinations(sorted(by_person), 2):
            yield first, second, by_person[first], by_person[second]
        return
    names = judge_names(opinions.judges)
    for judge, name in names.items():
        yield PEOPLE, name, opinions.of_people, opinions.once(judge)
    for one, other in combinations(names, 2):
        yield names[one], names[other], opinions.once(one), opinions.once(other)


def agreement_rows(label: Mapping[str, str], opinions: Opinions, only_people: bool = False) -> Iterator[Row]:
    """Yield the coefficients of people, of every two sides, and of each judge that was asked again."""
    values, ordered = opinions.question.values, opinions.ordered
    found = among(opinions.people, values, opinions.case, ordered=ordered)
    if found.items:
        names = sorted({answer.judge.name for answer in opinions.people})
        if len(names) == 2:
            first, second = ([a for a in opinions.people if a.judge.name == name] for name in names)
            of_two = between(first, second, values, opinions.case, ordered=ordered)
            kappa = {"cohen_kappa": of_two.coefficients["cohen_kappa"]}
            found = found._replace(coefficients={**found.coefficients, **kappa})
        tied = None if ordered else sum(answer.failure == "tied" for answer in opinions.decided)
        yield from _rows({**label, "judges": PEOPLE}, opinions, found, {"open_ties": tied})
    for first_name, second_name, one, other in _sides(opinions, only_people):
        found = between(one, other, values, opinions.case, ordered=ordered)
        if found.items or found.excluded:
            yield from _rows({**label, "judges": f"{first_name} and {second_name}"}, opinions, found)
    for judge, name in judge_names(opinions.judges).items() if not only_people else ():
        found = among(opinions.judges[judge], values, opinions.case, ordered=ordered)
        if found.items:
            yield from _rows({**label, "judges": f"{name} and {ITSELF}"}, opinions, found)


def _rows(
    label: Mapping[str, str], opinions: Opinions, found: Agreement, more: Mapping[str, Any] | None = None
) -> Iterator[Row]:
    for name, words in (ON_SCALES if opinions.ordered else COEFFICIENTS).items():
        coefficient = found.coefficients.get(name)
        if coefficient is None and found.items:
            continue
        yield Row(
            {**label, "measure": words},
            coefficient and coefficient.value,
            *(coefficient.interval if coefficient else NOTHING),
            found.items,
            found.excluded,
            {"n_cases": found.cases, "open_ties": None, **(more or {})},
            unit="items",
            columns=_VALUE,
        )
        if not found.items:
            return


_OF_YES_AND_NO = ("sensitivity", "specificity", "excess", "excess_low", "excess_high")


def statuses(groups: Iterable[tuple[Mapping[str, str], Opinions]], trust: Trust) -> Iterator[Row]:
    """Yield the status of each judge on each group of questions, with what became of all of its answers."""
    for label, all_of_it in groups:
        opinions = all_of_it.drawn_fairly
        values, ordered = opinions.question.values, opinions.ordered
        for judge, name in judge_names(opinions.judges, with_prompts=False).items():
            once = opinions.once(judge)
            by_people = between(opinions.of_people, once, values, opinions.case, ordered=ordered)
            worth = worth_of(opinions.question, opinions.evidence, all_of_it.once(judge))
            if not (by_people.items or worth["answers"]):
                continue
            found = by_people.coefficients
            measured = None
            share, interval = found["percent_agreement"] if found else (math.nan, NOTHING)
            kappa = found["cohen_kappa"].value if found else math.nan
            if found and not ordered and opinions.question.yes:
                measured = agreement_with_experts(chain.from_iterable(labelled(opinions, judge)[0].values()))
                if len(values) == 2:  # with the weights of strata
                    share, interval, kappa = measured.share, measured.interval, measured.kappa
            of_each = measured.of_each if measured else ()
            numbers = (*of_each, measured.excess, *measured.excess_interval) if measured else ()
            repeated = among(opinions.judges[judge], values, opinions.case)
            consistency = repeated.coefficients["percent_agreement"].value if repeated.items else None
            yield Row(
                {"judge": name, "prompts": judge.prompt_hash, **label},
                share,
                *interval,
                by_people.items,
                by_people.excluded,
                {
                    "cohen_kappa": kappa,
                    **dict(zip(_OF_YES_AND_NO, numbers, strict=False)),
                    "repeats_equal": consistency,
                    "status": status_of(by_people.items, share, trust, consistency, of_each),
                    "fails_its_check": judge in opinions.failing,
                    **worth,
                },
                unit="answers",
                columns=Columns("agreement", "low", "high", "n", "excluded"),
            )


def note_status(request: MetricRequest, rows: Iterable[Row]) -> None:
    """Add a high note for each judge that is not calibrated on some questions."""
    lacking: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.n and row.more["status"] != "calibrated":
            agreement = "" if row.estimate is None else f", agreement {row.estimate:.2f}"
            lacking[row.label["judge"]].append(
                f"{row.label.get('axis') or row.label['question']}: {row.more['status']} (n = {row.n}{agreement})"
            )
    for judge, questions in lacking.items():
        request.note(f"{judge} is not calibrated as a judge. {'; '.join(questions)}.", "high", kind="calibration")


def _answers(all_opinions: Iterable[Opinions]) -> Iterator[Row]:
    """Yield, by form and judge, the shares of quotations and answers that count, and of people's that do not."""
    by_form: dict[str, list[Opinions]] = defaultdict(list)
    for opinions in all_opinions:
        by_form[opinions.form].append(opinions)
    for form, members in by_form.items():
        cases = {subject: item.case for each in members for subject, item in each.items.items()}
        people = [answer for each in members for answer in each.people]
        if people:
            label = {"judge": PEOPLE, "prompts": "", "form": form}
            yield _share({**label, "figure": CANNOT_JUDGE}, _of_reason(people, CANNOT_JUDGE), cases, "answers")
        judges = (judge for each in members for judge in each.judges)
        for judge, name in judge_names(judges, with_prompts=False).items():
            label = {"judge": name, "prompts": judge.prompt_hash, "form": form}
            given = [answer for each in members for answer in each.judges.get(judge, ())]
            quoted = [(answer.subject, quotation.state) for answer in given for quotation in answer.quotations]
            for state in ("verified", "repaired", "unverified") if quoted else ():
                hits = [(subject, found == state) for subject, found in quoted]
                yield _share({**label, "figure": f"quotations {state}"}, hits, cases, "quotations")
            for figure, wanted in (("void: invented words", True), ("void: words of another speaker", False)):
                hits = [
                    (a.subject, a.void and wanted == any(quoted.state == "unverified" for quoted in a.quotations))
                    for a in given
                ]
                yield _share({**label, "figure": figure}, hits, cases, "answers")
            for reason in (CANNOT_JUDGE, UNREADABLE):
                yield _share({**label, "figure": reason}, _of_reason(given, reason), cases, "answers")


def _of_reason(answers: Iterable[Judgement], reason: str) -> list[tuple[str, bool]]:
    return [(answer.subject, why_excluded(answer) == reason) for answer in answers]


def _share(label: Mapping[str, str], hits: Sequence[tuple[str, bool]], cases: Mapping[str, str], unit: str) -> Row:
    share = share_of((cases[subject], hit) for subject, hit in hits)
    return Row(label, *share, more={"n_cases": len({cases[subject] for subject, _ in hits})}, unit=unit, columns=_SHARE)


def _by_difficulty(store: Store, all_opinions: Sequence[Opinions]) -> Iterator[Row]:
    """Yield the share of answers *cannot judge* by judge and difficulty of the case, people's first."""
    cases = {subject: item.case for each in all_opinions for subject, item in each.items.items()}
    with store.read() as cursor:
        stored = cases_of(cursor, [(case, None) for case in dict.fromkeys(cases.values())])
    difficulty: dict[str, str] = {key: case.difficulty or "not given" for (key, _), case in stored.items()}
    groups: dict[tuple[str, str, str, str], list[tuple[str, bool]]] = defaultdict(list)
    for opinions in all_opinions:
        for judge, answers in {Judge(PEOPLE): opinions.people, **opinions.judges}.items():
            for answer in answers:
                level = difficulty.get(cases[answer.subject], "not given")
                hit = (answer.subject, answer.value == CANNOT_JUDGE)
                groups[opinions.form, judge.name, judge.prompt_hash, level].append(hit)
    order = ("easy", "medium", "hard", "not given")
    for form, name, prompts, of_case in sorted(
        groups, key=lambda key: (key[0], key[1] != PEOPLE, *key[1:3], order.index(key[3]))
    ):
        label = {"form": form, "judge": name, "prompts": prompts, "difficulty": of_case}
        yield _share(label, groups[form, name, prompts, of_case], cases, "answers")


def _words(label: Mapping[str, str], opinions: Opinions, only_people: bool) -> Iterator[Row]:
    """Yield the share of the quoted words that both of two sides quote, among those that at least one quotes."""
    for first, second, one, other in _sides(opinions, only_people):
        if first == PEOPLE:
            one = opinions.people  # a decided answer has no quotation
        overlaps = quoted_words(one, other)
        if not overlaps:
            continue
        shared, either = case_sums((opinions.case(subject), both, any_) for subject, both, any_ in overlaps)
        yield Row(
            {**label, "judges": f"{first} and {second}"},
            ratio(shared, either),
            *ratio_interval(shared, either),
            len(overlaps),
            more={"n_cases": len(either), "words": int(either.sum())},
            unit="items",
            columns=_SHARE,
        )


AGREEMENT = Section(
    "Agreement by question",
    report,
    kind="table",
    heads={"judges": "Between", "n": "Items", "n_cases": "Cases", "open_ties": "Open ties"},
    help="People: items that at least two annotators judged; open ties are items on which they differ and nobody "
    "decided. Judges: with people’s decision, on a scale with single persons. 95 % intervals leave out one case at a "
    "time. Kappa, AC and alpha correct agreement for chance. If nearly all answers are the same, kappa and alpha can "
    "be low although judges agree; AC stays near the agreement. A dash: undefined, because all answers are the same.",
    page="trust",
)
BY_MODEL = Section(
    "Agreement by model",
    report,
    {"by": "model"},
    kind="table",
    folded=True,
    heads=AGREEMENT.heads,
    help="As above, on the items of each model. Few items make wide intervals.",
    page="trust",
)
BETWEEN = replace(AGREEMENT, title="Agreement of judges, all questions together", options={"by": "form"}, folded=True)
STATUS = Section(
    "Judges against people",
    report,
    {"part": "status"},
    kind="table",
    heads={
        "prompts": "Prompts", "agreement": "Equal answers", "n": "By people", "cohen_kappa": "Cohen’s kappa",
        "excess": "Yes: judge − people", "excess_low": "From", "excess_high": "To", "repeats_equal": "Repeats equal",
        "fails_its_check": "Fails its check", "cannot_judge": "Cannot judge", "without_evidence": "Without evidence",
    },
    help="Items that people judged, too, in unblinded reviews drawn without regard to the answers. A judge is "
    "calibrated if people judged at least 50 of its items and 85 % of the answers are equal: half of the yes and of "
    "the no at least. Shares are of all its answers: each answer, void, repaired (read only after the request was "
    "sent again) and never readable. None may be without evidence.",
    page="trust",
)  # fmt: skip
ANSWERS = Section(
    "Answers and quotations of judges",
    report,
    {"part": "answers"},
    kind="table",
    heads={"prompts": "Prompts", "n": "Of", "n_cases": "Cases"},
    help="An invented quotation voids an answer: it enters no figure.",
    page="trust",
)
DIFFICULTY = Section(
    "What cannot be judged, by difficulty",
    report,
    {"part": "difficulty"},
    kind="table",
    folded=True,
    heads={"prompts": "Prompts", "n": "Of", "n_cases": "Cases"},
    help="People say more often that an item cannot be judged the harder its case is. A judge that never says so is "
    "sure of answers that people are not sure of.",
    page="trust",
)
WORDS = Section(
    "Words that two judges quote",
    report,
    {"part": "words"},
    kind="table",
    folded=True,
    heads={"judges": "Between", "share": "Quoted by both", "n": "Items", "n_cases": "Cases", "words": "Words"},
    help="Of the words that at least one of two judges quotes for an answer, the share that both quote. Equal answers "
    "for other reasons have a low share.",
    page="trust",
)
BY_AXIS = replace(STATUS, options={"part": "status", "by": "axis"})
BY_CONDITION = replace(
    STATUS,
    title="Errors of judges by condition",
    options={"part": "status", "by": "condition"},
    folded=True,
    help="The share that the judge answers with yes minus the share that people do. If it differs between conditions, "
    "so do their figures by the judge alone.",
)
SECTIONS = (AGREEMENT, BY_MODEL, BETWEEN, STATUS, BY_AXIS, BY_CONDITION, ANSWERS, DIFFICULTY, WORDS)
