"""Draws the items of a review and deals them out: reproducible by the plan's seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

from core.errors import UsageError
from core.store.review_records import Candidate, ReviewItem, ReviewPlan


def draw(pool: Sequence[Candidate], plan: ReviewPlan) -> list[ReviewItem]:
    """Return the plan's items, shuffled and dealt out; raise ``UsageError`` where there are not enough.

    The same pool, in any order, and the same plan give the same items.
    """
    rng = random.Random(plan.seed)
    ordered = sorted(pool, key=lambda one: one.item)
    if plan.sampling == "disagreement":
        ordered = [one for one in ordered if one.disagreement]
    if len(ordered) < plan.number:
        what = "on which graders or rules disagree" if plan.sampling == "disagreement" else "that fit"
        raise UsageError(f"There are {len(ordered):,} items {what}, and {plan.number:,} are asked for: ask for fewer.")
    if plan.sampling in ("specialty", "dataset"):
        chosen = _by_stratum(ordered, plan, rng)
    else:
        chosen = rng.sample(ordered, plan.number)
    rng.shuffle(chosen)
    return _dealt([one.item for one in chosen], plan, rng)


def own_order(items: Sequence[ReviewItem], annotator: str, seed: int) -> list[ReviewItem]:
    """Return an annotator's items in the order in which this annotator sees them."""
    mine = sorted((one for one in items if annotator in one.annotators), key=lambda one: one.number)
    random.Random(f"{seed} {annotator}").shuffle(mine)
    return mine


def _by_stratum(pool: Sequence[Candidate], plan: ReviewPlan, rng: random.Random) -> list[Candidate]:
    """Return as many of each model and group as there are places, one more of the first where they do not divide.

    The cases of a group come in one order for all models, so that models are judged on the same cases as far as
    they have them; of several trials of a case one is drawn, and another only once there is no other case.
    """
    cases = sorted({one.case_key for one in pool})
    rng.shuffle(cases)
    place = {key: number for number, key in enumerate(cases)}
    strata: dict[tuple[str, str], list[Candidate]] = {}
    for one in pool:
        group = one.specialty if plan.sampling == "specialty" else one.dataset
        strata.setdefault((group, one.model), []).append(one)
    queues = [_queue(members, place, rng) for _, members in sorted(strata.items())]
    chosen: list[Candidate] = []
    while len(chosen) < plan.number:
        for queue in queues:
            if queue and len(chosen) < plan.number:
                chosen.append(queue.pop(0))
    return chosen


def _queue(members: Sequence[Candidate], place: dict[str, int], rng: random.Random) -> list[Candidate]:
    """Return a stratum's candidates: one trial of every case first, then a second one, and so on."""
    shuffled = rng.sample(list(members), len(members))
    seen: dict[str, int] = {}
    ranked: list[tuple[int, int, Candidate]] = []
    for one in shuffled:
        ranked.append((seen.get(one.case_key, 0), place[one.case_key], one))
        seen[one.case_key] = seen.get(one.case_key, 0) + 1
    return [one for _, _, one in sorted(ranked, key=lambda entry: entry[:2])]


def _dealt(items: Sequence[str], plan: ReviewPlan, rng: random.Random) -> list[ReviewItem]:
    """Give the shared items to pairs of annotators in turn, the others to whoever has the fewest."""
    people = plan.annotators
    pairs = list(combinations(people, 2))
    shared = min(len(items), round(plan.shared * len(items))) if pairs else 0
    load = dict.fromkeys(people, 0)
    dealt: list[tuple[str, tuple[str, ...]]] = []
    for number, item in enumerate(items):
        who = pairs[number % len(pairs)] if number < shared else (min(people, key=lambda name: load[name]),)
        for name in who:
            load[name] += 1
        dealt.append((item, who))
    rng.shuffle(dealt)  # what is shared does not come first
    return [ReviewItem(item, number, who) for number, (item, who) in enumerate(dealt, start=1)]
