"""SPEC section 3 written a second time, as tables, for the exhaustive tests to compare against.

Nothing here is shared with the code under test: the classes, the verdicts and the messages are spelled out
by hand from the specification.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

VARIANTS = ("read", "write", "destructive")
ABSENT = object()
HINT_VALUES = (True, False, ABSENT)

# (readOnlyHint, destructiveHint) -> class, all nine cells by hand.
CLASS_OF_HINTS = {
    (True, True): "destructive",
    (True, False): "read",
    (True, ABSENT): "read",
    (False, True): "destructive",
    (False, False): "write",
    (False, ABSENT): "write",
    (ABSENT, True): "destructive",
    (ABSENT, False): "write",
    (ABSENT, ABSENT): "unknown",
}

# (variant, class) -> verdict in strict mode with `unannotated: allow`: the table of section 3, cell by cell.
VERDICTS = {
    ("read", "destructive"): "refuse",
    ("read", "write"): "refuse",
    ("read", "read"): "allow",
    ("read", "unknown"): "allow",
    ("write", "destructive"): "refuse",
    ("write", "write"): "allow",
    ("write", "read"): "warn",
    ("write", "unknown"): "allow",
    ("destructive", "destructive"): "allow",
    ("destructive", "write"): "allow",
    ("destructive", "read"): "allow",
    ("destructive", "unknown"): "allow",
}

MARKED = {"destructive": "destructive", "write": "not read-only"}


@dataclass(frozen=True)
class Cell:
    """One cell of the matrix: what is asked, of what tool, under which policy."""

    variant: str
    intent: str
    """A value, `missing` or `nonsense`."""
    read_only: object
    destructive: object
    strict: bool
    unannotated: str

    @property
    def hints(self) -> dict[str, bool]:
        said = {"readOnlyHint": self.read_only, "destructiveHint": self.destructive}
        return {name: value for name, value in said.items() if isinstance(value, bool)}

    @property
    def tool(self) -> str:
        """The name the matrix server gives the tool with these hints."""
        return f"hint_{_letter(self.read_only)}_{_letter(self.destructive)}"

    @property
    def params(self) -> dict[str, object]:
        named = {"name": f"s:{self.tool}"}
        if self.intent == "missing":
            return named
        return {**named, "intent": {"operation_type": "delete-ish" if self.intent == "nonsense" else self.intent}}

    def expected(self) -> tuple[str, str | None, str | None]:
        """(verdict, code, message): `allow`, `warn` or `refuse`, with the words SPEC gives."""
        outer = f"call_tool_{self.variant}"
        if self.intent == "missing":
            return "refuse", "MISSING_INTENT", f"intent parameter is required for {outer}"
        if self.intent == "nonsense":
            text = "Invalid intent.operation_type 'delete-ish': must be read, write, or destructive"
            return "refuse", "INVALID_OPERATION_TYPE", text
        if self.intent != self.variant:
            return "refuse", "INTENT_MISMATCH", f"Intent mismatch: tool is {outer} but intent declares {self.intent}"
        found = CLASS_OF_HINTS[self.read_only, self.destructive]
        unruly = found == "unknown" and self.unannotated != "allow"
        counted = self.unannotated if unruly else found
        verdict = VERDICTS[self.variant, counted]
        by = "by the rule for unannotated tools" if unruly else "by server"
        if verdict == "warn":
            return "warn", None, f"Tool 's:{self.tool}' is marked read-only {by}, call_tool_read is enough"
        if verdict == "allow":
            return "allow", None, None
        message = f"Tool 's:{self.tool}' is marked {MARKED[counted]} {by}, use call_tool_{counted}"
        return ("refuse", "SERVER_MISMATCH", message) if self.strict else ("warn", None, message)


def _letter(value: object) -> str:
    return {True: "t", False: "f"}.get(value, "n") if isinstance(value, bool) else "n"


CELLS = [
    Cell(*values)
    for values in itertools.product(
        VARIANTS,
        (*VARIANTS, "missing", "nonsense"),
        HINT_VALUES,
        HINT_VALUES,
        (True, False),
        ("allow", "write", "destructive"),
    )
]
