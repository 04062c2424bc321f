"""``report care`` and ``report suitability`` from end to end."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from core.cli.app import main
from core.store.database import Store
from tests.core.frameworks.automedic.measures.consultations import BROKEN, SIX, a_consultation, automedic
from tests.core.store.builders import write_journal

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def six(db: Path) -> None:
    write_journal(Store().journals, "run", automedic(), *SIX, BROKEN)


def rows(capsys: Captured, *given: str) -> list[dict[str, str]]:
    assert main(["report", "care", "--format", "csv", *given]) == 0
    printed = capsys.readouterr()
    # all answers of the fixture are right by the substring rule, which CARE does not use
    severe = [line for line in printed.err.splitlines() if line.startswith("Note: ")]
    assert all("rules for choices differ" in line or "openai/a 7 of 8 planned" in line for line in severe), severe
    return list(csv.DictReader(io.StringIO(printed.out)))


@pytest.mark.slow
@pytest.mark.usefixtures("six")
def test_accuracy_and_care_use_one_rule_and_report_the_difference_to_the_other(capsys: Captured) -> None:
    care = {row["measure"]: row for row in rows(capsys)}
    assert main(["report", "accuracy", "--format", "csv"]) == 0
    printed = capsys.readouterr()
    by_format = {row["format"]: row for row in csv.DictReader(io.StringIO(printed.out))}
    # over all cases with this answer; CARE's accuracy uses the six cases with both answers
    assert float(by_format["multi_turn"]["mean"]) == pytest.approx(float(care["acc_conv"]["value"])) == 3 / 6
    assert float(by_format["vignette"]["mean"]) == pytest.approx(5 / 7, abs=1e-6)
    assert {row["rule"] for row in (*by_format.values(), *care.values())} == {"mcq_strict"}
    for words in ("0.500 in Multi-turn · Multiple choice (1.000", "0.286 in Vignette · Multiple choice (1.000"):
        assert words in printed.err
    assert main(["report", "accuracy", "--format", "csv", "--mcq-rule", "mcq_loose"]) == 0
    loose = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {(row["mean"], row["rule"]) for row in loose} == {("1.000000", "mcq_loose")}


@pytest.mark.slow
@pytest.mark.usefixtures("six")
def test_every_part_has_rows(capsys: Captured) -> None:
    kinds = {(row["kind"], row["cause"]): row for row in rows(capsys, "--part", "kinds")}
    broken_off = kinds["abrupt_termination", "no_tag"]
    assert (broken_off["trials"], broken_off["counted"]) == ("1", "6")
    listed = rows(capsys, "--part", "failures")
    assert [row["trial_id"] for row in listed if row["kind"] == "invalid_answer"] == ["run/6/0"]
    (habits,) = rows(capsys, "--part", "habits")
    assert (habits["queries"], habits["endings"]) == ("17", "end_tag=4 turn_cap=1 no_tag=1")
    assert rows(capsys, "--part", "ratings")[0]["words"] == "I would give 1."
    assert {row["value"] for row in rows(capsys, "--part", "normalised")} == {""}, "one seat has no scale"
    assert [(row["group"], row["n"], row["slope"]) for row in rows(capsys, "--part", "fit")] == [
        ("all", "1", ""),
        ("openai", "1", ""),
    ]
    endings = {row["ending"]: row["count"] for row in rows(capsys, "--part", "endings")}
    assert endings == {"end_tag": "4", "turn_cap": "1", "no_tag": "1"}
    assert len(rows(capsys, "--part", "items")) == 7
    accuracies = {row["measure"]: row["n_items"] for row in rows(capsys, "--part", "accuracies")}
    assert accuracies == {"acc_conv": "6", "acc_static": "6", "acc_conv_all": "6", "acc_static_all": "7"}
    profile = rows(capsys, "--part", "profile", "--published", "--by", "all", "--models", "openai/a", "--run", "run")
    assert [row["measure"] for row in profile[:4]] == ["accuracy", "efficiency", "empathy", "robustness"]
    assert {row["model"] for row in profile[:4]} == {"openai/a"}
    assert {row["value"] for row in profile[4:] if row["model"] == "Claude Sonnet 4"} >= {"0.4699", "0.9333"}


ASK = "<patient>Since when?</patient>"
EARLY = (
    a_consultation(1, [ASK] * 3 + ["</end>"]),  # proper, after three turns
    a_consultation(2, [ASK, "<think>I know.</think></end>"]),  # proper: reasoning is no other word
    a_consultation(3, [ASK] * 4 + ["</end>"]),  # not early
    a_consultation(4, [ASK, "Goodbye. </end>"]),  # next to other words
    a_consultation(5, [ASK, "It is eczema."], reason="no_tag"),
    a_consultation(6, ["</end>"]),  # before any query
)


@pytest.mark.slow
@pytest.mark.usefixtures("db")
def test_a_proper_early_end_is_told_apart_under_the_rule_that_is_named(capsys: Captured) -> None:
    write_journal(Store().journals, "run", automedic(cases=range(1, 7)), *EARLY)

    for options, robustness, early_ends, note in (
        ((), "0.1666", 2, "--early-end allowed"),
        (("--early-end", "allowed"), "0.5", 0, "Clean early ends do not count as abrupt"),
    ):
        assert main(["report", "care", "--part", "summary", "--format", "csv", *options]) == 0
        printed = capsys.readouterr()
        (summary,) = csv.DictReader(io.StringIO(printed.out))
        assert summary["robustness"][:6] == robustness
        assert note in printed.err
        # two messages without the tag or next to other words; one end before any query
        assert summary["abrupt_termination"] == str(3 + early_ends)


@pytest.mark.slow
@pytest.mark.usefixtures("six")
def test_a_live_run_is_reported_only_if_named(capsys: Captured) -> None:
    assert main(["runs"]) == 0  # folds
    with Store().write() as connection:
        connection.execute("UPDATE runs SET source = 'live'")
    assert main(["report", "care"]) == 1
    capsys.readouterr()
    assert len(rows(capsys, "--run", "run")) == 6


@pytest.mark.usefixtures("six")
def test_without_rows_the_report_fails_with_a_sentence(capsys: Captured) -> None:
    assert main(["report", "care", "--question-type", "frq"]) == 1
    assert "no trial of AutoMedic with frq answers" in capsys.readouterr().err
    assert main(["report", "care", "--models", "openai/z"]) == 2
    assert main(["report", "care", "--question-type", "mcq_many"]) == 2


def test_suitability_of_the_library(db: Path, tmp_path: Path, capsys: Captured) -> None:
    assert main(["report", "suitability", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["dataset"], row["cases"], row["unjudged"], row["suitable"]) == ("library", 60, 0, 60)
    assert row["ci_low"] == pytest.approx(60 / (60 + 1.959964**2)), "Wilson's lower bound of 60 in 60"
    assert main(["report", "suitability", "library", "--part", "fields", "--format", "json"]) == 0
    fields = {field["field"]: field for field in json.loads(capsys.readouterr().out)}
    assert fields["age"]["present"] == 1
    assert all(row["present"] + row["imputed"] + row["absent"] == pytest.approx(1) for row in fields.values())
    assert fields["sex"]["ci_low"] == pytest.approx(60 / (60 + 1.959964**2))
    drawing = tmp_path / "fields.html"
    assert main(["report", "suitability", "library", "--part", "fields", "--figure", str(drawing)]) == 0
    assert f"Drew {len(fields)} estimates" in capsys.readouterr().out
    assert drawing.stat().st_size > 0
    assert main(["report", "suitability", "nowhere"]) == 2
