"""Models of choices between two things: Bradley and Terry's abilities, and weights of features that explain choices.

Both are a logistic regression without an intercept: the log-odds that the first is chosen are the difference of two
abilities (Bradley, Terry, Biometrika 39 (1952), 324–345), or a weighted sum of the differences of features. Choices
about one case are correlated: standard errors are clustered by case, with t quantiles of one degree of freedom fewer
than cases. A tie counts as half a choice for each.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy  # type: ignore[import-untyped]
from numpy.typing import ArrayLike, NDArray

from core.errors import UsageError
from core.stats.intervals import NOTHING, Interval

Floats = NDArray[np.float64]
_NONE = 1e-9
_SEPARATED = 15.0
"""Typical log-odds beyond which a coefficient is infinite: something is always, or never, chosen."""


class Choice(NamedTuple):
    """One comparison: the names of the two, and how often the first was chosen: 1, 0, or 0.5 for a tie."""

    first: str
    second: str
    share: float
    case: str


class LogOdds(NamedTuple):
    """A coefficient in log-odds with its 95 % interval; NaN if the choices do not determine it."""

    value: float
    interval: Interval


def abilities(choices: Sequence[Choice]) -> dict[str, LogOdds]:
    """Return name → ability in log-odds; abilities have the mean 0.

    The chance that a is chosen over b is 1 / (1 + exp(ability of b − ability of a)). All are NaN if a name is always or
    never chosen, or if the names fall into groups that were never compared.
    """
    names = sorted({name for choice in choices for name in (choice.first, choice.second)})
    if len(names) < 2:
        return dict.fromkeys(names, LogOdds(math.nan, NOTHING))
    # the columns are the names but the last, whose ability is minus the sum of the others
    free = np.vstack([np.eye(len(names) - 1), -np.ones(len(names) - 1)])
    places = {name: place for place, name in enumerate(names)}
    differences = np.array([free[places[c.first]] - free[places[c.second]] for c in choices])
    shares, cases = [choice.share for choice in choices], [choice.case for choice in choices]
    return dict(zip(names, _fitted(differences, shares, cases, free), strict=True))


def weights(differences: ArrayLike, shares: Sequence[float], cases: Sequence[str]) -> list[LogOdds]:
    """Return the weight of each feature in log-odds per unit.

    Args:
        differences: Choice × feature: the feature of the first minus that of the second.
        shares: How often the first was chosen: 1, 0, or 0.5 for a tie.
        cases: The case of each choice.
    """
    table = np.asarray(differences, dtype=np.float64)
    if table.ndim != 2 or len(table) != len(shares) or len(shares) != len(cases):
        raise UsageError("Choices need a row of differences, a share and a case each.")
    return _fitted(table, shares, cases, np.eye(table.shape[1]))


def _fitted(differences: Floats, shares: Sequence[float], cases: Sequence[str], shown: Floats) -> list[LogOdds]:
    """Fit the coefficients β of the columns; return ``shown`` @ β with intervals."""
    undefined = [LogOdds(math.nan, NOTHING)] * len(shown)
    codes = np.unique(np.asarray(cases), return_inverse=True)[1]
    groups = int(codes.max(initial=-1)) + 1
    if groups < 2 or np.linalg.matrix_rank(differences) < differences.shape[1]:
        return undefined
    import statsmodels.api as sm  # type: ignore[import-untyped]  # slow to load

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", sm.tools.sm_exceptions.PerfectSeparationWarning)
        model = sm.GLM(np.asarray(shares, dtype=np.float64), differences, family=sm.families.Binomial())
        try:
            fit = model.fit(cov_type="cluster", cov_kwds={"groups": codes})
        except np.linalg.LinAlgError:
            return undefined
    sizes = np.abs(fit.params) * np.sqrt((differences**2).mean(axis=0))
    if not np.isfinite(sizes).all() or sizes.max() > _SEPARATED:
        return undefined
    values = shown @ fit.params
    errors = np.sqrt(np.einsum("ij,jk,ik->i", shown, fit.cov_params(), shown))
    t = float(scipy.special.stdtrit(groups - 1, 0.975))
    return [
        # without any variance, as of nothing but ties, the choices say nothing about others
        LogOdds(
            float(value), Interval(float(value - t * error), float(value + t * error)) if error > _NONE else NOTHING
        )
        for value, error in zip(values, errors, strict=True)
    ]
