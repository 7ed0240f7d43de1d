"""The classes that were judged by hand for the tools of well-known servers (`data/tool-classes.json`).

From a file of its own, which only those commands read that show classes: agents get nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcpproxy_py.core.catalog.published_servers import CuratedClass, published_as
from mcpproxy_py.providers.catalog.data_files import DataFile, checked, laid_over

KIND = "tool-classes"


def curated_classes(entry: Mapping[str, Any], own: Path | None = None) -> dict[str, CuratedClass]:
    """Tool to class, reason and source, of the server that an entry of `mcpServers` runs; of an unknown one nothing.
    `own` is the user's directory of catalog data. Raises `DataError`."""
    identity = published_as(entry)
    found: dict[str, CuratedClass] = {}
    for file in laid_over(own, KIND):
        for server in _servers(file):
            if identity is not None and identity in server["identities"]:
                found |= {
                    name: CuratedClass(tool["class"], tool["reason"], server["source"])
                    for name, tool in server["tools"].items()
                }
    return found


def _servers(file: DataFile) -> list[dict[str, Any]]:
    return checked(file)["servers"]
