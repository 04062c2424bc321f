"""CARE: what an AutoMedic doctor's conversations are worth (Oh, Park, Kim, arXiv 2512.10195).

Four parts: accuracy S_A, conversational efficiency and strategy S_C, empathy S_E, robustness S_R.
"""

from core.measures.care.across import Fit, Normalised, Point, fit, fits, normalised, scatter
from core.measures.care.habits import Habits, habits_of
from core.measures.care.items import item_rows, read_care
from core.measures.care.profile import PARTS, CareProfile, Estimate, Part, profile_of, profiles
from core.measures.care.suitability import DatasetSuitability, dataset_suitability
from core.store.queries.care import CAUSES, FAILURES, CareQuestion, Failure, Rating, failures, ratings

__all__ = [
    "CAUSES", "FAILURES", "PARTS", "CareProfile", "CareQuestion", "DatasetSuitability", "Estimate",
    "Failure", "Fit", "Habits", "Normalised", "Part", "Point", "Rating", "dataset_suitability",
    "failures", "fit", "fits", "habits_of", "item_rows", "normalised", "profile_of", "profiles", "ratings", "read_care",
    "scatter",
]  # fmt: skip
