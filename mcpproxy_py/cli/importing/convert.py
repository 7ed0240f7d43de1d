"""One server as a client has it in its file, as an entry of ours. Pure, and nothing that is written there is trusted.

What a key means is a table, by client where they differ. A key that is not in it is said to be left behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcpproxy_py.cli.importing.entry import (
    ForeignEntry,
    as_texts,
    bounded,
    kind_of_value,
    shown_value,
    text_list,
    texts_by_name,
)
from mcpproxy_py.cli.importing.variables import (
    AskedFor,
    ImportPlace,
    NotCarriedOver,
    VariableTranslation,
    references_in,
)
from mcpproxy_py.core.policy.tool_names import MAX_NAME
from mcpproxy_py.settings.loader import validate_text
from mcpproxy_py.settings.servers import TRANSPORT_SPELLINGS

DEFAULT_TIMEOUT: Final = 60.0
DEFAULT_CONNECT: Final = 10.0
MOST_SECONDS: Final = 86_400.0

_COMMANDS: Final = ("command", "cmd")
_URLS: Final = ("httpUrl", "url", "serverUrl", "uri")
"""In the order in which Gemini CLI looks."""
_ENVS: Final = ("env", "environment", "envs")
_HEADERS: Final = ("headers", "http_headers")
_KINDS: Final[Mapping[str, str]] = {
    **TRANSPORT_SPELLINGS, "http": "http", "sse": "sse", "stdio": "stdio", "local": "stdio", "remote": "",
    "streamable_http": "http", "streamable": "http", "custom": "",
}  # fmt: skip
"""How clients write a transport. Empty where that word leaves it open."""
_ELSEWHERE: Final[Mapping[str, str]] = {
    "builtin": "it is built into the client", "platform": "it is a part of the client",
    "frontend": "its tools run in the client's window", "inline_python": "it is code inside the client's file",
    "sdk": "it runs inside the client", "sse-ide": "it is a part of the client", "ws-ide": "it is a part of the client",
    "ws": "it speaks WebSocket", "extension": "an extension of the client starts it",
    "claudeai-proxy": "the client's account provides it",
}  # fmt: skip
_SSE_UNLESS_SAID: Final = ("cline",)
_MILLISECONDS: Final = ("gemini-cli", "opencode", "claude-code")
"""Clients whose `timeout` counts milliseconds. Others count seconds, and a file that is nobody's is guessed by size."""
_ALLOW: Final = ("includeTools", "enabled_tools", "available_tools", "enabledTools", "allow_tools")
_DENY: Final = ("excludeTools", "disabled_tools", "disabledTools", "deny_tools")
_UNASKED: Final = ("autoApprove", "alwaysAllow", "trust", "default_tools_approval_mode", "tools", "confirm")
_SIGN_IN: Final = (
    "oauth", "auth", "scopes", "oauth_resource", "authProviderType", "targetAudience", "targetServiceAccount",
    "headersHelper",
)  # fmt: skip
_SAYS_NOTHING: Final = (
    "name", "description", "display_name", "version", "gallery", "bundled", "icon", "iconPath", "required",
    "supports_parallel_tool_calls", "remote", "dev", "alwaysLoad", "remoteConfigured", "lastModified",
    "extensionName", "tags", "note", "notes", "title", "homepage", "startup_timeout_ms", "$schema",
)  # fmt: skip
"""What changes nothing of how a server is reached or what it may."""
_READ: Final = frozenset({
    *_COMMANDS, "args", *_URLS, *_ENVS, *_HEADERS, *_ALLOW, *_DENY, *_UNASKED, *_SIGN_IN, *_SAYS_NOTHING,
    "type", "transport", "transportType", "source", "enabled", "disabled", "disable", "timeout", "tool_timeout_sec",
    "startup_timeout_sec", "connect_timeout", "cwd", "workingDirectory", "envFile", "env_keys", "env_vars",
    "bearer_token_env_var", "env_http_headers", "lazy", "sessions", "max_concurrency", "settings", "requestInit",
})  # fmt: skip
_OUR_OWN: Final = ("lazy", "sessions", "max_concurrency")


@dataclass(frozen=True, slots=True)
class ConvertedServer:
    """What became of one entry: `config` is ours and valid, or `why` says why there is none."""

    config: dict[str, Any] | None = None
    why: str = ""
    notes: tuple[str, ...] = ()
    secrets: frozenset[str] = frozenset()
    """Texts in it that are secret wherever they stand."""
    asks: tuple[AskedFor, ...] = ()


def converted(
    client: str,
    name: str,
    raw: Any,
    place: ImportPlace,
    inputs: Mapping[str, AskedFor] | None = None,
) -> ConvertedServer:
    """The entry `raw` of `client` as one of ours. Never raises, whatever it is handed."""
    if not isinstance(raw, Mapping):
        return ConvertedServer(why=f"it is {kind_of_value(raw)}, where an object is expected")
    entry = ForeignEntry(client, _flattened(raw), VariableTranslation(client, place, inputs or {}))
    try:
        config = _config(entry)
        _refuse_unanswered(entry)
    except NotCarriedOver as why:
        return ConvertedServer(why=str(why), notes=_notes(entry), asks=tuple(entry.texts.unanswered))
    if flaw := _flaw(config):
        return ConvertedServer(why=flaw, notes=_notes(entry))
    secrets = frozenset(text for text in entry.texts.secrets if text)
    return ConvertedServer(config, "", _notes(entry), secrets, tuple(entry.texts.unanswered))


def _flattened(raw: Mapping[Any, Any]) -> dict[str, Any]:
    """Zed wrote `command: {path, args, env}`, some write `transport: {type, url}`: one level says the same."""
    flat = {key: value for key, value in raw.items() if isinstance(key, str) and not key.startswith("//")}
    for holder, first in (("command", "path"), ("transport", "type")):
        inner = flat.get(holder)
        if isinstance(inner, Mapping):
            rest = {str(key): value for key, value in inner.items() if key != first}
            flat = {**flat, **rest, holder: inner.get(first)}
    return flat


def _config(entry: ForeignEntry) -> dict[str, Any]:
    transport = _transport(entry)
    config = _started(entry) if transport == "stdio" else {"transport": transport, **_reached(entry)}
    if not _enabled(entry):
        config["enabled"] = False
        entry.note("it is disabled there, and stays so")
    config |= _limits(entry)
    config |= {key: entry.raw[key] for key in _OUR_OWN if key in entry.raw and entry.client == "file"}
    _say_what_stays(entry)
    return config


# --- how it is reached ---


def _transport(entry: ForeignEntry) -> str:
    said = [
        entry.raw[key] for key in ("type", "transport", "transportType", "source") if entry.raw.get(key) is not None
    ]
    for word in said:
        if isinstance(word, str) and word in _ELSEWHERE:
            raise NotCarriedOver(f"{_ELSEWHERE[word]}, so there is nothing that a gateway could start or reach")
        if not isinstance(word, str) or word not in _KINDS:
            raise NotCarriedOver(f"its transport {shown_value(word)} is none that is known here")
    kind = next((_KINDS[word] for word in said if _KINDS[word]), "")
    command, url = entry.first(_COMMANDS), entry.first(_URLS)
    if command is None and url is None:
        missing = (
            "an extension of the client starts it" if "settings" in entry.raw else "it has no `command` and no `url`"
        )
        raise NotCarriedOver(missing)
    if command is not None and url is not None:
        return _one_of_both(entry, kind)
    if command is not None:
        if kind not in ("", "stdio"):
            raise NotCarriedOver(f"it says {kind} and has a `command`, where a `url` is expected")
        return "stdio"
    if kind == "stdio":
        raise NotCarriedOver("it says stdio and has a `url`, where a `command` is expected")
    return kind or _guessed(entry, url)


def _one_of_both(entry: ForeignEntry, kind: str) -> str:
    if kind:
        entry.note(
            f"it has a command and a url; the {'command' if kind == 'stdio' else 'url'} was taken, as its type says"
        )
        return kind
    if entry.client == "gemini-cli":
        entry.note("it has a command and a url; the url was taken, as Gemini CLI does")
        return _guessed(entry, entry.first(_URLS))
    raise NotCarriedOver("it has both a `command` and a `url`, and no type that says which is meant")


def _guessed(entry: ForeignEntry, url: Any) -> str:
    """Streamable HTTP, unless the client or the address speaks for the transport before it."""
    if "httpUrl" in entry.raw:
        return "http"
    path = url.partition("?")[0].rstrip("/") if isinstance(url, str) else ""
    if entry.client in _SSE_UNLESS_SAID or path.endswith("/sse"):
        entry.note("taken as SSE, the older transport, as its client or its address has it")
        return "sse"
    return "http"


def _started(entry: ForeignEntry) -> dict[str, Any]:
    program, args = entry.first(_COMMANDS), text_list(entry, "args")
    if isinstance(program, list):
        words = as_texts(program, "command")
        program, args = (words[0] if words else ""), [*words[1:], *args]
    if not isinstance(program, str) or not program.strip():
        found = "empty" if isinstance(program, str) else f"{kind_of_value(program)}, where text is expected"
        raise NotCarriedOver(f"its `command` is {found}")
    program = entry.texts.value(bounded(program, "command"))
    config: dict[str, Any] = {"command": program}
    given = [entry.texts.reference(arg) for arg in args]
    if given:
        config["args"] = given
    if env := _environment(entry):
        config["env"] = env
    if cwd := _directory(entry, [program, *given]):
        config["cwd"] = cwd
    return config


def _directory(entry: ForeignEntry, words: list[str]) -> str | None:
    """Clients start a project's servers in the project; here they start in one place of their own."""
    place, said = entry.texts.place, entry.first(("cwd", "workingDirectory"))
    if said is not None and not isinstance(said, str):
        raise NotCarriedOver(f"its `cwd` is {kind_of_value(said)}, where text is expected")
    if said and said.strip():
        path = entry.texts.value(bounded(said, "cwd"))
        if path.startswith("~"):
            path = place.home + path[1:]
        if path.startswith("/") or path[1:3] in (":\\", ":/"):
            return path
        return f"{place.project or place.base or place.home}/{path.removeprefix('./')}"
    relative = [word for word in words if word in (".", "..") or word.startswith(("./", "../"))]
    if not relative:
        return None
    if place.project is None:
        entry.note(f"{shown_value(relative[0])} depends on where it is started; say where with `cwd`")
        return None
    entry.note(f"started in {place.project}, because {shown_value(relative[0])} depends on it")
    return place.project


def _environment(entry: ForeignEntry) -> dict[str, str]:
    found: dict[str, str] = {}
    if path := entry.raw.get("envFile"):
        found |= _from_file(entry, path)
    for name in (*text_list(entry, "env_vars", _variable_name), *text_list(entry, "env_keys")):
        found[name] = _kept_elsewhere(entry, name)
    for key, value in texts_by_name(entry, _ENVS).items():
        found[key] = entry.texts.reference(value)
    return found


def _from_file(entry: ForeignEntry, path: Any) -> dict[str, str]:
    if not isinstance(path, str):
        raise NotCarriedOver(f"its `envFile` is {kind_of_value(path)}, where a path is expected")
    read = entry.texts.place.read_env_file(entry.texts.value(path))
    values = {key: _literal(value) for key, value in read.items() if value}
    entry.texts.secrets.update(values.values())
    entry.note(f"the {len(values)} variables of its envFile were read; later changes of that file are not seen")
    return values


def _literal(value: str) -> str:
    if references_in(value) or "${" in value:
        raise NotCarriedOver("a value in its envFile holds ${...}, which would be read as a reference of ours")
    return value


def _variable_name(item: Any) -> Any:
    """Codex writes a name, or `{name, source}`."""
    return item.get("name") if isinstance(item, Mapping) else item


def _kept_elsewhere(entry: ForeignEntry, name: str) -> str:
    """A variable that the client hands on from its own environment or keyring."""
    texts = entry.texts
    if not texts.place.environ.get(name):
        if name in texts.place.answers:
            return texts.ask(AskedFor(name))
        if entry.client == "goose":
            texts.unanswered.append(AskedFor(name, "Goose keeps it in its own keyring", needed=False))
        texts.unset.append(name)
    return "${env:" + name + "}"


def _reached(entry: ForeignEntry) -> dict[str, Any]:
    url = entry.first(_URLS)
    if not isinstance(url, str):
        raise NotCarriedOver(f"its `url` is {kind_of_value(url)}, where text is expected")
    if entry.raw.get("socket"):
        raise NotCarriedOver("it is reached through a socket file, which is not supported here")
    if entry.client == "goose":
        entry.texts.env = _environment(entry)
    headers = {key: entry.texts.reference(value) for key, value in texts_by_name(entry, _HEADERS).items()}
    for key, name in texts_by_name(entry, ("env_http_headers",)).items():
        headers[key] = _kept_elsewhere(entry, name)
    token = entry.raw.get("bearer_token_env_var")
    if isinstance(token, str) and token.strip():
        headers["Authorization"] = "Bearer " + _kept_elsewhere(entry, token.strip())
    config: dict[str, Any] = {"url": entry.texts.reference(bounded(url.strip(), "url"))}
    return {**config, "headers": headers} if headers else config


# --- what it may, and how long ---


def _enabled(entry: ForeignEntry) -> bool:
    """Only a plain yes keeps a server on that somebody seems to have switched off."""
    on, off = entry.raw.get("enabled"), entry.raw.get("disabled", entry.raw.get("disable"))
    return on in (None, True) and off in (None, False)


def _limits(entry: ForeignEntry) -> dict[str, Any]:
    config: dict[str, Any] = {}
    seconds = _seconds(entry, "tool_timeout_sec", 1.0) or _seconds(entry, "timeout", _unit(entry))
    if seconds is not None and entry.client == "opencode" and seconds < DEFAULT_TIMEOUT:
        entry.note(
            f"its timeout of {seconds:g} s is for requests such as lists; a call may take {DEFAULT_TIMEOUT:g} s here"
        )
    elif seconds is not None and seconds != DEFAULT_TIMEOUT:
        config["timeout"] = seconds
    connect = (
        _seconds(entry, "startup_timeout_sec", 1.0)
        or _seconds(entry, "startup_timeout_ms", 0.001)
        or _seconds(entry, "connect_timeout", 1.0)
    )
    if connect is not None and connect != DEFAULT_CONNECT:
        config["connect_timeout"] = connect
    allow, deny = _tools(entry, _ALLOW), _tools(entry, _DENY)
    if allow is not None and (allow or entry.client != "goose"):
        config["allow_tools"] = allow
    if deny:
        config["deny_tools"] = deny
    return config


def _unit(entry: ForeignEntry) -> float:
    value = entry.raw.get("timeout")
    large = isinstance(value, (int, float)) and value >= 1_000
    return 0.001 if entry.client in _MILLISECONDS or (entry.client == "file" and large) else 1.0


def _seconds(entry: ForeignEntry, key: str, unit: float) -> float | None:
    value = entry.raw.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value * unit <= MOST_SECONDS:
        entry.note(f"its {key} {shown_value(value)} is no time that can be taken over")
        return None
    seconds = float(f"{value * unit:.6g}")
    return int(seconds) if seconds.is_integer() else seconds


def _tools(entry: ForeignEntry, keys: tuple[str, ...]) -> list[str] | None:
    key = next((key for key in keys if entry.raw.get(key) is not None), None)
    if key is None:
        return None
    names = [name.partition("(")[0].strip() if entry.client == "gemini-cli" else name for name in text_list(entry, key)]
    fit = [name for name in dict.fromkeys(names) if name.strip() and len(name) <= MAX_NAME]
    if len(fit) < len(set(names)):
        entry.note(f"some names in its {key} are no names of tools and were left out")
    return fit


def _say_what_stays(entry: ForeignEntry) -> None:
    """What the client does with this server and we do not, or not in that way."""
    raw = entry.raw
    if said := [key for key in _UNASKED if raw.get(key) not in (None, False, [], {}, "", "none", "prompt")]:
        entry.note(
            f"{', '.join(said)} (tools it runs without asking) is not taken over: here a tool's class decides. "
            "`mcpproxy tools classify` proposes classes"
        )
    if said := [key for key in _SIGN_IN if raw.get(key)]:
        entry.note(
            f"the client signs in for it ({', '.join(said)}); that is not taken over, a header with a token works"
        )
    if raw.get("sandboxEnabled"):
        entry.note("the client runs it in a sandbox, and here it is in none")
    if left := sorted(key for key in raw.keys() - _READ - {"sandboxEnabled", "socket"}):
        entry.note(
            f"not taken over: {', '.join(shown_value(key) for key in left[:8])}{' ...' if len(left) > 8 else ''}"
        )


def _refuse_unanswered(entry: ForeignEntry) -> None:
    if missing := [asked.name for asked in entry.texts.unanswered if asked.needed]:
        raise NotCarriedOver(
            f"the client asks for {', '.join(map(shown_value, missing))} when it starts it, and nobody answered"
        )


def _notes(entry: ForeignEntry) -> tuple[str, ...]:
    unset = [f"the variable {shown_value(name)} is not set here" for name in dict.fromkeys(entry.texts.unset)]
    return tuple(dict.fromkeys([*entry.notes, *entry.texts.notes, *unset]))


def _flaw(config: dict[str, Any]) -> str:
    """What our own settings say against this entry."""
    try:
        text = json.dumps({"mcpServers": {"it": config}})
    except (ValueError, RecursionError):
        return "it holds something that cannot be written as JSON"
    return next(_said(validate_text(text, origin="")), "")


def _said(problems: list[str]) -> Iterator[str]:
    for problem in problems:
        yield problem.removeprefix(": ").removeprefix("mcpServers.it").lstrip(".: ")
