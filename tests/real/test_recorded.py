"""Replies of real models are read as a person reads them, and a replayed reply is the recorded one."""

from __future__ import annotations

import json

from core.asking.parts import PromptPart
from core.asking.scene import Turn
from core.judging.form import forms
from core.judging.request import Material, judge_request, judging_pack
from tests.real.recordings import READERS, key_of, reading, recorded_in, recordings, replaying

DIALOGUE = (
    Turn("patient", "My knee hurts.", scripted=True),
    Turn("doctor", "Since when?\nAnd do you have a fever?"),
    Turn("patient", "Since Monday. No fever."),
)


def test_each_recorded_reply_is_read_as_a_person_reads_it() -> None:
    wrong = [
        (place, recording.read, found)
        for place, recording in recordings()
        if (found := reading(recording)) != recording.read
    ]
    assert wrong == [], "file and line, what a person reads (none: write it), what the program reads"
    assert {recording.prompt for _, recording in recordings()} <= READERS.keys()


def test_the_log_of_a_proxy_becomes_recordings_that_can_be_replayed() -> None:
    form = forms()["conversations"]
    request = judge_request(judging_pack(), form, form.questions[:2], Material(DIALOGUE))
    content = "\n\n".join(part.content for part in request.messages if isinstance(part, PromptPart))
    messages = [{"role": "user", "content": content}]
    values = [question.answers[-1] for question in form.questions[:2]]
    reply = json.dumps({f"q{n}": {"quotations": [], "reason": "", "answer": v} for n, v in enumerate(values, 1)})
    halves = [{"delta": {"content": part}} for part in (reply[:9], reply[9:])]
    stream = [*({"choices": [half]} for half in halves), {"choices": [{"delta": {}, "finish_reason": "stop"}]}]
    stream.append({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 12}})
    answered = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in stream) + "data: [DONE]\n"
    log = [
        json.dumps({"path": "/v1/models", "asked": None, "answered": "{}"}),
        json.dumps({"asked": {"messages": messages}, "answered": answered}),
        json.dumps({"asked": {"messages": [{"role": "user", "content": "Hello?"}]}, "answered": answered}),
    ]
    (recording,) = recorded_in(log)
    assert (recording.prompt, recording.tokens, recording.about["form"]) == ("judging/judge", (90, 12), form.name)
    assert recording.about["dialogue"] == [[turn.role, turn.text] for turn in DIALOGUE]
    assert reading(recording) == dict(zip(("q1", "q2"), values, strict=True))
    script = replaying([recording])
    assert callable(script)
    given = script({"messages": messages})
    assert (given.text, given.finish_reason, given.usage) == (reply, "stop", (90, 12))
    assert script({"messages": [{"role": "user", "content": "Hello?"}]}).status == 404
    assert key_of(messages) == recording.key
