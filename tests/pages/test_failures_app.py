"""The Failures page without a browser: judging, wrong answers and their causes, filters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core.case import Fact, Profile
from core.jobs import background
from core.measures.failures import Causes
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judged_facts import PatientVerdict
from core.store.queries.judgements import judgeable_items
from core.text.facts import facts_of
from pages.failures import causes
from tests.core.store.builders import (
    Ended,
    Finished,
    Probed,
    Utterance,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    invalid,
    write_journal,
)
from tests.support.judged_facts import judge_facts, judge_of_facts
from tests.support.pages import run_until, trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
ARMS = [("vignette", "frq"), ("multi_turn", "frq")]
FACTS = Profile(
    basic=(
        Fact(key="chief complaint", value="cough", lay="I have a cough"),
        Fact(key="smoking", value="smokes 20 cigarettes a day", lay="I smoke 20 cigarettes a day"),
    )
)
LATE = "My knee hurts, too."


def _trial(run: str, case: int, reply: str, vignette: str, *, failed: bool = False, probes: bool = False):
    """Return a trial whose multi-turn answer is wrong, or was never given."""
    texts = ("What brings you in?", "I have a cough.", "Is there anything else?", reply, "**Final Diagnosis:** Eczema")
    believed = [
        Probed(turn=1, differential=(("Pneumonia", 0.6), ("Asthma", 0.4))),
        Probed(turn=3, differential=(("Asthma", 0.8), ("Pneumonia", 0.2))),
    ]
    stream = [
        *(Utterance(turn=n, role="patient" if n % 2 else "doctor", text=text) for n, text in enumerate(texts)),
        *(believed if probes else []),
        Ended(reason="final_diagnosis", doctor_turns=2),
        answered("vignette", "frq"),
        graded(vignette, "vignette", "frq"),
        *([invalid("provider_error")] if failed else [answered(), graded("incorrect")]),
        Finished(),
    ]
    return a_trial(stream, trial_id=f"{run}/{case}", run_id=run, case_key=f"ours/{case}")


def store_wrong_answers(store: Store) -> None:
    """Four wrong answers after a conversation, each for another reason.

    The first model never asked in one case, and in the other the patient invented something; the second fails on the
    vignette too, and in the other case its provider failed.
    """
    cases = [
        a_case(
            n,
            profile=FACTS,
            vignette="A smoker with a cough.",
            answer="Pneumonia",
            synonyms=(),
            specialty=("Dermatology", "Cardiology")[n - 1],
        )
        for n in (1, 2)
    ]
    lines = {
        "a": [_trial("a", 1, "No, doctor.", "correct"), _trial("a", 2, LATE, "correct")],
        "b": [
            _trial("b", 1, "No, doctor.", "incorrect", probes=True),
            _trial("b", 2, "No, doctor.", "correct", failed=True),
        ],
    }
    for run, trials in lines.items():
        write_journal(store.journals, run, a_header(run, cases, doctor=f"openai/{run}", arms=ARMS), *trials)
    fold(store)


COMPLAINT, SMOKES = facts_of(a_case(1, profile=FACTS))
ASKED = PatientVerdict("asked", 1, "I have a cough.", COMPLAINT.id, COMPLAINT.text, COMPLAINT.topic)
NEVER = PatientVerdict("never_asked", None, "", SMOKES.id, SMOKES.text, SMOKES.topic)
INVENTED = PatientVerdict("invented", 3, "My knee hurts")
JUDGE = judge_of_facts("openai/j", "p1")


def store_judged(store: Store) -> None:
    store_wrong_answers(store)
    with store.read() as cursor:
        trials = [conversation.trial_id for conversation in judgeable_items(cursor)]
    for trial in trials:
        judge_facts(store, trial, ASKED, NEVER, *([INVENTED] if trial == "a/2" else []), by=JUDGE)


@pytest.fixture
def judged(database: Path) -> Iterator[Store]:
    yield copy_of(store_judged, database.parent)
    for job in list(background._jobs.values()):
        job.join(20)


def settled(app: AppTest) -> AppTest:
    """Run the page until it shows no progress bar."""
    return run_until(app, lambda page: not page.get("progress"))


def table(app: AppTest, column: str):
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


@pytest.mark.slow
def test_wrong_answers_are_listed_before_their_causes_are_known(
    judged: Store, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = threading.Event()
    make = Causes.make

    def wait(self: Causes, *args: Any, **options: Any) -> bool:
        return allowed.wait(60) and make(self, *args, **options)

    monkeypatch.setattr(Causes, "make", wait)
    monkeypatch.setattr(causes, "_WAIT_S", 0.0)
    app = open_page("failures", failures_model="openai/a")
    try:
        assert trouble(app) == []
        listed = table(app, "Verdict")
        assert list(listed["Case"]) == ["ours/1", "ours/2"]
        assert "Cause" not in listed
    finally:
        allowed.set()
    assert "Cause" in table(settled(app), "Verdict")


@pytest.mark.slow
def test_an_answer_is_shown_with_the_message_to_look_at(judged: Store, open_page: Open) -> None:
    app = settled(open_page("failures", failures_cause="Patient, suspected", failures_answer="a/2|multi_turn:frq"))
    assert trouble(app) == []
    listed = table(app, "Why")
    assert list(listed["Case"]) == ["ours/2"]
    assert list(listed["Message"]) == [4]
    text = words(app).replace("\\", "")
    assert "The patient said what the case does not hold, by openai/j: “My knee hurts”." in text
    assert [m.avatar for m in app.chat_message]
    assert LATE in text
    links = {link.proto.label: link.proto.query_string for link in app.get("page_link")}
    assert "trial=a%2F2&message=4" in links["The whole conversation"]
    assert "trial=a%2F2" in links["Open in the case debugger"]


@pytest.mark.slow
def test_filters_stand_in_the_address(judged: Store, open_page: Open) -> None:
    app = settled(open_page("failures", specialties="Cardiology", models="openai/a"))
    assert {r["Cause"] for r in table(app, "All wrong").to_dict("records") if r["Answers"]} == {"Patient"}


@pytest.mark.slow
def test_after_a_change_of_filters_the_answers_are_those_that_are_named(judged: Store, open_page: Open) -> None:
    chosen = {"failures_model": "openai/b", "failures_answer": "b/1|multi_turn:frq"}
    app = settled(open_page("failures", failures_cause="Doctor: concluded wrongly", **chosen))
    assert app.chat_message
    app.multiselect(key="models").set_value(["openai/a"]).run()
    listed = table(settled(app), "Why")
    assert app.selectbox(key="failures_model").value == "openai/a"
    assert set(listed["Model"]) == {"openai/a"}
    cause = app.selectbox(key="failures_cause")
    assert set(listed["Cause"]) == {cause.format_func(cause.value)}
    assert not app.chat_message
