"""What servers answer about their apps and skills, with the URIs as the direct surface addresses them (SURF-10).

Nothing but URIs is touched: content, digests, sizes, frontmatter and `_meta` are those of the server. An entry that
cannot be addressed is left out, as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol.server_uris import addressed, scheme_of
from mcpproxy_py.core.results.tokens import collect
from mcpproxy_py.upstream.turns import in_turns

SCHEMES: Final = frozenset(("ui", "skill"))
"""Of those every URI that a server lists is addressed; of others only where it belongs to a skill."""
SKILL_FILE: Final = "/SKILL.md"
FILES: Final = "resources"


def is_of_extensions(uri: object) -> bool:
    return isinstance(uri, str) and scheme_of(uri) in SCHEMES


def listed_row(server: str, row: dict[str, Any]) -> dict[str, Any] | None:
    """A resource of a server's list."""
    uri = row.get("uri")
    return _at(server, row) if isinstance(uri, str) and is_of_extensions(uri) else row


def contents(server: str, own: str, result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of the resource that is `own` to its server, which was read by its address."""
    said = json_values.as_array(result.get("contents"))
    return result if said is None else {**result, "contents": [_content(server, own, each) for each in said]}


def _content(server: str, own: str, item: Any) -> Any:
    row = json_values.as_object(item)
    if row is None or not (row.get("uri") == own or is_of_extensions(row.get("uri"))):
        return item
    return _at(server, row) or item


def skill(server: str, entry: Any) -> dict[str, Any] | None:
    """An entry for a skill, with all of its files."""
    row = json_values.as_object(entry)
    found = None if row is None else _at(server, row)
    if found is None:
        return None
    files = json_values.as_array(found.get(FILES))
    if files is None:
        return found
    carried = [_file(server, each) for each in files]
    return None if None in carried else {**found, FILES: carried}


def _file(server: str, item: Any) -> dict[str, Any] | None:
    row = json_values.as_object(item)
    return None if row is None else _at(server, row)


def child(server: str, row: Any) -> dict[str, Any] | None:
    """A file or folder in a folder."""
    return _file(server, row)


def root_of(uri: str) -> str | None:
    """The folder of a skill, by the URI of its `SKILL.md`, with a slash at its end."""
    return uri.removesuffix(SKILL_FILE) + "/" if uri.endswith(SKILL_FILE) else None


async def rows(
    found: Iterable[Any], carried: Callable[[str, Any], dict[str, Any] | None], server: str
) -> list[dict[str, Any]]:
    """As many as there are: a server may answer with megabytes, and others are waiting."""
    made = await in_turns(collect(carried(server, each) for each in found))
    return [row for row in made if row is not None]


def _at(server: str, row: dict[str, Any]) -> dict[str, Any] | None:
    uri = row.get("uri")
    at = addressed(server, uri) if isinstance(uri, str) else None
    return None if at is None else {**row, "uri": at}
