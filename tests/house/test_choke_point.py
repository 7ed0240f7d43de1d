"""One choke point (GATE-14): who may make what is sent, who may have it written, and what stands between the two."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "mcpproxy_py"
PERMITTED = {
    "Permitted": {"gateway/gateway.py", "upstream/permit.py"},
    "PermittedAnswer": {"gateway/gateway.py", "upstream/permit.py"},
}
"""A message that may be sent is made by a permit: the gateway's for its callers, the room's for its own traffic."""
SENDERS = {f"upstream/transports/{name}.py" for name in ("stdio", "http_clients", "sdk_server")}
"""Each kind of connection, handing over how it writes."""

pytestmark = pytest.mark.proves("GATE-14")


@cache
def called_in() -> dict[str, set[str]]:
    """What is called, by name, and in which modules."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                found.setdefault(name, set()).add(path.relative_to(PACKAGE).as_posix())
    return found


def calls(name: str) -> set[str]:
    return called_in()[name]


@pytest.mark.parametrize("name", PERMITTED)
def test_only_permits_make_what_may_be_sent(name: str) -> None:
    assert calls(name) == PERMITTED[name]


def test_only_connections_have_something_written_and_only_by_the_one_function() -> None:
    assert calls("send_now") == SENDERS
    assert calls("compose") == {"upstream/session/rpc.py"}, "a message is made in `send_now` alone"


@pytest.mark.parametrize(
    ("module", "function"),
    [("gateway/gateway.py", "__call__"), ("gateway/gateway.py", "answer"), ("upstream/session/rpc.py", "send_now"),
     ("upstream/session/rpc.py", "compose"), ("upstream/session/server_requests.py", "compose")],
)  # fmt: skip
def test_nothing_is_awaited_between_the_decision_and_the_write(module: str, function: str) -> None:
    tree = ast.parse((PACKAGE / module).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
             and node.name == function]  # fmt: skip
    assert found
    for node in found:
        assert isinstance(node, ast.FunctionDef)
        assert not any(isinstance(inner, ast.Await | ast.AsyncWith | ast.AsyncFor) for inner in ast.walk(node))


def test_the_choke_point_is_readable_on_one_screen() -> None:
    tree = ast.parse((PACKAGE / "gateway/gateway.py").read_text())
    (permit,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "CallPermit"]
    (choke_point,) = [node for node in permit.body if isinstance(node, ast.FunctionDef) and node.name == "__call__"]
    assert choke_point.end_lineno is not None
    assert choke_point.end_lineno - choke_point.lineno < 30


def test_the_gateways_own_traffic_holds_nothing_of_a_clients() -> None:
    """Where a permit of its own is made, and for what: a new place needs a look."""
    assert sorted(calls("OwnPermit")) == [
        "upstream/lists/subscriptions.py", "upstream/session/negotiate.py", "upstream/session/rpc.py",
        "upstream/session/server_requests.py", "upstream/session/session.py", "upstream/supervisor.py",
    ]  # fmt: skip


def test_a_task_is_told_to_end_from_one_place() -> None:
    """It leaves without a decision, as `notifications/cancelled` does, so nothing else may be sent in that way."""
    assert calls("CancelPermit") == {"gateway/tasks/call_tasks.py"}
