"""The plan of a campaign: cast × cases × trials × arms, its fingerprint, and how a journal's header becomes a campaign.

The cases that can be played (with profiles, with pictures) are determined before any model is called.
"""

from __future__ import annotations

import calendar
import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from core import __version__, access
from core.asking.parts import check_picture_prompt
from core.asking.scene import Turn
from core.case import Case, case_set_hash, data_set_of
from core.errors import AnamnesisError, UsageError
from core.events import ASKED_TYPES, FORMATS, GRADED_TYPES
from core.frameworks.base import (
    ALL_ARMS,
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
from core.frameworks.seats import remarks
from core.images import contents, local_images
from core.journal import IMPORTED, RunHeader, seed_of, trial_id
from core.models.keys import find_key, seat_variable
from core.models.pictures import TOKENS_A_PICTURE, refusal
from core.models.registry import Registry, load_registry
from core.prompts import known_parts, pack_place
from core.store.condition_parts import prompts_hash
from core.store.database import Store
from core.store.queries.history_items import newest_items, newest_openings
from core.store.queries.profiles import newest_profiles
from core.store.queries.runs import Run
from core.text.case_items import ItemSet, hash_of_items, items_from_json, items_made_by, openings_by, with_items
from core.text.profiles import WITHOUT_PROFILE, Prepared

_STAMP = "%Y%m%d-%H%M%S"
HUMAN = "human"
"""Prefix of the doctor's name in a baseline that an expert answers by hand: ``human/NAME``."""
WITH = "with"
"""The setting ``images`` of a run whose doctor sees the pictures; empty otherwise."""
IMAGES = ("", WITH)


def parse_arms(text: str, protocol: str = "") -> tuple[Arm, ...]:
    """Read ``all``, ``paper``, or ``format:question_type`` pairs with commas; raise ``UsageError`` otherwise."""
    framework_ = framework(protocol)
    if text in ("all", "paper"):
        return framework_.arms if text == "all" else paper_arms(framework_)
    arms: list[Arm] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        format_, _, question_type = part.partition(":")
        named = [
            (f, q) for f, q in ALL_ARMS if format_ in (f, "*") and (question_type in (q, "*") or not question_type)
        ]
        if not named:
            raise UsageError(
                f"{part!r} is no arm: write format:question_type with a format of {', '.join(FORMATS)} and a question "
                f"type of {', '.join(ASKED_TYPES)} (closing: frq only); or all, or paper."
            )
        arms += named
    if not arms:
        raise UsageError("No arm was named: write for example vignette:mcq,multi_turn:frq, or all, or paper.")
    return tuple(dict.fromkeys(arms))


def in_full(campaign: Campaign, registry: Registry, study: StudyCast | None = None) -> Campaign:
    """Return a campaign with all seats and settings filled in; raise ``UsageError`` if it cannot run.

    Seats and settings that are set stay, whatever the defaults and the ``study`` (``study_cast``) are now.
    """
    framework_, study = campaign.framework, study or {}
    # a resumed run of version 0.4 may still have the question type that mcq_many replaced
    foreign = [
        f"{f}:{q}" for f, q in campaign.arms if (f, "mcq_many" if q == "mcq_answers" else q) not in framework_.arms
    ]
    if foreign:
        arms = ", ".join(f"{f}:{q}" for f, q in framework_.arms)
        raise UsageError(f"The protocol {framework_.name} does not ask {', '.join(foreign)}, but {arms}.")
    # seats that the framework lacks get a rule, which costs nothing
    missing = {role: rule for role, rule in REFERENCE.items() if seat_of(framework_, role) is None}
    names = full_names(framework_, campaign.names, registry, study)
    from_study = {
        role: study[role].address
        for role, (_, why) in seating(framework_, campaign.names, registry, study).items()
        if why == "study"
    }
    names = names.but(**{role: names[role] or rule for role, rule in missing.items()})
    tested = names[tested_seat(framework_).role]
    images = campaign.settings.images
    if images not in IMAGES:
        raise UsageError(f"The setting images is {images!r}: it must be {WITH!r}, or empty for none.")
    if images and not is_model(tested):
        raise UsageError(
            f"Pictures are sent to a doctor that is a model, and {tested} is none: choose a model, or --images without."
        )
    full = replace(campaign, names=names, settings=framework_.complete(campaign.settings, names))
    models = models_of(full)
    # the study's models keep their addresses: another server may serve another model under the same name
    base_url = full.settings.base_url
    moved = {role: Reach(address) for role, address in from_study.items() if address and address != base_url}
    full = full.reached({role: how for role, how in moved.items() if role in models})
    full = replace(full, placed=campaign.placed | models.keys())
    if not full.settings.base_url:
        return full
    # the address is meant for the tested model: other seats whose models are served elsewhere do not use it
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
    previous = filter(None, full.settings.own_address.split(","))
    own_address = ",".join(dict.fromkeys([*previous, *elsewhere]))
    return replace(full, settings=full.settings.but(own_address=own_address))


def missing_keys(campaign: Campaign, registry: Registry) -> tuple[MissingKey, ...]:
    """Return the models of a campaign whose key is missing, each with its seats."""
    full = in_full(campaign, registry)
    seats_by_model: dict[tuple[str, str], list[str]] = {}
    for seat, name in models_of(full).items():
        reach = full.reach.get(seat, Reach())
        if reach.address or reach.key or find_key(seat_variable(seat)):
            continue
        if variable := registry.missing_key(name, base_url=full.settings.address_of(seat)):
            seats_by_model.setdefault((name, variable), []).append(seat)
    return tuple(MissingKey(tuple(seats), name, variable) for (name, variable), seats in seats_by_model.items())


def models_of(campaign: Campaign) -> dict[str, str]:
    """Return seat → name of the language models in a campaign's seats."""
    return {seat.role: name for seat in campaign.framework.seats if is_model(name := campaign.names[seat.role])}


def human_seats(names: CastNames) -> bool:
    return any(name == "human" for name in names.values())


def study_cast(
    runs: Sequence[Run], protocol: str, case_set: str, tested: str, registry: Registry
) -> dict[str, StudySeat]:
    """Return the cast with which another model was last tested on the same data set, according to ``runs``.

    A run counts if it is a local campaign with the same framework, on all or a part of the same data set; a seat counts
    if the run used it. Empty unless ``tested``, a name or alias, is a language model.
    """
    framework_, data_set = framework(protocol), data_set_of(case_set)
    if not is_model(tested) or registry.is_application(tested):
        return {}
    doctor = registry.spec(tested).name
    cast: dict[str, StudySeat] = {}
    for run in sorted(runs, key=lambda run: run.created_at, reverse=True):
        if (
            run.source == "local"
            and not run.study
            and (run.protocol, run.data_set) == (framework_.name, data_set)
            and run.doctor != doctor
            and is_model(run.doctor)
            and not run.doctor.startswith(f"{HUMAN}/")
            and not registry.is_application(run.doctor)
        ):
            cast = {**seats_taken(run, registry), **cast}
    return cast


def seats_taken(run: Run | RunHeader, registry: Registry, *, idle: bool = False) -> dict[str, StudySeat]:
    """Return the cast of the seats that a run used, or with ``idle`` of all its seats.

    A seat is left out if its model or rule is no longer available.
    """
    framework_ = framework(run.protocol)
    names = names_of(framework_, {role: getattr(run, role) for role in STORED_SEATS}, run.settings)
    settings = stored_settings(framework_, run.settings)
    seats: dict[str, StudySeat] = {}
    at_work = seats_at_work(framework_, run.doctor, run.arms)
    for seat in other_seats(framework_):
        role, name = seat.role, names[seat.role]
        if not name or name == HUMAN or not (idle or role in at_work):
            continue
        address = settings.address_of(role) if is_model(name) else None
        try:
            full_name(seat.title, name, registry, seat.rules)
            variable = registry.missing_key(name, base_url=address) if is_model(name) else None
        except UsageError:  # a rule or a provider that no longer exists
            continue
        problem = f"the key {variable} is missing" if variable and not find_key(seat_variable(role)) else ""
        if address and run.visitor != access.visitor().name:  # never send cases to an address from another visitor
            problem = "somebody else gave the address of its server"
        seats[role] = StudySeat(name, run.run_id, run.doctor, address, problem)
    return seats


def campaigns_of_doctors(
    campaign: Campaign, doctors: Sequence[str], registry: Registry, study: StudyCast | None = None
) -> list[Campaign]:
    """Return a campaign in full for each of these doctors, with the same patient, grader and so on.

    Unset seats are filled as for the first doctor that is a model.
    """
    role = tested_seat(campaign.framework).role
    shared = in_full(replace(campaign, names=campaign.names.but(**{role: first_model(doctors)})), registry, study)
    return [in_full(replace(shared, names=shared.names.but(**{role: doctor})), registry) for doctor in doctors]


def first_model(doctors: Sequence[str]) -> str:
    """Return the first of the doctors that is a model, else the first."""
    return next(filter(is_model, doctors), doctors[0])


def who_sits(
    campaign: Campaign, full: Campaign, registry: Registry, study: StudyCast | None = None, *, flags: bool = True
) -> str:
    """Return one line on the seats that were filled automatically (``full`` is ``campaign`` in full), and why.

    With ``flags`` the line ends with the command-line options that set these seats. Empty if no such seat is used, or
    if the tested seat is no model.
    """
    tested = full.tested
    at_work = seats_at_work(full.framework, tested, full.arms) if is_model(tested) else ()
    unnamed = [role for role in at_work if not campaign.names[role]]
    if not unnamed:
        return ""
    title, study = tested_seat(full.framework).title, study or {}
    whys = seating(full.framework, campaign.names, registry, study)
    roles_by_cause: dict[str, list[str]] = {}
    for role in unnamed:
        name, address = full.names[role], full.settings.address_of(role)
        words = {
            "default": "from [defaults]",
            "study": f"as in run {study[role].run_id} of {study[role].doctor}" if role in study else "",
            "own": f"the {title}'s own model",
            "usual": f"an application is the {title} only",
        }
        why = words[whys[role][1]]
        if whys[role][1] == "own" and role in study:
            why += f", because {study[role].name} of run {study[role].run_id} cannot be asked: {study[role].problem}"
        addressed = full.settings.base_url or address
        url = registry.spec(name, base_url=address).base_url if is_model(name) and addressed else None
        roles_by_cause.setdefault(f"{name} ({why}{f', at {url}' if url else ''})", []).append(role)
    line = "; ".join(f"{', '.join(roles)}: {name}" for name, roles in roles_by_cause.items())
    return f"{line}. Name others with {', '.join(f'--{role}' for role in unnamed)}." if flags else f"{line}."


def remarks_of(run: Campaign | Run) -> tuple[str, ...]:
    """Return remarks on the cast and the cases of a campaign in full, or of a run."""
    if isinstance(run, Campaign):
        framework_, names = run.framework, run.names
    else:
        framework_ = framework(run.protocol)
        names = names_of(framework_, {role: getattr(run, role) for role in STORED_SEATS}, run.settings)
    tested = names[tested_seat(framework_).role]
    sentences = remarks(tested, {role: names[role] for role in seats_at_work(framework_, tested, run.arms)})
    if not isinstance(run, Campaign) and (extended := run.settings.get("extends")):
        sentences += (f"it adds trials or cases to the finished run {extended}, and figures count both together",)
    if isinstance(run, Campaign) and framework_.cases.plays_profiles:
        without = sum(case.profile is None for case in run.cases)
        if without:
            sentences += (f"{without:,} of {len(run.cases):,} cases have no profile: {WITHOUT_PROFILE}",)
    if not isinstance(run, Campaign) or run.trials == 1 or not is_model(tested):
        return sentences
    if run.settings.temperature is None and load_registry(programs=True).is_greedy(tested):
        sentences += (
            f"{tested} decodes greedily without --temperature, so that trials of a case may be one and the same",
        )
    return sentences


def prepared_cases(cases: Sequence[Case], played_by: Framework, store: Store | None = None) -> Prepared:
    """Return the cases as a framework plays them, and those that cannot be played with the reason.

    Profiles and items come from the database (``store``, or the usual one) if it exists.
    """
    store = store or Store()
    if played_by.cases.patient_opens:
        cases = with_openings(cases, store)
    if not store.path.exists():
        return played_by.cases.prepare(cases, {})
    keys = [case.case_key for case in cases]
    with store.read() as cursor:
        profiles = newest_profiles(cursor, keys) if played_by.cases.plays_profiles else {}
        rows = newest_items(cursor, keys) if played_by.cases.plays_items else []
    items = {(row.case_key, row.content_hash): ItemSet(items_from_json(row.items), row.made_by) for row in rows}
    cases = [with_items(case, items.get((case.case_key, case.content_hash))) for case in cases]
    return played_by.cases.prepare(cases, {case: stored.generated for case, stored in profiles.items()})


def with_openings(cases: Sequence[Case], store: Store) -> list[Case]:
    """Return the cases with the openings that models wrote for them; the others open by rule."""
    if not store.path.exists():
        return list(cases)
    with store.read() as cursor:
        written = newest_openings(cursor, [case.case_key for case in cases])
    openings = (written.get((case.case_key, case.content_hash), case.opening) for case in cases)
    return [case.model_copy(update={"opening": new}) for case, new in zip(cases, openings, strict=True)]


def left_out_words(prepared: Prepared) -> str:
    """Return a sentence with the number of excluded cases by reason; empty if no case is excluded."""
    if not prepared.left_out:
        return ""
    reasons = Counter(generated.reason or "" for _, generated in prepared.left_out)
    counts = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in reasons.most_common())
    total = len(prepared.cases) + len(prepared.left_out)
    return f"{len(prepared.left_out)} of {total} cases are left out because they cannot become a patient: {counts}."


def playable_cases(prepared: Prepared, played_by: Framework) -> tuple[Case, ...]:
    """Return the cases that can be played; raise ``UsageError`` if there is none."""
    if not prepared.cases:
        raise UsageError(f"No case can be played under {played_by.title}. {left_out_words(prepared)}".rstrip())
    return prepared.cases


def read_images(text: str) -> str:
    """Read ``with`` or ``without`` as the setting ``images``; raise ``UsageError`` for anything else."""
    if text not in (WITH, "without"):
        raise UsageError(f"There is no --images {text!r}: write with or without.")
    return WITH if text == WITH else ""


def check_pictures(campaign: Campaign, registry: Registry) -> None:
    """Raise ``UsageError`` if a run with pictures would fail: its prompts, its doctor's model, or a picture's file.

    A file must exist and be unchanged since its import.
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
    """Return a sentence with the number of cases without a picture in a run with pictures; empty if all have one."""
    bare = sum(not local_images(case.images) for case in cases) if images else 0
    if not bare:
        return ""
    return f"{bare} of the {len(cases)} cases {'has' if bare == 1 else 'have'} no picture in a file: played without."


def tokens_a_call(images: str, cases: Sequence[Case]) -> float:
    """Return the estimated prompt tokens for pictures in a call of the doctor, averaged over the cases."""
    if not images:
        return 0.0
    return sum(len(local_images(case.images)) for case in cases) / len(cases) * TOKENS_A_PICTURE


def header_of(
    campaign: Campaign, registry: Registry, now: float | None = None, begun: RunHeader | None = None
) -> RunHeader:
    """Check a campaign and return the header of its journal; raise ``UsageError`` if it cannot run."""
    if not campaign.cases:
        raise UsageError("No case was chosen.")
    if campaign.trials < 1:
        raise UsageError("--trials must be at least 1.")
    campaign = in_full(campaign, registry)
    if campaign.settings.images and not any(local_images(case.images) for case in campaign.cases):
        linked = sum(bool(case.images) for case in campaign.cases)
        addresses = f" ({linked} with an address, which is never fetched)" if linked else ""
        raise UsageError(
            f"None of the {len(campaign.cases)} chosen cases has a picture in a file{addresses}: import cases with "
            "their pictures, or run with --images without."
        )
    many = campaign.choices_of_many()
    if not many and any(question_type == "mcq_many" for _, question_type in campaign.arms):
        raise UsageError(
            f"No question of {campaign.case_set} has choices, so that there are none to offer under mcq_many: leave it "
            "out."
        )
    created = time.time() if now is None else now
    # the fingerprint covers everything that can change results; of the prompts the whole packs, as in version 0.6
    same = begun if begun and not changed_prompts(campaign, begun) else None
    names = campaign.names
    stored = {role: names[role] for role in STORED_SEATS}
    if tested_seat(campaign.framework).role not in STORED_SEATS:
        stored["doctor"] = campaign.tested  # the column ``doctor`` holds the tested model
    fields: dict[str, Any] = {
        "protocol": campaign.protocol,
        **stored,
        "prompt_pack": pack_place(campaign.prompts),
        "prompt_hash": same.prompt_hash if same else campaign.pack.hash,
        "case_set": campaign.case_set,
        "case_set_hash": case_set_hash(list(campaign.cases)),
        "arms": [list(arm) for arm in campaign.arms],
        "many_choices": many,
        "trials": campaign.trials,
        "seed": campaign.seed,
        # every run stores a cap of messages, also if its framework has none
        "settings": {
            "max_messages": None,
            **campaign.settings.stated(),
            **names.extra,
            **_grading(campaign, same),
            **({"openings": openings_by(campaign.cases)} if campaign.framework.cases.patient_opens else {}),
            **_items(campaign),
        },
        "code_version": __version__,
    }
    fingerprint = _hash_of(fields)
    fields["settings"] = {**fields["settings"], "prompts_by_seat": _prompts_by_seat(campaign)}
    return RunHeader(
        run_id=_run_id(created, fingerprint),
        fingerprint=fingerprint,
        created_at=created,
        cases=list(campaign.cases),
        visitor=access.visitor().name,
        data_set_hash=campaign.data_set_hash,
        data_set_cases=campaign.data_set_cases,
        **fields,
    )


def _run_id(second: float, fingerprint: str) -> str:
    return f"{time.strftime(_STAMP, time.gmtime(second))}-{fingerprint[:8]}"


def next_second(run_id: str) -> str:
    """Return the run id of the same campaign, begun a second later."""
    stamp, _, fingerprint = run_id.rpartition("-")
    return _run_id(calendar.timegm(time.strptime(stamp, _STAMP)) + 1, fingerprint)


def _prompts_by_seat(campaign: Campaign) -> dict[str, str]:
    """Return seat, or other part of a condition → hash of its prompts; a grader may have those of another pack."""
    own = campaign.pack.parts
    return {**own} if grades_itself(campaign.framework) else {**own, "grader": default_pack().parts["grader"]}


def changed_prompts(campaign: Campaign, begun: RunHeader) -> list[str]:
    """Return the seats of a campaign whose prompts have changed since its run began, and ``belief`` if it has.

    They are the tested seat, and those at which models sit: a request of theirs would be another one now.
    """
    known_parts.cache_clear()  # the files may be as they were, again
    now, tested = _prompts_by_seat(campaign), tested_seat(campaign.framework).role
    at_work = seats_at_work(campaign.framework, campaign.tested, campaign.arms)
    asked = {tested, *(role for role in at_work if is_model(campaign.names[role]))}
    asked |= {"belief"} if begun.settings.get("probe") else set()
    return sorted(part for part in asked if prompts_hash(begun, part) != now.get(part, ""))


def _grading(campaign: Campaign, same: RunHeader | None) -> dict[str, str]:
    """Return the hash of the grading prompts if a model grades with other prompts than the campaign's."""
    free = any(question_type in GRADED_TYPES for _, question_type in campaign.arms)
    if grades_itself(campaign.framework) or not free or not is_model(campaign.names.grader):
        return {}
    return {"grading_prompts": str(same.settings.get("grading_prompts")) if same else default_pack().hash}


def _items(campaign: Campaign) -> dict[str, str]:
    """Return hash and origin of imported, edited or a model's items if the conversations depend on them."""
    hash_ = hash_of_items(campaign.cases) if campaign.framework.cases.uses_items(campaign.names) else ""
    return {"items": hash_, "items_by": items_made_by(campaign.cases)} if hash_ else {}


def _hash_of(fields: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)).hexdigest()


def names_of(framework_: Framework, stored: dict[str, str], settings: dict[str, Any]) -> CastNames:
    """Return the cast of a stored run from its columns and, for the other seats, its settings."""
    more = {seat.role: str(settings[seat.role]) for seat in framework_.seats if settings.get(seat.role)}
    if tested_seat(framework_).role not in STORED_SEATS:
        more[tested_seat(framework_).role] = stored["doctor"]
        stored = {**stored, "doctor": ""}
    return CastNames(**{**stored, **more})


def campaign_of(header: RunHeader) -> Campaign:
    """Return the campaign that a journal's header describes, to be resumed.

    Raises ``UsageError`` for a human baseline, which only its expert can continue, and for a run of a release.
    """
    if header.source in IMPORTED:
        raise UsageError(
            f"Run {header.run_id} came with a log and has all its trials from there, so it cannot be resumed: run "
            f"{header.doctor} yourself."
        )
    if header.source == "release":
        raise UsageError(
            f"Run {header.run_id} came with a release and has all its trials from there, so it cannot be resumed: "
            f"import the release again for what is new in it, or run {header.doctor} yourself."
        )
    if header.doctor.startswith(f"{HUMAN}/"):
        raise UsageError(f"Run {header.run_id} is a human baseline: go on with it on the page Trust, under Experts.")
    framework_ = framework(header.protocol)
    names = names_of(framework_, {role: getattr(header, role) for role in STORED_SEATS}, header.settings)
    campaign = Campaign(
        names=names,
        placed=frozenset(names),  # all models keep the addresses of the original run
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
        settings=stored_settings(framework_, header.settings),
    )
    if changed := changed_prompts(campaign, header):
        raise AnamnesisError(
            f"The prompts of {', '.join(changed)} in {header.prompt_pack} have changed since run "
            f"{header.run_id} began ({header.prompt_hash} then, {campaign.pack.hash} now): restore them, or start a "
            "new run."
        )
    return campaign


def trials_of(header: RunHeader) -> list[Trial]:
    """Return every trial of a run: first one of each case, so that a stopped run covers all cases.

    The other trials of a case follow each other, so that they hit the provider's prompt cache. Trials are not sorted by
    length, because nothing predicts it: arms and caps are the same in all of a run, and calls, tokens and seconds do
    not grow with the length of a vignette. A branch has the seed of its parent; trials of an edited case have the seeds
    of the original case's trials.
    """
    arms: tuple[Arm, ...] = tuple((f, q) for f, q in header.arms)  # type: ignore[misc]
    many, numbers = tuple(header.many_choices), range(header.first_trial, header.first_trial + header.trials)
    original_key = header.edited.case_key if header.edited else None
    return [
        Trial(
            trial_id(header.run_id, case.case_key, number),
            case,
            number,
            header.seed if header.fork else seed_of(header.seed, original_key or case.case_key, number),
            arms,
            many,
        )
        for case, number in [
            *((case, number) for number in numbers[:1] for case in header.cases),
            *((case, number) for case in header.cases for number in numbers[1:]),
        ]
    ]


def branch_of(header: RunHeader) -> Branch | None:
    """Return the conversation that a branch continues; ``None`` for any other run."""
    origin = header.fork
    return Branch(tuple(Turn(role, text) for role, text in origin.kept), origin.parent) if origin else None
