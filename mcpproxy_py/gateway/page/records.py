"""What is kept of a link to the page and of the session it becomes, and what a browser holds of it."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from mcpproxy_py.core.json_values import quoted
from mcpproxy_py.core.policy.scope import Access
from mcpproxy_py.errors import Code, GatewayError

NEW: Final = "Run `mcpproxy ui` on the machine of the gateway."
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class PageRecord:
    """What is kept. `gateway` made it, with the admin key whose `mark` this is."""

    id: str
    state: Literal["link", "open", "ended"]
    origin: str
    local: bool
    """Whether it opens only for a browser on the machine of the gateway."""
    gateway: str
    mark: str
    began: float
    until: float
    code: str
    cookie: str = ""
    token: str = ""


class KeptPageRecord(NamedTuple):
    name: str
    version: int
    record: PageRecord | None
    """`None` for one that cannot be read or is not believed: its place is free."""


class PageAccess(Access):
    """The admin, in front of the page."""

    __slots__ = ("record",)

    def __init__(self, record: PageRecord) -> None:
        super().__init__("admin")
        self.record = record
        self.ends_with = f"page {record.id}"


class OpenedPage(NamedTuple):
    record: PageRecord
    cookie: str
    token: str


def cookie_name(origin: str) -> str:
    """A cookie does not know ports, so its name does. With TLS, the browser itself sees to that nobody else set it."""
    scheme, host = origin.split("://")
    port = host.rpartition(":")[2] if ":" in host.rpartition("]")[2] else str(DEFAULT_PORTS[scheme])
    return f"{'__Host-' if scheme == 'https' else ''}mcpproxy-ui-{port}"


def shown(record: PageRecord) -> dict[str, Any]:
    return {
        "page": record.id, "address": record.origin, "local_only": record.local, "opened_at": record.began,
        "expires_at": record.until,
    }  # fmt: skip


def ended() -> GatewayError:
    return refused("This session has ended, or never was")


def refused(message: str) -> GatewayError:
    return GatewayError(Code.UNAUTHORIZED, message, details={"remedy": NEW})


def parsed_address(address: str) -> tuple[str, str, str]:
    """The origin, as a browser writes it; the scheme and the host. Raises `GatewayError`."""
    try:
        parts = urlsplit(address.strip())
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
        if scheme not in DEFAULT_PORTS or not host or parts.username is not None or not host.isascii():
            raise ValueError
    except ValueError:
        message = f"'{quoted(address)}' is no address of a page, such as https://gateway.example"
        raise GatewayError(Code.BAD_REQUEST, message) from None
    named = f"[{host}]" if ":" in host else host
    return f"{scheme}://{named}" + ("" if port in (None, DEFAULT_PORTS[scheme]) else f":{port}"), scheme, host


def digest_of(secret: str) -> str:
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def from_json(value: Any) -> PageRecord | None:
    """`None` for what another version wrote."""
    try:
        return PageRecord(**value)
    except TypeError:
        return None
