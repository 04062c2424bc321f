"""Where the things that a figure needs are made: a page, and the command that does the same in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core.errors import AnamnesisError
from core.frameworks.base import publisher


@dataclass(frozen=True)
class Start:
    """One way to make something: ``label`` and ``icon`` (a Material symbol) of the link to a page, and the command.

    ``page`` is the name of a page or of a part of one, ``query`` its URL parameters, which open the form. ``command``
    follows ``python -m core``. In both, ``{title}`` and ``{name}`` are those of the framework that published figures of
    the measure ``published``; frameworks are imported only when these words are shown.
    """

    label: str
    command: str
    page: str
    icon: str
    query: Mapping[str, str] = field(default_factory=dict, hash=False)
    published: str = ""

    @property
    def title(self) -> str:
        return self._filled(self.label)

    @property
    def in_terminal(self) -> str:
        return f"{self.title}: `python -m core {self.arguments}`."

    @property
    def arguments(self) -> str:
        return self._filled(self.command)

    def _filled(self, text: str) -> str:
        if not self.published:
            return text
        framework = publisher(self.published)
        return text.format(title=framework.title, name=framework.name)


class Missing(AnamnesisError):
    """Nothing is stored of what was asked for; a page shows the ``sentence`` with links, a terminal the commands."""

    def __init__(self, sentence: str, *starts: Start) -> None:
        super().__init__(in_terminal(sentence, starts))
        self.sentence = sentence
        self.starts = starts


def in_terminal(sentence: str, starts: tuple[Start, ...]) -> str:
    return " ".join([sentence, *(start.in_terminal for start in starts)])


def campaign_of(protocol: str, doctor: str = "reference/bayes") -> Start:
    """Return the start of a campaign of a framework with a doctor that needs no key."""
    command = f"run --protocol {protocol} --doctor {doctor}"
    return Start("Start a campaign", command, "runs", "play_arrow", {"runs_protocol": protocol, "doctor": doctor})


ANNOTATIONS = Start(
    "Import answers", "experts import FILE.csv", "experts", "playlist_add", {"section": "Import and export"}
)
CAMPAIGN = Start(
    "Start a campaign", "run --doctor reference/bayes", "runs", "play_arrow", {"doctor": "reference/bayes"}
)
BELIEF = Start("Start a campaign that asks for it", "run --doctor MODEL --probe", "runs", "play_arrow")
CASES = Start("Import cases", "import cases PATH", "cases", "upload_file", {"import": "yes"})
COMPLETIONS = Start("Test a model", "job completions --model MODEL --cases DATASET", "memorisation", "psychology")
FACTS = Start(
    "Have a model judge the facts", "job judge facts --by MODEL", "failures", "gavel", {"failures_tab": "Never asked"}
)
GRADING = Start(
    "Grade answers again",
    "job regrade --run RUN --grader reference/names",
    "graders",
    "rule",
    {"section": "Grade again"},
)
GRADING_CHOICES = replace(GRADING, command="job regrade --types mcq --grader MODEL")
LABELS = Start("Label cases", "data label CASE date 2024-05", "cases", "label", {"cases_tab": "Labels"})
PROFILES = Start(
    "Choose the data set", "job profiles DATASET --model MODEL", "cases", "person_add", {"cases_tab": "Suitability"}
)
RELEASE = Start(
    "Import the {title} authors’ release",
    "import {name} PATH",
    "cases",
    "inventory_2",
    {"release": "yes"},
    published="accuracy",
)
REVIEW = Start("Plan a review", "serve", "experts", "rate_review", {"section": "Plan a review"})
RUBRICS = Start(
    "Have a model judge by the rubric",
    "job judge rubric:NAME --by MODEL",
    "rubrics",
    "gavel",
    {"rubric_tab": "Judging"},
)
RUNS = Start("See the runs", "runs", "runs", "list")
SOLVING = Start(
    "Ask a solver",
    "job prefixes --solver reference/solver",
    "history",
    "quiz",
    {"history_tab": "Course of the dialogue"},
)
TERMS = Start(
    "Have a model judge the patients",
    "job judge patient_terms --by MODEL",
    "patients",
    "gavel",
    {"section": "Against experts"},
)
URGENCY = Start(
    "Ask how urgent they are", "job judge urgency_forced", "quality", "e911_emergency", {"quality_part": "Urgency"}
)
URGENCY_WORDS = Start(
    "Have a model read what the doctors advised",
    "job judge urgency_words --by MODEL",
    "quality",
    "gavel",
    {"quality_part": "Urgency"},
)
