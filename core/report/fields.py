"""The parts of a report that people write; guidelines that ask for the same thing share a field."""

from __future__ import annotations

from collections.abc import Mapping

FIELDS: Mapping[str, tuple[str, str]] = {
    "title": ("Title", "The title of the paper."),
    "abstract": ("Summary", "Background, methods, results and conclusion in a few sentences."),
    "background": ("Background", "The clinical context, earlier work, and why the study is needed."),
    "aims": ("Aims", "Question, audience, comparison and outcome."),
    "intended_use": ("Intended use", "Patients, users, place in care, and human oversight."),
    "licences": ("Weights and licences", "For each model: open or closed weights, and its licence."),
    "model_kind": ("Kind of model", "Base model, new model or tuned model, with its architecture."),
    "model_citation": ("Publication of the model", "Where each model is described."),
    "tuning": ("Tuning", "Data, method and parameters of tuning; or that nothing was tuned."),
    "training_dates": ("Dates of training data", "The last date of training data, and the dates of the cases."),
    "prompt_development": ("Development of prompts", "How prompts were written and chosen, with what was dropped."),
    "prompt_sources": (
        "Sources of prompts",
        "Where prompts and cases come from: experts, guidelines, textbooks, patients.",
    ),
    "prompt_authors": ("Authors of prompts", "Who wrote the prompts, with their background."),
    "prompt_public": ("Public and prompts", "Part of patients and public in writing prompts."),
    "prompt_data": ("Data behind prompts", "Which cases were looked at to write prompts."),
    "place": ("Place", "City and country where the models were asked."),
    "reference_reason": ("Choice of cases", "Why these cases and this standard."),
    "data_checks": ("Checks of the data", "How cases were prepared and checked."),
    "data_challenges": ("Difficulties of the data", "Representation, missing data and bias."),
    "evaluators": ("Evaluators", "Who judged: number, profession, experience, instructions."),
    "evaluators_public": ("Public as evaluators", "Part of patients and public in the evaluation."),
    "blinding": ("Blinding", "What evaluators did not know."),
    "annotation": ("Labelling", "The instructions for labels, with examples."),
    "sample_size_reason": ("Choice of the sample size", "Why this number of cases and trials."),
    "independence": ("Independence of the cases", "Whether cases were published, and when, and who has seen them."),
    "outcome_relevance": ("Meaning of the outcome", "What the measures say about use in care."),
    "interpretation": ("Interpretation", "The main results, in the light of the aims and of earlier studies."),
    "strengths": ("Strengths and limitations", "What readers should weigh, beyond the notes of the figures."),
    "implications": ("Consequences", "For practice, and for research."),
    "input_quality": ("Poor input", "How poor or missing input would be handled in use."),
    "user_expertise": ("Users", "What users must do and know."),
    "interests": ("Interests", "Interests of the authors."),
    "funding": ("Funding", "Funders and their role."),
    "ethics": ("Ethics", "Approval and consent, or why none is needed."),
    "privacy": ("Data of patients", "How data of patients were protected; or that there are none."),
    "case_permissions": (
        "Permission for the cases",
        "Whether the owners of cases under copyright agreed, or the licence allows it.",
    ),
    "protocol": ("Protocol", "Where the protocol or plan is; or that there is none."),
    "registration": ("Registration", "Register and number; or that the study is not registered."),
    "data_availability": ("Data", "Where cases and responses can be had."),
    "public_involvement": ("Patients and public", "Their part in the study; or that they had none."),
}
"""Name → title, and what to write."""
