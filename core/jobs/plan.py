"""What a campaign is to do: cast × cases × trials × arms, its fingerprint, and its way back from a journal.

Which cases can be played (with profiles, with pictures) is known before anything is asked.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from core import __version__, access, paths
from core.asking.parts import check_picture_prompt
from core.asking.scene import Turn
from core.case import Case, case_set_hash, data_set_of
from core.errors import AnamnesisError, UsageError
from core.events import ASKED_TYPES, FORMATS, GRADED_TYPES
from core.frameworks.base import (
    Arm,
    Branch,
    Campaign,
    Framework,
    Trial,
    default_pack,
    framework,
    full_names,
    grades_itself,
    other_seats,
    pack_of,
    paper_arms,
    seat_of,
    seating,
    seats_at_work,
    stored_settings,
    tested_seat,
)
from core.frameworks.casting import (
    REFERENCE,
    STORED_SEATS,
    CastNames,
    MissingKey,
    Reach,
    StudyCast,
    StudySeat,
    full_name,
    is_model,
)
from core.frameworks.consultation.queries import newest_items, newest_openings
from core.frameworks.seats import remarks
from core.images import contents, local_images
from core.journal import RunHeader, journal_path, read_header, seed_of, trial_id
from core.models.keys import find_key, seat_variable
from core.models.pictures import TOKENS_A_PICTURE, refusal
from core.models.registry import Registry, load_registry
from core.prompts import pack_place
from core.store.database import Store
from core.store.queries.profiles import newest_profiles
from core.store.queries.runs import Run, run_ids
from core.text.case_items import ItemSet, hash_of_items, items_from_json, openings_by, with_items
from core.text.profiles import WITHOUT_PROFILE, Prepared

HUMAN = "human"
"""Begins the doctor's name of a baseline that an expert answers by hand: ``human/NAME``."""
WITH = "with"
"""The setting ``images`` of a run whose doctor is shown them; empty where it is not."""
IMAGES = ("", WITH)


def parse_arms(text: str, protocol: str = "") -> tuple[Arm, ...]:
    """Read ``all``, ``paper``, or ``format:question_type`` pairs with commas; raise ``UsageError`` otherwise."""
    known = framework(protocol)
    if text in ("all", "paper"):
        return known.arms if text == "all" else paper_arms(known)
    arms: list[Arm] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        format_, _, question_type = part.partition(":")
        formats = [f for f in FORMATS if f == format_ or format_ == "*"]
        types = [q for q in ASKED_TYPES if q == question_type or question_type in ("", "*")]
        if not formats or not types:
            raise UsageError(
                f"{part!r} is no arm: write format:question_type with a format of {', '.join(FORMATS)} and a question "
                f"type of {', '.join(ASKED_TYPES)}; or all, or paper."
            )
        arms += [(f, q) for f in formats for q in types]
    if not arms:
        raise UsageError("No arm was named: write for example vignette:mcq,multi_turn:frq, or all, or paper.")
    return tuple(dict.fromkeys(arms))


def in_full(campaign: Campaign, registry: Registry, study: StudyCast | None = None) -> Campaign:
    """Return a campaign with every seat taken and its framework's defaults; raise ``UsageError`` for what cannot run.

    A campaign that is in full already stays as it is, whatever the defaults and the ``study`` (``study_cast``) are now.
    """
    known, study = campaign.framework, study or {}
    # a run of version 0.4 that is resumed goes on with what it asked
    foreign = [f"{f}:{q}" for f, q in campaign.arms if (f, "mcq_many" if q == "mcq_answers" else q) not in known.arms]
    if foreign:
        asked = ", ".join(f"{f}:{q}" for f, q in known.arms)
        raise UsageError(f"The protocol {known.name} does not ask {', '.join(foreign)}: its arms are {asked}.")
    # a seat that the framework does not have is nobody's to pay for
    missing = {role: rule for role, rule in REFERENCE.items() if seat_of(known, role) is None}
    names = full_names(known, campaign.names, registry, study)
    from_study = {
        role: study[role].address
        for role, (_, why) in seating(known, campaign.names, registry, study).items()
        if why == "study"
    }
    names = names.but(**{role: names[role] or rule for role, rule in missing.items()})
    tested = names[tested_seat(known).role]
    images = campaign.settings.images
    if images not in IMAGES:
        raise UsageError(f"The setting images is {images!r}: it must be {WITH!r}, or empty for none.")
    if images and not is_model(tested):
        raise UsageError(
            f"Pictures are sent to a doctor that is a model, and {tested} is none: choose a model, or --images without."
        )
    full = replace(campaign, names=names, settings=known.complete(campaign.settings, names))
    models = models_of(full)
    # the study's models are asked where they were asked before: another server may serve another model by that name
    base_url = full.settings.base_url
    moved = {role: Reach(address) for role, address in from_study.items() if address and address != base_url}
    full = full.reached({role: how for role, how in moved.items() if role in models})
    full = replace(full, placed=campaign.placed | models.keys())
    if not full.settings.base_url:
        return full
    # the address that was given is the tested model's: nobody else is asked there who is known to be elsewhere
    elsewhere = [
        role
        for role, name in models.items()
        if role not in campaign.placed
        and role not in moved
        and from_study.get(role, "") != base_url
        and (name != tested or role in from_study)
        and (
            not campaign.names[role]
            or (is_model(tested) and name.partition("/")[0] != tested.partition("/")[0])
            or (is_model(tested) and registry.has_own_address(name))
        )
    ]
    known_before = filter(None, full.settings.own_address.split(","))
    own_address = ",".join(dict.fromkeys([*known_before, *elsewhere]))
    return replace(full, settings=full.settings.but(own_address=own_address))


def missing_keys(campaign: Campaign, registry: Registry) -> tuple[MissingKey, ...]:
    """Return the models of a campaign that cannot be asked for want of a key, each with its seats."""
    full = in_full(campaign, registry)
    found: dict[tuple[str, str], list[str]] = {}
    for seat, name in models_of(full).items():
        given = full.reach.get(seat, Reach())
        if given.address or given.key or find_key(seat_variable(seat)):
            continue
        if variable := registry.missing_key(name, base_url=full.settings.address_of(seat)):
            found.setdefault((name, variable), []).append(seat)
    return tuple(MissingKey(tuple(seats), name, variable) for (name, variable), seats in found.items())


def models_of(campaign: Campaign) -> dict[str, str]:
    """Return seat → name of the language models in a campaign's seats."""
    return {seat.role: name for seat in campaign.framework.seats if is_model(name := campaign.names[seat.role])}


def human_seats(names: CastNames) -> bool:
    """Say whether a human plays in the cast."""
    return any(name == "human" for name in names.values())


def study_cast(
    runs: Sequence[Run], protocol: str, case_set: str, tested: str, registry: Registry
) -> dict[str, StudySeat]:
    """Return who sat in each seat when another model was last tested on the same data set, by what ``runs`` say.

    A run counts if it is a campaign made here with the same framework, on all or a part of the same data set; a seat,
    if the run gave it something to do. Empty unless ``tested``, a name or alias, is a language model.
    """
    known, data_set = framework(protocol), data_set_of(case_set)
    if not is_model(tested) or registry.is_application(tested):
        return {}
    doctor = registry.spec(tested).name
    cast: dict[str, StudySeat] = {}
    for run in sorted(runs, key=lambda run: run.created_at, reverse=True):
        if (
            run.source == "local"
            and not run.study
            and (run.protocol, run.data_set) == (known.name, data_set)
            and run.doctor != doctor
            and is_model(run.doctor)
            and not run.doctor.startswith(f"{HUMAN}/")
            and not registry.is_application(run.doctor)
        ):
            cast = {**seats_taken(run, registry), **cast}
    return cast


def seats_taken(run: Run | RunHeader, registry: Registry, *, idle: bool = False) -> dict[str, StudySeat]:
    """Return who sat in the seats that a run gave something to do, or with ``idle`` in all of them.

    A seat is left out if who sat there cannot take it again.
    """
    known = framework(run.protocol)
    names = names_of(known, {role: getattr(run, role) for role in STORED_SEATS}, run.settings)
    settings = stored_settings(known, run.settings)
    found: dict[str, StudySeat] = {}
    at_work = seats_at_work(known, run.doctor, run.arms)
    for seat in other_seats(known):
        role, name = seat.role, names[seat.role]
        if not name or name == HUMAN or not (idle or role in at_work):
            continue
        address = settings.address_of(role) if is_model(name) else None
        try:
            full_name(seat.title, name, registry, seat.rules)
            variable = registry.missing_key(name, base_url=address) if is_model(name) else None
        except UsageError:  # a rule or a provider that is not here any more
            continue
        problem = f"the key {variable} is missing" if variable and not find_key(seat_variable(role)) else ""
        if address and run.visitor != access.visitor().name:  # cases go to no server that a stranger chose
            problem = "somebody else gave the address of its server"
        found[role] = StudySeat(name, run.run_id, run.doctor, address, problem)
    return found


def who_sits(
    asked: Campaign, full: Campaign, registry: Registry, study: StudyCast | None = None, *, flags: bool = True
) -> str:
    """Say in one line who was put next to a model where nobody was named (``full`` is ``asked`` in full), and why.

    With ``flags`` the line ends with the options of the command line that name others.
    Empty if no such seat has anything to do, and for anybody but a model.
    """
    tested = full.tested
    at_work = seats_at_work(full.framework, tested, full.arms) if is_model(tested) else ()
    left = [role for role in at_work if not asked.names[role]]
    if not left:
        return ""
    title, study = tested_seat(full.framework).title, study or {}
    whys = seating(full.framework, asked.names, registry, study)
    together: dict[str, list[str]] = {}
    for role in left:
        name, given = full.names[role], full.settings.address_of(role)
        words = {
            "default": "from [defaults]",
            "study": f"as in run {study[role].run_id} of {study[role].doctor}" if role in study else "",
            "own": f"the {title}'s own model",
            "usual": f"an application is the {title} only",
        }
        why = words[whys[role][1]]
        if whys[role][1] == "own" and role in study:
            why += f", because {study[role].name} of run {study[role].run_id} cannot be asked: {study[role].problem}"
        addressed = full.settings.base_url or given
        where = registry.spec(name, base_url=given).base_url if is_model(name) and addressed else None
        together.setdefault(f"{name} ({why}{f', at {where}' if where else ''})", []).append(role)
    line = "; ".join(f"{', '.join(roles)}: {name}" for name, roles in together.items())
    return f"{line}. Name others with {', '.join(f'--{role}' for role in left)}." if flags else f"{line}."


def remarks_of(run: Campaign | Run) -> tuple[str, ...]:
    """Return what is to be known of who plays a campaign in full, or a run."""
    if isinstance(run, Campaign):
        known, names = run.framework, run.names
    else:
        known = framework(run.protocol)
        names = names_of(known, {role: getattr(run, role) for role in STORED_SEATS}, run.settings)
    tested = names[tested_seat(known).role]
    found = remarks(tested, {role: names[role] for role in seats_at_work(known, tested, run.arms)})
    if isinstance(run, Campaign) and known.cases.plays_profiles:
        without = sum(case.profile is None for case in run.cases)
        if without:
            found += (f"{without:,} of {len(run.cases):,} cases have no profile: {WITHOUT_PROFILE}",)
    if not isinstance(run, Campaign) or run.trials == 1 or not is_model(tested):
        return found
    if run.settings.temperature is None and load_registry(programs=True).is_greedy(tested):
        found += (f"{tested} decodes greedily without --temperature, so that trials of a case may be one and the same",)
    return found


def prepared_cases(cases: Sequence[Case], known: Framework, store: Store | None = None) -> Prepared:
    """Return the cases as a framework plays them, and those that cannot be played with the reason.

    Profiles and items are looked up in the database (``store``, or the usual one) where there is one.
    """
    store = store or Store()
    if known.cases.patient_opens:
        cases = with_openings(cases, store)
    if not store.path.exists():
        return known.cases.prepare(cases, {})
    keys = [case.case_key for case in cases]
    with store.read() as cursor:
        found = newest_profiles(cursor, keys) if known.cases.plays_profiles else {}
        rows = newest_items(cursor, keys) if known.cases.plays_items else []
    items = {(row.case_key, row.content_hash): ItemSet(items_from_json(row.items), row.made_by) for row in rows}
    cases = [with_items(case, items.get((case.case_key, case.content_hash))) for case in cases]
    return known.cases.prepare(cases, {case: stored.generated for case, stored in found.items()})


def with_openings(cases: Sequence[Case], store: Store) -> list[Case]:
    """Return the cases with the opening requests that models made for them; the others open by rule."""
    if not store.path.exists():
        return list(cases)
    with store.read() as cursor:
        made = newest_openings(cursor, [case.case_key for case in cases])
    openings = (made.get((case.case_key, case.content_hash), case.opening) for case in cases)
    return [case.model_copy(update={"opening": new}) for case, new in zip(cases, openings, strict=True)]


def left_out_words(prepared: Prepared) -> str:
    """Return how many cases are left out, by reason, in a sentence; empty where none is."""
    if not prepared.left_out:
        return ""
    reasons = Counter(generated.reason or "" for _, generated in prepared.left_out)
    named = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in reasons.most_common())
    whole = len(prepared.cases) + len(prepared.left_out)
    return f"{len(prepared.left_out)} of {whole} cases are left out because they cannot become a patient: {named}."


def playable_cases(prepared: Prepared, known: Framework) -> tuple[Case, ...]:
    """Return the cases that can be played; raise ``UsageError`` where there is none."""
    if not prepared.cases:
        raise UsageError(f"No case can be played under {known.title}. {left_out_words(prepared)}".rstrip())
    return prepared.cases


def read_images(text: str) -> str:
    """Read ``with`` or ``without`` as the setting ``images``; raise ``UsageError`` for anything else."""
    if text not in (WITH, "without"):
        raise UsageError(f"There is no --images {text!r}: write with or without.")
    return WITH if text == WITH else ""


def check_pictures(campaign: Campaign, registry: Registry) -> None:
    """Raise ``UsageError`` where a run with pictures would fail: its prompts, its doctor's model, or a picture's file.

    A file must be there and be what was imported.
    """
    if not campaign.settings.images:
        return
    check_picture_prompt(campaign.pack)
    if why := refusal(registry.spec(campaign.tested)):
        raise UsageError(why)
    for case in campaign.cases:
        for image in local_images(case.images):
            try:
                contents(image)
            except UsageError as error:
                raise UsageError(f"Case {case.case_key} cannot be shown as it was: {error}") from None


def without_words(images: str, cases: Sequence[Case]) -> str:
    """Return how many cases have no picture to show in a run with pictures, in a sentence; empty where all have."""
    bare = sum(not local_images(case.images) for case in cases) if images else 0
    if not bare:
        return ""
    return f"{bare} of the {len(cases)} cases {'has' if bare == 1 else 'have'} no picture in a file: played without."


def tokens_a_call(images: str, cases: Sequence[Case]) -> float:
    """Return the prompt tokens that a call of the doctor is taken to need for pictures, on average over the cases."""
    if not images:
        return 0.0
    return sum(len(local_images(case.images)) for case in cases) / len(cases) * TOKENS_A_PICTURE


def header_of(campaign: Campaign, registry: Registry, now: float | None = None) -> RunHeader:
    """Check a campaign and describe it; raise ``UsageError`` where it cannot be run as asked."""
    if not campaign.cases:
        raise UsageError("No case was chosen.")
    if campaign.trials < 1:
        raise UsageError("--trials must be at least 1.")
    campaign = in_full(campaign, registry)
    if campaign.settings.images and not any(local_images(case.images) for case in campaign.cases):
        known = sum(bool(case.images) for case in campaign.cases)
        addresses = f" ({known} with an address, which is never fetched)" if known else ""
        raise UsageError(
            f"None of the {len(campaign.cases)} chosen cases has a picture in a file{addresses}: import cases with "
            "their pictures, or run with --images without."
        )
    many = campaign.choices_of_many()
    if not many and any(question_type == "mcq_many" for _, question_type in campaign.arms):
        raise UsageError(
            f"No question of {campaign.case_set} has choices, so that there are none to offer under mcq_many: leave it "
            "out of the arms."
        )
    created = time.time() if now is None else now
    # all that makes a campaign what it is; what changes none of its results is left out
    names = campaign.names
    stored = {role: names[role] for role in STORED_SEATS}
    if tested_seat(campaign.framework).role not in STORED_SEATS:
        stored["doctor"] = campaign.tested  # the column of who is under test
    fields = {
        "protocol": campaign.protocol,
        **stored,
        "prompt_pack": pack_place(campaign.prompts),
        "prompt_hash": campaign.pack.hash,
        "case_set": campaign.case_set,
        "case_set_hash": case_set_hash(list(campaign.cases)),
        "arms": [list(arm) for arm in campaign.arms],
        "many_choices": many,
        "trials": campaign.trials,
        "seed": campaign.seed,
        # a cap of messages is said of every framework, also where it has none
        "settings": {
            "max_messages": None,
            **campaign.settings.stated(),
            **names.extra,
            **_grading(campaign),
            **({"openings": openings_by(campaign.cases)} if campaign.framework.cases.patient_opens else {}),
            **_items(campaign),
        },
        "code_version": __version__,
    }
    fingerprint = _hash_of(fields)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(created))
    return RunHeader(
        run_id=f"{stamp}-{fingerprint[:8]}",
        fingerprint=fingerprint,
        created_at=created,
        cases=list(campaign.cases),
        visitor=access.visitor().name,
        data_set_hash=campaign.data_set_hash,
        data_set_cases=campaign.data_set_cases,
        **fields,
    )


def _grading(campaign: Campaign) -> dict[str, str]:
    """Return the hash of the prompts of grading where a model grades under others than the campaign's own."""
    free = any(question_type in GRADED_TYPES for _, question_type in campaign.arms)
    if grades_itself(campaign.framework) or not free or not is_model(campaign.names.grader):
        return {}
    return {"grading_prompts": default_pack().hash}


def _items(campaign: Campaign) -> dict[str, str]:
    """Return the hash of imported or edited items if the conversations depend on them."""
    hash_ = hash_of_items(campaign.cases) if campaign.framework.cases.uses_items(campaign.names) else ""
    return {"items": hash_} if hash_ else {}


def _hash_of(fields: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()


def names_of(known: Framework, stored: dict[str, str], settings: dict[str, Any]) -> CastNames:
    """Return the cast of a stored run from its columns and, for the other seats, its settings."""
    more = {seat.role: str(settings[seat.role]) for seat in known.seats if settings.get(seat.role)}
    if tested_seat(known).role not in STORED_SEATS:
        more[tested_seat(known).role] = stored["doctor"]
        stored = {**stored, "doctor": ""}
    return CastNames(**{**stored, **more})


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
        raise UsageError(f"Run {header.run_id} is a human baseline: go on with it on the page Judges, under Experts.")
    known = framework(header.protocol)
    pack = pack_of(known, header.prompt_pack)
    if pack.hash != header.prompt_hash:
        raise AnamnesisError(
            f"The prompt pack {header.prompt_pack} has changed since run {header.run_id} began "
            f"({header.prompt_hash} then, {pack.hash} now): restore it, or start a new run."
        )
    names = names_of(known, {role: getattr(header, role) for role in STORED_SEATS}, header.settings)
    return Campaign(
        names=names,
        placed=frozenset(names),  # where its models were reached they are reached again
        cases=tuple(header.cases),
        case_set=header.case_set,
        arms=tuple((f, q) for f, q in header.arms),  # type: ignore[misc]
        many_choices=tuple(header.many_choices),
        data_set_hash=header.data_set_hash,
        data_set_cases=header.data_set_cases,
        trials=header.trials,
        seed=header.seed,
        prompts=header.prompt_pack,
        protocol=header.protocol,
        settings=stored_settings(known, header.settings),
    )


def trials_of(header: RunHeader) -> list[Trial]:
    """Return every trial of a run: one of each case first, so that a stopped run covers all cases.

    The others of a case follow each other: what a provider still holds of its prompts need not be read again. No trial
    is put before others for its length, which nothing tells beforehand: arms and caps are one for all of a run, and
    calls, tokens and seconds do not grow with a vignette's length. A fork has the seed of its parent, and trials of an
    edit have those of the trials before.
    """
    arms: tuple[Arm, ...] = tuple((f, q) for f, q in header.arms)  # type: ignore[misc]
    many, numbers = tuple(header.many_choices), range(header.trials)
    named = header.edited.case_key if header.edited else None
    return [
        Trial(
            trial_id(header.run_id, case.case_key, number),
            case,
            number,
            header.seed if header.fork else seed_of(header.seed, named or case.case_key, number),
            arms,
            many,
        )
        for case, number in [
            *((case, number) for number in numbers[:1] for case in header.cases),
            *((case, number) for case in header.cases for number in numbers[1:]),
        ]
    ]


def branch_of(header: RunHeader) -> Branch | None:
    """Return where a fork takes up another conversation; ``None`` for any other run."""
    fork = header.fork
    return Branch(tuple(Turn(role, text) for role, text in fork.kept), fork.parent) if fork else None


def unfinished_twin(fingerprint: str, done: dict[str, int]) -> RunHeader | None:
    """Return the newest run of the same fingerprint that is not complete; ``done`` holds run id → trials done."""
    return max(_unfinished(done, fingerprint=fingerprint), key=lambda header: header.created_at, default=None)


def begun_with_other_cast(
    asked: Campaign, header: RunHeader, registry: Registry, done: dict[str, int]
) -> RunHeader | None:
    """Return the newest unfinished run of a campaign whose unnamed seats were filled otherwise when it began.

    ``header`` describes the campaign as it would begin now: since then the study may have another cast.
    """
    alike = _unfinished(done, doctor=header.doctor, protocol=header.protocol, case_set_hash=header.case_set_hash)
    for earlier in sorted(alike, key=lambda earlier: earlier.created_at, reverse=True):
        again = header_of(in_full(asked, registry, seats_taken(earlier, registry, idle=True)), registry)
        if again.fingerprint == earlier.fingerprint:
            return earlier
    return None


def _unfinished(done: dict[str, int], **alike: str) -> list[RunHeader]:
    """Return the runs that are not complete and whose headers hold these values."""
    found: list[RunHeader] = []
    for path in journals():
        try:
            header = read_header(path)
        except AnamnesisError:
            continue  # killed before its first line was written, or damaged: no reason not to start another run
        if (
            all(getattr(header, name) == value for name, value in alike.items())
            and done.get(header.run_id, 0) < len(header.cases) * header.trials
        ):
            found.append(header)
    return found


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
        with Store().read() as cursor:
            stored = run_ids(cursor)
        if (found := next((name for name in stored if name.startswith(run)), None)) is not None:
            raise UsageError(
                f"The journal of run {found} is not here, so it cannot go on: put it back at {journal_path(found)}. "
                "What the database holds of it can be read, reported and exported as before."
            )
        raise UsageError(f"There is no run {run!r}; `python -m core runs` lists them.")
    raise UsageError(f"{run!r} is the beginning of {len(matches)} runs: {', '.join(matches[:5])}.")
