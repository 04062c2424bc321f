"""Recomputes every table of the paper from what the database holds of the authors' release."""

from __future__ import annotations

from core.errors import AnamnesisError
from core.measures.reproduce.accuracy_tables import accuracy_cells
from core.measures.reproduce.cells import ModelData, Reproduction
from core.measures.reproduce.p_tables import p_cells, recompute
from core.measures.reproduce.release import missing_cases, read_release
from core.measures.reproduce.remarks import remarks
from core.measures.reproduce.words import TITLES
from core.store.database import Store
from core.store.queries.release import overlooked_answers


def reproduce(store: Store) -> Reproduction:
    """Return all cells of the CRAFT-MD tables, table by table; takes some seconds.

    Raises ``AnamnesisError`` where no release was imported.
    """
    with store.read() as cursor:
        release, overlooked = read_release(cursor), overlooked_answers(cursor)
    if not release:
        raise AnamnesisError("No release is in the database: import it with `python -m core import craftmd PATH`.")
    recomputed = recompute(release)
    cells = sorted([*accuracy_cells(release), *p_cells(recomputed)], key=lambda cell: cell.table)
    missing = missing_cases(release)
    models = {
        label: ModelData(scores.run_id, len(scores.cases), missing[label]) for label, scores in sorted(release.items())
    }
    return Reproduction(models, tuple(cells), remarks(release, recomputed, overlooked), TITLES)
