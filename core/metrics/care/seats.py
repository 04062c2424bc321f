"""AutoMedic conversations by condition: what CARE is figured from."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from core.store.care import CareQuestion, trial_rows
from core.store.database import Store
from core.store.selection import Condition, Selection, conditions


def care_conditions(store: Store, selection: Selection | None = None) -> list[Condition]:
    """Return the conditions of AutoMedic runs in a selection; those of other frameworks are left out."""
    return conditions(store, replace(selection or Selection(), frameworks=("automedic",), mcq_rule="mcq_strict"))


def read_care(store: Store, question_type: CareQuestion = "mcq", selection: Selection | None = None) -> pd.DataFrame:
    """Return ``core.store.care.trial_rows`` of a selection, with the condition in the column ``seat`` as well."""
    with store.read() as cursor:
        table = trial_rows(cursor, selection, question_type)
    names = table["model"].astype(str)
    return table.assign(seat=pd.Categorical(names, categories=list(dict.fromkeys(names))))
