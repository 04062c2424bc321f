"""How much of the examination is found in a vignette, against sentences marked by hand.

``examination_marks.json`` holds the marks: of each of 100 cases the numbers of the sentences that only an examiner or a
device could state (``shown``), and of those that could be counted either way (``either``, left out of both figures).
They were marked by reading, before anything was run on them; the rules were mended on the first half only. Give the
authors' case file (usmle_and_derm_dataset.csv), or set ANAMNESIS_CRAFTMD_RELEASE to the folder of their release.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import table

from core.case import Case
from core.datasets.readers import read_cases
from core.text.sections import divided, examination_of, sentences

MARKS = Path(__file__).with_name("examination_marks.json")


def found_in(vignette: str) -> set[int]:
    """Return the numbers of the sentences in the examination, which contains them in their order."""
    examination = divided(vignette).examination
    numbers: set[int] = set()
    for number, sentence in enumerate(sentences(vignette)):
        if examination.startswith(sentence):
            numbers.add(number)
            examination = examination[len(sentence) :].lstrip()
    return numbers


def counts(cases: Sequence[Case], marks: dict[str, Any], *, values: bool, show: bool) -> tuple[int, int, int]:
    """Return how many marked sentences were found, how many are marked, how many others were found.

    ``values``: whether lines of five words or fewer, most of them of a table of laboratory values, are counted.
    """
    hit = marked = wrong = 0
    for case in cases:
        text = sentences(case.vignette)
        of = marks[case.case_key.rpartition("/")[2]]
        if len(text) != of["sentences"]:
            raise SystemExit(f"{case.case_key} is cut into {len(text)} sentences, and was marked as {of['sentences']}")
        counted = {n for n, sentence in enumerate(text) if values or len(sentence.split()) > 5}
        predicted = (found_in(case.vignette) & counted) - set(of.get("either", ()))
        marked_sentences = set(of["shown"]) & counted
        hit, marked, wrong = (
            hit + len(predicted & marked_sentences),
            marked + len(marked_sentences),
            wrong + len(predicted - marked_sentences),
        )
        if show and values:
            for n in sorted(marked_sentences ^ predicted):
                print(f"{'missed' if n in marked_sentences else 'wrong '} {case.case_key} {n}: {text[n]}")
    return hit, marked, wrong


def main() -> None:
    """Print recall and precision on both halves, cases without an examination, and the time for the whole file."""
    parser = argparse.ArgumentParser(description=__doc__)
    release = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE")
    default = Path(release) / "data" / "usmle_and_derm_dataset.csv" if release else None
    parser.add_argument("csv", type=Path, nargs="?", default=default, help="the authors' case file")
    parser.add_argument("--show", choices=("tuned", "held_out"), help="print what was missed and what was wrong")
    chosen = parser.parse_args()
    if chosen.csv is None:
        print("Skipped: neither the authors' case file is given, nor ANAMNESIS_CRAFTMD_RELEASE set.")
        return
    cases = {case.case_key.rpartition("/")[2]: case for case in read_cases(chosen.csv, "craftmd").cases}
    rows = []
    for half, marks in json.loads(MARKS.read_text())["halves"].items():
        for name, values in (("all sentences", True), ("prose only", False)):
            hit, marked, wrong = counts([cases[c] for c in marks], marks, values=values, show=chosen.show == half)
            recall, precision = f"{hit / marked:.3f}", f"{hit / (hit + wrong):.3f}"
            rows.append((f"{half}, {name}", str(len(marks)), str(marked), recall, str(hit + wrong), precision))
    table("The examination of vignettes", ("half", "cases", "marked", "recall", "found", "precision"), rows)
    begun = time.process_time()
    without = [case for case in cases.values() if examination_of(case) is None]
    spent = time.process_time() - begun
    of_skin = sum(case.specialty == "Dermatology" for case in cases.values())
    print(
        f"\n{len(without)} of {len(cases)} cases have none, of the {of_skin} of dermatology "
        f"{sum(case.specialty == 'Dermatology' for case in without)}; all read in {spent:.2f} s of CPU"
    )


if __name__ == "__main__":
    main()
