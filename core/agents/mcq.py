"""The two rules that judge a multiple-choice response.

``mcq_loose`` is the paper's: the answer, lower-cased, occurs in the response, lower-cased; it also counts a
response that lists every choice. ``mcq_strict`` wants the one choice that the response commits to, whatever others it
discusses, and says ``multiple`` where there are several and ``no_diagnosis`` where there is none.

How the strict rule reads: every choice that is named, and every letter that can stand for one, becomes a mark in the
text; what the text denies or sets aside is struck out; then the text is searched from its end for a stated answer
(``the answer is …``, ``… is correct``, ``\\boxed{…}``), then for what stands by itself or in bold, then for names, then
for letters. A letter beside a name is its label; where it is another choice's letter, the response names two.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.agents.base import Judgement
from core.events import Verdict

STRICT_VERSION = 2
"""Of the strict rule; 1 took every name for a choice. Verdicts by an earlier one are brought up to date by
``regrade --rules``."""


def judge_loose(response: str, answer: str) -> Judgement:
    """Judge by the paper's substring rule."""
    verdict: Verdict = "correct" if answer.lower() in response.lower() else "incorrect"
    return Judgement("mcq_loose", None, verdict)


def judge_strict(response: str, answer: str, choices: Sequence[str], *, lettered: bool = True) -> Judgement:
    """Judge by the one choice that the response commits to; none or several are no correct answer.

    ``lettered`` says whether the choices were shown with letters.
    """
    named = named_choices(response, choices, lettered=lettered)
    if len(named) > 1:
        return Judgement("mcq_strict", ", ".join(named), "multiple", rule_version=STRICT_VERSION)
    if not named:
        return Judgement("mcq_strict", None, "no_diagnosis", rule_version=STRICT_VERSION)
    verdict: Verdict = "correct" if named[0].lower() == answer.lower() else "incorrect"
    return Judgement("mcq_strict", named[0], verdict, rule_version=STRICT_VERSION)


def named_choices(response: str, choices: Sequence[str], *, lettered: bool = True) -> list[str]:
    """Return the choice that a response commits to; several where it leaves that open, none where it names none.

    A name inside a longer name that is also there ("migraine" in "migraine with aura") does not count by itself. Where
    the choices were shown without letters (``lettered`` is false), letters stand for nothing; else a letter beside
    another choice's name are two choices.
    """
    known = _choices(tuple(choices), lettered)
    bare = response.strip(_TRIM).lower()
    at = known.exact.get(bare)
    if at is None:
        head, colon, rest = bare.partition(":")
        if colon and head.rstrip("*_ ") in _HEADS:
            at = known.exact.get(rest.strip(_TRIM))
    return [choices[at]] if at is not None else [choices[n] for n in _read(response, known)]


# --------------------------------------------------------------------------------------------- choices and their names

_TRIM = " \t\r\n.*_\"'`()[]"
_HEADS = frozenset({"final diagnosis", "diagnosis", "answer", "final answer", "choice", "option"})
_LETTERS = 26


@dataclass(frozen=True)
class _Choices:
    """Choices as they are looked for: ``names`` has (position, name), ``exact`` what a whole response may be."""

    count: int
    names: tuple[tuple[int, str], ...]
    exact: dict[str, int]
    letters: dict[str, int]


@functools.lru_cache(maxsize=1024)
def _choices(choices: tuple[str, ...], lettered: bool) -> _Choices:
    names = {n: _name(choice) for n, choice in enumerate(choices)}
    letters = {chr(ord("A") + n): n for n in range(len(choices))} if lettered and len(choices) <= _LETTERS else {}
    # choices that are letters themselves (blood groups) are meant by them, wherever they stand
    letters |= {name.upper(): n for n, name in names.items() if len(name) == 1 and name.isalpha()}
    looked_for = [(n, name) for n, name in names.items() if len(name) > 1 or not name.isalpha() and name]
    taken = set(names.values())
    for n, name in names.items():
        short = _PAREN_AT_END.sub("", name)  # a name without the abbreviation behind it
        if len(short) > 3 and short not in taken and sum(other.startswith(short) for other in taken) == 1:
            looked_for.append((n, short))
        american = _BRITISH.sub("e", name).replace("tumour", "tumor")
        if american not in taken:
            looked_for.append((n, american))
    exact = {letter.lower(): n for letter, n in letters.items()}
    exact |= {name.strip(_TRIM): n for n, name in reversed(looked_for) if name.strip(_TRIM)}
    return _Choices(len(choices), tuple(looked_for), exact, letters)


_BRITISH = re.compile("ae(?=[cdmst])|oe(?=[adst])")
_PAREN_AT_END = re.compile(r" ?\([^()]*\)$")


def _name(choice: str) -> str:
    """Return a choice's name as it is looked for; a lone quote at an end is a slip of the data set."""
    name = _plain(choice).lower().replace("\n", " ").strip()
    if name.count('"') % 2:
        name = name.strip('"').strip()
    return name.rstrip(".").rstrip() or name


_SIGNS = {
    "’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "「": '"', "」": '"', "『": '"', "』": '"',
    "‐": "-", "‑": "-", "‒": "-", "–": "-", "−": "-", "—": " - ", "×": "x", "、": ", ", "。": ". ", "【": "[", "】": "]",
    "→": " -> ", "⇒": " -> ", "\u200b": "", "\ufeff": "",
}  # fmt: skip


_NO_SIGNS = re.compile("[\u0300-\u036f\ue000-\uf8ff]+")
"""Accents, once they stand by themselves, and characters that are marks below."""


def _plain(text: str) -> str:
    """Return a text with one kind of quotes, dashes and spaces, and without accents."""
    if not text.isascii():
        for sign in _SIGNS.keys() & set(text):
            text = text.replace(sign, _SIGNS[sign])
        text = _NO_SIGNS.sub("", unicodedata.normalize("NFKD", text))
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if not line.isspace() and line)


def _whole_words(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield where ``name`` stands in ``text`` with no letter, digit or underscore next to it."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        whole = not (start and _in_word(text[start - 1])) and not (end < len(text) and _in_word(text[end]))
        if whole:
            yield start, end
        start = text.find(name, end if whole and name else start + 1)


def _in_word(character: str) -> bool:
    """Say whether a character continues a word; scripts without spaces between words do not."""
    return (character.isalnum() and character < "\u2e80") or character == "_"


def _outermost(spans: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the spans that lie in no other."""
    kept: set[tuple[int, int]] = set()
    reached = -1
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if end > reached:
            kept.add((start, end))
            reached = end
    return kept


# ------------------------------------------------------------------------------------------------- reading a response
# A named choice is one character of the private use area, a letter that may stand for one another: a letter by itself,
# or one in a form that leaves little doubt ("(B)", "option B"). Every quantifier below is bounded, and every search
# has a window, so that time grows with the length of a response and with nothing else.

_NAME, _LONE, _FORMED = 0xE000, 0xF000, 0xF020
_MOST_NAMES = 0xF00
_X = "[\ue000-\uf03f]"
_WINDOW = 160
"""So many characters before and behind a choice are looked at for what states it or denies it."""
_MOST_GROUPS = 200
"""So many mentions are looked at from the end of a response, and as many from its beginning."""


def _read(response: str, choices: _Choices) -> list[int]:
    text = _plain(response)
    marked, named = _mark_names(text, choices)
    lettered = bool(choices.letters) and _may_hold_letter(marked)
    if len(named) == 1 and not lettered and _DOUBTING.isdisjoint(marked.lower().split()):
        return named  # as most responses are
    found = _Reading(marked, named, choices, lettered).result() if named or lettered else []
    return found or (list(range(choices.count)) if not named and _ALL.search(marked) else [])


def _mark_names(text: str, choices: _Choices) -> tuple[str, list[int]]:
    """Return a text with a mark in place of every choice that is named, and which choices the marks stand for."""
    lowered = text.lower()
    if len(lowered) != len(text):
        text = lowered
    flat = lowered.replace("\n", " ")
    there = [pair for pair in choices.names if pair[1] in flat]
    if not there:
        return text, []
    spans = {span: n for n, name in there for span in _whole_words(name, flat) if not _is_part(flat, *span)}
    marks: dict[int, str] = {}
    pieces, reached = [], 0
    for start, end in sorted(_outermost(set(spans))) if len(spans) > 1 else spans:
        mark = marks.setdefault(spans[start, end], chr(_NAME + min(len(marks), _MOST_NAMES)))
        pieces += [text[reached:start], mark]
        reached = end
        other = _OR_OTHER.match(flat, end)  # "Hemophilia A or B" names both
        if other is not None:
            stem = flat[start:end].rpartition(" ")[0]
            twin = choices.exact.get(f"{stem} {other[2]}") if stem else None
            if twin is not None:
                pieces += [other[1], marks.setdefault(twin, chr(_NAME + min(len(marks), _MOST_NAMES)))]
                reached = other.end()
    return "".join([*pieces, text[reached:]]), list(marks)


_OR_OTHER = re.compile(r"( (?:or|and|vs\.?|and/or) )([a-z0-9]{1,3})\b")


def _is_part(text: str, start: int, end: int) -> bool:
    """Say whether a name is only a part of a word with a hyphen before it (non-Hodgkin), or of a decimal."""
    if start > 1 and text[start - 1] == "-" and text[start - 2].isalpha():
        return True
    if start > 1 and text[start].isdigit() and text[start - 1] in ".," and text[start - 2].isdigit():
        return True
    return end + 1 < len(text) and text[end - 1].isdigit() and text[end] in ".," and text[end + 1].isdigit()


class _Reading:
    """One response of which it takes more than a look to say what it means."""

    def __init__(self, marked: str, named: list[int], choices: _Choices, lettered: bool) -> None:
        self._named, self._choices = named, choices
        self._at_odds: set[str] = set()
        if lettered:
            marked = _mark_letters(marked, choices)
        if "<" in marked:
            marked = _TAG.sub(_tag, marked)
        if "\\" in marked:
            marked = _COMMAND.sub("", marked.replace("\\boxed{", "\nfinal answer: "))
        self._bold = [marks for bold in _BOLD.findall(marked) if (marks := _marks(bold))] if "**" in marked else []
        text = marked.lower()
        for sign in _MARKUP:  # several times as fast as one translation
            text = text.replace(sign, " " if sign in "_|" else "")
        if "  " in text:
            text = _SPACES.sub(" ", text)
        if "\n" in text:
            text = _HEADED.sub(r"\1: ", text.replace(":\n", ": "))
        if "if " in text:
            text = _FORCED.sub("", text)
        self._text = _LABEL.sub(self._label, text) if lettered else text
        self._mentions = _groups(self._text)

    def result(self) -> list[int]:
        """Return the choices that are meant, by their positions."""
        marks = self._ticked() or self._stated() or self._apart() or self._pointed_at() or self._left()
        return list(dict.fromkeys(self._position(mark) for mark in marks))

    def _ticked(self) -> list[str]:
        """Return the choices of lines with a tick, where not all have one."""
        if not _TICK.search(self._text):
            return []
        lines = [line for line in self._text.split("\n") if _MARK.search(line)]
        ticked = [_marks(line)[0] for line in lines if _TICK.search(line)]
        return ticked if len(ticked) < len(lines) or len(lines) == 1 else []

    @functools.cached_property
    def _groups(self) -> list[_Group]:
        """Mentions that are not denied."""
        return [group for group in self._mentions if not self._is_struck(group)]

    def _position(self, mark: str) -> int:
        code = ord(mark)
        return self._named[code - _NAME] if code < _LONE else self._choices.letters[_letter_of(mark)]

    def _label(self, found: re.Match[str]) -> str:
        """Return a name without its letter; with it where that is another choice's, so that both count."""
        marks = _marks(found[0])
        if len({self._position(mark) for mark in marks}) == 1:
            return min(marks)
        self._at_odds.update(marks)
        return ", ".join(marks)

    def _is_struck(self, group: _Group) -> bool:
        """Say whether a mention is denied or set aside; of "A, B is wrong" only the last is."""
        before = group.before
        if not _DENYING.isdisjoint(_WORD.findall(before)) and _DENIED_BEFORE.search(before):
            return True
        said = None if not _tells(group.then) else _DENIED_AFTER.match(self._text, group.end, group.end + _WINDOW)
        if said is None:
            return False
        if len(group.marks) > 1 and _SINGULAR.match(said[0]) and not _JOINED.search(group.text):
            group.marks.pop()
            return False
        return True

    def _stated(self) -> list[str]:
        """Return the choices of the last statement of an answer."""
        open_: list[str] = []
        for group in reversed(self._mentions):
            if not self._states(group) or self._is_struck(group):
                continue
            if _ONLY_IF.match(self._text, group.end):  # "X (if …)": another may be stated for another condition
                open_ += group.marks
                continue
            if open_:
                break
            more = _NEXT_LINE.match(self._text, group.end, group.end + _WINDOW)
            stated = group.marks + (_marks(more[0]) if more else [])
            return stated if ord(stated[0]) < _LONE else self._unless_at_odds(stated)
        return open_

    def _states(self, group: _Group) -> bool:
        before = group.before
        if before and (group.last in _LEADING or not group.last.isascii()):  # quick, and no statement is without
            found = _STATES.search(before) or _CHOOSES.search(before)
            if found and not _CONDITION.search(before):
                start = found.start()
                near = max(start - 20, before.rfind(", ", 0, start), before.rfind(")", 0, start), 0)
                if not _BLUNTS.search(before, near):
                    return True
        if not _tells(group.then):
            return False
        after = _IS_BEST.match(self._text, group.end, group.end + _WINDOW)
        return after is not None and not _BLUNTS.search(after[0]) and not _CONDITION.search(before)

    def _unless_at_odds(self, letters: list[str]) -> list[str]:
        """Return letters that are stated, and beside them another choice's name where that stands by itself."""
        alone = [mark for group in self._groups if self._is_alone(group) for mark in group.marks]
        names = [mark for mark in alone if ord(mark) < _LONE]
        return letters + names if len({self._position(mark) for mark in names}) == 1 else letters

    def _is_alone(self, group: _Group) -> bool:
        if not _ALONE_AFTER.match(self._text, group.end):
            return False
        before = group.before
        return bool(_ALONE_BEFORE.fullmatch(before) or _ANNOUNCED.search(before))

    def _apart(self) -> list[str]:
        """Return what a colon announces at the end, or the one choice that is a line or a sentence by itself, or bold."""
        if self._groups and _ANNOUNCED.search(self._groups[-1].before):
            if _LAST.match(self._text, self._groups[-1].end):
                return self._groups[-1].marks
        alone = [mark for group in self._groups if self._is_alone(group) for mark in group.marks]
        there = {mark for group in self._groups for mark in group.marks}
        bold = [mark for marks in self._bold for mark in marks if mark in there]
        for marks in (alone, bold):
            if len({self._position(mark) for mark in marks}) == 1:
                return marks[:1]
        return []

    def _pointed_at(self) -> list[str]:
        """Return the choices that the findings are said to speak for."""
        marks: list[str] = []
        for group in self._groups:
            before = group.before
            labels = self._text[group.end : group.end + 2] == ") " and ord(group.marks[-1]) >= _LONE
            if not labels and _POINTS.search(before) and not _BLUNTS.search(before):
                marks += group.marks
        return marks

    def _left(self) -> list[str]:
        """Return all that is named and not denied; without names, letters in a form of letters."""
        if _NONE_FITS.search(self._text):
            return []
        marks = [mark for group in self._groups for mark in group.marks]
        if self._named and _STATES_ANOTHER.search(self._text):
            if len(self._named) > 1 or any(_HEDGES.search(group.before) for group in self._groups):
                return []
        if self._named:
            return [mark for mark in marks if ord(mark) < _LONE or mark in self._at_odds]
        joined = [mark for group in self._groups if len(group.marks) > 1 for mark in group.marks]
        opening = _OPENING.match(self._text)
        at_start = self._groups[0].marks if opening and self._groups and self._groups[0].start < opening.end() else []
        return [mark for mark in marks if ord(mark) >= _FORMED] or joined or at_start


class _Group:
    """Choices that are mentioned together ("A, B or C"), with the words around them."""

    __slots__ = ("before", "end", "last", "marks", "start", "text", "then")

    def __init__(self, found: re.Match[str], text: str) -> None:
        self.start, self.end = found.span()
        self.text = found[0]
        self.marks = _marks(self.text)
        window = text[max(0, self.start - _WINDOW) : self.start]
        self.before = window[max(map(window.rfind, _SENTENCE_ENDS)) + 1 :]
        """The words of the sentence before it."""
        words = self.before.rstrip(" \n'(")
        self.last = "" if words[-1:] in _SIGNS_OF_IS else words.rstrip(_AROUND).rpartition(" ")[2].lstrip(_AROUND)
        """The last of them; empty after a colon and the like."""
        then = _THEN.match(text, self.end)
        self.then = then[1] if then else ""
        """The next word, or sign."""


_SENTENCE_ENDS = ("\n", ". ", "! ", "? ", "; ")
_AROUND = " \n'([,:*-"
_SIGNS_OF_IS = (":", "-", "=", ">", "")
_THEN = re.compile(r"[ ,:)'\"-]{0,4}([a-z']+|.)")


def _groups(text: str) -> list[_Group]:
    found = [*_GROUP.finditer(text)]
    if len(found) > 2 * _MOST_GROUPS:
        found = found[:_MOST_GROUPS] + found[-_MOST_GROUPS:]
    return [_Group(at, text) for at in found]


def _tells(word: str) -> bool:
    return word in _TELLING or not word.isascii()


def _marks(text: str) -> list[str]:
    return _MARK.findall(text)


def _tag(found: re.Match[str]) -> str:
    return "\n" if found[1] else f"\n{found[2]}: " if _NOUN_AT.search(found[2].lower()) else ""


# ----------------------------------------------------------------------------------------------------------- letters


def _letter_of(mark: str) -> str:
    return chr(ord("A") + (ord(mark) - _LONE) % (_FORMED - _LONE))


def _may_hold_letter(text: str) -> bool:
    """Say whether a letter may stand for a choice; quick, and rather yes than no."""
    return len(text) < 60 or _CAPITAL.search(text) is not None or _SMALL.search(text) is not None


def _mark_letters(text: str, choices: _Choices) -> str:
    """Return a text with marks in place of letters that stand alone and are no article, pronoun or part of a name."""
    formed, label, stated, lone = _letter_patterns("".join(sorted(choices.letters)))
    text = formed.sub(lambda found: _with_mark(found, _FORMED), text)
    for pattern in (label, stated):
        text = pattern.sub(lambda found: _with_mark(found, _LONE), text)
    kept: set[int] = set()

    def mark_lone(found: re.Match[str]) -> str:
        if not _follows_fit(text, found.start(), kept):
            return found[0]
        kept.add(found.start())
        return _with_mark(found, _LONE)

    return lone.sub(mark_lone, text)


def _follows_fit(text: str, start: int, kept: set[int]) -> bool:
    """Say whether the word before a letter lets it stand for a choice ("is B", but not "vitamin B")."""
    before = _WORD_BEFORE.search(text, max(0, start - 24), start)
    if before is None:
        return True
    word = before[1].lower()
    if len(word) == 1 and before.start() in kept:
        return True
    if word in ("or", "and", "nor"):  # of "B or C" the second goes with the first
        first = before.start() - 1
        return first < 0 or not text[first].isascii() or first in kept or not text[first].isalnum()
    return word in _BEFORE_LETTER


def _with_mark(found: re.Match[str], base: int) -> str:
    place = found.start(found.lastindex or 0) - found.start()
    mark = chr(base + ord(found[found.lastindex or 0].upper()) - ord("A"))
    return found[0][:place] + mark + found[0][place + 1 :]


_CAPITAL = re.compile(r"[A-Z](?![A-Za-z0-9'])(?<![A-Za-z0-9'][A-Z])(?:(?<![AI])|(?! [a-z])|(?<=A)(?= (?:is|or|and|because|seems|fits|would)\b)|(?<=[no] [AI]))")
_SMALL = re.compile(r"[(\[\"'`*:][ (]?[a-z](?![a-z0-9'])|(?:option|choice|letter|answer is) [a-z]\b", re.IGNORECASE)
_WORD_BEFORE = re.compile(r"([A-Za-z']+),? $")
_BEFORE_LETTER = frozenset(
    "is be was are option options choice choices letter answer the pick choose chose chosen select selected with for say"
    " to between both either neither not than of as therefore so thus hence go over vs versus choosing picking ist est es"
    " e und ou et oder que antwort reponse respuesta then only but rather probably likely definitely maybe perhaps say"
    " think believe it's it him her me on from namely reflection thought thoughts toward towards zwischen entre between actually mark circle mean means correct rejected excluding exclude eliminate"
    " eliminates eliminated because since unlike against out no only remains leaves leaving try guess just diagnosis"
    .split()
)
_AFTER_LETTER = (
    "is|was|are|because|since|given|due|or|and|vs|versus|over|seems|appears|fits|would|best|but|if|rather|instead|explains"
    "|matches|may|could|can|cannot|might|remains|looks|does|do|has|which|correct|right|wrong|incorrect|nor|not|most|alone"
    "|here|in|for|on|with|at|by|when|after|this|that|it|i|then|only|too|overall|again|ist|est|es|oder|und|ou|et|y|than|as"
)  # fmt: skip


@functools.lru_cache(maxsize=64)
def _letter_patterns(letters: str) -> tuple[re.Pattern[str], ...]:
    """Return what finds letters in a form that leaves little doubt, as labels, after what announces them, and alone."""
    either = f"[{letters}{letters.lower()}]"
    no_word_follows = rf"(?![A-Za-z0-9'+%]|-\w|\.\w|\. [a-z]| (?!(?:{_AFTER_LETTER})\b)\w)"
    formed = re.compile(
        rf"(?i:\b(?:option|choice|letter|alternative|opcion|opzione)s?)[ :(\[\"'*]{{1,4}}({either}){no_word_follows}[)\]\"']?"
        rf"|(?<!\w)[(\[]({either})[)\]](?!\w)"
        rf"|(?m:^[ >#*(\[\"'-]{{0,6}})({either})(?m:[ .*)\]\"'!]{{0,6}}$)"
        rf"|\*\*[\"'(\[]{{0,3}}({either})[\"')\].:]{{0,3}}\*\*"
    )
    label = re.compile(rf"(?m:^[ >#*-]{{0,6}})\(?({either})(?:[.:)](?= |$)(?! [a-z])|\)(?= ))")
    stated = re.compile(
        rf"(?i:\b(?:answer|diagnosis|choice|option|response)(?: is|:)|:|\bis|=|[是为は选]|->)[ \"'(*]{{0,4}}([{letters.lower()}])"
        rf"(?=[)\"'*.,;!]{{0,3}}(?: ?$|\n|[.,;!)] ))"
    )
    # a speaker's "I" is no choice: it must end a sentence, or follow what announces an answer
    lone = re.compile(
        rf"(?<![A-Za-z0-9'.+-])(?<![Nn]/)([{letters}])(?<!I(?!\W{{0,3}}(?:\Z|\n|\. ))(?<!is I)(?<!be I)(?<!: I))"
        rf"{no_word_follows}"
    )
    return formed, label, stated, lone


# ---------------------------------------------------------------------------------- the words that state, and that deny

_MARK = re.compile(_X)
_WORD = re.compile(r"[a-z]+")
_NEAR = r"(?: ?\([^()\n\ue000-\uf03f]{0,60}\))?"
"""An aside in brackets, as of an abbreviation."""
_IF = r"(?: if [^.\n,;()\ue000-\uf03f]{0,60})?,?"
_AND = (
    r"(?: ?[,/&+] ?(?:(?:and|or|and/or|nor|&) )?(?:an? |the )?"
    r"| (?:and|or|and/or|nor|vs\.?|versus|oder|und|ou|et|o|y|e|v) (?:an? |the )?(?:possibly |even )?)"
)
_GROUP = re.compile(rf"{_X}(?:{_NEAR}{_IF}{_AND}(?:(?:option|choice)s? )?[(]?{_X}[)]?){{0,12}}")
_MARKUP = "_|*`#~{}$\\\""
_SPACES = re.compile(r"  +")
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z_ ]{0,24})/?>")
_COMMAND = re.compile(r"\\[A-Za-z]{1,12} ?\{?|\\[()\[\]]")
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
_LABEL = re.compile(r"[\uf000-\uf03f][ ).:,'\[(-]{0,6}[\ue000-\uefff]|[\ue000-\uefff] ?[(\[][\uf000-\uf03f][)\]]")

_NOUN = (
    r"(?:answer|diagnos[ei]s|choice|option|selection|pick|conclusion|verdict|response|impression|decision|guess"
    r"|treatment|therapy|test|step|management|drug|medication|agent|cause|etiology|organism|pathogen|explanation"
    r"|mechanism|finding|condition|disorder|disease|syndrome|intervention|study|examination|procedure|culprit"
    r"|complication|factor|result|match"
    r"|antwort|losung|reponse|respuesta|risposta|resposta|antwoord|svar|odpowiedz|ответ|答案|回答|答え|正解|选项|選択肢|정답"
    r"|diagnose|diagnostic|diagnostico|diagnosi|диагноз|诊断|診断|opcion|opzione|opcao|choix)"
)
_BEST = (
    r"(?:likely|likeliest|best|correct|right|final|appropriate|probable|indicated|suspected|suitable|accurate|preferred"
    r"|first-line|next|initial|primary|leading|top|my|recommended|definitive|consistent|plausible|strongest|fitting"
    r"|effective|specific|sensitive)"
)
_IS = (
    r"(?: ?(?::|=|->)| -(?= )| (?:is|are|was|be|remains?|ist|lautet|sind|est|sont|es|son|e|er|war)(?=[ :(\[\"'\ue000-\uf03f])"
    r"| ?(?:是|为|は|が|為|選択|应该是))"
)
_FILLERS = (
    "the|an|a|to|be|that|of|either|both|option|choice|letter|answer|number|likely|most|probably|indeed|thus|clearly"
    "|definitely|therefore|still|it|is|it's|this|actually|probable|simply|just|given|as|und|die|der|das|la|le|el|il|opcion"
    "|les|los|perform|obtain|administer|start|begin|initiate|give|due|diagnosis|presence|possibility|patient|has|have"
    "|suspected|acute|possible|possibly|follows|initially|now|best|correct|between"
)
_FILL = rf"(?:[ \n'(\[,:*-]|\b(?:{_FILLERS})\b){{0,14}}"
_STATES = re.compile(rf"(?:(?<![a-z]){_NOUN}s?(?![a-z])|\b{_BEST}\b)[^:\n\ue000-\uf03f]{{0,110}}?{_IS}{_FILL}$")
_CHOOSES = re.compile(
    r"(?:\b(?:choos(?:e|es|ing)|chose|pick(?:s|ed|ing)?|select(?:s|ed|ing)?|go(?:ing)? (?:ahead )?with|went with"
    r"|opt(?:s|ed|ing)? for|say|answer(?:ing|ed)?|think|believe|favou?r(?:s|ed|ing)?|lean(?:s|ing)? (?:more )?(?:toward?s?|to)"
    r"|conclud(?:e|es|ed|ing)(?: that)?|vot(?:e|ing) for|bet(?:ting)? on|settl(?:e|es|ed|ing) (?:on|for)|guess(?:ing)?"
    r"|recommend(?:s|ed|ing)?|therefore|thus|hence|so|consequently|ergo|finally|in conclusion|in summary"
    r"|leaves(?: us)?(?: with)?|leaving|narrow\w{0,5} (?:it |this )?(?:down )?to|(?:can|could) only be|must be|has to be|then|on reflection|on second thoughts?|actually|wait"
    r"|mark(?:ing)?|wahle|nehme|choisis|elijo|elegiria|escolho|scelgo|diagnose|diagnosing|commit(?:ting)? to)\b"
    rf"|我?选择?|我選|->) ?{_FILL}$"
)
_POINTS = re.compile(
    r"\b(?:consistent with|compatible with|suggest(?:s|ing|ed|ive of)?|point(?:s|ing|ed)? (?:to|toward?s?)"
    r"|indicat(?:es?|ing|ive of)|in keeping with|diagnos(?:is of|ed with)|likely|probabl[ey]|presumabl[ey]"
    r"|suspect(?:s|ed|ing)?|fits?|supports?|match(?:es)?|typical (?:of|for)|characteristic of|classic (?:of|for)"
    r"|hallmark of|suffer(?:s|ing)? from|treated with|(?:it|this|patient|he|she|treatment|test|step) (?:is|has|was)"
    r"|it's|he's|she's|would be|should be|must be|will be|has|have|requires?|needs?|order|start|give|perform|obtain"
    rf"|consider) ?{_FILL}$"
)
_IS_BEST = re.compile(
    rf"{_NEAR}[\"')\]]{{0,3}}(?:"
    r"(?:,? (?:therefore|thus|then|indeed|clearly|however),?)? "
    r"(?:is|are|was|be|seems?|appears?|looks|would be|remains?|should be|must be|ist|est|es) "
    r"(?:(?:to|be|the|my|your|our|a|by|far|clearly|therefore|thus|indeed|probably|definitely|likely|still|also|single"
    r"|overall|what|i'd|i|would|here|la|die|der|das|ma|mi|only) ){0,5}"
    r"(?:correct|right\b|best|likeliest|answer|final|choice|diagnosis|choose|pick|go with|top|leading|preferred|indicated"
    r"|appropriate|reponse|richtig|antwort|correcta|respuesta|risposta"
    r"|(?:most|more) (?:likely|probable|appropriate|consistent|suitable|accurate|plausible|compatible|fitting|strongly)"
    r"|(?:strongly|highly) (?:suggested|likely))"
    r"| it is\b(?! \w{1,12}ly\b)"
    r"| (?:best |clearly |most |alone )?(?:fits?|match(?:es)?|explains?|accounts? for|satisf\w{2,5})\b"
    r"(?! (?:some|only|part|many|several))"
    r"| ?(?:[-:,(] ?)?(?:this is )?(?:(?:the )?(?:most likely|correct|best|right)\b|✓|✔|✅)"
    r"| ?(?:是|が|は)?(?:正确|正解|最))"
)
_BLUNTS = re.compile(
    r"\b(?:least|less|not|never|unlikely|incorrect|wrong|other|another|second|alternative|differentials?|exclud|eliminat"
    r"|if|unless|whether|otherwise|distractor|tempting|except|none|neither|no)\b|n't\b|\?"
)
_CONDITION = re.compile(r"\b(?:if|unless|whether|otherwise|when)\b")
_FORCED = re.compile(
    r"(?<![a-z])if (?=(?:i|we|you|one|an?|it)\b[^,.\n\ue000-\uf03f]{0,40}\b(?:to|must|forced|pick|picked|choose|chosen|guess|had)\b)"
)

_GAP = r"(?: (?!but\b|because\b|so\b|therefore\b)[^ \n.;:,()\ue000-\uf03f]{1,30}){0,6}"
_DENIED_BEFORE = re.compile(
    r"\b(?:(?:not(?! (?:only|just|merely|sure|certain|entirely|hesitate))|\w{2,8}n't|cannot|never|neither|nor"
    r"|no(?! (?:doubt|question))|without|unlikely|(?:less|least)(?= (?:likely|probable|consistent|suggestive))"
    r"|rul(?:es?|ed|ing) out|exclud(?:es?|ed|ing)|eliminat(?:es?|ed|ing)|rather than|instead of|as opposed to|unlike"
    r"|against|other than|except|incorrect|wrong|inconsistent with|rejected?|differ(?:s|ent)? from|distinguish\w{0,4}"
    rf"|differentiat\w{{1,4}}|ausgeschlossen|kein|nicht|none|irresponsible|premature|impossible|reluctant|refuse){_GAP}"
    # and what is only set beside the answer
    r"|(?:other|alternative|remaining|additional|competing|wrong|incorrect) (?:\w{1,20} ){0,2}?"
    r"(?:choices?|options?|conditions?|possibilit(?:y|ies)|causes?|diagnos[ei]s|answers?|etiologies|disorders?|diseases?"
    r"|considerations?|differentials?|letters?|ones|tests?|treatments?|infections?)"
    r"(?:,? (?:mentioned|listed|given|provided|here))?"
    r"(?:,? (?:such as|like|including|include|are|being|could be|might be|may be)|[,:]| -){0,2}"
    r"|(?:the )?others,?|differentials?(?: diagnos[ei]s)?(?: \w{1,12})?:?|alternatives?(?: \w{1,12})?:?"
    r"|(?:could|may|might|can) also (?:be|represent|suggest|indicate))[ (\"']{0,3}$"
)
_DENYING = frozenset(
    "not t irresponsible premature impossible reluctant refuse cannot never neither nor no without unlikely less least out exclude excludes excluded excluding eliminate"
    " eliminates eliminated eliminating rather instead opposed unlike against other except incorrect wrong inconsistent"
    " reject rejected differ differs different distinguish distinguishes differentiate differentiates differentiating"
    " distinguishing ausgeschlossen kein nicht none alternative alternatives remaining additional competing others"
    " differential differentials also".split()
)
"""Without one of these words before it, nothing is denied: looked for first, because that is quick."""
_DENIED_AFTER = re.compile(
    rf"{_NEAR}[)\"']?(?: ?\((?:incorrect|wrong|unlikely|less likely|ruled out|excluded|false|no)\b|(?: ?[:,-]{{1,2}}| -)? ?(?:"
    r"(?:(?:itself |also )?(?:is|are|was|were|be|seems?|appears?|looks?|becomes?) )?"
    r"(?:(?:both|all|therefore|thus|very|much|clearly|highly|far|quite|typically|usually|more|made|considered) ){0,2}"
    r"(?:not\b(?! (?:\w{1,12} ){0,2}[~\ue000-\uf03f])|unlikely|less\b|least\b|incorrect|wrong|inconsistent|ruled out|excluded"
    r"|improbable|eliminated|out\b|contraindicated|inappropriate|false\b|rarely|absent|too |n't|implausible|[x✗✘❌](?=\W|$))"
    r"|(?:does|do|did|would|can|could|has|have|should|will|may) ?(?:not\b|n't)|cannot\b|(?:is|are|was|were)n't\b"
    r"|(?:can|could|would|may|might|should|must) (?:\w{1,12} ){0,2}(?:excluded|ruled out|eliminated|rejected|discarded)"
    r"|lacks?\b|also (?!known|called|referred|termed)))"
)
_TELLING = frozenset(
    "( [ is are was were be seem seems appear appears look looks become becomes would remain remains should must can could"
    " may might will cannot do does did has have therefore thus then indeed clearly however it fit fits match matches"
    " explains explain account accounts satisfies best most alone ist est es both all very much highly far quite typically"
    " usually more made considered not unlikely less least incorrect wrong inconsistent ruled excluded improbable"
    " eliminated out contraindicated inappropriate false rarely absent too implausible x isn't aren't wasn't weren't"
    " doesn't don't didn't wouldn't can't couldn't hasn't haven't shouldn't won't lack lacks also itself this the correct"
    " right no".split()
)
"""Where another word follows a choice, it is neither denied nor called the best: looked for first, as it is quick."""
_LEADING = frozenset(
    f"{_FILLERS}|are|was|remain|remains|ist|lautet|sind|est|sont|es|son|e|er|war|choose|chooses|choosing|chose|pick|picks"
    "|picked|picking|select|selects|selected|selecting|with|for|say|answering|answered|think|believe|favor|favors|favour"
    "|favours|favoring|favouring|toward|towards|conclude|concludes|concluding|concluded|on|guess|guessing|recommend"
    "|recommends|recommended|hence|so|consequently|ergo|finally|conclusion|summary|leaves|us|leaving|then|reflection"
    "|thought|thoughts|wait|mark|marking|wahle|nehme|choisis|elijo|elegiria|escolho|scelgo|diagnose|diagnosing|committing"
    "|in|".split("|")
)
"""No statement of an answer ends in another word than these, or in a colon and the like."""
_SINGULAR = re.compile(r"[)\"']?(?: ?[:,(-]{1,2})? ?(?:\w{1,12} )?(?:is|was|does|has|seems|appears|lacks)\b")
_JOINED = re.compile(r"\b(?:and|or|nor)\b|&|/")

_DOUBTING = _DENYING - {"t", "out"} | frozenset(
    "if whether could may might can can't couldn't don't doesn't isn't wasn't aren't won't not, possible possibly such like"
    " including some sorry unable decline consider considered (not not: neither: wrong. incorrect. unlikely. no, not:"
    " incorrect, wrong, excluded. excluded, possible. possible, first-line".split()
)
"""Where none of these is said, a response that names one choice means it."""
_HEADED = re.compile(
    rf"^([> -]{{0,8}}(?:(?:the|my|final|correct|best|most likely|selected) ){{0,3}}{_NOUN}(?: is)?)[: .-]{{0,6}}\n",
    re.MULTILINE,
)
_NOUN_AT = re.compile(_NOUN)
_NEXT_LINE = re.compile(rf"[ .,;]{{0,4}}\n[ >.-]{{0,4}}{_GROUP.pattern}[ .]{{0,4}}(?=\n|\Z)")
_ALL = re.compile(r"\b(?:all of the above|all of these|all (?:four|five|of the) (?:options|choices|answers)\b)", re.IGNORECASE)
_TICK = re.compile("[✓✔✅☑]")
_ONLY_IF = re.compile(rf"{_NEAR},? ?\(?(?:only )?if (?!i |we |you )")
_ANNOUNCED = re.compile(r":[ '(-]{0,3}$")
_LAST = re.compile(r"\W{0,6}\Z")
_ALONE_BEFORE = re.compile(
    r"[^a-z0-9\ue000-\uf03f]{0,8}(?:(?:option|choice|final answer|probably|likely|most likely|possible|possibly)[: ]{1,2})?"
    r"[^a-z0-9\ue000-\uf03f]{0,3}"
)
_ALONE_AFTER = re.compile(rf"{_NEAR}[)\]'\"]{{0,3}}(?:[.!;]? ?\n|[.!] |[.!;]? ?\Z)")
_OPENING = re.compile(rf"\W{{0,6}}?{_X}")
_NONE_FITS = re.compile(
    r"\bnone of (?:the|these|those|them|my)\b|\bno (?:correct |right |suitable |matching )?(?:answer|diagnosis|choice|option)\b"
    r"|\b(?:not|n't|unable to|cannot) (?:\w{1,12} ){0,3}(?:provide|give|make|offer|determine|determined|diagnose|answer"
    r"|choose|select|assist|help|listed|among|included|provided|one of|possible|clear)\b|\bi(?:'m| am) sorry\b"
    r"|\bdeclin(?:e|ing)\b"
)
_STATES_ANOTHER = re.compile(
    r"(?:final diagnosis|(?:final|correct|best) answer|(?:most likely|correct|likeliest) diagnosis(?: [^.:\n\ue000-\uf03f]{0,80}?)?)"
    r"(?:: ?| is )(?![^.,;\n]{0,80}[\ue000-\uf03f])[a-z]"
)
_HEDGES = re.compile(r"\b(?:could|may|might|such as|including|like|eg|e\.g|possib\w{1,6}|some)\b|\($")
