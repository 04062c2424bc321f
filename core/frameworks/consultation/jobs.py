"""A solver answers a case's question from prefixes of stored conversations (``consultation.measures.prefixes``).

An item is a conversation with a question type. Prefixes with the same messages are asked about once. At 100 % the
solver sees the doctor's closing message, or with ``closing="without"`` all but that. An answer that a provider failed
to give is excluded and asked for again by the next run of the job; all other answers are final, refusals too. A
different grader of free responses grades the stored answers of the solver. Calls are listed under the name of the job.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple

from core.agents.base import Grader
from core.asking.scene import AgentOutput, Dialogue, FinalMessage, Material, Question
from core.case import Case
from core.events import COUNTED, Answered, Event, Failed, Graded, Verdict
from core.frameworks.answering import GRADING_TOKENS, answered, shown
from core.frameworks.base import Trial, default_pack, full_names, pack_of
from core.frameworks.casting import GRADER, Casting, CastNames, full_name, is_model
from core.frameworks.consultation import FRAMEWORK
from core.frameworks.consultation.measures.prefixes import ASKED_AT, Closing, beginnings, has_closing
from core.frameworks.consultation.queries import (
    ConversationToSolve,
    PrefixAnswer,
    SolverAndGrader,
    answers_by,
    conversations_to_solve,
)
from core.frameworks.conversation import TrialDialogue, scene_of
from core.frameworks.starts import CAMPAIGN, Missing
from core.jobs.ask_job import AskJob, AskOutcome, ItemResult, JobPlan, JobSize, estimated_tokens, journal_of
from core.journal import RowLine
from core.models.registry import Registry
from core.store.database import Store
from core.store.queries.cases import cases_of
from core.store.queries.utterances import dialogues
from core.store.selection import Selection

SolvedType = Literal["mcq", "frq"]
SOLVED: tuple[SolvedType, ...] = ("mcq", "frq")
"""Question types for a solver: with the case's choices, or without."""
_CHARACTERS_A_TOKEN = 4
_ANSWER_TOKENS, _VERDICT_TOKENS = 10, 4
_GRADER_CALLS = 2


class SolvingItem(NamedTuple):
    """A conversation and a question type; ``stored`` maps a number of messages to this solver's stored answer.

    ``done``: all prefixes have a final answer.
    """

    conversation: ConversationToSolve
    by: SolverAndGrader
    stored: dict[int, PrefixAnswer]
    done: bool
    case: Case | None = None
    dialogue: Dialogue = ()


class Seats(NamedTuple):
    """The solver, and the graders by name."""

    solver: Any
    graders: Mapping[str, Grader]


@dataclass(frozen=True)
class Solving(AskJob[SolvingItem]):
    """Ask a solver for the answer after 0, 20, 40, 60, 80 and 100 % of each stored dialogue; it sees no more of it.

    What it has answered under the same prompt is skipped; stopped by Ctrl-C or its budget, the same command goes on.
    """

    name = "prefixes"
    title = "Solving"
    verb, participle = "solve", "solved"
    report = "prefixes"
    lack = "lack an answer that a provider broke; the same again asks for it"
    shared = True

    solver: Annotated[str, "Who answers: provider/model, an alias, or reference/solver."]
    conversations: Selection = field(default_factory=Selection)
    question: Annotated[
        SolvedType | None, "With the case's choices (mcq) or without (frq); by default what each run asked."
    ] = None
    grader: Annotated[str, "Who grades free responses; by default each run's own grader."] = ""
    prompts: Annotated[str, "A prompt pack with a solver's prompt."] = ""
    limit: Annotated[int | None, "Only N conversations: a random sample, always the same."] = None
    closing: Annotated[Closing, "At 100 %, with the doctor's closing message, or without it, as up to version 0.5."] = (
        "with"
    )

    def key(self, item: SolvingItem) -> str:
        return f"{item.conversation.trial_id} {item.by.question_type}"

    def names(self, registry: Registry) -> CastNames:
        """Return the full names of the solver and the others of its framework."""
        return full_names(FRAMEWORK, CastNames("reference", solver=self.solver, grader=self.grader), registry)

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        solver = self.names(registry)["solver"]
        prompts = pack_of(FRAMEWORK, self.prompts).hash_of("solver") if is_model(solver) else ""
        pieces = self._pieces(store, registry, solver, prompts)
        if not pieces:
            raise Missing("There is no conversation to ask a solver about that fits.", CAMPAIGN)
        graders = {piece.by.grader for piece in pieces if piece.by.grader}
        before = [piece for piece in pieces if piece.done]
        part = self.part(journal_of("solving", solver, prompts), [p for p in pieces if not p.done], before)
        return JobPlan(solver, [part], len(before), [solver, *sorted(graders)])

    def _pieces(self, store: Store, registry: Registry, solver: str, prompts: str) -> list[SolvingItem]:
        grading = default_pack().parts["grader"]
        with store.read() as cursor:
            conversations = conversations_to_solve(cursor, self.conversations.counted, self.limit)
            stored: dict[tuple[str, str, str], list[PrefixAnswer]] = {}
            for answer in answers_by(
                cursor, solver, prompts, [conversation.trial_id for conversation in conversations]
            ):
                stored.setdefault((answer.trial_id, answer.content_hash, answer.question_type), []).append(answer)
        pieces, graders = list[SolvingItem](), dict[str, str]()
        for conversation in conversations:
            for question_type in (self.question,) if self.question else SOLVED:
                selected = self.question or f"multi_turn:{question_type}" in conversation.arms
                if not selected or (question_type == "mcq" and not conversation.choices):
                    continue
                grader = ""
                if question_type == "frq":
                    alias = self.grader or conversation.grader
                    if alias not in graders:
                        graders[alias] = full_name("grader", alias, registry, GRADER.rules)
                    grader = graders[alias]
                by = SolverAndGrader(
                    question_type, solver, prompts, grader, grading if grader and is_model(grader) else ""
                )
                before = stored.get((conversation.trial_id, conversation.content_hash, question_type), [])
                final = [answer for answer in before if _is_final(answer, by)]
                responses = {answer.messages: answer for answer in before if answer.response is not None}
                responses |= {answer.messages: answer for answer in final}
                pieces.append(SolvingItem(conversation, by, responses, self._is_done(conversation, final)))
        return pieces

    def _is_done(self, conversation: ConversationToSolve, final: Sequence[PrefixAnswer]) -> bool:
        """Return whether all shares have a final answer, the last one with the closing message, or without."""
        saw_closing = {
            bool(conversation.messages) and answer.messages == conversation.messages
            for answer in final
            if answer.share == ASKED_AT[-1]
        }
        wanted = self.closing == "with" and conversation.messages > 0
        return {answer.share for answer in final} >= set(ASKED_AT) and wanted in saw_closing

    def load(self, store: Store, todo: Sequence[SolvingItem]) -> Iterator[SolvingItem]:
        with store.read() as cursor:
            cases = cases_of(cursor, [(piece.conversation.case_key, piece.conversation.content_hash) for piece in todo])
            by_trial = dialogues(cursor, [piece.conversation.trial_id for piece in todo])
        for piece in todo:
            case = cases[piece.conversation.case_key, piece.conversation.content_hash]
            yield piece._replace(case=case, dialogue=by_trial[piece.conversation.trial_id])

    def seats(self, registry: Registry, plan: JobPlan, store: Store) -> Seats:
        graders = plan.models[1:]
        casting = Casting(registry, pack_of(FRAMEWORK, self.prompts), base_url=self.base_url, grading=default_pack())
        seated = FRAMEWORK.open(casting, self.names(registry), FRAMEWORK.settings()).solver
        return Seats(seated, {name: casting.grader(name or GRADER.rules[0]) for name in {*graders, ""}})

    async def ask(self, item: SolvingItem, seats: Seats) -> ItemResult:
        assert item.case is not None
        parts = beginnings(item.dialogue)
        answers: dict[int, dict[str, Any]] = {}
        rows, events = list[dict[str, Any]](), list[Event]()
        for share in ASKED_AT:
            part = parts[(len(parts) - 1) * share // 100]
            material = shown("multi_turn", item.case, part)
            if share == ASKED_AT[-1] and self.closing == "with" and has_closing(item.dialogue):
                material = replace(material, dialogue=item.dialogue)
            messages = len(material.dialogue)
            if messages not in answers:
                stored = item.stored.get(messages)
                if stored is not None and _is_final(stored, item.by):
                    answers[messages] = stored._asdict()
                else:
                    new_events = await _solve(item, item.case, material, stored, seats)
                    events += new_events
                    answers[messages] = _answer_of(new_events)
            key = {
                "trial_id": item.conversation.trial_id,
                "content_hash": item.conversation.content_hash,
                **item.by._asdict(),
            }
            rows.append({**answers[messages], **key, "share": share, "messages": messages})
        broken = next((row["detail"] for row in answers.values() if row["verdict"] == "provider_error"), None)
        return ItemResult(
            [RowLine(table="prefix_answers", row=row) for row in rows],
            "" if broken is None else broken or "The provider failed.",
            final=broken is None,  # if one prefix failed, the replies to the others stay reusable
            counts=Counter(row["verdict"] for row in rows if row["verdict"] not in (None, *COUNTED)),
            events=events,
        )

    def size(self, plan: JobPlan, store: Store) -> JobSize:
        """Return calls and tokens; each prefix that may differ from another counts as a call."""
        solver, graded = plan.models[0], Counter[str]()
        template = (
            estimated_tokens(pack_of(FRAMEWORK, self.prompts).prompts["solver"].source) if is_model(solver) else 0
        )
        calls, prompt = 0, 0.0
        for piece in plan.todo:
            n = piece.conversation.exchanges
            closing = piece.conversation.messages > 0 and self.closing == "with"
            ends = {n * share // 100 for share in ASKED_AT[:-1]} | {n + closing}
            graded[piece.by.grader] += len(ends)
            unused = piece.conversation.messages - closing  # an answer at 100 % of the other kind
            missing = max(0, len(ends) - sum(messages != unused for messages in piece.stored))
            read = sum((end + 1) / (n + 1) for end in ends) / len(ends)  # mean share of the dialogue in a prefix
            calls += missing
            prompt += missing * (template + piece.conversation.characters * read / _CHARACTERS_A_TOKEN)
        sizes = {"solver": (solver, (calls, prompt, float(calls * _ANSWER_TOKENS)))}
        del graded[""]
        for name, answers in sorted(graded.items()):
            n = _GRADER_CALLS * answers
            role = f"grader {name}" if len(graded) > 1 else "grader"
            sizes[role] = (name, (n, float(n * GRADING_TOKENS), float(n * _VERDICT_TOKENS)))
        return JobSize(sizes)

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        shares = ", ".join(map(str, ASKED_AT[:-1]))
        yield f"{outcome.by} answered after {shares} and {ASKED_AT[-1]} % of {outcome.done:,} conversations."
        if outcome.counts:
            excluded = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(outcome.counts.items()))
            yield f"Excluded, and never counted as wrong: {excluded}."


def _is_final(answer: PrefixAnswer, by: SolverAndGrader) -> bool:
    """Return whether an answer is complete: this grader has graded it, or there is no response to grade."""
    return answer.verdict != "provider_error" and (answer.by == by or answer.response is None)


async def _solve(
    piece: SolvingItem, case: Case, material: Material, stored: PrefixAnswer | None, seats: Seats
) -> list[Event]:
    """Return the events of the answer after a prefix of the conversation (``material``), and of its verdict.

    A ``stored`` response is graded and not asked for again.
    """
    scene = scene_of(case, piece.conversation.seed, with_specialty=False)

    async def repeat(response: str, call_ids: Sequence[str]) -> AsyncIterator[AgentOutput]:
        yield FinalMessage(response, next(iter(call_ids), None))

    def ask(_: Material, question: Question) -> AsyncIterator[AgentOutput]:
        if stored is not None and stored.response is not None:
            return repeat(stored.response, stored.call_ids)
        saying: AsyncIterator[AgentOutput] = seats.solver.solve(scene, material, question)
        return saying

    arms = (("multi_turn", piece.by.question_type),)
    trial = Trial(piece.conversation.trial_id, case, piece.conversation.number, piece.conversation.seed, arms)  # type: ignore[arg-type]
    dialogue = TrialDialogue(material.dialogue, len)
    return [event async for event in answered(trial, dialogue, ask, seats.graders[piece.by.grader])]


def _answer_of(events: Sequence[Event]) -> dict[str, Any]:
    """Return the columns of an answer: the response, its verdict, and the calls of both."""
    response: str | None = None
    verdict: Verdict | None = None
    extracted, detail, call_ids = None, "", list[str]()
    for event in events:
        match event:
            case Answered():
                response, verdict, detail = event.response, event.reason, event.detail
                call_ids += [event.call_id] if event.call_id else []
            case Graded() if event.grader != "rule":
                verdict, extracted = event.verdict, event.extracted
                call_ids += event.call_ids
            case Failed():
                detail = event.message
    return {
        "response": response,
        "verdict": verdict,
        "extracted": extracted,
        "detail": detail,
        "call_ids": call_ids,
        "answered_at": time.time(),
    }
