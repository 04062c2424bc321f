"""Items of CARE: one question of one seat, each figure the mean over its trials."""

from __future__ import annotations

import pandas as pd

from core.events import COUNTED
from core.store.database import Store
from core.store.queries.care import CareQuestion, trial_rows
from core.store.selection import Selection

BEST_RATING = 5


def read_care(store: Store, question_type: CareQuestion = "mcq", selection: Selection | None = None) -> pd.DataFrame:
    """Return ``core.store.queries.care.trial_rows`` of a selection, its condition in ``seat`` as well."""
    with store.read() as cursor:
        table = trial_rows(cursor, selection, question_type)
    names = table["model"].astype(str)
    return table.assign(seat=pd.Categorical(names, categories=list(dict.fromkeys(names))))


def item_rows(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each seat and case of ``read_care``'s table, in their order.

    Columns: ``seat``, ``model``, ``dataset``, ``specialty``, ``case_key``, ``trials``, and means over those trials that
    have the figure (NaN where none has):
    ``conv``, ``static``: 1 where the answer is right and else 0, over answers that count;
    ``per_word``: queries over words in them, over counted trials; ``efficiency``: the same where the answer is right
    and else 0;
    ``empathy``: rating over 5; ``failed``: 1 where a counted trial has any failure and else 0;
    ``turns``: queries of a whole conversation; ``words_per_turn``: of those with any query.
    """
    counted, whole = trials["counted"], trials["whole"]
    right = (trials["conv"] == "correct").astype(float)
    failed = trials["role_breaking"] | trials["abrupt"].notna() | trials["invalid"].notna()
    per_word = (trials["turns"] / trials["words"].where(trials["words"] > 0)).fillna(0.0)
    figures = pd.DataFrame(
        {
            "conv": right.where(counted),
            "static": (trials["static"] == "correct").astype(float).where(trials["static"].isin(COUNTED)),
            "per_word": per_word.where(counted),
            "efficiency": (right * per_word).where(counted),
            "empathy": trials["rating"].astype(float) / BEST_RATING,
            "failed": failed.astype(float).where(counted),
            "turns": trials["turns"].astype(float).where(whole),
            "words_per_turn": (trials["words"] / trials["turns"].where(trials["turns"] > 0)).where(whole),
        }
    )
    names = ["seat", "case_key"]
    groups = pd.concat([trials[names], figures], axis=1).groupby(names, observed=True, sort=True)
    told = trials.groupby(names, observed=True, sort=True)[["model", "dataset", "specialty"]].first()
    return told.assign(trials=groups.size()).join(groups.mean()).reset_index()
