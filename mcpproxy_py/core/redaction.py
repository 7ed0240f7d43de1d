"""Secrets are masked before anything is written (ACT-9): by the key they stand under and by their looks.

Masking errs on the safe side where a key names a secret, and on the readable side where only the looks
speak: ids, hashes, timestamps and counts have to stay, or the record is of no use. What is clean, which is
nearly everything, is found clean by one pass over its JSON text and returned as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import cycle
from typing import Any, Final, cast

from mcpproxy_py.core.plain import DEEPEST, TOO_DEEP, compact, json_safe, json_text, key_text, pruned
from mcpproxy_py.core.secret_shapes import (
    CARD_LIKE,
    CARDS,
    ISSUERS,
    KEY_ENDS,
    KEY_HARMLESS,
    KEY_PARTS,
    KEY_WHOLE,
    NEEDLES,
    RULES,
    SHOUTED,
)

_CARD: Final = "***card***"


def mask(value: Any) -> Any:
    """`value` without its secrets, as plain JSON values. Never changes its argument; returns it when it is clean."""
    text = json_text(value)
    return value if text is not None and not suspicious(text) else _masked(value, 0)


def capped(value: Any, limit_bytes: int) -> tuple[Any, int]:
    """`value` and its size as JSON; over the limit a preview stands in its place. Whatever comes in,
    what goes out is plain JSON that every encoder takes."""
    safe, text = _as_json(value)
    size = len(text.encode())
    return (safe, size) if size <= limit_bytes else (_preview(text, limit_bytes), size)


def redacted(value: Any, limit_bytes: int, size: int | None = None) -> tuple[Any, int]:
    """`capped(mask(value), …)` in one pass, with the size of what came in. Where that is over the limit only
    the part a preview can show is masked, so a huge result costs no more than a big one. A caller that knows
    the size saves measuring it."""
    if size is not None and size > limit_bytes:
        return _preview(_as_json(mask(pruned(value, limit_bytes)))[1], limit_bytes), size
    safe, text = _as_json(value)
    size = len(text.encode()) if size is None else size
    if size > limit_bytes:
        return redacted(safe, limit_bytes, size)
    return capped(_masked(safe, 0), 2 * limit_bytes)[0] if suspicious(text) else safe, size


def suspicious(text: str) -> bool:
    """Whether this text could hold a secret at all. Says yes too often and never no wrongly."""
    lowered = text.lower()
    for gate, needles in NEEDLES:
        if gate in lowered:
            for needle in needles:
                if needle in lowered:
                    return True
    for needle in SHOUTED:
        if needle in text:
            return True
    return CARD_LIKE.search(text) is not None


def mask_text(text: str) -> str:
    """The text without the secrets that their looks give away."""
    lowered = text.lower()
    for rule in RULES:
        if any(needle in lowered for needle in rule.needles):
            text = rule.pattern.sub(rule.replacement, text)
    return CARDS.sub(_without_card, text)


def _masked(value: Any, depth: int) -> Any:
    if type(value) is str:
        return mask_text(value) if suspicious(value) else value
    if depth > DEEPEST:
        return TOO_DEEP
    if isinstance(value, Mapping):
        return dict(_masked_items(cast("Mapping[Any, Any]", value), depth + 1))
    if isinstance(value, (list, tuple)):
        return [_masked(item, depth + 1) for item in cast("list[Any]", value)]
    if type(value) is int:
        return _CARD if 10**13 <= value < 10**16 and _is_card(str(value)) else value
    return value if value is None or isinstance(value, (bool, float)) else _masked(json_safe(value), depth + 1)


def _masked_items(items: Mapping[Any, Any], depth: int) -> Iterator[tuple[str, Any]]:
    for key, value in items.items():
        name = key_text(key)
        shown, kind = _key(name) if len(name) <= 64 else _read_key(name)
        yield shown, _masked(value, depth) if kind is None else _blanked(value, f"***{kind}***", depth)


def _blanked(value: Any, instead: str, depth: int) -> Any:
    """Everything under a key that names a secret goes; the shape, and whether there was anything, stays."""
    if value is None or isinstance(value, bool) or value == "":
        return value
    if depth <= DEEPEST and isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {mask_text(key_text(key)): _blanked(item, instead, depth + 1) for key, item in items}
    if depth <= DEEPEST and isinstance(value, (list, tuple)):
        return [_blanked(item, instead, depth + 1) for item in cast("list[Any]", value)]
    return instead


def _read_key(name: str) -> tuple[str, str | None]:
    """How a key is shown (it can hold a secret itself), and what kind of secret it names, if any."""
    plain = re.sub(r"[^a-z0-9]+", "", name.lower())
    return mask_text(name), _kind(plain)


_key: Final = lru_cache(maxsize=4096)(_read_key)


def _kind(plain: str) -> str | None:
    if KEY_HARMLESS.search(plain):
        return None
    if plain in KEY_WHOLE:
        return KEY_WHOLE[plain]
    parts = (kind for part, kind in KEY_PARTS if part in plain)
    ends = (kind for end, kind in KEY_ENDS if plain.endswith(end))
    return next(parts, None) or next(ends, None)


def _without_card(found: re.Match[str]) -> str:
    return _CARD if _is_card(re.sub(r"[ -]", "", found[0])) else found[0]


def _is_card(digits: str) -> bool:
    """A number some issuer could have given out, with a check digit that is right (Luhn)."""
    if not ISSUERS.match(digits):
        return False
    doubled = (int(digit) * factor for digit, factor in zip(reversed(digits), cycle((1, 2)), strict=False))
    return sum(number // 10 + number % 10 for number in doubled) % 10 == 0


def _as_json(value: Any) -> tuple[Any, str]:
    text = json_text(value)
    if text is not None:
        return value, text
    safe = json_safe(value)
    return safe, compact(safe)


def _preview(text: str, limit_bytes: int) -> dict[str, Any]:
    return {"truncated": True, "preview": text[: limit_bytes // 2]}
