"""Puts the commands together and turns every foreseen error into one sentence on stderr and an exit status."""

from __future__ import annotations

import os
import sys

import typer
from typer.exceptions import TyperException

from core.cli import (
    cases,
    check,
    data,
    experts,
    export,
    fork,
    memorisation,
    profiles,
    report,
    reproduce,
    run,
    serve,
    training,
)
from core.errors import AnamnesisError, UsageError

app = typer.Typer(
    name="python -m core",
    help="Anamnesis: test clinical language models in doctor–patient conversation.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("run")(run.run)
app.command("resume")(run.resume)
app.command("regrade")(run.regrade)
app.command("runs")(run.runs)
app.command("fork")(fork.fork)
app.command("profile")(profiles.profile)
app.command("serve")(serve.serve)
app.command("reproduce")(reproduce.reproduce)
app.command("train")(training.train)
app.command("meld")(memorisation.meld)
app.add_typer(report.app, name="report")
app.add_typer(check.app, name="check")
app.add_typer(cases.app, name="import")
app.add_typer(data.app, name="data")
app.add_typer(experts.app, name="experts")
app.add_typer(export.app, name="export")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 1 failed, 2 misuse."""
    try:
        status = typer.main.get_command(app).main(arguments, prog_name="python -m core", standalone_mode=False)
    except TyperException as error:
        return _complain(error.format_message().rstrip(".") + " (--help tells more).", 2)
    except UsageError as error:
        return _complain(str(error), 2)
    except AnamnesisError as error:
        return _complain(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("Interrupted.", 1)
    except BrokenPipeError:
        # whoever read our output has seen enough; without this Python complains again while it shuts down
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return int(status or 0)


def _complain(sentence: str, status: int) -> int:
    print(sentence, file=sys.stderr)
    return status
