"""Names of models, conditions, data sets and cases on pages (``core.store.display_names``), and colours of models."""

import re
from collections.abc import Iterable

from core.figures.style import PALETTE
from core.frameworks.base import publisher
from core.store.conditions import doctor_of
from core.store.display_names import case_name, case_set_name, dataset_name, label_of, model_name, unique_names

__all__ = [
    "RELEASED", "case_name", "case_set_name", "dataset_name", "label_of", "model_colours",
    "model_name", "natural", "unique_names",
]  # fmt: skip
_FIXED = {
    "gpt_4": "#0072B2", "gpt_3_5": "#56B4E9", "mistral_v1_7b": "#E69F00", "mistral_v2_7b": "#D55E00",
    "llama_2_7b": "#009E73", "reference/bayes": "#8C8C8C",
}  # fmt: skip
"""The papers' models keep their colour on every page."""
_DIGITS = re.compile(r"(\d+)")
RELEASED = publisher("accuracy")
"""The framework whose authors released their conversations; the release has its name."""


def model_colours(models: Iterable[str]) -> dict[str, str]:
    """Return model or condition → colour: fixed for the papers' models, otherwise the next free colour by name.

    Of the conditions of one doctor the first has the doctor's colour.
    """
    first: dict[str, str] = {}
    for model in models:
        first.setdefault(doctor_of(model), model)
    fixed = {m: _FIXED[label_of(m)] for m in first.values() if label_of(m) in _FIXED}
    free = iter([c for c in PALETTE if c not in fixed.values()] * 10)
    others = [m for m in models if m not in fixed]
    return {**fixed, **{m: next(free) for m in sorted(others)}}


def natural(text: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(text) if part)
