"""The two rules that judge a multiple-choice response.

``mcq_loose`` is the paper's: the answer occurs in the response, ignoring case; a response that lists every choice
therefore counts as correct. ``mcq_strict`` looks for the one choice that the response commits to, even if it discusses
others; several are ``multiple``, none is ``no_diagnosis``.

The strict rule replaces every named choice, and every letter that can stand for one, by a mark; removes what the text
denies or sets aside; then searches from the end for a stated answer (``the answer is …``, ``… is correct``,
``boxed{…}``), then for a choice alone in a line or in bold, then for names, then for letters. A letter next to a name
is its label; if it is the letter of another choice, the response names both.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from core.agents import choice_words as words
from core.agents.base import GraderResult
from core.events import Verdict
from core.knowledge.spelling import american

STRICT_VERSION = 3
"""Version of the strict rule. ``job regrade --grader rules`` updates old verdicts.

1 took every name for a choice; 2 let the explanation of an answer change it.
"""


def judge_loose(response: str, answer: str) -> GraderResult:
    """Grade by the paper's substring rule."""
    verdict: Verdict = "correct" if answer.lower() in response.lower() else "incorrect"
    return GraderResult("mcq_loose", None, verdict)


def judge_strict(response: str, answer: str, choices: Sequence[str], *, lettered: bool = True) -> GraderResult:
    """Grade by the one choice that the response commits to; none or several are not correct.

    ``lettered`` says whether the question listed the choices with letters.
    """
    names = named_choices(response, choices, lettered=lettered)
    verdict: Verdict = "multiple" if names else "no_diagnosis"
    if len(names) == 1:
        verdict = "correct" if names[0].lower() == answer.lower() else "incorrect"
    return GraderResult("mcq_strict", ", ".join(names) if names else None, verdict, rule_version=STRICT_VERSION)


def named_choices(response: str, choices: Sequence[str], *, lettered: bool = True) -> list[str]:
    """Return the choice that a response commits to; several if it leaves that open; empty if it names none.

    A name inside a longer name of the response ("migraine" in "migraine with aura") does not count by itself. Letters
    count only if the question listed the choices with letters (``lettered``); a letter next to the name of another
    choice counts as two choices.
    """
    patterns = _choices(tuple(choices), lettered)
    bare = response.strip(_TRIM).lower()
    at = patterns.exact.get(bare)
    if at is None:
        head, colon, tail = bare.partition(":")
        if colon and head.rstrip("*_ ") in _HEADS:
            at = patterns.exact.get(tail.strip(_TRIM))
    return [choices[at]] if at is not None else [choices[n] for n in _chosen_positions(response, patterns)]


# --------------------------------------------------------------------------------------------- choices and their names

_TRIM = " \t\r\n.*_\"'`()[]"
_HEADS = frozenset({"final diagnosis", "diagnosis", "answer", "final answer", "choice", "option"})
_LETTERS = 26


@dataclass(frozen=True)
class _Choices:
    """Search terms of the choices: ``names`` are (position, name); ``exact`` maps whole responses to positions."""

    count: int
    names: tuple[tuple[int, str], ...]
    exact: dict[str, int]
    letters: dict[str, int]


@functools.lru_cache(maxsize=1024)
def _choices(choices: tuple[str, ...], lettered: bool) -> _Choices:
    names = {n: _name(choice) for n, choice in enumerate(choices)}
    letters = {chr(ord("A") + n): n for n in range(len(choices))} if lettered and len(choices) <= _LETTERS else {}
    # a choice that is a letter itself (a blood group) is meant by that letter everywhere
    letters |= {name.upper(): n for n, name in names.items() if _is_letter(name)}
    terms = [(n, name) for n, name in names.items() if name and not _is_letter(name)]
    taken = set(names.values())
    for n, name in names.items():
        short = _PAREN_AT_END.sub("", name)  # the name without the abbreviation after it
        if len(short) > 3 and short not in taken and sum(other.startswith(short) for other in taken) == 1:
            terms.append((n, short))
    respelled = [(n, american(name)) for n, name in terms]
    terms += [pair for pair in respelled if pair not in terms and pair[1] not in taken]
    exact = {letter.lower(): n for letter, n in letters.items()}
    exact |= {name.strip(_TRIM): n for n, name in reversed(terms) if name.strip(_TRIM)}
    return _Choices(len(choices), tuple(terms), exact, letters)


def _is_letter(name: str) -> bool:
    return len(name) == 1 and name.isascii() and name.isalpha()


_PAREN_AT_END = re.compile(r" ?\([^()]*\)$")


def _name(choice: str) -> str:
    """Return the search term of a choice; a single quote at one end is an error of the data set."""
    name = _plain(choice).lower().replace("\n", " ").strip()
    if name.count('"') % 2:
        name = name.strip('"').strip()
    return name.rstrip(".").rstrip() or name


_SIGNS = {
    "’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "「": '"', "」": '"', "『": '"', "』": '"',
    "‐": "-", "‑": "-", "‒": "-", "–": "-", "−": "-", "—": " - ", "×": "x", "、": ", ", "。": ". ", "【": "[",
    "】": "]", "→": " -> ", "⇒": " -> ", "\u200b": "", "\ufeff": "",
}  # fmt: skip


_NO_SIGNS = re.compile("[\u0300-\u036f\ue000-\uf8ff]+")
"""Separate accents, and the characters that serve as marks."""


def _plain(text: str) -> str:
    """Return a text with one kind of quotes, dashes and spaces, and without accents."""
    if not text.isascii():
        for sign in _SIGNS.keys() & set(text):
            text = text.replace(sign, _SIGNS[sign])
        text = _NO_SIGNS.sub("", unicodedata.normalize("NFKD", text))
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if not line.isspace() and line)


def _whole_words(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of ``name`` in ``text`` without a letter, digit or underscore next to them."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        whole = not (start and _in_word(text[start - 1])) and not (end < len(text) and _in_word(text[end]))
        if whole:
            yield start, end
        start = text.find(name, end if whole and name else start + 1)


def _in_word(character: str) -> bool:
    """Say whether a character continues a word; a character of a script without spaces does not."""
    return (character.isalnum() and character < "\u2e80") or character == "_"


def _outermost(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans that are not inside another, in order."""
    reached = -1
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end > reached:
            yield start, end
            reached = end


# ------------------------------------------------------------------------------------------------- reading a response
# A mark is a character of the private use area. Named choices, single letters, and letters in a clear form ("(B)",
# "option B") have marks of different ranges. Every quantifier is bounded and every search has a window, so the time is
# linear in the length of a response.

_NAME, _LONE, _FORMED = 0xE000, 0xF000, 0xF020
_MAX_NAMES = 0xF00
_WINDOW = 160
"""Characters before and after a choice that are searched for a statement or denial."""
_MAX_HEADINGS = 8
"""Headings that may begin the explanation of an answer."""
_MAX_GROUPS = 200
"""Mentions that are read from the beginning of a response, and from its end."""


def _chosen_positions(response: str, choices: _Choices) -> list[int]:
    text = _plain(response)
    headings: Iterable[re.Match[str]] = ()
    if words.HEADING.search(text, 1):  # few responses have a heading, and the search for labels takes longer
        after_label = max((label.end() for label in words.ANSWERS.finditer(text)), default=1)
        headings = itertools.islice(words.HEADING.finditer(text, after_label), _MAX_HEADINGS)
    for heading in headings:
        marked, mentioned = _mark_names(text[: heading.start()], choices)
        stated = _Reading(marked, mentioned, choices, bool(choices.letters)).stated()
        if len(stated) == 1:  # the rest explains the answer
            return stated
    marked, mentioned = _mark_names(text, choices)
    # a quick test that may be wrongly true, never wrongly false
    lettered = bool(choices.letters) and (
        len(marked) < 60 or words.CAPITAL.search(marked) is not None or words.SMALL.search(marked) is not None
    )
    if len(mentioned) == 1 and not lettered and words.DOUBTING.isdisjoint(marked.lower().split()):
        return mentioned  # most responses end here
    positions = _Reading(marked, mentioned, choices, lettered).result() if mentioned or lettered else []
    return positions or (list(range(choices.count)) if not mentioned and words.ALL.search(marked) else [])


def _mark_names(text: str, choices: _Choices) -> tuple[str, list[int]]:
    """Return a text with a mark in place of every named choice, and the choices of the marks."""
    text = american(text)
    lowered = text.lower()
    if len(lowered) != len(text):
        text = lowered
    flat = lowered.replace("\n", " ")
    present = [pair for pair in choices.names if pair[1] in flat]
    if not present:
        return text, []
    spans = {span: n for n, name in present for span in _whole_words(name, flat) if not _is_part(flat, *span)}
    marks: dict[int, str] = {}
    pieces, reached = [], 0
    for start, end in _outermost(spans):
        mark = marks.setdefault(spans[start, end], chr(_NAME + min(len(marks), _MAX_NAMES)))
        pieces += [text[reached:start], mark]
        reached = end
        other = _OR_OTHER.match(flat, end)  # "Hemophilia A or B" names both
        if other is not None:
            stem = flat[start:end].rpartition(" ")[0]
            twin = choices.exact.get(f"{stem} {other[2]}") if stem else None
            if twin is not None:
                pieces += [other[1], marks.setdefault(twin, chr(_NAME + min(len(marks), _MAX_NAMES)))]
                reached = other.end()
    return "".join([*pieces, text[reached:]]), list(marks)


_OR_OTHER = re.compile(r"( (?:or|and|vs\.?|and/or) )([a-z0-9]{1,3})\b")


def _is_part(text: str, start: int, end: int) -> bool:
    """Say whether a name is part of a hyphenated word (non-Hodgkin) or of a decimal number."""
    if start > 1 and text[start - 1] == "-" and text[start - 2].isalpha():
        return True
    if start > 1 and text[start].isdigit() and text[start - 1] in ".," and text[start - 2].isdigit():
        return True
    return end + 1 < len(text) and text[end - 1].isdigit() and text[end] in ".," and text[end + 1].isdigit()


class _Reading:
    """A response that needs the full search."""

    def __init__(self, marked: str, mentioned: list[int], choices: _Choices, lettered: bool) -> None:
        self._mentioned, self._choices = mentioned, choices
        self._at_odds: set[str] = set()
        if lettered:
            marked = _mark_letters(marked, choices)
        if "<" in marked:
            marked = words.TAG.sub(_tag, marked)
        if "\\" in marked:
            marked = words.COMMAND.sub("", marked.replace("\\boxed{", "\nfinal answer: "))
        self._bold = [marks for bold in words.BOLD.findall(marked) if (marks := _marks(bold))] if "**" in marked else []
        text = marked.lower()
        for sign in words.MARKUP:  # several times as fast as str.translate
            text = text.replace(sign, " " if sign in "_|" else "")
        if "  " in text:
            text = words.SPACES.sub(" ", text)
        if "\n" in text:
            text = words.HEADED.sub(r"\1: ", text.replace(":\n", ": "))
        if "if " in text:
            text = words.FORCED.sub("", text)
        self._text = words.LABEL.sub(self._label, text) if lettered else text
        groups = [*words.GROUP.finditer(self._text)]
        if len(groups) > 2 * _MAX_GROUPS:
            groups = groups[:_MAX_GROUPS] + groups[-_MAX_GROUPS:]
        self._mentions = [_Group(match, self._text) for match in groups]

    def result(self) -> list[int]:
        return self.stated() or self._positions(self._pointed_at() or self._remaining())

    def stated(self) -> list[int]:
        """Return the choices that the response states, or that are alone in a line."""
        return self._positions(self._ticked() or self._labelled() or self._stated() or self._apart())

    def _positions(self, marks: Iterable[str]) -> list[int]:
        return list(dict.fromkeys(map(self._position, marks)))

    def _ticked(self) -> list[str]:
        """Return the choices of lines with a tick, unless all lines have one."""
        if not words.TICK.search(self._text):
            return []
        lines = [line for line in self._text.split("\n") if words.MARK.search(line)]
        ticked = [_marks(line)[0] for line in lines if words.TICK.search(line)]
        return ticked if len(ticked) < len(lines) or len(lines) == 1 else []

    @functools.cached_property
    def _groups(self) -> list[_Group]:
        return [group for group in self._mentions if not self._is_struck(group)]

    def _position(self, mark: str) -> int:
        code = ord(mark)
        if code < _LONE:
            return self._mentioned[code - _NAME]
        return self._choices.letters[chr(ord("A") + (code - _LONE) % (_FORMED - _LONE))]

    def _label(self, match: re.Match[str]) -> str:
        """Return a name without its letter; with it if the letter belongs to another choice, so that both count.

        In "The answer is B. Migraine lasts longer" the letter ends a sentence and is no label.
        """
        marks = _marks(match[0])
        if len({self._position(mark) for mark in marks}) == 1:
            return min(marks)
        if ". " in match[0] and words.GOES_ON.match(match.string, match.end()):
            return match[0]
        self._at_odds.update(marks)
        return ", ".join(marks)

    def _is_struck(self, group: _Group) -> bool:
        """Say whether the text denies a mention or sets it aside; in "A, B is wrong" only the last choice."""
        before = group.before
        if not words.DENYING.isdisjoint(words.WORD.findall(before)) and words.DENIED_BEFORE.search(before):
            return True
        denial = (
            None if not _tells(group.then) else words.DENIED_AFTER.match(self._text, group.end, group.end + _WINDOW)
        )
        if denial is None:
            return False
        if len(group.marks) > 1 and words.SINGULAR.match(denial[0]) and not words.JOINED.search(group.text):
            group.marks.pop()
            return False
        return True

    def _stated(self) -> list[str]:
        conditional: list[str] = []
        for group in reversed(self._mentions):
            if not self._states(group) or self._is_struck(group):
                continue
            if words.ONLY_IF.match(
                self._text, group.end
            ):  # "X (if …)": the text may state another choice for another condition
                conditional += group.marks
                continue
            if conditional:
                break
            return self._with_others(group, len(self._text))
        return conditional

    def _labelled(self) -> list[str]:
        """Return the last choice with the label of an answer ("Answer: B"), or the only choice of the first line.

        No later sentence changes it unless it takes the answer back ("Wait, …").
        """
        for group in reversed(self._mentions):
            label = words.LABELLED.fullmatch(group.before)
            opening = group is self._mentions[0] and words.OPENING_LINE.match(self._text)
            if not (label or opening) or self._is_struck(group) or words.ONLY_IF.match(self._text, group.end):
                continue
            takes_back = words.TAKES_BACK if label and label["sign"] else words.TAKES_BACK_OR_TURNS
            return [] if takes_back.search(self._text, group.end) else self._with_others(group, group.start)
        return []

    def _with_others(self, group: _Group, end: int) -> list[str]:
        """Return a stated choice, with one in the next line, and with a name before ``end`` that differs from it."""
        more = words.NEXT_LINE.match(self._text, group.end, group.end + _WINDOW)
        stated = group.marks + (_marks(more[0]) if more else [])
        return stated if ord(stated[0]) < _LONE else self._unless_at_odds(stated, end)

    def _states(self, group: _Group) -> bool:
        before = group.before
        if before and (
            group.last in words.LEADING or not group.last.isascii()
        ):  # every statement passes this quick test
            statement = words.STATES.search(before) or words.CHOOSES.search(before)
            if statement and not words.CONDITION.search(before):
                start = statement.start()
                near = max(start - 20, before.rfind(", ", 0, start), before.rfind(")", 0, start), 0)
                if not words.BLUNTS.search(before, near):
                    return True
        if not _tells(group.then):
            return False
        after = words.IS_BEST.match(self._text, group.end, group.end + _WINDOW)
        return after is not None and not words.BLUNTS.search(after[0]) and not words.CONDITION.search(before)

    def _unless_at_odds(self, letters: list[str], end: int) -> list[str]:
        """Return stated letters, with the name of another choice if that name stands alone before ``end``."""
        groups = [group for group in self._groups if group.start < end and self._is_alone(group)]
        alone = [mark for group in groups for mark in group.marks]
        names = [mark for mark in alone if ord(mark) < _LONE]
        return letters + names if len({self._position(mark) for mark in names}) == 1 else letters

    def _is_alone(self, group: _Group) -> bool:
        after = words.ALONE_AFTER.match(self._text, group.end)
        if after is None:
            return False
        cut_off = after.end() == len(self._text) and not after[0].strip(" )]'\"")
        if cut_off and self._text.rfind("\n", 0, group.start) < self._text.rfind(". ", 0, group.start):
            return False  # the response ends in the middle of a sentence
        before = group.before
        return bool(words.ALONE_BEFORE.fullmatch(before) or words.ANNOUNCED.search(before))

    def _apart(self) -> list[str]:
        """Return the choice after a colon at the end, or the only choice alone in a line or sentence, or in bold."""
        last = self._groups[-1] if self._groups else None
        if last and words.ANNOUNCED.search(last.before) and words.LAST.match(self._text, last.end):
            return last.marks
        alone = [mark for group in self._groups if self._is_alone(group) for mark in group.marks]
        present = {mark for group in self._groups for mark in group.marks}
        bold = [mark for marks in self._bold for mark in marks if mark in present]
        for marks in (alone, bold):
            if len({self._position(mark) for mark in marks}) == 1:
                return marks[:1]
        return []

    def _pointed_at(self) -> list[str]:
        """Return the choices that the findings suggest, as the text says."""
        marks: list[str] = []
        for group in self._groups:
            before = group.before
            labels = self._text[group.end : group.end + 2] == ") " and ord(group.marks[-1]) >= _LONE
            if not labels and words.POINTS.search(before) and not words.BLUNTS.search(before):
                marks += group.marks
        return marks

    def _remaining(self) -> list[str]:
        """Return all named choices that are not denied; without names, letters in a clear form."""
        if words.NONE_FITS.search(self._text):
            return []
        marks = [mark for group in self._groups for mark in group.marks]
        if self._mentioned:
            doubtful = len(self._mentioned) > 1 or any(words.HEDGES.search(group.before) for group in self._groups)
            if doubtful and words.STATES_ANOTHER.search(self._text):
                return []
            return [mark for mark in marks if ord(mark) < _LONE or mark in self._at_odds]
        joined = [mark for group in self._groups if len(group.marks) > 1 for mark in group.marks]
        opening = words.OPENING.match(self._text)
        at_start = self._groups[0].marks if opening and self._groups and self._groups[0].start < opening.end() else []
        return [mark for mark in marks if ord(mark) >= _FORMED] or joined or at_start


class _Group:
    """Choices mentioned together ("A, B or C"), with the words around them."""

    __slots__ = ("before", "end", "last", "marks", "start", "text", "then")

    def __init__(self, match: re.Match[str], text: str) -> None:
        self.start, self.end = match.span()
        self.text = match[0]
        self.marks = _marks(self.text)
        window = text[max(0, self.start - _WINDOW) : self.start]
        self.before = window[max(map(window.rfind, _SENTENCE_ENDS)) + 1 :]
        """The words before the group in its sentence."""
        words_before = self.before.rstrip(" \n'(")
        self.last = (
            "" if words_before[-1:] in _SIGNS_OF_IS else words_before.rstrip(_AROUND).rpartition(" ")[2].lstrip(_AROUND)
        )
        """The last word before the group; empty after a colon or similar sign."""
        then = _THEN.match(text, self.end)
        self.then = then[1] if then else ""
        """The next word or sign."""


_SENTENCE_ENDS = ("\n", ". ", "! ", "? ", "; ")
_AROUND = " \n'([,:*-"
_SIGNS_OF_IS = (":", "-", "=", ">", "")
_THEN = re.compile(r"[ ,:)'\"-]{0,4}([a-z']+|.)")


def _tells(word: str) -> bool:
    return word in words.TELLING or not word.isascii()


def _marks(text: str) -> list[str]:
    return words.MARK.findall(text)


def _tag(match: re.Match[str]) -> str:
    return "\n" if match[1] else f"\n{match[2]}: " if words.NOUN_AT.search(match[2].lower()) else ""


# ----------------------------------------------------------------------------------------------------------- letters


def _mark_letters(text: str, choices: _Choices) -> str:
    """Return a text with marks in place of single letters that are no article, pronoun or part of a name."""
    formed, label, stated, lone = _letter_patterns("".join(sorted(choices.letters)))
    text = formed.sub(lambda match: _with_mark(match, _FORMED), text)
    for pattern in (label, stated):
        text = pattern.sub(lambda match: _with_mark(match, _LONE), text)
    marked: set[int] = set()

    def mark_lone(match: re.Match[str]) -> str:
        if not _follows_fit(text, match.start(), marked):
            return match[0]
        marked.add(match.start())
        return _with_mark(match, _LONE)

    return lone.sub(mark_lone, text)


def _follows_fit(text: str, start: int, marked: set[int]) -> bool:
    """Say whether the word before a letter lets it stand for a choice ("is B", but not "vitamin B")."""
    before = words.WORD_BEFORE.search(text, max(0, start - 24), start)
    if before is None:
        return True
    word = before[1].lower()
    if len(word) == 1 and before.start() in marked:
        return True
    if word in ("or", "and", "nor"):  # in "B or C" the second letter follows the first
        first = before.start() - 1
        return first < 0 or not text[first].isascii() or first in marked or not text[first].isalnum()
    return word in words.BEFORE_LETTER


def _with_mark(match: re.Match[str], base: int) -> str:
    place = match.start(match.lastindex or 0) - match.start()
    mark = chr(base + ord(match[match.lastindex or 0].upper()) - ord("A"))
    return match[0][:place] + mark + match[0][place + 1 :]


@functools.lru_cache(maxsize=64)
def _letter_patterns(letters: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of letters in a clear form, as labels, after an announcement, and alone."""
    either = f"[{letters}{letters.lower()}]"
    no_word_follows = rf"(?![A-Za-z0-9'+%]|-\w|\.\w|\. [a-z]| (?!(?:{words.AFTER_LETTER})\b)\w)"
    formed = re.compile(
        r"(?i:\b(?:option|choice|letter|alternative|opcion|opzione)s?)"
        rf"[ :(\[\"'*]{{1,4}}({either}){no_word_follows}[)\]\"']?"
        rf"|(?<!\w)[(\[]({either})[)\]](?!\w)"
        rf"|(?m:^[ >#*(\[\"'-]{{0,6}})({either})(?m:[ .*)\]\"'!]{{0,6}}$)"
        rf"|\*\*[\"'(\[]{{0,3}}({either})[\"')\].:]{{0,3}}\*\*"
        rf"|(?i:(?<![\w'])(?:{words.OTHER_LANGUAGES}|(?m:^)\W{{0,4}}l[ae] ))"
        rf"(?:([{letters}]){no_word_follows}|([{letters.lower()}])(?=[.!)\"']{{0,2}} ?$))"
    )
    label = re.compile(rf"(?m:^[ >#*-]{{0,6}})\(?({either})(?:[.:)](?= |$)(?! [a-z])|\)(?= ))")
    stated = re.compile(
        r"(?i:\b(?:answer|diagnosis|choice|option|response)(?: is|:)|:|\bis|=|[是为は选]|->)"
        rf"[ \"'(*]{{0,4}}([{letters.lower()}])"
        rf"(?=[)\"'*.,;!]{{0,3}}(?: ?$|\n|[.,;!)] ))"
    )
    # the pronoun "I" is no choice: the letter must end a sentence or follow an announcement
    lone = re.compile(
        rf"(?<![A-Za-z0-9'.+-])(?<![Nn]/)([{letters}])(?<!I(?!\W{{0,3}}(?:\Z|\n|\. ))(?<!is I)(?<!be I)(?<!: I))"
        rf"{no_word_follows}"
    )
    return formed, label, stated, lone
