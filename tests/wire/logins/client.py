"""A Python SDK, or fastmcp's client, as a client that logs in: python client.py <python-1|python-2|fastmcp> <url>

It runs in an environment of its own and imports nothing of this repository. It speaks the lines of `client.mjs`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

KIND, URL = sys.argv[1:]
BACK = "http://127.0.0.1:1/callback"


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


async def next_line() -> dict[str, Any]:
    line = await asyncio.to_thread(sys.stdin.readline)
    if not line:
        raise SystemExit
    return json.loads(line)


arrived: dict[str, str] = {}


async def visit(address: str) -> None:
    say({"visit": address})
    found = (await next_line())["arrived"]
    arrived.clear()
    arrived.update({name: values[0] for name, values in parse_qs(urlsplit(found).query).items()})


async def came_back() -> Any:
    if "code" not in arrived:
        raise RuntimeError(f"{arrived.get('error')}: {arrived.get('error_description')}")
    if KIND == "python-1":
        return arrived["code"], arrived.get("state")
    from mcp.shared.auth import AuthorizationCodeResult

    return AuthorizationCodeResult(code=arrived["code"], state=arrived.get("state"), iss=arrived.get("iss"))


class Storage:
    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


def login() -> Any:
    if KIND == "fastmcp":
        from fastmcp.client.auth import OAuth  # pyright: ignore[reportMissingImports]

        class Login(OAuth):
            async def redirect_handler(self, authorization_url: str) -> None:
                await visit(authorization_url)

            async def callback_handler(self) -> Any:
                return await came_back()

        return Login(additional_client_metadata={"application_type": "native"})
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    metadata = OAuthClientMetadata.model_validate({
        "client_name": KIND, "redirect_uris": [BACK], "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"], "token_endpoint_auth_method": "none", "application_type": "native",
    })  # fmt: skip
    return OAuthClientProvider(URL, metadata, Storage(), visit, came_back)


async def connected(stack: AsyncExitStack, auth: Any) -> Any:
    if KIND == "fastmcp":
        from fastmcp import Client  # pyright: ignore[reportMissingImports]

        return await stack.enter_async_context(Client(URL, auth=auth))
    if KIND == "python-1":
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client  # pyright: ignore[reportAttributeAccessIssue]

        read, write, _ = await stack.enter_async_context(streamablehttp_client(URL, auth=auth))
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()
        return session
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    http = await stack.enter_async_context(create_mcp_http_client(auth=auth))
    return await stack.enter_async_context(Client(streamable_http_client(URL, http_client=http)))


def text_of(result: Any) -> tuple[str, bool]:
    failed = next((getattr(result, name) for name in ("is_error", "isError") if hasattr(result, name)), False)
    return "".join(getattr(part, "text", "") for part in result.content), bool(failed)


def innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def serve() -> None:
    """One connection, made anew when a call ended it. The login stays."""
    auth = login()
    call = (await next_line())["call"]
    while True:
        try:
            async with AsyncExitStack() as stack:
                client = await connected(stack, auth)
                while True:
                    more = {"raise_on_error": False} if KIND == "fastmcp" else {}
                    result = await client.call_tool(call["name"], call["arguments"], **more)
                    text, failed = text_of(result)
                    say({"text": text, "failed": failed})
                    call = (await next_line())["call"]
        except (Exception, BaseExceptionGroup) as error:
            if isinstance(innermost(error), SystemExit):
                return
            say({"text": f"{type(innermost(error)).__name__}: {innermost(error)}", "failed": True})
            call = (await next_line())["call"]


asyncio.run(serve())
