"""What the part Graders offers: who has judged which answers, read once for each state of the database."""

from core.events import FORMATS, QUESTION_TYPES
from core.measures.graders.agreement import NOT_JUDGED, read_graders, read_judged
from core.store.database import Store
from core.store.queries.grades_by_grader import StoredGrader
from core.store.selection import Selection, case_sets_played
from pages.kit.cached import ask, cached_query, read
from pages.kit.view import Offer

Graders = tuple[str, ...]


@cached_query(entries=2)
def graders() -> list[StoredGrader]:
    """Return who has judged free responses of campaigns and releases."""
    return read_graders(Store())


@cached_query("Reading the verdicts…", 2)
def offers() -> dict[str, tuple[Offer, Graders]]:
    """Return case set → what its free responses can be narrowed by, and who judged any; that with most comes first.

    Models are conditions that are told apart without graders, which are what is compared.
    """
    found = {}
    for name in ask(case_sets_played):
        judged = read(read_judged, None, Selection(case_sets=(name,)))
        if not judged.counts:
            continue
        formats, types = {count.format for count in judged.counts}, {count.question_type for count in judged.counts}
        offer = Offer(
            tuple(dict.fromkeys(count.model for count in judged.counts)),
            tuple(one for one in FORMATS if one in formats),
            tuple(one for one in QUESTION_TYPES if one in types),
        )
        has_judged = (judged.codes != NOT_JUDGED).any(axis=0)
        who = tuple(grader for grader, any_ in zip(judged.graders, has_judged, strict=True) if any_)
        found[name] = (int(judged.answers.sum()), offer, who)
    ordered = sorted(found.items(), key=lambda item: -item[1][0])
    return {name: (offer, who) for name, (_, offer, who) in ordered}
