"""The disease model against figures worked out by hand and by an independent brute-force computation."""

from __future__ import annotations

from math import exp, log, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.knowledge.base import Disease, Finding, Knowledge, knowledge
from core.knowledge.bayes import DiseaseModel, Evidence, disease_model

TEMPER = 0.8
STEP = 1.8
OWN = 3.0


def disease(name: str, findings: dict[str, float], **changes: object) -> Disease:
    fields = {
        "id": name,
        "name": name,
        "specialty": "Other",
        "age": (0, 100),
        "female": 0.5,
        "prevalence": 3,
        "findings": findings,
        "use": "reference baseline only, not for care",
    }
    return Disease.model_validate({**fields, **changes})


def finding(name: str, base: float = 0.1, kind: str = "symptom") -> Finding:
    ask = f"Is there {name}?" if kind == "symptom" else None
    return Finding(id=name, name=name, kind=kind, base=base, ask=ask, phrases=(name,))  # type: ignore[arg-type]


def model(*diseases: Disease, findings: tuple[Finding, ...] | None = None) -> DiseaseModel:
    return DiseaseModel(Knowledge(diseases, findings or (finding("cough"), finding("rash", 0.05))))


def test_posterior_of_two_diseases_by_hand() -> None:
    # flu: cough 0.8, rash 0.05 (base); measles: cough 0.4, rash 0.9. Cough is there, the rash is not.
    two = model(disease("flu", {"cough": 0.8}), disease("measles", {"cough": 0.4, "rash": 0.9}))

    posterior = two.posterior(Evidence({"cough": True, "rash": False}))

    flu, measles = (0.8 * 0.95) ** TEMPER, (0.4 * 0.1) ** TEMPER
    assert posterior.tolist() == pytest.approx([flu / (flu + measles), measles / (flu + measles)])
    assert posterior[0] == pytest.approx(0.9134, abs=1e-4)


def test_prior_follows_prevalence_specialty_sex_and_age() -> None:
    two = model(
        disease("a", {}, prevalence=5, specialty="Neurology", female=0.8),
        disease("b", {}, prevalence=3, specialty="Cardiology", female=0.2, age=(60, 90)),
    )

    assert two.posterior(Evidence())[0] == pytest.approx(STEP**2 / (STEP**2 + 1))
    assert two.posterior(Evidence(), "Cardiology")[0] == pytest.approx(STEP**2 / (STEP**2 + OWN))
    assert two.posterior(Evidence(sex="female"))[0] == pytest.approx(STEP**2 * 4 / (STEP**2 * 4 + 1))
    assert two.posterior(Evidence(sex="male"))[0] == pytest.approx(STEP**2 / (STEP**2 + 4))
    assert two.posterior(Evidence(age=70))[0] == pytest.approx(STEP**2 / (STEP**2 + 1))
    by_age = [two.posterior(Evidence(age=age))[0] for age in (60, 50, 40, 0)]
    assert by_age == sorted(by_age)
    assert by_age[-1] == pytest.approx(STEP**2 / (STEP**2 + 0.005))


def brute_force_gain(prior: list[float], likelihoods: list[float]) -> float:
    """Entropy of the disease before, less the expected entropy after the answer, in bits."""

    def entropy(weights: list[float]) -> float:
        total = sum(weights)
        return -sum(w / total * log2(w / total) for w in weights if w > 0)

    yes = [p * q for p, q in zip(prior, likelihoods, strict=True)]
    no = [p * (1 - q) for p, q in zip(prior, likelihoods, strict=True)]
    return entropy(prior) - sum(yes) * entropy(yes) - sum(no) * entropy(no)


@given(st.lists(st.tuples(st.floats(0.02, 1), st.floats(0.01, 0.98), st.floats(0.01, 0.98)), min_size=2, max_size=5))
def test_information_gain_agrees_with_brute_force(rows: list[tuple[float, float, float]]) -> None:
    diseases = [disease(f"d{i}", {"cough": cough, "rash": rash}) for i, (_, cough, rash) in enumerate(rows)]
    weights = np.array([w for w, _, _ in rows])
    prior = weights / weights.sum()

    gains = {f.id: gain for gain, f in model(*diseases).information_gain(prior, [])}

    assert gains["cough"] == pytest.approx(brute_force_gain(prior.tolist(), [r[1] for r in rows]), abs=1e-9)
    assert gains["rash"] == pytest.approx(brute_force_gain(prior.tolist(), [r[2] for r in rows]), abs=1e-9)


def test_what_is_known_or_cannot_be_asked_is_not_asked_and_the_best_comes_first() -> None:
    findings = (finding("cough"), finding("rash"), finding("sodium", kind="lab"))
    two = model(
        disease("a", {"cough": 0.9, "rash": 0.5, "sodium": 0.9}),
        disease("b", {"cough": 0.1, "rash": 0.4}),
        findings=findings,
    )
    prior = np.array([0.5, 0.5])

    assert [f.id for _, f in two.information_gain(prior, [])] == ["cough", "rash"]
    assert [f.id for _, f in two.information_gain(prior, ["cough"])] == ["rash"]
    assert two.information_gain(prior, ["cough", "rash"]) == []


names = st.sampled_from([f.id for f in knowledge().findings[:200]])
facts = st.dictionaries(names, st.booleans(), max_size=8)


@given(facts, st.sampled_from([None, "female", "male"]), st.none() | st.floats(0, 100))
def test_a_posterior_is_a_distribution_and_does_not_depend_on_the_order_of_the_evidence(
    found: dict[str, bool], sex: str | None, age: float | None
) -> None:
    forwards = disease_model().posterior(Evidence(found, age, sex))  # type: ignore[arg-type]
    backwards = disease_model().posterior(Evidence(dict(reversed(found.items())), age, sex))  # type: ignore[arg-type]

    assert forwards.sum() == pytest.approx(1)
    assert (forwards > 0).all()
    assert forwards == pytest.approx(backwards)


@given(facts, names)
def test_a_finding_speaks_for_the_diseases_in_which_it_is_commoner(found: dict[str, bool], name: str) -> None:
    engine = disease_model()
    likely = np.array([d.findings.get(name, engine.knowledge.finding[name].base) for d in engine.diseases])
    base = {f: present for f, present in found.items() if f != name}
    with_it = engine.posterior(Evidence({**base, name: True}))
    without = engine.posterior(Evidence({**base, name: False}))

    most, least = int(likely.argmax()), int(likely.argmin())
    assert with_it[most] / with_it[least] >= without[most] / without[least] * (1 - 1e-9)


def test_an_unheard_of_finding_changes_nothing() -> None:
    engine = disease_model()

    assert engine.posterior(Evidence({"no_such_finding": True})) == pytest.approx(engine.posterior(Evidence()))


def test_an_unknown_disease_counts_as_an_average_one() -> None:
    two = model(disease("a", {"cough": 0.9}), disease("b", {"cough": 0.1}))

    background = two.background(Evidence({"cough": True}))

    weights = [3 * log(STEP) + TEMPER * log(p) for p in (0.9, 0.1)]
    assert background == pytest.approx(log(sum(exp(w) for w in weights) / 2))
    assert weights[1] < background < weights[0]


def test_an_unknown_disease_of_a_named_specialty_is_like_its_known_ones() -> None:
    two = model(
        disease("a", {"cough": 0.9}, specialty="Neurology"), disease("b", {"cough": 0.1}, specialty="Cardiology")
    )
    evidence = Evidence({"cough": True})

    assert two.background(evidence, "Neurology") == pytest.approx(two.log_weights(evidence, "Neurology")[0])
    assert two.background(evidence, "Urology and Nephrology") == pytest.approx(two.background(evidence))
