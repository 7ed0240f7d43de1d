"""Where commands are looked for that are not on the gateway's own PATH (UP-12).

A gateway that a desktop or a service manager started has a short PATH. A person's shell finds `npx` and `uvx` because
its start files say where they are, so the login shell is asked, once and bounded, and then the places where their
installers put them are looked at. Directories that others could put a program into are left out.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SHELLS: Final = frozenset(("bash", "zsh", "sh", "dash", "ksh", "fish"))
SHELL_TIMEOUT: Final = 2.0
GRACE: Final = 30.0
"""Seconds that a shell has to end once nobody waits for it any more, before each firmer word."""
MOST_OUTPUT: Final = 256 * 1024
ASK_AGAIN: Final = 600.0
"""Seconds after which the shell is asked anew: something may have been installed meanwhile."""
MOST_LISTED: Final = 12
LONGEST_PATH: Final = 32 * 1024
MACOS_ADMINS: Final = 80
"""The group that may write to Homebrew's directories, and may become root anyway."""
PASSED_ON: Final = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "PATH", "TMPDIR", "ZDOTDIR", "XDG_CONFIG_HOME",
                    "NVM_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "FNM_DIR", "VOLTA_HOME")  # fmt: skip
_VERSION: Final = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class SearchPath:
    """Directories beside those on the gateway's own PATH, in the order in which they are looked at."""

    directories: tuple[str, ...]
    shell: str | None
    """The login shell that was asked and answered."""

    def described(self) -> str:
        """For the person who wonders where a command was looked for."""
        asked = f"the PATH of your login shell ({os.path.basename(self.shell)})" if self.shell else None
        return ", ".join(filter(None, (asked, listed(self.directories))))


def listed(directories: Iterable[str]) -> str:
    """Each once, and not more than a person reads."""
    home = os.path.expanduser("~")
    shown = [f"~{one[len(home) :]}" if one.startswith(f"{home}/") else one for one in dict.fromkeys(directories)]
    more = f" and {len(shown) - MOST_LISTED} more" if len(shown) > MOST_LISTED else ""
    return ", ".join(shown[:MOST_LISTED]) + more


def beyond(own: str, environ: Mapping[str, str] = os.environ) -> SearchPath:
    """What there is beside the directories of this PATH. Takes up to two seconds the first time: not for the event
    loop."""
    shell, said = _LOGIN.path(environ)
    known = {os.path.normpath(one) for one in own.split(os.pathsep) if one}
    found: dict[str, None] = {}
    for one in (*said.split(os.pathsep), *well_known(environ)):
        place = os.path.normpath(one)
        if os.path.isabs(place) and place not in known and is_trusted(place):
            found[place] = None
    return SearchPath(tuple(found), shell)


def is_trusted(directory: str) -> bool:
    """Whether nobody but this user, root and those who are root anyway may put a program there."""
    try:
        found = os.stat(directory)
    except OSError:
        return False
    if not stat.S_ISDIR(found.st_mode):
        return False
    if sys.platform == "win32":
        return True
    groups = {0, os.getegid(), *((MACOS_ADMINS,) if sys.platform == "darwin" else ())}
    others = found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and found.st_gid not in groups)
    return not others and found.st_uid in (0, os.geteuid())


# Where installers put programs.


def well_known(environ: Mapping[str, str]) -> Iterable[str]:
    """The places that exist, those of a person's own choice of version first."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))

    def under(variable: str, otherwise: str) -> Path:
        said = environ.get(variable)
        return Path(said) if said and os.path.isabs(said) else home / otherwise

    places = [
        home / ".local/bin",
        home / ".cargo/bin",
        *_nvm(under("NVM_DIR", ".nvm")),
        *_fnm(under("FNM_DIR", ".local/share/fnm"), home / ".fnm", home / "Library/Application Support/fnm"),
        under("VOLTA_HOME", ".volta") / "bin",
        under("ASDF_DATA_DIR", ".asdf") / "shims",
        under("MISE_DATA_DIR", ".local/share/mise") / "shims",
        home / ".bun/bin",
        home / ".deno/bin",
        Path("/opt/homebrew/bin"),
        Path("/usr/local/bin"),
        Path("/home/linuxbrew/.linuxbrew/bin"),
        Path("/opt/local/bin"),
        Path("/snap/bin"),
        Path("/Applications/Docker.app/Contents/Resources/bin"),
        Path("/usr/bin"),
        Path("/bin"),
    ]
    return [str(place) for place in places if place.is_dir()]


def _nvm(root: Path) -> list[Path]:
    """Of the version that the alias `default` stands for; the newest where it stands for none that is installed."""
    versions = _versions(root / "versions/node")
    wanted = "default"
    for _ in range(5):  # an alias may stand for another one
        with contextlib.suppress(OSError, ValueError):
            wanted = (root / "alias" / wanted).read_text()[:100].strip()
            continue
        break
    chosen = next((one for one in versions if _stands_for(wanted, one.name)), None) or next(iter(versions), None)
    return [chosen / "bin"] if chosen else []


def _stands_for(wanted: str, version: str) -> bool:
    return _VERSION.fullmatch(wanted) is not None and f"{version}.".startswith(f"v{wanted.removeprefix('v')}.")


def _fnm(*roots: Path) -> list[Path]:
    found: list[Path] = []
    for root in roots:
        newest = [one / "installation/bin" for one in _versions(root / "node-versions")[:1]]
        chosen = root / "aliases/default/bin"
        found += [chosen] if chosen.is_dir() else newest
    return found


def _versions(root: Path) -> list[Path]:
    """Newest first."""
    try:
        there = [each for each in root.iterdir() if _VERSION.fullmatch(each.name)]
    except OSError:
        return []
    return sorted(there, key=lambda each: [int(part or 0) for part in _parts(each.name)], reverse=True)


def _parts(name: str) -> tuple[str | None, ...]:
    found = _VERSION.fullmatch(name)
    return found.groups() if found else ()


# What the login shell says.


class LoginShell:
    """Asked once by whoever comes first; the others wait for that answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._kept: tuple[float, str, str | None] | None = None

    def path(self, environ: Mapping[str, str]) -> tuple[str | None, str]:
        """The shell, where it answered, and its PATH; nothing where there is no shell that we know how to ask."""
        shell = login_shell(environ)
        if shell is None:
            return None, ""
        with self._lock:
            now = self._clock()
            if self._kept is None or self._kept[1] != shell or now - self._kept[0] > ASK_AGAIN:
                self._kept = (now, shell, ask(shell, environ))
            said = self._kept[2]
        return (None, "") if said is None else (shell, said)


def login_shell(environ: Mapping[str, str]) -> str | None:
    if sys.platform == "win32":
        return None
    shell = environ.get("SHELL")
    if not shell:
        import pwd

        with contextlib.suppress(KeyError):
            shell = pwd.getpwuid(os.geteuid()).pw_shell
    if not shell or os.path.basename(shell) not in SHELLS or not os.path.isabs(shell):
        return None
    return shell if shutil.which(shell) else None


def ask(shell: str, environ: Mapping[str, str], timeout: float = SHELL_TIMEOUT) -> str | None:
    """Its PATH, as an interactive login shell has it; as a login shell, where it cannot be interactive. None where it
    does not answer in time."""
    mark = f"mcpproxy-{os.urandom(8).hex()}"
    script = f"printf '%s' '{mark}<' \"$PATH\" '>{mark}'"
    env = {name: environ[name] for name in PASSED_ON if name in environ} | {"TERM": "dumb"}
    deadline = time.monotonic() + timeout
    for flags in ("-lic", "-lc"):
        if time.monotonic() < deadline and (answer := _said([shell, flags, script], env, mark.encode(), deadline)):
            return answer
    return None


def _said(command: list[str], env: Mapping[str, str], mark: bytes, deadline: float) -> str | None:
    """What stands between the marks; whatever else is printed, before or after, does not matter. It runs in a session
    of its own, so that no start file takes our terminal, and with nothing to read."""
    null = subprocess.DEVNULL
    try:
        shell = subprocess.Popen(
            command, stdin=null, stdout=subprocess.PIPE, stderr=null, env=dict(env), cwd="/", start_new_session=True
        )
    except OSError:
        return None
    assert shell.stdout
    said, found = b"", None
    with selectors.DefaultSelector() as ready:
        ready.register(shell.stdout, selectors.EVENT_READ)
        while found is None and len(said) <= MOST_OUTPUT and ready.select(max(0.0, deadline - time.monotonic())):
            chunk = os.read(shell.stdout.fileno(), 65_536)
            if not chunk:
                break
            said += chunk
            found = _between(said, mark)
    threading.Thread(target=_see_off, args=(shell,), daemon=True).start()
    return found


def _between(said: bytes, mark: bytes) -> str | None:
    _, begun, rest = said.partition(mark + b"<")
    path, ended, _ = rest.partition(b">" + mark)
    return os.fsdecode(path[:LONGEST_PATH]) if begun and ended else None


def _see_off(shell: subprocess.Popen[bytes]) -> None:
    """It ends by itself, or is told to as by a terminal that closes. Not killed at once: a start file that holds a
    lock, as that of pyenv does, would leave it behind, and every shell after it would wait for that. For the same
    reason its output is closed last."""
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(subprocess.TimeoutExpired):
            shell.wait(GRACE)
            break
        with contextlib.suppress(OSError):
            os.killpg(shell.pid, number)
    shell.wait()
    if shell.stdout:
        shell.stdout.close()


_LOGIN: Final = LoginShell()
