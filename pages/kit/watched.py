"""A consultation under way or played again: controls, chat, answers, and the panels beside them, redrawn meanwhile.

Also on a stage: large, without the sidebar, for people who look on from across a room.
"""

import time
from collections.abc import Callable, Iterable, Sequence

import streamlit as st

from core.case import Case, Fact
from core.events import Answered, Called, CallRecord, Ended, Event, Finished, Graded, Probed, Speaker, Started
from core.export.reading import was_shown
from core.frameworks.base import Framework, framework, role_title, talking_roles, tested_seat
from core.journal import RunHeader
from core.live.session import Session
from core.measures.coverage import Uncovered, gathered, uncovered
from core.words import ROLE
from pages.kit.chat import draw_answers, draw_case, draw_chat, hides_thoughts
from pages.kit.export_menu import draw_take_away, draw_take_away_unstored
from pages.kit.jobs import draw_remembered
from pages.kit.look import PARTS, QUESTION_TYPE, badge, counted, draw_refused, in_callback, money, plain, tokens_of
from pages.kit.names import model_name
from pages.kit.navigation import link
from pages.kit.seats import case_label
from pages.kit.sessions import Shown, draw_resume, leave, play_again

_SPEEDS = {"0.5×": 0.5, "1×": 1.0, "2×": 2.0, "4×": 4.0, "At once": 1000.0}
_REPEATED_WITHIN_S = 1.5
"""Nobody reads a reply and writes the same words again in so many seconds."""
_TRY = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}
REDRAW_S = 0.4
"""Seconds between two looks at what is going on."""
_GATHERED_HELP = (
    "The doctor is told the demographics; all else it has to ask for, the patient or the clinical staff. A fact counts "
    "as brought when one reply of who holds it has most of its telling words: words in common, no judgement."
)
_COST_HELP = (
    "By the prices in data/models.toml; the reference cast costs nothing. A plus says that some calls have no known "
    "price."
)
_PRESENT = "present"
_MOST_SEEN = 4
"""Diagnoses of a differential, and verdicts, that are read from afar."""
_STAGE = """<style>
[data-testid="stSidebar"], [data-testid="stExpandSidebarButton"], [data-testid="stHeader"], h1 { display: none; }
.stMainBlockContainer { max-width: 100%; padding: 0.8rem 2.5rem; }
.st-key-stage p, .st-key-stage li, .st-key-stage button, .st-key-stage [data-testid="stCaptionContainer"],
.st-key-stage label, .st-key-stage textarea { font-size: 26px !important; line-height: 1.35; }
.st-key-stage h2 { font-size: 38px !important; padding: 0; }
.st-key-stage h3 { font-size: 30px !important; padding: 0; }
.st-key-stage [class*="stMarkdownBadge"], .st-key-stage [class*="stMarkdownBadge"] * { font-size: 26px !important; }
.st-key-stage [data-testid="stIconMaterial"] { font-size: 28px !important; }
</style>"""


def draw_session(shown: Shown, *, forks: bool = True) -> None:
    """Draw a session; while it runs, it is redrawn a few times a second. ``forks`` links it to where it can fork."""
    session, case = shown.session, shown.case
    sending = f"sending_{session.key}"

    def draw_what_can_be_done() -> None:
        if forks:
            draw_fork_link(shown)
        if not session.running:
            header = session.meta.get("header")
            if isinstance(header, RunHeader) and not any(isinstance(event, Finished) for event in session.snapshot()):
                draw_resume(header, session.key, session.spoken)
            draw_take_away_watched([shown], key="live")

    def draw() -> None:
        draw_controls([shown], case, draw_what_can_be_done)
        events, known = session.snapshot(), shown.known
        human_doctor = session.meta.get(tested_seat(known or framework()).role) == "human" and session.running
        left, right = st.columns([5, 3], gap="medium")
        with left:
            draw_watched_chat(shown, events, height=300 if hides_thoughts(session) else 520)
            draw_seat(session, known or framework(), sending)
            if session.error:
                st.error(plain(session.error))
            if (unit := session.unit) is not None:
                draw_remembered(unit.remembered, unit.unused if unit.calls > unit.remembered else 0)
            draw_answers(session, events, known)
        with right:
            draw_figures(session, events, known)
            if human_doctor:
                st.info("Facts and case are shown when the consultation is over.", icon=":material/visibility_off:")
            else:
                draw_differential(events)
                if case is not None:
                    _draw_facts(case, shown)
                    open_ = session.running and session.meta.get("patient") == "human" and not shown.profiled
                    draw_case(case, open_=open_, profiled=shown.profiled, shown=was_shown(events))
        if (sent := st.session_state.get(sending)) is not None:
            st.session_state[sending] = (*sent[:2], sent[2] or time.monotonic())

    redrawn([session], draw)


def redrawn(sessions: Sequence[Session], draw: Callable[[], None]) -> None:
    """Draw; while a session runs a few times a second, and the whole page anew when the last one is over."""
    running = any(session.running for session in sessions)

    @st.fragment(run_every=REDRAW_S if running else None)
    def live() -> None:
        draw()
        if running and not any(session.running for session in sessions):
            st.rerun()

    live()


def draw_controls(sides: Sequence[Shown], case: Case | None, more: Callable[[], object] = lambda: None) -> None:
    """Draw the buttons that hold, step, stop and speed up sessions, when all are over those to begin again; ``more``.

    ``more`` draws what stands behind them.
    """
    sessions = [shown.session for shown in sides]

    @in_callback
    def everyone(what: Callable[[Session], None]) -> None:
        for session in sessions:
            what(session)

    speed = f"speed_{sessions[0].key}"

    def change_speed() -> None:
        for session in sessions:
            session.speed = _SPEEDS.get(st.session_state[speed], session.speed)

    draw_refused()
    with st.container(horizontal=True, vertical_alignment="center"):
        if any(session.running for session in sessions):
            held = any(session.paused for session in sessions)
            st.button(
                "Go on" if held else "Pause",
                icon=":material/play_arrow:" if held else ":material/pause:",
                on_click=everyone,
                args=(Session.resume if held else Session.pause,),
                shortcut="p",
            )
            st.button(
                "Step",
                icon=":material/skip_next:",
                on_click=everyone,
                args=(Session.step,),
                shortcut="s",
                help="One message, then pause.",
            )
            st.button("Stop", icon=":material/stop:", on_click=everyone, args=(Session.stop,))
            # only a change is passed on: several visitors may watch one consultation
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
        if case is not None:
            st.caption(plain(case_label(case)))


def draw_fork_link(shown: Shown) -> None:
    """Link a consultation that is stored, or runs and has begun, to where it can be forked."""
    events = shown.session.snapshot()
    started = next((event for event in events if isinstance(event, Started)), None)
    under_way = shown.session.running and "header" in shown.session.meta
    stored = any(isinstance(event, Finished) for event in events)
    if started is not None and (under_way or stored):
        link_fork(started.trial_id)


def link_fork(trial_id: str) -> None:
    """Link a conversation to where it can be forked."""
    help_ = "Start again from any message: change what is said, the model, the persona or the prompts."
    link("branches", "Fork from here", "fork_right", help=help_, trial=trial_id, fork="yes")


def draw_take_away_watched(watched: Sequence[Shown], key: str) -> None:
    """Let consultations be taken away: as they are stored, or what was said in those that were stopped."""
    held = [shown.session.snapshot() for shown in watched]
    if all(any(isinstance(event, Finished) for event in events) for events in held):
        draw_take_away([shown.trial_id for shown in watched], key)
    elif all(any(isinstance(event, Started) for event in events) for events in held):
        headers = [shown.session.meta.get("header") for shown in watched]
        draw_take_away_unstored(
            [
                (shown.case, events, header if isinstance(header, RunHeader) else None)
                for shown, events, header in zip(watched, held, headers, strict=True)
            ],
            key,
        )


def draw_watched_chat(shown: Shown, events: Sequence[Event], height: int) -> None:
    """Draw what was said so far; what models think is kept from people who still play."""
    session = shown.session
    with st.container(height=height, autoscroll=True, border=True, gap="xxsmall", key=f"chat_{session.key}"):
        draw_chat(events, session.draft, known=shown.known, thoughts={} if hides_thoughts(session) else None)
        if waited := waited_for(session):
            st.caption(f":material/more_horiz: {plain(waited)}")


def waited_for(session: Session) -> str:
    """Return in words which models are asked right now, and for how long; empty where text comes already.

    A call that is tried again stays one: its seconds count from its first try, and why that one failed is said.
    """
    air = list(session.replies.in_flight) if session.replies and session.running else []
    silent = [asked for asked in air if not asked.pieces]
    words = []
    for asked in silent:
        name = str(session.meta.get(asked.role) or asked.role)
        doing = "is thinking" if asked.purpose == "dialogue" else "is asked"
        doing = f"waits: {asked.waits}" if asked.waits else doing
        words.append(f"{ROLE[asked.role]} ({name}) {doing}… {time.time() - asked.since:.0f} s")
        if asked.attempt > 1:
            words[-1] += f", {_TRY.get(asked.attempt, f'{asked.attempt}th')} try after {asked.trouble}"
    return "; ".join(words)


def draw_seat(session: Session, known: Framework, sending: str) -> None:
    """Let a human speak. The box stays while the others speak, so that nothing typed into it is lost.

    ``sending`` is where the last message of a visitor is noted: its words, to what, and when the run that was sent it
    had drawn the page.
    """
    waiting = session.waiting
    if waiting is not None:
        speaker = waiting.role
    elif session.running and (human := _next_human(session, known)):
        speaker = human
    else:
        return
    prompt = waiting.prompt if waiting is not None else ""
    if prompt:
        with st.container(key=f"asked_{session.key}"):
            st.info(plain(prompt), icon=":material/quiz:")
    if session.unsent is not None:
        st.warning(f"This was not sent, because something else was asked by then: {plain(session.unsent)}")
    key = f"say_{session.key}"

    @in_callback
    def send(text: str) -> None:
        # a run that is broken off by the next redraw is repeated with what it was sent: say it once only
        *before, drawn_at = st.session_state.get(sending, (None, None, None))
        at_once = drawn_at is None or time.monotonic() - drawn_at < _REPEATED_WITHIN_S
        if not (at_once and before == [text, prompt]):
            st.session_state[sending] = (text, prompt, None)
            session.say(speaker, text, prompt)

    choices = waiting.choices if waiting is not None else ()
    with st.container(horizontal=True, gap="small"):
        for number, choice in enumerate(choices):
            st.button(plain(choice), key=f"{key}_{number}", on_click=send, args=(choice,))
    answering = "Or answer in your own words" if choices else "Your answer"
    invited = answering if prompt else known.speech.invitation(speaker, tested_seat(known).role)
    st.chat_input(invited, key=key, on_submit=lambda: send(str(st.session_state[key])))


def _next_human(session: Session, known: Framework) -> Speaker | None:
    """Return the seat of a human who may be asked next; once the conversation has ended, only the tested seat is."""
    talking = not any(isinstance(event, Ended) for event in session.snapshot())
    seats = (tested_seat(known).role, *(talking_roles(known) if talking else ()))
    return next((seat for seat in seats if session.meta.get(seat) == "human"), None)


def draw_figures(session: Session, events: Sequence[Event], known: Framework | None) -> None:
    """Draw turns, tokens, cost and time."""
    calls = [event.call for event in events if isinstance(event, Called)]
    seconds = (session.finished_at or time.time()) - session.started_at
    with st.container(border=True):
        columns = st.columns(4, gap="xsmall")
        columns[0].metric(
            "Questions",
            (known or framework()).speech.questions(events),
            help="The doctor's messages after the opening one, or its queries that were passed on.",
        )
        columns[1].metric("Tokens", f"{tokens_of(calls):,}", help="Prompt and completion of all roles.")
        columns[2].metric("Cost", cost_of(calls), help=_COST_HELP)
        columns[3].metric("Time", f"{seconds:.0f} s" if seconds < 6000 else "—")


def cost_of(calls: Iterable[CallRecord]) -> str:
    """Return what calls cost as far as prices are known; a plus stands for answered calls without a known price."""
    costs = [call.cost_usd for call in calls if call.error is None]
    priced = [cost for cost in costs if cost is not None]
    if costs and not priced:
        return "unknown"
    return f"{money(sum(priced))}{'+' if len(priced) < len(costs) else ''}"


def draw_differential(events: Sequence[Event]) -> None:
    """Draw what the doctor believes after the last turn, where it can say so."""
    probes = [event for event in events if isinstance(event, Probed)]
    st.subheader("Differential", anchor=False, help="What the reference doctor holds likeliest after each reply.")
    if not probes:
        st.caption("Shown for the reference doctor, from the first reply on.")
        return
    before = dict(probes[-2].differential) if len(probes) > 1 else {}
    for diagnosis, probability in probes[-1].differential:
        change = probability - before.get(diagnosis, 0.0)
        arrow = "↑" if change > 0.01 else "↓" if change < -0.01 else ""
        st.progress(min(1.0, probability), text=f"{plain(diagnosis)} — {probability:.0%} {arrow}")


def facts_brought(shown: Shown) -> tuple[int, int]:
    """Return how many facts were told, and how many a doctor can only learn by asking; none of an unknown case."""
    asked: Sequence[Uncovered] = ()
    if shown.case is not None and shown.profiled:
        asked = gathered(shown.case, shown.session.dialogue).asked
    elif shown.case is not None:
        asked = [fact for fact in uncovered(shown.case, shown.session.dialogue) if fact.told]
    return sum(fact.turn is not None for fact in asked), len(asked)


def _draw_facts(case: Case, shown: Shown) -> None:
    """Draw the case's facts, lit up as they come to the doctor; those of a profile under who holds them."""
    dialogue = shown.session.dialogue
    if shown.profiled:
        found = gathered(case, dialogue)
        told, tested = (sum(fact.turn is not None for fact in facts) for facts in (found.patient, found.staff))
        st.subheader("Facts gathered", anchor=False, help=_GATHERED_HELP)
        words = f"{told} of the patient’s {len(found.patient)} facts, {tested} of the staff’s {len(found.staff)}"
        st.progress(found.brought / max(1, len(found.asked)), text=words)
        with st.container(height=380, border=True, gap="xsmall"):
            for part, facts in (("demographics", found.known), ("basic", found.patient), ("optional", found.staff)):
                who, icon, how = PARTS[part]
                st.caption(f":material/{icon}: **{who}**", help=how)
                for fact in facts:
                    if isinstance(fact, Fact):
                        st.markdown(f":green[:material/check_circle:] {_fact_words(fact)}")
                    else:
                        _draw_fact(fact)
            if not found.staff:
                st.caption("The case has no results; the staff says that nothing is available.")
        return
    every = uncovered(case, dialogue)
    asked, brought = [fact for fact in every if fact.told], sum(fact.told and fact.turn is not None for fact in every)
    st.subheader(
        "Facts uncovered",
        anchor=False,
        help="By words in common, which is no judgement: a fact counts as uncovered when one reply of the patient has "
        "most of its telling words. Once the conversation is over, a model can judge its facts.",
    )
    st.progress(
        brought / max(1, len(asked)),
        text=f"{brought} of {len(asked)} facts that the patient can tell, by words in common",
    )
    with st.container(height=300, border=True, gap="xsmall"):
        for item in asked:
            _draw_fact(item)
        if len(asked) < len(every):
            st.caption("Only examination and tests show:")
        for item in every:
            if not item.told:
                _draw_fact(item)


def _draw_fact(item: Uncovered) -> None:
    if item.turn is None:
        st.markdown(f":gray[:material/radio_button_unchecked: {_fact_words(item.fact)}]")
    else:
        st.markdown(f":green[:material/check_circle:] **{_fact_words(item.fact)}** :gray[· message {item.turn + 1}]")


def _fact_words(fact: Fact) -> str:
    name = "" if fact.key == "sentence" else f"{plain(fact.key[:1].upper() + fact.key[1:])}: "
    return f"{name}{plain(fact.value)}{' (imputed)' if fact.imputed else ''}"


def ask_to_present() -> bool:
    """Ask whether to show it large; the answer stands in the address."""
    return st.toggle(
        "Presentation",
        key=_PRESENT,
        bind="query-params",
        help="Large type, no sidebar: names and verdict on top, for an audience.",
    )


def presenting() -> bool:
    """Say whether a consultation is to be shown large."""
    return bool(st.session_state.get(_PRESENT, st.query_params.get(_PRESENT) == "true"))


def draw_stage(sides: Sequence[Shown]) -> None:
    """Draw one consultation or two side by side, large; redrawn a few times a second while they run."""
    st.html(_STAGE)
    about = [_who(sides[0]) if len(sides) == 1 else "Side by side"]
    about += [case_label(case)] if (case := sides[0].case) is not None else []

    def draw() -> None:
        with st.container(key="stage"):
            st.header(plain(" · ".join(about)), anchor=False)
            for column, shown in zip(st.columns(len(sides), gap="large"), sides, strict=True):
                with column:
                    if len(sides) > 1:
                        st.subheader(plain(_who(shown)), anchor=False)
                    _draw_outcome(shown)
                    _draw_large(shown, alone=len(sides) == 1)
            draw_controls(sides, None, ask_to_present)

    redrawn([shown.session for shown in sides], draw)


def _who(shown: Shown) -> str:
    known, meta = shown.known or framework(), shown.session.meta
    tested = role_title(known, tested_seat(known).role)
    doctor = model_name(shown.doctor) if shown.doctor else tested
    patient = str(meta.get("patient") or "")
    return f"{tested}: {doctor}" + (f" · Patient: {model_name(patient)}" if patient else "")


def _draw_outcome(shown: Shown) -> None:
    """Draw the verdicts and the right answer once the consultation has ended, and before that where it stands."""
    session, events = shown.session, shown.session.snapshot()
    known = shown.known or framework()
    # the newest verdict on each answer after the conversation, or on all where none came after one
    other = "mcq_loose" if known.usual.mcq_rule == "mcq_strict" else "mcq_strict"
    newest = {(e.format, e.question_type): e for e in events if isinstance(e, Graded) and e.rule != other}
    grades = [grade for grade in newest.values() if grade.format != "vignette"] or list(newest.values())
    if not grades:
        state = "Paused" if session.paused else "Answering" if any(isinstance(e, Ended) for e in events) else "Talking"
        words = f"{state} · {counted(known.speech.questions(events), 'question')}" if session.running else "Stopped"
        st.markdown(f":gray-badge[{words}]")
        return
    st.markdown(
        " · ".join(f"{badge(grade.verdict)} {QUESTION_TYPE[grade.question_type]}" for grade in grades[:_MOST_SEEN])
    )
    # who still has to answer is not told
    if shown.case is not None and not session.running:
        st.markdown(f"Right answer: **{plain(shown.case.answer)}**")


def _draw_large(shown: Shown, *, alone: bool) -> None:
    events = shown.session.snapshot()
    left, right = st.columns([5, 3], gap="large") if alone else (st.container(), st.container())
    with left:
        # who plays is to see what is asked, below
        height = 360 if hides_thoughts(shown.session) else 700 if alone else 480
        draw_watched_chat(shown, events, height=height)
        known, session = shown.known or framework(), shown.session
        if alone:
            draw_seat(session, known, f"sending_{session.key}")
        if session.error:
            st.error(plain(session.error))
    if session.running and session.meta.get(tested_seat(known).role) == "human":
        return  # who plays the doctor is not shown what there is to find
    with right:
        told, asked = facts_brought(shown)
        if asked:
            st.progress(told / asked, text=f"{told} of {asked} facts uncovered, by words in common")
        answers = [event for event in events if isinstance(event, Answered) and event.response]
        probes = [event for event in events if isinstance(event, Probed)]
        for diagnosis, probability in (probes[-1].differential if probes else ())[:_MOST_SEEN]:
            st.progress(min(1.0, probability), text=f"{plain(diagnosis)} {probability:.0%}")
        if answers and not shown.session.running and alone:
            st.markdown(f"Answer: {plain(answers[-1].response or '')}")
