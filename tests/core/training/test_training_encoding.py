"""Chat templates and labels: the model learns the doctor's words, with their end mark, and nothing else."""

from __future__ import annotations

import pytest

from core.errors import AnamnesisError
from core.training.encoding import MASKED, PLAIN, ChatFormat
from tests.core.training.learning import a_tokenizer

TALK = [
    {"role": "system", "content": "Be a doctor."},
    {"role": "user", "content": "I cough. Since when?"},
    {"role": "assistant", "content": "Since when?"},
    {"role": "user", "content": "A week."},
    {"role": "assistant", "content": "It fits.\n**Final Diagnosis:** Flu"},
]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ALTERNATING = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
    "{% elif m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% else %} {{ m['content'] }}</s>{% endif %}{% endfor %}"
)
THINKING = (
    "{% for m in messages %}<{{ m['role'] }}>"
    "{% if m['role'] == 'assistant' and loop.last %}<think></think>{% endif %}{{ m['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SHOUTING = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] | upper }}{% endfor %}"


def learnt(template: str | None, length: int = 10_000) -> str:
    """Return the labelled tokens of the talk as text, with a bar between separate pieces."""
    chat = ChatFormat(a_tokenizer(template))
    encoded = chat.encode(TALK, length)
    assert len(encoded.ids) == len(encoded.labels)
    assert all(label in (id_, MASKED) for id_, label in zip(encoded.ids, encoded.labels, strict=True))
    pieces: list[list[int]] = [[]]
    for label in encoded.labels:
        pieces = [*pieces[:-1], [*pieces[-1], label]] if label != MASKED else [*pieces, []]
    return "|".join(chat.tokenizer.decode(piece) for piece in pieces if piece)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (CHATML, "Since when?<|im_end|>\n|It fits.\n**Final Diagnosis:** Flu<|im_end|>\n"),
        (ALTERNATING, " Since when?</s>| It fits.\n**Final Diagnosis:** Flu</s>"),
        (THINKING, "Since when?<end>|<think></think>It fits.\n**Final Diagnosis:** Flu<end>"),
        (None, " Since when?</s>\n| It fits.\n**Final Diagnosis:** Flu</s>\n"),
    ],
    ids=["chatml", "alternating", "thinking", "none"],
)
def test_only_the_doctors_messages_and_their_end_marks_are_learnt(template: str | None, words: str) -> None:
    assert learnt(template) == words


def test_a_tokenizer_without_a_template_gets_the_plain_one() -> None:
    chat = ChatFormat(a_tokenizer(None))
    assert not chat.own_template
    assert chat.tokenizer.chat_template == PLAIN
    assert chat.render(TALK[:2], prompt=True) == "system: Be a doctor.\nuser: I cough. Since when?\nassistant:"
    assert ChatFormat(a_tokenizer(None, eos=None)).render(TALK[:3]).endswith("assistant: Since when?\n")


def test_a_template_without_a_system_role_gets_the_prompt_in_the_patients_first_words() -> None:
    chat = ChatFormat(a_tokenizer(ALTERNATING))
    assert not chat.takes_system
    assert chat.render(TALK[:2], prompt=True) == "[INST] Be a doctor.\n\nI cough. Since when? [/INST]"
    assert ChatFormat(a_tokenizer(CHATML)).takes_system


def test_a_prompt_is_what_precedes_the_learnt_words() -> None:
    chat = ChatFormat(a_tokenizer(CHATML))
    encoded = chat.encode(TALK, 10_000)
    first = next(n for n, label in enumerate(encoded.labels) if label != MASKED)
    assert chat.tokenizer(chat.render(TALK[:2], prompt=True))["input_ids"] == list(encoded.ids[:first])


def test_a_long_dialogue_is_cut_at_its_end() -> None:
    chat = ChatFormat(a_tokenizer(CHATML))
    whole, cut = chat.encode(TALK, 10_000), chat.encode(TALK, 100)
    assert (whole.cut, cut.cut) == (False, True)
    assert cut.ids == whole.ids[:100]
    assert cut.labels == whole.labels[:100]
    assert chat.encode(TALK, 10).predicted == 0
    assert whole.predicted == len("Since when?<|im_end|>\nIt fits.\n**Final Diagnosis:** Flu<|im_end|>\n")


def test_a_template_that_changes_messages_is_refused() -> None:
    with pytest.raises(AnamnesisError, match="chat template does not repeat"):
        learnt(SHOUTING)
