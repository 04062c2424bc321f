"""The names of models, and the models behind them: ``provider/model`` or an alias in, a ``ChatModel`` out.

A registry owns what it opened: ``aclose`` ends every connection and child process of it. The client library, a second
to import, is loaded with the first model that is opened.
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
from core.models.keys import find_key, typed_key
from core.models.prices import is_listed, source
from core.models.settings import ModelsFile, default_paths, read_settings, resolve, with_base_url
from core.models.spec import ModelSpec, is_loopback, is_private

if TYPE_CHECKING:
    from core.models.batches import Batches
    from core.models.openai_compatible import ClientPool

_AGENTS = ("reference", "human")
_WRITTEN = {"python:": "python", "http://": "http", "https://": "http"}
"""How an application may be written without an entry, and the provider it then is of."""


def load_registry(
    paths: Sequence[Path] | None = None,
    *,
    retry: RetryPolicy | None = None,
    programs: bool = False,
    batch: bool = False,
) -> Registry:
    """Read the models files (by default the shipped one and the user's own) and return the registry of them.

    ``programs`` lets ``python:MODULE:FUNCTION`` be named without an entry: for what is typed at a command line, and
    never for what is typed on a page. With ``batch`` every model is asked by its Batch API.
    """
    settings = read_settings(list(paths) if paths is not None else default_paths())
    return Registry(settings, retry=retry, programs=programs, batch=batch)


class Registry:
    """Knows every model by name and opens them."""

    def __init__(
        self, settings: ModelsFile, *, retry: RetryPolicy | None = None, programs: bool = False, batch: bool = False
    ) -> None:
        self._settings = settings
        self._retry = retry
        self._programs = programs
        self._pool: ClientPool | None = None
        """Connections that its models share, once one was opened."""
        self.batch = batch
        self.batches: Batches | None = None
        """What is in batches, once a model was opened that is asked so."""
        self._opened: list[ChatModel] = []
        self._aliases = {alias.casefold(): name for alias, name in settings.aliases.items()}
        short = Counter(name.partition("/")[2].casefold() for name, one in settings.models.items() if not one.retired)
        for name in settings.models:
            if short[alias := name.partition("/")[2].casefold()] == 1:
                self._aliases.setdefault(alias, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to another process as what it knows: no key, and nothing that is open."""
        return partial(Registry, retry=self._retry, programs=self._programs), (self._settings,)

    async def __aenter__(self) -> Registry:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def aliases(self) -> dict[str, str]:
        """Every alias with the full name it stands for."""
        return dict(self._settings.aliases)

    def names(self) -> list[str]:
        """Return the models that the files list and that are still served; others can be opened by name as well."""
        return [name for name, model in self._settings.models.items() if not model.retired]

    def specs(self) -> Iterator[ModelSpec]:
        """Yield what is known of each of these models."""
        return map(self.spec, self.names())

    def spec(self, name: str, *, base_url: str | None = None) -> ModelSpec:
        """Return what is known of a model, by full name or alias; ``base_url`` overrides its address."""
        full = self._full(name)
        provider, _, model_id = full.partition("/")
        if provider in _AGENTS:
            raise UsageError(f"“{name}” is not a chat model: it takes a role by itself and needs no provider.")
        if provider not in self._settings.providers or not model_id:
            raise UsageError(self._unknown(name))
        found = self._known(full)
        if found.kind == "python" and not self._programs and full not in self._settings.models:
            raise UsageError(
                f"“{name}” would run a program: name it on the command line, or enter it there first with "
                f"`python -m core models add`."
            )
        return with_base_url(found, base_url) if base_url else found

    def _full(self, name: str) -> str:
        name = name.strip()
        for written, provider in _WRITTEN.items():
            if name.startswith(written):
                return f"{provider}/{name if provider == 'http' else name.removeprefix(written)}"
        return self._aliases.get(name.casefold(), name)

    def _known(self, full: str) -> ModelSpec:
        provider, _, model_id = full.partition("/")
        return resolve(self._settings, provider, model_id)

    def has_own_address(self, name: str) -> bool:
        """Say whether it is known where a model is: by its entry, or because a provider is known to sell it.

        Of any other name of a provider nothing is known but that somebody asked for it.
        """
        spec = self.spec(name)
        own = self._settings.models.get(spec.name)
        return spec.is_application or bool(own and own.base_url) or is_listed(spec)

    def default(self, role: str) -> str | None:
        """Return who the files' ``[defaults]`` put into a role that nobody named, by full name; ``None`` for nobody.

        Raises ``UsageError`` where they name a model that is not known.
        """
        name = getattr(self._settings.defaults, role, None)
        if not name or name.partition("/")[0] in _AGENTS:
            return name or None
        try:
            return self.spec(name).name
        except UsageError as error:
            raise UsageError(f"In [defaults] of the models file, {role}: {error}") from None

    def group(self, name: str) -> str:
        """Return the group of a model, or of whoever else plays: the models file's, else what stands before the slash.

        A stored name may be of a provider that the models file no longer has.
        """
        full = self._full(name)
        provider, _, model_id = full.partition("/")
        known = provider in self._settings.providers and bool(model_id)
        return self._known(full).group if known else provider

    def is_application(self, name: str) -> bool:
        """Say whether a name, also of a provider that the models file no longer has, is of a user's application."""
        full = self._full(name)
        provider, _, model_id = full.partition("/")
        return provider in self._settings.providers and bool(model_id) and self._known(full).is_application

    def is_greedy(self, name: str) -> bool:
        """Say whether a model in a folder here takes the likeliest token wherever no temperature is asked for."""
        spec = self.spec(name)
        if not spec.served_locally or spec.sampling.temperature is not None:
            return False
        if access.limits() is not None and spec.name not in self._settings.models:  # no folder that a visitor names
            return False
        try:
            generation = json.loads((Path(spec.model_id) / "generation_config.json").read_bytes())
        except (OSError, ValueError):
            return False
        return not generation.get("do_sample")

    def missing_key(self, name: str, *, base_url: str | None = None) -> str | None:
        """Name the environment variable that has to be set before the model can be opened, if one is missing."""
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

        Without ``find_key`` no other key is looked for: what is set for a provider is not sent where somebody says.
        """
        spec = self.spec(name, base_url=base_url)
        if sampling is not None:
            spec = replace(spec, sampling=sampling.over(spec.sampling))
        model = self.make(spec if key or find_key else replace(spec, api_key_env=None), key)
        self._opened.append(model)
        return model

    async def aclose(self) -> None:
        """Close every model that was opened here. Safe to call twice."""
        if self.batches is not None:
            await self.batches.aclose()
        opened, self._opened = self._opened, []
        for model in opened:
            await model.aclose()

    def make(self, spec: ModelSpec, key: SecretStr | None = None, *, retry: RetryPolicy | None = None) -> ChatModel:
        """Return the model that a spec describes, with a key of its own or the one that is found for it.

        It is closed by whoever asked. Raises ``UsageError`` where its address or its key is not known.
        """
        retry = retry or self._retry
        self._check_allowed(spec)
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
            from core.models.applications import APPLICATIONS

            return APPLICATIONS[spec.kind](spec, key=key, retry=retry)
        from core.models.local import LocalModel
        from core.models.openai_compatible import AzureModel, ClientPool, OpenAICompatibleModel

        self._pool = self._pool or ClientPool()
        if spec.served_locally:
            return LocalModel(spec, pool=self._pool, retry=retry)
        kind = AzureModel if spec.kind == "azure" else OpenAICompatibleModel
        return kind(spec, key=key, pool=self._pool, retry=retry, batches=self.batches)

    def _check_allowed(self, spec: ModelSpec) -> None:
        """Raise ``NotAllowedError`` where a visitor named an address or folder that they may not, or no price is known.

        What the models files say is whoever runs this server's own.
        """
        if access.limits() is None:
            return
        access.require("run")
        known = spec.name in self._settings.models
        if spec.base_url and (spec.base_url != self._known(spec.name).base_url or (spec.kind == "http" and not known)):
            access.allowed_host(spec.base_url)
        if spec.served_locally and not known:
            access.allowed_path(spec.model_id)
        if spec.base_url and not is_private(spec.base_url) and source(spec) is None:
            raise access.NotAllowedError(
                f"No price is known for {spec.name}, so that nobody could say what it takes of your money of today: "
                f"ask {access.rules().contact} to enter it."
            )

    def _needs_key(self, spec: ModelSpec) -> bool:
        return bool(spec.api_key_env) and not spec.served_locally and not is_loopback(spec.base_url)

    def key(self, spec: ModelSpec) -> SecretStr | None:
        """Return the key that is found; a server on this machine gets one only where the model itself names it.

        Where a visitor of a shared server says that a model is elsewhere, it gets none but what they typed.
        """
        if access.limits() is not None and spec.base_url != self._known(spec.name).base_url:
            return typed_key(spec.api_key_env) if spec.api_key_env else None
        own = self._settings.models.get(spec.name)
        if is_loopback(spec.base_url) and not (own and own.api_key_env):
            return None
        return find_key(spec.api_key_env) if spec.api_key_env else None

    def _unknown(self, name: str) -> str:
        known = [*self._settings.models, *self._settings.aliases]
        lowered = {candidate.casefold(): candidate for candidate in known}
        close = [lowered[match] for match in get_close_matches(name.casefold(), lowered, n=3, cutoff=0.6)]
        if close:
            return f"No model is called “{name}”; did you mean {' or '.join(close)}?"
        providers = ", ".join(f"{provider}/…" for provider in self._settings.providers)
        return f"No model is called “{name}”; write provider/model with one of the providers {providers}."
