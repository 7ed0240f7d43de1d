"""Where a client is in the lists of several servers at once, as the cursor that it brings back.

It goes through hands that cannot be trusted and holds nothing that they may not know or choose: what is not there for
who brings it is not looked at.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping
from typing import Any, Final

from mcpproxy_py.core import json_values
from mcpproxy_py.core.protocol.constants import INVALID_PARAMS
from mcpproxy_py.errors import RpcError

MOST_PAGES: Final = 1000
LONGEST_OF_ONE: Final = 2048
LONGEST: Final = 128 * 1024


def opened(cursor: Any, there: Collection[str]) -> tuple[dict[str, str | None], int]:
    """By server the cursor of its own, and the number of the page. Raises `RpcError`."""
    if cursor is None:
        return dict.fromkeys(there), 1
    if not isinstance(cursor, str) or len(cursor) > LONGEST:
        raise _unknown()
    try:
        found: Any = json_values.decode(urlsafe_b64decode(cursor.encode("ascii")).decode())
        number, wanted = found if isinstance(found, list) and len(found) == 2 else (None, None)
    except ValueError:
        raise _unknown() from None
    said = json_values.as_object(wanted)
    if type(number) is not int or not 1 < number <= MOST_PAGES or said is None:
        raise _unknown()
    if not all(isinstance(each, str) for each in said.values()):
        raise _unknown()
    return {server: said[server] for server in there if server in said}, number


def closed(following: Mapping[str, str], number: int) -> str | None:
    """The cursor for the page after this one, where there is one."""
    if not following or number >= MOST_PAGES:
        return None
    return urlsafe_b64encode(json_values.text_of([number + 1, dict(following)]).encode()).decode()


def after(cursor: str | None, following: Any) -> str | None:
    """The cursor that a server gave, where it leads on."""
    leads_on = isinstance(following, str) and following and following != cursor and len(following) <= LONGEST_OF_ONE
    return following if leads_on else None


def _unknown() -> RpcError:
    return RpcError(INVALID_PARAMS, "Unknown cursor: begin again without one")
