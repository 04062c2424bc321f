"""Azure OpenAI: the same conversation as with OpenAI, at a resource's own address and deployment names."""

from __future__ import annotations

from openai import AsyncAzureOpenAI

from core.models.openai_compatible import OpenAICompatibleModel
from core.models.transport import client_timeout, http_client


class AzureModel(OpenAICompatibleModel):
    """A deployment of an Azure OpenAI resource; ``spec.base_url`` is the endpoint, ``spec.model_id`` the deployment."""

    def _make_client(self) -> AsyncAzureOpenAI:
        return AsyncAzureOpenAI(
            azure_endpoint=self._base_url,
            api_version=self.spec.api_version,
            api_key=self._key.get_secret_value() if self._key else "none",
            http_client=http_client(self._base_url),
            max_retries=0,
            timeout=client_timeout(),
        )
