"""What else differs between the sides of a comparison: cast, prompts, caps, cases, trials, seeds, one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.persona import label, parse_persona
from core.store.runs import Run

_NOT_SETTINGS = frozenset({"folder", "prompts", "max_messages", "images"})
"""Notes of an import that are no choices of a run, the cap and the pictures, which have lines of their own."""
_HASH = 8
UNKNOWN = "not recorded"


@dataclass(frozen=True)
class Setting:
    """One setting with its value on each side; runs of a side that disagree are listed with slashes."""

    name: str
    values: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether all sides agree."""
        return len(set(self.values)) <= 1


def side_by_side(sides: Sequence[Sequence[Run]]) -> list[Setting]:
    """Return every setting with its value on each side, where a side is the runs behind a figure.

    The doctor is left out: it is what is compared. Of sampling settings only those that some run set are listed.
    """
    extra = sorted({name for runs in sides for run in runs for name, v in run.settings.items() if v is not None})
    read: dict[str, Callable[[Run], str]] = {
        **_SETTINGS,
        **{_words(name): _setting(name) for name in extra if name not in _NOT_SETTINGS},
        **({"Persona": _persona} if "persona" in extra else {}),
        **({"Pictures": _pictures} if "images" in extra else {}),
    }
    return [Setting(name, tuple(_joined(runs, value) for runs in sides)) for name, value in read.items()]


def differing(settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings in which the sides differ."""
    return [setting for setting in settings if not setting.same]


def _joined(runs: Sequence[Run], value: Callable[[Run], str]) -> str:
    return " / ".join(dict.fromkeys(value(run) for run in sorted(runs, key=lambda run: run.created_at))) or "no run"


def _prompts(run: Run) -> str:
    # a release held under several prompts has several hashes joined by plus signs
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


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


_SETTINGS: dict[str, Callable[[Run], str]] = {
    "Prompts (name and hash)": _prompts,
    "Patient": lambda run: run.patient,
    "Grader": lambda run: run.grader,
    "Summariser": lambda run: run.summariser,
    "Cap of the conversation": _cap,
    "Case set": lambda run: f"{run.case_set} {run.case_set_hash[:_HASH]}, {run.cases:,} cases",
    "Trials of a case": lambda run: str(run.trials),
    "Seed": lambda run: UNKNOWN if run.source == "release" else str(run.seed),
    "Protocol": lambda run: run.protocol,
    "Source": lambda run: "imported release" if run.source == "release" else "run here",
    "Code version": lambda run: UNKNOWN if run.source == "release" else run.code_version,
}
