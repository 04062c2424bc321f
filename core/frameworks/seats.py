"""The seats of all frameworks in words, and remarks on their players."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from core.frameworks.base import frameworks
from core.frameworks.casting import is_model, is_rule


@functools.cache
def kinds_in_words() -> Mapping[str, str]:
    """Return reference kind → description, for the seats of all frameworks."""
    words: dict[str, str] = {}
    for framework in frameworks().values():
        for seat in framework.seats:
            for kind in seat.rules:
                words.setdefault(kind, framework.speech.kinds.get(kind, f"Reference {seat.title} (rules, no model)"))
    return words


def seat_titles() -> dict[str, str]:
    in_reverse = reversed(frameworks().values())  # the first framework's titles take precedence
    return {seat.role: seat.title.capitalize() for framework in in_reverse for seat in framework.seats}


def remarks(tested: str, others: Mapping[str, str]) -> tuple[str, ...]:
    """Return remarks on a model's cast: that rules play other seats, or that an answering model grades itself.

    ``others`` is seat → full name of the other active players.
    """
    if not is_model(tested) or tested.startswith("human/"):
        return ()
    titles = seat_titles()
    ruled = [f"the {titles.get(role, role).lower()}" for role, name in others.items() if is_rule(name)]
    *first, last = ruled or [""]
    sentences = [f"rules play {', '.join(first)}{' and ' * bool(first)}{last}"] if ruled else []
    grader = others.get("grader")
    if grader and not is_rule(grader) and grader in (tested, others.get("solver")):
        sentences.append(f"{grader} grades itself")
    return tuple(sentences)
