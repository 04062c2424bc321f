"""CRAFT-MD (Johri et al. 2025, Methods): a conversation, then the question of every arm of the trial.

The doctor greets, the patient answers, and they talk until the doctor concludes. All arms share one conversation.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import field_validator

from core.agents.base import Cast, Doctor, Patient, Summariser, patient_knowledge
from core.agents.player import LLMDoctor, LLMPatient, LLMSummariser
from core.agents.probe import BeliefProbe, check_pack
from core.agents.reference.doctor import ReferenceDoctor
from core.agents.reference.grader import ReferenceSummariser
from core.agents.reference.patient import ReferencePatient
from core.asking.persona import PLAIN, label, parse_persona, persona_prompt
from core.asking.scene import Dialogue, Scene, Turn
from core.case import Case
from core.errors import UsageError
from core.events import Event, Finished, Utterance
from core.frameworks.answering import FROM_CONVERSATION, answered, graded, mean_tokens
from core.frameworks.base import ALL_ARMS, Branch, Campaign, Framework, Publication, Size, Trial, Usual
from core.frameworks.casting import GRADER, Casting, CastNames, Seat, is_model, is_rule
from core.frameworks.conversation import TrialDialogue, in_turns, scene_of, started
from core.frameworks.craftmd.by_rule import ByRule
from core.frameworks.craftmd.release import RELEASE
from core.frameworks.settings import FrameworkSettings, option
from core.frameworks.speech import Speech
from core.journal import RunHeader
from core.models.base import Sampling
from core.prompts import PromptPack

PAPER_ARMS = RELEASE.arms
PROMPTS = (
    "greeting", "doctor", "patient", "material", "exam", "answer_system", "answer_mcq", "answer_mcq_many",
    "answer_frq", "answer_frq_top3", "grader_extract", "grader_judge", "summariser",
)  # fmt: skip
QUESTIONS_A_CONVERSATION = 7
"""Assumed number of doctor messages in a conversation; models of the release ask 3 to 11."""
_LEAST_MESSAGES = 4
_NEVER_ENDING = 400
"""Messages after which a conversation without a cap ends."""
_SYSTEM_TOKENS, _QUESTION_TOKENS, _REPLY_TOKENS, _ANSWER_TOKENS = 230, 90, 22, 14
_PROBE_TOKENS, _BELIEF_TOKENS = 240, 110


class CraftMdSettings(FrameworkSettings):
    """Settings of CRAFT-MD."""

    max_messages: int | None = option(
        30,
        "Most messages of a conversation, the doctor's prompt counted as one; 0: no limit.",
        label="Limit of messages",
    )
    persona: str = option("", "How the patient speaks, such as anxious,A,poor,caregiver.", place="patient")
    probe: bool = option(
        False,
        "Ask the doctor's model for its belief after each reply, outside the dialogue; this costs calls.",
        label="Ask the doctor's belief after every reply",
    )

    @field_validator("max_messages")
    @classmethod
    def _enough(cls, cap: int | None) -> int | None:
        if cap and cap < _LEAST_MESSAGES:
            raise ValueError(
                f"it must be at least {_LEAST_MESSAGES} (the doctor's prompt, greeting, reply and a question), "
                "or 0 for no limit"
            )
        return cap or None

    @field_validator("persona")
    @classmethod
    def _known(cls, persona: str) -> str:
        return str(parse_persona(persona))


class CraftMDSpeech(Speech):
    """Descriptions of the rules, and of personas."""

    kinds: ClassVar = {
        GRADER.rules[0]: "Reference grader (names and synonyms)",
        ReferenceSummariser.name: "Reference summariser (quotes the patient)",
    }

    def in_words(self, name: str, value: object) -> str:
        return label(parse_persona(str(value))) if name == "persona" else str(value)

    def invitation(self, role: str, tested: str) -> str:
        """Return the prompt for a person in a seat; for a doctor with the way to end the conversation."""
        usual = super().invitation(role, tested)
        return f"{usual}, or write Final Diagnosis: and its name" if role == tested else usual

    def cap(self, settings: Mapping[str, object], tested: str) -> str:
        return f"{messages} messages" if (messages := settings.get("max_messages")) else ""


class CraftMD(Framework):
    """Conversation of a doctor and a patient, with questions in all arms."""

    name, title, rank = "craftmd", "CRAFT-MD", 0
    version = 2
    publication = Publication("Johri et al., Nature Medicine 2025", PAPER_ARMS, ("accuracy", "experts"), RELEASE)
    about = (
        "The doctor questions a patient and then answers in every chosen format and question type (Johri et al. 2025)."
    )
    settings = CraftMdSettings
    seats = (
        Seat("doctor", "doctor", (ReferenceDoctor.name,), tested=True),
        Seat("patient", "patient", (ReferencePatient.name,)),
        GRADER,
        Seat("summariser", "summariser", (ReferenceSummariser.name,), no_human="a summary quotes the conversation"),
    )
    arms, usual = ALL_ARMS, Usual("all")
    prompts = PROMPTS
    speech = CraftMDSpeech()

    def by_rule(self, case: Case, header: RunHeader, seed: int, pack: PromptPack) -> ByRule:
        return ByRule(case, header, seed, pack)

    def open(self, casting: Casting, names: CastNames, settings: FrameworkSettings) -> Cast:
        """Return the cast; the settings decide on a probe of the doctor's model; the reference doctor needs none."""
        pack = casting.pack
        doctor: Doctor = casting.filled(
            "doctor", names.doctor, lambda voice: LLMDoctor(voice, pack), lambda human: human, ReferenceDoctor
        )
        patient: Patient = casting.filled(
            "patient",
            names.patient,
            lambda voice: LLMPatient(voice, pack),
            lambda human: human,
            ReferencePatient,
            Sampling(),
        )
        probe: BeliefProbe | None = None
        if is_model(names.doctor) and isinstance(settings, CraftMdSettings) and settings.probe:
            thinking = Sampling(temperature=0.0, effort=casting.sampling.effort)
            probe = BeliefProbe(casting.voice("doctor", names.doctor, thinking), pack)
        summariser: Summariser = ReferenceSummariser()
        if is_model(names.summariser):
            summariser = LLMSummariser(casting.voice("summariser", names.summariser, Sampling()), pack)
        return Cast(doctor, patient, casting.grader(names.grader), summariser, probe, pack.render("greeting"))

    async def play(
        self, trial: Trial, cast: Cast, settings: CraftMdSettings, branch: Branch | None = None
    ) -> AsyncIterator[Event]:
        """Yield the conversation, if an arm needs it, and then the answers."""
        yield started(self, trial, branch)
        persona = parse_persona(settings.persona)
        scene = scene_of(trial.case, trial.seed, persona, pictures=bool(settings.images))
        trial_dialogue = TrialDialogue(
            branch.dialogue if branch else (), lambda turns: sum(turn.role == "doctor" for turn in turns) - 1
        )
        for event in trial_dialogue.repeated():
            yield event
        if trial_dialogue.dialogue or any(format_ in FROM_CONVERSATION for format_, _ in trial.arms):
            async for event in converse(trial_dialogue, trial.case, scene, cast, settings.max_messages):
                yield event
        async for event in answered(
            trial, trial_dialogue, functools.partial(cast.doctor.answer, scene), cast.grader, cast.summariser
        ):
            yield event
        yield Finished()

    def check(self, pack: PromptPack, settings: FrameworkSettings, names: CastNames) -> None:
        """Raise ``UsageError`` if patient or pack cannot do a persona, or the pack lacks beliefs or pictures."""
        super().check(pack, settings, names)
        assert isinstance(settings, CraftMdSettings)
        persona = parse_persona(settings.persona)
        if settings.probe:
            check_pack(pack)
        if persona != PLAIN and is_rule(names.patient):
            raise UsageError("The reference patient plays no persona: choose a model for the patient, or no persona.")
        if persona != PLAIN and is_model(names.patient):
            persona_prompt(pack, persona, caregiver=False)

    def complete(self, settings: FrameworkSettings, names: CastNames) -> FrameworkSettings:
        """Return the settings, without a probe if the doctor is not a model."""
        return settings if is_model(names.doctor) else settings.but(probe=False)

    def size(self, campaign: Campaign, picture_tokens: float) -> Size:
        """Return calls and tokens, assuming ``QUESTIONS_A_CONVERSATION`` questions in every conversation."""
        trials, arms, n = len(campaign.cases) * campaign.trials, campaign.arms, QUESTIONS_A_CONVERSATION
        conversations = trials if {arm[0] for arm in arms} & set(FROM_CONVERSATION) else 0
        vignette = mean_tokens(campaign.cases, lambda case: case.vignette)
        history = n * (n - 1) / 2 * 2 * _REPLY_TOKENS  # every call sends all messages before it again
        answers = trials * sum(arm[0] != "closing" for arm in arms)  # the doctor is not asked again
        summaries = conversations if any(arm[0] == "summarized" for arm in arms) else 0
        material = max(vignette, 2 * n * _REPLY_TOKENS) + _QUESTION_TOKENS
        many = len(campaign.choices_of_many()) * 5 * trials * sum(arm[1] in ("mcq_many", "mcq_answers") for arm in arms)
        seats: dict[str, tuple[int, float, float]] = {
            "doctor": (
                conversations * n + answers,
                conversations * (n * (_SYSTEM_TOKENS + picture_tokens) + history)
                + answers * (material + picture_tokens)
                + many,
                conversations * n * _REPLY_TOKENS + answers * _ANSWER_TOKENS,
            ),
            "patient": (
                conversations * n,
                conversations * (n * (_SYSTEM_TOKENS + vignette) + history),
                conversations * n * _REPLY_TOKENS,
            ),
            "grader": graded(campaign),
            "summariser": (summaries, summaries * (120 + n * _REPLY_TOKENS), summaries * n * _REPLY_TOKENS),
        }
        if campaign.settings.probe:
            prompt = n * (_SYSTEM_TOKENS + _PROBE_TOKENS + picture_tokens) + history
            seats["probe"] = (conversations * n, conversations * prompt, conversations * n * _BELIEF_TOKENS)
        return Size(conversations, seats)


async def converse(
    trial_dialogue: TrialDialogue, case: Case, scene: Scene, cast: Cast, cap: int | None
) -> AsyncIterator[Event]:
    """Yield the rest of the conversation (from the greeting, if it has no messages) up to ``Ended``.

    A dialogue whose last message concludes ends at once.
    """
    briefing = replace(patient_knowledge(case), caregiver=scene.caregiver)
    if not trial_dialogue.dialogue:
        yield Utterance(turn=0, role="doctor", text=cast.greeting)
        trial_dialogue.dialogue = (Turn("doctor", cast.greeting),)

    def capped(dialogue: Dialogue) -> bool:
        if len(dialogue) == 1 or dialogue[-1].role != "doctor":
            return False
        messages = len(dialogue) + 1  # the doctor's prompt counts as one
        return messages >= (_NEVER_ENDING if cap is None else cap) - 1

    reply = functools.partial(cast.patient.reply, briefing, scene.without_pictures())
    async for event in in_turns(trial_dialogue, scene, cast.doctor, reply, capped, cast.probe):
        yield event


FRAMEWORK = CraftMD()
