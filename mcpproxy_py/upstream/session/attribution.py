"""Whose a question of a server's is, where its wire does not say."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mcpproxy_py.core.protocol.client_channel import lacks
from mcpproxy_py.core.values import Caller

if TYPE_CHECKING:
    from mcpproxy_py.upstream.session.rpc import PendingRequest

ROOTS: Final = "roots/list"
"""What it asks for is a client's and not a call's."""


@dataclass(slots=True)
class IgnoredMessages:
    """What a peer sent that was of no use; shown by `Supervisor.describe`."""

    garbage: int = 0
    unmatched: int = 0
    oversize: int = 0
    unattributed: int = 0


def only_one(under_way: Sequence[PendingRequest], one_client: bool) -> PendingRequest | None:
    """The latest request of the one channel that has any under way. `one_client`: all here are of one client."""
    alone = one_client or len({id(each.channel) for each in under_way}) == 1
    return under_way[-1] if under_way and alone else None


CANCELLED_FOR: Final = 60.0
"""Seconds for which a log line can be about a call that was cancelled. Its server was told to stop."""


def of_log_line(
    under_way: Sequence[PendingRequest], one_client: bool, cancelled: Collection[Caller]
) -> tuple[PendingRequest | None, bool]:
    """The request that a log line without a stream belongs to; if there is none, whether the line is dropped.

    A line can be about any call under way, and about a call `cancelled` lately. Where one of their callers has a
    limited scope, only that principal may read it: in its latest call, if all these calls are its own."""
    owner = only_one(under_way, one_client)
    if one_client:
        return owner, True
    if not under_way:
        return None, bool(cancelled)
    callers = [*(each.channel.caller for each in under_way if each.channel is not None), *cancelled]
    if all(each.access is None for each in callers):
        return owner, False
    return (under_way[-1] if len({each.principal for each in callers}) == 1 else None), True


def latest_of_one_client(under_way: Sequence[PendingRequest]) -> PendingRequest | None:
    """The latest request of the one client that has any under way, where it can tell of its roots."""
    channels = [each.channel for each in under_way if each.channel is not None]
    if len({each.key for each in channels}) != 1 or not all(each.key and each.live for each in channels):
        return None  # without a session, two clients may look like one
    return None if lacks(channels[-1].capabilities, ROOTS) else under_way[-1]


def leaves(pending: PendingRequest) -> bool:
    """Whether it is a call whose client ends its turn to be asked; one of the handshake era is still at the line."""
    return bool(pending.method) and pending.channel is not None and not pending.channel.live
