"""Requests for a capability: only a person decides, decided is final, and asking again gains nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from mcpproxy_py.core.catalog.approval_rules import (
    DEFAULT_LIFE,
    DENIAL_HOLDS,
    HOUR,
    LONGEST_LIFE,
    MAX_NOTES,
    MOST_PENDING,
    STATUSES,
    TRANSITIONS,
    ApprovalDecision,
    ApprovalRequest,
    CapabilityWish,
    NotAccepted,
    Status,
    Submitted,
    decide,
    expired,
    parse_wish,
    retargeted,
    submit,
)
from mcpproxy_py.core.catalog.model import NotAnswered

NOW = 1_800_000_000_000
ASKED = {"agent_id": "self_operator", "mcp_name": "notion", "rationale": "Read the strategy notes"}


def wish(**more: Any) -> CapabilityWish:
    return parse_wish({**ASKED, **more})


def filed(known: list[ApprovalRequest], *, at: int = NOW, principal: str = "p", **more: Any) -> Submitted:
    made = submit(wish(**more), principal, known, new_id=str(len(known)), now_ms=at)
    assert isinstance(made, Submitted), made
    return made


def review(at: int = NOW, **more: Any) -> ApprovalDecision:
    return ApprovalDecision("ada", "cli", True, at, **more)


def decided(request: ApprovalRequest, step: Any, at: int = NOW) -> ApprovalRequest:
    after = decide(request, step, review(at))
    assert isinstance(after, ApprovalRequest), after
    return after


@pytest.mark.proves("CAT-4", "CAT-6")
def test_the_approval_object_has_exactly_the_documented_keys() -> None:
    shown = filed([]).request.as_json()
    assert list(shown) == ["approval_id", "request_type", "requested_by", "target_resource", "rationale", "context",
                           "status", "expires_at_ms", "reviewed_by", "reviewed_at_ms", "review_notes"]  # fmt: skip
    assert shown["approval_id"].startswith("apr_")
    assert shown["request_type"] == "capability_request"
    assert shown["requested_by"] == {"kind": "agent"}
    assert shown["target_resource"] == {"type": "agent", "id": "self_operator"}
    assert (shown["status"], shown["expires_at_ms"]) == ("pending", NOW + DEFAULT_LIFE)
    assert (shown["reviewed_by"], shown["reviewed_at_ms"], shown["review_notes"]) == (None, None, None)
    assert shown["context"]["mcp_name"] == "notion"


@pytest.mark.proves("CAT-7")
def test_a_review_is_part_of_the_object() -> None:
    after = decide(filed([]).request, "deny", review(notes="not this quarter"))
    assert isinstance(after, ApprovalRequest)
    shown = after.as_json()
    assert (shown["status"], shown["reviewed_by"], shown["reviewed_at_ms"], shown["review_notes"]) == (
        "denied", "ada", NOW, "not this quarter"
    )  # fmt: skip


@pytest.mark.proves("CAT-7")
def test_only_pending_requests_can_be_decided() -> None:
    assert set(TRANSITIONS) == {("pending", "approve"), ("pending", "deny"), ("pending", "expire")}
    for status, step in product(STATUSES, ("approve", "deny")):
        request = replace(filed([]).request, status=status)
        after = decide(request, step, review())
        assert isinstance(after, ApprovalRequest) is (status == "pending"), (status, step)


@pytest.mark.proves("CAT-7")
def test_what_expired_stays_expired_whoever_decides_later() -> None:
    request = filed([]).request
    assert expired(request, request.expires_at_ms - 1).status == "pending"
    assert expired(request, request.expires_at_ms).status == "expired"
    late = decide(request, "approve", review(request.expires_at_ms))
    assert isinstance(late, NotAccepted) and "pending" in late.message
    assert expired(decided(request, "approve"), NOW + 10 * LONGEST_LIFE).status == "approved"


@pytest.mark.proves("CAT-6")
def test_asking_again_gives_back_the_pending_request() -> None:
    first = filed([]).request
    again = filed([first], at=NOW + HOUR, agent_id="someone_else", rationale="Please!", requested_tools=["x"])
    assert (again.request, again.fresh) == (first, False)
    assert filed([first], mcp_name=" NOTION ").fresh is False


@pytest.mark.proves("CAT-6")
def test_another_principal_has_requests_of_its_own() -> None:
    first = filed([]).request
    assert filed([first], principal="q").fresh is True


@pytest.mark.proves("CAT-6")
def test_a_denial_holds_for_a_day_and_is_not_evaded_by_other_words() -> None:
    denied = decided(filed([]).request, "deny")
    soon = filed([denied], at=NOW + DENIAL_HOLDS - 1, agent_id="other", rationale="Other reason", requested_tools=["y"])
    assert (soon.request.status, soon.fresh) == ("denied", False)
    assert filed([denied], at=NOW + DENIAL_HOLDS).fresh is True


@pytest.mark.proves("CAT-6")
def test_an_approved_request_is_given_back_while_it_lasts() -> None:
    approved = decided(filed([]).request, "approve")
    assert filed([approved], at=NOW + HOUR).request.status == "approved"
    assert filed([approved], at=NOW + DEFAULT_LIFE).fresh is True


@pytest.mark.proves("CAT-6")
def test_a_flood_under_changing_agent_ids_is_stopped_and_gets_going_again() -> None:
    known = [filed([], mcp_name=f"server-{n}", agent_id=f"agent-{n}").request for n in range(MOST_PENDING)]
    full = submit(wish(agent_id="fresh-face"), "p", known, new_id="x", now_ms=NOW)
    assert isinstance(full, NotAccepted) and str(MOST_PENDING) in full.message
    assert filed(known, principal="q").fresh is True
    assert filed([decided(known[0], "deny"), *known[1:]]).fresh is True
    assert filed(known, at=NOW + DEFAULT_LIFE).fresh is True
    assert filed(known, mcp_name="server-3").fresh is False


@pytest.mark.proves("CAT-6")
@pytest.mark.parametrize("at", [0, -1, NOW - 1, NOW, NOW + LONGEST_LIFE + 1, 32_503_680_000_000, 10**30])
def test_a_life_that_has_passed_or_never_ends_is_refused(at: int) -> None:
    refused = submit(wish(expires_at_ms=at), "p", [], new_id="x", now_ms=NOW)
    assert isinstance(refused, NotAccepted)
    assert "expires_at_ms" in refused.message and len(refused.message) < 200


@pytest.mark.proves("CAT-6")
def test_a_life_within_bounds_is_kept() -> None:
    assert filed([], expires_at_ms=NOW + HOUR).request.expires_at_ms == NOW + HOUR


@pytest.mark.proves("CAT-6")
@pytest.mark.parametrize(
    "wrong",
    [{"rationale": "   "}, {"rationale": ""}, {"agent_id": None}, {"mcp_name": 7}, {"mcp_name": "!!!"},
     {"rationale": "x" * 2001}, {"mcp_name": "x" * 129}, {"rationale": "half \ud800"}, {"context": "text"},
     {"context": {"x": "y" * 1_000_000}}, {"context": {"x": float("nan")}}, {"requested_tools": "search"},
     {"requested_tools": [""]}, {"requested_tools": ["a\nb"]}, {"requested_tools": ["t"] * 51},
     {"expires_at_ms": "soon"}, {"expires_at_ms": True}, {"expires_at_ms": 1.5}],
)  # fmt: skip
def test_every_field_is_bounded_and_says_what_is_wrong(wrong: dict[str, Any]) -> None:
    with pytest.raises(NotAnswered) as refused:
        wish(**wrong)
    assert next(iter(wrong)) in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.proves("CAT-6")
def test_deep_nesting_in_the_context_is_refused_and_no_crash() -> None:
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"x": deep}
    with pytest.raises(NotAnswered, match="context"):
        wish(context=deep)


@pytest.mark.proves("CAT-6")
def test_two_spellings_of_one_server_are_one_subject() -> None:
    by_slug = retargeted(wish(mcp_name="Notion Labs"), "notion", None)
    assert by_slug.subject == wish().subject
    assert retargeted(wish(mcp_name="N.O.T.I.O.N"), None, "notion").subject == wish().subject


@pytest.mark.proves("CAT-7")
def test_notes_are_bounded() -> None:
    assert isinstance(decide(filed([]).request, "deny", review(notes="x" * (MAX_NOTES + 1))), NotAccepted)


def test_every_status_is_one_that_a_step_leads_to_or_begins_with() -> None:
    reached: set[Status] = {"pending", *TRANSITIONS.values()}
    assert reached == set(STATUSES)
