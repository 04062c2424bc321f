"""Hashes the doctor's prompts of the release with the specialty's name factored out, so that differing ones show."""

from __future__ import annotations

import hashlib
import re

_SPECIALTY = re.compile(r"(You are an AI doctor)(?: specializing in [^.]+)?\.")


def template_of(prompt: str) -> str:
    """Return a prompt with a mark in place of its specialty, also where it names none (the specialty Other)."""
    return _SPECIALTY.sub(r"\1 specializing in {specialty}.", prompt, count=1).strip()


def prompt_hash(template: str) -> str:
    """Return a short hash of a prompt's template."""
    return hashlib.sha256(template.encode()).hexdigest()[:16]
