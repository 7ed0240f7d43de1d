"""Freezing and thawing in each order that the database can answer in: what is read of it never undoes what was said
since."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from mcpproxy_py.core.values import Caller, ClientInfo, Policy
from mcpproxy_py.errors import StoreUnavailable
from mcpproxy_py.gateway.admin import Admin

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-14")]
BY = Caller("admin", "api", ClientInfo("a person", "1"))


class SlowLedger:
    """A database whose reads answer with what was there when they began, once they are let."""

    def __init__(self) -> None:
        self.frozen = False
        self.reading = anyio.Event()
        self.may_read = anyio.Event()
        self.may_write = anyio.Event()
        self.fails = False

    def append(self, *events: Any) -> None: ...

    async def synced(self) -> None: ...

    async def switch(self, name: str) -> bool:
        found = self.frozen
        self.reading.set()
        await self.may_read.wait()
        return found

    async def set_switch(self, name: str, value: bool) -> None:
        await self.may_write.wait()
        if self.fails:
            raise StoreUnavailable("the database is away")
        self.frozen = value


class Servers:
    def __init__(self) -> None:
        self.snapshot = SimpleNamespace(policy=Policy())
        self.seen: list[bool] = []

    def set_policy(self, policy: Policy) -> None:
        self.snapshot.policy = policy
        self.seen.append(policy.frozen)

    @property
    def frozen(self) -> bool:
        return self.snapshot.policy.frozen


@pytest.fixture
def ledger() -> SlowLedger:
    return SlowLedger()


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def admin(ledger: SlowLedger, servers: Servers) -> Admin:
    settings: Any = SimpleNamespace(edit=None, reread=None, shown=None)
    return Admin(
        cast(Any, servers), ledger, cast(Any, None), settings, rotate_key=str, admin_key=str, port=0, status=dict,
        new_id=lambda _: "id",
    )  # fmt: skip


async def test_what_was_read_before_a_freeze_does_not_lift_it(
    admin: Admin, ledger: SlowLedger, servers: Servers
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: admin.follow_frozen(may_thaw=True))
        await ledger.reading.wait()
        tasks.start_soon(admin.set_frozen, True, BY)
        await anyio.wait_all_tasks_blocked()
        assert servers.frozen, "before anything else can fail"
        ledger.may_read.set()
        await anyio.wait_all_tasks_blocked()
        assert servers.frozen
        ledger.may_write.set()
    assert servers.frozen and ledger.frozen


async def test_what_was_read_before_a_thaw_does_not_freeze_again(
    admin: Admin, ledger: SlowLedger, servers: Servers
) -> None:
    ledger.may_write.set()
    await admin.set_frozen(True, BY)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: admin.follow_frozen(may_thaw=True))
        await ledger.reading.wait()
        tasks.start_soon(admin.set_frozen, False, BY)
        await anyio.wait_all_tasks_blocked()
        ledger.may_read.set()
    assert not servers.frozen and not ledger.frozen


async def test_a_thaw_does_not_lift_a_freeze_that_is_being_written(
    admin: Admin, ledger: SlowLedger, servers: Servers
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(admin.set_frozen, False, BY)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(admin.set_frozen, True, BY)
        await anyio.wait_all_tasks_blocked()
        servers.seen.clear()
        ledger.may_write.set()
    assert servers.seen and all(servers.seen)
    assert ledger.frozen


async def test_a_freeze_that_cannot_be_written_holds_here(admin: Admin, ledger: SlowLedger, servers: Servers) -> None:
    ledger.fails = True
    ledger.may_write.set()
    ledger.may_read.set()
    with pytest.raises(StoreUnavailable):
        await admin.set_frozen(True, BY)
    await admin.follow_frozen(may_thaw=False)
    assert servers.frozen


@pytest.mark.parametrize("frozen", [True, False])
async def test_another_gateway_is_followed(admin: Admin, ledger: SlowLedger, servers: Servers, frozen: bool) -> None:
    ledger.may_read.set()
    servers.set_policy(Policy(frozen=not frozen))
    ledger.frozen = frozen
    await admin.follow_frozen(may_thaw=True)
    assert servers.frozen is frozen
