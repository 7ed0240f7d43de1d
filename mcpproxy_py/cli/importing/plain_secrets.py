"""Secrets that stand in a server's entry as plain text: where they are, and the entry with references instead. Pure.

A secret is what would be masked in the record or in `config show`, by the name it stands under or by its looks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.record.secret_patterns import stands_in
from mcpproxy_py.settings.masking import MASK, masked_args, masked_text

_REFERENCE: Final = re.compile(r"\$\{\w+:[^{}]*\}")
_DEFAULT: Final = re.compile(r":-[^{}]*\}")
_SCHEME: Final = re.compile(r"(?i)(?:bearer|basic|token|apikey|digest)\s+")
_OPTION: Final = re.compile(r"--?([A-Za-z][\w-]*)")
_SHOWN: Final = re.compile(r"\*\*\*(?:[\w-]*\*\*\*)?|\$\{\w+:[^{}]*\}")
_MASKER: Final = Masker()
_SHORTEST_KNOWN: Final = 4
MOST_NAMED: Final = 20

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class PlainSecret:
    """The text at `place` is `before` + `value` + `after`, and `value` is a secret."""

    place: Place
    label: str
    value: str
    before: str = ""
    after: str = ""

    @property
    def where(self) -> str:
        """The place in words, for people."""
        return _MASKER.mask_text(".".join(map(str, self.place)))

    def __repr__(self) -> str:
        return f"PlainSecret({self.place!r})"


def plain_secrets(config: Mapping[str, Any], known: Collection[str] = ()) -> tuple[PlainSecret, ...]:
    """Every plain secret in an entry of ours, `known` ones wherever they stand."""
    found = (_secret(place, label, text, masked, known) for place, label, text, masked in _texts(config))
    return tuple(each for each in found if each is not None)


def _texts(config: Mapping[str, Any]) -> Iterator[tuple[Place, str, str, str]]:
    for key in ("env", "headers"):
        for name, text in config.get(key, {}).items():
            yield (key, name), name, text, _masked_under(name, text)
    args = list(config.get("args", ()))
    shown = masked_args(args)
    again = _MASKER.mask([config.get("command", ""), *args])[1:]
    for index, (text, first, second) in enumerate(zip(args, shown, again, strict=True)):
        before = args[index - 1] if index else ""
        option = _OPTION.match(text if text.startswith("-") else before)
        yield ("args", index), option[1] if option else f"arg{index}", text, first if first != text else str(second)
    if "url" in config:
        yield ("url",), "url", config["url"], masked_text(config["url"])


def _masked_under(name: str, text: str) -> str:
    """A header with a scheme keeps the scheme, so that one can read what is sent."""
    scheme = _SCHEME.match(text)
    head = scheme[0] if scheme else ""
    (shown,) = _MASKER.mask({name: text[len(head) :]}).values()
    return head + (shown if isinstance(shown, str) else MASK)


def _secret(place: Place, label: str, text: str, masked: str, known: Collection[str]) -> PlainSecret | None:
    before, value, after = _difference(text, masked)
    if not value:
        told = next((each for each in known if (len(each) >= _SHORTEST_KNOWN and each in text) or each == text), None)
        if told is None:
            return None
        before, _, after = text.partition(told)
        value = told
    if _REFERENCE.search(value) or "${" in value or not _can_be_kept(value):
        return None
    if stands_in(value) and value not in known:
        return None
    return PlainSecret(place, _label(label), value, before, after)


def _difference(text: str, masked: str) -> tuple[str, str, str]:
    """What masking leaves of a text, and between it what it hides."""
    if text == masked:
        return text, "", ""
    start = 0
    while start < min(len(text), len(masked)) and text[start] == masked[start]:
        start += 1
    end = 0
    while end < min(len(text), len(masked)) - start and text[-1 - end] == masked[-1 - end]:
        end += 1
    return text[:start], text[start : len(text) - end], text[len(text) - end :]


def _can_be_kept(value: str) -> bool:
    """Whether a file gives it back as it was: line ends at its end are not read."""
    return bool(value.strip()) and value == value.rstrip("\r\n").removeprefix("\ufeff") and "\0" not in value


def _label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", _MASKER.mask_text(text)).strip("-.") or "secret"


def with_references(
    config: Mapping[str, Any], references: Mapping[Place, str], found: Collection[PlainSecret]
) -> dict[str, Any]:
    """The entry with a reference in place of each secret that has one."""
    done: dict[str, Any] = {
        key: dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, list) else value
        for key, value in config.items()
    }
    for secret in found:
        reference = references.get(secret.place)
        if reference is None:
            continue
        text = f"{secret.before}{reference}{secret.after}"
        key, *below = secret.place
        if below:
            done[str(key)][below[0]] = text
        else:
            done[str(key)] = text
    return done


def start_shown(config: Mapping[str, Any]) -> str:
    """How a server is started or reached, in one line without its secrets."""
    if "url" in config:
        return masked_text(str(config["url"]))
    args = [str(arg) for arg in config.get("args", ())]
    again = [str(arg) for arg in _MASKER.mask([config.get("command", ""), *masked_args(args)])[1:]]
    return " ".join([masked_text(str(config.get("command", ""))), *again])


def surroundings_shown(config: Mapping[str, Any]) -> Iterator[str]:
    """What else a person has to see before a yes: where it starts, and what it is given besides. Of values only the
    references, which say what is read from this machine."""
    if cwd := config.get("cwd"):
        yield f"starts in {cwd}"
    for key, word in (("env", "sets"), ("headers", "sends")):
        named = [_named(str(name), str(text)) for name, text in config.get(key, {}).items()]
        if named:
            more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
            yield f"{word} {', '.join(named[:MOST_NAMED])}{more}"


def _named(name: str, text: str) -> str:
    read = ", ".join(_DEFAULT.sub("}", found[0]) for found in _REFERENCE.finditer(text))
    return f"{_MASKER.mask_text(name)} from {read}" if read else _MASKER.mask_text(name)


def likeness(config: Mapping[str, Any]) -> tuple[Any, ...]:
    """What two entries have in common that are one server, whatever their secrets are."""
    return (
        config.get("transport") or config.get("type") or ("http" if "url" in config else "stdio"),
        _SHOWN.sub(MASK, start_shown(config)),
        config.get("cwd"),
        tuple(sorted(config.get("env", {}))),
        tuple(sorted(name.lower() for name in config.get("headers", {}))),
    )
