"""``models``: the models that can sit in a seat: listed, added, tested, found on this machine, removed."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from core.cli.options import Printed, counting, print_rows
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
    own: Annotated[bool, typer.Option("--own", help="Only those of your models file.")] = False,
    format_: Printed = "table",
) -> int:
    """List the models, where they are, which key lacks."""
    rows = [
        {
            "model": one.spec.name,
            "shown_as": one.spec.display,
            "at": one.spec.base_url or "this machine",
            "key": f"{one.missing_key} is missing" if one.missing_key else one.spec.api_key_env or "none",
            "prices": one.prices or "not known",
            "own": "yes" if one.own else "",
        }
        for one in listed(load_registry())
        if one.own or not own
    ]
    if rows:
        print_rows(rows, format_)
    else:
        print(f"{own_file()} has no model yet: python -m core models add NAME --address http://127.0.0.1:8000/v1")
    return 0


@app.command("add")
def add_model(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is to be called here.")],
    address: Annotated[str, typer.Option(help="Where it is: http://127.0.0.1:8000/v1")] = "",
    model: Annotated[str, typer.Option(help="The server's name for it; of Python MODULE:FUNCTION.")] = "",
    provider: Annotated[str, typer.Option(help="server, openai, azure, anthropic, hf.")] = "",
    key_env: Annotated[str, typer.Option(help="The variable that holds its key.")] = "",
    display: Annotated[str, typer.Option(help="How figures call it.")] = "",
    effort: Annotated[str, typer.Option(help="low, medium, high, or its own word.")] = "",
    input_price: Annotated[float | None, typer.Option(help="US dollars a million tokens.")] = None,
    output_price: Annotated[float | None, typer.Option(help="US dollars a million tokens.")] = None,
    cached_price: Annotated[float | None, typer.Option(help="The same, for cached input.")] = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="At most so many requests.")] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=1, help="At most so many tokens.")] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Its context in tokens.")] = None,
    python: Annotated[str, typer.Option(help="An application: MODULE:FUNCTION.")] = "",
    http: Annotated[str, typer.Option(help="An application: its address.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Replace an entry of this name.")] = False,
) -> int:
    """Enter a model or an application into your file."""
    ways = {"python": python, "http": http}
    given = [kind for kind, value in ways.items() if value]
    if len(given) > 1 or (given and (address or model or provider)):
        raise UsageError("An application is --python or --http alone, without --address or --provider.")
    full = add(
        Entry(
            name,
            given[0] if given else provider or (name.partition("/")[0] if "/" in name else SERVER),
            python or model,
            http or address,
            key_env,
            display,
            effort,
            input_price,
            output_price,
            cached_price,
            requests_per_minute,
            tokens_per_minute,
            context,
        ),
        programs=True,
        again=again,
    )
    print(f"{full} is in {own_file()}. Test it: python -m core models test {shlex.quote(full)}")
    if missing := load_registry().missing_key(full):
        print(f"Its key is missing so far: set the environment variable {missing}.", file=sys.stderr)
    return 0


@app.command("test")
def try_one(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Any model that could sit in a seat.")],
    base_url: Annotated[str | None, typer.Option(help="Another address than its own.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Keep in its entry what was found.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for a reply.")] = 60.0,
) -> int:
    """Ask a model two or three short things, and say what it can."""
    found = try_model(load_registry(programs=True), name, address=base_url, timeout_s=timeout)
    print(found.model if found.address is None else f"{found.model} at {found.address}")
    if not found.ok:
        print(found.problem, file=sys.stderr)
        return 1
    for label, words in found.lines():
        print(f"  {label:<24} {words}")
    if found.findings:
        kept = ", ".join(f"{setting} = {str(value).lower()}" for setting, value in found.findings.items())
        if save:
            keep(found.model, found.findings)
        print(f"Kept in {own_file()}: {kept}." if save else f"--save keeps in its entry: {kept}.")
    return 0


@app.command("find")
def find_models(
    address: Annotated[str | None, typer.Option(help="Ask this server instead.")] = None,
    key_env: Annotated[str, typer.Option(help="The variable that holds its key.")] = "",
) -> int:
    """Look for servers of models on this machine."""
    if key_env and looks_like_key(key_env):
        raise UsageError("--key-env is the name of a variable: put the key into one.")
    key = find_key(key_env) if key_env else None
    found = (Server("", address, offered(address, key)),) if address else find_servers()
    if not found:
        ports = ", ".join(f"{program} {port}" for port, program in USUAL_PORTS.items())
        print(f"No server of models answers on this machine at its usual port ({ports}).")
        return 1
    for server in found:
        print(f"{server.program or 'The server'} at {server.address}: {', '.join(server.models) or 'no models'}")
    first = found[0]
    if first.models:
        short = first.models[0].rpartition("/")[2].replace(" ", "-")
        line = f"python -m core models add {shlex.quote(short)} --address {first.address}"
        print(f"Enter one: {line} --model {shlex.quote(first.models[0])}")
    return 0


@app.command("get")
def get_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help=f"{', '.join(OFFERS)}; or a name of the Hugging Face hub, a folder, a .gguf file."
        ),
    ],
    name: Annotated[str, typer.Option(help="What it is to be called here.")] = "",
) -> int:
    """Bring a model onto this machine, with no key and no account."""
    if offer := OFFERS.get(source):
        for label, words in details(offer).items():
            print(f"{label + ':':<16} {words}")
    with counting("Megabytes") as bar:
        full = get(source, name, lambda what, done, planned: bar(done, planned))
    print(f"{full} is here. Try it: python -m core models test {full}")
    print(f"All seats: python -m core run --doctor {full} --cases library --limit 3 --trials 1")
    return 0


@app.command("remove")
def remove_model(
    name: Annotated[str, typer.Argument(metavar="MODEL", help="Its name, with or without the provider.")],
) -> int:
    """Take a model out of your file; its runs stay."""
    print(f"{remove(name)} is no longer in {own_file()}.")
    return 0
