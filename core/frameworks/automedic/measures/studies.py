"""``report care_studies``: the paper's three studies by experts, as printed and as repeated here.

Source: Oh, Park, Kim, arXiv 2512.10195, table 2 and the human half of table 3. *Filter*: experts judge whether a
question can be played, and the verdict of the profile generator is compared with their majority. *Profiles*: experts
rate the parts of generated profiles on four points. *Agreement* and *scores*: experts rate the dimensions of CARE on
three points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

import numpy as np

from core.datasets import published
from core.datasets.select import cases_of
from core.frameworks.automedic.measures.profile import CareDimension, parts, read_care
from core.frameworks.automedic.measures.published import MODELS, PAPER
from core.frameworks.automedic.queries import RULES
from core.frameworks.base import publisher
from core.judging.agreement import COEFFICIENTS, ON_SCALES, among
from core.judging.form import FormQuestion
from core.judging.judgement import Judge, Judgement
from core.measures.base import Columns, MetricRequest, Row, Section, metric
from core.measures.experts.ratings import mean_rows
from core.reviews.state import JudgedItem, ReviewState, states
from core.stats.agreement import agreement_by_case
from core.stats.intervals import NOTHING
from core.store.database import Store
from core.store.queries.profiles import verdicts_by_maker
from core.store.review_records import parse_item
from core.store.selection import Selection
from core.text.profiles import OWN

Study = Literal["filter", "profiles", "agreement", "scores"]
_FORM: Final[dict[Study, str]] = {
    "filter": "suitability", "profiles": "profile_quality", "agreement": "care_ratings", "scores": "care_ratings",
}  # fmt: skip
"""Part of the report → the form of its review."""
_VALUE: Final = Columns("value", "low", "high", "n", "excluded")
_EXPERTS, _FILTER, _PROFILE = "experts", "filter and majority", "all parts"
_VERDICTS: Final = ("accept", "reject")
_FLEISS, _COHEN, _PERCENT, _AC2, _MEAN = (
    "Fleiss' kappa", "Cohen's kappa", "percent agreement", "Gwet's AC2", "mean rating",
)  # fmt: skip
_DIMENSIONS: Final[dict[str, CareDimension]] = {
    "accuracy": "accuracy", "conversational_efficiency_strategy": "efficiency", "empathy": "empathy",
    "robustness": "robustness",
}  # fmt: skip
"""Dimension that experts rate → part of CARE that is computed."""


@metric("care_studies", empty="There is nothing to report.", page="quality", noted=False)
def report(
    request: MetricRequest,
    part: Annotated[
        Study,
        "Suitability of questions and the filter; quality of profiles; agreement on ratings of conversations; or mean "
        "ratings of each doctor next to its computed CARE parts.",
    ] = "filter",
    review: Annotated[str | None, "An unblinded review by name; without one, the newest with the study's form."] = None,
) -> Iterator[Row]:
    """Report the paper's studies by experts: the printed figures next to those of your own review."""
    state = request.read(review_of, part, review)
    if state is None:
        request.note(
            f"No review with the form {_FORM[part]} is unblinded here, so all figures are printed ones. Plan one on "
            "Judges, under Experts.",
            kind="study",
        )
    rows = [*_printed(part), *(_own(request, state, part) if state is not None else ())]
    abouts, figures = (list(dict.fromkeys(row.label[name] for row in rows)) for name in ("about", "figure"))
    yield from sorted(rows, key=lambda row: (abouts.index(row.label["about"]), figures.index(row.label["figure"])))


def review_of(store: Store, part: Study, review: str | None = None) -> ReviewState | None:
    """Return the newest unblinded review of a study, or the one with this name or id; ``None`` if there is none."""
    unblinded = [s for s in states(store) if s.review.plan.kind == _FORM[part] and s.review.unblinded]
    return next((s for s in unblinded if review in (None, s.review.name, s.review.review_id)), None)


def _printed(part: Study) -> Iterator[Row]:
    """Yield the printed figures of a study; no interval is printed."""
    rows = published.rows(publisher("care").name)
    design = {row["metric"]: int(row["value"]) for row in rows if row["section"] == "design"}
    sizes = {
        "filter": design["n_filtering_queries"],
        "profiles": design["n_profiles_rated"],
        "agreement": design["n_simulations_rated"],
        "scores": design["n_simulations_rated_per_model"],
    }
    names = {
        "fleiss_kappa": (_EXPERTS, _FLEISS),
        "cohens_kappa": (_FILTER, _COHEN),
        "percent_agreement": (_PROFILE, _PERCENT),
        "gwets_ac2": (_PROFILE, _AC2),
        "average_score": (_PROFILE, _MEAN),
    }
    care = {(row["section"].partition(":")[2], row["model"]): row for row in rows if row["metric"] == "care_metric"}
    table_2 = {"filter": "profile_generator_filtering", "profiles": "patient_profile_quality"}
    for row in rows:
        section, _, dimension = row["section"].partition(":")
        model, more, n = MODELS.get(row["model"], ""), {}, sizes[part]
        if section == table_2.get(part):
            about, figure = names[row["metric"]]
        elif section == "inter_rater" and part == "agreement":
            about, figure = dimension, names[row["metric"]][1]
        elif section == "average_human_score" and part == "scores":
            about, figure = dimension, _MEAN
            more = {"care": float(care[dimension, row["model"]]["value"])}
        else:
            continue
        excluded = {}
        if about == _FILTER:
            excluded = {"tied": design["n_tied_filtering_cases_excluded"]}
            n -= excluded["tied"]
        label = _label(part, PAPER, about, figure, model)
        unit = "profiles" if part == "profiles" else "items"
        yield Row(
            label,
            float(row["value"]),
            n=n,
            excluded=excluded,
            more=more,
            unit=unit,
            columns=_VALUE,
            source=f"table {row['table']}",
        )


def _label(part: Study, by: str, about: str, figure: str, rated: str = "") -> dict[str, str]:
    """Return the label of a row; ``rated`` is the doctor that is rated, or the filter that is compared."""
    label = {"by": by, "about": about, "figure": figure}
    if part == "filter":
        label["filter"] = rated
    elif part == "scores":
        label["model"] = rated
    return label


def _own(request: MetricRequest, state: ReviewState, part: Study) -> Iterator[Row]:
    name = state.review.name
    judged = {question.id: state.judged(question) for question in state.form.questions}
    if part == "filter":
        yield from _filter_rows(request.store, state, judged[state.form.questions[0].id])
        return
    care = _computed_parts(request.store, state) if part == "scores" else {}
    about_all = [(question.id, question, judged[question.id]) for question in state.form.questions]
    if part == "profiles":  # one figure is printed for the parts of a profile together
        together = [item for items in judged.values() for item in items]
        about_all.insert(0, (_PROFILE, state.form.questions[0], together))
    for about, question, items in about_all:
        if part != "scores":
            for row in _agreement_rows(question, items):
                if row.label["measure"] in (_PERCENT, _AC2):
                    yield replace(row, label=_label(part, name, about, row.label["measure"]))
        if part != "agreement":
            for row in mean_rows(items, question):
                model = row.label["model"]
                more = {"care": care.get((_DIMENSIONS.get(about), model))} if part == "scores" else {}
                label = _label(part, name, about, _MEAN, model)
                yield replace(row, label=label, more=more, columns=_VALUE)


def _agreement_rows(question: FormQuestion, items: Sequence[JudgedItem], values: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the agreement of the annotators on the items that at least two of them judged.

    ``values`` replaces the categories, as the question's ``yes`` against the rest.
    """
    ordered = question.kind == "scale"
    answers = [
        Judgement(subject=str(number), form="", question=question.id, judge=Judge(name), value=value, at=0.0)
        for number, item in enumerate(items)
        for name, value in item.answers.items()
    ]
    found = among(answers, values or question.values, lambda number: items[int(number)].case, ordered=ordered)
    for name, coefficient in found.coefficients.items():
        label = {"question": question.title, "measure": (ON_SCALES if ordered else COEFFICIENTS)[name]}
        low, high = coefficient.interval
        yield Row(label, coefficient.value, low, high, found.items, unit="items", columns=_VALUE)


def _filter_rows(store: Store, state: ReviewState, items: Sequence[JudgedItem]) -> Iterator[Row]:
    """Yield the agreement of the experts, on the verdict and with its reasons, and of each filter with the majority."""
    (question,) = state.form.questions
    verdicts = [_as_verdicts(item, question.yes) for item in items]
    for about, judged, values in ((_EXPERTS, verdicts, _VERDICTS), (f"{_EXPERTS}, with reasons", items, ())):
        for row in _agreement_rows(question, judged, values):
            if row.label["measure"] in (_FLEISS, _PERCENT):
                yield replace(row, label=_label("filter", state.review.name, about, row.label["measure"]))
    contents = {case.case_key: case.content_hash for case in cases_of(state.review.plan.case_set)}
    with store.read() as cursor:
        by_maker = verdicts_by_maker(cursor)
    for maker, accepted in by_maker.items():
        if maker == OWN or "/" not in maker:
            continue  # profiles that came with their cases, or that a person edited
        by_case = {key: accepted[key, content] for key, content in contents.items() if (key, content) in accepted}
        if any(item.case in by_case for item in items):
            yield from _filter_agreement(state, maker, verdicts, by_case)


def _as_verdicts(item: JudgedItem, accepting: Iterable[str]) -> JudgedItem:
    accept, reject = _VERDICTS
    return replace(
        item, answers={name: accept if value in accepting else reject for name, value in item.answers.items()}
    )


def _filter_agreement(
    state: ReviewState, maker: str, verdicts: Sequence[JudgedItem], by_case: dict[str, bool]
) -> Iterator[Row]:
    excluded: Counter[str] = Counter()
    tables = []
    for item in verdicts:
        majority, reason = item.decided(state.form)
        if majority is None or item.case not in by_case:
            excluded[reason or "no verdict of the filter"] += 1
            continue
        table = np.zeros((2, 2))
        table[_VERDICTS.index(majority), 0 if by_case[item.case] else 1] = 1
        tables.append(table)
    coefficients = agreement_by_case([np.array(tables)])[0] if tables else {}
    for name, figure in (("cohen_kappa", _COHEN), ("percent_agreement", _PERCENT)):
        coefficient = coefficients.get(name)
        yield Row(
            _label("filter", state.review.name, _FILTER, figure, maker),
            None if coefficient is None or np.isnan(coefficient.value) else coefficient.value,
            *(coefficient.interval if coefficient else NOTHING),
            len(tables),
            dict(excluded),
            unit="items",
            columns=_VALUE,
        )


def _computed_parts(store: Store, state: ReviewState) -> dict[tuple[CareDimension | None, str], float | None]:
    """Return (part, condition) → its computed value on the rated conversations."""
    trials = [trial for item in state.items for trial in parse_item(item.item).trials]
    computed: dict[tuple[CareDimension | None, str], float | None] = {}
    for question_type in reversed(RULES):  # with choices where a run asked both
        table = read_care(store, question_type, Selection(trials=trials))
        if not table.empty:
            computed |= {(row.label["measure"], row.label["model"]): row.estimate for row in parts(table)}
    return computed


_HEADS: Final = {
    "by": "Experts of",
    "about": "About",
    "figure": "Figure",
    "n": "Items",
    "filter": "Filter",
    "care": "Computed CARE part",
}
_WORDS: Final = {
    "accuracy": "Accuracy", "conversational_efficiency_strategy": "Efficiency and strategy", "empathy": "Empathy",
    "robustness": "Robustness", "demographics": "Demographics", "basic": "Basic information",
    "optional": "Findings and tests", PAPER: "the paper",
}  # fmt: skip
_PRINTED_WORDS: Final = "Printed figures have no interval."


def _section(title: str, part: Study, help_: str, **fields: Any) -> Section:
    return Section(
        title,
        report,
        {"part": part},
        kind="table",
        heads=_HEADS,
        words=_WORDS,
        help=f"{help_} {_PRINTED_WORDS}",
        page="quality",
        **fields,
    )


FILTER = _section(
    "Can the question be played?",
    "filter",
    "Experts accept or reject questions. The filter is a profile generator’s verdict, compared with the experts’ "
    "majority; ties are excluded. It is not known to us whether the printed kappa of the experts counts reasons.",
)
PROFILES = _section(
    "Quality of generated profiles",
    "profiles",
    "Ratings of the parts of a profile from 1 to 4. Agreement has ordinal weights; 95 % intervals leave out one case "
    "at a time.",
)
AGREEMENT = _section(
    "Agreement on ratings of conversations",
    "agreement",
    "Ratings of the dimensions of CARE from 1 to 3. Agreement has ordinal weights; 95 % intervals leave out one case "
    "at a time.",
)
SCORES = _section(
    "Ratings by experts and computed parts",
    "scores",
    "Mean rating from 1 to 3: over an item’s experts, then over the items of a case, then over cases. The computed "
    "part is on the same conversations, on a scale of its own.",
)
SECTIONS: Final = (FILTER, PROFILES, AGREEMENT, SCORES)
