"""A server chooses the names of its tools. Whatever it calls them, what the operator denied, classed or left out of the
allowed is not called, at any door and in either era (GATE-16)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import Any

import pytest

from mcpproxy_py.core.values import direct_name
from tests.attacks.target import ALL_SURFACES, ERAS, Outcome, Target, ask, eventually, fresh, heard
from tests.support.gateway import gateway
from tests.support.wire import HANDSHAKE, MODERN, Wire

pytestmark = [pytest.mark.anyio, pytest.mark.proves("GATE-16")]

KINDS = ["modern", "handshake"]
DOORS = ["gate", "direct", "passthrough"]
WHICH = pytest.mark.parametrize("kind", KINDS)
SAME = {
    "a space behind": "purge ",
    "a space before": " purge",
    "another case": "PURGE",
    "full width": "ｐｕｒｇｅ",
    "mathematical": "𝐩𝘂𝓻𝕘𝖊",
    "circled": "ⓟⓤⓡⓖⓔ",
    "a variation selector": "purge\ufe0f",
    "a grapheme joiner": "pur\u034fge",
    "a Hangul filler": "purge\u115f",
    "a Braille blank": "purge\u2800",
    "two spaces and a case": "  Purge ",
}
ALIKE = {
    "Cyrillic": "рurge",
    "Cyrillic at the end": "purgе",
    "Greek": "pυrge",
    "all that there is": "ρυгgе",
    "a small capital": "ᴘurge",
    "IPA": "purɡe",
    "Cherokee": "ᏢURᏀE",
    "a stroke over it": "pu\u0336rge",
    "an accent": "purgé",
    "regional indicators": "🇵🇺🇷🇬🇪",
    "negative squares": "🅿🆄🆁🅶🅴",
    "a letter of another alphabet": "puгge",
}
HIDDEN = {
    "zero width space": "purge\u200b",
    "zero width joiner": "pur\u200dge",
    "soft hyphen": "pur\u00adge",
    "bidi": "\u202epurge",
    "isolate": "\u2066purge\u2069",
    "tag": "purge\U000e0041",
    "no-break space": "purge\xa0",
    "byte order mark": "\ufeffpurge",
    "line feed": "purge\n",
    "escape": "\x1b[8mpurge",
    "NUL": "pur\0ge",
    "nothing that shows": "\u2800\u115f",
    "a megabyte": "purge" * 200_000,
    "257 characters": "p" * 257,
}
RULES: dict[str, dict[str, Any]] = {
    "denying": {"deny_tools": ["purge", "delete_*", "roll_back"]},
    "classing": {"tools": {"purge": "destructive", "get_*": "read", "*_secret": "destructive", "get_all": "write"}},
    "allowing": {"allow_tools": ["fetch", "look", "renew", "read_*"]},
    "free": {},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("names")
    servers: dict[str, dict[str, Any]] = {}
    for kind, flags in (("modern", ["--modern"]), ("handshake", [])):
        for rule, config in RULES.items():
            name = f"{rule}-{kind}"
            (folder / f"{name}.json").write_text("{}")
            servers[name] = heard(folder, name, "--listing", str(folder / f"{name}.json"), *flags, **config)
    with gateway(folder / "data", {"surfaces": ALL_SURFACES, "mcpServers": servers}) as running:
        yield Target(running, folder, servers)


async def renamed(target: Target, server: str, names: dict[str, str]) -> None:
    """The server lists these from now on, says so, and the gateway has heard it. The last one tells that it has."""
    last = fresh("last")
    file = target.folder / f"{server}.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps({**names, last: "look"}))
    os.replace(new, file)
    Wire(target.running.mcp, MODERN).read(f"{server}:renew", {"mark": fresh()})
    await eventually(lambda: last in listed(target, server), f"{last} in the listing")
    # These are about names among those that a person approved; a new name that looks like a pinned one would wait.
    target.running.approve_pins(server)


def listed(target: Target, server: str) -> dict[str, dict[str, Any]]:
    rows = target.running.get("/tools", server=server, limit=500)["tools"]
    return {row["name"].partition(":")[2]: row for row in rows}


def row_of(target: Target, server: str) -> dict[str, Any]:
    return next(row for row in target.running.get("/servers")["servers"] if row["name"] == server)


def asked(door: str, server: str, tool: str, mark: str, operation: str) -> dict[str, Any]:
    if door == "gate":
        inner = {"name": f"{server}:{tool}", "args": {"mark": mark}, "intent": {"operation_type": operation}}
        return {"name": f"call_tool_{operation}", "arguments": inner}
    return {"name": direct_name(server, tool) if door == "direct" else tool, "arguments": {"mark": mark}}


async def tried(target: Target, server: str, tool: str, mark: str, operation: str = "destructive") -> list[Outcome]:
    """A call of this tool at every door in both eras, and over REST."""
    outcomes: list[Outcome] = []
    for door in DOORS:
        for era in (MODERN, HANDSHAKE):
            async with target.client(door, server, era) as peer:
                outcomes.append(await ask(peer, asked(door, server, tool, mark, operation)))
    body = {"name": f"{server}:{tool}", "args": {"mark": mark}, "intent": {"operation_type": operation}}
    answer = target.running.post("/call", {**body, "variant": operation})
    said = answer.json()
    wrong = said.get("error") or {}
    outcomes.append(Outcome(answer.status_code == 200, wrong.get("code", ""), wrong.get("message", ""), said))
    explained = target.running.post("/explain", {**body, "variant": operation}).json()
    refusal = explained["refusal"] or {}
    outcomes.append(Outcome(refusal == {}, refusal.get("code", ""), refusal.get("message", ""), explained))
    return outcomes


async def nothing_gets_through(target: Target, server: str, tool: str, operation: str = "destructive") -> list[Outcome]:
    mark = fresh()
    outcomes = await tried(target, server, tool, mark, operation)
    assert [each.ok for each in outcomes] == [False] * 8
    await target.marker("gate", server, MODERN)
    assert not target.log(server).has(mark)
    return outcomes


async def everything_gets_through(target: Target, server: str, tool: str, operation: str = "destructive") -> None:
    mark = fresh()
    outcomes = await tried(target, server, tool, mark, operation)
    assert [each.ok for each in outcomes] == [True] * 8, outcomes
    assert len(target.log(server).calls(mark)) == 7


def alternating(names: Iterable[str]) -> list[tuple[str, str]]:
    """What a name does is the same in both kinds of server; that of every other is tried with each."""
    return list(zip(names, cycle(KINDS), strict=False))


def command(target: Target, *args: str) -> str:
    line = [sys.executable, "-m", "mcpproxy_py", *args, "--data-dir", str(target.running.data_dir)]
    return subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60).stdout


@pytest.mark.parametrize(("how", "kind"), alternating([*SAME, *ALIKE]))
async def test_no_other_spelling_of_a_denied_name_is_called(target: Target, kind: str, how: str) -> None:
    server, name = f"denying-{kind}", {**SAME, **ALIKE}[how]
    await renamed(target, server, {name: "look"})
    outcomes = await nothing_gets_through(target, server, name, "read")
    assert {each.code for each in outcomes} == {"TOOL_UNAVAILABLE"}
    words = "the operator's lists exclude it" if how in SAME else "its name "
    assert all(words in each.words for each in outcomes)
    assert (name in row_of(target, server)["left_out"]) == (how in ALIKE), "what only looks like it is reported"


@pytest.mark.parametrize(("how", "kind"), alternating(HIDDEN))
async def test_a_name_that_cannot_be_shown_is_left_out_and_reported(target: Target, kind: str, how: str) -> None:
    server, name = f"free-{kind}", HIDDEN[how]
    await renamed(target, server, {name: "look"})
    assert name not in listed(target, server)
    told = row_of(target, server)["left_out"]
    assert len(told) == 1 and all(why.startswith(("its name ", "its definition is larger")) for why in told.values())
    assert all(len(each) <= 700 and each.isprintable() for each in told)
    if len(name) < 1000 and "\n" not in name:
        await nothing_gets_through(target, server, name, "read")


@WHICH
@pytest.mark.parametrize("name", ["delete_x", "DELETE_all", "de1ete_x", "dеlete_x", "deIete_x", "delete_ ", "ｄelete_x",
                                  "rolI_back", "ro11_back", "roll_bаck", "Roll_Back "])  # fmt: skip
async def test_globs_and_digits_do_not_get_past_a_list(target: Target, kind: str, name: str) -> None:
    server = f"denying-{kind}"
    await renamed(target, server, {name: "wipe"})
    outcomes = await nothing_gets_through(target, server, name)
    assert {each.code for each in outcomes} == {"TOOL_UNAVAILABLE"}


@WHICH
async def test_a_tool_that_renames_itself_step_by_step_is_never_called(target: Target, kind: str) -> None:
    server = f"denying-{kind}"
    for name in ("purge", "purge ", "рurge", "Purge", "purge\ufe0f", "purgе"):
        await renamed(target, server, {name: "wipe"})
        await nothing_gets_through(target, server, name)


@pytest.mark.parametrize(("how", "kind"), alternating(ALIKE))
async def test_what_looks_like_a_classed_tool_is_not_called(target: Target, kind: str, how: str) -> None:
    """It says of itself that it only reads."""
    server, name = f"classing-{kind}", ALIKE[how]
    await renamed(target, server, {name: "look"})
    outcomes = await nothing_gets_through(target, server, name, "read")
    assert {each.code for each in outcomes} == {"TOOL_UNAVAILABLE"}
    assert name in row_of(target, server)["left_out"]


@pytest.mark.parametrize(("how", "kind"), alternating(SAME))
async def test_another_spelling_has_the_class_of_its_override(target: Target, kind: str, how: str) -> None:
    server, name = f"classing-{kind}", SAME[how]
    await renamed(target, server, {name: "look"})
    row = listed(target, server)[name]
    assert (row["class"], row["class_origin"], row["callable"]) == ("destructive", "override", True)
    mark = fresh()
    async with target.client("gate", server, MODERN) as peer:
        refused = await ask(peer, asked("gate", server, name, mark, "read"))
    assert refused.code == "SERVER_MISMATCH"
    assert not target.log(server).has(mark)
    with target.frozen():
        await nothing_gets_through(target, server, name)


@WHICH
async def test_of_several_overrides_the_name_goes_first_and_then_the_highest(target: Target, kind: str) -> None:
    server = f"classing-{kind}"
    names = ["get_one", "get_secret", "GET_SECRET_", "get_all", "Get_All_", "x"]
    await renamed(target, server, dict.fromkeys(names, "wipe"))
    classes = {name: row["class"] for name, row in listed(target, server).items()}
    assert (classes["get_one"], classes["get_secret"], classes["get_all"]) == ("read", "destructive", "write")
    assert (classes["GET_SECRET_"], classes["Get_All_"], classes["x"]) == ("read", "read", "destructive")
    await everything_gets_through(target, server, "get_one", "read")
    await everything_gets_through(target, server, "get_secret")


@WHICH
@pytest.mark.parametrize("name", ["fеtch", "fetсh", "ｆetсh", "fetch2", "fetch_", "rеad_x", "purge", "ƒetch"])
async def test_what_looks_like_an_allowed_tool_is_not_allowed(target: Target, kind: str, name: str) -> None:
    server = f"allowing-{kind}"
    await renamed(target, server, {name: "look"})
    outcomes = await nothing_gets_through(target, server, name, "read")
    assert {each.code for each in outcomes} == {"TOOL_UNAVAILABLE"}


@WHICH
async def test_an_allowed_tool_is_allowed_in_one_spelling_only(target: Target, kind: str) -> None:
    server = f"allowing-{kind}"
    await renamed(target, server, {"Fetch": "look", "READ_it": "look"})
    await everything_gets_through(target, server, "Fetch", "read")
    await everything_gets_through(target, server, "READ_it", "read")
    await renamed(target, server, {"fetch": "look", "Fetch": "wipe", "FETCH": "wipe"})
    await everything_gets_through(target, server, "fetch", "read")
    for name in ("Fetch", "FETCH"):
        outcomes = await nothing_gets_through(target, server, name)
        assert all("in another spelling" in each.words for each in outcomes)
    assert set(row_of(target, server)["left_out"]) == {"Fetch", "FETCH"}
    await renamed(target, server, {"fetch": "look", "fetch ": "wipe"})
    for name in ("fetch", "fetch "):
        await nothing_gets_through(target, server, name)


@WHICH
@pytest.mark.parametrize("twins", [("report_all", "rеport_all"), ("copy", "сору"), ("save", "save "), ("a b", "a  b"),
                                   ("save", "save\ufe0f"), ("Save", "Ѕave"), ("x1", "x１")])  # fmt: skip
async def test_of_two_names_that_look_the_same_neither_is_called(
    target: Target, kind: str, twins: tuple[str, str]
) -> None:
    server = f"free-{kind}"
    await renamed(target, server, {twins[0]: "look", twins[1]: "wipe"})
    for name in twins:
        outcomes = await nothing_gets_through(target, server, name)
        assert all("looks the same" in each.words for each in outcomes)
    assert set(twins) <= row_of(target, server)["left_out"].keys()


@WHICH
async def test_honest_names_are_left_alone(target: Target, kind: str) -> None:
    server = f"free-{kind}"
    honest = [
        "Get",
        "get",
        "tool_1",
        "tool_l",
        "отчёт",
        "получить_json",
        "größe",
        "レポート",
        "get_用户",
        "burn",
        "bum",
    ]
    await renamed(target, server, dict.fromkeys(honest, "look"))
    assert row_of(target, server)["left_out"] == {}
    for name in honest:
        assert listed(target, server)[name]["callable"]
    for name in ("Get", "get", "отчёт", "get_用户"):
        await everything_gets_through(target, server, name, "read")
    found = Wire(target.running.mcp, MODERN).call("retrieve_tools", {"query": "burn", "server": server})
    assert f"{server}:burn" in [row["name"] for row in found["structuredContent"]["tools"]]
    async with target.client("gate", server, MODERN) as peer:
        missed = await ask(peer, asked("gate", server, "burm", fresh(), "read"))
    assert missed.code == "TOOL_NOT_FOUND" and f"{server}:burn" in missed.words


@WHICH
async def test_a_refused_name_is_in_no_list_and_is_no_suggestion(target: Target, kind: str) -> None:
    server = f"denying-{kind}"
    await renamed(target, server, {"рurge": "look", "purge ": "look", "purse": "look"})
    query = {"query": "purge рurge", "server": server, "limit": 50}
    found = Wire(target.running.mcp, MODERN).call("retrieve_tools", query)
    names = {row["name"] for row in found["structuredContent"]["tools"]}
    assert names.isdisjoint({f"{server}:рurge", f"{server}:purge "})
    for door in ("direct", "passthrough"):
        async with target.client(door, server, MODERN) as peer:
            shown = {row["name"] for row in (await peer.request("tools/list"))["tools"]}
        own = {"рurge", "purge ", direct_name(server, "рurge"), direct_name(server, "purge ")}
        assert shown.isdisjoint(own)
        assert {"purse", direct_name(server, "purse")} & shown
    async with target.client("gate", server, MODERN) as peer:
        missed = await ask(peer, asked("gate", server, "purgee", fresh(), "read"))
    assert "рurge" not in missed.words and "purge " not in missed.words.replace("purgee", "")


@ERAS
@WHICH
@pytest.mark.parametrize("name", ["PURGE ", "рurge", "de1ete_x", "purge\u200b", "purge" * 100_000])
async def test_a_method_that_nobody_knows_does_not_carry_a_denied_name(
    target: Target, kind: str, era: str, name: str
) -> None:
    server, mark = f"denying-{kind}", fresh()
    async with target.client("passthrough", server, era) as peer:
        for method, asked_for in (("x/do", {"name": name, "mark": mark}), ("x/free", {"name": "purse", "mark": mark})):
            outcome = await ask(peer, asked_for, method)
            assert outcome.ok == (method == "x/free")
    assert [each["method"] for each in target.log(server).messages() if mark in json.dumps(each)] == ["x/free"]


@ERAS
@WHICH
async def test_a_method_has_a_name_of_bounded_length(target: Target, kind: str, era: str) -> None:
    server, mark = f"free-{kind}", fresh()
    async with target.client("passthrough", server, era) as peer:
        assert (await ask(peer, {"mark": mark}, "x/" + "a" * 254)).ok
        refused = await ask(peer, {"mark": mark}, "x/" + "a" * 255)
    assert not refused.ok and "There is no method" in refused.words and len(refused.words) < 300
    assert [len(each["method"]) for each in target.log(server).messages() if mark in json.dumps(each)] == [256]


@WHICH
async def test_no_tool_is_called_under_the_direct_name_of_another(target: Target, kind: str) -> None:
    """A name that does not fit is altered, and another tool could be called just like what comes of it."""
    server = f"free-{kind}"
    altered = direct_name(server, "clean!")
    imitation = altered.removeprefix(f"{server}__")
    await renamed(target, server, {"clean!": "look", imitation: "wipe"})
    mark = fresh()
    async with target.client("direct", server, MODERN) as peer:
        names = [row["name"] for row in (await peer.request("tools/list"))["tools"]]
        assert names.count(altered) == 1
        await ask(peer, {"name": altered, "arguments": {"mark": mark}})
    assert [each["name"] for each in target.log(server).calls(mark)] == ["clean!"]
    await renamed(target, server, {imitation: "wipe"})
    async with target.client("direct", server, MODERN) as peer:
        assert not (await ask(peer, {"name": altered, "arguments": {"mark": mark}})).ok
    assert len(target.log(server).calls(mark)) == 1


@WHICH
async def test_what_matches_nothing_is_told(target: Target, kind: str) -> None:
    server = f"denying-{kind}"
    await renamed(target, server, {"PURGE": "look"})
    assert row_of(target, server)["unmatched_entries"] == ["deny_tools: delete_*", "deny_tools: roll_back"]
    assert "deny_tools: roll_back" in target.running.stderr()
    assert f"{server}: none of its tools is meant by deny_tools: delete_*" in command(target, "upstream", "list")
    assert "deny_tools: delete_*, deny_tools: roll_back" in command(target, "doctor")
    await renamed(target, server, {"PURGE": "look", "roll_back": "look", "Delete_": "look"})
    assert row_of(target, server)["unmatched_entries"] == []


@WHICH
async def test_a_glob_that_an_edit_brings_is_in_force_when_the_edit_is(target: Target, kind: str) -> None:
    server = f"free-{kind}"
    await renamed(target, server, {"scan": "look", "sсan_it": "look"})
    await everything_gets_through(target, server, "scan", "read")
    target.configure(server, deny_tools=["SCA*"])
    try:
        for name in ("scan", "sсan_it"):
            await nothing_gets_through(target, server, name, "read")
    finally:
        target.configure(server)
    await everything_gets_through(target, server, "scan", "read")
