"""A provider's metadata and its keys, from the network or a file: bounded in time and size, and from where it was said.

Nothing is sent but the question, a redirect is not followed, and where the metadata leads may only be as trustworthy as
the issuer itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from mcpproxy_py import __version__
from mcpproxy_py.settings.access.auth import JwtAuth, is_trustworthy

PATIENCE: Final = 5.0
"""Seconds for one answer, and at most twice that for metadata and keys together."""
MAX_BYTES: Final = 512 * 1024
HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity", "user-agent": f"mcpproxy/{__version__}"}
OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class KeysUnavailable(Exception):
    """Why the provider's keys cannot be had, for the log and for `doctor`."""


def source_of(settings: JwtAuth) -> str:
    """Where its keys come from, as people would say it."""
    return settings.jwks or f"the metadata of {settings.issuer}"


async def key_set(settings: JwtAuth) -> Any:
    """The provider's JWK set as it is published. Raises `KeysUnavailable`."""
    where = settings.jwks
    if where is not None and "://" not in where:
        return await asyncio.to_thread(_from_file, Path(where))
    try:
        async with asyncio.timeout(2 * PATIENCE):
            return await _from_network(settings.issuer, where)
    except TimeoutError:
        raise KeysUnavailable(f"{source_of(settings)} does not answer within {PATIENCE:g} s") from None


def _from_file(path: Path) -> Any:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # a pipe would block
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & OTHERS_WRITE:
                raise KeysUnavailable(f"{path} has to be a file that nobody else can write: chmod go-w {path}")
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KeysUnavailable(f"{path} cannot be read: {error.strerror}") from None
    return _decoded(text, str(path))


async def _from_network(issuer: str, jwks: str | None) -> Any:
    import httpx2

    tls = await asyncio.to_thread(httpx2.create_ssl_context)
    return await _get(tls, jwks or await _discovered(tls, issuer))


async def _discovered(tls: ssl.SSLContext, issuer: str) -> str:
    """Where the issuer's metadata says that its keys are. Asked in the order that MCP clients ask in."""
    problems: list[str] = []
    for url in metadata_urls(issuer):
        try:
            found = await _get(tls, url)
        except KeysUnavailable as problem:
            problems.append(str(problem))
            continue
        if not isinstance(found, dict) or found.get("issuer") != issuer:  # pyright: ignore[reportUnknownMemberType]
            problems.append(f"{url} is the metadata of another issuer")
            continue
        keys: Any = found.get("jwks_uri")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if not isinstance(keys, str) or not _may_lead_to(issuer, keys):
            problems.append(f"{url} names no jwks_uri that can be trusted, which is one of https")
            continue
        return keys
    raise KeysUnavailable("; ".join(problems))


def metadata_urls(issuer: str) -> Iterator[str]:
    """By RFC 8414 and by OpenID Connect Discovery."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    yield f"{origin}/.well-known/openid-configuration{path}"
    if path:
        yield f"{origin}{path}/.well-known/openid-configuration"


def _may_lead_to(issuer: str, url: str) -> bool:
    try:
        here, there = urlsplit(issuer), urlsplit(url)
        named = bool(there.hostname) and "@" not in there.netloc and (there.port is None or there.port > 0)
        return named and is_trustworthy(url) and (there.scheme == "https" or here.scheme == "http")
    except ValueError:
        return False


async def _get(tls: ssl.SSLContext, url: str) -> Any:
    """Nothing of a `.netrc` goes along; the proxy is the one that servers are reached through."""
    import httpx2

    from mcpproxy_py.upstream.transports.http_clients import proxy_for

    try:
        async with (
            asyncio.timeout(PATIENCE),
            httpx2.AsyncClient(
                verify=tls, timeout=PATIENCE, headers=HEADERS, trust_env=False, proxy=proxy_for(httpx2.URL(url))
            ) as client,
            client.stream("GET", url, follow_redirects=False) as answer,
        ):
            if answer.status_code != 200:
                raise KeysUnavailable(f"{url} answers {answer.status_code}")
            parts: list[bytes] = []
            size = 0
            async for part in answer.aiter_bytes():
                size += len(part)
                if size > MAX_BYTES:
                    raise KeysUnavailable(f"{url} answers with more than {MAX_BYTES} bytes")
                parts.append(part)
    except TimeoutError:
        raise KeysUnavailable(f"{url} does not answer within {PATIENCE:g} s") from None
    except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise KeysUnavailable(f"{url} cannot be reached: {error or type(error).__name__}") from None
    return _decoded(b"".join(parts), url)


def _decoded(text: bytes, where: str) -> Any:
    if len(text) > MAX_BYTES:
        raise KeysUnavailable(f"{where} holds more than {MAX_BYTES} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise KeysUnavailable(f"{where} is no JSON") from None
