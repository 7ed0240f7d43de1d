"""Finding out which era a server speaks, on raw messages.

Like the SDK's own client this goes by a denylist: whatever is not positive evidence of a modern server
is answered with the old handshake, which every server knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcpproxy_py._upstream_failure import UpstreamFailure, bad_answer
from mcpproxy_py.core.protocol.constants import (
    HANDSHAKE,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    MODERN,
    SERVER_INFO,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcpproxy_py.errors import Code
from mcpproxy_py.upstream.permit import OwnPermit
from mcpproxy_py.upstream.session.rpc import RpcConnection
from mcpproxy_py.upstream.session.stamp import CAPABILITIES, CLIENT_INFO, Stamp

PROBE_TIMEOUT: Final = 3.0


@dataclass(frozen=True, slots=True)
class Handshake:
    """Who answered, and how to talk to it. Everything is as it came."""

    stamp: Stamp
    server_info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: str | None = None
    probe_unanswered: bool = False

    @property
    def protocol_version(self) -> str:
        return self.stamp.version


class ProbeKilled(UpstreamFailure):
    """The server went away when it was asked `server/discover`: the next attempt had better not ask."""


async def negotiate(
    connection: RpcConnection, *, probe: bool = True, capabilities: Mapping[str, Any] = CAPABILITIES
) -> Handshake:
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
    lost = failure.code is Code.SERVER_UNAVAILABLE
    return ProbeKilled(failure.code, failure.message, sent=failure.sent) if lost else failure


async def _initialize_or_discover(
    connection: RpcConnection, unanswered: bool, capabilities: Mapping[str, Any]
) -> Handshake:
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


async def _discover(connection: RpcConnection, timeout: float | None) -> Handshake | None:
    """None: it answered, and said in one way or another that it is not modern. Silence and a lost connection raise."""
    version = LATEST_MODERN
    for _ in range(2):
        stamp = Stamp("modern", version)
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


def _modern(result: Mapping[str, Any], stamp: Stamp) -> Handshake | None:
    versions = result.get("supportedVersions")
    common = [v for v in MODERN if v in versions] if isinstance(versions, list) else []
    if not common:
        return None  # it knows the method, but only speaks the handshake revisions
    meta = result.get("_meta")
    info = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
    return _described(Stamp("modern", stamp.version if stamp.version in common else common[-1]), result, info, False)


async def _initialize(connection: RpcConnection, unanswered: bool, capabilities: Mapping[str, Any]) -> Handshake:
    offer = {
        "protocolVersion": LATEST_HANDSHAKE,
        "capabilities": dict(capabilities),
        "clientInfo": dict(CLIENT_INFO),
    }
    result = await connection.request(OwnPermit("initialize", offer), timeout=None)
    version = result.get("protocolVersion")
    if version not in HANDSHAKE:
        raise bad_answer(f"it wants to speak an MCP revision unknown to mcpproxy: {str(version)[:40]!r}")
    stamp = Stamp("handshake", version)
    await connection.notify(OwnPermit("notifications/initialized"), stamp)
    return _described(stamp, result, result.get("serverInfo"), unanswered)


def _described(stamp: Stamp, result: Mapping[str, Any], info: Any, unanswered: bool) -> Handshake:
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return Handshake(
        stamp,
        server_info=info if isinstance(info, dict) else {},
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        instructions=instructions if isinstance(instructions, str) else None,
        probe_unanswered=unanswered,
    )
