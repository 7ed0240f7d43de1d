"""A client that cannot be asked calls something destructive, and a person says yes elsewhere (SEC-10)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Running, gateway, python_server, until
from tests.support.wire import HANDSHAKE, MODERN, Wire, text

pytestmark = pytest.mark.proves("SEC-10")

ERAS = pytest.mark.parametrize("era", [MODERN, HANDSHAKE])


def configuration(path: Path, **extra: Any) -> dict[str, Any]:
    return {
        "mcpServers": {"notes": python_server("plain.py", "--log", str(path / "calls"), confirm="destructive")},
        **extra,
    }


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("confirmations")
    with gateway(path / "data", configuration(path)) as found:
        yield found


def params(word: str, reason: str = "the user wants it gone") -> dict[str, Any]:
    intent = {"operation_type": "destructive", "reason": reason}
    args = {"name": "notes:delete_note", "args": {"text": word}, "intent": intent}
    return {"name": "call_tool_destructive", "arguments": args}


@contextmanager
def calling(running: Running, word: str, era: str = MODERN, **options: Any) -> Iterator[Future[dict[str, Any]]]:
    """Somebody who calls it, and waits."""
    with ThreadPoolExecutor(1) as pool:
        peer = Wire(running.mcp, era, **options)
        yield pool.submit(peer.request, "tools/call", params(word))


def waiting(running: Running, word: str) -> dict[str, Any]:
    """The call with this word, once it waits."""

    def found() -> dict[str, Any] | None:
        rows = running.get("/confirmations", status="waiting")["confirmations"]
        return next((row for row in rows if word in json.dumps(row["arguments"])), None)

    return until(found, what=f"the call {word} to wait")


def decide(running: Running, row: dict[str, Any], step: str, **said: Any) -> Any:
    body = {"arguments_sha256": row["arguments_sha256"], **said}
    return running.post(f"/confirmations/{row['id']}/{step}", body)


def reached(running: Running, word: str) -> int:
    calls = running.data_dir.parent / "calls"
    return calls.read_text().count(word) if calls.exists() else 0


def recorded(running: Running, call_id: str) -> dict[str, Any]:
    running.catch_up()
    return running.get(f"/activity/{call_id}")


@ERAS
def test_a_persons_yes_lets_it_run_and_the_record_says_who_and_how(running: Running, era: str) -> None:
    word = f"yes-{era}"
    with calling(running, word, era) as call:
        row = waiting(running, word)
        assert (row["tool"], row["operation"], row["server"]) == ("notes:delete_note", "destructive", "notes")
        assert row["reason"] == "the user wants it gone" and row["client"]["name"] == "test-client"
        assert not call.done() and reached(running, word) == 0
        answer = decide(running, row, "approve", name="ann", notes="go on", terminal=True)
        assert answer.status_code == 200, answer.text
        assert not call.result(60).get("isError")
    assert reached(running, word) == 1
    seen = running.get(f"/confirmations/{row['id']}")
    assert (seen["status"], seen["decided_by"]) == (
        "approved", {"principal": "admin", "name": "ann", "source": "api", "terminal": True},
    )  # fmt: skip
    record = recorded(running, row["activity_id"])
    assert record["status"] == "success"
    assert record["metadata"]["confirmed"]["by"]["name"] == "ann", record["metadata"]
    (done,) = [each for each in running.activities(type="approval") if row["id"] in json.dumps(each["arguments"])]
    assert (done["tool"], done["principal"], done["arguments"]["name"]) == ("approve_call", "admin", "ann")


@ERAS
def test_a_no_refuses_it(running: Running, era: str) -> None:
    word = f"no-{era}"
    with calling(running, word, era) as call:
        row = waiting(running, word)
        assert decide(running, row, "deny", notes="not on a Friday").status_code == 200
        result = call.result(60)
    assert result["isError"] and "a person said no: not on a Friday" in text(result)
    assert reached(running, word) == 0
    assert recorded(running, row["activity_id"])["error"]["code"] == "NOT_CONFIRMED"
