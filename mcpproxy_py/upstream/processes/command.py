"""What a server writes to stderr, kept small and private.

How a stdio server is started: with which environment, from where, and what to say when that fails.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mcpproxy_py.core.record.masking import mask_text
from mcpproxy_py.errors import Code, UpstreamFailure
from mcpproxy_py.files import PRIVATE_FILE
from mcpproxy_py.upstream.processes import search_path
from mcpproxy_py.upstream.processes.last_words import STDOUT, telling
from mcpproxy_py.upstream.spec import UpstreamSpec

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_WINDOWS: Final = (
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME",
    "USERPROFILE", "WINDIR",
)  # fmt: skip
_USER_INFO: Final = re.compile(r"^([a-z][a-z0-9+.-]*://)?.*@", re.IGNORECASE | re.DOTALL)
HARMLESS: Final = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    *_PROXIES, *(name.lower() for name in _PROXIES),
    *(f"LC_{name}" for name in (
        "ALL", "ADDRESS", "COLLATE", "CTYPE", "IDENTIFICATION", "MEASUREMENT", "MESSAGES", "MONETARY", "NAME",
        "NUMERIC", "PAPER", "TELEPHONE", "TIME",
    )),
    *(f"XDG_{name}" for name in (
        "CACHE_HOME", "CONFIG_DIRS", "CONFIG_HOME", "DATA_DIRS", "DATA_HOME", "RUNTIME_DIR", "STATE_HOME",
    )),
    *(_WINDOWS if sys.platform == "win32" else ()),
})  # fmt: skip
LONGEST_REASON: Final = 1000
HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("npx", "npm", "node", "pnpm", "yarn"), "install Node.js: https://nodejs.org"),
    **dict.fromkeys(("uvx", "uv"), "install uv: https://docs.astral.sh/uv"),
    **dict.fromkeys(("bun", "bunx"), "install Bun: https://bun.sh"),
    "docker": "install Docker: https://docs.docker.com/get-docker", "deno": "install Deno: https://deno.com",
    "pipx": "install pipx: https://pipx.pypa.io",
}  # fmt: skip


def child_environment(spec: UpstreamSpec, own: Mapping[str, str], cookie: Mapping[str, str]) -> dict[str, str]:
    """A list of what a child may have, not of what it may not: secrets have too many names (UP-1).

    What the operator wrote under `env` is given as it is, except that it cannot take the cookie away. A proxy is named
    without the password for it, which only a server that was given it under `env` has.
    """
    is_windows = sys.platform == "win32"
    names = [name for name in own if (name.upper() if is_windows else name) in HARMLESS]
    harmless = {name: _without_password(name, own[name]) for name in names}
    return {**harmless, **spec.env, **cookie}


def _without_password(name: str, value: str) -> str:
    return _USER_INFO.sub(r"\1", value) if name.upper() in _PROXIES else value


class ResolvedCommand(NamedTuple):
    program: str
    """With its full path."""
    path: str | None
    """The PATH it is started with, where that is another one than the environment's: what was found beyond that needs
    its neighbours as well, as `npx` needs `node`."""


def resolve(spec: UpstreamSpec, env: Mapping[str, str]) -> ResolvedCommand:
    """The program to run. Raises `UpstreamFailure` with a sentence a person can act on. May take two seconds where the
    command is not on the PATH of `env`."""
    command, own = spec.command or "", env.get("PATH") or os.defpath
    if spec.cwd is not None and not Path(spec.cwd).is_dir():
        raise _unstartable(f"the working directory does not exist: {spec.cwd}")
    if (relative := _relative(spec)) is not None:
        raise _unstartable(relative)
    if os.path.dirname(command):
        command = str(Path(spec.cwd or ".", os.path.expanduser(command)))
    if (found := shutil.which(command, path=own)) is not None:
        return ResolvedCommand(os.path.abspath(found), None)
    if os.path.dirname(command) or not command or "PATH" in spec.env:
        raise _unstartable(_why_not_found(command, "looked only in the PATH that its `env` gives"))
    more = search_path.beyond(own)
    wider = os.pathsep.join(more.directories)
    if more.directories and (found := shutil.which(command, path=wider)) is not None:
        return ResolvedCommand(os.path.abspath(found), os.pathsep.join((own, wider)))
    places = filter(None, (f"looked in PATH ({search_path.listed(own.split(os.pathsep))})", more.described()))
    raise _unstartable(_why_not_found(command, ", ".join(places)))


def on_own_path(spec: UpstreamSpec, env: Mapping[str, str]) -> bool:
    """Whether `resolve` answers at once."""
    command = spec.command or ""
    return bool(os.path.dirname(command)) or shutil.which(command, path=env.get("PATH") or os.defpath) is not None


def working_directory(spec: UpstreamSpec) -> str | None:
    """Where it runs: what its entry says, else one directory of the gateway's, where no project is: `npx` runs what it
    finds in a `node_modules` around it."""
    if spec.cwd is not None or spec.work_dir is None:
        return spec.cwd
    place = Path(spec.work_dir)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        package = place / "package.json"  # here npm ends its search upwards
        package.touch(mode=PRIVATE_FILE)
        package.chmod(PRIVATE_FILE)
        if not package.stat().st_size:
            package.write_text('{"private": true}\n')
    except OSError as error:
        raise _unstartable(f"the working directory {place} cannot be made: {error.strerror}") from None
    return spec.work_dir


def _relative(spec: UpstreamSpec) -> str | None:
    """Why a path in its command will not be found, where it has no working directory of its own to start from."""
    if spec.cwd is not None or spec.work_dir is None:
        return None
    for arg in (spec.command or "", *spec.args):
        dotted = arg in (".", "..") or arg.startswith(("./", "../"))
        if (dotted or _is_file_here(arg)) and not (arg.strip("./") and Path(spec.work_dir, arg).exists()):
            return (
                f"{arg} is a relative path, and servers run in {spec.work_dir}: give the full path, or set `cwd` to "
                "the directory it is in"
            )
    return None


def _is_file_here(arg: str) -> bool:
    """A script beside which the gateway was started, as it was found when servers ran there."""
    if not arg or arg.startswith("-") or os.path.isabs(arg) or not (os.path.dirname(arg) or Path(arg).suffix):
        return False
    with contextlib.suppress(OSError, ValueError):
        return Path(arg).is_file()
    return False


def _why_not_found(command: str, looked: str) -> str:
    if os.path.dirname(command) and Path(command).is_file():
        return f"the command is not executable: {command} (chmod +x it)"
    hint = HINTS.get(os.path.basename(command), "install it, or give its full path")
    said = f"command not found: {command or '(none given)'} ({hint})"
    return f"{said}; {looked}"[:LONGEST_REASON] if command and not os.path.dirname(command) else said


def _unstartable(why: str) -> UpstreamFailure:
    return UpstreamFailure(Code.SERVER_UNAVAILABLE, why, sent=False)


def ending(status: int | None) -> str:
    """How a command ended, in words."""
    if status is None:
        return "the command closed its output"
    if status >= 0:
        return f"the command ended with exit status {status}"
    try:
        return f"the command was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"the command was killed by signal {-status}"


logger = logging.getLogger(__name__)

MAX_BYTES: Final = 1024 * 1024

RECENT: Final = 8192
"""Characters of what was said last. Frames may come after the reason."""
LONGEST_STDOUT: Final = 300
MOST_UNMASKED: Final = 8192
"""Of a line that does not end."""
_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[^\n]{0,30}")


class ServerLog:
    """Appends to `<name>.log` and, at the cap, moves it to `<name>.log.1`, line by line and without secrets. Never
    raises: a full disk must not take a server down, and the server itself must never wait for us to read."""

    def __init__(self, path: Path, limit: int = MAX_BYTES, mask: Callable[[str], str] = mask_text) -> None:
        self._file = _Rolling(path, limit)
        self._mask = mask
        self._recent = ""
        self._rest = b""
        """The beginning of a line."""
        self._in_key = False

    def beside(self) -> ServerLog:
        """For another process of the same server: one file, but each has last words of its own."""
        other = ServerLog(self._file.path, mask=self._mask)
        other._file = self._file
        return other

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def last_words(self) -> str:
        """What it said since its start that tells most of why it ended, as the end of a sentence; empty where it said
        nothing."""
        begun = self._without_secrets(self._rest.decode("utf-8", "replace"))
        said = telling((self._recent + begun).splitlines())
        if said.startswith(STDOUT):
            return f"; it wrote to stdout, where only MCP messages belong: {said.removeprefix(STDOUT)}"
        return f"; it last wrote: {said}" if said else ""

    def write_stdout(self, data: bytes) -> None:
        """What it wrote to stdout and is no message: a person who looks for what is wrong looks here."""
        self.write(STDOUT.encode() + data[:LONGEST_STDOUT].replace(b"\n", b" ") + b"\n")

    def write(self, data: bytes) -> None:
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        if len(rest) > MOST_UNMASKED:
            whole, newline, rest = whole + newline + rest, b"\n", b""
        self._rest = rest
        if whole or newline:
            self._keep((whole + newline).decode("utf-8", "replace"))

    def _keep(self, lines: str) -> None:
        shown = self._without_secrets(lines)
        begins = lines.rfind("-----BEGIN ")
        if _KEY_BEGINS.match(lines, begins if begins >= 0 else len(lines)):
            self._in_key = _KEY_ENDS.search(lines, begins) is None
        elif self._in_key:
            self._in_key = _KEY_ENDS.search(lines) is None
        self._recent = (self._recent + shown)[-RECENT:]
        self._file.write(shown.encode())

    def _without_secrets(self, text: str) -> str:
        """A private key may come line by line."""
        if self._in_key:
            end = _KEY_ENDS.search(text)
            text = "" if end is None else text[end.end() :]
        return self._mask(text)

    def begin(self, line: str) -> None:
        """Mark a new start; what an earlier process said is no longer the last line."""
        self.write(f"--- {line}\n".encode())
        self._recent = ""

    def close(self) -> None:
        if self._rest:
            self._keep(self._rest.decode("utf-8", "replace") + "\n")
            self._rest = b""
        self._file.close()


class _Rolling:
    """The file itself. It is opened with the first thing written, also after it was closed."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self._limit = limit
        self._file: int | None = None
        self._size = 0
        self._complained = False

    def write(self, data: bytes) -> None:
        try:
            self._append(data[-self._limit :])
        except OSError as error:
            self._complain(error)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, data: bytes) -> None:
        if self._file is None:
            self._open()
        if self._size and self._size + len(data) > self._limit:
            self._roll_over()
        assert self._file is not None
        self._size += os.write(self._file, data)

    def _open(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        self._size = os.fstat(self._file).st_size

    def _roll_over(self) -> None:
        self.close()
        os.replace(self.path, self.path.with_name(self.path.name + ".1"))
        self._open()

    def _complain(self, error: OSError) -> None:
        if not self._complained:
            self._complained = True
            logger.warning("%s cannot be written: %s", self.path, error)
