"""How the cases of a figure are split: by specialty, by data set, or as the publication does."""

from typing import Literal

from core.datasets.published import printed_sets
from core.measures.accuracy import AccuracySplit, read_single_diagnosis
from pages.kit.cached import read
from pages.kit.controls import choose

SPLIT: dict[AccuracySplit | Literal["all"], str] = {
    "all": "All together",
    "specialty": "Specialty",
    "dataset": "Data set",
    "dermatology": "Dermatology by data set",
    "single": "One likely diagnosis",
}


def ask_split(case_set: str, datasets: tuple[str, ...]) -> AccuracySplit | None:
    """Ask how the cases of a case set are split; ``None`` if they are not. By data set only if there are several."""
    splits: list[AccuracySplit | Literal["all"]] = ["all", "specialty"]
    if case_set in printed_sets():
        splits = list(SPLIT)
    else:
        if len(datasets) > 1:
            splits.append("dataset")
        stated = read(read_single_diagnosis).single
        if any(value for key, value in stated.items() if key.startswith(f"{case_set}/")):
            splits.append("single")
    chosen = choose("Split by", splits, "acc_split", names=SPLIT, width=176)
    return None if chosen == "all" else chosen
