"""Which addresses a server and its metadata may send us to.

A server that anybody can reach must not have us look around in our own network, and none may have us ask the machine
that hands out a cloud's credentials. So each address has a nearness, and nothing leads nearer than the server itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

from mcpproxy_py.core.oauth.errors import OAuthRefused

Nearness = Literal["public", "private", "loopback"]
NEARNESS: Final[tuple[Nearness, ...]] = ("public", "private", "loopback")
Address = IPv4Address | IPv6Address

MAX_URL: Final = 4096
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""IPv4 behind a translator."""
_VISIBLE: Final = re.compile(r"[!-~]+")


def split(url: str, what: str) -> SplitResult:
    """Raises `OAuthRefused` for what is no address for HTTP."""
    try:
        parts = urlsplit(url) if len(url) <= MAX_URL and _VISIBLE.fullmatch(url) else None
        if parts is not None and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise OAuthRefused(f"{what} is no address that can be used: {shown(url)}")


def shown(url: str) -> str:
    """For messages: short, and without a query, which can hold a secret."""
    bare = re.sub(r"[^!-~]", "?", url[:500]).partition("?")[0].partition("#")[0]
    return re.sub(r"(?<=//)[^/@]*@", "", bare)[:200]


def origin(url: str) -> str:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def literal(host: str) -> Address | None:
    """The address that this host is, if it is no name. Zones of IPv6 mean something on this machine only."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _plain(address: Address) -> Address:
    """The IPv4 address that is written as IPv6."""
    if isinstance(address, IPv6Address):
        if address in _TRANSLATED:
            return IPv4Address(int(address) & 0xFFFFFFFF)
        return address.ipv4_mapped or address.sixtofour or address
    return address


def nearness(address: Address) -> Nearness:
    address = _plain(address)
    if address.is_loopback:
        return "loopback"
    return "public" if address.is_global and not address.is_multicast else "private"


def is_never_asked(address: Address) -> bool:
    """Link-local, where clouds keep credentials; and what is no address of one machine."""
    address = _plain(address)
    return address.is_link_local or address.is_multicast or address.is_unspecified


def nearness_of_host(host: str) -> Nearness | None:
    """`None` for a name that has to be looked up."""
    address = literal(host)
    if address is not None:
        return nearness(address)
    return "loopback" if host == "localhost" or host.endswith(".localhost") else None


@dataclass(frozen=True, slots=True)
class AddressRules:
    """For one server, which is as near as `nearest`."""

    server_url: str
    nearest: Nearness

    def check(self, url: str, what: str) -> str:
        """The address, if it may be used. A name is looked at once more when it has an address, by `check_peer`."""
        parts = split(url, what)
        if parts.username is not None or parts.password is not None or parts.fragment:
            raise OAuthRefused(f"{what} holds more than an address: {shown(url)}")
        host = parts.hostname or ""
        near, address = nearness_of_host(host), literal(host)
        if address is not None:
            self.check_peer(address, f"{what} ({shown(url)})")
        elif near is not None and self._is_too_near(near):
            raise OAuthRefused(f"{what} is on this machine, and the server is not: {shown(url)}")
        if parts.scheme == "http" and near != "loopback" and not self.server_url.startswith("http:"):
            raise OAuthRefused(f"{what} is not https: {shown(url)}")
        return url

    def check_peer(self, address: Address, what: str) -> None:
        """Of an address that is about to be talked to."""
        if is_never_asked(address) and address != literal(urlsplit(self.server_url).hostname or ""):
            raise OAuthRefused(f"{what} is at {address}, which is never asked")
        if self._is_too_near(nearness(address)):
            raise OAuthRefused(f"{what} is at {address}, in a network that the server is not in")

    def _is_too_near(self, near: Nearness) -> bool:
        return NEARNESS.index(near) > NEARNESS.index(self.nearest)
