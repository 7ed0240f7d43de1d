"""What must not be shown, and how it looks instead."""

from __future__ import annotations

import re
from typing import Any, Final

from mcpproxy_py.core.record.masking import mask_text
from mcpproxy_py.settings.document import KeyPath
from mcpproxy_py.settings.models import Settings

MASK: Final = "***"
_SECRET_KEYS: Final = ("mcp_token", "api_key", "sealing_keys", "database_url")
_SECRET_MAPPINGS: Final = ("env", "headers")
_WORDS: Final = "token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth"
_WORD: Final = rf"[\w.-]*(?:{_WORDS})[\w.-]*"
_USERINFO: Final = re.compile(r"(?<=://)[^\s/?#]*@")
_QUERY: Final = re.compile(rf"(?<=[?&])({_WORD}|key|sig|signature|code)=[^&#\s]*", re.IGNORECASE)
_NAMED: Final = re.compile(rf"^(-*{_WORD}\s*[=:])(?!//).*", re.IGNORECASE | re.DOTALL)
_OPTION: Final = re.compile(rf"--?{_WORD}", re.IGNORECASE)


def is_secret_place(path: KeyPath) -> bool:
    """Whether the value at this path is a secret, or part of one."""
    if path and path[0] == "mcpServers":
        return len(path) > 2 and path[2] in _SECRET_MAPPINGS
    return any(key in _SECRET_KEYS for key in path)


def masked_text(text: str) -> str:
    """The text without the secrets people put into addresses, options and headers."""
    text = _QUERY.sub(rf"\1={MASK}", _USERINFO.sub(MASK + "@", text))
    return mask_text(_NAMED.sub(rf"\1{MASK}", text))


def masked_args(args: list[str]) -> list[str]:
    """Arguments, where `--token` makes a secret of the one that follows it."""
    return [_masked_arg(before, arg) for before, arg in zip(["", *args], args, strict=False)]


def _masked_arg(before: str, arg: str) -> str:
    return MASK if _OPTION.fullmatch(before) and not arg.startswith("-") else masked_text(arg)


def shown(settings: Settings) -> dict[str, Any]:
    """The effective settings as JSON, for `config show`: secrets masked, references as they were written."""
    found = settings.model_dump(mode="json", by_alias=True)
    for key in ("mcp_token", "api_key"):
        found[key] = found[key] and MASK
    found["sealing_keys"] = [MASK for _ in settings.sealing_keys]
    found["activity"]["database_url"] = found["activity"]["database_url"] and MASK
    for name, server in found["mcpServers"].items():
        _mask_server(server, _written(settings, name))
    return found


def _written(settings: Settings, name: str) -> Any:
    servers = settings.written.get("mcpServers")
    return servers.get(name, {}) if isinstance(servers, dict) else {}


def _mask_server(server: dict[str, Any], written: dict[str, Any]) -> None:
    for key in _SECRET_MAPPINGS:
        server[key] = dict.fromkeys(server[key], MASK)
    server["args"] = masked_args(list(written.get("args", server["args"])))
    if server["url"]:
        server["url"] = masked_text(written.get("url", server["url"]))
    for entry in [server, *(entry for entries in server["tools"].values() for entry in entries)]:
        for key in [key for key, value in entry.items() if value is None]:
            del entry[key]
