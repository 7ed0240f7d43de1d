"""One login with a person: from the address that they open to the token, or to why there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

from mcpproxy_py.core.oauth.errors import OAuthRefused, OAuthUnreachable
from mcpproxy_py.core.oauth.login import answer_of, person_login
from mcpproxy_py.core.oauth.values import PersonWanted
from mcpproxy_py.upstream.oauth.callback import PATH, PORT, PORTS, CallbackListener
from mcpproxy_py.upstream.oauth.core_files import write_no_core_files
from mcpproxy_py.upstream.oauth.runner import FlowRunner
from mcpproxy_py.upstream.oauth.server_login import ServerLogin

LASTS: Final = 600.0
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class LoginAttempt:
    """Begins with `start`. Its answer comes once: by the listener, or from somebody who pastes it."""

    is_device: bool
    """Whether it is by a code, and not by a browser that comes back."""

    def __init__(self, login: ServerLogin, runner: FlowRunner, listener: CallbackListener, *, device: bool) -> None:
        self.login = login
        self.person: PersonWanted | None = None
        self.listens = False
        self.state = ""
        self.error: str | None = None
        self.done = asyncio.Event()
        self._runner = runner
        self._listener = listener
        self.is_device = device
        self._asked = asyncio.Event()
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._port: int | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> PersonWanted:
        """What a person has to open, to any number who ask. Raises `OAuthRefused` where it does not come so far."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait((self._task, asked), return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        if self.person is None:
            raise OAuthRefused(self.error or "the login was ended")
        return self.person

    def answer(self, address: str) -> None:
        """The address that the browser was sent to. Raises `OAuthRefused` for one that is no answer to this login."""
        told = answer_of(address)
        redirect = self.person.redirect_uri if self.person is not None else ""
        came_home = urlsplit(address.strip()).path.strip("/") == urlsplit(redirect).path.strip("/")
        if told.get("state") != self.state or not came_home:
            raise OAuthRefused("that answer is not one to this login")
        if self._answer.done() or self.done.is_set():
            raise OAuthRefused("this login has had its answer")
        self._answer.set_result(told)

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        login, progress = self.login, self.login.progress
        write_no_core_files()
        try:
            await login.ask_for_challenge()
            uris = await self._redirect_uris()
            context = await self._runner.context(login.url, login.options, progress)
            secrets = await self._runner.secrets()
            self.state = secrets.state
            flow = person_login(
                context, login.challenge, login.stored, secrets, uris, self._runner.clock(), device=self.is_device
            )
            fresh = await self._runner.run(flow, context.rules, login.key, self._ask)
            await login.keep(fresh)
        except TimeoutError:
            self._fail("nobody logged in in time", "given_up")
        except (OAuthRefused, OAuthUnreachable) as error:
            self._fail(str(error), "refused")
        except asyncio.CancelledError:
            self._fail("another login took its place", "given_up")
            raise
        except Exception as error:
            self._fail(f"the login failed ({type(error).__name__})", "refused")
            raise
        finally:
            if self._port is not None:
                self._listener.close(self._port)
            self.done.set()

    def _fail(self, why: str, event: Any) -> None:
        self.error = self.login.refusal = why
        with suppress(ValueError):  # it may not have begun
            self.login.progress.on(event)

    async def _ask(self, wanted: PersonWanted) -> Mapping[str, str]:
        self.person = wanted
        self._asked.set()
        if wanted.user_code:
            return {}
        async with asyncio.timeout(LASTS):
            return await self._answer

    async def _redirect_uris(self) -> tuple[str, ...]:
        """Where answers come in: as configured, as registered, or at the first port that is free. Where none can be
        listened at, somebody can still paste the answer."""
        if self.is_device:
            return (_at("127.0.0.1", PORT), _at("localhost", PORT))
        options, stored = self.login.options, self.login.stored
        if options.redirect_uri is not None:
            parts = urlsplit(options.redirect_uri)
            if parts.scheme == "http" and parts.hostname in LOOPBACK and parts.path == PATH:
                await self._listen(parts.port or 80)
            return (options.redirect_uri,)
        known = [urlsplit(each).port for each in (stored.client.redirect_uris if stored is not None else ())]
        is_fixed = options.client_id is not None or options.client_metadata_url is not None
        ports = [*(each for each in known[:1] if each), *range(PORT, PORT + (1 if is_fixed else PORTS))]
        for port in dict.fromkeys(ports):
            if await self._listen(port):
                return (_at("127.0.0.1", port), _at("localhost", port))
        return (_at("127.0.0.1", ports[0]), _at("localhost", ports[0]))

    async def _listen(self, port: int) -> bool:
        self.listens = await self._listener.open(port)
        if self.listens:
            self._port = port
        return self.listens


def _at(host: str, port: int) -> str:
    return f"http://{host}:{port}{PATH}"
