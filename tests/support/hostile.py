"""Hostile texts (markup, formulas, control characters), and a store with one in each text field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from core.case import Fact, Profile
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.run_labels import Label, label_run
from tests.core.store.builders import (
    Answered,
    Ended,
    Failed,
    Finished,
    Probed,
    Summarised,
    Utterance,
    a_call,
    a_case,
    a_header,
    a_trial,
    graded,
    write_journal,
)

TEXTS: tuple[str, ...] = tuple(
    dict.fromkeys(
        text
        for group in json.loads(Path(__file__).with_name("hostile_texts.json").read_text("utf-8")).values()
        for text in group
    )
)
HOST = "hostile.invalid"
"""The host of their links, to which no request may go."""
HIT = "hostile"
"""The variable that their scripts set on the window."""
RUNS, CASES = 3, 24
FORMATS = ("vignette", "multi_turn")


def hostile(store: Store, texts: Sequence[str] = TEXTS) -> None:
    """Write runs whose models, cases, answers, messages, labels and faults are taken from ``texts`` in turn."""
    words = cycle(texts)

    def some(number: int) -> tuple[str, ...]:
        return tuple(next(words) for _ in range(number))

    def facts(section: str | None = None) -> tuple[Fact, ...]:
        return tuple(Fact(key=key, value=value, lay=lay, section=section) for key, value, lay in [some(3), some(3)])  # type: ignore[arg-type]

    cases = []
    for number in range(CASES):
        choices = some(4)
        cases.append(
            a_case(
                number,
                case_key=f"ours/{number} {next(words).replace('/', '∕')}",
                dataset=next(words),
                specialty=next(words),
                vignette=" ".join(some(2)),
                question=next(words),
                choices=choices,
                answer=choices[0],
                synonyms=some(2),
                supertypes=some(1),
                subtypes=some(1),
                source=next(words),
                licence=next(words),
                profile=Profile(demographics=facts(), basic=facts(), optional=facts("laboratory"), made_by=next(words)),
            )
        )
    arms = [(format_, question) for format_ in FORMATS for question in ("mcq", "frq")]
    for run in range(RUNS):
        run_id, (doctor, patient, grader, summariser, pack) = f"run-{run}", some(5)
        header = a_header(
            run_id,
            cases,
            doctor=f"openai/{doctor}",
            patient=f"openai/{patient}",
            grader=f"openai/{grader}",
            summariser=f"openai/{summariser}",
            prompt_pack=pack,
            arms=arms,
            trials=1,
            created_at=100.0 + run,
        )
        trials = []
        for number, case in enumerate(cases):
            lines = [
                Utterance(turn=n, role="patient" if n % 2 else "doctor", text=text) for n, text in enumerate(some(5))
            ]
            verdicts = ("correct", "incorrect", "no_diagnosis", "refused_in_words")
            answers = []
            for format_, question in arms:
                rules = ("mcq_loose", "mcq_strict") if question == "mcq" else ("frq",)
                answers.append(Answered(format=format_, question_type=question, response=next(words)))  # type: ignore[arg-type]
                answers += [
                    graded(
                        verdicts[(number + run) % 4] if rule != "mcq_loose" else "correct",
                        format_,
                        question,
                        rule=rule,
                        extracted=next(words),
                        grader="rule" if question == "mcq" else f"openai/{grader}",
                    )
                    for rule in rules
                ]
            names = some(2)
            stream = [
                a_call(f"call-{run}-{number}", model=f"openai/{doctor}", response=next(words), reasoning=next(words)),
                *lines,
                Probed(turn=1, differential=((names[0], 0.6), (names[1], 0.4))),
                Ended(reason="final_diagnosis", doctor_turns=2, detail=next(words)),
                Summarised(text=next(words)),
                *answers,
                Failed(where="summariser", failure="server", message=next(words)),
                Finished(at=9.0),
            ]
            trial_id = f"{run_id}-{number}"
            trials.append(a_trial(stream, trial_id=trial_id, run_id=run_id, case_key=case.case_key))  # type: ignore[arg-type]
        write_journal(store.journals, run_id, header, *trials)
    fold(store)
    for run in range(RUNS):
        label_run(
            store, f"run-{run}", Label(name=next(words)[:80].strip() or "–", tags=(next(words)[:20],), note=next(words))
        )
