"""Goes through the events of a trial and tells each step: what was sent, what came back, what was made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.agents.base import Dialogue, Material, Turn, what_patient_holds
from core.agents.grader import named_in_list, read_yes_no, special_verdict
from core.agents.parts import (
    Part,
    StepMessage,
    answer_parts,
    consultation_parts,
    instruction_part,
    patient_parts,
    summary_part,
)
from core.case import Case
from core.debugger.sent import described, not_sent, prompts_of
from core.debugger.step_words import note_of, title_of
from core.debugger.steps import Step, StepKind
from core.errors import UsageError
from core.events import (
    Answered,
    Called,
    CallRecord,
    Ended,
    Event,
    Failed,
    Graded,
    Probed,
    RoleName,
    Rule,
    Started,
    Summarised,
    Utterance,
    Verdict,
)
from core.frameworks.answering import question_of, shown
from core.frameworks.base import scene_of
from core.journal import RunHeader
from core.models.pictures import read_back
from core.persona import parse_persona


class Retrace:
    """The steps of one trial, in ``steps``."""

    def __init__(
        self, case: Case, header: RunHeader, events: Sequence[Event], system_prompt: str | None = None
    ) -> None:  # fmt: skip
        self.steps: list[Step] = []
        self._case, self._header, self._system_prompt = case, header, system_prompt
        self._prompts = prompts_of(header)
        persona = parse_persona(str(header.settings.get("persona", "")))
        self._scene = scene_of(case, 0, persona, pictures=bool(header.settings.get("images")))
        self._dialogue: Dialogue = ()
        self._summary = ""
        self._kept, self._edited = 0, False
        self._calls: dict[str, CallRecord] = {}
        self._loose: list[CallRecord] = []
        """Calls that no step has taken yet."""
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case Started():
                self._scene = replace(self._scene, seed=event.seed)
                if event.parent is not None:
                    self._kept = event.parent.turn
                    self._edited = any("message" in change for change in event.parent.changes)
            case Called():
                self._called(event.call)
            case Utterance():
                self._said(event)
            case Ended():
                self._broke_off(event)
            case Summarised():
                self._summary = event.text
                self._summarised(self._call_of(event.call_id), event.text)
            case Answered():
                self._answered(event)
            case Graded():
                self._graded(event)
            case Probed():
                self._believed(event)
            case Failed(where="summariser"):
                self._summarised(self._last("summarise"), None, event.message)
            case _:
                pass

    def _called(self, call: CallRecord) -> None:
        self._calls[call.call_id] = call
        if call.purpose != "probe":
            self._loose.append(call)
            return
        turn = len(self._dialogue) - 1
        asked = [*self._doctor_sees(self._dialogue), self._probing(call)]
        self._add(f"probe:{turn}", "probe", "doctor", call.model, asked, call, call.response, turn=turn)

    def _probing(self, call: CallRecord) -> Part:
        """Return the probe's question, which is sent in one message with the patient's last reply."""
        text = _last_words(call).removeprefix(f"{self._dialogue[-1].text}\n\n" if self._dialogue else "")
        prompt = self._prompts.pack.prompts.get("belief")
        values = dict.fromkeys(prompt.inputs, "") if prompt else {}
        known = prompt is not None and prompt.render(**values) == text
        return Part("user", text, "question", "belief", values) if known else Part("user", text, "question")

    def _said(self, event: Utterance) -> None:
        before, self._dialogue = self._dialogue, (*self._dialogue, Turn(event.role, event.text))
        given = event.turn < self._kept or (event.turn == self._kept and self._edited and event.call_id is None)
        if event.turn > 0 and not given:
            self._spoke(event.turn, event.role == "doctor", before, self._call_of(event.call_id), event.text)

    def _spoke(
        self, turn: int, doctor: bool, before: Dialogue, call: CallRecord | None, text: str | None, detail: str = "",
        reason: Verdict | None = None,
    ) -> None:  # fmt: skip
        kind: StepKind = "ask" if doctor else "reply"
        role: RoleName = "doctor" if doctor else "patient"
        parts = self._doctor_sees(before) if doctor else self._patient_sees(before)
        model = self._header.doctor if doctor else self._header.patient
        self._add(f"{kind}:{turn}", kind, role, model, parts, call, text, turn=turn, detail=detail, reason=reason)

    def _doctor_sees(self, dialogue: Dialogue) -> list[Part]:
        return consultation_parts(self._prompts.pack, self._scene, dialogue)

    def _patient_sees(self, dialogue: Dialogue) -> list[Part]:
        held = replace(what_patient_holds(self._case), caregiver=self._scene.caregiver)
        try:
            return patient_parts(self._prompts.pack, held, self._scene, dialogue)
        except UsageError:  # the pack cannot say the persona any more
            plain = replace(self._scene, persona=parse_persona(""))
            return patient_parts(self._prompts.pack, held, plain, dialogue)

    def _broke_off(self, event: Ended) -> None:
        if event.reason not in ("error", "refusal") or not self._dialogue:
            return
        doctor = self._dialogue[-1].role == "patient"
        reason: Verdict = "refused" if event.reason == "refusal" else "provider_error"
        self._spoke(len(self._dialogue), doctor, self._dialogue, self._last("dialogue"), None, event.detail, reason)

    def _summarised(self, call: CallRecord | None, text: str | None, detail: str = "") -> None:
        parts = [summary_part(self._prompts.pack, [t.text for t in self._dialogue if t.role == "patient"])]
        model, reason = self._header.summariser, None if text is not None else _reason_of(call)
        self._add("summarise", "summarise", "summariser", model, parts, call, text, detail=detail, reason=reason)

    def _answered(self, event: Answered) -> None:
        call = self._call_of(event.call_id)
        if call is None and event.status == "invalid":
            call = self._last("answer")
        self._loose.clear()
        self._add(
            f"answer:{event.format}:{event.question_type}", "answer", "doctor", self._header.doctor,
            self._asked(event, call), call, event.response, reason=event.reason, detail=event.detail, about=event,
        )  # fmt: skip

    def _asked(self, event: Answered, call: CallRecord | None) -> list[Part]:
        """Return what an arm's question is made of; nothing where the arm cannot be asked at all."""
        material = self._material(event)
        if material is None or (event.status == "invalid" and call is None and self._header.source != "release"):
            return []
        question = question_of(self._case, event.question_type, self._header.many_choices)
        return answer_parts(self._prompts.pack, self._scene, material, question)

    def _material(self, event: Answered) -> Material | None:
        if event.format == "summarized":
            return Material(event.format, text=self._summary) if self._summary else None
        if event.reason == "not_applicable" or (event.format not in ("vignette", "exam_only") and not self._dialogue):
            return None
        return shown(event.format, self._case, self._dialogue)

    def _graded(self, event: Graded) -> None:
        arm = f"{event.format}:{event.question_type}"
        verdict = ((event.rule, event.verdict),)
        for number, step in enumerate(self.steps):
            if step.key == f"answer:{arm}":
                extracted = event.extracted if event.rule in ("frq", "frq_top3") else step.extracted
                self.steps[number] = replace(step, verdicts=(*step.verdicts, *verdict), extracted=extracted)
        answer = next((s for s in self.steps if s.key == f"answer:{arm}"), None)
        calls, self._loose = self._loose, []
        if answer is None or event.rule not in ("frq", "frq_top3"):
            return
        if event.rule == "frq":
            self._extracted(event, answer, next((c for c in calls if c.purpose == "extract"), None))
        self._judged(event, answer, [call for call in calls if call.purpose == "judge"])

    def _extracted(self, event: Graded, answer: Step, call: CallRecord | None) -> None:
        parts = [
            instruction_part(
                self._prompts.pack, "grader_extract", response=answer.response or "", asks_for=self._case.asks_for
            )
        ]
        special = special_verdict(event.extracted) if event.extracted is not None else None
        text = call.response if call else event.extracted
        self._add(
            f"extract:{event.format}:{event.question_type}", "extract", "grader", event.grader, parts, call, text,
            extracted=event.extracted, verdicts=((event.rule, special),) if special else (), about=answer,
            reason=_reason_of(call) if call and call.error else None, detail=(call.error or "") if call else "",
        )  # fmt: skip

    def _judged(self, event: Graded, answer: Step, calls: Sequence[CallRecord]) -> None:
        names = [event.extracted or ""] if event.rule == "frq" else named_in_list(answer.response or "")
        names = [name for name in names if special_verdict(name) is None]
        if not calls:
            alone = len(names) == 1
            for name in names if event.verdict != "provider_error" else ():
                self._judge(event, answer, name, None, event.verdict if alone else None)
        for call in calls:
            name = next((n for n in names if _mentions(call, self._judging(n))), names[0] if names else "")
            self._judge(
                event, answer, name, call, (read_yes_no(call.response) or "ungradable") if call.response else None
            )

    def _judging(self, name: str) -> Part:
        values = {"answer": self._case.answer, "extracted": name, "asks_for": self._case.asks_for}
        return instruction_part(self._prompts.pack, "grader_judge", **values)

    def _judge(
        self, event: Graded, answer: Step, name: str, call: CallRecord | None, verdict: Verdict | None
    ) -> None:  # fmt: skip
        rule: Rule = event.rule
        failed = call is not None and call.error is not None
        self._add(
            f"judge:{event.format}:{event.question_type}", "judge", "grader", event.grader, [self._judging(name)],
            call, call.response if call else None, extracted=name, verdicts=((rule, verdict),) if verdict else (),
            about=answer, reason=_reason_of(call) if failed else None, detail=(call.error or "") if call else "",
        )  # fmt: skip

    def _believed(self, event: Probed) -> None:
        for number in range(len(self.steps) - 1, -1, -1):
            if self.steps[number].kind == "probe" and self.steps[number].turn == event.turn:
                self.steps[number] = replace(self.steps[number], belief=event.differential)
                return

    def _call_of(self, call_id: str | None) -> CallRecord | None:
        call = self._calls.get(call_id or "")
        if call in self._loose:
            self._loose.remove(call)
        return call

    def _last(self, purpose: str) -> CallRecord | None:
        """Take the last call of a purpose that led to nothing."""
        found = next((call for call in reversed(self._loose) if call.purpose == purpose), None)
        return self._call_of(found.call_id) if found else None

    def _add(
        self, key: str, kind: StepKind, role: RoleName, player: str, parts: Sequence[Part], call: CallRecord | None,
        text: str | None, *, turn: int | None = None, reason: Verdict | None = None, detail: str = "",
        extracted: str | None = None, verdicts: tuple[tuple[Rule, Verdict], ...] = (),
        about: Answered | Step | None = None,
    ) -> None:  # fmt: skip
        stored = [read_back(message) for message in call.request.get("messages") or ()] if call else []
        messages = described(stored, parts, self._prompts) if stored else self._would_send(parts)
        would_be = bool(parts) and not stored and not self._was_sent(kind)
        note = self._note(kind, role, player, called=bool(stored))
        same_key = sum(step.key.partition("#")[0] == key for step in self.steps)
        self.steps.append(
            Step(
                f"{key}#{same_key + 1}" if same_key else key, kind, title_of(kind, turn, about), role,
                call.model if call else player, messages, text, extracted, verdicts, reason, detail, call,
                would_be, note, turn, about.format if about else None, about.question_type if about else None,
            )
        )  # fmt: skip

    def _note(self, kind: StepKind, role: RoleName, player: str, *, called: bool) -> str:
        if not called and self._was_sent(kind):
            return "As the release holds it."
        remembered = kind == "judge" and self._header.source != "release"
        return note_of(role, player, self._prompts.note, called=called, remembered=remembered)

    def _would_send(self, parts: Sequence[Part]) -> tuple[StepMessage, ...]:
        return not_sent(parts, self._prompts, self._system_prompt)

    def _was_sent(self, kind: StepKind) -> bool:
        """Say that this is known: a release tells the doctor's prompt and the dialogue, all it was sent to ask."""
        return kind == "ask" and self._system_prompt is not None


def _last_words(call: CallRecord) -> str:
    messages = call.request.get("messages") or [{"content": ""}]
    return str(messages[-1]["content"])


def _mentions(call: CallRecord, part: Part) -> bool:
    return _last_words(call) == part.content


def _reason_of(call: CallRecord | None) -> Verdict:
    return "refused" if call and (call.error or "").startswith("refused") else "provider_error"
