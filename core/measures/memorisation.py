"""Whether a model was trained on a case: it is given half a vignette and goes on (MELD; Johri et al. 2025, Methods).

The vignette is cut at the word boundary nearest its middle. The distance is Levenshtein's over the longer of the two
texts. A similarity from 0.95 on flags a case as likely training data: a flag is seldom wrong, but a case without one
may have been seen all the same, so how many are missed is unknown. What follows for a model: how many cases are
flagged, how similarities lie, accuracy with and without them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple, get_args

from rapidfuzz.distance import Levenshtein

from core.errors import AnamnesisError, UsageError
from core.events import Format, QuestionType
from core.measures.base import Asked, Columns, Listed, Row, metric
from core.measures.compare import by_arm
from core.prompts import PromptPack, load_pack
from core.stats.bootstrap import bootstrap_interval
from core.stats.intervals import Interval
from core.stats.proportions import wilson
from core.store.queries.accuracy import CaseScore, case_scores
from core.store.queries.cases import StoredCompletion, completions
from core.store.selection import Selection

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


def completing_pack(name_or_folder: str = PACK) -> PromptPack:
    """Load the prompt pack."""
    return load_pack(name_or_folder, tuple(PROMPTS.values()))


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


@dataclass(frozen=True)
class ModelRow:
    """One model's completions under one prompt: ``n`` came, ``failed`` did not, ``flagged`` are likely training data.

    ``counts`` is the histogram of the similarities from 0 to 1.
    """

    model: str
    n: int
    failed: int
    flagged: int
    interval: Interval
    median: float
    counts: tuple[int, ...]
    prompt_hash: str = ""

    @property
    def share(self) -> float:
        """Flagged cases of those that came."""
        return self.flagged / self.n if self.n else float("nan")


@dataclass(frozen=True)
class WithAndWithout:
    """Accuracy of one arm of a condition over all cases completed and answered, and over those that are not flagged."""

    condition: str
    format: Format
    question_type: QuestionType
    accuracy: float
    interval: Interval
    n: int
    without: float
    without_interval: Interval
    n_without: int


def flagged(one: StoredCompletion) -> bool:
    """Say whether a completion flags its case."""
    return one.similarity is not None and one.similarity >= FLAG


def model_rows(found: Iterable[StoredCompletion]) -> list[ModelRow]:
    """Return one row for each model and prompt, of completions sorted by both."""
    groups = groupby(found, attrgetter("model", "prompt_hash"))
    return [_row(model, prompt_hash, list(members)) for (model, prompt_hash), members in groups]


def _row(model: str, prompt_hash: str, members: Sequence[StoredCompletion]) -> ModelRow:
    values = sorted(one.similarity for one in members if one.similarity is not None)
    count = sum(map(flagged, members))
    middle = len(values) // 2
    median = (values[middle] + values[~middle]) / 2 if values else float("nan")
    # 0.95 counts as the last bar though 0.95 · 20 may be 18.999…
    counts = [0] * BINS
    for value in values:
        counts[min(int(value * BINS + 1e-9), BINS - 1)] += 1
    interval = wilson(count, len(values))
    return ModelRow(model, len(values), len(members) - len(values), count, interval, median, tuple(counts), prompt_hash)


def with_and_without(found: Iterable[StoredCompletion], scores: Iterable[CaseScore]) -> list[WithAndWithout]:
    """Return the accuracy of each condition and arm with and without the flagged cases, for one model and prompt."""
    marks = {one.case_key: flagged(one) for one in found if one.similarity is not None}
    rows: list[WithAndWithout] = []
    for (condition, format_, question_type), of_arm in by_arm(scores).items():
        means = {case: score.score for case, score in of_arm.items() if case in marks}
        everything = [mean for mean in means.values() if mean is not None]
        rest = [mean for case, mean in means.items() if mean is not None and not marks[case]]
        if everything:
            rows.append(
                WithAndWithout(
                    condition, format_, question_type, _mean(everything), bootstrap_interval(everything),
                    len(everything), _mean(rest), bootstrap_interval(rest), len(rest),
                )
            )  # fmt: skip
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


@metric(
    "memorisation", "models",
    empty="The models with completions have answered no case yet: run a campaign with them.",
)  # fmt: skip
def report(
    asked: Asked,
    part: Annotated[
        Literal["models", "cases", "accuracy"],
        "One row a model, its cases, or its accuracy with and without flagged cases.",
    ] = "models",
) -> Iterator[Listed]:
    """Report similarities to the original, flagged cases, and accuracy with and without them (MELD)."""
    names = asked.selection.models
    with asked.store.read() as cursor:
        found = completions(cursor, sorted(names) if names else None)
        if not found:
            raise AnamnesisError("No completion is stored: run `python -m core meld --model M --cases DATASET` first.")
        models = dict.fromkeys(one.model for one in found) if part == "accuracy" else {}
        scores = {model: case_scores(cursor, Selection(models=[model])) for model in models}
    if part == "models":
        for row in model_rows(found):
            counts = {"n": row.n, "failed": row.failed, "flagged": row.flagged}
            yield Row(
                {"model": row.model, "variant": variant_of(row.prompt_hash), **counts}, row.share, *row.interval, row.n,
                more={"median": row.median}, columns=Columns("share", "low", "high", None),
            )  # fmt: skip
    elif part == "cases":
        for one in found:
            yield {
                "model": one.model, "variant": variant_of(one.prompt_hash), "case": one.case_key,
                "similarity": one.similarity, "flagged": flagged(one), "failure": one.failure,
            }  # fmt: skip
    else:
        for model, hash_ in dict.fromkeys((one.model, one.prompt_hash) for one in found):
            of = [one for one in found if (one.model, one.prompt_hash) == (model, hash_)]
            for arm in with_and_without(of, scores[model]):
                yield Row(
                    {"model": arm.condition, "variant": variant_of(hash_), "format": arm.format,
                     "question_type": arm.question_type},
                    arm.accuracy, *arm.interval, arm.n,
                    more={
                        "without": arm.without, "without_low": arm.without_interval.low,
                        "without_high": arm.without_interval.high, "n_without": arm.n_without,
                    },
                    columns=Columns("accuracy", "low", "high", "n"),
                )  # fmt: skip
