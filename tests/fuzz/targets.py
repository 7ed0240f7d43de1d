"""What is fuzzed: each target, what it holds, and where its inputs begin."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from tests.bench.descriptions import fresh_poisoned, poisoned
from tests.core.corpus import samples
from tests.core.pins.cases import CASES
from tests.core.pins.listings import LISTINGS, changed
from tests.fuzz import client_files, decisions, documents, http, messages, pins, record, registries, streams, texts
from tests.fuzz.engine import Target
from tests.fuzz.messages import JSON, TEXT, as_bytes
from tests.support import registry as wire_of

# Seeds and words.


def _lines(*lines: str, body: str = "") -> bytes:
    return "\r\n".join((*lines, "", body)).encode("latin-1")


HTTP_REQUESTS: Final = (
    _lines("POST /mcp HTTP/1.1", "Host: x", "Content-Length: 5", body="hello"),
    _lines("POST /mcp?a=b HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", body="3\r\nabc\r\n0\r\n\r\n"),
    _lines("POST /mcp HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", body="3;a=b\r\nabc\r\n0\r\nHost: y\r\n\r\n")
    + _lines("GET /mcp HTTP/1.1", "Host: x"),
    _lines("GET /mcp HTTP/1.1", "Host: x") + _lines("GET /mcp HTTP/1.1", "Host: x", "Connection: close"),
    _lines("GET http://x/mcp?q HTTP/1.1", "Host: x"),
    _lines("GET /mcp HTTP/1.0", "Connection: keep-alive"),
    _lines("POST /mcp HTTP/1.1", "Host: x", "Expect: 100-continue", "Content-Length: 2", body="{}"),
    _lines("POST /mcp HTTP/1.1", "Host: x", "Content-Length: 5", "Transfer-Encoding: chunked", body="0\r\n\r\n"),
    _lines("GET /mcp HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade"),
    _lines("OPTIONS * HTTP/1.1", "Host: x"),
    _lines("HEAD /mcp HTTP/1.1", "Host: x"),
    _lines("CONNECT x:80 HTTP/1.1", "Host: x"),
    _lines("GET /mcp/%2e%2e/%00#f HTTP/1.1", "Host: x"),
)
HTTP_WORDS: Final = (
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"Content-Length: 5", b"Transfer-Encoding: chunked", b" chunked", b"\t", b" ",
    b"Content-Length: 0\r\n", b"Host: x\r\n", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"0\r\n\r\n",
    b"5\r\n",
    b": ", b"GET /mcp", b"POST ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"chunked, identity", b"\x0b", b"\x00", b"\xff",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n", b"identity", b"gzip, chunked",
    b';ext="a"', b"0x5", b"+5", b"-1", b"5, 5", b"%", b"#", b"?", b"//", b"http://h/", b"Authorization: Bearer x\r\n",
)  # fmt: skip
HTTP_ANSWERS: Final = (
    _lines("HTTP/1.1 200 OK", "Content-Type: application/json", "Content-Length: 2", body="{}"),
    _lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", body="2\r\n{}\r\n0\r\nX: y\r\n\r\n"),
    _lines("HTTP/1.1 100 Continue") + _lines("HTTP/1.1 200 OK", "Content-Length: 0"),
    _lines("HTTP/1.1 200 OK", body="until the end"),
    _lines("HTTP/1.0 200 OK", "Content-Length: 1", body="x"),
    _lines("HTTP/1.1 204 No Content"),
    _lines("HTTP/1.1 304 Not Modified", "Content-Length: 5"),
    _lines("HTTP/1.1 101 Switching Protocols", "Upgrade: x", "Connection: upgrade", body="more"),
    _lines("HTTP/1.1 200 OK", "Content-Length: 2", body="{}") * 2,
    _lines("HTTP/1.1 302 Found", "Location: file:///etc/passwd", "Content-Length: 0"),
    _lines("HTTP/1.1 200 OK", "Content-Length: 2", "Content-Length: 3", body="{}x"),
)
EVENTS: Final = (
    b"event: message\ndata: {}\n\n", b"id: 7\r\nretry: 1000\r\ndata: a\r\ndata: b\r\n\r\n", b": comment\n\ndata\n\n",
    b"event: endpoint\ndata: /messages?s=1\n\n", b"data: " + b"x" * 700 + b"\n\ndata: y\n\n",
    b"\xef\xbb\xbfdata: z\n\n",
    b"data: a\n" * 100 + b"\n", b"id: \x00\ndata:x\n\nid\ndata:\n\n",
    b"event: called\nid: 1-2\ndata: {\"id\": \"a\"}\n\n",
)  # fmt: skip
EVENT_WORDS: Final = (
    b"\n", b"\r\n", b"\r", b"\n\n", b"data:", b"data: ", b"event: ", b"id: ", b"retry: ", b":", b"\x00",
    b"message", b"endpoint", b"99999999999", b"\xff", b"\xef\xbb\xbf", b"x" * 650,
)  # fmt: skip
ENVELOPE: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
}  # fmt: skip
CALL: Final = {"name": "call_tool_read", "arguments": {"name": "s:t", "args": {}, "intent": {"operation_type": "read"}}}
MESSAGES: Final = tuple(map(as_bytes, (
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**CALL, "_meta": ENVELOPE}},
    {"jsonrpc": "2.0", "id": "a", "method": "resources/read", "params": {"uri": "x:y", "_meta": ENVELOPE}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    {"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "m"}},
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": {"name": "x" * 200}}},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
     "params": {**CALL, "inputResponses": {"k": {"action": "accept"}}, "requestState": "x.y", "_meta": ENVELOPE}},
    {"jsonrpc": "2.0", "id": 2, "method": "server/discover", "params": {"inputRequests": {"k": {"method": "m"}}}},
)))  # fmt: skip
RAW_MESSAGES: Final = (
    b'{"jsonrpc":"2.0","id":1,"id":[],"method":"x"}', b'{"jsonrpc":"2.0","id":1e0,"method":"x"}', b"[]", b"",
    b"\xef\xbb\xbf{}",
    b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud800"}}', b"[" * 300, b'{"a":NaN}', b'{"a":1e999}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 4400 + b',"method":"x"}', b'{"jsonrpc":"2.0","id":true,"method":"x"}',
    '{"jsonrpc":"2.0","id":1,"method":"x"}'.encode("utf-16"),
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\\ud800","arguments":%b%b}}' % (b"[" * 900,
    b"]" * 900),
)  # fmt: skip
ALL_MESSAGES: Final = (*MESSAGES, *RAW_MESSAGES)
JSON_WORDS: Final = (
    b'"jsonrpc":"2.0"', b'"id":1', b'"method":"tools/call"', b'"params":{', b'"_meta":{', b"\\ud800", b"\\u0000",
    b"null",
    b"true", b"NaN", b"Infinity", b"-0", b"1e400", b"[" * 70, b"{" * 70, b'{"a":' * 40, b'"', b"\\", b",", b":",
    b"{}", b"[]",
    b'"requestState"', b'"inputResponses"', b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"//", b'"arguments":{',
)  # fmt: skip

DESCRIBED: Final = tuple(
    as_bytes({key: value for key, value in (("description", each.instructions), *(each.tool or {}).items()) if value})
    for each in (*poisoned(), *fresh_poisoned())
)
DESCRIBED_WORDS: Final = (
    b"ignore ", b"previous instructions", b"do not tell the user ",
    b"\\u200b", b"\\udb40\\udc41", b"\\u202e", b"\\u001b[",
    b"~/.ssh/id_rsa", b"contents of ", b"send_email", b"QUJDREVG", b"%41%42", b"&#65;", b"data:text/plain;base64,",
    b"\\ufe0f", b"a b c d e f g ", b'"description":', b'"properties":{', b"\\u0430", b"\\ufdfa", b"system prompt",
)  # fmt: skip

# Shapes.


def _one_of(values: Iterable[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(list(values))


NAMES: Final = _one_of(
    [f"s:{name}" for name in decisions.CLASSES] + ["s:gone", "t:look", "look", "s:", ":look", "s:look "]
)
INTENT: Final = st.fixed_dictionaries(
    {}, optional={
        "operation_type": _one_of(["read", "write", "destructive", "Read", " read", "", None, 1, ["read"]]),
        "data_sensitivity": _one_of(["public", "internal", "private", "unknown", "x", None]),
        "reason": TEXT | st.none(),
        "other": JSON,
    },
)  # fmt: skip
ARGS: Final = st.fixed_dictionaries({}, optional={"n": st.integers(0, 2), "force": st.booleans(), "x": JSON})
PARAMS: Final = st.fixed_dictionaries(
    {"name": NAMES}, optional={
        "args": ARGS, "args_json": ARGS.map(json.dumps), "intent": INTENT | INTENT.map(json.dumps) | JSON,
        "intent_operation_type": _one_of(["read", "write", "destructive", None, 5]), "intent_reason": TEXT,
        "oops": JSON,
    },
)  # fmt: skip
VARIANT_TOOLS: Final = _one_of(["call_tool_read", "call_tool_write", "call_tool_destructive"])
GOOD: Final = st.builds(
    lambda variant, name, args: [f"call_tool_{variant}", {"name": name, "args": args,
    "intent": {"operation_type": variant}}],
    _one_of(["read", "write", "destructive"]), NAMES, ARGS,
)  # fmt: skip
METHODS: Final = _one_of([
    "tools/call", "Tools/Call", "tools/call ", "resources/read", "prompts/get", "x/delete_everything", "tools//call",
    "",
])  # fmt: skip
ASKS: Final = st.one_of(
    st.builds(lambda world, outer, params: [world * 3, outer, params],
              st.integers(0, 5), VARIANT_TOOLS | _one_of(["retrieve_tools", "call_tool", "request_capability"]),
              PARAMS | JSON),
    st.builds(lambda world, good: [world * 3, *good], st.integers(0, 5), GOOD),
    st.builds(lambda world, name, params: [world * 3 + 1, name.replace(":", "__", 1), params],
              st.integers(0, 5), NAMES, ARGS | JSON),
    st.builds(lambda world, name, params, method: [world * 3 + 2, name.partition(":")[2], params, method],
              st.integers(0, 5), NAMES, ARGS | JSON, METHODS),
).map(as_bytes)  # fmt: skip

KEYWORDS: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "type": _one_of(["object", "string", "integer", "array", "boolean", "null", "x", ["object", "null"]]),
    "required": st.lists(_one_of(["a", "b", "n"]), max_size=3), "enum": st.lists(JSON, max_size=3), "const": JSON,
    "minimum": st.integers(-3, 3), "multipleOf": _one_of([0, 1, 0.1, -1]), "maxLength": st.integers(-1, 3),
    "pattern": _one_of(["^a+$", "(a+)+$", "(?=a)b", "[", "\\d{1,99999}", "(a|a)*b", "\\p{L}"]),
    "format": _one_of(["email", "x"]),
    "$ref": _one_of(["#", "#/properties/a", "#/$defs/d", "http://127.0.0.1:9/x", "file:///etc/passwd", "#/%", "x",
    "#d"]),
    "x-mcp-header": _one_of(["A", "B", "a", "A b", "", 5]), "default": JSON, "uniqueItems": st.booleans(),
    "additionalProperties": st.booleans(), "$dynamicRef": _one_of(["#d", "#"]), "$id": _one_of(["http://h/", "x", "#"]),
    "$schema": _one_of(["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema",
    "x"]),
}  # fmt: skip
SCHEMAS: Final = st.recursive(
    st.booleans() | st.fixed_dictionaries({}, optional=dict(KEYWORDS)),
    lambda inner: st.fixed_dictionaries({}, optional={
        **KEYWORDS, "properties": st.dictionaries(_one_of(["a", "b", "n"]), inner, max_size=3), "items": inner,
        "not": inner,
        "allOf": st.lists(inner, max_size=3), "anyOf": st.lists(inner, max_size=3), "oneOf": st.lists(inner,
        max_size=3),
        "if": inner, "then": inner, "$defs": st.dictionaries(_one_of(["d", "e"]), inner, max_size=2),
        "dependentSchemas": st.dictionaries(_one_of(["a"]), inner, max_size=1), "patternProperties":
        st.dictionaries(_one_of(["a", "(a+)+$", "["]), inner, max_size=1), "propertyNames": inner,
    }),
    max_leaves=6,
)  # fmt: skip
SCALAR: Final = (
    st.integers() | st.text(max_size=8) | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)
)
MIRRORED: Final = st.builds(
    lambda kinds, args, texts: {
        "schema": {"properties": {key: {"type": kind, "x-mcp-header": key.upper()} for key, kind in kinds.items()}},
        "args": args, "texts": texts,
    },
    st.dictionaries(_one_of("abc"), _one_of(["string", "integer", "boolean"]), max_size=3),
    st.dictionaries(_one_of("abc"), SCALAR, max_size=3), st.lists(st.text(max_size=10), max_size=2),
)  # fmt: skip
CHECKED: Final = st.builds(lambda schema, args: {"schema": schema, "args": args}, SCHEMAS, st.dictionaries(
    _one_of(["a", "b", "n"]), JSON, max_size=3))  # fmt: skip

SECRETS: Final = tuple(as_bytes(sample.value) for sample in samples() if sample.half == "tuned")
SECRET_WORDS: Final = (
    b"password", b"=", b": ", b"api_key", b"Bearer ", b"Basic ", b"***", b"***password***", b"***card***", b"\\n",
    b'\\"', b"--",
    b"ghp_" + b"a1B2" * 9, b"AKIA" + b"ABCD" * 4, b"4111 1111 1111 1111", b"eyJhbGciOiJIUzI1NiJ9.e30.abcdefghijkl",
    b"://u:p@h/",
    b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----", b"token", b"secret", b"\\u0130", b"\\ud83d",
    b"?code=", b"&sig=",
)  # fmt: skip
CONFIG: Final = {
    "//": "a comment", "listen": "127.0.0.1:8765", "mcpServers": {
        "a": {"command": "x", "args": ["-y"], "env": {"K": "${env:V}"}, "// why": 1},
        "b": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${env:T}"},
        "tools": {"t": [{"class": "read"}]}},
    },
}  # fmt: skip
CONFIGS: Final = (
    *map(as_bytes, (CONFIG, {"mcpServers": [{"name": "a", "command": "x"}]}, {}, {"activity": {"retention_days": 3}})),
    b'{"a": 1, "a": 2}', b"// c\n{}", b"\xef\xbb\xbf{}", b'{"mcpServers": {"a": {}, "a": {}}}', b"[" * 200,
    b'{"x": 1e999}',
)  # fmt: skip
ROWS: Final = tuple(map(as_bytes, (
    {"id": "a", "server": "=cmd()", "tool": "-1+1", "status": "ok", "metadata": {"intent": {"reason": "+1"}}},
    {"id": 5, "error": {"code": "@x", "message": "\t=1"}, "arguments": {"a": "\u0000"}, "client": {"name": "＝1"}},
    {"server": "\n=x", "tool": "a,b\"c", "duration_ms": -5, "session_id": "\r\n", "request_id": " -x",
    "principal": "\ud800"},
)))  # fmt: skip
STATES: Final = (
    *(each.encode() for each in (*messages.STATES, messages.FORGED)),
    b"",
    b".",
    b"x.y",
    b"e30.",
    b"\xc3\xa9.x",
)
CURSORS: Final = (*(each.encode() for each in messages.CURSORS), b"", b"s-1", b"r5-00", b"-", b"\xc3\xa9-1", b"AA==")
MIRRORED_ONE: Final = as_bytes({
    "schema": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}, "args": {"a": "é"},
    "texts": ["=?base64?eA==?=", " x", "\t"],
})  # fmt: skip
CHECKED_ONE: Final = as_bytes(
    {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}, "args": {"n": 1}}
)  # fmt: skip
DRAWN_SECRETS: Final = st.recursive(
    _one_of(json.loads(each) for each in SECRETS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=4,
)  # fmt: skip
EDITS: Final = tuple(
    as_bytes([table, column, 1, edit]) for table in range(3) for column in range(25) for edit in (7, [1])
)  # fmt: skip
DRAWN_EDITS: Final = st.tuples(
    st.integers(0, 2), st.integers(0, 30), st.integers(0, 9),
    st.integers(0, 3000) | TEXT | st.none() | st.lists(st.integers(), max_size=2) | st.floats(allow_nan=False),
)  # fmt: skip

CLIENT_JSON: Final = (
    b'{\r\n\t// mine\r\n\t"mcpServers": {\r\n\t\t"a": {"command": "x"}, // on\r\n\t},\r\n}\r\n',
    b'\xef\xbb\xbf{"mcpServers": {"mcpproxy": 1}, "permissions": {"allow": ["a", /* b */ "c",], "deny": []}}',
    b'{"permissions": {}, "n": [1e5, -0.5, true, null], "t": "\\u00e9\\n", /* a\n b */ "x": {"y": [{}]}}',
    b"// none\n",
    b"",
)
CLIENT_TOML: Final = (
    b'# mine\nmodel = "x"\n\n[mcpServers.a]\ncommand = """\n[mcpServers.mcpproxy]\n"""\n\n# end\n[tui]\n',
    b"[mcpServers]\r\nmcpproxy = {a = 1}\r\n",
    b"mcpServers.a.b = 1\n[[x]]\na = [1,\n 2]\n",
    b"mcpServers = {}\n",
    b'[mcpServers."mcpproxy"]\na = 1\n[mcpServers.mcpproxy.tools]\n# c\n[z]\n',
    b"a = 1",
)
CLIENT_YAML: Final = (
    b"# mine\nmcpServers:\n  a:\n    b: |\n      text\n    c: [1, 2]\n\n# end\npermissions:\n  allow:\n  - x\n  # y\n",
    b"mcpServers: {}\npermissions: {allow: [a, b]}\n",
    b"mcpServers:\npermissions:\n    allow: []\r\n",
    b"a: &x 1\nb: *x",
    b'---\n"mcpServers":\n    mcpproxy: {a: 1}\n    b: >-\n      folded\n',
    b"- a\n",
    b"? a\n: b\n",
    b"{a: 1,\n b: 2}",
)
CLIENT_WORDS: Final = (
    b"//", b"/*", b"*/", b",", b",\n", b"{", b"}", b"[", b"]", b'"', b":", b": ", b"\n", b"\r\n", b"\n  ", b"\t", b"# ",
    b"mcpServers", b'"mcpServers": {', b"mcpproxy", b"permissions", b"allow", b"[mcpServers]", b"- ", b" = ", b"null",
    b"---\n", b"...\n", b"&a ", b"*a", b"|\n", b"\xef\xbb\xbf", b"'''", b'"""', b"[[", b"!!str ", b"~", b"<<: *a",
)  # fmt: skip
PINNED: Final = tuple(
    as_bytes({
        "before": case.before.as_json(), "after": case.after.as_json(), "trusted": case.trusted, "manual": False,
        "hidden": [],
    })
    for case in CASES
)  # fmt: skip
PINNED_WORDS: Final = (
    b'"annotations"', b'"readOnlyHint"', b'"destructiveHint"', b'"inputSchema"', b'"outputSchema"', b'"properties"',
    b'"anyOf"', b'"oneOf"', b'"$defs"', b'"$ref"', b'"#/$defs/d"', b'"required"', b'"additionalProperties"', b'"_meta"',
    b'"anthropic/requiresUserInteraction"', b'"ui"', b'"arguments"', b'"execution"', b'"instructions"', b"true",
    b"false", b"null", b"1.0", b"1e400", b"NaN", b'"\\ud800"', b'"tool:save_note"',
)  # fmt: skip
DRAWN_PINS: Final = st.builds(
    lambda drawn, seed, trusted, manual, hidden: {
        "before": drawn, "after": changed(changed(drawn, seed), seed + 1), "trusted": trusted, "manual": manual,
        "hidden": hidden,
    },
    LISTINGS, st.integers(0, 10**9), st.booleans(), st.booleans(),
    st.lists(_one_of(["tool:save", "tool:x", "instructions"]), max_size=1),
)  # fmt: skip
_VARIABLES: Final = {"a": {"default": "x"}, "b": {"isRequired": True, "isSecret": True}, "c": {"value": "y"}}
_PARTS: Final = {
    "runtimeArguments": [{"type": "named", "name": "-e", "value": "A={b}", "variables": _VARIABLES}],
    "packageArguments": [{"type": "named", "name": "--x", "value": "{a}/{b}{c}", "variables": _VARIABLES},
                         {"type": "positional", "valueHint": "dir", "isRequired": True}],
    "environmentVariables": [{"name": "KEY", "isSecret": True},
                             {"name": "MODE", "choices": ["a", "b"], "default": "a"}],
}  # fmt: skip
LISTED_SERVERS: Final = tuple(as_bytes({"servers": [each], "metadata": {"nextCursor": "x", "count": 1}}) for each in (
    wire_of.row("a.b/c", packages=[wire_of.npm(**{key: _PARTS[key] for key in _PARTS if key[0] != "r"})]),
    wire_of.row("a.b/c", packages=[{"registryType": "oci", "identifier": "ghcr.io/a/b:1", **_PARTS}]),
    wire_of.row("a.b/c", packages=[{"registryType": "pypi", "identifier": "a", "version": "1",
                                    "transport": {"type": "stdio"}}]),
    wire_of.row("a.b/c", packages=[{"registryType": "nuget", "identifier": "A.B", "version": "1",
                                    "transport": {"type": "stdio"}, "packageArguments": _PARTS["packageArguments"]}]),
    wire_of.row("a.b/c", status="deprecated", says="gone", remotes=[wire_of.remote(
        "https://{a}.example.com/mcp", headers=[{"name": "Authorization", "value": "Bearer {b}",
                                                 "variables": _VARIABLES}], variables=_VARIABLES)]),
))  # fmt: skip
LISTED_WORDS: Final = (
    b"${env:HOME}", b"$", b"{env:HOME}", b"{a}", b"{b}", b"{", b"}", b"\\u202e", b"\\n", b"--", b"-v", b"--mount",
    b"/:/x", b"--privileged", b'"default":"$"', b'"value":', b'"variables":', b"latest", b"http://127.0.0.1/", b"https://",
    b"@sha256:", b"npm:", b"git+https://x", b'"isRequired":true', b'"choices":[', b"NODE_OPTIONS", b"streamable-http",
)  # fmt: skip
TARGETS: Final[dict[str, Target]] = {
    each.name: each
    for each in (
        Target("http_request", http.read_request, HTTP_REQUESTS, HTTP_WORDS),
        Target("http_answer", http.read_answer, HTTP_ANSWERS, (*HTTP_WORDS, b"HTTP/1.1 100 x\r\n\r\n",
        b"HTTP/1.1 204 x\r\n")),
        Target("sse_upstream", streams.read_events, EVENTS, EVENT_WORDS),
        Target("sse_watched", streams.read_watched, EVENTS, EVENT_WORDS),
        Target("json_lines", streams.read_lines, tuple(each + b"\n" for each in ALL_MESSAGES), (b"\n", *JSON_WORDS)),
        Target("rpc_message", messages.read_message, ALL_MESSAGES, JSON_WORDS, is_json=True),
        Target("request_state", messages.read_state, STATES, (b".", b"="), messages.flipped()),
        Target("cursor", messages.read_cursor, CURSORS, (b"=", b"-", b"_")),
        Target("param_headers", messages.read_param_headers, (MIRRORED_ONE,), (b"x-mcp-header", b"=?base64?", b"?="),
               st.one_of(MIRRORED, CHECKED).map(as_bytes), is_json=True),
        Target("decision", decisions.read_ask, (as_bytes([0, "call_tool_read", CALL["arguments"]]),),
               (b"args_json", b"intent", b"name", b"read", b"write"), ASKS, is_json=True),
        Target("schema", decisions.read_schema, (CHECKED_ONE,), tuple(f'"{key}"'.encode() for key in KEYWORDS),
               CHECKED.map(as_bytes), is_json=True),
        Target("masking", record.read_value, SECRETS, SECRET_WORDS, st.one_of(JSON, DRAWN_SECRETS).map(as_bytes),
        is_json=True),
        Target("config", documents.read_config, CONFIGS, (b"//", b"mcpServers", b"${env:X}", b"${file:/x}",
        *JSON_WORDS),
               is_json=True),
        Target("csv_export", record.read_row, ROWS, (b"=", b"+", b"-", b"@", b"\\t", b"\\r", b"\\u00a0", b"\\uff1d"),
        is_json=True),
        Target("journal", record.read_journal, (record.journal()[0],), (b"\t", b"\n", b'"seq":', b"\x00" * 40, b"{}")),
        Target("registry", registries.read_list, LISTED_SERVERS, (*LISTED_WORDS, *JSON_WORDS), is_json=True),
        Target("client_json", client_files.edit_json, CLIENT_JSON, CLIENT_WORDS),
        Target("client_toml", client_files.edit_toml, CLIENT_TOML, CLIENT_WORDS),
        Target("client_yaml", client_files.edit_yaml, CLIENT_YAML, CLIENT_WORDS),
        Target("descriptions", texts.scan_of_descriptions, DESCRIBED, DESCRIBED_WORDS, is_json=True),
        Target("pins", pins.judge_listings, PINNED, PINNED_WORDS, DRAWN_PINS.map(as_bytes), is_json=True),
        Target("database", record.read_database, EDITS, (), DRAWN_EDITS.map(as_bytes)),
    )
}  # fmt: skip
