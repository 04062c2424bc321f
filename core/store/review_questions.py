"""What experts are asked, and one judgement of one of them (Johri et al. 2025, Methods)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["conversations", "answers", "baseline"]
"""What a review is about: conversations, free responses, or vignettes that the experts answer themselves."""
Question = Literal[
    "single_diagnosis", "complete_history", "medical_terms", "in_vignette", "complete_answers", "equivalent"
]
QUESTIONS: tuple[Question, ...] = get_args(Question)
ASKED_OF: dict[Kind, tuple[Question, ...]] = {
    "conversations": ("single_diagnosis", "complete_history", "medical_terms", "in_vignette", "complete_answers"),
    "answers": ("equivalent",),
    "baseline": (),
}
"""The first two are about the doctor, the next three about the patient, the last about a free response."""
ASKED: dict[Question, str] = {
    "single_diagnosis": "One most likely diagnosis",
    "complete_history": "Complete medical history",
    "medical_terms": "Patient used medical terms",
    "in_vignette": "Answers based on the vignette",
    "complete_answers": "Complete answers",
    "equivalent": "Same diagnosis",
}
"""A question in a few words, as tables head it."""
WORDING: dict[Question, str] = {
    "single_diagnosis": "When the doctor stopped asking, was there one single most likely diagnosis?",
    "complete_history": "Did the doctor ask for all of the history that matters, examination and tests aside?",
    "medical_terms": "Does the patient use medical terms?",
    "in_vignette": "Is everything that the patient says based on the vignette?",
    "complete_answers": "Does the patient answer every question completely?",
    "equivalent": "Is the diagnosis given the same as the right answer?",
}
"""A question as it is asked."""
GUIDANCE: dict[Question, str] = {
    "complete_history": (
        "Yes if nothing that the patient could have told was left out: the complaint and its course, earlier "
        "illnesses, medication, family and habits, as far as they matter for this case. What only an examination or a "
        "test could show (a finding on the skin, a blood value, an image) need not have been asked for."
    ),
    "medical_terms": (
        "A medical term is a word that people without medical training would not use of themselves, such as dyspnoea, "
        "erythematous or hyperlipidaemia, or an abbreviation such as COPD. Words of everyday life are none, even where "
        "doctors use them too: fever, rash, blood pressure, asthma, the name of a medicine that is taken."
    ),
}
"""What is meant where a question could be understood in two ways, as the papers' annotators were told of it."""
EQUIVALENCE_RULE = (
    "Yes for the same disease or a synonym, for a broader name of which the right answer is a kind, and for several "
    "diagnoses given together if any of them fits. No for a narrower kind of the right answer, for no diagnosis, and "
    "for several that the doctor could not choose among."
)
"""When a diagnosis counts as the answer (the paper's rule for free responses)."""
Answer = Literal["yes", "no"]
ANSWERS: tuple[Answer, ...] = get_args(Answer)


@dataclass(frozen=True)
class Judgement:
    """What one annotator said on one question about one item: a model's conversation, or response, on one case.

    ``item`` tells several items of a model on a case apart. ``third``: it was asked because two others differ.
    """

    model: str
    case: str
    question: Question
    annotator: str
    answer: Answer
    item: str = ""
    third: bool = False
