"""``models``: lists, adds, tests, finds, fetches and removes models."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from core.cli.options import FormatOption, counting_bytes, print_rows
from core.errors import UsageError
from core.models.connection import USUAL_PORTS, Server, find_servers, offered, try_model
from core.models.fetch import OFFERS, details, get
from core.models.keys import find_key, looks_like_key
from core.models.register import SERVER, Entry, add, keep, listed, remove
from core.models.registry import load_registry
from core.models.settings import own_file

app = typer.Typer(
    help="Your models: add, test, list, find, remove.",
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
)


@app.command("list")
def list_models(
    own: Annotated[bool, typer.Option("--own", help="Only the models in your models file.")] = False,
    format_: FormatOption = "table",
) -> int:
    """List the models with their address, missing keys and prices."""
    rows = [
        {
            "model": entry.spec.name,
            "shown_as": entry.spec.display,
            "at": entry.spec.base_url or "this machine",
            "key": f"{entry.missing_key} is missing" if entry.missing_key else entry.spec.api_key_env or "none",
            "prices": entry.prices or "not known",
            "own": "yes" if entry.own else "",
        }
        for entry in listed(load_registry())
        if entry.own or not own
    ]
    if rows:
        print_rows(rows, format_)
    else:
        print(f"{own_file()} has no model yet: python -m core models add NAME --address http://127.0.0.1:8000/v1")
    return 0


@app.command("add")
def add_model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name in this program.")],
    address: Annotated[str, typer.Option(help="Where it is: http://127.0.0.1:8000/v1")] = "",
    model: Annotated[str, typer.Option(help="Its name on the server; for Python, MODULE:FUNCTION.")] = "",
    provider: Annotated[str, typer.Option(help="server, openai, azure, anthropic, hf.")] = "",
    key_env: Annotated[str, typer.Option(help="The environment variable with its key.")] = "",
    display: Annotated[str, typer.Option(help="Its name in figures.")] = "",
    effort: Annotated[str, typer.Option(help="low, medium, high, or its own word.")] = "",
    input_price: Annotated[float | None, typer.Option(help="US dollars per million tokens.")] = None,
    output_price: Annotated[float | None, typer.Option(help="US dollars per million tokens.")] = None,
    cached_price: Annotated[float | None, typer.Option(help="The same, for cached input.")] = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Maximum requests per minute.")] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=1, help="Maximum tokens per minute.")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Its context length in tokens.")] = None,
    cutoff: Annotated[str, typer.Option(help="The end of its training data: 2024, 2024-10 or 2024-10-31.")] = "",
    python: Annotated[str, typer.Option(help="An application: MODULE:FUNCTION.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Replace the entry with this name.")] = False,
) -> int:
    """Add a model or an application to your models file."""
    if python and (address or model or provider):
        raise UsageError("--python names an application: leave out --address, --model and --provider.")
    full = add(
        Entry(
            name,
            "python" if python else provider or (name.partition("/")[0] if "/" in name else SERVER),
            python or model,
            address,
            key_env,
            display,
            effort,
            input_price,
            output_price,
            cached_price,
            requests_per_minute,
            tokens_per_minute,
            context,
            cutoff=cutoff,
        ),
        programs=True,
        again=again,
    )
    print(f"{full} is in {own_file()}. Test it: python -m core models test {shlex.quote(full)}")
    if missing := load_registry().missing_key(full):
        print(f"Its key is missing so far: set the environment variable {missing}.", file=sys.stderr)
    return 0


@app.command("test")
def check_model(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Any model that can play a role.")],
    base_url: Annotated[str | None, typer.Option(help="Use this address instead of the model's.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Save the findings in its entry.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for a reply.")] = 60.0,
) -> int:
    """Send a model two or three short requests, to see its abilities."""
    result = try_model(load_registry(programs=True), name, address=base_url, timeout_s=timeout)
    print(result.model if result.address is None else f"{result.model} at {result.address}")
    if not result.ok:
        print(result.problem, file=sys.stderr)
        return 1
    for label, words in result.lines():
        print(f"  {label:<24} {words}")
    if result.findings:
        settings = ", ".join(f"{setting} = {str(value).lower()}" for setting, value in result.findings.items())
        if save:
            keep(result.model, result.findings)
        print(f"Saved in {own_file()}: {settings}." if save else f"Add --save to save in its entry: {settings}.")
    return 0


@app.command("find")
def find_models(
    address: Annotated[str | None, typer.Option(help="Ask this server instead.")] = None,
    key_env: Annotated[str, typer.Option(help="The environment variable with its key.")] = "",
) -> int:
    """Look for model servers on this machine."""
    if key_env and looks_like_key(key_env):
        raise UsageError("--key-env is the name of a variable: put the key into one.")
    key = find_key(key_env) if key_env else None
    servers = (Server("", address, offered(address, key)),) if address else find_servers()
    if not servers:
        ports = ", ".join(f"{program} {port}" for port, program in USUAL_PORTS.items())
        print(f"No model server answers on this machine at a usual port ({ports}).")
        return 1
    for server in servers:
        print(f"{server.program or 'The server'} at {server.address}: {', '.join(server.models) or 'no models'}")
    first = servers[0]
    if first.models:
        short = first.models[0].rpartition("/")[2].replace(" ", "-")
        line = f"python -m core models add {shlex.quote(short)} --address {first.address}"
        print(f"Add one: {line} --model {shlex.quote(first.models[0])}")
    return 0


@app.command("get")
def get_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help=f"{', '.join(OFFERS)}; or a name of the Hugging Face hub, a folder, a .gguf file."
        ),
    ],
    name: Annotated[str, typer.Option(help="Its name in this program.")] = "",
) -> int:
    """Download a model to this machine; needs no key and no account."""
    if offer := OFFERS.get(source):
        for label, words in details(offer).items():
            print(f"{label + ':':<16} {words}")
    with counting_bytes() as on_progress:
        full = get(source, name, on_progress)
    print(f"{full} is here. Try it: python -m core models test {full}")
    print(f"All seats: python -m core run --doctor {full} --cases library --limit 3 --trials 1")
    return 0


@app.command("remove")
def remove_model(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Its name, with or without the provider.")],
) -> int:
    """Remove a model from your models file; its runs stay."""
    print(f"{remove(name)} is no longer in {own_file()}.")
    return 0
