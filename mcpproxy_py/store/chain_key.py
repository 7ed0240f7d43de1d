"""Who this gateway is: the name of its chain, the key that seals it, and the chain's head as it is kept elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.files import FILE_MODE, explained, private_file
from mcpproxy_py.store.journal.chain import START, ChainHead, Sealer

KEY = "chain.key"
NAME = "chain.name"
HEAD = "chain.head"
_KEY_BYTES = 32


class Identity(NamedTuple):
    name: str
    key: bytes

    @property
    def key_id(self) -> str:
        """Tells keys apart and gives none away."""
        return sha256(b"mcpproxy chain key" + self.key).hexdigest()[:16]

    def sealer(self, chain: str | None = None) -> Sealer:
        return Sealer(self.key, chain or self.name)


def identity(data_dir: Path, *, make: bool = True) -> Identity:
    """The one of this data directory, made at the first start.

    Raises `StoreUnavailable` for a key that is there and is none: a new one would make all that was sealed
    with the old one look forged. Who only looks does not `make` one.
    """
    if not make and not (has_identity(data_dir) and (data_dir / KEY).is_file()):
        raise StoreUnavailable(
            f"there is no chain key in {data_dir}: without it nothing of its record can be verified."
        )
    name = _kept(data_dir / NAME, lambda: secrets.token_hex(8))
    text = _kept(data_dir / KEY, lambda: secrets.token_hex(_KEY_BYTES))
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < _KEY_BYTES or not name:
        raise StoreUnavailable(
            f"{data_dir / KEY} or {data_dir / NAME} is damaged. Restore it from a backup; without it nobody can tell "
            "whether the record was changed. Moving both and the journal away begins a new chain."
        )
    return Identity(name, key)


def has_identity(data_dir: Path) -> bool:
    """Whether a gateway has used this directory before; the key alone may have been copied there."""
    return (data_dir / NAME).is_file()


def _kept(path: Path, make: Callable[[], str]) -> str:
    """What the file says; it is made, whole or not at all, where there is none."""
    with explained(path, "read"):
        if not path.exists():
            put_private(path, f"{make()}\n")
        os.close(private_file(path))  # closed to others, should somebody have copied it openly
        return path.read_text("ascii", "replace").strip()


def put_private(path: Path, text: str) -> None:
    """A small file of our own: whole, on the disk and for its owner only, or as it was."""
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.rename(path)


def published_head(data_dir: Path, chain: str) -> ChainHead:
    """How long this chain was at least, when that was last written down; the start where it never was."""
    with contextlib.suppress(OSError, ValueError):
        head, _, name = (data_dir / HEAD).read_text("ascii", "replace").strip().partition(" ")
        return ChainHead.read(head) if name == chain else START
    return START


def publish_head(data_dir: Path, chain: str, head: ChainHead) -> None:
    """For events that are on the disk: a head that outlived them in a power cut would tell of a cut that was none.
    Written over in place and not synced, because this is done often and the next one is as good."""
    with contextlib.suppress(OSError, StoreUnavailable):
        descriptor = private_file(data_dir / HEAD)
        try:
            os.ftruncate(descriptor, os.pwrite(descriptor, f"{head} {chain}\n".encode(), 0))
        finally:
            os.close(descriptor)


_ANCHOR: Final = re.compile(
    r"(?P<said>mcpproxy-anchor-v1,chain=(?P<chain>[^,\s]{1,200}),seq=(?P<seq>[0-9]{1,18}),mac=(?P<mac>[0-9a-f]{64})"
    r",at=(?P<at>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)),sum=(?P<sum>[0-9a-f]{8})"
)


class Anchor(NamedTuple):
    """The head of a chain, to be kept where nobody who can change the record can change it. `at` is the gateway's
    clock when it was given."""

    chain: str
    head: ChainHead
    at: str

    @classmethod
    def now(cls, chain: str, head: ChainHead) -> Anchor:
        return cls(chain, head, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    @classmethod
    def read(cls, line: str) -> Anchor:
        """Raises `ValueError` for what is none, or no whole one."""
        found = _ANCHOR.fullmatch(line.strip())
        if found is None or found["sum"] != _checksum(found["said"]):
            raise ValueError(
                "that is no anchor, or not all of one: it is the line that `mcpproxy activity anchor` prints"
            )
        return cls(found["chain"], ChainHead(int(found["seq"]), found["mac"]), found["at"])

    @property
    def line(self) -> str:
        said = f"mcpproxy-anchor-v1,chain={self.chain},seq={self.head.seq},mac={self.head.mac},at={self.at}"
        return f"{said},sum={_checksum(said)}"

    def as_json(self) -> dict[str, object]:
        return {"anchor": self.line, "chain": self.chain, "seq": self.head.seq, "mac": self.head.mac, "at": self.at}


def _checksum(said: str) -> str:
    """Against a slip of the hand: a line that was typed wrong must not pass for a record that was rolled back."""
    return sha256(said.encode()).hexdigest()[:8]
