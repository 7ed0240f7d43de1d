"""A registry asked for words, or for one server; what is kept stands in where it does not answer (CAT-5).

`search` and `look_up` go out, and are for commands of a person. `known` reads only what is on this machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mcpproxy_py.core import json_values
from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.core.record.masking import mask_text
from mcpproxy_py.providers.registry.documents import is_document, listed, rows_of
from mcpproxy_py.providers.registry.entries import entry_of, reduced
from mcpproxy_py.providers.registry.fetch import SECONDS, NotListed, decoded, fetched
from mcpproxy_py.providers.registry.kept import KeptRow, keep, kept
from mcpproxy_py.providers.registry.places import (
    MOST_ENTRIES,
    NAME,
    VERSION,
    Heard,
    RegistryAway,
    RegistryPlace,
    RegistryRefused,
    is_local,
)

Entries = Mapping[str, ServerEntry]
PAGE: Final = 100
MOST_PAGES: Final = 5
MOST_CURSOR: Final = 1024
STALE: Final = 24 * 3600.0
"""What was read longer ago is shown, but not added: its registry may have taken it back since."""


def search(place: RegistryPlace, words: str, data_dir: Path, now: float, shipped: Entries) -> Heard:
    """Those with every one of the words, asked now if the registry answers."""
    if is_document(place):
        return _of_document(place, words, data_dir, shipped, ask=True)
    if mask_text(words) != words:
        return replace(known(place, words, data_dir, shipped), away="the words look like a secret, and were not sent")
    try:
        rows, left_out, more = _asked(place, words)
    except (RegistryAway, RegistryRefused) as why:
        return replace(known(place, words, data_dir, shipped), away=str(why))
    keep(data_dir, place, rows, now)
    heard = _heard(place, _matching(rows, words), shipped)
    return replace(heard, left_out=heard.left_out + left_out, more=heard.more or more)


def known(place: RegistryPlace, words: str, data_dir: Path, shipped: Entries) -> Heard:
    """What is on this machine of it: nobody is asked."""
    if is_document(place):
        return _of_document(place, words, data_dir, shipped, ask=False)
    rows = _matching(kept(data_dir, place), words)
    heard = _heard(place, rows, shipped)
    ages = {str(row["server"].get("name")): float(row["read_at"]) for row in rows}
    shown = [ages[each.slug] for each in heard.entries if each.slug in ages]
    return replace(heard, read_at=min(shown, default=None), read=ages)


def known_entry(place: RegistryPlace, name: str, data_dir: Path, shipped: Entries) -> ServerEntry | None:
    """What is on this machine of one server. One that cannot be shown is none."""
    try:
        rows: Sequence[Mapping[str, Any]] = (
            rows_of(place, data_dir, ask=False)[0] if is_document(place) else kept(data_dir, place)
        )
        row = next((row for row in rows if row["server"].get("name") == name), None)
        return None if row is None else entry_of(row, place.label, shipped, local=is_local(place))
    except (RegistryAway, RegistryRefused):
        return None


def look_up(
    place: RegistryPlace, name: str, version: str | None, data_dir: Path, now: float, shipped: Entries
) -> tuple[ServerEntry, str | None]:
    """One server, and why it was not asked for now but read before. Raises `NotListed`, `RegistryRefused` where what
    the registry says cannot be, and `RegistryAway` where neither it nor what is kept helps."""
    if not NAME.fullmatch(name) or (version is not None and not VERSION.fullmatch(version)):
        raise NotListed("it has nothing of that name")
    if is_document(place):
        rows, _ = rows_of(place, data_dir, ask=True)
        found = [row for row in rows if row["server"].get("name") == name]
        found = [row for row in found if version in (None, row["server"].get("version"))]
        if not found:
            raise NotListed("it has nothing of that name")
        return entry_of(found[0], place.label, shipped, local=is_local(place)), None
    path = f"{place.url}/v0.1/servers/{quote(name, safe='')}/versions/{quote(version or 'latest', safe='')}"
    try:
        row = _reduced_answer(decoded(fetched(path, {}, seconds=SECONDS)))
    except NotListed:
        keep(data_dir, place, (), now, gone=name)
        raise
    except RegistryAway as why:
        return _kept_entry(place, name, version, data_dir, now, shipped, str(why)), str(why)
    if row["server"].get("name") != name:
        said = json_values.quoted(row["server"].get("name"), 120)
        raise RegistryRefused(f"it was asked for {name}, and answered with '{said}'")
    if version not in (None, row["server"].get("version")):
        raise RegistryRefused(f"it was asked for version {version}, and answered with another")
    entry = entry_of(row, place.label, shipped, local=is_local(place))
    if version is None:
        keep(data_dir, place, [row], now)
    return entry, None


def _reduced_answer(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise RegistryAway("its answer is no server; is that the address of a registry?")
    return reduced(document)


def _kept_entry(
    place: RegistryPlace, name: str, version: str | None, data_dir: Path, now: float, shipped: Entries, why: str
) -> ServerEntry:
    for row in kept(data_dir, place):
        if row["server"].get("name") != name or version not in (None, row["server"].get("version")):
            continue
        if not 0 <= now - row["read_at"] <= STALE:
            raise RegistryAway(f"{why}, and what is kept of {name} was read more than a day ago")
        return entry_of(row, place.label, shipped, local=is_local(place))
    raise RegistryAway(why)


def _asked(place: RegistryPlace, words: str) -> tuple[list[dict[str, Any]], int, bool]:
    """The rows of a few pages, how many are none, and whether there are more. A registry looks for one text, so it is
    asked for the longest word, and the others are looked for here."""
    word = max(words.split(), key=len, default="")
    query = {"search": word, "limit": str(PAGE), "version": "latest"}
    until, rows, left_out, cursors = time.monotonic() + SECONDS, dict[str, dict[str, Any]](), 0, set[str]()
    for _ in range(MOST_PAGES):
        try:
            body = fetched(f"{place.url}/v0.1/servers", query, seconds=max(0.1, until - time.monotonic()))
        except NotListed:
            raise RegistryAway("it has no API v0.1 (status 404); is that the address of a registry?") from None
        document = decoded(body)
        for row in listed(document)[: 2 * PAGE]:
            try:
                found = reduced(row)
            except RegistryRefused:
                left_out += 1
                continue
            rows.setdefault(str(found["server"].get("name")), found)
        cursor = _cursor(document)
        if cursor is None:
            return list(rows.values()), left_out, False
        if cursor in cursors or len(cursor) > MOST_CURSOR or time.monotonic() >= until:
            break
        cursors.add(cursor)
        query["cursor"] = cursor
    return list(rows.values()), left_out, True


def _cursor(document: Any) -> str | None:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    found = metadata.get("nextCursor", metadata.get("next_cursor")) if isinstance(metadata, dict) else None
    return found if isinstance(found, str) and found else None


def _of_document(place: RegistryPlace, words: str, data_dir: Path, shipped: Entries, *, ask: bool) -> Heard:
    try:
        rows, left_out = rows_of(place, data_dir, ask=ask)
    except (RegistryAway, RegistryRefused) as why:
        return Heard(place.label, away=str(why))
    heard = _heard(place, _matching(rows, words), shipped)
    return replace(heard, left_out=heard.left_out + left_out)


def _matching(rows: Iterable[Mapping[str, Any]], words: str) -> list[Mapping[str, Any]]:
    asked = words.lower().split()

    def fits(row: Mapping[str, Any]) -> bool:
        server = row["server"]
        text = " ".join(str(server.get(key) or "") for key in ("name", "title", "description"))[:2000].lower()
        return all(word in text for word in asked)

    return [row for row in rows if fits(row)]


def _heard(place: RegistryPlace, rows: Sequence[Mapping[str, Any] | KeptRow], shipped: Entries) -> Heard:
    found, left_out, local = dict[str, ServerEntry](), 0, is_local(place)
    for row in rows[:MOST_ENTRIES]:
        try:
            entry = entry_of(row, place.label, shipped, local=local)
        except RegistryRefused:
            left_out += 1
            continue
        found.setdefault(entry.slug, entry)
    return Heard(place.label, tuple(found.values()), left_out, more=len(rows) > MOST_ENTRIES)
