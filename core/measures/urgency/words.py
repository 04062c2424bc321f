"""Urgency in the doctor's own words, read by a judge, next to the doctor's forced choice of a level.

Both are one model about one patient, but advice is another task than a choice: one can miss an emergency alone.
"""

from collections.abc import Iterator
from typing import Annotated

from core.frameworks.starts import URGENCY, URGENCY_WORDS
from core.measures.base import CASES_OF_RUNS, MetricRequest, Row, Section, metric
from core.measures.comparison import compare_cases
from core.measures.urgency import report

FORMS = {"forced choice": report.FORCED, "own words": "urgency_words"}
OF_ASKED = {"forced choice": (report.UNANSWERED,), "own words": ("nothing said", report.UNANSWERED)}
EMPTY = "No model has read how urgent the patients are in the doctors' own words."


@metric("urgency_words", *CASES_OF_RUNS, "sample", empty=EMPTY, starts=(URGENCY_WORDS, URGENCY), page="failures")
def report_urgency_words(
    request: MetricRequest,
    by: Annotated[report.By | None, "Split the shares by level of the case, specialty or data set."] = None,
) -> Iterator[Row]:
    """Report how soon doctors would have the patients seen: by a forced choice, and in their own words.

    The gap is the share in own words minus that of the forced choice, over the cases of conversations with a level both
    ways. A conversation in which the doctor said nothing about it has no level, and is no wrong one.
    """
    readings = {way: request.read(report.read_urgency, request.selection, form) for way, form in FORMS.items()}
    groups = {way: reading.by_condition() for way, reading in readings.items()}
    if last := readings["own words"].last:
        played = [conversation for group in groups["own words"].values() for conversation in group]
        report.note_levels(request, played)
        report.note_unanswered(request, played)
        judge = f"{last.judge.name} (prompts {last.judge.prompt_hash[:6]}), which read the doctors' own words"
        more = "a review by the form urgency_words shows how far people agree with it"
        request.note(f"The judge {judge}, is not calibrated: {more}.", "high", kind="judge")
    for model, own in groups["own words"].items():
        for way, by_model in groups.items():
            for label, group in report.split(by_model.get(model, []), by):
                yield from report.share_rows({"model": model, "way": way, **label}, group, OF_ASKED[way])
        chosen = {played.trial_id: played for played in groups["forced choice"].get(model, ()) if played.levels}
        for label, group in report.split([played for played in own if played.levels and played.trial_id in chosen], by):
            for figure in report.FIGURES:
                first = report.by_case((chosen[played.trial_id] for played in group), figure)
                gap = compare_cases(first, report.by_case(group, figure))
                names = {"model": model, "way": "gap", **label, "figure": figure}
                counts = {"n_conversations": len(group)}
                yield Row(names, gap.difference, gap.low, gap.high, gap.n, {}, counts, columns=report.SHARE)


SECTION = Section(
    "Forced choice and own words", report_urgency_words, controls=("by",), series="way", place="figure", page="failures"
)
SECTIONS = (SECTION,)
