"""What a client sends is read once, and what is vouched for then needs no second look."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py import jsonrpc
from mcpproxy_py.core.json_values import flaw
from mcpproxy_py.jsonrpc import BadMessage

pytestmark = pytest.mark.proves("SEC-5")

NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats().map(json.dumps),
    st.tuples(st.integers(0, 99), st.sampled_from(["e", "E", "e+", ".5e", "e-"]), st.integers(0, 999)).map(
        lambda parts: "".join(map(str, parts))
    ),
    st.integers(1, 5000).map(lambda digits: "7" * digits),
    st.integers(1, 500).map(lambda digits: "7" * digits + ".5"),
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=8).map(json.dumps), st.sampled_from(['"\\ud800"', '"\\udc00x"', '"\\ud83d\\ude00"']))
VALUES: st.SearchStrategy[str] = st.recursive(
    NUMBERS | TEXTS | st.sampled_from(["null", "true", "NaN", "Infinity", "-Infinity"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda rows: f"[{','.join(rows)}]"),
        st.dictionaries(TEXTS, inner, max_size=4).map(
            lambda pairs: "{" + ",".join(f"{k}:{v}" for k, v in pairs.items()) + "}"
        ),
        st.tuples(inner, st.integers(1, 90)).map(lambda nested: "[" * nested[1] + nested[0] + "]" * nested[1]),
    ),
    max_leaves=8,
)


def request(value: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"arguments":{value}}}}}'.encode()


@given(VALUES)
def test_what_is_plain_has_no_flaw(value: str) -> None:
    try:
        message, kind, plain = jsonrpc.decode_request(request(value))
    except BadMessage:
        return
    assert kind == "request"
    assert not plain or flaw(message) is None


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ('{"text":"hi","n":-5,"f":1.25,"deep":[[[{"a":null}]]]}', True),
        ('"caf\u00e9 \\ud83d\\ude00"', True),
        ("1e999", False),
        ("-1E999", False),
        ("1.5e+400", False),
        ("7" * 400 + ".5", False),
        ("7" * 4200, False),
        ("NaN", False),
        ("-Infinity", False),
        ('"\\ud800"', False),
        ("[" * 65 + "]" * 65, False),
        ('"' + "x" * jsonrpc.PLAIN_LENGTH + '"', False),
    ],
)
def test_what_needs_another_look_is_not_plain(value: str, plain: bool) -> None:
    assert jsonrpc.decode_request(request(value))[2] is plain


PARTS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.just("2.0"), st.just("x" * 1025), st.text())


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), PARTS))
def test_the_kind_of_a_message_is_the_same_whichever_way_it_is_found(message: dict[str, Any]) -> None:
    text = json.dumps(message).encode()
    try:
        expected: Any = jsonrpc.kind_of(message)
    except BadMessage as error:
        with pytest.raises(BadMessage) as raised:
            jsonrpc.decode_request(text)
        assert (raised.value.message, raised.value.id) == (error.message, error.id)
    else:
        assert jsonrpc.decode_request(text)[1] == expected


@pytest.mark.parametrize(
    ("body", "code", "own_id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b"[" * 100_000, -32700, None),
    ],
)
def test_what_is_no_message_is_refused_with_its_id_where_it_has_one(body: bytes, code: int, own_id: Any) -> None:
    with pytest.raises(BadMessage) as raised:
        jsonrpc.decode_request(body)
    assert (raised.value.code, raised.value.id) == (code, own_id)
