"""Campaigns whose doctor is shown the cases' pictures: whether they can be, checked before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence

from core.agents.pictures import check_pack
from core.case import Case
from core.errors import UsageError
from core.frameworks.casting import is_model
from core.images import contents, kept
from core.models.pictures import TOKENS_A_PICTURE, refusal
from core.models.registry import Registry
from core.prompts import PromptPack

WITH = "with"
"""The setting ``images`` of a run whose doctor is shown them; empty where it is not."""
IMAGES = ("", WITH)


def read_images(text: str) -> str:
    """Read ``with`` or ``without`` as the setting ``images``; raise ``UsageError`` for anything else."""
    if text not in (WITH, "without"):
        raise UsageError(f"There is no --images {text!r}: write with or without.")
    return WITH if text == WITH else ""


def check_doctor(doctor: str, images: str) -> None:
    """Raise ``UsageError`` for an unknown value of the setting, and for pictures where the doctor is no model."""
    if images not in IMAGES:
        raise UsageError(f"The setting images is {images!r}: it must be {WITH!r}, or empty for none.")
    if images and not is_model(doctor):
        raise UsageError(
            f"Pictures are sent to a doctor that is a model, and {doctor} is none: choose a model, or --images without."
        )


def check_cases(cases: Sequence[Case]) -> None:
    """Raise ``UsageError`` where no case has a picture that could be shown."""
    if any(kept(case.images) for case in cases):
        return
    known = sum(bool(case.images) for case in cases)
    addresses = f" ({known} with an address, which is never fetched)" if known else ""
    raise UsageError(
        f"None of the {len(cases)} chosen cases has a picture in a file{addresses}: import cases with their pictures, "
        "or run with --images without."
    )


def check_files(cases: Sequence[Case]) -> None:
    """Raise ``UsageError`` for the first picture whose file is gone or is no longer what was imported."""
    for case in cases:
        for image in kept(case.images):
            try:
                contents(image)
            except UsageError as error:
                raise UsageError(f"Case {case.case_key} cannot be shown as it was: {error}") from None


def check_showable(images: str, cases: Sequence[Case], doctor: str, pack: PromptPack, registry: Registry) -> None:
    """Raise ``UsageError`` where a run with pictures would fail: its prompts, its doctor's model, or a file."""
    if not images:
        return
    check_pack(pack)
    if why := refusal(registry.spec(doctor)):
        raise UsageError(why)
    check_files(cases)


def without_words(images: str, cases: Sequence[Case]) -> str:
    """Return how many cases have no picture to show in a run with pictures, in a sentence; empty where all have."""
    bare = sum(not kept(case.images) for case in cases) if images else 0
    if not bare:
        return ""
    return f"{bare} of the {len(cases)} cases {'has' if bare == 1 else 'have'} no picture in a file: played without."


def tokens_a_call(images: str, cases: Sequence[Case]) -> float:
    """Return the prompt tokens that a call of the doctor is taken to need for pictures, on average over the cases."""
    if not images:
        return 0.0
    return sum(len(kept(case.images)) for case in cases) / len(cases) * TOKENS_A_PICTURE
