"""Reads a pasted case: the last question, choices in one pattern, the answer; all other text is the vignette.

A part that is not recognised with certainty stays empty, and ``notes`` say so: the user can edit every part before
``case_of`` builds the case. Rows of JSON and CSV are read by the readers of data sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten

from pydantic import ValidationError

from core.case import FINAL_QUESTION, Case
from core.datasets.readers import FORMATS, read_cases
from core.datasets.readers.format import RowError
from core.datasets.readers.formats.plain import right_option
from core.datasets.readers.item import split_item
from core.errors import AnamnesisError, UsageError
from core.text.demographics import read_demographics
from core.text.sections import sentences

DATASET = "pasted"
LONGEST_TITLE = 80
"""Characters of a pasted case's title."""
LONGEST_CHOICE = 40
"""Words; a list with a longer item is not read as choices."""


@dataclass(frozen=True)
class Pasted:
    """The parts of a pasted case, each empty if it was not recognised; ``notes`` are sentences for the user."""

    vignette: str = ""
    question: str = FINAL_QUESTION
    choices: tuple[str, ...] = ()
    answer: str = ""
    specialty: str = "Other"
    notes: tuple[str, ...] = ()


def read_pasted(text: str) -> Pasted:
    """Recognise the parts of pasted text, or of the first row of pasted JSON or CSV; never raises, for any text."""
    pasted = _read_row(text) or _read_text(_cleaned(text))
    notes = list(pasted.notes)
    if not pasted.vignette:
        notes.append("No vignette was recognised: paste the patient's story.")
    if not pasted.choices:
        notes.append("No choices were recognised: enter them, or only free-response arms can be run.")
    if not pasted.answer:
        notes.append("No answer was recognised: name it.")
    return replace(pasted, notes=tuple(notes))


def _read_row(text: str) -> Pasted | None:
    """Return the first row of a pasted data set, or ``None`` if the text is none."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "pasted"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            reading = read_cases(path, DATASET)
        except AnamnesisError:
            return None
    title = FORMATS[reading.format].title
    if not reading.cases:
        reasons = [reason for _, reason in (*reading.rejected, *reading.left_out, (0, "it has no row"))]
        return Pasted(notes=(f"This looks like data in the format {title}, but was not read: {reasons[0]}.",))
    case, rows = reading.cases[0], len(reading.cases)
    note = f"Read in the format {title}." if rows == 1 else f"{rows} rows were pasted: the first is used."
    vignette = "" if case.vignette == case.question else case.vignette
    return Pasted(vignette, case.question, case.choices, case.answer, case.specialty, (note,))


_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad\x00"))
_WRAPPED = re.compile(r"(?<=[^\n]{60})(?<![^\n]{131})(?<![.?!:])\n(?=[^\n])(?![-*•]|[(\[]?\w{1,2}[).:\]]\s)")
"""A line break at a fixed width; not a break before an item of a list."""


def _cleaned(text: str) -> str:
    """Return the text with single spaces, unbroken paragraphs and at most one empty line in a row."""
    lines = [" ".join(line.split()) for line in text.translate(_INVISIBLE).splitlines()]
    return _WRAPPED.sub(" ", re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip())


_ANSWER = re.compile(
    r"(?:^[*_#> ]*(?i:(?:the )?(?:(?:correct|right|best) )?(?:answer|ans|key))|"
    r"(?<=\s)(?:(?:The )?[Cc]orrect [Aa]nswer|Answer|ANSWER|Ans))"
    r"\.?[*_]*\s*(?:[:=]|is\b:?)[*_\s]*(?P<answer>[^\n]*)",
    re.MULTILINE,
)
_LABELS = tuple(
    re.compile(rf"{place}[(\[]?([A-Ja-j1-9])(?:\.\s+|[)\]]\.?\s*|:\s+)(?=\S)", re.MULTILINE)
    for place in (r"^", r"(?:^|(?<=\s))")
)
"""Letters or numbers of choices: one a line, or within a line."""
_HEADER = re.compile(r"(?:^|\n|(?<=\?) )(?:(?:answer )?(?:options|choices)|question(?: \d{1,4})?) ?:?$", re.IGNORECASE)
_ASKS = re.compile(r"(?:\?|\b(?:is|are|be|by|of|with|following) ?(?:[:…_]|\.\.\.)?)[\"”*_)]{0,3}$")
"""The end of the text before choices: a question, or a sentence that a choice completes."""
_MARKED = re.compile(r"[*✓✔✅←]|\((?:correct|right|answer|key)\)", re.IGNORECASE)
"""A choice that is marked as the right one."""


def _read_text(text: str) -> Pasted:
    notes: list[str] = []
    answer = ""
    if answer_match := _ANSWER.search(text):
        answer = answer_match["answer"].strip(' *_."“”')
        before, after = text[: answer_match.start()].strip(), text[answer_match.end() :].strip()
        if before and after:
            notes.append("The text after the answer was left out.")
        text = before or after
    text, choices, after = _cut_choices(text)
    vignette, question, between = _cut_question(text, bool(choices))
    if after or between:
        notes.append("The text after the question or the choices was left out: check that nothing is missing.")
    if not question:
        notes.append(f"No question was recognised: '{FINAL_QUESTION}' will be asked.")
    try:
        answer = _meant(answer, choices) if answer else ""
    except UsageError as error:
        notes.append(str(error))
    return Pasted(vignette, question or FINAL_QUESTION, choices, answer, notes=tuple(notes))


def _cut_choices(text: str) -> tuple[str, tuple[str, ...], str]:
    """Return the text before the choices, the choices, and the text after them; no choices unless they are certain."""
    for pattern in _LABELS:
        labels = list(pattern.finditer(text))
        first = max((number for number, label in enumerate(labels) if label[1] in "Aa1"), default=len(labels))
        labels = labels[first:]
        names = "".join(label[1] for label in labels)
        if len(names) < 2 or not any(order.startswith(names) for order in ("ABCDEFGHIJ", "abcdefghij", "123456789")):
            continue
        end = text.find("\n", labels[-1].end())
        after = text[end:].strip() if end >= 0 else ""
        ends = [label.start() for label in labels[1:]] + [end if end >= 0 else len(text)]
        items = [text[label.end() : stop] for label, stop in zip(labels, ends, strict=True)]
        before = _HEADER.sub("", text[: labels[0].start()].rstrip()).rstrip()
        if (
            _ASKS.search(before[-40:])
            and "?" not in after
            and not any(len(item.split()) > LONGEST_CHOICE or _MARKED.search(item) for item in items)
        ):
            return before, tuple(" ".join(item.split()).rstrip(" .,;") for item in items), after
    return text, (), ""


_LABEL = re.compile(r"^[*_#]{0,3}(?:vignette|case|question)(?: \d{1,4})?[*_]{0,3} ?[:.)][*_]{0,3}\s*", re.IGNORECASE)
_QUESTION = re.compile(
    r"(?<![,;:\"“(] )(?<=[ .])(?:What|Which|Who|How|Why|Where|When|Of the following)\b[^?]{0,400}\?$"
)
"""A question after a sentence that lacks its full stop, or the space after it."""


def _cut_question(text: str, has_choices: bool) -> tuple[str, str, str]:
    """Return vignette, question (empty if there is none), and the text after the question."""
    question = next((sentence for sentence in reversed(sentences(text)) if "?" in sentence), "")
    if unstopped := _QUESTION.search(question):
        question = unstopped[0]
    if not question and has_choices:  # a sentence that the choices complete
        question = split_item(text)[1]
    before, _, after = text.rpartition(question) if question in text and question else (text, "", "")
    vignette = _LABEL.sub("", _HEADER.sub("", before.strip())).strip()
    return vignette, _LABEL.sub("", question), after.strip()


def _meant(answer: str, choices: tuple[str, ...]) -> str:
    """Return the choice that an answer names by its words, letter or number; without choices, the answer itself.

    Raises ``UsageError`` if the answer names no choice.
    """
    if choices:
        try:
            return right_option(answer, dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", choices, strict=False)), 1)
        except RowError as error:
            raise UsageError(f"It is not clear which choice is right: {error}.") from error
    words = re.sub(r"^[(\[]?[A-Ja-j1-9][).:\]]+\s*", "", answer)
    if len(words) < 2:
        raise UsageError(f"The answer is given as '{answer}', but there are no choices: write its name.")
    return words


def case_of(pasted: Pasted, title: str = "") -> Case:
    """Build a case from the pasted parts, as the user has edited them.

    The default ``title`` is the beginning of the vignette. The answer may be a letter. Raises ``UsageError``
    if vignette or answer is missing, the answer is none of the choices, or two choices are equal.
    """
    vignette = pasted.vignette.strip()
    choices = tuple(choice.strip() for choice in pasted.choices if choice.strip())
    if not vignette:
        raise UsageError("There is no vignette: paste the patient's story, not only the question.")
    if len({choice.lower() for choice in choices}) < len(choices):
        raise UsageError("Two choices are equal: name each choice once.")
    if not pasted.answer.strip():
        raise UsageError("There is no answer: name the right diagnosis.")
    age, sex = read_demographics(vignette)
    words = re.sub(r"[/:\x00-\x1f]+", " ", title.strip() or vignette[:200])
    name = shorten(words, LONGEST_TITLE, placeholder="").strip(" .,;")
    try:
        return Case(
            case_key=f"{DATASET}/{name or 'without a title'}",
            dataset=DATASET,
            specialty=pasted.specialty,
            vignette=vignette,
            question=pasted.question.strip() or FINAL_QUESTION,
            choices=choices,
            answer=_meant(pasted.answer.strip(), choices),
            age=age,
            sex=sex,
            source="pasted",
        )
    except ValidationError as error:
        raise UsageError(f"This cannot be a case: {error.errors()[0]['msg']}.") from error
