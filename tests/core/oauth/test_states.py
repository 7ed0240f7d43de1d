"""What moves a login, and what cannot."""

from __future__ import annotations

import pytest

from mcpproxy_py.core.oauth.states import EVENTS, MOVES, STATES, LoginProgress

pytestmark = pytest.mark.proves("UP-9")


def test_every_state_is_in_the_table_and_leads_to_states_by_events() -> None:
    assert set(MOVES) == set(STATES)
    for moves in MOVES.values():
        assert set(moves) <= set(EVENTS)
        assert set(moves.values()) <= set(STATES)
    assert {event for moves in MOVES.values() for event in moves} == set(EVENTS)


@pytest.mark.parametrize("state", STATES)
def test_every_state_can_be_reached_and_left(state: str) -> None:
    reached, found = {"no_token"}, {"no_token"}
    while found:
        found = {to for each in found for to in MOVES[each].values()} - reached  # type: ignore[index]
        reached |= found
    assert state in reached
    assert "no_token" in MOVES[state].values() or state == "no_token"  # type: ignore[index]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", EVENTS)
def test_what_is_not_in_the_table_does_not_happen(state: str, event: str) -> None:
    progress = LoginProgress()
    progress.state = state  # type: ignore[assignment]
    if (to := MOVES[state].get(event)) is not None:  # type: ignore[index, call-overload]
        progress.on(event)  # type: ignore[arg-type]
        assert progress.state == to
    else:
        with pytest.raises(ValueError, match=f"{event} in the state {state}"):
            progress.on(event)  # type: ignore[arg-type]
        assert progress.state == state


def test_there_is_no_token_without_an_exchange_a_refresh_or_somebody_elses_login() -> None:
    to_valid = {(state, event) for state, moves in MOVES.items() for event, to in moves.items() if to == "valid"}
    assert {event for _, event in to_valid} == {"granted", "kept"}
    assert "granted" not in MOVES["waiting"]
    assert "granted" not in MOVES["discovering"]
