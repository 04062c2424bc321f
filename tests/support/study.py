"""The sample study with finished reviews of every kind, and a model that answers any request of the program."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from core.cli.app import main
from core.judging.form import FormQuestion, form_named
from core.reviews.answering import record
from core.reviews.baseline import baseline_cases
from core.reviews.reviewing import plan_review, unblind
from core.reviews.state import ReviewState, state_of
from core.store.database import Store
from core.store.queries.judgements import add_judgements
from core.store.queries.runs import runs
from core.store.review_records import Review, planned
from core.store.sample import SAMPLE, add_sample
from core.store.tables import TABLES
from tests.support import replies
from tests.support.answering import an_answer
from tests.support.fake_provider import running
from tests.support.pictures import a_list, a_picture, a_row
from tests.support.stores import copy_of

EXPERTS = ("Ada", "Ben", "Cyd")
REVIEWS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "Case quality": ("case_quality", {"case_set": "library"}),
    "Conversations": ("conversations", {"sampling": "dataset", "number": 6}),
    "Free responses": ("answers", {"format": "multi_turn"}),
    "Patient speech": ("patient_speech", {}),
    "Suitability": ("suitability", {"case_set": "library"}),
    "CARE ratings": ("care_ratings", {}),
    "Profile quality": ("profile_quality", {"case_set": "library"}),
    "Better consultation": ("care_preference", {}),
}
"""Name of a review → its form, and the fields of its plan."""

PREPARATIONS = (
    "run --protocol automedic --doctor openai/gpt-4o --patient reference --staff reference --trials 1 --cases "
    "library:cardiology-4,dermatology-4,endocrinology-5,gastroenterology-5,neurology-5,other-4",
    "job profiles --cases library:Cardiology --model openai/gpt-4o",
    "import cases list.csv --name pictured",
    "run --doctor openai/gpt-4o --cases pictured --arms paper --trials 1",
)
"""What the study contains before the first row: a doctor to compare with the sample's, profiles, and pictures."""


@dataclass(frozen=True)
class Printed:
    """What a command printed, and how much more is stored or written after it."""

    status: int
    text: str
    errors: str
    made: int = 0


@dataclass
class Study:
    """A store in which commands run; ``results`` are those of the commands that make something."""

    store: Store
    results: dict[tuple[str, ...], Printed] = field(default_factory=dict)

    def run(self, *words: str) -> Printed:
        words = tuple(self._newest() if word == "RUN" else word for word in words)
        before = 0 if words[0] == "report" else self._size()
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
            status = main(list(words))
        made = 0 if words[0] == "report" else self._size() - before
        return Printed(status, out.getvalue(), errors.getvalue(), made)

    def _newest(self) -> str:
        with self.store.read() as cursor:
            return next(run.run_id for run in runs(cursor) if run.source == "local")

    def _size(self) -> int:
        """Return the number of stored rows and of files in the working folder."""
        with self.store.read() as cursor:
            stored = sum(cursor.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0] for table in TABLES)
        return int(stored) + sum(path.is_file() for path in Path.cwd().rglob("*"))


@contextlib.contextmanager
def studying(folder: Path) -> Iterator[Study]:
    """Yield the study in a folder, which is also the working folder; models of OpenAI are ``any_model`` meanwhile."""
    with pytest.MonkeyPatch.context() as patch, running(any_model) as provider:
        for name in list(os.environ):
            if name.endswith("_API_KEY") or name.startswith(("ANAMNESIS_", "OPENAI_")):
                patch.delenv(name)
        store = copy_of(add_sample, folder / "own")
        patch.setenv("ANAMNESIS_DB", str(store.path))
        patch.setenv("OPENAI_BASE_URL", provider.base_url)
        (folder / "models.local.toml").touch()
        patch.setenv("ANAMNESIS_MODELS", str(folder / "models.local.toml"))
        patch.chdir(folder)
        a_list(folder, [a_row(n, f"p{n}.png") for n in (1, 2, 3)], {f"p{n}.png": a_picture() for n in (1, 2, 3)})
        st.cache_data.clear()
        st.cache_resource.clear()
        study = Study(store)
        for line in PREPARATIONS:
            result = study.run(*line.split())
            assert result.status == 0, f"{line}: {result.errors}"
        add_reviews(store)
        yield study
        st.cache_data.clear()
        st.cache_resource.clear()


def add_reviews(store: Store, number: int = 4) -> None:
    """Plan each review with ``number`` items by default, answer all questions, unblind it; and one of vignettes."""
    with store.read() as cursor:
        stored = runs(cursor)
    for name, (kind, fields) in REVIEWS.items():
        form = form_named(kind)
        judged = form.about in ("conversation", "answer", "pair")
        protocol = form.framework or "craftmd"
        several = form.about == "pair"  # the second doctor is not in the sample study
        chosen = tuple(
            run.run_id
            for run in stored
            if judged and run.protocol == protocol and run.source == "local" and (several or run.study == SAMPLE)
        )
        review = _plan(store, name, kind, runs=chosen, **{"number": number, **fields})
        _answer(store, state_of(store, review.review_id))
        unblind(store, review.review_id, "Ada", "Ties stay open.")
    _add_vignettes(store)


def _plan(store: Store, name: str, kind: str, **fields: Any) -> Review:
    plan = planned(kind=kind, annotators=EXPERTS, shared=1.0, seed=1, **fields)
    return plan_review(store, name, plan)


def _answer(store: Store, state: ReviewState) -> None:
    """Save all answers at once: the annotators agree on every item but the first."""
    new = [
        an_answer(
            item.item,
            annotator,
            question.id,
            _value(question, item.number, place),
            review_id=state.review.review_id,
            seconds=30.0 + 10.0 * place,
        )
        for item in state.items
        for place, annotator in enumerate(item.annotators)
        for question in state.form.questions
    ]
    with store.write() as connection:
        add_judgements(connection, new)


def _value(question: FormQuestion, number: int, place: int) -> str:
    if not question.values:
        return "a rash"
    return question.values[(number + (place if number == 1 else 0)) % len(question.values)]


def _add_vignettes(store: Store) -> None:
    """One expert answers two vignettes, the second one wrong."""
    review = _plan(store, "Vignettes", "baseline", number=2, case_set="library")
    state = state_of(store, review.review_id)
    for item in state.items_for("Ada"):
        case = baseline_cases(store, state.review, "Ada")[item.item]
        for question in ("frq", "mcq"):
            record(store, "Vignettes", item.number, "Ada", question, case.answer if item.number > 1 else "?")
    unblind(store, "Vignettes", "Ada", "The study was ended.")


def any_model(body: dict[str, Any]) -> str:
    """Answer as the role that the prompt names: a judge, a maker of profiles or items, a doctor or a patient."""
    messages = [str(message["content"]) for message in body["messages"]]
    first, last = messages[0], messages[-1]
    if "Decide whether that is possible" in first:
        suitable = len(_text(first)) % 3 > 0
        reason = None if suitable else "image_dependent"
        return json.dumps({"suitable": suitable, "reason": reason, "note": "Judged by its length."})
    if "Divide the text below into a patient's profile" in first:
        return _profile(first)
    if "is about to see a doctor" in first:
        return _opening(first)
    if "List what the doctor could ask about" in first:
        passages = re.findall(r"[^.,;]{12,60}(?=[.,;])", _text(first))
        return json.dumps({"items": [{"key": f"topic {n}", "value": words} for n, words in enumerate(passages)]})
    if "You fill in a form" in first:
        return _judged("\n".join(messages))
    if "who fills in a form" in first:
        return _form(first)
    if "Reply with one word, Yes or No" in last:
        return "Yes"
    if "</end>" in first:
        asked = sum(message["role"] == "assistant" for message in body["messages"])
        return "</end>" if asked >= 4 else f"I see. <patient>Since when, and what is question {asked} to you?</patient>"
    return replies.demo(body)


def _text(prompt: str) -> str:
    return prompt.rpartition("The text:\n")[2].partition("\n\nThe question:")[0]


def _profile(prompt: str) -> str:
    words = " ".join(_text(prompt).split()[:6])
    fact = {"key": "chief complaint", "value": words, "lay": "I do not feel well."}
    history = {"key": "family history", "value": "healthy parents", "lay": "They are well.", "imputed": True}
    age = {"key": "age", "value": words, "lay": "You can see it."}
    return json.dumps({"speaker": "patient", "demographics": [age], "basic": [fact, history], "optional": []})


def _opening(prompt: str) -> str:
    everyday = ("pain", "cough", "rash", "headache", "fever", "itch", "tired", "swelling", "weakness", "thirst")
    text = _text(prompt)
    complaint = next((word for word in everyday if re.search(rf"\b{word}\b", text)), text.split()[0])
    return json.dumps({"complaint": complaint, "opening": f"Hello doctor. It is the {complaint}. Can you help me?"})


def _judged(prompt: str) -> str:
    """Fill in a form with the last answer to each question, quoting the beginning of what is judged, without places."""
    material = prompt.rpartition("<quoted>")[2].partition("</quoted>")[0]
    first = re.search(r"^\[0\] [^:]+: (.+)", material, re.MULTILINE)
    words = " ".join((first[1] if first else material.strip().partition("\n")[2]).split()[:4])
    entries: dict[str, dict[str, Any]] = {}
    for name, question in re.findall(r"^Question (q\d+): (.*?)(?=^Question q|\Z)", prompt, re.MULTILINE | re.DOTALL):
        listed = re.findall(r"^- ([^=\n]+?)(?: = .*)?$", question, re.MULTILINE)
        answers = [answer for answer in listed if answer not in ("cannot judge", "not applicable")]
        quoted = [{"message": 0, "words": words}]
        entries[name] = (
            {"quotations": quoted, "reason": "So.", "answer": answers[-1]} if answers else {"quotations": []}
        )
    return json.dumps(entries)


def _form(prompt: str) -> str:
    """Fill in a form with the first answer to each question, quoting the first message."""
    message = re.search(r"^\[(\d+)\] [^:]+: (\S+ \S+ \S+)", prompt, re.MULTILINE)
    questions = prompt.rpartition("each with its possible answers:\n")[2].partition("\n\nAnswer every")[0]
    answers = []
    name = ""
    for line in questions.splitlines():
        if match := re.match(r"([a-z_]+): ", line):
            name = match[1]
        elif line.startswith("- ") and name:
            quoted = {"message": int(message[1]), "words": message[2]} if message else {}
            answers.append({"id": name, **quoted, "reason": "It fits.", "answer": line[2:].partition(" = ")[0]})
            name = ""
    return json.dumps({"answers": answers})
