"""A person's yes before a call: what they are asked, and what counts as one (SEC-4).

The person decides by what they see. So what the gateway knows comes first (tool, server, class, how much there is),
then the values by their paths: those that the tool's schema declares before all others, the short ones before the long
ones, and of every argument one value before a second of any. Each line begins with words of ours or a dash; what an
agent wrote stands in quotes, with everything escaped that does not show. Long values are cut, and say so; what is not
shown is counted, and the digest is of all of it. Everything but a plain yes is a no.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple, cast

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.confusables import is_invisible
from mcpproxy_py.core.policy.tool_class import BY
from mcpproxy_py.core.policy.tool_results import CONFIRM_KEY
from mcpproxy_py.core.values import Relay, Route

METHOD: Final = "elicitation/create"
YES: Final = "allow"
MOST_LINES: Final = 30
MOST_DECLARED: Final = 22
"""Of these lines the schema's own arguments get so many at most: what it does not know is looked at too."""
MOST_SHOWN: Final = 4_000
"""Characters of all values and their paths. A person does not read more; they are told that there is more."""
HEAD: Final = 160
TAIL: Final = 40
"""Of a long value its beginning and its end are shown."""
_REASON: Final = 1_000
_PATH: Final = 160
_STEP: Final = 60
_LEAVES: Final = 20_000
"""Values that are counted; of one argument a fraction, so that no argument uses up the count."""
_LEAVES_OF_ONE: Final = 2_000
_MASKED_WHOLE: Final = 65_536
"""Bytes up to which arguments are masked with all that stands around a value."""
_MASKED: Final = 4_000
_MOST_MARKS: Final = 2
"""Accents that a letter may have; more would cover what stands around it."""
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_WORD: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{_STEP - 1}}}")
_NO: Final[Mapping[str, str]] = {
    "accept": "the person did not allow it",
    "decline": "the person declined",
    "cancel": "the person put the question away",
}
Mask = Callable[[Any], Any]
Path = tuple[str | int, ...]


def takes_forms(capabilities: Mapping[str, Any]) -> bool:
    """Whether this client can show a person the question. One that declares nothing closer takes forms; and the
    command line on a terminal has asked already."""
    if CONFIRM_KEY in capabilities:
        return True
    declared = json_values.as_object(capabilities.get("elicitation"))
    return declared is not None and (not declared or "form" in declared)


def question(to: Route | Relay, mask: Mask = lambda value: value) -> dict[str, Any]:
    """`to` is what was decided, and so exactly what will be sent; `mask` takes the secrets out of what is shown."""
    field = {"type": "boolean", "title": "Allow it", "default": False}
    schema = {"type": "object", "properties": {YES: field}, "required": [YES]}
    mark = {CONFIRM_KEY: {"tool": to.full_name, "class": to.risk}}
    return {"message": "\n".join(_lines(to, mask)), "requestedSchema": schema, "_meta": mark}


def objection(said: Mapping[str, Any]) -> str | None:
    """Why this answer is no yes; `None` where it is one."""
    content = json_values.as_object(said.get("content")) or {}
    if said.get("action") == "accept" and content.get(YES) is True:
        return None
    action = said.get("action")
    return _NO.get(action if isinstance(action, str) else "", "the answer was no answer")


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """SHA-256 of the arguments as compact JSON in ASCII, their keys sorted."""
    return sha256(_canonical(arguments)).hexdigest()


def _canonical(arguments: Mapping[str, Any]) -> bytes:
    return json.dumps(arguments, sort_keys=True, separators=(",", ":"), default=str).encode()


def _lines(to: Route | Relay, mask: Mask) -> Iterator[str]:
    yield f"Allow this {to.risk} call?"
    if isinstance(to, Relay):
        yield f"Request: {_quoted(to.method, _REASON)} to the server {to.server}"
        yield f"Class: {to.risk}, because nobody can say what this method does"
        yield from _arguments(to.params, (), mask)
        return
    yield f"Tool: {_escaped(to.full_name)}"
    yield f"Server: {to.server}"
    yield f"Class: {to.tool_class} {BY[to.origin]}"
    schema = json_values.as_object(to.tool.wire.get("inputSchema")) or {}
    yield from _arguments(to.args, json_values.as_object(schema.get("properties")) or {}, mask)
    if to.intent.reason:
        yield f"The agent's words, which nobody checked: {_quoted(to.intent.reason, _REASON)}"


class Leaf(NamedTuple):
    """A value in the arguments that has no others in it."""

    path: Path
    value: Any

    @property
    def size(self) -> int:
        """About how long it is when it is shown."""
        if isinstance(self.value, str):
            return len(self.value)
        return self.value.bit_length() // 3 if isinstance(self.value, int) else 8


def _arguments(arguments: Mapping[str, Any], declared: Iterable[str], mask: Mask) -> Iterator[str]:
    if not arguments:
        yield "Arguments: none"
        return
    encoded = _canonical(arguments)
    whole = len(encoded) <= _MASKED_WHOLE
    if whole:
        arguments, mask = mask(arguments), lambda value: value
    known = [key for key in declared if key in arguments]
    groups, count, all_counted = _found({key: arguments[key] for key in known} | dict(arguments))
    lines = _fitting(_ordered(groups, set(known)), mask)
    told = f"{count:,} value{'' if count == 1 else 's'}" if all_counted else f"more than {count:,} values"
    yield f"Arguments: {told}, {len(encoded):,} bytes of JSON, SHA-256 {sha256(encoded).hexdigest()}"
    yield from lines
    if len(lines) < count or not all_counted:
        yield f"Not shown: {'' if all_counted else 'more than '}{count - len(lines):,} of these values"


def _found(arguments: Mapping[str, Any]) -> tuple[dict[str, list[Leaf]], int, bool]:
    """The values of each argument, how many they are, and whether that is all of them."""
    groups: dict[str, list[Leaf]] = {}
    count, complete = 0, True
    for key, value in arguments.items():
        if count >= _LEAVES:
            return groups, count, False
        most = min(_LEAVES_OF_ONE, _LEAVES - count)
        found = list(islice(_leaves((key,), value), most + 1))
        complete = complete and len(found) <= most
        groups[key] = found[:most]
        count += len(groups[key])
    return groups, count, complete


def _leaves(path: Path, value: Any) -> Iterator[Leaf]:
    if value and isinstance(value, dict):
        for name, below in cast("dict[str, Any]", value).items():
            yield from _leaves((*path, name), below)
    elif value and isinstance(value, list):
        for number, below in enumerate(cast("list[Any]", value)):
            yield from _leaves((*path, number), below)
    else:
        yield Leaf(path, value)


def _ordered(groups: Mapping[str, Sequence[Leaf]], declared: set[str]) -> list[Leaf]:
    """In the order in which they get a line: one of each argument, the shortest first, before a second of any."""
    shortest = {key: sorted(leaves, key=lambda leaf: leaf.size) for key, leaves in groups.items()}

    def in_turn(keys: Iterable[str]) -> list[Leaf]:
        rows = sorted((shortest[key] for key in keys), key=lambda leaves: leaves[0].size)
        return [leaf for turn in zip_longest(*rows) for leaf in turn if leaf is not None]

    known = in_turn(key for key in groups if key in declared)
    other = in_turn(key for key in groups if key not in declared)
    kept = max(MOST_DECLARED, MOST_LINES - len(other))
    return known[:kept] + other[: MOST_LINES - min(len(known), kept)]


def _fitting(leaves: Iterable[Leaf], mask: Mask) -> list[str]:
    """The lines of the first that fit, the cut ones last."""
    room, short, cut = MOST_SHOWN, list[str](), list[str]()
    for leaf in leaves:
        value, is_cut = _shown(leaf, mask)
        line = f"- {_path(leaf.path)}: {value}"
        if len(line) > room:
            continue
        room -= len(line)
        (cut if is_cut else short).append(line)
    return short + cut


def _shown(leaf: Leaf, mask: Mask) -> tuple[str, bool]:
    """How a value is shown, and whether it was cut."""
    text = leaf.value if isinstance(leaf.value, str) else json_values.text_of(leaf.value)
    mark, size = '"' if isinstance(leaf.value, str) else "", len(text)
    if size <= 2 * _MASKED:
        head = tail = _masked(leaf, text, mask)
        size = len(head)
        whole, taken = _escaped_within(head, HEAD + TAIL)
        if taken == size:
            return f"{mark}{whole}{mark}", False
    else:
        head, tail = (_masked(leaf, part, mask) for part in (text[:_MASKED], text[-_MASKED:]))
    (begins, first), (ends, last) = _escaped_within(head, HEAD), _escaped_within(tail, TAIL, backwards=True)
    return f"{mark}{begins}{mark} … {size - first - last:,} more characters … {mark}{ends}{mark}", True


def _masked(leaf: Leaf, text: str, mask: Mask) -> str:
    """What the names above it say of it counts too."""
    held: Any = text
    for step in reversed(leaf.path):
        held = {step: held} if isinstance(step, str) else [held]
    found = mask(held)
    while isinstance(found, (dict, list)):
        several = cast("dict[str, Any] | list[Any]", found)
        found = next(iter(several.values() if isinstance(several, dict) else several), "")
    return str(found)


def _quoted(text: str, most: int) -> str:
    shown, taken = _escaped_within(text, most)
    return f'"{shown}"' if taken == len(text) else f'"{shown}" … {len(text) - taken:,} more characters'


def _escaped_within(text: str, most: int, *, backwards: bool = False) -> tuple[str, int]:
    """As much of it, or of its end, as fits when everything is escaped that does not show; and how many characters that
    is."""
    pieces = list(_pieces(text[-most:] if backwards else text[:most]))
    taken, room = 0, most
    for piece in reversed(pieces) if backwards else pieces:
        room -= len(piece)
        if room < 0:
            break
        taken += 1
    return "".join(pieces[len(pieces) - taken :] if backwards else pieces[:taken]), taken


def _escaped(text: str) -> str:
    return "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """Each character as it is shown: what moves, hides or overlays others, and what ends a quote, is escaped."""
    marks = _MOST_MARKS
    for char in text:
        if char.isascii():
            marks = 0 if char.isalpha() else _MOST_MARKS
            yield f"\\{char}" if char in '"\\' else char if char.isprintable() else _code(char)
            continue
        is_mark = unicodedata.category(char) in ("Mn", "Me")
        marks = marks + 1 if is_mark else 0 if char.isalpha() else _MOST_MARKS
        hidden = not char.isprintable() or is_invisible(char) or (is_mark and marks > _MOST_MARKS)
        yield _code(char) if hidden else char


def _code(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    return f"\\u{ord(char):04x}" if ord(char) < 65_536 else f"\\U{ord(char):08x}"


def _path(path: Path) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else _step(step) for step in path).removeprefix(".")
    return text if len(text) <= _PATH else f"{text[: _PATH // 2]} … {text[-_PATH // 4 :]} ({len(path)} steps)"


def _step(key: str) -> str:
    return f".{key}" if _WORD.fullmatch(key) else f"[{_quoted(key, _STEP)}]"
