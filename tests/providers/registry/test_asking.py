"""A registry is asked within bounds, and what is kept stands in for one that is away, lies, hangs or is huge."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from mcpproxy_py.core.catalog.model import ServerEntry
from mcpproxy_py.providers.registry import asking, fetch, kept
from mcpproxy_py.providers.registry.fetch import NotListed
from mcpproxy_py.providers.registry.places import Heard, RegistryAway, RegistryRefused
from mcpproxy_py.settings.access.registries import RegistrySettings
from tests.support.registry import Registry, npm, registry, row, send

pytestmark = pytest.mark.proves("CAT-5")

NOW = 1_800_000_000.0
NAME = "io.github.user/weather"


@pytest.fixture
def there() -> Iterator[Registry]:
    with registry(row(NAME, description="Forecasts of the weather", packages=[npm()]), row("com.example/mail")) as made:
        yield made


def place(there: Registry) -> RegistrySettings:
    return RegistrySettings(url=there.url)


def searched(there: Registry, words: str, tmp_path: Path, now: float = NOW) -> Heard:
    return asking.search(place(there), words, tmp_path, now, {})


def looked_up(there: Registry, tmp_path: Path, name: str = NAME, now: float = NOW) -> tuple[ServerEntry, str | None]:
    return asking.look_up(place(there), name, None, tmp_path, now, {})


def slugs(heard: Heard) -> list[str]:
    return [each.slug for each in heard.entries]


def test_it_is_asked_as_the_official_api_wants_and_told_nothing_else(there: Registry, tmp_path: Path) -> None:
    found = searched(there, "weather forecasts", tmp_path)
    assert (slugs(found), found.away, found.read_at) == ([NAME], None, None)
    ((path, query, headers),) = there.asked
    assert (path, query) == ("/v0.1/servers", {"search": "forecasts", "limit": "100", "version": "latest"})
    assert {name.lower() for name in headers} == {"host", "connection", "user-agent", "accept", "accept-encoding"}
    entry, away = looked_up(there, tmp_path)
    assert (entry.slug, entry.source, away) == (NAME, f"registry:{place(there).label}", None)
    assert there.asked[-1][0] == "/v0.1/servers/io.github.user%2Fweather/versions/latest"


def test_pages_are_followed_by_their_cursor_and_only_so_many(there: Registry, tmp_path: Path) -> None:
    there.rows += [row(f"com.example/weather-{number}", packages=[npm()]) for number in range(70)]
    found = searched(there, "weather", tmp_path)
    assert (len(found.entries), found.more) == (71, False)
    there.page = 2
    found = searched(there, "weather", tmp_path)
    assert (len(found.entries), found.more) == (2 * asking.MOST_PAGES, True)


def test_a_registry_that_is_away_leaves_what_is_kept_with_its_age(there: Registry, tmp_path: Path) -> None:
    searched(there, "weather", tmp_path)
    there.answers = lambda handler, path, query: send(handler, {}, 503) or True
    later = searched(there, "weather", tmp_path, NOW + 3600)
    assert (slugs(later), later.read_at, later.away) == ([NAME], NOW, "it answered with status 503")
    assert slugs(asking.known(place(there), "weather", tmp_path, {})) == [NAME]
    entry, away = looked_up(there, tmp_path, now=NOW + 3600)
    assert (entry.slug, away) == (NAME, "it answered with status 503")
    with pytest.raises(RegistryAway, match="more than a day ago"):
        looked_up(there, tmp_path, now=NOW + 90_000)
    with pytest.raises(RegistryAway, match="more than a day ago"):  # a clock that went back says nothing
        looked_up(there, tmp_path, now=NOW - 90_000)


def test_nobody_there_is_told_and_no_crash(tmp_path: Path) -> None:
    with registry() as gone:
        pass
    found = searched(gone, "weather", tmp_path)
    assert (found.entries, found.away) == ((), "it cannot be reached (ConnectError)")


def test_what_a_registry_has_no_more_is_forgotten(there: Registry, tmp_path: Path) -> None:
    searched(there, "weather", tmp_path)
    there.rows.clear()
    with pytest.raises(NotListed):
        looked_up(there, tmp_path)
    assert asking.known(place(there), "weather", tmp_path, {}).entries == ()


def test_another_server_than_was_asked_for_is_a_lie(there: Registry, tmp_path: Path) -> None:
    there.answers = lambda handler, path, query: send(handler, row("io.github.evil/weather", packages=[npm()])) or True
    with pytest.raises(RegistryRefused, match=r"answered with 'io\.github\.evil/weather'"):
        looked_up(there, tmp_path)
    with pytest.raises(RegistryRefused, match="another"):
        there.answers = lambda handler, path, query: send(handler, row(NAME, packages=[npm()])) or True
        asking.look_up(place(there), NAME, "9.9.9", tmp_path, NOW, {})
    assert kept.kept(tmp_path, place(there)) == []


def redirect(handler: BaseHTTPRequestHandler, to: str) -> bool:
    send(handler, b"", 302, Location=to)
    return True


def drip(handler: BaseHTTPRequestHandler) -> bool:
    """A byte now and then, so that each read is soon over and the answer never."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            handler.wfile.write(b" ")
            handler.wfile.flush()
        except OSError:
            break
        threading.Event().wait(0.05)
    return True


def endless(handler: BaseHTTPRequestHandler, query: dict[str, str]) -> bool:
    """Another cursor each time, and nothing else new."""
    send(handler, {"servers": [], "metadata": {"nextCursor": str(int(query.get("cursor", "0")) + 1)}})
    return True


DEEP = b"[" * 200_000 + b"]" * 200_000
WRONG: dict[str, tuple[Any, str]] = {
    "a page for people": (lambda h, q: send(h, b"<html>hello</html>", kind="text/html"), "no JSON"),
    "HTML that is called JSON": (lambda h, q: send(h, b"<html>hello</html>"), "no JSON"),
    "half of an answer": (lambda h, q: send(h, b'{"servers": ['), "no JSON"),
    "not text": (lambda h, q: send(h, b"\xff\xfe\x00"), "no JSON"),
    "not a number": (lambda h, q: send(h, b'{"servers": [{"x": NaN}]}'), "no JSON"),
    "very deep": (lambda h, q: send(h, DEEP), "no JSON"),
    "another document": (lambda h, q: send(h, {"tools": []}), "no list of servers"),
    "a text": (lambda h, q: send(h, "servers"), "no list of servers"),
    "servers that are text": (lambda h, q: send(h, {"servers": "all"}), "no list of servers"),
    "three megabytes": (lambda h, q: send(h, b" " * 3_000_000), "larger than 2048 KiB"),
    "a compressed answer": (lambda h, q: send(h, b"x", Content_Encoding="gzip"), "compressed"),
    "another origin": (lambda h, q: redirect(h, "http://127.0.0.2:1/v0.1/servers"), "redirects to another place"),
    "another scheme": (lambda h, q: redirect(h, "file:///etc/passwd"), "redirects to another place"),
    "nowhere": (lambda h, q: redirect(h, ""), "redirects to another place"),
    "a circle": (lambda h, q: redirect(h, "/v0.1/servers"), "redirects more than"),
    "another API": (lambda h, q: send(h, {}, 404), "no API v0.1"),
    "a login": (lambda h, q: send(h, {}, 401), "status 401"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_answer_that_is_none_is_told_and_what_is_kept_is_shown(what: str, there: Registry, tmp_path: Path) -> None:
    searched(there, "weather", tmp_path)
    answer, says = WRONG[what]
    there.answers = lambda handler, path, query: (answer(handler, query), True)[1]
    found = searched(there, "weather", tmp_path, NOW + 60)
    assert says in (found.away or "")
    assert (slugs(found), found.read_at) == ([NAME], NOW)


def test_a_redirect_within_the_registry_is_followed(there: Registry, tmp_path: Path) -> None:
    there.answers = lambda handler, path, query: (
        "moved" not in query and redirect(handler, f"/v0.1/servers?search={query['search']}&moved=1")
    )
    assert slugs(searched(there, "weather", tmp_path)) == [NAME]


@pytest.mark.parametrize("hangs", ["says nothing", "says a byte now and then"])
def test_a_registry_that_hangs_is_waited_for_only_so_long(
    hangs: str, there: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "SECONDS", 0.5)
    over = threading.Event()
    there.answers = lambda handler, path, query: (
        drip(handler) if hangs != "says nothing" else bool(over.wait(20)) or True
    )
    found = searched(there, "weather", tmp_path)
    over.set()
    assert "did not answer" in (found.away or "")
    assert fetch.SECONDS <= 10


def test_endless_cursors_come_to_an_end(there: Registry, tmp_path: Path) -> None:
    there.answers = lambda handler, path, query: endless(handler, query)
    found = searched(there, "weather", tmp_path)
    assert (found.more, len(there.asked)) == (True, asking.MOST_PAGES)
    there.asked.clear()
    there.answers = lambda handler, path, query: send(handler, {"servers": [], "metadata": {"nextCursor": "x"}}) or True
    assert searched(there, "weather", tmp_path).more
    assert len(there.asked) == 2, "the same cursor again"


def test_rows_that_are_no_entries_are_counted_and_the_rest_is_shown(there: Registry, tmp_path: Path) -> None:
    rows = [None, 1, {"server": {}}, row("weather"), row("io.github.usеr/weather"), row(NAME, packages=[npm()])]
    there.answers = lambda handler, path, query: send(handler, {"servers": rows}) or True
    found = searched(there, "weather", tmp_path)
    assert (slugs(found), found.left_out >= 4) == ([NAME], True)


def test_unasked_for_entries_are_not_shown(there: Registry, tmp_path: Path) -> None:
    there.answers = lambda handler, path, query: send(handler, {"servers": [row("com.example/casino")]}) or True
    assert searched(there, "weather", tmp_path).entries == ()


def test_words_that_look_like_a_secret_go_nowhere(there: Registry, tmp_path: Path) -> None:
    found = searched(there, "ghp_" + "a1B2c3D4e5" * 4, tmp_path)
    assert "look like a secret" in (found.away or "")
    assert there.asked == []


def test_what_is_kept_is_bounded_private_and_checked_when_it_is_read(there: Registry, tmp_path: Path) -> None:
    long = {"name": "A", "description": "x" * 9000}
    big = [row(f"com.example/weather-{n}", packages=[npm(environmentVariables=[long])]) for n in range(600)]
    kept.keep(tmp_path, place(there), [{"server": each["server"], "status": "active"} for each in big], NOW)
    path = kept.path_of(tmp_path, place(there))
    assert path.stat().st_size <= kept.MOST_FILE + 1000
    assert path.stat().st_mode & 0o077 == 0
    assert len(kept.kept(tmp_path, place(there))) < 600
    for text in ("", "[]", "{", '{"rows": 1}', '{"rows": [1, {"server": {}, "status": "x", "read_at": "soon"}]}'):
        path.write_text(text)
        assert kept.kept(tmp_path, place(there)) == []
    bad = {"server": {"name": "../../x"}, "status": "active", "read_at": NOW}
    path.write_text(json.dumps({"rows": [bad]}))
    assert asking.known(place(there), "x", tmp_path, {}).entries == ()


def snapshot(tmp_path: Path, *rows: dict[str, Any]) -> tuple[Path, str]:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"servers": list(rows)}))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_is_a_registry_and_a_digest_holds_it(tmp_path: Path) -> None:
    path, digest = snapshot(tmp_path, row(NAME, packages=[npm()]))
    held = RegistrySettings(file=str(path), sha256=digest)
    assert slugs(asking.search(held, "weather", tmp_path, NOW, {})) == [NAME]
    assert asking.look_up(held, NAME, None, tmp_path, NOW, {})[0].slug == NAME
    snapshot(tmp_path, row(NAME, packages=[npm("@evil/weather")]))
    changed = asking.search(held, "weather", tmp_path, NOW, {})
    assert (changed.entries, "another file than was configured" in (changed.away or "")) == ((), True)
    with pytest.raises(RegistryRefused, match="another file"):
        asking.look_up(held, NAME, None, tmp_path, NOW, {})
    path.unlink()
    assert "cannot be read" in (asking.search(held, "weather", tmp_path, NOW, {}).away or "")


def test_a_file_at_an_address_is_fetched_once_and_only_with_its_digest(there: Registry, tmp_path: Path) -> None:
    body = json.dumps({"servers": [row(NAME, packages=[npm()])]}).encode()
    there.answers = lambda handler, path, query: send(handler, body, kind="application/octet-stream") or True
    held = RegistrySettings(url=f"{there.url}/all.json", sha256=hashlib.sha256(body).hexdigest())
    assert "has not been read yet" in (asking.known(held, "weather", tmp_path, {}).away or "")
    assert there.asked == []
    assert slugs(asking.search(held, "weather", tmp_path, NOW, {})) == [NAME]
    assert slugs(asking.search(held, "weather", tmp_path, NOW, {})) == [NAME]
    assert [path for path, _, _ in there.asked] == ["/all.json"]
    other = RegistrySettings(url=held.url, sha256="0" * 64)
    found = asking.search(other, "weather", tmp_path, NOW, {})
    assert (found.entries, "another file" in (found.away or "")) == ((), True)
