"""Finding out which era a server speaks, on raw messages.

Like the SDK's own client this goes by a denylist: whatever is not positive evidence of a modern server
is answered with the old handshake, which every server knows.

From a connection to a session: finding the era, with a memory of how this server took the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import anyio

from mcpproxy_py.core.protocol.constants import (
    HANDSHAKE,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    MODERN,
    SERVER_INFO,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcpproxy_py.errors import Code, UpstreamFailure, bad_answer
from mcpproxy_py.upstream.oauth.auth import LoginRequired
from mcpproxy_py.upstream.permit import OwnPermit, Permit
from mcpproxy_py.upstream.processes.command import ServerLog
from mcpproxy_py.upstream.session.connection import Hear, RpcConnection
from mcpproxy_py.upstream.session.session import (
    CAPABILITIES,
    CLIENT_INFO,
    SHOWS_PAGES,
    Mirrored,
    Negotiated,
    UpstreamSession,
    VersionStamp,
)
from mcpproxy_py.upstream.spec import UpstreamSpec

PROBE_TIMEOUT: Final = 3.0


class ProbeKilled(UpstreamFailure):
    """The server went away when it was asked `server/discover`: the next attempt had better not ask."""


async def negotiate(
    connection: RpcConnection, *, probe: bool = True, capabilities: Mapping[str, Any] = CAPABILITIES
) -> Negotiated:
    """Waits as long as its caller does. Raises `UpstreamFailure` when there is no common revision."""
    unanswered = False
    if probe:
        try:
            found = await _discover(connection, PROBE_TIMEOUT)
        except UpstreamFailure as failure:
            if failure.code is not Code.TIMEOUT:
                raise _of_the_probe(failure) from None
            unanswered = True
        else:
            if found is not None:
                return found
    try:
        return await _initialize_or_discover(connection, unanswered, capabilities)
    except UpstreamFailure as failure:
        raise (_of_the_probe(failure) if unanswered else failure) from None  # a slow starter reads it only now


def _of_the_probe(failure: UpstreamFailure) -> UpstreamFailure:
    lost = failure.code is Code.SERVER_UNAVAILABLE and not isinstance(failure, LoginRequired)
    return ProbeKilled(failure.code, failure.message, sent=failure.sent) if lost else failure


async def _initialize_or_discover(
    connection: RpcConnection, unanswered: bool, capabilities: Mapping[str, Any]
) -> Negotiated:
    """A slow starter may have read a probe we gave up on, and so be modern by now: it refuses `initialize`."""
    try:
        return await _initialize(connection, unanswered, capabilities)
    except UpstreamFailure as failure:
        if failure.data.get("code") != UNSUPPORTED_PROTOCOL_VERSION or not _mutual(failure):
            raise
    found = await _discover(connection, None)
    if found is None:
        raise bad_answer("it refuses the handshake and speaks no modern revision either")
    return found


async def _discover(connection: RpcConnection, timeout: float | None) -> Negotiated | None:
    """None: it answered, and said in one way or another that it is not modern. Silence and a lost connection raise."""
    version = LATEST_MODERN
    for _ in range(2):
        stamp = VersionStamp("modern", version)
        try:
            result = await connection.request(OwnPermit("server/discover"), timeout=timeout, stamp=stamp)
        except UpstreamFailure as failure:
            retry = _next_version(failure, version)
            if retry is None:
                return None
            version = retry
        else:
            return _modern(result, stamp)
    return None


def _next_version(failure: UpstreamFailure, tried: str) -> str | None:
    """The revision to ask again with; None to go on to the handshake; raises when there is nothing in common."""
    if failure.code is not Code.UPSTREAM_ERROR:
        raise failure
    supported = _supported(failure)
    if supported is None:
        return None
    mutual = _mutual(failure)
    if mutual and mutual != tried:
        return mutual
    if any(version in HANDSHAKE for version in supported):
        return None
    raise bad_answer(f"it speaks only MCP revisions unknown to mcpproxy: {supported}")


def _supported(failure: UpstreamFailure) -> list[str] | None:
    data = failure.data.get("data")
    if failure.data.get("code") != UNSUPPORTED_PROTOCOL_VERSION or not isinstance(data, dict):
        return None
    supported = data.get("supported")
    return [str(version)[:20] for version in supported[:20]] if isinstance(supported, list) else None


def _mutual(failure: UpstreamFailure) -> str | None:
    supported = _supported(failure) or ()
    return next((version for version in reversed(MODERN) if version in supported), None)


def _modern(result: Mapping[str, Any], stamp: VersionStamp) -> Negotiated | None:
    versions = result.get("supportedVersions")
    common = [v for v in MODERN if v in versions] if isinstance(versions, list) else []
    if not common:
        return None  # it knows the method, but only speaks the handshake revisions
    meta = result.get("_meta")
    info = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
    return _described(
        VersionStamp("modern", stamp.version if stamp.version in common else common[-1]), result, info, False
    )


async def _initialize(connection: RpcConnection, unanswered: bool, capabilities: Mapping[str, Any]) -> Negotiated:
    offer = {
        "protocolVersion": LATEST_HANDSHAKE,
        "capabilities": dict(capabilities),
        "clientInfo": dict(CLIENT_INFO),
    }
    result = await connection.request(OwnPermit("initialize", offer), timeout=None)
    version = result.get("protocolVersion")
    if version not in HANDSHAKE:
        raise bad_answer(f"it wants to speak an MCP revision unknown to mcpproxy: {str(version)[:40]!r}")
    stamp = VersionStamp("handshake", version)
    await connection.notify(OwnPermit("notifications/initialized"), stamp)
    return _described(stamp, result, result.get("serverInfo"), unanswered)


def _described(stamp: VersionStamp, result: Mapping[str, Any], info: Any, unanswered: bool) -> Negotiated:
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return Negotiated(
        stamp,
        server_info=info if isinstance(info, dict) else {},
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=instructions if isinstance(instructions, str) else None,
        probe_unanswered=unanswered,
    )


LEVEL_TIMEOUT: Final = 5.0


@contextmanager
def attempt(connection: RpcConnection, spec: UpstreamSpec, log: ServerLog) -> Iterator[None]:
    """Bounds what is done in here to get a session, and lets it fail with what says most of why."""
    try:
        with anyio.fail_after(spec.attempt_limit):
            yield
    except UpstreamFailure:
        if connection.closed.is_set():  # why it ended says more than which question went unanswered
            raise UpstreamFailure(Code.SERVER_UNAVAILABLE, connection.why, sent=False) from None
        raise
    except TimeoutError:
        why = f"it did not finish connecting within {spec.attempt_limit:g} s{log.last_words}"
        raise UpstreamFailure(Code.SERVER_UNAVAILABLE, why, sent=False) from None


class SessionOpener:
    """One per server. What a connection tells goes to these, whichever of the server's sessions it is."""

    def __init__(
        self, on_notification: Hear, on_outside: Callable[[], None], on_unattributed: Callable[[str], None]
    ) -> None:
        self._on_notification = on_notification
        self._on_outside = on_outside
        self._on_unattributed = on_unattributed
        self._mirrored: Mirrored = {}
        self._probe = True
        self.log_level: Mapping[str, Any] | None = None
        """The params of the last `logging/setLevel`, which every further session has to hear too."""

    @property
    def probes(self) -> bool:
        """Whether the next attempt begins with the question of the modern era."""
        return self._probe

    async def greet(self, connection: RpcConnection, spec: UpstreamSpec) -> UpstreamSession:
        """The first session. Raises `UpstreamFailure`."""
        self._attach(connection)
        try:
            asks_first = self._probe and spec.transport != "sse"
            handshake = await negotiate(connection, probe=asks_first, capabilities=_of_everybody(spec))
        except ProbeKilled:
            self._probe = spec.transport != "stdio"  # it may be the question that it did not survive
            raise
        except UpstreamFailure:
            self._probe = True
            raise
        self._probe = not (handshake.probe_unanswered and spec.transport == "stdio")
        return await self._session(connection, spec, handshake)

    async def greet_again(
        self, connection: RpcConnection, spec: UpstreamSpec, modern: bool, capabilities: Mapping[str, Any] | None
    ) -> UpstreamSession:
        """Another session with the same server. `modern` as known of it, or as wanted. Raises `UpstreamFailure`."""
        self._attach(connection)
        offered = _of_everybody(spec) if capabilities is None else capabilities
        handshake = await negotiate(connection, probe=modern, capabilities=offered)
        return await self._session(connection, spec, handshake)

    def _attach(self, connection: RpcConnection) -> None:
        connection.on_notification = self._on_notification
        connection.on_outside = self._on_outside
        connection.on_unattributed = self._on_unattributed

    async def _session(self, connection: RpcConnection, spec: UpstreamSpec, handshake: Negotiated) -> UpstreamSession:
        session = UpstreamSession(spec.name, connection, handshake, self._mirrored)
        if spec.shows_pages != "never":
            session.own_capabilities = SHOWS_PAGES
        if self.log_level is not None:
            await set_level(session, OwnPermit("logging/setLevel", self.log_level))
        return session


def _of_everybody(spec: UpstreamSpec) -> Mapping[str, Any]:
    return {**CAPABILITIES, **SHOWS_PAGES} if spec.shows_pages == "always" else CAPABILITIES


async def set_level(session: UpstreamSession, permit: Permit) -> None:
    """One that does not take it only says more or less than it should; the modern era has no such thing."""
    if session.modern:
        return
    with suppress(UpstreamFailure):
        await session.request(permit, timeout=LEVEL_TIMEOUT)
