"""Marking stored conversations once: what is kept, what is made anew, and the figures that follow from it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from core import processes
from core.asking.scene import Turn
from core.case import Fact, Profile
from core.errors import AnamnesisError
from core.measures.base import Record
from core.measures.ledger.kept import LEDGER, FactsLedger, fault_rows, kept_facts, talk_rows, topic_rows
from core.measures.ledger.marks import Ledger, ledger, ledger_facts
from core.measures.missing import Measured, Parcel, count_missing, measure_missing
from core.processes import read_by
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.fact_sets import save_facts
from core.store.queries.scores_of_ledgers import talk_sums, topic_sums
from core.text.facts import facts_of
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.stores import copy_of

COUGH = Profile(
    basic=(
        Fact(key="chief complaint", value="cough", lay="I have a cough"),
        Fact(key="fever", value="fever", lay="I have a fever"),
        Fact(key="smoking", value="smokes 20 cigarettes a day", lay="I smoke 20 cigarettes a day"),
    )
)
CASES = [
    a_case(n, profile=COUGH, vignette="A man with a cough and fever. He smokes.", answer="Pneumonia", synonyms=())
    for n in (1, 2)
]
ASKS = ("Do you have a fever?", "Yes, I have a fever.")
SILENT = ("Is there anything else?", "No, doctor.")


def talk(*exchange: str) -> tuple[Turn, ...]:
    said = ("Hello, what brings you in?", "I have a cough.", *exchange, "**Final Diagnosis:** Flu")
    return tuple(Turn("patient" if n % 2 else "doctor", text) for n, text in enumerate(said))


TALKS = {("m1", 1): talk(*ASKS), ("m1", 2): talk(*SILENT), ("m2", 1): talk(*SILENT), ("m2", 2): talk(*SILENT)}


def fill(store: Store) -> None:
    """Two models, each in one conversation about each of two cases; the first asks for the fever in one."""
    for model in ("m1", "m2"):
        lines = [
            a_trial(
                [
                    *(Utterance(turn=n, role=t.role, text=t.text) for n, t in enumerate(TALKS[model, n_case])),
                    Ended(reason="final_diagnosis", doctor_turns=2),
                    Finished(),
                ],
                trial_id=f"{model}/{n_case}",
                run_id=model,
                case_key=f"ours/{n_case}",
            )
            for n_case in (1, 2)
        ]
        write_journal(store.journals, model, a_header(model, CASES, doctor=model), *lines)
    fold(store)


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    return copy_of(fill, tmp_path)


def ledgers(model: str) -> list[Ledger]:
    return [ledger(CASES[n - 1], TALKS[model, n]) for n in (1, 2)]


def marks(store: Store) -> int:
    with store.read() as cursor:
        return int(cursor.execute("SELECT count(DISTINCT trial_id) FROM scores").fetchall()[0][0])


def test_everything_is_marked_once_and_told(filled: Store) -> None:
    told: list[tuple[int, int]] = []
    assert count_missing(filled, LEDGER) == 4
    assert measure_missing(filled, LEDGER, progress=lambda *at: told.append(at)) == Measured(4, 0)
    assert told[-1] == (4, 4)
    assert count_missing(filled, LEDGER) == 0
    assert measure_missing(filled, LEDGER) == Measured(0, 0)
    assert marks(filled) == 4


def test_what_the_attribution_reads_is_what_the_ledger_says(filled: Store) -> None:
    measure_missing(filled, LEDGER)
    kept = kept_facts(filled)
    assert kept == {f"{m}/{n}": ledger_facts(CASES[n - 1], said) for (m, n), said in TALKS.items()}
    assert kept["m1/1"].never == 1, "only the smoking never came up"
    assert kept["m1/2"].never == 2


def test_stopped_it_goes_on_where_it_was(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FactsLedger, "parcel", 1)
    heard: list[int] = []
    found = measure_missing(filled, LEDGER, progress=lambda at, of: heard.append(at), stop=lambda: bool(heard))
    assert found == Measured(1, 3)
    assert marks(filled) == 1
    done: list[int] = []
    assert measure_missing(filled, LEDGER, progress=lambda at, of: done.append(of)) == Measured(3, 0)
    assert done == [3, 3, 3]


def test_broken_off_what_was_written_is_kept(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FactsLedger, "parcel", 1)

    def fail(done: int, planned: int) -> None:
        if done == 2:
            raise AnamnesisError("the power went")

    with pytest.raises(AnamnesisError, match="power"):
        measure_missing(filled, LEDGER, progress=fail)
    assert marks(filled) == 2
    assert count_missing(filled, LEDGER) == 2


def test_new_facts_of_a_case_mark_its_conversations_anew(filled: Store) -> None:
    measure_missing(filled, LEDGER)
    with filled.write() as connection:
        save_facts(connection, CASES[0], facts_of(CASES[0])[:2], "a person")
    assert count_missing(filled, LEDGER) == 2
    assert set(kept_facts(filled)) == {"m1/2", "m2/2"}
    measure_missing(filled, LEDGER)
    assert kept_facts(filled)["m1/1"].never == 0, "the smoking is no fact any more"


def test_new_rules_mark_everything_anew(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    measure_missing(filled, LEDGER)
    monkeypatch.setattr(FactsLedger, "version", "other")
    assert count_missing(filled, LEDGER) == 4
    assert kept_facts(filled) == {}


@pytest.mark.soak
def test_processes_give_the_same_and_end(filled: Store) -> None:
    parcels = [Parcel(LEDGER, (Record(str(at), CASES[0], said),)) for at, said in TALKS.items()] * 3
    found = read_by(2, iter(parcels))
    assert list(found) == [parcel.read() for parcel in parcels]


def test_a_process_that_dies_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        processes, "_start", lambda begin: subprocess.Popen(["true"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    )
    with pytest.raises(AnamnesisError, match="broke off"):
        list(read_by(1, [Parcel(LEDGER, (Record("t", CASES[0], talk()),))]))


def test_figures_of_topics_are_those_of_the_ledgers(filled: Store) -> None:
    measure_missing(filled, LEDGER)
    with filled.read() as cursor:
        rows = topic_rows(topic_sums(cursor, LEDGER))
    assert {row["model"] for row in rows} == {"m1", "m2"}
    assert {row["mark"] for row in rows} == {"asked", "volunteered", "never_elicited"}
    for row in rows:
        facts = [
            [m for m in one.marks if m.fact.told and m.fact.topic == row["topic"]] for one in ledgers(row["model"])
        ]
        assert (row.n, row["n_facts"]) == (len(facts), sum(map(len, facts)))
        shares = [sum(m.mark == row["mark"] for m in marks) / len(marks) for marks in facts]
        assert row.estimate == sum(shares) / len(facts)
    social = [row for row in rows if row["topic"] == "social history" and row["mark"] == "never_elicited"]
    assert social[0].estimate == 1.0


def test_figures_of_talks_count_what_is_left_out(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FactsLedger, "parcel", 1)
    heard: list[int] = []
    measure_missing(filled, LEDGER, progress=lambda at, of: heard.append(at), stop=lambda: bool(heard))
    with filled.read() as cursor:
        rows = {row["model"]: row for row in talk_rows(talk_sums(cursor, LEDGER))}
    left_out = {m: (r["n_conversations"], *r.excluded.values()) for m, r in rows.items()}
    assert left_out == {"m1": (1, 0, 1), "m2": (0, 0, 2)}
    assert list(rows["m1"].excluded) == ["broken off", "not marked"]
    measure_missing(filled, LEDGER)
    with filled.read() as cursor:
        sums = talk_sums(cursor, LEDGER)
    rows = {row["model"]: row for row in talk_rows(sums)}
    assert {m: (r["n_conversations"], r.excluded["not marked"], r.estimate) for m, r in rows.items()} == {
        "m1": (2, 0, 0.0),
        "m2": (2, 0, 0.0),
    }
    assert {row["fault"] for row in fault_rows(sums, None)} == {"named the diagnosis"}, "nobody judged"


def test_the_evidence_of_a_mark_is_the_facts_and_where_they_were_told() -> None:
    found = {one.name: one for one in LEDGER.scores(Record("t", CASES[0], TALKS["m1", 1]))}
    assert (found["never"].value, found["turns"].value, found["leaked"].value) == (1, 5, 0)
    # of a cough, a fever and smoking the cough was told to the greeting and the fever when asked for
    assert found["coverage"].value == pytest.approx(2 / 3)
    marks = {name: one for name, one in found.items() if ": " in name and one.value}
    assert {
        name.partition(": ")[0]: sum(one.value for n, one in marks.items() if n.split(":")[0] == name.split(":")[0])
        for name in marks
    } == {"asked": 2, "never_elicited": 1}
    (never,) = [one for name, one in marks.items() if name.startswith("never_elicited")]
    assert [(e.turn, "smokes" in e.words) for e in never.evidence] == [(None, True)]
    assert {e.turn for name, one in marks.items() if name.startswith("asked") for e in one.evidence} == {1, 3}


def test_a_patient_who_names_the_disease_is_quoted() -> None:
    said = (*TALKS["m2", 1][:2], Turn("doctor", "What else?"), Turn("patient", "I think it is pneumonia."))
    (leaked,) = [one for one in LEDGER.scores(Record("t", CASES[0], said)) if one.name == "leaked"]
    assert (leaked.value, [tuple(e[:2]) for e in leaked.evidence]) == (1, [(3, "I think it is pneumonia.")])
