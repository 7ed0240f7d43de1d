"""How a client is to reach this gateway: the command that it starts, or the address that it calls, and whether it
needs the agent token for that."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from mcpproxy_py.cli.clients.documents import Syntax
from mcpproxy_py.cli.clients.editing import edits
from mcpproxy_py.cli.clients.editing.values import Addition
from mcpproxy_py.cli.clients.entries import Launch
from mcpproxy_py.cli.gateway.locate import Where
from mcpproxy_py.errors import Code, GatewayError

TOKEN_FILE: Final = "agent.token"
TOKEN_PREFIX: Final = "mcpa_"
_PASSING: Final = ("/uv/archive-v", "/.cache/uv/", "/pipx/.cache/")
"""Where uvx and pipx run keep what they delete again."""


def data_dir(where: Where) -> Path:
    """The data directory, which is in the home directory if nobody said otherwise."""
    try:
        found = where.home()
    except RuntimeError:
        found = Path()
    if not found.is_absolute() or (where.data_dir is None and os.environ.get("HOME") == ""):
        remedy = "Set HOME, or give --data-dir DIR."
        raise GatewayError(Code.CONFLICT, "There is no home directory: HOME is not set", details={"remedy": remedy})
    return found


def program() -> tuple[str, ...]:
    """How to start this very program from anywhere: desktop clients have no PATH of yours."""
    beside = [Path(sys.argv[0]), Path(sys.executable).with_name("mcpproxy")]
    found = [path for path in beside if path.stem == "mcpproxy" and path.is_file() and os.access(path, os.X_OK)]
    on_path = shutil.which("mcpproxy")
    if found or on_path:
        return (str(Path(found[0] if found else on_path or "").absolute()),)
    return (sys.executable, "-m", "mcpproxy_py")


def is_passing(command: tuple[str, ...]) -> bool:
    """Whether the program lies where it will be deleted."""
    return any(part in command[0] for part in _PASSING)


def by_stdio(where: Where, token_file: Path | None = None, profile: str | None = None) -> Launch:
    """`mcpproxy stdio`, with what was said of the gateway passed on."""
    said = [("--data-dir", where.data_dir), ("--config", where.config), ("--token-file", token_file),
            ("--profile", profile)]  # fmt: skip
    options = [part for name, value in said if value is not None for part in (name, str(value))]
    return Launch("stdio", (*program(), "stdio", *options))


def by_http(where: Where, profile: str | None = None) -> Launch:
    path = "/mcp" if profile is None else f"/mcp/p/{profile}"
    return Launch("http", url=f"{where.url()}{path}", needs_token=needs_token(where))


def check_profile(where: Where, name: str) -> None:
    """Raises `GatewayError` for one that the configuration does not have, as far as it can be read here."""
    if where.is_named:
        return
    known = where.loaded().settings.profiles
    if name not in known:
        names = f" There are {', '.join(known)}." if known else ""
        remedy = "Add it to `profiles` in the configuration, or see `mcpproxy profiles list`."
        raise GatewayError(Code.NOT_FOUND, f"There is no profile '{name}'.{names}", details={"remedy": remedy})


def all_ways(where: Where) -> list[Launch]:
    """All that leads to this gateway, as far as its configuration can be read."""
    ways = [by_stdio(where)]
    with suppress(GatewayError, RuntimeError):  # a broken configuration, no home directory
        ways.append(Launch("http", url=f"{where.url()}/mcp"))
    return ways


def needs_token(where: Where) -> bool:
    """Whether an agent has to say the token over HTTP."""
    host = urlsplit(where.url()).hostname or ""
    from mcpproxy_py.settings.fields import is_loopback

    if where.is_named and not is_loopback(host):
        return True
    settings = where.loaded().settings
    return settings.mcp_token is not None or settings.require_mcp_auth or settings.listens_publicly


def lacks_token(where: Where) -> bool:
    """Whether a token is needed that nobody has made yet, and that can be made here."""
    return not where.is_named and needs_token(where) and where.loaded().settings.mcp_token is None


def make_token(where: Where) -> Path:
    """A new agent token in a file of the data directory, and the setting that refers to it."""
    from mcpproxy_py import settings
    from mcpproxy_py.files import write_private

    home, config = data_dir(where), where.config_path()
    file = home / TOKEN_FILE
    before = config.read_text(encoding="utf-8") if config.exists() else ""
    setting: Any = Addition(("mcp_token",), f"${{file:{file}}}")
    after, _ = edits.add(before, Syntax.JSON, setting, config)
    settings.ensure_data_dir(home)
    write_private(file, f"{TOKEN_PREFIX}{secrets.token_urlsafe(32)}\n")
    problems = settings.validate_text(after, origin=str(config))
    if problems:
        raise GatewayError(Code.CONFIG_INVALID, "\n".join(problems), details={"problems": problems})
    if before:
        write_private(config.with_name(f"{config.name}.bak"), before)
    write_private(config.resolve(), after)
    return file
