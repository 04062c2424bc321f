"""``profile``: the old name of ``job profiles``; ``profile show CASE`` prints the current profile of a case."""

from __future__ import annotations

from inspect import Parameter
from typing import Annotated, Any

import typer

from core.cli.job import command_of
from core.cli.options import folded_store
from core.datasets.select import cases_of
from core.errors import UsageError
from core.jobs.profiling import Profiling
from core.store.queries.profiles import newest_profiles
from core.text.profiles import WITHOUT_PROFILE, own_profile

_PARTS = (
    ("demographics", "Doctor and patient know"),
    ("basic", "Only the patient knows"),
    ("optional", "Only the clinical staff knows"),
)


def _show_instead(given: dict[str, Any]) -> int | None:
    if given["cases"] == "show":
        return _show(given["case_key"])
    if given["case_key"] is not None:
        raise UsageError(
            f"{given['case_key']!r} was not expected: name one selection of cases, or use `profile show CASE`."
        )
    if not given["model"]:
        raise UsageError("Name the model that writes the profiles: --model provider/model.")
    return None


def _show(case_key: str | None) -> int:
    if case_key is None:
        raise UsageError("Name the case: `profile show DATASET/ID`.")
    dataset, slash, _ = case_key.partition("/")
    case = next((case for case in cases_of(dataset) if case.case_key == case_key), None) if slash else None
    if case is None:
        raise UsageError(f"There is no case {case_key!r}: give DATASET/ID, as `profile show library/cardiology-1`.")
    with folded_store().read() as cursor:
        stored = newest_profiles(cursor, [case_key]).get((case_key, case.content_hash))
    generated = stored.generated if stored else own_profile(case)
    if generated is None:
        print(f"{case_key} has no profile: {WITHOUT_PROFILE}. Make one with `job profiles --model`.")
        return 0
    version = f", version {stored.version}" if stored else ""
    print(f"{case_key}, by {generated.made_by}{version}")
    if generated.profile is None:
        print(f"Cannot become a patient ({(generated.reason or '').replace('_', ' ')}): {generated.note}")
        return 0
    if generated.note:
        print(generated.note)
    print(f"Who speaks: the {generated.speaker}.")
    for part, title in _PARTS:
        print(f"\n{title}:")
        for fact in getattr(generated.profile, part):
            mark = " (imputed)" if fact.imputed else ""
            lay = "" if part == "optional" else f" | {fact.lay}"
            print(f"  {fact.key}{mark}: {fact.value}{lay}")
    return 0


profile = command_of(
    Profiling,
    "profile",
    _show_instead,
    cases=(
        Annotated[str, typer.Argument(metavar="DATASET[:…]", help="The cases, as for run; or the word show.")],
        Parameter.empty,
    ),
    model=(Annotated[str, typer.Option(help="The model that writes them: provider/model or an alias.")], ""),
    case_key=(Annotated[str | None, typer.Argument(metavar="CASE", help="With show: the case, DATASET/ID.")], None),
)
