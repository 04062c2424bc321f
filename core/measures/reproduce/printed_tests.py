"""The printed tests as pairs of arms on groups of cases, and which tests are adjusted together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from core.datasets.published import PublishedTest, published_tests
from core.events import Format, QuestionType
from core.measures.reproduce.release import SINGLE_DIAGNOSIS_TABLES, Floats, Group, Lacking, ModelScores
from core.measures.reproduce.words import EXPERTS, IMAGE_MODELS
from core.store.queries.release import Arm

EXPERT_TABLE = 18
_BY_QUESTION_TYPE = frozenset({20, 21, 23})
"""Tables whose multiple choice and free response are adjusted apart."""
_MONITORING_TABLE = 23
_OTHER_VERSION = "mistral_v2_7b"
_FORMAT_TABLES = {"mcq": 2, "frq": 5}


def models_of(test: PublishedTest) -> tuple[str, ...]:
    """Return the models whose answers a test compares."""
    if test.model:
        return (test.model,)
    return (test.arm_a, test.arm_b) if test.table == EXPERT_TABLE else IMAGE_MODELS


def pair_of(test: PublishedTest, release: Mapping[str, ModelScores]) -> tuple[Floats, Floats]:
    """Return the scores of a test's arms, case by case; raises ``Lacking`` where they are not at hand."""
    if test.table == EXPERT_TABLE:
        raise Lacking(EXPERTS)
    absent = [model for model in models_of(test) if model not in release]
    if absent or test.model is None:
        raise Lacking(models=absent)
    group = Group(test.specialty, test.dataset, test.table in SINGLE_DIAGNOSIS_TABLES)
    first, second = (release[test.model].of(_arm(test, name), group) for name in (test.arm_a, test.arm_b))
    return first, second


def family_of(test: PublishedTest) -> list[PublishedTest]:
    """Return the tests that are adjusted with a test, itself among them.

    All rows of its table; in tables 20, 21 and 23 those of its question type, and in 23 those of the other version of
    the model besides. Found on the release: the paper does not say.
    """
    family = [t for t in published_tests() if t.table == test.table]
    if test.table in _BY_QUESTION_TYPE:
        family = [t for t in family if t.question_type == test.question_type]
    if test.table == _MONITORING_TABLE:
        table = _FORMAT_TABLES[test.question_type or ""]
        family += [t for t in published_tests() if t.table == table and t.model == _OTHER_VERSION]
    return family


def _arm(test: PublishedTest, name: str) -> Arm:
    """Return the arm that a table calls by this name: a format, or question type and format in table 3."""
    if test.question_type:
        return cast(Format, name), cast(QuestionType, test.question_type)
    question_type, _, format_ = name.partition("_")
    return cast(Format, format_), cast(QuestionType, question_type)
