"""An OpenID provider of our own on 127.0.0.1, which signs everybody in at once as ``person``."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode
from wsgiref.simple_server import WSGIRequestHandler, make_server

import orjson
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "anamnesis", "a secret of the client's that only tests know"


class Provider:
    """The authorisation code flow: ``/authorize`` gives a code, ``/token`` an identity that is signed for it."""

    def __init__(self) -> None:
        self.person = ""
        self.address = ""
        self.given: dict[str, dict[str, Any]] = {}
        """Code → the parameters of its request, with the person who signed in."""
        self._key = RSAKey.generate_key(2048, parameters={"kid": "one", "use": "sig", "alg": "RS256"})

    def __call__(self, environ: dict[str, Any], start: Any) -> list[bytes]:
        path = environ["PATH_INFO"]
        if path == "/authorize":
            request = _fields(environ["QUERY_STRING"])
            code = f"code-{len(self.given)}"
            self.given[code] = {**request, "person": self.person}
            where = f"{request['redirect_uri']}?{urlencode({'code': code, 'state': request['state']})}"
            start("302 Found", [("Location", where)])
            return [b""]
        answer = {"/.well-known/openid-configuration": self._metadata, "/jwks": self._keys, "/token": self._token}[path]
        start("200 OK", [("Content-Type", "application/json")])
        return [orjson.dumps(answer(environ))]

    def _metadata(self, _: dict[str, Any]) -> dict[str, Any]:
        places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
        return {
            "issuer": self.address,
            **{name: f"{self.address}/{place}" for name, place in places.items()},
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def _keys(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"keys": [self._key.as_dict(private=False)]}

    def _token(self, environ: dict[str, Any]) -> dict[str, Any]:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()
        request = self.given.pop(_fields(body)["code"])
        now = int(time.time())
        claims = {
            "iss": self.address, "aud": CLIENT, "sub": request["person"], "iat": now, "exp": now + 600,
            "nonce": request.get("nonce", ""), "email": request["person"], "email_verified": True,
        }  # fmt: skip
        signed = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self._key)
        return {"access_token": "none", "token_type": "Bearer", "expires_in": 600, "id_token": signed}


def _fields(text: str) -> dict[str, str]:
    return dict(parse_qsl(text))


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def provider() -> Iterator[Provider]:
    provider_ = Provider()
    with make_server("127.0.0.1", 0, provider_, handler_class=_Quiet) as server:
        provider_.address = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield provider_
        finally:
            server.shutdown()
