"""Whether a model was trained on a case: it is given half a vignette and goes on (MELD; Johri et al. 2025, Methods).

The vignette is cut at the word boundary nearest its middle. The distance is Levenshtein's over the longer of the two
texts. A similarity from 0.95 on flags a case as likely training data: a flag is seldom wrong, but a case without one
may have been seen all the same, so how many are missed is unknown. What follows for a model: how many cases are
flagged, how similarities lie, accuracy with and without them.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from statistics import median
from typing import Annotated, Literal, NamedTuple, get_args

from rapidfuzz.distance import Levenshtein

from core.errors import AnamnesisError, UsageError
from core.measures.base import Asked, Columns, Listed, Row, Section, bounded, metric
from core.measures.paired import by_arm
from core.prompts import PromptPack, load_pack
from core.stats.intervals import wilson
from core.stats.smoothed import mean_interval
from core.store.queries.answers import CaseScore, case_scores
from core.store.queries.completions import StoredCompletion, completions

FLAG = 0.95
"""Similarity from which a case is likely training data."""
PACK = "memorisation"
Variant = Literal["continue", "recall"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
PROMPTS: dict[Variant, str] = {"continue": "continue", "recall": "complete"}
_GAP = re.compile(r"\s+")


class Halves(NamedTuple):
    """A vignette cut in two, without the white space between."""

    first: str
    second: str

    @property
    def words(self) -> int:
        """How many words the second half has, which is how many are asked for."""
        return len(self.second.split())


def halves(vignette: str) -> Halves:
    """Cut a vignette at the gap between words nearest its middle, the earlier of two as near.

    Raises ``UsageError`` for a text of one word.
    """
    text = vignette.strip()
    gaps = list(_GAP.finditer(text))
    if not gaps:
        raise UsageError("A text of one word has no second half.")
    cut = min(gaps, key=lambda gap: abs(gap.start() + gap.end() - len(text)))
    return Halves(text[: cut.start()], text[cut.end() :])


def similarity(second: str, completion: str) -> float:
    """Return 1 − Levenshtein distance / length of the longer text, between 0 and 1; white space around is no matter."""
    return float(Levenshtein.normalized_similarity(second.strip(), completion.strip()))


def completing_pack() -> PromptPack:
    """Load the prompt pack."""
    return load_pack(PACK, tuple(PROMPTS.values()))


def prompt_hash(variant: Variant, pack: PromptPack | None = None) -> str:
    """Return under which hash completions of a variant are stored: that of a pack with its prompt alone.

    Those of former versions, which knew ``recall`` only, are stored under the same one.
    """
    return (pack or completing_pack()).hash_of(PROMPTS[variant])


@functools.lru_cache(maxsize=64)
def variant_of(hash_: str) -> str:
    """Return the variant whose completions are stored under a hash; another prompt goes by its hash."""
    pack = completing_pack()
    return next((variant for variant in VARIANTS if prompt_hash(variant, pack) == hash_), f"prompt {hash_}")


BINS = 20
"""Bars of the histogram; each is 0.05 wide, and the last one is the flagged cases."""


def flagged(one: StoredCompletion) -> bool:
    """Say whether a completion flags its case."""
    return one.similarity is not None and one.similarity >= FLAG


def histogram_of(found: Iterable[StoredCompletion]) -> list[int]:
    """Return the histogram of the similarities, from 0 to 1."""
    # 0.95 counts as the last bar though 0.95 · 20 may be 18.999…
    bars = Counter(min(int(one.similarity * BINS + 1e-9), BINS - 1) for one in found if one.similarity is not None)
    return [bars[bar] for bar in range(BINS)]


def model_rows(found: Iterable[StoredCompletion]) -> list[Row]:
    """Return the share of flagged cases for each model, prompt and data set, of completions sorted by these.

    ``n`` completions came, ``failed`` did not, ``flagged`` are likely training data; ``median`` is of the similarities.
    """
    rows = []
    for (model, hash_, data_set), group in groupby(found, attrgetter("model", "prompt_hash", "data_set")):
        members = list(group)
        values = [one.similarity for one in members if one.similarity is not None]
        n, count = len(values), sum(map(flagged, members))
        rows.append(
            Row(
                {
                    "model": model,
                    "variant": variant_of(hash_),
                    "cases": data_set,
                    "n": n,
                    "failed": len(members) - n,
                    "flagged": count,
                },
                count / n if n else math.nan,
                *wilson(count, n),
                n,
                more={"median": median(values) if values else math.nan},
                columns=Columns("share", "low", "high", None),
            )
        )
    return rows


def with_and_without(found: Sequence[StoredCompletion], scores: Iterable[CaseScore]) -> list[Row]:
    """Return the accuracy of each condition and arm over all cases completed and answered, and ``without`` the flagged.

    For the completions of one model, prompt and data set.
    """
    marks = {one.case_key: flagged(one) for one in found if one.similarity is not None}
    rows: list[Row] = []
    for (condition, format_, question_type), of_arm in by_arm(scores).items():
        means = {case: score.score for case, score in of_arm.items() if case in marks}
        everything = [mean for mean in means.values() if mean is not None]
        rest = [mean for case, mean in means.items() if mean is not None and not marks[case]]
        if everything:
            label = {"model": condition, "variant": variant_of(found[0].prompt_hash), "cases": found[0].data_set}
            rows.append(
                Row(
                    {**label, "format": format_, "question_type": question_type},
                    _mean(everything),
                    *mean_interval(everything),
                    len(everything),
                    more={**bounded("without", _mean(rest), mean_interval(rest)), "n_without": len(rest)},
                    columns=Columns("accuracy", "low", "high", "n"),
                )
            )
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


@metric(
    "memorisation",
    "models",
    "cases",
    empty="The models with completions have answered no case yet: run a campaign with them.",
    page="memorisation",
)
def report(
    asked: Asked,
    part: Annotated[
        Literal["models", "cases", "accuracy"],
        "One row a model, its cases, or its accuracy with and without flagged cases.",
    ] = "models",
    variant: Annotated[str | None, f"Only completions asked for in this way: {', '.join(VARIANTS)}."] = None,
) -> Iterator[Listed]:
    """Report similarities to the original, flagged cases, and accuracy with and without them (MELD)."""
    selection = asked.selection
    with asked.store.read() as cursor:
        stored = completions(cursor, selection.models, selection.case_sets)
        found = [one for one in stored if variant is None or variant_of(one.prompt_hash) == variant]
        if not found:
            raise AnamnesisError(
                "No completion is stored: run `python -m core job completions --model M --cases DATASET` first."
            )
        models = dict.fromkeys(one.model for one in found) if part == "accuracy" else {}
        scores = {model: case_scores(cursor, replace(selection, models=[model])) for model in models}
    if part == "models":
        yield from model_rows(found)
    elif part == "cases":
        for one in found:
            yield {
                "model": one.model,
                "variant": variant_of(one.prompt_hash),
                "case": one.case_key,
                "similarity": one.similarity,
                "flagged": flagged(one),
                "failure": one.failure,
            }
    else:
        for (model, _, _), group in groupby(found, attrgetter("model", "prompt_hash", "data_set")):
            yield from with_and_without(list(group), scores[model])


SECTIONS = (
    Section(
        "How similar completions are to the original",
        report,
        {"part": "models"},
        kind="histogram",
        columns=("model", "n", "flagged", "share", "low", "high", "median", "failed"),
        heads={"n": "Cases", "low": "From", "high": "To", "median": "Median similarity"},
        caption="Share: of the cases that were completed, with Wilson’s 95 % interval. Failed calls are in no figure.",
        page="memorisation",
    ),
    Section(
        "Accuracy with and without flagged cases",
        report,
        {"part": "accuracy"},
        kind="table",
        columns=(
            "model", "format", "question_type", "accuracy", "low", "high", "n", "without", "without_low",
            "without_high", "n_without",
        ),
        heads={"n": "Cases", "without": "Without flagged", "n_without": "Cases left"},
        page="memorisation",
    ),
)  # fmt: skip
SIMILARITIES, ACCURACY = SECTIONS
