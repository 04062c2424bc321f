"""Data of the part Graders: which grader judged which answers, cached for each state of the database."""

from core.events import FORMATS, QUESTION_TYPES
from core.measures.graders.agreement import NOT_JUDGED, read_graders, read_judged
from core.store.database import Store
from core.store.queries.grades_by_grader import StoredGrader
from core.store.selection import Selection, case_sets_played
from pages.kit.cached import ask, cached_query, read
from pages.kit.view import CaseSetOptions

Graders = tuple[str, ...]


@cached_query(entries=2)
def graders() -> list[StoredGrader]:
    """Return the graders of free responses in campaigns and releases."""
    return read_graders(Store())


@cached_query("Reading the verdicts…", 2)
def offers() -> dict[str, tuple[CaseSetOptions, Graders]]:
    """Return case set → the filters for its free responses, and their graders; most answers first.

    Models are named by conditions without the grader, because graders are what is compared.
    """
    by_case_set = {}
    for name in ask(case_sets_played):
        judged = read(read_judged, None, Selection(case_sets=(name,)))
        if not judged.counts:
            continue
        formats, types = {count.format for count in judged.counts}, {count.question_type for count in judged.counts}
        offer = CaseSetOptions(
            tuple(dict.fromkeys(count.model for count in judged.counts)),
            tuple(option for option in FORMATS if option in formats),
            tuple(option for option in QUESTION_TYPES if option in types),
        )
        has_judged = (judged.codes != NOT_JUDGED).any(axis=0)
        case_set_graders = tuple(grader for grader, has_any in zip(judged.graders, has_judged, strict=True) if has_any)
        by_case_set[name] = (int(judged.answers.sum()), offer, case_set_graders)
    ordered = sorted(by_case_set.items(), key=lambda item: -item[1][0])
    return {name: (offer, case_set_graders) for name, (_, offer, case_set_graders) in ordered}
