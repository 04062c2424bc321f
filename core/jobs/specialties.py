"""A model says to which specialty a case belongs, with a quotation from the case that decides it.

The answers are labels (``core.store.queries.case_labels``): figures group and filter by them, the label of a person
takes precedence, and no prompt of a run changes. A case whose data set states its specialty is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from pydantic import BaseModel

from core.asking.ask import Request, quotation, read_json
from core.asking.parts import instruction_part
from core.case import SPECIALTIES, Case
from core.datasets.select import cases_of
from core.errors import AnamnesisError
from core.jobs.ask_job import AskOutcome, ItemResult, JobPlan, ModelSeat, OfCases, ParsedReply, RequestJob, journal_of
from core.journal import RowLine
from core.models.registry import Registry
from core.prompts import PromptPack, load_pack
from core.store.database import Store
from core.store.queries.case_labels import CaseLabel, cases_labelled_by, label_of

_PROMPT = "specialty"
OTHER = "Other"


class _Reply(BaseModel):
    quotation: str
    specialty: str


@dataclass(frozen=True)
class Specialties(OfCases, RequestJob[Case]):
    """Ask a model, a call a case, for the specialty of cases whose data set does not state one.

    The answers are marked as a model's, and a person can correct them on the Data page. Cases that this model has
    answered are skipped.
    """

    name = "specialties"
    title = "Specialties"
    verb, participle = "label", "labelled"
    lack = "have no label and keep the specialty of their data set; the same again asks about them"
    report = "case_distribution DATASET"
    role = "profiler"

    cases: tuple[Case, ...]
    model: Annotated[str, "The model that labels them: provider/model or an alias."]
    again: Annotated[bool, "Also cases that this model has labelled already."] = False
    stated: Annotated[bool, "Also cases whose data set states a specialty; the label then counts instead."] = False

    @property
    def instance(self) -> str:
        return self.cases[0].dataset if self.cases else ""

    @property
    def pack(self) -> PromptPack:
        return load_pack("cases", (_PROMPT,))

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        made_by = maker(registry.spec(self.model).name, self.pack)
        wanted = self.cases if self.stated else tuple(without_specialty(self.cases))
        if not wanted:
            raise AnamnesisError("The data set of these cases states their specialties: add --stated to label them.")
        with store.read() as cursor:
            before = set() if self.again else cases_labelled_by(cursor, "specialty", made_by)
        todo = [case for case in wanted if (case.case_key, case.text_hash) not in before]
        part = self.part(journal_of("specialties", made_by), todo, wanted)
        return JobPlan(made_by, [part], len(wanted) - len(todo), [registry.spec(self.model).name])

    def request(self, item: Case, pack: PromptPack) -> Request[CaseLabel]:
        values = {"vignette": item.vignette, "question": item.question, "specialties": list(SPECIALTIES)}
        prompt = instruction_part(pack, _PROMPT, **values)
        return Request(_PROMPT, [prompt], "profiler", "profile", lambda text: read_label(text, item), form=_Reply)

    def answer(self, item: Case, reply: ParsedReply[CaseLabel], seat: ModelSeat) -> ItemResult:
        if reply.value is None:
            return reply.answer()
        made_by = maker(seat.voice.model.name, seat.pack)
        label = replace(reply.value, made_by=made_by, made_at=time.time())
        return reply.answer(RowLine(table="case_labels", row=asdict(label)), **{label.value: 1})

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        counts = sorted(outcome.counts.items(), key=lambda pair: -pair[1])
        listed = f": {', '.join(f'{name} {count:,}' for name, count in counts)}" if counts else ""
        yield f"{outcome.done:,} cases labelled by {outcome.by}{listed}."


def maker(model: str, pack: PromptPack) -> str:
    """Return the name under which a model's labels are stored; it contains the prompt's hash."""
    return f"{model} {pack.hash_of(_PROMPT)[:8]}"


def without_specialty(cases: Sequence[Case]) -> list[Case]:
    """Return the cases whose data set does not state one of the twelve specialties.

    ``Other`` is stated if another case of the same data set has one of the other eleven.
    """
    others = {case.case_key.partition("/")[0] for case in cases if case.specialty == OTHER}
    stating = {name for name in others if any(case.specialty in SPECIALTIES[:-1] for case in cases_of(name))}
    return [
        case
        for case in cases
        if case.specialty not in SPECIALTIES
        or (case.specialty == OTHER and case.case_key.partition("/")[0] not in stating)
    ]


def read_label(text: str, case: Case) -> CaseLabel:
    """Return the label in a model's reply; raise ``ValueError`` with the fault of an invalid one."""
    reply = read_json(text, _Reply)
    named = next(
        (name for name in SPECIALTIES if name.casefold() == " ".join(reply.specialty.split()).casefold()), None
    )
    if named is None:
        raise ValueError(f"“{reply.specialty}” is none of the names: choose {', '.join(SPECIALTIES)}")
    words = quotation(reply.quotation, f"{case.vignette} {case.question}")
    if words is None:
        raise ValueError(f"“{reply.quotation}” does not stand in the item: copy the words from it")
    return label_of(case, "specialty", named, "model", "", words)
