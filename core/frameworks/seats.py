"""The seats of all frameworks in words, and what is to be known of who takes them."""

from __future__ import annotations

from collections.abc import Mapping

from core.frameworks.base import frameworks
from core.frameworks.casting import is_model, is_rule


def kinds_in_words() -> dict[str, str]:
    """Return reference kind → who plays by it and how, of the seats of all frameworks."""
    words: dict[str, str] = {}
    for one in frameworks().values():
        for seat in one.seats:
            for kind in seat.rules:
                words.setdefault(kind, one.speech.kinds.get(kind, f"Reference {seat.title} (rules, no model)"))
    return words


def seat_titles() -> dict[str, str]:
    """Return role → its title, of the seats of all frameworks."""
    return {seat.role: seat.title.capitalize() for one in reversed(frameworks().values()) for seat in one.seats}


def remarks(tested: str, others: Mapping[str, str]) -> tuple[str, ...]:
    """Return in words what is to be known of a model's cast: that rules play beside it, that an answerer grades itself.

    ``others`` are the full names of those at work beside the one under test, by seat.
    """
    if not is_model(tested) or tested.startswith("human/"):
        return ()
    titles = seat_titles()
    ruled = [f"the {titles.get(role, role).lower()}" for role, name in others.items() if is_rule(name)]
    *first, last = ruled or [""]
    found = [f"rules play {', '.join(first)}{' and ' * bool(first)}{last}"] if ruled else []
    grader = others.get("grader")
    if grader and not is_rule(grader) and grader in (tested, others.get("solver")):
        found.append(f"{grader} grades itself")
    return tuple(found)
