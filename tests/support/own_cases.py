"""Twenty cases of one's own in an Excel file, three of them faulty, and scripted models that play all roles on them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]

from tests.support.replies import Reply, prompt_of

ILLNESSES = {
    "Gout": "His big toe was red and burning after a feast",
    "Shingles": "She has a stripe of blisters on one side of her back",
    "Measles": "The child has white spots in the mouth and then a rash",
    "Appendicitis": "The pain moved from the navel to the right side below",
    "Migraine": "She sees zigzag lines and then one half of her head throbs",
    "Scabies": "He itches at night, and so does everybody at home",
    "Asthma": "He whistles when he breathes out in cold air",
    "Anaemia": "She is pale, tired, and her heart races on the stairs",
    "Otitis media": "The baby pulls its ear and has a fever",
    "Cystitis": "It burns when she passes water, and she goes often",
    "Mumps": "Both cheeks of the boy are swollen below the ears",
    "Tonsillitis": "He cannot swallow and his throat has white dots",
    "Hepatitis": "His eyes are yellow and his urine is like cola",
    "Sciatica": "The pain shoots from his back down to his heel",
    "Glaucoma": "She sees halos round lamps and her eye is hard as a stone",
    "Psoriasis": "Silvery scales cover his elbows and knees",
    "Hypothyroidism": "She is cold, slow, and has gained weight",
    "Pneumonia": "He coughs rusty phlegm and shivers",
}
"""Right answer → vignette."""
GOOD = dict(list(ILLNESSES.items())[:17])
FAULTY: list[list[str | None]] = [
    ["no-answer", "A man of 40 years feels ill since Monday.", "What is it?", None],
    ["again", f"{ILLNESSES['Gout']}.", "What is it?", "Gout"],
    ["leaked", "A woman of 50 years says that she has rosacea on her nose.", "What is it?", "Rosacea"],
]
_COMPARED = re.compile(r"^1: (.*) \| 2: (.*) →$", re.MULTILINE)
"""The last line of a grader's second request, such as "1: Gout | 2: Lumbago →"."""


def workbook(path: Path, illnesses: Mapping[str, str], faulty: Sequence[Sequence[str | None]]) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["id", "vignette", "question", "answer"])
    for number, (answer, words) in enumerate(illnesses.items()):
        sheet.append([f"{path.stem}-{number}", f"{words}.", "What is the diagnosis?", answer])
    for row in faulty:
        sheet.append(list(row))
    book.save(path)


@dataclass
class Doctors:
    """Scripted models: model → the numbers of the illnesses that it names; those in ``down`` refuse every request.

    Each of them also plays the patient, who says the vignette, and the grader, who compares letter by letter.
    """

    right: dict[str, Collection[int]]
    base_url: str = ""
    down: set[str] = field(default_factory=set)
    paid: Counter[str] = field(default_factory=Counter)

    def reply(self, body: dict[str, Any]) -> Reply:
        model, words = body["model"], prompt_of(body)
        if model in self.down:
            return Reply(status=401, error="the key is wrong")
        self.paid[model] += 1
        number = next((n for n, text in enumerate(ILLNESSES.values()) if text in words), None)
        if "You are the patient" in words:
            return Reply(f"{list(ILLNESSES.values())[number or 0]}.")
        if "Find the diagnosis in it" in words:
            named = re.search(r"Final Diagnosis:\W*(\w[\w ]*)", words)
            return Reply(named[1] if named else "None")
        if compared := _COMPARED.findall(words):
            return Reply("Yes" if compared[-1][0] == compared[-1][1] else "No")
        if number is None:
            return Reply("What troubles you most?")
        known = number in self.right.get(model, ())
        return Reply(f"**Final Diagnosis:** {list(ILLNESSES)[number] if known else 'Lumbago'}")
