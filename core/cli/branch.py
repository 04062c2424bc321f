"""``branch``: continues a stored conversation from one of its messages with a change, once or several times."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.options import BaseUrl
from core.errors import AnamnesisError, UsageError
from core.events import COUNTED, Answered, Ended, Finished, Graded, Started, Utterance
from core.frameworks.base import read_settings
from core.jobs.plan import human_seats, parse_arms
from core.live.branch import BRANCH_ARMS, BranchPlan, start_branch, stored_origin
from core.live.session import Session

Role = Annotated[str | None, typer.Option(help="A different player of this role; by default that of the conversation.")]
_ARMS = ",".join(":".join(arm) for arm in BRANCH_ARMS)


def branch(
    trial_id: Annotated[str, typer.Argument(metavar="TRIAL", help="A stored conversation, by the id in its address.")],
    turn: Annotated[int, typer.Option(help="The message at which the branch begins; 0 is the greeting.")],
    say: Annotated[str | None, typer.Option(help="The new text of that message; by default it stays as it is.")] = None,
    doctor: Role = None,
    patient: Role = None,
    grader: Role = None,
    summariser: Role = None,
    persona: Annotated[str | None, typer.Option(help="How the patient speaks, such as anxious,A,poor.")] = None,
    prompts: Annotated[str | None, typer.Option(help="Another prompt pack: its name, or a folder.")] = None,
    arms: Annotated[str, typer.Option(help="paper, or format:question_type,…")] = _ARMS,
    seed: Annotated[int | None, typer.Option(help="Another seed of the trial.")] = None,
    times: Annotated[int, typer.Option(help="How many times; each with the next seed.")] = 1,
    base_url: BaseUrl = None,
) -> int:
    """Continue a stored conversation from one of its messages, with the changes that you name."""
    origin = stored_origin(trial_id)
    new_players = {"doctor": doctor, "patient": patient, "grader": grader, "summariser": summariser}
    names = origin.names.but(**{seat: name for seat, name in new_players.items() if name})
    settings = {"persona": persona, "base_url": base_url}
    changes = {name: value for name, value in settings.items() if value is not None}
    read_settings(origin.framework, changes)
    plan = BranchPlan(
        turn=turn,
        text=say,
        names=names,
        settings=origin.settings_with(**changes),
        prompts=prompts or "",
        arms=parse_arms(arms, origin.run.protocol),
        seed=seed,
        times=times,
    )
    if human_seats(names):
        raise UsageError(
            "A human can play only on a page (Conversations, Branches): name a model with --doctor or --patient."
        )
    sessions = start_branch(plan, origin)
    for session in sessions:
        session.paced = False
    return max([_shown(session) for session in sessions])


def _shown(session: Session) -> int:
    """Wait for a branch, print its dialogue, why it ended and the verdicts; return 1 if nothing in it counts."""
    session.join()
    events = session.snapshot()
    if session.error or not any(isinstance(event, Finished) for event in events):
        raise AnamnesisError(session.error or "The branch did not finish, so it is not stored.")
    lines: list[str] = []
    for event in events:
        match event:
            case Started(parent=parent) if parent is not None:
                described = "; ".join(parent.changes) or "nothing changed"
                lines.append(f"Branch {event.trial_id} of {parent.trial_id}: {described}")
            case Utterance():
                lines.append(f"{event.turn:>3} {event.role}: {event.text}")
            case Ended():
                lines.append(f"Ended: {event.reason}{': ' + event.detail if event.detail else ''}")
            case Answered(reason=reason) if reason is not None:
                lines.append(f"{event.format}:{event.question_type} {reason}: {event.detail}")
            case Graded():
                lines.append(f"{event.format}:{event.question_type} {event.rule}: {event.verdict} ({event.extracted})")
            case _:
                pass
    print("\n".join(lines))
    verdicts = [event.verdict for event in events if isinstance(event, Graded)]
    reasons = [event.reason for event in events if isinstance(event, Answered)]
    return 0 if any(verdict in COUNTED for verdict in (*verdicts, *reasons)) else 1
