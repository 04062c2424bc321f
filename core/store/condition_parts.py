"""The parts of a condition, as the record of a run states them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from typing import Literal, cast, get_args

from core.asking.persona import label, parse_persona
from core.errors import AnamnesisError
from core.frameworks.base import framework, frameworks, seats_at_work, tested_seat, title_of
from core.frameworks.casting import is_model
from core.frameworks.settings import FrameworkSettings, without_credentials
from core.journal import RunHeader
from core.prompts import Prompt, known_parts, load_pack
from core.store.queries.runs import Run
from core.store.review_records import order_in_words, order_of_0_4

ConditionPart = Literal[
    "study",
    "order",
    "data_set",
    "framework",
    "case_set",
    "doctor_prompt",
    "prompts",
    "belief",
    "sampling",
    "cap",
    "patient",
    "persona",
    "pictures",
    "summariser",
    "solver",
    "staff",
    "openings",
    "items",
    "grader",
    "reader",
    "version",
    "served",
    "patient_served",
    "summariser_served",
    "solver_served",
    "staff_served",
    "grader_served",
]
"""The parts of a condition, in the order in which a name mentions differences.

A name always mentions a study that comes with the program, and for people the order of the questions.
"""
PARTS: tuple[ConditionPart, ...] = get_args(ConditionPart)
DOCTOR = "doctor"
"""The role of the tested model in ``Condition.served`` and ``addresses``, whatever its framework calls it."""
_ADDRESSES = ("base_url", "own_address", "addresses")
"""Settings of a run from which ``FrameworkSettings.address_of`` returns the address of a seat's model."""


def addresses_of(run: Run, graders: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return role → the configured address of a seat's model, without credentials.

    The grader is omitted unless it is among ``graders``, those whose verdicts count: a re-grading stores no address.
    """
    address_settings = {name: value for name in _ADDRESSES if (value := run.settings.get(name))}
    if not address_settings:
        return {}
    settings = FrameworkSettings.model_construct(**address_settings)
    framework_ = frameworks().get(run.protocol)
    tested = tested_seat(framework_).role if framework_ else DOCTOR
    names = {tested: run.doctor, **other_seats(run)}
    if run.grader not in graders:
        names.pop("grader", None)
    addresses = {role: settings.address_of(role) for role, name in names.items() if is_model(name)}
    return {
        DOCTOR if role == tested else role: (without_credentials(address),)
        for role, address in addresses.items()
        if address
    }


def prompts_hash(run: Run | RunHeader, part: str) -> str:
    """Return the hash of the prompts of a seat or of beliefs in a run; empty if only the hash of its pack is known.

    Runs of version 0.6 and earlier store the hash of the pack alone.
    """
    hashes = cast("Mapping[str, str] | None", run.settings.get("prompts_by_seat"))
    if hashes is None:
        grading = str(run.settings.get("grading_prompts") or "") if part == "grader" else ""
        pack = (framework().name, grading) if grading else (run.prompt_pack, run.prompt_hash)
        hashes = known_parts(*pack)
    return hashes.get(part, "")


def unchanged_prompts(run: Run, part: str | None = None) -> dict[str, Prompt]:
    """Return name → prompt of a run's pack, of the seats (or of this one) whose prompts have not changed since."""
    try:
        pack = load_pack(run.prompt_pack)
    except (AnamnesisError, OSError):
        return {}
    same = {part for part, hash_ in pack.parts.items() if hash_ == prompts_hash(run, part)}
    parts = {name: set(pack.parts_of(prompt)) for name, prompt in sorted(pack.prompts.items())}
    return {name: pack.prompts[name] for name, of in parts.items() if of <= same and (part is None or part in of)}


def _of_tested(run: Run) -> tuple[str, str]:
    framework_ = frameworks().get(run.protocol)
    hash_ = prompts_hash(run, tested_seat(framework_).role if framework_ else DOCTOR)
    return hash_ or run.prompt_hash, f"prompts {PurePath(run.prompt_pack).name}"


def _belief(run: Run) -> tuple[str, str]:
    return (prompts_hash(run, "belief") or run.prompt_hash, "beliefs") if run.settings.get("probe") else ("", "")


def _seat(role: str) -> Callable[[Run], tuple[str, str]]:
    """Return a reader of the prompts and the model of a seat; empty if the arms of the run do not use the seat.

    Where only the hash of the pack is known, it is the key of the part ``prompts``.
    """

    def read(run: Run) -> tuple[str, str]:
        name = other_seats(run).get(role, "")
        prompts = prompts_hash(run, role) if is_model(name) else ""
        return (f"{prompts} {name}", f"{role} {name}") if name else ("", "")

    return read


def _setting(name: str, words: str) -> Callable[[Run], tuple[str, str]]:
    """Return a reader of a setting of the run; empty if it is not set."""

    def read(run: Run) -> tuple[str, str]:
        value = str(run.settings.get(name) or "")
        return value, words.format(value) if value else ""

    return read


def other_seats(run: Run) -> dict[str, str]:
    """Return role → planned model of the seats that the arms of a run use, without the doctor."""
    framework_ = frameworks().get(run.protocol)
    seats = {
        "patient": run.patient,
        "summariser": run.summariser,
        "grader": run.grader,
        **{role: str(run.settings.get(role) or "") for role in ("solver", "staff")},
    }
    used = seats_at_work(framework_, run.doctor, run.arms) if framework_ and run.arms else tuple(seats)
    return {role: name for role, name in seats.items() if role in used and name}


def _items(run: Run) -> tuple[str, str]:
    """Return the hash of the items of a history that the run's players used, and their origin.

    Both are empty if nobody used items, or if all are by rule. Runs up to version 0.5 store no origin.
    """
    hash_ = str(run.settings.get("items") or "")
    return hash_, f"items by {run.settings.get('items_by') or 'file or hand'}" if hash_ else ""


def _sampling(run: Run) -> tuple[str, str]:
    templates = {
        "temperature": "temperature {}",
        "max_tokens": "at most {} tokens",
        "model_seed": "model seed {}",
        "reasoning_effort": "effort {}",
    }
    settings = {name: run.settings.get(name) for name in templates}
    words = ", ".join(templates[name].format(value) for name, value in settings.items() if value not in (None, ""))
    return words, words


def _cap(run: Run) -> tuple[str, str]:
    for unit in ("questions", "turns"):
        if most := run.settings.get(f"max_{unit}"):
            return str(most), f"at most {most} {unit}"
    if "max_messages" not in run.settings:
        return "", ""
    messages = run.settings["max_messages"]
    return (str(messages), f"at most {messages} messages") if messages else ("none", "no message limit")


def _persona(run: Run) -> tuple[str, str]:
    value = str(run.settings.get("persona") or "")
    return value, f"persona {label(parse_persona(value))}" if value else ""


def _order(run: Run) -> tuple[str, str]:
    """Return the order of a person's questions; runs of version 0.4 store it only as the order of their arms."""
    if not run.doctor.startswith("human/"):
        return "", ""
    types = [question_type for _, question_type in run.arms]
    words = str(run.settings.get("order") or order_in_words(order_of_0_4(types), types))
    return words, words


def _case_set(run: Run) -> tuple[str, str]:
    return run.case_set_hash, run.case_set if run.case_set != run.data_set else f"{run.cases:,} cases"


READERS: dict[ConditionPart, Callable[[Run], tuple[str, str]]] = {
    "study": lambda run: (run.study, run.study),
    "order": _order,
    "data_set": lambda run: (run.data_set, run.data_set),
    "framework": lambda run: (run.protocol, title_of(run.protocol)),
    "case_set": _case_set,
    "doctor_prompt": _setting("doctor_prompt", "{} prompt"),
    "prompts": _of_tested,
    "belief": _belief,
    "sampling": _sampling,
    "cap": _cap,
    "patient": _seat("patient"),
    "persona": _persona,
    "pictures": lambda run: ("with", "with pictures") if run.settings.get("images") else ("", ""),
    "summariser": _seat("summariser"),
    "solver": _seat("solver"),
    "staff": _seat("staff"),
    "openings": _setting("openings", "openings by {}"),
    "items": _items,
    "version": lambda run: ("", "") if run.source == "release" else (run.code_version, f"version {run.code_version}"),
}
"""Part → what a run states of it: a key, by which parts are compared, and words for a name."""
