"""``report care_studies``: the paper's three studies by experts, as printed and as repeated here.

Source: Oh, Park, Kim, arXiv 2512.10195, table 2 and the human half of table 3. *Filter*: experts judge whether a
question can be played, and the verdict of the profile generator is compared with their majority. *Profiles*: experts
rate the parts of generated profiles on four points. *Agreement* and *scores*: experts rate the dimensions of CARE on
three points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from core.datasets import published
from core.datasets.select import cases_of
from core.frameworks.automedic.measures.profile import CareDimension, parts, read_care
from core.frameworks.automedic.measures.published import MODELS, PAPER
from core.frameworks.automedic.queries import RULES
from core.frameworks.base import publisher
from core.judging.form import Form, Option
from core.judging.judgement import Judge, Judgement
from core.measures.agreement import PEOPLE, agreement_rows, grouped
from core.measures.base import Columns, MetricRequest, Row, Section, metric
from core.measures.experts.ratings import mean_rows
from core.measures.opinions import Opinions, read_opinions
from core.reviews.state import ItemAnswers, ReviewState, decided, states
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
            "Trust, under Experts.",
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
    opinions = request.read(read_opinions, None, state.form.name, state.review.review_id).opinions
    if part == "filter":
        yield from _filter_rows(request.store, state, *opinions)
        return
    care = _computed_parts(request.store, state) if part == "scores" else {}
    judged = {question.id: state.judged(question) for question in state.form.questions}
    about_all = [(each.question.id, each, judged[each.question.id]) for each in opinions]
    if part == "profiles":  # one figure is printed for the parts of a profile together
        together = [item for items in judged.values() for item in items]
        about_all = [*((_PROFILE, each, together) for _, each in grouped(opinions, "form")), *about_all]
    for about, each, items in about_all:
        if part != "scores":
            for row in agreement_rows({}, each):
                if row.label["judges"] == PEOPLE and row.label["measure"] in (_PERCENT, _AC2):
                    yield replace(row, label=_label(part, name, about, row.label["measure"]), more={})
        if part != "agreement":
            for row in mean_rows(items, each.question):
                model = row.label["model"]
                more = {"care": care.get((_DIMENSIONS.get(about), model))} if part == "scores" else {}
                yield replace(row, label=_label(part, name, about, _MEAN, model), more=more, columns=_VALUE)


def _filter_rows(store: Store, state: ReviewState, opinions: Opinions) -> Iterator[Row]:
    """Yield the agreement of the experts, on the verdict and with its reasons, and of each filter with the majority."""
    contents = {case.case_key: case.content_hash for case in cases_of(state.review.plan.case_set)}
    with store.read() as cursor:
        by_maker = verdicts_by_maker(cursor)
    filters: dict[Judge, list[Judgement]] = {}
    for maker, suitable in by_maker.items():
        if maker == OWN or "/" not in maker:
            continue  # profiles that came with their cases, or that a person edited
        judge = Judge(maker, "model")
        for answer in opinions.decided:
            case = opinions.case(answer.subject)
            if (accepted := suitable.get((case, contents.get(case, "")))) is not None:
                verdict = replace(answer, judge=judge, value=_VERDICTS[not accepted], failure="")
                filters.setdefault(judge, []).append(verdict)
    of_experts = _as_verdicts(state.form, state.judged(opinions.question), opinions)
    for about, each in ((_EXPERTS, replace(of_experts, judges=filters)), (f"{_EXPERTS}, with reasons", opinions)):
        for row in agreement_rows({}, each):
            figure, maker = row.label["measure"], row.label["judges"].removeprefix(f"{PEOPLE} and ")
            if maker == PEOPLE and figure in (_FLEISS, _PERCENT):
                yield replace(row, label=_label("filter", state.review.name, about, figure), more={})
            elif about == _EXPERTS and Judge(maker, "model") in filters and figure in (_COHEN, _PERCENT):
                unseen = len(of_experts.decided) - len(filters[Judge(maker, "model")])
                excluded = {**row.excluded, **({"no verdict of the filter": unseen} if unseen else {})}
                label = _label("filter", state.review.name, _FILTER, figure, maker)
                yield replace(row, label=label, excluded=excluded, more={})


def _as_verdicts(form: Form, items: Iterable[ItemAnswers], opinions: Opinions) -> Opinions:
    """Return the experts' answers without their reasons, accept or reject, with a majority of their own."""
    question = opinions.question

    def verdict(value: str) -> str:
        return _VERDICTS[value not in question.yes] if value in question.values else value

    majority = {
        item.item: decided(form, list(map(verdict, item.answers.values())), item.settled and verdict(item.settled))
        for item in items
    }
    options = tuple(Option(value=value, label=value) for value in _VERDICTS)
    return replace(
        opinions,
        question=question.model_copy(update={"options": options, "yes": _VERDICTS[:1]}),
        people=[replace(answer, value=verdict(answer.value or "")) for answer in opinions.people],
        decided=[
            replace(answer, value=value, failure=reason)
            for answer in opinions.decided
            for value, reason in [majority[answer.subject]]
        ],
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
