"""Which parts a step's messages are made of, and from which file each comes.

What was sent is what the call's record holds. Its parts and files are named by rendering the prompts again: only
where that gives the very same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.agents.calls import wire
from core.agents.parts import Part, StepMessage, messages_of
from core.errors import UsageError
from core.frameworks.base import framework
from core.journal import RunHeader
from core.models.base import Message, Role
from core.prompts import PromptPack


@dataclass(frozen=True)
class Prompts:
    """The prompt pack of a run as it can be had now; ``same`` says whether it is what the run used."""

    pack: PromptPack
    same: bool
    note: str = ""

    def message(self, part: Part, before: Part | None) -> StepMessage:
        """Return a part with its place in the pack or in the dialogue."""
        prompt = self.pack.prompts.get(part.prompt or "")
        if part.turn is not None:
            source: str | None = f"message {part.turn}"
        else:
            source = self.pack.file_of(prompt.name) if prompt else None
        joined = part.joined or (before is not None and before.role == part.role != "system")
        return StepMessage(
            part.role, part.content, part.part, source, prompt.hash if prompt else None,
            part.prompt, part.values, joined, part.images,
        )  # fmt: skip

    def messages(self, parts: Sequence[Part]) -> tuple[StepMessage, ...]:
        """Return the parts, each with where it comes from."""
        return tuple(self.message(part, before) for part, before in zip(parts, [None, *parts], strict=False))


def prompts_of(header: RunHeader) -> Prompts:
    """Return the prompts of a run, or those of the pack craftmd with a note where they cannot be had any more."""
    if header.source == "release":
        words = (
            f"The release does not hold the wording of this step: shown is what the pack {framework().name} would send."
        )
        return Prompts(framework().pack(), False, words)
    try:
        pack = framework().pack(header.prompt_pack)
    except UsageError:
        words = f"The prompt pack {header.prompt_pack} cannot be found any more: files are not named."
        return Prompts(framework().pack(), False, words)
    if pack.hash == header.prompt_hash:
        return Prompts(pack, True)
    words = (
        f"The prompt pack {header.prompt_pack} has changed since this run ({header.prompt_hash} then, {pack.hash} "
        "now): files are not named."
    )
    return Prompts(pack, False, words)


def described(stored: Sequence[Message], parts: Sequence[Part], prompts: Prompts) -> tuple[StepMessage, ...]:
    """Return what a call was sent, part by part where ``parts`` are its words, else message by message."""
    if prompts.same and _words(messages_of(parts)) == _words(stored):
        return prompts.messages(parts)
    return tuple(_by_dialogue(stored, parts))


def _words(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with the system's as the user's, as some models take it, so that both ways compare."""
    return wire([{**m, "role": "user" if m["role"] == "system" else m["role"]} for m in messages])


def _by_dialogue(stored: Sequence[Message], parts: Sequence[Part]) -> list[StepMessage]:
    """Recognise the dialogue's messages by their words; the rest is told by its place, and its file is not known."""
    dialogue = [part for part in parts if part.turn is not None]
    first = parts[0] if parts and parts[0].part == "system" else None
    beside = ("persona", "picture")
    others = [part for part in parts[1 if first else 0 :] if part.turn is None and part.part not in beside]
    last = others[-1] if others else Part("user", "", "instruction")
    alone = last if len(others) == 1 else replace(last, prompt=None, values={})
    found: list[StepMessage] = []
    for message in stored:
        role, content = message["role"], message["content"]
        number = len(found)
        opening = first if not found else None
        if opening and dialogue and content.endswith(f"\n\n{dialogue[0].content}"):  # sent as the user's words
            told = content.removesuffix(f"\n\n{dialogue[0].content}")
            found += [_unplaced(role, told, opening), _spoken(role, dialogue.pop(0), joined=True)]
        elif dialogue and _begins(content, dialogue[0].content):
            turn = dialogue.pop(0)
            rest = content[len(turn.content) :].removeprefix("\n\n")
            found += [_spoken(role, turn), *([_unplaced(role, rest, alone, joined=True)] if rest else [])]
        else:
            found.append(_unplaced(role, content, opening or alone))
        if images := message.get("images"):
            only = len(found) == number + 1 and not opening and role == "user" and bool(dialogue)
            found[number] = replace(found[number], images=images, part="picture" if only else found[number].part)
    return found


def _begins(content: str, words: str) -> bool:
    return content == words or content.startswith(f"{words}\n\n")


def _spoken(role: Role, part: Part, *, joined: bool = False) -> StepMessage:
    return StepMessage(role, part.content, "dialogue", f"message {part.turn}", joined=joined)


def _unplaced(role: Role, content: str, part: Part, *, joined: bool = False) -> StepMessage:
    return StepMessage(role, content, part.part, prompt=part.prompt, values=part.values, joined=joined)


def not_sent(parts: Sequence[Part], prompts: Prompts, system_prompt: str | None = None) -> tuple[StepMessage, ...]:
    """Return the parts as they would be sent; ``system_prompt`` is what really stood above a release's dialogue."""
    messages = prompts.messages(parts)
    if system_prompt is None or not parts or parts[0].prompt != "doctor":
        return messages
    told = replace(messages[0], content=system_prompt, source=None, source_hash=None)
    return (told, *messages[1:])
