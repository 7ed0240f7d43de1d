"""The data directory and the keys in it: for their owner only, and an error that says how to mend it."""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import stat
import tempfile
from pathlib import Path
from typing import Final

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.files import PRIVATE_DIRECTORY, PRIVATE_FILE, locked, write_private
from mcpproxy_py.settings.loader import CONFIG_NAME
from mcpproxy_py.settings.secret_references import Keyring, Unresolved

KEY_NAME: Final = "admin.key"
SEAL_NAME: Final = "seal.key"
LOGIN_KEY_NAME: Final = "login.key"
IN_KEYRING: Final = "keyring:"
KEY_PREFIX: Final = "mcpk_"
# A directory that is empty or holds one of these is ours to close.
_OURS: Final = (KEY_NAME, CONFIG_NAME, "gateway.json", "store.lock")
_KEY: Final = re.compile(r"[!-~]{16,}")
_LOGIN_KEY: Final = re.compile(r"[!-~]{16,}|keyring:[ -~]+")
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_POSIX: Final = os.name == "posix"

_log = logging.getLogger("mcpproxy.settings")


def ensure_data_dir(path: Path) -> None:
    """Make the directory if need be, closed to others, and make sure that it can be written to."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=PRIVATE_DIRECTORY)
        _close_directory(path)
        _write_into(path)
    except OSError as error:
        raise _unwritable(path, error) from None


def check_data_dir(path: Path) -> None:
    """Whether there is or could be such a directory, with nothing made or changed."""
    if not os.path.lexists(path):
        above = nearest_there_is(path)
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            why = f"cannot be made, because {above} cannot be written"
            raise _unusable(path, why, f"make it writable with `chmod u+rwx {above}`")
        return
    try:
        if _is_open(path):
            raise _open_to_others(path)
        _write_into(path)
    except OSError as error:
        raise _unwritable(path, error) from None


def nearest_there_is(path: Path) -> Path:
    """This, or what it would be made in."""
    return next(each for each in (path, *path.parents) if os.path.exists(each))


def _is_open(path: Path) -> bool:
    return _POSIX and bool(path.stat().st_mode & _OTHERS)


def _write_into(path: Path) -> None:
    """Asking for permission is fooled by read-only file systems and by root; writing is not."""
    with tempfile.TemporaryFile(dir=path):
        pass


def _close_directory(path: Path) -> None:
    """A directory that nobody made for us is not ours to close: it might be /tmp, or somebody's home."""
    if not _is_open(path):
        return
    if path.stat().st_uid != os.geteuid() or not _is_ours(path):
        raise _open_to_others(path)
    path.chmod(PRIVATE_DIRECTORY)


def _is_ours(path: Path) -> bool:
    names = os.listdir(path)
    return not names or any(name in _OURS for name in names)


def _mend(path: Path, error: OSError) -> str:
    known = {errno.EROFS: "mount it writable", errno.ENOSPC: "free some space"}
    return known.get(
        error.errno or 0, f"open it for yourself with `chmod u+rwx {path}`, or with chown if it is not yours"
    )


def _unwritable(path: Path, error: OSError) -> GatewayError:
    return _unusable(path, f"cannot be written: {error.strerror}", _mend(path, error))


def _open_to_others(path: Path) -> GatewayError:
    return _unusable(path, "is open to other users", f"close it with `chmod 700 {path}`")


def _unusable(path: Path, why: str, mend: str) -> GatewayError:
    message = f"the data directory {path} {why}; {mend}, or choose another with --data-dir"
    return GatewayError(Code.CONFIG_INVALID, message, details={"path": str(path)})


def load_or_create_key(data_dir: Path) -> str:
    """The admin key, made at the first start. Of two that start at once, both get the same one."""
    path = data_dir / KEY_NAME
    with locked(data_dir):
        if not os.path.lexists(path):
            write_private(path, _new_key() + "\n")
    return _read_key(path)


def rotate_key(data_dir: Path) -> str:
    """A new admin key in place of the old one, which opens nothing from then on."""
    key = _new_key()
    write_private(data_dir / KEY_NAME, key + "\n")
    return key


def load_or_create_seal(data_dir: Path) -> bytes:
    """What this gateway signs with where something of ours travels through other hands; made at the first start."""
    path = data_dir / SEAL_NAME
    with locked(data_dir):
        if not os.path.lexists(path):
            write_private(path, secrets.token_urlsafe(32) + "\n")
    return _read_key(path).encode()


def login_keys(data_dir: Path, shared: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """What logins at servers are encrypted with. Gateways that share `sealing_keys` share logins as well; a gateway
    alone has a key in the keyring of the system, or in a file where there is none. Made once: which of the two it is,
    the file says."""
    path = data_dir / LOGIN_KEY_NAME
    if shared and not os.path.lexists(path):
        return shared
    with locked(data_dir):
        if not os.path.lexists(path):
            key = _new_key()
            name = f"logins of {data_dir.resolve()}"
            write_private(path, (IN_KEYRING + name if _put_into_keyring(name, key) else key) + "\n")
    said = _read_key(path, _LOGIN_KEY)
    if not said.startswith(IN_KEYRING):
        return (*shared, said.encode())
    try:
        return (*shared, Keyring().read(said.removeprefix(IN_KEYRING)).encode())
    except Unresolved as why:
        raise _bad_key(path, f"says that the key is in the system keyring, and {why}") from None


def login_key_place(data_dir: Path) -> str | None:
    """Where that key is; `None` before there is one."""
    path = data_dir / LOGIN_KEY_NAME
    if not os.path.lexists(path):
        return None
    return "the system keyring" if _read_key(path, _LOGIN_KEY).startswith(IN_KEYRING) else str(path)


def _put_into_keyring(name: str, key: str) -> bool:
    keyring = Keyring()
    try:
        keyring.write(name, key)
        return keyring.read(name) == key
    except Unresolved as why:
        _log.info("logins at servers are encrypted with a key in %s: %s", LOGIN_KEY_NAME, why)
        return False


def _new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def _read_key(path: Path, shape: re.Pattern[str] = _KEY) -> str:
    """Opened once and looked at through the descriptor, so that it cannot be swapped between look and read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with open(descriptor, encoding="ascii", errors="replace") as file:
            _close_file(descriptor, path)
            key = file.read(4096).strip()
    except OSError as error:
        raise _bad_key(path, f"cannot be read: {error.strerror}") from None
    if not shape.fullmatch(key):
        raise _bad_key(path, "holds no key")
    return key


def _close_file(descriptor: int, path: Path) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise _bad_key(path, "is not a file")
    if not _POSIX or not found.st_mode & _OTHERS:
        return
    os.fchmod(descriptor, PRIVATE_FILE)
    _log.warning("%s was open to other users and is private now; `mcpproxy key rotate` makes a new key", path)


def _bad_key(path: Path, why: str) -> GatewayError:
    message = f"the key file {path} {why}; remove it to have a new one made"
    return GatewayError(Code.CONFIG_INVALID, message, details={"path": str(path)})
