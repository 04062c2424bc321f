"""The parts of an evaluation report: figures of metrics that fill them in, and fields that people write.

The items of a guideline name these parts; guidelines that ask for the same thing share a part.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core import __version__
from core.datasets.library import DATASET as LIBRARY
from core.datasets.licences import open_licence
from core.events import GRADED_TYPES
from core.export.reading import RULES_EXPLAINED
from core.frameworks.casting import is_model
from core.jobs.repeat import run_command_of, transcripts_command
from core.journal import PLAYED_ELSEWHERE
from core.measures import set_up
from core.measures.accuracy import report as accuracy
from core.measures.agreement import report as agreement
from core.measures.base import Note, Section
from core.measures.endings import report as endings
from core.measures.failures import report as failures
from core.measures.flow import flow
from core.measures.graders.report import report as graders
from core.measures.memorisation import report as memorisation
from core.measures.repeatability import report as repeatability
from core.measures.repeatability import report_power
from core.measures.rubrics.report import report_safety
from core.measures.spend import spend
from core.measures.urgency import report_urgency
from core.store.condition_parts import other_seats
from core.store.queries.runs import Run

if TYPE_CHECKING:
    from core.report.evaluation import EvaluationFacts

_ARM = ("model", "format", "question_type")
_INTERVAL = ("ci_low", "ci_high")
FIGURES: Mapping[str, Section] = {
    "flow": Section("Flow of cases, trials, conversations and answers", flow),
    "ranking": Section(
        "Ranking: accuracy and cost",
        accuracy,
        {"rank": True},
        columns=(
            *("model", "data_set", "framework", "format", "question_type", "rank", "mean", *_INTERVAL, "n_cases"),
            *("from_first", "p_adjusted", "cost_usd", "turns", "seconds", "provider_failures", "without_diagnosis"),
            "excluded_by_reason",
        ),
        heads={
            "data_set": "Cases",
            "mean": "Accuracy",
            "n_cases": "Common cases",
            "from_first": "Minus first",
            "cost_usd": "US dollars",
            "turns": "Messages",
            "provider_failures": "Provider failures",
            "without_diagnosis": "No diagnosis",
        },
    ),
    "accuracy": Section(
        "Accuracy",
        accuracy,
        columns=(*_ARM, "rule", "mean", *_INTERVAL, "n_cases", "n_trials", "n_excluded", "excluded_by_reason"),
        heads={"mean": "Accuracy"},
    ),
    "against_vignette": Section(
        "Differences from the same model's vignettes",
        accuracy,
        {"versus_vignette": True},
        columns=(*_ARM, "mean", "difference", "difference_low", "difference_high", "p", "p_adjusted", "n_shared"),
    ),
    "repeatability": Section(
        "Repeated trials: pass^k and flips",
        repeatability,
        columns=(*_ARM, "figure", "value", *_INTERVAL, "n_cases", "excluded"),
    ),
    "by_specialty": Section(
        "Accuracy by specialty",
        accuracy,
        {"by": "specialty"},
        columns=(*_ARM, "specialty", "mean", *_INTERVAL, "n_cases", "n_excluded"),
    ),
    "by_dataset": Section(
        "Accuracy by data set",
        accuracy,
        {"by": "dataset"},
        columns=(*_ARM, "dataset", "mean", *_INTERVAL, "n_cases", "n_excluded"),
    ),
    "failures": Section(
        "Causes of wrong answers", failures, columns=("model", "cause", "n", "wrong", "share", *_INTERVAL, "excluded")
    ),
    # without responses and right answers: a report contains no text of a case
    "wrong_answers": Section(
        "Wrong answers", failures, {"part": "answers"}, columns=("trial_id", *_ARM, "case", "cause", "verdict")
    ),
    "endings": Section("How conversations ended", endings),
    "power": Section("Cases and trials for a difference of 0.05", report_power),
    "graders": Section("Agreement of graders with each other", graders),
    "judge_status": Section("Agreement of judges with people, and their calibration", agreement, {"part": "status"}),
    "safety": Section("Musts missed and must-nots done", report_safety),
    "urgency": Section("Urgency that doctors gave, against that of the cases", report_urgency),
    "memorisation": Section("Completions that are similar to the original", memorisation),
    "memorised_accuracy": Section("Accuracy with and without flagged cases", memorisation, {"part": "accuracy"}),
    "spend": Section("Calls, tokens and cost", spend),
    "settings": Section("Roles and settings of the conditions", set_up.settings),
    "served": Section("Served models and dates", set_up.served),
    "dates": Section("Runs and their dates", set_up.dates),
    "hypotheses": Section("Hypotheses, and what was done differently", set_up.hypotheses),
    "prompts": Section("Prompts and their hashes", set_up.prompts),
    "case_sources": Section("Played cases", set_up.case_sources),
}
"""Name → a metric with options, and the columns that a report shows."""
SAMPLED: Mapping[str, int] = {"failures": 300, "wrong_answers": 100}
"""Figure → most trials of each condition that it reads: a random sample that is always the same."""
NEEDED: Mapping[str, tuple[str, str]] = {
    "against_vignette": (
        "difference",
        "No condition has answers to vignettes and answers in another format to the same cases.",
    )
}
"""Figure → a column without which its rows say nothing, and why it has no value."""


@dataclass(frozen=True)
class Part:
    """A part of a report. Without ``figures``, ``text`` and ``command``, only people write it; ``hint`` says what.

    ``text`` returns sentences, and ``command`` a command for each run (``None``: the run has none, and the part stays
    open). ``open_if`` names two columns of the first figure: the part stays open for each value of the first column
    that has no value in the second. ``played_here``: the part is about runs whose settings are recorded, and stays open
    for imported ones. ``exempt`` returns why the part does not apply to these runs, or nothing.
    """

    title: str
    hint: str
    figures: tuple[str, ...] = ()
    text: Callable[[EvaluationFacts], Iterable[str]] = lambda facts: ()
    command: Callable[[Run], str | None] | None = None
    open_if: tuple[str, str] | None = None
    played_here: bool = False
    exempt: Callable[[EvaluationFacts], str] = lambda facts: ""


SIMULATED = "The patients are simulated: a model or rules play them. No result here is about care of people."
MOST_LIMITATIONS = 4
"""Most notes among the limitations; every severe note also stands at its figure."""


def limit_in_words(note: Note, titles: Sequence[str]) -> str:
    """Return a note, with the figures that it is about if they are few."""
    return note.text if len(titles) > 2 else f"{note.text} ({', '.join(titles)})"


def _limitations(facts: EvaluationFacts) -> list[str]:
    notes = [limit_in_words(note, titles) for note, titles in facts.limits().items()]
    if not notes:
        return []
    more = len(notes) - MOST_LIMITATIONS
    rest = [f"{more} more notes are printed by the commands under the figures."] if more > 0 else []
    return [SIMULATED, *notes[:MOST_LIMITATIONS], *rest]


def _statistics(facts: EvaluationFacts) -> list[str]:
    """Return each method once, with the figures that it is the method of."""
    titles: dict[str, list[str]] = {}
    for name, result in facts.results.items():
        if result.figures:
            titles.setdefault(" ".join(FIGURES[name].metric.help.split()), []).append(FIGURES[name].title)
    return [f"{'; '.join(of)}. {method}" for method, of in titles.items()]


def _sampling(facts: EvaluationFacts) -> list[str]:
    if _without_tested_model(facts) or any(run.settings.get("temperature") is not None for run in facts.runs):
        return []
    return ["No temperature was set for the tested model: the default of the model or of its provider counts."]


def _prompts(facts: EvaluationFacts) -> list[str]:
    readable = [prompt for prompt in facts.prompts if prompt.text is not None]
    if not readable:
        return []
    return [
        f"The {len(readable)} texts are in the appendix of prompts, a file next to this report. The commands under "
        "“All responses” write every request as it was sent."
    ]


def _permission(facts: EvaluationFacts) -> list[str]:
    names = [open_licence(licence) for licence in facts.licences]
    if not names or None in names:
        return []
    return [f"The licence of the cases allows to use and to pass them on: {', '.join(filter(None, names))}."]


def _without_tested_model(facts: EvaluationFacts) -> str:
    tested = any(_is_language_model(run.doctor) for run in facts.runs)
    return "" if tested else "Rules or people play the tested role: no language model was tested."


def _without_model(facts: EvaluationFacts) -> str:
    seats = (name for run in facts.runs for name in (run.doctor, *other_seats(run).values()))
    return "" if any(map(_is_language_model, seats)) else "Rules or people play every role: no model has a prompt."


def _is_language_model(name: str) -> bool:
    return "/" in name and is_model(name.partition("/")[0])


def _without_review(facts: EvaluationFacts) -> str:
    return "" if facts.reviewed else "No person judged these runs: no review has one of their conversations or answers."


def _without_judge(facts: EvaluationFacts) -> str:
    """Return why nobody's judgement can be compared: rules read all choices, and there is nothing else."""
    free = any(question_type in GRADED_TYPES for run in facts.runs for _, question_type in run.arms)
    judged = facts.reviewed or any(name in facts.results for name in ("judge_status", "graders", "safety", "urgency"))
    return "" if free or judged else "Every answer is one of the choices, which rules read: no model or person judged."


def _without_vignette(facts: EvaluationFacts) -> str:
    asked = [({kind for f, kind in run.arms if f == "vignette"}, run.arms) for run in facts.runs]
    both = any(f != "vignette" and kind in kinds for kinds, arms in asked for f, kind in arms)
    return "" if both else "No run asks one type of question about vignettes and in another format, too."


def _invented(facts: EvaluationFacts) -> str:
    invented = all(run.data_set == LIBRARY for run in facts.runs)
    return "The cases are invented for this program: they have no data of patients." if invented else ""


PARTS: Mapping[str, Part] = {
    "design": Part(
        "Design", "The design: who was tested on what, in how many conversations.", ("dates", "case_sources")
    ),
    "flow": Part("Flow", "What became of cases, trials, conversations and answers.", ("flow",)),
    "served_models": Part(
        "Served models and dates",
        "The exact version of each model as its provider served it, and the dates of use.",
        ("served",),
        open_if=("requested", "served_as"),
        exempt=_without_tested_model,
    ),
    "dates": Part(
        "Dates of the runs", "The dates on which the models were asked.", ("dates",), open_if=("run", "first")
    ),
    "settings": Part(
        "Roles and settings", "Every role with its model, sampling, limits and seeds.", ("settings",), _sampling
    ),
    "access": Part(
        "Access to the models",
        "How each model was reached: its own interface, an API, or weights on a machine.",
        ("settings",),
        lambda facts: [
            "A model's name begins with its provider: hf and local are weights on this machine, reference is rules of "
            "this program; any other provider was reached by its API, at the address in the settings if one is set."
        ],
        played_here=True,
    ),
    "sessions": Part(
        "Separate sessions",
        "Whether each conversation was a new session.",
        text=lambda facts: [
            "Each trial is a conversation of its own: a request contains the prompts and the messages of this trial, "
            "and nothing of any other trial."
        ],
        played_here=True,
    ),
    "responses": Part(
        "All responses",
        "Where all prompts and responses can be read.",
        text=lambda facts: [
            "These commands write every message, request and response; texts of cases without an open licence only "
            "with --with-cases:"
        ],
        command=lambda run: None if run.source in PLAYED_ELSEWHERE else transcripts_command(run),
    ),
    "prompts": Part(
        "Prompts",
        "The text of every prompt.",
        ("prompts",),
        _prompts,
        open_if=("hash", "characters"),
        exempt=_without_model,
    ),
    "input_type": Part(
        "Input",
        "What kind of data the models received.",
        ("settings",),
        lambda facts: ["Text, as messages of a conversation; with pictures only if the settings say so."],
    ),
    "reference_standard": Part(
        "Cases and reference standard",
        "The source of the cases and of their right answers.",
        ("case_sources",),
        lambda facts: ["The right answer of a case is the one that its data set states.", RULES_EXPLAINED],
    ),
    "grading": Part(
        "Graders",
        "Who judged the answers.",
        ("settings",),
        lambda facts: ["The grader judges free responses; rules judge choices."],
    ),
    "agreement": Part(
        "Agreement and calibration of judges",
        "Agreement of the judges with people and with each other.",
        ("judge_status", "graders"),
        exempt=_without_judge,
    ),
    "plan": Part(
        "Hypotheses",
        "The hypothesis with its primary outcome and margin, and what was done differently.",
        ("hypotheses",),
    ),
    "sample_size": Part("Sample size", "How the number of cases and trials was chosen.", ("power",)),
    "statistics": Part("Statistics", "The statistical methods.", text=_statistics),
    "ranking": Part(
        "Ranking",
        "Which model is best, with cost and messages.",
        ("ranking",),
        exempt=lambda facts: (
            "There is one condition, so that nothing can be ranked." if len(facts.conditions) < 2 else ""
        ),
    ),
    "accuracy": Part("Accuracy", "The performance with its intervals.", ("accuracy",)),
    "comparisons": Part(
        "Comparisons with vignettes",
        "How the results compare with other models, people and benchmarks.",
        ("against_vignette",),
        exempt=_without_vignette,
    ),
    "repeatability": Part("Repeated trials", "How far repeated trials agree.", ("repeatability",)),
    "subgroups": Part("Subgroups", "Results by subgroup.", ("by_specialty", "by_dataset")),
    "endings": Part("How conversations ended", "How the conversations ended.", ("endings",)),
    "failures": Part(
        "Failures",
        "The nature, frequency and size of deviations from the reference.",
        ("failures", "wrong_answers"),
        lambda facts: ["`export conversation` with the id of a trial writes its conversation as a file."],
    ),
    "harm": Part("Harm", "Harmful, biased or misleading answers, by a scale of harm.", ("safety", "urgency")),
    "contamination": Part(
        "Contamination",
        "Whether the models may have been trained on the cases.",
        ("memorisation", "memorised_accuracy"),
        exempt=_without_tested_model,
    ),
    "cost": Part("Calls, tokens and cost", "Compute: calls, tokens, time, machines and cost.", ("spend",)),
    "software": Part(
        "Software",
        "The program with its version, and the packages behind the figures.",
        ("dates",),
        lambda facts: [
            f"Anamnesis {__version__} under Python {platform.python_version()} computed the figures; its file "
            "requirements.lock names every package. The dates of the runs have the versions that played them."
        ],
    ),
    "repeat": Part("Commands that repeat it", "How the runs can be repeated.", command=run_command_of),
    "limitations": Part("Limitations that the figures note", "The limitations.", text=_limitations),
    "title": Part("Title", "The title of the paper."),
    "abstract": Part("Summary", "Background, methods, results and conclusion in a few sentences."),
    "background": Part("Background", "The clinical context, earlier work, and why the study is needed."),
    "aims": Part("Aims", "Question, audience, comparison and outcome."),
    "intended_use": Part("Intended use", "Patients, users, place in care, and human oversight."),
    "licences": Part(
        "Weights and licences", "For each model: open or closed weights, and its licence.", exempt=_without_tested_model
    ),
    "model_kind": Part(
        "Kind of model", "Base model, new model or tuned model, with its architecture.", exempt=_without_tested_model
    ),
    "model_citation": Part("Publication of the model", "Where each model is described.", exempt=_without_tested_model),
    "tuning": Part(
        "Tuning", "Data, method and parameters of tuning; or that nothing was tuned.", exempt=_without_tested_model
    ),
    "training_dates": Part(
        "Dates of training data",
        "The last date of training data, and the dates of the cases.",
        exempt=_without_tested_model,
    ),
    "prompt_development": Part(
        "Development of prompts", "How prompts were written and chosen, with what was dropped.", exempt=_without_model
    ),
    "prompt_sources": Part(
        "Sources of prompts",
        "Where prompts and cases come from: experts, guidelines, textbooks, patients.",
        exempt=_without_model,
    ),
    "prompt_authors": Part(
        "Authors of prompts", "Who wrote the prompts, with their background.", exempt=_without_model
    ),
    "prompt_public": Part(
        "Public and prompts", "Part of patients and public in writing prompts.", exempt=_without_model
    ),
    "prompt_data": Part("Data behind prompts", "Which cases were looked at to write prompts.", exempt=_without_model),
    "place": Part("Place", "City and country where the models were asked."),
    "reference_reason": Part("Choice of cases", "Why these cases and this standard."),
    "data_checks": Part("Checks of the data", "How cases were prepared and checked."),
    "data_challenges": Part("Difficulties of the data", "Representation, missing data and bias."),
    "evaluators": Part(
        "Evaluators", "Who judged: number, profession, experience, instructions.", exempt=_without_review
    ),
    "evaluators_public": Part(
        "Public as evaluators", "Part of patients and public in the evaluation.", exempt=_without_review
    ),
    "blinding": Part("Blinding", "What evaluators did not know.", exempt=_without_review),
    "annotation": Part("Labelling", "The instructions for labels, with examples.", exempt=_without_review),
    "sample_size_reason": Part("Choice of the sample size", "Why this number of cases and trials."),
    "independence": Part("Independence of the cases", "Whether cases were published, and when, and who has seen them."),
    "outcome_relevance": Part("Meaning of the outcome", "What the measures say about use in care."),
    "interpretation": Part("Interpretation", "The main results, in the light of the aims and of earlier studies."),
    "strengths": Part("Strengths and limitations", "What readers should weigh, beyond the notes of the figures."),
    "implications": Part("Consequences", "For practice, and for research."),
    "input_quality": Part("Poor input", "How poor or missing input would be handled in use."),
    "user_expertise": Part("Users", "What users must do and know."),
    "interests": Part("Interests", "Interests of the authors."),
    "funding": Part("Funding", "Funders and their role."),
    "ethics": Part("Ethics", "Approval and consent, or why none is needed."),
    "privacy": Part(
        "Data of patients", "How data of patients were protected; or that there are none.", exempt=_invented
    ),
    "case_permissions": Part(
        "Permission for the cases",
        "Whether the owners of cases under copyright agreed, or the licence allows it.",
        text=_permission,
    ),
    "protocol": Part("Protocol", "Where the protocol or plan is; or that there is none."),
    "registration": Part("Registration", "Register and number; or that the study is not registered."),
    "data_availability": Part("Data", "Where cases and responses can be had."),
    "public_involvement": Part("Patients and public", "Their part in the study; or that they had none."),
}
"""Name → part. People can write a text for each of them."""
