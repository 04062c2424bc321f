"""Campaigns with pictures: fingerprint, refused plans, stored pictures and estimates."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.case import Case
from core.cli.app import main
from core.datasets import imported
from core.errors import UsageError
from core.events import Answered
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.images import Image
from core.jobs.engine import Options
from core.jobs.estimate import estimate
from core.jobs.plan import campaign_of, header_of, in_full, without_words
from core.jobs.run import check_startable
from core.journal import journal_path
from core.live.branch import BranchPlan, start_branch, stored_origin
from core.live.start import start_consultation
from core.measures.provenance import differing, settings_side_by_side, side_of_run
from core.models.pictures import TOKENS_A_PICTURE
from core.store.database import Store
from core.store.fold import fold
from core.store.queries.answers import case_scores
from core.store.queries.cases import case as stored_case
from core.store.queries.runs import CAMPAIGNS, run_records
from core.store.selection import Selection
from tests.core.jobs.test_automedic_campaign import automedic
from tests.core.jobs.workshop import begun, go, plan, registry, small_cases, trial_lines
from tests.core.store.builders import conditions_of
from tests.support.campaigns import beside_rules
from tests.support.fake_provider import FakeProvider, running
from tests.support.pictures import a_picture
from tests.support.sent_pictures import kept_picture, pictures_in, urls_in

WITH = CraftMdSettings(images="with")
RIGHT = "**Final Diagnosis:** Gout"


def with_pictures(count: int, *, pictures: dict[int, tuple[Image, ...]] | None = None, **changes: Any) -> Campaign:
    """A campaign with pictures; without ``pictures``, only the first case has a picture."""
    images_of = {0: (kept_picture(),)} if pictures is None else pictures
    cases = tuple(
        case.model_copy(update={"images": images_of.get(number, ())}) for number, case in enumerate(small_cases(count))
    )
    return replace(plan(count, **{"settings": WITH, **changes}), cases=cases)


def startable(campaign: Campaign, **options: Any) -> None:
    check_startable(in_full(campaign, registry()), registry(), Options(**options))


def test_with_and_without_pictures_are_two_campaigns_of_the_same_cases() -> None:
    with_them = with_pictures(2)
    without = replace(with_them, settings=CraftMdSettings())
    first, second = header_of(with_them, registry()), header_of(without, registry())
    assert first.fingerprint != second.fingerprint
    assert first.case_set_hash == second.case_set_hash
    assert first.settings["images"] == "with"
    assert "images" not in second.settings, "a campaign without pictures is what it always was"
    assert campaign_of(first).settings.images == "with"
    assert campaign_of(first).cases == with_them.cases


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"names": CastNames("reference/bayes")}, "a doctor that is a model, and reference/bayes is none"),
        ({"names": CastNames("human")}, "a doctor that is a model, and human is none"),
        ({"pictures": {}}, "None of the 2 chosen cases has a picture in a file: import cases with their pictures"),
        ({"pictures": {1: (Image(url="https://example.org/x.png"),)}}, "(1 with an address, which is never fetched)"),
    ],
)
def test_impossible_pictures_are_refused_at_planning(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        header_of(with_pictures(2, **changes), registry())
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("doctor", ["openai/gpt-4", "gpt_3_5", "openai/o1-mini", "mistral_v2_7b"])
def test_a_model_known_to_take_no_pictures_is_not_started(doctor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "nothing")
    with pytest.raises(UsageError, match=r"takes no pictures.*run without\s+pictures\.$"):
        startable(with_pictures(1, names=CastNames(doctor)))
    startable(with_pictures(1, names=CastNames(doctor), settings=CraftMdSettings()))


def test_a_model_that_takes_pictures_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "nothing")
    for doctor in ("openai/gpt-4o", "gpt_4v", "openai/gpt-4-turbo", "openai/o3", "openai/my-own"):
        startable(with_pictures(1, names=CastNames(doctor)))


def test_a_pack_without_words_for_pictures_is_refused(tmp_path: Path) -> None:
    shutil.copytree(paths.PROMPTS / "craftmd", tmp_path / "mine")
    (tmp_path / "mine" / "picture.md").unlink()
    campaign = with_pictures(1, prompts=str(tmp_path / "mine"))
    with pytest.raises(UsageError, match=r"The prompts mine have no picture\.md"):
        startable(campaign)


def lose(image: Image) -> None:
    image.path.unlink()


def change(image: Image) -> None:
    image.path.write_bytes(a_picture("white"))


@pytest.mark.parametrize(("harm", "words"), [(lose, "is gone: there is no"), (change, "has changed")])
def test_a_lost_picture_is_reported_before_a_run_starts_or_resumes(
    harm: Callable[[Image], None], words: str, fake_provider_thread: FakeProvider
) -> None:
    image = kept_picture()
    settings = CraftMdSettings(base_url=fake_provider_thread.base_url, images="with")
    campaign = with_pictures(2, pictures={1: (image,)}, settings=settings)
    startable(campaign)
    header = begun(campaign)
    harm(image)
    for attempt in (
        lambda: startable(campaign),
        lambda: go(header),
        lambda: start_consultation(single_case(campaign, 1)),
    ):
        with pytest.raises(UsageError) as caught:
            attempt()
        assert f"Case small/1 cannot be shown as it was: The picture 'rash-0.png' {words}" in str(caught.value)
    assert fake_provider_thread.bodies == []


def single_case(campaign: Campaign, number: int) -> Campaign:
    return replace(campaign, cases=campaign.cases[number : number + 1], trials=1)


def test_a_picture_lost_during_a_run_excludes_its_case_only(fake_provider_thread: FakeProvider) -> None:
    first, second = kept_picture(), kept_picture("JPEG", 1)

    def script(body: dict[str, Any]) -> str:
        second.path.unlink(missing_ok=True)
        return RIGHT

    fake_provider_thread.script = script
    settings = CraftMdSettings(base_url=fake_provider_thread.base_url, images="with")
    outcome = go(begun(with_pictures(3, pictures={0: (first,), 1: (second,), 2: (first,)}, settings=settings)))
    assert (outcome.stopped, outcome.progress.done) == (None, 3)
    assert outcome.verdicts == {"correct": 2, "provider_error": 1}
    answers = [e for line in trial_lines(outcome.header.run_id) for e in line.events if isinstance(e, Answered)]
    assert [answer.reason for answer in answers] == [None, "provider_error", None]
    assert "The picture 'rash-1.jpeg' is gone" in answers[1].detail
    assert len(fake_provider_thread.bodies) == 2


@dataclass(frozen=True)
class PictureRuns:
    """Two runs of the same two cases, with their pictures and without them, folded into a database."""

    db: Path
    pictured: str
    bare: str
    bodies: list[dict[str, Any]]


@pytest.fixture(scope="module")
def stored_picture_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PictureRuns]:
    db = tmp_path_factory.mktemp("both") / "anamnesis.duckdb"
    script = lambda body: RIGHT if urls_in(body) else "**Final Diagnosis:** Bunion"  # noqa: E731
    with pytest.MonkeyPatch.context() as patch, running(script) as provider:
        patch.setenv("ANAMNESIS_DB", str(db))
        pictures = {0: (kept_picture(),), 1: (kept_picture("JPEG", 1),)}
        runs = []
        for images in ("with", ""):
            settings = CraftMdSettings(base_url=provider.base_url, images=images)
            runs.append(go(begun(with_pictures(2, pictures=pictures, settings=settings))).header.run_id)
        fold(Store())
        yield PictureRuns(db, *runs, provider.bodies)


@pytest.fixture
def picture_runs(stored_picture_runs: PictureRuns, db: Path, monkeypatch: pytest.MonkeyPatch) -> PictureRuns:
    monkeypatch.setenv("ANAMNESIS_DB", str(stored_picture_runs.db))
    return stored_picture_runs


def test_neither_journal_nor_database_contains_a_picture(picture_runs: PictureRuns) -> None:
    png, jpeg = kept_picture(), kept_picture("JPEG", 1)
    written = journal_path(picture_runs.pictured).read_bytes()
    with Store().read() as cursor:
        tables = [name for (name,) in cursor.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        rows = json.dumps([cursor.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables], default=str)
    for text in (written.decode(), rows):
        assert "base64" not in text
        assert "iVBORw0KGgo" not in text, "the beginning of every PNG"
        assert "/9j/4AAQ" not in text, "the beginning of every JPEG"
        assert png.sha256 in text
        assert jpeg.sha256 in text
    assert a_picture("red") not in picture_runs.db.read_bytes()


@pytest.mark.usefixtures("picture_runs")
def test_the_pictures_of_a_case_are_stored_with_it() -> None:
    with Store().read() as cursor:
        case = stored_case(cursor, "small/0")
    assert case is not None
    assert case.images == (kept_picture(),)


def test_each_case_is_sent_its_own_picture(picture_runs: PictureRuns) -> None:
    assert len(picture_runs.bodies) == 4
    for body in picture_runs.bodies[:2]:
        kind, colour = ("PNG", "red") if "A 40-year-old" in str(body) else ("JPEG", "blue")
        assert pictures_in(body) == [(f"image/{kind.lower()}", a_picture(colour, kind))]
    assert not any(urls_in(body) for body in picture_runs.bodies[2:])


def test_runs_with_pictures_are_never_pooled_with_others(picture_runs: PictureRuns) -> None:
    with Store().read() as cursor:
        pooled = case_scores(cursor)
        apart = case_scores(cursor, Selection(runs=[picture_runs.pictured]))
        runs = {run.run_id: run for run in run_records(cursor, sources=CAMPAIGNS)}
    bare, pictured = "openai/doctor", "openai/doctor · with pictures"
    assert [(s.model, s.case_key, s.correct, s.counted) for s in sorted(pooled, key=lambda s: s.model)] == [
        (bare, "small/0", 0, 1),
        (bare, "small/1", 0, 1),
        (pictured, "small/0", 1, 1),
        (pictured, "small/1", 1, 1),
    ]
    assert [(s.case_key, s.correct, s.counted) for s in apart] == [("small/0", 1, 1), ("small/1", 1, 1)]
    sides = settings_side_by_side([side_of_run(runs[picture_runs.pictured]), side_of_run(runs[picture_runs.bare])])
    assert [(s.name, s.values) for s in differing(sides)] == [("Pictures", ("shown to the doctor", "not shown"))]
    assert {condition.name: condition.runs for condition in conditions_of(list(runs.values()))} == {
        bare: (picture_runs.bare,),
        pictured: (picture_runs.pictured,),
    }


@pytest.mark.parametrize("protocol", ["craftmd", "consultation", "automedic"])
def test_an_estimate_takes_765_tokens_for_each_picture_and_call_of_the_doctor(protocol: str) -> None:
    assert TOKENS_A_PICTURE == 85 + 4 * 170  # a 1024 × 1024 picture: a base, and four tiles
    names = beside_rules("openai/gpt-4o", patient="openai/gpt-4o")
    if protocol == "automedic":
        plain = automedic(4, names=names)
    else:
        arms = (("multi_turn", "mcq"),)
        plain = plan(4, names=names, arms=arms, protocol=protocol, prompts=protocol, trials=2)
    first = plain.cases[0].model_copy(update={"images": (kept_picture(), kept_picture("JPEG", 1))})
    cases: tuple[Case, ...] = (first, *plain.cases[1:])  # two pictures for four cases: half a picture on average
    sizes = []
    for images in ("", "with"):
        campaign = in_full(replace(plain, cases=cases, settings=CraftMdSettings(images=images)), registry())
        sizes.append({role.role: role for role in estimate(campaign, registry(), 1).roles})
    bare, full = sizes
    added = full["doctor"].prompt_tokens - bare["doctor"].prompt_tokens
    assert added == pytest.approx(full["doctor"].calls * 0.5 * 765, abs=1)
    assert full["doctor"].calls == bare["doctor"].calls > 0
    assert full["patient"] == bare["patient"]


def test_cases_without_a_picture_are_counted() -> None:
    cases = with_pictures(3).cases
    assert without_words("with", cases) == "2 of the 3 cases have no picture in a file: played without."
    assert without_words("with", cases[:2]) == "1 of the 2 cases has no picture in a file: played without."
    assert without_words("with", cases[:1]) == without_words("", cases) == ""


def test_the_command_line_checks_and_counts_pictures(
    fake_provider_thread: FakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_provider_thread.script = lambda body: RIGHT
    imported.save("small", list(with_pictures(2).cases))
    run = ["run", "--cases", "small", "--arms", "vignette:mcq", "--trials", "1", "--doctor"]
    assert main([*run, "reference/bayes", "--images", "with"]) == 2
    assert "a doctor that is a model, and reference/bayes is none" in capsys.readouterr().err
    assert main([*run, "openai/doctor", "--images", "yes"]) == 2
    assert "There is no --images 'yes': write with or without." in capsys.readouterr().err
    assert main([*run, "openai/gpt-4", "--images", "with"]) == 2
    assert "The model openai/gpt-4 takes no pictures" in capsys.readouterr().err
    assert fake_provider_thread.bodies == []
    assert main([*run, "openai/doctor", "--images", "with", "--base-url", fake_provider_thread.base_url]) == 0
    out, err = capsys.readouterr()
    assert "1 of the 2 cases has no picture in a file: played without." in err
    assert "is complete: 2 trials" in out
    assert sorted(len(urls_in(body)) for body in fake_provider_thread.bodies) == [0, 1]


@pytest.mark.slow
def test_a_watched_consultation_and_its_branch_show_the_picture(fake_provider_thread: FakeProvider) -> None:
    fake_provider_thread.script = lambda body: (
        RIGHT if "Choose exactly one" in str(body["messages"][-1]) or len(body["messages"]) > 5 else "Since when?"
    )
    settings = CraftMdSettings(base_url=fake_provider_thread.base_url, images="with")
    session = start_consultation(with_pictures(1, settings=settings, arms=(("multi_turn", "mcq"),)))
    session.speed = 1000.0
    session.join(60)
    assert session.error is None
    assert all(urls_in(body) for body in fake_provider_thread.bodies)
    changes = {}
    for doctor in ("openai/doctor", "reference/bayes"):
        before = len(fake_provider_thread.bodies)
        forked = BranchPlan(1, names=beside_rules(doctor), settings=settings, arms=(("multi_turn", "mcq"),))
        (branch,) = start_branch(forked, stored_origin(session.key))
        branch.speed = 1000.0
        branch.join(60)
        assert branch.error is None
        changes[doctor] = branch.snapshot()[0].parent.changes  # type: ignore[union-attr]
        sent = fake_provider_thread.bodies[before:]
        assert all(urls_in(body) for body in sent)
        assert bool(sent) is (doctor == "openai/doctor")
    assert changes["openai/doctor"] == ()
    assert "the doctor without pictures" in changes["reference/bayes"]
