"""What an operator wants masked besides what is masked anyway (`activity.mask_patterns`, ACT-9).

Patterns meet texts that somebody hostile may have written, on the loop that serves everybody. So they are run by
RE2, which never goes back, and tried at load: it takes time in proportion to the text, but of a pattern that keeps
hundreds of ways open at once the proportion is bad.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable
from typing import Any, Final

LONGEST: Final = 1000
TRIAL_LENGTH: Final = 16_384
TRIAL_SECONDS: Final = 0.01
"""Of processor time for a text of that length: a hundred times what an ordinary pattern takes."""
_WHOLE_TEXT: Final = re.compile(r"[\^$]|\\[Az]")
"""What looks at where a text begins and ends, which cannot be seen from the JSON around it."""


class MaskPatterns:
    """The operator's patterns at work. Where one has a group named `secret`, only that part is masked."""

    def __init__(self, named: Iterable[tuple[str, str]]) -> None:
        self._named = [(f"***{name}***", _compiled(pattern)) for name, pattern in named]
        self._anchored = any(_WHOLE_TEXT.search(pattern.pattern) for _, pattern in self._named)

    def possible(self, json_text: str) -> bool:
        """Whether a string in this JSON could hold one. Escapes hide what a pattern would find, so with any in the
        text the answer is yes."""
        return self._anchored or "\\" in json_text or any(pattern.search(json_text) for _, pattern in self._named)

    def mask(self, text: str) -> str:
        for instead, pattern in self._named:
            if pattern.search(text):
                text = _without(pattern, instead, text)
        return text


def check_pattern(pattern: str) -> str:
    """The pattern, where it can be used. Raises `ValueError` with what was expected instead."""
    compiled = _compiled(pattern)
    if compiled.search("") is not None:
        raise ValueError("a pattern that does not match the empty text")
    if any(_seconds(compiled, text) > TRIAL_SECONDS for text in _trials(pattern)):
        raise ValueError("a pattern that is quick on every text: repeat less, or more exactly")
    return pattern


def _compiled(pattern: str) -> Any:
    try:
        import re2  # an extra, and only this setting needs it
    except ImportError:
        raise ValueError("the extra `patterns` to be installed first: pip install 'mcpproxy-py[patterns]'") from None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else "it is not valid"
        raise ValueError(f"a pattern of RE2, which has no lookaround and no references ({reason})") from None


def _without(pattern: Any, instead: str, text: str) -> str:
    part = pattern.groupindex.get("secret", 0)
    shown: list[str] = []
    done = 0
    for found in pattern.finditer(text):
        start, end = found.span(part)
        if start >= 0:
            shown += [text[done:start], instead]
            done = end
    return "".join([*shown, text[done:]])


def _trials(pattern: str) -> Iterable[str]:
    """Texts that keep a pattern busy: made of its own characters."""
    chance = random.Random(0)
    own = sorted({char for char in pattern if char.isalnum()} | {"a", "1"})
    for alphabet in (own, ["a", "b"], ["a", "1"], [*own, " "], ["x"]):
        yield "".join(chance.choices(alphabet, k=TRIAL_LENGTH))


def _seconds(pattern: Any, text: str) -> float:
    """The quickest of three, because others want the processor too."""
    found: list[float] = []
    for _ in range(3):
        started = time.thread_time()
        pattern.search(text)
        found.append(time.thread_time() - started)
    return min(found)
