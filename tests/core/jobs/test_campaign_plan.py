"""The plan of a campaign: its fingerprint, arms, seeds and estimate."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core import paths
from core.case import Case
from core.datasets.library import library
from core.datasets.select import choices_of
from core.errors import AnamnesisError, UsageError
from core.events import ASKED_TYPES, FORMATS
from core.frameworks.base import Campaign, framework, read_settings
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.frameworks.settings import FrameworkSettings
from core.jobs.begun import begun_with_other_cast, find_header, unfinished_twin
from core.jobs.engine import Options
from core.jobs.estimate import JobEstimate, estimate
from core.jobs.plan import campaign_of, header_of, parse_arms, seed_of, trial_id, trials_of
from core.jobs.run import begin, check_startable
from core.journal import RunHeader, journal_path
from tests.core.jobs.workshop import PRICED, plan, registry, small_cases
from tests.support.campaigns import beside_rules

BASE = plan(3, names=beside_rules("openai/gpt-4o"), trials=5)
MANY = (("vignette", "mcq_many"),)


def fingerprint(campaign: Campaign) -> str:
    return header_of(campaign, registry()).fingerprint


def changed_case(**changes: Any) -> tuple[Case, ...]:
    first, *rest = BASE.cases
    return (Case.model_validate({**first.model_dump(exclude={"content_hash"}), **changes}), *rest)


CHANGES: dict[str, Callable[[], dict[str, Any]]] = {
    "doctor": lambda: {"names": beside_rules("openai/gpt-4o-mini")},
    "patient": lambda: {"names": beside_rules("openai/gpt-4o", patient="openai/gpt-4o")},
    "grader": lambda: {"names": beside_rules("openai/gpt-4o", grader="openai/gpt-4o")},
    "summariser": lambda: {"names": beside_rules("openai/gpt-4o", summariser="openai/gpt-4o")},
    "a case less": lambda: {"cases": BASE.cases[:2]},
    "a vignette": lambda: {"cases": changed_case(vignette="A man has a painful toe.")},
    "an answer": lambda: {"cases": changed_case(answer="Cellulitis")},
    "a choice": lambda: {"cases": changed_case(choices=("Gout", "Cellulitis", "Bunion", "Sprain"))},
    "a synonym": lambda: {"cases": changed_case(synonyms=("podagra",))},
    "arms": lambda: {"arms": (("vignette", "frq"),)},
    "more arms": lambda: {"arms": (*BASE.arms, ("vignette", "frq"))},
    "trials": lambda: {"trials": 4},
    "seed": lambda: {"seed": 21},
    "temperature": lambda: {"settings": CraftMdSettings(temperature=0.0)},
    "max_tokens": lambda: {"settings": CraftMdSettings(max_tokens=100)},
    "model_seed": lambda: {"settings": CraftMdSettings(model_seed=1)},
    "max_messages": lambda: {"settings": CraftMdSettings(max_messages=None)},
    "reasoning_effort": lambda: {"settings": CraftMdSettings(reasoning_effort="low")},
    "more effort": lambda: {"settings": CraftMdSettings(reasoning_effort="high")},
    "base_url": lambda: {"settings": CraftMdSettings(base_url="http://127.0.0.1:9/v1")},
}


def test_the_fingerprint_changes_with_everything_that_affects_results() -> None:
    prints = {what: fingerprint(dataclasses.replace(BASE, **change())) for what, change in CHANGES.items()}
    assert len({fingerprint(BASE), *prints.values()}) == 1 + len(CHANGES), prints


def test_the_fingerprint_ignores_what_does_not_affect_results() -> None:
    before = header_of(BASE, registry(), now=1.0)
    after = header_of(BASE, registry(), now=1e9)
    assert before.fingerprint == after.fingerprint
    assert before.run_id != after.run_id
    assert fingerprint(dataclasses.replace(BASE, cases=BASE.cases[::-1])) == before.fingerprint
    assert not {f.name for f in dataclasses.fields(Options)} & set(RunHeader.model_fields)  # concurrency, budget


def test_an_unset_effort_is_not_part_of_a_campaign() -> None:
    assert "reasoning_effort" not in header_of(BASE, registry()).settings
    header = header_of(dataclasses.replace(BASE, settings=CraftMdSettings(reasoning_effort="low")), registry())
    assert header.settings["reasoning_effort"] == "low"
    assert campaign_of(header).settings.sampling.effort == "low"


def test_an_alias_is_the_model_it_stands_for() -> None:
    names = [CastNames("gpt_4"), CastNames("GPT-4-1106"), CastNames("openai/gpt-4-1106-preview")]
    headers = [header_of(dataclasses.replace(BASE, names=n), registry()) for n in names]
    assert {h.doctor for h in headers} == {"openai/gpt-4-1106-preview"}
    assert len({h.fingerprint for h in headers}) == 1


def test_a_run_goes_on_unless_a_prompt_of_its_models_has_changed(tmp_path: Path) -> None:
    """The patient of the campaign is a model, its grader and its summariser are rules."""
    original = {path.stem: path.read_text() for path in (paths.PROMPTS / "craftmd").glob("*.md")}
    names = beside_rules("openai/gpt-4o", patient="openai/gpt-4o")
    dialogue = (("multi_turn", "frq"), ("summarized", "mcq"))
    base = dataclasses.replace(BASE, names=names, arms=dialogue, prompts=str(tmp_path))
    probed = dataclasses.replace(base, settings=CraftMdSettings(probe=True))
    table: list[tuple[Campaign, str, str]] = [
        (base, "greeting", "doctor"),
        (base, "persona", "patient"),
        (base, "sections", ""),
        (base, "summariser", ""),
        (base, "grader_judge", ""),
        (base, "facts", ""),
        (base, "belief", ""),
        (probed, "belief", "belief"),
        (dataclasses.replace(base, arms=(("vignette", "mcq"),)), "patient", ""),
        (dataclasses.replace(base, arms=(("vignette", "mcq"),)), "answer_mcq", "doctor"),
    ]
    wrong: list[object] = []
    for campaign, name, seat in table:
        for stem, text in original.items():
            (tmp_path / f"{stem}.md").write_text(text)
        header = header_of(campaign, registry())
        assert campaign_of(RunHeader.model_validate_json(header.model_dump_json())).prompts == str(tmp_path)
        begin(header, again=True)
        (tmp_path / f"{name}.md").write_text(original[name] + "Be brief.\n")
        now = header_of(campaign, registry())
        resumed = begun_with_other_cast(campaign, now, registry(), {})
        try:
            campaign_of(header)
            refused = ""
        except AnamnesisError as error:
            refused = str(error)
        shutil.rmtree(journal_path(header.run_id).parent)
        expected = (None, True) if seat else (header.run_id, False)
        if (resumed and resumed.run_id, f"The prompts of {seat} in " in refused) != expected:
            wrong.append((name, seat, resumed, refused))
        assert now.fingerprint != header.fingerprint
    assert wrong == []


def test_a_pack_given_by_a_relative_path_is_found_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(paths.PROMPTS / "craftmd", tmp_path / "here" / "my-pack")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    header = header_of(dataclasses.replace(BASE, prompts="my-pack"), registry())
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert header.prompt_pack == campaign_of(header).prompts == str(tmp_path / "here" / "my-pack")
    assert header_of(BASE, registry()).prompt_pack == "craftmd"


def test_a_campaign_can_be_read_back_from_its_journal() -> None:
    campaign = dataclasses.replace(
        BASE,
        arms=(("vignette", "mcq_many"), ("single_turn", "frq")),
        settings=CraftMdSettings(temperature=0.5, max_tokens=64, model_seed=3, max_messages=None),
    )
    stored = RunHeader.model_validate_json(header_of(campaign, registry()).model_dump_json())
    again = campaign_of(stored)
    assert (again.cases, again.arms, again.trials, again.seed) == (campaign.cases, campaign.arms, 5, 20)
    assert (again.settings, again.names) == (campaign.settings, campaign.names)
    assert fingerprint(again) == stored.fingerprint


def test_mcq_many_offers_every_choice_of_every_question_once_in_alphabetical_order() -> None:
    choices = [("gout", "Acne"), ("Gout ", "Zoster"), ("bunion", "acne", "lupus"), ()]
    cases = tuple(
        Case.model_validate({**case.model_dump(exclude={"content_hash"}), "choices": of, "answer": "gout"})
        for case, of in zip(small_cases(4), choices, strict=True)
    )
    many = dataclasses.replace(BASE, cases=cases, arms=MANY)
    assert many.choices_of_many() == ["Acne", "bunion", "gout", "lupus", "Zoster"]
    with pytest.raises(UsageError, match="has choices"):
        header_of(dataclasses.replace(many, cases=cases[3:]), registry())


def test_the_choices_of_mcq_many_come_from_the_whole_data_set() -> None:
    whole = {choice.casefold() for case in library() for choice in case.choices}
    assert len(choices_of("library")) == len(whole) > len({case.answer for case in library()})
    assert choices_of("library:Dermatology") == choices_of("library")


def test_the_question_type_of_version_0_4_is_not_an_arm() -> None:
    with pytest.raises(UsageError, match="is no arm"):
        parse_arms("vignette:mcq_answers")
    assert not any(question_type == "mcq_answers" for _, question_type in parse_arms("all"))


ARMS_IN_WORDS = [
    ("vignette:mcq", [("vignette", "mcq")]),
    ("vignette:mcq,multi_turn:frq", [("vignette", "mcq"), ("multi_turn", "frq")]),
    (" vignette:mcq , vignette:frq ,", [("vignette", "mcq"), ("vignette", "frq")]),
    ("vignette:mcq,vignette:mcq", [("vignette", "mcq")]),
    ("exam_only", [("exam_only", q) for q in ASKED_TYPES]),
    ("single_turn:*", [("single_turn", q) for q in ASKED_TYPES]),
    ("*:frq", [(f, "frq") for f in FORMATS]),
    ("all", [*((f, q) for f in FORMATS if f != "closing" for q in ASKED_TYPES), ("closing", "frq")]),
    ("closing", [("closing", "frq")]),
    (
        "paper",
        [
            ("vignette", "mcq"),
            ("vignette", "frq"),
            ("multi_turn", "mcq"),
            ("multi_turn", "frq"),
            ("single_turn", "mcq"),
            ("single_turn", "frq"),
            ("summarized", "mcq"),
            ("summarized", "frq"),
        ],
    ),
]


def test_arms_are_read() -> None:
    assert [text for text, arms in ARMS_IN_WORDS if list(parse_arms(text)) != arms] == []


def test_an_unknown_arm_is_refused() -> None:
    for text in ("", ",", "vignette:mcqs", "vignete:mcq", "mcq", "vignette:mcq,oops", "vignette:mcq:frq"):
        with pytest.raises(UsageError, match=r"is no arm: write format:question_type|No arm was named"):
            parse_arms(text)


def test_seeds_and_ids_depend_only_on_their_trial() -> None:
    header = header_of(BASE, registry(), now=0.0)
    trials = trials_of(header)
    order = [(t.case.case_key, t.number) for t in trials]
    assert order[:3] == [("small/0", 0), ("small/1", 0), ("small/2", 0)], "a stopped run has all cases"
    assert order[3:8] == [("small/0", 1), ("small/0", 2), ("small/0", 3), ("small/0", 4), ("small/1", 1)]
    assert len(trials) == len({t.trial_id for t in trials}) == len({t.seed for t in trials}) == 15
    for trial in trials:
        assert trial.seed == seed_of(20, trial.case.case_key, trial.number)
        assert trial.trial_id == trial_id(header.run_id, trial.case.case_key, trial.number)
        assert 0 <= trial.seed < 2**31
    elsewhere = {(t.case.case_key, t.number): t.seed for t in trials_of(header_of(plan(2, trials=2), registry()))}
    here = {(t.case.case_key, t.number): t.seed for t in trials}
    assert elsewhere == {key: here[key] for key in elsewhere}
    # the beginning of sha256("20\nsmall/0\n0"), halved: it must not change between versions
    assert seed_of(20, "small/0", 0) == 0x707E496F // 2
    assert seed_of(21, "small/0", 0) != 0x707E496F // 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cases": ()}, "No case was chosen"),
        ({"trials": 0}, "--trials must be at least 1"),
        ({"names": CastNames("openai/gpt-4o", grader="human")}, "A person cannot play the grader"),
        ({"names": CastNames("gpt-4p")}, "did you mean"),
        ({"prompts": "no-such-pack"}, "There are no prompts"),
    ],
)
def test_impossible_campaigns_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        header_of(dataclasses.replace(BASE, **changes), registry())


def test_unstartable_campaigns_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="set the environment variable OPENAI_API_KEY"):
        check_startable(BASE, registry(), Options())
    with pytest.raises(UsageError, match="A campaign cannot wait for a person"):
        check_startable(dataclasses.replace(BASE, names=CastNames("human")), registry(), Options())
    with pytest.raises(UsageError, match="--budget-usd must be more than 0"):
        check_startable(plan(base_url="http://127.0.0.1:9/v1"), registry(), Options(budget_usd=0.0))
    with pytest.raises(UsageError, match="A budget needs prices, and none is known for openai/doctor"):
        check_startable(plan(base_url="https://models.example.org/v1"), registry(), Options(budget_usd=1.0))
    own = tmp_path / "models.toml"
    own.write_text(PRICED)
    check_startable(plan(base_url="http://127.0.0.1:9/v1"), registry(own), Options(budget_usd=1.0))
    assert not paths.journals_folder().exists()


def test_a_run_is_found_by_a_prefix_of_its_name() -> None:
    first, second = (header_of(plan(n), registry(), now=n * 86400.0) for n in (1, 2))
    begin(first)
    begin(second)
    assert find_header(first.run_id) == first
    assert find_header(second.run_id[:8]) == second
    with pytest.raises(UsageError, match="is the beginning of 2 runs"):
        find_header("1970")
    with pytest.raises(UsageError, match="There is no run 'nothing'"):
        find_header("nothing")


def test_an_unfinished_run_of_the_same_campaign_is_found() -> None:
    older, newer = (header_of(plan(4), registry(), now=day * 86400.0) for day in (1, 2))
    other = header_of(plan(5), registry(), now=3 * 86400.0)
    for header in (older, newer, other):
        begin(header, again=True)
    killed_at_birth = journal_path("19700105-000000-00000000")
    killed_at_birth.parent.mkdir(parents=True)
    killed_at_birth.touch()
    torn = journal_path("19700106-000000-00000000")
    torn.parent.mkdir(parents=True)
    torn.write_bytes(journal_path(newer.run_id).read_bytes()[:100])

    def twin_of(done: dict[str, int]) -> str | None:
        twin = unfinished_twin(newer.fingerprint, done)
        return twin.run_id if twin else None

    assert twin_of({}) == newer.run_id
    assert twin_of({newer.run_id: 3}) == newer.run_id
    assert twin_of({newer.run_id: 4}) == older.run_id
    assert twin_of({newer.run_id: 4, older.run_id: 4}) is None


def test_a_run_can_be_created_only_once() -> None:
    """Two processes that begin the same campaign within one second would share a name."""
    header = header_of(plan(1), registry(), now=5.0)
    begin(header)
    written = journal_path(header.run_id).read_bytes()
    with pytest.raises(AnamnesisError, match=f"is running as {header.run_id}"):
        begin(header)
    assert journal_path(header.run_id).read_bytes() == written


def test_the_estimate_of_a_small_plan_by_hand(tmp_path: Path) -> None:
    """3 cases × 2 trials, four arms, a conversation of seven questions: counted on paper."""
    own = tmp_path / "models.toml"
    own.write_text(PRICED)
    arms = (("vignette", "mcq"), ("multi_turn", "frq"), ("single_turn", "frq_top3"), ("summarized", "mcq"))
    names = CastNames("openai/doctor", "openai/doctor", "openai/doctor", "openai/doctor")
    size = estimate(plan(3, trials=2, arms=arms, names=names), registry(own), concurrency=4)
    assert size.counts == {"cases": 3, "trials": 6, "conversations": 6, "answers": 24}
    assert {role.role: role.calls for role in size.roles} == {
        "doctor": 6 * 7 + 24,
        "patient": 6 * 7,
        "grader": 6 * 2 + 6 * 3,  # two steps for a free response, up to three comparisons for three
        "summariser": 6,
    }
    assert size.calls == 66 + 42 + 30 + 6
    for role in size.roles:
        assert role.cost_usd == pytest.approx((role.prompt_tokens + role.completion_tokens) / 1000)
    # two waves of four trials at once, 24 calls a trial, 1.5 s a call of a provider
    assert size.seconds == pytest.approx(2 * 24 * 1.5)
    for address in ("http://127.0.0.1:8000/v1", "http://gpu.local/v1"):  # the speed of a server of one's own is unknown
        own_server = plan(3, trials=2, arms=arms, names=names, base_url=address)
        assert estimate(own_server, registry(own), concurrency=4).seconds is None


def test_the_estimate_of_free_and_of_unpriced_models() -> None:
    reference = estimate(plan(3, names=beside_rules("reference/bayes")), registry(), 4)
    assert (reference.calls, reference.tokens, reference.cost_usd) == (0, 0, 0.0)
    unknown = estimate(plan(3), registry(), 4)
    assert (unknown.calls, unknown.counts["conversations"], unknown.cost_usd) == (3, 0, None)
    assert unknown.prices == "Prices: not known."


def test_an_estimate_uses_the_address_of_each_seat(tmp_path: Path) -> None:
    """A local server costs nothing for the seats that it serves; the other seats keep their prices."""
    own = tmp_path / "models.toml"
    own.write_text(PRICED)
    models, names = registry(own), beside_rules("openai/mine", patient="openai/doctor")
    conversation = (("multi_turn", "mcq"),)

    def size(address: str | None, away: str = "") -> JobEstimate:
        settings = FrameworkSettings(base_url=address, own_address=away)
        return estimate(plan(1, names=names, arms=conversation, settings=settings), models, 1)

    at_home = size("http://10.0.0.7:8000/v1", "patient")
    doctor, patient = at_home.roles[:2]
    assert (doctor.cost_usd, doctor.source) == (0.0, "local")
    # 7 questions to a patient; its price in the models file is $1000 per million tokens
    assert patient.cost_usd == pytest.approx((patient.prompt_tokens + patient.completion_tokens) / 1000)
    assert at_home.prices == "Prices: local for openai/mine; models file for openai/doctor."
    assert size("https://models.example.org/v1", "patient").cost_usd is None
    assert size(None).cost_usd is None


def test_a_local_model_needs_no_price_under_a_budget() -> None:
    check_startable(plan(1, base_url="http://127.0.0.1:9/v1"), registry(), Options(budget_usd=1.0))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperature": -0.1}, "--temperature must be from 0 to 2"),
        ({"temperature": float("nan")}, "--temperature must be from 0 to 2"),
        ({"max_tokens": 0}, "--max-tokens must be a number of at least 1"),
        ({"reasoning_effort": "think hard"}, "--effort must be one word"),
        ({"max_messages": 3}, "--max-messages: it must be at least 4"),
        ({"persona": "loud"}, "loud"),
        ({"loudness": 3}, "--loudness does not belong to craftmd: leave it out."),
    ],
)
def test_impossible_settings_are_refused_with_a_message(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_settings(framework(), settings)
