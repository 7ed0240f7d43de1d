"""Erasing a record for good, and a chain that still verifies (ACT-8).

Arguments and answers are payloads: the chain covers their digests. Other words of agents, servers and people stand in
the heads of events: the reason of an intent, the message of an error, what a client answered in mid-call. When a record
is erased, its heads are written anew without them. The hash of the event before stays beside the new head, so the chain
goes on, and a seal of the gateway that erased stands in the head for the hash that it no longer has.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import Connection, select, update

from mcpproxy_py.core.values import RANK
from mcpproxy_py.store.codec import decode, encode
from mcpproxy_py.store.database.columns import part
from mcpproxy_py.store.database.tables import events
from mcpproxy_py.store.journal.chain import Sealer

ERASED: Final = "erased"
EARLIER: Final = 3_600_000_000
"""Microseconds that a clock may have stepped back between the id of a record and its events."""
_MARK: Final = ',"redacted":'


def metadata_left(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Of what is declared only the operation stays, if it is one; of who confirmed, no notes."""
    kept = {key: value for key, value in metadata.items() if key not in ("intent", "confirmed")}
    operation = part(metadata.get("intent"), "operation_type")
    if isinstance(operation, str) and operation in RANK:
        kept["intent"] = {"operation_type": operation}
    if isinstance(by := metadata.get("confirmed"), dict):
        kept["confirmed"] = {key: value for key, value in by.items() if key != "notes"}
    return kept


def event_left(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event without anybody's words."""
    kept = {key: value for key, value in event.items() if key != "answers"}
    if kept.get("error") is not None:
        kept["error"] = {"code": part(kept["error"], "code"), "message": ERASED}
    if isinstance(told := kept.get("metadata"), dict):
        kept["metadata"] = metadata_left(told)
    return kept


def redact(connection: Connection, sealer: Sealer, by: int, record_id: str, at: int) -> None:
    """Writes the heads of this record's events anew, in every chain. None of them is from long before `at`."""
    named = events.c.at >= at - EARLIER, events.c.head.contains(record_id, autoescape=True)
    for row in connection.execute(select(events).where(*named)).all():
        with suppress(ValueError, RecursionError):  # one that somebody damaged, which `verify` names
            event = decode(row.head)
            if part(event, "id") == record_id and "redacted" not in event and (left := event_left(event)) != event:
                head = encode(left).decode()
                seal = {"by": by, "seal": sealer.seal(ERASED, row.chain, row.seq, row.mac, head)}
                head = f"{head[:-1]}{_MARK}{encode(seal).decode()}}}"
                here = events.c.chain == row.chain, events.c.seq == row.seq
                connection.execute(update(events).where(*here).values(head=head))


def redaction_holds(row: Any, chain: int, sealer: Sealer, seal: Any) -> bool:
    """Whether this gateway sealed this head in place of the one that was written."""
    head = row.head.rpartition(_MARK)[0] + "}"
    return sealer.seal(ERASED, chain, row.seq, row.mac, head) == seal
