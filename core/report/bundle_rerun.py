"""Plays the runs of a bundle again as ordinary campaigns, and compares their figures with those of the bundle.

A bundle may come from anybody. So nothing in it decides which program is called or where a key is sent: an application
in a seat, and an address that is not on this machine, must be named again by the user.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import orjson

from core import images
from core.case import Case, data_set_of
from core.datasets.select import cases_of, choices_of, datasets
from core.errors import AnamnesisError, UsageError
from core.frameworks.base import Campaign, framework, pack_of, tested_seat
from core.frameworks.casting import STORED_SEATS, Reach
from core.images import local_images
from core.jobs.plan import campaign_of, models_of, names_of, prepared_cases
from core.journal import RunHeader, journal_path, read_header, read_lines
from core.measures.paired import by_arm, compare, read_scores
from core.models.registry import Registry
from core.models.spec import is_loopback
from core.prompts import PromptPack, check_pack_name, load_pack, own_packs_folder
from core.report.bundle import CASES, IMAGES, JOURNALS, BundledRun
from core.report.bundle_figures import Figure, figures_of, rows_by_label, same, words_of
from core.stats.trials import variance_components
from core.store.database import Store
from core.store.queries.answers import CaseScore
from core.store.selection import Selection

State = Literal["equal", "within noise", "different", "not comparable"]
_NORMAL = 1.96
"""Half the width of a 95 % interval in standard errors."""
_NAMED = 3
_PACK_DIGITS = 8
_NOT_COMPARED = ("spend",)
"""Costs and tokens of the calls: they are reported of each run, and do not measure the doctor."""
ACCURACY = "accuracy"
"""The metric that is compared by case."""


@dataclass(frozen=True)
class Replay:
    """A run that can be played again: the campaign, and remarks on what is not as it was.

    ``whole``: all cases of the run are played.
    """

    header: RunHeader
    campaign: Campaign
    remarks: Sequence[str]
    whole: bool


@dataclass(frozen=True)
class Changes:
    """What the user changes: the tested model, the address of the models, the prompts, and the number of cases."""

    doctor: str = ""
    base_url: str | None = None
    prompts: str = ""
    limit: int | None = None


def replay_of(run: BundledRun, folder: Path, changes: Changes, registry: Registry) -> Replay:
    """Return the campaign that plays a run of an unpacked bundle again.

    Installs its prompt pack and its pictures next to the database if they are not here. Raises ``UsageError`` with the
    reason if the run cannot be played again, ``AnamnesisError`` if none of its cases is here.
    """
    path = journal_path(run.run_id, folder / JOURNALS)
    if run.source != "local" or not path.is_file():
        raise UsageError(f"Run {run.run_id} was imported or watched, not played as a campaign.")
    header = read_header(path)
    if header.fork or header.edited:
        raise UsageError(f"Run {run.run_id} branches off another conversation.")
    framework_ = framework(header.protocol)
    _check_players(header, changes, registry)
    pack = pack_of(framework_, changes.prompts) if changes.prompts else _pack_of(run, header, folder)
    cases, remarks = _cases_of(run, header, folder)
    if next(read_lines(path, about=('"type":"grades"',)), None) is not None:
        remarks.append("Its answers were graded again later; the replay has the verdicts of the run's own grader only.")
    if changes.prompts and pack.hash != header.prompt_hash:
        remarks.append(f"The prompts are {pack.name} {pack.hash}, not {header.prompt_hash}.")
    case_set, whole = header.case_set, len(cases) == len(header.cases)
    if changes.limit is not None and changes.limit < len(cases):
        cases, whole = cases[: changes.limit], False
        case_set = f"{data_set_of(case_set)} (first {changes.limit})"
    many = header.many_choices
    if not run.cases_inside and any(question_type == "mcq_many" for _, question_type in header.arms):
        many = list(choices_of(data_set_of(header.case_set)))
    as_here = header.model_copy(
        update={
            "prompt_pack": changes.prompts or _place_of(pack),
            "prompt_hash": pack.hash,
            "cases": cases,
            "case_set": case_set,
            "many_choices": many,
        }
    )
    return Replay(header, _with_changes(campaign_of(as_here), changes), remarks, whole)


def _check_players(header: RunHeader, changes: Changes, registry: Registry) -> None:
    """Raise ``UsageError`` if the bundle names an application, or an address that is not on this machine."""
    framework_ = framework(header.protocol)
    names = names_of(framework_, {role: getattr(header, role) for role in STORED_SEATS}, header.settings)
    for role, name in names.items():
        replaced = changes.doctor and role == tested_seat(framework_).role
        if name and not replaced and registry.is_application(name):
            raise UsageError(
                f"Run {header.run_id} was played by the application {name}, which is not in the bundle: name yours "
                "with --doctor."
            )
    addresses = [str(header.settings.get("base_url") or "")]
    addresses += [pair.partition("=")[2] for pair in str(header.settings.get("addresses") or "").split()]
    far = [address for address in addresses if address and not is_loopback(address)]
    if far and changes.base_url is None:
        raise UsageError(
            f"Run {header.run_id} used models at {far[0]}. A bundle does not decide where your key is sent: name the "
            "address with --base-url."
        )


def _with_changes(campaign: Campaign, changes: Changes) -> Campaign:
    """Return the campaign with another doctor or address; the other seats keep the address that they had."""
    tested = tested_seat(campaign.framework).role
    if changes.base_url is not None:
        settings = campaign.settings.but(base_url=changes.base_url or None, addresses="")
        campaign = replace(campaign, settings=settings)
    if not changes.doctor:
        return campaign
    if changes.base_url is None and campaign.settings.base_url:
        others = {role: campaign.settings.address_of(role) for role in models_of(campaign) if role != tested}
        campaign = campaign.reached({role: Reach(address) for role, address in others.items() if address})
        campaign = replace(campaign, settings=campaign.settings.but(base_url=None))
    return replace(campaign, names=campaign.names.but(**{tested: changes.doctor}), placed=campaign.placed - {tested})


def _pack_of(run: BundledRun, header: RunHeader, folder: Path) -> PromptPack:
    """Return the prompt pack of a run: the one that is here if it is the same, else that of the bundle, installed."""
    framework_ = framework(header.protocol)
    name = Path(header.prompt_pack).name
    for place in (name, f"{name}-{header.prompt_hash[:_PACK_DIGITS]}"):
        try:
            pack = load_pack(place, framework_.prompts)
        except UsageError:
            continue
        if pack.hash == header.prompt_hash:
            return pack
    source = folder / run.pack
    if not run.pack or not source.is_dir():
        raise UsageError(f"Run {run.run_id}: its prompts are not in the bundle. Choose others with --prompts.")
    pack = load_pack(str(source), framework_.prompts)
    if pack.hash != header.prompt_hash:
        raise AnamnesisError(f"The prompts {run.pack} in the bundle are not those of run {run.run_id}.")
    target = own_packs_folder() / f"{name}-{header.prompt_hash[:_PACK_DIGITS]}"
    check_pack_name(target.name)
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.md")):
        shutil.copyfile(path, target / path.name)
    return load_pack(str(target), framework_.prompts)


def _place_of(pack: PromptPack) -> str:
    return str(pack.folder) if pack.folder.parent == own_packs_folder() else pack.name


def _cases_of(run: BundledRun, header: RunHeader, folder: Path) -> tuple[list[Case], list[str]]:
    """Return the cases to play, and remarks on those that are missing or not as they were."""
    if run.cases_inside:
        for image in {image for case in header.cases for image in local_images(case.images)}:
            file = folder / IMAGES / image.path.name
            if not image.path.exists() and file.is_file():
                images.keep(file, image.name)
        return list(header.cases), []
    wanted = {case.case_key for case in header.cases}
    digests: dict[str, set[str]] = {}
    for line in (folder / CASES / "digests.jsonl").read_bytes().splitlines():
        about = orjson.loads(line)
        if about["case_key"] in wanted:
            digests.setdefault(about["case_key"], set()).update((about["content_hash"], about["text_hash"]))
    names = {data_set_of(key.partition("/")[0]) for key in wanted}
    here = [case for name in sorted(names & {*datasets()}) for case in cases_of(name) if case.case_key in wanted]
    prepared = {case.case_key: case for case in prepared_cases(here, framework(header.protocol)).cases}
    cases, missing, changed, profiles = list[Case](), list[str](), list[str](), list[str]()
    for key in (case.case_key for case in header.cases):
        case, hashes = prepared.get(key), digests.get(key, set())
        if case is None:
            missing.append(key)
        elif case.content_hash in hashes:
            cases.append(case)
        elif case.text_hash in hashes:
            cases.append(case)
            profiles.append(key)
        else:
            changed.append(key)
    remarks = [
        f"{len(keys):,} of {len(header.cases):,} cases {words}: {_named(keys)}."
        for keys, words in (
            (missing, "are not among your data sets and are not played"),
            (changed, "have another text here and are not played"),
            (profiles, "have the same text but another profile, choices or names of the answer here"),
        )
        if keys
    ]
    if not cases:
        raise AnamnesisError(f"Run {run.run_id} cannot be played again. {' '.join(remarks)}")
    return cases, remarks


def _named(keys: Sequence[str]) -> str:
    more = f" and {len(keys) - _NAMED:,} more" if len(keys) > _NAMED else ""
    return f"{', '.join(keys[:_NAMED])}{more}"


@dataclass(frozen=True)
class ComparedFigure:
    """A figure of a run and of its replay: ``difference`` is the second minus the first, with its 95 % interval.

    ``n`` are the cases behind a paired difference. ``repeat`` is the difference that two runs of one condition stay
    below in 95 % of pairs, from the variance of repeated trials of a case; ``None`` without repeated trials.
    """

    figure: str
    row: str
    first: float | None
    second: float | None
    state: State
    low: float | None = None
    high: float | None = None
    n: int | None = None
    repeat: float | None = None

    @property
    def difference(self) -> float | None:
        return None if self.first is None or self.second is None else self.second - self.first


def compare_runs(bundled: Store, first: str, store: Store, second: str, *, whole: bool) -> list[ComparedFigure]:
    """Compare a run of a bundle with its replay.

    Accuracies are compared by case, on the cases that both sides have: equal if every case has the same verdicts,
    within noise if the interval of the paired difference contains 0. Other figures are compared only if the replay is
    ``whole``: within noise if they differ by less than their two intervals allow, as if the runs were independent.
    """
    compared = list(_accuracies(bundled, first, store, second))
    if not whole:
        return compared
    figures = {figure.name: figure for figure in figures_of(store, [second])}
    for figure in figures_of(bundled, [first]):
        if figure.metric not in (*_NOT_COMPARED, ACCURACY):
            compared += _others(figure, figures.get(figure.name))
    return compared


def _accuracies(bundled: Store, first: str, store: Store, second: str) -> Iterator[ComparedFigure]:
    again = _arms(store, second)
    for arm, scores in _arms(bundled, first).items():
        row, played = ":".join(arm), again.get(arm, {})
        shared = {key: score for key, score in scores.items() if key in played}
        if not shared:
            yield ComparedFigure(ACCURACY, row, None, None, "not comparable")
            continue
        replayed = {key: played[key] for key in shared}
        result = compare(shared, replayed)
        equal = all(
            (score.correct, score.counted) == (replayed[key].correct, replayed[key].counted)
            for key, score in shared.items()
        )
        state: State = "different"
        if equal:
            state = "equal"
        elif not result.n or math.isnan(result.low):
            state = "not comparable"
        elif result.low <= 0 <= result.high:
            state = "within noise"
        yield ComparedFigure(
            ACCURACY,
            row,
            result.first_mean,
            result.second_mean,
            state,
            result.low,
            result.high,
            result.n,
            repeat_difference(list(shared.values()), list(replayed.values())),
        )


def _arms(store: Store, run_id: str) -> dict[tuple[str, str], Mapping[str, CaseScore]]:
    """Return the scores of each arm of a run by case; of several graders, those of the first condition."""
    arms: dict[tuple[str, str], Mapping[str, CaseScore]] = {}
    for (_, *arm), scores in by_arm(read_scores(store, Selection(runs=[run_id], development=True))).items():
        arms.setdefault((arm[0], arm[1]), scores)
    return arms


def repeat_difference(first: Sequence[CaseScore], second: Sequence[CaseScore]) -> float | None:
    """Return the difference in accuracy (0 to 1) that chance alone exceeds in 5 % of two runs of one condition.

    From the variance within the cases of the first run, as in ``core.stats.trials``; ``None`` if no case has two
    counted trials.
    """
    counted = np.array([(a.counted, b.counted) for a, b in zip(first, second, strict=True)], dtype=np.float64)
    within = variance_components([score.correct for score in first], [score.counted for score in first]).within
    both = counted[(counted > 0).all(axis=1)]
    if math.isnan(within) or not len(both):
        return None
    return float(_NORMAL * math.sqrt(within * (1 / both).sum()) / len(both))


def _others(figure: Figure, again: Figure | None) -> Iterator[ComparedFigure]:
    after = rows_by_label(again, without=("model",)) if again is not None else {}
    for key, row in rows_by_label(figure, without=("model",)).items():
        other = after.get(key)
        words = words_of(row.model_copy(update={"label": {k: v for k, v in row.label.items() if k != "model"}}))
        if other is None:
            yield ComparedFigure(figure.name, words, row.estimate, None, "not comparable")
            continue
        state: State = "not comparable"
        low = high = None
        if same(row.values, other.values):
            state = "equal"
        elif None not in (row.estimate, row.low, row.high, other.estimate, other.low, other.high):
            assert row.estimate is not None
            assert other.estimate is not None
            halves = [((side.high or 0.0) - (side.low or 0.0)) / 2 for side in (row, other)]
            difference, half = other.estimate - row.estimate, math.hypot(*halves)
            low, high = difference - half, difference + half
            state = "within noise" if low <= 0 <= high else "different"
        yield ComparedFigure(figure.name, words, row.estimate, other.estimate, state, low, high)
