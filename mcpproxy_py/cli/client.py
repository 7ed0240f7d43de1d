"""The REST interface of a running gateway, as the commands use it: JSON in, JSON out, failures as `GatewayError`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mcpproxy_py import __version__
from mcpproxy_py.cli.where import NoGatewayError, Where
from mcpproxy_py.errors import Code, GatewayError

if TYPE_CHECKING:
    # Imported for real where first needed: it costs a fifth of a second.
    import httpx

UNAUTHORIZED: Final = 401
CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 60.0


class Client:
    """Finds the gateway and its key when first used. One request at a time, never resent: a call may have acted."""

    def __init__(self, where: Where) -> None:
        import httpx

        self._keys = where.keys()
        self._key: str | None = None
        self.url = where.url()
        # Reading the certificates costs 20 ms and more, and plain HTTP to this machine, the usual case, has none
        # to check. Redirects are not followed, so a connection never becomes TLS later.
        has_tls = not self.url.lower().startswith("http://")
        headers = {"X-MCPProxy-Client": f"cli/{__version__}"}
        self._http = httpx.Client(trust_env=False, follow_redirects=False, verify=has_tls, headers=headers)

    def get(self, *path: str, **query: Any) -> dict[str, Any]:
        return self._answer("GET", path, query=query)

    def get_patiently(self, *path: str, **query: Any) -> dict[str, Any]:
        """For an answer that takes as long as there is much to read."""
        return self._answer("GET", path, query=query, patient=True)

    def post(self, *path: str, body: Mapping[str, Any] | None = None, patient: bool = False) -> dict[str, Any]:
        """`patient` waits as long as the gateway does, which bounds every call itself."""
        return self._answer("POST", path, body=body, patient=patient)

    def delete(self, *path: str) -> dict[str, Any]:
        return self._answer("DELETE", path)

    @contextmanager
    def stream(self, *path: str, **query: Any) -> Iterator[Iterator[bytes]]:
        """A long answer in pieces."""
        with self._errors_named("GET"):
            response = self._send(self._request("GET", path, query=query), stream=True)
            try:
                if response.is_error:
                    response.read()
                    raise _failure(response)
                yield response.iter_bytes()
            finally:
                response.close()

    def _answer(self, method: str, path: tuple[str, ...], **options: Any) -> dict[str, Any]:
        with self._errors_named(method):
            response = self._send(self._request(method, path, **options))
        if not response.is_success:
            raise _failure(response)
        answer = _json(response)
        if answer is None and response.content:
            raise self._stranger()
        return answer or {}

    def _request(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        patient: bool = False,
    ) -> httpx.Request:
        import httpx

        if not all(path):
            raise GatewayError(Code.BAD_REQUEST, "A name or id must not be empty")
        seconds = None if patient else ANSWER_SECONDS
        return self._http.build_request(
            method,
            "/".join((f"{self.url}/api/v1", *(quote(part, safe="") for part in path))),
            params={key: value for key, value in (query or {}).items() if value is not None},
            # Not httpx's `json=`, which cannot encode half a surrogate pair from an odd command line.
            content=None if body is None else json.dumps(body, allow_nan=False),
            headers={} if body is None else {"Content-Type": "application/json"},
            timeout=httpx.Timeout(seconds, connect=CONNECT_SECONDS),
        )

    def _send(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        """With the next key wherever one was turned down: nothing has run when the answer is 401."""
        if self._key is None:
            self._next_key()
        while True:
            if self._key is not None:
                request.headers["X-API-Key"] = self._key
            response = self._http.send(request, stream=stream)
            if response.status_code != UNAUTHORIZED or not self._next_key():
                return response
            response.close()

    def _next_key(self) -> bool:
        key = next(self._keys, None)
        if key is not None and not (key.isascii() and key.isprintable()):
            raise GatewayError(Code.UNAUTHORIZED, "The admin key holds characters no key has")
        self._key = key or self._key
        return key is not None

    @contextmanager
    def _errors_named(self, method: str) -> Iterator[None]:
        import httpx

        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise NoGatewayError(f"No gateway at {self.url}; start one with `mcpproxy serve`") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
            raise GatewayError(Code.BAD_REQUEST, f"'{self.url}' is no address to connect to: {error}") from None
        except httpx.TransportError as error:
            why = "did not answer in time" if isinstance(error, httpx.TimeoutException) else "broke the connection"
            doubt = "" if method == "GET" else "; what was asked may have run: see `mcpproxy activity list`"
            raise GatewayError(Code.NOT_REACHABLE, f"The gateway at {self.url} {why}{doubt}") from None

    def _stranger(self) -> GatewayError:
        return GatewayError(Code.NOT_REACHABLE, f"What answers at {self.url} is not an mcpproxy gateway")


def _json(response: httpx.Response) -> dict[str, Any] | None:
    try:
        answer = response.json()
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _failure(response: httpx.Response) -> GatewayError:
    """The gateway's own error where it gave one. A code of a newer gateway is kept in words."""
    shape = (_json(response) or {}).get("error")
    if not isinstance(shape, dict) or not isinstance(shape.get("message"), str):
        return GatewayError(
            Code.NOT_REACHABLE, f"What answers at {response.url.host}:{response.url.port} is not an mcpproxy gateway: "
            f"it answered {response.status_code} {response.reason_phrase}",
        )  # fmt: skip
    details = shape.get("details") if isinstance(shape.get("details"), dict) else {}
    code, message = shape.get("code"), shape["message"]
    if code in list(Code):
        return GatewayError(Code(code), message, details=details)
    return GatewayError(Code.UPSTREAM_ERROR, f"{code}: {message}", details=details)
