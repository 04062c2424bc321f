"""The doctors of stored conversations as judges: which can be asked again, with which model and sampling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from core.events import RoleName
from core.frameworks.base import Campaign, framework, frameworks, stored_settings, tested_seat
from core.frameworks.casting import CastNames, is_model
from core.jobs.ask_job import ModelSeat
from core.jobs.plan import HUMAN
from core.jobs.run import casting_of
from core.journal import PLAYED_ELSEWHERE, RunHeader
from core.models.registry import Registry
from core.prompts import PromptPack


class DoctorToAsk(NamedTuple):
    """The doctor of a run: its model, and the seat whose messages are its own."""

    header: RunHeader
    seat: RoleName


def doctor_of(header: RunHeader) -> DoctorToAsk | str:
    """Return the doctor of a run, or why it cannot be asked."""
    if header.source in PLAYED_ELSEWHERE or header.protocol not in frameworks():
        return "they were played elsewhere, so that their models cannot be asked"
    if header.doctor.partition("/")[0] == HUMAN:
        return "a person was the doctor"
    if not is_model(header.doctor):
        return f"{header.doctor} is a rule, which knows no answer"
    return DoctorToAsk(header, tested_seat(frameworks()[header.protocol]).role)


def doctor_seats(
    doctors: Iterable[DoctorToAsk], registry: Registry, pack: PromptPack, prompt: str, base_url: str | None
) -> Mapping[str, ModelSeat]:
    """Return run → its doctor's model with the sampling and the address of the run.

    ``prompt`` has the token limit of the replies: a cap for short messages would cut off the JSON.
    """
    seats: dict[str, ModelSeat] = {}
    for doctor in {doctor.header.run_id: doctor for doctor in doctors}.values():
        header = doctor.header
        settings = stored_settings(framework(header.protocol), header.settings)
        names = CastNames(**{doctor.seat: header.doctor})
        casting = casting_of(Campaign(names, (), protocol=header.protocol, settings=settings), registry)
        if base_url:
            casting = replace(casting, base_url=base_url, own_address=frozenset(), reach={})
        voice = casting.voice(doctor.seat, header.doctor)
        if voice.sampling.max_tokens is not None:
            cap = max(voice.sampling.max_tokens, pack.prompts[prompt].max_tokens)
            voice = replace(voice, sampling=replace(voice.sampling, max_tokens=cap))
        seats[header.run_id] = ModelSeat(voice, pack)
    return seats
