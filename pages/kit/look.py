"""Words, colours and icons that all pages share, and the escaping of text from models and people."""

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import streamlit as st

from core import words
from core.errors import AnamnesisError
from core.events import COUNTED, FORMATS, QUESTION_TYPES, CallRecord, EndReason, Rule, Verdict
from core.export.visible import with_visible_marks
from core.store.queries.case_labels import LabelField
from core.text.profiles import FIELDS, OWN, Field
from core.text.sections import VignetteSection
from core.words import counted as counted
from pages.kit.names import model_name

P = ParamSpec("P")
REFUSED = "_refused"
"""Session state key: why the last callback did not do what it was asked."""

FORMAT, QUESTION_TYPE, END, arm = words.FORMAT, words.QUESTION_TYPE, words.END, words.arm
ASKS_FOR, money, duration = words.ASKS_FOR, words.money, words.duration
QUESTION_COLOUR: dict[str, str] = {
    "mcq": "#0072B2", "mcq_many": "#56B4E9", "mcq_answers": "#009E73", "frq": "#D55E00",
    "frq_top3": "#E69F00",
}  # fmt: skip
RULE = {
    "usual": "Each framework’s own",
    "mcq_loose": "Contains the choice",
    "mcq_strict": "Strict rule",
    "mcq_graded": "Same diagnosis, by the grader",
    "mcq_many": "Same diagnosis, by the grader",
    "frq": "Same diagnosis",
    "frq_top3": "Any of three",
}
RULE_SHORT = {
    "usual": "framework’s rule", "mcq_loose": "contains the choice", "mcq_strict": "strict rule",
    "mcq_graded": "grader", "mcq_many": "grader", "frq": "", "frq_top3": "",
}  # fmt: skip
_MARKS: dict[Verdict, tuple[str, str]] = {
    "correct": ("green", ":material/check_circle:"),
    "incorrect": ("red", ":material/cancel:"),
    "no_diagnosis": ("orange", ":material/help:"),
    "multiple": ("orange", ":material/stacks:"),
    "refused_in_words": ("orange", ":material/front_hand:"),
    "empty": ("orange", ":material/check_box_outline_blank:"),
    "ungradable": ("gray", ":material/block:"),
    "refused": ("gray", ":material/block:"),
    "cut": ("gray", ":material/content_cut:"),
    "provider_error": ("gray", ":material/cloud_off:"),
    "not_applicable": ("gray", ":material/remove:"),
}
VERDICT: dict[Verdict, tuple[str, str, str]] = {v: (words.VERDICT[v], *mark) for v, mark in _MARKS.items()}
"""Verdict → its name, colour and icon."""
ARMS = [f"{format_}:{question_type}" for format_ in FORMATS for question_type in QUESTION_TYPES]
"""Every arm as verdicts name it ("format:question type")."""
END_SHORT: dict[EndReason, str] = {
    "final_diagnosis": "Final diagnosis",
    "no_question": "No question",
    "turn_cap": "Message limit",
    "end_tag": "End tag",
    "no_tag": "No tag",
    "refusal": "Refused",
    "error": "Broke off",
    "not_recorded": "Not recorded",
}
STARS = "\\*\\*\\*\\* p ≤ .0001, \\*\\*\\* ≤ .001, \\*\\* ≤ .01, \\* ≤ .05, ns above"
ROLE_ICON = {"doctor": ":material/stethoscope:", "patient": ":material/person:", "staff": ":material/biotech:"}
STATE_ICON = {"running": ":material/sync:", "complete": ":material/check:", "stopped": ":material/pause:"}
SECTION: dict[VignetteSection, str] = {
    "demographics": "Age and sex", "complaint": "Complaint and present illness", "past_history": "Past history",
    "medication": "Medicines", "family_history": "Family history", "social_history": "Social history",
    "vital_signs": "Vital signs", "examination": "Examination", "laboratory": "Laboratory", "imaging": "Imaging",
    "other_tests": "Other tests",
}  # fmt: skip
"""Section of a vignette → its name."""
REASON: dict[str, str] = {
    "research_setting": "Research or experiment",
    "abstract_concept": "Abstract concept",
    "general_knowledge": "General knowledge, no patient",
    "image_dependent": "Picture not described",
    "details_in_choices": "Key details only in the choices",
}
REASON_HELP: dict[str, str] = {
    "research_setting": "It is about a study or an experiment, not about a patient.",
    "abstract_concept": "It asks for a concept (statistics, ethics, a mechanism) rather than about a patient.",
    "general_knowledge": "It asks for knowledge and has no patient.",
    "image_dependent": "It cannot be answered without a picture, and no words describe the picture.",
    "details_in_choices": "The decisive details are only in the choices, so no conversation could reveal them.",
}
FAULT: dict[str, str] = {
    "answer_not_among_choices": "Answer is no choice",
    "answer_leaked": "Answer is given away",
    "duplicate": "Duplicate",
    "missing_field": "Something is missing",
    "unknown_disease": "Unknown disease",
    "repeated_choice": "Choice stands twice",
    "answer_in_other_choice": "Answer is part of another choice",
    "bare_question": "Bare question, no patient",
    "missing_picture": "Picture is missing",
}
PARTS: dict[str, tuple[str, str, str]] = {
    "demographics": ("Doctor and patient", "stethoscope", "The doctor is told this at the beginning."),
    "basic": ("Patient only", "person", "The doctor learns it by asking the patient."),
    "optional": ("Clinical staff only", "biotech", "The doctor learns it by asking the clinical staff."),
}
"""Part of a profile → who knows it, an icon, how the doctor learns it."""
FIELD: dict[Field, str] = {field: field.capitalize() for field in FIELDS}
FROM_DATA_SET = "Came with the case"


def arm_in_words(name: str) -> str:
    """Return the words for an arm that is written "format:question type"."""
    format_, _, question_type = name.partition(":")
    return arm(format_, question_type)  # type: ignore[arg-type]


def cost_of(calls: Iterable[CallRecord]) -> str:
    """Return the cost of calls in words; a plus means that some answered calls have no known price."""
    costs = [call.cost_usd for call in calls if call.error is None]
    priced = [cost for cost in costs if cost is not None]
    if costs and not priced:
        return "unknown"
    return f"{money(sum(priced))}{'+' if len(priced) < len(costs) else ''}"


def first_words(text: str, most: int) -> str:
    """Return a text in one line, cut after ``most`` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[:most].rstrip()}…"


def verdict_in_brief(verdict: Verdict | None) -> str:
    """Return a verdict for a table: ✓ correct, ✗ counted as not correct, – not counted; empty without a verdict."""
    if verdict not in VERDICT:
        return "– Not graded" if verdict else ""
    mark = "✓" if verdict == "correct" else "✗" if verdict in COUNTED else "–"
    return f"{mark} {VERDICT[verdict][0].partition(',')[0]}"


def badge(verdict: Verdict) -> str:
    label, colour, icon = VERDICT[verdict]
    return f":{colour}-badge[{icon} {label}]"


_BREAK = "\u200b"
"""Zero-width space: lets a long address wrap and keeps it from becoming a link."""
# The browser turns these into links, icons and arrows after Markdown is parsed, so backslashes cannot escape them.
_LATE = re.compile(
    r"(?<=:)(?=//|material/|[\w+-]+:)|(?<=www)(?=\.)|(?<=@)(?=\S)|(?<=[-<>!=~])(?=[-<>=])", re.IGNORECASE
)
_MARK = re.compile(r"[\\`*_{}\[\]<>()#+\-.!|~$:=^\"'/@]")
_MARKER = re.compile(r"\\\*\\\*(Final (?:Diagnosis|Answer))\\:\\\*\\\*")
_EXAMPLE = re.compile(r"https?://127\.0\.0\.1(?::\d+)?(?:/[\w/]*\w)?")
"""An address on this machine: shown as code, without a break, so that people can copy it."""
_INDENT = re.compile(r"^[ \t]+(?=[^ \t\n])", re.MULTILINE)


def plain(text: str) -> str:
    """Return text as Markdown that shows it literally, without formatting, HTML or links.

    Characters that would reverse the reading order are shown as marks.
    """
    lines = with_visible_marks(text).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    lines = _INDENT.sub(lambda match: "\u00a0" * len(match[0].expandtabs(4)), lines)
    between, addresses = _EXAMPLE.split(lines), _EXAMPLE.findall(lines)
    parts = [_MARK.sub(r"\\\g<0>", _LATE.sub(_BREAK, part).replace("&", "&amp;")) for part in between]
    escaped = parts[0] + "".join(f"`{at}`{part}" for at, part in zip(addresses, parts[1:], strict=True))
    escaped = _MARKER.sub(r"**\1:**", escaped)
    return escaped.replace("\n", "  \n")


def badges(reason: Verdict | None, verdicts: Iterable[tuple[Rule, Verdict]]) -> str:
    """Return the reason of exclusion and the verdicts as badges, each with its rule if there are several."""
    pairs = sorted(verdicts)
    texts = [badge(reason)] if reason is not None else []
    for rule, verdict in pairs:
        note = f":gray[{RULE_SHORT[rule]}] " if len(pairs) > 1 and RULE_SHORT[rule] else ""
        texts.append(f"{note}{badge(verdict)}")
    return " · ".join(texts)


def reason_words(reason: str | None) -> str:
    return REASON.get(reason or "", (reason or "").replace("_", " ").capitalize())


def fault_words(fault: str) -> str:
    return FAULT.get(fault, fault.replace("_", " ").capitalize())


LABEL_FIELD: dict[LabelField, str] = {
    "specialty": "Specialty",
    "single_diagnosis": "One likely diagnosis",
    "answer_in_vignette": "Answer named in the vignette",
    "accepted": "Accepted answers",
    "development": "Used to write prompts",
    "date": "Date",
    "urgency": "Urgency",
}
"""Field of a label of a case → words."""


def maker_words(made_by: str) -> str:
    """Return who made a profile: the case's data set, the rules, a model, or a person."""
    if made_by in ("", OWN):
        return FROM_DATA_SET
    return f"Rules ({made_by})" if made_by.partition("-")[0] == "rules" else model_name(made_by)


def total_tokens(calls: Iterable[CallRecord]) -> int:
    return sum(call.prompt_tokens + call.completion_tokens for call in calls)


def when(seconds: float) -> str:
    """Return a Unix time as date and time (UTC), to the minute."""
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M")


def in_callback(do: Callable[P, object]) -> Callable[P, None]:
    """Return a callback whose ``AnamnesisError`` is shown by ``draw_refused`` instead of a traceback.

    A page offers only what the visitor may do, but the visitor's role may have changed since it was drawn.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        st.session_state.pop(REFUSED, None)
        try:
            do(*args, **kwargs)
        except AnamnesisError as error:  # what a callback draws disappears at once
            st.session_state[REFUSED] = str(error)

    return call


def draw_style(style: str) -> None:
    """Apply a style in which GROUND and BORDER stand for colours of the visitor's theme."""
    theme = f"theme.{st.context.theme.type or 'light'}"
    for name, part in {"GROUND": "background", "BORDER": "border"}.items():
        style = style.replace(name, st.get_option(f"{theme}.{part}Color"))
    st.html(style)


def draw_refused() -> None:
    """Draw why the last callback did not do what it was asked; ``show`` removes it, so that it stays in a fragment."""
    if words := st.session_state.get(REFUSED):
        st.error(plain(words))


@contextmanager
def show_errors(say: Callable[..., object] = st.error, icon: str | None = None) -> Iterator[None]:
    """Show the message of an ``AnamnesisError`` with ``say``, and continue after the block."""
    try:
        yield
    except AnamnesisError as error:
        say(plain(str(error)), icon=icon)
