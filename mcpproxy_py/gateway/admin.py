"""What a person does to the gateway itself: its servers, the freeze, the key. Every act is on record."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread

from mcpproxy_py.core.protocol.admin_key_proof import proof
from mcpproxy_py.core.record import events as record_events
from mcpproxy_py.core.record.events import Outcome
from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.values import Caller, Policy, Snapshot
from mcpproxy_py.errors import Code, GatewayError, StoreUnavailable
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.settings import Settings, TextChange
from mcpproxy_py.settings.document import put_at, take_from
from mcpproxy_py.upstream.calls.scheduler import ServerStats

log = logging.getLogger(__name__)
T = TypeVar("T")
FROZEN = "frozen"
"""The name of the durable switch."""


class ServerEditor(Protocol):
    """What this needs of the upstream room."""

    @property
    def snapshot(self) -> Snapshot: ...
    def set_policy(self, policy: Policy) -> None: ...
    async def restart(self, server: str) -> None: ...
    def describe(self) -> list[dict[str, Any]]: ...
    def measured(self) -> list[ServerStats]: ...
    def log_path(self, server: str) -> Path: ...


class LoginActs(Protocol):
    """What this needs of the upstream room about logins; see `upstream.oauth.logins`. All raise `GatewayError`."""

    async def begin(self, name: str, *, device: bool = False) -> dict[str, Any]: ...
    async def answer(self, name: str, address: str) -> dict[str, Any]: ...
    async def log_out(self, name: str, *, revoked: bool) -> dict[str, Any]: ...
    def described(self, name: str) -> dict[str, Any]: ...
    def wanted_scopes(self) -> Mapping[str, str]: ...


class Ledger(Protocol):
    """What this needs of the store room."""

    def append(self, *events: Mapping[str, Any]) -> None: ...
    async def synced(self) -> None: ...
    async def switch(self, name: str) -> Any: ...
    async def set_switch(self, name: str, value: Any) -> None: ...


class ConfigStore(Protocol):
    """The configuration file, edited in place with its comments kept."""

    @property
    def path(self) -> Path: ...
    @property
    def tried(self) -> TextChange | None: ...
    def trial(self) -> ConfigStore: ...
    def change(self, edit: Callable[[dict[str, Any]], None]) -> TextChange: ...
    def put_server(
        self, name: str, config: dict[str, Any], *, replace: bool = False, secrets_must_be_there: bool = True
    ) -> None: ...
    def entry(self, name: str) -> dict[str, Any] | None: ...
    def drop_server(self, name: str) -> Any: ...
    def set_enabled(self, name: str, enabled: bool) -> None: ...
    def set_classes(self, name: str, classes: Mapping[str, Any]) -> dict[str, Any]: ...


class SettingsInForce(Protocol):
    """What this needs of the settings; see `app.live_settings`."""

    @property
    def settings(self) -> Settings: ...
    def shown(self) -> dict[str, Any]: ...
    def sources(self) -> Mapping[str, str]: ...
    def awaits_restart(self) -> list[str]: ...
    async def edit(self, change: Callable[[], object]) -> None: ...
    async def reread(self) -> None: ...


Examine = Callable[[Settings, Mapping[str, Any], list[dict[str, Any]]], list[dict[str, Any]]]
"""From the settings, the status and the servers as they are shown to what was found. May read files, so it is called
in a thread."""


def nothing_found(settings: Settings, status: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return []


class Admin:
    """What people change. Raises `GatewayError` for what cannot be done."""

    def __init__(
        self,
        servers: ServerEditor,
        ledger: Ledger,
        file: ConfigStore,
        settings: SettingsInForce,
        *,
        rotate_key: Callable[[], str],
        admin_key: Callable[[], str],
        port: int,
        status: Callable[[], dict[str, Any]],
        new_id: Callable[[float], str],
        masker: Masker = MASKER,
        logins: LoginActs | None = None,
        examine: Examine = nothing_found,
    ) -> None:
        self._servers = servers
        self._ledger = ledger
        self._file = file
        self._settings = settings
        self._edit = settings.edit
        self._reread = settings.reread
        self._rotate_key = rotate_key
        self._admin_key = admin_key
        self._port = port
        self.shown_config = settings.shown
        self.status = status
        self._new_id = new_id
        self._masker = masker
        self._logins = logins
        self._examine = examine
        self._switching = anyio.Lock()
        self._freezes = 0
        """Under way."""

    async def add_server(
        self, name: str, config: dict[str, Any], by: Caller, *, replace: bool = False, check_secrets: bool = True
    ) -> None:
        change = partial(self._file.put_server, name, config, replace=replace, secrets_must_be_there=check_secrets)
        await self.on_record("add_server", name, by, config, lambda: self._edit(change))

    async def remove_server(self, name: str, by: Caller) -> None:
        change = partial(self._file.drop_server, name)
        await self.on_record("remove_server", name, by, {}, lambda: self._edit(change))

    async def set_enabled(self, name: str, enabled: bool, by: Caller) -> None:
        change = partial(self._file.set_enabled, name, enabled)
        action = "enable_server" if enabled else "disable_server"
        await self.on_record(action, name, by, {}, lambda: self._edit(change))

    async def set_classes(self, name: str, classes: Mapping[str, Any], by: Caller) -> dict[str, Any]:
        """The overrides that stood there before, `None` where there was none."""
        before: dict[str, Any] = {}
        change = lambda: before.update(self._file.set_classes(name, classes))  # noqa: E731
        await self.on_record("set_tool_classes", name, by, {"tools": dict(classes)}, lambda: self._edit(change))
        return before

    def settings_state(self) -> dict[str, Any]:
        """The values in force, where they come from, and what waits for a restart."""
        return {
            "values": self._settings.shown(),
            "sources": dict(self._settings.sources()),
            "awaits_restart": self._settings.awaits_restart(),
            "file": str(self._file.path),
        }

    async def change_settings(self, changes: Mapping[tuple[str, ...], Any], by: Caller) -> dict[str, list[str]]:
        """By paths of keys; `None` takes one out, so that its default applies. What it loosens and tightens."""
        told: list[TextChange] = []
        details = {"settings": {".".join(path): value for path, value in changes.items()}}
        change = lambda: told.append(self._file.change(partial(put_all, changes)))  # noqa: E731
        await self.on_record("change_settings", None, by, details, lambda: self._edit(change))
        return told[0].says()

    async def tried(self, change: Callable[[ConfigStore], object]) -> dict[str, list[str]]:
        """What a change of the file would loosen and tighten. Nothing is written. Raises what the change would."""
        trial = self._file.trial()
        await anyio.to_thread.run_sync(change, trial)
        return await anyio.to_thread.run_sync(trial.tried.says) if trial.tried else TextChange(None, "{}").says()

    async def health(self) -> list[dict[str, Any]]:
        """What a look at everything finds."""
        look = partial(self._examine, self._settings.settings, self.status(), self.describe_servers())
        return await anyio.to_thread.run_sync(look)

    async def restart_server(self, name: str, by: Caller) -> None:
        self._must_exist(name)

        async def act() -> None:
            await self._reread()
            await self._servers.restart(name)

        await self.on_record("restart_server", name, by, {}, act)

    async def begin_login(self, name: str, by: Caller, *, device: bool) -> dict[str, Any]:
        """A person is going to log in to a server, in a browser or by a code."""
        acts, details = self._login_acts(name), {"device": device}
        return await self.on_record("begin_login", name, by, details, lambda: acts.begin(name, device=device))

    async def answer_login(self, name: str, address: str, by: Caller) -> dict[str, Any]:
        """The address is no detail of the record: it holds a code."""
        acts = self._login_acts(name)
        return await self.on_record("answer_login", name, by, {}, lambda: acts.answer(name, address))

    async def log_out(self, name: str, by: Caller, *, revoked: bool) -> dict[str, Any]:
        acts, details = self._login_acts(name), {"revoke": revoked}
        return await self.on_record("log_out", name, by, details, lambda: acts.log_out(name, revoked=revoked))

    def login_state(self, name: str) -> dict[str, Any]:
        return self._login_acts(name).described(name)

    def _login_acts(self, name: str) -> LoginActs:
        self._must_exist(name)
        if self._logins is None:
            raise GatewayError(Code.NOT_FOUND, f"There is no login at '{name}'")
        return self._logins

    async def set_frozen(self, frozen: bool, by: Caller) -> None:
        """Freezing takes hold before anything else can fail; thawing only once it is on record and durable, and not
        while somebody else is freezing."""
        self._freezes += frozen
        if frozen:
            self._apply_frozen(True)

        async def act() -> None:
            async with self._switching:
                await self._ledger.set_switch(FROZEN, frozen)
                self._apply_frozen(frozen or self._freezes > 0)

        try:
            await self.on_record("freeze" if frozen else "unfreeze", None, by, {}, act)
        finally:
            self._freezes -= frozen

    async def follow_frozen(self, *, may_thaw: bool) -> None:
        """As the database has it now, where another gateway may have changed it, and has that on record. Never in the
        midst of a change of ours: what is read then may be older. Raises `StoreUnavailable`."""
        async with self._switching:
            frozen = bool(await self._ledger.switch(FROZEN))
            if frozen != self._servers.snapshot.policy.frozen and (frozen or (may_thaw and not self._freezes)):
                log.warning("%s by another gateway", "frozen" if frozen else "unfrozen")
                self._apply_frozen(frozen)

    async def rotate_key(self, by: Caller) -> str:
        async def act() -> str:
            return await anyio.to_thread.run_sync(self._rotate_key)

        return await self.on_record("rotate_key", None, by, {}, act)

    def prove(self, nonce: str) -> dict[str, Any]:
        """That the admin key is known here, to somebody who has not told it yet."""
        own = secrets.token_hex(16)
        proven = proof(self._admin_key(), nonce, own, self._port)
        return {"nonce": own, "port": self._port, "proof": proven}

    def describe_servers(self) -> list[dict[str, Any]]:
        wanted = self._logins.wanted_scopes() if self._logins is not None else {}
        return [{**row, "wanted_scope": wanted.get(row["name"])} for row in self._servers.describe()]

    async def server_entry(self, name: str) -> dict[str, Any] | None:
        """How it is written in the file, without its secrets; `None` where it is not from the file. Also of one that is
        written wrong, and so is not in force."""
        return await anyio.to_thread.run_sync(self._file.entry, name)

    def measured(self) -> list[ServerStats]:
        return self._servers.measured()

    async def server_log(self, name: str, lines: int) -> list[str]:
        self._must_exist(name)
        return await anyio.to_thread.run_sync(_tail, self._servers.log_path(name), lines)

    def _apply_frozen(self, frozen: bool) -> None:
        policy = self._servers.snapshot.policy
        self._servers.set_policy(dataclasses.replace(policy, frozen=frozen))

    def _must_exist(self, name: str) -> None:
        if name not in self._servers.snapshot.servers:
            raise GatewayError(Code.NOT_FOUND, f"There is no server '{name}'")

    async def on_record(
        self, action: str, subject: str | None, by: Caller, details: Mapping[str, Any], act: Callable[[], Awaitable[T]]
    ) -> T:
        """Asked on disk, then done, then closed with how it went."""
        event_id, started = self._new_id(time.time()), time.time()
        outcome = Outcome("error", error=record_events.failure(Code.INTERNAL, "it was not finished"))
        try:
            self._ledger.append(
                record_events.administrative(event_id, started, action, subject, by, details, self._masker)
            )
            await self._ledger.synced()
        except StoreUnavailable as error:
            raise GatewayError(Code.STORE_UNAVAILABLE, f"{action} is refused: it cannot be recorded") from error
        try:
            done = await act()
            outcome = Outcome("success")
            return done
        except GatewayError as error:
            outcome = Outcome("error", error=record_events.failure(error.code, error.message))
            raise
        finally:
            self._close(event_id, started, outcome)

    def _close(self, event_id: str, started: float, outcome: Outcome) -> None:
        now = time.time()
        try:
            self._ledger.append(record_events.finished(event_id, now, outcome, (now - started) * 1000, 0, self._masker))
        except StoreUnavailable:
            log.exception("the end of change %s could not be recorded", event_id)


def put_all(changes: Mapping[tuple[str, ...], Any], document: dict[str, Any]) -> None:
    """Into the file's document, each at its path."""
    for path, value in changes.items():
        try:
            if value is not None:
                put_at(document, path, value)
            else:
                take_from(document, path)
        except KeyError:
            continue  # it is not there, and its default applies already
        except ValueError as error:
            raise GatewayError(Code.CONFIG_INVALID, str(error)) from None


def _tail(path: Path, lines: int) -> list[str]:
    """The end of a log that is at most a megabyte, by design."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return []
    return text.splitlines()[-lines:]
