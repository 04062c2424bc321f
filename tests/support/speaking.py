"""Scripted models that speak at the lengths that models usually speak at, and a provider that counts their tokens.

Questions have 9 to 17 words and replies 9 to 21, one sentence each, as the frameworks' prompts ask for; a token is four
characters, and every message has four besides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.replies import Reply

QUESTIONS = (
    "When did this first begin, and has it been getting better or worse since then?",
    "Can you tell me how old you are and whether you are male or female?",
    "Have you noticed any fever, chills or sweating at night during the last few weeks?",
    "Do you take any medicines every day, and are you allergic to anything?",
    "Where exactly is the pain, and does it move to any other place?",
    "Has anybody in your family ever had anything like this?",
    "Do you smoke, drink alcohol, or use any other drugs now and then?",
    "Is there anything that makes it better, such as resting, eating or lying down flat?",
    "Have you had any operations or serious illnesses in the past that I should know of?",
)
REPLIES = (
    "It started about three weeks ago and it has been getting slowly worse, mostly in the evening.",
    "I am forty-five years old, and I work as a driver for a bakery in town.",
    "No, I have not noticed anything like that so far, doctor.",
    "I take one tablet for my blood pressure in the morning and nothing else, and I have no allergies that I know of.",
    "It is mostly on the right side below my ribs, and sometimes I feel it in my back too.",
    "My mother had something with her thyroid, but apart from that everybody has been healthy.",
    "I do not know, nobody has ever told me anything about that.",
)
FINDINGS = (
    "Blood pressure 138/86 mmHg, pulse 92 beats per minute, temperature 37.4 °C, breathing rate 16 per minute.",
    "There is no record of that having been done.",
    "Haemoglobin 11.2 g/dL, white cells 12,400 per microlitre, platelets 310,000 per microlitre.",
    "The abdomen is soft with mild tenderness in the right upper quadrant and no guarding.",
)
DIAGNOSES = ("Acute cholecystitis", "Community-acquired pneumonia", "Hypothyroidism", "Iron deficiency anaemia")


def pick(choices: tuple[str, ...], *about: object) -> str:
    """Return one of the choices, always the same for the same things."""
    return choices[_number(*about) % len(choices)]


def _number(*about: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(about).encode()).digest()[:4], "big")


def counted(text: str, body: Mapping[str, Any]) -> Reply:
    """Return a reply with the estimated tokens of request and reply."""
    sent = sum(len(str(message["content"])) / 4 + 4 for message in body["messages"])
    return Reply(text, usage=(round(sent), max(1, round(len(text) / 4))))


def speakers(least: int, most: int) -> Callable[[dict[str, Any]], Reply]:
    """Return a script for every seat of the three frameworks; a doctor asks ``least`` to ``most`` questions."""

    def speak(body: dict[str, Any]) -> Reply:
        messages = body["messages"]
        first, last = str(messages[0]["content"]), str(messages[-1]["content"])
        questions = sum(message["role"] == "assistant" for message in messages)
        begun = [message["content"] for message in messages[:4]]
        return counted(_said(body["model"], first, last, questions, begun, least, most), body)

    return speak


def _said(model: str, first: str, last: str, questions: int, begun: list[str], least: int, most: int) -> str:
    if model == "grader":
        return pick(DIAGNOSES, last) if "doctor wrote" in last else pick(("Yes", "No"), last)
    if model == "solver":
        return "B"
    if model == "staff":
        return pick(FINDINGS, last, questions)
    if model == "patient":
        return (
            "4, because the doctor was friendly and asked about how I felt."
            if "1 to 5" in last
            else pick(REPLIES, last)
        )
    question = pick(QUESTIONS, begun, questions)
    enough = questions - ("Final Diagnosis" in first) >= least + _number(begun[-1]) % (most - least + 1)
    if "**Final Diagnosis:**" in last or ("Final Diagnosis" in first and enough):
        return f"**Final Diagnosis:** {pick(DIAGNOSES, begun, last)}"
    if "</end>" in first:
        to = "clinical" if questions % 5 in (2, 4) else "patient"
        return "</end>" if enough else f"<{to}>{question}</{to}>"
    return "Thank you, that is all I need to know." if enough else question
