"""Where plain secrets go: the system's keyring, a private file for each, or the configuration file as they are."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal

from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.files import PRIVATE_DIRECTORY, write_private
from mcpproxy_py.settings.secret_references import KEYRING_SECONDS, KEYRING_SERVICE, MAX_SECRET_BYTES

SecretStore = Literal["keyring", "file", "keep"]
STORES: Final[tuple[SecretStore, ...]] = ("keyring", "file", "keep")
FOLDER: Final = "secrets"
PATIENCE_WITH_A_PERSON: Final = 60.0
_MOST_TRIES: Final = 100
_NO_KEYRING: Final = ("keyring.backends.fail", "keyring.backends.null")


class KeyringTrouble(Exception):
    """Why the keyring cannot be used, as a sentence."""


def keyring_trouble() -> str:
    """Why secrets cannot go to the keyring here; empty where nothing speaks against it."""
    try:
        _keyring()
    except KeyringTrouble as why:
        return str(why)
    return ""


def _keyring() -> Any:
    try:
        keyring = import_module("keyring")
    except ImportError:
        raise KeyringTrouble("the keyring needs an extra: pip install 'mcpproxy-py[keyring]'") from None
    backend = _answer(keyring.get_keyring)
    if type(backend).__module__ in _NO_KEYRING:
        raise KeyringTrouble("this system has no keyring that can be used")
    return keyring


def _answer(ask: Callable[[], Any]) -> Any:
    """What the keyring says, in a bounded time: a locked one may wait for a person, and nobody may be there."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # backends raise what they like
            answers.append(error)

    asking = threading.Thread(target=run, daemon=True)
    asking.start()
    asking.join(PATIENCE_WITH_A_PERSON if sys.stdin.isatty() else KEYRING_SECONDS)
    if not answers:
        raise KeyringTrouble("the keyring does not answer; it may wait for somebody to unlock it")
    if isinstance(answers[0], Exception):
        raise KeyringTrouble(f"the keyring did not answer ({_reason(answers[0])})")
    return answers[0]


class SecretShelf:
    """Puts secrets away under names of their own, and knows what it put, so that it can be taken back."""

    def __init__(self, store: SecretStore, data_dir: Path) -> None:
        self.store = store
        self._folder = data_dir / FOLDER
        self.put: list[dict[str, str]] = []
        """What was put where: the kind of the reference and its name."""

    def reference(self, name: str, value: str) -> str:
        """The reference that leads to this secret from now on. Raises `KeyringTrouble` or `GatewayError`."""
        if self.store == "file" and not {"{", "}"}.isdisjoint(str(self._folder)):
            raise _not_kept(f"{self._folder} has a brace in its name, which no reference can have")
        wanted = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:120]
        for number in range(1, _MOST_TRIES):
            each = wanted if number == 1 else f"{wanted}-{number}"
            there = self._kept(each)
            if there is None:
                self._keep(each, value)
                return self._written(each)
            if there == value:
                return self._written(each)
        raise _not_kept(f"there are {_MOST_TRIES} secrets of the name {wanted} already")

    def _written(self, name: str) -> str:
        return "${keyring:" + name + "}" if self.store == "keyring" else "${file:" + str(self._folder / name) + "}"

    def _kept(self, name: str) -> str | None:
        if self.store == "keyring":
            return _answer(partial(_keyring().get_password, KEYRING_SERVICE, name))
        try:
            return (self._folder / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise _not_kept(f"{self._folder / name} cannot be read: {error}") from None

    def _keep(self, name: str, value: str) -> None:
        if len(value.encode()) > MAX_SECRET_BYTES:
            raise _not_kept("a secret is larger than any can be")
        if self.store == "keyring":
            _answer(partial(_keyring().set_password, KEYRING_SERVICE, name, value))
            self.put.append({"kind": "keyring", "name": name})
            if self._kept(name) != value:
                raise KeyringTrouble("the keyring gave back something else than what was put in")
            return
        try:
            self._folder.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        except OSError as error:
            raise _not_kept(f"{self._folder} cannot be made: {error.strerror}") from None
        write_private(self._folder / name, value)
        self.put.append({"kind": "file", "name": str(self._folder / name)})


def _not_kept(why: str) -> GatewayError:
    remedy = "Nothing was changed. Mend it, or say where else they go with --secrets."
    return GatewayError(Code.CONFLICT, f"The secrets cannot be put away: {why}", details={"remedy": remedy})


def _reason(error: Exception) -> str:
    return "it is locked" if "lock" in type(error).__name__.lower() else type(error).__name__


def take_back(put: list[dict[str, str]], data_dir: Path) -> None:
    """Removes secrets that an import put away. Only from where an import puts them."""
    folder = (data_dir / FOLDER).resolve()
    for each in put:
        if each["kind"] == "file" and Path(each["name"]).parent.resolve() == folder:
            with suppress(OSError):
                Path(each["name"]).unlink()
        elif each["kind"] == "keyring":
            with suppress(Exception):
                _answer(partial(_keyring().delete_password, KEYRING_SERVICE, each["name"]))
