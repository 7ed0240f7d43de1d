"""The well-known servers that a person can add: searched, and each with what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import anyio.to_thread
from pydantic import Field, StringConstraints

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.search.tokens import nearest
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.providers.catalog.choosing import in_full, matching, shown
from mcpproxy_py.providers.catalog.data_files import DataError
from mcpproxy_py.providers.catalog.load import load_servers
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import QueryModel
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


class CatalogServers(ResponseModel):
    servers: list[CatalogServer]
    total: int = Field(description="How many match")


class CatalogQuestionShown(ResponseModel):
    kind: Literal["env", "header", "arg"]
    name: str
    about: str
    secret: bool
    required: bool


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
    found = matching((await _servers(x)).values(), x.query.query or "")
    return {"servers": [shown(each) for each in found[: x.query.limit]], "total": len(found)}


async def show(x: RestRequest) -> Mapping[str, Any]:
    known, slug = await _servers(x), x.path["slug"]
    if slug not in known:
        near = nearest(slug, known)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        message = f"The catalog has no server '{quoted(slug)}'{hint}"
        raise GatewayError(Code.NOT_FOUND, message, details={"nearest": list(near)})
    return in_full(known[slug], x.query.transport)


_GROUP: Final = "Catalog"

ENDPOINTS: Final = (
    RestEndpoint("GET", "/api/v1/catalog", _GROUP, "Well-known servers that can be added", search, CatalogServers,
                 query=CatalogQuery, refusals=(Code.CONFIG_INVALID,), masked=False),
    RestEndpoint("GET", "/api/v1/catalog/{slug}", _GROUP, "One of them: its entry, and what it needs", show,
                 CatalogServerInFull, query=CatalogEntryQuery, refusals=(Code.NOT_FOUND, Code.CONFIG_INVALID),
                 masked=False),
)  # fmt: skip
