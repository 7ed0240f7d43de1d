"""Which places in a value hold a secret: by the key above it, by what stands beside it, by the option before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.late_patterns import late
from mcpproxy_py.core.record.secret_patterns import MAYBE, PATHS, is_random, is_strong, kind_of, last_word
from mcpproxy_py.core.record.secret_signs import NAMING

_OPTION: Final = late(r"--?[A-Za-z][\w-]*")
_HEADER: Final = late(r"[A-Za-z]+(?:-[A-Za-z]+)+|Authorization|Cookie|authorization|cookie")
VALUES: Final = ("value", "text", "default", "content")
_SCHEMA: Final = frozenset({"string", "object", "array", "number", "integer", "boolean", "null"})
EXAMPLES: Final = ("default", "example", "examples", "const", "enum")
_GRANT: Final = ("grant_type", "state", "redirect_uri", "code_verifier")
_JWK: Final = ("d", "p", "q", "dp", "dq", "qi", "k")
_SEED: Final = late(r"[A-Z2-7]{16,128}={0,6}")


SHORT_OPTIONS: Final = frozenset({"-p", "-P", "-a", "-w", "-k"})
PATH: Final = late(r"[/:\\]|\.[a-z]{1,4}\Z")


def kind_of_value(items: Mapping[Any, Any]) -> str | None:
    """Of what stands under `value` or its like, by the name that stands beside it."""
    small = {key.lower(): value for key, value in items.items() if type(key) is str}
    if small.keys().isdisjoint(VALUES):
        return None
    said = next((each for each in (small.get(value) for value in VALUES) if each is not None), None)
    if type(said) is str and " " in said and not small.keys() & {"name", "key", "header"}:
        return None  # prose, under a title that speaks of a secret
    names = (small.get(naming) for naming in NAMING)
    return next((kind for name in names if isinstance(name, str) and (kind := kind_of(name)) is not None), None)


def kind_under(name: str, value: Any, items: Mapping[Any, Any]) -> str | None:
    kind = kind_of(name)
    if kind is None:
        return "secret" if type(value) is str and _tells(name, value, items) else None
    if (name.lower() in PATHS and str(value).startswith("/")) or (
        isinstance(value, (Mapping, list)) and last_word(name) == "code"
    ):
        return None
    return None if isinstance(value, (int, float)) and last_word(name) == "pass" else kind


def _tells(name: str, value: str, items: Mapping[Any, Any]) -> bool:
    """Whether a name that may be harmless stands over a secret."""
    if name in _JWK and "kty" in items:
        return True
    word = last_word(name)
    if word not in MAYBE:
        return False
    if word == "code":
        return name == word and is_random(value) and any(each in items for each in _GRANT)
    if word == "pin":
        return 4 <= len(value) <= 12 and value.isdigit()
    return is_strong(value) or is_random(value, digest=True) or _SEED.fullmatch(value) is not None


def is_schema(value: Mapping[Any, Any]) -> bool:
    kind = value.get("type")
    return kind in _SCHEMA if isinstance(kind, str) else isinstance(kind, list) or "$ref" in value or "anyOf" in value


def kind_of_option(item: Any) -> str | None:
    """What an option, or a header, says of what follows it."""
    if type(item) is not str or len(item) > 64:
        return None
    return kind_of(item) if _OPTION.fullmatch(item) or _HEADER.fullmatch(item) else None
