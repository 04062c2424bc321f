"""The items of a review, their annotators and their order, all of which follow from the plan and its seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, islice, zip_longest

import duckdb

from core.case import Case
from core.datasets.case_fields import fits
from core.datasets.select import cases_of
from core.errors import UsageError
from core.store.queries import reviews as rows
from core.store.queries.cases import cases_of as stored_cases
from core.store.queries.profiles import StoredProfile, newest_profiles
from core.store.review_records import AnnotatedItem, Candidate, ReviewItem, ReviewPlan
from core.text.profiles import CaseId


def draw(pool: Sequence[Candidate], plan: ReviewPlan) -> list[ReviewItem]:
    """Return the plan's items, shuffled and assigned to annotators; raise ``UsageError`` if there are not enough.

    The result depends on the plan and the pool, but not on the order of the pool.
    """
    rng = random.Random(plan.seed)
    by_item = {candidate.item: candidate for candidate in pool}  # no item is drawn twice
    ordered = [by_item[item] for item in sorted(by_item)]
    if plan.sampling == "disagreement":
        ordered = [candidate for candidate in ordered if candidate.disagreement]
    if len(ordered) < plan.number:
        which = "on which graders or rules disagree" if plan.sampling == "disagreement" else "that fit"
        raise UsageError(f"There are only {len(ordered):,} items {which}: plan fewer than {plan.number:,}.")
    if plan.sampling in ("specialty", "dataset"):
        chosen = _by_stratum(ordered, plan, rng)
    else:
        chosen = rng.sample(ordered, plan.number)
    rng.shuffle(chosen)
    assigned: list[list[str]] = [[] for _ in chosen]
    for group in plan.groups:
        # the groups of annotators get the shared items in turn; the annotator with the fewest items gets each other one
        together = list(combinations(group, min(plan.reviewers, len(group)))) if len(group) > 1 else []
        shared = min(len(chosen), round(plan.shared * len(chosen))) if together else 0
        load: Counter[str] = Counter()
        for number, names in enumerate(assigned):
            new = together[number % len(together)] if number < shared else (min(group, key=load.__getitem__),)
            load.update(new)
            names.extend(new)
    items = [(candidate.item, tuple(names)) for candidate, names in zip(chosen, assigned, strict=True)]
    rng.shuffle(items)  # otherwise the shared items would be first
    return [ReviewItem(item, number, names) for number, (item, names) in enumerate(items, start=1)]


def order_for(items: Sequence[ReviewItem], annotator: str, seed: int) -> list[ReviewItem]:
    """Return an annotator's items in the order in which this annotator sees them."""
    assigned = sorted((item for item in items if annotator in item.annotators), key=lambda item: item.number)
    random.Random(f"{seed} {annotator}").shuffle(assigned)
    return assigned


def _by_stratum(pool: Sequence[Candidate], plan: ReviewPlan, rng: random.Random) -> list[Candidate]:
    """Return equally many candidates of each model and group; the first strata have one more if needed.

    The order of a group's cases is the same for all models, so that models are judged on the same cases as far as
    possible. A second trial of a case is drawn only when there is no other case.
    """
    cases = sorted({candidate.case_key for candidate in pool})
    rng.shuffle(cases)
    place = {key: number for number, key in enumerate(cases)}
    strata: dict[tuple[str, str], list[Candidate]] = {}
    for candidate in pool:
        group = candidate.specialty if plan.sampling == "specialty" else candidate.dataset
        strata.setdefault((group, candidate.model), []).append(candidate)
    queues = [_queue(members, place, rng) for _, members in sorted(strata.items())]
    in_turn = (candidate for row in zip_longest(*queues) for candidate in row if candidate is not None)
    return list(islice(in_turn, plan.number))


def _queue(members: Sequence[Candidate], place: dict[str, int], rng: random.Random) -> list[Candidate]:
    """Return a stratum's candidates: one trial of every case first, then a second trial of every case, and so on."""
    trials_of: Counter[str] = Counter()
    ranked: list[tuple[int, int, Candidate]] = []
    for candidate in rng.sample(list(members), len(members)):
        ranked.append((trials_of[candidate.case_key], place[candidate.case_key], candidate))
        trials_of[candidate.case_key] += 1
    return [candidate for _, _, candidate in sorted(ranked, key=lambda entry: entry[:2])]


def case_pool(plan: ReviewPlan, profiles: Mapping[CaseId, StoredProfile] | None = None) -> list[Candidate]:
    """Return the cases that a plan may draw from: of a baseline with ``mcq`` only those with choices.

    With ``profiles`` these are the cases with a profile, and each item names the version of its profile.
    """
    pool = []
    for item, case in case_items(cases_of(plan.case_set)).items():
        profile = profiles.get((case.case_key, case.content_hash)) if profiles is not None else None
        if (
            (not plan.specialties or case.specialty in plan.specialties)
            and (not plan.datasets or case.dataset in plan.datasets)
            and fits(case, plan.where)
            and (case.choices or not plan.asks.final or "mcq" not in plan.question_types)
            and (profiles is None or (profile is not None and profile.generated.suitable))
        ):
            about = AnnotatedItem("profile", case_key=case.case_key, version=profile.version) if profile else item
            pool.append(Candidate(str(about), "", case.case_key, case.dataset, case.specialty))
    return pool


def pool_of(cursor: duckdb.DuckDBPyConnection, plan: ReviewPlan) -> list[Candidate]:
    """Return every item that a review of this plan may draw, according to what is stored now.

    The form asks something about each of them.
    """
    about = plan.asks.about
    if about in ("vignette", "case", "profile"):
        pool = case_pool(plan, newest_profiles(cursor) if about == "profile" else None)
    else:
        pool = rows.candidates(cursor, plan)
        if plan.where:
            cases = stored_cases(cursor, [(candidate.case_key, None) for candidate in pool])
            fitting = {key for (key, _), case in cases.items() if fits(case, plan.where)}
            pool = [candidate for candidate in pool if candidate.case_key in fitting]
    return [candidate for candidate in pool if plan.asks.questions_for(candidate.case_key, candidate.specialty)]


def case_items(cases: Iterable[Case]) -> dict[str, Case]:
    return {str(AnnotatedItem("case", case_key=case.case_key)): case for case in cases}
