"""Recognises what a researcher pastes: vignette, question, choices, answer, and the vignette's sections.

Nothing is guessed silently: whatever is missing or was left out is said in ``notes``, and every part can be edited
before ``case_of`` makes a case of it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pydantic import ValidationError

from core.case import FINAL_QUESTION, SPECIALTIES, Case
from core.debugger.paste_layouts import Pasted, cut_answer, find_choices, meant, read_row
from core.errors import UsageError
from core.text.case_items import complaint_of
from core.text.demographics import age_and_sex, patient_demographics, read_demographics
from core.text.questions import split_question
from core.text.sections import sentences

DATASET = "pasted"
LONGEST_TITLE = 80
"""Characters of a pasted case's title."""
LONG_WORDS = 2_000
"""A vignette of more words than this gets a note."""

_LABEL = re.compile(
    r"^[*_#\s]*(?P<label>(?:clinical |case |patient )?(?:vignette|case|scenario|context|stem)(?: presentation| report)?"
    r"(?: (?:no\.? ?)?\d+)?|(?:question|q)(?: ?(?:no\.? ?)?\d+)?|task)[*_\s]*(?:[:.)]|\s[-–—]\s)[*_]*\s*(?P<rest>.*)$",
    re.IGNORECASE,
)
_ASKED = re.compile(r"(?<=[^.?!:,;\"“(] )(?:What|Which|Who|Whose|How|Why|Where|When|Of the following)\b[^?]*\?$")
"""A question that follows a sentence without its full stop."""
_QUESTION_LABEL = re.compile(r"q|task", re.IGNORECASE)


def read_pasted(text: str) -> Pasted:
    """Recognise the parts of pasted text, JSON or CSV; never raises for any text."""
    found = read_row(text) or _read_text(cleaned(text))
    # a sentence for each part that was not recognised or looks wrong
    notes = list(found.notes)
    if not (found.vignette or found.question or found.choices or found.answer):
        notes.append("Nothing was pasted: paste a vignette, with its question, choices and answer if there are any.")
    else:
        words = len(found.vignette.split())
        if not found.vignette:
            notes.append("No vignette was recognised: paste the patient's story too.")
        if not found.question:
            notes.append(f"No question was recognised: '{FINAL_QUESTION}' will be asked.")
        if not found.choices:
            notes.append("No choices were recognised: name them, or only free-response arms can be run.")
        if found.answer is None:
            notes.append("No answer was recognised: name it.")
        if words > LONG_WORDS:
            notes.append(f"The vignette has {words:,} words: check that it is one case.")
    return replace(found, question=found.question or FINAL_QUESTION, notes=tuple(notes))


def _read_text(text: str) -> Pasted:
    cut = cut_answer(text)
    notes = list(cut.notes)
    found = find_choices(cut.text)
    body, answer = cut.text, cut.answer
    choices: tuple[str, ...] = ()
    if found is not None:
        body, choices, answer = found.before, found.choices, cut.answer or found.starred
        notes += ["The lines after the question were taken for choices."] if found.bare else []
        if found.after and "?" in found.after and "?" not in body:
            body = f"{body}\n{found.after}".strip()
        elif found.after:
            notes.append("What follows the choices was left out.")
    vignette, question = _split(body, bool(choices))
    if answer is not None:
        answer, note = meant(answer, choices)
        notes += [note] if note else []
    return Pasted(vignette, question, choices, answer, None, tuple(notes))


def _split(body: str, has_choices: bool) -> tuple[str, str]:
    """Return (vignette, question), the question empty where there is none, and both without their labels."""
    story: list[str] = []
    asked: list[str] = []
    target = story
    for line in body.split("\n"):
        label = _LABEL.match(line)
        if label and _QUESTION_LABEL.match(label["label"]) and any(part.strip() for part in story):
            target = asked
        elif label and not _QUESTION_LABEL.match(label["label"]) and asked:
            target = story
        target.append(label["rest"] if label else line)
    vignette, question = "\n".join(story).strip(), " ".join(" ".join(asked).split())
    return (vignette, question) if question else _cut_question(vignette, has_choices)


def _cut_question(body: str, has_choices: bool) -> tuple[str, str]:
    """Cut the question: the last sentence, a line of its own, or as ``split_question`` finds it."""
    last = (sentences(body) or [""])[-1]
    unstopped = _ASKED.search(last)
    last = unstopped[0] if unstopped else last
    if "?" in last or (has_choices and last.endswith((":", "…", "..."))):
        return body[: body.rindex(last)].strip(), last
    lines = [line.strip() for line in body.split("\n")]
    for number in range(len(lines) - 1, -1, -1):
        if "?" in lines[number] and len(sentences(lines[number])) == 1:
            return "\n".join(lines[:number] + lines[number + 1 :]).strip(), lines[number]
    vignette, question = split_question(body)
    return (vignette, question) if vignette != body else (body, "")


def case_of(pasted: Pasted, title: str = "") -> Case:
    """Make a case of what was recognised, as the user has edited it.

    It is known by its ``title``, which is made of the vignette where none is given (``title_of``). The answer may be
    given as a letter. Raises ``UsageError`` where vignette or answer is missing, the answer is none
    of the choices, a choice stands twice, or the specialty is unknown.
    """
    story, given = pasted.vignette.strip(), pasted.answer or ""
    named = tuple(choice.strip() for choice in pasted.choices if choice.strip())
    specialty = pasted.specialty or "Other"
    if not story:
        raise UsageError("There is no vignette: paste the patient's story, not only the question.")
    if specialty not in SPECIALTIES:
        raise UsageError(f"The specialty '{specialty}' is unknown: choose one of {', '.join(SPECIALTIES)}.")
    twice = [choice for choice in named if [c.lower() for c in named].count(choice.lower()) > 1]
    if twice:
        raise UsageError(f"The choice '{twice[0]}' stands there twice: each choice is named once.")
    if not given.strip():
        raise UsageError("There is no answer: name the right diagnosis.")
    right, note = meant(given, named)  # in the words of the choices
    if right is None or (named and right not in named):
        raise UsageError(note or f"The answer '{given}' is none of the choices: correct it.")
    age, sex = read_demographics(story)
    try:
        made = Case(
            case_key=f"{DATASET}/",
            dataset=DATASET,
            specialty=specialty,
            vignette=story,
            question=pasted.question.strip() or FINAL_QUESTION,
            choices=named,
            answer=right,
            age=age,
            sex=sex,
            source="pasted",
        )
    except ValidationError as error:
        raise UsageError(f"This cannot be a case: {error.errors()[0]['msg']}.") from error
    words = " ".join(_APART.sub(" ", title).split())[:LONGEST_TITLE].strip()
    return made.model_copy(update={"case_key": f"{DATASET}/{words or title_of(made)}"})


def title_of(case: Case) -> str:
    """Return what a pasted case is called: its title, else its age, sex and complaint, or its first words."""
    named = case.case_key.partition("/")[2]
    if named and not _UNNAMED.fullmatch(named):
        return named
    age, _, sex = age_and_sex(case).rpartition(", ")
    if not age and sex.endswith(" old"):
        age, sex = sex, ""
    young = (patient_demographics(case)[0] or _GROWN) < _GROWN
    person = {"female": "girl" if young else "woman", "male": "boy" if young else "man"}.get(sex, "")
    who = " ".join(part for part in (_OLD.sub(r"-\1-old", age), person) if part)
    complaint = complaint_of(case.model_copy(update={"vignette": case.vignette[:_READ], "profile": None}))
    words = case.vignette[:_READ].split()
    title = f"{who}, {complaint}" if who and complaint else complaint or " ".join(words[:_FIRST_WORDS])
    return " ".join(_APART.sub(" ", title).split())[:LONGEST_TITLE].strip(" .,;")


_APART = re.compile(r"[/:\x00-\x1f]+")
"""What tells the parts of a case's key and of a case set's name apart: no title has it."""
_UNNAMED = re.compile(r"[0-9a-f]{8}")
"""The key of a pasted case of before 0.3.0, when it was known by its content."""
_OLD = re.compile(r" (year|month|day)s old")
_GROWN = 18.0
_READ = 600
"""Characters of a vignette in which a title is looked for."""
_FIRST_WORDS = 8


_BLANKS = dict.fromkeys(
    map(ord, "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t\f\v"),
    " ",
)
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff\u00ad\x00"), None)
_BREAKS = re.compile(r"\r\n|[\r\u2028\u2029\x85]")
_WRAPPED_FROM, _WRAPPED_TO = 60, 130
"""Lengths between which a line looks like one of a block broken at a fixed width."""
_ITEM = re.compile(r"^[*_]{0,2}(?:[-*•–▪◦·]\s|[(\[]?(?:[A-Ja-j]|\d{1,2})[)\].:]\s|[A-Z][A-Za-z0-9 ]{1,30}:)")
_LONE_LETTER = re.compile(r"(?m)^\(?([A-J])[.):]?\n+(?=\S)(?!\(?[A-J][.):]?$)")


def cleaned(text: str) -> str:
    """Return the text with plain line ends and blanks, unbroken paragraphs, and at most one empty line in a row."""
    plain = _BREAKS.sub("\n", text.translate(_INVISIBLE)).translate(_BLANKS)
    lines = [re.sub(r" {2,}", " ", line).strip() for line in plain.split("\n")]
    joined = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    joined = _LONE_LETTER.sub(r"\1. ", joined)
    return "\n\n".join(_unbroken(paragraph) for paragraph in joined.split("\n\n"))


def _unbroken(paragraph: str) -> str:
    """Join the lines of a block that was broken at a fixed width; items of a list keep their lines."""
    kept: list[str] = []
    width = 0
    for line in paragraph.split("\n"):
        complete = kept and (kept[-1].endswith("?") or (kept[-1].endswith(":") and not line[:1].islower()))
        broken = kept and not complete and _WRAPPED_FROM <= width <= _WRAPPED_TO
        if broken and not _ITEM.match(line):
            hyphenated = re.search(r"\w[-‐‑]$", kept[-1]) and line[:1].islower()
            kept[-1] = f"{kept[-1]}{'' if hyphenated else ' '}{line}"
        else:
            kept.append(line)
        width = len(line)
    return "\n".join(kept)
