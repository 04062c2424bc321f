"""Words of the CARE page: the four parts and how each is computed, failures with their causes, what is published."""

from typing import Final

from core.events import EndReason, TagMisuse
from core.measures.care.profile import Part
from core.store.queries.care import CareQuestion, Cause, FailureKind
from core.words import VERDICT
from pages.parts.endings_charts import REASON, REASON_COLOUR

QUESTION: Final[dict[CareQuestion, str]] = {"mcq": "With choices", "frq": "Free response"}
PART: Final[dict[Part, tuple[str, str]]] = {
    "accuracy": (
        "Accuracy", "Share of right answers after the conversation, times the penalty for the drop from the same "
        "model’s accuracy on the whole question at once: conversational ÷ static accuracy, at most 1."
    ),
    "efficiency": (
        "Efficiency and strategy", "100 times the mean over cases of 1 ÷ the mean number of words in the doctor’s "
        "queries where the answer was right, and of 0 where it was not or nothing was asked."
    ),
    "empathy": (
        "Empathy", "Mean of the ratings (1 to 5) that the patient gave after the conversation, divided by 5."
    ),
    "robustness": (
        "Robustness", "1 minus the share of cases with a failure: the doctor played the others itself, the "
        "conversation ended within three turns for a fault of the doctor, or the answer named nothing or several."
    ),
}  # fmt: skip
"""Part of CARE → its name and how it is computed."""
FORMULA_NOTE: Final = (
    "The paper’s printed formula of the accuracy part is not known to us; what stands here is our choice for what it "
    "describes, so both accuracies and the penalty stand in the table."
)
SOURCE: Final = "Oh, Park, Kim, arXiv 2512.10195"

FAILURE: Final[dict[FailureKind, str]] = {
    "role_breaking": "Role-breaking", "abrupt_termination": "Abrupt end", "invalid_answer": "Invalid answer",
}  # fmt: skip
"""Kind of failure → its name."""
FAILURE_WORDS: Final[dict[FailureKind, str]] = {
    "role_breaking": "The doctor wrote the patient’s or the staff’s reply itself.",
    "abrupt_termination": "The conversation ended after at most three turns, for want of a tag or by an end tag.",
    "invalid_answer": "The answer after the conversation named nothing, or several.",
}
CAUSE: Final[dict[Cause, tuple[str, str, str]]] = {
    "speaks_for_others": ("Speaks for others", "#D55E00", "white"),
    "no_tag": ("No tag", "#0072B2", "white"),
    "misplaced_end": ("End tag beside a query", "#56B4E9", "#1A2B2B"),
    "early_end": ("Ended early", "#6A51A3", "white"),
    "no_diagnosis": ("No answer named", "#E69F00", "#1A2B2B"),
    "multiple": ("Several answers named", "#F0E442", "#1A2B2B"),
}  # fmt: skip
"""Cause of a failure → its name, its colour and the colour of what is written on it, in the order of their kinds."""
RATING: Final[dict[int | None, tuple[str, str, str]]] = {
    1: ("Rating 1", "#B2182B", "white"), 2: ("Rating 2", "#EF8A62", "#1A2B2B"), 3: ("Rating 3", "#D9D9D9", "#1A2B2B"),
    4: ("Rating 4", "#67A9CF", "#1A2B2B"), 5: ("Rating 5", "#2166AC", "white"),
    None: ("No rating read", "#8C8C8C", "white"),
}  # fmt: skip
"""Rating → its name, its colour and the colour of what is written on it."""

PUBLISHED_PART: Final[dict[str, Part]] = {
    "care_metric:accuracy": "accuracy", "care_metric:conversational_efficiency_strategy": "efficiency",
    "care_metric:empathy": "empathy", "care_metric:robustness": "robustness",
}  # fmt: skip
"""Section of the published figures → the part that they are of."""
PUBLISHED_MODEL: Final[dict[str, str]] = {"claude_sonnet_4": "Claude Sonnet 4", "llama_3_70b": "LLaMA-3 70B"}
PUBLISHED_SET: Final = "MedQA by the paper’s text, MedBullets by the table’s note"
MISUSE: Final[dict[TagMisuse, str]] = {
    "no_tag": "No tag", "text_outside": "Words outside the tags", "several_queries": "Several queries",
    "unclosed": "Tag left open", "nested": "Tag inside a tag", "empty": "Empty tag", "unknown_tag": "Unknown tag",
    "end_with_query": "End tag beside words", "speaks_for_others": "Speaks for others",
}  # fmt: skip
"""What a message does against the tag protocol, as a head of a column; in a sentence: ``core.words.MISUSE``."""
ENDING: Final[dict[EndReason, tuple[str, str, str]]] = {
    reason: (REASON[reason], *REASON_COLOUR[reason]) for reason in ("end_tag", "turn_cap", "no_tag")
}
"""Why a conversation of the protocol came to an end of its own → its name, its colour, the colour of its writing."""


def case_name(case_key: str) -> str:
    """Return a case's key without its data set's name, which stands beside it."""
    return case_key.partition("/")[2] or case_key


def why_excluded(verdict: str) -> str:
    """Return in words why an answer does not count, to follow a number."""
    if verdict == "ungraded":
        return "not judged yet"
    return VERDICT[verdict].partition(",")[0].lower()  # type: ignore[index]
