"""What a campaign is to do: cast × cases × trials × arms, known by a fingerprint, and what it will cost."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from core import __version__, paths
from core.case import Case, case_set_hash
from core.errors import AnamnesisError, UsageError
from core.events import FORMATS, QUESTION_TYPES
from core.frameworks.base import AUTOMEDIC, CRAFTMD, framework
from core.frameworks.casting import REFERENCE, CastNames, craftmd_pack, full_names, is_model, remarks
from core.frameworks.craftmd.protocol import ALL_ARMS, Arm, Rules, Trial
from core.jobs.pictures import check_cases
from core.jobs.settings import Settings as Settings
from core.jobs.settings import check_settings, completed, stated
from core.journal import RunHeader, journal_path, read_header, seed_of, trial_id
from core.models.registry import Registry
from core.persona import parse_persona
from core.prompts import PromptPack, pack_place
from core.store.runs import Run

HUMAN = "human"
"""Begins the doctor's name of a baseline that an expert answers by hand: ``human/NAME``."""


@dataclass(frozen=True)
class Campaign:
    """A whole campaign as asked for."""

    names: CastNames
    cases: tuple[Case, ...]
    case_set: str = "library"
    arms: tuple[Arm, ...] = ALL_ARMS
    many_choices: tuple[str, ...] = ()
    """The choices of ``mcq_many``: the answers of the whole data set; empty for those of ``cases``."""
    trials: int = 5
    seed: int = 20
    prompts: str = "craftmd"
    protocol: str = "craftmd"
    settings: Settings = field(default_factory=Settings)


def parse_arms(text: str, protocol: str = CRAFTMD.name) -> tuple[Arm, ...]:
    """Read ``all``, ``paper``, or ``format:question_type`` pairs with commas; raise ``UsageError`` otherwise."""
    known = framework(protocol)
    if text in ("all", "paper"):
        return known.all_arms if text == "all" else known.paper_arms
    arms: list[Arm] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        format_, _, question_type = part.partition(":")
        formats = [f for f in FORMATS if f == format_ or format_ == "*"]
        types = [q for q in QUESTION_TYPES if q == question_type or question_type in ("", "*")]
        if not formats or not types:
            raise UsageError(
                f"{part!r} is no arm: write format:question_type with a format of {', '.join(FORMATS)} and a question "
                f"type of {', '.join(QUESTION_TYPES)}; or all, or paper."
            )
        arms += [(f, q) for f in formats for q in types]
    if not arms:
        raise UsageError("No arm was named: write for example vignette:mcq,multi_turn:frq, or all, or paper.")
    return tuple(dict.fromkeys(arms))


def in_full(campaign: Campaign, registry: Registry) -> Campaign:
    """Return a campaign with every seat taken and its protocol's defaults; raise ``UsageError`` where it cannot be run.

    A campaign that is in full already stays as it is, whatever the defaults are by now.
    """
    known = framework(campaign.protocol)
    foreign = [f"{f}:{q}" for f, q in campaign.arms if (f, q) not in known.all_arms]
    if foreign:
        asked = ", ".join(f"{f}:{q}" for f, q in known.all_arms)
        raise UsageError(f"The protocol {known.name} does not ask {', '.join(foreign)}: its arms are {asked}.")
    check_settings(campaign.settings)
    # a seat that the protocol does not have is nobody's to pay for
    missing = {role: rule for role, rule in REFERENCE.items() if role not in ("doctor", *known.seats)}
    named = replace(campaign.names, **{role: getattr(campaign.names, role) or rule for role, rule in missing.items()})
    names = full_names(named, registry, known.doctors)
    full = replace(campaign, names=names, settings=completed(campaign.settings, known.name, names, registry))
    if not full.settings.base_url:
        return full
    given = seats_of(campaign)
    elsewhere = [role for role, name in models_of(full).items() if not given[role] and name != names.doctor]
    known_before = filter(None, full.settings.own_address.split(","))
    own_address = ",".join(dict.fromkeys([*known_before, *elsewhere]))
    return replace(full, settings=replace(full.settings, own_address=own_address))


def seats_of(campaign: Campaign) -> dict[str, str]:
    """Return role → who sits there, for the doctor's and the other seats of a campaign's protocol."""
    everybody = {**vars(campaign.names), "solver": campaign.settings.solver, "staff": campaign.settings.staff}
    return {role: everybody[role] for role in ("doctor", *framework(campaign.protocol).seats)}


def who_sits(asked: Campaign, full: Campaign, registry: Registry) -> str:
    """Say in one line who was put beside a model where nobody was named (``full`` is ``asked`` in full), and why.

    Empty where no such seat has anything to do, and beside anybody but a model.
    """
    seats, doctor = seats_of(full), full.names.doctor
    at_work = framework(full.protocol).at_work(doctor, full.arms) if is_model(doctor) else ()
    left = [role for role in at_work if not seats_of(asked)[role]]
    if not left:
        return ""
    together: dict[str, list[str]] = {}
    for role in left:
        name, given = seats[role], full.settings.address_of(role)
        why = "the doctor's own model" if name == doctor else "from [defaults]"
        where = registry.address(name, base_url=given) if is_model(name) and full.settings.base_url else None
        together.setdefault(f"{name} ({why}{f', at {where}' if where else ''})", []).append(role)
    words = "; ".join(f"{', '.join(roles)}: {name}" for name, roles in together.items())
    return f"{words}. Name others with {', '.join(f'--{role}' for role in left)}."


def remarks_of(run: Campaign | Run) -> tuple[str, ...]:
    """Return what is to be known of who plays a campaign in full, or a run (``core.frameworks.casting.remarks``)."""
    named = seats_of(run) if isinstance(run, Campaign) else {**vars(run), **run.settings}
    at_work = framework(run.protocol).at_work(named["doctor"], run.arms)
    return remarks(named["doctor"], {role: str(named.get(role, "")) for role in at_work})


def header_of(campaign: Campaign, registry: Registry, now: float | None = None) -> RunHeader:
    """Check a campaign and describe it; raise ``UsageError`` where it cannot be run as asked."""
    if not campaign.cases:
        raise UsageError("No case was chosen.")
    if campaign.trials < 1:
        raise UsageError("--trials must be at least 1.")
    campaign = in_full(campaign, registry)
    if campaign.settings.images:
        check_cases(campaign.cases)
    without = [case.case_key for case in campaign.cases if case.profile is None]
    if campaign.protocol == AUTOMEDIC.name and without:
        raise UsageError(
            f"AutoMedic plays cases with a profile, and {len(without)} have none, {without[0]} the first: prepare them "
            "before the run."
        )
    pack = framework(campaign.protocol).pack(campaign.prompts)
    created = time.time() if now is None else now
    fields = _identity(campaign, pack)
    fingerprint = hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(created))
    return RunHeader(
        run_id=f"{stamp}-{fingerprint[:8]}",
        fingerprint=fingerprint,
        created_at=created,
        cases=list(campaign.cases),
        **fields,
    )


def _identity(campaign: Campaign, pack: PromptPack) -> dict[str, object]:
    """Return all that makes a campaign what it is; what changes none of its results is left out."""
    return {
        "protocol": campaign.protocol,
        **vars(campaign.names),
        "prompt_pack": pack_place(campaign.prompts),
        "prompt_hash": pack.hash,
        "case_set": campaign.case_set,
        "case_set_hash": case_set_hash(list(campaign.cases)),
        "arms": [list(arm) for arm in campaign.arms],
        "many_choices": many_choices_of(campaign),
        "trials": campaign.trials,
        "seed": campaign.seed,
        "settings": {**stated(campaign.settings), **_grading(campaign)},
        "code_version": __version__,
    }


def _grading(campaign: Campaign) -> dict[str, str]:
    """Return the hash of the prompts of CRAFT-MD where a model grades under them in another protocol."""
    free = any(question_type == "frq" for _, question_type in campaign.arms)
    if campaign.protocol == CRAFTMD.name or not free or not is_model(campaign.names.grader):
        return {}
    return {"grading_prompts": craftmd_pack().hash}


def campaign_of(header: RunHeader) -> Campaign:
    """Return the campaign that a journal's header describes, to be resumed.

    Raises ``UsageError`` for a human baseline, which nobody but its human can go on with, and for a release's run.
    """
    if header.source == "release":
        raise UsageError(
            f"Run {header.run_id} came with a release and has all its trials from there, so it cannot be resumed: "
            f"import the release again for what is new in it, or run {header.doctor} yourself."
        )
    if header.doctor.startswith(f"{HUMAN}/"):
        raise UsageError(f"Run {header.run_id} is a human baseline: go on with it on the Experts page.")
    pack = framework(header.protocol).pack(header.prompt_pack)
    if pack.hash != header.prompt_hash:
        raise AnamnesisError(
            f"The prompt pack {header.prompt_pack} has changed since run {header.run_id} began "
            f"({header.prompt_hash} then, {pack.hash} now): restore it, or start a new run."
        )
    settings = {key: header.settings[key] for key in vars(Settings()) if key in header.settings}
    return Campaign(
        names=CastNames(header.doctor, header.patient, header.grader, header.summariser),
        cases=tuple(header.cases),
        case_set=header.case_set,
        arms=tuple((f, q) for f, q in header.arms),  # type: ignore[misc]
        many_choices=tuple(header.many_choices),
        trials=header.trials,
        seed=header.seed,
        prompts=header.prompt_pack,
        protocol=header.protocol,
        settings=Settings(**settings),  # type: ignore[arg-type]
    )


def trials_of(header: RunHeader) -> list[Trial]:
    """Return every trial of a run, trial by trial over the cases, so that a stopped run covers all cases evenly."""
    return [
        Trial(trial_id(header.run_id, case.case_key, number), case, number, seed_of(header.seed, case.case_key, number))
        for number in range(header.trials)
        for case in header.cases
    ]


def rules_of(campaign: Campaign) -> Rules:
    """Return the rules of a campaign under CRAFT-MD."""
    greeting = craftmd_pack(campaign.prompts).render("greeting")
    return Rules(
        campaign.arms, campaign.settings.max_messages, greeting, tuple(many_choices_of(campaign)),
        parse_persona(campaign.settings.persona), bool(campaign.settings.images),
    )  # fmt: skip


def many_choices_of(campaign: Campaign) -> list[str]:
    """Return the choices of ``mcq_many``, or none where no arm asks it."""
    if not any(question_type == "mcq_many" for _, question_type in campaign.arms):
        return []
    answers = campaign.many_choices or tuple(case.answer for case in campaign.cases)
    return sorted(dict.fromkeys(answers), key=str.lower)


def unfinished_twin(fingerprint: str, done: dict[str, int]) -> RunHeader | None:
    """Return the newest run of the same fingerprint that is not complete; ``done`` holds run id → trials done."""
    candidates: list[RunHeader] = []
    for path in journals():
        try:
            header = read_header(path)
        except AnamnesisError:
            continue  # killed before its first line was written, or damaged: no reason not to start another run
        if header.fingerprint == fingerprint and done.get(header.run_id, 0) < len(header.cases) * header.trials:
            candidates.append(header)
    return max(candidates, key=lambda header: header.created_at, default=None)


def journals() -> Sequence[Path]:
    """Return the journals of all runs."""
    folder = paths.journals_folder()
    return sorted(folder.glob("*/journal.jsonl")) if folder.is_dir() else []


def find_header(run: str) -> RunHeader:
    """Return the header of a run by its id or the beginning of it; raise ``UsageError`` where that is not one run."""
    names = [path.parent.name for path in journals()]
    matches = [name for name in names if name == run] or [name for name in names if name.startswith(run)]
    if len(matches) == 1:
        return read_header(journal_path(matches[0]))
    if not matches:
        raise UsageError(f"There is no run {run!r}; `python -m core runs` lists them.")
    raise UsageError(f"{run!r} is the beginning of {len(matches)} runs: {', '.join(matches[:5])}.")


def human_seats(names: CastNames) -> bool:
    """Say whether a human plays in the cast."""
    return any(name == "human" for name in vars(names).values())


def models_of(campaign: Campaign) -> dict[str, str]:
    """Return role → name of the language models in a campaign's seats."""
    return {role: name for role, name in seats_of(campaign).items() if is_model(name)}
