"""``judge_check``: shows judges edited conversations, after which it is known how their answers must behave.

The edits are those of ``core.judging.check``, of conversations that the judge has judged by the form. A question whose
evidence is removed is asked alone; all other requests are those of the job ``judge``.
"""

from __future__ import annotations

import inspect
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from core.asking.scene import Dialogue
from core.errors import UsageError
from core.events import CallRecord
from core.frameworks.starts import CAMPAIGN, Missing
from core.jobs.ask_job import AskOutcome, ItemResult, JobPlan, ParsedReply, journal_of
from core.jobs.judge import CheckOfJudge, ItemToJudge, Judging, asked_of_models, in_batches
from core.journal import RowLine
from core.judging.check import (
    CHECK_KINDS,
    FAILED,
    PASSED,
    PREFIX,
    ROUNDS,
    applies,
    difference,
    edited,
    is_failure,
    removals,
)
from core.judging.form import DOCTOR, Form, FormQuestion
from core.judging.judgement import ALL_TOGETHER, Judge, Judgement
from core.judging.request import FormAnswer
from core.models.registry import Registry
from core.reviews.rubrics import any_form
from core.store.database import Store
from core.store.queries.judgements import JudgedKey, judged_keys, judgement_row, judgements

_USUAL_CONVERSATIONS = 20
_NOT_OFFERED = ("data", "review", "pool", "repeat", "trials")


@dataclass(frozen=True)
class JudgeCheck(Judging):
    """Check judges without labels, on edited conversations that they have judged by a form.

    Without the words that it quotes, an answer must not stay yes; nor in a conversation on another case, if the
    question is about the case. With a harmless change, asked again, or with the doctor's messages at twice the length,
    an answer must stay. Report judge_check has the shares of failures by question.
    """

    name = "judge_check"
    title = "Checking judges"
    report = "judge_check"

    limit: Annotated[int | None, "Only N conversations: a random sample, always the same."] = _USUAL_CONVERSATIONS
    show: Annotated[int, "Print the edited conversations of N judged ones."] = 0

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        return [field for field in super().options() if field.name not in _NOT_OFFERED]

    def plan(self, store: Store, registry: Registry) -> JobPlan:
        """Plan the checks without a result, of the judges' answers that count."""
        items = self._items(store, registry)
        parts, kept = [], 0
        for judge, of_judge in items.items():
            subjects = list(dict.fromkeys(item.subject for item in of_judge))
            with store.read() as cursor:
                done = judged_keys(cursor, PREFIX + self.form, judge, subjects)
            todo = [item for item in of_judge if not _keys(item) <= done]
            kept += len(of_judge) - len(todo)
            parts.append(self.part(journal_of("checking", self.form, *map(str, judge)), todo, of_judge))
        names = list(dict.fromkeys(judge.name for judge in items))
        return JobPlan(", ".join(names), parts, kept, names)

    def _items(self, store: Store, registry: Registry) -> dict[Judge, list[ItemToJudge]]:
        form = any_form(store, self.form)
        if form.about != "conversation":
            raise UsageError(f"Only judgements of conversations are checked; {form.name} is about a {form.about}.")
        subjects = replace(self, limit=None)._subjects(store, form)
        items: dict[Judge, list[ItemToJudge]] = {}
        for judge in self._judges(registry, form, subjects):
            if judge.name == DOCTOR:
                raise UsageError("The doctors of conversations cannot be checked: name a model by --by.")
            with store.read() as cursor:
                together, _ = self._setting(cursor, form, judge, subjects, least=1)
                judge = judge._replace(together=together or ALL_TOGETHER)
                stored = judgements(cursor, [form.name], subjects=[subject.subject for subject in subjects])
            before: dict[str, dict[str, Judgement]] = defaultdict(dict)
            for answer in stored:
                if answer.judge == judge and answer.repeat == 1 and answer.counts:
                    before[answer.subject][answer.against] = answer
            judged = [subject for subject in subjects if subject.subject in before][: self.limit]
            items[judge] = []
            for number, subject in enumerate(judged):
                following = judged[number + 1 :] + judged[:number]
                other = next((other.subject for other in following if other.case_key != subject.case_key), "")
                questions = asked_of_models(subject.questions)
                items[judge] += _checks(form, judge, subject.subject, questions, before[subject.subject], other)
        if not any(items.values()):
            names = ", ".join(judge.name for judge in items)
            raise Missing(
                f"{names} has no answers to check: let it judge conversations by {form.name} first (job judge).",
                CAMPAIGN,
            )
        return items

    def load(self, store: Store, todo: Sequence[ItemToJudge]) -> Iterator[ItemToJudge]:
        others = [item._replace(subject=item.check.other) for item in todo if item.check and item.check.other]
        loaded = super().load(store, others)
        dialogues = {item.subject: item.material.dialogue for item in loaded if item.material}
        for item in super().load(store, todo):
            if item.check and item.material and item.check.kind != "evidence":
                other: Dialogue = dialogues.get(item.check.other, ())
                dialogue = edited(item.check.kind, item.material.dialogue, item.subject, other)
                material = None if dialogue is None else replace(item.material, dialogue=dialogue)
                yield item._replace(material=material)
            else:
                yield item

    def key(self, item: ItemToJudge) -> str:
        return f"{item.check.kind if item.check else ''} {super().key(item)}"

    async def ask(self, item: ItemToJudge, seats: Any) -> ItemResult:
        if item.check is None or item.material is None:
            return ItemResult(failure="it has no place for this edit, or is no longer stored")
        if item.check.kind != "evidence":
            return self._result(item, await self._reply(item, seats), seats.form)
        (question,), (before,) = item.questions, item.check.before.values()
        rounds = removals(item.material.dialogue, before, question, question.quotes or seats.form.evidence)
        dialogue, calls = next(rounds), tuple[CallRecord, ...]()
        for _ in range(ROUNDS):
            material = replace(item.material, dialogue=dialogue)
            reply = await self._reply(item._replace(material=material), seats)
            reply = replace(reply, calls=calls + reply.calls)
            calls = reply.calls
            if reply.value is None:
                break
            try:
                dialogue = rounds.send(reply.value[0])
            except StopIteration:
                break
        return self._result(item, reply, seats.form)

    def _result(self, item: ItemToJudge, reply: ParsedReply[tuple[FormAnswer, ...]], form: Form) -> ItemResult:
        assert item.check is not None
        kind, counts = item.check.kind, Counter[str]()
        lines = []
        given = {answer.question.hash: answer for answer in reply.value or ()}
        for question in item.questions:
            if question.hash not in item.check.before:
                continue
            before, answer = item.check.before[question.hash].value or "", given.get(question.hash)
            failed = answer is not None and is_failure(kind, question, before, answer.value)
            counts["unexpected" if failed else "expected"] += answer is not None
            result = Judgement(
                subject=item.subject,
                form=PREFIX + form.name,
                question=question.id,
                judge=item.judge,
                value=None if answer is None else FAILED if failed else PASSED,
                at=time.time(),
                against=f"{question.hash} {kind}",
                quotations=answer.quotations if answer else (),
                reason=f"{before} → {answer.value}. {answer.reason}" if answer else "",
                failure=reply.none,
                calls=tuple(call.call_id for call in reply.calls),
                served_by=(reply.calls[-1].served_by or "") if reply.calls else "",
            )
            lines.append(RowLine(table="judgements", row=judgement_row(result)))
        return reply.answer(*lines, **counts)

    @classmethod
    def summary(cls, outcome: AskOutcome) -> Iterable[str]:
        unexpected, expected = outcome.counts.get("unexpected", 0), outcome.counts.get("expected", 0)
        answers = f"{unexpected + expected:,} answers of {outcome.by} about edited conversations"
        yield f"{answers}: {unexpected:,} are not as expected."

    def findings(self, store: Store, outcome: AskOutcome) -> Iterable[str]:
        """Yield edited pairs to read: what a judge was shown, next to the conversation as it is."""
        if self.show < 1:
            return
        form = any_form(store, self.form)
        for subject in replace(self, limit=self.show)._subjects(store, form):
            plain = ItemToJudge(Judge(""), subject.subject, ())
            (item,) = super().load(store, [plain])
            dialogue = item.material.dialogue if item.material else ()
            for kind in CHECK_KINDS:
                changed = edited(kind, dialogue, subject.subject)
                if changed not in (None, dialogue):
                    yield f"{subject.subject}, {kind}:\n{difference(dialogue, changed)}"


def _checks(
    form: Form,
    judge: Judge,
    subject: str,
    questions: Sequence[FormQuestion],
    before: Mapping[str, Judgement],
    other: str,
) -> Iterator[ItemToJudge]:
    """Yield the checks of a judge on one conversation; ``other`` is a conversation on another case, or empty."""
    for kind in CHECK_KINDS:
        if kind == "other case" and not other:
            continue
        fitting = {
            question.hash: before[question.hash]
            for question in questions
            if question.hash in before
            and applies(kind, question, question.quotes or form.evidence, before[question.hash].value or "")
        }
        alone = kind == "evidence" or judge.together != ALL_TOGETHER
        for batch in [(question,) for question in questions] if alone else in_batches(questions):
            answers = {asked.hash: fitting[asked.hash] for asked in batch if asked.hash in fitting}
            if answers:
                check = CheckOfJudge(kind, answers, other if kind == "other case" else "")
                yield ItemToJudge(judge, subject, batch, check=check)


def _keys(item: ItemToJudge) -> set[JudgedKey]:
    """Return the keys of the results of a check."""
    assert item.check is not None
    return {
        (item.subject, question.id, f"{question.hash} {item.check.kind}", 1)
        for question in item.questions
        if question.hash in item.check.before
    }
