"""A gateway for tests of the REST interface: the real gateway and the real store around upstreams in memory."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import anyio

from mcpproxy_py.core.catalog.model import connectors
from mcpproxy_py.core.policy.scope import Scope
from mcpproxy_py.core.policy.tool_class import classify
from mcpproxy_py.core.protocol.admin_key_proof import proof
from mcpproxy_py.core.protocol.client_channel import NOBODY, UpstreamCallContext
from mcpproxy_py.core.record.events import IdMaker
from mcpproxy_py.core.search.index import Index, segment
from mcpproxy_py.core.values import Ask, Caller, ClientInfo, Policy, Route, Server, Snapshot, Tool
from mcpproxy_py.errors import Code, GatewayError, UpstreamFailure
from mcpproxy_py.gateway.access.profiles import ProfileTable
from mcpproxy_py.gateway.access.tokens import TokenService
from mcpproxy_py.gateway.admin import ConfigStore
from mcpproxy_py.gateway.approvals import ApprovalService
from mcpproxy_py.gateway.confirmation.waiting_call import WaitingCall
from mcpproxy_py.gateway.confirmation.waiting_calls import WaitingCalls
from mcpproxy_py.gateway.gateway import CallLimits, Gateway
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.gateway.page.sessions import PageSessions
from mcpproxy_py.gateway.pins.service import PinService
from mcpproxy_py.gateway.pins.storage import PinStorage
from mcpproxy_py.providers.catalog.load import load
from mcpproxy_py.providers.catalog.provider import CatalogProvider, Requests
from mcpproxy_py.providers.registry.known import KnownRegistries
from mcpproxy_py.serve.http.asgi import answered_by, as_asgi
from mcpproxy_py.serve.http.guard import AccessRules, Guard
from mcpproxy_py.serve.page.credentials import PageCredentials
from mcpproxy_py.serve.rest.app import rest_app
from mcpproxy_py.settings import TextChange
from mcpproxy_py.settings.access.registries import RegistrySettings
from mcpproxy_py.store.store import Store
from mcpproxy_py.upstream.calls.scheduler import RequestStats, ServerStats
from mcpproxy_py.upstream.lists.in_force import SaidListing
from mcpproxy_py.upstream.permit import Permit
from mcpproxy_py.upstream.spec import UpstreamSpec

T = TypeVar("T")
LISTED = Path(__file__).parent / "listed_servers.json"
CATALOG = load()
KEY = "mcpk_the-first-key"
ADDRESS = "http://127.0.0.1:8080"
PATIENCE = 60.0
"""Seconds that whoever reads the record waits for it here. Outside it is two, which a busy machine may not keep."""
READS = {"readOnlyHint": True}
WRITES = {"readOnlyHint": False}
DESTROYS = {"destructiveHint": True}


def tool(server: str, name: str, description: str, annotations: Mapping[str, Any] | None = None) -> Tool:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    wire: dict[str, Any] = {"name": name, "description": description, "inputSchema": schema}
    if annotations is not None:
        wire["annotations"] = annotations
    return Tool(server, name, wire, classify(annotations))


NOTES = (
    tool("notes", "read_note", "Read a note aloud", READS),
    tool("notes", "create_note", "Write a new note", WRITES),
    tool("notes", "delete_note", "Delete a note for ever", DESTROYS),
    tool("notes", "broken", "Always fails to answer", READS),
    tool("notes", "unhappy", "Answers that it could not", READS),
    tool("notes", "slow", "Waits until somebody gives up", READS),
    tool("notes", "odd/name", "Has a slash and no annotations"),
)
AWAY = (tool("away", "send_note", "Send a note by mail", WRITES),)


class Upstreams:
    """Two servers: `notes` is there, `away` is not. Remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Mapping[str, Any]]] = []
        self.waiting = anyio.Event()
        self.given_up = anyio.Event()
        self.snapshot = Snapshot(
            Policy(),
            {
                "notes": Server("notes", "connected", {entry.name: entry for entry in NOTES}),
                "away": Server("away", "failed", {entry.name: entry for entry in AWAY}, error="it died"),
            },
            Index({"notes": segment(NOTES), "away": segment(AWAY)}),
        )

    def add_catalog(self, requests: Requests) -> CatalogProvider:
        """The real one, which the supervisor would have connected."""
        self.catalog = CatalogProvider(CATALOG, lambda principal: connectors(self.snapshot), requests)
        tools = [Tool("catalog", row["name"], row, classify(row["annotations"])) for row in self.catalog.tools()]
        server = Server("catalog", "connected", {one.name: one for one in tools})
        self.snapshot = replace(self.snapshot, servers={**self.snapshot.servers, "catalog": server})
        return self.catalog

    async def ready(self, server: str) -> None:
        pass

    async def request(self, server: str, permit: Permit) -> Any:
        params, channel = permit().params, permit.channel or NOBODY
        tool, args = params["name"], params["arguments"]
        self.calls.append((server, tool, args))
        if server == "catalog":
            return await self.catalog.call(tool, args, UpstreamCallContext(channel))
        if tool == "broken":
            raise UpstreamFailure(Code.UPSTREAM_ERROR, "notes answered with an error")
        if tool == "slow":
            await self._wait()
        text = {"type": "text", "text": str(args.get("text", "done"))}
        return {"content": [text], "isError": tool == "unhappy", "kept": 2**70}

    async def _wait(self) -> None:
        self.waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.given_up.set()


class Desk:
    """An operator in memory, which remembers who changed what."""

    def __init__(self, upstreams: Upstreams) -> None:
        self.upstreams = upstreams
        self.key = KEY
        self.level: Any = "info"
        self.changes: list[tuple[str, Any, Caller]] = []
        self.rows = {name: self._row(server) for name, server in upstreams.snapshot.servers.items()}

    @staticmethod
    def _row(server: Server) -> dict[str, Any]:
        return {"name": server.name, "state": server.state, "enabled": True, "tool_count": len(server.tools)}

    def measured(self) -> list[ServerStats]:
        servers = self.upstreams.snapshot.servers.values()
        return [ServerStats(one.name, one.state, 0, 0, 1, 0, {"garbage": 0}, RequestStats()) for one in servers]

    def _known(self, name: str) -> dict[str, Any]:
        if name not in self.rows:
            raise GatewayError(Code.NOT_FOUND, f"There is no server '{name}'")
        return self.rows[name]

    async def add_server(
        self, name: str, config: dict[str, Any], by: Caller, *, replace: bool = False, check_secrets: bool = True
    ) -> None:
        if name in self.rows and not replace:
            raise GatewayError(Code.CONFLICT, f"There is a server '{name}' already")
        if "command" not in config:
            raise GatewayError(Code.CONFIG_INVALID, f"mcpServers.{name}: command or url is required")
        self.rows[name] = {"name": name, "state": "connecting", "enabled": True, "tool_count": 0}
        self.changes.append(("add", name, by))

    async def remove_server(self, name: str, by: Caller) -> None:
        del self.rows[self._known(name)["name"]]
        self.changes.append(("remove", name, by))

    async def set_enabled(self, name: str, enabled: bool, by: Caller) -> None:
        self._known(name)["enabled"] = enabled
        self.changes.append(("enable" if enabled else "disable", name, by))

    async def set_classes(self, name: str, classes: Mapping[str, Any], by: Caller) -> dict[str, Any]:
        self._known(name)
        self.changes.append(("classes", name, by))
        return dict.fromkeys(classes)

    async def restart_server(self, name: str, by: Caller) -> None:
        self._known(name)
        self.changes.append(("restart", name, by))

    def _logged_in(self, name: str) -> dict[str, Any]:
        self._known(name)
        return {"server": name, "state": "valid", "waiting": False, "error": None, "issuer": "https://as.example",
                "scope": "read", "wanted_scope": None, "expires_at": 2e9, "renews": True}  # fmt: skip

    async def begin_login(self, name: str, by: Caller, *, device: bool) -> dict[str, Any]:
        self.changes.append(("login", name, by))
        return {**self._logged_in(name), "state": "waiting", "waiting": True, "user_code": None, "listens": True,
                "authorization_url": "https://as.example/authorize?state=x", "redirect_uri": "http://127.0.0.1/cb",
                "verification_uri": None, "lasts": 600.0}  # fmt: skip

    async def answer_login(self, name: str, address: str, by: Caller) -> dict[str, Any]:
        self.changes.append(("answer", name, by))
        return self._logged_in(name)

    async def log_out(self, name: str, by: Caller, *, revoked: bool) -> dict[str, Any]:
        self.changes.append(("logout", name, by))
        return self._logged_in(name)

    def login_state(self, name: str) -> dict[str, Any]:
        return self._logged_in(name)

    async def set_frozen(self, frozen: bool, by: Caller) -> None:
        snapshot = self.upstreams.snapshot
        self.upstreams.snapshot = replace(snapshot, policy=replace(snapshot.policy, frozen=frozen))
        self.changes.append(("freeze" if frozen else "unfreeze", None, by))

    def prove(self, nonce: str) -> dict[str, Any]:
        return {"nonce": "0" * 32, "port": 8080, "proof": proof(self.key, nonce, "0" * 32, 8080)}

    async def rotate_key(self, by: Caller) -> str:
        self.key = "mcpk_the-second-key"
        self.changes.append(("rotate", None, by))
        return self.key

    def describe_servers(self) -> list[dict[str, Any]]:
        return list(self.rows.values())

    async def server_entry(self, name: str) -> dict[str, Any] | None:
        return {"command": "x", "env": {"TOKEN": "${env:TOKEN}"}} if name in self.rows else None

    async def server_log(self, name: str, lines: int) -> list[str]:
        self._known(name)
        printed = [f"line {number}" for number in range(5000)]
        return [*printed[-lines:], "Authorization: Bearer abcdefghijklmnopqrstuv"]

    def shown_config(self) -> dict[str, Any]:
        return {"listen": "127.0.0.1:8080", "api_key": "***"}

    def settings_state(self) -> dict[str, Any]:
        values = {"log": {"level": self.level}, "api_key": "***"}
        sources = {"log.level": "/somewhere/mcp_config.json: log.level"}
        return {"values": values, "sources": sources, "awaits_restart": [], "file": "/somewhere/mcp_config.json"}

    async def change_settings(self, changes: Mapping[tuple[str, ...], Any], by: Caller) -> dict[str, list[str]]:
        self.level = changes.get(("log", "level"), self.level)
        self.changes.append(("settings", changes, by))
        return TextChange("{}", "{}").says()

    async def tried(self, change: Callable[[ConfigStore], object]) -> dict[str, list[str]]:
        return TextChange("{}", "{}").says()

    async def health(self) -> list[dict[str, Any]]:
        return [{"subject": "gateway", "state": "ok", "says": "it runs"}]

    def status(self) -> dict[str, Any]:
        return {"version": "0", "frozen": self.upstreams.snapshot.policy.frozen}


class House:
    """Everything behind one ASGI application, `app`."""

    def __init__(self, store: Store) -> None:
        self.store, caught_up = store, store.caught_up
        store.caught_up = lambda timeout=PATIENCE: caught_up(timeout)
        self.upstreams = Upstreams()
        self.gateway = Gateway(self.upstreams, store, CallLimits(), IdMaker(os.urandom))
        self.desk = Desk(self.upstreams)
        self.page = PageSessions(
            store, self._on_record, address=ADDRESS, admin_key=lambda: self.desk.key, secret=lambda: b"own",
            spawn=lambda act: asyncio.get_running_loop().create_task(act()), clock=lambda: self.now(),
            on_end=lambda session: self.guard.end(session),
        )  # fmt: skip
        page = PageCredentials(self.page)
        rules = AccessRules(admin_key=lambda: self.desk.key, page=page, max_body_bytes=200_000)
        new_id = IdMaker(os.urandom)
        self.now = time.time
        self.recording: Exception | None = None
        """What goes wrong with recording, if anything."""
        self.approvals = ApprovalService(
            store.approvals,
            self._on_record,
            store.append,
            new_id,
            lambda wish: catalog.command_for(wish),
            now=lambda: self.now(),
        )
        self.waiting = WaitingCalls(store, "here", store.append, new_id, now=lambda: self.now())
        self.waiting.serve(self._on_record)
        catalog = self.upstreams.add_catalog(self.approvals)
        self.tokens = TokenService(store, self._on_record)
        self.pins = PinService(PinStorage(store, store.pinned_texts, MASKER), store.on_event)
        profiles = ProfileTable({"notes": Scope(servers=(("notes",),))})
        self.rest = rest_app(
            self.gateway,
            store,
            self.desk,
            self.approvals,
            self.waiting,
            self.tokens,
            self.pins,
            profiles=profiles,
            page=self.page,
            registries=KnownRegistries(lambda: (RegistrySettings(file=str(LISTED)),), LISTED.parent),
        )
        self.guard = Guard({}, answered_by(self.rest), rules)
        self.app = as_asgi(self.guard.serve)

    async def lists(self, server: str, *tools: str) -> None:
        """A server whose listing waits for a person."""
        self.pins.serve(self._on_record, self._judged_again)
        said = [{"name": name, "inputSchema": {"type": "object"}} for name in tools]
        await self.pins.judged(UpstreamSpec(server, trust="manual"), SaidListing(said, None, heard=True))

    async def _judged_again(self, server: str) -> None:
        await self.lists(server, "read_note")

    def seen(self, server: str) -> str:
        return self.pins.server_pins(server).seen

    async def _on_record(
        self, action: str, subject: str | None, by: Caller, details: Mapping[str, Any], act: Callable[[], Awaitable[T]]
    ) -> T:
        if self.recording is not None:
            raise self.recording
        self.desk.changes.append((action, details, by))
        return await act()

    @asynccontextmanager
    async def waits(self, name: str) -> AsyncIterator[WaitingCall]:
        """A call that waits for a person."""
        ask = self.ask(name)
        to = await self.gateway.decides(ask)
        assert isinstance(to, Route), to
        async with self.waiting.waiting(ask, to, "Allow it?", 60) as opened:
            yield opened.call
        await self.waiting.settle()

    def ask(self, name: str) -> Ask:
        """A read in an agent's name, for tests that need a history."""
        params = {"name": name, "intent": {"operation_type": "read"}}
        return self.gateway.new_ask(
            "call_tool_read", params, source="mcp", surface="gate", principal="local", client=ClientInfo("agent", "1")
        )
