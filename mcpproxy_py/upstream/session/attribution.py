"""Whose a question of a server's is, where its wire does not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mcpproxy_py.core.protocol.client_channel import lacks

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


def of_log_line(
    under_way: Sequence[PendingRequest], one_client: bool, unanswered: bool
) -> tuple[PendingRequest | None, bool]:
    """The request that a log line belongs to which does not say whose it is; and, where nobody can tell, whether nobody
    may hear it. What is said during the calls of a principal of limited scope may be about those: it is told to that
    principal, in its latest, and to nobody where others call at the same time."""
    owner = None if unanswered and not one_client else only_one(under_way, one_client)
    callers = [each.channel.caller for each in under_way if each.channel is not None] if owner is None else []
    confidential = any(each.access is not None for each in callers)
    if confidential and len({each.principal for each in callers}) == 1 and not unanswered:
        owner = under_way[-1]
    return owner, one_client or confidential or (not under_way and unanswered)


def latest_of_one_client(under_way: Sequence[PendingRequest]) -> PendingRequest | None:
    """The latest request of the one client that has any under way, where it can tell of its roots."""
    channels = [each.channel for each in under_way if each.channel is not None]
    if len({each.key for each in channels}) != 1 or not all(each.key and each.live for each in channels):
        return None  # without a session, two clients may look like one
    return None if lacks(channels[-1].capabilities, ROOTS) else under_way[-1]


def leaves(pending: PendingRequest) -> bool:
    """Whether it is a call whose client ends its turn to be asked; one of the handshake era is still at the line."""
    return bool(pending.method) and pending.channel is not None and not pending.channel.live
