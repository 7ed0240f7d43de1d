"""What stands on a terminal after all that was written to it: of the sequences that move the cursor, those that we and
Rich use; colours are left out."""

from __future__ import annotations

import re
from typing import Final

_PIECE: Final = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)|\x1b")


def screen(written: str) -> str:
    lines, row, start = [""], 0, True
    for arguments, command, move, text in _PIECE.findall(written):
        if text:
            lines[row] = text if start else lines[row] + text
            start = False
        elif move == "\r":
            start = True
        elif move == "\n":
            row, start = row + 1, True
            lines += [""] * (row + 1 - len(lines))
        elif command == "K":
            lines[row] = ""
        elif command == "A":
            row = max(0, row - int(arguments or 1))
        elif command not in ("m", "h", "l", ""):
            raise AssertionError(f"the sequence \\x1b[{arguments}{command} is not known here")
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"
