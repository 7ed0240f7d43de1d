"""What the gateway hears of a server beside the answers to its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OnNotification = Callable[[str, str, Mapping[str, Any]], None]
OnUnattributed = Callable[[str, str], None]
OnListChanged = Callable[[str, str], None]


def deaf(*_: Any) -> None:
    return


@dataclass(frozen=True, slots=True)
class Ears:
    """Called on the event loop; must not block."""

    on_notification: OnNotification = deaf
    """(server, method, params): a notification that belongs to no call."""
    on_unattributed: OnUnattributed = deaf
    """(server, method): a question that belongs to no one call, and was refused."""
    on_list_changed: OnListChanged = deaf
    """(server, method): it says itself that one of its lists changed, whether or not we see a difference."""
