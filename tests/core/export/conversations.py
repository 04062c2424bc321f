"""Conversations for the tests of documents: a harmless one, and one with hostile text in every field."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from core.case import Case
from core.events import EVENTS, Event, Graded, Parent
from core.export.document import Document, ExportedConversation, document_of_events
from core.journal import JournalLine
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.runs import Run
from tests.core.store.builders import (
    Answered,
    Ended,
    Failed,
    Finished,
    Probed,
    Started,
    Summarised,
    Utterance,
    a_call,
    a_case,
    a_header,
    a_stream,
    a_trial,
    write_journal,
)

EVIL = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=\"window.hit=1\"><img src='http://evil.example/a.png'>",
    '<a href="javascript:window.hit=1">click</a> [click](javascript:window.hit=1) <http://evil.example>',
    "</p></style></title></textarea></script><script>window.hit=1</script>",
    "<style>@import url(http://evil.example/a.css); body{background:url(http://evil.example/b.png)}</style>",
    '<meta http-equiv="refresh" content="0;url=http://evil.example/">',
    "![x](http://evil.example/c.png) ![y][r]\n\n[r]: http://evil.example/d.png",
    '"><svg onload=window.hit=1><iframe src="http://evil.example"></iframe>',
    "' autofocus onfocus='window.hit=1' x='",
    "--> ]]> {{ 7*7 }} {% raw %} <!-- <base href='http://evil.example/'>",
    "# heading\n\n- list\n+ list\n1. one\n> quote\n\n    code\n\n```html\n<b>x</b>\n```\n***\na\n===\n| a |\n|---|",
    "null\0byte, bell\a, \u202eturned\u202c, \u2066isolated\u2069, next\u2028line, עברית and العربية",
    "www.evil.example and me@evil.example and https://evil.example/path?q=1",
    "x" * 1_000_000,
]


def evil_conversation(**case: Any) -> Document:
    """Return a document with hostile text in every field of models, data sets and providers."""
    bad = " ".join(EVIL[:4])
    events: list[Event] = [
        Started(
            trial_id=bad, case_key=bad, trial=0, seed=1, at=1.0, parent=Parent(trial_id=bad, turn=1, changes=(bad,))
        ),
        *(Utterance(turn=n, role="patient" if n % 2 else "doctor", text=text) for n, text in enumerate(EVIL)),
        a_call("c1", model=bad, error=bad, reasoning=bad),
        Probed(turn=1, differential=((bad, 0.75), (EVIL[8], -0.5), (EVIL[5], 2.0))),
        Probed(turn=3, differential=((bad, 0.25),)),
        Ended(reason="error", doctor_turns=3, detail=bad),
        Failed(where=bad, failure="server", message=bad),
        Summarised(text=bad),
        Answered(format="vignette", question_type="frq", response=bad),
        Graded(
            format="vignette", question_type="frq", grader=bad, rule="frq", extracted=bad, verdict="incorrect", at=2.0
        ),
        Answered(format="vignette", question_type="mcq", response=None, status="invalid", reason="refused", detail=bad),
        Finished(at=9.0),
    ]
    fields = {
        "case_key": bad,
        "vignette": bad,
        "question": bad,
        "choices": (bad, EVIL[5]),
        "answer": EVIL[2],
        "source": bad,
        "licence": bad,
        "profile": None,
    }
    header = a_header(doctor=bad, patient=bad, grader=bad, prompt_pack=bad, settings={"base_url": bad, bad: bad})
    return document_of_events(a_case(**{**fields, **case}), events, header, with_cases=True)


def read_back(data: bytes) -> Document:
    """Return the document, rebuilt from its JSON only."""
    whole = json.loads(data)
    assert (whole["format"], whole["version"]) == ("anamnesis-document", 1)
    conversations = []
    for fields in whole["conversations"]:
        case, cast, parent, grades = (fields.pop(part) for part in ("case", "cast", "parent", "grades_that_count"))
        conversation = ExportedConversation(**{**fields, "events": tuple(EVENTS.validate_python(fields["events"]))})
        arms = {"arms": tuple(map(tuple, cast["arms"]))} if cast else {}
        conversations.append(
            replace(
                conversation,
                grades=tuple(Graded.model_validate(grade) for grade in grades),
                case=Case.model_validate(case) if case else None,
                cast=Run(**cast | arms) if cast else None,
                parent=Parent.model_validate(parent) if parent else None,
            )
        )
    return Document(tuple(conversations), whole["made_at"], whole["code_version"])


def a_fork(text: str = "It began on Monday.") -> list[Event]:
    """Return the events of ``a_stream`` with another first message of the patient."""
    parent = Parent(trial_id="run/1/0", turn=1, changes=("patient’s words",))
    stream: list[Event] = [
        event.model_copy(update={"text": text}) if isinstance(event, Utterance) and event.turn == 1 else event
        for event in a_stream("run/1/1")
    ]
    return [Started(trial_id="run/1/1", case_key="ours/1", trial=1, seed=8, parent=parent, at=2.0), *stream[1:]]


def fill(store: Store, *more: JournalLine, case: Case | None = None, **header: Any) -> Store:
    trials = [a_trial(), a_trial(a_fork(), trial_id="run/1/1", trial=1, seed=8)]
    write_journal(store.journals, "run", a_header(cases=[case or a_case(1)], **header), *trials, *more)
    fold(store)
    return store
