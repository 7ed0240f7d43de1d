"""Who this gateway is: the name of its chain, and the key that seals it, each in a file of its own."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from mcpproxy_py.store.chain import START, Head, Sealer
from mcpproxy_py.store.failure import StoreUnavailable
from mcpproxy_py.store.files import FILE_MODE, explained, private_file

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


def identity(data_dir: Path) -> Identity:
    """The one of this data directory, made at the first start.

    Raises `StoreUnavailable` for a key that is there and is none: a new one would make all that was sealed
    with the old one look forged.
    """
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


def _kept(path: Path, make: Callable[[], str]) -> str:
    """What the file says; it is made, whole or not at all, where there is none."""
    with explained(path, "read"):
        if not path.exists():
            _put(path, f"{make()}\n")
        os.close(private_file(path))  # closed to others, should somebody have copied it openly
        return path.read_text("ascii", "replace").strip()


def _put(path: Path, text: str) -> None:
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.rename(path)


def published_head(data_dir: Path, chain: str) -> Head:
    """How long this chain was at least, when that was last written down; the start where it never was."""
    with contextlib.suppress(OSError, ValueError):
        head, _, name = (data_dir / HEAD).read_text("ascii", "replace").strip().partition(" ")
        return Head.read(head) if name == chain else START
    return START


def publish_head(data_dir: Path, chain: str, head: Head) -> None:
    """For events that are on the disk: a head that outlived them in a power cut would tell of a cut that was none.
    Written over in place and not synced, because this is done often and the next one is as good."""
    with contextlib.suppress(OSError, StoreUnavailable):
        descriptor = private_file(data_dir / HEAD)
        try:
            os.ftruncate(descriptor, os.pwrite(descriptor, f"{head} {chain}\n".encode(), 0))
        finally:
            os.close(descriptor)
