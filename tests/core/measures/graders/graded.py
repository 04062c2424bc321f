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
SAID: dict[Verdict, str] = {"correct": "Eczema", "incorrect": "Gout", "no_diagnosis": "", "multiple": "Multiple"}
OWN_SAYS: list[list[Verdict]] = [["correct", "incorrect"], ["correct", "correct"], ["incorrect", "no_diagnosis"]]
"""Case × trial, of the first doctor; of the second doctor all are incorrect, and one answer was refused."""


def store_graded(store: Store) -> Store:
    """Three cases with two trials each, a free response in the conversation's arm."""
    cases = [a_case(n, profile=None) for n in range(3)]
    for number, doctor in enumerate(DOCTORS):
        run, lines = f"run{number}", []
        for case in range(3):
            for trial in range(2):
                verdict = OWN_SAYS[case][trial] if number == 0 else "incorrect"
                given = [answered(response=SAID[verdict] or "I cannot say"), graded(verdict, extracted=SAID[verdict])]
                if (number, case, trial) == (1, 2, 1):
                    given = [invalid("refused")]
                name = trial_id(number, case, trial)
                said = [
                    Started(trial_id=name, case_key=f"ours/{case}", trial=trial, seed=1, at=1.0),
                    Utterance(turn=0, role="doctor", text="What brings you in?"),
                ]
                lines.append(
                    a_trial(
                        [*said, *given, Finished(at=9.0)],
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
    """Add a later verdict of a grader on the answers of these trials."""
    for name, verdict in verdicts.items():
        new = graded(verdict, grader=grader, at=at, extracted=SAID.get(verdict), prompt_hash=prompt_hash)
        write_journal(store.journals, f"run{name[1]}", grades(name, new, run_id=f"run{name[1]}"))
    fold(store)


OTHER_SAYS: dict[str, Verdict] = {
    "t000": "correct", "t001": "correct", "t010": "correct", "t011": "incorrect", "t020": "incorrect",
}  # fmt: skip
"""Against the run's own grader: agree, not, agree, not, agree; the sixth answer it has not judged."""
THIRD_SAYS: dict[str, Verdict] = {"t000": "correct", "t001": "correct", "t010": "incorrect", "t011": "correct"}


def three_graders(store: Store) -> Store:
    """Let two more judge the first doctor's answers."""
    judge_again(store_graded(store), OTHER, OTHER_SAYS, 20.0, "abc")
    judge_again(store, THIRD, THIRD_SAYS, 30.0)
    return store
