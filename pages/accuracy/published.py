"""Published figures next to those of this database, and printed tests and expert figures next to own ones."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from core.measures.base import Section
from core.measures.printed import EXPERTS_PRINTED, TESTS_PRINTED
from core.measures.published import PUBLICATIONS, PUBLISHED, Publication
from core.store.selection import Selection
from pages.kit.look import FORMAT, QUESTION_TYPE
from pages.kit.names import model_name
from pages.kit.section import draw_section, section_result
from pages.kit.view import Statistics, names_on

Shown = Publication | Literal["tests", "experts"]
SHOWN: Final[dict[Shown, str]] = {
    **dict(PUBLICATIONS.items()),
    "tests": "Johri et al. 2023, preprint: tests between formats",
    "experts": "Johri et al. 2025 and preprint: experts, patients and graders",
}
_ARM: Final[dict[str, str]] = {**dict(FORMAT.items()), **dict(QUESTION_TYPE.items())}
_PRINTED: Final[Mapping[Shown, Section]] = {"tests": TESTS_PRINTED, "experts": EXPERTS_PRINTED}


def draw_published(shown: Shown, selection: Selection, statistics: Statistics) -> None:
    """Draw a publication's figures and those of the selection's conditions; figures are named in words."""
    if shown in _PRINTED:
        section, options = _PRINTED[shown], None
    else:
        section, options = PUBLISHED, {"publication": shown, "interval": statistics.interval}
    names: dict[str, str] = {}
    for row in section_result(section, selection, {**section.options, **(options or {})}).figures:
        label = row.label
        names |= {name: _figure_in_words(name) for part in ("figure", "measure") if (name := label.get(part))}
        for answer in (str(label[part]) for part in ("first", "second") if part in label):
            names[answer] = ", ".join(_ARM.get(word, word) for word in answer.split(" "))
        if model := label["model"]:
            names[model] = _printed_name(model)
    draw_section(
        replace(section, caption=f"{SHOWN[shown]}."),
        selection,
        options=options,
        names={**names, **names_on(selection)},
        name=section.metric.name,
        titled=False,
    )


def _printed_name(label: str) -> str:
    """Return the name of a printed model, or of the two models of a test; other labels in words."""
    names = [model_name(model) for model in label.split("_vs_")]
    return _figure_in_words(label) if names == [label] and "_" in label else " and ".join(names)


def _figure_in_words(name: str) -> str:
    words = name.replace("_", " ")
    return re.sub(r"\b(ai|mcq|frq)\b", lambda match: match[0].upper(), words[:1].upper() + words[1:], flags=re.I)
