"""The page: links that open it, and its sessions. Links are made with the admin key, and never from the page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import Field
from starlette.responses import Response

from mcpproxy_py.core.values import Caller
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.page.records import PageAccess, shown
from mcpproxy_py.gateway.page.sessions import CLIENT, PageSessions
from mcpproxy_py.serve.http.asgi import answer
from mcpproxy_py.serve.page.credentials import LONGEST, check_own_page, is_local_request, no_cookie, session_cookie
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import BodyModel
from mcpproxy_py.serve.rest.responses import ResponseModel


class LinkBody(BodyModel):
    address: str | None = Field(
        None,
        max_length=300,
        description="Where the browser reaches the gateway, such as `https://gateway.example`. Without one, the link "
        "works at the gateway's own address, and only on its machine",
    )


class LinkAnswer(ResponseModel):
    url: str = Field(description="Opens the page once. Its code is behind `#`, so no server is sent it")
    expires_at: datetime
    page: str = Field(description="The id of the session that it will be")
    local_only: bool = Field(description="Whether it works only on the machine of the gateway")


class OpenBody(BodyModel):
    code: str = Field(min_length=1, max_length=LONGEST, description="What stands behind `#open=` in a link")


class OpenedAnswer(ResponseModel):
    page_token: str = Field(description="To be sent as `X-Mcpproxy-Page`, together with the cookie of this answer")
    expires_at: datetime


class PageAnswer(ResponseModel):
    page: str
    address: str
    local_only: bool
    opened_at: datetime
    expires_at: datetime


class PageList(ResponseModel):
    sessions: list[PageAnswer]


class EndedPages(ResponseModel):
    ended: int = Field(description="How many sessions that were open")


async def create_link(x: RestRequest) -> Mapping[str, Any]:
    made = await _sessions(x).create_link(x.body.address, x.caller)
    return {**made, "expires_at": _moment(made["expires_at"])}


async def open_page(x: RestRequest) -> Response:
    """Nobody is let in yet: it is the code that opens."""
    check_own_page(x.request.headers.get("sec-fetch-site"))
    by = Caller("admin", "api", CLIENT, x.caller.request_id)
    local = is_local_request(x.request)
    opened = await _sessions(x).open(x.body.code, x.request.headers.get("origin"), local=local, by=by)
    said = {"page_token": opened.token, "expires_at": _moment(opened.record.until)}
    return answer(said, headers={"set-cookie": session_cookie(opened)})


async def show_page(x: RestRequest) -> Mapping[str, Any]:
    return _dated(shown(_own(x).record))


async def end_page(x: RestRequest) -> Response:
    record = _own(x).record
    ended = await _sessions(x).end(record.id, x.caller)
    return answer({"ended": ended}, headers={"set-cookie": no_cookie(record)})


async def list_pages(x: RestRequest) -> Mapping[str, Any]:
    return {"sessions": [_dated(each) for each in await _sessions(x).listed()]}


async def end_pages(x: RestRequest) -> Mapping[str, Any]:
    return {"ended": await _sessions(x).end(None, x.caller)}


def _sessions(x: RestRequest) -> PageSessions:
    if x.parts.page is None:
        raise GatewayError(Code.NOT_FOUND, "This gateway has no page")
    return x.parts.page


def _own(x: RestRequest) -> PageAccess:
    access = x.access
    if not isinstance(access, PageAccess):
        raise GatewayError(Code.NOT_FOUND, "This request is of no session of the page")
    return access


def _dated(said: Mapping[str, Any]) -> dict[str, Any]:
    return {**said, "opened_at": _moment(said["opened_at"]), "expires_at": _moment(said["expires_at"])}


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


_GROUP: Final = "Page"
_RECORDED: Final = (Code.CONFLICT, Code.STORE_UNAVAILABLE)

PAGE_ENDPOINTS: Final = (
    RestEndpoint("POST", "/api/v1/page/links", _GROUP, "A link that opens the page once, within a minute", create_link,
             LinkAnswer, body=LinkBody, status=201, refusals=_RECORDED, masked=False, guarded="key"),
    RestEndpoint("POST", "/api/v1/page/open", _GROUP, "The session that the code of a link is good for", open_page,
             OpenedAnswer, body=OpenBody, guarded="open", masked=False,
             refusals=(Code.UNAUTHORIZED, Code.FOREIGN_HOST, Code.FOREIGN_ORIGIN, Code.STORE_UNAVAILABLE),
             more="Sets a cookie that no script can read. Requests of the page are let in with both: this cookie, and "
                  "the token as `X-Mcpproxy-Page`."),
    RestEndpoint("GET", "/api/v1/page/session", _GROUP, "The session that asks", show_page, PageAnswer,
             refusals=(Code.NOT_FOUND,)),
    RestEndpoint("DELETE", "/api/v1/page/session", _GROUP, "End the session that asks", end_page, EndedPages,
             refusals=(Code.NOT_FOUND, *_RECORDED)),
    RestEndpoint("GET", "/api/v1/page/sessions", _GROUP, "The sessions of the page that are open", list_pages,
             PageList, refusals=(Code.STORE_UNAVAILABLE,)),
    RestEndpoint("DELETE", "/api/v1/page/sessions", _GROUP, "End all sessions of the page, and links not used yet",
             end_pages, EndedPages, refusals=_RECORDED),
)  # fmt: skip
