"""How often 95 % intervals of the speakers' parts of the noise contain the truth, in 500 simulations of each design.

A conversation moves the log-odds of a right answer: the doctor's and the patient's messages add shocks of two sizes,
and the conversation ends after a doctor's message at a bound of the log-odds, or at a cap. So lengths are random. The
true parts come from the exact distribution of this Markov chain. ``shared``: trials and answers of the same cases
estimate the variance between conversations, which the parts add up to. ``bias`` and ``error`` (standard deviation of
the estimate) are in units of variance.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from common import SMOKE, table
from numpy.typing import NDArray

from core.stats.nested import CaseScores, estimate_noise
from core.stats.speakers import Conversation, DrawnMessage, SpokenPart, estimate_speakers

SIMULATIONS = 5 if SMOKE else 500
_UNIT, _STARTS, _SPEAKERS = 0.35, (-4, -2, 0, 2, 4), ("doctor", "patient")


class Design(NamedTuple):
    """``shocks`` of doctor and patient in units of the log-odds; ``cap`` on messages; ``bound`` of the log-odds."""

    cases: int
    trials: int
    messages: int
    continuations: int
    shocks: tuple[int, int]
    cap: int
    bound: int
    shared: bool = True


DESIGNS = (
    Design(60, 3, 1, 2, (1, 3), 7, 8),
    Design(60, 3, 1, 2, (3, 1), 7, 8),
    Design(60, 3, 1, 2, (0, 3), 7, 8),
    Design(100, 2, 2, 1, (2, 2), 13, 9),
    Design(100, 2, 1, 1, (2, 2), 13, 9, shared=False),
    Design(200, 1, 2, 2, (1, 2), 7, 8, shared=False),
    Design(20, 3, 2, 3, (2, 2), 7, 8),
    Design(8, 3, 2, 3, (2, 2), 7, 8),
)


def shock(design: Design, t: NDArray[np.int64] | int) -> NDArray[np.int64] | int:
    """Return the size of the shock of message ``t``, from 1: odd ones are the doctor's."""
    return np.where(np.asarray(t) % 2 == 1, *design.shocks)


def over(design: Design, state: NDArray[np.int64], t: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether a conversation ends after ``t`` messages, the last of which is the doctor's."""
    return np.asarray((t % 2 == 1) & ((t >= design.cap) | ((np.abs(state) >= design.bound) & (t >= 3))))


def play(
    rng: np.random.Generator, design: Design, start: NDArray[np.int64], t: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Continue conversations from a state after ``t`` messages: return scores, lengths and all states by message."""
    state, t = start.copy(), t.copy()
    states = np.zeros((len(state), design.cap + 1), dtype=np.int64)
    states[np.arange(len(state)), t] = state
    while (going := ~over(design, state, t)).any():
        t[going] += 1
        state[going] += (shock(design, t) * rng.choice((-1, 1), len(state)))[going]
        states[np.flatnonzero(going), t[going]] = state[going]
    return (rng.random(len(state)) < chance(state)).astype(np.float64), t, states


def chance(state: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-_UNIT * state)))


def truth(design: Design) -> dict[str, float]:
    """Return the parts by speaker: sums over messages of the mean conditional variance of the expected score."""
    reach = design.cap * max(design.shocks) + max(_STARTS)
    states = np.arange(-reach, reach + 1)
    value = chance(states)
    values, variances = [value], list[NDArray[np.float64]]()
    for t in range(design.cap, 0, -1):
        before = np.full(len(states), t - 1)
        ended = over(design, states, before)
        up, down = (np.roll(value, -step) for step in (int(shock(design, t)), -int(shock(design, t))))
        variances.append(np.where(ended, 0.0, ((up - down) / 2) ** 2))
        value = np.where(ended, chance(states), (up + down) / 2)
        values.append(value)
    share = np.isin(states, _STARTS) / len(_STARTS)
    parts = dict.fromkeys(_SPEAKERS, 0.0)
    for t in range(1, design.cap + 1):
        parts[_SPEAKERS[(t + 1) % 2]] += float((share * variances[design.cap - t]).sum())
        ended = over(design, states, np.full(len(states), t - 1))
        step = int(shock(design, t))
        going = np.where(ended, 0.0, share)
        share = np.where(ended, share, 0.0) + (np.roll(going, step) + np.roll(going, -step)) / 2
    return parts


def sampled(rng: np.random.Generator, design: Design) -> tuple[list[CaseScores], list[list[Conversation]]]:
    """Draw cases with their trials (two answers each) and, for the first trial of each, continuations."""
    starts = rng.choice(_STARTS, design.cases).astype(np.int64)
    trials = np.repeat(starts, design.trials)
    scores, lengths, states = play(rng, design, trials, np.zeros(len(trials), dtype=np.int64))
    last = states[np.arange(len(trials)), lengths]
    second = (rng.random(len(trials)) < chance(last)).astype(np.float64)
    answers = np.stack([scores, second], axis=1).reshape(design.cases, design.trials, 2)
    nested: list[CaseScores] = [[[[a], [b]] for a, b in case] for case in answers.tolist()]
    k, drawn = design.continuations, list[tuple[int, str, int, int]]()
    for case in range(design.cases):
        trial = case * design.trials
        for place, speaker in enumerate(_SPEAKERS):
            own = np.arange(1 + place, lengths[trial] + 1, 2)
            for t in rng.permutation(own)[: design.messages]:
                drawn.append((trial, speaker, int(t), len(own)))
    from_states = np.array([[states[trial, t]] * k + [states[trial, t - 1]] * k for trial, _, t, _ in drawn])
    from_turns = np.array([[t] * k + [t - 1] * k for _, _, t, _ in drawn])
    continued = play(rng, design, from_states.ravel(), from_turns.ravel())[0].reshape(len(drawn), 2 * k)
    parts: list[dict[str, SpokenPart]] = [{} for _ in range(design.cases)]
    for (trial, speaker, _, number), row in zip(drawn, continued.tolist(), strict=True):
        part = parts[trial // design.trials].setdefault(speaker, SpokenPart(number, []))
        part.drawn.append(DrawnMessage([float(scores[trial]), *row[:k]], row[k:]))  # type: ignore[attr-defined]
    return nested, [[part] for part in parts]


def main() -> None:
    rows: list[list[str]] = []
    for design in DESIGNS:
        rng, truths = np.random.default_rng(20), truth(design)
        covered, estimates, widths = defaultdict[str, int](int), defaultdict[str, list[float]](list), list[float]()
        for _ in range(SIMULATIONS):
            nested, talks = sampled(rng, design)
            between = None
            if design.shared:
                (between,) = (c for c in estimate_noise(nested).components if c.sources == ("conversations",))
            for part in estimate_speakers(talks, between):
                covered[part.speaker] += part.interval.low - 1e-12 <= truths[part.speaker] <= part.interval.high + 1e-12
                estimates[part.speaker].append(part.estimate)
                widths.append(part.interval.high - part.interval.low)
        counts = f"{design.cases} × {design.trials}, {design.messages} × {design.continuations}, {design.cap}"
        for name, value in truths.items():
            sample = np.array(estimates[name])
            rows.append(
                [
                    counts, "yes" if design.shared else "no", name, f"{value:.4f}", f"{sample.mean() - value:+.4f}",
                    f"{sample.std():.4f}", f"{np.mean(widths):.3f}", f"{100 * covered[name] / SIMULATIONS:.1f}",
                ]
            )  # fmt: skip
    heads = ["cases × trials, messages × continuations, cap", "shared", "speaker", "truth", "bias", "error", "width"]
    table(f"{SIMULATIONS} simulations of each design, coverage in per cent", [*heads, "coverage"], rows)


if __name__ == "__main__":
    main()
