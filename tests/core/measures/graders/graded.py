"""Two doctors' free responses, judged by the run's own grader and by others; small enough to count by hand."""

from __future__ import annotations

from core.events import Verdict
from core.store.database import Store
from core.store.fold import fold
from tests.core.store.builders import (
    Finished,
    Started,
    Utterance,
    a_case,
    a_header,
    a_trial,
    answered,
    graded,
    grades,
    invalid,
    write_journal,
)

OWN, OTHER, THIRD = "openai/g", "openai/h", "reference/names"
DOCTORS = ("openai/a", "openai/b")
RESPONSES: dict[Verdict, str] = {"correct": "Eczema", "incorrect": "Gout", "no_diagnosis": "", "multiple": "Multiple"}
OWN_SAYS: list[list[Verdict]] = [["correct", "incorrect"], ["correct", "correct"], ["incorrect", "no_diagnosis"]]
"""Case × trial, of the first doctor. Of the second doctor, all answers are incorrect but one, which was refused."""


def store_graded(store: Store) -> Store:
    """Store two doctors' trials: three cases, two trials each, with a free response after the conversation."""
    cases = [a_case(n, profile=None) for n in range(3)]
    for number, doctor in enumerate(DOCTORS):
        run, lines = f"run{number}", []
        for case in range(3):
            for trial in range(2):
                verdict = OWN_SAYS[case][trial] if number == 0 else "incorrect"
                answer_events = [
                    answered(response=RESPONSES[verdict] or "I cannot say"),
                    graded(verdict, extracted=RESPONSES[verdict]),
                ]
                if (number, case, trial) == (1, 2, 1):
                    answer_events = [invalid("refused")]
                name = trial_id(number, case, trial)
                opening_events = [
                    Started(trial_id=name, case_key=f"ours/{case}", trial=trial, seed=1, at=1.0),
                    Utterance(turn=0, role="doctor", text="What brings you in?"),
                ]
                lines.append(
                    a_trial(
                        [*opening_events, *answer_events, Finished(at=9.0)],
                        trial_id=name,
                        run_id=run,
                        case_key=f"ours/{case}",
                        trial=trial,
                    )
                )
        header = a_header(run, cases, doctor=doctor, arms=[("multi_turn", "frq")])
        write_journal(store.journals, run, header, *lines)
    fold(store)
    return store


def trial_id(doctor: int, case: int, trial: int) -> str:
    return f"t{doctor}{case}{trial}"


def judge_again(store: Store, grader: str, verdicts: dict[str, Verdict], at: float, prompt_hash: str = "") -> None:
    """Store verdicts of a grader on the answers of trials, given at ``at`` seconds."""
    for name, verdict in verdicts.items():
        new = graded(verdict, grader=grader, at=at, extracted=RESPONSES.get(verdict), prompt_hash=prompt_hash)
        write_journal(store.journals, f"run{name[1]}", grades(name, new, run_id=f"run{name[1]}"))
    fold(store)


OTHER_SAYS: dict[str, Verdict] = {
    "t000": "correct", "t001": "correct", "t010": "correct", "t011": "incorrect", "t020": "incorrect",
}  # fmt: skip
"""Compared with the run's own grader: agree, not, agree, not, agree. The sixth answer is not judged."""
THIRD_SAYS: dict[str, Verdict] = {"t000": "correct", "t001": "correct", "t010": "incorrect", "t011": "correct"}


def three_graders(store: Store) -> Store:
    """Store the two doctors' trials with verdicts of two more graders on the first doctor's answers."""
    judge_again(store_graded(store), OTHER, OTHER_SAYS, 20.0, "abc")
    judge_again(store, THIRD, THIRD_SAYS, 30.0)
    return store
