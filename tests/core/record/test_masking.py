"""Secrets never reach the record, and what is no secret stays readable (ACT-9)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from mcpproxy_py.core.record.masking import PLAIN, Masker, capped, mask_text
from mcpproxy_py.gateway.masker import MASKER, suspicious

pytestmark = pytest.mark.proves("ACT-9")

# Made up here, piece by piece, so that no scanner takes this file for a leak.
BODY = "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJ" + "zdWIiOiIxMjM0In0" + "." + "SflKxwRJSMeKKF2QT4"
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow" + BODY + "\n" + BODY + "\n-----END RSA " + "PRIVATE KEY-----"
SHAPES = {
    "github-token": "ghp_" + BODY,
    "gitlab-token": "glpat-" + BODY[:20],
    "slack-token": "xoxb-" + "123456789012-" + BODY[:24],
    "stripe-key": "sk_live_" + BODY[:24],
    "openai-key": "sk-proj-" + BODY,
    "anthropic-key": "sk-ant-api03-" + BODY,
    "google-key": "AIza" + BODY[:35],
    "aws-key": "AKIA" + "IOSFODNN7EXAMPLE",
    "jwt": JWT,
    "private-key": PEM,
    "card": "4111 1111 1111 1111",
    "mcpproxy-key": "mcpk_" + BODY + "abcdefg",
    "registry-token": "npm_" + BODY,
}
OWN = ["mcpk_", "mcpt_", "mcpp_", "mcpa_"]


@pytest.mark.parametrize("begin", OWN)
def test_every_secret_of_our_own_is_known_by_how_it_begins(begin: str) -> None:
    assert mask(f"it is {begin}{BODY}abcdefg.") == "it is ***mcpproxy-key***."


def mask(value: Any) -> Any:
    """What a gateway does, which has to be what the rules alone do, however quick its first look is."""
    shown = MASKER.mask(value)
    assert repr(shown) == repr(PLAIN.mask(value))
    return shown


def redacted(value: Any, limit: int) -> tuple[Any, int]:
    text, size = MASKER.payload(value, limit)
    return json.loads(text), size


SENSITIVE_KEYS = [
    "authorization", "Proxy-Authorization", "api_key", "apiKey", "X-API-Key", "API-KEY", "token", "access_token",
    "refreshToken", "GITHUB_TOKEN", "bot-token", "password", "Passwd", "db_password", "newPassword", "passphrase",
    "secret", "client_secret", "private_key", "privateKey", "ssh-key", "cookie", "Set-Cookie", "cookies", "credentials",
    "aws_secret_access_key", "secretKey", "cvv", "card_number", "pwd", "auth", "JSESSIONID",
]  # fmt: skip
HARMLESS: list[Any] = [
    {"max_tokens": 100, "tokens_per_second": 41.5, "completion_tokens": 7, "total_tokens": "many"},
    {"next_page_token": "CAUQAA", "pageToken": "abc", "progressToken": 7, "continuation_token": "x1"},
    {"id": "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "sha": "9fceb02d0ae598e95dc970b74767f19372d61af8"},
    {"at": 1700000000000, "us": 1700000000000000, "iso": "2024-05-05T10:00:00.123456Z", "ns": 1700000000000000000},
    {"session_id": "f81d4fae7dec11d0a76500a0c91e6bf6", "keyboard": "us", "monkey": "george", "author": "ann"},
    {"text": "Basic JavaScript and basic authentication for the bearer of good news"},
    {"url": "https://example.com:8443/path?page=2&sort=key", "mail": "ann@example.com", "git": "git@github.com:a/b"},
    {"order": "4111111111111112", "digest": "sha256:" + "4111111111111111" * 4, "float": 0.4111111111111111},
    {"name": "sk-learn-a-long-kebab-name-for-a-package", "path": "task-sk-flow"},
    {"required": ["x"], "token": None, "password": False, "secret": ""},
    {"big": 10**40, "list": [1, [2, [3]]], "nothing": None, "yes": True},
]


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize(
    "around", ["{}", "see {} there", "line one\n{}\nline three", '{{"note": "{}"}}', "x" * 500 + " {} " + "y" * 500]
)
def test_a_secret_is_found_by_its_looks_wherever_it_stands(kind: str, around: str) -> None:
    secret = SHAPES[kind]
    shown = mask({"a": [around.format(secret)]})["a"][0]
    assert shown == around.format(f"***{kind}***")


@pytest.mark.parametrize("key", SENSITIVE_KEYS)
def test_whatever_stands_under_a_key_that_names_a_secret_is_masked(key: str) -> None:
    value = {key: "hunter2", "nested": [{key: {"value": "hunter2", "more": ["hunter2", 12345]}}], "kept": "visible"}
    text = json.dumps(mask(value))
    assert "hunter2" not in text
    assert "12345" not in text
    assert "visible" in text
    assert key in text


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: next(iter(value)))
def test_what_is_no_secret_stays(value: Any) -> None:
    assert mask(value) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abc123def456", "Authorization: Bearer ***bearer***"),
        ("authorization: Basic dXNlcjpwYXNzd29yZA==", "authorization: Basic ***basic***"),
        ("Authorization: opaque-thing-9", "Authorization: ***authorization***"),
        ("postgres://ann:s3cr3t@db:5432/x", "postgres://ann:***password***@db:5432/x"),
        ("postgres://ann:p@ss@db/x", "postgres://ann:***password***@db/x"),
        ("https://x/?api_key=abcdef123&page=2", "https://x/?api_key=***secret***&page=2"),
        ("https://x/?a=1&sig=abcdef123", "https://x/?a=1&sig=***secret***"),
        ("Server=db;Password=hunter2;Port=1", "Server=db;Password=***secret***;Port=1"),
        ('{"password": "two words", "n": 1}', '{"password": "***secret***", "n": 1}'),
        (r"{\"api_key\": \"abc def\", \"n\": 1}", r"{\"api_key\": \"***secret***\", \"n\": 1}"),
        ("curl --token abcdef -v", "curl --token ***secret*** -v"),
        ("export DB_PASSWORD='a b c'", "export DB_PASSWORD='***secret***'"),
        ("Amex 3782 822463 10005.", "Amex ***card***."),
        ("-----BEGIN " + "PRIVATE KEY-----\nMIIcut off", "***private-key***"),
        ("max_tokens: 100, tokens=5", "max_tokens: 100, tokens=5"),
    ],
)
def test_secrets_inside_text_are_masked_and_the_text_around_them_stays(text: str, expected: str) -> None:
    assert mask_text(text) == expected
    assert mask([text]) == [expected]


def test_a_card_number_written_as_a_number_is_masked() -> None:
    assert mask({"n": 4111111111111111, "m": 4111111111111112}) == {"n": "***card***", "m": 4111111111111112}


def test_a_secret_used_as_a_key_is_masked_too() -> None:
    assert mask({"seen": {SHAPES["github-token"]: 1}}) == {"seen": {"***github-token***": 1}}


def test_masking_leaves_its_argument_alone() -> None:
    value = {"password": "hunter2", "list": [SHAPES["jwt"]]}
    before = json.dumps(value)
    mask(value)
    assert json.dumps(value) == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.sampled_from([*SHAPES.values(), "Bearer a1b2c3d4e5"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(SENSITIVE_KEYS) | st.text(max_size=9), inner),
    max_leaves=12,
)  # fmt: skip


@given(json_values)
def test_masking_is_total_and_masking_twice_changes_nothing_more(value: Any) -> None:
    once = mask(value)
    assert to_json(mask(once), inf_nan_mode="strings") == to_json(once, inf_nan_mode="strings")


@given(st.text(), st.sampled_from(sorted(SHAPES)), st.text())
def test_no_text_around_a_secret_makes_the_quick_check_miss_it(before: str, kind: str, after: str) -> None:
    assert suspicious(f"{before} {SHAPES[kind]} {after}")


PIECES = st.sampled_from([
    *SENSITIVE_KEYS, *SHAPES.values(), "password", "Bearer", "Basic", "curl -u ", "--user ", "--token ", "sshpass -p ",
    "login ", " -p ", "://", "@", "ann:", "?sig=", "&code=", "#", "=", ": ", ":", " => ", " := ",
    '"', "'", "\\", "\n", "\t",
    " ", ",", ";", "<", ">", "</", "value=", " is ", " now ", "Set-Cookie: a=", "Hunter2!xyz", "a1b2c3d4e5f6",
    "AKIA", "eyJ", "sk-", "_", "-", ".", "x", "9", "{", "}", "[", "]", "(", ")", "é", "密码", "\u00a0", BODY,
])  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join), st.lists(PIECES, max_size=3).map("".join))
def test_the_quick_first_look_misses_nothing_that_the_rules_find(text: str, key: str) -> None:
    for value in (text, {key: text}, [key, text, key], {"name": key, "value": text}, {"header": key, "value": [text]}):
        mask(value)


@pytest.mark.parametrize("key", SENSITIVE_KEYS)
def test_the_quick_check_sees_every_key_that_names_a_secret(key: str) -> None:
    assert suspicious(json.dumps({key: "x"}))


def deep(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


NASTY = {
    "not a number": {"x": math.nan, "y": [math.inf, -math.inf]},
    "lone surrogates": {"\ud800": "a\udfffb"},
    "depth": deep(5000),
    "middle depth": deep(300),
    "keys that are no text": {2: "a", None: "b", True: "c", 1.5: "d", (1, 2): "e"},
    "giant integers": [10**5000, 2**70],
    "bytes": {"raw": b"\xff\x00ab"},
    "a set": {"s": {1}},
    "an object": {"o": object()},
    "NUL": {"a\0": "b\0c"},
    "a secret beside them": {"x": math.nan, "password": "hunter2"},
}


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("limit", [20, 100_000])
def test_whatever_comes_in_what_goes_out_can_be_written_and_read_back(name: str, limit: int) -> None:
    for safe, size in (
        capped(NASTY[name], limit),
        capped(PLAIN.mask(NASTY[name]), limit),
        redacted(NASTY[name], limit),
    ):
        assert from_json(to_json(safe, inf_nan_mode="strings")) is not None
        assert size > 0
    assert "hunter2" not in MASKER.payload(NASTY[name], limit)[0].decode()


def test_a_value_within_the_limit_is_kept_whole_with_its_size_in_bytes() -> None:
    assert capped({"a": "é"}, 10) == ({"a": "é"}, 10)


def test_a_value_over_the_limit_becomes_a_preview_and_keeps_its_size() -> None:
    shown, size = capped({"a": "é" * 100}, 50)
    assert size == len('{"a":""}') + 200
    assert shown == {"truncated": True, "preview": '{"a":"' + "é" * 19}


@pytest.mark.parametrize("position", range(30, 90))
def test_no_piece_of_a_secret_shows_at_the_cut_of_a_preview(position: int) -> None:
    secret = SHAPES["github-token"]
    shown, _ = redacted({"pad": "." * position, "x": secret, "rest": "." * 5000}, 200)
    assert secret[:12] not in shown["preview"]
    shown, _ = redacted({"pad": "." * position, "password": "correct horse battery", "rest": "." * 5000}, 200)
    assert "corr" not in shown["preview"]


def test_a_huge_value_is_masked_only_as_far_as_it_shows() -> None:
    shown, size = redacted({"password": "hunter2", "data": "x" * 5_000_000}, 1000)
    assert size == 5_000_032
    assert shown["preview"].startswith('{"password":"***password***","data":"xxx')
    assert len(shown["preview"]) == 500


@given(json_values, st.integers(min_value=2, max_value=400))
def test_capping_is_total(value: Any, limit: int) -> None:
    for safe, size in (capped(value, limit), redacted(value, limit)):
        from_json(to_json(safe, inf_nan_mode="strings"))
        assert size >= 1


@pytest.mark.proves("ACT-9")
@pytest.mark.parametrize("masker", [MASKER, PLAIN])
@pytest.mark.parametrize("half", ["\ud800", "\udfff"])
def test_half_of_a_surrogate_pair_hides_no_secret(masker: Masker, half: str) -> None:
    """The quick look at a text finds nothing in what is no valid Unicode, so it must never be asked about that."""
    text = f"connect with password=correct-horse {half}"
    for shown in (masker.mask_text(text), str(masker.mask(text)), str(masker.mask({"note": text, half: text}))):
        assert "correct-horse" not in shown
    assert b"correct-horse" not in masker.payload_text({"note": [text]}, 1000)[0]
