"""Parts of speakers in the variance between conversations: by hand, by enumeration, and known ones by simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from core.errors import UsageError
from core.stats.nested import estimate_noise
from core.stats.speakers import Conversation, DrawnMessage, SpokenPart, estimate_speakers


def test_a_message_by_hand() -> None:
    # half squared differences: of the two scores after the message 1/2, of a score after it and the other one 0 and 1/2
    assert DrawnMessage([1, 0], [1]).variance == pytest.approx((0 + 1 / 2) / 2 - 1 / 2)
    assert DrawnMessage([1, 1], [0]).variance == pytest.approx(1 / 2)
    # two other messages: the pairs of messages have (0 + 1/2) / 2, (0 + 1/2) / 2 and 0
    assert DrawnMessage([1, 0], [1, 1]).variance == pytest.approx((1 / 4 + 1 / 4 + 0) / 3 - 1 / 2)
    assert math.isnan(DrawnMessage([1], [0]).variance)
    assert math.isnan(DrawnMessage([1, 0], []).variance)


def test_the_mean_of_the_drawn_messages_stands_for_all() -> None:
    drawn = [DrawnMessage([1, 1], [0]), DrawnMessage([1, 1], [1]), DrawnMessage([1], [])]
    assert SpokenPart(7, drawn).variance == pytest.approx(7 * (1 / 2 + 0) / 2)
    assert SpokenPart(0, []).variance == 0
    assert math.isnan(SpokenPart(7, [DrawnMessage([1], [])]).variance)


def cases_of(*values: tuple[float, float]) -> list[list[Conversation]]:
    """Cases of one conversation with these scores of doctor's and patient's continuations (from before the message)."""
    return [
        [{name: SpokenPart(1, [DrawnMessage([1, 1], [again])]) for name, again in zip("dp", scores, strict=True)}]
        for scores in values
    ]


def test_each_case_has_the_same_weight_and_parts_add_up() -> None:
    cases = cases_of((0, 1), (1, 0), (0, 1), (0, 1))
    twice = [cases[0] * 3, *cases[1:]]
    for table in (cases, twice):
        doctor, patient = estimate_speakers(table)
        assert [doctor.estimate, patient.estimate] == pytest.approx([3 / 8, 1 / 8])
        assert (doctor.speaker, doctor.n_cases, doctor.n_messages) == ("d", 4, sum(map(len, table)))
    # trials of three of the cases, each with two answers, give the sum of the parts
    noise = estimate_noise([[[[1.0], [1.0]], [[0.0], [0.0]]], [[[1.0], [1.0]]] * 2, [[[1.0], [0.0]]] * 2])
    (between,) = (component for component in noise.components if component.sources == ("conversations",))
    doctor, patient = estimate_speakers(cases, between)
    assert doctor.estimate + patient.estimate == pytest.approx(between.estimate)
    assert doctor.estimate - patient.estimate == pytest.approx(3 / 8 - 1 / 8)


def test_the_errors_of_parts_that_add_up_are_those_of_leaving_out_cases() -> None:
    rng = np.random.default_rng(4)
    cases = cases_of(*((float(a), float(b)) for a, b in rng.integers(0, 2, (9, 2))))
    scores = [[[[float(x)], [float(y)]] for x, y in case] for case in rng.integers(0, 2, (9, 2, 2))]

    def doctors(leave_out: int | None) -> float:
        chosen = [place for place in range(9) if place != leave_out]
        components = estimate_noise([scores[place] for place in chosen]).components
        (between,) = (component for component in components if component.sources == ("conversations",))
        return estimate_speakers([cases[place] for place in chosen], between)[0].estimate

    without = np.array([doctors(place) for place in range(9)])
    components = estimate_noise(scores).components
    (between,) = (component for component in components if component.sources == ("conversations",))
    assert estimate_speakers(cases, between)[0].error == pytest.approx(float(without.std() * 8**0.5))


def test_too_few_cases_no_variance_and_scores_that_are_none() -> None:
    assert estimate_speakers([]) == []
    assert estimate_speakers(cases_of((0, 1), (1, 0))) == []
    part = estimate_speakers(cases_of(*[(1, 1)] * 20))[0]
    assert (part.estimate, part.interval.low) == (0, 0)
    assert 0 < part.interval.high < 0.15
    with pytest.raises(UsageError):
        estimate_speakers([[{"d": SpokenPart(1, [DrawnMessage([1, 2], [0])])}]])


Path = tuple[tuple[str, int], ...]


def next_messages(path: Path) -> list[tuple[float, tuple[str, int]]]:
    """Return chance and message of what may follow: who opened with 2 is asked once more, 0 ends at once."""
    if not path:
        return [(0.5, ("doctor", 0)), (0.3, ("doctor", 1)), (0.2, ("doctor", 2))]
    if path[0][1] == 0 or len(path) == 1 + 2 * path[0][1]:
        return []
    if len(path) % 2:
        return [(0.25, ("patient", 0)), (0.75, ("patient", 1))]
    return [(0.4, ("doctor", 0)), (0.6, ("doctor", 1))]


def endings(path: Path) -> Iterator[tuple[float, Path]]:
    """Yield the chance of every whole conversation that begins like this."""
    following = next_messages(path)
    if not following:
        yield 1.0, path
    for chance, message in following:
        for of_rest, whole in endings((*path, message)):
            yield chance * of_rest, whole


def score(path: Path) -> float:
    """Return whether more than half of the messages are not 0, so that every message may decide."""
    return float(2 * sum(value > 0 for _, value in path) > len(path))


def expected(path: Path) -> float:
    return sum(chance * score(whole) for chance, whole in endings(path))


def test_random_lengths_are_unbiased_by_enumeration() -> None:
    """The mean over every conversation, drawn message and pair of continuations is the sum of conditional variances."""
    truth, estimated = dict.fromkeys(("doctor", "patient"), 0.0), dict.fromkeys(("doctor", "patient"), 0.0)

    def add_up(path: Path, chance: float) -> None:
        following = next_messages(path)
        values = [(share, expected((*path, message))) for share, message in following]
        mean = sum(share * value for share, value in values)
        for (share, value), (_, message) in zip(values, following, strict=True):
            truth[message[0]] += chance * share * (value - mean) ** 2
            add_up((*path, message), chance * share)

    add_up((), 1.0)
    for chance, whole in endings(()):
        for speaker in truth:
            own = [turn for turn, message in enumerate(whole) if message[0] == speaker]
            for turn in own:
                for of_kept, kept in endings(whole[: turn + 1]):
                    for of_again, again in endings(whole[:turn]):
                        drawn = DrawnMessage([score(whole), score(kept)], [score(again)])
                        value = SpokenPart(len(own), [drawn]).variance
                        estimated[speaker] += chance / len(own) * of_kept * of_again * value
    assert estimated == pytest.approx(truth)
    scores = [(chance, score(whole)) for chance, whole in endings(())]
    mean = sum(chance * value for chance, value in scores)
    assert sum(truth.values()) == pytest.approx(sum(chance * (value - mean) ** 2 for chance, value in scores))
    assert min(truth.values()) > 0.01


def test_known_parts_lie_in_their_intervals() -> None:
    """Of 500 intervals 93 to 97 % contain the part. A question moves the chance of a right answer, a reply moves it
    twice as far; the case has a chance of its own."""
    rng, simulations, moves = np.random.default_rng(20), 500, {"doctor": 0.1, "patient": 0.2}
    covered, sums = dict.fromkeys(moves, 0), dict.fromkeys(moves, 0.0)
    for _ in range(simulations):
        cases: list[list[Conversation]] = []
        for chance in rng.uniform(0.3, 0.7, 40):
            question, reply = (rng.choice((-1, 1)) * moves[name] for name in moves)
            stored = float(rng.random() < chance + question + reply)
            replies, others = (rng.choice((-1, 1), 6) * moves[name] for name in ("patient", "doctor"))
            asked = (rng.random(2) < chance + question + replies[:2]).astype(float).tolist()
            kept = (rng.random(2) < chance + question + reply).astype(float).tolist()
            again = (rng.random(2) < chance + others[:2] + replies[2:4]).astype(float).tolist()
            replied = (rng.random(2) < chance + question + replies[4:]).astype(float).tolist()
            drawn = {"doctor": DrawnMessage([stored, *asked], again), "patient": DrawnMessage([stored, *kept], replied)}
            cases.append([{name: SpokenPart(1, [message]) for name, message in drawn.items()}])
        for part in estimate_speakers(cases):
            truth = moves[part.speaker] ** 2
            covered[part.speaker] += part.interval.low <= truth <= part.interval.high
            sums[part.speaker] += part.estimate
    for speaker, move in moves.items():
        assert 0.93 <= covered[speaker] / simulations <= 0.97, speaker
        assert sums[speaker] / simulations == pytest.approx(move**2, abs=0.01), speaker
