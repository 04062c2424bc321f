"""Whether the checks of judges (``core.judging.check``) find bad judges, and whether their expectations are right.

``python benchmarks/bench_judge_check.py`` simulates judges without a model: 200 good ones, 200 that ignore the text,
200 that prefer long conversations and 200 that are inconsistent, each with 20 conversations and 4 questions. It prints
the share of each kind with a failing question: at most 5 % of the good ones, at least 90 % of the others.

``python benchmarks/bench_judge_check.py pairs`` makes the 40 edited pairs of judge_check_pairs.json from the sample
study again, prints them with what a careful reader said of them, and the share of expectations that are wrong.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from core.asking.scene import Dialogue, Turn
from core.judging.check import (
    CHECK_KINDS,
    FAILED,
    PASSED,
    PREFIX,
    WRONG_EXPECTATIONS,
    applies,
    difference,
    edited,
    failing_questions,
    is_failure,
    removals,
)
from core.judging.form import FormQuestion, Option
from core.judging.judgement import Judge, Judgement, Quotation
from core.judging.request import FormAnswer
from core.stats.intervals import wilson
from core.store.database import Store
from core.store.queries.utterances import dialogues
from core.store.sample import add_sample

JUDGES, CONVERSATIONS = 200, 20
TOPICS = {
    "fever": "Have you had a fever?",
    "medicine": "Which medicine do you take?",
    "family": "What illnesses run in your family?",
    "travel": "Were you abroad in recent weeks?",
    "smoking": "Do you smoke?",
    "sleep": "How do you sleep?",
    "weight": "Has your weight changed?",
    "cough": "Do you cough?",
}
ASKED = ("fever", "medicine", "family", "travel")
PAIRS = Path(__file__).with_name("judge_check_pairs.json")
TAG = re.compile(r"</?\w+>")


def question(topic: str, *, of_case: bool) -> FormQuestion:
    options = (Option(value="met", label="Met"), Option(value="not met", label="Not met"))
    wording = f"The doctor asks about {topic}."
    return FormQuestion(id=topic, title=topic, wording=wording, options=options, yes=("met",), of_case=of_case)


def conversation(chance: random.Random) -> Dialogue:
    """Return a conversation in which the doctor asks about each topic with a chance of 0.6, in a random order."""
    turns = [Turn("doctor", "What brings you in?", scripted=True), Turn("patient", "I have not been well.")]
    for topic in chance.sample(list(TOPICS), len(TOPICS)):
        if chance.random() < 0.6:
            turns += [
                Turn("doctor", TOPICS[topic]),
                Turn("patient", chance.choice(["No.", "Yes, a little.", "I see."])),
            ]
    return (*turns, Turn("doctor", "That is all I need to know."))


@dataclass
class SimulatedJudge:
    """A judge that answers right, with a chance of ``slip`` the opposite; ``blind`` and ``long`` say from what else.

    ``blind``: the answer depends on the question and the case alone, never on the text. ``long``: with a chance of 0.8
    the answer is yes if the doctor's messages are longer than those of most conversations.
    """

    chance: random.Random
    slip: float = 0.0
    blind: bool = False
    long: bool = False

    def answer(self, asked: FormQuestion, dialogue: Dialogue, subject: str) -> FormAnswer:
        spoken = [n for n, turn in enumerate(dialogue) if turn.role == "doctor" and not turn.scripted]
        words = TOPICS[asked.id]
        about = [n for n in spoken if words in dialogue[n].text]
        met = bool(about)
        if self.blind:
            met = random.Random(f"{asked.id} {subject}").random() < 0.7
        elif self.long and self.chance.random() < 0.8:
            met = sum(len(dialogue[n].text) for n in spoken) > 140
        if self.chance.random() < self.slip:
            met = not met
        if not met:
            return FormAnswer(asked, "not met")
        if not spoken:  # words that nobody said
            return FormAnswer(asked, "met", (Quotation(0, words, "unverified"),), void=True)
        quoted = about[:2] or [self.chance.choice(spoken)]
        return FormAnswer(asked, "met", tuple(Quotation(n, dialogue[n].text) for n in quoted))


def is_found(judge: SimulatedJudge, dialogues: list[Dialogue]) -> bool:
    """Return whether the judge fails a question after all checks."""
    questions = [question(topic, of_case=topic == "travel") for topic in ASKED]
    results = []
    for number, dialogue in enumerate(dialogues):
        subject, other = f"talk:{number}", dialogues[(number + 1) % len(dialogues)]
        # on another case there is no travel to ask about
        other = tuple(turn for turn in other if turn.text != TOPICS["travel"])
        for asked in questions:
            before = judge.answer(asked, dialogue, subject)
            if before.void:
                continue
            for kind in CHECK_KINDS:
                if not applies(kind, asked, "doctor", before.value):
                    continue
                if kind == "evidence":
                    rounds = removals(dialogue, before, asked, "doctor")
                    shown = next(rounds)
                    while True:
                        after = judge.answer(asked, shown, subject)
                        try:
                            shown = rounds.send(after)
                        except StopIteration:
                            break
                else:
                    changed = edited(kind, dialogue, subject, other)
                    if changed is None:
                        continue
                    after = judge.answer(asked, changed, subject)
                results.append(
                    Judgement(
                        subject=subject,
                        form=f"{PREFIX}simulated",
                        question=asked.id,
                        judge=Judge("simulated", "model"),
                        value=FAILED if is_failure(kind, asked, before.value, after.value) else PASSED,
                        at=0.0,
                        against=f"{asked.hash} {kind}",
                    )
                )
    return bool(failing_questions(results))


def simulate() -> None:
    kinds: dict[str, Callable[[random.Random], SimulatedJudge]] = {
        "good (3 % slips)": lambda chance: SimulatedJudge(chance, slip=0.03),
        "ignores the text": lambda chance: SimulatedJudge(chance, blind=True),
        "prefers length": lambda chance: SimulatedJudge(chance, slip=0.03, long=True),
        "inconsistent (30 % slips)": lambda chance: SimulatedJudge(chance, slip=0.3),
    }
    for name, make in kinds.items():
        found = 0
        for number in range(JUDGES):
            chance = random.Random(f"{name} {number}")
            found += is_found(make(chance), [conversation(chance) for _ in range(CONVERSATIONS)])
        low, high = wilson(found, JUDGES)
        print(f"{name}: a question fails for {found} of {JUDGES} ({found / JUDGES:.1%}, {low:.1%} to {high:.1%})")


def read_pairs() -> None:
    pairs = json.loads(PAIRS.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "sample.duckdb")
        add_sample(store)
        with store.read() as cursor:
            trials = [pair[name] for pair in pairs for name in ("trial", "other") if name in pair]
            stored = {
                trial: tuple(replace(turn, text=TAG.sub("", turn.text).strip()) for turn in dialogue)
                for trial, dialogue in dialogues(cursor, trials).items()
            }
    wrong, read = Counter[str](), Counter[str]()
    for pair in pairs:
        dialogue, kind = stored[pair["trial"]], pair["kind"]
        if kind == "evidence":
            asked = question("fever", of_case=False)
            quoted = (Quotation(pair["quoted"], dialogue[pair["quoted"]].text),)
            after: Dialogue | None = next(removals(dialogue, FormAnswer(asked, "met", quoted), asked, pair["whose"]))
        else:
            after = edited(kind, dialogue, f"talk:{pair['trial']}", stored.get(pair.get("other", ""), ()))
        assert after is not None, pair
        verdict = "holds" if pair["holds"] else "WRONG"
        print(f"{kind}: {pair['question']}\n{difference(dialogue, after)}\n→ {verdict}. {pair.get('remark', '')}\n")
        read[kind] += 1
        wrong[kind] += not pair["holds"]
    assert {kind: (wrong[kind], read[kind]) for kind in read} == WRONG_EXPECTATIONS
    low, high = wilson(wrong.total(), read.total())
    print({kind: f"{wrong[kind]} of {read[kind]}" for kind in read})
    print(f"wrong expectations: {wrong.total()} of {read.total()} ({low:.1%} to {high:.1%})")


if __name__ == "__main__":
    read_pairs() if sys.argv[1:] == ["pairs"] else simulate()
