"""Listings as Hypothesis draws them, and listings with one thing changed (SEC-3)."""

from __future__ import annotations

import copy
import random
from typing import Any, Final

from hypothesis import strategies as st

WORDS: Final = ("type", "properties", "required", "description", "enum", "anyOf", "$defs", "$ref", "items", "default",
                "additionalProperties", "readOnlyHint", "destructiveHint", "title", "_meta", "ui", "anthropic/x",
                "annotations", "arguments", "name", "", "a", "é", "\ud800")  # fmt: skip
SCALARS: Final = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from((10**400, 1.0, 0.5, -0.0, 1e400)),
    st.sampled_from(WORDS), st.text(max_size=6),
)  # fmt: skip
JSON: Final = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=5,
)
KINDS: Final = st.sampled_from(("string", "integer", "number", "object", ["string", "null"]))
SCHEMAS: Final = st.recursive(
    st.booleans() | st.fixed_dictionaries({}, optional={"type": KINDS, "enum": st.lists(SCALARS, max_size=3)}),
    lambda inner: st.fixed_dictionaries({}, optional={
        "type": KINDS, "description": st.text(max_size=5), "default": SCALARS, "minimum": st.integers(-2, 2) | SCALARS,
        "maxLength": st.integers(-2, 2), "required": st.lists(st.sampled_from("ab"), max_size=2),
        "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3), "items": inner,
        "additionalProperties": inner, "anyOf": st.lists(inner, max_size=3), "oneOf": st.lists(inner, max_size=2),
        "allOf": st.lists(inner, max_size=2), "not": inner, "if": inner, "then": inner, "pattern": st.text(max_size=2),
        "$defs": st.dictionaries(st.sampled_from("de"), inner, max_size=2),
        "$ref": st.sampled_from(("#/$defs/d", "#/$defs/e", "#")), "x-own": SCALARS,
        "patternProperties": st.dictionaries(st.sampled_from("ab"), inner, max_size=1),
        "dependentRequired": st.dictionaries(st.sampled_from("ab"), st.lists(st.sampled_from("ab")), max_size=1),
    }),
    max_leaves=4,
)  # fmt: skip
HINTS: Final = st.fixed_dictionaries({}, optional={
    key: st.booleans() | SCALARS
    for key in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint", "title", "own")
})  # fmt: skip
META: Final = st.dictionaries(
    st.sampled_from(("anthropic/requiresUserInteraction", "anthropic/alwaysLoad", "ui", "openai/x", "version", "")),
    JSON, max_size=3,
)  # fmt: skip
NAMES: Final = st.sampled_from(("save", "load", "save_all", "sаve", "SAVE", "x"))
TOOLS: Final = st.fixed_dictionaries(
    {"name": NAMES, "inputSchema": SCHEMAS.map(lambda each: each if isinstance(each, dict) else {})},
    optional={"description": st.text(max_size=20) | st.none(), "title": st.text(max_size=5),
              "annotations": HINTS | JSON, "outputSchema": SCHEMAS, "_meta": META | JSON,
              "execution": JSON, "icons": JSON, "own": JSON},
)  # fmt: skip
ARGUMENTS: Final = st.lists(st.fixed_dictionaries(
    {"name": st.sampled_from("abc")}, optional={"required": st.booleans() | SCALARS, "description": st.text(max_size=3)}
), max_size=3)  # fmt: skip
PROMPTS: Final = st.fixed_dictionaries(
    {"name": NAMES}, optional={"description": st.text(max_size=5), "arguments": ARGUMENTS | JSON, "_meta": META}
)
LISTINGS: Final = st.builds(
    lambda tools, instructions, prompts: {"tools": tools, "instructions": instructions, "prompts": prompts},
    st.lists(TOOLS, max_size=3), st.none() | st.text(max_size=5), st.lists(PROMPTS, max_size=2),
)  # fmt: skip


def changed(value: Any, seed: int) -> Any:
    """The same with one thing in it added, taken out or changed, somewhere."""
    pick = random.Random(seed)
    made = copy.deepcopy(value)
    places = [made]
    for each in places:
        inside = each.values() if isinstance(each, dict) else each
        places += [one for one in inside if isinstance(one, dict | list)]
    place = pick.choice(places)
    leaf = pick.choice((None, True, False, 0, 1, "x", {}, [], {"type": "string"}, ["a"], "\u202e"))
    if isinstance(place, list):
        if place and pick.random() < 0.6:
            at = pick.randrange(len(place))
            place[at : at + 1] = [] if pick.random() < 0.4 else [leaf]
        else:
            place.append(leaf)
    else:
        key = pick.choice([*place, *WORDS])
        if key in place and pick.random() < 0.4:
            del place[key]
        else:
            place[key] = leaf
    return made
