"""The rounds of a modern request: a server ends its turn with questions, the client comes back with answers.

Which call an answer belongs to travels in `requestState`, through hands that cannot be trusted. So what we
hand out is sealed: signed under a key of ours, and bound to who asked, what for, where, and until when.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

from mcpproxy_py.core import json_values

ROUND_KEYS: Final = ("inputResponses", "requestState")
LONGEST_STATE: Final = 256 * 1024
MAX_QUESTIONS: Final = 64
LONGEST_ANSWERS: Final = 1 << 20
"""Characters of what a client answers in one round."""


INPUT_REQUIRED: Final = "input_required"
"""The `resultType` of a modern server that asks back."""


def questions_of(result: Mapping[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Method and params of each question, by its key; what is none is left out."""
    asked = json_values.as_object(result.get("inputRequests")) or {}
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for key, question in list(asked.items())[:MAX_QUESTIONS]:
        parts = json_values.as_object(question) or {}
        if isinstance(method := parts.get("method"), str):
            found[key] = method, json_values.as_object(parts.get("params")) or {}
    return found


def answers_problem(said: object, max_depth: int) -> str | None:
    """Why these answers of a client cannot be sent on, or `None`."""
    if json_values.as_object(said) is None:
        return f"they are no object, but {json_values.kind(said)}"
    if (problem := json_values.flaw(said, max_depth)) is not None:
        return problem
    if len(json_values.text_of(said)) > LONGEST_ANSWERS:
        return f"they are longer than {LONGEST_ANSWERS} characters"
    return None


def answers_to(result: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """What the next round carries besides the request itself."""
    state = result.get("requestState")
    return {**({"inputResponses": dict(said)} if said else {}), **({} if state is None else {"requestState": state})}


@dataclass(frozen=True, slots=True)
class RequestState:
    """What our `requestState` says: which ask goes on, whose it is, and until when."""

    ask_id: str
    principal: str
    digest: str
    """Of what was asked, and at which door: a state is good for no other request."""
    expires: float
    gateway: str
    """Which process made it; a call that is held there waits nowhere else."""
    held: int = 0
    """The number of the round, for a call that is held; 0 where the upstream keeps its own state, `inner`."""
    inner: Any = None
    server: str = ""
    """The server that asked, as `server_mark` has it; empty for a call that is held, which waits at its server."""


WHAT: Final[Mapping[str, Sequence[str]]] = {
    "tools/call": ("name", "arguments"),
    "prompts/get": ("name", "arguments"),
    "resources/read": ("uri",),
}
"""The requests that may take several rounds, and which of their parameters say what is asked for. A client may add
others from round to round, which nobody reads."""


def digest(surface: str, method: str, params: Mapping[str, Any]) -> str:
    """Of what a request asks for, without what changes from round to round. Of a method that is not in the table, which
    may be held for a person's yes, that is everything else."""
    keys = WHAT[method] if method in WHAT else sorted(params.keys() - {"_meta", *ROUND_KEYS})
    stays = {key: params[key] for key in keys if key in params}
    text = json.dumps([surface, method, stays], sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()


def seal(state: RequestState, key: bytes) -> str:
    body = urlsafe_b64encode(json.dumps(asdict(state), separators=(",", ":")).encode())
    return f"{body.decode()}.{_mac(body, key)}"


def unseal(token: object, keys: Sequence[bytes]) -> RequestState | None:
    """What one of our keys has signed; None for anything else. Says nothing about time, person or request."""
    if not isinstance(token, str) or len(token) > LONGEST_STATE or not token.isascii():
        return None
    body, _, mac = token.partition(".")
    if not any(hmac.compare_digest(mac, _mac(body.encode(), key)) for key in keys):
        return None
    return RequestState(**json.loads(urlsafe_b64decode(body)))


def server_mark(identity: str, key: bytes) -> str:
    """Which server began something, for who holds the key: the identity is of secrets too."""
    return hmac.new(key, b"mcpproxy server 1\0" + identity.encode(), sha256).hexdigest()


def began(mark: str, keys: Sequence[bytes], identity: str) -> bool:
    """Whether the server of this identity is the one that was marked."""
    return any(hmac.compare_digest(mark, server_mark(identity, key)) for key in keys)


def key_of(token: str) -> str:
    """What a state that `unseal` took is known by, so that it can be told when it comes again."""
    return token.partition(".")[2]


def _mac(body: bytes, key: bytes) -> str:
    return hmac.new(key, b"mcpproxy requestState 1\0" + body, sha256).hexdigest()
