"""The registry of models: it opens a ``ChatModel`` by its name ``provider/model`` or by an alias.

A registry owns the models that it opens: ``aclose`` ends their connections and child processes. The client library,
whose import takes a second, is loaded with the first model.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from core import access
from core.errors import UsageError
from core.models.base import ChatModel, Sampling
from core.models.failures import RetryPolicy
from core.models.keys import KEY, find_key, typed_key
from core.models.prices import is_listed
from core.models.settings import ModelsFile, default_paths, read_settings, resolve, with_base_url
from core.models.spec import ModelSpec, is_loopback

if TYPE_CHECKING:
    from core.models.batches import Batches
    from core.models.openai_compatible import ClientPool

_AGENTS = ("reference", "human")
_PYTHON = "python:"
"""Prefix of the name of a Python function without an entry."""
_GONE = ("http/", "http://", "https://")
"""Beginnings of the names of applications behind an address, which version 0.5 could call."""


def load_registry(
    paths: Sequence[Path] | None = None,
    *,
    retry: RetryPolicy | None = None,
    programs: bool = False,
    batch: bool = False,
) -> Registry:
    """Read the models files (by default the shipped one and the user's own) and return their registry.

    ``programs`` allows ``python:MODULE:FUNCTION`` without an entry; it is for names from a command line, never for
    names from a page. With ``batch`` every call goes through the model's Batch API.
    """
    settings = read_settings(list(paths) if paths is not None else default_paths())
    return Registry(settings, retry=retry, programs=programs, batch=batch)


class Registry:
    """Finds models by name and opens them."""

    def __init__(
        self,
        settings: ModelsFile,
        *,
        retry: RetryPolicy | None = None,
        programs: bool = False,
        batch: bool = False,
        parts: int = 1,
    ) -> None:
        self._settings = settings
        self._retry = retry
        self._programs = programs
        self.parts = parts
        """Number of processes that share the limits per minute: each keeps to its part of them."""
        self._pool: ClientPool | None = None
        """Connections that the models share; ``None`` before the first model is opened."""
        self.batch = batch
        self.batches: Batches | None = None
        """The open batches; ``None`` before the first model with batches is opened."""
        self._opened: list[ChatModel] = []
        self._aliases = {alias.casefold(): name for alias, name in settings.aliases.items()}
        served = [name for name, model in settings.models.items() if not model.retired]
        short = Counter(name.partition("/")[2].casefold() for name in served)
        for name in settings.models:
            if short[alias := name.partition("/")[2].casefold()] == 1:
                self._aliases.setdefault(alias, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings only, without keys and open models."""
        return partial(Registry, retry=self._retry, programs=self._programs, parts=self.parts), (self._settings,)

    def part(self, parts: int) -> Registry:
        """Return a registry for one of several processes that share the limits per minute."""
        return Registry(self._settings, retry=self._retry, programs=self._programs, parts=parts)

    async def __aenter__(self) -> Registry:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def aliases(self) -> dict[str, str]:
        return dict(self._settings.aliases)

    def names(self) -> list[str]:
        """Return the names of the entries that are not retired; models without an entry can be opened too."""
        return [n for n, model in self._settings.models.items() if not model.retired and not n.startswith(_GONE)]

    def specs(self) -> Iterator[ModelSpec]:
        return map(self.spec, self.names())

    def spec(self, name: str, *, base_url: str | None = None) -> ModelSpec:
        """Return the spec of a model by its full name or alias; ``base_url`` overrides its address."""
        full = self._full(name)
        provider, _, model_id = full.partition("/")
        if provider in _AGENTS:
            raise UsageError(f"“{name}” is not a chat model: it takes a role by itself and needs no provider.")
        if full.startswith(_GONE):
            raise UsageError(
                f"“{name}” is an application behind an address, which was removed in version 0.6: give it OpenAI's "
                "protocol and add it with `python -m core models add`, or call it from a Python function."
            )
        if provider not in self._settings.providers or not model_id:
            raise UsageError(self._unknown(name))
        spec = self._resolved(full)
        if spec.kind == "python" and not self._programs and full not in self._settings.models:
            raise UsageError(
                f"“{name}” would run a program: name it on the command line, or enter it there first with "
                f"`python -m core models add`."
            )
        return with_base_url(spec, base_url) if base_url else spec

    def _full(self, name: str) -> str:
        name = name.strip()
        if name.startswith(_PYTHON):
            return f"python/{name.removeprefix(_PYTHON)}"
        return self._aliases.get(name.casefold(), name)

    def _resolved(self, full: str) -> ModelSpec:
        provider, _, model_id = full.partition("/")
        return resolve(self._settings, provider, model_id)

    def has_own_address(self, name: str) -> bool:
        """Return whether a model's address is certain: by its entry, or because its provider lists it.

        For any other name, the provider's address is only a guess.
        """
        spec = self.spec(name)
        own = self._settings.models.get(spec.name)
        return spec.is_application or bool(own and own.base_url) or is_listed(spec)

    def default(self, role: str) -> str | None:
        """Return the full name of the default model or rule of a role (``[defaults]`` of the files), or ``None``.

        Raises ``UsageError`` if the default is an unknown model.
        """
        name = getattr(self._settings.defaults, role, None)
        if not name or name.partition("/")[0] in _AGENTS:
            return name or None
        try:
            return self.spec(name).name
        except UsageError as error:
            raise UsageError(f"In [defaults] of the models file, {role}: {error}") from None

    def group(self, name: str) -> str:
        """Return the group of a player: the models file's group of a model, otherwise the text before the slash.

        The provider of a stored name may no longer be in the models file.
        """
        full = self._full(name)
        provider, _, model_id = full.partition("/")
        if full.startswith(_GONE):
            return "application"
        is_model = provider in self._settings.providers and bool(model_id)
        return self._resolved(full).group if is_model else provider

    def cutoff(self, name: str) -> tuple[str, str]:
        """Return the end of a model's training data and its source as the models files state them.

        Both are empty if the end is unknown; the source is empty if the user entered the end.
        """
        full = self._full(name)
        provider, _, model_id = full.partition("/")
        if provider not in self._settings.providers or not model_id:
            return "", ""
        spec = self._resolved(full)
        return spec.cutoff, spec.cutoff_source

    def maker(self, name: str) -> str:
        """Return who made a model, as far as its name says: the organisation in it, otherwise the provider."""
        *organisations, _ = self._full(name).split("/")
        return organisations[-1] if organisations else name

    def is_application(self, name: str) -> bool:
        """Return whether a name, whose provider may no longer exist, belongs to a user's application."""
        full = self._full(name)
        provider, _, model_id = full.partition("/")
        known = provider in self._settings.providers and bool(model_id)
        return full.startswith(_GONE) or (known and self._resolved(full).is_application)

    def is_greedy(self, name: str) -> bool:
        """Return whether a model in a local folder decodes greedily unless a temperature is set."""
        spec = self.spec(name)
        if not spec.served_locally or spec.sampling.temperature is not None:
            return False
        if (
            access.visitor().limited and spec.name not in self._settings.models
        ):  # never read a folder that a visitor names
            return False
        try:
            generation = json.loads((Path(spec.model_id) / "generation_config.json").read_bytes())
        except (OSError, ValueError):
            return False
        return not generation.get("do_sample")

    def missing_key(self, name: str, *, base_url: str | None = None) -> str | None:
        """Return the environment variable of the model's key if the key is missing, otherwise ``None``."""
        spec = self.spec(name, base_url=base_url)
        return spec.api_key_env if self._needs_key(spec) and self.key(spec) is None else None

    def open(
        self,
        name: str,
        *,
        base_url: str | None = None,
        sampling: Sampling | None = None,
        key: SecretStr | None = None,
        find_key: bool = True,
    ) -> ChatModel:
        """Open a model; ``base_url`` overrides its address, ``sampling`` its defaults, and ``key`` its key.

        Without ``find_key`` only ``key`` is used, so that a provider's key is not sent to an address from a user.
        """
        spec = self.spec(name, base_url=base_url)
        if sampling is not None:
            spec = replace(spec, sampling=sampling.over(spec.sampling))
        model = self.make(spec if key or find_key else replace(spec, api_key_env=None), key)
        self._opened.append(model)
        return model

    async def aclose(self) -> None:
        if self.batches is not None:
            await self.batches.aclose()
        opened, self._opened = self._opened, []
        for model in opened:
            await model.aclose()

    def make(self, spec: ModelSpec, key: SecretStr | None = None, *, retry: RetryPolicy | None = None) -> ChatModel:
        """Return the model of a spec, with this key or the key that is found for it.

        The caller must close the model. Raises ``UsageError`` if its address or its key is unknown.
        """
        retry = retry or self._retry
        self._check_allowed(spec)
        spec = replace(spec, limits=spec.limits.part(self.parts))
        if spec.base_url is None and not spec.served_locally and spec.kind != "python":
            variable = self._settings.providers[spec.provider].base_url_env
            first = f"set the environment variable {variable}, or " if variable else ""
            raise UsageError(
                f"The address for {spec.name} is not known: {first}set base_url for {spec.provider} in "
                "data/models.local.toml."
            )
        key = key or self.key(spec)
        if key is None and self._needs_key(spec):
            raise UsageError(
                f"The key for {spec.name} is missing: set the environment variable {spec.api_key_env}, "
                f"or put it into .streamlit/secrets.toml."
            )
        if self.batch:
            from core.models.batches import Batches, has_batches

            if not has_batches(spec):
                raise UsageError(
                    f"{spec.name} is not known to have a batch API: leave --batch out, or set batch = true in its "
                    "entry of the models file if its address takes /files and /batches as OpenAI's does."
                )
            self.batches = self.batches or Batches()
        if spec.is_application:
            from core.models.applications import Application

            return Application(spec, retry=retry)
        from core.models.local import LocalModel
        from core.models.openai_compatible import AzureModel, ClientPool, OpenAICompatibleModel

        self._pool = self._pool or ClientPool()
        if spec.served_locally:
            return LocalModel(spec, pool=self._pool, retry=retry)
        kind = AzureModel if spec.kind == "azure" else OpenAICompatibleModel
        return kind(spec, key=key, pool=self._pool, retry=retry, batches=self.batches)

    def _check_allowed(self, spec: ModelSpec) -> None:
        """Raise ``NotAllowedError`` if a visitor names a forbidden address or folder.

        Entries of the models files are allowed, because they belong to the server's owner.
        """
        if not access.visitor().limited:
            return
        access.require("run")
        has_entry = spec.name in self._settings.models
        moved = spec.base_url != self._resolved(spec.name).base_url
        if spec.base_url and moved:
            access.allowed_host(spec.base_url)
        if spec.served_locally and not has_entry:
            access.allowed_path(spec.model_id)

    def _needs_key(self, spec: ModelSpec) -> bool:
        return bool(spec.api_key_env) and not spec.served_locally and not is_loopback(spec.base_url)

    def key(self, spec: ModelSpec) -> SecretStr | None:
        """Return the key of a model; a server on this machine gets a key only if the model's entry names one.

        On a shared server, a model at an address from a visitor gets only a key that the visitor entered.
        """
        if access.visitor().limited and spec.base_url != self._resolved(spec.name).base_url:
            return typed_key(spec.api_key_env) if spec.api_key_env else None
        own = self._settings.models.get(spec.name)
        if is_loopback(spec.base_url) and not (own and own.api_key_env):
            return None
        return find_key(spec.api_key_env) if spec.api_key_env else None

    def _unknown(self, name: str) -> str:
        if KEY.match(name):  # which is not repeated on the screen or in a log
            return "A key was given in place of a model: write provider/model, and enter the key on Models."
        candidates = [*self._settings.models, *self._settings.aliases]
        lowered = {candidate.casefold(): candidate for candidate in candidates}
        close = [lowered[match] for match in get_close_matches(name.casefold(), lowered, n=3, cutoff=0.6)]
        if close:
            return f"No model is called “{name}”; did you mean {' or '.join(close)}?"
        providers = ", ".join(f"{provider}/…" for provider in self._settings.providers)
        return f"No model is called “{name}”; write provider/model with one of the providers {providers}."
