"""The reasons why conversations ended: on conversations made by hand, and on the authors' release."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import UsageError
from core.measures.base import MetricRequest
from core.measures.endings import endings, reason_rows, report, turn_rows, with_missing_turns
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import conversation_endings
from core.store.selection import Selection
from tests.core.store.builders import Ended, Utterance, a_case, a_header, a_trial, answered, write_journal
from tests.support.intervals import beta_bounds
from tests.support.stores import shared

COPY = os.environ.get("ANAMNESIS_CRAFTMD_RELEASE")


def conversation(case: int, number: int, reason: str, turns: int, last: str):
    stream = [
        Utterance(turn=0, role="doctor", text="Hello. Final diagnosis comes later."),
        Utterance(turn=1, role="patient", text="A rash."),
        Utterance(turn=2, role="doctor", text=last),
        Ended(reason=reason, doctor_turns=turns),
    ]
    return a_trial(stream, trial_id=f"run/{case}/{number}", case_key=f"ours/{case}", trial=number)


def fill(store: Store) -> None:
    """Case 1: concluded, and at the cap. Case 2: twice no question, once with a diagnosis. Case 3: no conversation."""
    cases = [a_case(1), a_case(2, specialty="Cardiology"), a_case(3)]
    write_journal(
        store.journals,
        "run",
        a_header(cases=cases),
        conversation(1, 0, "final_diagnosis", 1, "**Final Diagnosis:** Eczema"),
        conversation(1, 1, "turn_cap", 14, "Does it itch?"),
        conversation(2, 0, "no_question", 2, "My FINAL diagnosis is eczema."),
        conversation(2, 1, "no_question", 3, "Goodbye."),
        a_trial([answered("vignette", "mcq")], trial_id="run/3/0", case_key="ours/3"),
    )
    live = a_header("live", cases=cases, doctor="openai/live", source="live")
    watched = a_trial([Ended(reason="error", doctor_turns=1)], trial_id="live/1/0", run_id="live")
    write_journal(store.journals, "live", live, watched)
    fold(store)


@pytest.fixture
def filled() -> Store:
    return shared(fill)


def read(store: Store):
    with store.read() as cursor:
        return conversation_endings(cursor)


def test_conversations_are_counted_by_how_they_ended(filled: Store) -> None:
    (row,) = endings(read(filled))
    assert (row["model"], row["conversations"], row.n, row.excluded) == ("openai/a", 4, 2, {"no conversation": 1})
    assert row["reasons"] == {"final_diagnosis": 1, "no_question": 2, "turn_cap": 1}
    assert (row["turns_mean"], row["turns_median"], row["turns_most"]) == (5.0, 2.5, 14)
    # by the last message, in upper or lower case; in each case one of two has no diagnosis
    assert (row["without_diagnosis"], row.estimate) == (2, 0.5)
    # two equal cases: narrower than one of two cases, and symmetric
    assert beta_bounds(1, 2)[0] < row.low == pytest.approx(1 - row.high)
    assert row.low < 0.2
    turns = turn_rows(read(filled))
    assert [(r["turns"], r["conversations"], r["share"]) for r in turns] == [(n, 1, 0.25) for n in (1, 2, 3, 14)]
    drawn = with_missing_turns(turns, MetricRequest(filled), {})
    assert [row.estimate for row in drawn] == [0.0, 0.25, 0.25, 0.25, *[0.0] * 10, 0.25], "from 0 to 14"
    assert [row.counts is not None for row in drawn] == [bool(row.estimate) for row in drawn]


def test_a_selection_narrows_the_conversations(filled: Store) -> None:
    def keys(**filters: list[str]) -> list[str]:
        with filled.read() as cursor:
            return sorted(conversation_endings(cursor, Selection(**filters))["case_key"].unique())

    assert keys(specialties=["Cardiology"]) == ["ours/2"]
    assert keys(case_sets=["ours"], conditions=["openai/a"], datasets=["ours"]) == ["ours/1", "ours/2", "ours/3"]
    assert keys(conditions=["openai/live"]) == [], "a watched consultation is no campaign"
    assert keys(case_sets=["other"]) == []


def test_reasons_are_shares_of_conversations(filled: Store) -> None:
    rows = {row["reason"]: (row["conversations"], row.n, row.estimate) for row in reason_rows(read(filled))}
    assert rows == {"final_diagnosis": (1, 4, 0.25), "no_question": (2, 4, 0.5), "turn_cap": (1, 4, 0.25)}


def test_an_unknown_rule_is_refused_with_the_known_ones(filled: Store) -> None:
    with pytest.raises(UsageError, match="There is no rule none; there are no_diagnosis_excluded"):
        list(report.rows(MetricRequest(filled), "rules", "none"))


def test_a_model_without_any_conversation_has_nothing_to_show(store: Store) -> None:
    vignette = a_trial([answered("vignette", "mcq")])
    write_journal(store.journals, "run", a_header(cases=[a_case(1)]), vignette)
    fold(store)
    table = read(store)
    (row,) = endings(table)
    assert (row["conversations"], row.excluded["no conversation"], row["reasons"], row["turns_most"]) == (0, 1, {}, 0)
    assert turn_rows(table) == []


@pytest.mark.skipif(not COPY, reason="ANAMNESIS_CRAFTMD_RELEASE does not name the authors' release")
def test_the_reasons_of_the_release_equal_an_independent_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from core.frameworks.craftmd.release import RELEASE
    from core.jobs.release.importing import import_release

    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "release.duckdb"))
    store = Store()
    layout = RELEASE.find(Path(str(COPY)), "release")
    import_release(store, layout, [m for m in layout.models if m.model.label.startswith("mistral")])
    rows = {row["model"]: row for row in endings(read(store))}
    first, second = rows["mistral_v1_7b"], rows["mistral_v2_7b"]
    assert (first["conversations"], second["conversations"]) == (10_020, 10_020)
    # counted in the files with another script: 48 % and 4.1 % without a diagnosis, 10.7 and 2.9 turns
    assert (first["without_diagnosis"], second["without_diagnosis"]) == (4781, 408)
    assert first.estimate == pytest.approx(4781 / 10_020)
    assert (round(first["turns_mean"], 2), round(second["turns_mean"], 2)) == (10.72, 2.94)
    assert first["reasons"]["turn_cap"] + first["reasons"]["error"] == 4631  # 46 % ended with an open question
