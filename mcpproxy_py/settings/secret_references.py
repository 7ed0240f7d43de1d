"""Secrets by reference: `${env:NAME}`, `${file:PATH}`, `${keyring:NAME}` in the values that may need one.

A reference that leads nowhere is an error, never an empty text: an empty token would be a door left open. Only
`${env:NAME:-text}` says itself what stands there where the variable is not set or empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from mcpproxy_py.settings.document import ConfigProblem

# Where references are looked for; `*` stands for any one key or position.
PLACES: Final = (
    ("mcp_token",),
    ("api_key",),
    ("sealing_keys", "*"),
    ("activity", "database_url"),
    ("mcpServers", "*", "url"),
    ("mcpServers", "*", "args", "*"),
    ("mcpServers", "*", "env", "*"),
    ("mcpServers", "*", "headers", "*"),
)
KINDS: Final = ("env", "file", "keyring")
KEYRING_SERVICE: Final = "mcpproxy"
DEFAULT: Final = ":-"
"""Between the name of a variable and what stands for it where it is not set, as in a shell."""
MAX_SECRET_BYTES: Final = 65_536
_REFERENCE: Final = re.compile(r"\$\{(\w+):([^{}]*)\}")
# What stands in for a secret while only the shape is checked: a whole address where one is expected.
_STAND_IN: Final = "1"
_STAND_INS: Final = {"url": "http://1", "database_url": "postgresql://1"}
_LONG_STAND_IN: Final = "0123456789abcdef"
_LONG: Final = ("mcp_token", "api_key", "sealing_keys")

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """`${kind:name}` in the value of `key`, or in the list there; `leads` if the value starts with it."""

    kind: str
    name: str
    key: str = ""
    leads: bool = False


Resolve = Callable[[Reference], str]


class Unresolved(Exception):
    """Why a reference has no value."""


def resolver(environ: Mapping[str, str], base: Path) -> Resolve:
    """Looks references up: variables in `environ`, files relative to `base`."""
    readers: dict[str, Callable[[str], str]] = {
        "env": lambda name: _from_environment(environ, name),
        "file": lambda name: _from_file(base / Path(name).expanduser()),
        "keyring": _from_keyring,
    }
    return lambda reference: readers[reference.kind](reference.name)


def _from_environment(environ: Mapping[str, str], name: str) -> str:
    name, has_default, default = name.partition(DEFAULT)
    value = environ.get(name)
    if not value and has_default:
        return default
    if not value:
        raise Unresolved(f"the environment variable {name} is {'not set' if value is None else 'empty'}")
    return value


def _from_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SECRET_BYTES + 1)
        text = content.decode("utf-8-sig").rstrip("\r\n")
    except OSError as error:
        raise Unresolved(f"the file {path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise Unresolved(f"the file {path} is not UTF-8 text") from None
    if not text or len(content) > MAX_SECRET_BYTES:
        raise Unresolved(f"the file {path} is {'too large for a secret' if text else 'empty'}")
    return text


def _from_keyring(name: str) -> str:
    try:
        keyring = import_module("keyring")
    except ImportError:
        raise Unresolved("the system keyring needs an extra: pip install 'mcpproxy-py[keyring]'") from None
    try:
        value = keyring.get_password(KEYRING_SERVICE, name)
    except Exception as error:  # backends raise what they like
        raise Unresolved(f"the system keyring did not answer ({type(error).__name__})") from None
    if not value:
        raise Unresolved(f"the keyring holds nothing: keyring set {KEYRING_SERVICE} {name}")
    return value


def filled_in(document: Any, resolve: Resolve) -> tuple[Any, list[ConfigProblem]]:
    """A copy with every reference replaced, and one problem for each that could not be; those stay as written."""
    problems: list[ConfigProblem] = []

    def fill(value: Any, path: Place) -> Any:
        if isinstance(value, str) and _is_place(path):
            return _filled(value, path, resolve, problems)
        if isinstance(value, Mapping):
            return {key: fill(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [fill(item, (*path, index)) for index, item in enumerate(value)]
        return value

    return fill(document, ()), problems


def stood_in(document: Any) -> tuple[Any, list[ConfigProblem]]:
    """A copy with a harmless value for each reference, for checking a file without its secrets."""

    def stand_in(reference: Reference) -> str:
        if reference.key in _LONG:
            return _LONG_STAND_IN
        return _STAND_INS.get(reference.key, _STAND_IN) if reference.leads else _STAND_IN

    return filled_in(document, stand_in)


def _is_place(path: Place) -> bool:
    return any(
        len(path) == len(place) and all(want in ("*", key) for want, key in zip(place, path, strict=True))
        for place in PLACES
    )


def _filled(text: str, path: Place, resolve: Resolve, problems: list[ConfigProblem]) -> str:
    key = next((part for part in reversed(path) if isinstance(part, str)), "")

    def value(match: re.Match[str]) -> str:
        reference = Reference(*match.groups(), key=key, leads=match.start() == 0)
        try:
            if reference.kind not in KINDS or not reference.name:
                raise Unresolved("it is not one of ${env:NAME}, ${file:PATH}, ${keyring:NAME}")
            return resolve(reference)
        except Unresolved as why:
            problems.append(ConfigProblem(path, f"{match[0]} has no value: {why}"))
            return match[0]

    return _REFERENCE.sub(value, text)
