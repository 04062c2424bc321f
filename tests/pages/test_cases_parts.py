"""The page Cases: pure parts: filters, tables, figures, the editor's tables, published words."""

from __future__ import annotations

import pandas as pd

from core.case import Case, Fact, Profile
from core.datasets.lint import LintFinding
from core.datasets.reading import ReadCases
from core.frameworks.automedic.measures.suitability import published_for, published_table
from core.store.queries.profiles import StoredProfile
from core.text.profiles import Generated
from pages.cases.cases import cases_table, fits
from pages.cases.importing import preview_table, remarks_table
from pages.cases.profile import fact_words, facts_from, facts_table
from pages.cases.sets import CaseEntry
from tests.core.store.builders import a_case

AGE = Fact(key="age", value="4 years", lay="I am four")
COUGH = Fact(key="chief complaint", value="dry cough for two weeks", lay="I keep coughing, two weeks now")
SMOKING = Fact(key="lifestyle", value="no smokers at home", lay="we do not smoke", imputed=True)
PULSE = Fact(key="pulse", value="90/min", lay="", section="vital_signs")
PROFILE = Profile(demographics=(AGE,), basic=(COUGH, SMOKING), optional=(PULSE,))


def passes(made_by: str = "rules-1", profile: Profile = PROFILE) -> Generated:
    return Generated(suitable=True, profile=profile, made_by=made_by)


def fails(reason: str, made_by: str = "rules-1") -> Generated:
    return Generated(suitable=False, reason=reason, note="It asks for a mechanism.", made_by=made_by)


def a_line(case: Case, word: Generated | None = None, *findings: LintFinding) -> CaseEntry:
    saved = None if word is None else StoredProfile(case.case_key, case.content_hash, 1, word, 1.0)
    return CaseEntry(case, case.content_hash, findings, saved)


BARE = {"profile": None}
LINES = [
    a_line(a_case(1, vignette="A man coughs.", **BARE), passes()),
    a_line(a_case(2, specialty="Cardiology", **BARE), fails("abstract_concept")),
    a_line(
        a_case(3, question="Which heart valve is it?", **BARE), None, LintFinding("ours/3", "duplicate", "as ours/1")
    ),
    a_line(a_case(4)),
]


def kept(**filters) -> list[str]:
    return [line.case.case_key.partition("/")[2] for line in LINES if fits(line, **filters)]


def test_filters_narrow_by_what_is_known_of_a_case() -> None:
    assert kept() == ["1", "2", "3", "4"]
    assert kept(words="COUGHS") == ["1"]
    assert kept(words="valve") == ["3"]
    assert kept(specialties=("Cardiology",)) == ["2"]
    assert kept(suitability=("suitable",)) == ["1", "4"]
    assert kept(suitability=("abstract_concept", "unknown")) == ["2", "3"]
    assert kept(profile=("none",)) == ["2", "3"]
    assert kept(profile=("case",)) == ["4"]
    assert kept(findings=("duplicate",)) == ["3"]
    assert kept(findings=("none",), words="vignette") == ["2", "4"]


def test_the_list_does_not_give_answers_away_but_the_download_has_them() -> None:
    listed = cases_table(LINES)
    assert list(listed["Suitability"]) == ["Suitable", "Not: Abstract concept", "Not assessed", "Suitable"]
    assert list(listed["Profile"].fillna("")) == ["Rules (rules-1)", "", "", "Came with the case"]
    assert list(listed["Faults"]) == ["", "", "Duplicate", ""]
    assert "Eczema" not in listed.to_string()
    whole = cases_table(LINES, full=True)
    assert list(whole["Right answer"]) == ["Eczema"] * 4
    assert whole["Choices listed"][0] == "A. Eczema\nB. Psoriasis"


def test_a_long_vignette_is_listed_by_its_beginning_and_downloaded_whole() -> None:
    long = a_line(a_case(vignette="An itchy rash.\n" * 50))
    assert cases_table([long])["Vignette"][0].endswith("…")
    assert cases_table([long], full=True)["Vignette"][0] == "An itchy rash.\n" * 50


def test_the_editor_gives_back_the_facts_it_was_given() -> None:
    for part in ("demographics", "basic", "optional"):
        facts = getattr(PROFILE, part)
        kept_lay = tuple(f if f.lay else f.model_copy(update={"lay": f.value}) for f in facts)
        assert facts_from(facts_table(facts), part) == kept_lay
    assert facts_from(facts_table(()), "basic") == ()


def test_new_rows_of_the_editor_count_once_they_say_something() -> None:
    table = facts_table((COUGH,))
    added = pd.DataFrame(
        [
            {
                "What": "allergies",
                "In clinical words": "none known",
                "As the patient says it": None,
                "Section": None,
                "Imputed": True,
            },
            {
                "What": "half",
                "In clinical words": None,
                "As the patient says it": "x",
                "Section": None,
                "Imputed": None,
            },
            {
                "What": "ECG",
                "In clinical words": "normal",
                "As the patient says it": None,
                "Section": "Other tests",
                "Imputed": True,
            },
        ]
    )
    basic = facts_from(pd.concat([table, added], ignore_index=True), "basic")
    assert [(f.key, f.lay, f.imputed) for f in basic] == [
        ("chief complaint", COUGH.lay, False),
        ("allergies", "none known", True),
        ("ECG", "normal", True),
    ]
    staff = facts_from(added, "optional")
    assert [(f.key, f.section, f.imputed) for f in staff] == [("allergies", None, False), ("ECG", "other_tests", False)]


def test_a_fact_is_harmless_text_with_its_mark() -> None:
    assert fact_words(SMOKING) == (
        "**Lifestyle:** no smokers at home :orange-badge[imputed]  \n:gray[“we do not smoke”]"
    )
    assert "\\<img" in fact_words(Fact(key="x", value="<img src=y>", lay=""))
    assert "we do not" not in fact_words(SMOKING, lay=False)


def test_published_words_stand_next_to_a_data_set_of_the_same_name() -> None:
    assert published_for("medxpertqa").startswith("MedXpertQA in the paper: suitable: 79.8 %; suitable items")
    named = {
        "medqa-test": "MedQA",
        "HeadQA": "HEAD-QA",
        "mmlu-pro": "MMLU-Pro",
        "medqas": "",
        "library": "",
        "my-medqa": "",
    }
    assert {name: published_for(name).partition(" in the paper")[0] for name in named} == named
    table = {row["Data set"]: row for row in published_table()}
    assert table["MedQA"]["Suitable"] == "more than 90 %"
    assert table["MedMCQA"]["Suitable"] == "10–15 %"
    assert table["MedXpertQA"]["Suitable items"] == "1,955"


def test_the_preview_names_every_row_by_its_place() -> None:
    reading = ReadCases(cases=[a_case()], rejected=[(3, "the answer is empty")], unit="line")
    assert list(preview_table(reading)["Right answer"]) == ["Eczema"]
    rows = remarks_table([(0, "answers count from 0"), (3, "the answer is empty")], "record")
    assert list(rows["Record"]) == ["all", "3"]
