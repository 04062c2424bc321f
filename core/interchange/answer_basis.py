"""The messages before an answer, its case, and the tokens that it took, for lines of Every Eval Ever."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from core.case import Case
from core.events import Format, QuestionType
from core.export.withheld import WITHHELD
from core.store.queries.counted_answers import (
    AnswerCall,
    CountedAnswer,
    StoredMessage,
    Tokens,
    answer_calls,
    messages_of,
    token_use,
)

FROM_DIALOGUE: tuple[Format, ...] = ("multi_turn", "multi_turn_exam", "closing")
"""Formats in which the doctor answers from the conversation; ``closing``: with its last message."""


@dataclass(frozen=True)
class AnswerBasis:
    """What a part of the answers is based on: dialogues, calls for answers, and tokens."""

    dialogues: Mapping[str, list[StoredMessage]]
    calls: Mapping[str, AnswerCall]
    dialogue_tokens: Mapping[str, Tokens]
    call_tokens: Mapping[str, Tokens]

    @classmethod
    def read(cls, cursor: duckdb.DuckDBPyConnection, answers: list[CountedAnswer]) -> AnswerBasis:
        talking = sorted({answer.trial_id for answer in answers if answer.format in FROM_DIALOGUE})
        return cls(messages_of(cursor, talking), answer_calls(cursor, answers), *token_use(cursor, answers))

    def messages(
        self, answer: CountedAnswer, case: Case | None, tested_role: str, *, open_: bool
    ) -> list[dict[str, Any]]:
        """Return the messages up to the answer; ``content`` is null where a text is not stored or withheld."""
        call = self.calls.get(answer.call_id or "")
        sent: list[tuple[str, str | None, str | None]] = []
        if answer.format in FROM_DIALOGUE:
            dialogue = self.dialogues.get(answer.trial_id, ())
            sent = [("assistant" if m.role == tested_role else "user", m.text, m.reasoning) for m in dialogue]
            question = _text_of(call.messages[-1]) if call and call.messages else case.question if case else None
            if answer.format != "closing":
                sent.append(("user", question, None))
        elif call and call.messages:
            sent = [(str(message.get("role")), _text_of(message), None) for message in call.messages]
        else:
            sent = [("user", case.question if case else None, None)]
        if answer.format != "closing" or not sent:
            sent.append(("assistant", answer.response, call.reasoning if call else None))
        return [
            {
                "turn_idx": number,
                "role": role,
                "content": text if open_ else None,
                **({"reasoning_trace": reasoning} if reasoning and open_ else {}),
            }
            for number, (role, text, reasoning) in enumerate(sent)
        ]

    def _tokens(self, answer: CountedAnswer) -> list[Tokens]:
        dialogue = self.dialogue_tokens.get(answer.trial_id) if answer.format in FROM_DIALOGUE else None
        own = self.call_tokens.get(answer.call_id or "") if answer.format != "closing" else None
        return [tokens for tokens in (dialogue, own) if tokens is not None]

    def estimated(self, answer: CountedAnswer) -> bool:
        return any(tokens.estimated for tokens in self._tokens(answer))

    def tokens(self, answer: CountedAnswer) -> dict[str, int] | None:
        """Return the tokens of the doctor's calls for the answer and for the dialogue before it."""
        used = self._tokens(answer)
        if not used:
            return None
        prompt, completion = sum(t.prompt for t in used), sum(t.completion for t in used)
        optional = {
            "input_tokens_cache_read": [t.cached for t in used],
            "input_tokens_cache_write": [t.cache_write for t in used],
            "reasoning_tokens": [t.reasoning for t in used],
        }
        return {
            "input_tokens": prompt,
            "output_tokens": completion,
            "total_tokens": prompt + completion,
            **{name: sum(filter(None, counts)) for name, counts in optional.items() if counts != [None] * len(counts)},
        }


def sample_hash(case: Case) -> str:
    """Return the SHA-256 of the case as text and of its right answer, equal for equal cases whatever their ids."""
    return hashlib.sha256(f"{_case_text(case)}{case.answer}".encode()).hexdigest()


def _case_text(case: Case) -> str:
    return f"{case.vignette}\n\n{case.question}"


def case_input(case: Case | None, question_type: QuestionType, *, open_: bool) -> dict[str, Any]:
    if case is None or not open_:
        return {"raw": WITHHELD, "reference": []}
    choices = {"choices": list(case.choices)} if question_type == "mcq" and case.choices else {}
    return {"raw": _case_text(case), "reference": [case.answer], **choices}


def _text_of(message: Mapping[str, Any]) -> str | None:
    """Return the text of a message of a request; parts without text, such as pictures, are left out."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part["text"]) for part in content if isinstance(part, dict) and part.get("text"))
    return None if content is None else str(content)
