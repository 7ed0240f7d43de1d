"""The profiles that a client of `mcpproxy stdio` is in (SURF-12): one that a person named, those of the project in
whose directory it was started, and those of the roots that it tells. They only ever get more.

No input or output here, but for the projects' files.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, Final

from mcpproxy_py.cli.stdio.attach import NotAttached
from mcpproxy_py.cli.stdio.conversation import ClientLine
from mcpproxy_py.cli.stdio.project import ProjectError, profiles_at

OLDER: Final = (
    "the gateway that runs is of a version that has no profiles, so nothing was sent to it; run `mcpproxy restart`"
)
MOST_ASKED: Final = 16
ASKED_AFTER: Final = ("notifications/initialized", "notifications/roots/list_changed")


class ClientProfiles:
    def __init__(self, names: list[str]) -> None:
        self.names = list(names)
        self._told = secrets.token_hex(16)
        """The word by which the gateway tells that we narrow, and not the client."""
        self.narrowed = _encoded({"narrowed": self._told})[:-1]
        """How its answers begin."""
        self._known: list[str] = []
        """By the gateway that is attached to."""
        self._can_be_narrowed = False
        self._has_roots = False
        self._own = f"mcpproxy-roots-{secrets.token_hex(8)}-"
        self._asked: set[str] = set()
        self._count = 0

    def add(self, names: list[str]) -> None:
        self.names += [name for name in names if name not in self.names]

    # The gateway.

    @property
    def wish(self) -> dict[str, Any]:
        """What the first line says of it."""
        self._known = list(self.names)
        return {"profiles": self._known, "narrow": self._told}

    def attached(self, answer: dict[str, Any]) -> None:
        """Raises `NotAttached` for a gateway that would not narrow at all."""
        self._can_be_narrowed = answer.get("profiles") == self._known
        if self._known and not self._can_be_narrowed:
            raise NotAttached(OLDER)

    def told_next(self) -> bytes:
        """The lines that tell it what was found out since. Raises `NotAttached` where it would not understand."""
        names = [name for name in self.names if name not in self._known]
        if names and not self._can_be_narrowed:
            raise NotAttached(OLDER)
        self._known = [*self._known, *names]
        return b"".join(map(self._narrowing, names))

    @property
    def nothing(self) -> bytes:
        """That nothing is in scope any more: no profile has this name."""
        return self._narrowing("") if self._can_be_narrowed else b""

    def _narrowing(self, name: str) -> bytes:
        return _encoded({"narrow": self._told, "profile": name}) + b"\n"

    def refused(self, line: bytes) -> str | None:
        """Why it does not narrow, where it says so."""
        error = json.loads(line).get("error")
        return None if error is None else str(error)

    # The client.

    def question(self, line: ClientLine) -> bytes | None:
        """What the client is asked when it has sent this."""
        if line.method == "initialize":
            capabilities = line.params.get("capabilities")
            self._has_roots = isinstance(capabilities, dict) and isinstance(capabilities.get("roots"), dict)
        if not self._has_roots or line.method not in ASKED_AFTER or len(self._asked) >= MOST_ASKED:
            return None
        self._count += 1
        self._asked.add(asked := f"{self._own}{self._count}")
        return _encoded({"jsonrpc": "2.0", "id": asked, "method": "roots/list"}) + b"\n"

    def is_answer(self, line: ClientLine) -> bool:
        return line.is_answer and line.id in self._asked

    def add_roots(self, line: ClientLine) -> None:
        """Raises `ProjectError`. A client that has no answer works where it was started."""
        self._asked.discard(str(line.id))
        message = line.message or {}
        if "result" not in message:
            return
        result = message["result"]
        roots = result.get("roots") if isinstance(result, dict) else None
        if not isinstance(roots, list):
            raise ProjectError("the client's answer to roots/list holds no list of roots, so nothing is in scope")
        uris = [each.get("uri") for each in roots if isinstance(each, dict)]
        self.add(profiles_at(uri for uri in uris if isinstance(uri, str)))


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()
