"""Every difference between two listings, each with what it means (SEC-3).

Pure and total: whatever differs in what is pinned is at least one difference, and equal listings have none. Subjects
are compared by their digests first, so what did not change costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.json_values import quoted, same
from mcpproxy_py.core.pins.hint_changes import HintMove, annotation_moves, meta_moves
from mcpproxy_py.core.pins.listing import INSTRUCTIONS, PROMPT, SERVER, TOOL, PinnedListing
from mcpproxy_py.core.pins.parts import pinned_part
from mcpproxy_py.core.pins.renames import PinnedNames
from mcpproxy_py.core.pins.schema_changes import Side, WorkBudget, schema_changes
from mcpproxy_py.core.pins.schema_values import Accepts

Judgement = Literal[
    "raises_risk", "lowers_risk", "breaks_callers", "widens_input", "rewords", "renames", "adds", "removes"
]
NODES: Final = 2_000_000
"""Keywords and values of schemas that one comparison looks at: of 50,000 tools that all changed forty each."""
MAX_ARGUMENTS: Final = 1_000
"""Of one prompt."""


class Difference(NamedTuple):
    """One thing that is not what it was."""

    subject: str
    """`tool:NAME`, `prompt:NAME`, `instructions` or `server`."""
    part: str
    """Which part of it: `annotations.readOnlyHint`, `inputSchema.properties.path.type`; empty: all of it."""
    judgement: Judgement
    before: Any
    """`None` where there was none."""
    after: Any
    text: str
    """A plain sentence."""


def compare(approved: PinnedListing, listed: PinnedListing, trusted: bool) -> tuple[Difference, ...]:
    """`trusted`: whether the hints of this server may lower a class (`trust_annotations`)."""
    budget = WorkBudget(NODES)
    return tuple(chain(_instructions(approved, listed), _about(approved, listed),
                       _tools(approved, listed, trusted, budget),
                       _prompts(approved, listed)))  # fmt: skip


# Instructions.


def _instructions(approved: PinnedListing, listed: PinnedListing) -> Iterator[Difference]:
    before, after = approved.instructions, listed.instructions
    if before == after:
        return
    if after is None:
        yield Difference(INSTRUCTIONS, "", "removes", before, None, "the server gives no instructions any more")
    else:
        text = "the server's instructions are reworded" if before else "the server gives instructions, and gave none"
        yield Difference(INSTRUCTIONS, "", "rewords", before, after, text)


def _about(approved: PinnedListing, listed: PinnedListing) -> Iterator[Difference]:
    before, after = approved.about, listed.about
    if after and not same(before, after):
        text = f"what the server says about itself is {'new' if before is None else 'different'}"
        yield Difference(SERVER, "", "rewords", before, after, text)


# Tools.


def _tools(approved: PinnedListing, listed: PinnedListing, trusted: bool, budget: WorkBudget) -> Iterator[Difference]:
    known: PinnedNames | None = None
    for name, wire in listed.tools.items():
        subject = f"{TOOL}{name}"
        if name not in approved.tools:
            known = known or PinnedNames(approved, listed)
            yield _new_tool(subject, name, wire, known)
        elif approved.digest_of(subject) != listed.digest_of(subject):
            before, after = pinned_part(approved.tools[name]), pinned_part(wire)
            yield from _whole(subject, before, after, list(_changed_tool(subject, before, after, trusted, budget)))
    for name, wire in approved.tools.items():
        if name not in listed.tools:
            yield Difference(f"{TOOL}{name}", "", "removes", wire, None, f"the tool '{quoted(name)}' is gone")


def _new_tool(subject: str, name: str, wire: Mapping[str, Any], known: PinnedNames) -> Difference:
    found = known.renamed(name, wire)
    if found is None:
        return Difference(subject, "", "adds", None, wire, f"the tool '{quoted(name)}' is new")
    old, why = found
    return Difference(subject, "name", "renames", old, name, f"the tool '{quoted(name)}' is new, and {why}")


def _whole(subject: str, before: Any, after: Any, found: list[Difference]) -> list[Difference]:
    """What differs and was not understood is told all the same."""
    return found or [Difference(subject, "", "breaks_callers", before, after, "it differs in a way nobody foresaw")]


def _changed_tool(
    subject: str, before: Mapping[str, Any], after: Mapping[str, Any], trusted: bool, budget: WorkBudget
) -> Iterator[Difference]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if (key in before) is (key in after) and same(old, new):
            continue
        if key == "annotations":
            yield from _moved(subject, annotation_moves(old, new, trusted))
        elif key == "_meta":
            yield from _moved(subject, meta_moves(old, new))
        elif key == "inputSchema":
            yield from _schema(subject, key, old, new, "input", budget)
        elif key == "outputSchema":
            yield from _output(subject, before, after, budget)
        elif key == "execution":
            yield _execution(subject, old, new)
        else:
            yield _reworded(subject, key, before, after)


def _moved(subject: str, moves: Iterable[HintMove]) -> Iterator[Difference]:
    return (Difference(subject, each.part, each.move, each.before, each.after, each.text) for each in moves)


def is_hint(difference: Difference) -> bool:
    """Whether it is about what `raised` may apply at once."""
    return difference.part.partition(".")[0] in ("annotations", "_meta")


def hint_differences(
    subject: str, before: Mapping[str, Any], after: Mapping[str, Any], trusted: bool
) -> Iterator[Difference]:
    """Those alone, of what is pinned of one tool."""
    if not same(before.get("annotations"), after.get("annotations")):
        yield from _moved(subject, annotation_moves(before.get("annotations"), after.get("annotations"), trusted))
    yield from _moved(subject, meta_moves(before.get("_meta"), after.get("_meta")))


def _reworded(subject: str, key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Difference:
    part = quoted(key)
    how = "reworded" if key in before and key in after else "new" if key in after else "gone"
    return Difference(subject, part, "rewords", before.get(key), after.get(key), f"{part} is {how}")


JUDGED: Final[Mapping[tuple[Side, Accepts], Judgement]] = {
    ("input", "wider"): "widens_input",
    ("input", "narrower"): "breaks_callers",
    ("input", "either"): "breaks_callers",
    ("input", "same"): "rewords",
    ("output", "wider"): "breaks_callers",
    ("output", "narrower"): "rewords",
    ("output", "either"): "breaks_callers",
    ("output", "same"): "rewords",
}
"""What a schema that takes more or less is for who calls: of arguments more is harmless, of results less. A result that
promises more is no risk, and goes on under the approved schema like what is reworded."""


def _schema(subject: str, key: str, old: Any, new: Any, side: Side, budget: WorkBudget) -> Iterator[Difference]:
    for change in schema_changes(old, new, key, side, budget):
        judgement = JUDGED[side, change.accepts]
        yield Difference(subject, change.part, judgement, change.before, change.after, change.text)


def _output(subject: str, before: Mapping[str, Any], after: Mapping[str, Any], budget: WorkBudget
) -> Iterator[Difference]:  # fmt: skip
    key = "outputSchema"
    old, new = before.get(key), after.get(key)
    if old is None:
        yield Difference(subject, key, "rewords", old, new, f"{key} is new: its results have a schema now")
    elif new is None:
        yield Difference(subject, key, "breaks_callers", old, new, f"{key} is gone: who reads results relies on it")
    else:
        yield from _schema(subject, key, old, new, "output", budget)


def _execution(subject: str, old: Any, new: Any) -> Difference:
    """`taskSupport`: a call as a task is forbidden (as where it is missing), optional or required."""
    before, after = _task_support(old), _task_support(new)
    judgement: Judgement = "breaks_callers"
    if before is not None and before == after:
        judgement = "rewords"
    elif (before, after) == ("forbidden", "optional"):
        judgement = "widens_input"
    return Difference(subject, "execution", judgement, old, new, "how the tool runs as a task is different")


def _task_support(execution: Any) -> str | None:
    """`None` where more, or something else, is said."""
    said: Any = {} if execution is None else execution
    for words in ({}, {"taskSupport": "forbidden"}):
        if same(said, words):
            return "forbidden"
    return next((each for each in ("optional", "required") if same(said, {"taskSupport": each})), None)


# Prompts.


def _prompts(approved: PinnedListing, listed: PinnedListing) -> Iterator[Difference]:
    for name, wire in listed.prompts.items():
        subject = f"{PROMPT}{name}"
        if name not in approved.prompts:
            yield Difference(subject, "", "adds", None, wire, f"the prompt '{quoted(name)}' is new")
        elif approved.digest_of(subject) != listed.digest_of(subject):
            before, after = pinned_part(approved.prompts[name]), pinned_part(wire)
            yield from _whole(subject, before, after, list(_changed_prompt(subject, before, after)))
    for name, wire in approved.prompts.items():
        if name not in listed.prompts:
            yield Difference(f"{PROMPT}{name}", "", "removes", wire, None, f"the prompt '{quoted(name)}' is gone")


def _changed_prompt(subject: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if (key in before) is (key in after) and same(old, new):
            continue
        if key == "_meta":
            yield from _moved(subject, meta_moves(old, new))
        elif key == "arguments":
            yield from _arguments(subject, old, new)
        else:
            yield _reworded(subject, key, before, after)


def _arguments(subject: str, before: Any, after: Any) -> Iterator[Difference]:
    old, new = _by_name(before), _by_name(after)
    if old is None or new is None:
        text = "arguments is no list of arguments, was none, or is too long to compare"
        yield Difference(subject, "arguments", "breaks_callers", before, after, text)
        return
    told = False
    for name in dict.fromkeys((*old, *new)):
        for each in _argument(subject, f"arguments.{quoted(name)}", old.get(name), new.get(name)):
            told = True
            yield each
    if not told:
        yield Difference(subject, "arguments", "rewords", before, after, "arguments are in another order")


def _by_name(arguments: Any) -> dict[str, Mapping[str, Any]] | None:
    """`None` where it cannot be told which argument is which."""
    entries = [] if arguments is None else json_values.as_array(arguments)
    if entries is None or len(entries) > MAX_ARGUMENTS:
        return None
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        said = json_values.as_object(entry)
        if said is None or not isinstance(said.get("name"), str) or said["name"] in found:
            return None
        found[said["name"]] = said
    return found


def _argument(
    subject: str, part: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> Iterator[Difference]:
    if old is None or new is None:
        required = new is not None and _is_required(new)
        judgement: Judgement = "breaks_callers" if new is None or required else "widens_input"
        how = "gone" if new is None else "new and required" if required else "new and optional"
        yield Difference(subject, part, judgement, old, new, f"{part} is {how}")
        return
    for key in dict.fromkeys((*old, *new)):
        if (key in old) is (key in new) and same(old.get(key), new.get(key)):
            continue
        here, before, after = f"{part}.{quoted(key)}", old.get(key), new.get(key)
        if key != "required":
            yield Difference(subject, here, "rewords", before, after, f"{here} is different")
        elif _is_required(old) is _is_required(new):
            yield Difference(subject, here, "rewords", before, after, f"{here} is written differently")
        else:
            breaks = _is_required(new)
            text = f"{part} is {'required' if breaks else 'optional'} now"
            yield Difference(subject, here, "breaks_callers" if breaks else "widens_input", before, after, text)


def _is_required(argument: Mapping[str, Any]) -> bool:
    """Anything but a plain no is a yes."""
    said = argument.get("required")
    return said is not None and said is not False
