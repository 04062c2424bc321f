"""Personas: how a patient speaks, not what is true of them.

A persona changes temperament, language level (CEFR), memory, and who speaks. It never adds a medical fact, so that
the same case with several personas gives paired differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from core.errors import UsageError
from core.prompts import PromptPack

Temperament = Literal["plain", "anxious", "terse", "talkative", "distrustful", "stoic"]
Language = Literal["A", "B", "C"]
"""Level of the Common European Framework of Reference: A basic, B independent, C proficient user."""
Memory = Literal["good", "vague", "poor"]
PersonaSpeaker = Literal["patient", "caregiver"]

TEMPERAMENTS: tuple[Temperament, ...] = get_args(Temperament)
LANGUAGES: tuple[Language, ...] = get_args(Language)
MEMORIES: tuple[Memory, ...] = get_args(Memory)
SPEAKERS: tuple[PersonaSpeaker, ...] = get_args(PersonaSpeaker)
_KINDS = {"temperament": TEMPERAMENTS, "language": LANGUAGES, "memory": MEMORIES, "speaker": SPEAKERS}


@dataclass(frozen=True)
class Persona:
    """How the patient speaks. ``language`` ``None``: no stated level; ``speaker`` ``None``: the case decides."""

    temperament: Temperament = "plain"
    language: Language | None = None
    memory: Memory = "good"
    speaker: PersonaSpeaker | None = None

    def __str__(self) -> str:
        """Return the values that differ from the default, in the form that ``parse_persona`` reads."""
        parts = (
            self.temperament if self.temperament != "plain" else "",
            self.language or "",
            self.memory if self.memory != "good" else "",
            self.speaker or "",
        )
        return ",".join(part for part in parts if part)


PLAIN = Persona()
"""The patient of the case and the prompt pack, unchanged."""


def parse_persona(text: str) -> Persona:
    """Read words such as ``anxious,A,poor,caregiver`` in any order; empty is ``PLAIN``.

    Raises ``UsageError`` for an unknown word and for two words of one kind.
    """
    chosen: dict[str, str] = {}
    for raw in text.replace(",", " ").split():
        matches = [
            (kind, word) for kind, words in _KINDS.items() for word in words if raw.casefold() == word.casefold()
        ]
        if not matches:
            choices = "; ".join(f"{kind}: {', '.join(words)}" for kind, words in _KINDS.items())
            raise UsageError(f"'{raw}' is no word of a persona: choose from {choices}.")
        kind, word = matches[0]
        if chosen.setdefault(kind, word) != word:
            raise UsageError(f"The persona '{text}' names two of one kind ({chosen[kind]}, {word}): choose one.")
    return Persona(**chosen)  # type: ignore[arg-type]


def label(persona: Persona) -> str:
    """Return a readable label, such as ``anxious, basic language (A), poor memory``."""
    language = {"A": "basic language (A)", "B": "everyday language (B)", "C": "fluent language (C)"}
    parts = (
        persona.temperament if persona.temperament != "plain" else "",
        language[persona.language] if persona.language else "",
        f"{persona.memory} memory" if persona.memory != "good" else "",
        {"caregiver": "caregiver speaks", "patient": "patient speaks"}[persona.speaker] if persona.speaker else "",
    )
    return ", ".join(part for part in parts if part) or "plain"


def caregiver_speaks(persona: Persona, case_has_caregiver: bool) -> bool:
    """Say whether a caregiver speaks for the patient; the persona takes precedence over the case."""
    return case_has_caregiver if persona.speaker is None else persona.speaker == "caregiver"


def persona_prompt(pack: PromptPack, persona: Persona, caregiver: bool) -> str:
    """Render the pack's prompt ``persona``; raise ``UsageError`` if the pack has none."""
    if "persona" not in pack.prompts:
        raise UsageError(
            f"The prompts {pack.name} have no persona.md, which the persona '{persona}' needs: add one, as in "
            "the shipped prompts, or choose the plain persona."
        )
    return pack.render(
        "persona",
        temperament=persona.temperament,
        language=persona.language or "",
        memory=persona.memory,
        caregiver=caregiver,
    )
