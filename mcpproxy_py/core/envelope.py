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
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mcpproxy_py.core import headers as names
from mcpproxy_py.core.jsonvalue import as_object
from mcpproxy_py.core.revisions import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    MODERN,
    PROTOCOL_VERSION,
    UNSUPPORTED_PROTOCOL_VERSION,
)


class Modern(NamedTuple):
    """What a request says about its sender, as it came. A tuple, because one is made for every request."""

    version: str
    client_info: Any
    client_capabilities: Any


@dataclass(frozen=True, slots=True)
class Rejected:
    """The members of a JSON-RPC error. `revisions.HTTP_STATUS` knows the status that goes with it."""

    code: int
    message: str
    data: Any = None


NO_ENVELOPE: Final = Rejected(
    INVALID_PARAMS, f"params._meta must be an object with {PROTOCOL_VERSION} and {CLIENT_CAPABILITIES}."
)
REVISION_NOT_TEXT: Final = Rejected(INVALID_PARAMS, f"{PROTOCOL_VERSION} in params._meta must be a string.")


def classify(body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Modern | Rejected:
    """`headers` by their lower-case names; None for a way in that has none. Only of a decoded object, and of no
    batch; `jsonrpc` and `id` are the caller's to check."""
    params = as_object(body.get("params"))
    said = as_object(params.get("_meta")) if params is not None else None
    if said is None:
        return NO_ENVELOPE
    if PROTOCOL_VERSION not in said or CLIENT_CAPABILITIES not in said:
        return _incomplete(said)
    version = said[PROTOCOL_VERSION]
    if headers is not None and (contradiction := _contradiction(body, version, headers)) is not None:
        return contradiction
    if not isinstance(version, str):
        return REVISION_NOT_TEXT
    return unsupported(version) or Modern(version, said.get(CLIENT_INFO), said[CLIENT_CAPABILITIES])


def unsupported(version: str) -> Rejected | None:
    """The last rung alone, for notifications: they have no envelope, only the header."""
    if version in MODERN:
        return None
    return Rejected(
        UNSUPPORTED_PROTOCOL_VERSION,
        f"This gateway does not speak that protocol version; use {' or '.join(MODERN)}.",
        {"supported": list(MODERN), "requested": version},
    )


def _incomplete(meta: Mapping[str, Any]) -> Rejected:
    missing = [key for key in (PROTOCOL_VERSION, CLIENT_CAPABILITIES) if key not in meta]
    return Rejected(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}.")


def _contradiction(body: Mapping[str, Any], version: Any, headers: Mapping[str, str]) -> Rejected | None:
    said = headers.get(names.PROTOCOL_VERSION)
    if said is None or said != version:  # a missing header equals no version, not even null
        return _mismatch(names.PROTOCOL_VERSION, f"{PROTOCOL_VERSION} in params._meta")
    method: Any = body.get("method")
    if headers.get(names.METHOD) != method:
        return _mismatch(names.METHOD, "method")
    named_by = names.NAMED_BY.get(method)
    name = body["params"].get(named_by) if named_by else None
    if name is not None and names.decode_header_value(headers.get(names.NAME)) != name:
        return _mismatch(names.NAME, f"params.{named_by}")
    return None


def _mismatch(header: str, field: str) -> Rejected:
    return Rejected(HEADER_MISMATCH, f"The {header} header and the body's {field} must say the same.")
