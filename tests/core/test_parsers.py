"""Random replies of models and random files: parsed, or refused with a sentence, in little time."""

from __future__ import annotations

import functools
import io
import json
import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import openpyxl
import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from core import paths
from core.agents.grader import named_in_list, read_extracted, read_yes_no
from core.agents.mcq import judge_strict, named_choices
from core.agents.probe import BeliefReply, read_belief
from core.agents.sections_model import read_split
from core.asking.ask import json_in, read_json
from core.debugger.paste import read_pasted
from core.errors import AnamnesisError
from core.events import CallRecord
from core.frameworks.automedic.tags import read_tags
from core.journal import JournalLine, JournalWriter, ReplyLine, read_lines
from core.measures.experts.workbooks import _QUESTIONS, MODELS, read_grader_file, read_rows
from core.models.base import Thought
from core.models.settings import SHIPPED, read_settings
from core.models.thinking import Thinking
from core.models.wire import ServerSentEvents, StreamedReply, UnreadableChunk
from core.prompts import load_pack, read_prompt
from core.text.extraction import listed_diagnoses
from core.text.sections import divided

CHOICES = ("Gout", "Gout with tophi", "Cellulitis", "Bunion")
VIGNETTE = "A 40-year-old man coughs. His temperature is 38 °C (100.4 °F)."
ENOUGH_S = 5.0
"""Seconds of CPU time that no input takes, even on a busy machine."""
FILES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def written(*pieces: str, most: int = 30) -> st.SearchStrategy[str]:
    """Return texts made of the words that a parser looks for and of random text."""
    return st.lists(st.sampled_from(pieces) | st.text(max_size=6), max_size=most).map("".join)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PROSE = written(
    "Yes", "No", "Answer: ", "**Final Diagnosis:** ", "Gout", "gout with tophi", "Cellulitis", "A) ", "(B)", "1. ",
    "- ", "\n", "; ", " or ", "not ", "<think>", "</think>", "*", "**", "`", "Rating: ", "4", "5/5", "None", "Multiple",
    "<patient>", "</patient>", "<clinical>", "</clinical>", "</end>", "is it?", " " * 50, "(" * 50, "{", "}", "[", "]",
    VIGNETTE, "Final diagnosis", ": ", "Correct answer: ", '"sections"', '{"sections": [{"section": "vital_signs", ',
    '"sentence": "A 40-year-old man coughs."}]}', '{"diagnoses": [{"diagnosis": "Gout", "probability": 0.4}]}', "40 %",
)  # fmt: skip

REPLIES: dict[str, Callable[[str], object]] = {
    "yes or no": read_yes_no,
    "what was extracted": read_extracted,
    "a list of diagnoses": named_in_list,
    "a differential": listed_diagnoses,
    "the choice": lambda text: judge_strict(text, "Gout", CHOICES),
    "a belief": read_belief,
    "JSON of a form": lambda text: read_json(text, BeliefReply),
    "all JSON": json_in,
    "sections": lambda text: read_split(text, VIGNETTE),
    "tags": read_tags,
    "a pasted case": read_pasted,
    "a vignette": divided,
}


@pytest.mark.parametrize("parser", REPLIES)
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(text=PROSE | JSON.map(json.dumps))
@example(text="[" * 20_000)
@example(text='{"a":' * 20_000)
@example(text="**" * 20_000)
@example(text="Gout or " * 5_000)
@example(text=" \n" * 20_000)
@example(text="\ud800 Gout")
def test_any_reply_is_parsed_or_refused_with_a_message(parser: str, text: str) -> None:
    began, message = time.process_time(), "parsed"
    try:
        REPLIES[parser](text)
    except ValueError as fault:  # the message of the repair
        message = str(fault)
    assert message.strip()
    assert time.process_time() - began < ENOUGH_S


@given(text=PROSE, first=st.permutations(CHOICES), joint=st.sampled_from([" or ", " / ", " and/or "]))
def test_two_choices_are_never_read_as_one(text: str, first: list[str], joint: str) -> None:
    assert set(named_choices(text, CHOICES)) <= set(CHOICES)
    first_choice, second_choice, *_ = [choice for choice in first if choice != "Gout"]
    for words in (
        f"{first_choice}{joint}{second_choice}",
        f"The answer is {first_choice}{joint}{second_choice}.",
        f"**{first_choice}**{joint}**{second_choice}**",
    ):
        assert judge_strict(words, first_choice, CHOICES).verdict not in ("correct", "incorrect"), words


@given(values=st.lists(JSON, max_size=6), data=st.data())
def test_events_do_not_depend_on_the_cuts_of_the_stream(values: list[Any], data: st.DataObject) -> None:
    sent = [orjson.loads(orjson.dumps(value)) for value in values]  # an infinite number is sent as null
    expected = [value for value in sent if value is not None and value != ""]  # which is a heartbeat, as an empty text
    stream = b"".join(b": ping\r\n\r\ndata: %b\n\n" % orjson.dumps(value) for value in values) + b"data: [DONE]\n\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    events = ServerSentEvents()
    parsed = [event for a, b in pairwise([0, *cuts, len(stream)]) for event in events.take(stream[a:b])]
    assert events.done
    assert parsed == expected


@given(blocks=st.lists(st.binary(max_size=40) | st.sampled_from([b"data:", b"\n\n", b"data: {", b"data: [DONE]"])))
def test_any_stream_is_events_or_invalid_json(blocks: list[bytes]) -> None:
    events = ServerSentEvents()
    for block in blocks:
        try:
            list(events.take(block))
        except (ValueError, RecursionError):
            return


CHUNKS = st.fixed_dictionaries(
    {},
    optional={
        "model": JSON,
        "usage": JSON | st.dictionaries(st.sampled_from(["prompt_tokens", "completion_tokens", "total_tokens"]), JSON),
        "choices": JSON
        | st.lists(
            JSON
            | st.fixed_dictionaries(
                {},
                optional={
                    "finish_reason": JSON,
                    "message": JSON,
                    "delta": JSON
                    | st.dictionaries(
                        st.sampled_from(["content", "reasoning", "reasoning_content", "reasoning_details", "refusal"]),
                        JSON | st.lists(st.fixed_dictionaries({"type": st.just("thinking"), "thinking": JSON})),
                    ),
                },
            ),
            max_size=2,
        ),
    },
)


@given(chunks=st.lists(CHUNKS | JSON, max_size=4), whole=CHUNKS | JSON)
def test_any_chunks_are_a_reply_or_unreadable(chunks: list[Any], whole: Any) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}]}
    for reply, take, each in (
        (StreamedReply(), StreamedReply.take, chunks),
        (StreamedReply(), StreamedReply.take_whole, [whole]),
    ):
        try:
            for chunk in each:
                list(take(reply, chunk))
        except UnreadableChunk:
            continue
        reply.text.encode()
        usage = reply.usage_or_estimate(body)
        assert usage.prompt_tokens >= 0 <= usage.completion_tokens


@given(text=written("<think>", "</think>", "<thinking>", "</THINKING>", "<", "thi", "a b", "\n"), data=st.data())
def test_reasoning_does_not_depend_on_the_pieces_of_the_text(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    at_once, bit_by_bit = Thinking(), Thinking()
    items = [*at_once.take(text), *at_once.end(cut_off=False)]
    for a, b in pairwise([0, *cuts, len(text)]):
        list(bit_by_bit.take(text[a:b]))
    list(bit_by_bit.end(cut_off=False))
    assert (bit_by_bit.text, bit_by_bit.reasoning) == (at_once.text, at_once.reasoning)
    if not re.search(r"</?think(ing)?>", text, re.IGNORECASE):
        assert (at_once.text, at_once.reasoning) == (text, "")
        assert not any(isinstance(item, Thought) for item in items)


# files


def reply_line(text: str, number: int) -> ReplyLine:
    call = CallRecord(call_id=f"c{number}", role="doctor", purpose="dialogue", model="openai/a", response=text)
    return ReplyLine(run_id="r", trial_id="t", unit="t", key="k", number=number, place=number, call=call)


@FILES
@given(texts=st.lists(st.text(), min_size=1, max_size=5), harm=st.tuples(st.floats(0, 1), st.binary(max_size=20)))
def test_a_journal_is_read_up_to_its_damage(texts: list[str], harm: tuple[float, bytes], tmp_path: Path) -> None:
    path = tmp_path / "r" / "journal.jsonl"
    path.unlink(missing_ok=True)
    lines: list[JournalLine] = [reply_line(text, number) for number, text in enumerate(texts)]
    with JournalWriter(path) as journal:
        journal.append_all(lines)
    assert [line for _, line in read_lines(path)] == lines
    data = path.read_bytes()
    at = int(harm[0] * len(data))
    path.write_bytes(data[:at] + harm[1] + data[at:])
    intact: list[JournalLine] = []
    message = "is damaged in the line that ends at byte"
    try:
        for _, line in read_lines(path):
            intact.append(line)
    except AnamnesisError as error:
        message = str(error)
    assert "is damaged in the line that ends at byte" in message
    untouched = data[:at].count(b"\n")
    assert intact[:untouched] == lines[:untouched]


TOML = written(
    "[models.", '"openai/x"', "]\n", "[providers.openai]\n", "prices = ", "{ input = 1.0 }", "base_url = ", '"http://a"',
    "timeouts", " = ", "nan", "-1", "1e999", "[[", "]]", "'", '"""', "1979-05-27", "\n", "limits", "extra_body", "true",
)  # fmt: skip


@FILES
@given(content=TOML.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60))
@example(content=b"a = " + b"[" * 5_000)
@example(content=b"\xff")
def test_any_models_file_is_read_or_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_bytes(content)
    refused_by_name(lambda: read_settings([SHIPPED, path]), path)


HEADER = "---\nrole: doctor\ninputs: [words]\n---\n"
TEMPLATE = written(
    "{{ words }}", "{{ ", " }}", "{% for w in words %}", "{% endfor %}", "{% if ", " %}", "words", ".", "__class__",
    "[0]", "1", " + ", " / ", "0", "|join", "|int", "range(", ")", "'", "{#", "#}", "---\n", "{{ words[9] }}",
    "{{ 1 / 0 }}", "{% set x = words %}", "{{ words.x.y }}", "{{ words + 1 }}", "{{ words() }}", "{% include 'x' %}",
)  # fmt: skip


@FILES
@given(head=st.just(HEADER) | written("---\n", "role", ": ", "doctor", "inputs: [", "]", "\n", "&a ", "*a", "!!python"),
       body=TEMPLATE, junk=st.binary(max_size=4))  # fmt: skip
@example(head=HEADER, body="{{ words + 1 }}", junk=b"")
@example(head=HEADER, body="{{ 'x' * 9999999999999999 }}", junk=b"")
@example(head=HEADER, body="{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}", junk=b"")
@example(head="---\n" + "[" * 5_000 + "\n---\n", body="", junk=b"")
@example(head=HEADER, body="", junk=b"\xff")
def test_any_prompt_is_rendered_or_refused(head: str, body: str, junk: bytes, tmp_path: Path) -> None:
    path = tmp_path / "opening.md"
    path.write_bytes((head + body).encode() + junk)

    def use() -> None:
        prompt = read_prompt(path)
        if prompt.inputs == ("words",):
            prompt.render(words=["a", "b"])

    refused_by_name(use, path)
    refused_by_name(lambda: load_pack(str(tmp_path)), path)


@functools.cache
def workbook() -> bytes:
    """Return a workbook in the layout of the release's experts."""
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.active.title = next(iter(MODELS))
    book.active.append(["case_id", "multi-turn conversation", "final diagnosis", *(f"{q}?" for q in _QUESTIONS)])
    book.active.append(["case_1", "Hello", "Gout", *["yes"] * len(_QUESTIONS)])
    book.save(file)
    return file.getvalue()


HARM = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=8), st.integers(0, 30)), max_size=6)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(harm=HARM, start=st.sampled_from(["workbook", "csv"]))
def test_an_experts_file_with_wrong_bytes_is_read_or_refused(harm: list[tuple[float, bytes, int]], start: str) -> None:
    data = bytearray(workbook() if start == "workbook" else b"x,case_0,case_1\ndermatologist_accuracy,2,inf\n")
    for where, put, taken in harm:
        at = int(where * len(data))
        data[at : at + taken] = put
    refused_by_name(lambda: read_rows(bytes(data), "one"))
    refused_by_name(lambda: read_grader_file(bytes(data)))


def refused_by_name(read: Callable[[], object], path: Path = paths.ROOT) -> None:
    """Read in little time; a refusal names the file."""
    began, message = time.process_time(), str(path)
    try:
        read()
    except AnamnesisError as error:
        message = str(error)
    assert path == paths.ROOT or path.name in message or str(path.parent) in message
    assert message.strip()
    assert time.process_time() - began < ENOUGH_S
