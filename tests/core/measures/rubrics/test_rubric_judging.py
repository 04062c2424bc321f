"""Models judge criteria through a local server: quotations, order, batches, repeats, resume, failures, defaults."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from core.asking.scene import Turn
from core.errors import AnamnesisError, UsageError
from core.jobs.ask_job import AskOutcome, estimate_job, run_job
from core.jobs.engine import Options
from core.jobs.judge import Judging, default_judge
from core.jobs.progress import Stop
from core.judging.form import CANNOT_JUDGE, NOT_APPLICABLE
from core.judging.quotations import check_quotation
from core.judging.request import FormAnswer, Material, answers_in, judge_request, judging_pack
from core.judging.rubric import rubric_of
from core.measures import agreement
from core.measures.base import MetricRequest, Row
from core.measures.rubrics.reading import OTHER_SPEAKER, VOIDED, read_rubric_outcomes
from core.models.failures import RetryPolicy
from core.models.registry import Registry, load_registry
from core.models.settings import default_paths
from core.reviews.rubrics import save_rubric
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.judgements import judgements
from core.store.selection import Selection
from tests.core.store.builders import Ended, Finished, Utterance, a_case, a_header, a_trial, write_journal
from tests.support.fake_provider import running
from tests.support.replies import Script, failing
from tests.support.rubric_judges import by_last_word, criteria_in, invented, judge, noisy, prompt_of, verdict
from tests.support.stores import copy_of

CASES = [a_case(n) for n in (1, 2, 3)]
TEXTS = {
    1: ("Does your knee hurt?", "Yes, since Monday.", "Do you have a fever?", "No.", "It is gout."),
    2: ("Does your knee hurt?", "No.", "It is a sprain."),
    3: ("Any fever or cough?", "A cough.", "Call an ambulance, it is pneumonia."),
}
WORDS = ("knee", "fever", "cough", "gout", "ambulance", "smoking")
RUBRIC = {
    "name": "demo",
    "all": [
        {"id": f"about_{word}", "criterion": f"The doctor speaks of {word}", "points": points, "axis": "reasoning"}
        for word, points in zip(WORDS, (1, 2, 3, 7771, 1, -8), strict=True)
    ],
}
MET = {1: {"knee", "fever", "gout"}, 2: {"knee"}, 3: {"fever", "cough", "ambulance"}}


def judged_conversations_stored(store: Store) -> None:
    trials = []
    for number, texts in TEXTS.items():
        turns = [Utterance(turn=n, role="patient" if n % 2 else "doctor", text=text) for n, text in enumerate(texts)]
        events = [*turns, Ended(reason="final_diagnosis", doctor_turns=2), Finished(at=9.0)]
        trials.append(a_trial(events, trial_id=f"run/{number}", case_key=f"ours/{number}"))
    write_journal(store.journals, "run", a_header(cases=CASES), *trials)
    fold(store)
    with store.write() as connection:
        save_rubric(connection, rubric_of(RUBRIC, "demo"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return copy_of(judged_conversations_stored, tmp_path)


def registry() -> Registry:
    return load_registry(default_paths(), retry=RetryPolicy(attempts=1))


def judged(store: Store, script: Script, *, stop: Stop | None = None, **options: Any) -> tuple[AskOutcome, list[Any]]:
    with running(script) as provider:
        usual = {"form": "rubric:demo", "by": ("openai/fake",), "apart": "together" not in options}
        job = Judging(**{**usual, "base_url": provider.base_url, **options})
        return run_job(job, store, registry(), Options(1), stop), list(provider.bodies)


def statuses(store: Store, judge_name: str | None = None) -> dict[str, dict[str, str]]:
    reading = read_rubric_outcomes(store, Selection(), "demo", judge_name)
    return {
        conversation.trial_id: {o.criterion.id.removeprefix("about_"): o.why or o.status for o in conversation.outcomes}
        for conversation in reading.conversations
    }


def figures(store: Store) -> dict[tuple[str, str], Row]:
    listed = agreement.report.rows(MetricRequest(store), "rubric:demo", part="answers")
    return {(row.label["judge"], row.label["figure"]): row for row in listed if isinstance(row, Row)}


def between(store: Store) -> dict[str, Row]:
    """Return the percent agreement on met and not met of every two judges, and of each with itself."""
    listed = agreement.report.rows(MetricRequest(store), "rubric:demo", by="form")
    rows = [row for row in listed if isinstance(row, Row) and row["measure"] == "percent agreement"]
    return {row["judges"]: row for row in rows}


EXPECTED = {f"run/{n}": {word: "met" if word in met else "not met" for word in WORDS} for n, met in MET.items()}


@pytest.mark.slow
def test_every_criterion_is_judged_alone_and_once(store: Store) -> None:
    outcome, bodies = judged(store, judge(by_last_word))
    assert (outcome.done, outcome.counts["answers"], len(bodies)) == (18, 18, 18)
    assert statuses(store) == EXPECTED
    assert {body["temperature"] for body in bodies} == {0.0}
    repeated, bodies = judged(store, judge(by_last_word))
    assert (repeated.done, repeated.kept, bodies) == (0, 18, [])


def test_the_judge_sees_messages_and_criteria_and_neither_points_nor_models(store: Store) -> None:
    _, bodies = judged(store, judge(by_last_word), together=True)
    for body in bodies:
        prompt = prompt_of(body)
        assert "[0] Doctor: " in prompt
        assert "The doctor speaks of gout" in prompt
        assert not re.search(r"7771|reasoning|must not|about_|openai/a|ours/|Eczema|Vignette", prompt)


def test_invented_quotations_void_every_verdict_also_not_met(store: Store) -> None:
    outcome, _ = judged(store, judge(invented), trials=("run/2",))
    assert (outcome.counts["void"], outcome.failed) == (6, 0)
    assert set(statuses(store)["run/2"].values()) == {VOIDED}
    assert figures(store)["openai/fake", "quotations unverified"].estimate == 1.0
    with store.read() as cursor:
        answer = judgements(cursor)[0]
    assert (answer.value in ("met", "not met"), answer.void) == (True, True)
    assert answer.quotations[0].state == "unverified"


@pytest.mark.slow
@pytest.mark.parametrize("together", [False, True])
def test_order_and_requests_change_nothing_for_a_deterministic_judge(store: Store, together: bool) -> None:
    _, bodies = judged(store, judge(by_last_word), together=together, apart=not together, repeat=2)
    assert len(bodies) == 2 * 3 * (1 if together else 6)
    assert statuses(store) == EXPECTED
    assert between(store)["openai/fake and itself"].estimate == 1.0
    orders = [re.findall(r"speaks of (\w+)", prompt_of(body)) for body in bodies]
    assert together or orders[:6] != orders[6:12]  # shuffled for every conversation


@pytest.mark.slow
def test_all_criteria_at_once_and_single_ones_are_two_judges_whose_difference_is_shown(store: Store) -> None:
    judged(store, judge(noisy(0.3)), repeat=3)
    judged(store, judge(noisy(0.3, "other")), together=True)
    rows = between(store)
    across = rows["openai/fake (all together) and openai/fake (1 together)"]
    assert 0.3 < (across.estimate or 0) < 1
    assert across["n_cases"] == 3
    assert 0.3 < (rows["openai/fake (1 together) and itself"].estimate or 0) < 1
    assert statuses(store, "openai/fake (all together)") != statuses(store, "openai/fake (1 together)")


def test_a_judge_that_reads_the_whole_form_badly_is_asked_each_question_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the first five requests, 4 of 5 are readable (80 %); three conversations are judged twice."""
    monkeypatch.setattr("core.jobs.judge.TRIED", 5)
    whole, stop = list[str](), Stop()

    def reads_badly(body: dict[str, Any]) -> str:
        if len(criteria_in(prompt_of(body))) > 1:
            whole.append(prompt_of(body))
            if len(whole) == 2:
                stop.ask("It was asked to stop.")
            if len(whole) in (3, 4):  # the request and its repair
                return "I would rather not."
        return str(judge(by_last_word)(body))

    auto: dict[str, Any] = {"apart": False, "repeat": 2}
    _, bodies = judged(store, reads_badly, stop=stop, **auto)
    assert (len(bodies), len(whole)) == (2, 2)
    outcome, bodies = judged(store, reads_badly, **auto)
    assert (len(whole), len(bodies), outcome.failed) == (6, 4 + 6 * 6, 0)  # the first two are not paid for again
    again, bodies = judged(store, reads_badly, **auto)
    assert (again.kept, bodies) == (36, [])
    assert statuses(store, "openai/fake") == EXPECTED
    with store.read() as cursor:
        counts = cursor.execute("SELECT together, count(value) FROM judgements GROUP BY together").fetchall()
    assert dict(counts) == {0: 24, 1: 36}  # two judges, which no figure mixes

    well: dict[str, Any] = {"apart": False, "by": ("openai/well",), "repeat": 2}
    outcome, bodies = judged(store, judge(by_last_word), **well)
    assert (outcome.done, len(bodies)) == (6, 6)
    assert judged(store, judge(by_last_word), **well)[1] == []
    assert statuses(store, "openai/well") == EXPECTED
    # who has answered single questions only goes on with them
    judged(store, judge(by_last_word), by=("openai/alone",), limit=1)
    assert len(judged(store, judge(by_last_word), by=("openai/alone",), apart=False)[1]) == 12


@pytest.mark.slow
def test_a_new_wording_is_judged_again_and_new_points_are_not(store: Store) -> None:
    judged(store, judge(by_last_word))
    criteria = [dict(fields) for fields in RUBRIC["all"]]
    criteria[0]["points"], criteria[1]["criterion"] = 9, "The doctor asks about fever"
    with store.write() as connection:
        save_rubric(connection, rubric_of({"name": "demo", "all": criteria}, "demo"))
    assert {of_conversation["fever"] for of_conversation in statuses(store).values()} == {"no request"}
    outcome, bodies = judged(store, judge(by_last_word))
    assert (outcome.done, outcome.kept, len(bodies)) == (3, 15, 3)
    assert statuses(store) == EXPECTED


def test_a_stopped_job_continues_and_failures_stay_unjudged_until_asked_again(store: Store) -> None:
    stop = Stop()

    def then_stop(body: dict[str, Any]) -> str:
        stop.ask("It was asked to stop.")
        return str(judge(by_last_word)(body))

    outcome, bodies = judged(store, then_stop, stop=stop, trials=("run/2",))
    assert (outcome.stopped, len(bodies)) == ("It was asked to stop.", 1)
    outcome, _ = judged(store, [failing(500)], trials=("run/2",))
    assert outcome.failed == 5  # the first reply is not paid for again
    assert list(statuses(store)["run/2"].values()).count("no readable reply") == 5
    outcome, _ = judged(store, judge(by_last_word), trials=("run/2",))
    assert (outcome.done, statuses(store)["run/2"]) == (5, EXPECTED["run/2"])


@pytest.mark.slow
def test_a_panel_decides_by_majority_and_a_tie_leaves_the_criterion_open(store: Store) -> None:
    judged(store, judge(by_last_word), by=("openai/a", "openai/b"))
    assert statuses(store, "panel") == EXPECTED
    always = judge(lambda criterion, messages: verdict("met", messages[0]))
    judged(store, always, by=("openai/c",))
    assert statuses(store, "panel") == EXPECTED
    assert statuses(store, "openai/c")["run/2"] == dict.fromkeys(WORDS, "met")
    judged(store, always, by=("openai/d",))
    assert statuses(store, "panel")["run/2"] == {**dict.fromkeys(WORDS, "judges disagree"), "knee": "met"}


@pytest.mark.slow
def test_the_estimate_and_what_cannot_be_run(store: Store) -> None:
    estimate = estimate_job(Judging("rubric:demo", ("openai/a", "openai/b"), together=True), store, registry())
    assert (estimate.calls, [role.model for role in estimate.roles]) == (6, ["openai/a", "openai/b"])
    assert estimate_job(Judging("rubric:demo", ("openai/a",), limit=1, apart=True), store, registry()).calls == 6
    with pytest.raises(AnamnesisError, match="rubric:library"):
        estimate_job(Judging("rubric:library", ("openai/a",)), store, registry())  # of other cases
    with pytest.raises(UsageError, match="at least 1"):
        estimate_job(Judging("rubric:demo", ("openai/a",), repeat=0), store, registry())
    with pytest.raises(UsageError, match="no rubric 'none'"):
        estimate_job(Judging("rubric:none", ("openai/a",)), store, registry())


def test_the_default_judge_is_of_another_maker_than_the_doctor(tmp_path: Path) -> None:
    (file := tmp_path / "models.toml").write_text(
        '[defaults]\njudge = "openai/one"\ngrader = "anthropic/two"\n', encoding="utf-8"
    )
    configured = load_registry((*default_paths()[:1], file))
    assert default_judge(configured, ["reference/bayes"]) == "openai/one"
    assert default_judge(configured, ["openai/gpt-4o"]) == "anthropic/two"
    assert default_judge(configured, ["openrouter/openai/gpt-4o"]) == "anthropic/two"
    assert default_judge(configured, ["openai/gpt-4o", "anthropic/claude"]) == "openai/one"
    file.write_text('[defaults]\ngrader = "reference/grader"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="--by"):
        default_judge(load_registry((*default_paths()[:1], file)), ["openai/gpt-4o"])


DIALOGUE = (
    Turn("doctor", "Hello, what’s wrong?"),
    Turn("patient", "My chest hurts  when I breathe in, and it began on Monday."),
    Turn("doctor", "Do you smoke?"),
    Turn("patient", "No."),
)


QUOTATIONS = [
    (1, "My chest hurts", 1, "verified"),
    (3, "No.", 3, "verified"),
    (2, '"Do you smoke?"', 2, "verified"),
    (1, "my chest hurts when I breathe in", 1, "repaired"),
    (2, "it began on Monday", 1, "repaired"),
    (9, "My chest hurts when I", 1, "repaired"),
    (1, "My chest … began on Monday", 1, "repaired"),
    (0, "what's wrong", 0, "repaired"),
    (2, "[2] Doctor: Do you smoke?", 2, "verified"),
    (2, "Do you drink?", 2, "unverified"),
    (1, "began on Monday … My chest", 1, "unverified"),
    (1, "chest hurts when you breathe", 1, "unverified"),
    (2, "Doctor: Do you smoke?", 2, "verified"),
    (2, "smoke", 2, "verified"),
    (0, "smoke", 0, "unverified"),  # a single word is in too many conversations
    (9, "Do you smoke?", 9, "unverified"),
    (0, "No.", 0, "unverified"),
    (2, "do you", 2, "unverified"),
    (1, "I", 1, "unverified"),
    (2, "", 2, "unverified"),
    (2, "**", 2, "unverified"),
    (2, "<quoted>", 2, "unverified"),
    (2, "mok", 2, "unverified"),
    (1, "…", 1, "unverified"),
]
"""Number of a message, words quoted from it, number of the message that has them, and the state of the quotation."""


def test_quotations_are_verified_repaired_or_unverified() -> None:
    wrong = []
    for message, words, place, state in QUOTATIONS:
        checked = check_quotation(message, words, DIALOGUE)
        of_dialogue = state == "unverified" or checked.words in DIALOGUE[place].text
        if (checked.message, checked.state, of_dialogue) != (place, state, True):
            wrong.append((message, words, checked))
    assert wrong == []


def test_an_omission_hides_no_negation() -> None:
    table = [
        ("I do not have chest pain.", "I … have chest pain", "unverified"),
        ("I do not have chest pain.", "… have chest pain", "unverified"),
        ("I have never had such a rash.", "I have … had such a rash", "unverified"),
        ("She denies, as I said, any chest pain.", "She … any chest pain", "unverified"),
        ("I didn’t take the new tablets.", "I ... take the new tablets", "unverified"),
        ("I do have, since Monday, chest pain.", "I do have … chest pain", "repaired"),
        ("I have a cough. No fever. It began on Monday.", "I have a cough … It began on Monday", "repaired"),
        ("Since Monday I have chest pain.", "… I have chest pain", "repaired"),
    ]
    wrong = []
    for text, words, state in table:
        checked = check_quotation(1, words, (Turn("doctor", "Hello?"), Turn("patient", text)))
        if checked.state != state:
            wrong.append((words, checked))
    assert wrong == []


def answered(criterion: str, dialogue: tuple[Turn, ...], value: str, quoted: list[Any]) -> FormAnswer:
    fields = {"id": "c", "criterion": criterion, "points": 1}
    form = rubric_of({"name": "one", "all": [fields]}, "here")
    text = json.dumps({"q1": verdict(value, *quoted)})
    (answer,) = answers_in(text, form, form.questions, Material(dialogue))
    return answer


def test_met_needs_words_of_the_doctor(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, list[Any], bool]] = [
        ("The doctor asks about smoking.", "met", [(2, "Do you smoke?")], False),
        ("The doctor asks about smoking.", "met", [(3, "No.")], True),
        ("The doctor asks about smoking.", "met", [(3, "No."), (2, "Do you smoke?")], False),
        ("The doctor asks about smoking.", "not met", [(3, "No.")], False),
        ("Asks how the pain began.", "met", [(1, "it began on Monday.")], True),
        ("The patient says when the pain began.", "met", [(1, "it began on Monday.")], False),
        ("The patient's fears are explored by the doctor.", "met", [(1, "it began on Monday.")], True),
    ]
    for criterion, answer, quoted, voided in rows:
        with subtests.test(criterion=criterion, verdict=answer):
            judgement = answered(criterion, DIALOGUE, answer, quoted)
            assert (judgement.value, judgement.void) == (answer, voided)


def test_a_scripted_greeting_is_no_evidence_and_an_opening_is_of_the_patient() -> None:
    """The greeting is message 0, the doctor's own question is 2; the opening of a case is the patient's message 0."""
    asks, says = "The doctor asks what is wrong.", "The patient speaks of a knee."
    greeting, own, opening = (
        (Turn("doctor", "What is wrong?", scripted=True), Turn("patient", "My knee."), Turn("doctor", "Since when?")),
        (Turn("doctor", "What is wrong?"), Turn("patient", "My knee."), Turn("doctor", "Since when?")),
        (Turn("patient", "My knee hurts.", scripted=True), Turn("doctor", "Which knee hurts?")),
    )
    table: list[tuple[tuple[Turn, ...], str, str, list[Any], bool]] = [
        (greeting, asks, "met", [(0, "What is wrong?")], True),
        (greeting, asks, "met", [(0, "What is wrong?"), (2, "Since when?")], False),
        (greeting, asks, "met", [(2, "Since when?")], False),
        (greeting, asks, "not met", [(0, "What is wrong?")], False),
        (greeting, says, "met", [(0, "What is wrong?")], True),
        (greeting, says, "met", [(1, "My knee.")], False),
        (own, asks, "met", [(0, "What is wrong?")], False),
        (opening, says, "met", [(0, "My knee hurts.")], False),
        (opening, asks, "met", [(1, "Which knee hurts?")], False),
        # words that also stand in an unscripted message are taken from there
        (
            (Turn("doctor", "Tell me what is wrong.", scripted=True), Turn("doctor", "So tell me what is wrong.")),
            asks,
            "met",
            [(0, "Tell me what is wrong.")],
            False,
        ),
    ]
    wrong = []
    for dialogue, criterion, answer, quoted, voided in table:
        if answered(criterion, dialogue, answer, quoted).void != voided:
            wrong.append((dialogue, criterion, answer, quoted))
    assert wrong == []


def test_a_verdict_on_words_of_the_patient_is_unjudged_and_counted(store: Store) -> None:
    def of_patient(criterion: str, messages: list[tuple[int, str]]) -> dict[str, Any]:
        return verdict("met", messages[1])

    outcome, _ = judged(store, judge(of_patient), trials=("run/3",))
    assert outcome.counts["void"] == 6
    assert set(statuses(store)["run/3"].values()) == {OTHER_SPEAKER}
    assert figures(store)["openai/fake", "void: words of another speaker"].estimate == 1
    assert figures(store)["openai/fake", "void: invented words"].estimate == 0


def test_a_rubric_is_a_form_with_its_scopes_and_the_hashes_of_its_criteria() -> None:
    form = rubric_of(
        {
            "name": "demo",
            "all": [{"id": "fever", "criterion": "Asks about fever.", "points": 2, "when": "It is hot."}],
            "specialties": {"Cardiology": [{"id": "pulse", "criterion": "The patient names a pulse.", "points": 1}]},
            "cases": {"ours/2": [{"id": "harm", "criterion": "Insults.", "points": -3, "axis": "safety"}]},
        },
        "here",
    )
    assert (form.name, form.about, form.together) == ("rubric:demo", "conversation", True)
    assert [(q.id, q.points, q.priority, q.quotes, q.of_case) for q in form.questions] == [
        ("fever", 2, "should", None, False),
        ("pulse", 1, "should", "anyone", False),
        ("harm", -3, "must not", None, True),
    ]
    assert form.questions[0].answers == ("met", "not met", NOT_APPLICABLE, CANNOT_JUDGE)
    assert form.questions[1].answers == ("met", "not met", CANNOT_JUDGE)
    for case, specialty, asked in (
        ("ours/1", "Cardiology", ["fever", "pulse"]),
        ("ours/2", "Cardiology", ["fever", "pulse", "harm"]),
        ("ours/3", "Surgery", ["fever"]),
    ):
        assert [question.id for question in form.questions_for(case, specialty)] == asked
    # a judge of a criterion about somebody else is not told to quote the doctor
    for question, told in zip(form.questions, (True, False, True), strict=True):
        request = judge_request(judging_pack(), form, [question], Material(DIALOGUE))
        assert ("They are words of the doctor." in str(request.messages)) == told


@pytest.mark.slow
def test_a_verdict_counts_for_the_same_words_in_another_rubric(store: Store) -> None:
    judged(store, judge(by_last_word))
    renamed = [{**fields, "id": f"x{number}", "points": 1} for number, fields in enumerate(RUBRIC["all"])]
    with store.write() as connection:
        save_rubric(connection, rubric_of({"name": "other", "all": renamed}, "here"))
    outcome, bodies = judged(store, judge(by_last_word), form="rubric:other")
    assert (outcome.done, outcome.kept, bodies) == (0, 18, [])
    reading = read_rubric_outcomes(store, Selection(), "other")
    assert {o.status for conversation in reading.conversations for o in conversation.outcomes} == {"met", "not met"}
