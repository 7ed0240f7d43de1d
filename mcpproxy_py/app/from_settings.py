"""What parts of the gateway are told of the settings, each in its own terms."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcpproxy_py.core.record.masking import Masker
from mcpproxy_py.core.results.limits import ResultLimits
from mcpproxy_py.gateway.kept_results import KeptLimits
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.gateway.shares import CallLimits, ShareLimits
from mcpproxy_py.serve.http.connections import ConnectionLimits, room_for
from mcpproxy_py.serve.http.credentials import AgentTokens
from mcpproxy_py.serve.http.guard import AccessRules
from mcpproxy_py.settings import Settings, load_or_create_key, load_or_create_seal
from mcpproxy_py.settings.mask_patterns import MaskPatterns
from mcpproxy_py.store.store import Options, Store, open_store

if TYPE_CHECKING:
    from mcpproxy_py.serve.http.identity.provider import IdentityProvider
    from mcpproxy_py.serve.page.credentials import PageCredentials

log = logging.getLogger(__name__)


def call_limits(settings: Settings) -> CallLimits:
    return CallLimits(
        payload_bytes=settings.activity.max_payload_bytes,
        in_flight=settings.limits.max_in_flight,
        refuse_unrecorded=settings.activity.on_failure == "refuse",
        patience=settings.limits.input_timeout,
    )


def share_limits(settings: Settings) -> ShareLimits:
    told = settings.limits.per_principal
    megabytes = min(told.record_mb, sys.maxsize >> 21)
    record = int(megabytes * (1 << 20))
    return ShareLimits(told.in_flight, told.questions, told.sessions, told.streams, told.subscriptions, record)


def kept_limits(settings: Settings) -> KeptLimits:
    told = settings.limits
    most, mine = (
        int(min(each, 1e6) * (1 << 20)) for each in (told.kept_results_mb, told.per_principal.kept_results_mb)
    )
    return KeptLimits(told.kept_results_seconds, most, mine, told.max_result_values)


def result_limits(settings: Settings, of_all: int) -> ResultLimits:
    """`of_all` is the one of the start; a server's own may change meanwhile."""
    upstreams = {**settings.servers, **settings.providers}.items()
    own = {name: each.result_limits for name, each in upstreams if each.result_limits}
    return ResultLimits(of_all, own)


def connection_limits(settings: Settings) -> ConnectionLimits:
    told = settings.limits
    most = room_for(told.max_connections)
    if most < told.max_connections:
        log.warning("the limit of open files allows %d connections, and not %d", most, told.max_connections)
    return ConnectionLimits(
        most,
        min(most, told.max_connections_per_address),
        told.head_timeout,
        told.body_timeout,
        told.read_timeout,
    )


def admin_key(settings: Settings) -> Callable[[], str]:
    own_key = settings.api_key
    return own_key.get_secret_value if own_key else lambda: load_or_create_key(settings.data_dir)


def guard_rules(
    settings: Settings, tokens: AgentTokens, identity: IdentityProvider | None, page: PageCredentials | None = None
) -> AccessRules:
    return AccessRules(
        admin_key=admin_key(settings),
        listen_host=settings.address[0],
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        mcp_token=settings.mcp_token.get_secret_value() if settings.mcp_token else None,
        tokens=tokens,
        identity=identity,
        page=page,
        require_mcp_auth=settings.require_mcp_auth,
        max_body_bytes=settings.limits.max_body_bytes,
        max_body_values=settings.limits.max_body_values,
    )


def shared_keys(settings: Settings) -> tuple[bytes, ...]:
    """Those that gateways of one database have in common."""
    return tuple(key.get_secret_value().encode() for key in settings.sealing_keys)


def sealing_keys(settings: Settings) -> tuple[bytes, ...]:
    return shared_keys(settings) or (load_or_create_seal(settings.data_dir),)


def masker_of(settings: Settings) -> Masker:
    own = settings.activity.mask_patterns
    return replace(MASKER, own=MaskPatterns((each.name, each.pattern) for each in own)) if own else MASKER


@contextlib.asynccontextmanager
async def opened_store(settings: Settings) -> AsyncIterator[Store]:
    told = settings.activity
    keys = tuple(key.get_secret_value() for key in settings.sealing_keys)
    options = Options(told.database_url, told.ack, told.retention_days, told.max_size_mb, told.max_journal_mb, keys)
    store = await anyio.to_thread.run_sync(partial(open_store, settings.data_dir, options=options, apart=True))
    try:
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(store.close)
