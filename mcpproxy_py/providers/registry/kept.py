"""What registries said before, on disk: read by everybody, written by whoever asked a registry.

A file for each registry in `registries` of the data directory. It is bounded, what was read longest ago goes first, and
what is read out of it is checked as if the registry had just said it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from mcpproxy_py.core import json_values
from mcpproxy_py.errors import GatewayError
from mcpproxy_py.files import PRIVATE_DIRECTORY, locked, write_private
from mcpproxy_py.providers.registry.entries import MOST_BYTES
from mcpproxy_py.providers.registry.places import NAME, RegistryPlace

FOLDER: Final = "registries"
MOST_KEPT: Final = 1000
MOST_FILE: Final = 4 * 1024 * 1024


class KeptRow(dict[str, Any]):
    """`{"server": …, "status": …, "read_at": …}`."""


def path_of(data_dir: Path, place: RegistryPlace) -> Path:
    """A registry that is held to another digest is another registry."""
    named = json.dumps([place.url, place.file, place.sha256])
    return data_dir / FOLDER / f"{hashlib.sha256(named.encode()).hexdigest()[:16]}.json"


def kept(data_dir: Path, place: RegistryPlace) -> list[KeptRow]:
    """What is kept, newest first. A file that cannot be read is as good as none."""
    return _rows(path_of(data_dir, place))


def _rows(path: Path) -> list[KeptRow]:
    try:
        if path.stat().st_size > 2 * MOST_FILE:
            return []
        document = json_values.decode(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    rows = document.get("rows") if isinstance(document, dict) else None
    return [KeptRow(row) for row in rows[:MOST_KEPT] if _is_row(row)] if isinstance(rows, list) else []


def every_name(data_dir: Path) -> list[str]:
    """Of all registries that were ever asked, for completion: only names that can be names."""
    found: set[str] = set()
    for path in sorted((data_dir / FOLDER).glob("*.json"))[:16]:
        names = (row["server"].get("name") for row in _rows(path))
        found |= {name for name in names if isinstance(name, str) and NAME.fullmatch(name)}
    return sorted(found)


def _is_row(row: object) -> bool:
    if not isinstance(row, dict):
        return False
    found = cast("dict[str, Any]", row)
    read_at = found.get("read_at")
    is_time = isinstance(read_at, int | float) and not isinstance(read_at, bool) and 0 <= read_at < 1e11
    return is_time and isinstance(found.get("server"), dict) and isinstance(found.get("status"), str)


def keep(data_dir: Path, place: RegistryPlace, rows: Iterable[Mapping[str, Any]], now: float, gone: str = "") -> None:
    """Lay these over what is kept; `gone` is a name that the registry has no more. A disk that is full is no reason
    not to answer."""
    path = path_of(data_dir, place)
    try:
        path.parent.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        with locked(path.parent):
            fresh = {_name(row): {**row, "read_at": now} for row in rows}
            older = {_name(row): dict(row) for row in kept(data_dir, place)}
            joined = {name: row for name, row in {**fresh, **{n: r for n, r in older.items() if n not in fresh}}.items()
                      if name != gone}  # fmt: skip
            newest = sorted(joined.values(), key=lambda row: -row["read_at"])
            write_private(path, json.dumps({"registry": place.label, "rows": _within(newest)}))
    except (OSError, GatewayError):
        return


def _name(row: Mapping[str, Any]) -> str:
    return str(row["server"].get("name"))


def _within(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left, found = MOST_FILE, list[dict[str, Any]]()
    for row in rows[:MOST_KEPT]:
        left -= min(len(json.dumps(row)), 8 * MOST_BYTES)
        if left < 0:
            break
        found.append(row)
    return found
