"""Every text of a tool that an agent may be shown, and where it stands.

A text may stand anywhere: in the description of a parameter of a parameter, in an enum, a default, an example, the name
of a parameter, in `_meta`. So all of the wire object is read, whatever its keys are called. It is walked without
recursion, and a path is only written out where something was found, because schemas may be as deep as a server likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mcpproxy_py.core.json_values import as_array, as_object
from mcpproxy_py.core.pins.scan.finding import visible

Role = Literal["text", "name"]
"""`name`: what is compared and typed, like the name of a tool or parameter, so that nothing invisible belongs in it."""
NOT_SHOWN: Final = frozenset(("icons",))
"""Pictures of the tool itself, which hosts show to people."""
MAX_TEXTS: Final = 100_000
MAX_WHERE: Final = 200

Where: TypeAlias = "tuple[Where | None, str]"
"""A key and what it stands in."""


class ListedText(NamedTuple):
    at: Where
    text: str
    role: Role = "text"

    @property
    def key(self) -> str:
        """The nearest name: `description`, `default`."""
        return self.at[1]

    @property
    def parameter(self) -> str:
        """The parameter that a description is of; empty where it is of none."""
        parent = self.at[0]
        if parent is None or parent[0] is None or parent[0][1] not in ("properties", "patternProperties"):
            return ""
        return parent[1]


def written(at: Where | None) -> str:
    """`inputSchema.properties.path.description`; of a deep one its end. All of it can be seen."""
    keys: list[str] = []
    length = 0
    while at is not None and length < 10 * MAX_WHERE:
        keys.append(at[1][:MAX_WHERE])
        length += len(keys[-1])
        at = at[0]
    text = visible(".".join(reversed(keys)))
    return text if len(text) <= MAX_WHERE and at is None else "…" + text[-MAX_WHERE:]


def texts_of(wire: Mapping[str, Any]) -> Iterator[ListedText]:
    """In the order they are listed, which is the order a model reads them in."""
    stack: list[tuple[Where | None, Any]] = [
        ((None, key), value) for key, value in reversed(list(wire.items())) if key not in NOT_SHOWN
    ]
    left = MAX_TEXTS
    while stack and left > 0:
        at, value = stack.pop()
        if isinstance(value, str):
            assert at is not None
            left -= 1
            yield ListedText(at, value, "name" if at == (None, "name") else "text")
        elif (members := as_object(value)) is not None:
            for key in members:
                left -= 1
                yield ListedText((at, key), key, "name")
            stack += [((at, key), below) for key, below in reversed(members.items())]
        elif (items := as_array(value)) is not None:
            stack += [((at, str(index)), below) for index, below in reversed(list(enumerate(items)))]
