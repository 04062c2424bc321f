"""AutoMedic (Oh, Park, Kim, arXiv 2512.10195): the doctor asks patient and clinical staff by tags, then answers.

A turn is one query with its answer, and the doctor, who speaks first, has so many of them; a message may hold several
queries, which are answered one after the other as far as the turns reach. Beside the answer after the
conversation the same doctor answers the full static question, in the same trial. After the conversation the patient
rates the doctor's empathy, unless a provider broke it off. What broke the tag protocol is said at its message. Arms,
grading and faults are CRAFT-MD's own: what a provider breaks is excluded, never wrong.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from core.agents.base import CallFailed, Cast, Dialogue, Held, Material, Question, Said, Saying, Scene, Turn
from core.agents.reference.grader import ReferenceSummariser
from core.errors import ProviderError
from core.events import (
    Called,
    Ended,
    EndReason,
    Event,
    Failed,
    Finished,
    Misused,
    Probed,
    Rated,
    Speaker,
    Started,
    Token,
    Utterance,
    Waiting,
)
from core.frameworks.automedic.roles import AutoMedicCast, Briefings, Facts, Rating, TagDoctor, briefings_of, view_of
from core.frameworks.automedic.tags import Asked, read_tags
from core.frameworks.craftmd.protocol import Arm, Rules, Trial, run_format, scene_of

ARMS: tuple[Arm, ...] = (("vignette", "mcq"), ("multi_turn", "mcq"), ("vignette", "frq"), ("multi_turn", "frq"))
"""The static question and the answer after the conversation, with choices and, for cases without any, free."""
DEFAULT_ARMS = ARMS[:2]
MAX_TURNS = 20
"""Turns that a doctor has unless it is told otherwise."""
NOTHING_TO_RATE = "The doctor asked the patient nothing."
"""Stands in place of the patient's words where no query reached it: there is no rating then."""


@dataclass(frozen=True)
class AutoMedicRules:
    """What of the protocol can be set."""

    arms: tuple[Arm, ...] = DEFAULT_ARMS
    max_turns: int = MAX_TURNS
    pictures: bool = False
    """Whether the doctor is shown the case's pictures."""


async def run_automedic(trial: Trial, cast: AutoMedicCast, rules: AutoMedicRules) -> AsyncIterator[Event]:
    """Yield everything that happens in one trial, from ``Started`` to ``Finished``; the case must have a profile."""
    yield Started(trial_id=trial.trial_id, case_key=trial.case.case_key, trial=trial.number, seed=trial.seed)
    briefings = briefings_of(trial.case)
    # nobody says which clinic it is
    scene = replace(scene_of(trial.case, trial.seed, pictures=rules.pictures), specialty="")
    dialogue: Dialogue = ()
    broken: Ended | None = None
    if any(format_ == "multi_turn" for format_, _ in rules.arms):
        async for event in _conversation(briefings, scene, cast, rules.max_turns):
            if isinstance(event, Utterance):
                dialogue = (*dialogue, Turn(event.role, event.text))
            if isinstance(event, Ended) and event.reason in ("error", "refusal"):
                broken = event
            yield event
        if broken is None:
            async for event in _rated(briefings.held, scene, cast, dialogue):
                yield event
    seated = Cast(_Answering(cast.doctor, briefings.demographics), _Silent(), cast.grader, ReferenceSummariser())
    for format_ in dict.fromkeys(arm[0] for arm in rules.arms):
        arms = [arm for arm in rules.arms if arm[0] == format_]
        async for event in run_format(trial, scene, seated, Rules(rules.arms), arms, dialogue, broken):
            yield event
    yield Finished()


async def _conversation(
    briefings: Briefings, scene: Scene, cast: AutoMedicCast, max_turns: int
) -> AsyncIterator[Event]:
    """Yield messages and the answers to their queries, up to ``Ended``."""
    dialogue: Dialogue = ()
    turns = 0
    while turns < max_turns:
        message = _Message("doctor", len(dialogue))
        async for event in message.of(cast.doctor.ask(scene, briefings.demographics, dialogue), turns):
            yield event
        if message.text is None:
            return
        dialogue = (*dialogue, Turn("doctor", message.text))
        spoken = read_tags(message.text)
        if spoken.misuses:
            yield Misused(turn=len(dialogue) - 1, kinds=spoken.misuses, detail=spoken.detail)
        if not spoken.queries:
            yield Ended(reason="end_tag" if spoken.ends else "no_tag", doctor_turns=turns)
            return
        for query in spoken.queries[: max_turns - turns]:
            reply = _Message(query.to, len(dialogue))
            async for event in reply.of(_replying(query, briefings, scene, cast, dialogue), turns):
                yield event
            if reply.text is None:
                return
            dialogue = (*dialogue, Turn(query.to, reply.text))
            turns += 1
            belief = cast.doctor.differential(scene, briefings.demographics, dialogue)
            if belief:
                yield Probed(turn=len(dialogue) - 1, differential=belief)
    yield Ended(reason="turn_cap", doctor_turns=turns)


def _replying(
    query: Asked, briefings: Briefings, scene: Scene, cast: AutoMedicCast, dialogue: Dialogue
) -> AsyncIterator[Saying]:
    """Hand the query to whom it is addressed, with that role's own knowledge and view."""
    told, seen = scene.without_pictures(), (*view_of(dialogue, query.to), Turn("doctor", query.text))
    if query.to == "staff":
        return cast.staff.reply(briefings.results, told, seen)
    return cast.patient.reply(briefings.held, told, seen)


@dataclass
class _Message:
    """The next message of the dialogue; ``text`` is there once it was said, and stays ``None`` where it was not."""

    role: Speaker
    turn: int
    text: str | None = None

    async def of(self, speaking: AsyncIterator[Saying], turns: int) -> AsyncIterator[Event]:
        """Yield what comes of it: the message, or why the conversation breaks off after so many turns."""
        said: Said | None = None
        try:
            async for item in speaking:
                if isinstance(item, Said):
                    said = item
                else:
                    yield item
            if said is None or not said.text.strip():
                raise ProviderError("empty", f"The {_NAMES[self.role]} said nothing.")
        except (CallFailed, ProviderError) as failure:
            for event in _broken_off(failure, turns):
                yield event
            return
        self.text = said.text if self.role == "doctor" else said.text.strip()
        yield Utterance(turn=self.turn, role=self.role, text=self.text, call_id=said.call_id)


_NAMES: dict[Speaker, str] = {"doctor": "doctor", "patient": "patient", "staff": "clinical staff"}


def _broken_off(failure: CallFailed | ProviderError, turns: int) -> list[Event]:
    error = failure.error if isinstance(failure, CallFailed) else failure
    reason: EndReason = "refusal" if error.kind == "refused" else "error"
    called: list[Event] = [failure.called] if isinstance(failure, CallFailed) else []
    return [
        *called,
        Failed(where="conversation", failure=error.kind, message=str(error)),
        Ended(reason=reason, doctor_turns=turns, detail=str(error)),
    ]


async def _rated(held: Held, scene: Scene, cast: AutoMedicCast, dialogue: Dialogue) -> AsyncIterator[Event]:
    """Yield the patient's rating of the doctor; a provider that fails leaves none, and harms nothing else."""
    seen = view_of(dialogue, "patient")
    rating = Rating(None, "" if seen else NOTHING_TO_RATE)
    try:
        if seen:
            async for item in cast.patient.rate(held, scene.without_pictures(), seen):
                if isinstance(item, Rating):
                    rating = item
                elif isinstance(item, Token | Called | Waiting):
                    yield item
    except CallFailed as failure:
        yield failure.called
        yield Failed(where="rating", failure=failure.error.kind, message=str(failure.error))
    yield Rated(rater=cast.patient.name, rating=rating.rating, words=rating.words, call_id=rating.call_id)


@dataclass(frozen=True)
class _Answering:
    """The doctor as the arms of CRAFT-MD take it: the conversation is over, and only answers are asked for."""

    doctor: TagDoctor
    demographics: Facts

    @property
    def name(self) -> str:
        return self.doctor.name

    def ask(self, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        raise AssertionError("the conversation is over")

    def answer(self, scene: Scene, material: Material, question: Question) -> AsyncIterator[Saying]:
        return self.doctor.answer(scene, self.demographics, material, question)

    def differential(self, scene: Scene, dialogue: Dialogue) -> None:
        return None


class _Silent:
    """Stands in the patient's seat while answers are asked for."""

    name = ""

    def reply(self, held: Held, scene: Scene, dialogue: Dialogue) -> AsyncIterator[Saying]:
        raise AssertionError("the conversation is over")
