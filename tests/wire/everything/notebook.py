"""What the tools note, for other tools to read: in memory, or in a file that several processes share."""

from __future__ import annotations

from pathlib import Path

FILE: list[Path] = []
"""At most one. A gateway may keep several processes of this server, and any of them may be asked."""
_lines: list[str] = []


def note(line: str) -> None:
    if not FILE:
        _lines.append(line)
        return
    with FILE[0].open("a") as file:
        file.write(line + "\n")


def noted() -> list[str]:
    if not FILE:
        return [*_lines]
    return FILE[0].read_text().splitlines() if FILE[0].exists() else []
