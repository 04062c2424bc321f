"""A solver answers a case's question from the beginnings of stored conversations (``consultation.measures.prefixes``).

One piece of work is one conversation and one type of question. Beginnings that hold the same messages are asked about
once. What a provider breaks is excluded, and asked again by the same job; everything else is final, a refusal too.
Another grader of free responses is given what the solver said before. Calls stand under the name of the job.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from core.agents.base import Dialogue, Material, Question, Said, Saying
from core.agents.memory import Unit
from core.case import Case
from core.errors import AnamnesisError
from core.events import COUNTED, Answered, Failed, Graded, Verdict
from core.frameworks.answering import GRADING_TOKENS, answered, shown
from core.frameworks.base import Framework, Trial, default_pack, frameworks, full_names, pack_of, seat_of
from core.frameworks.casting import GRADER, Casting, CastNames, full_name, is_model
from core.frameworks.consultation.measures.prefixes import ASKED_AT, beginnings
from core.frameworks.consultation.queries import PrefixAnswer, Solver, TalkToSolve, answers_by, talks_to_solve
from core.frameworks.conversation import Talk, scene_of
from core.jobs.engine import Job, Options, carry_out, in_background
from core.jobs.estimate import Estimate, check_budget, estimated
from core.jobs.progress import Ended, Progress, Stop
from core.journal import RowLine
from core.models.registry import Registry, load_registry
from core.prompts import grader_hash
from core.store.database import Store
from core.store.queries.failures import cases_of, dialogues
from core.store.selection import Selection
from core.work import Work, work_at

SolvedType = Literal["mcq", "frq"]
SOLVED: tuple[SolvedType, ...] = ("mcq", "frq")
"""Question types that a solver is asked: with the case's choices, or without."""
_READ_AT_ONCE = 100
_CHARACTERS_A_TOKEN = 4
_PROMPT_TOKENS, _ANSWER_TOKENS, _VERDICT_TOKENS = 70, 10, 4
_GRADER_CALLS = 2


@dataclass(frozen=True)
class Solving:
    """What is asked of whom: the ``solver`` (a model, or ``reference``), about ``limit`` of the selected conversations.

    ``question_types``: as each run asked after its conversations where none is named. ``grader`` of free responses:
    each run's own where none is named. ``prompts`` is a pack with a solver's prompt.
    """

    solver: str
    talks: Selection = field(default_factory=Selection)
    question_types: tuple[SolvedType, ...] = ()
    grader: str = ""
    prompts: str = ""
    limit: int | None = None
    base_url: str | None = None


class _Piece(NamedTuple):
    """A conversation and a type of question, with what this solver said of it and whether nothing is left to ask."""

    talk: TalkToSolve
    by: Solver
    said: dict[int, PrefixAnswer]
    done: bool


@dataclass(frozen=True)
class Solved(Ended):
    """How it went. Pieces are conversations, counted for each type of question.

    ``solved`` pieces have an answer at every share; ``failed`` lack some and are asked again; ``kept`` were solved
    before. ``excluded`` are this go's answers that do not count, by verdict.
    """

    solver: str
    solved: int
    failed: int
    kept: int
    excluded: dict[str, int]


def solving_framework() -> Framework:
    """Return the framework that seats a solver."""
    return next(known for known in frameworks().values() if seat_of(known, "solver"))


def _pieces(store: Store, wanted: Solving, registry: Registry) -> list[_Piece]:
    """Return the conversations with who is to answer; raise ``AnamnesisError`` where none fits."""
    known = solving_framework()
    named = full_names(known, CastNames("reference", solver=wanted.solver, grader=wanted.grader), registry)
    solver = named["solver"]
    prompts = pack_of(known, wanted.prompts).hash_of("solver") if is_model(solver) else ""
    grading = grader_hash(default_pack())
    with store.read() as cursor:
        talks = talks_to_solve(cursor, wanted.talks.counted, wanted.limit)
        said: dict[tuple[str, str, str], list[PrefixAnswer]] = {}
        for one in answers_by(cursor, solver, prompts, [talk.trial_id for talk in talks]):
            said.setdefault((one.trial_id, one.content_hash, one.question_type), []).append(one)
    pieces, graders = list[_Piece](), dict[str, str]()
    for talk in talks:
        for question_type in wanted.question_types or SOLVED:
            asked = wanted.question_types or f"multi_turn:{question_type}" in talk.arms
            if not asked or (question_type == "mcq" and not talk.choices):
                continue
            grader = ""
            if question_type == "frq":
                named_so = wanted.grader or talk.grader
                if named_so not in graders:
                    graders[named_so] = full_name("grader", named_so, registry, GRADER.rules)
                grader = graders[named_so]
            by = Solver(question_type, solver, prompts, grader, grading if grader and is_model(grader) else "")
            before = said.get((talk.trial_id, talk.content_hash, question_type), [])
            final = [one for one in before if _is_final(one, by)]
            heard = {one.messages: one for one in before if one.response is not None}
            heard |= {one.messages: one for one in final}
            pieces.append(_Piece(talk, by, heard, {one.share for one in final} >= set(ASKED_AT)))
    if not pieces:
        raise AnamnesisError(
            "There is no conversation to ask a solver about that fits. Start with `python -m core run --doctor "
            "reference/bayes`, or choose another --run or --question."
        )
    return pieces


def _is_final(one: PrefixAnswer, by: Solver) -> bool:
    """Say whether an answer is not to be asked for again: it is graded, or there is none whoever grades it."""
    return one.verdict != "provider_error" and (one.by == by or one.response is None)


def estimate(store: Store, wanted: Solving, registry: Registry, concurrency: int | None = None) -> Estimate:
    """Estimate a job; raise as ``solve`` does. Every beginning that may differ from another is counted as a call."""
    pieces = _pieces(store, wanted, registry)
    todo = [one for one in pieces if not one.done]
    calls, prompt = 0, 0.0
    graded: Counter[str] = Counter()
    for talk, by, said, _ in todo:
        n = talk.exchanges
        ends = {n * share // 100 for share in ASKED_AT}
        graded[by.grader] += len(ends) if by.grader else 0
        left = max(0, len(ends) - len(said))
        read = sum((end + 1) / (n + 1) for end in ends) / len(ends)  # of the dialogue, by a beginning
        calls += left
        prompt += left * (_PROMPT_TOKENS + talk.characters * read / _CHARACTERS_A_TOKEN)
    solver = pieces[0].by.solver
    sizes = {"solver": (solver, (calls, prompt, float(calls * _ANSWER_TOKENS)))}
    several = len(graded) > 2
    for name, answers in sorted(graded.items()):
        n = _GRADER_CALLS * answers
        if name:
            size = (n, float(n * GRADING_TOKENS), float(n * _VERDICT_TOKENS))
            sizes[f"grader {name}" if several else "grader"] = (name, size)
    counts = {"conversations to solve": len(todo), "solved before": len(pieces) - len(todo)}
    return estimated(counts, len(todo), sizes, registry, concurrency, lambda role: wanted.base_url)


def solve(
    store: Store, wanted: Solving, registry: Registry, options: Options | None = None, stop: Stop | None = None
) -> Solved:
    """Ask about the conversations that this solver has not answered; what came by a stop is kept.

    Raises ``UsageError`` for an unknown model, a missing key or a budget without prices, and ``AnamnesisError`` where
    no conversation fits, or no call can ever succeed.
    """
    options, stop = options or Options(), stop or Stop()
    known, pieces = solving_framework(), _pieces(store, wanted, registry)
    solver, prompts = pieces[0].by.solver, pieces[0].by.prompt_hash
    graders = {one.by.grader for one in pieces if one.by.grader}
    models = [name for name in (solver, *sorted(graders)) if is_model(name)]
    check_budget(options.budget_usd, [registry.spec(name, base_url=wanted.base_url) for name in models])
    casting = Casting(registry, pack_of(known, wanted.prompts), base_url=wanted.base_url, grading=default_pack())
    names = full_names(known, CastNames("reference", solver=solver), registry)
    seated = known.open(casting, names, known.settings()).solver
    judges = {name: casting.grader(name or GRADER.rules[0]) for name in {*graders, ""}}
    todo = [one for one in pieces if not one.done]
    progress, solved, excluded = Progress(len(todo)), Counter[str](), Counter[str]()

    async def answer(one: _Piece, case: Case, dialogue: Dialogue, said: PrefixAnswer | None) -> dict[str, Any]:
        """Return what comes of a beginning of the conversation: a response, its verdict, and the calls behind both."""
        scene = scene_of(case, one.talk.seed, named=False)

        async def repeat(response: str, call_ids: Sequence[str]) -> AsyncIterator[Saying]:
            yield Said(response, next(iter(call_ids), None))

        def ask(material: Material, question: Question) -> AsyncIterator[Saying]:
            if said is not None and said.response is not None:
                return repeat(said.response, said.call_ids)
            found: AsyncIterator[Saying] = seated.solve(scene, material, question)
            return found

        trial = Trial(one.talk.trial_id, case, one.talk.number, one.talk.seed, (("multi_turn", one.by.question_type),))
        events = [event async for event in answered(trial, Talk(dialogue, len), ask, judges[one.by.grader])]
        progress.note(events)
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

    async def do(task: tuple[_Piece, Case, Dialogue], unit: Unit) -> list[RowLine]:
        one, case, dialogue = task
        parts = beginnings(dialogue)
        came: dict[int, dict[str, Any]] = {}
        rows = []
        for share in ASKED_AT:
            part = parts[(len(parts) - 1) * share // 100]
            messages = len(shown("multi_turn", case, part).dialogue)
            if messages not in came:
                said = one.said.get(messages)
                known_already = said is not None and _is_final(said, one.by)
                came[messages] = said._asdict() if said and known_already else await answer(one, case, part, said)
            of = {"trial_id": one.talk.trial_id, "content_hash": one.talk.content_hash, **one.by._asdict()}
            rows.append({**came[messages], **of, "share": share, "messages": messages})
        broken = any(row["verdict"] == "provider_error" for row in came.values())
        solved.update(failed=broken, solved=not broken)
        excluded.update(row["verdict"] for row in rows if row["verdict"] not in (None, *COUNTED))
        # an answer that a provider broke is asked for again: what came to the others is not used up then
        ends = "" if broken else unit.unit_id
        return [RowLine(table="prefix_answers", row=row, unit=ends) for row in rows]

    name = f"solving-{hashlib.sha256(f'{solver} {prompts}'.encode()).hexdigest()[:16]}"
    units = {key: " ".join((name, *key)) for key in ((one.talk.trial_id, one.by.question_type) for one in pieces)}
    job = Job[tuple[_Piece, Case, Dialogue]](
        name,
        lambda task: units[task[0].talk.trial_id, task[0].by.question_type],
        do,
        options,
        stop,
        progress,
        listed=lambda task: name,
        ours=set(units.values()).__contains__,
        shared=True,
    )
    carry_out(job, _tasks(store, todo), registry, store)
    before = f" {solved['solved']:,} conversations were solved before and are kept." if solved["solved"] else ""
    return Solved(
        solver,
        solved["solved"],
        solved["failed"],
        len(pieces) - len(todo),
        dict(excluded),
        **progress.ended(stop, before),
    )


def _tasks(store: Store, todo: Sequence[_Piece]) -> Iterator[tuple[_Piece, Case, Dialogue]]:
    """Read cases and conversations when they are asked for."""
    for start in range(0, len(todo), _READ_AT_ONCE):
        chosen = todo[start : start + _READ_AT_ONCE]
        with store.read() as cursor:
            cases = cases_of(cursor, [(one.talk.case_key, one.talk.content_hash) for one in chosen])
            said = dialogues(cursor, [one.talk.trial_id for one in chosen])
        for one in chosen:
            yield one, cases[one.talk.case_key, one.talk.content_hash], said[one.talk.trial_id]


def begin_solving(wanted: Solving, *, budget_usd: float | None = None) -> Work[Solved]:
    """Start a job in the background of this process, or return the one that is under way in it."""
    return in_background(
        ("solving", str(Store().path)),
        lambda options, stop: solve(Store(), wanted, load_registry(), options, stop),
        "solve",
        budget_usd=budget_usd,
    )


def solving() -> Work[Solved] | None:
    """Return the job that is under way or was the last of this process."""
    return work_at(("solving", str(Store().path)))
