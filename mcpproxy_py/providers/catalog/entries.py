"""One entry of the server catalog: the registry's `server.json`, and what of it an agent is shown.

What the registry's format has no place for stands under `_meta` in a namespace of our own, as that format asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpproxy_py.core.catalog.model import ServerEntry

META: Final = "io.github.mcpproxy/catalog"


def server_entry(wire: Mapping[str, Any]) -> ServerEntry:
    meta: Mapping[str, Any] = wire["_meta"][META]
    package = next(iter(wire.get("packages", ())), None)
    remote = next(iter(wire.get("remotes", ())), None)
    return ServerEntry(
        slug=meta["slug"],
        name=wire["name"],
        title=wire["title"],
        description=wire["description"],
        auth=meta["auth"],
        transport=remote["type"] if remote else package["transport"]["type"] if package else "stdio",
        wire=wire,
        package=f"{package['registryType']}:{package['identifier']}" if package else None,
        url=remote["url"] if remote else None,
        status=meta["status"],
        tags=tuple(meta.get("tags", ())),
    )


RUNNERS: Final[Mapping[str, tuple[str, ...]]] = {
    "npm": ("npx", "-y"),
    "pypi": ("uvx",),
    "oci": ("docker", "run", "-i", "--rm"),
}
"""How a package of each registry is started without installing it first."""


def connect_command(entry: ServerEntry) -> str | None:
    """The command with which a person connects this server, or `None` where the entry does not tell."""
    if entry.url is not None:
        sse = " --transport sse" if entry.transport == "sse" else ""
        return f"mcpproxy upstream add {entry.slug} --url {entry.url}{sse}"
    for package in entry.wire.get("packages", ()):
        if runner := RUNNERS.get(package["registryType"]):
            return " ".join(["mcpproxy upstream add", entry.slug, "--", *runner, *_arguments(package)])
    return None


def _arguments(package: Mapping[str, Any]) -> list[str]:
    """The package and what it must be told; a value a person has to choose stands in capitals."""
    fixed = [argument["value"] if "value" in argument else argument["valueHint"].upper()
             for argument in package.get("packageArguments", ())]  # fmt: skip
    return [package["identifier"], *fixed]
