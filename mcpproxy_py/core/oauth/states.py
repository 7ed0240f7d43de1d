"""The states of one server's login, and the table of what moves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

OAuthState = Literal[
    "no_token", "discovering", "registering", "waiting", "exchanging", "valid", "refreshing", "stepped_up", "refused"
]
OAuthEvent = Literal[
    "begin",  # somebody logs in, or a machine gets its token
    "client_unknown",  # it has to be registered first
    "person_asked",  # everything is known, and a person has to say yes
    "answered",  # the person did, or none is needed
    "granted",  # a token came
    "refresh",  # it runs out, or was not accepted
    "kept",  # the refresh got no answer; what there was stays
    "grant_lost",  # the refresh token is worth nothing any more
    "more_scope",  # the server wants a permission that was not given
    "refused",  # the flow cannot go on
    "given_up",  # nobody waits for it any more
    "logged_out",
]
STATES: Final[tuple[OAuthState, ...]] = get_args(OAuthState)
EVENTS: Final[tuple[OAuthEvent, ...]] = get_args(OAuthEvent)

_ANYWHERE: Final[Mapping[OAuthEvent, OAuthState]] = {"logged_out": "no_token", "refused": "refused"}
_BUSY: Final[Mapping[OAuthEvent, OAuthState]] = {**_ANYWHERE, "given_up": "no_token", "begin": "discovering"}
"""While a login goes on, another one takes its place."""

MOVES: Final[Mapping[OAuthState, Mapping[OAuthEvent, OAuthState]]] = {
    "no_token": {**_ANYWHERE, "begin": "discovering", "granted": "valid"},
    "discovering": {**_BUSY, "client_unknown": "registering", "person_asked": "waiting", "answered": "exchanging"},
    "registering": {**_BUSY, "person_asked": "waiting", "answered": "exchanging"},
    "waiting": {**_BUSY, "answered": "exchanging"},
    "exchanging": {**_BUSY, "granted": "valid"},
    "valid": {
        **_ANYWHERE, "begin": "discovering", "refresh": "refreshing", "grant_lost": "no_token",
        "more_scope": "stepped_up", "granted": "valid",
    },
    "refreshing": {**_ANYWHERE, "granted": "valid", "kept": "valid", "grant_lost": "no_token", "begin": "discovering"},
    "stepped_up": {
        **_ANYWHERE, "begin": "discovering", "refresh": "refreshing", "more_scope": "stepped_up", "granted": "valid",
        "grant_lost": "no_token",
    },
    "refused": {**_ANYWHERE, "begin": "discovering", "granted": "valid"},
}  # fmt: skip
"""What is not in it cannot happen. `granted` comes to those who do nothing themselves when another process has a token;
the token that was there before still works while a step-up waits, so it is refreshed as well."""


class LoginProgress:
    """Where the login of one server is."""

    def __init__(self) -> None:
        self.state: OAuthState = "no_token"

    def on(self, event: OAuthEvent) -> None:
        to = MOVES[self.state].get(event)
        if to is None:
            raise ValueError(f"{event} in the state {self.state}")
        self.state = to
