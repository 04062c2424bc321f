"""The names of models, and the models behind them: ``provider/model`` or an alias in, a ``ChatModel`` out.

A registry owns what it opened: ``aclose`` ends every connection and child process of it. The client library, a second
to import, is loaded with the first model that is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType

from pydantic import SecretStr

from core.errors import UsageError
from core.models.base import ChatModel, Sampling
from core.models.clients import ClientPool
from core.models.keys import find_key
from core.models.prices import cost
from core.models.resolve import resolve, with_base_url, with_sampling
from core.models.retry import RetryPolicy
from core.models.settings import ModelsFile, default_paths, read_settings
from core.models.spec import ModelSpec, is_loopback

__all__ = ["ModelSpec", "Registry", "cost", "load_registry"]

_AGENTS = ("reference", "human")


def load_registry(paths: Sequence[Path] | None = None, *, retry: RetryPolicy | None = None) -> Registry:
    """Read the models files (by default the shipped one and the user's own) and return the registry of them."""
    return Registry(read_settings(list(paths) if paths is not None else default_paths()), retry=retry)


class Registry:
    """Knows every model by name and opens them."""

    def __init__(self, settings: ModelsFile, *, retry: RetryPolicy | None = None) -> None:
        self._settings = settings
        self._retry = retry
        self._pool = ClientPool()
        self._opened: list[ChatModel] = []
        self._aliases = {alias.casefold(): name for alias, name in settings.aliases.items()}

    async def __aenter__(self) -> Registry:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def providers(self) -> tuple[str, ...]:
        """The names before the slash."""
        return tuple(self._settings.providers)

    @property
    def aliases(self) -> dict[str, str]:
        """Every alias with the full name it stands for."""
        return dict(self._settings.aliases)

    def specs(self) -> Iterator[ModelSpec]:
        """Yield the models that the files list and that are still served; others can be opened by name as well."""
        return (self.spec(name) for name, model in self._settings.models.items() if not model.retired)

    def spec(self, name: str, *, base_url: str | None = None) -> ModelSpec:
        """Return what is known of a model, by full name or alias; ``base_url`` overrides its address."""
        full = self._aliases.get(name.strip().casefold(), name.strip())
        provider, _, model_id = full.partition("/")
        if provider in _AGENTS:
            raise UsageError(f"“{name}” is not a chat model: it takes a role by itself and needs no provider.")
        if provider not in self._settings.providers or not model_id:
            raise UsageError(self._unknown(name))
        aliases = tuple(alias for alias, target in self._settings.aliases.items() if target == full)
        found = resolve(self._settings, provider, model_id, aliases)
        return with_base_url(found, base_url) if base_url else found

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

    def address(self, name: str, *, base_url: str | None = None) -> str | None:
        """Return where a model is reached, ``None`` for a local one; raise ``UsageError`` for no address."""
        return self.spec(name, base_url=base_url).base_url

    def group(self, name: str) -> str:
        """Return the group of a model, or of whoever else plays: the models file's, else what stands before the slash.

        A stored name may be of a provider that the models file no longer has.
        """
        full = self._aliases.get(name.strip().casefold(), name.strip())
        provider, _, model_id = full.partition("/")
        known = provider in self._settings.providers and bool(model_id)
        return self.spec(full).group if known else provider

    def missing_key(self, name: str, *, base_url: str | None = None) -> str | None:
        """Name the environment variable that has to be set before the model can be opened, if one is missing."""
        spec = self.spec(name, base_url=base_url)
        return spec.api_key_env if self._needs_key(spec) and self._key(spec) is None else None

    def open(self, name: str, *, base_url: str | None = None, sampling: Sampling | None = None) -> ChatModel:
        """Open a model; ``base_url`` overrides its address and ``sampling`` its defaults."""
        spec = self.spec(name, base_url=base_url)
        if sampling is not None:
            spec = with_sampling(spec, sampling)
        model = self._make(spec)
        self._opened.append(model)
        return model

    async def aclose(self) -> None:
        """Close every model that was opened here. Safe to call twice."""
        opened, self._opened = self._opened, []
        for model in opened:
            await model.aclose()

    def _make(self, spec: ModelSpec) -> ChatModel:
        if spec.base_url is None and not spec.served_locally:
            raise UsageError(f"The address for {spec.name} is not known: {self._address_advice(spec)}.")
        key = self._key(spec)
        if key is None and self._needs_key(spec):
            raise UsageError(
                f"The key for {spec.name} is missing: set the environment variable {spec.api_key_env}, "
                f"or put it into .streamlit/secrets.toml."
            )
        return _model(spec, key, self._pool, self._retry)

    def _address_advice(self, spec: ModelSpec) -> str:
        variable = self._settings.providers[spec.provider].base_url_env
        own = f"set base_url for {spec.provider} in data/models.local.toml"
        return f"set the environment variable {variable}, or {own}" if variable else own

    def _needs_key(self, spec: ModelSpec) -> bool:
        return bool(spec.api_key_env) and not spec.served_locally and not is_loopback(spec.base_url)

    def _key(self, spec: ModelSpec) -> SecretStr | None:
        """Find the key; a server on this machine gets one only where the model itself names it."""
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


def _model(spec: ModelSpec, key: SecretStr | None, pool: ClientPool, retry: RetryPolicy | None) -> ChatModel:
    from core.models.azure import AzureModel
    from core.models.local import LocalModel
    from core.models.openai_compatible import OpenAICompatibleModel

    if spec.served_locally:
        return LocalModel(spec, pool=pool, retry=retry)
    kind = AzureModel if spec.kind == "azure" else OpenAICompatibleModel
    return kind(spec, key=key, pool=pool, retry=retry)
