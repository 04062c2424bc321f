"""The tag protocol: the queries of a doctor's message, misuses, and messages that speak for others."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.asking.scene import Turn
from core.frameworks.automedic.tags import plain_words, queries_of, read_tags, without_thinking


def as_read(message: str) -> tuple[list[tuple[str, str]], bool, tuple[str, ...], str]:
    tags = read_tags(message)
    return [(query.to, query.text) for query in tags.queries], tags.ends, tags.misuses, tags.detail


def misread(message: str) -> tuple[str, tuple[str, ...], str, bool]:
    tags = read_tags(message)
    return " ".join(query.text for query in tags.queries), tags.misuses, tags.detail, tags.ends


QUERIES = [
    ("<patient>How long have you had it?</patient>", "patient", "How long have you had it?"),
    ("<clinical>What is the blood pressure?</clinical>", "staff", "What is the blood pressure?"),
    ("  \n<patient>\n Where  does\nit hurt? </patient>\n", "patient", "Where does it hurt?"),
    ("**<patient>Any fever?</patient>**", "patient", "Any fever?"),
    ("<think>Perhaps <clinical>CBC</clinical>?</think><patient>Any fever?</patient>", "patient", "Any fever?"),
    ("so I ask for it</think>\n<clinical>Vital signs?</clinical>", "staff", "Vital signs?"),
    ("<THINK>hm</THINK> <patient>Is the pH < 7 or > 8?</patient>", "patient", "Is the pH < 7 or > 8?"),
]


def test_one_query_is_passed_on_without_a_misuse() -> None:
    assert [message for message, to, query in QUERIES if as_read(message) != ([(to, query)], False, (), "")] == []


CLEAN_ENDS = ["</end>", " </end>\n", "<think>Enough.</think></end>", "</end>.", "</end></end>"]


def test_the_end_tag_alone_is_a_clean_end() -> None:
    assert [message for message in CLEAN_ENDS if as_read(message) != ([], True, (), "")] == []


MISUSES = [
    ("How long?", "", ("no_tag",), "How long?"),
    ("<think>nothing else", "", ("no_tag",), ""),
    ("Hello! <patient>How long?</patient>", "How long?", ("text_outside",), "Hello!"),
    ("<patient>A?</patient> and <clinical>B?</clinical>", "A? B?", ("text_outside",), "and"),
    ("<patient>How long?", "How long?", ("unclosed",), "<patient>How long?"),
    ("Well. <clinical>The pulse?\n", "The pulse?", ("text_outside", "unclosed"), "<clinical>The pulse?"),
    ("<patient>Is it < 3 days, or</pat", "Is it < 3 days, or", ("unclosed",), "<patient>Is it < 3 days, or</pat"),
    ("<clinical>", "", ("no_tag", "unclosed", "empty"), "<clinical>"),
    ("<patient>A <clinical>B</clinical>", "", ("no_tag", "unclosed", "nested"), "<patient>A <clinical>B</clinical>"),
    ("How long?</patient>", "", ("no_tag", "unclosed"), "How long?</patient>"),
    ("<patient>How long?</clinical>", "", ("no_tag", "unclosed"), "<patient>How long?</clinical>"),
    ("<patient>A?</patient><clinical>B", "A? B", ("unclosed",), "<clinical>B"),
    (
        "<patient>A <clinical>B</clinical></patient>",
        "",
        ("no_tag", "nested"),
        "<patient>A <clinical>B</clinical></patient>",
    ),
    ("<patient>A?<patient>", "", ("no_tag", "unclosed", "nested"), "<patient>A?<patient>"),
    ("<patient> </patient>", "", ("no_tag", "empty"), "<patient> </patient>"),
    ("<patient>…</patient><clinical>Pulse?</clinical>", "Pulse?", ("empty",), "<patient>…</patient>"),
    ("<nurse>Pulse?</nurse>", "", ("no_tag", "unknown_tag"), "<nurse>Pulse?</nurse>"),
    ("<Patient>How long?</Patient>", "", ("no_tag", "unknown_tag"), "<Patient>How long?</Patient>"),
    ("< patient >How long?</ patient >", "", ("no_tag", "unknown_tag"), "< patient >How long?</ patient >"),
    ("<end>", "", ("no_tag", "unknown_tag"), "<end>"),
    ("</END>", "", ("no_tag", "unknown_tag"), "</END>"),
    (
        "<say><patient>How long?</patient></say>",
        "How long?",
        ("unknown_tag",),
        "<say><patient>How long?</patient></say>",
    ),
    (
        "<nurse>Pulse?</nurse><patient>How long?</patient>",
        "How long?",
        ("unknown_tag",),
        "<nurse>Pulse?</nurse><patient>How long?</patient>",
    ),
]


def test_misuse_is_named_and_quoted() -> None:
    assert [
        message for message, query, misuses, detail in MISUSES if misread(message) != (query, misuses, detail, False)
    ] == []


@pytest.mark.parametrize(
    "message",
    ["<patient>How long?</patient></end>", "Thank you. </end>", "</end> It is gout.", "<patient>Bye </end></patient>"],
)
def test_an_end_with_other_text_ends_and_passes_nothing_on(message: str) -> None:
    tags = read_tags(message)
    assert (tags.ends, tags.queries) == (True, ())
    assert "end_with_query" in tags.misuses
    assert tags.detail


def test_a_quote_is_short() -> None:
    assert len(read_tags("word " * 500).detail) <= 90


FOR_OTHERS = (
    "Patient: it hurts",
    "<patient>How long has it hurt?</patient>\nPatient: For two days.",
    "<patient>How long?</patient><patient>For two days.</patient>",
    "<patient>How long? Patient: Since last week.</patient>",
    "<patient>Any fever?</patient> **Patient:** No, I haven't had one.",
    "<clinical>What is the pulse?</clinical>\nClinical staff: The pulse is 96/min.",
    "<clinical>What is the pulse?</clinical><clinical>The pulse is 96/min.</clinical>",
    "<clinical>Chest X-ray?</clinical>\nRadiologist: It shows a consolidation.",
    "<patient>Do you smoke?</patient><patient>Yes, ten a day.</patient>",
    "<patient>What is wrong?</patient><patient>I have a headache.</patient>",
    "<patient>What is wrong?</patient>\n[Patient: My head hurts.]",
    "<patient>Where?</patient>\nPatient's reply: In my left foot.",
    "<patient>Where?</patient>\nPATIENT (crying): In my chest.",
    "<patient>How is he?</patient>\nCaregiver: He has been crying all night.",
    "<patient>Since when?</patient><response>Since yesterday.</response>",
    "<clinical>Labs?</clinical><result>Sodium was 128 mmol/L.</result>",
    "<clinical>Labs?</clinical><staff>All values are normal.</staff>",
    "<patient>Any cough?</patient>\n> Patient: Only at night, and it keeps me awake.",
    "Doctor: How are you?\nPatient: Not well. My back hurts.\nDoctor: Since when?",
    "<patient>How are you?</patient>\nPatient:\nI feel dizzy.",
    "<clinical>Vitals?</clinical>\n- Nurse: temperature 38.9 °C.",
    "<patient>Hello?</patient><clinical>Pulse?</clinical><clinical>Pulse: 110 bpm, skin clear.</clinical>",
    "<patient>Better or worse?</patient><patient>It gets worse when I lie down.</patient>",
    "<patient>Allergies?</patient> Patient: Thank you for asking. None that I know of. </end>",
)
NOT_FOR_OTHERS = (
    "<patient>You said: it hurts at night. Does it wake you?</patient>",
    "<patient>As the patient, do you feel well informed?</patient>",
    '<patient>You told me "it hurts when I walk". Does it also hurt at rest?</patient>',
    "<patient>Your note reads \"Patient: my son is ill.\" Is that right?</patient>",
    "<clinical>The patient said: it hurts on breathing. Is there a friction rub?</clinical>",
    "<clinical>Patient: 45-year-old man with chest pain. What does the tracing show?</clinical>",
    "Patient: 45-year-old man. <patient>How long has it hurt?</patient>",
    "Patient: How long has it hurt?",
    "Patient: please describe the pain.",
    "Clinical staff: please check the blood pressure.",
    "Clinical: CBC and a chest film are needed.",
    "<patient>How long?</patient><clinical>Blood pressure</clinical>",
    "<patient>How long?</patient><patient>Tell me about your family.</patient>",
    "<patient>Any fever?</patient><patient>Any cough or chills</patient>",
    "<patient>Where is it?</patient><patient>Thank you.</patient>",
    "<patient>Where is it?</patient><patient>I will examine you now.</patient>",
    "<patient>Where is it?</patient><patient>I'm sorry to hear that.</patient>",
    "<patient>Since when?</patient><patient>I see. Is it worse at night?</patient>",
    "<clinical>Vital signs?</clinical><clinical>Please check whether the reflexes are normal.</clinical>",
    "<clinical>Is the chest clear?</clinical><clinical>Are there any rashes?</clinical>",
    "<clinical>Results for the patient: what do the blood tests show?</clinical>",
    "The patient: needs more questions. <patient>Do you smoke?</patient>",
    "Patient: denies fever, reports cough. <patient>Do you smoke?</patient>",
    "<patient>Do you smoke?</patient> Patient: you should rest.",
    "<nurse>What is the pulse?</nurse>",
    "<patient>My name is Dr Lee. Is it a dull pain: yes or no?</patient>",
)  # fmt: skip


def test_the_doctor_plays_the_others() -> None:
    assert [
        message
        for message in FOR_OTHERS
        if not ("speaks_for_others" in read_tags(message).misuses and read_tags(message).detail)
    ] == []


def test_the_doctor_does_not_play_the_others() -> None:
    assert [message for message in NOT_FOR_OTHERS if not ("speaks_for_others" not in read_tags(message).misuses)] == []


def test_a_made_up_reply_in_a_tag_is_a_misuse_and_is_passed_on() -> None:
    tags = read_tags("<patient>How long?</patient><patient>For two days.</patient>")
    assert [query.text for query in tags.queries] == ["How long?", "For two days."]
    assert tags.misuses == ("speaks_for_others",)
    assert tags.detail == "For two days."


def test_the_queries_of_a_dialogue_with_their_replies() -> None:
    dialogue = (
        Turn("doctor", "Hello. <patient>What brings you here today?</patient>"),
        Turn("patient", "My toe hurts."),
        Turn("doctor", "<clinical>Uric acid?</clinical>"),
        Turn("staff", "That is not available."),
        Turn("doctor", "<patient>Since when?"),
    )
    queries = [(q.turn, q.to, q.text, q.reply) for q in queries_of(dialogue)]
    assert queries == [
        (0, "patient", "What brings you here today?", "My toe hurts."),
        (2, "staff", "Uric acid?", "That is not available."),
        (4, "patient", "Since when?", None),
    ]


def test_replies_answer_the_queries_of_a_message_one_by_one() -> None:
    message = "<patient>Where?</patient><clinical>Uric acid?</clinical><patient>Since when?</patient>"
    queries = [
        (q.text, q.reply)
        for q in queries_of(
            (
                Turn("doctor", message),
                Turn("patient", "My toe."),
                Turn("staff", "8 mg/dL."),
                Turn("doctor", message),
                Turn("patient", "Still my toe."),
                Turn("doctor", "</end>"),
            )
        )
    ]
    assert queries == [
        ("Where?", "My toe."),
        ("Uric acid?", "8 mg/dL."),
        ("Since when?", None),
        ("Where?", "Still my toe."),
        ("Uric acid?", None),
        ("Since when?", None),
    ]


def test_words_outside_the_tags_count_and_reasoning_does_not() -> None:
    message = (
        "<think>Not this.</think>Hello there! <patient>What brings you?</patient><clinical>Pulse?</clinical> Thanks."
    )
    assert plain_words(message) == ("Hello", "there!", "What", "brings", "you?", "Pulse?", "Thanks.")
    assert plain_words("</end>") == ()


THOUGHTS = [
    ("<think>a</think>b<think>c</think>d", "bd"),
    ("a</think> b", "b"),
    ("b <think>never closed", "b"),
    ("b", "b"),
]


def test_thinking_is_removed() -> None:
    assert [text for text, rest in THOUGHTS if without_thinking(text) != rest] == []


_PIECES = (
    "<patient>", "</patient>", "<clinical>", "</clinical>", "</end>", "<nurse>", "</nurse>", "<Patient>", "<patient/>",
    "&lt;patient&gt;", "＜patient＞", "<patient id='x'>", "<patient", "</end", "<<", "```", "\n", " ", "How long?",
    "Patient: it hurts", "The pulse is 90/min.", "OUTSIDE", "<b>", "</b>", "“", "\0",
)  # fmt: skip

_IN_TAG = {
    tag: re.compile(rf"<{tag}>(.*?)(?:</{tag}>|(?:</?[A-Za-z]*)?\Z)", re.DOTALL) for tag in ("patient", "clinical")
}


@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join))
def test_only_text_in_a_tag_is_passed_on(message: str) -> None:
    tags = read_tags(message)
    assert not (tags.ends and tags.queries)
    assert tags.queries or tags.ends != ("no_tag" in tags.misuses)
    for query in tags.queries:
        tag = {"patient": "patient", "staff": "clinical"}[query.to]
        assert query.text in [" ".join(s.split()) for s in _IN_TAG[tag].findall(message)]
    assert read_tags(f"<think><patient>Not this</patient></end></think>{message}") == tags


def test_a_tag_with_only_tags_inside_is_no_query() -> None:
    assert read_tags("<patient><b></b></patient>").misuses == ("no_tag", "empty", "unknown_tag")


@pytest.mark.slow
@pytest.mark.parametrize(
    "message",
    [
        "<nurse>" * 14_000,
        "<" + " " * 100_000 + "patient>",
        ">*" * 50_000,
        "<x>" * 25_000 + "</x>",
        "." + " " * 100_000,
        "<a>b</a>" * 12_000,
        "\nPatient" + " " * 100_000,
    ],
    ids=["open", "blanks in a tag", "brackets", "one closing", "blanks", "pairs", "label"],
)
def test_a_message_of_a_hundred_thousand_characters_is_read_at_once(message: str) -> None:
    began = time.process_time()
    assert read_tags(message).queries == ()
    assert time.process_time() - began < 3
