"""``fork``: takes a stored conversation up at one of its messages and runs it on as a branch."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.options import BaseUrl
from core.errors import AnamnesisError, UsageError
from core.events import COUNTED, Answered, Ended, Finished, Graded, Started, Utterance
from core.frameworks.base import read_settings
from core.jobs.plan import human_seats, parse_arms
from core.live.fork import FORK_ARMS, ForkPlan, start_fork, stored_origin

Role = Annotated[str | None, typer.Option(help="Another one for this role; by default the conversation's own.")]
_ARMS = ",".join(":".join(arm) for arm in FORK_ARMS)


def fork(
    trial_id: Annotated[str, typer.Argument(metavar="TRIAL", help="A stored conversation, by the id in its address.")],
    turn: Annotated[int, typer.Option(help="The message to take it up at; 0 is the greeting.")],
    say: Annotated[str | None, typer.Option(help="What is said there instead; left out, the message stays.")] = None,
    doctor: Role = None,
    patient: Role = None,
    grader: Role = None,
    summariser: Role = None,
    persona: Annotated[str | None, typer.Option(help="How the patient speaks, such as anxious,A,poor.")] = None,
    prompts: Annotated[str | None, typer.Option(help="Another prompt pack: its name, or a folder.")] = None,
    arms: Annotated[str, typer.Option(help="paper, or format:question_type,…")] = _ARMS,
    seed: Annotated[int | None, typer.Option(help="Another seed of the trial.")] = None,
    base_url: BaseUrl = None,
) -> int:
    """Take up a stored conversation at a message, change what is named, and run it on as a branch of its own."""
    origin = stored_origin(trial_id)
    given_seats = {"doctor": doctor, "patient": patient, "grader": grader, "summariser": summariser}
    names = origin.names.but(**{seat: name for seat, name in given_seats.items() if name})
    settings = {"persona": persona, "base_url": base_url}
    given = {name: value for name, value in settings.items() if value is not None}
    read_settings(origin.framework, given)
    plan = ForkPlan(
        turn=turn,
        text=say,
        names=names,
        settings=origin.settings_with(**given),
        prompts=prompts or "",
        arms=parse_arms(arms, origin.run.protocol),
        seed=seed,
    )
    if human_seats(names):
        raise UsageError(
            "A human can take a seat on a page only (Transcripts, Branches): name another one with --doctor/--patient."
        )
    # wait for the branch, then print it
    session = start_fork(plan, origin)
    session.paced = False
    session.join()
    events = session.snapshot()
    if session.error or not any(isinstance(event, Finished) for event in events):
        raise AnamnesisError(session.error or "The branch did not come to its end, so it is not stored.")
    # the dialogue, why it ended, and the verdicts
    lines: list[str] = []
    for event in events:
        match event:
            case Started(parent=parent) if parent is not None:
                changes = "; ".join(parent.changes) or "nothing changed"
                lines.append(f"Branch {event.trial_id} of {parent.trial_id}: {changes}")
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
    return 0 if any(isinstance(event, Graded) and event.verdict in COUNTED for event in events) else 1
