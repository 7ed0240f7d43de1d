"""Which gateway a command is about: its data directory, its address, and the key that opens it."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.errors import Code, GatewayError

# Said here once more than in the settings, because asking those costs a fifth of a second.
DEFAULT_DATA_DIR: Final = "~/.mcpproxy"
CONFIG_NAME: Final = "mcp_config.json"
DEFAULT_PORT: Final = 8080
EVERY_ADDRESS: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class NoGatewayError(GatewayError):
    """Nothing listens there, so nothing has run, and a command may do the work on the files itself."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.NOT_REACHABLE, message)


@dataclass(frozen=True, slots=True)
class Where:
    """What the person said about where the gateway is; everything not said is looked up."""

    data_dir: Path | None = None
    config: Path | None = None
    listen: str | None = None
    typed: frozenset[str] = frozenset()
    """Which of these were flags, not variables of the environment."""

    @property
    def is_named(self) -> bool:
        """Whether a person pointed at this very gateway, so that no file may be changed in its stead."""
        return "listen" in self.typed

    def loaded(self, config: Path | None = None) -> Any:
        """The settings, also of another file. Environment variables are left to the settings themselves, which know
        their rank."""
        from mcpproxy_py import settings

        flags: dict[str, Any] = {name: getattr(self, name) for name in self.typed}
        if config is not None:
            flags["config"] = config
        listen = flags.pop("listen", None)
        return settings.load(**flags, overrides={"listen": listen} if listen else None)

    def check(self, text: str) -> Any:
        """What is wrong with this as the text of our configuration file, environment and secrets included."""
        from mcpproxy_py import settings

        data_dir = self.data_dir if "data_dir" in self.typed else None
        overrides = {"listen": self.listen} if "listen" in self.typed else None
        return settings.check_text(text, self.config_path(), data_dir=data_dir, overrides=overrides)

    def home(self) -> Path:
        """The data directory, asked of the settings only where the configuration file could move it."""
        if self.data_dir is None and '"data_dir"' in (_text_of(self.config_path()) or ""):
            return self.loaded().settings.data_dir
        return self._said_home()

    def config_path(self) -> Path:
        """Where the configuration file is, or would be."""
        return self.config or self._said_home() / CONFIG_NAME

    def _said_home(self) -> Path:
        return self.data_dir or Path(DEFAULT_DATA_DIR).expanduser()

    def url(self) -> str:
        """The gateway's base URL: as said, else as the running gateway announced it, else as configured."""
        if self.listen:
            return base_url(self.listen)
        return announced(self.home()) or base_url(self.loaded().settings.listen)

    def private_socket(self, url: str) -> Path | None:
        """The socket for commands of the gateway at this URL, where it is that of our own data directory."""
        try:
            home = self.home()
        except GatewayError:
            return None  # a broken configuration is nothing to a gateway that was named
        written = announcement(home)
        if written is None or written.get("rest_socket") is None or announced(home) != url:
            return None
        path = Path(str(written["rest_socket"]))
        return path if is_private(path, home) else None

    @property
    def is_a_way(self) -> bool:
        """Whether a URL was said, which may lead through a tunnel or a proxy, and not the gateway's own address."""
        return is_url(self.listen or "")

    def keys(self) -> Iterator[str]:
        """Admin keys to try, best first. The environment's is meant and stands alone."""
        said = os.environ.get("MCPPROXY_API_KEY", "").strip()
        if said:
            yield said
            return
        kept = _text_of(self.home() / "admin.key")
        if kept:
            yield kept
        # A broken configuration must not hide that the gateway did not take the key.
        with suppress(GatewayError):
            configured = self.configured_key()
            if configured and configured != kept:
                yield configured

    def configured_key(self) -> str | None:
        secret = self.loaded().settings.api_key
        return secret.get_secret_value() if secret else None


def announced(data_dir: Path) -> str | None:
    """The URL in `gateway.json`, if the gateway that wrote it is alive."""
    written = announcement(data_dir)
    return written["url"].rstrip("/") if written else None


def announcement(data_dir: Path) -> dict[str, Any] | None:
    """What the gateway of this directory said of itself, if the process it named is alive."""
    try:
        written = json.loads(_text_of(data_dir / "gateway.json") or "null")
    except ValueError:
        return None
    if not isinstance(written, dict) or not isinstance(written.get("url"), str):
        return None
    return written if is_alive(written.get("pid")) else None


def is_private(path: Path, data_dir: Path) -> bool:
    """A socket of ours in a data directory of ours, where nobody else could have put it."""
    try:
        found, above, home = path.lstat(), path.parent.lstat(), data_dir.stat()
    except (OSError, ValueError):
        return False
    theirs = stat.S_IWGRP | stat.S_IWOTH
    return (
        stat.S_ISSOCK(found.st_mode)
        and stat.S_ISDIR(above.st_mode)
        and found.st_uid == above.st_uid == home.st_uid == os.geteuid()
        and not (above.st_mode | home.st_mode) & theirs
    )


def is_alive(pid: object) -> bool:
    """Whether there is a process of this number, whoever's it is."""
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return False
    if sys.platform == "win32":
        return True  # There, signal 0 is Ctrl-C and would interrupt it; a dead address is found on connecting.
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def base_url(listen: str) -> str:
    """`HOST:PORT`, `HOST`, `:PORT`, `PORT` or a URL as a URL one can connect to."""
    text = listen.strip().rstrip("/")
    if is_url(text):
        return text
    host, port = _host_and_port(text)
    host = EVERY_ADDRESS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = ("", ":", text) if text.isascii() and text.isdigit() else text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.endswith("]")):
        host, port = text, str(DEFAULT_PORT)
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise GatewayError(Code.BAD_REQUEST, f"'{text}' is not an address to connect to; write HOST:PORT or a URL")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError):
        return None
