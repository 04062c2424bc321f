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


@pytest.mark.usefixtures("six")
def test_the_four_parts_with_both_accuracies(capsys: Captured) -> None:
    measures = {row["measure"]: row for row in rows(capsys)}
    values = {name: float(row["value"]) for name, row in measures.items()}
    assert values == pytest.approx(
        {
            "accuracy": 0.375,
            "efficiency": (20 + 125 / 9 + 10) / 6,
            "empathy": 0.6,
            "robustness": 1 / 3,
            "acc_conv": 0.5,
            "acc_static": 2 / 3,
        },
        abs=1e-5,
    )
    assert {(row["model"], row["dataset"], row["excluded"]) for row in measures.values()} == {
        ("openai/a", "ours", "provider_error=1")
    }
    assert (measures["empathy"]["n_items"], measures["empathy"]["n_without"]) == ("5", "2")
    assert {row["dataset"] for row in rows(capsys, "--by", "all", "--models", "openai/a", "--run", "run")} == {"all"}


@pytest.mark.usefixtures("six")
def test_failures_habits_ratings_and_figures_across_data_sets(capsys: Captured) -> None:
    kinds = {(row["kind"], row["cause"]): row for row in rows(capsys, "--part", "kinds")}
    assert (kinds["abrupt_termination", "no_tag"]["trials"], kinds["abrupt_termination", "no_tag"]["counted"]) == (
        "1",
        "6",
    )
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
    assert main(["report", "care", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 6
    assert main(["report", "care"]) == 0
    assert "nan" not in capsys.readouterr().out.lower()


ASK = "<patient>Since when?</patient>"
EARLY = (
    a_consultation(1, [ASK] * 3 + ["</end>"]),  # proper, after three turns
    a_consultation(2, [ASK, "<think>I know.</think></end>"]),  # proper: reasoning is no other word
    a_consultation(3, [ASK] * 4 + ["</end>"]),  # not early
    a_consultation(4, [ASK, "Goodbye. </end>"]),  # next to other words
    a_consultation(5, [ASK, "It is eczema."], reason="no_tag"),
    a_consultation(6, ["</end>"]),  # before any query
)


@pytest.mark.usefixtures("db")
def test_a_proper_early_end_is_told_apart_under_the_rule_that_is_named(capsys: Captured) -> None:
    write_journal(Store().journals, "run", automedic(cases=range(1, 7)), *EARLY)

    def robustness(*options: str) -> tuple[str, dict[str, str], str]:
        (summary,) = report("--part", "summary", *options)
        assert main(["report", "care", "--part", "summary", *options]) == 0
        notes = capsys.readouterr().out
        causes = {row["cause"]: row["trials"] for row in report("--part", "kinds", *options)}
        abrupt = {cause: causes[cause] for cause in ("no_tag", "misplaced_end", "early_end")}
        return summary["robustness"][:6], abrupt, notes

    def report(*options: str) -> list[dict[str, str]]:
        assert main(["report", "care", "--format", "csv", *options]) == 0
        return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    strict, counts, notes = robustness()
    assert (strict, counts) == ("0.1666", {"no_tag": "1", "misplaced_end": "1", "early_end": "3"})
    assert "2 of 6 conversations" in notes
    assert "--early-end allowed" in notes
    lenient, counts, notes = robustness("--early-end", "allowed")
    assert (lenient, counts) == ("0.5", {"no_tag": "1", "misplaced_end": "1", "early_end": "1"})
    assert "Clean early ends do not count as abrupt" in notes


@pytest.mark.usefixtures("six")
def test_the_figures_of_the_page_are_parts_of_the_report(capsys: Captured) -> None:
    """The figures of the six items, and with ``--published`` the published ones."""
    profile = rows(capsys, "--part", "profile", "--published", "--by", "all")
    own, printed = profile[:4], profile[4:]
    assert [row["measure"] for row in own] == ["accuracy", "efficiency", "empathy", "robustness"]
    assert {row["model"] for row in own} == {"openai/a"}
    assert {row["value"] for row in printed if row["model"] == "Claude Sonnet 4"} >= {"0.4699", "0.9333"}
    (summary,) = rows(capsys, "--part", "summary", "--by", "all")
    assert (summary["penalty"], summary["failed"], summary["counted"]) == ("0.75", "4", "6")
    assert (summary["role_breaking"], summary["abrupt_termination"], summary["invalid_answer"]) == ("2", "3", "1")
    accuracies = {row["measure"]: row["n_items"] for row in rows(capsys, "--part", "accuracies")}
    assert accuracies == {"acc_conv": "6", "acc_static": "6", "acc_conv_all": "6", "acc_static_all": "7"}
    endings = {row["ending"]: row["count"] for row in rows(capsys, "--part", "endings")}
    assert endings == {"end_tag": "4", "turn_cap": "1", "no_tag": "1"}
    assert len(rows(capsys, "--part", "items")) == 7
    assert main(["report", "care", "--part", "profile"]) == 0
    assert "Excluded, and not counted as wrong: openai/a: 1 provider error." in capsys.readouterr().out


@pytest.mark.usefixtures("six")
def test_a_live_run_is_reported_only_if_named(capsys: Captured) -> None:
    assert len(rows(capsys)) == 6
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
