"""``report care --part normalised`` after real runs on two data sets: a doctor is one row across both."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.cli.app import main
from core.datasets.select import cases_of
from tests.support.campaigns import BESIDE_RULES
from tests.support.fake_provider import running

RIGHT = {"library": {"a": 4, "b": 2, "c": 0}, "skin": {"a": 1, "b": 3}}
"""Data set → doctor → number of correct answers to the four cases."""
CARDIOLOGY = "library:Cardiology"


@pytest.fixture
def _skin(tmp_path: Path) -> None:
    lines = (paths.DATA / "cases" / "dermatology.jsonl").read_text().splitlines()[:4]
    file = tmp_path / "skin.jsonl"
    file.write_text("\n".join(lines))
    assert main(["import", "cases", str(file)]) == 0


class Doctors:
    """Doctors that ask the patient one question, and answer only the first cases of each data set correctly."""

    def __init__(self) -> None:
        library = [case for case in cases_of("library") if case.specialty == "Cardiology"]
        self.cases = {"library": library[:4], "skin": cases_of("skin")}

    def __call__(self, body: dict[str, Any]) -> str:
        last = str(body["messages"][-1]["content"])
        if "Choose exactly one" not in last:
            has_asked = any("<patient>" in str(m["content"]) for m in body["messages"] if m["role"] == "assistant")
            return "</end>" if has_asked else "<patient>Where does it hurt?</patient>"
        options = dict(re.findall(r"^([A-Z])\. (.+)$", last, re.MULTILINE))
        name, number, case = next(
            (name, number, case)
            for name, cases in self.cases.items()
            for number, case in enumerate(cases)
            if set(case.choices) == set(options.values())
        )
        right = number < RIGHT[name][str(body["model"])]
        letter = next(letter for letter, text in options.items() if (text == case.answer) == right)
        return f"{letter}. {options[letter]}"


def play(base_url: str, doctor: str, *options: str) -> None:
    cast = ["--doctor", f"openai/{doctor}", "--base-url", base_url, *BESIDE_RULES[:4], "--staff", "reference"]
    assert main(["run", "--protocol", "automedic", "--trials", "1", *options, *cast]) == 0


def normalised(capsys: pytest.CaptureFixture[str], part: str) -> dict[str, dict[str, str]]:
    capsys.readouterr()
    assert main(["report", "care", "--part", "normalised", "--format", "csv"]) == 0
    return {row["model"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out)) if row["measure"] == part}


@pytest.mark.slow
@pytest.mark.usefixtures("_skin")
def test_a_doctors_parts_are_scaled_within_each_data_set_and_averaged_over_both(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Accuracy 1, .5, 0 on library is 1, .5, 0 on its scale; .25 and .75 on skin are 0 and 1: a .5, b .75, c 0.

    Conversational and static answers are equal, so that there is no penalty; every query has four words, so that the
    efficiency is 100 · share / 4, which gives the same scaled value.
    """
    with running(Doctors()) as provider:
        for doctor in ("a", "b", "c"):
            play(provider.base_url, doctor, "--cases", CARDIOLOGY, "--limit", "4")
        for doctor in ("a", "b"):
            play(provider.base_url, doctor, "--cases", "skin")
        for part in ("accuracy", "efficiency"):
            rows = normalised(capsys, part)
            assert set(rows) == {"openai/a", "openai/b", "openai/c"}
            values = {name: (float(row["value"]), row["n_datasets"]) for name, row in rows.items()}
            assert values == {"openai/a": (0.5, "2"), "openai/b": (0.75, "2"), "openai/c": (0.0, "1")}
        assert (float(rows["openai/a"]["library"]), float(rows["openai/b"]["library"])) == (1, 0.5)
        assert rows["openai/c"]["skin"] == ""

        # b once more on other cases of the library: two conditions of one doctor on one data set are not averaged
        play(provider.base_url, "b", "--cases", CARDIOLOGY, "--limit", "2")
        rows = normalised(capsys, "accuracy")
    of_b = {name: row for name, row in rows.items() if name.startswith("openai/b")}
    on_library = sorted(float(row["library"]) for row in of_b.values() if row["library"])
    assert on_library == [0.5, 1.0], "2 of 4 and 2 of 2 right, on a scale from 0 to 1"
    assert [row["n_datasets"] for row in of_b.values()] == ["1"] * 3
    assert float(rows["openai/a"]["value"]) == 0.5
