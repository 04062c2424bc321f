"""Words and colours that every page uses for the same thing."""

import re

from core import words
from core.events import EndReason, Verdict
from core.export.visible import in_order

FORMAT, QUESTION_TYPE, END, arm = words.FORMAT, words.QUESTION_TYPE, words.END, words.arm
ASKS_FOR, money, duration = words.ASKS_FOR, words.money, words.duration
QUESTION_COLOUR: dict[str, str] = {"mcq": "#0072B2", "mcq_many": "#56B4E9", "frq": "#D55E00", "frq_top3": "#E69F00"}
RULE = {
    "mcq_loose": "Substring rule of the paper",
    "mcq_strict": "Exactly one choice named",
    "frq": "Same diagnosis",
    "frq_top3": "Any of three",
}
RULE_SHORT = {"mcq_loose": "paper’s rule", "mcq_strict": "strict rule", "frq": "", "frq_top3": ""}
_MARKS: dict[Verdict, tuple[str, str]] = {
    "correct": ("green", ":material/check_circle:"),
    "incorrect": ("red", ":material/cancel:"),
    "no_diagnosis": ("orange", ":material/help:"),
    "multiple": ("orange", ":material/stacks:"),
    "ungradable": ("gray", ":material/block:"),
    "refused": ("gray", ":material/block:"),
    "provider_error": ("gray", ":material/cloud_off:"),
    "not_applicable": ("gray", ":material/remove:"),
}
VERDICT: dict[Verdict, tuple[str, str, str]] = {v: (words.VERDICT[v], *mark) for v, mark in _MARKS.items()}
"""Verdict → its name, colour and icon."""
END_SHORT: dict[EndReason, str] = {
    "final_diagnosis": "Final diagnosis",
    "no_question": "No question",
    "turn_cap": "Cap reached",
    "end_tag": "End tag",
    "no_tag": "No tag",
    "refusal": "Refused",
    "error": "Provider failed",
}
ROLE_ICON = {
    "doctor": ":material/stethoscope:", "patient": ":material/person:", "staff": ":material/biotech:",
}  # fmt: skip
STATE_ICON = {"running": ":material/sync:", "complete": ":material/check:", "stopped": ":material/pause:"}


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
_MARKER = re.compile(r"\\\*\\\*(Final (?:Diagnosis|Answer))\\:\\\*\\\*")
_INDENT = re.compile(r"^[ \t]+(?=[^ \t\n])", re.MULTILINE)


def plain(text: str) -> str:
    """Return text with Markdown, HTML and links switched off, because what a model writes is data.

    What would turn the reading order around is shown as a mark.
    """
    lines = in_order(text).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    lines = _INDENT.sub(lambda found: "\u00a0" * len(found[0].expandtabs(4)), lines)
    escaped = _MARK.sub(r"\\\g<0>", _LATE.sub(_BREAK, lines).replace("&", "&amp;"))
    escaped = _MARKER.sub(r"**\1:**", escaped)
    return escaped.replace("\n", "  \n")


def bare_answer(response: str, most: int) -> str:
    """Return an answer without the words and marks it was to begin with, cut after so many characters."""
    text = re.sub(r"^Final (?:Diagnosis|Answer):", "", response.replace("**", "")).strip()
    return text if len(text) <= most else f"{text[:most]}…"
