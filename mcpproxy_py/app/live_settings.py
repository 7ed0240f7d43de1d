"""The settings in force, and what a new version of them changes while the gateway runs (UP-8).

Notice that a file changed: by looking, because that works on every file system and in every container.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from mcpproxy_py import __version__
from mcpproxy_py.app.builtin_upstreams import CATALOG, BuiltinUpstreams, server_specs
from mcpproxy_py.app.from_settings import result_limits
from mcpproxy_py.core.policy.scope import Scope
from mcpproxy_py.core.record import events
from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.core.results.limits import ResultLimits
from mcpproxy_py.core.values import Caller, ClientInfo, Policy
from mcpproxy_py.errors import Code, GatewayError, StoreUnavailable
from mcpproxy_py.gateway.access.profiles import ProfileTable
from mcpproxy_py.serve.mcp.surfaces.gate import GateOptions
from mcpproxy_py.settings import (
    Loaded,
    Settings,
    TextCheck,
    check_text,
    fingerprint,
    load,
    loosened,
    needs_restart,
    shown,
)
from mcpproxy_py.store.store import Store
from mcpproxy_py.upstream.supervisor import Supervisor

log = logging.getLogger(__name__)


class LiveSettings:
    """The settings in force. A reload is a new value, applied as a whole or not at all."""

    def __init__(
        self,
        loaded: Loaded,
        upstreams: Supervisor,
        store: Store,
        new_id: IdMaker,
        inside: BuiltinUpstreams,
        *,
        frozen: bool,
    ) -> None:
        self._loaded = loaded
        self._at_start = loaded.settings
        self._upstreams = upstreams
        self._store = store
        self._new_id = new_id
        self._inside = inside
        self._changing = anyio.Lock()
        self._result_tokens = loaded.settings.limits.result_tokens
        self._gate_options: tuple[Settings, GateOptions] | None = None
        self.profiles = ProfileTable(scopes_of(loaded.settings))
        self.error: str | None = None
        """What is wrong with the file as it is now, while the configuration before it stays in force."""
        self.on_surfaces: Callable[[Iterable[str], Iterable[str], Iterable[str]], None] = lambda *open_now: None
        """Told which surfaces are open from now on, which servers may be passed through to, and which profiles there
        are."""
        self.on_reload: Callable[[Settings], object] = lambda settings: None
        """Told of settings that have come into force."""
        upstreams.set_policy(policy_of(loaded.settings, frozen=frozen))

    @property
    def settings(self) -> Settings:
        return self._loaded.settings

    def shown(self) -> dict[str, Any]:
        """The configuration in force, secrets masked."""
        return shown(self.settings)

    def sources(self) -> Mapping[str, str]:
        """Where each value comes from that is no default."""
        return self._loaded.sources

    def awaits_restart(self) -> list[str]:
        """Keys that were changed since the start, and whose change is not in force."""
        return needs_restart(self._at_start, self.settings)

    def gate_options(self) -> GateOptions:
        """Made once for each version of the settings. In reach is what is enabled, connected at this moment or not, so
        that a server which comes and goes does not change what agents read; the catalog is there always."""
        settings = self.settings
        if self._gate_options is None or self._gate_options[0] is not settings:
            made = GateOptions(
                schema=settings.intent_declaration.schema_,
                offers_requests=settings.capture_missing_capabilities,
                request_capability_text=settings.request_capability_description,
                private=settings.accepts_tokens or settings.require_mcp_auth,
                in_reach=tuple(sorted(name for name in self.enabled if name != CATALOG)),
                host_confirm=settings.intent_declaration.host_confirm == "destructive",
                reads_on=self.result_limits().any,
            )
            self._gate_options = settings, made
        return self._gate_options[1]

    def result_limits(self) -> ResultLimits:
        return result_limits(self.settings, self._result_tokens)

    async def edit(self, change: Callable[[], object]) -> None:
        """What somebody changes in the file through us. Nobody reads it in between: who watches it would take this for
        an edit by hand, and who had read it before would bring back what was there."""
        async with self._changing:
            await anyio.to_thread.run_sync(change)
            changed = await self._reload(noticed=False)
        if changed:
            await self.apply()

    async def _reload(self, *, noticed: bool) -> bool:
        """Read the file again, and put in force what it forbids; what it permits is for `apply`. Whether anything
        changed.

        What the change loosens is on record before it takes hold, and so is every change that was `noticed`
        rather than asked for. Raises `GatewayError` for a file that is wrong, and changes nothing then.
        """
        fresh = await anyio.to_thread.run_sync(self._read_again)
        self.error = None
        if fresh.settings == self.settings:
            return False
        loosens, waits = loosened(self.settings, fresh.settings), needs_restart(self.settings, fresh.settings)
        if noticed or loosens:
            await self._record({"loosens": loosens, "after_restart": waits})
        for sentence in (*loosens, *(f"{key} changes at the next start" for key in waits)):
            log.warning("configuration: %s", sentence)
        before, servers = self.settings.surfaces, self.enabled
        self._loaded = replace(self._loaded, settings=fresh.settings, awaited=fresh.awaited, sources=fresh.sources)
        after, frozen = fresh.settings.surfaces, self._upstreams.snapshot.policy.frozen
        specs = server_specs(fresh.settings) | self._inside.specs(fresh.settings)
        self._upstreams.tighten(specs, policy_of(fresh.settings, frozen=frozen))
        self.profiles.tighten(scopes_of(fresh.settings))
        self.on_surfaces(
            [one for one in before if one in after], [one for one in servers if one in self.enabled], self.profiles
        )
        return True

    async def apply(self) -> None:
        """Make the running upstreams those of the settings in force, and then open what these permit."""
        settings = self.settings
        inside = self._inside.specs(settings)
        await self._upstreams.apply(server_specs(settings) | inside, self._inside.served(inside))
        if self.settings is not settings:
            return  # whoever changed them meanwhile goes on from here
        self._upstreams.set_policy(policy_of(settings, frozen=self._upstreams.snapshot.policy.frozen))
        self.profiles.use(scopes_of(settings))
        self.on_surfaces(settings.surfaces, self.enabled, self.profiles)
        self.on_reload(settings)

    @property
    def enabled(self) -> list[str]:
        """The upstreams that are wanted, remote ones and those inside."""
        specs = server_specs(self.settings) | self._inside.specs(self.settings)
        return [name for name, spec in specs.items() if spec.enabled]

    async def reload_noticed(self) -> None:
        """The file was edited by hand. A bad edit is reported, and what was in force stays."""
        try:
            if self._loaded.seen is not None and not self._loaded.path.exists():
                raise GatewayError(Code.CONFIG_INVALID, f"{self._loaded.path} does not exist any more")
            async with self._changing:
                changed = await self._reload(noticed=True)
            if changed:
                await self.apply()
        except (GatewayError, StoreUnavailable) as error:
            self.error = str(error)
            log.error("the configuration is not changed: %s", error)

    async def reread(self) -> None:
        """For who starts a server anew: a secret may be there now, or be another one."""
        if self._loaded.path.exists() or self.settings.missing_secrets:
            await self.reload_noticed()

    @property
    def awaited(self) -> tuple[Path, ...]:
        """Files that would have a secret that is missing."""
        return self._loaded.awaited

    def check(self, text: str) -> TextCheck:
        """What reading this as our file would find."""
        return check_text(text, self._loaded.path, data_dir=self.settings.data_dir, overrides=self._settled())

    async def problem(self) -> str | None:
        """Why a gateway could not be started with the file as it is now."""
        try:
            await anyio.to_thread.run_sync(self._read_again)
        except GatewayError as error:
            self.error = str(error)
            return self.error
        return None

    async def reload_told(self, by: str) -> None:
        """Somebody wants the file read now, and the log to say how that went."""
        log.info("%s: reading the configuration again", by)
        await self.reload_noticed()
        if self.error is None:
            log.info("%s: the configuration in force is what the file says", by)

    async def _record(self, details: dict[str, Any]) -> None:
        now = time.time()
        event_id, by = self._new_id(now), Caller("local", "internal", ClientInfo("mcpproxy", __version__))
        asked = events.administrative(event_id, now, "change_config", None, by, details)
        self._store.append(asked, events.finished(event_id, now, events.Outcome("success"), 0.0, 0))
        await self._store.synced()

    def _read_again(self) -> Loaded:
        path = self._loaded.path
        config = path if path.exists() else None
        return load(config=config, data_dir=self.settings.data_dir, overrides=self._settled())

    def _settled(self) -> dict[str, str]:
        """Where we listen may have come from a flag, and stays."""
        return {"listen": self.settings.listen}


def policy_of(settings: Settings, *, frozen: bool) -> Policy:
    declared = settings.intent_declaration
    return Policy(
        strict=declared.strict_server_validation,
        unannotated=declared.unannotated,
        missing_intent=declared.missing,
        frozen=frozen,
        max_depth=settings.limits.max_argument_depth,
        offers_requests=settings.capture_missing_capabilities,
        detail=settings.discovery.detail,
    )


def scopes_of(settings: Settings) -> dict[str, Scope]:
    return {name: profile.scope for name, profile in settings.profiles.items()}


LOOK_EVERY: Final = 1.0


async def watch(
    loaded: Loaded, changed: Callable[[], Awaitable[None]], awaited: Callable[[], Iterable[Path]] = lambda: ()
) -> None:
    """Calls `changed` after each change of this file since it was read, its appearing and its vanishing included; and
    of files that are `awaited`, which were not there or not right."""
    seen, of_secrets = loaded.seen, {path: fingerprint(path) for path in loaded.awaited}
    while True:
        await anyio.sleep(LOOK_EVERY)
        now, secrets = fingerprint(loaded.path), {path: fingerprint(path) for path in awaited()}
        if now != seen or any(found != of_secrets.get(path) for path, found in secrets.items()):
            seen, of_secrets = now, secrets
            await changed()
