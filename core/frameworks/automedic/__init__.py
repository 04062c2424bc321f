"""AutoMedic (Oh, Park, Kim, arXiv 2512.10195): the doctor asks patient and clinical staff by tags, then answers.

A turn is one query with its answer; the doctor speaks first and has a limited number of turns. A message can have
several queries, which are answered one after another until the limit. In the same trial the doctor answers the full
static question, in addition to the answer after the conversation. After the conversation the patient fills in the form
``empathy`` about the doctor, unless a provider failed. Each misuse of the tag protocol is an event after its message.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from core.agents.base import Grader
from core.asking.scene import AgentOutput, CallFailed, Dialogue, Material, Question, Scene, Turn
from core.case import Case, Profile
from core.errors import UsageError
from core.events import Assessed, Called, Event, Failed, Finished, Token, Waiting
from core.frameworks.answering import answered, graded, mean_tokens, profile_words
from core.frameworks.automedic.reference import ReferenceAutoMedicPatient, ReferenceStaff, ReferenceTagDoctor
from core.frameworks.automedic.roles import (
    AutoMedicPatient,
    Briefings,
    HumanRater,
    HumanStaff,
    HumanTagDoctor,
    LLMAutoMedicPatient,
    LLMStaff,
    LLMTagDoctor,
    Rating,
    Staff,
    TagDoctor,
    briefings_of,
    view_of,
)
from core.frameworks.automedic.speech import TagSpeech
from core.frameworks.automedic.tags import BEST_RATING, EMPATHY, MISUSE, Query, queries_of, read_tags
from core.frameworks.base import Arm, Branch, Campaign, Framework, Publication, Size, Trial, Usual
from core.frameworks.cases import Preparation
from core.frameworks.casting import GRADER, Casting, CastNames, Seat, is_model
from core.frameworks.conversation import TrialDialogue, scene_of, started
from core.frameworks.settings import FrameworkSettings, option
from core.models.base import Sampling
from core.prompts import PromptPack
from core.text.profile_check import edited, remarks
from core.text.profiles import CaseId, Generated, Prepared, prepare

ARMS: tuple[Arm, ...] = (("vignette", "mcq"), ("multi_turn", "mcq"), ("vignette", "frq"), ("multi_turn", "frq"))
"""The static question and the question after the conversation, with choices and, for cases without choices, free."""
MAX_TURNS, MOST_TURNS = 20, 100
"""Default and maximum of the number of turns."""
NOTHING_TO_RATE = "The doctor asked the patient nothing."
"""Stored in place of the patient's words if there was no query to the patient, and so no rating."""
TO_PATIENT = 0.6
"""Assumed share of queries to the patient; the others are to the clinical staff."""
_DOCTOR_TOKENS, _PATIENT_TOKENS, _STAFF_TOKENS, _QUESTION_TOKENS, _STATIC_TOKENS = 340, 170, 170, 130, 20
_RATING_TOKENS, _MESSAGE_TOKENS, _RATED_TOKENS, _ANSWER_TOKENS = 340, 25, 90, 15


class AutoMedicSettings(FrameworkSettings):
    """Settings of AutoMedic."""

    max_turns: int = option(
        MAX_TURNS,
        "Maximum number of turns; a turn is one query with its answer.",
        label="Limit of turns",
        place="main",
        flag="--cap",
        ge=1,
        le=MOST_TURNS,
    )


@dataclass(frozen=True)
class AutoMedicCast:
    """The players of a trial."""

    doctor: TagDoctor
    patient: AutoMedicPatient
    staff: Staff
    grader: Grader


class ProfiledCases(Preparation):
    """Cases are played from their profiles."""

    plays_profiles = True

    def prepare(self, cases: Sequence[Case], stored: Mapping[CaseId, Generated]) -> Prepared:
        """Return the cases with their profiles: a stored one first, else their own, else none."""
        return prepare(cases, stored)

    def edited(self, case: Case, profile: Profile, by: str) -> Generated:
        """Return a profile that a person edited, with the findings of the checks in its note."""
        return edited(case, profile, by)

    def profile_remarks(self, case: Case, profile: Profile) -> tuple[str, ...]:
        return remarks(case, profile)


class AutoMedic(Framework):
    """A doctor between a patient and the clinical staff."""

    name, title, rank = "automedic", "AutoMedic", 2
    version = 3
    publication = Publication("Oh, Park, Kim, arXiv 2512.10195", ARMS[:2], ("care",))
    about = (
        "The doctor asks a patient for the history and clinical staff for results, then answers the case’s question "
        "(Oh, Park, Kim 2025)."
    )
    settings = AutoMedicSettings
    seats = (
        Seat("doctor", "doctor", (ReferenceTagDoctor.name,), tested=True),
        Seat("patient", "patient", (ReferenceAutoMedicPatient.name,)),
        Seat("staff", "clinical staff", (ReferenceStaff.name,)),
        GRADER,
    )
    arms, usual = ARMS, Usual(mcq_rule="mcq_strict", report="care")
    prompts = ("doctor", "opening", "patient", "staff", "static", "answer_mcq", "answer_frq", "empathy")
    cases, speech = ProfiledCases(), TagSpeech()

    def check(self, pack: PromptPack, settings: FrameworkSettings, names: CastNames) -> None:
        """Raise ``UsageError`` if the pack asks for a rating without quotations, as packs up to version 0.6 do."""
        super().check(pack, settings, names)
        if is_model(names.patient) and "quotations" not in pack.prompts["empathy"].source:
            raise UsageError(
                f"The prompts {pack.name} ask for a rating of empathy without quotations: copy "
                "prompts/automedic/empathy.md into it."
            )

    def open(self, casting: Casting, names: CastNames, settings: FrameworkSettings) -> AutoMedicCast:
        """Return the cast; free responses are graded with the prompts of the first framework."""
        assert isinstance(settings, AutoMedicSettings)
        pack, turns = casting.pack, settings.max_turns
        doctor: TagDoctor = casting.filled(
            "doctor", names.doctor, lambda voice: LLMTagDoctor(voice, pack, turns), HumanTagDoctor, ReferenceTagDoctor
        )
        patient: AutoMedicPatient = casting.filled(
            "patient",
            names.patient,
            lambda voice: LLMAutoMedicPatient(voice, pack),
            lambda human: HumanRater(human.role, human.listen),
            ReferenceAutoMedicPatient,
            Sampling(),
        )
        staff: Staff = casting.filled(
            "staff",
            names.staff,
            lambda voice: LLMStaff(voice, pack),
            HumanStaff,
            ReferenceStaff,
            Sampling(temperature=0.0),
        )
        return AutoMedicCast(doctor, patient, staff, casting.grader(names.grader))

    async def play(
        self, trial: Trial, cast: AutoMedicCast, settings: AutoMedicSettings, branch: Branch | None = None
    ) -> AsyncIterator[Event]:
        """Yield conversation and rating, if an arm needs them, and the answers."""
        yield started(self, trial, branch)
        briefings = briefings_of(trial.case)
        # this framework does not tell the doctor the specialty
        scene = scene_of(trial.case, trial.seed, with_specialty=False, pictures=bool(settings.images))
        trial_dialogue = TrialDialogue(branch.dialogue if branch else (), _passed_on)
        for event in trial_dialogue.repeated():
            yield event
        if trial_dialogue.dialogue or any(format_ == "multi_turn" for format_, _ in trial.arms):
            async for event in _conversation(trial_dialogue, briefings, scene, cast, settings.max_turns):
                yield event
            if not trial_dialogue.broken:
                async for event in _rated(trial_dialogue, briefings, scene, cast):
                    yield event

        def answer(material: Material, question: Question) -> AsyncIterator[AgentOutput]:
            return cast.doctor.answer(scene, briefings.demographics, material, question)

        async for event in answered(trial, trial_dialogue, answer, cast.grader):
            yield event
        yield Finished()

    def size(self, campaign: Campaign, picture_tokens: float) -> Size:
        """Return calls and tokens, assuming that every doctor uses all turns, with one query in each message."""
        cases, trials = campaign.cases, len(campaign.cases) * campaign.trials
        turns = campaign.settings.max_turns if any(f == "multi_turn" for f, _ in campaign.arms) else 0
        to_patient = round(turns * TO_PATIENT)
        static = trials * sum(format_ == "vignette" for format_, _ in campaign.arms)
        after = trials * sum(format_ == "multi_turn" for format_, _ in campaign.arms)
        dialogue = 2 * turns * _MESSAGE_TOKENS
        vignette = mean_tokens(cases, lambda case: case.vignette)
        patient = _PATIENT_TOKENS + mean_tokens(cases, lambda case: profile_words(case, "demographics", "basic"))
        staff = _STAFF_TOKENS + mean_tokens(cases, lambda case: profile_words(case, "optional"))
        rating = patient + 2 * to_patient * _MESSAGE_TOKENS + _RATING_TOKENS
        seats = {
            "doctor": (
                trials * turns + static + after,
                trials * _talking(turns, _DOCTOR_TOKENS + picture_tokens)
                + static * (vignette + _STATIC_TOKENS + _QUESTION_TOKENS + picture_tokens)
                + after * (_DOCTOR_TOKENS + picture_tokens + dialogue + _QUESTION_TOKENS),
                trials * turns * _MESSAGE_TOKENS + (static + after) * _ANSWER_TOKENS,
            ),
            "patient": (
                trials * (to_patient + bool(to_patient)),
                trials * (_talking(to_patient, patient) + to_patient * _MESSAGE_TOKENS + bool(to_patient) * rating),
                trials * (to_patient * _MESSAGE_TOKENS + bool(to_patient) * _RATED_TOKENS),
            ),
            "staff": (
                trials * (turns - to_patient),
                trials * (_talking(turns - to_patient, staff) + (turns - to_patient) * _MESSAGE_TOKENS),
                trials * (turns - to_patient) * _MESSAGE_TOKENS,
            ),
            "grader": graded(campaign),
        }
        return Size(trials if turns else 0, seats)


async def _rated(
    trial_dialogue: TrialDialogue, briefings: Briefings, scene: Scene, cast: AutoMedicCast
) -> AsyncIterator[Event]:
    """Yield the patient's rating; if the provider fails it is missing, and the rest of the trial is not affected."""
    view = view_of(trial_dialogue.dialogue, "patient")
    rating = Rating(None, "" if view else NOTHING_TO_RATE)
    try:
        if view:
            async for item in cast.patient.rate(briefings.patient, scene.without_pictures(), view):
                if isinstance(item, Rating):
                    rating = item
                elif isinstance(item, Token | Called | Waiting):
                    yield item
    except CallFailed as failure:
        yield failure.called
        yield Failed(where="rating", failure=failure.error.kind, message=str(failure.error))
    yield Assessed(
        name=EMPATHY,
        value=rating.rating,
        most=BEST_RATING,
        by=cast.patient.name,
        words=rating.words,
        call_id=rating.call_id,
    )


async def _conversation(
    trial_dialogue: TrialDialogue, briefings: Briefings, scene: Scene, cast: AutoMedicCast, max_turns: int
) -> AsyncIterator[Event]:
    """Yield messages and the answers to their queries, from the present dialogue up to ``Ended``."""
    without_pictures = scene.without_pictures()
    while True:
        # the first unanswered query of the doctor's last message
        last = max((number for number, turn in enumerate(trial_dialogue.dialogue) if turn.role == "doctor"), default=-1)
        query = next(
            (query for query in queries_of(trial_dialogue.dialogue) if query.turn == last and query.reply is None), None
        )
        if query is None:
            if trial_dialogue.dialogue and trial_dialogue.dialogue[-1].role == "doctor":
                yield trial_dialogue.over("end_tag" if read_tags(trial_dialogue.dialogue[-1].text).ends else "no_tag")
                return
            if _passed_on(trial_dialogue.dialogue) >= max_turns:
                break
            asking = cast.doctor.ask(scene, briefings.demographics, trial_dialogue.dialogue)
            async for event in trial_dialogue.say("doctor", "doctor", asking):
                yield event
            if trial_dialogue.ended:
                return
            spoken = read_tags(trial_dialogue.dialogue[-1].text)
            if spoken.misuses:
                turn = len(trial_dialogue.dialogue) - 1
                yield Assessed(name=MISUSE, turn=turn, values=spoken.misuses, words=spoken.detail)
            continue
        if _passed_on(trial_dialogue.dialogue) >= max_turns:
            break
        title = "clinical staff" if query.to == "staff" else "patient"
        replying = _reply(query, briefings, without_pictures, cast, trial_dialogue.dialogue)
        async for event in trial_dialogue.say(query.to, title, replying, strip=True):
            yield event
        if trial_dialogue.ended:
            return
        belief = cast.doctor.differential(scene, briefings.demographics, trial_dialogue.dialogue)
        async for event in trial_dialogue.believe(scene, belief):
            yield event
    yield trial_dialogue.over("turn_cap")


def _passed_on(dialogue: Dialogue) -> int:
    return sum(turn.role != "doctor" for turn in dialogue)


def _reply(
    query: Query, briefings: Briefings, scene: Scene, cast: AutoMedicCast, dialogue: Dialogue
) -> AsyncIterator[AgentOutput]:
    """Pass the query to its addressee, with the briefing and the view of this role."""
    view = (*view_of(dialogue, query.to), Turn("doctor", query.text))
    if query.to == "staff":
        return cast.staff.reply(briefings.results, scene, view)
    return cast.patient.reply(briefings.patient, scene, view)


def _talking(calls: int, system: float) -> float:
    """Return the prompt tokens of ``calls`` in one dialogue: each sends the 0, 2, 4 … messages before it."""
    return calls * (system + (calls - 1) * _MESSAGE_TOKENS) if calls else 0.0


FRAMEWORK = AutoMedic()
