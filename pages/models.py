"""The models that can take a seat: found, added, tested with a call or three, listed with keys and prices, removed."""

from contextlib import suppress

import pandas as pd
import streamlit as st
from pydantic import SecretStr

from core.access import visitor
from core.errors import AnamnesisError
from core.jobs.background import begin, job_at
from core.models.connection import Connection, Server, find_servers, offered, try_model
from core.models.keys import find_key
from core.models.register import SERVER, Entry, Listed, add, keep, listed, own_names, remove
from core.models.registry import load_registry
from pages.kit.controls import ask_secret, choose
from pages.kit.get_model import draw_offers
from pages.kit.look import counted, faults_said, plain
from pages.kit.navigation import link
from pages.kit.page import show
from pages.kit.seats import EFFORTS, ask_key, registry
from pages.kit.tables import draw_table
from pages.kit.visitor import only

_PROVIDERS = {
    SERVER: "OpenAI-compatible server",
    "openai": "OpenAI",
    "azure": "Azure OpenAI",
    "hf": "Folder or Hugging Face name, run on this machine",
}
"""Providers that a page may enter; programs are entered on the command line only."""
_LOOKING = ("models", "servers")


def draw_models() -> None:
    """Draw what is found on this machine, the form for a model, what a test said, and the list of all."""
    draw_found()
    draw_form()
    if (tested := st.session_state.get("models_tested")) is not None:
        draw_connection(tested)
    draw_list()


def draw_found() -> None:
    """Draw the servers of models on this machine, each with what it offers; looked for in the background."""
    work = job_at(_LOOKING)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader("On this machine", anchor=False)
        if st.button("Search again", icon=":material/refresh:", type="tertiary", key="models_look", **only("reach")):
            work = None
    if work is None and visitor().may("reach"):
        work = begin(_LOOKING, lambda tell, stop: find_servers())
    if work is not None:
        work.join(3)
    found: tuple[Server, ...] = (work and work.result) or ()
    if work is not None and not found:
        st.caption(
            "No model server answers at the usual ports (Ollama 11434, vLLM 8000, llama.cpp 8080, LM Studio 1234, "
            "SGLang 30000). One that runs elsewhere is added below, by its address."
        )
    for server in found:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(server.program)}** at `{server.address}`", width="stretch")
            model = choose("Model", server.models, f"models_at_{server.address}", hidden=True, bound=False, width=280)
            st.button("Use it", key=f"models_use_{server.address}", on_click=_fill, args=(server.address, model))
    draw_offers()


def _fill(address: str, model: str) -> None:
    """Put a server's model into the form."""
    st.session_state.update(models_provider=SERVER, models_address=address, models_id=model, models_name="")


def draw_form() -> None:
    """Draw the form for a model: where it is, which one, its key; then test it, and keep it."""
    st.subheader("Add a model", anchor=False)
    st.caption("An address of a server on this machine looks like `http://127.0.0.1:8000/v1`.")
    left, middle, right = st.columns(3)
    provider = choose("Kind", list(_PROVIDERS), "models_provider", names=_PROVIDERS, where=left, bound=False)
    address = middle.text_input(
        "Server address",
        key="models_address",
        placeholder="http://127.0.0.1:8000/v1",
        help="Of any OpenAI-compatible server: vLLM, SGLang, Ollama, llama.cpp, TGI, or a hosted one. For "
        "OpenAI and a local model it may be left empty.",
    )
    ask_secret(
        "Key, kept until the dashboard stops",
        "models_key",
        right,
        placeholder="none",
        help="Never written down. To have it at every start, name an environment variable below instead.",
    )
    left, middle, right = st.columns(3, vertical_alignment="bottom")
    model_id = left.text_input("Model id on its server", key="models_id", placeholder="llama-3.1-8b-instruct").strip()
    name = middle.text_input("Name in Anamnesis", key="models_name", placeholder=model_id or "the same as its id")
    if right.button(
        "Ask the server for its models", icon=":material/list:", width="stretch", **only("reach", disabled=not address)
    ):
        with faults_said(st.warning, ":material/cloud_off:"), st.spinner("Asking the server…"):
            st.session_state["models_offered"] = offered(address, _typed_key())
    if found := st.session_state.get("models_offered"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            one = choose(f"{counted(len(found), 'model')} on the server", found, "models_one", bound=False, width=480)
            st.button("Use it", key="models_use", on_click=_fill, args=(address, one))
    with st.expander("Key from a variable, prices, limits, effort", icon=":material/tune:"):
        columns = st.columns(5, vertical_alignment="bottom")
        variable = columns[0].text_input("Environment variable", key="models_variable", placeholder="MY_SERVER_KEY")
        dearness = [
            column.number_input(
                f"US $ per million {way} tokens", 0.0, value=None, key=f"models_{way}", placeholder="unknown"
            )
            for column, way in zip(columns[1:3], ("input", "output"), strict=True)
        ]
        requests = columns[3].number_input(
            "Requests per minute", 1, value=None, key="models_requests", placeholder="no limit"
        )
        effort = columns[4].selectbox(
            "Reasoning effort", EFFORTS, key="models_effort", format_func=lambda word: word or "The model’s own"
        )
    entry = Entry(
        name=(name or model_id).strip(),
        provider=provider,
        model_id=model_id,
        address=address.strip(),
        key_env=variable.strip(),
        effort=effort or "",
        input_price=dearness[0],
        output_price=dearness[1],
        requests_per_minute=requests,
    )
    if st.button("Test and save", type="primary", icon=":material/bolt:", **only("manage", disabled=not entry.name)):
        _test_and_keep(entry)


def _typed_key() -> SecretStr | None:
    typed = str(st.session_state.get("models_key") or "").strip()
    return SecretStr(typed) if typed else None


def _test_and_keep(entry: Entry) -> None:
    """Enter a model and ask it two or three short things; it is kept also where it does not answer now."""
    try:
        added = add(entry, _typed_key(), again=f"{entry.provider}/{entry.name}" in own_names())
        with st.spinner(f"Asking {added}…"):
            tested = try_model(load_registry(), added)
        if tested.ok:
            keep(added, tested.findings)
        st.session_state["models_tested"] = tested
        st.rerun()
    except AnamnesisError as error:
        st.session_state.pop("models_tested", None)
        st.error(plain(str(error)))


def draw_connection(tested: Connection) -> None:
    """Draw what a test found, and where the model can take a seat."""
    with st.container(border=True):
        icon = ":green[:material/check_circle:]" if tested.ok else ":red[:material/cancel:]"
        st.markdown(f"#### {icon} {plain(tested.model)}" + ("" if tested.ok else " does not answer"))
        for label, words in tested.lines():
            st.markdown(f":gray[{plain(label)}] {plain(words)}")
        with st.container(horizontal=True):
            if tested.ok:
                link("live", "Watch it consult", "forum", doctor=tested.model)
                link("runs", "Run it on cases", "play_arrow", doctor=tested.model)
                link("debugger", "Debug a case with it", "bug_report", doctor=tested.model)


def models_table(found: list[Listed]) -> pd.DataFrame:
    """Return the models that can be chosen."""
    return pd.DataFrame(
        [
            {
                "Model": one.spec.name,
                "Shown as": one.spec.display or "",
                "Yours": one.own,
                "Address": one.spec.base_url or ("this machine" if one.spec.served_locally else ""),
                "Key": _key_in_words(one),
                "Prices": one.prices or "unknown",
            }
            for one in found
        ]
    )


def _key_in_words(one: Listed) -> str:
    if one.missing_key:
        return f"missing: {one.missing_key}"
    return "there" if one.spec.api_key_env and find_key(one.spec.api_key_env) else "none needed"


def draw_list() -> None:
    """Draw all models; the one that is chosen can be tested, given a key, or removed."""
    st.subheader("All models", anchor=False)
    found = list(listed(registry()))
    chosen = next((one for one in found if one.spec.name == st.query_params.get("model")), None)
    if chosen is not None:
        with st.container(border=True, horizontal=True, vertical_alignment="bottom"):
            st.markdown(f"**{plain(chosen.spec.name)}**", width="stretch")
            if chosen.missing_key:
                ask_key(chosen.missing_key, f"models_key_{chosen.spec.name}")
            if st.button(
                "Test", icon=":material/bolt:", key="models_test", **only("run", disabled=bool(chosen.missing_key))
            ):
                with faults_said():
                    with st.spinner(f"Asking {chosen.spec.name}…"):
                        st.session_state["models_tested"] = try_model(load_registry(), chosen.spec.name)
                    st.rerun()
            if chosen.own:
                st.button(
                    "Remove",
                    icon=":material/delete:",
                    key="models_remove",
                    on_click=_remove,
                    args=(chosen,),
                    **only("manage"),
                )
    draw_table(
        models_table(found),
        "models",
        on_row=lambda row: st.query_params.update(model=found[row].spec.name),
        download="",
    )
    st.caption("Click a row to test a model, give it a key, or remove it. What is stored of a removed model stays.")


def _remove(one: Listed) -> None:
    with suppress(AnamnesisError):  # it is no longer one of this visitor's, or is gone already: the list shows it
        remove(one.spec.name)
    st.query_params.pop("model", None)


if __name__ == "__main__":
    show(
        "Models",
        draw_models,
        "Models that can take a seat: hosted ones, servers of your own, models on this machine. Each has its own "
        "address and key, so that a local doctor can meet a hosted patient.",
    )
