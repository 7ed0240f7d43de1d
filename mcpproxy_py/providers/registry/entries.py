"""One row of a registry (`{"server": server.json, "_meta": …}`) to an entry of the catalog, read with suspicion. Pure.

Only what is used is taken over, within bounds. Names are plain ASCII, so that none can look like another by its
letters; titles and descriptions hide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from mcpproxy_py.core import json_values
from mcpproxy_py.core.catalog.model import REGISTRY, Lifecycle, ServerEntry
from mcpproxy_py.core.catalog.model import key as name_key
from mcpproxy_py.core.pins.scan.hidden_characters import hidden_characters
from mcpproxy_py.core.pins.text_scan import scan_text
from mcpproxy_py.core.policy.confusables import mixes_scripts
from mcpproxy_py.providers.catalog.load import META
from mcpproxy_py.providers.registry.places import NAME, VERSION, RegistryRefused

OFFICIAL: Final = "io.modelcontextprotocol.registry/official"
MOST_BYTES: Final = 32_768
"""Of one entry, as it is kept."""
MOST_LISTED: Final = 20
"""Packages, remotes, arguments, variables: more of a kind than anybody answers questions for."""
MOST_TITLE: Final = 100
MOST_DESCRIPTION: Final = 200
_LIFECYCLES: Final[tuple[Lifecycle, ...]] = ("active", "deprecated", "deleted")
_KEPT: Final = ("name", "title", "description", "version", "websiteUrl", "repository", "packages", "remotes")
_SITE: Final = re.compile(r"https://[A-Za-z0-9.-]+(?::\d+)?(?:/[A-Za-z0-9._~/%+-]*)?")


def reduced(row: object) -> dict[str, Any]:
    """What of a row is kept. Raises `RegistryRefused` where it is none."""
    if not isinstance(row, Mapping):
        raise RegistryRefused("it is no object")
    wire = cast("Mapping[str, Any]", row)
    server = wire.get("server", wire if "name" in wire else None)
    if not isinstance(server, Mapping):
        raise RegistryRefused("it has no `server`")
    kept: dict[str, Any] = {key: server[key] for key in _KEPT if server.get(key) is not None}
    if why := json_values.flaw(kept, max_depth=12):
        raise RegistryRefused(why)
    if len(json_values.text_of(kept)) > MOST_BYTES:
        raise RegistryRefused(f"it is larger than {MOST_BYTES} bytes")
    meta = wire.get("_meta")
    official = meta.get(OFFICIAL) if isinstance(meta, Mapping) else None
    status, says = (
        (official.get("status"), official.get("statusMessage")) if isinstance(official, Mapping) else ("", "")
    )
    # Before status became the registry's, it was the entry's own.
    found = status or server.get("status") or "active"
    return {"server": kept, "status": found, **({"says": says[:300]} if isinstance(says, str) and says else {})}


def named(row: Mapping[str, Any]) -> str:
    """The name in a reduced row, for messages."""
    return json_values.quoted(row["server"].get("name"), 120)


def entry_of(
    row: Mapping[str, Any], label: str, shipped: Mapping[str, ServerEntry], *, local: bool = False
) -> ServerEntry:
    """The entry of a reduced row. Raises `RegistryRefused`."""
    server: Mapping[str, Any] = row["server"]
    name, status = server.get("name"), row["status"]
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise RegistryRefused("its name is not of the form `namespace/name`, of letters, digits, dots, dashes")
    if status not in _LIFECYCLES:
        raise RegistryRefused("its status is none of active, deprecated and deleted")
    version = server.get("version")
    if version is not None and not (isinstance(version, str) and VERSION.fullmatch(version)):
        raise RegistryRefused("its version is no version")
    title = _text(server, "title", MOST_TITLE) or name.partition("/")[2]
    description = _text(server, "description", MOST_DESCRIPTION)
    packages, remotes = _objects(server, "packages"), _objects(server, "remotes")
    package = next((each for each in packages if isinstance(each.get("identifier"), str)), None)
    remote = next((each for each in remotes if isinstance(each.get("url"), str)), None)
    wire = {
        "name": name, "title": title, "description": description,
        **({"version": version} if version else {}),
        **({"websiteUrl": site} if (site := _site(server)) else {}),
        **({"packages": packages} if packages else {}), **({"remotes": remotes} if remotes else {}),
        "_meta": {META: {"slug": name, "auth": "unknown", "status": "unknown"}},
    }  # fmt: skip
    return ServerEntry(
        slug=name, name=name, title=title, description=description, auth="unknown",
        transport="sse" if remote and remote.get("type") == "sse" else "streamable-http" if remote else "stdio",
        wire=wire,
        package=_short(f"{package.get('registryType')}:{package['identifier']}") if package else None,
        url=_short(remote["url"]) if remote else None,
        source=REGISTRY + label, local=local, lifecycle=cast("Lifecycle", status),
        warnings=tuple(_warnings(row, name, title, description, shipped.values())),
    )  # fmt: skip


def _text(server: Mapping[str, Any], key: str, most: int) -> str:
    value = server.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RegistryRefused(f"its {key} is no text")
    if hidden_characters(value, "text") is not None:
        raise RegistryRefused(f"its {key} has characters that nobody sees as what they are")
    line = " ".join(value.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _short(text: str) -> str:
    return json_values.quoted(text, 200)


def _site(server: Mapping[str, Any]) -> str | None:
    """Where a person reads more, if that is a plain address."""
    repository = server.get("repository")
    for value in (server.get("websiteUrl"), repository.get("url") if isinstance(repository, Mapping) else None):
        if isinstance(value, str) and len(value) <= 300 and _SITE.fullmatch(value):
            return value
    return None


def _objects(server: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    value = server.get(key, ())
    if not isinstance(value, list | tuple):
        raise RegistryRefused(f"its {key} are no list")
    if len(value) > MOST_LISTED:
        raise RegistryRefused(f"it has more than {MOST_LISTED} {key}")
    if not all(isinstance(each, Mapping) for each in value):
        raise RegistryRefused(f"its {key} are no objects")
    return list(cast("Sequence[Mapping[str, Any]]", value))


def _warnings(
    row: Mapping[str, Any], name: str, title: str, description: str, shipped: Iterable[ServerEntry]
) -> Iterable[str]:
    says = row.get("says")
    if row["status"] == "deprecated":
        more = f": {_short(says)}" if isinstance(says, str) and hidden_characters(says, "text") is None else "."
        yield f"Its registry calls it deprecated{more}"
    if mixes_scripts(title) or mixes_scripts(description):
        yield "Its title or description mixes alphabets, so that it may look like something that it is not."
    for finding in scan_text(f"{title}. {description}", "description")[:1]:
        yield f"Its description talks to agents, not to people ({finding.kind})."
    known = {name_key(name.partition("/")[2]), name_key(title)}
    for each in shipped:
        if each.name != name and known & {
            name_key(each.slug),
            name_key(each.title),
            name_key(each.name.partition("/")[2]),
        }:
            yield f"The shipped catalog has {each.slug} ({each.name}) by that name; this is another one."
            return
