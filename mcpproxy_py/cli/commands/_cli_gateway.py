"""`mcpproxy status`, `freeze` and `unfreeze`: the running gateway as a whole."""

from __future__ import annotations

from mcpproxy_py.cli.common import Session, command, group
from mcpproxy_py.cli.output import pairs, say

app = group("The running gateway.")


@command(app, "status")
def status(session: Session) -> None:
    """State of the running gateway."""
    session.show(session.client.get("status"), pairs)


@command(app, "freeze")
def freeze(session: Session) -> None:
    """Refuse everything above read, at once.

    Reads go on. It lasts until `mcpproxy unfreeze`, also through a restart.
    """
    answer = session.client.post("freeze")
    session.show(answer, lambda _: say("Frozen: only reads run, until `mcpproxy unfreeze`."))


@command(app, "unfreeze")
def unfreeze(session: Session) -> None:
    """Lift a freeze."""
    answer = session.client.post("unfreeze")
    session.show(answer, lambda _: say("Unfrozen: writes and deletions run again."))
