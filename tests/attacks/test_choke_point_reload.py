"""One edit that opens a door and forbids what is behind it: there is no moment in which both are not in force."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.attacks.target import ERAS, Target, fresh, heard, over_rest, params, path_of
from tests.support.gateway import Running, gateway, until
from tests.support.wire import MODERN, RpcError, Wire

pytestmark = [pytest.mark.proves("GATE-14")]
TOOLS = 1500
CALLERS = 4
SERVER = "many"
FORBIDDEN: Mapping[str, Mapping[str, Any]] = {
    "deny": {"deny_tools": ["wipe", "wipe_7"]},
    "allow": {"allow_tools": ["look"]},
    "confirm": {"confirm": "destructive", "confirm_by": "client"},
    "disable": {"enabled": False},
}


@ERAS
@pytest.mark.parametrize("door", ["direct", "passthrough"])
@pytest.mark.parametrize("how", list(FORBIDDEN))
def test_a_door_that_opens_finds_everything_forbidden_that_the_same_edit_forbids(
    tmp_path: Path, door: str, era: str, how: str
) -> None:
    entry = heard(tmp_path, SERVER, "--modern", "--tools", str(TOOLS))
    config = {"surfaces": ["gate"], "mcpServers": {SERVER: entry}}
    with gateway(tmp_path / "data", config) as running, ThreadPoolExecutor(CALLERS) as pool:
        target, mark, enough = Target(running, tmp_path), fresh(), threading.Event()
        callers = [pool.submit(hammer, running, door, era, mark, enough) for _ in range(CALLERS)]
        try:
            edit(running, {"surfaces": ["gate", door], "mcpServers": {SERVER: {**entry, **FORBIDDEN[how]}}})
            until(lambda: in_force(running), what="what is forbidden")
            until(lambda: is_open(running, door) or (how, door) == ("disable", "passthrough"), what="the door")
        finally:
            enough.set()
        counts = [caller.result(60) for caller in callers]
        assert all(counts), "each of them asked until the end"
    assert not target.log(SERVER).calls(mark)


@ERAS
def test_an_edit_that_loosens_one_server_and_forbids_another_leaves_no_gap_either(tmp_path: Path, era: str) -> None:
    """The gate is open all the time: strictness goes, and in the same edit what it protected is denied."""
    entry = heard(tmp_path, SERVER, "--modern", "--tools", str(TOOLS))
    config = {"mcpServers": {SERVER: entry}}
    with gateway(tmp_path / "data", config) as running, ThreadPoolExecutor(CALLERS) as pool:
        target, mark, enough = Target(running, tmp_path), fresh(), threading.Event()
        callers = [pool.submit(hammer_as_read, running, era, mark, enough) for _ in range(CALLERS)]
        try:
            edit(
                running,
                {
                    "intent_declaration": {"strict_server_validation": False},
                    "mcpServers": {SERVER: {**entry, **FORBIDDEN["deny"]}},
                },
            )
            until(lambda: in_force(running), what="what is forbidden")
            until(lambda: running.get("/status")["mode"] == "permissive", what="the permissive mode")
        finally:
            enough.set()
        counts = [caller.result(60) for caller in callers]
        assert all(counts)
    assert not target.log(SERVER).calls(mark)


def edit(running: Running, config: Mapping[str, Any]) -> None:
    """As an editor does: a new file in the place of the old one."""
    new = running.data_dir / "fresh.json"
    new.write_text(json.dumps(config))
    os.replace(new, running.data_dir / "mcp_config.json")


def in_force(running: Running) -> bool:
    """Whether a call of somebody else's is refused, where no person can be asked."""
    return over_rest(running, SERVER, "wipe", fresh("other")).status_code != 200


def is_open(running: Running, door: str) -> bool:
    return Wire(running.url + path_of(door, SERVER)).post(b"{}").status_code != 404


def hammer(running: Running, door: str, era: str, mark: str, enough: threading.Event) -> int:
    """Destructive calls as fast as they go, from before there is a door until after the edit. How many."""
    asked = params(door, SERVER, "wipe", mark)
    return repeat(lambda wire: wire.request("tools/call", asked), running.url + path_of(door, SERVER), era, enough)


def hammer_as_read(running: Running, era: str, mark: str, enough: threading.Event) -> int:
    """A destructive tool, called as if it only read."""
    return repeat(lambda wire: wire.read(f"{SERVER}:wipe", {"mark": mark}), running.mcp, era, enough)


def repeat(call: Callable[[Wire], object], url: str, era: str, enough: threading.Event) -> int:
    wire, done, last = None, 0, False
    while not last:
        last = enough.is_set()  # so that one more is sent after it
        try:
            wire = wire or Wire(url, era)
            call(wire)
        except RpcError:
            pass  # it is refused, which is what this is about
        except (AssertionError, KeyError, ValueError, httpx.TransportError):
            wire = wire if era == MODERN else None  # there is no door yet; no session either
        done += 1
    return done
