"""Completion in the shell: names that the running gateway knows, and those that this program knows itself.

Somebody pressed a key and waits, so an answer takes a second at most, and whatever goes wrong is no answer. Names come
from servers, which nobody trusts, and shells evaluate what completion gives them: of such names only those are given
that no shell takes for anything but a word.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, get_args

import typer

PATIENCE: Final = 1.0
PATIENCE_VARIABLE: Final = "_MCPPROXY_COMPLETE_SECONDS"
"""Another patience, for a machine that is slow."""
MOST: Final = 200
SAFE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@+-]{0,199}")
VARIABLE: Final = "_MCPPROXY_COMPLETE"
CLIENTS: Final = (
    "claude-code", "claude-desktop", "cursor", "vscode", "windsurf", "gemini-cli", "codex", "opencode", "zed", "cline",
    "goose",
)  # fmt: skip


def fitting(names: Iterable[object], incomplete: str) -> list[str]:
    """Those that begin so, and that no shell takes for anything but a word."""
    found = {name for name in names if isinstance(name, str) and SAFE.fullmatch(name) and name.startswith(incomplete)}
    return sorted(found)[:MOST]


def server_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the running gateway; without one, those in the configuration file."""
    where = _where(ctx)
    found = _within_a_second(lambda: [row["name"] for row in _asked(where, "servers")["servers"]])
    return fitting(found or _within_a_second(lambda: _configured(where)), incomplete)


def tool_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """As server:tool. Of those that are too many, the first part has to be typed."""
    where, server = _where(ctx), incomplete.partition(":")[0] if ":" in incomplete else None
    found = _within_a_second(lambda: [row["name"] for row in _asked(where, "tools", server=server)["tools"]])
    return fitting(found, incomplete)


def bare_tool_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Without their servers, as the record has them."""
    where = _where(ctx)
    found = _within_a_second(lambda: [row["name"].partition(":")[2] for row in _asked(where, "tools")["tools"]])
    return fitting(found, incomplete)


def approval_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of what waits for a decision."""
    where = _where(ctx)
    found = _within_a_second(
        lambda: [
            *(row["id"] for row in _asked(where, "confirmations", status="waiting").get("confirmations", ())),
            *(row["approval_id"] for row in _asked(where, "approvals", status="pending")["approvals"]),
        ]
    )
    return fitting(found, incomplete)


def token_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of those that have not ended."""
    where = _where(ctx)
    found = _within_a_second(
        lambda: [row["name"] for row in _asked(where, "tokens")["tokens"] if row["state"] != "revoked"]
    )
    return fitting(found, incomplete)


def waiting_subjects(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the server that is named already: what waits for a decision."""
    where, server = _where(ctx), ctx.params.get("server")
    found = _within_a_second(
        lambda: [each["subject"].removeprefix("tool:") for each in _asked(where, "pins", str(server))["differences"]]
    )
    return fitting(found, incomplete) if server else []


def statuses(incomplete: str) -> list[str]:
    from mcpproxy_py.core.values import Status

    return fitting(get_args(Status), incomplete)


def client_names(incomplete: str) -> list[str]:
    return fitting(CLIENTS, incomplete)


def catalog_slugs(incomplete: str) -> list[str]:
    """Of the shipped catalog."""

    def slugs() -> list[str]:
        from mcpproxy_py.providers.catalog.load import load_servers

        return list(load_servers())

    return fitting(_within_a_second(slugs), incomplete)


def addable_slugs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the shipped catalog, and of what registries said before: none is asked because of a key that was pressed."""
    where = _where(ctx)
    return fitting([*catalog_slugs(incomplete), *_within_a_second(lambda: kept_names(where))], incomplete)


def kept_names(where: Any) -> list[str]:
    """The names of what registries said before."""
    from mcpproxy_py.providers.registry.kept import every_name

    return every_name(where.home())


def setting_keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the configuration file, and those of its servers."""
    where = _where(ctx)

    def keys() -> list[str]:
        from mcpproxy_py.settings import ServerSettings
        from mcpproxy_py.settings.environment import fields_by_key, known_keys

        own = [f"mcpServers.{name}" for name in _configured(where)]
        return [key for key, _ in known_keys()] + [
            f"{name}.{key}" for name in own for key in fields_by_key(ServerSettings)
        ]

    return fitting(_within_a_second(keys), incomplete)


def _where(ctx: typer.Context) -> Any:
    from mcpproxy_py.cli.common import session_of

    return session_of(ctx).where


def _asked(where: Any, *path: str, **query: Any) -> dict[str, Any]:
    """Only the gateway of the data directory, over its private socket: nothing is sent anywhere because of a key that
    was pressed."""
    from mcpproxy_py.cli.gateway.client import RestClient
    from mcpproxy_py.cli.gateway.locate import announced

    url = announced(where.home())
    if where.is_named or url is None or where.private_socket(url) is None:
        return {}
    return RestClient(where).get(*path, **query)


def profile_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the configuration file."""
    where = _where(ctx)
    return fitting(_within_a_second(lambda: _configured(where, "profiles")), incomplete)


def _configured(where: Any, key: str = "mcpServers") -> list[str]:
    servers = json.loads(where.config_path().read_text(encoding="utf-8-sig")).get(key, {})
    if isinstance(servers, list):
        return [server["name"] for server in servers]
    return [name for name in servers if not name.startswith("//")]


def _within_a_second(work: Callable[[], list[str]]) -> list[str]:
    """What it gives, or nothing: where it fails, or is too slow."""
    found: list[str] = []

    def run() -> None:
        with contextlib.suppress(BaseException):
            found.extend(work())

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    with contextlib.suppress(ValueError):
        worker.join(float(os.environ.get(PATIENCE_VARIABLE, PATIENCE)))
    return list(found)


# The bridge to the shell.


def complete(app: Callable[..., Any]) -> None:
    """Answer the shell. Bash takes a colon for the end of a word, so for bash `server:tool` is put together first, and
    the part that stands there already is taken off what is answered."""
    standing = _join_words() if os.environ.get(VARIABLE) == "complete_bash" else ""
    answer = io.StringIO()
    try:
        # Whatever somebody logs or prints on the way is not for the line that is being typed.
        with contextlib.redirect_stdout(answer), contextlib.redirect_stderr(io.StringIO()):
            app(prog_name="mcpproxy")
    finally:
        for line in answer.getvalue().splitlines():
            print(line.removeprefix(standing))
        sys.stdout.flush()


def _join_words() -> str:
    """Put the words together that bash took apart at a colon. What of the last one it will not replace."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    last = os.environ.get("COMP_CWORD", "")
    if not last.isdigit() or int(last) >= len(words):
        return ""
    joined: list[str] = []
    for word in words[: int(last) + 1]:
        colon = word != "" and not word.strip(":")
        option = joined and joined[-1].startswith("--") and (word == "=" or joined[-1].endswith("="))
        if len(joined) > 1 and (colon or option or joined[-1].endswith(":")):
            joined[-1] += word
        else:
            joined.append(word)
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    whole = joined[-1]
    return "" if whole == words[int(last)] else whole[: whole.rfind(":") + 1]
