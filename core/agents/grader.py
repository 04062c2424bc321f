"""The grader played by a language model: extract the answer, then compare it; what stays unreadable is ungradable.

Source: Johri et al. 2025, Methods (grader-AI agent); where a question asks for something else than a diagnosis the same
rules are put in other words. ``Multiple`` and ``None`` are not sent to the second step, nor is a refusal. That one is
our own: it has to be quoted from the reply, and what does not stand there is no refusal but no diagnosis.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Generic, TypeVar

from core.agents.base import Judgement
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
"""Not in "no-one", nor "no. 2"."""
_NAMED = r"\b(?:answer|verdict|reply|response|conclusion)\b[\"'*_]*"
_ANNOUNCED = re.compile(
    rf"(?:^|→|⇒|[-=]>|{_NAMED}(?: is\b| would be\b|\s*[:=]))[^\w\n]*\Z", re.IGNORECASE | re.MULTILINE
)
"""What precedes a verdict that does not begin the reply."""
_CONCLUDED = re.compile(rf"(?:^|{_NAMED}(?: is\b|\s*[:=]))[^\w\n]*\Z", re.IGNORECASE | re.MULTILINE)
"""The same in the lines after a verdict; examples with an arrow, which models like to go on with, are no second one."""
_TURNS = re.compile(
    r"(?:[^\w\s][^\w\n]*|\b(?:yes|no|and|or|but|wait|actually|rather|maybe|perhaps|mean|sorry|well|partly|then|also)"
    r"[^\w\n]*)\Z",
    re.IGNORECASE,
)
"""What precedes a word that takes the place of the verdict before it, or joins it; a noun's "no" has it, too."""
_JOINS = re.compile(r"\b(?:yes|no)[^\w\n]*(?:\b(?:and|or)\b|[/&|])[^\w\n]*\Z", re.IGNORECASE)
"""The first half of "Yes and no because"."""
_STANDS_ALONE = re.compile(r"[^\w\n]{0,60}(?:$|[.,;!])", re.MULTILINE)
_ENDS = re.compile(r"\s*(?:\Z|\n|[^\w\s]|(?:and|or|but)\b)")
_AROUND = 80
"""Characters before and behind a yes or no that are looked at."""
_LEAD_IN = re.compile(
    r"^(?:the )?(?:(?:final |extracted )?diagnosis(?: is)?\s*:?|"
    r"(?:final |extracted )?(?:answer|test|treatment|organism|mechanism|finding)\**(?:\s*:| is\b))\**\s*",
    re.IGNORECASE,
)
_TRIM = " \t\n.*\"'`:-"
_MOST_READ = 10_000
"""Characters of a grader's reply in which a name is looked for, and of its beginning and end in which a verdict is."""
READING_VERSION = 2
"""Of how the extraction step is read; 1 called a refusal that the grader repeated in the first person ungradable."""
_REFUSED = re.compile(
    r"^(?:(?:the )?(?:doctor|response|reply|text|answer|model|ai|it|this|he|she)\b[\w ]{0,30}?\b)?"
    r"(?:refus(?:ed|es|al|ing)|declin(?:ed|es|ing))\b(?:[\w ]{0,60}:)?[\s:*–—-]*",
    re.IGNORECASE,
)
_OF_ITS_OWN = re.compile(
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
"""What declines in a doctor's sentence; not "I cannot rule out gout", nor "I do not know".

Of 45 sentences drawn from the 461 that it finds in the authors' released answers, 42 decline (read by hand); the others
caution next to a diagnosis. It decides nothing alone: the grader has to say that the answer declines.
"""
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WORD = re.compile(r"[a-z]+")
_IN_COMMON = 0.5
"""Share of a refusal's words that a grader writes who repeats it in words of its own."""
_WITHIN = re.compile(r"\s*(?:→|⇒|(?<![-=])[-=]++>|\||\s)\s*")
"""What the second step's line is made of, which no name holds."""
_DECLINES_ITSELF = "it declines in words of yourself"
_LONGEST = 300
"""Characters that a name has at most, lists of diseases that are there together among them."""
_NAME_WANTED = "only the name, or one of the words Multiple and None, or Refused: with the words that refuse"

Item = Token | Called | Judgement


K = TypeVar("K")
V = TypeVar("V")


class SingleFlightCache(Generic[K, V]):
    """What a grader said already, so that nothing is asked twice: of those who want the same at once, one asks."""

    def __init__(self, known: Mapping[K, V] | None = None) -> None:
        self.known: dict[K, V] = dict(known or {})
        self._asked: dict[K, asyncio.Event] = {}

    @asynccontextmanager
    async def turn(self, key: K) -> AsyncIterator[bool]:
        """Wait while somebody else asks; then say whether the caller is to ask, because ``known`` has no such key yet.

        Who is to ask puts what it hears into ``known`` before it leaves. Where it leaves without, because it failed or
        was cancelled, the turn goes to one of those who wait.
        """
        while key in self._asked:
            await self._asked[key].wait()
        if key in self.known:
            yield False
            return
        self._asked[key] = heard = asyncio.Event()
        try:
            yield True
        finally:
            del self._asked[key]
            heard.set()


class LLMGrader(ModelAgent):
    """Two-step grader that asks nothing twice: in a run one response gets one reading, one pair of names one verdict.

    What is taken over names the calls that led to it, so it is known as a copy.
    """

    def __init__(self, voice: Voice, pack: PromptPack) -> None:
        super().__init__(voice, pack)
        self._memory: SingleFlightCache[tuple[str, str, str], Judgement] = SingleFlightCache()
        self._read: SingleFlightCache[bytes, Judgement] = SingleFlightCache()

    async def grade(self, case: Case, response: str) -> AsyncIterator[Item]:
        """Extract and compare; yields the calls and at last the judgement."""
        read = Judgement("frq", "", "ungradable")
        async for item in self.read(case, response):
            if isinstance(item, Judgement):
                read = item
            else:
                yield item
        if read.extracted is None or settled(read.extracted) is not None:
            yield read
            return
        async for item in self._judge(case, read.extracted):
            yield (
                replace(read, verdict=item.verdict, call_ids=(*read.call_ids, *item.call_ids))
                if isinstance(item, Judgement)
                else item
            )

    async def read(self, case: Case, response: str) -> AsyncIterator[Item]:
        """Extract alone; yields the calls and what the response names, ``ungradable`` where that is to be compared."""
        key = hashlib.sha256(f"{question_kind(case)}\n{response}".encode(errors="surrogatepass")).digest()
        read = Judgement("frq", None, "ungradable", rule_version=READING_VERSION)
        async with self._read.turn(key) as asking:
            if asking:
                prompt = instruction_part(self._pack, "grader_extract", response=response, asks_for=question_kind(case))
                asked = Request(
                    "grader_extract",
                    [prompt],
                    "grader",
                    "extract",
                    lambda said: read_name(said, response),
                    _NAME_WANTED,
                )
                async for item in ask(self._voice, self._pack, asked):
                    if not isinstance(item, Parsed):
                        yield item
                        continue
                    extracted = item.value
                    if extracted is None and item.fault.startswith(_DECLINES_ITSELF):
                        # asked again it goes on to decline, in words of its own: so does the response, in others
                        words = next(_refusals(response), None)
                        extracted = f"Refused: “{words}”" if words else None
                    verdict = None if extracted is None else settled(extracted)
                    read = replace(read, extracted=extracted, verdict=verdict or "ungradable")
                    read = self._read.known[key] = replace(read, call_ids=item.call_ids)
            else:
                read = self._read.known[key]
        yield read

    async def grade_top3(self, case: Case, response: str) -> AsyncIterator[Item]:
        """Judge the listed diagnoses one by one until one fits; what could not be judged leaves it ungradable."""
        names = named_in_list(response)
        calls: list[str] = []
        verdict: Verdict = "incorrect" if names else "no_diagnosis"
        if not NUMBERED.search(response):  # it may be no list at all
            async for item in self.read(case, response):
                if not isinstance(item, Judgement):
                    yield item
                    continue
                calls += item.call_ids
                if item.verdict == "refused_in_words":
                    yield replace(item, rule="frq_top3")
                    return
        for name in names:
            async for item in self._judge(case, name):
                if isinstance(item, Judgement):
                    calls += item.call_ids
                    verdict = item.verdict if item.verdict != "incorrect" else verdict
                else:
                    yield item
            if verdict == "correct":
                break
        yield Judgement("frq_top3", ", ".join(names) or None, verdict, tuple(calls), READING_VERSION)

    async def _judge(self, case: Case, extracted: str) -> AsyncIterator[Item]:
        pair = (question_kind(case), case.answer.lower(), extracted.lower())
        found = Judgement("frq", extracted, "ungradable")
        async with self._memory.turn(pair) as asking:
            if asking:
                name = _WITHIN.sub(" ", extracted)[:_LONGEST]
                compared = {"answer": case.answer, "extracted": name, "asks_for": question_kind(case)}
                prompt = instruction_part(self._pack, "grader_judge", **compared)
                asked = Request("grader_judge", [prompt], "grader", "judge", _verdict, "one word, Yes or No")
                async for item in ask(self._voice, self._pack, asked):
                    if isinstance(item, Parsed):
                        found = Judgement("frq", extracted, item.value or "ungradable", item.call_ids)
                    else:
                        yield item
                if found.verdict != "ungradable" or self._voice.sampling.temperature == 0:
                    self._memory.known[pair] = found
            else:
                found = replace(self._memory.known[pair], extracted=extracted)
        yield found


def read_yes_no(text: str) -> Verdict | None:
    """Return the verdict of the comparing step, or ``None`` for what says neither yes nor no, or both.

    It begins with the word, or the word stands alone in a line, behind an arrow or behind "the answer is". The other
    word counts against it where it joins the verdict or takes its place ("Yes and no", "No, wait, yes"), and not as a
    part of a sentence ("Yes. There is no other reading", "No, yes would mean …"). A reply that calls the diagnosis
    multiple says what the first step did not see.
    """
    if len(text) > 2 * _MOST_READ:
        text = f"{text[:_MOST_READ]}\n…\n{text[-_MOST_READ:]}"
    text = in_latin(text)
    begins = _BEGINS.match(text)
    verdicts = [] if begins is None else [begins[1].lower()]
    line_end = 0 if begins is None else _end_of_line(text, begins.end())
    announced = _ANNOUNCED if begins is None else _CONCLUDED
    for word in _YES_NO.finditer(text, begins.end() if begins else 0):
        start = max(0, word.start() - _AROUND)
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


def _verdict(text: str) -> Verdict:
    if (verdict := read_yes_no(text)) is None:
        raise ValueError("it says neither Yes nor No, or both")
    return verdict


def read_extracted(text: str) -> str:
    """Return the name that the extraction step wrote, without lead-in, quotes or full stop."""
    lines = in_latin(text.strip()[:_MOST_READ]).splitlines()
    name = next((name for line in lines if (name := line.strip(_TRIM))), "None")
    return _LEAD_IN.sub("", name).strip(_TRIM)


def read_name(text: str, response: str) -> str:
    """Return what the extraction step wrote; a refusal as ``Refused: “…”``, in the words of the response, or as none.

    A grader that is asked to name what a refusal names often says the refusal again in place of the word for it: that
    is a refusal, too, where the response holds it. Raises ``ValueError`` for what is no name: what the grader says of
    itself, or too much.
    """
    name = read_extracted(text)
    if found := _REFUSED.match(name):
        words = quotation(name[found.end() :], response) or next(_refusals(response), None)
        return "None" if words is None else f"Refused: “{words}”"
    if _OF_ITS_OWN.match(name):
        if (words := _repeated(name, response)) is not None:
            return f"Refused: “{words}”"
        does = _DECLINES_ITSELF if _DECLINES.search(name) else "it speaks of yourself"
        raise ValueError(f"{does}, where a name was to be found in the doctor's text")
    if len(name) > _LONGEST:
        raise ValueError(f"it is {len(name):,} characters long, and no name")
    return name


def _refusals(response: str) -> Iterator[str]:
    """Yield the sentences of a response in which it declines."""
    for sentence in _SENTENCE.findall(response):
        if _DECLINES.search(sentence):
            yield " ".join(sentence.split())


def _repeated(said: str, response: str) -> str | None:
    """Return the refusal of a response that a grader says again, word for word or nearly; ``None``: it says its own."""
    if not _DECLINES.search(said):
        return None
    spoken = set(_WORD.findall(said.lower()))
    for sentence in _refusals(response):
        words = set(_WORD.findall(sentence.lower()))
        if len(words & spoken) >= _IN_COMMON * min(len(words), len(spoken)):
            return sentence
    return quotation(said, response)


def settled(extracted: str) -> Verdict | None:
    """Return the verdict of what the extraction step read, where it needs no comparison."""
    return "refused_in_words" if extracted.startswith("Refused: “") else special_verdict(extracted)


def named_in_list(response: str) -> list[str]:
    """Return up to three diagnoses of a list; ``Multiple`` and ``None`` name nothing."""
    return [name for name in listed_diagnoses(response) if special_verdict(name) is None][:3]


def special_verdict(extracted: str) -> Verdict | None:
    """Return the verdict of ``Multiple`` and ``None``, which need no comparison."""
    word = extracted.strip().lower()
    if word == "multiple":
        return "multiple"
    return "no_diagnosis" if word in ("none", "") else None
