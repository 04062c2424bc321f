"""What a doctor believed in the course of one conversation, and whether it stopped too early or asked too long.

A probe is the belief after one reply of the patient: up to five diagnoses with probabilities (``core.agents.belief``),
or the five likeliest of the reference doctor's posterior. A diagnosis is right by the rules of the reference grader:
the case's answer, its synonyms and its broader names. The measures and their thresholds are this project's own.

The rules
- Probability of the right diagnosis: the sum over the listed diagnoses that are right; 0 where none is listed.
- Leader: the likeliest diagnosis, of equally likely ones the first listed. All right ones are one and the same leader.
- Premature closure: the doctor ended the conversation by a diagnosis or by asking no more (not at the cap, nor by a
  failure), facts that the patient could have told were never elicited, and by its own last probe the leader was not
  right or less likely than ``CLOSURE``. Unknown where the facts are unknown.
- Over-asking: the answered questions after the first probe from which on the right diagnosis led at every probe with a
  probability of at least ``SETTLED``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.case import Case
from core.events import EndReason, Probed
from core.knowledge.base import knowledge, normalise_name
from core.text.diagnosis_names import names_answer

CLOSURE = 0.5
"""A leader less likely than this is no ground to stop while facts are left."""
SETTLED = 0.9
"""From this probability of the right diagnosis on, further questions no longer change what is believed."""
RIGHT = "the right diagnosis"
_ENDED_BY_DOCTOR: tuple[EndReason, ...] = ("final_diagnosis", "no_question")


@dataclass(frozen=True)
class Belief:
    """The belief after message ``turn``: the probability of the right diagnosis, the leader and its probability."""

    turn: int
    right: float
    leader: str
    leading: float
    leads: bool
    """Whether the leader is right."""


@dataclass(frozen=True)
class Trajectory:
    """The beliefs of one conversation in their order, and what follows from them.

    Turns are numbers of messages (0 is the greeting). ``first_led``: the first turn at which the right diagnosis led;
    ``led_for_good``: the first from which it led to the end; ``last_change``: the last turn at which another diagnosis
    took the lead. Each is ``None`` where there is none. ``premature`` and ``over_asked`` as in the module's rules;
    ``over_asked`` is 0 where the right diagnosis never settled.
    """

    beliefs: tuple[Belief, ...]
    first_led: int | None
    led_for_good: int | None
    last_change: int | None
    premature: bool | None
    over_asked: int

    @property
    def leads_at_end(self) -> bool:
        """Whether the right diagnosis led at the last probe."""
        return bool(self.beliefs) and self.beliefs[-1].leads

    @property
    def lost(self) -> bool:
        """Whether the right diagnosis once led and did not at the end."""
        return self.first_led is not None and not self.leads_at_end


def trajectory(
    case: Case, probes: Sequence[Probed], end_reason: EndReason | None = None, never_elicited: int | None = None
) -> Trajectory:
    """Return the course of a doctor's belief.

    ``end_reason`` says why the conversation ended, ``never_elicited`` how many of the facts that the patient could
    tell never came up (``None``: unknown). Without a probe everything is empty.
    """
    beliefs = tuple(_belief(case, probe) for probe in sorted(probes, key=lambda p: p.turn) if probe.differential)
    settled = _from_which(beliefs, [b.leads and b.leading >= SETTLED for b in beliefs])
    return Trajectory(
        beliefs=beliefs,
        first_led=next((b.turn for b in beliefs if b.leads), None),
        led_for_good=_from_which(beliefs, [b.leads for b in beliefs]),
        last_change=_last_change(beliefs),
        premature=_premature(beliefs, end_reason, never_elicited),
        over_asked=0 if settled is None else (beliefs[-1].turn - settled) // 2,
    )


def is_right(case: Case, diagnosis: str) -> bool:
    """Say whether a named diagnosis counts as the case's answer by the rules of the reference grader."""
    return names_answer(case, diagnosis, knowledge())


def _belief(case: Case, probe: Probed) -> Belief:
    ranked = sorted(probe.differential, key=lambda entry: -entry[1])
    leader, leading = ranked[0]
    right = sum(probability for name, probability in ranked if is_right(case, name))
    return Belief(probe.turn, min(1.0, right), leader, leading, is_right(case, leader))


def _from_which(beliefs: Sequence[Belief], holds: Sequence[bool]) -> int | None:
    """Return the first turn from which something holds at every probe to the end."""
    turn = None
    for belief, held in zip(reversed(beliefs), reversed(holds), strict=True):
        if not held:
            break
        turn = belief.turn
    return turn


def _last_change(beliefs: Sequence[Belief]) -> int | None:
    leaders = [RIGHT if belief.leads else normalise_name(belief.leader) for belief in beliefs]
    changes = [
        belief.turn for belief, now, before in zip(beliefs[1:], leaders[1:], leaders[:-1], strict=True) if now != before
    ]
    return changes[-1] if changes else None


def _premature(beliefs: Sequence[Belief], end_reason: EndReason | None, never_elicited: int | None) -> bool | None:
    if not beliefs or end_reason is None or never_elicited is None:
        return None
    unsure = not beliefs[-1].leads or beliefs[-1].leading < CLOSURE
    return end_reason in _ENDED_BY_DOCTOR and never_elicited > 0 and unsure
