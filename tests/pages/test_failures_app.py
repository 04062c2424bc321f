"""The Failures page without a browser: marking, causes and their answers, what is never asked, belief."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.case import Fact, Profile
from core.figures.heat import ink_on
from core.jobs import background
from core.measures.ledger.kept import LEDGER, FactsLedger
from core.measures.missing import measure_missing
from core.store.database import Store
from core.store.fold import fold
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
from tests.support.fake_provider import running
from tests.support.pages import button, has_button, run_until, trouble, words
from tests.support.stores import copy_of

Open = Callable[..., AppTest]
ARMS = [("vignette", "frq"), ("multi_turn", "frq")]
FACTS = Profile(
    basic=(
        Fact(key="chief complaint", value="cough", lay="I have a cough"),
        Fact(key="smoking", value="smokes 20 cigarettes a day", lay="I smoke 20 cigarettes a day"),
    )
)
LEAK = "My neighbour says it is pneumonia."


def _trial(run: str, case: int, reply: str, vignette: str, *, failed: bool = False, probes: bool = False):
    """Return a trial whose multi-turn answer is wrong, or was never given."""
    said = ("What brings you in?", "I have a cough.", "Is there anything else?", reply, "**Final Diagnosis:** Eczema")
    believed = [
        Probed(turn=1, differential=(("Pneumonia", 0.6), ("Asthma", 0.4))),
        Probed(turn=3, differential=(("Asthma", 0.8), ("Pneumonia", 0.2))),
    ]
    stream = [
        *(Utterance(turn=n, role="patient" if n % 2 else "doctor", text=text) for n, text in enumerate(said)),
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

    The first model never asked in one case, and in the other the patient named the diagnosis; the second fails on the
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
        "a": [_trial("a", 1, "No, doctor.", "correct"), _trial("a", 2, LEAK, "correct")],
        "b": [
            _trial("b", 1, "No, doctor.", "incorrect", probes=True),
            _trial("b", 2, "No, doctor.", "correct", failed=True),
        ],
    }
    for run, held in lines.items():
        write_journal(store.journals, run, a_header(run, cases, doctor=f"openai/{run}", arms=ARMS), *held)
    fold(store)


@pytest.fixture
def filled(database: Path) -> Iterator[Store]:
    yield copy_of(store_wrong_answers, database.parent)
    for known in list(background._jobs.values()):
        known.join(20)


def store_marked(store: Store) -> None:
    store_wrong_answers(store)
    measure_missing(store, LEDGER)


@pytest.fixture
def marked(database: Path) -> Iterator[Store]:
    yield copy_of(store_marked, database.parent)
    for known in list(background._jobs.values()):
        known.join(20)


def settled(app: AppTest) -> AppTest:
    """Run the page until no work is under way."""
    return run_until(app, lambda page: not page.get("progress"))


def charts(app: AppTest) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def table(app: AppTest, column: str):
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


def test_an_empty_database_says_what_to_do(open_page: Open) -> None:
    app = open_page("failures")
    assert trouble(app) == []
    assert "import craftmd" in words(app)
    assert not app.get("plotly_chart")


def test_conversations_are_marked_by_a_button(filled: Store, open_page: Open) -> None:
    app = settled(open_page("failures"))
    assert trouble(app) == []
    assert "4 conversations are not marked yet" in words(app)
    assert "No wrong answer fits" in words(app)
    button(app, "Mark them").click().run()
    run_until(app, lambda page: "Cause" in {c for frame in page.dataframe for c in frame.value.columns})
    assert trouble(app) == []
    assert not has_button(app, "Mark them")


def test_each_wrong_answer_has_its_cause_and_what_is_not_judged_is_said(marked: Store, open_page: Open) -> None:
    app = settled(open_page("failures"))
    shares = {
        (r["Model"], r["Cause"]): (r["Answers"], r["Wrong in all"], r["Excluded"])
        for r in table(app, "Wrong in all").to_dict("records")
    }
    assert shares["openai/a", "Doctor: never asked"] == (1, 2, 0)
    assert shares["openai/a", "Patient"] == (1, 2, 0)
    assert shares["openai/b", "Doctor: concluded wrongly"] == (1, 1, 0)
    assert shares["openai/b", "Provider"] == (0, 1, 1)
    bars = {bar["name"]: bar["x"] for bar in charts(app)[0]["data"]}
    assert bars == {"Doctor: never asked": [0.5, 0.0], "Doctor: concluded wrongly": [0.0, 1.0], "Patient": [0.5, 0.0]}
    shown = words(app).replace("\\", "")
    assert "openai/b 1" in shown, "what the provider spoiled is said to be excluded"
    row = table(app, "Without").to_dict("records")
    assert [(r["Model"], r["Accuracy"], r["Without"], r["Answers left out"]) for r in row] == [("openai/a", 0, 0, 1)]
    assert "**Not judged: what patients withheld or invented** in these 3 conversations." in shown
    assert "0 wrong answers are *not judged*; 1 more are put down to the doctor on grounds of its own" in shown
    assert "1 wrong answers stay in because no model has judged their patient." in shown


def test_an_answer_is_shown_with_the_message_to_look_at(marked: Store, open_page: Open) -> None:
    app = settled(open_page("failures", failures_cause="Patient, suspected", failures_answer="a/2|multi_turn:frq"))
    assert trouble(app) == []
    listed = table(app, "Why")
    assert list(listed["Case"]) == ["2"]
    assert list(listed["Message"]) == [4]
    shown = words(app).replace("\\", "")
    assert "The patient named the diagnosis." in shown
    assert [m.avatar for m in app.chat_message]
    assert LEAK in shown
    links = {link.proto.label: link.proto.query_string for link in app.get("page_link")}
    assert "trial=a%2F2" in links["Read the transcript"]
    assert "trial=a%2F2" in links["Open in the case debugger"]


def test_accuracy_without_the_patients_waits_for_all_marks(
    filled: Store, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FactsLedger, "parcel", 1)
    heard: list[int] = []
    measure_missing(filled, LEDGER, progress=lambda at, of: heard.append(at), stop=lambda: bool(heard))
    app = settled(open_page("failures"))
    assert trouble(app) == []
    assert "Shown once every conversation in view is marked: 3 are not." in words(app)
    assert "Left out, not marked yet: 3 answers" in words(app).replace("\\", "")
    assert [r["Answers"] for r in table(app, "Wrong in all").to_dict("records") if r["Answers"]] == [1]


def test_a_model_judges_by_a_button_with_an_estimate(marked: Store, open_page: Open) -> None:
    def script(body: dict[str, object]) -> str:
        asked = str(body["messages"])
        invented = [{"turn": 3, "words": "No, doctor", "contradicts": None}] if "No, doctor" in asked else []
        return json.dumps({"withheld": [], "invented": invented})

    app = settled(open_page("failures"))
    with running(script) as provider:
        app.selectbox(key="failures_facts_grader").set_value("another model…").run()
        app.text_input(key="failures_facts_grader_other").set_value("openai/judge").run()
        app.text_input(key="failures_facts_base_url").set_value(provider.base_url).run()
        size = {metric.label: metric.value for metric in settled(app).metric}
        assert (size["Conversations to judge"], size["Model calls"], size["Cost"]) == ("3", "3", "$0.00")
        button(app, "Judge").click().run()
        run_until(app, lambda page: "3 conversations by openai/judge" in words(page).replace("\\", ""))
        app = settled(open_page("failures"))
        assert len(provider.bodies) == 3
    assert trouble(app) == []
    shown = words(app).replace("\\", "")
    assert "**Withheld and invented: judged by openai/judge (prompts" in shown
    assert "3 of 3 conversations here" in shown
    assert "nobody has reviewed a conversation that it judged" in shown
    shares = {(r["Model"], r["Cause"]): r["Answers"] for r in table(app, "Wrong in all").to_dict("records")}
    assert (shares["openai/a", "Patient"], shares["openai/a", "Doctor: never asked"]) == (2, 0)
    assert "“No, doctor”" in str(list(table(open_answers(open_page), "Why")["Why"]))
    topics = open_page("failures", failures_tab="Never asked")
    faults = table(topics, "Fault").to_dict("records")
    rows = {(r["Model"], r["Fault"]): (r["Share of conversations"], r["Conversations"], r["By"]) for r in faults}
    assert rows["openai/a", "invented"] == (0.5, 2, "openai/judge")
    assert rows["openai/a", "withheld"] == (0.0, 2, "openai/judge")
    assert rows["openai/b", "invented"] == (1.0, 1, "openai/judge")
    assert rows["openai/a", "named the diagnosis"] == (0.5, 2, "rule")


def open_answers(open_page: Open) -> AppTest:
    """The page at the patient's answers, by an address from when rules suspected it."""
    app = settled(open_page("failures", failures_cause="Patient, suspected", failures_model="openai/a"))
    assert app.selectbox(key="failures_cause").value == "patient"
    return app


def test_answers_to_the_vignette_are_asked_for(filled: Store, open_page: Open) -> None:
    app = settled(open_page("failures", failures_group="To the whole vignette"))
    assert trouble(app) == []
    assert [r["Answers"] for r in table(app, "Wrong in all").to_dict("records") if r["Answers"]] == [1]


def test_filters_stand_in_the_address(marked: Store, open_page: Open) -> None:
    app = settled(open_page("failures", specialties="Cardiology", models="openai/a"))
    assert {r["Cause"] for r in table(app, "Wrong in all").to_dict("records") if r["Answers"]} == {"Patient"}


def test_after_a_change_of_filters_the_answers_are_those_that_are_named(marked: Store, open_page: Open) -> None:
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


def test_topics_that_never_came_up(marked: Store, open_page: Open) -> None:
    app = open_page("failures", failures_tab="Never asked", failures_specialties="Dermatology")
    assert trouble(app) == []
    rows = {(r["Topic"], r["Model"]): r for r in table(app, "Topic").to_dict("records")}
    assert rows["social history", "openai/a"]["Share"] == 1.0
    assert rows["chief complaint", "openai/a"]["Share"] == 0.0
    assert rows["chief complaint", "openai/a"]["Cases"] == 1
    heat = charts(app)[0]
    assert [note["text"] for note in heat["layout"]["annotations"]] == ["0%", "0%", "100%", "100%"]
    told = words(app).replace("\\", "")
    assert "openai/a 1, openai/b 1" in told
    assert "what patients withhold and invent no rule decides" in told
    assert "recall asked 0.38 (37 of 98)" in told
    former = open_page("failures", failures_tab="Never asked", failures_facts="Withheld")  # there is none any more
    assert trouble(former) == []
    assert not table(former, "Topic").empty
    asked = open_page("failures", failures_tab="Never asked", failures_facts="Asked")
    assert {(r["Topic"], r["Share"]) for r in table(asked, "Topic").to_dict("records")} == {
        ("chief complaint", 1.0),
        ("social history", 0.0),
    }


def test_belief_of_probed_conversations(filled: Store, open_page: Open) -> None:
    app = open_page("failures", failures_tab="Belief")
    assert trouble(app) == []
    rows = {r["Figure"]: r["Mean"] for r in table(app, "Figure").to_dict("records")}
    assert (rows["Ever led"], rows["Led and lost again"]) == (1.0, 1.0)
    assert rows["First led after message, the greeting being 0"] == 1.0
    scores = {r["When"]: r["Brier"] for r in table(app, "ECE").to_dict("records")}
    assert scores["At the end"] == pytest.approx(0.8**2)
    curve = next(t for t in charts(app)[0]["data"] if t["mode"] == "lines+markers")
    assert curve["y"] == pytest.approx([0.6] * 5 + [0.2] * 5)
    app.multiselect(key="models").set_value(["openai/a"]).run()
    assert trouble(app) == []
    assert "--probe" in words(app), "where there is none it says how to get one"


@pytest.mark.parametrize("dark", [False, True])
def test_text_on_the_heat_map_reads(dark: bool) -> None:
    """The ends of the scale lie next to the page's ground and far from it, so the text changes its colour once."""
    inks = [ink_on(share / 20, dark=dark) for share in range(21)]
    assert inks[0] != inks[-1]
    assert sum(a != b for a, b in itertools.pairwise(inks)) == 1
