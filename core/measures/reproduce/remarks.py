"""Recomputes every table of the paper from the authors' release, with remarks on tables that are wrong or unclear.

The evidence of each remark is computed from the tables and the release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import numpy as np
from pydantic import TypeAdapter

from core import __version__
from core.callbacks import ProgressCallback
from core.datasets.published import AccuracyFigure, PublishedTest, accuracy_figures, leaderboard, published_tests
from core.errors import AnamnesisError
from core.measures.reproduce.further import expert_cells, expert_tests, preprint_cells, read_expert_figures, text_cells
from core.measures.reproduce.release import (
    PAPER,
    TITLES,
    MissingData,
    ModelData,
    ModelScores,
    PrintedNumber,
    ReleaseRemark,
    Reproduction,
    TableGroup,
    as_printed,
    missing_cases,
    read_release,
)
from core.measures.reproduce.tables import (
    COPIED_TABLE,
    SOURCE_TABLE,
    UNIDENTIFIED,
    Recomputed,
    accuracy_cells,
    copied_table,
    family_of,
    interval_misprint,
    p_cells,
    recompute,
    twin_of,
    values_of,
)
from core.stats.corrections import Correction, adjusted
from core.store.database import NotWritableError, Store
from core.store.lease import DatabaseBusyError
from core.store.queries.releases import (
    Overlooked,
    overlooked_answers,
    release_digest,
    store_reproduction,
    stored_reproduction,
)

ReleaseScores = Mapping[str, ModelScores]
NO_RELEASE = f"No release is in the database: import it with `python -m core import {PAPER} PATH`."
_JSON = TypeAdapter(Reproduction)
FORM = 2
"""Version of the stored form: raise it with every change of cells or fields, so that no older result is shown."""


def remarks(release: ReleaseScores, recomputed: Recomputed, overlooked: Overlooked) -> tuple[ReleaseRemark, ...]:
    figures = [f for f in accuracy_figures(PAPER) if (f.table, f.question_type) in UNIDENTIFIED]
    sentences = []
    for figure in figures:
        for other in accuracy_figures(PAPER):
            same = (other.scope, other.model, other.format, other.question_type) == (
                "overall",
                figure.model,
                figure.format,
                figure.question_type,
            )
            if same and other.mean != figure.mean:
                sentences.append(
                    f"{figure.model} {figure.format}: table {figure.table} prints {figure.mean:.3f}, table "
                    f"{other.table} {other.mean:.3f}."
                )
    evidence = [*sentences, *_sizes(figures, release), *_leaderboard(figures, release)]
    spaces = (
        f"{overlooked.answers:,} answers on {overlooked.cases:,} cases contain the right choice and count as wrong: "
        "the case file has a space before or after that choice, and the paper's rule searches for the space too."
    )
    title = "Free responses on a part of the cases that the paper does not name"
    result = [
        *_wrong_intervals(release),
        *_copied(recomputed),
        *[ReleaseRemark(table, "unclear", title, tuple(evidence)) for table in sorted({t for t, _ in UNIDENTIFIED})],
        *([ReleaseRemark(1, "note", "Spaces that cost points", (spaces,))] if overlooked.answers else []),
        *_below_zero(),
        *_corrections(),
    ]
    return tuple(sorted(result, key=lambda remark: remark.table))


def _wrong_intervals(release: ReleaseScores) -> list[ReleaseRemark]:
    result = []
    for table in dict.fromkeys(f.table for f in accuracy_figures(PAPER)):
        rows = [f for f in accuracy_figures(PAPER) if f.table == table]
        wrong = [f for f in rows if interval_misprint(f)]
        if wrong:
            sentences = []
            for figure in wrong:
                try:
                    mean, low, high = values_of(figure, release)
                except MissingData:
                    continue
                sentences.append(
                    f"{figure.model} {figure.format}: printed {figure.mean:.3f} ({figure.ci_low:.3f} to "
                    f"{figure.ci_high:.3f}), recomputed {mean:.3f} ({low:.3f} to {high:.3f})."
                )
            evidence = (
                f"{len(wrong)} of the {len(rows)} printed intervals do not contain their own printed mean, and each "
                "is the interval of the same model and format in another table.",
                f"For example {wrong[0].model} {wrong[0].format}: {interval_misprint(wrong[0])}.",
                *sentences,
            )
            result.append(ReleaseRemark(table, "misprint", "Intervals of another table", evidence))
    return result


def _copied(recomputed: Recomputed) -> list[ReleaseRemark]:
    if copied_table(recomputed) is None:
        return []
    rows = [t for t in published_tests(PAPER) if t.table == COPIED_TABLE]
    computed = [t for t in rows if t in recomputed.p]
    differing = [t for t in computed if recomputed.p[t] != t.p_value]
    twins = {t: twin for t in computed if (twin := twin_of(t)) and twin in recomputed.p}
    explained = sum(recomputed.p[twin] == t.p_value for t, twin in twins.items())
    evidence = (
        f"{sum(twin_of(t) is not None for t in rows)} of {len(rows)} rows have the p-value and the adjusted p-value "
        f"of the same row of table {SOURCE_TABLE}, though they are about fewer cases.",
        f"On the cases with one single diagnosis, {len(differing)} of the {len(computed)} recomputed p-values differ "
        f"from the printed ones.",
        f"On the cases of table {SOURCE_TABLE}, {explained} of {len(twins)} equal the printed ones.",
        *(
            f"{t.model} {t.dataset}, {t.arm_a} against {t.arm_b}: printed {t.p_text}, recomputed {recomputed.p[t]:.4f}."
            for t in differing
        ),
    )
    return [ReleaseRemark(COPIED_TABLE, "misprint", f"A copy of table {SOURCE_TABLE}", evidence)]


def _sizes(figures: list[AccuracyFigure], release: ReleaseScores) -> list[str]:
    """Return the number of cases that fits the printed intervals, given the spread of all cases."""
    sizes = []
    for figure in figures:
        if figure.model in release:
            try:
                scores = release[figure.model].of((figure.format, figure.question_type), TableGroup())
            except MissingData:
                continue
            half = (figure.ci_high - figure.ci_low) / 2
            sizes.append((1.96 * float(np.std(scores, ddof=1)) / half) ** 2)
    if not sizes:
        return []
    low, high = (round(size, -1) for size in (min(sizes), max(sizes)))
    return [f"The widths of the printed intervals fit {low:.0f} to {high:.0f} cases, not all of them."]


def _leaderboard(figures: list[AccuracyFigure], release: ReleaseScores) -> list[str]:
    """Compare the means over all cases with the authors' leaderboard; its rows are matched by number, not by name."""
    sentences = []
    for model in dict.fromkeys(f.model for f in figures if f.model in release):
        of_model = [f for f in figures if f.model == model]
        try:
            means = {f.format: as_printed(values_of(f, release)[0], "mean") for f in of_model}
        except MissingData:
            continue
        row = next((r for r in leaderboard(PAPER) if r.question_type == "frq" and r.means == means), None)
        if row is not None:
            listed = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
            sentences.append(f"All cases of {model} give {listed}: the authors' leaderboard row {row.model}.")
    return sentences


def _below_zero() -> list[ReleaseRemark]:
    result = []
    for table in dict.fromkeys(f.table for f in accuracy_figures(PAPER)):
        below = [f for f in accuracy_figures(PAPER) if f.table == table and f.ci_low < 0]
        if below:
            sentence = f"{len(below)} lower bounds are below 0: an interval of the normal theory has no limits."
            result.append(ReleaseRemark(table, "note", "Bounds below 0", (sentence,)))
    return result


def _corrections() -> list[ReleaseRemark]:
    result = []
    for table in dict.fromkeys(t.table for t in published_tests(PAPER) if t.p_adjusted is not None):
        rows = [t for t in published_tests(PAPER) if t.table == table]
        by_bh, by_holm = (_hits(rows, "bh"), _hits(rows, "holm"))
        sentence = (
            f"Of {len(rows)} printed adjusted p-values, Benjamini–Hochberg over the printed p-values gives {by_bh} to "
            f"the last digit, Holm–Bonferroni, which the paper names, {by_holm}."
        )
        result.append(ReleaseRemark(table, "note", "Which correction the table uses", (sentence,)))
    return result


def _hits(rows: list[PublishedTest], correction: Correction) -> int:
    """Return the number of rows whose printed adjusted p-value equals a correction of the printed p-values."""
    corrected: dict[PublishedTest, float] = {}
    for row in rows:
        if row not in corrected:
            family = family_of(row)
            values = adjusted([math.nan if t.p_value is None else t.p_value for t in family], correction)
            corrected.update(zip(family, values, strict=True))
    return sum(as_printed(corrected[row], "p_adjusted") == row.p_adjusted for row in rows)


def reproduce(
    store: Store,
    progress: ProgressCallback = lambda done, planned: None,
    publish: Callable[[Reproduction], None] = lambda so_far: None,
) -> Reproduction:
    """Compute all cells of the paper's tables, table by table, and store them; takes seconds, on a busy machine longer.

    ``progress`` counts tests; ``publish`` gets the tables of accuracy before any test is computed. Raises
    ``AnamnesisError`` if no release is imported.
    """
    with store.read() as cursor:
        release, overlooked = read_release(cursor, PAPER), overlooked_answers(cursor, PAPER)
        digest = release_digest(cursor, PAPER)
    if not release:
        raise AnamnesisError(NO_RELEASE)
    missing = missing_cases(release)
    models = {
        label: ModelData(scores.run_id, len(scores.cases), missing[label]) for label, scores in sorted(release.items())
    }
    experts = read_expert_figures(store)
    further = [*text_cells(release), *expert_cells(experts, release), *preprint_cells()]
    figures = _in_order([*accuracy_cells(release), *(cell for cell in further if cell.arm_a is None)])
    publish(Reproduction(models, figures, ()))
    recomputed = recompute(release, progress, expert_tests(experts))
    cells = _in_order([*figures, *p_cells(recomputed), *(cell for cell in further if cell.arm_a)])
    result = Reproduction(models, cells, remarks(release, recomputed, overlooked))
    if digest is not None:
        # a database that cannot be written, or that is busy, is no fault of the figures
        with suppress(NotWritableError, DatabaseBusyError), store.write() as connection:
            store_reproduction(connection, PAPER, digest, _program(), _JSON.dump_json(result).decode())
    return result


def _in_order(cells: Iterable[PrintedNumber]) -> tuple[PrintedNumber, ...]:
    tables = list(TITLES)
    return tuple(sorted(cells, key=lambda cell: tables.index(cell.table)))


def _program() -> str:
    return f"{__version__}, form {FORM}"


def read_reproduction(store: Store) -> Reproduction | None:
    """Return the stored result of ``reproduce`` for the imported release and this version of the program, if any.

    Raises ``AnamnesisError`` if no release is imported.
    """
    with store.read() as cursor:
        digest = release_digest(cursor, PAPER)
        if digest is None:
            raise AnamnesisError(NO_RELEASE)
        result = stored_reproduction(cursor, PAPER, digest, _program())
    return None if result is None else _JSON.validate_json(result)
