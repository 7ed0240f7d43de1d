"""The REST interface of a running gateway, as the commands use it: JSON in, JSON out, failures as `GatewayError`.

The admin key goes to that gateway and to nobody else (SEC-8): over the socket in its data directory, which only its
owner can have made; over TCP on a connection on which the gateway has just proved that it knows the key.

Answers that come in pages.

Server-sent events, read for as long as anybody watches.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from mcpproxy_py import __version__
from mcpproxy_py.cli.gateway.locate import NoGatewayError, Where
from mcpproxy_py.cli.output import note
from mcpproxy_py.core.protocol.admin_key_proof import NONCE, proves
from mcpproxy_py.errors import Code, GatewayError

if TYPE_CHECKING:
    import httpx

UNAUTHORIZED: Final = 401
NOT_FOUND: Final = 404
CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 60.0
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
TRIES: Final = 3
"""A connection may have ended since it was last used, and a key may just have been rotated."""


class _OtherConnection(Exception):
    """The request would go over a connection on which nothing was proved."""


class RestClient:
    """Finds the gateway and its key when first used. One request at a time, never resent: a call may have acted."""

    def __init__(self, where: Where) -> None:
        self._keys = map(_sendable, where.keys())
        self._kept: list[str] = []
        """Of the keys, those that were looked up."""
        self._key: str | None = None
        self.url = where.url()
        self._socket = where.private_socket(self.url)
        self._own_port = None if where.is_a_way else _port_of(self.url)
        self._http = self._connections()

    def _connections(self) -> httpx.Client:
        import httpx

        # Reading the certificates costs 20 ms and more, and plain HTTP to this machine, the usual case, has none
        # to check. Redirects are not followed, so a connection never becomes TLS later.
        has_tls = not self.url.lower().startswith("http://")
        headers = {"X-MCPProxy-Client": f"cli/{__version__}"}
        transport = httpx.HTTPTransport(uds=str(self._socket)) if self._socket else None
        return httpx.Client(
            trust_env=False, follow_redirects=False, verify=has_tls, headers=headers, transport=transport
        )

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
        return self._over_socket(request, stream) if self._socket else self._over_tcp(request, stream)

    def _over_socket(self, request: httpx.Request, stream: bool) -> httpx.Response:
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
        self._key = key or self._key
        return key is not None

    def _over_tcp(self, request: httpx.Request, stream: bool) -> httpx.Response:
        """With the key that was proved, on the connection on which it was: who comes to listen there later, after the
        gateway ended, gets neither."""
        for left in reversed(range(TRIES)):
            if self._key is None:
                self._key = self._proved()
            request.headers["X-API-Key"] = self._key
            request.extensions["trace"] = _refuse_to_connect
            try:
                response = self._http.send(request, stream=stream)
            except _OtherConnection:
                self._key = None
                continue
            if response.status_code != UNAUTHORIZED or not left:
                return response
            response.close()
            self._key = None
        raise GatewayError(
            Code.NOT_REACHABLE,
            f"What answers at {self.url} ends each connection at once, so none was proved to lead to our gateway",
        )

    def _each_key(self) -> Iterator[str]:
        """Those of the configuration last: reading it takes a fifth of a second."""
        yield from self._kept
        for key in self._keys:
            self._kept.append(key)
            yield key

    def _proved(self) -> str:
        """The one of our keys that the far end knows. No connection to one that knows none is used again."""
        try:
            with self._errors_named("GET"):
                return self._asked_for_proof()
        except GatewayError:
            self._http.close()
            self._http = self._connections()
            raise

    def _asked_for_proof(self) -> str:
        nonce = secrets.token_hex(16)
        response = self._http.get(
            f"{self.url}/api/v1/proof", params={"nonce": nonce}, timeout=CONNECT_SECONDS + ANSWER_SECONDS
        )
        if response.status_code in (UNAUTHORIZED, NOT_FOUND) and (_json(response) or {}).get("error"):
            raise GatewayError(
                Code.UNAUTHORIZED,
                f"The gateway at {self.url} gives no proof that it knows the admin key, so the key was not sent. "
                "It may be of an older version: restart it",
            )
        if not response.is_success:
            raise _failure(response)
        told = _json(response) or {}
        own, port, given = told.get("nonce"), told.get("port"), told.get("proof")
        if not (isinstance(own, str) and re.fullmatch(NONCE, own) and type(port) is int and isinstance(given, str)):
            raise self._stranger()
        key = next((key for key in self._each_key() if proves(given, key, nonce, own, port)), None)
        if key is None:
            wrong = "does not know this admin key, so the key was not sent"
            why = wrong if self._kept else "wants an admin key, and none is here"
            raise GatewayError(Code.UNAUTHORIZED, f"What answers at {self.url} {why}")
        if self._own_port not in (None, port):
            raise GatewayError(
                Code.UNAUTHORIZED,
                f"The gateway that answers through {self.url} listens on port {port} itself: something passes this on "
                "to it, so the admin key was not sent. Where that is meant, say the address as a URL: "
                f"--url {self.url}",
            )
        return key

    @contextmanager
    def _errors_named(self, method: str) -> Iterator[None]:
        import httpx

        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise NoGatewayError(f"No gateway at {self.url}; start one with `mcpproxy serve`") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
            raise GatewayError(Code.BAD_REQUEST, f"'{self.url}' is not an address to connect to: {error}") from None
        except httpx.TransportError as error:
            why = "did not answer in time" if isinstance(error, httpx.TimeoutException) else "broke the connection"
            doubt = "" if method == "GET" else "; the request may have run: see `mcpproxy activity list`"
            raise GatewayError(Code.NOT_REACHABLE, f"The gateway at {self.url} {why}{doubt}") from None

    def _stranger(self) -> GatewayError:
        return GatewayError(Code.NOT_REACHABLE, f"The server at {self.url} is not an mcpproxy gateway")


def _sendable(key: str) -> str:
    if not (key.isascii() and key.isprintable()):
        raise GatewayError(Code.UNAUTHORIZED, "The admin key contains characters that no key can have")
    return key


def _port_of(url: str) -> int | None:
    with suppress(ValueError):  # one that is no port is said on connecting
        found = urlsplit(url)
        return found.port or DEFAULT_PORTS.get(found.scheme)
    return None


def _refuse_to_connect(event: str, info: Mapping[str, Any]) -> None:
    if event.startswith("connection.connect_"):
        raise _OtherConnection


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
            Code.NOT_REACHABLE, f"The server at {response.url.host}:{response.url.port} is not an mcpproxy gateway: "
            f"it answered {response.status_code} {response.reason_phrase}",
        )  # fmt: skip
    details = shape.get("details") if isinstance(shape.get("details"), dict) else {}
    code, message = shape.get("code"), shape["message"]
    if code in list(Code):
        return GatewayError(Code(code), message, details=details)
    return GatewayError(Code.UPSTREAM_ERROR, f"{code}: {message}", details=details)


def every_page(client: Any, /, *path: str, items: str, **query: Any) -> dict[str, Any]:
    """The first page's answer with the items of all of them, as if the page had been large enough."""
    answer = client.get(*path, **query)
    found = list(answer.get(items, []))
    cursor = answer.get("next_cursor")
    while cursor:
        page = client.get(*path, **{**query, "cursor": cursor})
        found += page.get(items, [])
        # A cursor that leads back to itself would never end.
        cursor = page.get("next_cursor") if page.get("next_cursor") != cursor else None
    return {**answer, items: found, **({"next_cursor": None} if "next_cursor" in answer else {})}


PAUSE: Final = 1.0
PATIENCE: Final = 60.0
"""Seconds that a gateway which was there may be away, for a restart say."""


def records(connect: Callable[[], Any], tell: Callable[[str], None] = note) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each event's kind and the record as it is then; `hello`, with nothing, where a connection begins. Endless: one
    that breaks is taken up where it was, at whatever address the gateway is then. That is told, once each way."""
    last, seen_at, away, client = None, None, False, None
    while True:
        try:
            client = client or connect()
            with client.stream("events", after=last) as chunks:
                for event in parsed(chunks):
                    seen_at, last = time.monotonic(), event.get("id", last)
                    if away:
                        tell("The gateway is back; nothing was missed")
                        away = False
                    record = json.loads(event.get("data", "null"))
                    if isinstance(record, dict) or event.get("event") == "hello":
                        yield event.get("event", ""), record or {}
        except GatewayError as error:
            gone = seen_at is None or time.monotonic() - seen_at > PATIENCE
            if gone or error.code is not Code.NOT_REACHABLE:
                raise
        if not away:
            tell("The gateway is away; waiting for it")
        away, client = True, None
        time.sleep(PAUSE)


def parsed(chunks: Iterable[bytes]) -> Iterator[dict[str, str]]:
    """The events of a stream, each by its fields. Comments, which only keep the line open, are left out."""
    event: dict[str, str] = {}
    for line in _lines(chunks):
        if not line and event:
            yield event
            event = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(":")
            event[name] = value.removeprefix(" ")


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)


def matching(wanted: Mapping[str, str | None]) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a record has each of these values, where one is asked for."""
    asked = {key: value for key, value in wanted.items() if value is not None}
    return lambda record: all(record.get(key) == value for key, value in asked.items())
