"""Reasoning is separated from the reply, in every form and for all pieces of a stream."""

from __future__ import annotations

import pytest

from core.errors import ProviderError
from core.models.base import Completion, OnlyThought, Restart, Sampling, TextPiece, Thought
from core.models.thinking import Thinking, looks_like_thought
from tests.support.asking import ask, hear, make_model, make_spec
from tests.support.fake_provider import FakeProvider
from tests.support.replies import Reply, failing

BY_TAGS = [
    ("<think>It is B.</think>Any fever?", "Any fever?", "It is B."),
    ("<thinking>\nIt is B.\n</thinking>\n\nAny fever?\n", "Any fever?", "It is B."),
    ("<THINK>It is B.</Think> Any fever?", "Any fever?", "It is B."),
    ("Well. <think>It is B.", "Well.", "It is B."),
    ("<think>One</think>Any <think>Two?</think>fever?", "Any fever?", "One\n\nTwo?"),
    ("It is B. </end></think>Any fever?", "Any fever?", "It is B. </end>"),
    ("<think>a </think> tag I may quote</think>Any fever?", "Any fever?", "a  tag I may quote"),
    ("<think>\n\n</think>\n\nAny fever?", "Any fever?", ""),
    ("<think><patient>Not this?</patient></think><patient>This?</patient>", "<patient>This?</patient>",
     "<patient>Not this?</patient>"),
    ("  The pH is < 7 and <thin skin>.\n", "  The pH is < 7 and <thin skin>.\n", ""),
    ("Is it <th", "Is it <th", ""),
    ("<think>It is B.</think>Any <answer>fever?</answer>", "Any <answer>fever?</answer>", "It is B."),
]  # fmt: skip


def test_tags_are_found_in_any_pieces(subtests: pytest.Subtests) -> None:
    for size in [1, 2, 3, 5, 1000]:
        for reply, speech, thought in BY_TAGS:
            with subtests.test(size=size, reply=reply):
                thinking = Thinking()
                items = [item for at in range(0, len(reply), size) for item in thinking.take(reply[at : at + size])]
                items += thinking.end(cut_off=False)
                assert (thinking.text, thinking.reasoning.split()) == (speech, thought.split())
                heard = ""
                for item in items:
                    if isinstance(item, TextPiece):
                        heard += item.text
                    elif item.void:
                        heard = ""
                assert heard.strip() == speech.strip()
                spoken = [item.text for item in items if isinstance(item, TextPiece)]
                assert thinking.closed_alone == (reply[0] == "I" and bool(thought)), (
                    "only then is reasoning recognised too late"
                )
                assert thinking.closed_alone or "B" not in "".join(spoken)


def test_reasoning_opened_by_the_template_is_recognised_from_its_first_word() -> None:
    thinking = Thinking(opened=True)
    items = [item for bit in ("It is", " B.</th", "ink>Any fever?") for item in thinking.take(bit)]
    items += thinking.end(cut_off=False)
    assert items == [Thought("It is"), Thought(" B."), TextPiece("Any fever?")]
    assert (thinking.text, thinking.reasoning) == ("Any fever?", "It is B.")


def test_unclosed_reasoning_of_the_template_is_speech_unless_cut_off(subtests: pytest.Subtests) -> None:
    for cut_off, speech, thought in [(False, "Any fever?", ""), (True, "", "Any fever?")]:
        with subtests.test(cut_off=cut_off, speech=speech):
            thinking = Thinking(opened=True)
            list(thinking.take("Any fever?"))
            list(thinking.end(cut_off=cut_off))
            assert (thinking.text, thinking.reasoning) == (speech, thought)


def test_separate_fields_for_reasoning_take_precedence() -> None:
    thinking = Thinking(opened=True)
    items = [*thinking.think("It is B."), *thinking.take("\nAny "), *thinking.take("fever?")]
    assert items == [Thought("It is B."), TextPiece("Any "), TextPiece("fever?")]
    list(thinking.end(cut_off=True))
    assert (thinking.text, thinking.reasoning) == ("Any fever?", "It is B.")


DETAILS = [
    {"type": "reasoning.text", "text": "It is"},
    {"type": "reasoning.summary", "summary": " B."},
    {"type": "reasoning.encrypted", "data": "Qg=="},
]


@pytest.mark.parametrize(
    "deltas",
    [
        [{"reasoning": "It is"}, {"reasoning": " B."}],
        [{"reasoning_content": "It is"}, {"reasoning_content": " B.", "content": None}],
        [{"reasoning_details": DETAILS}],
        [{"reasoning": "It is B.", "reasoning_content": "It is B.", "reasoning_details": DETAILS}],
        [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "It is B."}]}]}],
    ],
    ids=["reasoning", "reasoning_content", "reasoning_details", "all at once", "a part of the content"],
)
async def test_reasoning_in_separate_fields_is_recorded(
    fake_provider: FakeProvider, deltas: list[dict[str, object]]
) -> None:
    fake_provider.script = [Reply("Any fever?", deltas=deltas, usage=(11, 9), thought=6)]
    model = make_model(make_spec(fake_provider.base_url))
    items = await hear(model)
    done = items[-1]
    assert isinstance(done, Completion)
    assert (done.text, done.reasoning, done.usage.reasoning_tokens) == ("Any fever?", "It is B.", 6)
    assert "".join(item.text for item in items if isinstance(item, Thought)) == "It is B."
    assert "".join(item.text for item in items if isinstance(item, TextPiece)) == "Any fever?"
    await model.aclose()


async def test_content_in_parts_is_read(fake_provider: FakeProvider) -> None:
    parts = [
        {"type": "text", "text": "Any "},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "rash?"},
    ]
    fake_provider.script = [Reply("", deltas=[{"content": parts}])]
    model = make_model(make_spec(fake_provider.base_url))
    done = await ask(model)
    assert (done.text, done.reasoning, done.attempts) == ("Any rash?", None, 1)
    fake_provider.script = [Reply("", deltas=[{"content": {"text": "Any rash?"}}])]
    with pytest.raises(ProviderError, match="could not be read"):
        await ask(model)
    await model.aclose()


@pytest.mark.parametrize(
    ("reported", "counted"), [(6, 6), (0, 0), (9, 9), (10, None), (-1, None), (2.5, None), (True, None), ("6", None)]
)
async def test_impossible_counts_of_reasoning_tokens_are_ignored(
    fake_provider: FakeProvider, reported: object, counted: int | None
) -> None:
    fake_provider.script = [Reply("Any fever?", usage=(11, 9), thought=reported)]
    model = make_model(make_spec(fake_provider.base_url))
    assert (await ask(model)).usage.reasoning_tokens == counted
    await model.aclose()


async def test_estimated_tokens_include_reasoning(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("<think>one two three</think>four five six", usage=None)]
    model = make_model(make_spec(fake_provider.base_url))
    assert (await ask(model)).usage.completion_tokens == 8  # six words at 4/3 tokens
    await model.aclose()


async def test_a_template_that_opens_the_reasoning_is_recognised_by_the_first_reply(
    fake_provider: FakeProvider,
) -> None:
    fake_provider.script = [Reply("It is B. </think>Any fever?")]
    model = make_model(make_spec(fake_provider.base_url))
    first = await hear(model)
    voids = [item for item in first if isinstance(item, Thought) and item.void]
    assert [item.text for item in voids] == ["It is B. "], "the streamed speech is withdrawn"
    second = await hear(model)
    assert "".join(item.text for item in second if isinstance(item, TextPiece)) == "Any fever?"
    for items in (first, second):
        assert isinstance(items[-1], Completion)
        assert (items[-1].text, items[-1].reasoning, items[-1].attempts) == ("Any fever?", "It is B.", 1)
        assert not [item for item in items if isinstance(item, Restart)]
    await model.aclose()


async def test_interrupted_reasoning_is_restarted(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("<think>It is B", cut_after=2), Reply("<think>Not B.</think>Any fever?")]
    model = make_model(make_spec(fake_provider.base_url))
    items = await hear(model)
    assert sum(isinstance(item, Restart) for item in items) == 1
    assert isinstance(items[-1], Completion)
    assert (items[-1].text, items[-1].reasoning) == ("Any fever?", "Not B.")
    await model.aclose()


OUT_OF_TOKENS = [
    Reply("<think>The answer is B", finish_reason="length"),
    Reply("", deltas=[{"reasoning_content": "The answer is B"}], finish_reason="length"),
    Reply("", finish_reason="length", usage=(11, 40), thought=40),
]


@pytest.mark.parametrize("reply", OUT_OF_TOKENS, ids=["tag", "field", "hidden"])
async def test_running_out_of_tokens_while_reasoning_is_a_failure(fake_provider: FakeProvider, reply: Reply) -> None:
    fake_provider.script = [reply]
    model = make_model(make_spec(fake_provider.base_url))
    with pytest.raises(ProviderError, match=r"ran out of tokens while thinking \(limit 40\)") as caught:
        await ask(model, sampling=Sampling(max_tokens=40))
    assert (caught.value.kind, caught.value.attempts) == ("thinking", 1)
    assert len(fake_provider.requests) == 1, "the same limit would be reached again"
    assert isinstance(caught.value, OnlyThought)
    assert (caught.value.completion.reasoning or "The answer is B") == "The answer is B"
    assert caught.value.completion.usage.completion_tokens
    await model.aclose()


async def test_cut_off_reasoning_of_the_template_is_not_the_answer(fake_provider: FakeProvider) -> None:
    fake_provider.script = [Reply("The answer is B", finish_reason="length")]
    plain, thinking = (make_model(make_spec(fake_provider.base_url, opens_thinking=opens)) for opens in (False, True))
    assert (await ask(plain)).text == "The answer is B"
    with pytest.raises(ProviderError, match=r"while thinking \(limit not set here\)"):
        await ask(thinking)
    await plain.aclose()
    await thinking.aclose()


@pytest.mark.parametrize(
    "reply", [Reply("<think>Enough said.</think>\n"), Reply("", deltas=[{"reasoning": "Enough said."}])]
)
async def test_a_reply_of_reasoning_only_is_requested_once_more(fake_provider: FakeProvider, reply: Reply) -> None:
    fake_provider.script = [reply]
    model = make_model(make_spec(fake_provider.base_url))
    with pytest.raises(ProviderError, match="it thought but said nothing") as caught:
        await ask(model)
    assert (caught.value.kind, caught.value.attempts) == ("unspoken", 2)
    await model.aclose()


async def test_the_effort_is_sent_if_the_model_accepts_it(fake_provider: FakeProvider) -> None:
    low = Sampling(effort="low")
    body = {"reasoning": {"effort": "{effort}", "exclude": False}, "chat_template_kwargs": {"level": "{effort}"}}
    kinds = [{}, {"unsupported": ("reasoning_effort",)}, {"extra_body": body}, {"sampling": Sampling(effort="high")}]
    for changes in kinds:
        model = make_model(make_spec(fake_provider.base_url, **changes))
        for sampling in (low, Sampling()):
            done = await ask(model, sampling=sampling)
            assert done.request == fake_provider.bodies[-1], "the sent request is recorded"
        await model.aclose()
    usual, default, never, never_either, own, own_default, set_, set_default = fake_provider.bodies
    assert (usual["reasoning_effort"], set_["reasoning_effort"], set_default["reasoning_effort"]) == (
        "low",
        "low",
        "high",
    )
    for without in (default, never, never_either, own, own_default):
        assert "reasoning_effort" not in without
    assert own["reasoning"] == {"effort": "low", "exclude": False}
    assert own["chat_template_kwargs"] == {"level": "low"}
    assert own_default["reasoning"] == {"exclude": False}
    assert "chat_template_kwargs" not in own_default


async def test_a_server_without_effort_gets_requests_without_it(fake_provider: FakeProvider) -> None:
    def old_server(body: dict[str, object]) -> Reply:
        accepted = "reasoning_effort" not in body
        return Reply("Fine.") if accepted else failing(400, "Unrecognized request argument supplied: reasoning_effort")

    fake_provider.script = old_server
    model = make_model(make_spec(fake_provider.base_url))
    for _ in range(2):
        done = await ask(model, sampling=Sampling(effort="low"))
        assert done.text == "Fine."
        assert "reasoning_effort" not in done.request
    assert len(fake_provider.requests) == 3, "the second call needs no retry"
    await model.aclose()


async def test_an_unsupported_effort_is_an_error(fake_provider: FakeProvider) -> None:
    fake_provider.script = [failing(400, "'reasoning_effort' does not support 'minimal': choose 'low' or 'high'")]
    model = make_model(make_spec(fake_provider.base_url))
    with pytest.raises(ProviderError, match="does not support 'minimal'"):
        await ask(model, sampling=Sampling(effort="minimal"))
    assert len(fake_provider.requests) == 1
    await model.aclose()


ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
FAMILIES = {
    "DeepSeek, Qwen": "<think>It is B.</think>Any fever?",
    "a tag with attributes": '<think budget="high" id=\'1\'>It is B.</think >Any fever?',
    "Magistral": "[THINK]It is B.[/THINK]Any fever?",
    "Kimi": "◁think▷It is B.◁/think▷Any fever?",
    "Seed-OSS": "<seed:think>It is B.</seed:think>Any fever?",
    "Command A": "<|START_THINKING|>It is B.<|END_THINKING|><|START_RESPONSE|>Any fever?<|END_RESPONSE|>",
    "OpenThinker": "<|begin_of_thought|>It is B.<|end_of_thought|><|begin_of_solution|>Any fever?<|end_of_solution|>",
    "a prompt's own pad": "<scratchpad>\nIt is B.\n</scratchpad>\nAny fever?",
    "Reflection": "<thinking>It is B.</thinking><reflection></reflection>Any fever?",
    "gpt-oss": f"{ANALYSIS}It is B.<|end|><|start|>assistant{FINAL}Any fever?<|return|>",
    "gpt-oss, with a comment": f"{ANALYSIS}It is B.<|end|><|start|>assistant<|channel|>commentary to=x "
    f"<|constrain|>json<|message|><|call|><|start|>assistant{FINAL}Any fever?",
    "gpt-oss, special tokens removed": "analysisIt is B.assistantfinalAny fever?",
    "MedGemma": "<unused94>thought\nIt is B.<unused95>Any fever?",
    "MedGemma, without its first line": "<unused94>It is B.<unused95>\nAny fever?",
    "a closing token alone": "It is B.<unused95>Any fever?",
    "bold headings": "**Thinking:** It is B.\n\n**Answer:** Any fever?",
    "bold headings, colon outside": "**Thought process**: It is B. **Final answer**: Any fever?",
    "nested tags": "<think>Or A? <think>It is B.</think> Surely.</think>Any fever?",
    "gpt-oss, JSON": f"{ANALYSIS}It is B.<|end|><|start|>assistant"
    "<|channel|>final <|constrain|>json<|message|>Any fever?",
    "Gemma": "<|channel>thought\nIt is B.<channel|>Any fever?",
    "LongCat": "<longcat_think>It is B.</longcat_think>Any fever?",
    "K2": "<think_fast>It is B.</think_fast>Any fever?",
    "Apertus": "<|inner_prefix|>It is B.<|inner_suffix|>Any fever?",
    "Solar": "<|think|>It is B.<|end|><|begin|>assistant<|content|>Any fever?<|end|>",
    "s1, m1": "<|im_start|>think\nIt is B.\n<|im_start|>answer\nAny fever?",
    "HuatuoGPT-o1": "## Thinking\n\nIt is B.\n\n## Final Response\n\nAny fever?",
    "Granite": "Here is my thought process: It is B.\n\nHere's my response: Any fever?",
    "Hunyuan": "<think>\nIt is B.\n</think>\n<answer>\nAny fever?\n</answer>",
    "ERNIE": "<think>It is B.</think>\n\n<response>Any fever?</response>",
}  # fmt: skip


def test_the_markers_of_every_family_are_read_in_any_pieces(subtests: pytest.Subtests) -> None:
    for size in [1, 2, 3, 7, 1000]:
        for family in FAMILIES:
            with subtests.test(size=size, family=family):
                reply, thinking = FAMILIES[family], Thinking()
                items = [item for at in range(0, len(reply), size) for item in thinking.take(reply[at : at + size])]
                items += thinking.end(cut_off=False)
                assert (thinking.text, thinking.unclosed) == ("Any fever?", False)
                assert "It is B." in thinking.reasoning
                spoken = ""
                for item in items:
                    spoken = "" if isinstance(item, Thought) and item.void else spoken
                    spoken += item.text if isinstance(item, TextPiece) else ""
                assert spoken.strip() == "Any fever?"


def test_words_that_resemble_markers_are_speech(subtests: pytest.Subtests) -> None:
    table = [
        "Analysis of the blood?", "analysis of blood, any?", "analysis", "a < b [see] <b>bold</b> <|x|>",
        "**Answer:** B", "**Final Diagnosis:** Gout", "It is. **Thinking:** of gout. **Answer:** B",
        "**Think", "a ** b *c",
        "## Answer\nB", "Here is my advice: rest", "here", "<answer>B</answer>", "<x:thinker> he",
        "Is it <|chan", "[TH", "final: no", "◁ ", "<thinness>",
    ]  # fmt: skip
    for size in [1, 4, 1000]:
        for reply in table:
            with subtests.test(size=size, reply=reply):
                thinking = Thinking()
                items = [item for at in range(0, len(reply), size) for item in thinking.take(reply[at : at + size])]
                items += thinking.end(cut_off=False)
                assert (thinking.text, thinking.reasoning, thinking.unclosed) == (reply, "", False)
                assert "".join(item.text for item in items) == reply


def test_reasoning_below_a_heading_ends_at_the_message(subtests: pytest.Subtests) -> None:
    table = [
        ("**Thinking:** It is B. **Final Diagnosis:** Gout", "**Final Diagnosis:** Gout", "It is B."),
        ("## Thinking\nIt is B.\n## Answer\nGout", "Gout", "It is B."),
        ("## Thinking\nof gout", "## Thinking\nof gout", ""),
        ("**Thinking:** It is B.", "**Thinking:** It is B.", ""),  # nothing shows where it ends
    ]
    for size in (1, 5, 1000):
        for reply, speech, thought in table:
            with subtests.test(size=size, reply=reply):
                thinking = Thinking()
                for at in range(0, len(reply), size):
                    list(thinking.take(reply[at : at + size]))
                list(thinking.end(cut_off=False))
                assert (thinking.text, thinking.reasoning, thinking.unclosed) == (speech, thought, False)


def test_a_models_own_markers_are_read() -> None:
    thinking = Thinking(markers=(("{{inner}}", "{{outer}}"),))
    for letter in "{{inner}}It is B.{{outer}}Any fever?":
        list(thinking.take(letter))
    list(thinking.end(cut_off=False))
    assert (thinking.text, thinking.reasoning) == ("Any fever?", "It is B.")


@pytest.mark.parametrize(
    "reply", ["Well. <think>It is B.", "[THINK]It is B. Any fever?", "analysisIt is B. Any fever?"]
)
async def test_unclosed_reasoning_is_a_failure(fake_provider: FakeProvider, reply: str) -> None:
    fake_provider.script = [Reply(reply)]
    model = make_model(make_spec(fake_provider.base_url))
    with pytest.raises(ProviderError, match="did not end") as caught:
        await ask(model)
    assert caught.value.kind == "thinking", "a provider's failure, never an empty answer of the model"
    await model.aclose()


def test_unmarked_reasoning_is_noticed() -> None:
    table: list[tuple[str, bool]] = [
        ("Okay, the user is asking about a rash. Any fever?", True), ("We need to ask one question. Any fever?", True),
        ("Let me think. Any fever?", True), ("**Thinking:** any fever?", True), ("Okay, thank you. Any fever?", False),
        ("Any fever?", False),
        ("I need to see you today.", False), ("Let me ask you this: any fever?", False),
    ]  # fmt: skip
    wrong = [(reply, got) for reply, noticed in table if (got := looks_like_thought(reply)) is not noticed]
    assert wrong == []
