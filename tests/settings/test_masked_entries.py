"""An entry is shown without its secrets, changed by somebody who never saw them, and keeps them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.settings.masking import MASK, masked_entry, unmasked

pytestmark = pytest.mark.proves("CONF-1", "USE-6")

ENTRY: dict[str, Any] = {
    "command": "x",
    "args": [
        "--api-key",
        "hunter2",
        "--token=hunter2",
        "--port",
        "80",
        "--secret",
        "${env:S}",
        "--password",
        "hunter3",
    ],
    "env": {"A": "hunter2", "B": "${env:B}", "C": "Bearer ${keyring:c}", "D": "x-${env:D}"},
    "timeout": 5,
    "tools": {"t": "read"},
}  # fmt: skip


def test_what_is_shown_has_references_and_no_secrets() -> None:
    shown = masked_entry(ENTRY)
    assert "hunter" not in json.dumps(shown)
    assert shown["env"] == {"A": MASK, "B": "${env:B}", "C": "Bearer ${keyring:c}", "D": MASK}
    assert shown["args"][6] == "${env:S}"
    assert (shown["timeout"], shown["tools"]) == (5, {"t": "read"})


@pytest.mark.parametrize(
    "entry", [{"env": "hunter2"}, {"env": ["hunter2"]}, {"tokn": "hunter2"}, {"args": "hunter2"},
              {"args": {"a": "hunter2"}}, {"headers": {"A": ["hunter2"]}}, {"url": "https://u:hunter2@h/?key=hunter2"}],
)  # fmt: skip
def test_what_is_wrong_in_an_entry_gives_no_secret_away(entry: dict[str, Any]) -> None:
    assert "hunter2" not in json.dumps(masked_entry(entry))


def test_what_was_left_alone_stays_what_it_was() -> None:
    assert unmasked(masked_entry(ENTRY), ENTRY) == ENTRY


def test_arguments_may_move_and_keep_their_secrets() -> None:
    shown = masked_entry(ENTRY)
    shown["args"] = ["--verbose", "--password", MASK, "--token=***"]
    assert unmasked(shown, ENTRY)["args"] == ["--verbose", "--password", "hunter3", "--token=hunter2"]


def test_a_secret_does_not_go_to_another_option() -> None:
    with pytest.raises(ValueError, match=r"args\.1"):
        unmasked({**masked_entry(ENTRY), "args": ["--other", MASK]}, ENTRY)


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"command": "x", "env": {"NEW": MASK}}, "env.NEW"),
        ({"command": "x", "args": ["--x", MASK]}, "args.1"),
        ({"url": "http://h", "headers": {"A": MASK}}, "headers.A"),
    ],
)
def test_a_mask_that_stands_for_nothing_is_refused(changed: dict[str, Any], place: str) -> None:
    with pytest.raises(ValueError, match=place):
        unmasked(changed, ENTRY)


TEXT = st.text(max_size=12)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "command": TEXT,
        "args": st.lists(TEXT | st.sampled_from(["--token", "--token=s", "${env:A}", "-e", "A_KEY=s"]), max_size=5),
        "env": st.dictionaries(TEXT, TEXT | st.just("${env:A}"), max_size=3),
        "headers": st.dictionaries(TEXT, TEXT, max_size=3),
        "url": TEXT | st.just("https://u:p@h/?token=x"),
        "timeout": st.integers(),
    },
)


@given(ENTRIES)
def test_any_entry_comes_back_as_it_was(entry: dict[str, Any]) -> None:
    assert unmasked(masked_entry(entry), entry) == entry
