"""Where this gateway can be found: the address it binds, its private socket, and the file that tells our commands."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mcpproxy_py import __version__
from mcpproxy_py.errors import Code, GatewayError

log = logging.getLogger(__name__)

ANNOUNCEMENT: Final = "gateway.json"
BACKLOG: Final = 2048
SOCKET_PATH_LIMIT: Final = 100
"""Unix sockets have short names: 104 bytes on macOS, 108 on Linux."""
REACHABLE_AS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def bind(host: str, port: int, *, or_any_port: bool) -> socket.socket:
    """A listening socket. A detached gateway takes any port rather than fail the IDE that started it."""
    try:
        return _bound(host, port)
    except OSError as error:
        if or_any_port:
            log.warning("%s:%d is in use (%s); using another port", host, port, error.strerror)
            return _bound(host, 0)
        raise GatewayError(
            Code.CONFLICT,
            f"Cannot listen on {host}:{port}: {error.strerror}. Stop what uses it, or choose another: "
            f"mcpproxy serve --listen {host}:{port + 1}",
        ) from None


def _bound(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def bind_private(path: Path) -> socket.socket:
    """A listening unix socket that only its owner can open, from its first moment on."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    except OSError as error:
        listener.close()
        raise GatewayError(Code.CONFLICT, f"Cannot listen on {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


def url_of(listener: socket.socket) -> str:
    """The address to give to somebody on this machine."""
    bound: tuple[str, int] = listener.getsockname()[:2]
    host, port = REACHABLE_AS.get(bound[0], bound[0]), bound[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def socket_path(data_dir: Path) -> Path:
    """In the data directory, or, where that name is too long for a socket, in a private place of ours."""
    path = data_dir / "mcp.sock"
    if len(os.fsencode(path)) < SOCKET_PATH_LIMIT:
        return path
    digest = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:16]
    private = Path(tempfile.gettempdir()) / f"mcpproxy-{os.getuid()}-{digest}"
    private.mkdir(mode=0o700, exist_ok=True)
    found = private.lstat()
    if private.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise GatewayError(Code.CONFLICT, f"{private} belongs to somebody else; choose a shorter --data-dir")
    return private / "mcp.sock"


def rest_socket_path(data_dir: Path) -> Path:
    """HTTP, as at the address, for our own commands: whoever can open it may be told the admin key (SEC-8)."""
    return socket_path(data_dir).with_name("api.sock")


@contextlib.contextmanager
def announced(data_dir: Path, url: str, socket_file: Path) -> Iterator[None]:
    """Where we are, in a file for our own commands, for as long as it is true."""
    path = data_dir / ANNOUNCEMENT
    draft = path.with_suffix(f".{secrets.token_hex(4)}")
    draft.touch(mode=0o600)
    rest = rest_socket_path(data_dir)
    where = {"url": url, "socket": str(socket_file), "rest_socket": str(rest)}
    # When it was started tells one run from the next, which may be the same process; see `app/restart.py`.
    run = {"pid": os.getpid(), "started": time.time(), "restarts": True}
    draft.write_text(json.dumps({**run, **where, "version": __version__}))
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        rest.unlink(missing_ok=True)
