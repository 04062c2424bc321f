"""Why one request gave no reply: its kind, what happened, what to do, in words fit for a user."""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import FailureKind, ProviderError


@dataclass(frozen=True)
class Failure:
    """Why one request gave no reply; ``retry`` says whether asking again can help."""

    kind: FailureKind
    what: str
    advice: str
    retry: bool = False
    retry_after_s: float | None = None
    detail: str = ""

    def error(self, model: str, attempts: int) -> ProviderError:
        """Word the failure of a whole call as one sentence."""
        after = f" after {attempts} requests" if attempts > 1 else ""
        return ProviderError(
            self.kind, f"The model {model} gave no reply{after}: {self.what}; {self.advice}.", attempts=attempts
        )


class AttemptFailed(Exception):
    """One request failed; carries the reason to whoever decides on the next one."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.what)
        self.failure = failure


def refused(why: str) -> Failure:
    """Describe a reply that the provider's content filter, or the model itself, kept back."""
    return Failure("refused", why, "the item is left out of the figures; other wording may pass")


def timed_out(what: str) -> Failure:
    """Describe a request that took too long."""
    return Failure("timeout", what, "check the provider's load, or raise the timeouts in the models file", retry=True)


def malformed(what: str) -> Failure:
    """Describe a body that cannot be read."""
    advice = "try again, and check that the address serves OpenAI-compatible chat completions"
    return Failure("malformed", what, advice, retry=True)


def empty(finish_reason: str) -> Failure:
    """Describe a reply without any text."""
    if finish_reason == "length":
        return Failure("empty", "it used up its tokens before any text came", "raise max_tokens", retry=True)
    return Failure("empty", "the reply had no text", "look at the prompt, or try another model", retry=True)


def only_thought(finish_reason: str, limit: object) -> Failure:
    """Describe a reply that is nothing but reasoning; ``limit`` is how many tokens it was allowed, if anybody said."""
    if finish_reason == "length":
        told = f"limit {limit}" if limit else "limit not set here"
        advice = "raise max_tokens, or ask for less reasoning effort"
        return Failure("thinking", f"it ran out of tokens while thinking ({told})", advice)
    return Failure("unspoken", "it thought but said nothing", "look at its reasoning, or try another model", retry=True)
