"""Secrets by reference: `${env:NAME}`, `${file:PATH}`, `${keyring:NAME}` in the values that may need one.

A reference that leads nowhere is an error, never an empty text: an empty token would be a door left open. In the entry
of a server it is that server's failure and nobody else's (UP-12); anywhere else the configuration is wrong. Only
`${env:NAME:-text}` says itself what stands there where the variable is not set or empty.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
    ("mcpServers", "*", "auth", "token"),
    ("mcpServers", "*", "auth", "client_id"),
    ("mcpServers", "*", "auth", "client_secret"),
    ("mcpServers", "*", "auth", "private_key"),
    ("mcpServers", "*", "auth", "identity_provider", "client_secret"),
    ("mcpServers", "*", "auth", "identity_provider", "subject_token"),
)
SERVERS: Final = "mcpServers"
KINDS: Final = ("env", "file", "keyring")
KEYRING_SERVICE: Final = "mcpproxy"
DEFAULT: Final = ":-"
"""Between the name of a variable and what stands for it where it is not set, as in a shell."""
MAX_SECRET_BYTES: Final = 65_536
KEYRING_SECONDS: Final = 10.0
"""A keyring that is locked may ask somebody to open it, and nobody may be there."""
_REFERENCE: Final = re.compile(r"\$\{(\w+):([^{}]*)\}")
_ONLY: Final = re.compile(
    r"(?:(?:Bearer|Basic|Token) )?(?:\$\{(?:env|file|keyring):(?![^{}]*:-[^{}])[^{}]*\})+", re.IGNORECASE
)
_UNKNOWN_KIND: Final = "it is not one of ${env:NAME}, ${file:PATH}, ${keyring:NAME}"
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
    """Why a reference has no value, and the file that would have it."""

    def __init__(self, why: str, file: Path | None = None) -> None:
        super().__init__(why)
        self.file = file


@dataclass(frozen=True, slots=True)
class FilledIn:
    """A document with values in place of references. What stands in for those `missing` must never be used."""

    values: Any
    problems: list[ConfigProblem] = field(default_factory=list[ConfigProblem])
    missing: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By server: which of its secrets have no value, and why."""
    unset: list[ConfigProblem] = field(default_factory=list[ConfigProblem])
    """The same by place."""
    awaited: list[Path] = field(default_factory=list[Path])
    """Files that would have one."""


def is_reference(text: str) -> bool:
    """Whether this is a reference and nothing else, and so no secret itself. A default may be one."""
    return _ONLY.fullmatch(text) is not None


def resolver(environ: Mapping[str, str], base: Path) -> Resolve:
    """Looks references up: variables in `environ`, files relative to `base`."""
    readers: dict[str, Callable[[str], str]] = {
        "env": lambda name: _from_environment(environ, name),
        "file": lambda name: _from_file(base / Path(name).expanduser()),
        "keyring": Keyring().read,
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
        raise Unresolved(f"the file {path} cannot be read ({error.strerror})", path) from None
    except UnicodeDecodeError:
        raise Unresolved(f"the file {path} is not UTF-8 text", path) from None
    if not text or len(content) > MAX_SECRET_BYTES:
        raise Unresolved(f"the file {path} is {'too large for a secret' if text else 'empty'}", path)
    return text


class Keyring:
    """The keyring of the system, for one reading of the configuration: one that does not answer is asked once."""

    def __init__(self) -> None:
        self._silent = False

    def read(self, name: str) -> str:
        try:
            keyring = import_module("keyring")
        except ImportError:
            raise Unresolved("the system keyring needs an extra: pip install 'mcpproxy-py[keyring]'") from None
        value = self._asked(lambda: keyring.get_password(KEYRING_SERVICE, name))
        if not value:
            raise Unresolved(f"the keyring holds nothing: keyring set {KEYRING_SERVICE} {name}")
        return value

    def write(self, name: str, value: str) -> None:
        try:
            keyring = import_module("keyring")
        except ImportError:
            raise Unresolved("the system keyring needs an extra: pip install 'mcpproxy-py[keyring]'") from None
        self._asked(lambda: keyring.set_password(KEYRING_SERVICE, name, value))

    def _asked(self, what: Callable[[], Any]) -> Any:
        answers: list[Any] = []

        def ask() -> None:
            try:
                answers.append(what())
            except Exception as error:  # backends raise what they like
                answers.append(error)

        if not self._silent:
            asking = threading.Thread(target=ask, daemon=True)
            asking.start()
            asking.join(KEYRING_SECONDS)
        if not answers:
            self._silent = True
            raise Unresolved("the system keyring does not answer; it may wait for somebody to unlock it")
        if isinstance(answers[0], Exception):
            kind = type(answers[0]).__name__
            locked = "; unlock it" if "lock" in kind.lower() else ""
            raise Unresolved(f"the system keyring did not answer ({kind}){locked}")
        return answers[0]


def filled_in(document: Any, resolve: Resolve) -> FilledIn:
    """A copy with every reference replaced. What has no value stays as written, and is a problem; in a server's entry
    something harmless stands in for it, so that the rest of the entry can be checked."""
    found = FilledIn(None)

    def fill(value: Any, path: Place) -> Any:
        if isinstance(value, str) and _is_place(path):
            return _filled(value, path, resolve, found)
        if isinstance(value, Mapping):
            return {key: fill(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [fill(item, (*path, index)) for index, item in enumerate(value)]
        return value

    values = fill(document, ())
    return replace(found, values=values)


def stood_in(document: Any) -> FilledIn:
    """A copy with a harmless value for each reference, for checking a file without its secrets."""
    return filled_in(document, _stand_in)


def _stand_in(reference: Reference) -> str:
    if reference.key in _LONG:
        return _LONG_STAND_IN
    return _STAND_INS.get(reference.key, _STAND_IN) if reference.leads else _STAND_IN


def _is_place(path: Place) -> bool:
    return any(
        len(path) == len(place) and all(want in ("*", key) for want, key in zip(place, path, strict=True))
        for place in PLACES
    )


def _filled(text: str, path: Place, resolve: Resolve, found: FilledIn) -> str:
    key = next((part for part in reversed(path) if isinstance(part, str)), "")

    def value(match: re.Match[str]) -> str:
        reference = Reference(*match.groups(), key=key, leads=match.start() == 0)
        if reference.kind not in KINDS or not reference.name:
            found.problems.append(ConfigProblem(path, f"{match[0]} has no value: {_UNKNOWN_KIND}"))
            return match[0]
        try:
            return resolve(reference)
        except Unresolved as why:
            if why.file is not None:
                found.awaited.append(why.file)
            problem = ConfigProblem(path, f"{match[0]} has no value: {why}")
            if path[0] != SERVERS:
                found.problems.append(problem)
                return match[0]
            found.unset.append(problem)
            place = ".".join(map(str, path[2:]))
            found.missing.setdefault(str(path[1]), []).append(f"{why} ({place})")
            return _stand_in(reference)

    return _REFERENCE.sub(value, text)
