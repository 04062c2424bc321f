"""Words and colours that every page uses for the same thing."""

import re

from core.events import EndReason, Format, QuestionType, Verdict

FORMAT: dict[Format, str] = {
    "vignette": "Vignette",
    "multi_turn": "Multi-turn",
    "multi_turn_exam": "Multi-turn + exam",
    "single_turn": "Single-turn",
    "summarized": "Summarized",
    "exam_only": "Exam only",
}
QUESTION_TYPE: dict[QuestionType, str] = {
    "mcq": "Four choices",
    "mcq_many": "Many choices",
    "frq": "Free response",
    "frq_top3": "Top three",
}
QUESTION_COLOUR: dict[str, str] = {"mcq": "#0072B2", "mcq_many": "#56B4E9", "frq": "#D55E00", "frq_top3": "#E69F00"}
RULE = {
    "mcq_loose": "Substring rule of the paper",
    "mcq_strict": "Exactly one choice named",
    "frq": "Same diagnosis",
    "frq_top3": "Any of three",
}
RULE_SHORT = {"mcq_loose": "paper’s rule", "mcq_strict": "strict rule", "frq": "", "frq_top3": ""}
VERDICT: dict[Verdict, tuple[str, str, str]] = {
    "correct": ("Correct", "green", ":material/check_circle:"),
    "incorrect": ("Incorrect", "red", ":material/cancel:"),
    "no_diagnosis": ("No diagnosis", "orange", ":material/help:"),
    "multiple": ("Several diagnoses", "orange", ":material/stacks:"),
    "ungradable": ("Ungradable, excluded", "gray", ":material/block:"),
    "refused": ("Refused, excluded", "gray", ":material/block:"),
    "provider_error": ("Provider error, excluded", "gray", ":material/cloud_off:"),
    "not_applicable": ("Not applicable", "gray", ":material/remove:"),
}
END: dict[EndReason, str] = {
    "final_diagnosis": "the doctor gave a final diagnosis",
    "no_question": "the doctor's message held no question",
    "turn_cap": "the cap of messages was reached",
    "refusal": "the provider refused",
    "error": "the provider failed",
}
END_SHORT: dict[EndReason, str] = {
    "final_diagnosis": "Final diagnosis",
    "no_question": "No question",
    "turn_cap": "Cap of messages",
    "refusal": "Refused",
    "error": "Provider failed",
}
ROLE_ICON = {"doctor": ":material/stethoscope:", "patient": ":material/person:"}
STATE_ICON = {"running": ":material/sync:", "complete": ":material/check:", "stopped": ":material/pause:"}


def arm(format_: Format, question_type: QuestionType) -> str:
    """Return an arm in words."""
    return f"{FORMAT[format_]} · {QUESTION_TYPE[question_type]}"


def badge(verdict: Verdict) -> str:
    """Return a verdict as a coloured badge in Markdown."""
    label, colour, icon = VERDICT[verdict]
    return f":{colour}-badge[{icon} {label}]"


_BREAK = "\u200b"
"""A space of no width: lets a long address wrap, and keeps it from becoming a link."""
# The page turns these into links, icons and arrows after reading Markdown, when escapes are long resolved.
_LATE = re.compile(
    r"(?<=:)(?=//|material/|[\w+-]+:)|(?<=www)(?=\.)|(?<=@)(?=\S)|(?<=[-<>!=~])(?=[-<>=])", re.IGNORECASE
)
_MARK = re.compile(r"[\\`*_{}\[\]<>()#+\-.!|~$:=^\"'/@]")
_INDENT = re.compile(r"^[ \t]+(?=[^ \t\n])", re.MULTILINE)


def plain(text: str) -> str:
    """Return text with Markdown, HTML and links switched off, because what a model writes is data."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    lines = _INDENT.sub(lambda found: "\u00a0" * len(found[0].expandtabs(4)), lines)
    escaped = _MARK.sub(r"\\\g<0>", _LATE.sub(_BREAK, lines).replace("&", "&amp;"))
    escaped = escaped.replace(r"\*\*Final Diagnosis\:\*\*", "**Final Diagnosis:**")
    return escaped.replace("\n", "  \n")


def money(usd: float) -> str:
    """Return US dollars, to a hundredth of a cent where it is little."""
    return f"${usd:,.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def duration(seconds: float) -> str:
    """Return a rough duration in words."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
