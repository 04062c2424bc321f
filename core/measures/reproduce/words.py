"""What the tables are called here, and the reasons that several tables share."""

from __future__ import annotations

from collections.abc import Iterable

TITLES: dict[int, str] = {
    1: "Accuracy, multiple choice",
    2: "Tests between formats, multiple choice",
    3: "Tests between multiple choice and free response",
    4: "Accuracy, free response",
    5: "Tests between formats, free response",
    6: "Accuracy by specialty, multiple choice",
    7: "Tests between formats by specialty, multiple choice",
    8: "Accuracy by specialty, free response",
    9: "Tests between formats by specialty, free response",
    10: "Dermatology by data set, multiple choice",
    11: "Tests on dermatology by data set, multiple choice",
    12: "Dermatology by data set, free response",
    13: "Tests on dermatology by data set, free response",
    14: "Dermatology with one single diagnosis, multiple choice",
    15: "Tests on dermatology with one single diagnosis, multiple choice",
    16: "Dermatology with one single diagnosis, free response",
    17: "Tests on dermatology with one single diagnosis, free response",
    18: "Experts' judgements of the conversations, McNemar",
    19: "Accuracy of GPT-4V with and without image",
    20: "Tests between formats, GPT-4V with and without image",
    21: "Tests between GPT-4V with and without image",
    22: "Mistral 7B, version 1 and 2",
    23: "Tests between formats, Mistral 7B version 1",
}
"""Supplementary tables of Johri et al. 2025."""

UNIDENTIFIED_SUBSET = (
    "the free responses of tables 22 and 23 were counted on some of the cases only, and the paper does not say on which"
)
IMAGE_MODELS = ("gpt_4v", "gpt_4v_without_image")
PICTURES = (
    "results on pictures bring cases of their own, and it cannot be told from a release whether they are all those "
    "that the paper counted in both arms"
)
EXPERTS = "the experts' judgements come in workbooks that are kept as they are and not counted here"


def lacks_models(models: Iterable[str]) -> str:
    """Say that results of these models are missing, or why those on pictures are not counted."""
    models = list(models)
    if models and set(models) <= set(IMAGE_MODELS):
        return PICTURES
    return f"the import holds no results of {' and '.join(models)}"


def lacks_family(size: int, why: str) -> str:
    """Say that a p-value cannot be adjusted for want of the tests that it is adjusted with."""
    return f"it is adjusted together with {size - 1} other tests, and {why}"
