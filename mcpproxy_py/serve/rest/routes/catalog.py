"""The well-known servers that a person can add: searched, and each with what it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import anyio.to_thread
from pydantic import BeforeValidator, Field, StringConstraints

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.providers.catalog.choosing import in_full, matching, shown
from mcpproxy_py.providers.catalog.data_files import DataError
from mcpproxy_py.providers.catalog.load import load_servers
from mcpproxy_py.providers.registry.known import as_json, fresh
from mcpproxy_py.providers.registry.places import Heard
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import BodyModel, QueryModel
from mcpproxy_py.serve.rest.responses import ResponseModel


class CatalogQuery(QueryModel):
    query: Annotated[str, StringConstraints(max_length=200)] | None = Field(
        None, description="Words of its name or of what it is for"
    )
    limit: int = Field(20, ge=1, le=200, description="Maximum number of servers")


class CatalogEntryQuery(QueryModel):
    transport: Literal["stdio", "http"] | None = Field(
        None, description="Where there is a package and an address: which of them"
    )


class CatalogServer(ResponseModel):
    slug: str
    title: str
    description: str
    auth: str
    needs: list[str] = Field(description="What has to be known to add it")
    package: str | None
    url: str | None
    source: str = Field(description="`shipped`, `own`, or `registry:` and which: nobody vouches for those")
    version: str | None
    lifecycle: Literal["active", "deprecated", "deleted"] = Field(description="What its registry says of it")
    warnings: list[str] = Field(description="What a person should look at before adding it")
    refused: str | None = Field(description="Why it cannot be added")


class RegistryHeard(ResponseModel):
    registry: str
    found: int
    left_out: int = Field(description="Entries that cannot be shown, because they are not as an entry has to be")
    more: bool = Field(description="It has more than it was asked for")
    away: str | None = Field(description="Why it was not of use; what was read of it before is there")
    read_at: float | None = Field(description="When the oldest of it was read; null for just now")


class CatalogServers(ResponseModel):
    servers: list[CatalogServer]
    total: int = Field(description="How many match")
    registries: list[RegistryHeard] = Field(description="What each configured registry came to; none without a query")


def _whole(said: object) -> object:
    """`60.0` is an integer in JSON Schema."""
    return int(said) if isinstance(said, float) and said.is_integer() else said


class CatalogWords(BodyModel):
    query: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="Words of its name or of what it is for; sent to the configured registries"
    )
    limit: Annotated[int, BeforeValidator(_whole)] = Field(60, ge=1, le=200, description="Maximum number of servers")


class FilledPlace(ResponseModel):
    key: Literal["args", "env", "headers", "url"]
    at: int | str | None
    drops: int = Field(description="So many arguments go, up to this one, where there is no answer")


class CatalogQuestionShown(ResponseModel):
    kind: Literal["env", "header", "arg", "url"]
    name: str
    about: str
    secret: bool
    required: bool
    default: str | None
    choices: list[str]
    fills: list[FilledPlace] = Field(
        description="Where in the entry `{name}` stands for the answer; without any, the answer is that variable, that "
        "header or one more argument"
    )


class CatalogServerInFull(CatalogServer):
    config: dict[str, Any] | None = Field(
        description="Its entry for `mcpServers`, without what has to be asked; null where it cannot be told"
    )
    questions: list[CatalogQuestionShown]
    notes: list[str] = Field(description="What a person should know beforehand")
    website: str | None


@lru_cache(2)
def _known(own: Path | None) -> Mapping[str, ServerEntry]:
    """What is shipped does not change while we run, and one's own is read once, as by the agents' catalog."""
    return load_servers(own)


async def _servers(x: RestRequest) -> Mapping[str, ServerEntry]:
    data_dir = x.parts.operator.status().get("data_dir")
    own = Path(data_dir) / "catalog" if data_dir else None
    try:
        return await anyio.to_thread.run_sync(_known, own if own is not None and own.is_dir() else None)
    except DataError as error:
        raise GatewayError(Code.CONFIG_INVALID, str(error)) from None


async def search(x: RestRequest) -> Mapping[str, Any]:
    """Nobody is asked: of registries, what is kept is shown."""
    shipped, query = await _servers(x), x.query.query or ""
    registries = x.parts.registries
    heard = await registries.known(query, shipped) if registries is not None and query.strip() else []
    return _found(shipped, query, heard, x.query.limit)


async def ask(x: RestRequest) -> Mapping[str, Any]:
    """No character that cannot be printed is sent to anybody, and without a word nobody is asked."""
    printed = "".join(each if each.isprintable() else " " for each in x.body.query)
    shipped, query = await _servers(x), " ".join(printed.split())
    heard = await x.parts.registries.ask(query, shipped) if x.parts.registries is not None and query else []
    return _found(shipped, query, heard, x.body.limit)


def _found(shipped: Mapping[str, ServerEntry], query: str, heard: Sequence[Heard], limit: int) -> Mapping[str, Any]:
    found = [*matching(shipped.values(), query), *fresh(heard, shipped, query)]
    return {
        "servers": [shown(each) for each in found[:limit]],
        "total": len(found),
        "registries": [as_json(each) for each in heard],
    }


async def show(x: RestRequest) -> Mapping[str, Any]:
    known, slug = await _servers(x), x.path["slug"]
    if slug not in known:
        near = nearest(slug, known)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        message = f"The catalog has no server '{quoted(slug)}'{hint}"
        raise GatewayError(Code.NOT_FOUND, message, details={"nearest": list(near)})
    return in_full(known[slug], x.query.transport)


async def show_listed(x: RestRequest) -> Mapping[str, Any]:
    slug = f"{x.path['namespace']}/{x.path['name']}"
    found = await x.parts.registries.entry(slug, await _servers(x)) if x.parts.registries is not None else None
    if found is None:
        raise GatewayError(Code.NOT_FOUND, f"Nothing is kept of a server '{quoted(slug)}': search for it first")
    return in_full(found, x.query.transport)


_GROUP: Final = "Catalog"

ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/catalog", _GROUP, "Well-known servers that can be added", search, CatalogServers,
                 query=CatalogQuery, refusals=(Code.CONFIG_INVALID,), masked=False),
    RestEndpoint("POST", "/api/v1/catalog", _GROUP,
                 "The same, after asking the configured registries, which no other request does", ask,
                 CatalogServers, body=CatalogWords, refusals=(Code.CONFIG_INVALID,), masked=False),
    RestEndpoint("GET", "/api/v1/catalog/{namespace}/{name}", _GROUP, "One that a registry listed before",
                 show_listed, CatalogServerInFull, query=CatalogEntryQuery,
                 refusals=(Code.NOT_FOUND, Code.CONFIG_INVALID), masked=False),
    RestEndpoint("GET", "/api/v1/catalog/{slug}", _GROUP, "One of them: its entry, and what it needs", show,
                 CatalogServerInFull, query=CatalogEntryQuery, refusals=(Code.NOT_FOUND, Code.CONFIG_INVALID),
                 masked=False),
)  # fmt: skip
