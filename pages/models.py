"""The models for all seats: servers on this machine, the form that adds and tests one, and the list of all."""

from contextlib import suppress

import pandas as pd
import streamlit as st
from pydantic import SecretStr

from core.access import visitor
from core.errors import AnamnesisError
from core.jobs.background import begin, job_at
from core.models.connection import Connection, Server, find_servers, offered, try_model
from core.models.keys import find_key
from core.models.register import SERVER, Entry, ListedModel, add, keep, listed, own_names, remove
from core.models.registry import load_registry
from pages.kit.controls import ask_secret, choose
from pages.kit.get_model import draw_offers
from pages.kit.look import counted, plain, show_errors
from pages.kit.navigation import link
from pages.kit.page import show
from pages.kit.seats import EFFORTS, ask_key, registry
from pages.kit.tables import draw_table
from pages.kit.visitor import draw_button, only

_PROVIDERS = {
    SERVER: "OpenAI-compatible server",
    "openai": "OpenAI",
    "azure": "Azure OpenAI",
    "hf": "Folder or Hugging Face name, run on this machine",
}
"""Providers that the page can add; programs are added on the command line only."""
_LOOKING = ("models", "servers")


def draw_models() -> None:
    """Draw the servers on this machine, the form for a model, the result of the last test, and the list of models."""
    draw_servers()
    draw_form()
    if (connection := st.session_state.get("models_tested")) is not None:
        draw_connection(connection)
    draw_model_list()


def draw_servers() -> None:
    """Draw the model servers on this machine with their models; a background job searches for them."""
    work = job_at(_LOOKING)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header("On this machine", anchor=False)
        if st.button("Search again", icon=":material/refresh:", type="tertiary", key="models_look", **only("run")):
            work = None
    if work is None and visitor().may("run"):
        work = begin(_LOOKING, lambda tell, stop: find_servers())
    if work is not None:
        work.join(3)
    servers: tuple[Server, ...] = (work and work.result) or ()
    if work is not None and not servers:
        st.caption(
            "No server found.",
            help="Searched the usual ports: Ollama 11434, vLLM 8000, llama.cpp 8080, LM Studio 1234, SGLang 30000. Add "
            "any other server below.",
        )
    for server in servers:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{plain(server.program)}** at `{server.address}`", width="stretch")
            model = choose("Model", server.models, f"models_at_{server.address}", hidden=True, bound=False, width=280)
            st.button("Use it", key=f"models_use_{server.address}", on_click=_fill, args=(server.address, model))
    draw_offers()


def _fill(address: str, model: str) -> None:
    st.session_state.update(models_provider=SERVER, models_address=address, models_id=model, models_name="")


def draw_form() -> None:
    st.header("Add a model", anchor=False)
    first, second, third = st.columns(3)
    provider = choose("Kind", list(_PROVIDERS), "models_provider", names=_PROVIDERS, where=first, bound=False)
    address = second.text_input(
        "Server address",
        key="models_address",
        placeholder="http://127.0.0.1:8000/v1",
        help="Any OpenAI-compatible server: vLLM, SGLang, Ollama, llama.cpp, TGI, or hosted. Empty for OpenAI and for "
        "models on this machine.",
    )
    ask_secret(
        "API key",
        "models_key",
        third,
        placeholder="none",
        help="Stays in memory until the dashboard stops. For every start, name an environment variable below.",
    )
    first, second = st.columns(2)
    model_id = first.text_input("Model id", key="models_id", placeholder="llama-3.1-8b-instruct").strip()
    name = second.text_input("Name here", key="models_name", placeholder=model_id or "same as the id")
    if server_models := st.session_state.get("models_offered"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            chosen_id = choose(
                f"{counted(len(server_models), 'model')} on the server",
                server_models,
                "models_one",
                bound=False,
                width=480,
            )
            st.button("Use it", key="models_use", on_click=_fill, args=(address, chosen_id))
    with st.expander("More settings", icon=":material/tune:"):
        columns = st.columns(5, vertical_alignment="bottom")
        variable = columns[0].text_input("Environment variable", key="models_variable", placeholder="MY_SERVER_KEY")
        prices = [
            column.number_input(
                f"US$ per million {way} tokens", 0.0, value=None, key=f"models_{way}", placeholder="unknown"
            )
            for column, way in zip(columns[1:3], ("input", "output"), strict=True)
        ]
        requests = columns[3].number_input(
            "Requests per minute", 1, value=None, key="models_requests", placeholder="no limit"
        )
        effort = columns[4].selectbox(
            "Reasoning effort", EFFORTS, key="models_effort", format_func=lambda word: word or "Default"
        )
    entry = Entry(
        name=(name or model_id).strip(),
        provider=provider,
        model_id=model_id,
        address=address.strip(),
        key_env=variable.strip(),
        effort=effort or "",
        input_price=prices[0],
        output_price=prices[1],
        requests_per_minute=requests,
    )
    buttons = st.container(horizontal=True, vertical_alignment="center")
    why_not = "" if entry.name else "Type a model id or a name first."
    if draw_button("Test and save", why_not, role="local", type="primary", icon=":material/bolt:", where=buttons):
        st.session_state.pop("models_tested", None)
        with show_errors():
            added = add(entry, _typed_key(), again=f"{entry.provider}/{entry.name}" in own_names())
            with st.spinner(f"Asking {added}…"):
                connection = try_model(load_registry(), added)
            if connection.ok:
                keep(added, connection.findings)
            st.session_state["models_tested"] = connection  # also if it does not answer: it stays saved
            st.rerun()
    why_not = "" if address else "Type the server’s address first."
    if draw_button("List the server’s models", why_not, role="run", where=buttons, icon=":material/list:"):
        with show_errors(st.warning, ":material/cloud_off:"), st.spinner("Asking the server…"):
            st.session_state["models_offered"] = offered(address, _typed_key())
            st.rerun()


def _typed_key() -> SecretStr | None:
    typed = str(st.session_state.get("models_key") or "").strip()
    return SecretStr(typed) if typed else None


def draw_connection(connection: Connection) -> None:
    """Draw the result of a test, and links to pages that use the model."""
    with st.container(border=True):
        icon = ":green[:material/check_circle:]" if connection.ok else ":red[:material/cancel:]"
        st.markdown(f"### {icon} {plain(connection.model)}" + ("" if connection.ok else " does not answer"))
        for label, words in connection.lines():
            st.markdown(f":gray[{plain(label)}] {plain(words)}")
        with st.container(horizontal=True):
            if connection.ok:
                link("live", "Watch it consult", "forum", doctor=connection.model)
                link("runs", "Run it on cases", "play_arrow", doctor=connection.model)
                link("debugger", "Debug a case with it", "bug_report", doctor=connection.model)


def draw_model_list() -> None:
    """Draw all models, and buttons that test the chosen one, set its key, or remove it."""
    st.header("All models", anchor=False)
    models = list(listed(registry()))
    chosen = next((model for model in models if model.spec.name == st.query_params.get("model")), None)
    if chosen is not None:
        with st.container(border=True, horizontal=True, vertical_alignment="bottom"):
            st.markdown(f"**{plain(chosen.spec.name)}**", width="stretch")
            if chosen.missing_key:
                ask_key(chosen.missing_key, f"models_key_{chosen.spec.name}")
            why_not = "Type its key first." if chosen.missing_key else ""
            if draw_button("Test", why_not, role="run", icon=":material/bolt:", key="models_test"):
                with show_errors():
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
                    **only("local"),
                )
    table = [
        {
            "Model": model.spec.name,
            "Shown as": model.spec.display or "",
            "Yours": model.own,
            "Address": model.spec.base_url or ("this machine" if model.spec.served_locally else ""),
            "Key": f"missing: {model.missing_key}"
            if model.missing_key
            else "set"
            if model.spec.api_key_env and find_key(model.spec.api_key_env)
            else "none needed",
            "Prices": model.prices or "unknown",
        }
        for model in models
    ]
    draw_table(
        pd.DataFrame(table),
        "models",
        on_row=lambda row: st.query_params.update(model=models[row].spec.name),
        marked=models.index(chosen) if chosen else None,
        download="",
    )
    st.caption("Choose a row to test a model, set its key, or remove it. Results of a removed model stay.")


def _remove(model: ListedModel) -> None:
    with suppress(AnamnesisError):  # already removed, or not this visitor's any more: the list shows it
        remove(model.spec.name)
    st.query_params.pop("model", None)


if __name__ == "__main__":
    show("Models", draw_models, "Models for doctor, patient and grader: hosted, on your servers, or on this machine.")
