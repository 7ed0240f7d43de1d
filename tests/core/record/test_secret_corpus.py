"""How well masking does on the corpus that is made from templates, half of which nobody mends it by (ACT-9).

`python -m tests.bench.masking` prints both halves, and each kind of the half to mend by.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from typing import Any

import pytest

from mcpproxy_py.core.late_patterns import LatePattern
from mcpproxy_py.core.record import secret_commands, secret_patterns, secret_places, secret_texts
from mcpproxy_py.core.record.masking import PLAIN
from mcpproxy_py.core.record.masking_budget import A_LOOK, MOST_LOOKED_AT, NOT_SHOWN
from mcpproxy_py.gateway.masker import MASKER
from tests.core.corpus import score
from tests.core.secret_corpus import HALVES, samples

pytestmark = pytest.mark.proves("ACT-9")


def test_the_corpus_is_large_and_its_halves_are_alike() -> None:
    rows = samples()
    assert Counter(row.secret for row in rows)[True] >= 400
    assert Counter(row.secret for row in rows)[False] >= 800
    for half in HALVES:
        mine = [row for row in rows if row.half == half]
        assert 0.4 < len(mine) / len(rows) < 0.6
        assert len({row.kind for row in mine if row.secret}) >= 30


@pytest.mark.parametrize("half", HALVES)
def test_nine_of_ten_secrets_are_found_and_nearly_nothing_else(half: str) -> None:
    found = score([row for row in samples() if row.half == half], MASKER.mask)
    assert found.recall >= 0.9, found
    assert found.precision >= 0.95, found


def test_the_quick_first_look_changes_nothing_about_what_is_found() -> None:
    for row in samples():
        shown = PLAIN.mask(row.value)
        assert MASKER.mask(row.value) == shown, row.kind
        assert json.loads(MASKER.payload(row.value, 100_000)[0]) == shown, row.kind


def test_masking_what_is_masked_changes_nothing_more() -> None:
    for row in samples():
        once = MASKER.mask(row.value)
        assert MASKER.mask(once) == once, row.kind


FEW = 10
"""Times that a repetition may repeat another one: it costs no more than so many times as much."""
SEPARATED = (
    "secret_patterns._STANDS_IN",
    "secret_patterns._IDENTIFIER",
    "secret_patterns._ALGORITHM",
    "secret_places._HEADER",
)
"""Whose repeated parts each begin with what the part before cannot hold."""
SIGNS_OF = [secret_commands, secret_patterns, secret_places, secret_texts]


def patterns() -> dict[str, re.Pattern[str]]:
    """Every pattern of these modules, also inside their tables."""
    found: dict[str, re.Pattern[str]] = {}

    def collect(name: str, value: Any) -> None:
        if isinstance(value, re.Pattern | LatePattern):
            found[name] = value  # type: ignore[assignment]
        elif isinstance(value, (tuple, list)):
            for number, each in enumerate(value):
                collect(f"{name}.{number}", each)
        elif isinstance(value, dict):
            for key, each in value.items():
                collect(f"{name}.{key}", each)

    for module in SIGNS_OF:
        for name, value in vars(module).items():
            collect(f"{module.__name__.rpartition('.')[2]}.{name}", value)
    return found


def unbounded_within(parsed: Any, inside: bool = False) -> bool:
    """Whether a repetition without a bound stands inside a repetition, which is how patterns become slow."""
    constants = re._constants  # type: ignore[attr-defined]
    for operation, argument in parsed:
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            _, most, inner = argument
            endless = most is constants.MAXREPEAT
            if inside and endless:
                return True
            if unbounded_within(inner, inside or most > FEW):
                return True
        elif operation is constants.SUBPATTERN:
            if unbounded_within(argument[-1], inside):
                return True
        elif operation is constants.BRANCH:
            if any(unbounded_within(branch, inside) for branch in argument[1]):
                return True
        elif operation in (constants.ASSERT, constants.ASSERT_NOT) and unbounded_within(argument[1], inside):
            return True
    return False


def test_no_pattern_repeats_without_a_bound_inside_a_repetition() -> None:
    assert unbounded_within(re._parser.parse(r"(?:a+)+"))  # type: ignore[attr-defined]
    found = patterns()
    assert len(found) > 90
    for name in SEPARATED:
        del found[name]
    for name, pattern in found.items():
        assert not unbounded_within(re._parser.parse(pattern.pattern)), name  # type: ignore[attr-defined]


HOSTILE = (
    "password ", "password=", 'password", "', "password: |\n  x\n", "token 1 ", "the key is a1b2c3d4e5f6g7h8 ",
    "mysql -p ", "docker login docker login ", "docker ", "mysql", "curl -u a:", "curl -u ", "name: token\n value: ",
    "a:1:a:a:", "a,password\n", "a:b@c:22", "<key>token</key>", "%3a%2f%2fa%3a", "password%3d", "session=",
    "auth=('a', ", "login(a, ", "eyJhbGciOiJIUzI1", "cGFzc3dvcmQ", "otp otp ", "access code ", 'variable "token" {',
    "identified by ", "password '", "pin 1", "\t", "A" * 31 + "_",
)  # fmt: skip


class Steps:
    """Calls of our own functions, which are what a text of twice the length may double and not square."""

    def __init__(self) -> None:
        self.many = 0

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        self.many += event in ("call", "c_call")


def steps(text: str) -> int:
    counted = Steps()
    sys.setprofile(counted)
    try:
        PLAIN.mask_text(text)
    finally:
        sys.setprofile(None)
    return counted.many


@pytest.mark.parametrize("hostile", HOSTILE)
def test_twice_the_text_is_at_most_about_twice_the_work(hostile: str) -> None:
    short, long = (steps((hostile * (size // len(hostile) + 1))[:size]) for size in (16_384, 32_768))
    assert long <= 2.5 * short + 1000


@pytest.mark.proves("SEC-6")
@pytest.mark.parametrize("text", ["curl -u a:b ", "--token x -p y ", "password: x ", "https://a:b@h/?key=c&"])
@pytest.mark.parametrize("shape", [list, lambda texts: [{"note": each} for each in texts]])
def test_of_one_payload_only_so_much_is_looked_through_and_the_rest_is_not_shown(text: str, shape: Any) -> None:
    secret = "aQ7" + "x9Kd" * 6
    texts = [*([text] * 4_000), f"password={secret}"]
    kept, _ = MASKER.payload_text({"a": shape(texts)}, 1_000_000)
    assert secret.encode() not in kept
    assert NOT_SHOWN.encode() in kept
    looked_at = kept.count(b"***") // 2 - kept.count(NOT_SHOWN.encode())
    assert looked_at <= 4 * MOST_LOOKED_AT / A_LOOK
    again, _ = MASKER.payload_text({"a": text}, 1_000_000)
    assert NOT_SHOWN.encode() not in again, "each payload has its own"
