"""From the models file to a ``ModelSpec``: the provider's settings, its families', then the model's own."""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlsplit

from core.errors import UsageError
from core.models.base import Sampling
from core.models.keys import find_setting
from core.models.limits import Limits
from core.models.settings import CommonTable, ModelsFile, ModelTable, ProviderTable
from core.models.spec import LocalServing, ModelSpec, Prices, Timeouts


def resolve(settings: ModelsFile, provider: str, model_id: str, aliases: tuple[str, ...]) -> ModelSpec:
    """Put together what is known of ``provider/model_id``; a model that is not listed gets its provider's settings."""
    name = f"{provider}/{model_id}"
    general = settings.providers[provider]
    own = settings.models.get(name, ModelTable())
    families = [family for family in general.families if re.search(family.match, model_id)]
    chosen = _layered(general, *families, own)
    if general.kind is None:
        raise UsageError(f"The provider {provider} has no kind; set providers.{provider}.kind in the models file.")
    base_url = _address(name, own, general)
    return ModelSpec(
        name=name,
        provider=provider,
        kind=general.kind,
        model_id=own.model_id or _local_path(general, model_id),
        display=own.display or model_id,
        base_url=base_url,
        api_key_env=chosen.get("api_key_env"),
        api_version=own.api_version or _from_env(general.api_version_env) or chosen.get("api_version"),
        prices=Prices(**own.prices.model_dump()) if own.prices else None,
        limits=Limits(**chosen.get("limits", {})),
        limits_scope=f"{name if own.limits else provider} {base_url}",
        context=own.context,
        sampling=Sampling(**chosen.get("sampling", {})),
        max_tokens_field=chosen.get("max_tokens_field", "max_tokens"),
        system_role=chosen.get("system_role", "system"),
        unsupported=chosen.get("unsupported", ()),
        timeouts=Timeouts(**chosen.get("timeouts", {})),
        serving=_serving(chosen),
        aliases=aliases,
        group=chosen.get("group", provider),
        thinking_tokens=chosen.get("thinking_tokens"),
        structured=chosen.get("structured"),
        retired=own.retired,
        opens_thinking=chosen.get("opens_thinking", False),
        extra_body=chosen.get("extra_body", {}),
    )


def with_base_url(spec: ModelSpec, base_url: str) -> ModelSpec:
    """Return ``spec`` served at another address, after checking that it is one."""
    url = _checked(spec.name, base_url)
    return replace(spec, base_url=url, limits_scope=f"{spec.provider} {url}")


def with_sampling(spec: ModelSpec, sampling: Sampling) -> ModelSpec:
    """Return ``spec`` with other defaults; what ``sampling`` leaves open stays as it was."""
    given = {key: value for key, value in asdict(sampling).items() if value is not None and value != ()}
    return replace(spec, sampling=replace(spec.sampling, **given))


def _layered(*tables: CommonTable) -> dict[str, Any]:
    """Merge tables, the later over the earlier, each setting for itself."""
    chosen: dict[str, Any] = {}
    for table in tables:
        for key, value in table.model_dump(exclude_unset=True, exclude_none=True).items():
            below = chosen.get(key)
            chosen[key] = below | value if isinstance(below, dict) and isinstance(value, dict) else value
    return chosen


def _address(name: str, own: ModelTable, provider: ProviderTable) -> str | None:
    url = own.base_url or _from_env(provider.base_url_env) or provider.base_url
    return _checked(name, url) if url else None


def _checked(name: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"The base URL for {name} must look like http://127.0.0.1:8000/v1.")
    if parts.username or parts.password:
        raise UsageError(f"The base URL for {name} must not hold a user name or password; use a key variable.")
    return url.rstrip("/")


def _from_env(variable: str | None) -> str | None:
    return find_setting(variable) if variable else None


def _serving(chosen: dict[str, Any]) -> LocalServing:
    default = LocalServing()
    return LocalServing(chosen.get("serve_args", ()), chosen.get("start_timeout_s", default.start_timeout_s))


def _local_path(provider: ProviderTable, model_id: str) -> str:
    return os.path.expanduser(model_id) if provider.kind == "hf" else model_id
