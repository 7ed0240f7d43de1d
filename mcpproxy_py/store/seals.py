"""What opens something counts only with a seal (ACT-10): a switch, a decision on a request.

Who can write the database can write any row. So a row that a gateway is to believe carries MACs over its contents,
one under each key that this gateway has outside of the database: its chain's, and the `sealing_keys` that gateways of
one database share. One that holds is enough. Before the row is written, an event of the chain says the same, which is
what `verify` compares it with.

A seal alone cannot tell an old row, put back, from the present one. So switches are counted, and each gateway keeps the
last count it saw in a file of its own.
"""

from __future__ import annotations

import hmac
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.files import explained
from mcpproxy_py.store.chain_key import Identity, put_private
from mcpproxy_py.store.codec import encode
from mcpproxy_py.store.options import Options

log = logging.getLogger(__name__)

MEMORY: Final = "switches.json"
SWITCH: Final = "switch"
"""The kind of event that says how a switch was set."""
RECORD: Final = "record"
"""The kind of event that says what became of a record, by the digest of its value."""
NOT_KEPT: Final = "record_not_kept"
"""The kind of event that says of one of these that its row could perhaps not be written."""
DECIDED: Final = "decided"
"""The kind of event that says what was decided, by the digest of the request as it is then."""
OnRecord = Callable[[Mapping[str, Any]], None]
"""Puts an event into the chain; it is on the disk when this returns. Raises `StoreUnavailable`."""


@contextmanager
def noted_if_not_kept(on_record: OnRecord) -> Iterator[list[str]]:
    """For the ids of the events of a change. What is on record by then and whose row did not come to be, or nobody
    knows: that is on record too."""
    told: list[str] = []
    try:
        yield told
    except BaseException:
        with suppress(StoreUnavailable):
            for event in told:
                note_not_kept(on_record, event)
        raise


def note_not_kept(on_record: OnRecord, event: str) -> None:
    on_record({"kind": NOT_KEPT, "id": event, "at": time.time()})


class Seals:
    """Seals with every key it has, and believes any of them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = [hmac.digest(key, b"mcpproxy saved state", "sha256") for key in keys]

    @classmethod
    def of(cls, who: Identity, options: Options) -> Seals:
        return cls([who.key, *(key.encode() for key in options.sealing_keys)])

    @property
    def key_ids(self) -> list[str]:
        """Tell keys apart and give none away."""
        return [sha256(b"id of" + key).hexdigest()[:16] for key in self._keys]

    def seal(self, *parts: Any) -> str:
        return " ".join(self._macs(parts))

    def holds(self, seal: str | None, *parts: Any) -> bool:
        given = (seal or "").encode("utf-8", "replace").split()
        ours = [mac.encode() for mac in self._macs(parts)]
        return any(hmac.compare_digest(each, mac) for each in given for mac in ours)

    def _macs(self, parts: Sequence[Any]) -> list[str]:
        text = encode(list(parts))
        return [hmac.new(key, text, sha256).hexdigest() for key in self._keys]


class SwitchState(NamedTuple):
    """A switch as this gateway last knew it."""

    version: int
    value: Any


class SwitchMemory:
    """The switches as this gateway last knew them, in its data directory. The file is there from its first start on."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / MEMORY
        self._turn = Lock()
        self.is_new = not self._path.exists()
        self.key_ids: list[str] = []
        self._known: dict[str, SwitchState] = {}
        if not self.is_new:
            self._read()

    def _read(self) -> None:
        try:
            with explained(self._path, "read"):
                kept = json.loads(self._path.read_bytes())
            self.key_ids = [str(each) for each in kept["keys"]]
            self._known = {
                name: SwitchState(int(version), value) for name, (version, value) in kept["switches"].items()
            }
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise StoreUnavailable(
                f'{self._path} is damaged. Restore it from a backup, or write {{"keys": [], "switches": {{}}}} into '
                "it: what is sealed in the database counts then."
            ) from None

    def known(self, name: str) -> SwitchState | None:
        return self._known.get(name)

    @property
    def switches(self) -> Mapping[str, SwitchState]:
        return dict(self._known)

    def remember(self, name: str, version: int, value: Any) -> None:
        with self._turn:
            if self._known.get(name) != SwitchState(version, value):
                self._known[name] = SwitchState(version, value)
                self._write()

    def begin(self, key_ids: list[str]) -> None:
        """From now on the file is there; `key_ids` are those of the keys that everything is sealed with."""
        with self._turn:
            if self.is_new or key_ids != self.key_ids:
                self.is_new, self.key_ids = False, key_ids
                self._write()

    def _write(self) -> None:
        kept = {"keys": self.key_ids, "switches": self._known}
        with explained(self._path, "write"):
            put_private(self._path, encode(kept).decode() + "\n")


class UnbelievedRows:
    """What was read and is not believed, for those who look after the gateway. Each is logged once."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def found(self, what: str, message: str) -> None:
        if self._found.get(what) != message:
            self._found[what] = message
            log.error("%s", message)

    def settled(self, what: str) -> None:
        self._found.pop(what, None)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._found.values()))
