"""One POST to a model's API, tried again where the API asks for patience."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

import httpx

from mcpproxy_py.bench.dialogue import DriverError

BUSY: Final = (408, 409, 429, 500, 502, 503, 504, 529)
ATTEMPTS: Final = 6
LONGEST_PAUSE: Final = 60.0
TIMEOUT: Final = 120.0
MAX_BYTES: Final = 8 * 1024 * 1024


class Malformed(Exception):
    """The API answered with something its documents do not describe. It costs the prompt, not the run."""


class Exchange:
    """A client of one API. `headers` hold the key, so nothing of them may get into a message."""

    def __init__(self, url: str, headers: Mapping[str, str], *, first_pause: float = 1.0) -> None:
        has_tls = not url.lower().startswith("http://")  # reading certificates takes a while, and may not be needed
        self._http = httpx.AsyncClient(base_url=url, headers=dict(headers), timeout=TIMEOUT, verify=has_tls)
        self._pause = first_pause

    async def aclose(self) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer's object. Raises `Malformed`, or `DriverError` where trying again is no use."""
        answer = await self._try(path, body)
        for attempt in range(1, ATTEMPTS):
            if not _is_busy(answer):
                break
            await asyncio.sleep(self._wait(attempt, answer))
            answer = await self._try(path, body)
        if isinstance(answer, httpx.Response) and not _is_busy(answer):
            return _read(answer)
        raise DriverError(f"the API gave no answer in {ATTEMPTS} attempts: {_why(answer)}")

    async def _try(self, path: str, body: Mapping[str, Any]) -> httpx.Response | httpx.TransportError:
        try:
            return await self._http.post(path, json=dict(body))
        except httpx.TransportError as error:
            return error

    def _wait(self, attempt: int, answer: httpx.Response | httpx.TransportError) -> float:
        """As long as the API says; else twice as long each time, spread so that many clients do not come at once."""
        told = _retry_after(answer)
        pause = self._pause * 2 ** (attempt - 1) * random.uniform(0.75, 1.25) if told is None else told
        return min(pause, LONGEST_PAUSE)


def _is_busy(answer: httpx.Response | httpx.TransportError) -> bool:
    return not isinstance(answer, httpx.Response) or answer.status_code in BUSY


def _retry_after(answer: httpx.Response | httpx.TransportError) -> float | None:
    if not isinstance(answer, httpx.Response):
        return None
    try:
        seconds = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _read(answer: httpx.Response) -> dict[str, Any]:
    if answer.status_code >= 400:
        raise DriverError(f"the API refused with status {answer.status_code}: {_message(answer)}")
    if len(answer.content) > MAX_BYTES:
        raise Malformed(f"an answer of {len(answer.content)} bytes")
    try:
        found = answer.json()
    except ValueError:
        raise Malformed("an answer that is not JSON") from None
    if not isinstance(found, dict):
        raise Malformed("an answer that is no object")
    return found


def _message(answer: httpx.Response) -> str:
    """What the API says in its own words. All three put it in the same place."""
    try:
        said = answer.json()["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return "no reason given"
    return " ".join(str(said).split())[:200]


def _why(answer: httpx.Response | httpx.TransportError) -> str:
    return f"status {answer.status_code}" if isinstance(answer, httpx.Response) else type(answer).__name__
