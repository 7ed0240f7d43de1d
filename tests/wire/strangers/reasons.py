"""Why a cell differs, and who says so. A cell that no reason fits fails the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.wire.strangers.matrix import Cell

LISTS: Final = ("resources", "resource of a template", "subscription", "prompts", "completion")
TASKS: Final = ("tool that is a task", "task that the client follows")


def _is_a_list_at_the_gate(cell: Cell) -> bool:
    if cell.surface != "gate" or cell.kind not in LISTS:
        return False
    return cell.through == [] or "error" in cell.through or cell.through.get("listed") == []


def _follows_for_the_client(cell: Cell) -> bool:
    refused = isinstance(cell.straight, dict) and cell.straight.get("error") == -32021
    return refused and cell.kind in TASKS and "crunched" in str(cell.through)


def _says_its_token(cell: Cell) -> bool:
    return cell.place.startswith("python-sdk") and cell.kind == "progress" and (
        cell.straight["progress"] == cell.through.get("progress")
    )  # fmt: skip


def _lost_its_last_line(cell: Cell) -> bool:
    if not cell.place.startswith("typescript-1-simple") or cell.kind != "log":
        return False
    straight, through = cell.straight["heard"], cell.through.get("heard", [])
    return straight[:-1] == through and cell.straight["came"] == cell.through["came"]


REASONS: Final[dict[str, Callable[[Cell], bool]]] = {
    "The gate lists tools only (docs/howto/choose-surfaces.md): what else a server lists is at the other surfaces.": (
        _is_a_list_at_the_gate
    ),
    "The gate's own list does not change when a server's lists do (docs/howto/choose-surfaces.md).": (
        lambda cell: cell.surface == "gate" and cell.kind == "list_changed" and cell.through.get("heard") == []
    ),
    "Better than straight: the gateway follows the task for a client that does not (docs/howto/choose-surfaces.md).": (
        _follows_for_the_client
    ),
    "The tool answers with its progress token. A token is chosen by who sends the request (MCP, progress), and that is "
    "the gateway.": _says_its_token,
    "The server sends its last log line on the stream of the GET, and the answer on that of the POST. Two streams have "
    "no order (MCP 2025-11-25, transports), and a line that comes after the answer belongs to no call.": (
        _lost_its_last_line
    ),
    "The server is session-based only, and a stateless client subscribes in another way (MCP 2026-07-28, "
    "subscriptions/listen).": lambda cell: (
        cell.client == "stateless"
        and cell.kind == "subscription"
        and cell.place.startswith(("typescript-1", "npm-everything"))
        and isinstance(cell.through, list)
    ),
    "The story changes a requestState and expects the SDK's own words. The gateway seals states itself, and refuses a "
    "changed one before the server hears of it (docs/explanation/design.md).": (
        lambda cell: cell.place.startswith("story mrtr") and cell.through == "AssertionError"
    ),
    "The story expects that each of its lists reaches the server. The gateway reads lists itself and keeps them until "
    "the server says that they changed (docs/explanation/design.md).": (
        lambda cell: cell.place.startswith("story middleware") and cell.through.startswith("AssertionError")
    ),
    "The story also sends a raw request to /mcp, which is the gate, and has no progress where its server drops it.": (
        lambda cell: cell.place.startswith("story json_response")
    ),
    "The server asks for the roots once for each session, when it begins, and its sessions are shared. A server that "
    "keeps what is one client's needs sessions: per_client (docs/howto/share-sessions.md).": (
        lambda cell: cell.place.startswith("npm-everything") and cell.kind == "roots"
    ),
}


def reason(cell: Cell) -> str | None:
    return next((why for why, fits in REASONS.items() if fits(cell)), None)
