"""The grader by a language model: extract the answer, then compare it; an unreadable reply is ungradable.

Source: Johri et al. 2025, Methods (grader-AI agent). If a question asks for something other than a diagnosis, the same
rules use other words. ``Multiple``, ``None`` and a refusal skip the second step. Refusals are an addition of this
project: the grader must quote one from the response, otherwise the response counts as "no diagnosis".
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from core.agents.base import GraderResult
from core.asking.ask import Parsed, Request, ask, quotation
from core.asking.calls import ModelAgent, Voice
from core.asking.parts import instruction_part
from core.case import Case
from core.events import Called, Token, Verdict
from core.prompts import PromptPack
from core.text.extraction import NUMBERED, listed_diagnoses
from core.text.questions import question_kind
from core.text.scripts import in_latin

_BEGINS = re.compile(r"\W*+(yes|no)\b", re.IGNORECASE)
_YES_NO = re.compile(r"\b(?:yes|no)\b(?![-'’]\w|\. ?\d)", re.IGNORECASE)
"""Does not match "no-one" or "no. 2"."""
_LABEL = r"\b(?:answer|verdict|reply|response|conclusion)\b[\"'*_]*"
_ANNOUNCED = re.compile(
    rf"(?:^|→|⇒|[-=]>|{_LABEL}(?: is\b| would be\b|\s*[:=]))[^\w\n]*\Z", re.IGNORECASE | re.MULTILINE
)
"""Precedes a verdict that is not at the beginning of the reply."""
_CONCLUDED = re.compile(rf"(?:^|{_LABEL}(?: is\b|\s*[:=]))[^\w\n]*\Z", re.IGNORECASE | re.MULTILINE)
"""The same after a first verdict, without arrows: models often append examples with arrows, which are no verdicts."""
_TURNS = re.compile(
    r"(?:[^\w\s][^\w\n]*|\b(?:yes|no|and|or|but|wait|actually|rather|maybe|perhaps|mean|sorry|well|partly|then|also)"
    r"[^\w\n]*)\Z",
    re.IGNORECASE,
)
"""Precedes a word that replaces or joins the verdict before it; the "no" of a noun can match, too."""
_JOINS = re.compile(r"\b(?:yes|no)[^\w\n]*(?:\b(?:and|or)\b|[/&|])[^\w\n]*\Z", re.IGNORECASE)
"""The first half of "Yes and no because"."""
_STANDS_ALONE = re.compile(r"[^\w\n]{0,60}(?:$|[.,;!])", re.MULTILINE)
_ENDS = re.compile(r"\s*(?:\Z|\n|[^\w\s]|(?:and|or|but)\b)")
_CONTEXT = 80
"""Characters before and after a yes or no that count as its context."""
_LEAD_IN = re.compile(
    r"^(?:the )?(?:(?:final |extracted )?diagnosis(?: is)?\s*:?|"
    r"(?:final |extracted )?(?:answer|test|treatment|organism|mechanism|finding)\**(?:\s*:| is\b))\**\s*",
    re.IGNORECASE,
)
_TRIM = " \t\n.*\"'`:-"
_MAX_READ = 10_000
"""Characters of a reply that are searched for a name; the beginning and the end are searched for a verdict."""
ACCEPTED_PROMPT = "grader_judge_accepted"
"""The prompt of the comparison if a case has further accepted answers."""
READING_VERSION = 2
"""Version of the parser of the extraction step. Version 1 called a refusal in the first person ungradable."""
_REFUSED = re.compile(
    r"^(?:(?:the )?(?:doctor|response|reply|text|answer|model|ai|it|this|he|she)\b[\w ]{0,30}?\b)?"
    r"(?:refus(?:ed|es|al|ing)|declin(?:ed|es|ing))\b(?:[\w ]{0,60}:)?[\s:*–—-]*",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(
    r"^(?:i['’]m|i (?:am|can|cannot|can['’]t|will|won['’]t|do|don['’]t|must|apologi[sz]e)|as an? (?:ai|language model)"
    r"|(?:i['’]?m )?sorry|unfortunately|my apologies)\b",
    re.IGNORECASE,
)
_UNWILLING = (
    r"can(?:not|['’]t| not)|(?:am |are |be )?(?:unable|not able)|won['’]t|will not|may not|must not|do(?:n['’]t| not)"
    r"|not (?:allowed|permitted|comfortable|authori[sz]ed|qualified)|(?:have to|must) (?:decline|refuse)|decline|refuse"
)
_TO_ANSWER = (
    "help|assist|provide|giv(?:e|ing)|offer(?:ing)?|diagnos(?:e|ing)|advise|comply|continue|answer|mak(?:e|ing)|name"
    "|do (?:that|this|so)|engage|discuss|respond|choose|select|decline|refuse"
)
_DECLINES = re.compile(
    rf"\b(?:i|we)(?:['’]m| am| are|['’]re)? (?:[a-z]+ ){{0,2}}?(?:{_UNWILLING})(?: to)?"
    rf"(?: [a-z]+){{0,3}}? ?\b(?:{_TO_ANSWER})\b",
    re.IGNORECASE,
)
"""A sentence in which a doctor declines to answer; not "I cannot rule out gout" or "I do not know".

Of 45 sentences drawn from the 461 matches in the authors' released answers, 42 decline (read by hand); the other 3 add
caution to a diagnosis. The pattern decides nothing alone: the grader also has to say that the answer declines.
"""
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_MULTIPLE = re.compile(
    r"multiple (?!possib|potential|likely|differen|diagnos|condition|cause|disease|answer|option|etiolog|factor)"
    r"\w+(?: \w+){0,3}\Z",
    re.IGNORECASE,
)
"""A whole response such as "Multiple sclerosis", of which small models extract "Multiple"; not "Multiple causes"."""
_WORD = re.compile(r"[a-z]+")
_WORDS = re.compile(r"\w+")
_MIN_OVERLAP = 0.5
"""Share of a refusal's words that a grader's reply must contain to count as a repetition of it."""
_SEPARATORS = re.compile(r"\s*(?:→|⇒|(?<![-=])[-=]++>|\||\s)\s*")
"""Separators of the line in the second step's prompt, which no name contains."""
_DECLINES_ITSELF = "it declines in words of yourself"
_MAX_NAME = 300
"""Maximum length in characters of a name, which may be a list of coexisting diseases."""
_NAME_WANTED = "only the name, or one of the words Multiple and None, or Refused: with the words that refuse"

GraderItem = Token | Called | GraderResult


K = TypeVar("K")
V = TypeVar("V")


class SingleFlightCache(Generic[K, V]):
    """A cache in which concurrent callers with the same key wait for the first of them."""

    def __init__(self, values: Mapping[K, V] | None = None) -> None:
        self.values: dict[K, V] = dict(values or {})
        self._turns: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, key: K) -> AsyncIterator[bool]:
        """Wait for another caller with the same key; then yield whether this caller has to fetch the value.

        A caller that fetches the value stores it in ``values`` inside the context. If it fails or is cancelled, the
        turn goes to one of the waiting callers.
        """
        lock = self._turns.setdefault(key, asyncio.Lock())
        async with lock:
            yield key not in self.values


class LLMGrader(ModelAgent):
    """Two-step grader with a cache: in a run, equal responses are read once, equal pairs of names compared once.

    A cached result names the calls of the original.
    """

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        super().__init__(voice, pack)
        self._verdicts: SingleFlightCache[tuple[str, str, str], GraderResult] = SingleFlightCache()
        self._extractions: SingleFlightCache[bytes, GraderResult] = SingleFlightCache()

    async def grade(self, case: Case, response: str) -> AsyncIterator[GraderItem]:
        judgement = GraderResult("frq", "", "ungradable")
        async for item in self.read(case, response):
            if isinstance(item, GraderResult):
                judgement = item
            else:
                yield item
        if judgement.extracted is None or settled(judgement.extracted) is not None:
            yield judgement
            return
        async for item in self._judge(case, judgement.extracted):
            yield (
                replace(judgement, verdict=item.verdict, call_ids=(*judgement.call_ids, *item.call_ids))
                if isinstance(item, GraderResult)
                else item
            )

    async def read(self, case: Case, response: str) -> AsyncIterator[GraderItem]:
        """Extract only; ``GraderResult`` comes last, ``ungradable`` if the name still has to be compared."""
        key = hashlib.sha256(f"{question_kind(case)}\n{response}".encode(errors="surrogatepass")).digest()
        async with self._extractions.turn(key) as is_first:
            if is_first:
                prompt = instruction_part(self._pack, "grader_extract", response=response, asks_for=question_kind(case))
                request = Request(
                    "grader_extract",
                    [prompt],
                    "grader",
                    "extract",
                    lambda reply: read_name(reply, response),
                    _NAME_WANTED,
                )
                async for item in ask(self._voice, self._pack, request):
                    if not isinstance(item, Parsed):
                        yield item
                        continue
                    extracted = item.value
                    if extracted is None and item.fault.startswith(_DECLINES_ITSELF):
                        # the grader declines in its own words even after repairs, most likely because the response does
                        words = next(_refusals(response), None)
                        extracted = f"Refused: “{words}”" if words else None
                    verdict = None if extracted is None else settled(extracted)
                    self._extractions.values[key] = GraderResult(
                        "frq", extracted, verdict or "ungradable", item.call_ids, READING_VERSION
                    )
        yield self._extractions.values[key]

    async def grade_top3(self, case: Case, response: str) -> AsyncIterator[GraderItem]:
        """Compare the listed diagnoses one by one until one is correct; an unreadable verdict makes it ungradable."""
        names = named_in_list(response)
        calls: list[str] = []
        verdict: Verdict = "incorrect" if names else "no_diagnosis"
        if not NUMBERED.search(response):  # the response may not be a list
            async for item in self.read(case, response):
                if not isinstance(item, GraderResult):
                    yield item
                    continue
                calls += item.call_ids
                if item.verdict == "refused_in_words":
                    yield replace(item, rule="frq_top3")
                    return
        for name in names:
            async for item in self._judge(case, name):
                if isinstance(item, GraderResult):
                    calls += item.call_ids
                    verdict = item.verdict if item.verdict != "incorrect" else verdict
                else:
                    yield item
            if verdict == "correct":
                break
        yield GraderResult("frq_top3", ", ".join(names) or None, verdict, tuple(calls), READING_VERSION)

    async def _judge(self, case: Case, extracted: str) -> AsyncIterator[GraderItem]:
        # a pack without this prompt counts the right answer alone
        accepted = case.accepted if ACCEPTED_PROMPT in self._pack.prompts else ()
        right = "\n".join((case.answer, *accepted))
        pair = (question_kind(case), right.lower(), extracted.lower())
        judgement = GraderResult("frq", extracted, "ungradable")
        async with self._verdicts.turn(pair) as is_first:
            if is_first:
                name = _SEPARATORS.sub(" ", extracted)[:_MAX_NAME]
                values: dict[str, Any] = {"answer": case.answer, "extracted": name, "asks_for": question_kind(case)}
                values |= {"accepted": list(accepted)} if accepted else {}
                name_of_prompt = ACCEPTED_PROMPT if accepted else "grader_judge"
                prompt = instruction_part(self._pack, name_of_prompt, **values)
                verdict_of = partial(read_comparison, name=name, right=(case.answer, *accepted))
                request = Request(name_of_prompt, [prompt], "grader", "judge", verdict_of, "one word, Yes or No")
                async for item in ask(self._voice, self._pack, request):
                    if isinstance(item, Parsed):
                        judgement = GraderResult("frq", extracted, item.value or "ungradable", item.call_ids)
                    else:
                        yield item
                if judgement.verdict != "ungradable" or self._voice.sampling.temperature == 0:
                    self._verdicts.values[pair] = judgement
            else:
                judgement = replace(self._verdicts.values[pair], extracted=extracted)
        yield judgement


def read_yes_no(text: str) -> Verdict | None:
    """Return the verdict of the comparison step, or ``None`` for a reply that says neither yes nor no, or both.

    The reply begins with the word, or the word is alone in a line, after an arrow or after "the answer is". The
    opposite word counts if it joins or replaces the verdict ("Yes and no", "No, wait, yes"), but not as part of a
    sentence ("Yes. There is no other reading", "No, yes would mean …"). The reply may also say that the diagnosis is
    multiple, which the first step missed.
    """
    if len(text) > 2 * _MAX_READ:
        text = f"{text[:_MAX_READ]}\n…\n{text[-_MAX_READ:]}"
    text = in_latin(text)
    begins = _BEGINS.match(text)
    verdicts = [] if begins is None else [begins[1].lower()]
    line_end = 0 if begins is None else _end_of_line(text, begins.end())
    announced = _ANNOUNCED if begins is None else _CONCLUDED
    for word in _YES_NO.finditer(text, begins.end() if begins else 0):
        start = max(0, word.start() - _CONTEXT)
        if word.start() < line_end:  # in the line of a verdict
            joins = _JOINS.search(text, start, word.start()) is not None
            counts = joins or bool(_TURNS.search(text, start, word.start()) and _ENDS.match(text, word.end()))
        else:
            counts = bool(announced.search(text, start, word.start()) and _STANDS_ALONE.match(text, word.end()))
            line_end = _end_of_line(text, word.end()) if counts else line_end
        if counts:
            verdicts.append(word[0].lower())
    words = set(verdicts)
    if not words and special_verdict(read_extracted(text)) == "multiple":
        return "multiple"
    return None if len(words) != 1 else "correct" if words == {"yes"} else "incorrect"


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _words(name: str) -> tuple[str, ...]:
    return tuple(_WORDS.findall(name.casefold()))


def read_comparison(text: str, name: str, right: Iterable[str]) -> Verdict:
    """Return the verdict of the comparison step about a name and the right answers.

    Raises:
        ValueError: The reply has no verdict, or denies that a name is itself.
    """
    if (verdict := read_yes_no(text)) is None:
        raise ValueError("it says neither Yes nor No, or both")
    if verdict == "incorrect" and _words(name) in map(_words, right):
        # small models do this: every answer would be wrong, and no figure would show why
        raise ValueError("it says No, but the two names are the same")
    return verdict


def read_extracted(text: str) -> str:
    """Return the name in the extraction step's reply, without lead-in, quotes or full stop."""
    lines = in_latin(text.strip()[:_MAX_READ]).splitlines()
    name = next((name for line in lines if (name := line.strip(_TRIM))), "None")
    return _LEAD_IN.sub("", name).strip(_TRIM)


def read_name(text: str, response: str) -> str:
    """Return the name in the extraction step's reply; ``Refused: “…”`` for a refusal, quoted from the response.

    A refusal that the response does not contain becomes ``None``. A grader often repeats the refusal instead of the
    word ``Refused``; this counts as a refusal too if the response contains it.

    Raises:
        ValueError: The reply is no name: the grader speaks about itself, the text is too long, or it is only the first
            word of a name such as Multiple sclerosis.
    """
    name = read_extracted(text)
    if special_verdict(name) == "multiple" and (disease := _MULTIPLE.match(read_extracted(response))):
        raise ValueError(f"“{disease[0]}” is the name of one answer, not several: write all of it")
    if refused := _REFUSED.match(name):
        words = quotation(name[refused.end() :], response) or next(_refusals(response), None)
        return "None" if words is None else f"Refused: “{words}”"
    if _FIRST_PERSON.match(name):
        if (words := _repeated(name, response)) is not None:
            return f"Refused: “{words}”"
        does = _DECLINES_ITSELF if _DECLINES.search(name) else "it speaks of yourself"
        raise ValueError(f"{does}, where a name was to be found in the doctor's text")
    if len(name) > _MAX_NAME:
        raise ValueError(f"it is {len(name):,} characters long, and no name")
    return name


def _refusals(response: str) -> Iterator[str]:
    for sentence in _SENTENCE.findall(response):
        if _DECLINES.search(sentence):
            yield " ".join(sentence.split())


def _repeated(reply: str, response: str) -> str | None:
    """Return the response's refusal that a grader's reply repeats, at least nearly; ``None`` if it repeats none."""
    if not _DECLINES.search(reply):
        return None
    reply_words = set(_WORD.findall(reply.lower()))
    for sentence in _refusals(response):
        words = set(_WORD.findall(sentence.lower()))
        if len(words & reply_words) >= _MIN_OVERLAP * min(len(words), len(reply_words)):
            return sentence
    return quotation(reply, response)


def settled(extracted: str) -> Verdict | None:
    """Return the verdict if the extracted name needs no comparison, otherwise ``None``."""
    return "refused_in_words" if extracted.startswith("Refused: “") else special_verdict(extracted)


def named_in_list(response: str) -> list[str]:
    """Return up to three diagnoses of a list, without ``Multiple`` and ``None``."""
    return [name for name in listed_diagnoses(response) if special_verdict(name) is None][:3]


def special_verdict(extracted: str) -> Verdict | None:
    """Return the verdict for ``Multiple`` and ``None``; for any other name, ``None``."""
    word = extracted.strip().lower()
    if word == "multiple":
        return "multiple"
    return "no_diagnosis" if word in ("none", "") else None
