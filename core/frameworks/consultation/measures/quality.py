"""History taking as the page Quality shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from core.frameworks.consultation.measures.published import HISTORY_SETS
from core.frameworks.consultation.measures.sections import (
    ACCURACY,
    ANSWERS,
    BY_ITEMS,
    CASES,
    CHANGE,
    CURVES,
    DOCTORS,
    FIGURES,
    MEASURE,
    ORDER,
    PATIENT,
    TOLD,
    UNCOVERED,
)
from core.frameworks.starts import RELEASE, REVIEW, SOLVING, campaign_of
from core.measures.base import Row
from core.measures.quality import ASKED, Control, Quality, View, Words
from core.stats.corrections import LABELS
from core.words import counted


def asked_and_told(rows: Sequence[Row]) -> dict[str, str]:
    """Return what each doctor asked and was told, from measures of ``report history``."""
    by_model: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_model.setdefault(row.label["model"], {})[row.label["measure"]] = row
    return {model: _sentences(measures) for model, measures in by_model.items()}


def _sentences(of: dict[str, Row]) -> str:
    queries, recall, accuracy = (of.get(name) for name in ("queries", "patient_recall", "accuracy"))
    sentences = []
    if queries is not None and queries.estimate is not None:
        conversations = counted(queries.more["n_conversations"], "conversation")
        sentences.append(f"{conversations}, {queries.estimate:.1f} questions in each")
    if recall is not None and recall.estimate is not None:
        sentences.append(f"The patient’s replies have {recall.estimate:.0%} of the words of the case’s information")
    if accuracy is not None and accuracy.estimate is not None:
        sentences.append(f"{accuracy.estimate:.0%} of {counted(accuracy.n or 0, 'case')} were answered right")
    return ". ".join(sentences) + "." if sentences else "No conversation is measured."


_TOLD: Final = replace(FIGURES, options={"part": "measures", "measure": "queries,patient_recall,accuracy"}, controls=())
_FIGURES: Final = View("Figures", {"reached": FIGURES, "doctors": DOCTORS, "uncovered": UNCOVERED})
QUALITY: Final = Quality(
    "History taking",
    "history",
    views=(
        View("Asked and missed", {"told": TOLD, "asked": ASKED}, words=Words((_TOLD,), asked_and_told)),
        _FIGURES,
        View(
            "Course of the dialogue",
            {"curve": CURVES, "curve_accuracy": ACCURACY, "answers": ANSWERS, "order": ORDER, "groups": BY_ITEMS},
            job="prefixes",
            starts=(SOLVING,),
        ),
        View("Comparison", {"differences": CHANGE}, pair=True),
        View("The patient", {"virtues": PATIENT}, starts=(REVIEW,)),
        View("Cases", {"cases": CASES}),
    ),
    controls={
        "published": Control(
            "Published figures",
            {**HISTORY_SETS, "": "None"},
            "Liao et al. (arXiv 2309.02077), tables 2 and 3. They used other cases and items made by a model, so "
            "compare only the order of doctors.",
        ),
        "speaker": Control(
            "Whose words", {"patient": "The patient’s, against the items", "doctor": "The doctor’s, against their keys"}
        ),
        "closing": Control(
            "At 100 %",
            {
                "": "As usual",
                "with": "With the doctor’s closing message",
                "without": "Without the doctor’s closing message",
            },
            "The doctor’s last message may name its diagnosis. Answers with and without it are never mixed.",
        ),
        "measure": Control("Measure", {name: head for name, (head, _) in MEASURE.items()}),
        "correction": Control("Correction of p", LABELS, "Over all measures compared."),
    },
    filters=("datasets", "specialties", "rule"),
    published=_FIGURES,
    empty="These are the **published** figures; no conversation is stored yet.",
    starts=(campaign_of("consultation", "reference/oracle-direct"), RELEASE),
    by_case_set=True,
    rank=1,
)
