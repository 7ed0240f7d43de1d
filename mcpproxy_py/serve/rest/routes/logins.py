"""Logging in to a server: begin, hand over the answer, look, log out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from mcpproxy_py.core.oauth.states import OAuthState
from mcpproxy_py.errors import Code
from mcpproxy_py.serve.rest.endpoint import RestEndpoint, RestRequest
from mcpproxy_py.serve.rest.requests import BodyModel
from mcpproxy_py.serve.rest.responses import ResponseModel

MAX_ADDRESS: Final = 32_768


class LoginBegin(BodyModel):
    device: bool = Field(False, description="By a code that is entered on another device")


class LoginAnswerBody(BodyModel):
    address: Annotated[str, StringConstraints(min_length=1, max_length=MAX_ADDRESS)] = Field(
        description="The whole address that the browser was sent to"
    )


class LogOut(BodyModel):
    revoke: bool = Field(False, description="Tell the authorization server too; refused where that cannot be done")


class LoginShown(ResponseModel):
    """Nothing in it is secret but what a person has to open."""

    server: str
    state: OAuthState
    waiting: bool = Field(description="Whether a login waits for a person")
    error: str | None = Field(description="What went wrong last")
    issuer: str | None
    scope: str | None
    wanted_scope: str | None = Field(
        description="What it turned a call away for, which the next login asks for as well; other calls go on"
    )
    expires_at: float | None = Field(description="When its token ends, in seconds since 1970")
    renews: bool = Field(description="Whether it is renewed without a person")


class LoginBegun(LoginShown):
    authorization_url: str = Field(description="To be opened in a browser")
    redirect_uri: str | None = Field(description="Where the browser is sent to")
    listens: bool = Field(description="Whether the gateway waits there; if not, hand over the address")
    user_code: str | None = Field(description="To be entered at `verification_uri`")
    verification_uri: str | None
    lasts: float = Field(description="Seconds that a person has")


async def begin(x: RestRequest) -> Mapping[str, Any]:
    return await x.parts.operator.begin_login(x.path["name"], x.caller, device=x.body.device)


async def answer(x: RestRequest) -> Mapping[str, Any]:
    return await x.parts.operator.answer_login(x.path["name"], x.body.address, x.caller)


async def state(x: RestRequest) -> Mapping[str, Any]:
    return x.parts.operator.login_state(x.path["name"])


async def log_out(x: RestRequest) -> Mapping[str, Any]:
    return await x.parts.operator.log_out(x.path["name"], x.caller, revoked=x.body.revoke)


_REFUSED: Final = (Code.NOT_FOUND, Code.CONFLICT, Code.SERVER_UNAVAILABLE, Code.STORE_UNAVAILABLE)

ENDPOINTS: Final = (
    RestEndpoint("POST", "/api/v1/servers/{name}/login", "Servers", "Begin to log in to a server", begin, LoginBegun,
                 body=LoginBegin, refusals=_REFUSED, masked=False,
                 more="A login that was begun before ends."),
    RestEndpoint("GET", "/api/v1/servers/{name}/login", "Servers", "How the login at a server is", state, LoginShown,
                 refusals=(Code.NOT_FOUND,)),
    RestEndpoint("POST", "/api/v1/servers/{name}/login/answer", "Servers", "Hand over what a browser was sent to",
                 answer, LoginShown, body=LoginAnswerBody, refusals=_REFUSED,
                 more="For a browser that cannot reach the gateway. It counts once."),
    RestEndpoint("POST", "/api/v1/servers/{name}/logout", "Servers", "Forget the login at a server", log_out,
                 LoginShown, body=LogOut, refusals=_REFUSED),
)  # fmt: skip
