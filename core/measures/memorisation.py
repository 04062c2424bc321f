"""Whether a model was trained on a case: it completes the first half of a vignette (MELD; Johri et al. 2025, Methods).

The vignette is cut at the word boundary nearest its middle. The distance is Levenshtein's, divided by the length of the
longer text. A similarity of 0.95 or more flags a case as likely training data. A flag is seldom wrong, but the model
may have seen cases without a flag too, so the number of missed cases is unknown. The figures of a model are the number
of flagged cases, the distribution of similarities, and accuracy with and without flagged cases.
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

from core.errors import UsageError
from core.frameworks.starts import CAMPAIGN, COMPLETIONS, Missing
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, bounded, metric
from core.measures.paired import by_arm
from core.prompts import PromptPack, load_pack
from core.stats.intervals import wilson
from core.stats.smoothed import mean_interval
from core.store.queries.answers import CaseScore, case_scores
from core.store.queries.completions import completions
from core.store.tables import CompletionRow

FLAG = 0.95
"""Similarity from which a case is likely training data."""
PACK = "memorisation"
PromptVariant = Literal["continue", "recall"]
VARIANTS: tuple[PromptVariant, ...] = get_args(PromptVariant)
PROMPTS: dict[PromptVariant, str] = {"continue": "continue", "recall": "complete"}
_GAP = re.compile(r"\s+")


class Halves(NamedTuple):
    """A vignette cut in two, without the white space between."""

    first: str
    second: str

    @property
    def words(self) -> int:
        """Number of words of the second half; the prompt asks for as many."""
        return len(self.second.split())


def halves(vignette: str) -> Halves:
    """Cut a vignette at the gap between words nearest its middle; of two equally near gaps at the earlier one.

    Raises ``UsageError`` for a text of one word.
    """
    text = vignette.strip()
    gaps = list(_GAP.finditer(text))
    if not gaps:
        raise UsageError("A text of one word has no second half.")
    cut = min(gaps, key=lambda gap: abs(gap.start() + gap.end() - len(text)))
    return Halves(text[: cut.start()], text[cut.end() :])


def similarity(second: str, completion: str) -> float:
    """Return 1 − Levenshtein distance / length of the longer text (0 to 1), ignoring white space at the ends."""
    return float(Levenshtein.normalized_similarity(second.strip(), completion.strip()))


def completing_pack() -> PromptPack:
    return load_pack(PACK, tuple(PROMPTS.values()))


def prompt_hash(variant: PromptVariant, pack: PromptPack | None = None) -> str:
    """Return the hash under which completions of a variant are stored: that of a pack with only its prompt.

    Former versions, which had only ``recall``, stored completions under the same hash.
    """
    return (pack or completing_pack()).hash_of(PROMPTS[variant])


@functools.lru_cache(maxsize=64)
def variant_of(hash_: str) -> str:
    """Return the variant whose completions are stored under a hash; for another prompt, ``prompt HASH``."""
    pack = completing_pack()
    return next((variant for variant in VARIANTS if prompt_hash(variant, pack) == hash_), f"prompt {hash_}")


BINS = 20
"""Number of bars of the histogram, each 0.05 wide; the last bar is the flagged cases."""


def flagged(completion: CompletionRow) -> bool:
    """Return whether a completion flags its case as likely training data."""
    return completion.similarity is not None and completion.similarity >= FLAG


def histogram_of(stored: Iterable[CompletionRow]) -> list[int]:
    """Return the number of similarities in each of the ``BINS`` from 0 to 1."""
    similarities = [completion.similarity for completion in stored if completion.similarity is not None]
    # 0.95 belongs to the last bar although 0.95 · 20 may be 18.999…
    bars = Counter(min(int(similarity * BINS + 1e-9), BINS - 1) for similarity in similarities)
    return [bars[bar] for bar in range(BINS)]


def model_rows(stored: Iterable[CompletionRow]) -> list[Row]:
    """Return the share of flagged cases for each model, prompt and data set, of completions sorted by these.

    ``n`` completions succeeded, ``failed`` did not, ``flagged`` are likely training data; ``median`` is that of the
    similarities.
    """
    rows = []
    for (model, hash_, data_set), group in groupby(stored, attrgetter("model", "prompt_hash", "data_set")):
        members = list(group)
        values = [member.similarity for member in members if member.similarity is not None]
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


def with_and_without(stored: Sequence[CompletionRow], scores: Iterable[CaseScore]) -> list[Row]:
    """Return the accuracy of each condition and arm over all completed and answered cases, and ``without`` the flagged.

    ``stored`` are the completions of one model, prompt and data set.
    """
    flags = {completion.case_key: flagged(completion) for completion in stored if completion.similarity is not None}
    rows: list[Row] = []
    for (condition, format_, question_type), of_arm in by_arm(scores).items():
        means = {case: score.score for case, score in of_arm.items() if case in flags}
        all_means = [mean for mean in means.values() if mean is not None]
        unflagged = [mean for case, mean in means.items() if mean is not None and not flags[case]]
        if all_means:
            label = {"model": condition, "variant": variant_of(stored[0].prompt_hash), "cases": stored[0].data_set}
            without = bounded("without", _mean(unflagged), mean_interval(unflagged))
            rows.append(
                Row(
                    {**label, "format": format_, "question_type": question_type},
                    _mean(all_means),
                    *mean_interval(all_means),
                    len(all_means),
                    more={**without, "n_without": len(unflagged)},
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
    empty="The models with completions have not answered any case yet.",
    starts=(CAMPAIGN,),
    page="trust",
)
def report(
    request: MetricRequest,
    part: Annotated[
        Literal["models", "cases", "accuracy"],
        "One row for each model, its cases, or its accuracy with and without flagged cases.",
    ] = "models",
    variant: Annotated[str | None, f"Only completions by this prompt: {', '.join(VARIANTS)}."] = None,
) -> Iterator[Listed]:
    """Report similarities to the original, flagged cases, and accuracy with and without them (MELD)."""
    selection = request.selection
    with request.store.read() as cursor:
        stored = completions(cursor, selection.models, selection.case_sets)
        selected = [
            completion for completion in stored if variant is None or variant_of(completion.prompt_hash) == variant
        ]
        if not selected:
            raise Missing("No completion is stored.", COMPLETIONS)
        models = dict.fromkeys(completion.model for completion in selected) if part == "accuracy" else {}
        scores = {model: case_scores(cursor, replace(selection, models=[model])) for model in models}
    if part == "models":
        yield from model_rows(selected)
    elif part == "cases":
        for completion in selected:
            yield {
                "model": completion.model,
                "variant": variant_of(completion.prompt_hash),
                "case": completion.case_key,
                "similarity": completion.similarity,
                "flagged": flagged(completion),
                "failure": completion.failure,
            }
    else:
        for (model, _, _), group in groupby(selected, attrgetter("model", "prompt_hash", "data_set")):
            yield from with_and_without(list(group), scores[model])


SECTIONS = (
    Section(
        "How similar completions are to the original",
        report,
        {"part": "models"},
        kind="histogram",
        columns=("model", "n", "flagged", "share", "low", "high", "median", "failed"),
        heads={"n": "Cases", "low": "From", "high": "To", "median": "Median similarity"},
        caption="Cases whose second half the model writes nearly word for word are flagged.",
        help="Similarity: 1 minus Levenshtein’s distance, divided by the length of the longer text; 0.95 or more flags "
        "a case. A flag is seldom wrong; how many cases are missed is unknown. Shares with Wilson’s 95 % interval; "
        "failed calls are excluded.",
        page="trust",
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
        page="trust",
    ),
)  # fmt: skip
SIMILARITIES, ACCURACY = SECTIONS
