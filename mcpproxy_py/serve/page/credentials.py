"""What a browser shows of its session with a request of the page: a cookie and a header (USE-2).

The header is what a page of another site cannot send: a browser asks first whether it may, and is never told so. What
browsers say of where a request comes from is looked at besides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request

from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.errors import Code, GatewayError
from mcpproxy_py.gateway.page.records import OpenedPage, PageRecord, cookie_name, ended
from mcpproxy_py.gateway.page.sessions import PageSessions
from mcpproxy_py.serve.http.guard import is_local
from mcpproxy_py.serve.http.hosts import is_loopback
from mcpproxy_py.serve.http.request import FORWARDED, Headers, RequestHead

HEADER: Final = b"x-mcpproxy-page"
MOST_COOKIES: Final = 200
LONGEST: Final = 200
"""Of each half."""


class PageCredentials:
    def __init__(self, sessions: PageSessions) -> None:
        self._sessions = sessions

    def admit(self, head: RequestHead, peer: Any) -> Access | Awaitable[Access] | None:
        """`None` for a request that is not of the page. Raises `GatewayError` for one that opens nothing."""
        tokens = [value.decode("latin-1") for name, value in head.headers if name == HEADER]
        if not tokens:
            return None
        check_own_page(head.fetch_site)
        if len(tokens) != 1 or not 0 < len(tokens[0]) <= LONGEST:
            raise ended()
        return self._sessions.admit(tokens[0], cookies(head.headers), head.origin, local=is_local(peer, head))


def check_own_page(fetch_site: str | None) -> None:
    """A browser that says where a request comes from must say: from the page itself."""
    if fetch_site not in (None, "same-origin"):
        raise GatewayError(Code.FOREIGN_ORIGIN, "Only the page itself may use its session")


def is_local_request(request: Request) -> bool:
    """The same as `is_local`, of a request as REST has it."""
    forwarded = any(name in FORWARDED for name, _ in request.scope["headers"])
    return request.client is not None and not forwarded and is_loopback(request.client.host)


def cookies(headers: Headers) -> Mapping[str, Sequence[str]]:
    """Another server of this host may have set one of our name: each of them is tried."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    pairs = [pair for name, value in headers if name == b"cookie" for pair in value.decode("latin-1").split(";")]
    for pair in pairs[:MOST_COOKIES]:
        name, _, value = pair.strip().partition("=")
        if 0 < len(value) <= LONGEST:
            found[name].append(value)
    return found


def session_cookie(opened: OpenedPage) -> str:
    return _cookie(opened.record, opened.cookie, int(opened.record.until - opened.record.began))


def no_cookie(record: PageRecord) -> str:
    return _cookie(record, "", 0)


def _cookie(record: PageRecord, value: str, seconds: int) -> str:
    """With TLS a name that binds it to this host wants the path `/`; else only REST is sent it."""
    secure = record.origin.startswith("https:")
    where = "Path=/; Secure" if secure else "Path=/api/v1"
    return f"{cookie_name(record.origin)}={value}; {where}; Max-Age={seconds}; HttpOnly; SameSite=Strict"
