"""What ends a flow of OAuth."""

from __future__ import annotations


class OAuthRefused(Exception):
    """The flow cannot go on. `error` is the code that an authorization server gave, where it gave one."""

    def __init__(self, message: str, error: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.error = error


class OAuthUnreachable(Exception):
    """A request got no usable answer: a connection that broke, a server that is down. Nothing is lost by it."""


class NoLoginOffered(OAuthRefused):
    """Nothing says where one would log in to this server."""
