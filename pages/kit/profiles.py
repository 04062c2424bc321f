"""Words of profiles and of what is wrong with cases: reasons, faults, who may know what, who made it."""

from core.datasets.lint import Fault
from core.text.profiles import FIELDS, OWN, Field, Reason, State
from pages.kit.names import model_name

REASON: dict[Reason, str] = {
    "research_setting": "Research or experiment",
    "abstract_concept": "Abstract concept",
    "general_knowledge": "General knowledge, no patient",
    "image_dependent": "Picture not described",
    "details_in_choices": "Key details only in the choices",
}
REASON_HELP: dict[Reason, str] = {
    "research_setting": "It is about a study or an experiment, not about a patient who could be asked.",
    "abstract_concept": "It asks for a concept (statistics, ethics, a mechanism) rather than about a patient.",
    "general_knowledge": "It asks for knowledge and brings no patient.",
    "image_dependent": "It cannot be answered without a picture of which nothing is said in words.",
    "details_in_choices": "What decides stands only in the choices, so no conversation could bring it up.",
}
FAULT: dict[Fault, str] = {
    "answer_not_among_choices": "Answer is no choice",
    "answer_leaked": "Answer is given away",
    "duplicate": "Duplicate",
    "missing_field": "Something is missing",
    "unknown_disease": "Unknown disease",
    "repeated_choice": "Choice stands twice",
    "bare_question": "Bare question, no patient",
    "missing_picture": "Picture is missing",
}
PARTS: dict[str, tuple[str, str, str]] = {
    "demographics": ("Doctor and patient", "stethoscope", "The doctor is told this at the beginning."),
    "basic": ("Patient only", "person", "The doctor learns it by asking the patient."),
    "optional": ("Clinical staff only", "biotech", "The doctor learns it by asking the clinical staff."),
}
"""Part of a profile → who knows it, an icon, how the doctor comes to know it."""
FIELD: dict[Field, str] = {field: field.capitalize() for field in FIELDS}
STATE: dict[State, str] = {"present": "Present", "imputed": "Present by imputation", "absent": "Absent"}
CAME = "Came with the case"
_RULES = "rules"


def _plain(name: str) -> str:
    return name.replace("_", " ").capitalize()


def reason_words(reason: str | None) -> str:
    """Return in words why a case cannot become a patient."""
    return {str(one): words for one, words in REASON.items()}.get(reason or "", _plain(reason or ""))


def fault_words(fault: str) -> str:
    """Return a fault of the linter in words."""
    return {str(one): words for one, words in FAULT.items()}.get(fault, _plain(fault))


def maker_words(made_by: str) -> str:
    """Return who made a profile, to stand alone: "Came with the case", "Rules", a model, a person."""
    if made_by in ("", OWN):
        return CAME
    if made_by.partition("-")[0] == _RULES:
        return f"Rules ({made_by})"
    return model_name(made_by)


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
