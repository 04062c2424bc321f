"""AutoMedic (Oh, Park, Kim, arXiv 2512.10195): the doctor asks patient and clinical staff by tags, then answers.

A turn is one query with its answer, and the doctor, who speaks first, has so many of them; a message may hold several
queries, which are answered one after the other as far as the turns reach. Beside the answer after the conversation the
same doctor answers the full static question, in the same trial. After the conversation the patient rates the doctor's
empathy, unless a provider broke it off. What broke the tag protocol is said at its message.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from core.agents.base import Grader
from core.asking.scene import CallFailed, Dialogue, Material, Question, Saying, Scene, Turn
from core.case import Case, Profile
from core.events import Assessed, Called, Event, Failed, Finished, Token, Waiting
from core.frameworks.answering import answered, graded, profile_words, tokens_of
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
from core.frameworks.casting import GRADER, Casting, CastNames, Seat
from core.frameworks.conversation import Talk, scene_of, started
from core.frameworks.settings import FrameworkSettings, option
from core.models.base import Sampling
from core.text.profile_check import edited, remarks
from core.text.profiles import CaseId, Generated, Prepared, prepare

ARMS: tuple[Arm, ...] = (("vignette", "mcq"), ("multi_turn", "mcq"), ("vignette", "frq"), ("multi_turn", "frq"))
"""The static question and the answer after the conversation, with choices and, for cases without any, free."""
MAX_TURNS, MOST_TURNS = 20, 100
"""Turns that a doctor has unless it is told otherwise, and the most that it can be given."""
NOTHING_TO_RATE = "The doctor asked the patient nothing."
"""Stands in place of the patient's words where no query reached it: there is no rating then."""
TO_PATIENT = 0.6
"""Assumed share of queries that go to the patient; the others go to the clinical staff."""
_DOCTOR_TOKENS, _PATIENT_TOKENS, _STAFF_TOKENS, _QUESTION_TOKENS, _STATIC_TOKENS = 340, 170, 170, 130, 20
_RATING_TOKENS, _MESSAGE_TOKENS, _RATED_TOKENS, _ANSWER_TOKENS = 150, 25, 35, 15


class Settings(FrameworkSettings):
    """What can be set of AutoMedic."""

    max_turns: int = option(
        MAX_TURNS,
        "How many turns the doctor has: one query with its answer each.",
        label="Cap of turns",
        place="main",
        flag="--cap",
        ge=1,
        le=MOST_TURNS,
    )


@dataclass(frozen=True)
class AutoMedicCast:
    """Who plays which role in a trial."""

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
        """Return a person's word on a case, with what the checks find in its note."""
        return edited(case, profile, by)

    def profile_remarks(self, case: Case, profile: Profile) -> tuple[str, ...]:
        """Return a sentence for each fact that the checks would drop."""
        return remarks(case, profile)


class AutoMedic(Framework):
    """A doctor between a patient and the clinical staff."""

    name, title, rank = "automedic", "AutoMedic", 2
    version = 2
    publication = Publication("Oh, Park, Kim, arXiv 2512.10195", ARMS[:2], ("care",))
    about = (
        "The doctor asks a patient for the history and the clinical staff for results, each by its tag, then answers "
        "the case’s question, which it also answers from the whole vignette (Oh, Park, Kim 2025). What comes of it "
        "stands on Conversation quality, under CARE."
    )
    settings = Settings
    seats = (
        Seat("doctor", "doctor", (ReferenceTagDoctor.name,), tested=True),
        Seat("patient", "patient", (ReferenceAutoMedicPatient.name,)),
        Seat("staff", "clinical staff", (ReferenceStaff.name,)),
        GRADER,
    )
    arms, usual = ARMS, Usual(mcq_rule="mcq_strict", report="care")
    prompts = ("doctor", "opening", "patient", "staff", "static", "answer_mcq", "answer_frq", "empathy")
    cases, speech = ProfiledCases(), TagSpeech()

    def open(self, casting: Casting, names: CastNames, settings: FrameworkSettings) -> AutoMedicCast:
        """Return the cast; free responses are graded under the prompts of the first framework."""
        assert isinstance(settings, Settings)
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
        self, trial: Trial, cast: AutoMedicCast, settings: Settings, branch: Branch | None = None
    ) -> AsyncIterator[Event]:
        """Yield conversation and rating, where an arm needs them, and the answers."""
        yield started(self, trial, branch)
        briefings = briefings_of(trial.case)
        # nobody says which clinic it is
        scene = scene_of(trial.case, trial.seed, named=False, pictures=bool(settings.images))
        talk = Talk(branch.dialogue if branch else (), _passed_on)
        for event in talk.repeated():
            yield event
        if branch or any(format_ == "multi_turn" for format_, _ in trial.arms):
            async for event in _conversation(talk, briefings, scene, cast, settings.max_turns):
                yield event
            if not talk.broken:
                # the patient's rating of the doctor; a provider that fails leaves none, and harms nothing else
                seen = view_of(talk.dialogue, "patient")
                rating = Rating(None, "" if seen else NOTHING_TO_RATE)
                try:
                    if seen:
                        async for item in cast.patient.rate(briefings.held, scene.without_pictures(), seen):
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

        def answer(material: Material, question: Question) -> AsyncIterator[Saying]:
            return cast.doctor.answer(scene, briefings.demographics, material, question)

        async for event in answered(trial, talk, answer, cast.grader):
            yield event
        yield Finished()

    def size(self, campaign: Campaign, picture_tokens: float) -> Size:
        """Return calls and tokens: every doctor is taken to use all its turns, one query a message."""
        cases, trials = campaign.cases, len(campaign.cases) * campaign.trials
        turns = campaign.settings.max_turns if any(f == "multi_turn" for f, _ in campaign.arms) else 0
        asked = round(turns * TO_PATIENT)
        static = trials * sum(format_ == "vignette" for format_, _ in campaign.arms)
        after = trials * sum(format_ == "multi_turn" for format_, _ in campaign.arms)
        said = 2 * turns * _MESSAGE_TOKENS
        vignette = tokens_of(cases, lambda case: case.vignette)
        patient = _PATIENT_TOKENS + tokens_of(cases, lambda case: profile_words(case, "demographics", "basic"))
        staff = _STAFF_TOKENS + tokens_of(cases, lambda case: profile_words(case, "optional"))
        rating = patient + 2 * asked * _MESSAGE_TOKENS + _RATING_TOKENS
        seats = {
            "doctor": (
                trials * turns + static + after,
                trials * _talking(turns, _DOCTOR_TOKENS + picture_tokens)
                + static * (vignette + _STATIC_TOKENS + _QUESTION_TOKENS + picture_tokens)
                + after * (_DOCTOR_TOKENS + picture_tokens + said + _QUESTION_TOKENS),
                trials * turns * _MESSAGE_TOKENS + (static + after) * _ANSWER_TOKENS,
            ),
            "patient": (
                trials * (asked + bool(asked)),
                trials * (_talking(asked, patient) + asked * _MESSAGE_TOKENS + bool(asked) * rating),
                trials * (asked * _MESSAGE_TOKENS + bool(asked) * _RATED_TOKENS),
            ),
            "staff": (
                trials * (turns - asked),
                trials * (_talking(turns - asked, staff) + (turns - asked) * _MESSAGE_TOKENS),
                trials * (turns - asked) * _MESSAGE_TOKENS,
            ),
            "grader": graded(campaign),
        }
        return Size(trials if turns else 0, seats)


async def _conversation(
    talk: Talk, briefings: Briefings, scene: Scene, cast: AutoMedicCast, max_turns: int
) -> AsyncIterator[Event]:
    """Yield messages and the answers to their queries from where the dialogue stands, up to ``Ended``."""
    told = scene.without_pictures()
    while True:
        # the first query of the doctor's last message that nobody has answered yet
        last = max((turn for turn, said in enumerate(talk.dialogue) if said.role == "doctor"), default=-1)
        query = next((query for query in queries_of(talk.dialogue) if query.turn == last and query.reply is None), None)
        if query is None:
            if talk.dialogue and talk.dialogue[-1].role == "doctor":
                yield talk.over("end_tag" if read_tags(talk.dialogue[-1].text).ends else "no_tag")
                return
            if _passed_on(talk.dialogue) >= max_turns:
                break
            asking = cast.doctor.ask(scene, briefings.demographics, talk.dialogue)
            async for event in talk.say("doctor", "doctor", asking):
                yield event
            if talk.ended:
                return
            spoken = read_tags(talk.dialogue[-1].text)
            if spoken.misuses:
                turn = len(talk.dialogue) - 1
                yield Assessed(name=MISUSE, turn=turn, values=spoken.misuses, words=spoken.detail)
            continue
        if _passed_on(talk.dialogue) >= max_turns:
            break
        title = "clinical staff" if query.to == "staff" else "patient"
        async for event in talk.say(query.to, title, _reply(query, briefings, told, cast, talk.dialogue), strip=True):
            yield event
        if talk.ended:
            return
        belief = cast.doctor.differential(scene, briefings.demographics, talk.dialogue)
        async for event in talk.believe(scene, belief):
            yield event
    yield talk.over("turn_cap")


def _passed_on(dialogue: Dialogue) -> int:
    return sum(turn.role != "doctor" for turn in dialogue)


def _reply(
    query: Query, briefings: Briefings, told: Scene, cast: AutoMedicCast, dialogue: Dialogue
) -> AsyncIterator[Saying]:
    """Hand the query to whom it is addressed, with that role's own knowledge and view."""
    seen = (*view_of(dialogue, query.to), Turn("doctor", query.text))
    if query.to == "staff":
        return cast.staff.reply(briefings.results, told, seen)
    return cast.patient.reply(briefings.held, told, seen)


def _talking(calls: int, system: float) -> float:
    """Return the prompt tokens of so many calls in one dialogue: each sends the 0, 2, 4 … messages before it."""
    return calls * (system + (calls - 1) * _MESSAGE_TOKENS) if calls else 0.0


FRAMEWORK = AutoMedic()
