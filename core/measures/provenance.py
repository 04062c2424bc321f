"""Further differences between the sides of a comparison: cast, prompts, caps, cases, trials, seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from core.asking.persona import label, parse_persona
from core.frameworks.base import title_of
from core.journal import IMPORTED
from core.store.condition_parts import DOCTOR, addresses_of, other_seats
from core.store.conditions import Condition
from core.store.queries.runs import Run

_NOT_SETTINGS = frozenset(
    (
        "folder prompts prompts_by_seat max_messages images base_url own_address addresses solver staff extends "
        "first_trial cases_attached_at"
    ).split()
)
"""Stored settings that are not listed: notes and times of an import, the run that a run extends, and what has separate
lines."""
_HASH = 8
UNKNOWN = "not recorded"
NO_PLAYER = "nobody"


@dataclass(frozen=True)
class ComparedRuns:
    """One side of a comparison: the runs behind a figure, and their seats.

    ``seats`` are by role, without the doctor; ``served`` and ``addresses`` by role, with the doctor (``Condition``).
    """

    runs: Sequence[Run]
    doctor: str = ""
    seats: Mapping[str, str] = field(default_factory=dict)
    served: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def side_of(condition: Condition, runs: Sequence[Run]) -> ComparedRuns:
    """Return the side of a condition; ``runs`` may include runs of other conditions."""
    of_condition = [run for run in runs if run.run_id in condition.runs]
    return ComparedRuns(of_condition, condition.doctor, condition.seats, condition.served, condition.addresses)


@dataclass(frozen=True)
class Setting:
    """One setting with its value on each side; different values of the runs of a side are joined by slashes."""

    name: str
    values: tuple[str, ...]

    @property
    def same(self) -> bool:
        return len(set(self.values)) <= 1


def side_of_run(run: Run, judged_by: Sequence[str] = ()) -> ComparedRuns:
    """Return the side of one run by its header; ``judged_by`` are the graders whose verdicts count, if known."""
    seats = other_seats(run)
    if judged_by:
        seats["grader"] = " and ".join(judged_by)
    return ComparedRuns([run], run.doctor, seats, {}, addresses_of(run, judged_by or [run.grader]))


def settings_side_by_side(sides: Sequence[ComparedRuns]) -> list[Setting]:
    """Return every setting with its value on each side.

    The doctor is left out, since it is the subject of the comparison. A sampling setting is listed if some run set it.
    Served models and addresses are listed for seats that have the same model on all sides: the served model if it is
    known, the address if one was set and either the sides differ or there is only one side.
    """
    runs = [run for side in sides for run in side.runs]
    extra = sorted({name for run in runs for name, value in run.settings.items() if value is not None})
    read: dict[str, Callable[[Run], str]] = {
        **_SETTINGS,
        **{_setting_title(name): _setting(name) for name in extra if name not in _NOT_SETTINGS},
        **({"Persona": _persona} if "persona" in extra else {}),
        **({"Pictures": _pictures} if "images" in extra else {}),
    }
    settings = {name: Setting(name, tuple(_joined(side.runs, value) for side in sides)) for name, value in read.items()}
    roles = ("patient", "grader", "summariser", *_extra_roles(side.seats for side in sides))
    seats = {role: Setting(role.capitalize(), tuple(_seat(side, role) for side in sides)) for role in roles}
    first = "Prompts"
    doctor = Setting("Doctor", tuple(side.doctor for side in sides))
    reached = [line for role, seat in {DOCTOR: doctor, **seats}.items() if seat.same for line in _reached(role, sides)]
    others = [setting for name, setting in settings.items() if name != first]
    return [settings[first], *seats.values(), *reached, *others]


def graders(sides: Sequence[ComparedRuns]) -> tuple[str, ...]:
    """Return for each side the grader whose verdicts on free responses count."""
    return tuple(_seat(side, "grader") for side in sides)


def differing(settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings that differ between sides; the name of the log file of a run is no setting."""
    return [setting for setting in settings if not setting.same and setting.name != _setting_title("log")]


def _joined(runs: Sequence[Run], value: Callable[[Run], str]) -> str:
    return " / ".join(dict.fromkeys(value(run) for run in sorted(runs, key=lambda run: run.created_at))) or "no run"


def _extra_roles(seats: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(sorted({role for side in seats for role in side} - {"patient", "grader", "summariser"}))


def _seat(side: ComparedRuns, role: str) -> str:
    return side.seats.get(role) or (NO_PLAYER if side.runs else "no run")


def _reached(role: str, sides: Sequence[ComparedRuns]) -> list[Setting]:
    """Return the served model and the address of a seat, if they are to be listed."""
    lines = []
    served = tuple(" / ".join(side.served.get(role, ())) or UNKNOWN for side in sides)
    if UNKNOWN not in served or len({*served} - {UNKNOWN}) > 1:
        lines.append(Setting(f"Served model of the {role}", served))
    addresses = tuple(" / ".join(side.addresses.get(role, ())) or "the model's own" for side in sides)
    if len(set(addresses)) > 1 or (len(sides) == 1 and any(side.addresses.get(role) for side in sides)):
        lines.append(Setting(f"Address of the {role}", addresses))
    return lines


def _prompts(run: Run) -> str:
    # a release that was run with several prompts has several hashes joined by plus signs
    hashes = " + ".join(part[:_HASH] for part in run.prompt_hash.split("+"))
    return f"{run.prompt_pack} {hashes}"


def _cap(run: Run) -> str:
    if "max_messages" not in run.settings:
        return UNKNOWN
    cap = run.settings["max_messages"]
    return "none" if cap is None else f"{cap} messages"


def _setting(name: str) -> Callable[[Run], str]:
    return lambda run: "default" if run.settings.get(name) is None else str(run.settings[name])


def _persona(run: Run) -> str:
    return label(parse_persona(str(run.settings.get("persona") or "")))


def _pictures(run: Run) -> str:
    return "shown to the doctor" if run.settings.get("images") else "not shown"


def _setting_title(name: str) -> str:
    return name.replace("_", " ").capitalize()


_SETTINGS: dict[str, Callable[[Run], str]] = {
    "Prompts": _prompts,
    "Limit of messages": _cap,
    "Case set": lambda run: f"{run.case_set} {run.case_set_hash[:_HASH]}, {run.cases:,} cases",
    "Trials of a case": lambda run: str(run.trials),
    "Seed": lambda run: UNKNOWN if run.source == "release" else str(run.seed),
    "Framework": lambda run: title_of(run.protocol),
    "Source": lambda run: (
        "imported release" if run.source == "release" else "imported log" if run.source in IMPORTED else "run here"
    ),
    "Code version": lambda run: UNKNOWN if run.source == "release" else run.code_version,
}
