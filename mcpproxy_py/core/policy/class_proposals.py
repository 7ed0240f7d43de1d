"""Which class a tool without hints probably has, as a proposal to a person, and why. Pure.

All that it has to go by is what a server says of itself, and a server may lie. So text can only raise a proposal:
nothing that a description or a schema says makes it lower, and words like "safe" or "read-only" are not looked at.
A class below destructive needs a known verb in the tool's name, and nothing anywhere that alarms. A name without one, a
name that mixes alphabets, and texts that are too long to be read are destructive.

What alarms is in the tables; `python -m tests.bench.class_proposals` measures them on published tool lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

from mcpproxy_py.core import json_values
from mcpproxy_py.core.policy.confusables import is_invisible, mixes_scripts, similar
from mcpproxy_py.core.search.tokens import LONGEST_WORD, stem, words
from mcpproxy_py.core.values import RANK, Operation

Basis = Literal["curated", "name", "description", "schema", "unclear"]


class Proposal(NamedTuple):
    tool_class: Operation
    basis: Basis
    why: str
    """For a person. Of what the server said it has at most a word that stands in a table here."""


def _stems(text: str) -> frozenset[str]:
    return frozenset(map(stem, text.split()))


# Wherever they stand in a name, and in a description too.
DELETING: Final = _stems(
    "delete remove destroy purge erase wipe truncate overwrite kill terminate revoke uninstall unpublish deprovision "
    "decommission deregister obliterate annihilate nuke shred expunge unlink rmdir del rm clobber discard reset"
)
# Where they are the verb of a name: behind another verb they are nouns (`get_workflow_run`, `list_deployments`). What
# changes something that is there overwrites it; what presses a button may do anything.
OVERTURNING: Final = _stems(
    "update upsert modify edit patch set rename move write put save replace rewrite amend transform convert "
    "drop flush prune trash clear empty format revert rollback restore undo abort evict drain detach disconnect "
    "disable deactivate suspend ban block expire invalidate rotate void forget cleanup force buy purchase pay charge "
    "refund transfer withdraw liquidate cancel archive close reject dismiss merge squash rebase shutdown reboot "
    "restart stop scale deploy redeploy rollout apply migrate failover promote demote cordon uncordon taint redact "
    "run exec execute eval evaluate invoke call command shell bash terminal script code mutate mutation sync checkout "
    "install batch bulk downgrade sql unset inject spawn manage process perform do unassign unsubscribe configure "
    "click press type fill drag handle interact swap reassign"
)
CHANGING: Final = _stems(
    "create add insert append prepend copy duplicate clone upload import export publish send reply forward submit "
    "register subscribe enable activate upgrade provision assign attach grant invite join leave enroll start launch "
    "resume pause schedule trigger generate make build compile record store persist approve accept confirm transition "
    "mark unmark tag untag star unstar pin unpin hide unhide mute unmute toggle switch increment decrement push commit "
    "stash init initialize bootstrap hover select navigate scroll tap swipe connect post comment message email order "
    "book branch fork request review draft label link share change track plan download respond react vote rate follow "
    "unfollow open resize crop emulate lock unlock pull opt authenticate login logout new upscale train pair sign "
    "key snapshot"
)
READING: Final = _stems(
    "get list read search find fetch show view describe lookup look retrieve browse query inspect check count explain "
    "summarize analyze compare diff status stat stats info help ping whoami peek tail head grep glob watch monitor "
    "preview validate verify lint extract scrape crawl parse resolve discover enumerate detect recommend suggest "
    "screenshot report calculate compute estimate ask research wait "
    "trace whoami echo"
)
NOUNS_TOO: Final = _stems("monitor report watch preview status stat stats info trace screenshot research estimate")
"""Of these those that may be what another verb is about: `monitor_update`."""
JOINING: Final = frozenset(("and", "or", "then", "plus"))
SEARCHING: Final = _stems("search find lookup suggest autocomplete discover resolve recommend")
NO_VERBS: Final = frozenset(("apple", "apples"))
"""Words whose stem is that of a verb."""

# In descriptions. Only forms that say what the tool does: "created" and "updates" are in half of all texts.
CHANGING_WORDS: Final = frozenset(
    [
        "creates",
        "modifies",
        "inserts",
        "appends",
        "uploads",
        "publishes",
        "writes",
        "sends",
        "installs",
        "saves",
        "edits",
    ]
)
CUT_SHORT: Final = frozenset(("truncated", "truncation", "truncate"))
"""What happens to long answers."""
FINAL_WORDS: Final = _stems("irreversible irreversibly permanently undone unrecoverable irrevocable irrevocably")
# Parameters in which a caller sends a program instead of a value: by their whole name, or by any word of it.
PROGRAMS: Final = frozenset(
    ("command", "commands", "cmd", "code", "script", "scripts", "expression", "function", "statement", "statements",
     "pipeline", "program", "source_code", "python_code", "js_code", "lambda", "query", "queries")
)  # fmt: skip
PROGRAM_WORDS: Final = _stems("sql cypher mutation javascript powershell bash shell eval")
# Parameters that choose what is done: the values they list are looked at like names.
CHOOSING: Final = frozenset(("action", "actions", "operation", "op", "method", "verb", "mode", "command", "task"))

MAX_TEXT: Final = 20_000
MAX_VALUES: Final = 2_000
MAX_DEPTH: Final = 24
GLUED: Final = ("delete", "remove", "destroy", "purge", "truncate", "overwrite", "terminate", "revoke", "uninstall")
_WORD: Final = re.compile(r"\w+")


def propose(name: str, description: object = "", schema: object = None) -> Proposal:
    """The highest class that its name, its description or its schema speaks for."""
    found = (_by_name(name), *_by_text(description), *_by_schema(name, schema))
    return max(found, key=lambda each: RANK[each.tool_class])


def _by_name(name: str) -> Proposal:
    if mixes_scripts(name):
        return Proposal("destructive", "unclear", "its name mixes letters of several alphabets")
    split = words(_readable(name), MAX_TEXT)
    if len(name) > MAX_TEXT or any(len(word) >= LONGEST_WORD for word in split):
        return Proposal("destructive", "unclear", "its name is too long to be read")
    best: tuple[Operation, str] | None = None
    for segment in _segments(split):
        for tool_class, word in _verbs(segment):
            if best is None or RANK[tool_class] > RANK[best[0]]:
                best = tool_class, word
    if best is None:
        return Proposal("destructive", "unclear", "its name has no verb that is known")
    return Proposal(best[0], "name", f"its name has “{best[1]}”")


def _segments(split: list[str]) -> Iterator[list[str]]:
    segment: list[str] = []
    for word in split:
        if word in JOINING:
            yield segment
            segment = []
        else:
            segment.append(word)
    yield segment


def _verbs(segment: list[str]) -> Iterator[tuple[Operation, str]]:
    """The first verb of a few words, and whatever else in them deletes."""
    first = True
    for word in segment:
        if (found := _deleting(word)) is not None:
            yield "destructive", found
            first = False
        elif first and (tool_class := _verb(word)) is not None:
            yield tool_class, word
            first = stem(word) in NOUNS_TOO


def _deleting(word: str) -> str | None:
    if stem(word) in DELETING:
        return word
    return next((glued for glued in GLUED if glued in word), None)


def _verb(word: str) -> Operation | None:
    """`scraping_browser_click` scrapes nothing: a form in -ing names what the verb behind it is about."""
    root = stem(word)
    for tool_class, known in _VERBS:
        if root in known and word not in NO_VERBS:
            names_a_thing = word.endswith("ing") and len(word) > 4 and tool_class != "destructive"
            return None if names_a_thing else tool_class
    return None


_VERBS: Final[tuple[tuple[Operation, frozenset[str]], ...]] = (
    ("destructive", OVERTURNING), ("write", CHANGING), ("read", READING),
)  # fmt: skip


def _readable(text: str) -> str:
    """As it looks, in ASCII where it looks like that, without what nobody sees."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char for char in similar(text) if char.isspace() or not is_invisible(char))


def _by_text(description: object) -> Iterator[Proposal]:
    if not isinstance(description, str):
        return
    text = _readable(description[: MAX_TEXT + 1])
    if len(description) > MAX_TEXT or len(text) > MAX_TEXT:  # what stands for one character may be many
        yield Proposal("destructive", "unclear", "its description is too long to be read")
        return
    for word in words(_WORD.sub(_unless_a_name, text), MAX_TEXT):
        root = stem(word)
        if (root in DELETING and word not in CUT_SHORT) or root in FINAL_WORDS:
            yield Proposal("destructive", "description", f"its description says “{word}”")
            return
        if word in CHANGING_WORDS:
            yield Proposal("write", "description", f"its description says “{word}”")


def _unless_a_name(found: re.Match[str]) -> str:
    """`delete_file` in a description is the name of another tool."""
    return " " if "_" in found[0].strip("_") else found[0]


def _by_schema(name: str, schema: object) -> Iterator[Proposal]:
    searches = any(stem(word) in SEARCHING for word in words(_readable(name), MAX_TEXT))
    for number, (parameter, choices) in enumerate(_parameters(schema)):
        if parameter is None or number > MAX_VALUES:
            yield Proposal("destructive", "unclear", "its schema is too large to be read")
            return
        if (said := _program(parameter, searches)) is not None:
            yield Proposal("destructive", "schema", f"its parameter “{said}” takes a program")
        yield from _chosen(choices)


def _program(parameter: str, searches: bool) -> str | None:
    """`query` is what somebody looks for, where the tool searches."""
    split = words(_readable(parameter[:MAX_TEXT]), MAX_TEXT)
    whole = "_".join(split)
    if whole in PROGRAMS and not (searches and whole in ("query", "queries")):
        return whole
    return next((word for word in split if stem(word) in PROGRAM_WORDS), None)


def _chosen(choices: Iterable[str]) -> Iterator[Proposal]:
    for choice in choices:
        for segment in _segments(words(_readable(choice), MAX_TEXT)):
            for tool_class, word in _verbs(segment):
                if tool_class != "read":
                    yield Proposal(tool_class, "schema", f"a parameter of it can be “{word}”")


def _parameters(schema: object, depth: int = 0) -> Iterator[tuple[str | None, list[str]]]:
    """Every property at any place of the schema, with the values it lists where it chooses what is done; `None` for
    what is too deep."""
    found = json_values.as_object(schema)
    inside = list(found.items()) if found is not None else [("", each) for each in json_values.as_array(schema) or ()]
    if inside and depth > MAX_DEPTH:
        yield None, []
        return
    for key, below in inside:
        properties = json_values.as_object(below) if key == "properties" else None
        for parameter, about in (properties or {}).items():
            yield parameter, _listed(about) if parameter.casefold() in CHOOSING else []
            yield from _parameters(about, depth + 1)
        if properties is None:
            yield from _parameters(below, depth + 1)


def _listed(about: object) -> list[str]:
    """The values that it may have, as far as they are texts."""
    found = json_values.as_object(about) or {}
    values = [*(json_values.as_array(found.get("enum")) or ()), found.get("const"), found.get("default")]
    for each in json_values.as_array(found.get("anyOf")) or ():
        values += _listed(each)
    return [value for value in (*values, *_listed_items(found)) if isinstance(value, str)]


def _listed_items(found: dict[str, Any]) -> list[str]:
    return _listed(found["items"]) if "items" in found else []
