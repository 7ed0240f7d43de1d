"""A server is found in a registry, added after a yes, and called: on a terminal and by a program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import SERVERS, Running, clean_environment, gateway
from tests.support.registry import Registry, npm, registry, remote, row, send
from tests.support.terminal import on_terminal
from tests.support.wire import Wire, text
from tests.upstream.helpers import web_server

pytestmark = pytest.mark.proves("CAT-5")

WEATHER, HOSTED, OLD = "io.github.user/weather", "com.example/hosted", "com.example/old-weather"
KEY = {"name": "WEATHER_KEY", "description": "Key of the weather service", "isRequired": True, "isSecret": True}
UNIT = {
    "type": "named",
    "name": "--log",
    "value": "{log}",
    "variables": {"log": {"description": "A file for its calls"}},
}
ROWS = (
    row(WEATHER, description="Forecasts of the weather", title="Weather Forecasts",
        packages=[npm(environmentVariables=[KEY], packageArguments=[UNIT])]),
    row(OLD, description="Yesterday's weather", status="deprecated", says=f"Use {WEATHER}", packages=[npm()]),
    row("com.example/bundle", description="Weather in a bundle", packages=[
        {"registryType": "mcpb", "identifier": "https://github.com/a/b/releases/download/v1/x.mcpb",
         "fileSha256": "a" * 64, "transport": {"type": "stdio"}}]),
    row("com.example/gone", description="Gone", status="deleted", packages=[npm()]),
)  # fmt: skip


@dataclass
class Ran:
    status: int
    out: str
    err: str


@dataclass
class Site:
    running: Running
    registry: Registry

    def environment(self, **more: str) -> dict[str, str]:
        return clean_environment(MCPPROXY_DATA_DIR=str(self.running.data_dir), **more)

    def run(self, *args: str, **more: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "mcpproxy_py", *args], env=self.environment(**more), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=120, check=False,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    def typed(self, *args: str, answers: list[tuple[str, str]], **more: str) -> tuple[int, str]:
        return on_terminal([sys.executable, "-m", "mcpproxy_py", *args], self.environment(**more), answers)

    def entries(self) -> dict[str, Any]:
        return json.loads((self.running.data_dir / "mcp_config.json").read_text())["mcpServers"]

    def called(self, tool: str, **args: Any) -> str:
        wire = Wire(self.running.mcp)
        with wire.http:
            return text(wire.read(tool, args))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("registries")
    npx = home / "bin" / "npx"  # what it would fetch is here: nothing is downloaded
    npx.parent.mkdir()
    npx.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "-y @example/weather@1.2.3" ] || exit 3\nshift 2\n'
        f'exec {sys.executable} {SERVERS / "plain.py"} "$@"\n'
    )
    npx.chmod(0o700)
    path = f"{npx.parent}{os.pathsep}{os.environ['PATH']}"
    with registry(*ROWS) as listed, web_server("plain_http.py", "--http", "0") as hosted:
        listed.rows.append(row(HOSTED, description="Weather that runs elsewhere", remotes=[remote(f"{hosted}/mcp")]))
        config = {"catalog": {"registries": [listed.url]}, "mcpServers": {}}
        with gateway(home / "data", config, env={"PATH": path, "THE_KEY": "k-12345"}) as running:
            yield Site(running, listed)


def test_a_search_shows_what_is_shipped_and_what_the_registry_has_each_with_where_it_is_from(site: Site) -> None:
    found = json.loads(site.run("catalog", "search", "weather", "-o", "json").out)
    rows = {each["slug"]: each for each in found["servers"]}
    assert {WEATHER, HOSTED, OLD, "com.example/bundle"} <= set(rows)
    assert rows[WEATHER]["source"] == f"registry:{site.registry.url.removeprefix('http://')}"
    assert (rows[OLD]["lifecycle"], rows["com.example/bundle"]["refused"]) == (
        "deprecated", "it is a bundle (mcpb) to be downloaded and unpacked, which is not done here",
    )  # fmt: skip
    (heard,) = found["registries"]
    assert (heard["found"], heard["away"]) == (4, None)
    shipped = json.loads(site.run("catalog", "search", "github", "-o", "json").out)["servers"]
    assert shipped[0]["source"] == "shipped"
    seen = site.run("catalog", "search", "weather")
    assert "Add one with `mcpproxy catalog add" in seen.err
    assert "(deprecated) Yesterday's weather" in seen.out


@pytest.mark.parametrize("colours", [{}, {"NO_COLOR": "1"}])
def test_a_search_fits_a_terminal_and_has_no_colour_where_none_is_wanted(site: Site, colours: dict[str, str]) -> None:
    status, seen = site.typed("catalog", "search", "weather", answers=[], **colours)
    assert (status, WEATHER in seen) == (0, True)
    table = [line for line in seen.splitlines() if "com.example" in line or "io.github" in line]
    assert all(len(line) <= 100 for line in table)
    if colours:
        assert "\x1b[3" not in seen


def test_nothing_found_says_what_to_do_next(site: Site) -> None:
    none = site.run("catalog", "search", "no-such-thing-at-all")
    assert (none.status, none.out) == (0, "")
    assert "Nothing is about 'no-such-thing-at-all'." in none.err
    assert "mcpproxy upstream add NAME -- COMMAND" in none.err


def test_on_a_terminal_a_server_is_shown_asked_about_added_after_a_yes_and_called(site: Site, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    status, seen = site.typed("catalog", "add", WEATHER, answers=[
        ("Where is it?", ""), ("Choose", "e\n"), ("Name of the variable", "THE_KEY\n"),
        ("log (A file for its calls)", f"{log}\n"), ("as shown above? [y/N]", "y\n"),
    ])  # fmt: skip
    assert status == 0, seen
    assert "npx -y @example/weather@1.2.3 --log" in seen.replace("\n", " ")
    entry = site.entries()["weather"]
    assert entry["env"] == {"WEATHER_KEY": "${env:THE_KEY}"}
    assert entry["args"] == ["-y", "@example/weather@1.2.3", "--log", str(log)]
    assert "hello" in site.called("weather:echo", text="hello")
    assert "hello" in log.read_text()
    assert "k-12345" in site.called("weather:environment")
    assert site.run("upstream", "remove", "weather", "--yes").status == 0


def test_no_is_no(site: Site) -> None:
    status, seen = site.typed("catalog", "add", HOSTED, answers=[("as shown above? [y/N]", "n\n")])
    assert (status, "hosted" in site.entries()) == (1, False), seen


def test_a_program_answers_with_set_and_yes_and_a_server_elsewhere_is_called(site: Site) -> None:
    unsaid = site.run("catalog", "add", WEATHER, "--yes")
    assert (
        unsaid.status,
        f"mcpproxy catalog add {WEATHER} --set 'WEATHER_KEY=${{env:WEATHER_KEY}}'" in unsaid.err,
    ) == (2, True)
    silent = site.run("catalog", "add", HOSTED)
    assert (silent.status, "add --yes" in silent.err) == (2, True)
    strange = site.run("catalog", "add", HOSTED, "--set", "x=y", "--yes")
    assert (strange.status, "there is no question x" in strange.err) == (2, True)
    missing = site.run("catalog", "add", WEATHER, "--set", "WEATHER_KEY=${env:NOT_SET_ANYWHERE}", "--yes")
    assert (missing.status, "weather" in site.entries()) == (2, False), "the same checks as of upstream add"
    done = site.run("catalog", "add", HOSTED, "--name", "far", "--yes", "-o", "json")
    assert done.status == 0, done.err
    assert (json.loads(done.out) != {}, site.entries()["far"]["url"].endswith("/mcp")) == (True, True)
    assert "hello" in site.called("far:echo", text="hello")
    again = site.run("catalog", "add", HOSTED, "--name", "far", "--yes")
    assert again.status != 0, "nothing of the user's is replaced unless they say so"
    assert site.run("catalog", "add", HOSTED, "--name", "far", "--replace", "--yes").status == 0
    assert site.run("upstream", "remove", "far", "--yes").status == 0


def test_a_secret_that_is_typed_is_not_on_the_screen_again(site: Site) -> None:
    done = site.run("catalog", "add", WEATHER, "--set", "WEATHER_KEY=hunter2-hunter2", "--yes", "--no-wait")
    assert (done.status, "hunter2" in done.out + done.err) == (0, False)
    assert site.entries()["weather"]["env"] == {"WEATHER_KEY": "hunter2-hunter2"}
    assert site.run("upstream", "remove", "weather", "--yes").status == 0


def test_what_is_shipped_wins_and_a_short_name_chooses_nobody(site: Site) -> None:
    site.registry.rows.append(row("io.github.evil/time", title="Time", packages=[npm("@evil/time")]))
    try:
        found = json.loads(site.run("catalog", "search", "time", "-o", "json").out)["servers"]
        evil = next(each for each in found if each["slug"] == "io.github.evil/time")
        assert "this is another one" in evil["warnings"][0]
        dry = site.run("catalog", "add", "time", "--dry-run", "--yes")
        assert ("of the shipped catalog" in dry.err, "evil" in dry.out + dry.err) == (True, False)
        short = site.run("catalog", "add", "weather", "--yes")
        assert (short.status, WEATHER in short.err) == (1, True)
    finally:
        site.registry.rows.pop()


@pytest.mark.parametrize(("slug", "says"), [
    ("com.example/gone", "has deleted"), ("com.example/bundle", "bundle"),
    ("com.example/nothing", "Neither the catalog"),
    ("com.example/old-weather/x", "Neither the catalog"), ("$(id)/x", "Neither the catalog"),
])  # fmt: skip
def test_what_cannot_be_added_says_why(site: Site, slug: str, says: str) -> None:
    before = site.entries()
    done = site.run("catalog", "add", slug, "--yes")
    assert (done.status, says in done.err) == (1, True), done.err
    assert site.entries() == before


def test_slugs_are_completed_from_what_was_read_and_nobody_is_asked(site: Site) -> None:
    site.run("catalog", "search", "weather")
    before = len(site.registry.asked)
    for begun, ends in (("io.gi", WEATHER), ("fet", "fetch")):
        done = site.run(_MCPPROXY_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=f"mcpproxy catalog add {begun}",
                        _MCPPROXY_COMPLETE_SECONDS="30")  # fmt: skip
        assert ends in done.out, done
    assert len(site.registry.asked) == before


def test_a_registry_that_is_away_is_said_so_with_the_age_of_what_is_shown(site: Site) -> None:
    site.run("catalog", "search", "weather")
    site.registry.answers = lambda handler, path, query: send(handler, b"down for maintenance", 503) or True
    try:
        seen = site.run("catalog", "search", "weather")
        assert (seen.status, WEATHER in seen.out) == (0, True)
        assert "was not of use: it answered with status 503; what stands here was read" in seen.err
        added = site.run("catalog", "add", HOSTED, "--name", "far", "--yes")
        assert (added.status, "This is what it said within the last day" in added.err) == (0, True)
        assert site.run("upstream", "remove", "far", "--yes").status == 0
    finally:
        site.registry.answers = lambda handler, path, query: False


def test_without_a_registry_the_search_says_how_to_name_one(tmp_path: Path) -> None:
    env = clean_environment(MCPPROXY_DATA_DIR=str(tmp_path))
    command = [sys.executable, "-m", "mcpproxy_py", "catalog", "search", "no-such-thing"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert '"catalog": {"registries": ["https://registry.modelcontextprotocol.io"]}' in done.stderr
    wrong = {"catalog": {"registries": ["http://registry.example"]}}
    (tmp_path / "mcp_config.json").write_text(json.dumps(wrong))
    done = subprocess.run([*command[:-1], "github"], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "No registry is asked" in done.stderr, "github" in done.stdout) == (0, True, True)
