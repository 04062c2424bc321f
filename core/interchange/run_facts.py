"""Facts about a run in public form: its models, its prompts, and the command that repeats it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from core.errors import UsageError
from core.frameworks.base import frameworks, tested_seat
from core.interchange.public import PublicNames
from core.jobs.repeat import run_command_of
from core.models.prices import is_listed
from core.models.registry import load_registry
from core.models.spec import is_private
from core.prompts import load_pack, pack_places
from core.store.condition_parts import unchanged_prompts
from core.store.queries.runs import Run

_NOT_IN_NAMES = re.compile(r'[<>:"\\|?*\s\x00-\x1f]+')
_HUB_NAME = re.compile(r"\w[\w.-]*/[\w.-]+")
_AVAILABILITY = {"open weights": "open_weights", "proprietary": "closed_weights"}
"""Group of a model in the models files → its availability in the format."""


def model_info(name: str, names: PublicNames, served: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the ``model_info`` of a model; its id is the full name, with a developer before the first slash."""
    public = names(name)
    deployment, availability, full = "unknown", "unknown", public
    try:
        spec = load_registry().spec(name)
    except UsageError:
        pass  # rules, people and models of removed providers
    else:
        full = names(spec.name)
        availability = _AVAILABILITY.get(spec.group, "unknown")
        if spec.served_locally or is_private(spec.base_url):
            deployment = "self_deployed"
        elif is_listed(spec):
            deployment = "externally_managed"
        if spec.served_locally and _HUB_NAME.fullmatch(spec.model_id):
            full = spec.model_id
    details = {"deployment_type": deployment, "model_availability": availability, "name_in_anamnesis": public}
    if served:
        details["served_as"] = names(" + ".join(served))
    parts = [path_part(part) for part in full.split("/") if part]
    return {
        "name": public,
        "id": "/".join(parts if len(parts) > 1 else ["unattributed", *parts]),
        "additional_details": details,
    }


def model_folder(info: Mapping[str, Any]) -> tuple[str, str]:
    developer, _, rest = str(info["id"]).partition("/")
    return developer, rest.replace("/", "_")


def path_part(text: str) -> str:
    """Return a text as the name of a folder on every system."""
    return _NOT_IN_NAMES.sub("-", text).strip(" .-") or "unnamed"


def command_of(run: Run) -> str | None:
    """Return the command that plays a run again; ``None`` if it was imported, or needs this machine or a person."""
    command = run_command_of(run)
    return command if command is not None and PublicNames()(command) == command else None


def doctor_prompts(run: Run) -> str | None:
    """Return the doctor's prompts of a run; ``None`` if they have changed since, or are gone."""
    framework_ = frameworks().get(run.protocol)
    role = tested_seat(framework_).role if framework_ else ""
    parts = [f"# {name}\n{prompt.source}" for name, prompt in unchanged_prompts(run, role).items()]
    return "\n\n".join(parts) or None


def grader_prompts(hash_: str) -> str:
    """Return the texts of the grader's prompts with this hash, or a sentence that they are not available."""
    for place in pack_places(("grader_extract", "grader_judge")):
        pack = load_pack(str(place.folder))
        if pack.parts["grader"] == hash_:
            prompts = {name: prompt for name, prompt in pack.prompts.items() if "grader" in pack.parts_of(prompt)}
            return "\n\n".join(f"# {name}\n{prompt.source}" for name, prompt in prompts.items())
    return f"The grader's prompts are not available here (hash {hash_in_words(hash_)})."


def hash_in_words(hash_: str) -> str:
    return "not recorded" if hash_ in ("", "own") else hash_
