"""A running or replayed consultation: controls, chat, answers and side panels, redrawn while it runs.

Also the presentation view: large and without the sidebar, for an audience.
"""

import time
from collections.abc import Callable, Sequence

import streamlit as st

from core.asking.persona import label as persona_label
from core.asking.persona import parse_persona
from core.case import Case, Fact
from core.events import (
    Answered,
    Called,
    CallRecord,
    Ended,
    Event,
    Finished,
    Format,
    Graded,
    Probed,
    QuestionType,
    Speaker,
    Started,
    Verdict,
    reasoning_of,
)
from core.export.reading import was_shown
from core.frameworks.base import Framework, framework, role_title, speaking_roles, tested_seat, title_of
from core.frameworks.casting import is_model
from core.frameworks.conversation import GO_ON
from core.journal import RunHeader
from core.live.session import Session
from core.measures.coverage import Uncovered, gathered, uncovered
from core.words import ROLE
from pages.kit.conversation import draw_answers_of, draw_case, draw_summary
from pages.kit.export_menu import draw_export_menu, draw_export_menu_unstored
from pages.kit.jobs import draw_reused_replies
from pages.kit.look import (
    PARTS,
    QUESTION_TYPE,
    arm,
    badge,
    cost_of,
    counted,
    draw_refused,
    in_callback,
    plain,
    total_tokens,
)
from pages.kit.messages import draw_messages
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.seats import case_label
from pages.kit.sessions import WatchedSession, draw_resume, leave, play_again

_SPEEDS = {"0.5×": 0.5, "1×": 1.0, "2×": 2.0, "4×": 4.0, "At once": 1000.0}
_REPEATED_WITHIN_S = 1.5
"""Seconds within which the same text is a repeated script run, not a second message of the visitor."""
_TRY = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}
REDRAW_S = 0.4
"""Seconds between two redraws of a running session."""
_GATHERED_HELP = (
    "The doctor knows the demographics and has to ask the patient or the clinical staff for everything else. A fact "
    "counts as gathered when one of their replies has most of its key words: shared words, not a judgement."
)
_UNCOVERED_HELP = (
    "A fact counts as uncovered when one reply of the patient has most of its key words: shared words, not a "
    "judgement. After the conversation a model can judge the facts."
)
_COST_HELP = "By the prices in data/models.toml; rules cost nothing. A plus says that some calls have no known price."
_MOST_ON_STAGE = 4
"""Maximum number of diagnoses and verdicts in the presentation view."""
_STAGE = """<style>
[data-testid="stSidebar"], [data-testid="stExpandSidebarButton"], [data-testid="stHeader"], h1 { display: none; }
.stMainBlockContainer { max-width: 100%; padding: 0.8rem 2.5rem; }
.st-key-stage p, .st-key-stage p *, .st-key-stage li, .st-key-stage button,
.st-key-stage [data-testid="stCaptionContainer"],
.st-key-stage label, .st-key-stage textarea { font-size: 26px !important; line-height: 1.35; }
.st-key-stage h2 { font-size: 30px !important; padding: 0; }
.st-key-stage h3 { font-size: 30px !important; padding: 0; }
.st-key-stage [class*="stMarkdownBadge"], .st-key-stage [class*="stMarkdownBadge"] * { font-size: 26px !important; }
.st-key-stage [data-testid="stIconMaterial"] { font-size: 28px !important; }
</style>"""


def draw_sessions(sides: Sequence[WatchedSession], *, branches: bool = True) -> None:
    """Draw one consultation, or two side by side, redrawn a few times a second while one runs.

    ``branches`` adds links to branch from them. The presentation view leaves out figures, facts and the case.
    """
    alone = len(sides) == 1
    help_ = "Large type and no sidebar, for an audience."
    large = st.toggle("Presentation", key="present", bind="query-params", help=help_)
    cases = list({watched.case.case_key: watched.case for watched in sides if watched.case}.values())
    if large:
        st.html(_STAGE)
    if len(cases) > 1:
        st.warning("These two have different cases, so their results cannot be compared.")

    def draw_links() -> None:
        if alone and branches and not large:
            draw_branch_link(sides[0])
        if large or any(watched.session.running for watched in sides):
            return
        header = sides[0].session.meta.get("header")
        finished = any(isinstance(event, Finished) for event in sides[0].session.snapshot())
        if alone and isinstance(header, RunHeader) and not finished:
            draw_resume(header, sides[0].session.key)
        draw_export_menu_watched(sides, key="live")

    def draw() -> None:
        with st.container(key="stage" if large else None):
            draw_controls(sides, draw_links)
            for column, watched in zip(st.columns(len(sides), gap="medium"), sides, strict=True):
                with column:
                    if not alone:
                        st.header(plain(_side_name(watched, sides)), anchor=False)
                    _draw_side(watched, alone=alone, large=large)
                    if not alone and not large:
                        draw_branch_link(watched)

    redrawn([watched.session for watched in sides], draw)
    if alone or large:
        return
    if not any(watched.session.running for watched in sides):
        st.caption("One consultation each gives only an impression. Compare runs over many cases on the page Compare.")
    for case in cases:
        if len(cases) > 1:
            st.markdown(f"**{plain(case_label(case))}**")
        draw_case(case, profiled=sides[0].profiled)


def _side_name(watched: WatchedSession, sides: Sequence[WatchedSession]) -> str:
    """Return the doctor of one side, the persona, or both, depending on what differs from the other side."""
    patient = f"patient: {persona_label(parse_persona(watched.persona))}"
    doctor = model_name(watched.doctor) if watched.doctor else "Doctor not recorded"
    if len({side.persona for side in sides}) == 1:
        return doctor
    same_doctor = len({side.doctor for side in sides}) == 1
    return patient[:1].upper() + patient[1:] if same_doctor else f"{doctor} · {patient}"


def _draw_side(watched: WatchedSession, *, alone: bool, large: bool) -> None:
    """Draw one consultation: its messages and answers, and next to them, or below, what can be read from it so far."""
    session, events, case = watched.session, watched.session.snapshot(), watched.case
    sending, fw = f"sending_{session.key}", watched.framework
    draw_players(watched)
    if large or not session.running:
        draw_outcome(watched)
    main, side = st.columns([5, 3], gap="medium") if alone else (st.container(), st.container())
    with main:
        # a person who plays needs room for the question below
        height = 300 if hides_thoughts(session) else 460 if not alone else 700 if large else 520
        draw_watched_chat(watched, events, height)
        draw_seat(session, fw or framework(), sending)
        if (unit := session.unit) is not None:
            draw_reused_replies(unit.remembered, unit.unused if unit.calls > unit.remembered else 0)
    with side:
        if not large:
            draw_figures(session, events, fw)
        if person_is_tested(session, fw):
            st.info("Facts and case are shown after the consultation.", icon=":material/visibility_off:")
        else:
            draw_differential(events, _MOST_ON_STAGE if large else None)
            if case is None or large or not alone:
                draw_fact_count(watched)
            else:
                _draw_facts(case, watched)
                expanded = session.running and session.meta.get("patient") == "human" and not watched.profiled
                draw_case(case, open_=expanded, profiled=watched.profiled, pictures_seen=was_shown(events))
    with side if large else main:
        draw_given_answers(session, events, fw)
    if (last_message := st.session_state.get(sending)) is not None:
        st.session_state[sending] = (*last_message[:2], last_message[2] or time.monotonic())


def person_is_tested(session: Session, fw: Framework | None) -> bool:
    """Return whether a person plays the tested seat now, who must not see the case, the verdicts or any reasoning."""
    return session.running and session.meta.get(tested_seat(fw or framework()).role) == "human"


def draw_players(watched: WatchedSession) -> None:
    """Draw who plays, the persona, the framework and the case; their full names are in the help."""
    fw = watched.framework
    names = [
        f"{role_title(fw or framework(), role)} **{plain(model_name(name))}**" for role, name in watched.players.items()
    ]
    if watched.persona:
        names.append(f"{plain(persona_label(parse_persona(watched.persona)))} patient")
    full_names = [f"{role}: {name}" for role, name in watched.players.items()]
    if protocol := fw.name if fw is not None else watched.protocol:
        names.append(plain(title_of(protocol)))
    if watched.case is not None:
        names.append(plain(case_label(watched.case)))
        full_names.append(f"case: {watched.case.case_key}")
    if names:
        st.caption(" · ".join(names), help=plain("; ".join(full_names)) or None)


def redrawn(sessions: Sequence[Session], draw: Callable[[], None]) -> None:
    """Call ``draw`` a few times a second while a session runs, and rerun the whole page when the last one ends."""
    running = any(session.running for session in sessions)

    @st.fragment(run_every=REDRAW_S if running else None)
    def draw_again() -> None:
        draw()
        if running and not any(session.running for session in sessions):
            st.rerun()

    draw_again()


def draw_controls(sides: Sequence[WatchedSession], more: Callable[[], object] = lambda: None) -> None:
    """Draw buttons that pause, step, stop and speed up sessions, or those for a new start when all have ended.

    ``more`` draws further buttons after them.
    """
    sessions = [watched.session for watched in sides]

    @in_callback
    def for_each(action: Callable[[Session], None]) -> None:
        for session in sessions:
            action(session)

    speed = f"speed_{sessions[0].key}"

    def change_speed() -> None:
        for session in sessions:
            session.speed = _SPEEDS.get(st.session_state[speed], session.speed)

    draw_refused()
    with st.container(horizontal=True, vertical_alignment="center"):
        if any(session.running for session in sessions):
            paused = any(session.paused for session in sessions)
            st.button(
                "Go on" if paused else "Pause",
                icon=":material/play_arrow:" if paused else ":material/pause:",
                on_click=for_each,
                args=(Session.resume if paused else Session.pause,),
                shortcut="p",
            )
            st.button(
                "Step",
                icon=":material/skip_next:",
                on_click=for_each,
                args=(Session.step,),
                shortcut="s",
                help="One message, then pause.",
            )
            st.button("Stop", icon=":material/stop:", on_click=for_each, args=(Session.stop,))
            # Only a change sets the speed: several visitors may watch the same consultation.
            st.segmented_control(
                "Speed",
                list(_SPEEDS),
                default=next((name for name, rate in _SPEEDS.items() if rate == sessions[0].speed), "1×"),
                key=speed,
                label_visibility="collapsed",
                required=True,
                on_change=change_speed,
            )
        else:
            if st.button("New consultation", icon=":material/add:", type="primary"):
                leave()
                st.rerun()
            if all(session.events for session in sessions) and st.button("Play again", icon=":material/replay:"):
                play_again(*sides)
                st.rerun()
        more()


def draw_branch_link(watched: WatchedSession) -> None:
    """Draw the link to branch from a consultation, if it is stored or runs and has started."""
    events = watched.session.snapshot()
    started = next((event for event in events if isinstance(event, Started)), None)
    is_running = watched.session.running and "header" in watched.session.meta
    stored = any(isinstance(event, Finished) for event in events)
    if started is not None and (is_running or stored):
        link_branch(started.trial_id)


def link_branch(trial_id: str) -> None:
    help_ = "Continue from any message, with another text, model, persona or prompts, once or several times."
    link("branches", "Branch from here", "fork_right", help=help_, trial=trial_id, fork="yes")


def draw_export_menu_watched(sides: Sequence[WatchedSession], key: str) -> None:
    """Draw the export menu of consultations: as stored, or with the events so far of those that were stopped."""
    snapshots = [watched.session.snapshot() for watched in sides]
    if all(any(isinstance(event, Finished) for event in events) for events in snapshots):
        draw_export_menu([watched.trial_id for watched in sides], key)
    elif all(any(isinstance(event, Started) for event in events) for events in snapshots):
        headers = [watched.session.meta.get("header") for watched in sides]
        draw_export_menu_unstored(
            [
                (watched.case, events, header if isinstance(header, RunHeader) else None)
                for watched, events, header in zip(sides, snapshots, headers, strict=True)
            ],
            key,
        )


def draw_watched_chat(watched: WatchedSession, events: Sequence[Event], height: int) -> None:
    """Draw the messages so far, without reasoning if a person still plays."""
    session = watched.session
    draw_messages(
        events,
        key=f"chat_{session.key}",
        height=height,
        fw=watched.framework,
        thoughts={} if hides_thoughts(session) else None,
        draft=session.draft,
        waiting=pending_calls(session),
    )
    if session.error:
        st.error(plain(session.error))


def draw_given_answers(session: Session, events: Sequence[Event], fw: Framework | None) -> None:
    """Draw the answers of a running or finished session with their verdicts."""
    answers = [event for event in events if isinstance(event, Answered)]
    draft = session.draft  # read once: the session's thread changes it
    if not answers and not (draft and draft.purpose not in ("dialogue", "rate")):
        return
    st.header("Diagnosis", anchor=False)
    thoughts = {} if hides_thoughts(session) else reasoning_of(events)
    draw_summary(events, thoughts)
    # a person who still has to answer must not see the verdicts on earlier answers
    graded = [] if person_is_tested(session, fw) else [event for event in events if isinstance(event, Graded)]
    draw_answers_of(events, answers, graded, thoughts, fw)
    if draft and draft.purpose == "answer":
        st.caption(f"Answering: {plain(draft.text)} ▌" if draft.text or not draft.thought else "Thinking…")


def hides_thoughts(session: Session) -> bool:
    """Return whether reasoning is hidden because a person plays: it could give the diagnosis away."""
    return session.running and "human" in session.meta.values()


def pending_calls(session: Session) -> str:
    """Return in words which models have not started to reply, and for how long they have been running.

    The seconds of a retried call count from its first attempt; the text names the reason of the retry.
    """
    in_flight = list(session.replies.in_flight) if session.replies and session.running else []
    silent = [call for call in in_flight if not call.pieces]
    lines = []
    for call in silent:
        name = model_name(str(session.meta.get(call.role) or call.role))
        status = "is thinking" if call.purpose == "dialogue" else "is working"
        status = f"waits: {call.waits}" if call.waits else status
        lines.append(f"{ROLE[call.role]} ({name}) {status}… {time.time() - call.since:.0f} s")
        if call.attempt > 1:
            lines[-1] += f", {_TRY.get(call.attempt, f'{call.attempt}th')} try after {call.trouble}"
    return "; ".join(lines)


def draw_seat(session: Session, fw: Framework, sending: str) -> None:
    """Draw the input of a person who plays. It stays while other roles speak, so that typed text is not lost.

    The session state under ``sending`` stores the visitor's last message: its text, the prompt that it answers, and the
    time at which the script run that received it had drawn the page.
    """
    waiting = session.waiting
    speaker = waiting.role if waiting is not None else _next_human(session, fw)
    if speaker is None:
        return
    prompt = waiting.prompt if waiting is not None else ""
    if prompt:
        with st.container(key=f"asked_{session.key}"):
            st.info(plain(prompt), icon=":material/quiz:")
    if session.unsent is not None:
        st.warning(f"Not sent, because the question had changed in the meantime: {plain(session.unsent)}")
    key = f"say_{session.key}"

    @in_callback
    def send(text: str) -> None:
        # Streamlit repeats a script run that a redraw interrupts, with the same input: send it only once.
        *previous, drawn_at = st.session_state.get(sending, (None, None, None))
        repeated_run = drawn_at is None or time.monotonic() - drawn_at < _REPEATED_WITHIN_S
        if not (repeated_run and previous == [text, prompt]):
            st.session_state[sending] = (text, prompt, None)
            if decides and text not in choices:  # the next message instead of a decision
                session.say(speaker, GO_ON, prompt)
                session.say(speaker, text, "")
            else:
                session.say(speaker, text, prompt)

    choices = waiting.choices if waiting is not None else ()
    decides = waiting is not None and waiting.purpose == "dialogue" and GO_ON in choices
    with st.container(horizontal=True, gap="small"):
        for number, choice in enumerate(choices):
            st.button(plain(choice), key=f"{key}_{number}", on_click=send, args=(choice,))
    answering = "Or answer in your own words" if choices else "Your answer"
    invites = decides or not prompt
    placeholder = fw.speech.invitation(speaker, tested_seat(fw).role) if invites else answering
    st.chat_input(placeholder, key=key, on_submit=lambda: send(str(st.session_state[key])))


def _next_human(session: Session, fw: Framework) -> Speaker | None:
    """Return the seat of the person who may speak next; after the conversation only the tested seat can."""
    talking = not any(isinstance(event, Ended) for event in session.snapshot())
    seats = (tested_seat(fw).role, *(speaking_roles(fw) if talking else ())) if session.running else ()
    return next((seat for seat in seats if session.meta.get(seat) == "human"), None)


def draw_figures(session: Session, events: Sequence[Event], fw: Framework | None) -> None:
    """Draw the numbers of questions and tokens, the cost and the time."""
    calls = [event.call for event in events if isinstance(event, Called)]
    seconds = (session.finished_at or time.time()) - session.started_at
    with st.container(border=True):
        columns = st.columns(4, gap="xsmall")
        columns[0].metric(
            "Questions",
            (fw or framework()).speech.questions(events),
            help="The doctor's messages after the first one, or its queries that were passed on.",
        )
        tokens, cost = use_in_words(session, fw or framework(), calls)
        columns[1].metric("Tokens", tokens, help="Prompt and completion of all roles.")
        columns[2].metric("Cost", cost, help=_COST_HELP)
        columns[3].metric("Time", f"{seconds:.0f} s" if seconds < 6000 else "—")


def use_in_words(session: Session, fw: Framework, calls: Sequence[CallRecord]) -> tuple[str, str]:
    """Return the tokens and the cost of a consultation in words; an imported conversation of a model has no calls."""
    if not calls and session.finished_at and is_model(str(session.meta.get(tested_seat(fw).role, "human"))):
        return "–", "unknown"
    return f"{total_tokens(calls):,}", cost_of(calls)


def draw_fact_count(watched: WatchedSession) -> None:
    """Draw how many of the facts that the doctor must ask for are uncovered; nothing without a case."""
    askable: Sequence[Uncovered] = ()
    if watched.case is not None and watched.profiled:
        askable = gathered(watched.case, watched.session.dialogue).asked
    elif watched.case is not None:
        askable = [fact for fact in uncovered(watched.case, watched.session.dialogue) if fact.told]
    if askable:
        told = sum(fact.turn is not None for fact in askable)
        by_whom = "patient and staff" if watched.profiled else "the patient"
        st.progress(told / len(askable), text=f"{told} of {len(askable)} facts that {by_whom} can tell")


def draw_differential(events: Sequence[Event], most: int | None = None) -> None:
    """Draw the doctor's differential after the last turn, if it has one."""
    probes = [event for event in events if isinstance(event, Probed)]
    if not probes:
        return
    st.header("Differential", anchor=False, help="What the doctor finds most likely after each reply.")
    before = dict(probes[-2].differential) if len(probes) > 1 else {}
    for diagnosis, probability in probes[-1].differential[:most]:
        change = probability - before.get(diagnosis, 0.0)
        arrow = "↑" if change > 0.01 else "↓" if change < -0.01 else ""
        st.progress(min(1.0, probability), text=f"{plain(diagnosis)} — {probability:.0%} {arrow}")


def _draw_facts(case: Case, watched: WatchedSession) -> None:
    """Draw the case's facts, highlighted once the doctor knows them; facts of a profile by the role that has them."""
    dialogue = watched.session.dialogue
    groups: dict[tuple[str, str | None], Sequence[Fact | Uncovered]]
    if watched.profiled:
        by_role = gathered(case, dialogue)
        st.header("Facts gathered", anchor=False, help=_GATHERED_HELP)
        of_part: dict[str, Sequence[Fact | Uncovered]]
        of_part = {"demographics": by_role.demographics, "basic": by_role.patient, "optional": by_role.staff}
        groups = {(f":material/{icon}: **{owner}**", how): of_part[part] for part, (owner, icon, how) in PARTS.items()}
    else:
        facts_of_case = uncovered(case, dialogue)
        st.header("Facts uncovered", anchor=False, help=_UNCOVERED_HELP)
        groups = {
            ("Known by the patient:", None): [fact for fact in facts_of_case if fact.told],
            ("Known only from examination and tests:", None): [fact for fact in facts_of_case if not fact.told],
        }
    draw_fact_count(watched)
    with st.container(height=340, border=True, gap="xsmall"):
        for (owner, how), facts in groups.items():
            if facts:
                st.caption(owner, help=how)
            for fact in facts:
                if isinstance(fact, Fact):
                    st.markdown(f":green[:material/check_circle:] {_fact_words(fact)}")
                elif fact.turn is None:
                    st.markdown(f":gray[:material/radio_button_unchecked: {_fact_words(fact.fact)}]")
                else:
                    words = f"**{_fact_words(fact.fact)}** :gray[· message {fact.turn + 1}]"
                    st.markdown(f":green[:material/check_circle:] {words}")
        if watched.profiled and not by_role.staff:
            st.caption("The case has no results: the staff answers that nothing is available.")


def _fact_words(fact: Fact) -> str:
    name = "" if fact.key == "sentence" else f"{plain(fact.key[:1].upper() + fact.key[1:])}: "
    return f"{name}{plain(fact.value)}{' (imputed)' if fact.imputed else ''}"


def _verdicts(watched: WatchedSession) -> list[tuple[Verdict, str]]:
    """Return the verdicts on the answers after the conversation, or on all answers if there are no such ones.

    Each has the name of its arm, or of its question type if all arms have the same format.

    There are none while a person who is tested still answers.
    """
    session, fw = watched.session, watched.framework or framework()
    if person_is_tested(session, fw):
        return []
    other_rule = "mcq_loose" if fw.usual.mcq_rule == "mcq_strict" else "mcq_strict"
    verdicts: dict[tuple[Format, QuestionType], Verdict] = {}
    for event in session.snapshot():
        if isinstance(event, Answered) and event.reason is not None:
            verdicts[event.format, event.question_type] = event.reason
        elif isinstance(event, Graded) and event.rule != other_rule:
            verdicts[event.format, event.question_type] = event.verdict
    after = {key: verdict for key, verdict in verdicts.items() if key[0] != "vignette"} or verdicts
    same_format = len({format_ for format_, _ in after}) == 1
    return [
        (verdict, QUESTION_TYPE[question_type] if same_format else arm(format_, question_type))
        for (format_, question_type), verdict in after.items()
    ]


def draw_outcome(watched: WatchedSession) -> None:
    """Draw the state of a consultation, and after its end the verdicts and the right answer."""
    session, events = watched.session, watched.session.snapshot()
    fw = watched.framework or framework()
    verdicts = _verdicts(watched)
    if not verdicts:
        state = "Paused" if session.paused else "Answering" if any(isinstance(e, Ended) for e in events) else "Talking"
        words = f"{state} · {counted(fw.speech.questions(events), 'question')}" if session.running else "Stopped"
        st.markdown(f":gray-badge[{words}]")
        return
    parts = [f"{badge(verdict)} {plain(name)}" for verdict, name in verdicts[:_MOST_ON_STAGE]]
    if len(verdicts) > _MOST_ON_STAGE:
        parts.append(f"{len(verdicts) - _MOST_ON_STAGE} more")
    # A person may still have to answer while the session runs.
    if watched.case is not None and not session.running:
        parts.append(f"Right answer: **{plain(watched.case.answer)}**")
    st.markdown(" · ".join(parts))
