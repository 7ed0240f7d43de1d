"""Of what a server wrote before it gave up, the line that helps: which one names the error. Pure.

Programs end with more than their reason: npm with where its log is, Python with frames before the exception and Node
with frames after it, both with advice. So every line has a rank, and the last of the highest rank is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from mcpproxy_py.core.late_patterns import late

LONGEST: Final = 300
STDOUT: Final = "[stdout] "
"""Before what a server wrote to stdout, where only messages belong."""
MOST_JOINED: Final = 6
NOISE: Final = -1

_NOISE: Final = late(
    r"""^\s+at\s | ^\s*File\s".*,\sline\s\d | ^\s*[\^~]+\s*$ | ^\s*[|+\s-]*$ | ^[{}\[\]()\s,;]*$
    | ^Traceback\ \(most\ recent | ^\s*Node\.js\ v\d | ^node:internal | ^\s*throw\ | ^file:///
    | A\ complete\ log\ of\ this\ run | _logs[/\\] | ^npm\ (?:notice|verb|info|timing) | ^npm\ (?:error|ERR!)\s*$
    | ^npm\ (?:error|ERR!)\ (?:code|errno|syscall|path|dest|command|enoent\ This\ is\ related|404\ (?:Note|tarball))\b
    | ^npm\ (?:warn|WARN) | ^---\ starting\  | ^(?:During\ handling|The\ above\ exception)
    | ^\s*(?:hint|help|note)\s*: | for\ more\ information | --help\b""",
    re.VERBOSE,
)
_WORDS: Final[Sequence[tuple[int, str]]] = (
    (2, r"^error: command failed"),
    (9, r"current (?:python|node)\S* version .{1,30} does not satisfy"),
    (9, r"requires? (?:at least )?(?:a (?:newer|later) version of )?node|unsupported (?:node|engine)|notsup"),
    (9, r"node(?:\.?js)? (?:version )?\S* ?(?:or (?:later|higher|newer)|is not supported|is too old)"),
    (9, r"not compatible with your version of node|requires-python|requires python"),
    (8, r"is not in this registry|404 not found|no solution found|no matching (?:distribution|version)"),
    (8, r"not found in the package registry|could not determine executable|no executables? (?:is|are)"),
    (8, r"an executable named|manifest unknown|unable to find image|pull access denied"),
    (7, r"^[|+\s-]*(?:uncaught )?(?:[a-z_][\w.]*\.)?(?-i:[A-Z]\w*(?:Error|Exception|Exit|Interrupt))\b(?: \[\w+\])?:"),
    (7, r"^\s*(?:error|thread '.*' panicked|panic|fatal error|fatal)\b.*:"),
    (6, r"command not found|: not found|no such file|enoent|cannot find (?:module|package)|eacces|permission denied"),
    (6, r"econnrefused|connection refused|enotfound|eai_again|etimedout|eaddrinuse"),
    (5, r"\b(?:error|fatal|critical)\b\]?\s*:|[✖❌×]"),
    (4, r"\b(?:missing|required|must (?:be )?(?:set|provide)|not (?:set|provided|configured)|invalid)"),
    (4, r"\b(?:unauthorized|forbidden|denied|expired|usage:)"),
    (3, r"\b(?:error|failed|failure|cannot|can't|could not|couldn't|unable|unknown|unrecognized)\b"),
)
_RANKS: Final = tuple((rank, late(pattern, re.IGNORECASE)) for rank, pattern in _WORDS)
_INFO: Final = late(r"\b(?:INFO|DEBUG|TRACE)\b|^(?:info|debug|trace):")
_ENGINE: Final = late(r"EBADENGINE\s+required: (.{1,60})")
_FRAME_SOURCE: Final = late(r"^\s{4,}")


def telling(lines: Iterable[str]) -> str:
    """The line that says most of why, fit for an error message; empty where nothing was said."""
    said = [_plain(line.rstrip()) for line in lines if line.strip()]
    if not said:
        return ""
    ranks = _ranked(said)
    best = max(ranks)
    place = len(ranks) - 1 - ranks[::-1].index(best)
    return _short(_joined(said, place)) + _engine_wanted(said, said[place])


def _plain(line: str) -> str:
    """A line of a log in JSON as others write theirs."""
    if not line.startswith("{") or not line.endswith("}"):
        return line
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return line
    level = next((entry[key] for key in ("level", "severity", "lvl") if isinstance(entry.get(key), str)), "")
    says = next((entry[key] for key in ("message", "msg", "error") if isinstance(entry.get(key), str)), "")
    return f"{level}: {says}" if level and says else says or line


def _ranked(lines: Sequence[str]) -> list[int]:
    """Rank of each; the source line below a frame of Python's is noise like the frame."""
    found: list[int] = []
    after_frame = False
    for line in lines:
        source, after_frame = after_frame and bool(_FRAME_SOURCE.match(line)), line.lstrip(" |+").startswith('File "')
        found.append(NOISE if source else _rank(line))
    return found


def _rank(line: str) -> int:
    text = line.removeprefix(STDOUT)
    if _NOISE.search(text):
        return NOISE
    if _INFO.search(text):
        return 0
    return next((rank for rank, pattern in _RANKS if pattern.search(text)), 1 if text is line else 0)


def _joined(lines: Sequence[str], place: int) -> str:
    """A line that only opens what it says, with what follows."""
    text = lines[place]
    for more in lines[place + 1 : place + 1 + MOST_JOINED]:
        if not text.endswith(("[", "{", "(", ":", ",")) or more.lstrip().startswith("at "):
            break
        text = f"{text} {more.strip()}"
    return text


def _engine_wanted(lines: Sequence[str], chosen: str) -> str:
    """npm only warns of a Node that is too old, and what then breaks says nothing of it."""
    wanted = next((found[1] for line in lines if (found := _ENGINE.search(line))), None)
    if wanted is None or "EBADENGINE" in chosen:
        return ""
    return f" (npm warns that the package requires {_short(wanted).rstrip(' ,')})"


def _short(text: str) -> str:
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.lstrip(" |+").split())[:LONGEST]
