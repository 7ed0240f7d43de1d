"""One GET to a registry, within narrow limits: time, size, redirects, and where it may lead. It blocks.

Nothing of this machine goes with it: no cookie, no credential, no name of the gateway's user; only the path and the
words that were looked for.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urljoin

from mcpproxy_py import __version__
from mcpproxy_py.core import json_values
from mcpproxy_py.core.oauth.addresses import origin
from mcpproxy_py.providers.registry.places import RegistryAway, RegistryRefused

SECONDS: Final = 10.0
MOST_PAGE: Final = 2 * 1024 * 1024
MOST_SNAPSHOT: Final = 16 * 1024 * 1024
MOST_REDIRECTS: Final = 3
_JSON: Final = re.compile(r"application/(?:[a-z0-9.-]+\+)?json(?:\s*;.*)?", re.IGNORECASE | re.DOTALL)
_REDIRECTS: Final = (301, 302, 303, 307, 308)


class NotListed(RegistryRefused):
    """404: the registry has no such server."""


def fetched(
    url: str, query: Mapping[str, str], *, most: int = MOST_PAGE, seconds: float = SECONDS, json: bool = True
) -> bytes:
    """The body. Raises `RegistryAway` for what does not answer as a registry does, `NotListed` for a 404."""
    import httpx

    until, outcome = time.monotonic() + seconds, list[bytes | BaseException]()

    def run() -> None:
        try:
            outcome.append(_get(httpx, url, query, most, until, json))
        except BaseException as error:
            outcome.append(error)

    # A name that is looked up for minutes, or a header that comes a byte at a time, has no deadline of its own.
    worker = threading.Thread(target=run, daemon=True, name="registry")
    worker.start()
    worker.join(seconds + 0.5)
    found = outcome[0] if outcome else RegistryAway(f"it did not answer within {seconds:g} s")
    if isinstance(found, BaseException):
        raise found
    return found


def _get(httpx: Any, url: str, query: Mapping[str, str], most: int, until: float, json: bool) -> bytes:
    headers = {"user-agent": f"mcpproxy/{__version__}", "accept": "application/json", "accept-encoding": "identity"}
    try:
        with httpx.Client(
            headers=headers, timeout=until - time.monotonic(), follow_redirects=False, auth=None
        ) as client:
            at = str(httpx.URL(url).copy_merge_params(query)) if query else url
            for _ in range(MOST_REDIRECTS + 1):
                with client.stream("GET", at) as answer:
                    if answer.status_code not in _REDIRECTS:
                        return _body(answer, most, until, json)
                    at = _led_to(at, answer.headers.get("location", ""))
                client.cookies.clear()
        raise RegistryAway(f"it redirects more than {MOST_REDIRECTS} times")
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
        if time.monotonic() >= until or isinstance(error, httpx.TimeoutException):
            raise RegistryAway("it did not answer in time") from None
        raise RegistryAway(f"it cannot be reached ({type(error).__name__})") from None


def _led_to(at: str, location: str) -> str:
    with suppress(ValueError):
        there = urljoin(at, location)
        if location and origin(there) == origin(at):
            return there
    raise RegistryAway("it redirects to another place, which is not followed; if it moved, configure its new address")


def _body(answer: Any, most: int, until: float, json: bool) -> bytes:
    if answer.status_code == 404:
        raise NotListed("it has nothing of that name")
    if answer.status_code != 200:
        raise RegistryAway(f"it answered with status {int(answer.status_code)}")
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise RegistryAway("its answer is compressed, which was not asked for")
    if json and not _JSON.fullmatch(answer.headers.get("content-type", "").strip()):
        raise RegistryAway("its answer is no JSON; is that the address of a registry?")
    parts, size = list[bytes](), 0
    for part in answer.iter_raw():
        size += len(part)
        if size > most:
            raise RegistryAway(f"its answer is larger than {most // 1024} KiB")
        if time.monotonic() > until:
            raise RegistryAway("it did not answer in time")
        parts.append(part)
    return b"".join(parts)


def decoded(body: bytes) -> Any:
    """Raises `RegistryAway` for what is no JSON that can be used."""
    try:
        value = json_values.decode(body.decode("utf-8-sig"))
    except (ValueError, UnicodeDecodeError):
        raise RegistryAway("its answer is no JSON; is that the address of a registry?") from None
    if why := json_values.flaw(value):
        raise RegistryAway(f"its answer cannot be used: {why}")
    return value
