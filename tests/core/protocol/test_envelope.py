"""Our reading of a modern request against the SDK's: same outcome, same code, same data. Only the words are ours."""

from __future__ import annotations

from typing import Any

import mcp_types as sdk_types
import mcp_types.jsonrpc as sdk_codes
import mcp_types.version as sdk_versions
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound as sdk
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from mcpproxy_py.core.protocol import constants
from mcpproxy_py.core.protocol import headers as names
from mcpproxy_py.core.protocol.constants import EnvelopeRejection
from mcpproxy_py.core.protocol.envelope import Envelope, classify, unsupported
from mcpproxy_py.core.protocol.headers import encode_header_value

PAIR = {constants.PROTOCOL_VERSION: constants.LATEST_MODERN, constants.CLIENT_CAPABILITIES: {}}
KEYS = (constants.PROTOCOL_VERSION, constants.CLIENT_INFO, constants.CLIENT_CAPABILITIES)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
values = st.recursive(
    scalars, lambda held: st.lists(held, max_size=2) | st.dictionaries(st.text(max_size=3), held, max_size=2)
)
versions = st.sampled_from([*constants.MODERN, *constants.HANDSHAKE, "", "2099-01-01"]) | values
methods = st.sampled_from(["tools/call", "prompts/get", "resources/read", "tools/list", "x"])
texts = st.sampled_from(["name", " blank ", "é", "=?base64?eA==?=", ""]) | st.text(max_size=6)
metas = (
    st.fixed_dictionaries({constants.PROTOCOL_VERSION: versions, constants.CLIENT_CAPABILITIES: values})
    | st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, versions))
    | values
)
params = (
    st.fixed_dictionaries({"_meta": metas}, optional={"name": texts | values, "uri": texts | values})
    | st.fixed_dictionaries({}, optional={"_meta": metas, "name": texts})
    | values
)
bodies = st.fixed_dictionaries({"params": params}, optional={"method": methods | values}) | st.fixed_dictionaries({})


def outcome(ours: Envelope | EnvelopeRejection) -> tuple[Any, ...]:
    return (ours.code, ours.data) if isinstance(ours, EnvelopeRejection) else tuple(ours)


def sdk_outcome(theirs: sdk.InboundModernRoute | sdk.InboundLadderRejection) -> tuple[Any, ...]:
    if isinstance(theirs, sdk.InboundLadderRejection):
        return theirs.code, theirs.data
    return theirs.protocol_version, theirs.client_info, theirs.client_capabilities


def honest_headers(body: dict[str, Any]) -> dict[str, str]:
    """What a client that means well sends with this body, as far as it has a meaning."""
    held = body.get("params")
    said = held if isinstance(held, dict) else {}
    meta = said.get("_meta")
    version = meta.get(constants.PROTOCOL_VERSION) if isinstance(meta, dict) else None
    name = said.get(names.NAMED_BY.get(str(body.get("method")), ""))
    found = {names.PROTOCOL_VERSION: version, names.METHOD: body.get("method")}
    if isinstance(name, str):
        found[names.NAME] = encode_header_value(name)
    return {key: value for key, value in found.items() if isinstance(value, str)}


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, str] | None]:
    """A body with its own headers, with one of them gone or wrong, or with none at all."""
    body = draw(bodies)
    if draw(st.booleans()):
        return body, None
    honest = honest_headers(body)
    for key in draw(st.lists(st.sampled_from(sorted(names.ROUTING)), max_size=1)):
        wrong = draw(st.none() | texts)
        honest = {name: value for name, value in honest.items() if name != key} | ({key: wrong} if wrong else {})
    return body, honest


@given(requests())
def test_every_request_is_read_as_the_sdk_reads_it(request: tuple[dict[str, Any], dict[str, str] | None]) -> None:
    body, headers = request
    try:
        theirs = sdk.classify_inbound_request(body, headers=headers)
    except ValueError:  # base64 that is not even ASCII is an exception in the SDK
        assert outcome(classify(body, headers)) == (constants.HEADER_MISMATCH, None)
    else:
        assert repr(outcome(classify(body, headers))) == repr(sdk_outcome(theirs))  # NaN is not equal to itself


@given(st.text() | st.sampled_from(constants.MODERN))
def test_a_revision_alone_is_judged_as_the_sdk_judges_it(version: str) -> None:
    ours, theirs = unsupported(version), sdk.unsupported_protocol_version_rejection(version)
    assert (ours and (ours.code, ours.data)) == (theirs and (theirs.code, theirs.data))


def call(**meta: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": "echo", "_meta": {**PAIR, **meta}}}


HONEST = honest_headers(call())


def test_a_valid_request_says_who_sent_it() -> None:
    found = classify(call(**{constants.CLIENT_INFO: {"name": "it"}}), HONEST)
    assert found == Envelope(constants.LATEST_MODERN, {"name": "it"}, {})


@pytest.mark.parametrize("body", [{}, {"params": []}, {"params": {}}, {"params": {"_meta": 1}}])
def test_a_request_without_an_envelope_is_told_what_belongs_in_it(body: dict[str, Any]) -> None:
    found = classify(body, HONEST)
    assert isinstance(found, EnvelopeRejection) and found.code == constants.INVALID_PARAMS
    assert constants.PROTOCOL_VERSION in found.message and constants.CLIENT_CAPABILITIES in found.message


@pytest.mark.parametrize("gone", PAIR)
def test_an_incomplete_envelope_is_told_what_it_lacks(gone: str) -> None:
    found = classify({"params": {"_meta": {key: value for key, value in PAIR.items() if key != gone}}})
    assert isinstance(found, EnvelopeRejection) and found.code == constants.INVALID_PARAMS
    assert [key for key in PAIR if key in found.message] == [gone]


@pytest.mark.parametrize("header", HONEST)
@pytest.mark.parametrize("said", [None, "other", "=?base64?bad?=", "=?base64?é?="])
def test_a_header_that_is_missing_or_says_something_else_is_named(header: str, said: str | None) -> None:
    headers = {name: value for name, value in {**HONEST, header: said}.items() if value is not None}
    found = classify(call(), headers)
    assert isinstance(found, EnvelopeRejection) and found.code == constants.HEADER_MISMATCH
    assert header in found.message


def test_a_contradiction_is_reported_before_an_unknown_revision() -> None:
    unknown = {constants.PROTOCOL_VERSION: "2099-01-01"}
    assert outcome(classify(call(**unknown), HONEST))[0] == constants.HEADER_MISMATCH
    same = {**HONEST, names.PROTOCOL_VERSION: "2099-01-01"}
    data = {"supported": ["2026-07-28"], "requested": "2099-01-01"}
    assert outcome(classify(call(**unknown), same)) == (constants.UNSUPPORTED_PROTOCOL_VERSION, data)


def test_a_null_revision_is_not_excused_by_a_missing_header() -> None:
    null = call(**{constants.PROTOCOL_VERSION: None})
    assert outcome(classify(null, {names.METHOD: "tools/call", names.NAME: "echo"}))[0] == constants.HEADER_MISMATCH
    assert outcome(classify(null))[0] == constants.INVALID_PARAMS


def test_the_revisions_codes_and_keys_are_those_of_the_sdk() -> None:
    assert constants.HANDSHAKE == sdk_versions.HANDSHAKE_PROTOCOL_VERSIONS
    assert constants.MODERN == sdk_versions.MODERN_PROTOCOL_VERSIONS
    assert constants.LATEST_HANDSHAKE == sdk_versions.LATEST_HANDSHAKE_VERSION
    assert constants.LATEST_MODERN == sdk_versions.LATEST_MODERN_VERSION
    assert constants.HTTP_STATUS == sdk.ERROR_CODE_HTTP_STATUS
    codes = {name: value for name, value in vars(constants).items() if name.isupper() and isinstance(value, int)}
    assert codes == {name: getattr(sdk_codes, name) for name in codes}
    for key in ("PROTOCOL_VERSION", "CLIENT_INFO", "CLIENT_CAPABILITIES", "SERVER_INFO", "LOG_LEVEL"):
        assert getattr(constants, key) == getattr(sdk_types, f"{key}_META_KEY")
    assert constants.SUBSCRIPTION_ID == SUBSCRIPTION_ID_META_KEY
