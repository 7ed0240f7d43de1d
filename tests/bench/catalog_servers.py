"""Checks the server catalog's packages against npm and PyPI. Needs the network, so no test runs it.

`python -m tests.bench.catalog_servers` reports what is gone, deprecated or newer than recorded; with `--write` it
records versions and the day of the check in `servers.json`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any, Final
from urllib.parse import quote

import httpx

from mcpproxy_py.providers.catalog.data_files import SHIPPED
from mcpproxy_py.providers.catalog.load import META

FILE: Final = SHIPPED / "servers.json"
AT_ONCE: Final = 8


def newest(client: httpx.Client, package: dict[str, Any]) -> tuple[str | None, str]:
    """The newest version of a package, and what else its registry says of it."""
    name = package["identifier"]
    if package["registryType"] == "npm":
        answer = client.get(f"https://registry.npmjs.org/{quote(name, safe='@')}/latest")
        told = answer.json() if answer.is_success else {}
        return told.get("version"), str(told.get("deprecated") or "")
    answer = client.get(f"https://pypi.org/pypi/{name}/json")
    told = answer.json()["info"] if answer.is_success else {}
    return told.get("version"), "yanked" if told.get("yanked") else ""


def packages(servers: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for server in servers:
        for package in server.get("packages", ()):
            if package["registryType"] in ("npm", "pypi"):
                yield server, package


def record(server: dict[str, Any], package: dict[str, Any], version: str) -> None:
    """What was found, where the entry keeps it."""
    checked = server["_meta"][META]["checked"]
    kind = package["registryType"]
    checked["how"] = re.sub(rf"{kind}: found, version [^;]+", f"{kind}: found, version {version}", checked["how"])
    checked["date"] = date.today().isoformat()
    server["version"] = package["version"] = version


def main() -> None:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    listed = list(packages(document["servers"]))
    with httpx.Client(timeout=60, follow_redirects=True) as client, ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda pair: newest(client, pair[1]), listed))
    gone = 0
    for (server, package), (version, remark) in zip(listed, answers, strict=True):
        slug = server["_meta"][META]["slug"]
        if version is None:
            gone += 1
            print(f"{slug}: {package['registryType']} has no {package['identifier']}")
            continue
        if remark:
            print(f"{slug}: {package['identifier']}: {remark}")
        if version != package["version"]:
            print(f"{slug}: {package['identifier']} is {version}, recorded {package['version']}")
        record(server, package, version)
    print(f"{len(listed)} packages, {len(listed) - gone} found")
    if "--write" in sys.argv[1:]:
        FILE.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
