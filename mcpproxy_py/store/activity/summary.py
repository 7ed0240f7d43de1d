"""Counts and durations over the activity: from the roll-ups wherever they can tell, else from the rows.

The roll-ups are coarse about durations and know nothing of clients and of what refused. So the newest rows are read
too, up to a bound: where these are all that match, percentiles are exact and clients are all there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import add
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Connection, and_, case, func, or_, select

from mcpproxy_py.store.activity.filters import Filters, conditions
from mcpproxy_py.store.codec import decode
from mcpproxy_py.store.database.columns import BITS, LAST_MOMENT, at_of, first_of, micros, name, part
from mcpproxy_py.store.database.tables import BUCKETS, activity, rollup, words
from mcpproxy_py.store.projection.rollups import (
    BUCKET_NAMES,
    DAY,
    EVER,
    GROUPS,
    HOUR,
    bucket_column,
    durations,
    exact_durations,
    key_part,
)

MOST_SAMPLED = 1_000
"""The newest rows that are read for what the roll-ups do not know."""
MOST_REFUSED = 500
"""The newest refusals that are read for what refused them."""
MOST_HOURS = 192
"""Eight days, so that a week has all of its hours in any time zone."""
_BLOCKED = "blocked"
SAMPLED = [
    *(activity.c[column] for column in ("server", "tool", "client_name", "duration_ms")),
    case((activity.c.status == _BLOCKED, activity.c.metadata)).label("metadata"),
]
MOST_GROUPS = 100
"""Names of tools come from agents too, who may ask for any number of tools that do not exist."""
UNDECLARED = "none"
"""Of what declares nothing, such as a search."""
_ROWS_ONLY = ("session_id", "request_id", "client", "principal", "q")
"""Filters by what the roll-ups do not know."""
_DAY_OF_ROW = activity.c.n // (DAY * HOUR << BITS)
_DAY_OF_COUNT = rollup.c.hour // DAY
_HOUR_OF_ROW = activity.c.n // (HOUR << BITS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Name = TypeVar("_Name")


class _Part(NamedTuple):
    """Some records of one sort: how many, and how many of those took how long."""

    type: str
    server: str | None
    tool: str
    intent_type: str | None
    status: str
    many: int
    took: Sequence[int]


def summarise(connection: Connection, filters: Filters) -> dict[str, Any]:
    """`total`, `by_<group>` (the most frequent values and how often; rows without a value are left out), `by_day`,
    `by_hour` and `by_hour_and_intent_type`, and `duration_ms` with `p50` and `p95`, of all and by server and tool.
    `limit` and `cursor` mean nothing here."""
    parts = list(_parts(connection, filters))
    tools = _together(((part.server, part.tool), part.took) for part in parts if any(part.took))
    return {
        "total": sum(part.many for part in parts),
        "by_day": _by_day(connection, filters),
        **_by_hour(connection, filters),
        **{f"by_{group}": _most(parts, group) for group in GROUPS},
        "duration_ms": durations(_together((None, took) for took in tools.values()).get(None, [0] * BUCKETS)),
        "duration_ms_by_server": _durations_by((server, took) for (server, _), took in tools.items()),
        "duration_ms_by_tool": _durations_by((tool, took) for (_, tool), took in tools.items()),
    }


def of_sample(newest: Sequence[Any]) -> dict[str, Any]:
    """What the newest rows say: the clients, and exact durations where these rows are all."""
    whole, rows = len(newest) <= MOST_SAMPLED, newest[:MOST_SAMPLED]
    clients = _ranked(Counter(row.client_name for row in rows if row.client_name))
    said: dict[str, Any] = {"by_client": clients, "sampled": len(rows), "exact": whole}
    if not whole:
        return said
    timed = [row for row in rows if row.duration_ms is not None]
    return {
        **said,
        "duration_ms": exact_durations([row.duration_ms for row in timed]),
        "duration_ms_by_server": _exact_by((row.server, row.duration_ms) for row in timed),
        "duration_ms_by_tool": _exact_by((row.tool, row.duration_ms) for row in timed),
    }


def refusals(newest: Sequence[Any]) -> dict[str, Any]:
    """By the rule that refused: a rung of the decision, or what stopped the call after it."""
    rules = Counter(_rule(row.metadata) for row in newest[:MOST_SAMPLED] if row.metadata is not None)
    return {"by_rule": _ranked(rules)}


def _rule(metadata: str) -> str:
    try:
        told = decode(metadata)
    except (ValueError, RecursionError):
        return "other"
    rule = part(told, "refused_by") or part(part(told, "decision"), "rule")
    return rule if isinstance(rule, str) and rule else "other"


def _exact_by(took: Iterable[tuple[str | None, float]]) -> dict[str, dict[str, float | None]]:
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for value, duration in took:
        if value:
            groups[key_part(value)].append(duration)
    often = sorted(groups, key=lambda value: (-len(groups[value]), value))[:MOST_GROUPS]
    return {value: exact_durations(groups[value]) for value in often}


def _ranked(often: Counter[str]) -> dict[str, int]:
    return dict(sorted(often.items(), key=lambda item: (-item[1], item[0]))[:MOST_GROUPS])


def _most(parts: Sequence[_Part], group: str) -> dict[str, int]:
    often: Counter[str] = Counter()
    for some in parts:
        value = getattr(some, group)
        if value is not None and value != "":
            often[value] += some.many
    return _ranked(often)


def _together(parts: Iterable[tuple[_Name, Sequence[int]]]) -> dict[_Name, Sequence[int]]:
    """The durations of whatever has the same name."""
    took: dict[_Name, Sequence[int]] = {}
    for value, more in parts:
        before = took.get(value)
        took[value] = more if before is None else list(map(add, before, more))
    return took


def _durations_by(parts: Iterable[tuple[str | None, Sequence[int]]]) -> dict[str, dict[str, float | None]]:
    took = _together((value, more) for value, more in parts if value)
    often = sorted(took, key=lambda value: (-sum(took[value]), value))[:MOST_GROUPS]
    return {value: durations(took[value]) for value in often}


def _parts(connection: Connection, filters: Filters) -> Iterator[_Part]:
    counted, edges = _spans(filters)
    if counted is not None:
        if filters.start_time is None and filters.end_time is None:
            counted = rollup.c.span == EVER
        columns = [rollup.c[group] for group in GROUPS]
        # PostgreSQL's sums of big numbers are bigger still, and come as objects that are slow to add.
        sums = [func.sum(rollup.c[column]).cast(BigInteger) for column in ("many", *BUCKET_NAMES)]
        for row in _rows(connection, _of_counts(select(*columns, *sums), filters, counted).group_by(*columns)):
            *sort, many = row[: len(GROUPS) + 1]
            yield _Part(*sort, many=many, took=row[len(GROUPS) + 1 :])
    for edge in edges:
        yield from _from_rows(connection, filters, edge)


def _from_rows(connection: Connection, filters: Filters, edge: ColumnElement[bool] | None) -> Iterator[_Part]:
    columns = [activity.c[group] for group in GROUPS]
    bucket = bucket_column(activity.c.duration_ms)
    timed = func.count(activity.c.duration_ms)
    query = select(*columns, bucket, func.count(), timed).group_by(*columns, bucket)
    found: dict[tuple[Any, ...], list[int]] = {}
    for *values, at, many, known in _rows(connection, _of_rows(query, filters, connection.dialect.name, edge)):
        counts = found.setdefault(tuple(values), [0] * (1 + BUCKETS))
        counts[0] += many
        counts[1 + at] += known
    for values, (many, *took) in found.items():
        yield _Part(*map(key_part, values), many=many, took=took)


def _by_day(connection: Connection, filters: Filters) -> dict[str, int]:
    counted, edges = _spans(filters)
    often: Counter[int] = Counter()
    if counted is not None:
        query = select(_DAY_OF_COUNT, func.sum(rollup.c.many)).group_by(_DAY_OF_COUNT)
        often.update({int(day): int(many) for day, many in _rows(connection, _of_counts(query, filters, counted))})
    for edge in edges:
        query = select(_DAY_OF_ROW, func.count()).group_by(_DAY_OF_ROW)
        for day, many in _rows(connection, _of_rows(query, filters, connection.dialect.name, edge)):
            often[int(day)] += many
    newest = sorted(often, reverse=True)[:MOST_GROUPS]
    return {(_EPOCH + timedelta(day)).strftime("%Y-%m-%d"): often[day] for day in newest}


def _by_hour(connection: Connection, filters: Filters) -> dict[str, Any]:
    """The latest hours, up to that of the newest record or the end that is asked for, and the intents in each."""
    found = _intents_by_hour(connection, filters)
    hours = {
        f"{_EPOCH + timedelta(hours=hour):%Y-%m-%dT%H:00:00Z}": found[hour] for hour in sorted(found, reverse=True)
    }
    return {
        "by_hour": {hour: sum(often.values()) for hour, often in hours.items()},
        "by_hour_and_intent_type": {hour: _ranked(often) for hour, often in hours.items()},
    }


def _intents_by_hour(connection: Connection, filters: Filters) -> dict[int, Counter[str]]:
    newest = connection.execute(select(func.max(activity.c.n))).scalar()
    if newest is None:
        return {}
    end = at_of(newest) if filters.end_time is None else min(at_of(newest), micros(filters.end_time.timestamp()))
    since = _EPOCH + timedelta(hours=max(0, end // HOUR - MOST_HOURS + 1))
    if filters.end_time is not None and filters.end_time < since:
        return {}
    late = replace(filters, start_time=since if filters.start_time is None else max(since, filters.start_time))
    counted, edges = _spans(late, of_hours=True)
    often: defaultdict[int, Counter[str]] = defaultdict(Counter)
    if counted is not None:
        query = select(rollup.c.hour, rollup.c.intent_type, func.sum(rollup.c.many))
        query = query.group_by(rollup.c.hour, rollup.c.intent_type)
        for hour, intent, many in _rows(connection, _of_counts(query, late, counted)):
            often[int(hour)][intent or UNDECLARED] += int(many)
    for edge in edges:
        query = select(_HOUR_OF_ROW, activity.c.intent_type, func.count())
        query = query.group_by(_HOUR_OF_ROW, activity.c.intent_type)
        for hour, intent, many in _rows(connection, _of_rows(query, late, connection.dialect.name, edge)):
            often[int(hour)][key_part(intent) or UNDECLARED] += many
    return often


def _rows(connection: Connection, query: Any) -> list[Any]:
    return list(connection.execute(query))


def _of_rows(query: Any, filters: Filters, dialect: str, edge: ColumnElement[bool] | None) -> Any:
    query = query.where(*conditions(filters, dialect))
    if edge is not None:
        query = query.where(edge)
    source: Any = words.join(activity, activity.c.n == words.c.rowid) if filters.q else activity
    return query.select_from(source)


def _of_counts(query: Any, filters: Filters, counted: ColumnElement[bool]) -> Any:
    wanted = [rollup.c[group] == key_part(name(getattr(filters, group))) for group in GROUPS if getattr(filters, group)]
    if filters.exclude_type is not None:
        wanted.append(rollup.c.type != name(filters.exclude_type))
    return query.where(counted, *wanted)


def _spans(
    filters: Filters, *, of_hours: bool = False
) -> tuple[ColumnElement[bool] | None, list[ColumnElement[bool] | None]]:
    """The whole days and hours that are counted already, and the rows before and after those."""
    if any(getattr(filters, field) for field in _ROWS_ONLY):
        return None, [None]
    start = micros(filters.start_time.timestamp()) if filters.start_time else 0
    end = micros(filters.end_time.timestamp()) if filters.end_time else -(-LAST_MOMENT // HOUR // DAY) * DAY * HOUR
    first, last = -(-start // HOUR), end // HOUR
    if first >= last:
        return None, [None]
    edges: list[ColumnElement[bool] | None] = []
    if start % HOUR:
        edges.append(activity.c.n < first_of(first * HOUR))
    if end % HOUR:
        edges.append(activity.c.n >= first_of(last * HOUR))
    return _between(1, first, last) if of_hours else _counted(first, last), edges


def _counted(first: int, last: int) -> ColumnElement[bool]:
    """Whole days as days, and the hours before and after them."""
    begin, stop = -(-first // DAY) * DAY, last // DAY * DAY
    if begin >= stop:
        return _between(1, first, last)
    return or_(_between(DAY, begin, stop), _between(1, first, begin), _between(1, stop, last))


def _between(span: int, first: int, last: int) -> ColumnElement[bool]:
    return and_(rollup.c.span == span, rollup.c.hour >= first, rollup.c.hour < last)
