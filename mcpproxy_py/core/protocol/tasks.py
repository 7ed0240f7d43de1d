"""The tasks extension: work that goes on after its call was answered, and that somebody asks about until it ends.

Whose task it is travels in its id at the direct surface, through hands that cannot be trusted: what we hand out is
sealed, and names the server, the task, who began it, and how risky that was. What a server says of a task is read
here, bounded, and believed no further than that.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol.client_channel import ClientChannel, NarrowedChannel
from mcpproxy_py.core.protocol.extensions import EXTENSIONS, TASKS
from mcpproxy_py.core.protocol.request_state import questions_of
from mcpproxy_py.core.values import NOTHING, RANK, Operation

DECLARED: Final[Mapping[str, Any]] = {"extensions": {TASKS: {}}}
TASK: Final = "task"
"""The `resultType` of an answer that says that the work goes on."""
GET: Final = "tasks/get"
UPDATE: Final = "tasks/update"
CANCEL: Final = "tasks/cancel"
OPEN: Final = frozenset(("working", "input_required"))
ENDED: Final = frozenset(("completed", "failed", "cancelled"))
LONGEST_ID: Final = 1024
LONGEST_HANDLE: Final = 8192
LONGEST_MESSAGE: Final = 500
SOONEST: Final = 0.1
LATEST: Final = 30.0
USUAL: Final = 1.0
"""Seconds between two questions how it goes: the least, the most, and where a server does not say."""
GRACE: Final = 3600.0
LONGEST_LIFE: Final = 30 * 86_400.0
"""Seconds. How long a task may live is its server's to say, and to change; for so long we know whose it is."""


class TaskOrigin(NamedTuple):
    """A task of a server's, and the call that it belongs to. Times are in seconds."""

    server: str
    id: str
    principal: str
    ask_id: str
    tool: str
    risk: Operation
    began: float
    expires: float
    mark: str
    """Which server began it, as `request_state.server_mark` has it."""


class TaskState(NamedTuple):
    """What a server said of a task."""

    status: str
    message: str
    wait: float
    """Seconds until it may be asked again."""
    questions: Mapping[str, tuple[str, dict[str, Any]]]
    result: Mapping[str, Any] | None
    """Of one that is completed."""
    error: Mapping[str, Any] | None
    """Of one that failed: a JSON-RPC error."""

    @property
    def failure(self) -> str:
        """Why it failed, as its server says."""
        said = (self.error or NOTHING).get("message")
        return said if isinstance(said, str) else self.message or "the task failed"


def declares(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client follows tasks itself."""
    return TASKS in (json_values.as_object(capabilities.get("extensions")) or {})


def with_tasks(channel: ClientChannel) -> ClientChannel:
    """As a server hears of it whose tasks are followed here."""
    declared = channel.capabilities
    return NarrowedChannel(channel, {**declared, EXTENSIONS: {**declared.get(EXTENSIONS, NOTHING), TASKS: {}}})


def without_tasks(capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
    """As a session-based server hears of them, whose revision has no such tasks."""
    if not declares(capabilities):
        return capabilities
    others = {name: said for name, said in capabilities[EXTENSIONS].items() if name != TASKS}
    rest = {name: said for name, said in capabilities.items() if name != EXTENSIONS}
    return {**rest, EXTENSIONS: others} if others else rest


def id_of(begun: Mapping[str, Any]) -> str | None:
    """The id of a task that can be asked about; `None` where there is none that could be passed on."""
    said = begun.get("taskId")
    fits = isinstance(said, str) and 0 < len(said) <= LONGEST_ID and said.isprintable()
    return said if fits and json_values.flaw(said, 1) is None else None


def expires(begun: Mapping[str, Any], now: float) -> float:
    """Until when somebody has to know whose it is."""
    ttl = begun.get("ttlMs")
    if not isinstance(ttl, int | float) or isinstance(ttl, bool) or ttl != ttl:
        return now + LONGEST_LIFE
    return now + min(max(ttl, 0) / 1000 + GRACE, LONGEST_LIFE)


def wait_of(said: Mapping[str, Any]) -> float:
    interval = said.get("pollIntervalMs")
    if not isinstance(interval, int | float) or isinstance(interval, bool) or interval != interval:
        return USUAL
    return min(max(interval / 1000, SOONEST), LATEST)


def state_of(said: Mapping[str, Any], task_id: str) -> TaskState | str:
    """What `tasks/get` was answered with, or what is wrong with that."""
    if said.get("resultType", "complete") not in ("complete", TASK):
        return f"it answered {GET} with another type of result"
    if said.get("taskId") != task_id:
        return f"it answered {GET} with another task than it was asked about"
    status = said.get("status")
    if not isinstance(status, str) or status not in OPEN | ENDED:
        return f"it answered {GET} with a status that there is none of"
    questions = questions_of(said) if status == "input_required" else {}
    result = json_values.as_object(said.get("result")) if status == "completed" else None
    error = json_values.as_object(said.get("error")) if status == "failed" else None
    if status == "completed" and result is None:
        return "its task is completed and has no result"
    if result is not None and result.get("resultType", "complete") != "complete":
        return "its task is completed with something that is no result"
    if status == "failed" and error is None:
        return "its task failed and has no error"
    message = said.get("statusMessage")
    shown = json_values.quoted(message, LONGEST_MESSAGE) if isinstance(message, str) else ""
    return TaskState(status, shown, wait_of(said), questions, result, error)


def seal(task: TaskOrigin, key: bytes) -> str:
    """The id under which a client knows it."""
    body = urlsafe_b64encode(json.dumps(task, separators=(",", ":")).encode()).decode().rstrip("=")
    return f"{body}.{_mac(body, key)}"


def unseal(handle: object, keys: Sequence[bytes], principal: str, now: float) -> TaskOrigin | None:
    """What one of our keys has signed, for who it was signed for, while it is good; `None` for anything else."""
    if not isinstance(handle, str) or len(handle) > LONGEST_HANDLE or not handle.isascii():
        return None
    body, _, mac = handle.partition(".")
    if not any(hmac.compare_digest(mac, _mac(body, key)) for key in keys):
        return None
    task = origin_of(json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4))))
    return task if task is not None and task.principal == principal and task.expires > now else None


def origin_of(kept: object) -> TaskOrigin | None:
    """One that was written down, read back."""
    fields = json_values.as_array(kept)
    if fields is None or len(fields) != len(_KEPT) or not all(map(isinstance, fields, _KEPT)) or fields[5] not in RANK:
        return None
    return TaskOrigin(*fields)


_KEPT: Final = (str, str, str, str, str, str, int | float, int | float, str)


def _mac(body: str, key: bytes) -> str:
    return hmac.new(key, b"mcpproxy task 1\0" + body.encode(), sha256).hexdigest()
