"""The tab Simulated patients: how often and where they err, and the rules compared with experts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd
import streamlit as st

from core.frameworks.starts import CAMPAIGN, RELEASE
from core.jobs.judge import Judging
from core.judging.patient_rule import ABOUT, KINDS, ReplyMark, ReplyMarkKind
from core.measures.patients.marks import PATIENT_MARKS
from core.measures.patients.rates import AGAINST_EXPERTS, AGAINST_MODELS, RULES_READ, TERMS_FORM, By
from core.store.database import Store
from core.store.queries.scores_of_patients import Hit, hits, offer
from core.store.selection import Selection
from pages.kit.cached import ask, cached_query
from pages.kit.cases import choose_case, clear_parameters
from pages.kit.controls import choose_several, filter_popover
from pages.kit.conversation import draw_case
from pages.kit.conversation_list import draw_chosen
from pages.kit.empty import draw_empty, draw_no_match
from pages.kit.jobs import draw_judging
from pages.kit.look import counted, plain
from pages.kit.messages import Mark
from pages.kit.names import dataset_name, unique_names
from pages.kit.notes import basis, draw_notes, notes_on
from pages.kit.page import draw_folds
from pages.kit.section import draw_filled, draw_section
from pages.kit.stored import ConversationRecord
from pages.kit.tables import draw_pager, offer_csv, page_asked
from pages.kit.view import row_of_controls
from pages.trust.patient_rates import FILTERS, draw_rates, persona_name

_PAGE = 50  # hits on one page of the list
_PAGE_NAME = "patients_page"  # URL parameter of the page number
_WIDTH = 224  # of a control in the row, in pixels


@dataclass(frozen=True)
class PatientView:
    """The selected conversations and kinds of hits, and the names of patients, doctors and runs."""

    selection: Selection
    kinds: tuple[ReplyMarkKind, ...] = KINDS
    patients: dict[str, str] = field(default_factory=dict, compare=False, hash=False)
    doctors: dict[str, str] = field(default_factory=dict, compare=False, hash=False)
    runs: dict[str, str] = field(default_factory=dict, compare=False, hash=False)

    @property
    def names(self) -> dict[By, dict[str, str]]:
        """Return the names of patients, doctors and runs, in the order of the page."""
        return {"patient": self.patients, "doctor": self.doctors, "run": self.runs}


@cached_query(entries=32)
def page_of(selection: Selection, kinds: tuple[ReplyMarkKind, ...], words: str, page: int) -> tuple[int, list[Hit]]:
    """Return the number of hits and one page of them, counted from 0; beyond the last page, 0 and no hit."""
    with Store().read() as cursor:
        return hits(cursor, PATIENT_MARKS, kinds, selection, words=words or None, limit=_PAGE, offset=page * _PAGE)


@cached_query(entries=32)
def marks_of(trial_id: str) -> tuple[ReplyMark, ...]:
    with Store().read() as cursor:
        _, of_trial = hits(cursor, PATIENT_MARKS, selection=Selection(trials=(trial_id,)), limit=None)
    return tuple(hit.mark for hit in of_trial)


def draw_patients() -> None:
    """Draw the sections, or how to begin if no conversation has a patient."""
    available = ask(offer)
    if available["patient"].isna().all():
        draw_empty("No conversation with a patient is stored yet.", CAMPAIGN, RELEASE, icon="personal_injury")
        return
    view = ask_patients(available)
    sections = {
        "How often": lambda view: draw_rates(view.selection, view.kinds, view.names),
        "Where": draw_hits,
        "Against experts": draw_experts,
        "Rules": draw_rules,
    }
    draw_folds(sections, view)


def ask_patients(available: pd.DataFrame) -> PatientView:
    values = {name: sorted(column.dropna().unique()) for name, column in available.items()}
    patients, doctors = unique_names(values["patient"]), unique_names(values["doctor"])
    of_runs = dict(zip(available["run_id"], available["doctor"], strict=True))
    runs = {run: f"{doctors[doctor]} · {run}" for run, doctor in of_runs.items()}
    personas = values["persona"] if len(values["persona"]) > 1 else []
    parts: dict[str, tuple[str, str, Mapping[str, str]]] = {
        "patients": ("Patients", "patients_patients", patients),
        "personas": ("Personas", "patients_personas", {persona: persona_name(persona) for persona in personas}),
        "models": ("Doctors", "patients_doctors", doctors),
        "runs": ("Runs", "patients_runs", runs),
        "datasets": ("Data sets", "datasets", {name: dataset_name(name) for name in values["dataset"]}),
        "specialties": ("Specialties", "specialties", {name: name for name in values["specialty"]}),
    }
    chosen: dict[str, tuple[str, ...]] = {}
    with row_of_controls():
        first, kinds_place = st.container(width=_WIDTH), st.container(width=_WIDTH)
        more = filter_popover((key for part, (_, key, _) in parts.items() if part != "patients"), "patients_more")
    for part, (label, key, names) in parts.items():
        if names:
            where = first if part == "patients" else more
            chosen[part] = choose_several(label, list(names), key, names=names, where=where, on_change=first_page)
    kinds = choose_several(
        "Kinds of errors",
        KINDS,
        "patients_kinds",
        names=lambda kind: ABOUT[kind].name,
        where=kinds_place,
        on_change=first_page,
        help="Which replies a rule takes for an error, and how often it is right: see **Rules**.\n\n"
        + "\n".join(f"- {about.name}: {about.read_in_words}" for about in ABOUT.values()),
    )
    selection = Selection(**{part: values for part, values in chosen.items() if values})  # type: ignore[arg-type]
    return PatientView(selection, tuple(kind for kind in KINDS if kind in kinds) or KINDS, patients, doctors, runs)


def first_page() -> None:
    """Go back to the first page of the hits, because the list changes."""
    clear_parameters(_PAGE_NAME)


def draw_hits(view: PatientView) -> None:
    """Ask for words, list the hits, and draw the conversation of the chosen hit."""
    view_basis = basis(view.selection)
    draw_notes(
        notes_on(view_basis, unique_names(condition.name for condition in view_basis.conditions), compared=False)
    )
    words = st.text_input(
        "Words of the error",
        key="patients_words",
        bind="query-params",
        type="search",
        on_change=first_page,
        placeholder="vignette, pruritus …",
        width=320,
    ).strip()
    page = page_asked(_PAGE_NAME)
    total, page_hits = page_of(view.selection, view.kinds, words, page - 1)
    if not page_hits and page > 1:
        first_page()
        page = 1
        total, page_hits = page_of(view.selection, view.kinds, words, 0)
    if not page_hits:
        draw_no_match("No error matches.", *FILTERS, "patients_words")
        return
    pages = -(-total // _PAGE)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{total:,}** errors found by rules. Choose one to read its conversation.")
        draw_pager(_PAGE_NAME, page, pages)
    columns = {
        "Words": st.column_config.TextColumn(width="medium"),
        "Reply": st.column_config.TextColumn(width="large"),
    }
    ids = [f"{hit.trial_id}|{hit.mark.turn + 1}" for hit in page_hits]
    table = hits_table(page_hits, view)
    chosen = choose_case(table, "patients-hits", "patients_hit", columns, ids=ids, download="")

    def every_hit() -> pd.DataFrame:
        with Store().read() as cursor:
            _, all_hits = hits(cursor, PATIENT_MARKS, view.kinds, view.selection, words=words or None, limit=None)
        return hits_table(all_hits, view, full=True)

    offer_csv(every_hit, "patient_hits", "Download all as CSV", key="patients_hits_csv")
    if chosen is None:
        return
    hit = page_hits[ids.index(chosen)]
    marks = marks_of(hit.trial_id)

    def why(mark: ReplyMark) -> str:
        return f"{ABOUT[mark.kind].name}{f' ({plain(mark.detail)})' if mark.detail else ''}"

    def draw_marks(stored: ConversationRecord) -> None:
        if marks:
            st.markdown(f"**{counted(len(marks), 'error')} in this conversation**")
            lines = (
                f"- Message {mark.turn + 1}, {why(mark)}: “{plain(' '.join(mark.words.split()))}”" for mark in marks
            )
            st.markdown("\n".join(lines))
        else:
            st.caption("The rules find nothing wrong in this conversation.")
        if stored.case is not None:
            draw_case(stored.case)

    found = [Mark(mark.words, mark.turn, mark.start, why(mark)) for mark in marks]
    patient = view.patients.get(hit.patient, hit.patient)
    note = f"**{plain(patient)}** as the patient of **{plain(view.doctors.get(hit.doctor, hit.doctor))}**"
    draw_chosen(hit.trial_id, "patients", draw_marks, at=hit.mark.turn, marks=found, note=note)


def hits_table(listed: Sequence[Hit], view: PatientView, *, full: bool = False) -> pd.DataFrame:
    """Return one row for each hit; ``full`` adds the doctor’s message, the run and the trial, for a download."""
    rows = []
    for hit in listed:
        row: dict[str, object] = {
            "Kind": ABOUT[hit.mark.kind].name,
            "Words": hit.mark.words,
            "Why": hit.mark.detail,
            "Reply": " ".join(hit.text.split()),
            "Message": hit.mark.turn + 1,
            "Patient": view.patients.get(hit.patient, hit.patient),
            "Doctor": view.doctors.get(hit.doctor, hit.doctor),
            "Case": hit.case_key.partition("/")[2] or hit.case_key,
            "Trial": hit.trial + 1,
        }
        if full:
            row |= {"Question": hit.question, "Persona": hit.persona or "plain"}
            row |= {"Run": hit.run_id, "Trial id": hit.trial_id}
        rows.append(row)
    return pd.DataFrame(rows)


def draw_experts(view: PatientView) -> None:
    """Draw the rules, the experts and judging models on the same conversations."""
    draw_filled({"experts": AGAINST_EXPERTS}, Selection(), "patients")
    draw_filled({"judges": AGAINST_MODELS}, view.selection, "patients")
    with st.expander("Have a model judge these patients", icon=":material/gavel:"):
        draw_judging(
            Judging,
            lambda model, address: Judging(TERMS_FORM, (model,), view.selection, base_url=address),
            "patients_terms",
            Judging(TERMS_FORM).instance,
        )


def draw_rules(_: PatientView) -> None:
    """Draw the precision of each rule; the filters do not matter here."""
    draw_section(RULES_READ, Selection(), name="patients-rules")
