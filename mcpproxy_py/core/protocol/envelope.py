"""Whether a request is a valid one of the modern era: which has no session, so each request says everything.

The rungs, of which the first that fails decides:

1. `params._meta` is an object that has the revision and the client's capabilities. Its name may be left out.
2. Where there are headers, they say the same as the body: revision, method and, for the methods that have one, name.
   Before the revision is looked at, so that a client in contradiction with itself hears that first.
3. The revision is a text, and one we speak.

Whether the method exists is not asked here: whoever answers it knows. Nor is the shape of what the client says
about itself looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from mcpproxy_py.core.protocol import headers as names
from mcpproxy_py.core.protocol.constants import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    MODERN,
    PROTOCOL_VERSION,
    UNSUPPORTED_PROTOCOL_VERSION,
    EnvelopeRejection,
)


class Envelope(NamedTuple):
    """What a request says about its sender, as it came. A tuple, because one is made for every request."""

    version: str
    client_info: Any
    client_capabilities: Any


NO_ENVELOPE: Final = EnvelopeRejection(
    INVALID_PARAMS, f"params._meta must be an object with {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES}."
)
REVISION_NOT_TEXT: Final = EnvelopeRejection(INVALID_PARAMS, f"{PROTOCOL_VERSION} in params._meta must be a string.")


def classify(body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Envelope | EnvelopeRejection:
    """`headers` by their lower-case names; None for a way in that has none. Only of a decoded object, and of no
    batch; `jsonrpc` and `id` are the caller's to check."""
    params: Any = body.get("params")
    if not isinstance(params, dict) or not isinstance(params.get("_meta"), dict):  # pyright: ignore[reportUnknownMemberType]
        return NO_ENVELOPE
    params = cast("dict[str, Any]", params)
    meta: dict[str, Any] = params["_meta"]
    if PROTOCOL_VERSION not in meta or CLIENT_CAPABILITIES not in meta:
        return _incomplete(meta)
    version = meta[PROTOCOL_VERSION]
    if headers is not None:
        # A missing header equals no version, not even null.
        if version is None or headers.get(names.PROTOCOL_VERSION) != version:
            return _mismatch(names.PROTOCOL_VERSION, f"{PROTOCOL_VERSION} in params._meta")
        method: Any = body.get("method")
        if headers.get(names.METHOD) != method:
            return _mismatch(names.METHOD, "method")
        named_by = names.NAMED_BY.get(method)
        name: Any = params.get(named_by) if named_by else None
        sent = headers.get(names.NAME)
        if sent is not None and sent.startswith("=?"):
            sent = names.decode_header_value(sent)
        if name is not None and sent != name:
            return _mismatch(names.NAME, f"params.{named_by}")
    if not isinstance(version, str):
        return REVISION_NOT_TEXT
    if version not in MODERN:
        return _unsupported(version)
    return Envelope(version, meta.get(CLIENT_INFO), meta[CLIENT_CAPABILITIES])


def unsupported(version: str) -> EnvelopeRejection | None:
    """The last rung alone, for notifications: they have no envelope, only the header."""
    return None if version in MODERN else _unsupported(version)


def _unsupported(version: str) -> EnvelopeRejection:
    return EnvelopeRejection(
        UNSUPPORTED_PROTOCOL_VERSION,
        f"This gateway does not speak that protocol version; use {' or '.join(MODERN)}.",
        {"supported": list(MODERN), "requested": version},
    )


def _incomplete(meta: Mapping[str, Any]) -> EnvelopeRejection:
    missing = [key for key in (PROTOCOL_VERSION, CLIENT_CAPABILITIES) if key not in meta]
    return EnvelopeRejection(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}.")


def _mismatch(header: str, field: str) -> EnvelopeRejection:
    return EnvelopeRejection(HEADER_MISMATCH, f"The {header} header and the body's {field} must say the same.")
