"""The two rules that judge a multiple-choice response.

``mcq_loose`` is the paper's: the answer, lower-cased, occurs in the response, lower-cased; it also counts a
response that lists every choice. ``mcq_strict`` wants the one choice that the response commits to, whatever others it
discusses, and says ``multiple`` where there are several and ``no_diagnosis`` where there is none.

How the strict rule reads: every choice that is named, and every letter that can stand for one, becomes a mark in the
text; what the text denies or sets aside is struck out; then the text is searched from its end for a stated answer
(``the answer is …``, ``… is correct``, ``\\boxed{…}``), then for what stands by itself or in bold, then for names, then
for letters. A name beside its letter counts, and not the letter.
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


def judge_strict(response: str, answer: str, choices: Sequence[str]) -> Judgement:
    """Judge by the one choice that the response commits to; none or several are no correct answer."""
    named = named_choices(response, choices)
    if len(named) > 1:
        return Judgement("mcq_strict", ", ".join(named), "multiple", rule_version=STRICT_VERSION)
    if not named:
        return Judgement("mcq_strict", None, "no_diagnosis", rule_version=STRICT_VERSION)
    verdict: Verdict = "correct" if named[0].lower() == answer.lower() else "incorrect"
    return Judgement("mcq_strict", named[0], verdict, rule_version=STRICT_VERSION)


def named_choices(response: str, choices: Sequence[str]) -> list[str]:
    """Return the choice that a response commits to; several where it leaves that open, none where it names none.

    A name inside a longer name that is also there ("migraine" in "migraine with aura") does not count by itself.
    """
    known = _choices(tuple(choices))
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
def _choices(choices: tuple[str, ...]) -> _Choices:
    names = {n: _name(choice) for n, choice in enumerate(choices)}
    letters = {chr(ord("A") + n): n for n in range(len(choices))} if len(choices) <= _LETTERS else {}
    # choices that are letters themselves (blood groups) are meant by them, wherever they stand
    letters |= {name.upper(): n for n, name in names.items() if len(name) == 1 and name.isalpha()}
    looked_for = [(n, name) for n, name in names.items() if len(name) > 1 or not name.isalpha() and name]
    taken = set(names.values())
    for n, name in names.items():
        short = _PAREN_AT_END.sub("", name)  # a name without the abbreviation behind it
        if len(short) > 3 and short not in taken and sum(other.startswith(short) for other in taken) == 1:
            looked_for.append((n, short))
    exact = {letter.lower(): n for letter, n in letters.items()}
    exact |= {name.strip(_TRIM): n for n, name in reversed(looked_for) if name.strip(_TRIM)}
    return _Choices(len(choices), tuple(looked_for), exact, letters)


_PAREN_AT_END = re.compile(r" ?\([^()]*\)$")


def _name(choice: str) -> str:
    """Return a choice's name as it is looked for; a lone quote at an end is a slip of the data set."""
    name = _plain(choice).lower().replace("\n", " ").strip()
    if name.count('"') % 2:
        name = name.strip('"').strip()
    return name.rstrip(".").rstrip() or name


_SIGNS = str.maketrans({
    "’": "'", "‘": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "「": '"', "」": '"', "『": '"', "』": '"',
    "‐": "-", "‑": "-", "‒": "-", "–": "-", "−": "-", "—": " - ", "×": "x", "、": ", ", "。": ". ", "【": "[", "】": "]",
    "→": " -> ", "⇒": " -> ", "\u200b": "", "\ufeff": "",
})  # fmt: skip


def _plain(text: str) -> str:
    """Return a text with one kind of quotes, dashes and spaces, and without accents."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.translate(_SIGNS))
        text = "".join(c for c in text if not (unicodedata.combining(c) or "\ue000" <= c <= "\uf8ff"))
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
# or one in a form that leaves little doubt ("(B)", "option B"). Every quantifier below is bounded or possessive, and
# every search has a window, so that time grows with the length of a response and with nothing else.

_NAME, _LONE, _FORMED = 0xE000, 0xF000, 0xF020
_MOST_NAMES = 0xF00
_X = "[\ue000-\uf03f]"
_WINDOW = 160
"""So many characters before a choice are looked at for what states it, and half as many behind it."""
_MOST_GROUPS = 200
"""So many mentions are looked at from the end of a response, and as many from its beginning."""


def _read(response: str, choices: _Choices) -> list[int]:
    text = _plain(response)
    marked, named = _mark_names(text, choices)
    lettered = _MAYBE_LETTER.search(marked) is not None
    if not named and not lettered:
        return []
    if len(named) == 1 and not lettered and not _DOUBT.search(marked):
        return named
    return _Reading(marked, named, choices, lettered).result()


def _mark_names(text: str, choices: _Choices) -> tuple[str, list[int]]:
    """Return a text with a mark in place of every choice that is named, and which choices the marks stand for."""
    lowered = text.lower()
    if len(lowered) != len(text):
        text = lowered
    flat = lowered.replace("\n", " ")
    spans = {
        span: n for n, name in choices.names if name in flat for span in _whole_words(name, flat)
        if not _is_part(flat, *span)
    }  # fmt: skip
    if not spans:
        return text, []
    marks: dict[int, str] = {}
    pieces, reached = [], 0
    for start, end in sorted(_outermost(set(spans)) if len(spans) > 1 else spans):
        mark = marks.setdefault(spans[start, end], chr(_NAME + min(len(marks), _MOST_NAMES)))
        pieces += [text[reached:start], mark]
        reached = end
    return "".join([*pieces, text[reached:]]), list(marks)


def _is_part(text: str, start: int, end: int) -> bool:
    """Say whether a name is only a part of a word with a hyphen before it (non-Hodgkin), or of a decimal."""
    if start > 1 and text[start - 1] == "-" and text[start - 2].isalpha():
        return True
    if start > 1 and text[start].isdigit() and text[start - 1] in ".," and text[start - 2].isdigit():
        return True
    return end + 1 < len(text) and text[end - 1].isdigit() and text[end] in ".," and text[end + 1].isdigit()


def _any(*words: str) -> str:
    return f"(?:{'|'.join(words)})"


_NOT = _any(
    r"not(?! (?:only|just|merely|sure|certain|entirely|hesitate))", r"\w{2,8}n't", "cannot", "never", "neither", "nor",
    r"no(?! (?:doubt|question))", "without", "unlikely", r"(?:less|least)(?= (?:likely|probable|consistent|suggestive))",
    r"rul(?:es?|ed|ing) out", r"exclud(?:es?|ed|ing)", r"eliminat(?:es?|ed|ing)", "rather than", "instead of",
    "as opposed to", "unlike", "against", "other than", "except", "incorrect", "wrong", "inconsistent with", "rejected?",
    r"differ(?:s|ent)? from", r"distinguish\w{0,4}", r"differentiat\w{1,4}", "ausgeschlossen", "kein", "nicht",
)  # fmt: skip
_ASIDE = _any(
    r"(?:other|alternative|remaining|additional|competing|wrong|incorrect) (?:\w{1,20} ){0,2}?"
    r"(?:choices?|options?|conditions?|possibilit(?:y|ies)|causes?|diagnos[ei]s|answers?|etiologies|disorders?"
    r"|diseases?|considerations?|differentials?|letters?|ones|tests?|treatments?|infections?)"
    r"(?:,? (?:such as|like|including|include|are|listed|given|mentioned|provided|here|being|could be|might be|may be)"
    r"|[,:]| -){0,3}",
    r"(?:the )?others,?", r"differentials?(?: diagnos[ei]s)?(?: \w{1,12})?:?", r"alternatives?(?: \w{1,12})?:?",
    r"(?:could|may|might|can) also (?:be|represent|suggest|indicate)",
)  # fmt: skip
_SEP = (
    r"(?: ?[,/&+] ?(?:(?:and|or|and/or|nor|&) )?(?:an? |the )?"
    r"| (?:and|or|and/or|nor|vs|versus|oder|und|ou|et|o|y|e|v) (?:an? |the )?(?:possibly |even )?)"
)
_NEAR = r"(?:\s?\([^()\n\ue000-\uf03f]{0,60}\))?"
"""An aside in brackets, as of an abbreviation."""
_GROUP = rf"{_X}(?:{_NEAR}{_SEP}(?:(?:option|choice)s?\s)?[(]?{_X}[)]?){{0,12}}"
_STRIKE_BEFORE = re.compile(
    rf"\b(?:{_NOT}(?: (?!but\b|because\b|so\b|therefore\b)[^\s.;:,()\ue000-\uf03f]{{1,30}}){{0,6}}|{_ASIDE})"
    rf"[ (\"']{{0,3}}{_GROUP}"
)
_STRIKE_AFTER = re.compile(
    rf"{_GROUP}{_NEAR}[)\"']?(?: ?[:,(-]{{1,2}}| -)? ?(?:"
    r"(?:(?:\w{1,12}\s)?(?:is|are|was|were|be|seems?|appears?|looks?|becomes?)\s)?"
    r"(?:(?:also|both|all|therefore|thus|very|much|clearly|highly|far|quite|typically|usually|more|made|considered)\s){0,2}"
    r"(?:not\b(?! (?:\w{1,12} ){0,2}[~\ue000-\uf03f])|unlikely|less\b|least\b|incorrect|wrong|inconsistent|ruled out|excluded|improbable|eliminated|out\b"
    r"|contraindicated|inappropriate|false\b|rarely|absent|too\s|n't|implausible|[x✗✘❌](?=\W|$))"
    r"|(?:does|do|did|would|can|could|has|have|should|will|may)\s?(?:not\b|n't)|cannot\b|(?:is|are|was|were)n't\b"
    r"|(?:can|could|would|may|might|should|must)\s(?:\w{1,12}\s){0,2}(?:excluded|ruled out|eliminated|rejected|discarded)"
    r"|lacks?\b|also\b)"
)
_DOUBT = re.compile(rf"\b(?:{_NOT}|other|also|alternative|if|refus|sorry|none|unable)\b|\bn't|:(?!\s?\**\s?{_X})", re.IGNORECASE)

_NOUN = (
    r"(?:answer|diagnos[ei]s|choice|option|selection|pick|conclusion|verdict|response|impression|decision|guess|treatment"
    r"|therapy|test|step|management|drug|medication|agent|cause|etiology|organism|pathogen|explanation|mechanism|finding"
    r"|condition|disorder|disease|syndrome|intervention|study|examination|procedure|culprit|complication|factor|result"
    r"|antwort|losung|reponse|respuesta|risposta|resposta|antwoord|svar|odpowiedz|ответ|答案|回答|答え|正解|选项|選択肢|정답"
    r"|diagnose|diagnostic|diagnostico|diagnosi|диагноз|诊断|診断|opcion|opzione|opcao|choix)"
)
_BEST = (
    r"(?:likely|likeliest|best|correct|right|final|appropriate|probable|indicated|suspected|suitable|accurate|preferred"
    r"|first-line|next|initial|primary|leading|top|my|recommended|definitive|consistent|plausible|strongest|fitting"
    r"|effective|specific|sensitive)"
)
_COPULA = (
    r"(?:\s?(?::|=|->)|\s-(?=\s)|\s(?:is|are|was|be|remains?|ist|est|es|e|er|war)(?=[\s:(\[\"'\ue000-\uf03f])"
    r"|\s?(?:是|为|は|が|為|選択|应该是))"
)
_FILL = (
    r"(?:[\s\"'(\[,:*-]|\b(?:the|an?|to|be|that|of|either|both|option|choice|letter|answer|number|likely|most|probably"
    r"|indeed|thus|clearly|definitely|therefore|still|it|is|it's|this|indeed|actually|probable|simply|just|given|as|und"
    r"|die|der|das|la|le|el|il|option|opcion|les|los|perform|obtain|administer|start|begin|initiate|give|due|diagnosis"
    r"|presence|patient|has|have|suspected|acute|possible|possibly|follows|initially|now|best|correct|between)\b){0,14}"
)
_STATES = re.compile(
    rf"(?:(?<![a-z]){_NOUN}s?(?![a-z])|\b{_BEST}\b)(?P<between>[^:\n\ue000-\uf03f]{{0,110}}?){_COPULA}{_FILL}$"
)
_CHOOSES = re.compile(
    r"(?:\b(?:choos(?:e|es|ing)|chose|pick(?:s|ed|ing)?|select(?:s|ed|ing)?|go(?:ing)? (?:ahead )?with|went with|opt(?:s|ed|ing)? for"
    r"|say|answer(?:ing|ed)?|think|believe|favou?r(?:s|ed|ing)?|lean(?:s|ing)? (?:more )?(?:toward?s?|to)|conclud(?:e|es|ed|ing)(?: that)?"
    r"|vot(?:e|ing) for|bet(?:ting)? on|settl(?:e|es|ed|ing) (?:on|for)|guess(?:ing)?|recommend(?:s|ed|ing)?|therefore|thus|hence|so"
    r"|consequently|ergo|finally|in conclusion|in summary|leaves(?: us)?(?: with)?|leaving|narrow\w* (?:it |this )?(?:down )?to"
    r"|(?:can|could) only be|must be|has to be|mark(?:ing)?|wahle|nehme|choisis|elijo|elegiria|escolho|scelgo|diagnose|diagnosing|commit(?:ting)? to)\b|我?选择?|我選"
    rf"|->)\s?{_FILL}$"
)
_POINTS = re.compile(
    r"(?:\b(?:consistent with|compatible with|suggest(?:s|ing|ed|ive of)?|point(?:s|ing|ed)? (?:to|toward?s?)|indicat(?:es?|ing|ive of)|in keeping with"
    r"|diagnos(?:is of|ed with)|likely|probabl[ey]|presumabl[ey]|suspect(?:s|ed|ing)?|fits?|supports?|match(?:es)?"
    r"|typical (?:of|for)|characteristic of|classic (?:of|for)|hallmark of|suffer(?:s|ing)? from|treated with|(?:it|this|patient|he|she|treatment|test|step) (?:is|has|was)"
    r"|it's|he's|she's|would be|should be|must be|will be|has|have|requires?|needs?|order|start|give|perform|obtain|consider))\s?"
    rf"{_FILL}$"
)
_BLUNTS = re.compile(
    r"\b(?:least|less|not|never|unlikely|incorrect|wrong|other|another|second|alternative|differentials?|exclud|eliminat|if|unless"
    r"|whether|otherwise|distractor|tempting|except|none|neither|no)\b|n't\b|\?"
)
_FORCED = re.compile(r"\bif (?:i|we|you)?\s?(?:\w{1,8}\s){0,3}(?:to|must|forced|pick|choose|guess|had|only)\b[^,\ue000-\uf03f]{0,60},?")
_IS_BEST = re.compile(
    rf"{_NEAR}[\"')\]]{{0,3}}(?:,? (?:therefore|thus|then|indeed|clearly|however),?)?\s(?:is|are|was|be|seems?|appears?|looks|would be|remains?|should be|must be|ist|est|es)\s"
    r"(?:(?:to|be|the|my|your|our|a|by|far|clearly|therefore|thus|indeed|probably|definitely|likely|still|also|single|overall|what|i'd|i|would|here|la|die|der|das|ma|mi|only) ){0,5}"
    r"(?:correct|right\b|best|likeliest|answer|final|choice|diagnosis|choose|pick|go with|top|leading|preferred|indicated|appropriate"
    r"|reponse|richtig|antwort|correcta|respuesta|risposta"
    r"|(?:most|more) (?:likely|probable|appropriate|consistent|suitable|accurate|plausible|compatible|fitting|strongly)"
    r"|(?:strongly|highly) (?:suggested|likely))"
    rf"|{_NEAR}[\"')\]]{{0,3}}\s(?:best |clearly |most |alone )?(?:fits?|match(?:es)?|explains?|accounts? for|satisf\w{{2,5}})\b(?! (?:some|only|part|many|several))"
    rf"|{_NEAR}[\"')\]]{{0,3}}\s?(?:[-:,(]\s?)?(?:this is )?(?:(?:the )?(?:most likely|correct|best|right)\b|✓|✔|✅)"
    r"|\s?(?:是|が|は)?(?:正确|正解|最)"
)
_HEADED = re.compile(
    rf"(?im)^([#>* -]{{0,8}}(?:(?:the|my|final|correct|best|most likely|selected) ){{0,3}}{_NOUN}(?: is)?)[:* .-]{{0,6}}\n"
)
_NONE_FITS = re.compile(
    r"\bnone of (?:the|these|those)\b|\bno (?:correct |right |suitable |matching )?(?:answer|diagnosis|choice|option)\b"
    r"|\b(?:not|n't|unable to|cannot) (?:\w{1,12} ){0,3}(?:provide|give|make|offer|determine|determined|diagnose|answer|choose"
    r"|select|assist|help|listed|among|included|provided|one of|possible|clear)\b|\bi(?:'m| am) sorry\b|\bdeclin(?:e|ing)\b"
)
_END = re.compile(r"[.!?]\s|\n|;\s")

# letters: one that stands alone and is no article, no pronoun and no part of a name (vitamin D, C. difficile, T cells)
_AFTER_LETTER = (
    r"(?:is|was|are|because|since|given|due|or|and|vs|versus|over|seems|appears|fits|would|best|but|if|rather|instead|explains"
    r"|matches|may|could|can|cannot|might|remains|looks|does|do|has|which|correct|right|wrong|incorrect|nor|not|most|alone|here|in|for|on|with|at|by|when|after|this|that|it|i|then|only|too|overall|again|ist|est|es|oder|und|ou|et|y|para|for the)"
)
_MAYBE_LETTER = re.compile(r"(?<![A-Za-z0-9'])(?:[B-HJ-Z]|[AI](?! [a-z]|'))(?![A-Za-z0-9'])|(?<![A-Za-z0-9'])[A-Za-z][)\]}.]|(?<![A-Za-z0-9'])A (?:is|or|and|because|seems|fits|would)\b|[:(\"'`*] ?[a-z](?![\w'])|(?:\A|\n)\W{0,4}[a-z]\W{0,4}(?:\Z|\n)|\b(?:is|option|choice|letter) [a-z](?![\w' ])|\b(?i:option|choice|letter) [A-Za-z]\b")


@functools.lru_cache(maxsize=64)
def _letter_patterns(letters: str) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return what finds letters in a plain form, in a form that leaves little doubt, and alone in capitals."""
    any_case = f"[{letters}{letters.lower()}]"
    formed = re.compile(
        rf"(?i:\b(?:option|choice|letter|alternative|opcion|opzione)s?)[ :(\[\"']{{1,3}}({any_case})(?![\w'+]|-\w| (?!{_AFTER_LETTER}\b)\w)[)\]\"']?"
        rf"|(?<!\w)[(\[]({any_case})[)\]](?!\w)"
        rf"|(?m:^[ >#-]{{0,6}})\(?({any_case})(?:[.:)](?= |$)(?! [a-z])|\)(?= ))"
        rf"|(?m:^\W{{0,6}})({any_case})(?m:\W{{0,6}}$)"
        rf"|\*\*\W{{0,3}}({any_case})\W{{0,3}}\*\*"
    )
    stated = re.compile(
        rf"(?i:\b(?:answer|diagnosis|choice|option|response)(?: is|:)|:|\bis|=|[是为は选]|->)[\s\"'(*]{{0,4}}([{letters.lower()}])(?=[)\"'*.,;!]{{0,3}}(?:\s?$|\n|[.,;!)]\s))"
    )
    # a speaker's "I" is no choice: it must end a sentence, or follow what announces an answer
    lone = re.compile(
        rf"(?<![A-Za-z0-9'.+-])(?<![Nn]/)([{letters}])(?<!I(?!\W{{0,3}}(?:\Z|\n|\. ))(?<!is I)(?<!be I)(?<!: I))(?![A-Za-z0-9'+%]|-\w|\.\w|\. [a-z]| (?!{_AFTER_LETTER}\b)\w)"
    )
    return formed, stated, lone


class _Reading:
    """One response of which a look at its names is not enough."""

    def __init__(self, marked: str, named: list[int], choices: _Choices, lettered: bool) -> None:
        self._named, self._choices = named, choices
        if lettered and choices.letters:
            marked = self._mark_letters(marked)
        if "<" in marked:
            marked = _TAG.sub(_tag, marked)
        if "\\" in marked:
            marked = _COMMAND.sub("", marked.replace("\\boxed{", "\nfinal answer: "))
        self._bold = {mark for bold in _BOLD.findall(marked) if len(set(marks := _marks(bold))) == 1 for mark in marks}
        text = _SPACES.sub(" ", marked.translate(_MARKUP)).lower().replace(":\n", ": ").replace("vs.", "vs")
        text = _FORCED.sub("", _LABEL.sub("", _HEADED.sub(r"\1: ", text)))
        self._told = text
        self._text = _STRIKE_AFTER.sub(_strike_after, _STRIKE_BEFORE.sub(_strike, text))

    def result(self) -> list[int]:
        """Return the choices that are meant, by their positions."""
        marks = self._stated() or self._apart() or self._pointed_at() or self._left()
        return list(dict.fromkeys(self._position(mark) for mark in marks))

    def _position(self, mark: str) -> int:
        code = ord(mark)
        if code < _LONE:
            return self._named[code - _NAME]
        return self._choices.letters[chr(ord("A") + (code - _LONE) % 32)]

    def _mark_letters(self, text: str) -> str:
        formed, stated, lone = _letter_patterns("".join(sorted(self._choices.letters)))
        for pattern, base in ((formed, _FORMED), (stated, _LONE), (lone, _LONE)):
            text = pattern.sub(lambda found, base=base: _letter(found, base), text)
        return text

    @functools.cached_property
    def _groups(self) -> list[re.Match[str]]:
        """Mentions, choices that are listed together as one; of very many, the first and the last."""
        found = list(_GROUP_AT.finditer(self._text))
        return found if len(found) <= 2 * _MOST_GROUPS else found[:_MOST_GROUPS] + found[-_MOST_GROUPS:]

    def _before(self, start: int) -> str:
        """Return the words of the sentence before a place."""
        window = self._text[max(0, start - _WINDOW) : start]
        ends = max(window.rfind(sign) for sign in ("\n", ". ", "! ", "? ", "; "))
        return window[ends + 1 :]

    def _stated(self) -> list[str]:
        """Return the choices of the last statement of an answer."""
        for group in reversed(self._groups):
            before = self._before(group.start())
            if self._states(before) or self._is_called_best(group, before):
                more = _NEXT_LINE.match(self._text, group.end())
                return _marks(group[0]) + (_marks(more[0]) if more else [])
        return []

    def _states(self, before: str) -> bool:
        found = _STATES.search(before) or _CHOOSES.search(before)
        return found is not None and not _BLUNTS.search(before, max(0, found.start() - 40))

    def _is_called_best(self, group: re.Match[str], before: str) -> bool:
        found = _IS_BEST.match(self._text, group.end(), group.end() + _WINDOW)
        return found is not None and not _BLUNTS.search(found[0]) and not _CONDITION.search(before)

    def _apart(self) -> list[str]:
        """Return the one choice that is a line or a sentence by itself, or else the one in bold."""
        alone: set[str] = set()
        last = self._groups[-1] if self._groups else None
        if last and _ANNOUNCED.search(self._before(last.start())) and _LAST.match(self._text, last.end()):
            return _marks(last[0])
        for group in self._groups:
            if _ALONE_BEFORE.fullmatch(self._before(group.start())) and _ALONE_AFTER.match(self._text, group.end()):
                alone.update(_marks(group[0]))
        for marks in (alone, self._bold & set(_marks(self._text))):
            if len({self._position(mark) for mark in marks}) == 1:
                return sorted(marks)[:1]
        return []

    def _pointed_at(self) -> list[str]:
        """Return the choices that the findings are said to speak for."""
        marks: list[str] = []
        for group in self._groups:
            before = self._before(group.start())
            if _POINTS.search(before) and not _BLUNTS.search(before):
                marks += _marks(group[0])
        return marks

    def _left(self) -> list[str]:
        """Return all that is named and not struck out; without names, letters in a form of letters."""
        if _NONE_FITS.search(self._told):
            return []
        marks = _marks(self._text)
        named = [mark for mark in marks if ord(mark) < _LONE]
        if named or self._named:
            return named
        opening = _OPENING.match(self._text)
        return [mark for mark in marks if ord(mark) >= _FORMED] or (_marks(opening[0]) if opening else [])


_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z_ ]{0,24})/?>")
_COMMAND = re.compile(r"\\[A-Za-z]{1,12} ?\{?|\\[()\[\]]")
_BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
_MARKUP = str.maketrans({"_": " ", "|": " "} | dict.fromkeys("*`#~{}$\\\"", None))
_SPACES = re.compile(r" {2,}")
_LABEL = re.compile(r"[\uf000-\uf03f][ ).:,'\[(-]{0,6}(?=[\ue000-\uefff])|(?<=[\ue000-\uefff]) ?[(\[][\uf000-\uf03f][)\]]")
_GROUP_AT = re.compile(_GROUP)
_NEXT_LINE = re.compile(rf"\W{{0,4}}?\n\W{{0,4}}?{_GROUP}\W{{0,4}}?(?=\n|\Z)")
_CONDITION = re.compile(r"\b(?:if|unless|whether|otherwise|when)\b")
_ALONE_BEFORE = re.compile(rf"[^a-z0-9\ue000-\uf03f]{{0,8}}(?:(?:option|choice|final answer|probably|likely|most likely|possible|possibly)[: ]{{1,2}})?[^a-z0-9\ue000-\uf03f]{{0,3}}")
_ALONE_AFTER = re.compile(rf"{_NEAR}[)\]'\"]{{0,3}}(?:[.!;]?\s?\n|[.!]\s|[.!;]?\s?\Z)")


def _marks(text: str) -> list[str]:
    return _MARK.findall(text)


_MARK = re.compile(_X)
_ANNOUNCED = re.compile(r":\W{0,3}$")
_LAST = re.compile(r"\W{0,6}\Z")
_OPENING = re.compile(rf"\W{{0,6}}{_GROUP}(?=\W{{0,6}}\Z|\n|[.,:;)]|\s-|\s(?:because|since|given|due|as|is)\b)")


def _tag(found: re.Match[str]) -> str:
    return "\n" if found[1] else f"\n{found[2]}: " if _NOUN_AT.search(found[2].lower()) else ""


_NOUN_AT = re.compile(_NOUN)


def _letter(found: re.Match[str], base: int) -> str:
    """Return a found letter's words with its mark in its place."""
    at = found.lastindex or 1
    place = found.start(at) - found.start()
    mark = chr(base + ord(found[at].upper()) - ord("A"))
    return found[0][:place] + mark + found[0][place + 1 :]


def _strike(found: re.Match[str]) -> str:
    return _MARK.sub("~", found[0])


def _strike_after(found: re.Match[str]) -> str:
    """Strike a group out, and of "A, B is wrong" only the last."""
    listed = _GROUP_AT.match(found[0])
    assert listed is not None
    said = found[0][listed.end() :]
    if _SINGULAR.match(said) and not _EITHER.search(listed[0]):
        last = max(n for n, character in enumerate(listed[0]) if _MARK.match(character))
        return found[0][:last] + _strike_all(listed[0][last:]) + said
    return _strike(found)


def _strike_all(text: str) -> str:
    return _MARK.sub("~", text)


_SINGULAR = re.compile(r"[)\"']?(?:\s?[:,(-]{1,2})?\s?(?:\w{1,12}\s)?(?:is|was|does|has|seems|appears|lacks)\b")
_EITHER = re.compile(r"\b(?:and|or|nor)\b|&|/")
