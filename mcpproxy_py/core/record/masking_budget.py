"""How much of one payload masking looks at closely (SEC-6).

What looks suspicious costs a hundred times what does not, and while it is looked at nobody else has a turn.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import Final

NOT_SHOWN: Final = "***too much to look through***"
"""In place of a text with signs of a secret, where more than enough of these were looked through already."""
MOST_LOOKED_AT: Final = 80_000
"""Characters of one payload in texts with signs of a secret: some thirty milliseconds."""
A_LOOK: Final = 60
"""What looking at a text costs beside its length, in characters."""
_left: ContextVar[float] = ContextVar("left", default=math.inf)


class OnePayload:
    """What is masked outside of this has no limit."""

    def __enter__(self) -> None:
        self._before = _left.set(MOST_LOOKED_AT)

    def __exit__(self, *_: object) -> None:
        _left.reset(self._before)


def may_look(size: int) -> bool:
    left = _left.get()
    if left == math.inf:
        return True
    _left.set(left - size - A_LOOK)
    return left >= size + A_LOOK
