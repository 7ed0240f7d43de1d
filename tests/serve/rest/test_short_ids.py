"""Short ids over REST: taken wherever an id is, and one that several have decides and erases nothing (USE-6)."""

from __future__ import annotations

import httpx
import pytest

from mcpproxy_py.core.record.short_ids import short_id
from mcpproxy_py.gateway.refusals import unattributed
from tests.serve.parts import House
from tests.serve.rest.test_approvals import filed, listed
from tests.serve.rest.test_rest import call, error_of

pytestmark = [pytest.mark.anyio, pytest.mark.proves("USE-6", "ACT-3")]


async def recorded(http: httpx.AsyncClient, many: int = 1) -> list[str]:
    for _ in range(many):
        await call(http, "notes:read_note", args={"text": "x"})
    return [row["id"] for row in (await http.get("/api/v1/activity")).json()["activities"]]


async def test_a_record_is_shown_and_its_payloads_erased_by_its_short_id(http: httpx.AsyncClient) -> None:
    (whole,) = await recorded(http)
    for typed in (short_id(whole), whole[:18], whole.upper()):
        assert (await http.get(f"/api/v1/activity/{typed}")).json()["id"] == whole
    erased = (await http.delete(f"/api/v1/activity/{short_id(whole)}/payload")).json()
    assert (erased["id"], erased["arguments"]) == (whole, None)


async def test_an_id_that_several_records_have_is_refused_with_these(http: httpx.AsyncClient) -> None:
    ids = await recorded(http, 3)
    for method, path in (("GET", ""), ("DELETE", "/payload")):
        answer = await http.request(method, f"/api/v1/activity/{ids[0][:4]}{path}")
        error = error_of(answer, "BAD_REQUEST")
        assert error["message"] == f"'{ids[0][:4]}' can be 3 ids"
        assert {each["id"] for each in error["details"]["candidates"]} == set(ids)
        assert error["details"]["candidates"][0]["tool"] == "read_note"
    assert all([(await http.get(f"/api/v1/activity/{each}")).json()["arguments"] for each in ids])


async def test_more_candidates_than_can_be_read_are_told_as_many(http: httpx.AsyncClient) -> None:
    ids = await recorded(http, 12)
    error = error_of(await http.get(f"/api/v1/activity/{ids[0][:4]}"), "BAD_REQUEST")
    assert (len(error["details"]["candidates"]), error["details"]["more"]) == (10, True)
    assert "more than 10" in error["message"]


@pytest.mark.parametrize("typed", ["0000", "zzzz", "%25", "a%2525", "ab"])
async def test_what_no_record_has_is_not_found(http: httpx.AsyncClient, typed: str) -> None:
    await recorded(http)
    error_of(await http.get(f"/api/v1/activity/{typed}"), "NOT_FOUND")


async def test_a_request_is_decided_by_its_short_id_and_the_record_has_the_whole_one(
    house: House, http: httpx.AsyncClient
) -> None:
    whole = await filed(http)
    assert (await http.get(f"/api/v1/approvals/{short_id(whole)}")).json()["approval_id"] == whole
    decided = (await http.post(f"/api/v1/approvals/{short_id(whole)}/approve", json={})).json()
    assert (decided["approval_id"], decided["status"]) == (whole, "approved")
    assert house.desk.changes[-1][1]["approval_id"] == whole


@pytest.mark.proves("CAT-7")
@pytest.mark.parametrize("step", ["approve", "deny"])
async def test_an_id_that_several_requests_have_decides_nothing(http: httpx.AsyncClient, step: str) -> None:
    first, second = await filed(http, "notion"), await filed(http, "linear")
    assert first[:8] == second[:8]
    for typed in (first[:8], first[4:8]):
        error = error_of(await http.post(f"/api/v1/approvals/{typed}/{step}", json={}), "BAD_REQUEST")
        assert {each["server"] for each in error["details"]["candidates"]} == {"notion", "linear"}
    assert await listed(http) == [("linear", "pending"), ("notion", "pending")]


async def test_what_servers_want_themselves_can_be_left_out(house: House, http: httpx.AsyncClient) -> None:
    await recorded(http)
    house.gateway.note_refusal(unattributed("notes", "roots/list"), "roots/list", "server", "notes")
    rows = (await http.get("/api/v1/activity")).json()["activities"]
    assert [row["type"] for row in rows] == ["server_request", "tool_call"]
    rest = (await http.get("/api/v1/activity", params={"exclude_type": "server_request"})).json()["activities"]
    assert [row["type"] for row in rest] == ["tool_call"]
    for query, total in (({}, 2), ({"exclude_type": "server_request"}, 1), ({"type": "server_request"}, 1)):
        assert (await http.get("/api/v1/activity/summary", params=query)).json()["total"] == total
    error_of(await http.get("/api/v1/activity", params={"exclude_type": "everything"}), "BAD_REQUEST")
