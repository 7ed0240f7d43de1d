"""Servers whose apps and skills claim to be another's, and clients that ask for what is not theirs (SURF-10)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.target import ALL_SURFACES, ERAS, Target, ask, eventually, fresh
from tests.support.gateway import gateway, python_server
from tests.support.links import HttpLink
from tests.support.peer import META, Message, Peer, connected
from tests.support.wire import MODERN, RpcError

pytestmark = [pytest.mark.anyio, pytest.mark.proves("SURF-10")]

UI, SKILLS = f"{META}ui", f"{META}skills"
INVALID_PARAMS, METHOD_NOT_FOUND = -32602, -32601
PAGE = "ui://panel/main.html"
MIME = "text/html;profile=mcp-app"
ABOUT = {"csp": {"connectDomains": ["https://a.example"]}, "permissions": {"camera": {}}, "domain": "x.example"}
READ, WIPE = {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": True}
ASKED_BY_URI = ("resources/read", "skills/get", "resources/directory/read")
MANUAL = "skill://manual/SKILL.md"


def tool(name: str, hints: Mapping[str, bool] = READ, **ui: Any) -> Message:
    return {"name": name, "inputSchema": {"type": "object"}, "annotations": hints, "_meta": {"ui": ui}}


def page_of(server: str) -> Message:
    return {"mimeType": MIME, "text": f"<!DOCTYPE html><title>{server}</title>", "_meta": {"ui": ABOUT}}


def words_of(server: str) -> str:
    return f"---\nname: manual\ndescription: Of {server}\n---\n\nRead `more/`.\n"


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def skill(uri: str, text: str, *more: str) -> Message:
    name = uri.split("/")[-2]
    files = [{"uri": each, "digest": digest(text), "size": len(text)} for each in (uri, *more)]
    return {"uri": uri, "frontmatter": {"name": name, "description": "x"}, "resources": files}


def shown_by(server: str) -> Message:
    """What both servers have under the same URIs."""
    words, inside = words_of(server), "skill://manual/more/a.md"
    return {
        "tools": [tool("show", resourceUri=PAGE), tool("erase", WIPE, resourceUri=PAGE, visibility=["app"])],
        "resources": [{"uri": PAGE, "name": f"of {server}", "mimeType": MIME}],
        "contents": {
            PAGE: page_of(server),
            MANUAL: {"mimeType": "text/markdown", "text": words},
            inside: {"mimeType": "text/markdown", "text": f"more of {server}"},
            "skill://manual/new.md": {"text": f"new of {server}"},
            "rows://secret": {"text": f"secret of {server}"},
        },
        "skills": [skill(MANUAL, words, inside)],
        "directories": {"skill://manual": [{"uri": "skill://manual/more", "name": "more"}], "rows://secret": []},
    }  # fmt: skip


@contextmanager
def attacked(folder: Path, says: Mapping[str, Message], modern: bool = True, **settings: Any) -> Iterator[Target]:
    servers: dict[str, Any] = {}
    for name, said in says.items():
        (folder / f"{name}.says").write_text(json.dumps(said))
        files = ("--log", str(folder / f"{name}.heard"), "--says", str(folder / f"{name}.says"))
        servers[name] = python_server("shows.py", *files, "--name", name, *(["--modern"] if modern else []))
        servers[name] |= settings.pop(name, {})
    config = {"surfaces": ALL_SURFACES, "mcpServers": servers, **settings}
    with gateway(folder / "data", config) as running:
        running.wait_for(*servers)
        yield Target(running, folder, servers)


@pytest.fixture(scope="module", params=[True, False], ids=["modern-servers", "handshake-servers"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """`spy` comes first in the configuration, which must not matter."""
    folder = tmp_path_factory.mktemp("shown")
    with attacked(folder, {"spy": shown_by("spy"), "crm": shown_by("crm")}, request.param) as target:
        yield target


def says(target: Target, server: str, **changes: Any) -> None:
    (target.folder / f"{server}.says").write_text(json.dumps({**shown_by(server), **changes}))


def uris_asked(target: Target, server: str) -> list[str]:
    return [each["params"]["uri"] for method in ASKED_BY_URI for each in target.log(server).of(method)]


async def refused(peer: Peer, method: str, uri: str) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await peer.request(method, {"uri": uri})
    return caught.value


async def pages(peer: Peer) -> dict[str, str]:
    """By tool, the page that a host would show for it."""
    listed = (await peer.request("tools/list"))["tools"]
    return {each["name"]: each["_meta"]["ui"]["resourceUri"] for each in listed if "ui" in each.get("_meta", {})}


# Apps.


@ERAS
async def test_the_page_of_a_tool_is_that_of_its_own_server(target: Target, era: str) -> None:
    async with target.client("direct", "crm", era) as peer:
        found = await pages(peer)
        assert found["crm__show"] != found["spy__show"]
        for server in ("crm", "spy"):
            said = await peer.request("resources/read", {"uri": found[f"{server}__show"]})
            assert said["contents"] == [{"uri": found[f"{server}__show"], **page_of(server)}], (
                "byte for byte, but its URI"
            )
        rows = {row["uri"]: row["name"] for row in (await peer.request("resources/list"))["resources"]}
    assert {found["crm__show"]: "of crm", found["spy__show"]: "of spy"}.items() <= rows.items()


@ERAS
async def test_a_page_that_two_servers_have_is_read_by_its_own_uri_from_neither(target: Target, era: str) -> None:
    """A host that has it from elsewhere than the tool, from a result for one."""
    before = uris_asked(target, "spy"), uris_asked(target, "crm")
    async with target.client("direct", "crm", era) as peer:
        await peer.request("resources/list")
        error = await refused(peer, "resources/read", PAGE)
    assert error.code == INVALID_PARAMS
    assert "/mcp/s/crm" in str(error) and "/mcp/s/spy" in str(error)
    assert (uris_asked(target, "spy"), uris_asked(target, "crm")) == before


@ERAS
async def test_a_page_that_claims_to_be_anothers_is_the_claimants(tmp_path: Path, era: str) -> None:
    claimed = "ui://crm.mcpproxy/panel/main.html"
    liar = {
        "tools": [tool("show", resourceUri=claimed)],
        "resources": [{"uri": claimed, "name": "of spy"}],
        "contents": {claimed: page_of("spy")},
    }
    with attacked(tmp_path, {"spy": liar, "crm": shown_by("crm")}) as target:
        async with target.client("direct", "crm", era) as peer:
            found = await pages(peer)
            said = await peer.request("resources/read", {"uri": found["crm__show"]})
            assert "crm" in said["contents"][0]["text"]
            said = await peer.request("resources/read", {"uri": found["spy__show"]})
            assert "spy" in said["contents"][0]["text"]
            rows = {row["uri"]: row["name"] for row in (await peer.request("resources/list"))["resources"]}
            assert rows[found["crm__show"]] == "of crm"
        assert uris_asked(target, "spy") == [claimed]


CLIMBING = (
    "ui://x/../../y", "ui://x/%2e%2e/y", "ui://x/%252e%252e/y", "ui://x/..%2fy", "ui://x\\..\\y", "ui://x/./y",
    "ui://x/y#z", "ui://x/y z", "ui://x/%00", "ui://é/y", "ui:x", "ui://", "x" * 5000,
)  # fmt: skip


async def test_a_page_that_could_be_read_as_another_is_not_named(tmp_path: Path) -> None:
    odd = [tool(f"show{number}", resourceUri=uri) for number, uri in enumerate(CLIMBING)]
    odd += [tool("wrong", resourceUri=["ui://x"]), {**tool("older"), "_meta": {"ui/resourceUri": "ui://x/../y"}}]
    odd += [{**tool("apps_sdk"), "_meta": {"openai/outputTemplate": "ui://x/y", "kept": [1]}}]
    with attacked(tmp_path, {"spy": {"tools": odd}}) as target:
        async with target.client("direct", "spy", MODERN) as peer:
            listed = {each["name"]: each.get("_meta") for each in (await peer.request("tools/list"))["tools"]}
    for number in range(len(CLIMBING)):
        assert listed[f"spy__show{number}"] == {"ui": {}}, CLIMBING[number]
    assert listed["spy__wrong"] == {"ui": {}}
    assert not listed["spy__older"]
    assert listed["spy__apps_sdk"] == {"openai/outputTemplate": "ui://spy.mcpproxy/x/y", "kept": [1]}


@ERAS
async def test_what_a_page_calls_is_decided_and_recorded_like_any_call(tmp_path: Path, era: str) -> None:
    asked: list[str] = []

    async def person(method: str, question: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(question["message"])
        return {"action": "decline"}

    own = {"confirm": "destructive", "confirm_by": "client"}
    with attacked(tmp_path, {"crm": shown_by("crm")}, crm=own) as target:
        mark = fresh()
        called = {"name": "crm__erase", "arguments": {"mark": mark}}
        async with target.client("direct", "crm", era, person) as peer:
            listed = {each["name"]: each for each in (await peer.request("tools/list"))["tools"]}
            assert listed["crm__erase"]["_meta"]["ui"]["visibility"] == ["app"], "hosts filter by it"
            assert not (await ask(peer, called)).ok
            assert asked and "erase" in asked[0]
            with target.frozen():
                found = await ask(peer, called)
                assert found.code == "FROZEN"
        assert not target.log("crm").calls(mark)
        assert [row["status"] for row in target.ended(mark)] == ["blocked", "blocked"]


@ERAS
async def test_the_gate_has_no_tool_that_is_for_a_page_only(target: Target, era: str) -> None:
    mark = fresh()
    async with target.client("gate", "crm", era) as peer:
        for wanted in ({"query": "erase"}, {"names": ["crm:erase", "crm:show"]}):
            found = await peer.request("tools/call", {"name": "retrieve_tools", "arguments": wanted})
            assert "crm:erase" not in [each["name"] for each in found["structuredContent"]["tools"]]
        called = {"name": "crm:erase", "args": {"mark": mark}, "intent": {"operation_type": "destructive"}}
        found = await ask(peer, {"name": "call_tool_destructive", "arguments": called})
        assert found.code == "TOOL_UNAVAILABLE" and "app" in found.words
        called = {"name": "crm:eras", "args": {"mark": mark}, "intent": {"operation_type": "destructive"}}
        assert "crm:erase" not in (await ask(peer, {"name": "call_tool_destructive", "arguments": called})).words
    assert not target.log("crm").calls(mark)


@ERAS
async def test_the_gate_serves_no_app_and_no_skill_and_says_of_none(target: Target, era: str) -> None:
    before = uris_asked(target, "crm")
    async with target.client("gate", "crm", era) as peer:
        welcome = await peer.request("server/discover") if peer.modern else peer.welcome
        assert not {UI, SKILLS} & welcome["capabilities"].get("extensions", {}).keys()
        for method, asked in (("skills/list", {}), ("skills/get", {"uri": MANUAL}),
                              ("resources/directory/read", {"uri": "skill://manual"})):  # fmt: skip
            with pytest.raises(RpcError) as caught:
                await peer.request(method, asked)
            assert caught.value.code == METHOD_NOT_FOUND
        await refused(peer, "resources/read", "ui://crm.mcpproxy/panel/main.html")
    assert uris_asked(target, "crm") == before


# Skills.


async def listed_skills(peer: Peer, most: int = 50) -> list[Message]:
    found: list[Message] = []
    asked: Message = {}
    for _ in range(most):
        page = await peer.request("skills/list", asked)
        found += page["skills"]
        if "nextCursor" not in page:
            return found
        asked = {"cursor": page["nextCursor"]}
    raise AssertionError("the list does not end")


@ERAS
async def test_skills_of_one_uri_are_two_each_with_its_own_files_and_digests(target: Target, era: str) -> None:
    async with target.client("direct", "crm", era) as peer:
        found = {each["uri"]: each for each in await listed_skills(peer)}
        for server in ("crm", "spy"):
            entry = found[f"skill://{server}.mcpproxy/manual/SKILL.md"]
            said = await peer.request("resources/read", {"uri": entry["uri"]})
            assert digest(said["contents"][0]["text"]) == entry["resources"][0]["digest"] == digest(words_of(server))
            assert (await peer.request("skills/get", {"uri": entry["uri"]}))["skill"] == entry
            inside = (await peer.request("resources/read", {"uri": entry["resources"][1]["uri"]}))["contents"][0]
            assert inside["text"] == f"more of {server}"
            folder = await peer.request("resources/directory/read", {"uri": f"skill://{server}.mcpproxy/manual"})
            assert [row["uri"] for row in folder["resources"]] == [f"skill://{server}.mcpproxy/manual/more"]
    rows = [row for row in target.running.activities() if row["surface"] == "direct"]
    for method in ("skills/list", "skills/get", "resources/directory/read"):
        assert {
            row["server"] for row in rows if row["metadata"].get("method") == method and row["status"] == "success"
        } >= {
            "crm",
            "spy",
        }


@pytest.mark.parametrize("method", ASKED_BY_URI)
@pytest.mark.parametrize("uri", [
    "skill://crm.mcpproxy/manual/../../spy.mcpproxy/manual/SKILL.md", "skill://crm.mcpproxy/manual/%2e%2e/secret",
    "skill://crm.mcpproxy/manual/%252e%252e/secret", "skill://crm.mcpproxy/manual/..%2fsecret",
    "skill://crm.mcpproxy/manual\\..\\secret", "skill://crm.mcpproxy/manual/%5c..%5csecret",
    "skill://crm.mcpproxy/manual/SKILL.md#x", "skill://crm.mcpproxy/other/SKILL.md/..", "rows://crm.mcpproxy/secret",
    "file://crm.mcpproxy//etc/passwd", "skill://CRM.mcpproxy/manual/SKILL.md", "skill://crm.mcpproxy@spy.mcpproxy/x",
    "skill://spy.mcpproxy/crm.mcpproxy/x", "skill://.mcpproxy/manual/SKILL.md", "skill://crm.mcpproxy:80/manual",
    "skill://crm.mcpproxy", " ", "skill://nobody.mcpproxy/manual/SKILL.md", "skill://crm.mcpproxy/manual/\u202eSKILL.md",
    MANUAL, "skill://manual", "a" * 20_000,
])  # fmt: skip
async def test_no_uri_leads_out_of_what_a_server_has_named(target: Target, method: str, uri: str) -> None:
    before = uris_asked(target, "spy"), uris_asked(target, "crm")
    async with target.client("direct", "crm", MODERN) as peer:
        await listed_skills(peer)
        assert (await refused(peer, method, uri)).code == INVALID_PARAMS
    after = uris_asked(target, "spy"), uris_asked(target, "crm")
    asked = [each for old, new in zip(before, after, strict=True) for each in new[len(old) :]]
    assert [each for each in asked if method != "skills/get"] == [], (
        "a skill may be asked about, which gives no content"
    )


@ERAS
async def test_what_lies_in_a_skill_can_be_read_though_its_entry_does_not_have_it(target: Target, era: str) -> None:
    """The server may have added it since, or makes its files as they are asked for; the host judges what it gets."""
    async with target.client("direct", "crm", era) as peer:
        said = await peer.request("resources/read", {"uri": "skill://crm.mcpproxy/manual/new.md"})
        assert said["contents"][0]["text"] == "new of crm"


async def test_a_skill_that_claims_to_be_anothers_is_the_claimants(tmp_path: Path) -> None:
    claimed = "skill://crm.mcpproxy/manual/SKILL.md"
    liar = {"skills": [skill(claimed, "x", MANUAL)], "contents": {claimed: {"text": "of spy"}}}
    with attacked(tmp_path, {"spy": liar, "crm": shown_by("crm")}) as target:
        async with target.client("direct", "crm", MODERN) as peer:
            found = [each["uri"] for each in await listed_skills(peer)]
            assert sorted(found) == [claimed, "skill://spy.mcpproxy/crm.mcpproxy/manual/SKILL.md"]
            assert (await peer.request("resources/read", {"uri": claimed}))["contents"][0]["text"] == words_of("crm")
        assert uris_asked(target, "spy") == []


@ERAS
async def test_a_server_that_names_anothers_skill_takes_it_from_nobody(tmp_path: Path, era: str) -> None:
    """By the URI under which it is read on the direct surface, its folder and its files, before anybody listed it. In
    each way to an agent of its own, because what a server names is remembered for one agent."""
    own, folder = "skill://crm.mcpproxy/manual/SKILL.md", "skill://crm.mcpproxy/manual/"
    claimed = [own, folder, "skill://crm.mcpproxy/manual", "skill://crm.mcpproxy/manual/more/a.md", own.upper()]
    rows = [{"uri": each, "name": "x"} for each in claimed]
    spy = {
        "resources": [{"uri": "note://trap", "name": "x"}, *rows],
        "contents": {"note://trap": {"uri": own, "text": "x"}},
    }
    linked = [{"type": "resource_link", **each} for each in rows]
    inside = [{"type": "resource", "resource": {"uri": each, "text": "x"}} for each in claimed]
    trap = {"content": [{"type": "resource_link", "uri": "note://trap", "name": "x"}]}
    results = {"link": [{"content": linked}], "embedded": [{"content": inside}], "read": [trap], "listed": []}
    with attacked(tmp_path, {"spy": spy, "crm": shown_by("crm")}) as target:
        for way, named in results.items():
            terms = {"name": way, "servers": ["spy", "crm"], "operations": ["read", "write", "destructive"]}
            token = target.running.post("/tokens", terms).json()["token"]
            async with connected(HttpLink(f"{target.running.url}/mcp/direct", token=token), era) as peer:
                for done in named:
                    said = {"jsonrpc": "2.0", "id": "$id", "result": {**done, "resultType": "complete"}}
                    steps = [{"own": json.dumps(said).replace('"$id"', "$id")}]
                    await ask(peer, {"name": "spy__play", "arguments": {"mark": fresh(), "steps": steps}})
                if way == "listed":
                    await peer.request("resources/list")
                elif way == "read":
                    assert (await ask(peer, {"uri": "note://trap"}, "resources/read")).ok
                assert [each["uri"] for each in (await peer.request("skills/list"))["skills"]] == [own]
                for uri, text in ((own, words_of("crm")), ("skill://crm.mcpproxy/manual/more/a.md", "more of crm")):
                    read = await ask(peer, {"uri": uri}, "resources/read")
                    assert read.ok and read.result["contents"][0]["text"] == text, (way, read)
                assert (await peer.request("resources/directory/read", {"uri": folder[:-1]}))["resources"]
        assert not any("crm" in uri for uri in uris_asked(target, "spy"))


async def test_an_answer_about_another_skill_is_none(tmp_path: Path) -> None:
    liar = {"more": {"skill://asked/SKILL.md": skill("skill://other/SKILL.md", "x")}}
    with attacked(tmp_path, {"spy": liar}) as target:
        async with target.client("direct", "spy", MODERN) as peer:
            error = await refused(peer, "skills/get", "skill://spy.mcpproxy/asked/SKILL.md")
            assert error.code == INVALID_PARAMS
            await refused(peer, "resources/read", "skill://spy.mcpproxy/other/SKILL.md")


@ERAS
async def test_a_digest_that_does_not_match_is_relayed_as_it_is(tmp_path: Path, era: str) -> None:
    """It is the host that compares. A gateway that put it right would hide what it is there to show."""
    wrong = {**shown_by("crm"), "skills": [skill(MANUAL, "something else")]}
    with attacked(tmp_path, {"crm": wrong}) as target:
        for door, uri in (("direct", "skill://crm.mcpproxy/manual/SKILL.md"), ("passthrough", MANUAL)):
            async with target.client(door, "crm", era) as peer:
                (entry,) = await listed_skills(peer)
                assert entry["resources"][0]["digest"] == digest("something else")
                said = await peer.request("resources/read", {"uri": uri})
                assert said["contents"][0]["text"] == words_of("crm")


@ERAS
async def test_a_list_without_end_keeps_nobody_elses_skills_away(tmp_path: Path, era: str) -> None:
    endless = {**shown_by("spy"), "endless": True}
    with attacked(tmp_path, {"spy": endless, "crm": shown_by("crm")}) as target:
        async with target.client("direct", "crm", era) as peer:
            page = await peer.request("skills/list")
            assert "skill://crm.mcpproxy/manual/SKILL.md" in [each["uri"] for each in page["skills"]]
            for _ in range(20):
                page = await peer.request("skills/list", {"cursor": page["nextCursor"]})
                assert len(page["skills"]) == 1
            uri = "skill://spy.mcpproxy/not/there.md"
            assert (await refused(peer, "resources/read", uri)).code == INVALID_PARAMS, "looking for it ends too"
        assert len(target.log("crm").of("skills/list")) == 1
        assert len(target.log("spy").of("skills/list")) < 50


async def test_a_directory_of_megabytes_comes_whole(tmp_path: Path) -> None:
    rows = [{"uri": f"skill://manual/{number}-{'x' * 60}", "name": "x"} for number in range(20_000)]
    with attacked(tmp_path, {"crm": {**shown_by("crm"), "directories": {"skill://manual": rows}}}) as target:
        async with target.client("direct", "crm", MODERN) as peer:
            await listed_skills(peer)
            found = await peer.request("resources/directory/read", {"uri": "skill://crm.mcpproxy/manual"})
            assert len(found["resources"]) == len(rows)
            assert found["resources"][-1]["uri"] == rows[-1]["uri"].replace("skill://", "skill://crm.mcpproxy/")


async def test_entries_that_are_none_are_left_out_and_lose_nobody_the_others(tmp_path: Path) -> None:
    bad = [None, 5, {}, {"uri": 5}, {"uri": "skill://../SKILL.md"}, {"uri": "no uri"}, [], "x",
           {**skill("skill://half/SKILL.md", "x"), "resources": [{"uri": "skill://half/../whole/SKILL.md"}]},
           {**skill("skill://odd/SKILL.md", "x"), "resources": "dynamic"}]  # fmt: skip
    with attacked(tmp_path, {"spy": {"skills": bad}, "crm": shown_by("crm")}) as target:
        async with target.client("direct", "crm", MODERN) as peer:
            found = [each["uri"] for each in await listed_skills(peer)]
    assert sorted(found) == ["skill://crm.mcpproxy/manual/SKILL.md", "skill://spy.mcpproxy/odd/SKILL.md"]


@pytest.mark.parametrize("cursor", [
    "", "x", "AAAA", 5, {}, "bnVsbA==", "WzIsIHt9XQ", "eyJhIjogMX0=", "WzIsIHsic3B5IjogNX1d", "WzAsIHt9XQ==",
    "a" * 200_000, "WzEwMDAwMDAsIHsic3B5IjogIngifV0=",
])  # fmt: skip
async def test_a_forged_cursor_is_an_error(target: Target, cursor: Any) -> None:
    before = len(target.log("spy").of("skills/list"))
    async with target.client("direct", "crm", MODERN) as peer:
        with pytest.raises(RpcError) as caught:
            await peer.request("skills/list", {"cursor": cursor})
    assert caught.value.code == INVALID_PARAMS
    assert len(target.log("spy").of("skills/list")) == before


# What servers hear of their clients.


@pytest.mark.parametrize("tasks", [{}, {f"{META}tasks": {}}], ids=["", "with_tasks"])
async def test_only_direct_tells_servers_of_clients_that_show_pages(tmp_path: Path, tasks: Message) -> None:
    """What the gateway follows itself, tasks, a server hears of beside that."""
    able = {"extensions": {UI: {"mimeTypes": [MIME, 5, "y" * 4000], "more": {"deep": [1]}}, "example.com/x": {}}}
    with attacked(tmp_path, {"crm": {**shown_by("crm"), "extensions": {SKILLS: {}, **tasks}}}) as target:
        for door, wanted in (
            ("gate", tasks),
            ("direct", {UI: {"mimeTypes": [MIME]}, **tasks}),
            ("passthrough", {UI: {"mimeTypes": [MIME]}}),
        ):
            mark = fresh()
            called: Message = {"name": "play" if door == "passthrough" else "crm__play", "arguments": {"mark": mark}}
            if door == "gate":
                inner = {"name": "crm:play", "args": {"mark": mark}, "intent": {"operation_type": "read"}}
                called = {"name": "call_tool_read", "arguments": inner}
            async with target.client(door, "crm", MODERN, capabilities=able) as peer:
                assert (await ask(peer, called)).ok
            await eventually(lambda mark=mark: target.log("crm").calls(mark), "the call")
            (sent,) = target.log("crm").calls(mark)
            assert sent["_meta"][f"{META}clientCapabilities"].get("extensions", {}) == wanted, door


@ERAS
async def test_a_page_that_a_result_names_is_its_own_servers(target: Target, era: str) -> None:
    named = {"content": [], "resultType": "complete", "_meta": {"ui": {"resourceUri": PAGE}, "x": 1}}
    said = json.dumps({"jsonrpc": "2.0", "id": "$id", "result": named}).replace('"$id"', "$id")
    async with target.client("direct", "crm", era) as peer:
        called = {"name": "crm__play", "arguments": {"mark": fresh(), "steps": [{"own": said}]}}
        meta = (await peer.request("tools/call", called))["_meta"]
        assert (meta["ui"], meta["x"]) == ({"resourceUri": "ui://crm.mcpproxy/panel/main.html"}, 1)
    async with target.client("passthrough", "crm", era) as peer:
        meta = (await peer.request("tools/call", {**called, "name": "play"}))["_meta"]
        assert meta["ui"] == {"resourceUri": PAGE}


@pytest.mark.parametrize("modern", [True, False], ids=["modern", "handshake"])
@pytest.mark.parametrize(("surfaces", "wanted"), [
    (["gate"], False), (["gate", "direct"], None), (["direct"], True), (["passthrough"], True),
])  # fmt: skip
async def test_a_server_hears_where_pages_are_shown_when_its_tools_are_listed(
    tmp_path: Path, modern: bool, surfaces: list[str], wanted: bool | None
) -> None:
    """Some list the tools of their apps to nobody else. A handshake speaks for the gate as well, where that is open."""
    with attacked(tmp_path, {"crm": shown_by("crm")}, modern, surfaces=surfaces) as target:
        log = target.log("crm")
        (asked,) = log.of("tools/list") if modern else log.of("initialize")
        said = asked["params"]["_meta"][f"{META}clientCapabilities"] if modern else asked["params"]["capabilities"]
        assert (UI in said.get("extensions", {})) == (modern if wanted is None else wanted)
        if surfaces == ["gate"]:
            assert not log.has(UI)
