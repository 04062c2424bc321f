"""A model writes the patient's first message for each case.

An opening is valid only if its complaint occurs word for word, articles and *his* or *my* aside, in the vignette and in
the opening, which tells nothing else and is the patient's; an invalid opening
is requested again with the error. A case without a valid opening opens by rule (``core.text.case_items``), and is not
asked about again with the same model and prompt.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel

from core.asking.ask import Request, not_copied, quotation, read_json
from core.asking.parts import instruction_part
from core.case import Case
from core.jobs.ask_job import AskOutcome, ItemResult, JobPlan, ModelSeat, OfCases, ParsedReply, RequestJob, journal_of
from core.jobs.plan import with_openings
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack
from core.store.database import Store
from core.store.queries.history_items import opened_by, opening_row
from core.store.rows import row_line
from core.text.case_items import UNWELL, is_vague, opening_of
from core.text.patient_terms import lexicon
from core.text.persons import speaking_of

_PROMPT = "opening"
_MOST_WORDS = 30
_DETAIL = re.compile(r"\d|\b(?:minute|hour|day|week|month|year)s?\b", re.IGNORECASE)
_OWNER = re.compile(r"\b(?:an?|the|his|her|its|their|my|our)\s+", re.IGNORECASE)
"""Words that change with the speaker: “a rash on his trunk” is “a rash on my trunk”."""
_OF_PATIENT = re.compile(r"\b(?:I|my|me)\b", re.IGNORECASE)
_OF_DOCTOR = re.compile(r"\byou(?:['’](?:re|ve)| are)\b|\bsorry to hear\b", re.IGNORECASE)
"""“I'm sorry to hear that you've been short of breath.”"""


class _Reply(BaseModel):
    complaint: str
    opening: str


def openings_pack() -> PromptPack:
    """Load the prompts. They are a separate pack, so that a new wording does not change the prompts of runs."""
    return load_pack("openings", (_PROMPT,))


def maker(model: str, pack: PromptPack, prompt: str = _PROMPT) -> str:
    """Return the name under which a model's openings or items are stored; it contains the prompt's hash."""
    return f"{model} {pack.hash_of(prompt)[:8]}"


@dataclass(frozen=True)
class Openings(OfCases, RequestJob[Case]):
    """Ask a model, a call a case, for the request with which the patient opens a consultation.

    Cases without one that holds open by rule. Stopped by Ctrl-C or its budget, the same command goes on.
    """

    name = "openings"
    title = "Openings"
    items = "openings"
    verb, participle = "make", "made"
    role = "profiler"

    cases: tuple[Case, ...]
    model: Annotated[str, "The model that makes them: provider/model or an alias."]
    again: Annotated[bool, "Also cases that this model was asked about already."] = False

    @property
    def pack(self) -> PromptPack:
        return openings_pack()

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        model = registry.spec(self.model).name
        made_by = maker(model, self.pack)
        with store.read() as cursor:
            before = set() if self.again else opened_by(cursor, made_by)
        todo = [case for case in self.cases if (case.case_key, case.content_hash) not in before]
        part = self.part(journal_of("openings", made_by), todo, self.cases)
        return JobPlan(made_by, [part], len(self.cases) - len(todo), [model])

    def request(self, item: Case, pack: PromptPack) -> Request[str]:
        values = {"vignette": item.vignette, "caregiver": speaking_of(item).caregiver}
        prompt = instruction_part(pack, _PROMPT, **values)
        return Request(_PROMPT, [prompt], "profiler", "profile", lambda text: read_opening(text, item), form=_Reply)

    def answer(self, item: Case, reply: ParsedReply[str], seat: ModelSeat) -> ItemResult:
        if reply.broken:
            return reply.answer()
        row = opening_row(item, reply.value, maker(seat.voice.model.name, seat.pack), time.time())
        line = row_line(row)
        return ItemResult([line], remark=reply.none, counts={"none": reply.value is None})

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        none = outcome.counts.get("none", 0)
        yield f"{outcome.done - none:,} openings by {outcome.by}; none that holds for {none:,} cases."

    def findings(self, store: Store, outcome: AskOutcome) -> Iterable[str]:
        yield openings_in_words(self.cases, store)


def openings_in_words(cases: Sequence[Case], store: Store) -> str:
    """Return a sentence on how many of the cases open by rule, and how many without a complaint."""
    ready = with_openings(cases, store)
    by_rule = sum(case.opening is None for case in ready)
    vague = sum(is_vague(opening_of(case)) for case in ready)
    return (
        f"Of {len(ready)} cases {by_rule} open by rule ({by_rule / len(ready):.0%}), and {vague} of all say only "
        f"“{UNWELL}” ({vague / len(ready):.0%}; all by rule: {sum(is_vague(opening_of(case)) for case in cases)})."
    )


def read_opening(text: str, case: Case) -> str:
    """Return the opening of a model's reply; raise ``ValueError`` with the fault of an invalid one."""
    reply = read_json(text, _Reply)
    opening = " ".join(reply.opening.split())
    complaint = _OWNER.sub("", reply.complaint)
    if quotation(complaint, _OWNER.sub("", case.vignette)) is None:
        raise ValueError(not_copied(reply.complaint, case.vignette))
    if quotation(complaint, _OWNER.sub("", opening)) is None:
        raise ValueError(f"the opening does not have the words “{reply.complaint}”")
    if _DETAIL.search(opening) or len(opening.split()) > _MOST_WORDS:
        raise ValueError(f"the opening tells details: it has no number, no time and {_MOST_WORDS} words at most")
    if _OF_DOCTOR.search(opening) or not (speaking_of(case).caregiver or _OF_PATIENT.search(opening)):
        raise ValueError("the opening is not in the words of the one who comes for help")
    if lexicon().named_in(opening):
        raise ValueError("the opening has a word that only a clinician would say: choose a complaint in plain words")
    return opening
