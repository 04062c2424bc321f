"""Ages and sexes that a summary states and no message does, and their measure."""

from __future__ import annotations

from core.asking.scene import Turn
from core.measures.base import Record
from core.measures.unsaid import UnsaidInSummaries
from core.text.unsaid import in_words, unsaid_in
from tests.core.store.builders import a_case

ASKED = "Hello, what brings you here? How old are you?"
SUMMARIES = [
    ("A 65-year-old woman has a cough.", ["I cough."], [("age", "65-year-old"), ("sex", "woman")]),
    ("A 65-year-old woman has a cough.", ["I am a woman of sixty-five."], []),
    ("A sixty-five-year-old woman coughs.", ["I'm 65, and my periods stopped long ago."], []),
    ("A sixty-five-year-old woman coughs.", ["I'm 60, ma'am, and have had this for five days."], [
        ("age", "sixty-five-year-old"),
    ]),
    ("A man aged 40 has gout.", ["My toe hurts. I take 40 mg of a tablet."], [("sex", "man")]),
    ("A man aged 41 has gout.", ["My toe hurts.", "Well, sir, since when?"], [("age", "aged 41")]),
    ("The boy, 6 months of age, has a fever.", ["He is six months old and hot."], []),
    ("The boy, 6 months of age, has a fever.", ["My daughter is hot."], [("age", "6 months of age"), ("sex", "boy")]),
    ("The patient is a 30 y/o with a rash, which he scratches.", ["I itch."], [("age", "30 y/o"), ("sex", "he")]),
    ("The patient's mother had gout; it began 3 years ago.", ["My mother had it."], []),
    ("The patient has a rash. She denies a fever.", ["I am pregnant and I itch."], []),
    ("The patient has a rash.", ["I itch."], []),
]  # fmt: skip


def test_ages_and_sexes_that_no_message_states() -> None:
    wrong = []
    for summary, said, claims in SUMMARIES:
        found = unsaid_in(summary, [ASKED, *said])
        if [(claim.kind, summary[claim.start :][: len(claim.words)]) for claim in found] != claims:
            wrong.append((summary, said, found))
    assert wrong == []
    assert "“65-year-old” (age), “woman” (sex)" in in_words(SUMMARIES[0][0], ["I cough."])
    assert in_words("The patient coughs.", ["I cough."]) == ""


def test_a_trial_has_a_score_for_each_kind_with_the_words_of_its_summary() -> None:
    record = Record("t", a_case(1), (Turn("patient", "I am 65."),), summary=({"summary": "A 65-year-old man."},))
    scores = {score.name: score for score in UnsaidInSummaries().scores(record)}
    assert {name: score.value for name, score in scores.items()} == {"age": 0, "sex": 1}
    assert [(e.turn, e.words, e.start) for e in scores["sex"].evidence] == [(None, "man", 14)]
