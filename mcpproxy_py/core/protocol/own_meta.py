"""Keys of `_meta` that are the gateway's own: who reads one has to know that it comes from the gateway.

A server, a provider or a client may write any key it likes. So keys under our prefix, in whatever spelling, are taken
out of everything that comes from outside, at whatever depth.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

from mcpproxy_py.core import json_values

PREFIX: Final = "mcpproxy"
_OWN: Final = re.compile(r"mcpproxy(?:$|[^a-z0-9])")
LONGEST: Final = 256
"""Characters of a key that are looked at; ours are shorter."""


def is_own(key: str) -> bool:
    """Whether a key of `_meta` is one of ours, or could be taken for one."""
    if key.isascii() and PREFIX not in key.lower():
        return False
    seen = unicodedata.normalize("NFKC", key[:LONGEST]).casefold()
    return _OWN.match("".join(each for each in seen if each.isprintable() and not each.isspace())) is not None


def may_hold_own(data: bytes) -> bool:
    """Whether there can be one in this JSON. What is not in plain sight is escaped, or in another alphabet."""
    return b"\\u" in data or (b"_meta" in data and (not data.isascii() or b"mcpproxy" in data.lower()))


def remove_own(value: Any) -> int:
    """Take them out of every `_meta` in this value, which is the caller's to change. How many there were."""
    removed, left = 0, [value]
    while left:
        each = left.pop()
        inner: Iterable[Any] = json_values.as_array(each) or ()
        if (found := json_values.as_object(each)) is not None:
            removed += _removed(found.get("_meta"))
            inner = found.values()
        left += [one for one in inner if type(one) in (dict, list)]
    return removed


def _removed(meta: object) -> int:
    found = json_values.as_object(meta) or {}
    own = [key for key in found if is_own(key)]
    for key in own:
        del found[key]
    return len(own)
