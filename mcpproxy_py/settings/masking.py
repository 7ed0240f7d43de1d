"""What must not be shown, and how it looks instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcpproxy_py.core.record.masking import mask_text
from mcpproxy_py.settings.document import KeyPath
from mcpproxy_py.settings.models import Settings
from mcpproxy_py.settings.secret_references import is_reference
from mcpproxy_py.settings.servers import ProviderSettings, ServerSettings

MASK: Final = "***"
_SECRET_KEYS: Final = ("mcp_token", "api_key", "sealing_keys", "database_url")
_SECRET_MAPPINGS: Final = ("env", "headers")
_OF_A_LOGIN: Final = frozenset(("token", "client_secret", "private_key", "subject_token"))
_WORDS: Final = "token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|credential|auth"
_WORD: Final = rf"[\w.-]*(?:{_WORDS})[\w.-]*"
_USERINFO: Final = re.compile(r"(?<=://)[^\s/?#]*@")
_QUERY: Final = re.compile(rf"(?<=[?&])({_WORD}|key|sig|signature|code)=[^&#\s]*", re.IGNORECASE)
_NAMED: Final = re.compile(rf"^(-*{_WORD}\s*[=:])(?!//).*", re.IGNORECASE | re.DOTALL)
_OPTION: Final = re.compile(rf"--?{_WORD}", re.IGNORECASE)


def is_secret_place(path: KeyPath) -> bool:
    """Whether the value at this path is a secret, or part of one."""
    if path and path[0] == "mcpServers":
        is_of_login = path[2:3] == ("auth",) and not _OF_A_LOGIN.isdisjoint(path[3:])
        return is_of_login or (len(path) > 2 and path[2] in _SECRET_MAPPINGS)
    return any(key in _SECRET_KEYS for key in path)


def masked_text(text: str) -> str:
    """The text without the secrets people put into addresses, options and headers."""
    text = _QUERY.sub(rf"\1={MASK}", _USERINFO.sub(MASK + "@", text))
    return mask_text(_NAMED.sub(rf"\1{MASK}", text))


def masked_args(args: list[str]) -> list[str]:
    """Arguments, where `--token` makes a secret of the one that follows it."""
    return [_masked_arg(before, arg) for before, arg in zip(["", *args], args, strict=False)]


def _masked_arg(before: str, arg: str) -> str:
    if is_reference(arg):
        return arg
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
        said = written.get(key)
        server[key] = {name: _masked_value(_at(said, name)) for name in server[key]}
    if server["auth"]:
        said = written.get("auth")
        server["auth"] = _masked_login(said if isinstance(said, Mapping) else server["auth"])
    server["args"] = masked_args(list(written.get("args", server["args"])))
    if server["url"]:
        server["url"] = masked_text(written.get("url", server["url"]))
    for entry in [server, *(entry for entries in server["tools"].values() for entry in entries)]:
        for key in [key for key, value in entry.items() if value is None]:
            del entry[key]


def _masked_login(auth: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _masked_of_login(name, value) for name, value in auth.items()}


def _masked_of_login(name: str, value: Any) -> Any:
    if name in _OF_A_LOGIN:
        return _masked_value(value)
    if isinstance(value, Mapping):
        return _masked_login(value)
    return masked_text(value) if isinstance(value, str) else value


def _at(said: Any, name: str) -> Any:
    return said.get(name) if isinstance(said, Mapping) else None


def _masked_value(value: Any) -> str:
    """A reference is shown as it is written: it is no secret, and says where one is."""
    return value if isinstance(value, str) and is_reference(value) else MASK


_KNOWN: Final = {*ServerSettings.model_fields, *ProviderSettings.model_fields, "type"}


def masked_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One server's entry as it is written, whatever is wrong in it, without its secrets. Of a key that nobody knows
    nobody knows either whether it is one."""
    return {key: _masked_at(key, value) if key in _KNOWN else MASK for key, value in entry.items()}


def _masked_at(key: str, value: Any) -> Any:
    if key in _SECRET_MAPPINGS:
        return {name: _masked_value(item) for name, item in value.items()} if isinstance(value, Mapping) else MASK
    if key == "auth":
        return _masked_login(value) if isinstance(value, Mapping) else MASK
    if key == "args":
        return masked_args([str(arg) for arg in value]) if isinstance(value, list) else MASK
    return masked_text(value) if isinstance(value, str) else value


def unmasked(entry: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with what was masked when it was shown, and was left alone since, as it was `before`. `ValueError`
    names the place of a mask that stands for nothing."""
    hidden = masked_entry(before)
    found = {key: _restored(value, hidden.get(key), before.get(key)) for key, value in entry.items()}
    if stray := next(_masks(found, before, ""), None):
        raise ValueError(f"{stray}: {MASK} stands for a secret that is not known here; write it, or a reference to it")
    return found


def _restored(value: Any, hidden: Any, real: Any) -> Any:
    if isinstance(value, str):
        return real if MASK in value and value == hidden else value
    if isinstance(value, Mapping) and isinstance(hidden, Mapping) and isinstance(real, Mapping):
        return {key: _restored(item, hidden.get(key), real.get(key)) for key, item in value.items()}
    if isinstance(value, list) and isinstance(hidden, list) and isinstance(real, list):
        waiting = list(zip([None, *hidden], hidden, real, strict=False))
        return [_next_of(before, item, waiting) for before, item in zip([None, *value], value, strict=False)]
    return value


def _next_of(before: Any, item: Any, waiting: list[tuple[Any, Any, Any]]) -> Any:
    """What this masked item was; others may have moved. What is all mask is known by what stands `before` it: a secret
    must not go to another option."""
    if not (isinstance(item, str) and MASK in item):
        return item
    alike = [place for place, (_, hidden, _) in enumerate(waiting) if hidden == item]
    same = [place for place in alike if waiting[place][0] == before]
    place = next(iter(same or (alike if item != MASK else ())), None)
    return item if place is None else waiting.pop(place)[2]


def _masks(value: Any, before: Any, path: str) -> Iterator[str]:
    """Where a mask is still all there is."""
    if value == MASK and before != MASK:
        yield path
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _masks(item, _at(before, key), f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _masks(item, None, f"{path}.{index}")
