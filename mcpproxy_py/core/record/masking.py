"""Secrets are masked before anything is written (ACT-9): by the name they stand under and by their looks.

Masking errs on the safe side where a name says that a secret follows, and on the readable side where only the
looks speak: ids, hashes, timestamps and counts have to stay, or the record is of no use. What is clean, which is
nearly everything, is found clean by one pass over its JSON text, and that text is what is recorded.

Any value as plain JSON that every encoder and decoder takes: bounded depth, finite numbers, valid Unicode.

What comes from agents and upstreams is not; and a record that cannot be written, or not be read back,
would be a call without a record.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, zip_longest
from typing import Any, Final, Protocol, cast

from mcpproxy_py.core.record.masking_budget import NOT_SHOWN, OnePayload, may_look
from mcpproxy_py.core.record.secret_patterns import (
    ASSIGNED,
    CARD_LIKE,
    CARDS,
    ISSUERS,
    KINDS,
    NAMES_BEGIN,
    RULES,
    SHAPED,
    SecretPattern,
    assigned,
    is_strong,
    kind_of,
)
from mcpproxy_py.core.record.secret_places import (
    EXAMPLES,
    PATH,
    SHORT_OPTIONS,
    VALUES,
    is_schema,
    kind_of_option,
    kind_of_value,
    kind_under,
)
from mcpproxy_py.core.record.secret_texts import lower, without_placed

DEEPEST: Final = 64
TOO_DEEP: Final = "[nested too deep to record]"
_LONGEST_INT: Final = 1 << 4096
compact: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class JsonText(bytes):
    """A value that has been encoded already. Who writes what it is part of puts it there as it stands."""

    __slots__ = ()


def encode(value: Any) -> bytes:
    """Compact JSON. Raises `ValueError` or `TypeError` for what JSON cannot say."""
    return compact(value).encode()


def json_text(value: Any, encode: Callable[[Any], bytes] = encode, limit: int | None = None) -> bytes | None:
    """The compact JSON text of a value that is fit as it is; `None` for one that needs `json_safe` first. Whether one
    beyond the limit is fit, of which only the beginning is wanted, nobody looks."""
    try:
        text = encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    if limit is not None and len(text) > limit:
        return text
    # Text with few brackets cannot be deep, which spares nearly every value the walk.
    return text if text.count(b"[") + text.count(b"{") <= DEEPEST or _shallow(value, DEEPEST) else None


def _shallow(value: Any, allowed: int) -> bool:
    if not isinstance(value, (dict, list, tuple)):
        return True
    children: Any = list(cast("dict[Any, Any]", value).values()) if isinstance(value, dict) else cast("Any", value)
    return allowed > 0 and all(_shallow(child, allowed - 1) for child in children)


def json_safe(value: Any, depth: int = 0) -> Any:
    """A copy of anything as plain JSON values; what JSON cannot say is said in text."""
    if isinstance(value, str):
        return valid(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_LONGEST_INT < value < _LONGEST_INT else hex(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if depth >= DEEPEST:
        return TOO_DEEP
    return _safe_container(value, depth + 1)


def _safe_container(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {valid(key_text(key)): json_safe(item, depth) for key, item in items}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_safe(item, depth) for item in cast("list[Any]", value)]
    return valid(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))


def key_text(key: Any) -> str:
    """A key as JSON would write it: `true`, `null` and numbers become their own text."""
    if isinstance(key, str):
        return key
    return json.dumps(key) if key is None or isinstance(key, (bool, float)) else str(json_safe(key))


def valid(text: str) -> str:
    """Lone surrogates cannot be written as UTF-8; they become replacement characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return str(text)


def pruned(value: Any, budget: int) -> Any:
    """The beginning of a value: about `budget` characters of its JSON, walked in order, without reading the rest."""
    return _prune(value, [budget], 0)


def _prune(value: Any, left: list[int], depth: int) -> Any:
    if isinstance(value, str):
        value = value[: max(left[0], 0)]
        left[0] -= len(value) + 2
        return value
    left[0] -= 2
    if depth >= DEEPEST:
        return TOO_DEEP
    if isinstance(value, Mapping):
        return dict(_pruned_items(cast("Mapping[Any, Any]", value), left, depth + 1))
    if isinstance(value, (list, tuple)):
        return [_prune(item, left, depth + 1) for item in _while_left(cast("list[Any]", value), left)]
    return json_safe(value)


def _pruned_items(items: Mapping[Any, Any], left: list[int], depth: int) -> Iterator[tuple[str, Any]]:
    for key in _while_left(items, left):
        name = key_text(key)[: max(left[0], 1)]
        left[0] -= len(name) + 3
        yield name, _prune(items[key], left, depth)


def _while_left(items: Any, left: list[int]) -> Iterator[Any]:
    for item in items:
        if left[0] <= 0:
            return
        yield item


_CARD: Final = "***card***"
SHOWN: Final = frozenset({"***", NOT_SHOWN, *(f"***{kind}***" for kind in KINDS)})
_MOST_JSON: Final = 262_144


class CustomMasks(Protocol):
    """What an operator wants masked besides."""

    def possible(self, json_text: str) -> bool:
        """Whether a string in this JSON could hold it."""
        ...

    def mask(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True, eq=False)
class Masker:
    """How values are masked, wherever a text leaves. What is handed in makes it quick, and adds what an operator wants
    masked. Two are the same only where they are one, so that one can be part of a key."""

    named: Callable[[str | bytes], bool] = lambda text: True
    """Whether `SIGNS` are in a text, be it a string or the JSON of a value. May say yes too often. What is no valid
    Unicode it is never asked about."""
    shaped: Callable[[str | bytes], bool] = lambda text: True
    """The same for `SHAPES`; nothing is masked in a text of which both say no."""
    encode: Callable[[Any], bytes] = encode
    """A value as compact JSON. Raises `ValueError` or `TypeError` where it cannot."""
    own: CustomMasks | None = None

    def mask(self, value: Any) -> Any:
        """`value` without its secrets, as plain JSON. Never changes its argument; returns it when it is clean."""
        text = json_text(value, self.encode)
        return self._masked(value, 0) if text is None or self._suspects(text) else value

    def mask_text(self, text: str) -> str:
        """The text without the secrets that its looks give away."""
        if not text.isascii():
            text = valid(text)
        shaped = self.shaped(text)
        if shaped or self.named(text):
            if not may_look(len(text)):
                return NOT_SHOWN
            if shaped:
                text = _applied(SHAPED, text)
            text = _without_cards(without_placed(_without_assigned(_applied(RULES, text)), shaped, self.mask_text))
        return text if self.own is None else self.own.mask(text)

    def payload(self, value: Any, limit: int) -> tuple[JsonText, int]:
        """The same, as part of an event that is not text yet."""
        text, size = self.payload_text(value, limit)
        return JsonText(text), size

    def payload_text(self, value: Any, limit: int) -> tuple[bytes, int]:
        """What goes on record of a value, as JSON text, and the size of the whole. Over the limit a preview stands
        in its place, and only the part it can show is masked, so a huge result costs no more than a big one."""
        text = json_text(value, self.encode, limit)
        if text is None:
            value = json_safe(value)
            text = encode(value)
        size = len(text)
        if size > limit:
            with OnePayload():
                return encode(_preview(encode(self.mask(pruned(value, limit))), limit)), size
        if self.named(text) or self.shaped(text) or (self.own is not None and self.own.possible(text.decode())):
            with OnePayload():
                text = encode(capped(self._masked(value, 0), 2 * limit)[0])
        return text, size

    def redacted(self, value: Any, limit: int) -> Any:
        """The same as a value again, for what is small."""
        return json.loads(self.payload(value, limit)[0])

    def _suspects(self, encoded: bytes) -> bool:
        return (
            self.named(encoded)
            or self.shaped(encoded)
            or (self.own is not None and self.own.possible(encoded.decode()))
        )

    def _masked(self, value: Any, depth: int) -> Any:
        if type(value) is str:
            return self._text(value, depth)
        if depth > DEEPEST:
            return TOO_DEEP
        if isinstance(value, Mapping):
            return dict(self._items(cast("Mapping[Any, Any]", value), depth + 1))
        if isinstance(value, (list, tuple)):
            return self._list(cast("list[Any]", value), depth + 1)
        if type(value) is int:
            return _CARD if 10**13 <= value < 10**16 and _is_card(str(value)) else json_safe(value)
        return value if value is None or isinstance(value, (bool, float)) else self._masked(json_safe(value), depth + 1)

    def _text(self, text: str, depth: int) -> str:
        """JSON inside a string is masked as the value that it is too, where it can be written again as it was."""
        text = self.mask_text(text)
        if text[:1] not in ("{", "[") or len(text) > _MOST_JSON or depth >= DEEPEST or not self.named(text):
            return text
        try:
            value = json.loads(text)
            write = next((each for each in (compact, json.dumps, _spaced) if each(value) == text), None)
        except (ValueError, RecursionError):
            return text
        return text if write is None else write(self._masked(value, depth + 1))

    def _items(self, items: Mapping[Any, Any], depth: int) -> Iterator[tuple[str, Any]]:
        beside = kind_of_value(items)
        for key, value in items.items():
            name = key_text(key)
            kind = beside if beside is not None and name.lower() in VALUES else kind_under(name, value, items)
            if kind is None:
                shown = self._masked(value, depth) if name != "rows" else self._rows(value, items.get("columns"), depth)
            elif isinstance(value, Mapping) and is_schema(value := cast("Mapping[Any, Any]", value)):
                shown = self._schema(value, f"***{kind}***", depth)
            else:
                shown = self._blanked(value, f"***{kind}***", depth)
            yield self.mask_text(name), shown

    def _schema(self, schema: Mapping[Any, Any], instead: str, depth: int) -> dict[str, Any]:
        """What a JSON Schema says of a secret is none; an example of it may be."""
        return {
            self.mask_text(key_text(key)): self._blanked(value, instead, depth + 1)
            if key in EXAMPLES
            else self._masked(value, depth + 1)
            for key, value in schema.items()
        }

    def _rows(self, rows: Any, columns: Any, depth: int) -> Any:
        """A table whose columns are named beside it."""
        if not isinstance(rows, list) or not isinstance(columns, list):
            return self._masked(rows, depth)
        kinds = [kind_of(each) if type(each) is str else None for each in cast("list[Any]", columns)]
        return [
            [
                self._masked(cell, depth) if kind is None else self._blanked(cell, f"***{kind}***", depth)
                for cell, kind in zip_longest(cast("list[Any]", row), kinds[: len(cast("list[Any]", row))])
            ]
            if isinstance(row, list)
            else self._masked(row, depth)
            for row in cast("list[Any]", rows)
        ]

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        if len(items) > 1 and type(items[0]) is str:
            return list(self._in_turn(items, depth))
        return [self._masked(item, depth) for item in items]

    def _in_turn(self, items: list[Any], depth: int) -> Iterator[Any]:
        """Items that begin with a text: a command line, where an option names what follows it, or headers."""
        program = items[0].rpartition("/")[2] if len(items[0]) <= 256 else ""
        before: Any = None
        kind: str | None = None
        for item in items:
            if kind is not None and type(item) is str and not item.startswith("-"):
                yield self._blanked(item, f"***{kind}***", depth)
            elif type(item) is str and type(before) is str and (item.startswith("-") or before.startswith("-")):
                yield self._argument(program, before, item, depth)
            else:
                yield self._masked(item, depth)
            before, kind = item, kind_of_option(item)

    def _argument(self, program: str, before: str, item: str, depth: int) -> str:
        """As it would be masked on a command line."""
        if before in SHORT_OPTIONS and is_strong(item) and not PATH.search(item):
            return "***secret***"
        beginning = f"{program} {before} " if before.startswith("-") else f"{program} "
        shown = self.mask_text(beginning + item) if len(beginning) <= 512 else ""
        return shown[len(beginning) :] if shown.startswith(beginning) else self._text(item, depth)

    def _blanked(self, value: Any, instead: str, depth: int) -> Any:
        """Everything under a name of a secret goes; the shape, and whether there was anything, stays."""
        if value is None or isinstance(value, bool) or value == "" or (type(value) is str and value in SHOWN):
            return value
        if depth <= DEEPEST and isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value).items()
            return {self.mask_text(key_text(key)): self._blanked(item, instead, depth + 1) for key, item in items}
        if depth <= DEEPEST and isinstance(value, (list, tuple)):
            return [self._blanked(item, instead, depth + 1) for item in cast("list[Any]", value)]
        return instead


def capped(value: Any, limit: int, encode: Callable[[Any], bytes] = encode) -> tuple[Any, int]:
    """`value` and its size as JSON; over the limit a preview stands in its place. Whatever comes in,
    what goes out is plain JSON that every encoder takes."""
    text = json_text(value, encode)
    if text is None:
        value = json_safe(value)
        text = encode(value)
    return (value, len(text)) if len(text) <= limit else (_preview(text, limit), len(text))


def _applied(rules: tuple[SecretPattern, ...], text: str) -> str:
    lowered = text.lower()
    for rule in rules:
        if any(needle in lowered for needle in rule.needles):
            text = rule.pattern.sub(rule.replacement, text)
    return text


def _without_assigned(text: str) -> str:
    """`password=…`, `"api_key": "…"`, also as JSON inside a string: tried only where a name can begin."""
    lowered = lower(text)
    parts: list[str] = []
    done = 0
    for begin in NAMES_BEGIN.finditer(lowered):
        found = ASSIGNED.match(text, begin.start()) if begin.start() >= done else None
        if found is not None:
            parts += [text[done : begin.start()], assigned(found)]
            done = found.end()
    return "".join([*parts, text[done:]])


def _spaced(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _without_cards(text: str) -> str:
    return CARDS.sub(_without_card, text) if CARD_LIKE.search(text) else text


def _without_card(found: re.Match[str]) -> str:
    return _CARD if _is_card(re.sub(r"[ -]", "", found[0])) else found[0]


def _is_card(digits: str) -> bool:
    """A number some issuer could have given out, with a check digit that is right (Luhn)."""
    if not ISSUERS.match(digits):
        return False
    doubled = (int(digit) * factor for digit, factor in zip(reversed(digits), cycle((1, 2)), strict=False))
    return sum(number // 10 + number % 10 for number in doubled) % 10 == 0


def _preview(text: bytes, limit: int) -> dict[str, Any]:
    return {"truncated": True, "preview": text.decode()[: limit // 2]}


PLAIN: Final = Masker()
"""Nothing handed in: for a text now and then."""
mask_text: Final = PLAIN.mask_text
