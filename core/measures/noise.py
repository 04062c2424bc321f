"""Noise by source: how much of a mean's variance cases, conversations, answers and gradings cause.

The trials of a case are conversations of their own. ``job replicates`` asks the questions of a stored dialogue again,
and grades answers again: replicates, which count in no other figure. Formats without a conversation lack this source:
each trial is another answer. Statistics: ``core.stats.nested``. ``job continuations`` divides conversations between
their speakers: ``core.stats.speakers``.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from core.errors import AnamnesisError
from core.events import GRADED_TYPES, Format, QuestionType
from core.frameworks.base import WITHOUT_CONVERSATION
from core.frameworks.casting import is_model
from core.measures.base import Columns, Listed, MetricRequest, Row, Section, metric
from core.stats.bootstrap import SEED
from core.stats.nested import NORMAL_95, CaseScores, NoiseEstimate, Source, estimate_noise
from core.stats.speakers import LARGEST_VARIANCE, Conversation, DrawnMessage, SpeakerPart, SpokenPart, estimate_speakers
from core.store.database import Store
from core.store.queries.continuations import SpokenMessages, continuation_scores, spoken_messages
from core.store.queries.replicates import graders_of_replicates, noise_scores
from core.store.selection import Selection, conditions

ArmKey = tuple[str, Format, QuestionType]
"""Condition, format and question type."""
NoisePart = Literal["components", "plan", "ranks"]
DRAWS = 10_000
_TRIALS, _REPLICATES = (1, 2, 3, 5, 10), (1, 3)
_VARIANCE = Columns("variance", excluded="excluded")
_STAYS = Columns("stays", None, None)
NEW_CASES, ALL_NOISE, WHOLE_ORDER = "new cases", "all noise", "whole order"


@dataclass(frozen=True)
class ArmNoise:
    """The noise of one arm of a condition.

    ``case_means`` are the means of the verdicts that count, by case; ``shared`` of these verdicts are from a call of
    the grader about another, equal response. ``trials`` is the harmonic mean of the counted trials of a case: the mean
    over cases varies as if each case had this number. ``sources`` are those that exist:
    without a conversation only cases, answers and gradings, and no gradings if a rule judges. ``speakers`` are the
    parts of each speaker's messages in the variance between conversations, as far as continuations are stored;
    ``adds_up``: whether these parts add up to that variance.
    """

    estimate: NoiseEstimate
    case_means: Mapping[str, float]
    trials: float
    sources: tuple[Source, ...]
    excluded: Mapping[str, int]
    shared: int = 0
    speakers: tuple[SpeakerPart, ...] = ()
    adds_up: bool = False

    def variances(self, cases: float, trials: float, answers: float = 1, gradings: float = 1) -> dict[str, float]:
        """Return source → its part of the variance of a mean with these numbers."""
        numbers = (
            (cases, trials, answers, gradings) if "conversations" in self.sources else (cases, 1, trials, gradings)
        )
        return {
            self.named(component.sources): max(0.0, component.estimate) / self.estimate.divisor(component, *numbers)
            for component in self.estimate.components
        }

    def named(self, sources: Sequence[Source]) -> str:
        return " + ".join(source for source in sources if source in self.sources)


@metric(
    "noise",
    "run",
    "models",
    "source",
    "cases",
    "formats",
    "questions",
    "mcq_rule",
    empty="There is nothing to report yet: run a campaign with several trials of each case (--trials), or replicate "
    "answers and gradings of a stored run (`python -m core job replicates`).",
)
def report_noise(
    request: MetricRequest,
    part: Annotated[
        NoisePart,
        "components: the variance of single scores by source. plan: cases that a mean needs, by trials, answers and "
        "gradings. ranks: how often the order of conditions stays.",
    ] = "components",
    half_width: Annotated[float, "plan: half the width of the 95 % interval of the mean, between 0 and 1."] = 0.05,
    same_cases: Annotated[
        bool, "plan: the interval of another run on the same cases, without the variance between cases."
    ] = False,
) -> Iterator[Listed]:
    """Report how much of the variance of a mean cases, conversations, answers and gradings cause.

    Conversations are the trials of a case. Answers to the same dialogue and gradings of the same answer are replicated
    by `job replicates`; without these, a row has the variance of several sources together. Continuations by `job
    continuations` divide the variance of conversations between their speakers.
    """
    arms = request.read(read_noise, request.selection)
    if part == "ranks":
        behind = {condition.name: condition.newest for condition in request.read(conditions, request.selection)}
        places = {name: (run.protocol, run.data_set) for name, run in behind.items()}
        rows = list(rank_rows(arms, places))
        if arms and not rows:
            raise AnamnesisError(
                "No two conditions of one framework and data set share two cases: choose other --models or --cases."
            )
        yield from rows
    else:
        for arm, noise in arms.items():
            label = dict(zip(("model", "format", "question_type"), arm, strict=True))
            if part == "plan":
                yield from _plan_rows(label, noise, half_width, same_cases)
            else:
                yield from _component_rows(label, noise)
    _note(request, arms, part)


SECTIONS = (
    Section(
        "Noise by source",
        report_noise,
        controls=("part", "half_width", "same_cases"),
        kind="dots",
        series="model",
        place="source",
        caption="Variance of single scores (0 to 1) by source, with its interval.",
        heads={"share": "Share of the mean's variance"},
    ),
)


def read_noise(store: Store, selection: Selection) -> dict[ArmKey, ArmNoise]:
    """Return the noise of each arm of each condition of a selection, without arms that have no counted verdict."""
    with store.read() as cursor:
        scores, continued = noise_scores(cursor, selection), continuation_scores(cursor, selection)
        spoken = spoken_messages(cursor, continued["trial_id"].unique().tolist())
    by_arm = ["model", "format", "question_type"]
    groups: Iterator[Any] = iter(scores.groupby(by_arm, sort=False))
    continuations: dict[Any, pd.DataFrame] = dict(iter(continued.groupby(by_arm, sort=False)))
    return {
        arm: noise_of(rows, arm[1], arm[2], continuations.get(arm), spoken)
        for arm, rows in groups
        if rows["counted"].any()
    }


def noise_of(
    scores: pd.DataFrame,
    format_: Format,
    question_type: QuestionType,
    continued: pd.DataFrame | None = None,
    spoken: Mapping[str, SpokenMessages] | None = None,
) -> ArmNoise:
    """Estimate the noise of the rows of one arm (``noise_scores``), and of its continuations, if there are any.

    Shared verdicts err together, so that they are left out of the estimate if there are replicates.
    """
    counted = scores[scores["counted"]]
    replicated = ((counted["answer"] > 0) | (counted["grading"] > 0)).any()
    stored = counted[(counted["answer"] == 0) & (counted["grading"] == 0)]
    by_case = stored.groupby("case_key")["correct"].agg(["mean", "size"])
    talks = format_ not in WITHOUT_CONVERSATION
    by_model = question_type in GRADED_TYPES and any(map(is_model, counted["grader"].dropna().unique()))
    sources: list[Source] = ["cases", "answers"]
    if talks:
        sources.insert(1, "conversations")
    if by_model:
        sources.append("gradings")
    excluded = Counter[str]()
    for answer, grading, verdict in scores.loc[~scores["counted"], ["answer", "grading", "verdict"]].to_numpy():
        excluded[f"{verdict} (replicate)" if answer or grading else verdict] += 1
    trials = len(by_case) / float((1 / by_case["size"]).sum()) if len(by_case) else 0.0
    by_key = _nested(counted[~counted["shared"]] if replicated else counted, talks=talks)
    estimate, speakers, between = estimate_noise(list(by_key.values())), list[SpeakerPart](), None
    if continued is not None and spoken is not None:
        talks_of = _continued(continued, spoken, excluded)
        keys = dict.fromkeys([*by_key, *talks_of])  # the cases of the estimate first, in their order
        apart = [component for component in estimate.components if component.sources == ("conversations",)]
        by_rule = any(spoken[trial].by_rule for trial in continued["trial_id"].unique())
        between = apart[0] if apart and not by_rule else None
        speakers = estimate_speakers([talks_of.get(key, []) for key in keys], between)
    return ArmNoise(
        estimate,
        {str(case): float(mean) for case, mean in by_case["mean"].items()},
        trials,
        tuple(sources),
        dict(excluded),
        int(stored["shared"].sum()),
        tuple(speakers),
        between is not None and math.isclose(sum(part.estimate for part in speakers), between.estimate, abs_tol=_TIE),
    )


def _continued(
    continued: pd.DataFrame, spoken: Mapping[str, SpokenMessages], excluded: Counter[str]
) -> dict[str, list[Conversation]]:
    """Return the continued conversations by case, and count what does not count in ``excluded``."""
    columns = ("case_key", "trial_id", "speaker", "turn", "again", "counted", "correct", "verdict")
    drawn: dict[str, dict[str, dict[str, dict[int, tuple[list[float], list[float]]]]]] = {}
    talks = continued.drop_duplicates("trial_id")
    talks = talks[talks["stored_counted"]]
    stored_scores = dict(zip(talks["trial_id"], talks["stored_correct"].astype(float), strict=True))
    for case, trial, speaker, turn, again, counted, correct, verdict in zip(
        *(continued[name] for name in columns), strict=True
    ):
        if trial not in stored_scores:
            continue
        own = drawn.setdefault(case, {}).setdefault(trial, {}).setdefault(speaker, {})
        kept_and_again = own.setdefault(turn, ([stored_scores[trial]], []))
        if counted:
            kept_and_again[again].append(float(correct))
        else:
            excluded[f"{verdict} (continuation)"] += 1
    return {
        case: [
            {
                speaker: SpokenPart(
                    messages, [DrawnMessage(*scores) for scores in by_speaker.get(speaker, {}).values()]
                )
                for speaker, messages in spoken[trial].messages.items()
            }
            for trial, by_speaker in trials.items()
        ]
        for case, trials in drawn.items()
    }


def _nested(counted: pd.DataFrame, *, talks: bool) -> dict[str, CaseScores]:
    """Return case → its scores by trial, answer and grading; without a conversation all answers are of one trial."""
    cases: dict[str, dict[str, dict[tuple[str, int], list[float]]]] = defaultdict(lambda: defaultdict(dict))
    columns = ("case_key", "trial_id", "answer", "correct")
    for case, trial, answer, correct in zip(*(counted[name] for name in columns), strict=True):
        cases[case][trial if talks else ""].setdefault((trial, answer), []).append(float(correct))
    return {key: [list(trial.values()) for trial in case.values()] for key, case in cases.items()}


def _component_rows(label: Mapping[str, str], noise: ArmNoise) -> Iterator[Row]:
    parts = noise.variances(noise.estimate.n_cases, noise.trials)
    total = sum(parts.values())
    for component in noise.estimate.components:
        name = noise.named(component.sources)
        yield Row(
            {**label, "source": name},
            component.estimate,
            *component.interval,
            component.n_cases,
            noise.excluded,
            {"share": parts[name] / total if total else None, "sd": math.sqrt(max(0.0, component.estimate))},
            columns=_VARIANCE,
        )
        if "conversations" not in component.sources:
            continue
        draws, positive = noise.estimate.n_cases * noise.trials, sum(max(0.0, part.estimate) for part in noise.speakers)
        scale = max(0.0, component.estimate) / positive if noise.adds_up and positive else 1.0
        for part in noise.speakers:
            variance = max(0.0, part.estimate)
            yield Row(
                {**label, "source": f"{part.speaker}'s messages"},
                part.estimate,
                *part.interval,
                part.n_cases,
                noise.excluded,
                {"share": scale * variance / draws / total if total else None, "sd": math.sqrt(variance)},
                columns=_VARIANCE,
            )


def _plan_rows(
    label: Mapping[str, str], noise: ArmNoise, half_width: float, same_cases: bool
) -> Iterator[dict[str, object]]:
    """Yield the cases needed for each design; only sources with a component of their own are replicated."""
    alone = {component.sources[0] for component in noise.estimate.components}
    talks = "conversations" in noise.sources
    numbers_of = {source: _REPLICATES if source in alone else (1,) for source in ("answers", "gradings")}
    if not talks:
        numbers_of["answers"] = (1,)  # its trials are the answers
    if not {"conversations", "answers"} & alone or not noise.estimate.variance_of_mean(1):
        return  # trials are not told apart from cases, or nothing varies
    for trials, answers, gradings in product(_TRIALS, numbers_of["answers"], numbers_of["gradings"]):
        numbers = (trials, answers, gradings) if talks else (1, trials, gradings)
        cases = noise.estimate.cases_needed(half_width, *numbers, same_cases=same_cases)
        if cases is None:
            continue
        between_runs = noise.estimate.variance_of_mean(cases, *numbers, same_cases=True)
        yield {
            **label,
            "half_width": half_width,
            "trials": trials,
            "answers": answers,
            "gradings": gradings,
            "cases": cases,
            "conversations": cases * trials if talks else 0,
            "n_answers": cases * trials * answers,
            "n_gradings": cases * trials * answers * gradings if "gradings" in noise.sources else 0,
            "two_runs": NORMAL_95 * math.sqrt(2 * between_runs),
        }


class _Draws(NamedTuple):
    """Means of conditions when data are drawn again: draw × condition."""

    source: str
    means: NDArray[np.float64]


def rank_rows(arms: Mapping[ArmKey, ArmNoise], places: Mapping[str, Hashable]) -> Iterator[Row]:
    """Yield how often the order of conditions, and the rank of each, stays when data are drawn again.

    ``new cases``: the cases that all conditions share are resampled with their scores, so that this contains all noise
    below. Other sources: the same cases, with normal noise of the source's variance (``core.stats.nested``),
    independent between conditions. Conditions with equal means keep their order in any draw. ``places`` is condition →
    framework and data set: only conditions of one place are ranked.
    """
    groups: dict[tuple[Format, QuestionType, Hashable], dict[str, ArmNoise]] = defaultdict(dict)
    for (model, format_, question_type), noise in arms.items():
        groups[format_, question_type, places[model]][model] = noise
    for (format_, question_type, _), ranked in groups.items():
        shared = sorted(set.intersection(*(set(noise.case_means) for noise in ranked.values())))
        if len(ranked) < 2 or len(shared) < 2:
            continue
        names = list(ranked)
        table = np.array([[ranked[name].case_means[case] for name in names] for case in shared])
        observed = table.mean(axis=0)
        ranks = _ranks(observed[None])[0]
        for draws in _draws(table, list(ranked.values())):
            drawn = _ranks(draws.means)
            label = {"format": format_, "question_type": question_type, "source": draws.source}
            stays = _same_order(observed, draws.means)
            nothing = {"rank": None, "rank_low": None, "rank_high": None}
            yield Row({"model": WHOLE_ORDER, **label}, stays, n=len(shared), more=nothing, columns=_STAYS)
            for place, name in enumerate(names):
                low, high = np.quantile(drawn[:, place], [0.025, 0.975], method="inverted_cdf")
                yield Row(
                    {"model": name, **label},
                    float((drawn[:, place] == ranks[place]).mean()),
                    n=len(shared),
                    more={"rank": float(ranks[place]), "rank_low": float(low), "rank_high": float(high)},
                    columns=_STAYS,
                )


def _draws(table: NDArray[np.float64], ranked: Sequence[ArmNoise]) -> Iterator[_Draws]:
    rng, n = np.random.default_rng(SEED), len(table)
    yield _Draws(NEW_CASES, rng.multinomial(n, np.full(n, 1 / n), DRAWS) @ table / n)
    parts = [noise.variances(n, noise.trials) for noise in ranked]
    of_noise = [{name: value for name, value in part.items() if not name.startswith("cases")} for part in parts]
    if not all(of_noise):
        return
    observed = table.mean(axis=0)
    names = list(of_noise[0]) if all(part.keys() == of_noise[0].keys() for part in of_noise) else []
    wanted = {ALL_NOISE: [sum(part.values()) for part in of_noise]}
    if len(names) > 1:
        wanted |= {name: [part[name] for part in of_noise] for name in names}
    for source, variances in wanted.items():
        noise = rng.standard_normal((DRAWS, len(ranked))) * np.sqrt(variances)
        yield _Draws(source, observed + noise)


def _ranks(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each condition in each row, 1 for the highest mean; equal means share the mean rank."""
    above = (means[:, None, :] > means[:, :, None] + _TIE).sum(axis=2)
    equal = (np.abs(means[:, None, :] - means[:, :, None]) <= _TIE).sum(axis=2)
    return np.asarray(above + (equal + 1) / 2, dtype=np.float64)


def _same_order(observed: NDArray[np.float64], means: NDArray[np.float64]) -> float:
    before = np.sign(np.where(np.abs(diff := observed[:, None] - observed) <= _TIE, 0.0, diff))
    after = np.sign(means[:, :, None] - means[:, None, :])
    return float(((before == 0) | (before == after)).all(axis=(1, 2)).mean())


_TIE = 1e-9


def _note(request: MetricRequest, arms: Mapping[ArmKey, ArmNoise], part: NoisePart) -> None:
    if not arms:
        return
    counted = [noise.estimate for noise in arms.values()]
    if part == "plan":
        request.note(
            "The variance of a mean of C cases, T trials, A answers and G gradings of each is (cases + conversations / "
            "T + answers / (T A) + gradings / (T A G)) / C; ± is Student's quantile times its root. two_runs: the "
            "largest difference of two runs on the same cases that noise alone explains, with 95 % probability.",
            kind="formula",
        )
    if all(estimate.replicates["answers"] <= 1 and estimate.replicates["gradings"] <= 1 for estimate in counted):
        request.note(
            "No answer is given again to the same dialogue, and no answer is graded again: `python -m core job "
            "replicates --run RUN` makes such replicates, and separates these sources.",
            kind="replicates",
        )
    variances = [component.estimate for estimate in counted for component in estimate.components]
    of_speakers = [speaker.estimate for noise in arms.values() for speaker in noise.speakers]
    if part == "components" and min([*variances, *of_speakers], default=0.0) < 0:
        request.note("An unbiased estimate of a variance near 0 can be negative; it counts as 0 in shares and plans.")
    if part == "components" and max(of_speakers, default=0.0) > LARGEST_VARIANCE:
        request.note(
            f"An unbiased estimate of a speaker's part can exceed {LARGEST_VARIANCE}, the largest variance of a score, "
            "at which its interval ends."
        )
    if part == "components":
        _note_speakers(request, arms)
    shared = [noise for noise in arms.values() if noise.shared]
    if shared:
        request.note(
            f"{sum(noise.shared for noise in shared):,} verdicts that count come from one grading of several equal "
            "responses and err together: the share of gradings in the variance of these means is larger than shown. "
            "Replicates are graded one by one.",
            kind="gradings",
        )
    with request.store.read() as cursor:
        graders = graders_of_replicates(cursor, request.selection)
    if len(graders) > 1:
        request.note(f"Replicates count if the grader's verdicts count; replicates are stored by {', '.join(graders)}.")


def _note_speakers(request: MetricRequest, arms: Mapping[ArmKey, ArmNoise]) -> None:
    """Add notes on the parts of the speakers, for the arm of each condition with the most drawn messages."""
    talking = {arm: noise for arm, noise in arms.items() if "conversations" in noise.sources}
    parts: dict[str, tuple[SpeakerPart, ...]] = {}
    for (model, _, _), noise in sorted(talking.items(), key=lambda item: _drawn_messages(item[1].speakers)):
        if noise.speakers:
            parts[model] = noise.speakers
    if talking and not parts:
        request.note(
            "The doctor's and the patient's messages cause the variance of conversations together: `python -m core job "
            "continuations --run RUN` plays continuations, and separates them.",
            kind="continuations",
        )
    for model, speakers in parts.items():
        drawn = " and ".join(f"{part.n_messages:,} of the {part.speaker}" for part in speakers)
        needed = max(part.messages_needed(_USEFUL) for part in speakers)
        request.note(
            f"{model}: the messages of a speaker are a part of the variance of conversations, from continuations of "
            f"drawn messages ({drawn}). Each stands for all messages of its speaker, which makes the intervals wide: "
            f"± {_USEFUL} takes about {needed:,} drawn messages of each.",
            kind="continuations",
        )
    alone = [noise for noise in talking.values() if noise.speakers and not noise.adds_up]
    if alone:
        request.note(
            "The parts of the speakers are estimated without the variance of conversations, because no row has it "
            "alone (several trials of a case and answers of `job replicates` separate it), or because rules speak, "
            "too, whose messages are not drawn. Their sum can differ from it, and their intervals are wider.",
            kind="continuations",
        )


def _drawn_messages(speakers: Sequence[SpeakerPart]) -> int:
    return sum(part.n_messages for part in speakers)


_USEFUL = 0.05
"""Half the width of an interval of a part that is of use: a fifth of the largest variance."""
