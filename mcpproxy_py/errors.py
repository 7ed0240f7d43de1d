"""One vocabulary of failures, and the one table that says what each means at every boundary.

A refusal is an expected answer, so inside the gateway it travels as a value (`core.values.Refusal`).
`GatewayError` is for what stops a request before there is an ask: bad credentials, a wrong filter, a
configuration that cannot be read. Both carry a `Code`, and only `FACTS` turns a code into an HTTP
status, an exit status or a hint.

The one way the store fails.

The one exception this room raises at its callers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Code(StrEnum):
    """Every way an ask or a request can be turned down. Closed: a new one needs a row in `FACTS`."""

    # The declaration, phase one and two.
    MISSING_INTENT = "MISSING_INTENT"
    MISSING_OPERATION_TYPE = "MISSING_OPERATION_TYPE"
    INVALID_OPERATION_TYPE = "INVALID_OPERATION_TYPE"
    INVALID_INTENT = "INVALID_INTENT"
    INTENT_CONFLICT = "INTENT_CONFLICT"
    INTENT_MISMATCH = "INTENT_MISMATCH"
    SERVER_MISMATCH = "SERVER_MISMATCH"
    INVALID_SENSITIVITY = "INVALID_SENSITIVITY"
    REASON_TOO_LONG = "REASON_TOO_LONG"
    # The call itself.
    INVALID_NAME = "INVALID_NAME"
    ARGS_CONFLICT = "ARGS_CONFLICT"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    TOOL_UNAVAILABLE = "TOOL_UNAVAILABLE"
    SERVER_UNAVAILABLE = "SERVER_UNAVAILABLE"
    OVERLOADED = "OVERLOADED"
    TIMEOUT = "TIMEOUT"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    NOT_CONFIRMED = "NOT_CONFIRMED"
    FROZEN = "FROZEN"
    INSUFFICIENT_SCOPE = "INSUFFICIENT_SCOPE"
    UPSTREAM_ERROR = "UPSTREAM_ERROR"
    RESULT_NOT_KEPT = "RESULT_NOT_KEPT"
    # Requests that never become an ask.
    BAD_REQUEST = "BAD_REQUEST"
    UNAUTHORIZED = "UNAUTHORIZED"
    KEY_NEEDED = "KEY_NEEDED"
    IDENTITY_UNAVAILABLE = "IDENTITY_UNAVAILABLE"
    FOREIGN_HOST = "FOREIGN_HOST"
    FOREIGN_ORIGIN = "FOREIGN_ORIGIN"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    CONFLICT = "CONFLICT"
    TOO_LARGE = "TOO_LARGE"
    CONFIG_INVALID = "CONFIG_INVALID"
    NOT_REACHABLE = "NOT_REACHABLE"
    INTERNAL = "INTERNAL"


@dataclass(frozen=True, slots=True)
class Fact:
    """What a code means outside the gateway."""

    http: int
    exit: int
    hint: str


EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_REFUSED: Final = 3
EXIT_UNREACHABLE: Final = 4
EXIT_NOT_VERIFIABLE: Final = 5

_R = EXIT_REFUSED

FACTS: Final[Mapping[Code, Fact]] = {
    Code.MISSING_INTENT: Fact(422, _R, "Declare an intent whose operation_type equals the variant."),
    Code.MISSING_OPERATION_TYPE: Fact(422, _R, "Add operation_type: read, write or destructive."),
    Code.INVALID_OPERATION_TYPE: Fact(422, _R, "Use read, write or destructive."),
    Code.INVALID_INTENT: Fact(422, _R, "Send intent as an object with operation_type, data_sensitivity and reason."),
    Code.INTENT_CONFLICT: Fact(422, _R, "Declare the intent once, nested or flat."),
    Code.INTENT_MISMATCH: Fact(403, _R, "Make the variant and intent.operation_type the same."),
    Code.SERVER_MISMATCH: Fact(403, _R, "Call the variant that the message names, with that intent."),
    Code.INVALID_SENSITIVITY: Fact(422, _R, "Use public, internal, private or unknown, or leave it out."),
    Code.REASON_TOO_LONG: Fact(422, _R, "Shorten the reason to 1000 characters."),
    Code.INVALID_NAME: Fact(422, _R, "Name the tool as server:tool, exactly as retrieve_tools gives it."),
    Code.ARGS_CONFLICT: Fact(422, _R, "Give args or args_json, not two different ones."),
    Code.INVALID_ARGUMENTS: Fact(422, _R, "Correct the arguments to fit the tool's inputSchema."),
    Code.TOOL_NOT_FOUND: Fact(404, _R, "Search with retrieve_tools and use a name from its results."),
    Code.TOOL_UNAVAILABLE: Fact(403, _R, "Ask the person who runs this gateway to enable it."),
    Code.SERVER_UNAVAILABLE: Fact(503, _R, "Try again shortly; `mcpproxy upstream list` shows its state."),
    Code.OVERLOADED: Fact(429, _R, "Wait for calls in flight to finish, then try again."),
    Code.TIMEOUT: Fact(504, EXIT_FAILED, "The server did not answer in time; it may have acted."),
    Code.STORE_UNAVAILABLE: Fact(503, _R, "Nothing above read runs while it cannot be recorded."),
    Code.NOT_CONFIRMED: Fact(403, _R, "A person has to confirm this call."),
    Code.FROZEN: Fact(423, _R, "Only reads run until a person lifts it with `mcpproxy unfreeze`."),
    Code.INSUFFICIENT_SCOPE: Fact(403, _R, "Authorize again, with the scopes that WWW-Authenticate names."),
    Code.UPSTREAM_ERROR: Fact(502, EXIT_FAILED, "The server answered with an error; see its message."),
    Code.RESULT_NOT_KEPT: Fact(404, _R, "Call the tool again for its result."),
    Code.BAD_REQUEST: Fact(400, EXIT_USAGE, "Correct the request."),
    Code.UNAUTHORIZED: Fact(401, EXIT_FAILED, "Send the admin key (`mcpproxy key show`) or the agent token."),
    Code.KEY_NEEDED: Fact(403, EXIT_FAILED, "Use the command line, which has the admin key."),
    Code.IDENTITY_UNAVAILABLE: Fact(503, EXIT_FAILED, "Try again shortly; `mcpproxy doctor` says what is wrong."),
    Code.FOREIGN_HOST: Fact(421, EXIT_FAILED, "Add the host to allowed_hosts."),
    Code.FOREIGN_ORIGIN: Fact(403, EXIT_FAILED, "Add the origin to allowed_origins."),
    Code.NOT_FOUND: Fact(404, EXIT_FAILED, "Check the name or id."),
    Code.METHOD_NOT_ALLOWED: Fact(405, EXIT_USAGE, "See /api/v1/openapi.json for the routes."),
    Code.CONFLICT: Fact(409, EXIT_FAILED, "Something of that name exists already."),
    Code.TOO_LARGE: Fact(413, EXIT_USAGE, "Send less."),
    Code.CONFIG_INVALID: Fact(422, EXIT_USAGE, "Correct the configuration; `mcpproxy config validate` checks it."),
    Code.NOT_REACHABLE: Fact(503, EXIT_UNREACHABLE, "Start the gateway with `mcpproxy serve`."),
    Code.INTERNAL: Fact(500, EXIT_FAILED, "This is a bug in mcpproxy; the log has the details."),
}


class RpcError(Exception):
    """A JSON-RPC error: what one side of the gateway says, and the other must hear with its code and data."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_json(self) -> dict[str, Any]:
        said = {"code": self.code, "message": self.message}
        return said if self.data is None else {**said, "data": self.data}


class GatewayError(Exception):
    """A request turned down before it became an ask. `message` is for people; `details` is JSON."""

    def __init__(
        self, code: Code, message: str, *, details: Mapping[str, Any] | None = None, hint: str | None = None
    ) -> None:
        """`hint` where the code's own does not fit."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details or {})
        self.hint = hint

    def as_json(self) -> dict[str, Any]:
        """The one JSON shape every error of the REST interface has."""
        return error_json(self.code, self.message, self.details, self.hint)


def error_json(
    code: Code, message: str, details: Mapping[str, Any] | None = None, hint: str | None = None
) -> dict[str, Any]:
    hint = hint or FACTS[code].hint
    return {"error": {"code": code.value, "message": message, "hint": hint, "details": dict(details or {})}}


class StoreUnavailable(GatewayError):
    """The store cannot write, or cannot be opened. The message names the path and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.STORE_UNAVAILABLE, message)


class UpstreamFailure(Exception):
    """A request that got no result. `sent` is whether anything of it may have reached the upstream.

    `code` is SERVER_UNAVAILABLE, OVERLOADED, TIMEOUT or UPSTREAM_ERROR. For an error that the upstream
    answered with, `data` holds its JSON-RPC `code` and `data`.
    """

    def __init__(self, code: Code, message: str, *, data: Mapping[str, Any] | None = None, sent: bool = True) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data: dict[str, Any] = dict(data or {})
        self.sent = sent


FORGOTTEN = "the server no longer knows this session"
MAY_HAVE_ACTED = "the call was in flight, and the server may have acted"


def lost(why: str, sent: bool) -> UpstreamFailure:
    """The connection went away before the answer came."""
    outcome = MAY_HAVE_ACTED if sent else "nothing had been sent"
    return UpstreamFailure(Code.SERVER_UNAVAILABLE, f"{why}; {outcome}", sent=sent)


def bad_answer(message: str, data: Mapping[str, Any] | None = None) -> UpstreamFailure:
    """The upstream answered, but with an error or with nothing usable."""
    return UpstreamFailure(Code.UPSTREAM_ERROR, message, data=data)
