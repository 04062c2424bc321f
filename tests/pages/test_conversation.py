"""The view of a conversation: its numbers and speakers, its marks, and the message that an address opens."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from core.debugger.diff import differing_words
from core.events import Assessed, Ended, Event, Started, Utterance
from core.frameworks.automedic.tags import EMPATHY, MISUSE
from pages.kit.messages import Mark, around, marked


def test_marks_are_joined_end_with_their_line_and_never_become_markup() -> None:
    first, words = differing_words("It hurts here.", "It really never hurts\n\n[x] here.")
    assert first == []
    second = [Mark(text, start=start) for text, start in words]
    table = [
        ("An ITCH (bad).", [Mark("itch (")], r"An :orange-background[ITCH \(]bad\)\."),
        ("I *have* eczema/rash", [Mark("eczema", 0, 9), Mark("zema/r", 0, 11)], r"I \*have\* ::eczema\/r]ash"),
        ("chest\npain", [Mark("Chest pain")], "::chest]  \n::pain]"),  # a mark ends with its line
        ("It really never hurts\n\n[x] here.", second, r"It ::really never] hurts  %  %::\[x\]] here\."),
        ("banana ana", [Mark("ana", start=3)], "ban::ana] ana"),  # only where the mark says
        ("banana", [Mark("nan", start=9)], "ba::nan]a"),  # the text is a part of the message
        ("a b c", [Mark("a"), Mark("b")], "::a b] c"),
        ("\ue000x\ue001 a", [Mark("a")], "x ::a]"),
        ("a ![i](y)", [Mark("](y)")], r"a \!\[i::\]\(y\)]"),
        ("blank", [Mark(" "), Mark("")], "blank"),
    ]
    wrong = []
    for text, marks, expected in table:
        shown = marked(text, marks)
        if shown != expected.replace("::", ":orange-background[").replace("%", "\n"):
            wrong.append((text, shown))
    assert wrong == []


def test_a_conversation_is_divided_around_a_message() -> None:
    events: list[Event] = [Started(trial_id="t", case_key="c", trial=0, seed=1, at=1.0)]
    for turn in range(9):
        events.append(Utterance(turn=turn, role="patient" if turn % 2 else "doctor", text=str(turn)))
        if turn == 4:
            events.append(Assessed(name=MISUSE, turn=4, values=("text_outside",)))
    events += [Ended(reason="end_tag", doctor_turns=4), Assessed(name=EMPATHY, most=5, by="r", value=3)]
    turns = [[e.turn for e in part if isinstance(e, Utterance)] for part in around(events, 4)]
    assert turns == [[0, 1], [2, 3], [4], [5, 6], [7, 8]]
    assert around(events, 4)[2][-1] == events[6], "an assessment belongs to its message"
    assert around(events, 8)[2][-1] == events[-1], "the ending stands under the last message"


def _view(at: int | None) -> None:
    from core.events import Utterance
    from pages.kit.messages import Mark, draw_messages

    messages = [
        Utterance(turn=n, role=("doctor", "patient", "staff")[n % 3], text=f"It is **word {n}**") for n in range(8)
    ]
    draw_messages(messages, [Mark("word 4", turn=4, why="a reason")], at=at, here="Here", key="box", height=300)


@pytest.mark.parametrize("at", [None, 6, 99])
def test_messages_have_numbers_and_speakers_and_the_chosen_one_folds_those_far_from_it(at: int | None) -> None:
    app = AppTest.from_function(_view, args=(at,)).run()
    assert not app.exception
    texts = [message.markdown[0].value for message in app.chat_message]
    assert [text.split("]")[0] for text in texts[:3]] == [
        ":small[:gray[1 · Doctor", ":small[:gray[2 · Patient", ":small[:gray[3 · Clinical staff",
    ]  # fmt: skip
    assert [n for n, text in enumerate(texts) if ":orange-background[word 4]" in text] == [4]
    assert "a reason" in [caption.value for caption in app.chat_message[4].caption]
    assert [box.label for box in app.expander] == (["Messages before these (4)"] if at == 6 else [])
    assert ("Here" in [caption.value for caption in app.caption]) == (at == 6)
