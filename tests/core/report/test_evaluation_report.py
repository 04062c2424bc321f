"""The evaluation report: filled from journals, open where they say nothing, with the numbers of the commands."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from core.cli.app import main
from core.errors import UsageError
from core.events import Utterance
from core.jobs.repeat import run_command_of
from core.journal import Hypothesis
from core.measures.base import MetricRequest, Note, cell_in_words
from core.measures.notes import result_of
from core.report import evaluation as evaluation_module
from core.report.evaluation import (
    STATES,
    Evaluation,
    EvaluationFacts,
    evaluated,
    evaluation_of,
    read_facts,
    save_texts,
    with_current_texts,
)
from core.report.forms import prompts_to_markdown, to_html, to_markdown
from core.report.guidelines import guideline, guidelines
from core.report.parts import FIGURES, PARTS, SIMULATED
from core.report.tables import LEAST_ROWS, MOST_ROWS, FigureTable
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.report_fields import written_fields
from core.store.queries.runs import run_records
from core.store.sample import add_sample, sample_runs
from core.store.selection import Selection
from tests.core.store.builders import a_call, a_case, a_header, a_trial, answered, as_released, graded, write_journal
from tests.support.stores import copy_of

RUNS = ("run-a", "run-b")
NAMES = ("chart", "mi-clear-llm", "tripod-llm")


def served(store: Store) -> None:
    """Write a run of openai/a, whose calls say under which name it was served, and one of openai/b, whose do not."""
    cases = [a_case(number) for number in (1, 2)]
    for model, served_by in (("a", "a-2026-05-01"), ("b", None)):
        run_id = f"run-{model}"
        trials = [
            a_trial(
                [
                    a_call(f"{run_id}-{number}", model=f"openai/{model}", served_by=served_by),
                    answered("vignette", "mcq"),
                    graded("correct", "vignette", "mcq"),
                    answered(),
                    graded("correct" if number == 1 else "incorrect"),
                ],
                trial_id=f"{run_id}/{number}/0",
                run_id=run_id,
                case_key=f"ours/{number}",
            )
            for number in (1, 2)
        ]
        header = a_header(run_id, cases, doctor=f"openai/{model}", arms=(("vignette", "mcq"), ("multi_turn", "frq")))
        write_journal(store.journals, run_id, header, *trials)
    fold(store)


@pytest.fixture
def served_store(tmp_path: Path) -> Store:
    return copy_of(served, tmp_path)


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> EvaluationFacts:
    """What is stored about both runs of ``served``."""
    return read_facts(copy_of(served, tmp_path_factory.mktemp("served")), RUNS)


@pytest.fixture
def few_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read only the figures that say how the runs were made: the others take seconds."""
    names = ("accuracy", "dates", "flow", "hypotheses", "prompts", "served", "settings")
    monkeypatch.setattr(evaluation_module, "FIGURES", {name: FIGURES[name] for name in names})


def state_of(evaluation: Evaluation, number: str) -> str:
    (found,) = [answered_item.state for answered_item in evaluation.items if answered_item.item.item == number]
    return found


def tables_of(evaluation: Evaluation) -> list[FigureTable]:
    parts = {part.name: part for answer in evaluation.items for part in answer.parts}
    return [table for part in (*parts.values(), *evaluation.further) for table in part.tables]


def chart(facts: EvaluationFacts) -> Evaluation:
    return evaluated(guideline("chart", PARTS), facts)


def test_guidelines_have_the_published_numbers_of_items_and_know_all_their_parts() -> None:
    assert set(guidelines()) == set(NAMES)
    chart_numbers = [item.item for item in guideline("chart", PARTS).items]
    assert (
        chart_numbers
        == (
            "1a 1b 2a 2b 3a 3b 4a 4b 4c 5a 5ai 5aii 5aiii 5b 6a 6b 6c 6d 7a 7b 7bi 7bii 7biii 8 9a 9ai 10a 10b 10c "
            "11a 11b 11c 12a 12b 12c 12ci 12cii 12d 12e"
        ).split()
    )
    assert len(chart_numbers) == 39, "as CHART counts its subitems"
    assert [item.item for item in guideline("mi-clear-llm", PARTS).items] == [str(number) for number in range(1, 9)]
    tripod = [item.item for item in guideline("tripod-llm", PARTS).items]
    letters = {2: 12, 3: 2, 5: 5, 6: 5, 7: 5, 8: 3, 9: 2, 14: 6, 16: 4, 19: 7}
    assert tripod == [
        number
        for main in range(1, 20)
        for number in (
            [f"{main}{letter}" for letter in "abcdefghijkl"[: letters[main]]] if main in letters else [f"{main}"]
        )
    ]
    assert len(tripod) == 49 - 1 + 12, "rows of table 2, with the 12 items of abstracts instead of row 2"
    for name in NAMES:
        items = guideline(name, PARTS).items
        assert len({item.item for item in items}) == len(items)
        assert all(bool(item.parts) != bool(item.not_applicable) for item in items)


def test_a_guideline_of_an_extension_is_read_and_a_wrong_one_refused(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "guidelines"
    folder.mkdir()
    (folder / "ours.yaml").write_text(
        "title: Ours\nabout: a test\nsource: us\nsections:\n  R:\n    - {item: '1', label: A, parts: [accuracy]}\n"
    )
    (folder / "wrong.yaml").write_text(
        "title: W\nabout: w\nsource: w\nsections:\n  R:\n    - {item: '1', label: A, parts: [no_such_fact]}\n"
    )
    monkeypatch.setenv("ANAMNESIS_EXTENSIONS", str(tmp_path))
    assert [item.parts for item in guideline("ours", PARTS).items] == [("accuracy",)]
    with pytest.raises(UsageError, match="no_such_fact"):
        guideline("wrong", PARTS)
    with pytest.raises(UsageError, match="There is no guideline"):
        guideline("consort", PARTS)


@pytest.mark.slow
@pytest.mark.usefixtures("few_figures")
def test_an_item_without_its_fact_is_to_be_written(served_store: Store) -> None:
    facts = read_facts(served_store, ["run-a"])
    assert state_of(chart(facts), "3a") == "filled"
    assert state_of(chart(facts), "5b") == "to be written"  # calls of this run do not say from which prompts they are
    assert "a-2026-05-01" in to_html(chart(facts)).decode()
    without = chart(replace(facts, results={name: r for name, r in facts.results.items() if name != "served"}))
    assert state_of(without, "3a") == "to be written"
    assert "served" in [table.name for table in tables_of(chart(facts))]
    assert "served" not in [table.name for table in tables_of(without)]


@pytest.mark.slow
def test_a_provider_that_does_not_name_its_model_leaves_the_item_open(
    facts: EvaluationFacts, served_store: Store
) -> None:
    alone, both = chart(read_facts(served_store, ["run-b"])), chart(facts)
    assert state_of(alone, "3a") == state_of(both, "3a") == "to be written"
    # what is there is shown, and what is missing is named
    assert "a-2026-05-01" in to_markdown(both).decode()
    (served_models,) = {part.missing for answer in both.items for part in answer.parts if part.name == "served_models"}
    assert "openai/b" in served_models
    assert "openai/a" not in served_models


@pytest.mark.slow
def test_prompts_are_in_the_report_by_name_and_hash_and_in_its_appendix_with_their_texts(sample: Store) -> None:
    run_id = "20261123-113429-884b5e46"
    request = MetricRequest(sample, Selection(runs=[run_id]))
    facts = read_facts(sample, [run_id], stop=lambda: True)  # of the figures, it needs only one
    read = {name: result_of(FIGURES[name].metric, request) for name in ("settings", "prompts")}
    facts = replace(facts, results=read)
    evaluation = chart(facts)
    assert state_of(evaluation, "5b") == "filled"
    page = re.sub(r"\s+", " ", unescape(to_html(evaluation).decode()))
    appendix = prompts_to_markdown(evaluation).decode()
    assert facts.prompts
    for prompt in facts.prompts:
        assert prompt.text is not None
        assert prompt.hash in page
        assert prompt.name in page
        assert " ".join(prompt.text.split()) not in page
        assert prompt.hash in appendix
        longest = max(re.findall(r"[A-Za-z ,']+", prompt.text), key=len)
        assert longest.strip() in appendix
    rows = [dict(row) for row in facts.results["prompts"].rows]
    changed = replace(facts.results["prompts"], rows=({**rows[0], "characters": None}, *rows[1:]))
    assert state_of(chart(replace(facts, results={**facts.results, "prompts": changed})), "5b") == "to be written"


@pytest.mark.slow
def test_texts_of_people_fill_items_in_every_guideline_and_survive_the_database(
    served_store: Store, facts: EvaluationFacts
) -> None:
    save_texts(served_store, RUNS, {"funding": ("Nobody <paid>.", True), "tuning": ("Nothing was tuned.", False)})
    served_store.path.unlink()
    fold(served_store)
    facts = with_current_texts(facts, served_store)
    assert state_of(chart(facts), "12b") == "filled"
    assert state_of(chart(facts), "4c") == "not applicable"
    tripod = evaluated(guideline("tripod-llm", PARTS), facts)
    assert state_of(tripod, "14a") == "filled"
    assert "Nobody &lt;paid&gt;." in to_html(tripod).decode()
    with served_store.read() as cursor:  # another set of runs has texts of its own
        assert not written_fields(cursor, ["run-a"])


def test_the_newest_text_counts_and_an_empty_one_withdraws_it(served_store: Store) -> None:
    def stored() -> dict[str, str]:
        with served_store.read() as cursor:
            return {name: field.text for name, field in written_fields(cursor, RUNS[::-1]).items()}

    assert save_texts(served_store, RUNS, {"funding": ("One", True), "ethics": ("  ", False)}) == 1
    assert save_texts(served_store, RUNS[::-1], {"funding": ("One", True)}) == 0
    assert save_texts(served_store, RUNS, {"funding": ("Two", True)}) == 1
    assert stored() == {"funding": "Two"}
    assert save_texts(served_store, RUNS, {"funding": ("", True)}) == 1
    assert stored() == {}
    with pytest.raises(UsageError, match="There is no field"):
        save_texts(served_store, RUNS, {"fundings": ("One", True)})


@pytest.mark.slow
def test_a_text_fills_in_what_the_journals_lack(served_store: Store, facts: EvaluationFacts) -> None:
    save_texts(served_store, RUNS, {"served_models": ("b-2026-04, as its maker says.", True)})
    evaluation = chart(with_current_texts(facts, served_store))
    assert state_of(evaluation, "3a") == "filled"
    assert "b-2026-04, as its maker says." in to_markdown(evaluation).decode()


# numbers


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The sample study."""
    return copy_of(add_sample, tmp_path_factory.mktemp("sample"))


def compared_with_commands(evaluation: Evaluation, capsys: pytest.CaptureFixture[str]) -> int:
    """Compare every cell of every table with what its command prints; return the number of numbers among them."""
    compared = 0
    for table in tables_of(evaluation):
        words = shlex.split(table.command.removeprefix("python -m core "))
        assert main([*words, "--format", "json"]) == 0, table.command
        printed = json.loads(capsys.readouterr().out)
        assert min(len(printed), LEAST_ROWS) <= len(table.rows) <= MOST_ROWS, table.command
        assert len(table.rows) + table.left_out == len(printed)
        for shown, row in zip(table.rows, printed, strict=False):
            expected = {cell_in_words(name, value) for name, value in row.items() if isinstance(value, int | float)}
            numbers = {cell for cell in shown if re.fullmatch(r"[-+]?\d+(\.\d{3})?", cell)}
            assert numbers <= expected | set(map(str, row.values())), table.command
            compared += len(numbers)
    return compared


@pytest.mark.slow
def test_every_number_of_the_sample_study_is_that_of_its_command(sample: Store, capsys, monkeypatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(sample.path))
    with sample.read() as cursor:
        runs = [run for run in sample_runs(cursor) if not run.startswith("fork")]
    evaluation = evaluation_of(sample, runs, "chart")
    assert compared_with_commands(evaluation, capsys) > 100
    names = {name for name in evaluation.facts.results}
    assert {"ranking", "accuracy", "repeatability", "failures", "endings", "spend", "served", "settings"} <= names


@pytest.mark.slow
def test_numbers_in_the_html_file_are_those_of_the_table_that_the_command_prints(
    served_store: Store, facts: EvaluationFacts, capsys, monkeypatch
) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(served_store.path))
    page = to_html(chart(facts)).decode()
    assert main(["report", "accuracy", "--run", "run-a", "--run", "run-b", "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    cells = Cells(page).rows
    for row in printed:
        expected = [f"{row[name]:.3f}" for name in ("mean", "ci_low", "ci_high")]
        assert any(row["model"] in line and all(number in line for number in expected) for line in cells)


class Cells(HTMLParser):
    """The rows of all tables of a page, and the addresses in its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        self._inside = tag in ("td", "th") or (self._inside and tag == "a")
        if tag in ("td", "th"):
            self.rows[-1].append("")
        for name, value in attrs:
            if name in ("href", "src", "xlink:href", "action", "data", "srcset"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data


@pytest.mark.parametrize("name", NAMES)
def test_the_html_file_refers_to_nothing_outside(facts: EvaluationFacts, name: str) -> None:
    evaluation = evaluated(guideline(name, PARTS), facts)
    page = to_html(evaluation).decode()
    read = Cells(page)
    assert read.addresses
    assert all(address.startswith("#") for address in read.addresses)
    assert {address[1:] for address in read.addresses} <= set(read.ids)
    assert len(set(read.ids)) == len(read.ids)
    assert not re.search(r"<(script|link|iframe|img|object|embed)\b|@import|url\(", page)
    assert re.findall(r"https?://[^\"'<\s]+", page.replace("http://www.w3.org/2000/svg", "")) == []
    assert "default-src 'none'" in page
    assert {f"item-{answer.item.item}" for answer in evaluation.items} <= set(read.ids)
    markdown = to_markdown(evaluation).decode()
    assert all(f"### {answer.item.item} " in markdown for answer in evaluation.items)


def test_hostile_texts_stay_text(served_store: Store, facts: EvaluationFacts) -> None:
    attack = "<script>alert(1)</script> ![x](http://evil.example/x.png) \x00\u202e | a | `b`"
    save_texts(served_store, RUNS, {"background": (attack, True), "title": ("<img src=x>", True)})
    evaluation = chart(with_current_texts(facts, served_store))
    page, text = to_html(evaluation).decode(), to_markdown(evaluation).decode()
    assert "<script" not in page
    assert "<img" not in page
    assert "![x]" not in text
    assert "<script" not in text


def test_severe_notes_stand_at_the_first_figure_and_lead_the_limitations(facts: EvaluationFacts) -> None:
    evaluation = chart(facts)
    notes = list(evaluation.facts.limits())
    severe = [note.text for note in notes if note.severity == "high"]
    assert severe
    warnings = [note for table in tables_of(evaluation) for note in table.notes]
    assert len(set(warnings)) == len(warnings)
    assert set(severe) == set(warnings)
    (limitations,) = {part.lines for answer in evaluation.items for part in answer.parts if part.name == "limitations"}
    assert limitations[0] == SIMULATED
    for text, line in zip((note.text for note in notes), limitations[1:], strict=False):
        assert line.startswith(text)


# length, first page, states


def words_of(evaluation: Evaluation) -> int:
    return len(to_markdown(evaluation).decode().split())


def run_by_rules(store: Store, n_cases: int, specialties: int) -> None:
    """Write the run "rules" in every format and two types of question, two trials of each case."""
    arms = tuple(
        (format_, question_type)
        for format_ in ("vignette", "multi_turn", "single_turn", "summarized")
        for question_type in ("mcq", "frq")
    )
    cases = [
        a_case(n, specialty=f"Specialty with a long name, number {n % specialties}", licence="", source="")
        for n in range(n_cases)
    ]
    trials = [
        a_trial(
            [
                Utterance(turn=0, role="patient", text=f"A lump on my neck, doctor, since {n} weeks."),
                *(
                    event
                    for place, arm in enumerate(arms)
                    for event in (answered(*arm), graded("correct" if (n + trial + place) % 3 else "incorrect", *arm))
                ),
            ],
            trial_id=f"rules/{n}/{trial}",
            run_id="rules",
            case_key=f"ours/{n}",
            trial=trial,
        )
        for n in range(n_cases)
        for trial in range(2)
    ]
    header = a_header("rules", cases, arms=arms, doctor="reference/bayes", patient="reference/profile", trials=2)
    write_journal(store.journals, "rules", header, *trials)
    fold(store)


def six_cases(store: Store) -> None:
    run_by_rules(store, 6, 3)


def many_cases(store: Store) -> None:
    run_by_rules(store, 120, 40)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return copy_of(six_cases, tmp_path_factory.mktemp("rules"))


@pytest.fixture(scope="module")
def rules_facts(rules: Store) -> EvaluationFacts:
    return read_facts(rules, ["rules"])


@pytest.fixture(scope="module")
def long_facts(tmp_path_factory: pytest.TempPathFactory) -> EvaluationFacts:
    return read_facts(copy_of(many_cases, tmp_path_factory.mktemp("long")), ["rules"])


@pytest.mark.slow
def test_a_report_on_a_long_run_has_at_most_5000_words(long_facts: EvaluationFacts) -> None:
    counts = {name: words_of(evaluated(guideline(name, PARTS), long_facts)) for name in NAMES}
    assert {name: count for name, count in counts.items() if count > 5_000} == {}
    tables = {table.name: table for table in tables_of(chart(long_facts))}
    assert tables["by_specialty"].left_out > 300
    assert all(len(table.rows) >= min(LEAST_ROWS, len(table.rows) + table.left_out) for table in tables.values())


@pytest.mark.slow
def test_a_report_on_the_whole_sample_study_has_at_most_5000_words(sample: Store) -> None:
    with sample.read() as cursor:
        runs = [run for run in sample_runs(cursor) if not run.startswith("fork")]
    facts = read_facts(sample, runs)
    counts = {name: words_of(evaluated(guideline(name, PARTS), facts)) for name in NAMES}
    assert {name: count for name, count in counts.items() if count > 5_000} == {}


def test_the_first_page_has_question_comparison_result_and_three_limits_before_the_items(
    facts: EvaluationFacts, rules_facts: EvaluationFacts
) -> None:
    for read in (facts, rules_facts):
        page = chart(read).first_page
        assert page.question
        assert any(condition.name in line for condition in read.conditions for line in page.compared)
        assert len(page.limits) == 3
        severe = [note.text for note in read.limits() if note.severity == "high"][:3]
        assert [limit for limit, text in zip(page.limits, severe, strict=False) if not limit.startswith(text)] == []
        for text, item in (
            (to_markdown(chart(read)).decode(), "### 1a"),
            (unescape(to_html(chart(read)).decode()), 'id="item-1a"'),
        ):
            places = [text.index(cell) for cell in (page.rows[0][2], page.rows[0][3])]
            assert 0 < places[0] < places[1] < text.index(item)
    # of two conditions, each arm's row: one of two cases is right by free response after a conversation
    rows = {(row[0], row[1]): row for row in chart(facts).first_page.rows}
    accuracy = {row["model"]: row for row in facts.results["accuracy"].rows if row["format"] == "multi_turn"}
    for model, row in accuracy.items():
        shown = rows[model, "Multi-turn, free response"]
        interval = f"{row['ci_low'] * 100:.1f} % to {row['ci_high'] * 100:.1f} %"
        assert shown[2:] == ("50.0 %", interval, "2", "0")


def test_a_sample_that_the_report_draws_is_no_limit_of_the_study(facts: EvaluationFacts) -> None:
    sampled = Note("sample", "Random sample: 100 of 120 trials.", "high")
    accuracy = facts.results["accuracy"]
    with_note = {**facts.results, "accuracy": replace(accuracy, notes=(sampled, *accuracy.notes))}
    changed = chart(replace(facts, results=with_note))
    assert changed.first_page.limits == chart(facts).first_page.limits
    assert sampled.text in to_markdown(changed).decode()  # at its figure


def test_a_stated_hypothesis_is_the_question_and_its_outcome_comes_first(facts: EvaluationFacts) -> None:
    stated = Hypothesis(text="A is no worse than B.", primary="vignette:mcq", margin=0.05)
    runs = [facts.runs[0], replace(facts.runs[1], hypothesis=stated)]
    page = chart(replace(facts, runs=runs)).first_page
    assert any("A is no worse than B." in line and "5.0 %" in line for line in page.question)
    assert [row[1] for row in page.rows] == ["Vignette, multiple choice"] * 2 + ["Multi-turn, free response"] * 2


def test_no_filled_item_is_empty_and_each_other_item_says_why(
    facts: EvaluationFacts, rules_facts: EvaluationFacts
) -> None:
    nothing = {"", "-", "–", "n/a", "none", "None", "nan"}
    faults = []
    for read in (facts, rules_facts):
        for name in NAMES:
            for answer in evaluated(guideline(name, PARTS), read).items:
                assert answer.state in STATES
                for part in answer.parts:
                    cells = [cell for table in part.tables for row in table.rows for cell in row]
                    texts = [*part.lines, *part.commands, *part.shown_before, part.written.text if part.written else ""]
                    if part.state == "filled" and nothing.issuperset([*cells, *texts]):
                        faults.append((name, answer.item.item, part.name, "filled with nothing"))
                    if part.state == "to be written" and not part.missing:
                        faults.append((name, answer.item.item, part.name, "does not say what is missing"))
                    if part.state == "not applicable" and not part.exempt:
                        faults.append((name, answer.item.item, part.name, "does not say why"))
                    faults += [(name, part.name, table.name, "a dash") for table in part.tables if "–" in cells]
    assert faults == []


def test_items_on_weights_training_prompts_and_people_do_not_apply_to_rules_that_nobody_reviewed(
    facts: EvaluationFacts, rules_facts: EvaluationFacts
) -> None:
    of_rules = chart(
        replace(
            rules_facts, runs=[replace(rules_facts.runs[0], grader="reference/names", summariser="reference/quotes")]
        )
    )
    expected = ("3b", "4a", "4b", "4c", "7bi", "7bii", "7biii")
    assert {number: state_of(chart(rules_facts), number) for number in expected} == dict.fromkeys(
        expected, "not applicable"
    )
    assert state_of(of_rules, "5ai") == "not applicable"
    assert state_of(chart(facts), "3b") == state_of(chart(facts), "5ai") == "to be written"
    assert state_of(chart(replace(facts, reviewed=True)), "7biii") == "to be written"
    # the licence of the cases is not stated, and they are not those of the library
    assert state_of(chart(rules_facts), "12cii") == state_of(chart(rules_facts), "12ci") == "to be written"


def test_a_report_contains_no_text_of_a_case(rules: Store, rules_facts: EvaluationFacts) -> None:
    evaluation = chart(rules_facts)
    (wrong,) = [table for table in tables_of(evaluation) if table.name == "wrong_answers"]
    assert any(cell.startswith("rules/") for row in wrong.rows for cell in row)
    with rules.read() as cursor:
        cases = cursor.execute("SELECT vignette, answer FROM cases").fetchall()
        said = cursor.execute("SELECT text FROM utterances").fetchall()
    page = unescape(to_html(evaluation).decode())
    assert any("A lump on my neck, doctor" in text for (text,) in said)
    assert not [text for row in (*cases, *said) for text in row if text and text in page]


@pytest.mark.slow
def test_a_release_leaves_open_what_it_does_not_say(filled_store: Store) -> None:
    as_released(filled_store, "run-a")
    evaluation = chart(read_facts(filled_store, ["run-a"]))
    assert [state_of(evaluation, number) for number in ("3a", "6a", "6b", "6c", "12e")] == ["to be written"] * 5
    assert state_of(evaluation, "10a") == "filled"


def test_a_report_without_a_run_or_of_an_unknown_guideline_is_refused(
    served_store: Store, tmp_path, monkeypatch
) -> None:
    with pytest.raises(UsageError, match="needs a run"):
        evaluation_of(served_store, [], "chart")
    monkeypatch.setenv("ANAMNESIS_DB", str(served_store.path))
    assert main(["report", "evaluation", "run-a", "--out", str(tmp_path / "a.pdf")]) == 2
    assert main(["report", "evaluation", "run-a", "--for", "consort", "--out", str(tmp_path / "a.md")]) == 2
    assert main(["report", "evaluation", "run-a", "--write", "funding", "--out", str(tmp_path / "a.md")]) == 2
    assert not list(tmp_path.glob("a.*"))


@pytest.mark.slow
def test_the_command_writes_the_file_and_stores_fields(served_store: Store, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(served_store.path))
    out = tmp_path / "report.md"
    command = ["report", "evaluation", *RUNS, "--for", "mi-clear-llm", "--out", str(out)]
    assert main([*command, "--write", "training_dates=May = 2026", "--not-applicable", "tuning=No"]) == 0
    assert "8 items of MI-CLEAR-LLM" in capsys.readouterr().out
    with served_store.read() as cursor:
        fields = written_fields(cursor, RUNS)
    assert (fields["training_dates"].text, fields["tuning"].applies) == ("May = 2026", False)
    assert out.stat().st_size > 5_000
    appendix = (tmp_path / "report-prompts.md").read_bytes()
    # the page of the same runs shares the appendix
    assert main(["report", "evaluation", *RUNS, "--out", str(tmp_path / "report.html")]) == 0
    assert (tmp_path / "report-prompts.md").read_bytes() == appendix


@pytest.mark.slow
def test_the_command_of_a_run_plays_the_same_campaign(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    arguments = ["run", "--doctor", "reference/bayes", "--limit", "2", "--trials", "1", "--seed", "7"]
    assert main([*arguments, "--arms", "vignette:mcq", "--max-messages", "12", "--temperature", "0.5"]) == 0
    store = Store()
    with store.read() as cursor:
        (run,) = run_records(cursor)
    command = run_command_of(run)
    assert command
    assert main(shlex.split(command.removeprefix("python -m core "))) == 0
    fold(store)
    with store.read() as cursor:
        runs = run_records(cursor)
    assert len(runs) == 2
    assert len({run.fingerprint for run in runs}) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("few_figures")
def test_the_hypothesis_of_a_run_is_in_its_report_with_what_was_done_differently(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "anamnesis.duckdb"))
    options = ["--doctor", "reference/bayes", "--limit", "3", "--trials", "2", "--patient", "reference/profile"]
    stated = ["--hypothesis", "Bayes is right.", "--primary", "vignette:mcq", "--margin", "0.1"]
    assert main(["run", *options, "--arms", "vignette:mcq,vignette:frq", *stated]) == 0
    store = Store()
    with store.read() as cursor:
        (run,) = run_records(cursor)
    (row,) = read_facts(store, [run.run_id]).results["hypotheses"].rows
    assert (row["hypothesis"], row["primary"], row["margin"]) == ("Bayes is right.", "vignette:mcq", 0.1)
    assert "further outcomes: vignette:frq" in row["done_differently"]
