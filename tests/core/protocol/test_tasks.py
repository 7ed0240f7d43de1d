"""Ids of tasks that are sealed, and what a server says of a task."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpproxy_py.core.protocol import tasks
from mcpproxy_py.core.protocol.client_channel import NOBODY, NarrowedChannel
from mcpproxy_py.core.protocol.tasks import TaskOrigin, TaskState, seal, state_of, unseal

pytestmark = pytest.mark.proves("SURF-10")
KEY, OTHER = b"k" * 32, b"o" * 32
NOW = 1000.0
TASK = TaskOrigin("works", "t-1", "amber", "ask-1", "build", "write", NOW, NOW + 60, "mark")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
SAID = st.fixed_dictionaries(
    {},
    optional={
        "taskId": st.just("t-1") | JSON, "resultType": st.sampled_from(["complete", "task", "input_required"]) | JSON,
        "status": st.sampled_from(sorted(tasks.OPEN | tasks.ENDED)) | JSON, "result": JSON, "error": JSON,
        "inputRequests": JSON, "pollIntervalMs": JSON, "statusMessage": JSON,
    },
)  # fmt: skip


def test_an_id_is_good_for_its_owner_while_it_lasts_and_by_every_key() -> None:
    handle = seal(TASK, KEY)
    assert unseal(handle, [KEY], "amber", NOW) == TASK
    assert unseal(handle, [OTHER, KEY], "amber", NOW) == TASK
    assert unseal(handle, [OTHER], "amber", NOW) is None
    assert unseal(handle, [KEY], "birch", NOW) is None
    assert unseal(handle, [KEY], "amber", NOW + 60) is None


@given(st.integers(0, 400), st.characters(codec="ascii"))
def test_an_id_that_was_changed_is_none(at: int, letter: str) -> None:
    handle = seal(TASK, KEY)
    at %= len(handle)
    changed = handle[:at] + letter + handle[at + 1 :]
    assert changed == handle or unseal(changed, [KEY], "amber", NOW) is None


@given(JSON | st.text())
def test_what_is_no_id_is_none(said: Any) -> None:
    assert unseal(said, [KEY], "amber", NOW) is None


def test_a_state_of_a_request_is_no_task() -> None:
    """The keys are the same; what is signed says what for."""
    from mcpproxy_py.core.protocol import request_state

    body = urlsafe_b64encode(json.dumps(TASK).encode()).decode().rstrip("=")
    mac = request_state.seal(request_state.RequestState("a", "amber", "d", NOW, "g"), KEY).partition(".")[2]
    assert unseal(f"{body}.{mac}", [KEY], "amber", NOW) is None


@given(SAID)
def test_whatever_a_server_says_is_a_state_in_measure_or_a_problem(said: dict[str, Any]) -> None:
    found = state_of(said, "t-1")
    if isinstance(found, str):
        assert found
        return
    assert isinstance(found, TaskState)
    assert found.status in tasks.OPEN | tasks.ENDED
    assert tasks.SOONEST <= found.wait <= tasks.LATEST
    assert (found.result is not None) == (found.status == "completed")
    assert (found.error is not None) == (found.status == "failed")
    assert found.status == "input_required" or not found.questions
    assert len(found.message) <= tasks.LONGEST_MESSAGE + 16


@given(SAID | st.fixed_dictionaries({"ttlMs": JSON, "taskId": JSON}))
def test_a_task_that_begins_has_a_bounded_id_and_life(begun: dict[str, Any]) -> None:
    found = tasks.id_of(begun)
    assert found is None or 0 < len(found) <= tasks.LONGEST_ID
    assert NOW <= tasks.expires(begun, NOW) <= NOW + tasks.LONGEST_LIFE


def test_a_server_hears_of_tasks_beside_what_else_can_be_served() -> None:
    declared = {"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/ui": {}}}
    said = tasks.with_tasks(NarrowedChannel(NOBODY, declared)).capabilities
    assert said["elicitation"] == {"form": {}}
    assert said["extensions"] == {"io.modelcontextprotocol/ui": {}, tasks.TASKS: {}}
