"""The wording that the models of one conversation were really sent, as templates of a prompt pack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import orjson

from core.agents.parts import StepMessage, question_part
from core.case import RELEASE_SPECIALTIES
from core.debugger.sent import prompts_of
from core.debugger.steps import Step, TrialRecord
from core.debugger.template_bits import escaped
from core.debugger.templates import literal_template, template_of
from core.errors import UsageError
from core.frameworks.answering import question_of, shown
from core.frameworks.base import default_pack
from core.jobs.craftmd_release import prompts as release
from core.persona import caregiver_speaks, parse_persona, persona_prompt

_NAMES_OF_RELEASE = {ours: theirs for theirs, ours in RELEASE_SPECIALTIES.items()}
_OF_RELEASE = " specializing in {specialty}"


class UsedPrompts:
    """What is known of the prompts of a trial.

    ``unchanged_pack`` is the pack of the run where it is still what it was; else ``templates`` holds prompt name →
    template, as far as calls were stored.
    """

    def __init__(self, trial: TrialRecord, steps: Sequence[Step]) -> None:
        self._trial, self._base = trial, default_pack()
        self.unchanged_pack: str | None = None
        self.templates: dict[str, str] = {}
        if trial.system_prompt is not None:
            self.templates["doctor"] = template_of_release(trial.system_prompt)
        elif trial.header.source != "release" and prompts_of(trial.header).same:
            self.unchanged_pack = trial.header.prompt_pack
        else:
            self._read([step for step in steps if step.call is not None])

    def _read(self, steps: Sequence[Step]) -> None:
        questions: dict[str, str] = {}
        for message in (message for step in steps for message in step.messages):
            if message.prompt is not None:
                self._add(message.prompt, self._without_persona(message), message.values)
                questions[message.prompt] = message.content
        unsplit = list(_unsplit(steps))
        for step, message in unsplit:
            prompt = f"answer_{step.question_type}"
            alike = [m.content for s, m in unsplit if s.question_type == step.question_type]
            question = questions.setdefault(prompt, _common_end(alike))
            if question and message.content.endswith(f"\n\n{question}"):
                self._add(prompt, question, self._asked(step))
                self._add_shown(step, message.content.removesuffix(f"\n\n{question}"))

    def _add(self, prompt: str, content: str, values: Mapping[str, Any]) -> None:
        """Take the first wording of a prompt: all of a run come from one pack.

        It is that of the kind of question this case asks; how the pack words other kinds is not known.
        """
        if prompt in self.templates or prompt not in self._base.prompts:
            return
        base = self._base.prompts[prompt]
        values = base.taken({"asks_for": self._trial.case.asks_for, **values})
        try:
            self.templates[prompt] = template_of(content, base, values)
        except UsageError:  # the wording leaves a value out; a list that cannot be told would stand for this case alone
            if all(not isinstance(value, list | tuple) for value in values.values()):
                self.templates[prompt] = literal_template(content, base, values)

    def _add_shown(self, step: Step, content: str) -> None:
        """Take what stood before the question: the written case, or the examination."""
        if step.format == "multi_turn_exam":
            self._add("exam", content, {"examination": self._trial.case.examination() or ""})
        elif step.format in ("vignette", "exam_only"):
            text = shown(step.format, self._trial.case, ()).text or ""
            self._add("material", content, {"text": text, "kind": step.format})

    def _asked(self, step: Step) -> Mapping[str, Any]:
        """Return what was filled into the question of an answer."""
        assert step.question_type is not None
        question = question_of(self._trial.case, step.question_type, self._trial.header.many_choices)
        return question_part(self._base, question).values

    def _without_persona(self, message: StepMessage) -> str:
        """Return the patient's prompt without the persona after it, whose wording is the base pack's."""
        persona = parse_persona(str(self._trial.header.settings.get("persona", "")))
        if message.prompt != "patient" or not str(persona):
            return message.content
        caregiver = caregiver_speaks(persona, self._trial.case.speaker == "caregiver")
        return message.content.removesuffix(f"\n\n{persona_prompt(self._base, persona, caregiver)}")


def template_of_release(prompt: str) -> str:
    """Return a release's doctor prompt as a template, with its specialties under the names that the release uses."""
    before, clause, after = release.template_of(prompt).partition(_OF_RELEASE)
    if not clause:
        return escaped(prompt.strip())
    names = orjson.dumps(_NAMES_OF_RELEASE).decode()
    filled = f"{{% if specialty %}} specializing in {{{{ {names}.get(specialty, specialty) }}}}{{% endif %}}"
    return f"{escaped(before)}{filled}{escaped(after)}"


def _common_end(texts: Sequence[str]) -> str:
    """Return the paragraphs in which texts that begin differently all end: the question after different cases."""
    if len(set(texts)) < 2:
        return ""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*(text[::-1] for text in texts), strict=False))
    end = "".join(letters[0] for letters in alike)[::-1]
    return end.partition("\n\n")[2]


def _unsplit(steps: Sequence[Step]) -> Iterator[tuple[Step, StepMessage]]:
    """Yield the messages that hold a case or an examination and the question in one."""
    for step in steps:
        last = step.messages[-1] if step.kind == "answer" and step.messages else None
        if last is not None and last.part == "question" and last.prompt is None:
            yield step, last
