"""The composition root: every part is made here and handed to those that need it, in one task group.

Read `serve_until_stopped` from top to bottom to see the whole gateway.
"""

from __future__ import annotations

import gc
import logging
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from mcpproxy_py.app import logs, restart
from mcpproxy_py.app.builtin_upstreams import BuiltinUpstreams
from mcpproxy_py.app.cluster import ClusterSync, follow_freeze
from mcpproxy_py.app.from_settings import (
    admin_key,
    call_limits,
    connection_limits,
    guard_rules,
    kept_limits,
    masker_of,
    opened_store,
    sealing_keys,
    share_limits,
    shared_keys,
)
from mcpproxy_py.app.greeting import greet
from mcpproxy_py.app.hangup import RELOADS, has_terminal
from mcpproxy_py.app.identity import identity_provider
from mcpproxy_py.app.kept_listings import UnmaskedListings
from mcpproxy_py.app.live_settings import LiveSettings, watch
from mcpproxy_py.app.status import profiles_of, status_of
from mcpproxy_py.app.tool_meanings import ToolMeanings
from mcpproxy_py.core.catalog.model import connectors
from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.core.values import Snapshot
from mcpproxy_py.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, Code, GatewayError, StoreUnavailable
from mcpproxy_py.gateway.access.tokens import TokenService, may_have_tokens
from mcpproxy_py.gateway.admin import FROZEN, Admin, Examine, nothing_found
from mcpproxy_py.gateway.approvals import ApprovalService
from mcpproxy_py.gateway.confirmation.desktop import DesktopNotices
from mcpproxy_py.gateway.confirmation.login_offers import LoginOffers
from mcpproxy_py.gateway.confirmation.waiting_calls import WaitingCalls
from mcpproxy_py.gateway.gateway import Gateway
from mcpproxy_py.gateway.kept_results import KeptResults
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.gateway.page.sessions import PageSessions
from mcpproxy_py.gateway.pins.service import PinService
from mcpproxy_py.gateway.pins.storage import PinStorage
from mcpproxy_py.gateway.refusals import unattributed
from mcpproxy_py.gateway.shares import PrincipalShares
from mcpproxy_py.providers import Loader
from mcpproxy_py.providers.catalog import semantic
from mcpproxy_py.providers.catalog.load import load as load_catalog
from mcpproxy_py.providers.catalog.provider import CatalogProvider, ServedCatalog
from mcpproxy_py.providers.registry.known import KnownRegistries
from mcpproxy_py.serve.http import listen
from mcpproxy_py.serve.http.asgi import answered_by_current
from mcpproxy_py.serve.http.connections import ConnectionTable
from mcpproxy_py.serve.http.guard import Guard
from mcpproxy_py.serve.http.server import HttpServer
from mcpproxy_py.serve.mcp.attach import AttachServer
from mcpproxy_py.serve.mcp.endpoints import Endpoints
from mcpproxy_py.serve.mcp.list_changes import ListChangeNotifier
from mcpproxy_py.serve.mcp.subscriptions import SubscriptionHub
from mcpproxy_py.serve.mcp.surfaces.asks import AskRunner
from mcpproxy_py.serve.mcp.surfaces.direct import DirectSurface
from mcpproxy_py.serve.mcp.surfaces.gate import GateSurface
from mcpproxy_py.serve.mcp.surfaces.passthrough import PassthroughSurface
from mcpproxy_py.serve.mcp.surfaces.resource_links import ResourceLinks
from mcpproxy_py.serve.mcp.surfaces.surface import view_of
from mcpproxy_py.serve.page.credentials import PageCredentials
from mcpproxy_py.serve.rest.late_app import LateRest
from mcpproxy_py.settings import (
    ConfigFile,
    Loaded,
    check_doors,
    ensure_data_dir,
    load_or_create_key,
    load_or_create_seal,
    login_keys,
    rotate_key,
)
from mcpproxy_py.store import chain_key
from mcpproxy_py.tracing import tracing
from mcpproxy_py.upstream.oauth.logins import ServerLogins
from mcpproxy_py.upstream.supervisor import Supervisor

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

IDLE_CHECK: Final = 1.0
HURRIED: Final = 0.1
"""Of the time for an answer, what a client may be away for while another call waits for the place."""
YOUNG: Final = 5000  # objects made and not dropped again, before anybody looks for garbage among them
SWITCH_INTERVAL: Final = 0.0005
"""Seconds that another thread may hold up the event loop; Python's own 5 ms would be the tail of every call."""


def serve(
    loaded: Loaded, *, idle_exit: float | None = None, detached: bool = False, examine: Examine = nothing_found
) -> int:
    """Run the gateway until it is told to stop. Returns the exit status. `examine` finds out what keeps it from
    working; it is of a room above this one."""
    logs.configure(loaded.settings.log.level, loaded.settings.log.format)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    sys.setswitchinterval(SWITCH_INTERVAL)
    status, again = EXIT_OK, False
    try:
        again = anyio.run(
            serve_until_stopped, loaded, idle_exit, detached, examine,
            backend_options={"use_uvloop": sys.platform != "win32"},
        )  # fmt: skip
    except* GatewayError as problems:
        status = _say(problems)
    except* StoreUnavailable as problems:
        status = _say(problems)
    if again:
        restart.replace_process()
    return status


async def serve_until_stopped(loaded: Loaded, idle_exit: float | None, detached: bool, examine: Examine) -> bool:
    """Whether it was told to start again."""
    settings = loaded.settings
    data_dir = settings.data_dir
    started = time.time()
    ensure_data_dir(data_dir)
    check_doors(settings, has_tokens=may_have_tokens(data_dir, shared=settings.activity.database_url is not None))
    load_or_create_key(data_dir)
    masker = masker_of(settings)
    logs.mask_with(masker)
    new_id, again = IdMaker(random.randbytes), False

    had_terminal = has_terminal()
    signals = anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, restart.SIGNAL, *RELOADS)
    async with tracing() as traces, opened_store(settings) as store, anyio.create_task_group() as tasks:
        logs.keep(data_dir / logs.FILE)
        listener = listen.bind(*settings.address, or_any_port=detached)
        url = listen.url_of(listener)
        private = listen.bind_private(listen.rest_socket_path(data_dir))
        shares = PrincipalShares(share_limits(settings))
        table = ConnectionTable(connection_limits(settings), lambda address: shares.count(address, "connections"))
        hub = SubscriptionHub(settings.limits.max_sessions, shares.streams)
        list_changes, cluster = ListChangeNotifier(hub), ClusterSync(store)
        pins = PinService(PinStorage(store, store.pinned_texts, masker), store.on_event)
        await pins.load()
        logins = ServerLogins(store.oauth_logins(partial(login_keys, data_dir, shared_keys(settings))))
        meanings = ToolMeanings(store.tool_vectors)
        watching: list[Callable[[Snapshot], object]] = [lambda now: list_changes.snapshot_changed(meanings.seen(now))]
        upstreams = Supervisor(
            log_dir=data_dir / "logs",
            known=UnmaskedListings(store, masker),
            judge=pins,
            max_result_bytes=settings.limits.max_result_bytes,
            max_values=settings.limits.max_result_values,
            on_change=lambda: [told(upstreams.snapshot) for told in watching],
            on_notification=list_changes.server_said,
            on_unattributed=lambda server, method: gateway.note_refusal(
                unattributed(server, method), method, "server", server
            ),
            on_list_changed=cluster.tell_list_changed,
            auth_for=logins.auth_for,
            evict_after=settings.limits.input_timeout * HURRIED,
            traced=traces.on,
            mask=masker.mask_text,
        )
        registries = KnownRegistries(lambda: current.settings.catalog.registries, data_dir)
        catalog = ServedCatalog(
            lambda by_meaning: CatalogProvider(
                load_catalog(_own_catalog(data_dir), rank=semantic.ranker if by_meaning else None),
                lambda access: connectors(view_of(upstreams.snapshot, access)),
                approvals,
                registries,
            )
        )
        inside = BuiltinUpstreams(
            catalog, Loader(loaded.path.parent, max_result_bytes=settings.limits.max_result_bytes)
        )
        current = LiveSettings(loaded, upstreams, store, new_id, inside, frozen=bool(await store.switch(FROZEN)))
        gateway = traces.gateway(upstreams, store, call_limits(settings), new_id, masker, shares)
        gateway_name, keys = chain_key.identity(data_dir).name, sealing_keys(settings)
        waiting = WaitingCalls(store, gateway_name, store.append, new_id, masker,
                               on_waiting=DesktopNotices(lambda: current.settings.notify_desktop).notice)  # fmt: skip
        gateway.confirmation.queue = waiting
        watching.append(gateway.tasks.snapshot_changed)
        gateway.tasks.keys = keys
        gateway.tasks.table.use(store, gateway_name)
        gateway.local.kept = kept = KeptResults(kept_limits(settings), current.result_limits())
        admin = Admin(
            upstreams,
            store,
            ConfigFile(loaded.path, check=current.check),
            current,
            rotate_key=lambda: rotate_key(data_dir),
            admin_key=admin_key(settings),
            port=listener.getsockname()[1],
            status=lambda: {
                **status_of(current, gateway, store, url, started),
                "tokens": tokens.counts(),
                "profiles": profiles_of(current, gateway),
            },
            new_id=new_id,
            masker=masker,
            logins=logins,
            examine=examine,
        )
        patience = settings.limits.input_timeout
        gateway.login_offers = LoginOffers(logins, upstreams, admin.on_record, shares.questions, patience)
        pins.serve(admin.on_record, upstreams.judge_again, upstreams.names)
        waiting.serve(admin.on_record)
        approvals = ApprovalService(store.approvals, admin.on_record, store.append, new_id, catalog.command_for, masker)
        tokens = TokenService(
            store, admin.on_record, server_names=lambda: set(upstreams.snapshot.servers), on_rates=shares.rates.use,
            profile_scope=current.profiles.scope, on_end=lambda principal: end_access(principal),
        )  # fmt: skip
        page = PageSessions(
            store, admin.on_record, address=url, admin_key=admin_key(settings), spawn=tasks.start_soon,
            secret=cache(lambda: load_or_create_seal(data_dir)), on_end=lambda session: end_access(session),
        )  # fmt: skip
        links = ResourceLinks()
        asking = AskRunner(gateway, keys, patience, cluster.tell_taken_up, store.spend)
        began = time.monotonic()

        def make_rest() -> ASGIApp:
            from mcpproxy_py.serve.rest.app import rest_app

            return rest_app(
                gateway, store, admin, approvals, waiting, tokens, pins, masker, current.profiles, page, registries,
                began=began,
            )  # fmt: skip

        late_rest = LateRest(make_rest)
        rest = traces.edge(answered_by_current(late_rest))
        endpoints = Endpoints(
            hub,
            settings.limits.max_sessions,
            upstreams,
            {
                "gate": lambda _: traces.surface(GateSurface(asking, links, current.gate_options)),
                "direct": lambda _: traces.surface(DirectSurface(asking, links, upstreams, current.gate_options)),
                "passthrough": lambda server: traces.surface(
                    PassthroughSurface(server, asking, upstreams, lambda: current.gate_options().private)
                ),
            },
            traces.edge,
            shares.sessions,
            current.profiles.scope_of,
            rest,
        )

        current.on_surfaces = endpoints.use
        current.on_reload = lambda _: (
            list_changes.settings_changed(current.gate_options()), kept.use(current.result_limits())
        )  # fmt: skip
        endpoints.use(settings.surfaces, current.enabled, current.profiles)
        list_changes.settings_changed(current.gate_options())
        limits = settings.limits
        attachments = AttachServer(
            listen.socket_path(data_dir), endpoints.find, limits.max_body_bytes, limits.max_body_values, table,
            current.profiles, detached=detached, credential=tokens.find,
        )  # fmt: skip
        identity = identity_provider(settings.auth, current.profiles.scope)
        guard = Guard(endpoints.over_http, rest, guard_rules(settings, tokens, identity, PageCredentials(page)))

        def end_access(principal: str) -> None:
            for part in (endpoints, asking.rounds, links, attachments, guard, waiting, kept):
                part.end(principal)

        server = HttpServer(guard.serve, table=table, timeout_keep_alive=settings.limits.idle_timeout)

        if identity is not None:
            tasks.start_soon(identity.run)
        await tasks.start(tokens.run)
        check_doors(settings, has_tokens=tokens.any)
        tasks.start_soon(follow_freeze, store, admin.follow_frozen)
        tasks.start_soon(pins.run)
        tasks.start_soon(waiting.run)
        tasks.start_soon(meanings.run)
        cluster.listen(upstreams, list_changes.said_elsewhere, asking.rounds.taken_up_elsewhere,
                          logins.changed_elsewhere)  # fmt: skip
        await tasks.start(upstreams.run, {})
        await current.apply()
        await gateway.tasks.load()
        await tasks.start(attachments.run)
        tasks.start_soon(watch, loaded, current.reload_noticed, lambda: current.awaited)
        tasks.start_soon(server.serve, [listener, private])
        # Told where we are, somebody may tell us to stop at once: signals are handled before that.
        with signals as told, listen.announced(data_dir, url, listen.socket_path(data_dir)):
            _settle_memory()
            greet(settings, url)
            tasks.start_soon(late_rest.run)
            tasks.start_soon(catalog.run)
            again = await _until_told(told, current, gateway, attachments, guard, idle_exit, had_terminal)
            attachments.ending()
            await _drain(gateway, settings.shutdown_timeout)
        endpoints.use(())
        server.should_exit = True
        await waiting.settle()
        tasks.cancel_scope.cancel()
    return again


def _own_catalog(data_dir: Path) -> Path | None:
    """The operator's own data, which lies over what is shipped."""
    own = data_dir / "catalog"
    return own if own.is_dir() else None


def _settle_memory() -> None:
    """What exists now stays, so the collector need not walk it again on every full collection: those walks, a
    tenth of a second each, were the tail of the calls they hit. Nor need it look for garbage among what a dozen calls
    at once make and drop (`tests/journeys/test_garbage.py`: there is none), for which Python's 700 objects are few.
    Only the young are looked through: there may be tens of thousands of tools from the last time already."""
    gc.collect(1)
    gc.freeze()
    gc.set_threshold(YOUNG)


async def _until_told(
    told: AsyncIterator[signal.Signals], current: LiveSettings, gateway: Gateway, attached: AttachServer, guard: Guard,
    idle_exit: float | None, had_terminal: bool,
) -> bool:  # fmt: skip
    """Until a signal, or until nobody has needed us for a while. Whether a restart was asked for."""
    again = False
    async with anyio.create_task_group() as tasks:

        async def idle(allowed: float) -> None:
            quiet_since = time.monotonic()
            while time.monotonic() - quiet_since < allowed:
                await anyio.sleep(min(IDLE_CHECK, allowed))
                busy = attached.attached or gateway.in_flight
                quiet_since = time.monotonic() if busy else max(quiet_since, guard.last)
            log.info("idle for %s seconds, ending", allowed)
            tasks.cancel_scope.cancel()

        if idle_exit is not None:
            tasks.start_soon(idle, idle_exit)
        async for number in told:
            if number in RELOADS and (has_terminal() or not had_terminal):
                tasks.start_soon(current.reload_told, number.name)
                continue
            again = number == restart.SIGNAL
            if again and (why := await current.problem()) is not None:
                log.error("no restart, since the next start would fail: %s", why)
                continue
            log.info("%s, draining", number.name)
            tasks.cancel_scope.cancel()
    return again


async def _drain(gateway: Gateway, timeout: float) -> None:
    """No new calls; those in flight may finish, for a while."""
    with anyio.move_on_after(timeout) as waiting:
        await gateway.drain()
    if waiting.cancelled_caught:
        log.warning("%d calls were still in flight after %s seconds", gateway.in_flight, timeout)
    await gateway.tasks.settle()


def _say(problems: BaseExceptionGroup[Any]) -> int:
    """Expected failures of a start, in words; a wrong configuration is wrong usage."""
    status = EXIT_FAILED
    for problem in problems.exceptions:
        if isinstance(problem, BaseExceptionGroup):
            status = max(status, _say(problem))
        else:
            print(f"mcpproxy: {MASKER.mask_text(str(problem))}", file=sys.stderr)
            status = EXIT_USAGE if getattr(problem, "code", None) is Code.CONFIG_INVALID else status
    return status
