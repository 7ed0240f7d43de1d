"""What goes on record and comes from there: masking, the journal, the export, and what vouches for all of it."""

from __future__ import annotations

import atexit
import copy
import csv
import io
import json
import math
import re
import shutil
import tempfile
from collections.abc import Hashable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from sqlalchemy import and_, delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from mcpproxy_py.core.record.masking import PLAIN
from mcpproxy_py.gateway.masker import MASKER
from mcpproxy_py.serve.rest.activity_csv import COLUMNS, csv_header, csv_lines
from mcpproxy_py.store.chain_key import Identity
from mcpproxy_py.store.cluster.membership import join
from mcpproxy_py.store.database import tables
from mcpproxy_py.store.database.engine import Database
from mcpproxy_py.store.database.migrate import migrate
from mcpproxy_py.store.journal import segment_files
from mcpproxy_py.store.journal.chain import Chain, ChainHead
from mcpproxy_py.store.journal.entries import entries, read
from mcpproxy_py.store.options import Options
from mcpproxy_py.store.projection.apply import project
from mcpproxy_py.store.verify import TrustedState, verify
from tests.fuzz.engine import places

FAR: Final = 400
"""Patterns look only so far, so of a longer text they may see another part when the first is masked."""
ORDINARY: Final = re.compile(r"[\w .:/-]*").fullmatch
GROWTH: Final = 40
"""How many times longer than its text a masked text may be: there is room for `***name***` in place of a character."""


def read_value(data: bytes) -> Hashable:
    """Masking raises nothing, changes nothing that it was given, gives JSON, is done when it is done, and never grows
    without bound; and so for texts, and for what goes on record. What makes it quick makes it miss nothing."""
    value = _finite(_decoded(data))
    before = copy.deepcopy(value)
    masked = PLAIN.mask(value)
    assert value == before or value != value, "what was given was changed"
    shown = json.dumps(masked, ensure_ascii=False, allow_nan=False)
    shown.encode()
    plain = json.dumps(value, default=str)
    if len(plain) < FAR and not any(
        "***" in key for key in _keys(masked)
    ):  # a name that was masked names another thing
        assert PLAIN.mask(masked) == masked, f"masked again, {masked!r} is {PLAIN.mask(masked)!r}"
    assert len(shown) <= GROWTH * len(plain) + 200, "it grows without bound"
    recorded, size = PLAIN.payload_text(value, 1000)
    assert size >= 0 and len(recorded) <= 40_000
    json.loads(recorded)
    if all(map(ORDINARY, _keys(value))):  # `pass{word` is a password only to who reads every name
        quick = MASKER.mask(value)
        assert quick == masked, f"made quick, it is {quick!r}, and not {masked!r}"
    return _text(data.decode("utf-8", "replace")), masked == value, type(value).__name__


def _keys(value: Any) -> list[str]:
    return [key for node in places(value) if isinstance(node, dict) for key in node]


def _finite(value: Any) -> Any:
    """Without numbers that are none: what is done about those is for whoever encodes."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _text(text: str) -> bool:
    masked = PLAIN.mask_text(text)
    if len(text) < FAR:
        assert PLAIN.mask_text(masked) == masked, f"masked again, {masked!r} is {PLAIN.mask_text(masked)!r}"
    assert len(masked) <= GROWTH * len(text) + 200
    masked.encode()
    return masked == text


def _decoded(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "surrogateescape")


# The export.


def read_row(data: bytes) -> Hashable:
    """Whatever is in a record, the export has a line with as many cells as its header, each of which says what the
    record says, and none of which a spreadsheet would run."""
    value = _decoded(data)
    row = value if isinstance(value, dict) else {"arguments": value, "server": value}
    written = csv_header() + csv_lines([row, row])
    lines = list(csv.reader(io.StringIO(written, newline="")))
    assert len(lines) == 3 and all(len(line) == len(COLUMNS) for line in lines), lines
    assert lines[1] == lines[2]
    for cell in lines[1]:
        start = cell.lstrip("\x00 \t\r\n\x0b\x0c")
        runs = start[:1] in tuple("=+@＝＋－＠") or (start[:1] == "-" and not _is_number(start)) if start else False
        assert not runs, f"a spreadsheet would run {cell!r}"
    for name in ("id", "server", "tool", "status"):
        given = row.get(name)
        if isinstance(given, str):
            cell = lines[1][list(COLUMNS).index(name)]
            assert given.encode("utf-8", "replace").decode() in (cell, cell.removeprefix("'")), (given, cell)
    return tuple(bool(cell) for cell in lines[1][:8]), any(cell.startswith("'") for cell in lines[1])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# The journal and the database.

WHO: Final = Identity("fuzzed", b"k" * 32)


def _events() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"kind": "started", "at": 1_700_000_000.0}]
    for number in range(3):
        found.append({
            "kind": "asked", "id": f"r{number}", "at": 1_700_000_000.25 + number, "type": "tool_call", "source": "mcp",
            "surface": "gate", "server": "github", "tool": "create_issue", "arguments": {"title": f"Broken {number}"},
            "arguments_size": 18, "session_id": "s1", "request_id": f"{number}", "principal": "local",
            "client": {"name": "cursor", "version": "1.2"},
            "metadata": {"intent": {"operation_type": "write"}, "tool_variant": "call_tool_write"},
        })  # fmt: skip
        found.append({
            "kind": "finished", "id": f"r{number}", "at": 1_700_000_001.5 + number, "status": "success", "error": None,
            "response": {"content": []}, "response_size": 14, "duration_ms": 1250.5, "metadata": {"attempts": 1},
        })  # fmt: skip
    return found


@cache
def journal() -> tuple[bytes, ChainHead]:
    """A segment with seven events, and the head of its chain."""
    return Chain(WHO.sealer(WHO.name)).link(_events())  # type: ignore[arg-type]


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mcpproxy-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _made(lines: list[bytes]) -> Database:
    made = Options().database(_folder())
    migrate(made)
    join(made, WHO)
    if lines:
        with made.writing() as connection:
            project(made, connection, 1, entries(lines, map(read, lines), 0), 0, WHO.sealer())
    return made


@cache
def _empty() -> Database:
    return _made([])


@cache
def _full() -> tuple[Database, dict[str, list[dict[str, Any]]]]:
    """One with all of it, and the rows of its tables as they were written."""
    made = _made(journal()[0].split(b"\n")[:-1])
    with made.reading() as connection:
        return made, {
            name: [dict(row._mapping) for row in connection.execute(select(each))] for name, each in EDITED.items()
        }


@cache
def _segment() -> Path:
    return _folder() / "1.log"


def read_journal(data: bytes) -> Hashable:
    """Any bytes as a segment: each line is read or is damaged, in an order that only goes up; and the whole is intact
    for what was written, to the byte, and for nothing else."""
    path = _segment()
    path.write_bytes(data)
    lines, after = segment_files.read_lines(path, 0, len(data), block=64)
    whole: list[bytes] = list(lines)
    while after < len(data):
        lines, end = segment_files.read_lines(path, after, len(data), block=64)
        if end == after:
            break
        whole, after = whole + lines, end
    assert b"".join(line + b"\n" for line in whole) == data[:after], "lines are lost, or made up"
    found = entries(whole, map(read, whole), 0)
    assert all(one.seq < other.seq for one, other in pairwise(found) if one.mac and other.mac and not _back(found))
    head = journal()[1]
    report = verify(_empty(), TrustedState(WHO, head, lambda _: map(read, whole)))
    assert (report.result == "intact") == _is_whole(whole), f"{report.result}: {report.findings} {report.unverified}"
    torn = segment_files.cut_torn_line(path)
    assert path.read_bytes() == data[: data.rfind(b"\n") + 1] or not data
    return report.result, tuple(sorted({each["kind"] for each in report.findings})), torn > 0


def _is_whole(lines: list[bytes]) -> bool:
    """Whether these are the events that were written, one after the other. What comes a second time, the database has
    already, and nobody looks at it."""
    written = journal()[0].split(b"\n")[:-1]
    there = 0
    for line in lines:
        entry = read(line)
        if entry is None:
            return False
        if entry.seq > there:
            if entry.seq != there + 1 or there == len(written) or line != written[there]:
                return False
            there += 1
    return there == len(written)


def _back(found: list[Any]) -> bool:
    """Whether somebody wrote numbers that go down, which is for `verify` to say."""
    return any(one.seq >= other.seq for one, other in pairwise(found))


EDITED: Final = {
    each.name: each for each in (tables.events, tables.activity, tables.gateways)
}  # what others hold, `tests/store` edits
COLUMNS_OF: Final = {name: tuple(column.name for column in each.columns) for name, each in EDITED.items()}
UNCHECKED: Final = dict.fromkeys(
    (("gateways", "life"), ("gateways", "place"), ("gateways", "seen_at")),
    "who runs now and where, renewed every second; no part of what was asked and done",
)
"""What may be changed without `verify` saying so, and why that is no record."""


def read_database(data: bytes) -> Hashable:
    """An edit of one value in the database, whatever it is: a record that says something else than was written is
    never intact."""
    value = _decoded(data)
    if not isinstance(value, list) or len(value) < 4 or not all(type(each) is int for each in value[:3]):
        return "none"
    table = list(COLUMNS_OF)[value[0] % len(COLUMNS_OF)]
    column = COLUMNS_OF[table][value[1] % len(COLUMNS_OF[table])]
    database, rows = _full()
    old = rows[table][value[2] % len(rows[table])]
    new = _edited(old[column], value[3])
    if new == old[column] and type(new) is type(old[column]):
        return "nothing changed"
    same = and_(*(each == old[each.name] for each in EDITED[table].primary_key))
    try:
        with database.writing() as connection:
            connection.execute(update(EDITED[table]).where(same).values({column: new}))
            now = {tuple(row) for row in connection.execute(select(EDITED[table]))}
    except (SQLAlchemyError, OverflowError):
        return "not possible"
    try:
        unchanged = now == {tuple(row.values()) for row in rows[table]}  # the database may have made it the same again
        report = verify(database, TrustedState(WHO, journal()[1]))
        assert unchanged or report.result != "intact" or (table, column) in UNCHECKED, (
            f"{table}.{column}: {old[column]!r} became {new!r}, and all is intact"
        )
    finally:
        with database.writing() as connection:
            connection.execute(delete(EDITED[table]))
            connection.execute(insert(EDITED[table]), rows[table])
    return table, column, report.result


def _edited(old: Any, edit: Any) -> Any:
    """For a number, a text with one bit changed; else what was drawn."""
    if isinstance(old, str) and old and type(edit) is int:
        raw = bytearray(old.encode())
        raw[edit % len(raw)] ^= 1 << (edit // len(raw) % 7)
        return raw.decode("utf-8", "replace")
    if isinstance(edit, list):
        return json.dumps(edit).encode()  # as bytes, which SQLite keeps in any column
    if isinstance(edit, dict | bool):
        return json.dumps(edit)
    return edit.encode("utf-8", "replace").decode() if isinstance(edit, str) else edit
