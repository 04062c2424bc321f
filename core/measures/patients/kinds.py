"""Each kind of hit in words: its name, its rule, and how often a sample of its hits was right.

The samples are 20 hits of each kind (all where there are fewer), drawn from GPT-4's patient in the CRAFT-MD release by
seed 1, read one by one, drawn again by seed 2 after the rules were mended once, and by seed 101 for another reader of
the final rules: docs/patient_reliability.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.store.queries.patients import Kind

PRECISE = 0.8
"""Share of right hits among those read from which on a rule may be counted by."""


@dataclass(frozen=True)
class About:
    """A kind for people: ``name``, ``rule`` in a sentence, and what reading the samples found.

    ``first`` is (right, read) of the sample before the rules were mended, ``second`` and ``third`` of those after, by
    two readers; ``None`` where the release holds no hit. ``false_alarms``: what was wrong with the others, in words.
    """

    name: str
    rule: str
    first: tuple[int, int] | None
    second: tuple[int, int] | None
    third: tuple[int, int] | None
    false_alarms: str

    @property
    def read(self) -> tuple[int, int]:
        """How many hits of the mended rules were right, of how many that were read."""
        samples = [sample for sample in (self.second, self.third) if sample is not None]
        return sum(right for right, _ in samples), sum(number for _, number in samples)

    @property
    def claimed(self) -> bool:
        """Whether rates of this kind may be stated: at least ``PRECISE`` of the hits that were read were right.

        Hits of the others are listed, to be read.
        """
        right, number = self.read
        return bool(number) and right >= PRECISE * number


ABOUT: dict[Kind, About] = {
    "medical_term": About(
        "Medical terms",
        "A term of the stated lexicon that the doctor has not said in any form before; its first use counts.",
        (14, 20), (18, 20), (17, 20),
        "Names under which people know their own disease or state (hypothyroidism, weeks of gestation).",
    ),
    "leak": About(
        "Diagnosis given away",
        "The right answer, a synonym or a broader name that neither the vignette nor the doctor has said.",
        (1, 3), (1, 1), (1, 1),
        "Before it was mended: the same disease in a relative.",
    ),
    "refusal": About(
        "Refusals",
        "Says that it cannot or will not answer, help, provide or discuss, or that it is an AI. Not knowing is none.",
        (19, 20), (18, 20), (18, 20),
        "A confused patient, or a child, who describes being unable to answer.",
    ),
    "mentions_text": About(
        "Speaks of its text",
        "Names the vignette, case description, paragraph or the information provided.",
        (20, 20), (20, 20), (20, 20),
        "None was seen.",
    ),
    "not_mentioned": About(
        "Says what was not mentioned",
        "Answers with what has or has not been mentioned, stated or told, instead of with how it is.",
        (20, 20), (20, 20), (20, 20),
        "None was seen.",
    ),
    "plays_doctor": About(
        "Plays the doctor",
        "Asks for the doctor's symptoms, advises, states a diagnosis, or writes of “the patient” as a chart does.",
        (1, 20), (6, 7), (4, 6),
        "A caregiver who answers a doctor's “the patient” in the same words (before it was mended); an appointment.",
    ),
    "both_sides": About(
        "Writes both sides", "Holds a line that begins with a doctor's label and a colon.", None, None, None,
        "The release holds none.",
    ),
    "stage_direction": About(
        "Stage directions", "Writes what it does, in brackets or asterisks, beside what it says.", None, None, None,
        "The release holds none.",
    ),
}  # fmt: skip
"""What each kind means."""
