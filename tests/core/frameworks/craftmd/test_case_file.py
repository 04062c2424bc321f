"""One case file of the release: its trials, and the errors that make it unusable."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from core.case import Case
from core.frameworks.craftmd.release import RELEASE
from core.frameworks.release import BadFileError, ReleasedModel, ReleasedTrial
from tests.support.release import a_conversation, a_file, a_trial

CASE = Case(
    case_key="craftmd/case_7",
    dataset="MedQA_USMLE",
    specialty="Dermatology",
    vignette="A woman itches.",
    choices=("Scabies", "Gout", "Lupus", "Lupus nephritis"),
    answer="Scabies",
)


def read(stored: Any, cap: int | None = 30, case: Case | None = CASE) -> list[ReleasedTrial]:
    data = stored if isinstance(stored, bytes) else orjson.dumps(stored)
    return RELEASE.read(data, "case_7", case, ReleasedModel("m", {"max_messages": cap}))


def first(cap: int | None = 30, **changes: Any) -> ReleasedTrial:
    return read(a_file("case_7", trial_0=a_trial(**changes)), cap)[0]


def test_a_complete_trial() -> None:
    trial = first()
    assert trial.prompt == "You are an AI doctor specializing in Dermatology. Ask one question at a time."
    assert list(zip(trial.roles, trial.texts, strict=True)) == [
        ("doctor", "Hi! What brings you in?"),
        ("patient", "I itch."),
        ("doctor", "Since when?"),
        ("patient", "A week."),
        ("doctor", "**Final Diagnosis:** Scabies"),
    ]
    assert (trial.end_reason, trial.doctor_turns, trial.summary) == ("final_diagnosis", 2, "A patient who itches.")
    assert list(trial.responses) == ["Scabies", "Scabies."] * 4
    assert trial.mcq == [("correct", "correct", "Scabies")] * 4
    assert trial.frq == [("correct", "scabies")] * 4
    assert list(trial.faults) == [None] * 8


@pytest.mark.parametrize("role", ["system", "user"])
def test_the_prompt_is_no_message_with_either_role(role: str) -> None:
    trial = first(multiturn_conversation=a_conversation("Hi?", "I itch.", "Scabies.", teller=role))
    assert list(trial.texts) == ["Hi?", "I itch.", "Scabies."]


def end_of(messages: list[str], cap: int | None) -> tuple[str | None, bool]:
    """Return why a conversation ended, and whether the reason has a detail."""
    trial = first(cap, multiturn_conversation=a_conversation(*messages))
    return trial.end_reason, bool(trial.end_detail)


ENDS = [
    (["Hi?", "I itch.", "Final Diagnosis: is it gout?"], 30, "final_diagnosis"),
    (["Hi?", "I itch.", "final diagnosis: gout"], 30, "no_question"),
    (["Hi?", "I itch.", "Where?"], 4, "turn_cap"),
    (["Hi?", "I itch.", "Where?"], 5, "error"),
    (["Hi?", "I itch.", "Where?"], None, "error"),
    (["Hi?", "I itch.", "Where?", "Here."], 4, "turn_cap"),
    (["Hi! Speak."], 30, "error"),
    ([], 30, "error"),
]


def test_why_a_conversation_ended() -> None:
    assert [
        (messages, cap) for messages, cap, reason in ENDS if end_of(messages, cap) != (reason, reason == "error")
    ] == []


def test_a_missing_message_ends_the_record() -> None:
    conversation = a_conversation("Hi?", "I itch.", "Where?", "Here.", "Gout.")
    conversation[4]["content"] = None  # the patient's second reply, after the prompt and three messages
    conversation[3]["content"] = ["Where?", 0.002]
    trial = first(multiturn_conversation=conversation)
    assert list(trial.texts) == ["Hi?", "I itch.", "Where?"]
    assert (trial.end_reason, trial.end_detail) == ("error", "message 3 is missing in the release")


@pytest.mark.parametrize(
    ("response", "verdict", "words"),
    [
        (None, "provider_error", "null"),
        ([None, 0], "provider_error", "without a response"),
        (["Scabies", 0.01], "ungradable", "list [text, cost]"),
        (3, "ungradable", "an int|a int"),
    ],
)
def test_a_response_that_is_no_text_is_invalid_and_never_wrong(response: Any, verdict: str, words: str) -> None:
    trial = first(vignette_mcq=response, singleturn_frq=response, evaluation_singleturn_frq=-1)
    for index in (0, 5):
        fault = trial.faults[index]
        assert fault is not None
        assert fault[0] == verdict
        assert any(word in fault[1] for word in words.split("|"))
    assert trial.mcq[0] is None
    assert trial.frq[2] is None
    assert [fault is None for fault in trial.faults] == [False, True, True, True, True, False, True, True]
    assert trial.mcq[1:] == [("correct", "correct", "Scabies")] * 3


def test_a_list_keeps_its_text_as_the_response() -> None:
    trial = first(vignette_mcq=["Scabies", 0.01], summarized_conversation=["A summary.", 0.1])
    assert trial.responses[0] == "Scabies"
    assert trial.summary == "A summary."


def test_a_missing_field() -> None:
    stored = a_trial()
    del stored["summarized_mcq"]
    trial = read(a_file("case_7", trial_0=stored))[0]
    assert trial.faults[6] == ("ungradable", "summarized_mcq is missing in the release")


EVALUATIONS = [
    (1, "scabies", "correct"),
    (1, "none", "correct"),  # the stored evaluation decides
    (0, "gout", "incorrect"),
    (0, "None", "no_diagnosis"),
    (0, "multiple", "multiple"),
    (-1, "scabies", "ungradable"),
    (None, "scabies", "ungradable"),
    (2, "scabies", "ungradable"),
]


def test_evaluations_of_free_responses() -> None:
    assert [
        (evaluation, extracted)
        for evaluation, extracted, verdict in EVALUATIONS
        if first(evaluation_multiturn_frq=evaluation, extracted_ans_multiturn_frq=extracted).frq[1]
        != (verdict, extracted)
    ] == []


CHOICES = [
    ("It is SCABIES.", "correct", "correct", "Scabies"),
    ("Gout", "incorrect", "incorrect", "Gout"),
    ("Scabies or gout", "correct", "multiple", "Scabies, Gout"),
    ("No idea", "incorrect", "no_diagnosis", None),
    ("A", "incorrect", "no_diagnosis", None),  # the release's prompts list the choices without letters
    ("Lupus nephritis", "incorrect", "incorrect", "Lupus nephritis"),
    ("", "incorrect", "no_diagnosis", None),  # an empty reply counts as no diagnosis
]


def test_choices_are_judged_by_both_rules() -> None:
    assert [
        response
        for response, loose, strict, read_as in CHOICES
        if first(multiturn_mcq=response).mcq[1] != (loose, strict, read_as)
    ] == []


def test_a_missing_trial_has_a_reason() -> None:
    trials = read(a_file("case_7", trial_3=None))
    assert [trial.missing is None for trial in trials] == [True, True, True, False, True]
    assert set(trials[3].faults) == {("ungradable", "trial_3 is missing in the release")}
    assert trials[3].mcq == trials[3].frq == [None] * 4
    assert trials[3].end_reason is None


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (orjson.dumps(a_file("case_7"))[:-400], "not whole JSON"),
        (b"", "empty"),
        (b"[1]", "not a JSON object"),
        (a_file("case_8"), "it holds case_8, not case_7"),
        (a_file("case_7", answer="gout"), "graded against 'gout'"),
        (a_file("case_7", trial_5=a_trial()), "trial_5"),
        ({"case_id": "case_7", "correct_ans": "scabies"}, "no trial"),
        (a_file("case_7", trial_2="lost"), "trial_2 is not an object"),
        (a_file("case_7", trial_2=a_trial(multiturn_conversation="lost")), "trial_2: the conversation is not a list"),
        (a_file("case_7", trial_2=a_trial(multiturn_conversation=["lost"])), "trial_2: the conversation is not a list"),
        (
            a_file("case_7", trial_2=a_trial(multiturn_conversation=[*a_conversation("Hi?"), {"role": "tool"}])),
            "message 1 is by no doctor",
        ),
    ],
)
def test_unusable_files_say_why(stored: Any, words: str) -> None:
    with pytest.raises(BadFileError, match=words):
        read(stored)


def test_a_case_that_the_data_set_lacks() -> None:
    with pytest.raises(BadFileError, match="no such case"):
        read(a_file("case_7"), case=None)
