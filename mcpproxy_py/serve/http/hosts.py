"""Which `Host` and `Origin` headers are ours. Pure: strings in, yes or no out.

A web page of a stranger can reach 127.0.0.1 through a name that it makes resolve there (DNS rebinding),
and any page can post to it blindly. Both give themselves away in these two headers, so both are matched
against a short list and everything else is foreign. Pages that another port of this machine serves are
foreign too: that something else listens there makes it no part of us.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, NamedTuple

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_NAME: Final = r"[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_])?"
_AUTHORITY: Final = re.compile(rf"(?P<host>\[[0-9a-f:.]{{2,45}}\]|{_NAME})(?::(?P<port>[0-9]{{1,5}}))?")
_ORIGIN: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]{0,30})://(?P<authority>[^/?#@\s]+)")


class Authority(NamedTuple):
    """`host[:port]`, lower case, an IPv6 address in its brackets."""

    host: str
    port: str | None


def authority(text: str) -> Authority | None:
    """The parts of a `Host` header, or `None` for what no honest client sends."""
    found = _AUTHORITY.fullmatch(text.lower())
    return Authority(found["host"], found["port"]) if found else None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address of this name. Unknown names count as reachable."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_wildcard_address(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return host == ""


def _bracketed(entry: str) -> str:
    """An IPv6 address as people write it in a list (`::1`), as a header would carry it (`[::1]`)."""
    return f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry


@dataclass(frozen=True, slots=True)
class HostList:
    """Compiled `allowed_hosts`: any port, one port, or every name below a domain."""

    own: frozenset[str]
    """Loopback and the listen address."""
    any_port: frozenset[str]
    with_port: frozenset[Authority]
    below: tuple[str, ...]
    everything: bool

    def named(self, given: Authority) -> bool:
        """Whether an entry means this host. `*` does not: it names nobody."""
        return given.host in self.any_port or self._with_port(given) or self._below(given.host)

    def allows(self, given: Authority) -> bool:
        return self.everything or self.named(given)

    def names(self, given: Authority) -> bool:
        """Whether an entry means this host and no other."""
        return given.host in self.any_port or self._with_port(given)

    def _with_port(self, given: Authority) -> bool:
        """Clients leave a default port out, and behind a TLS proxy we cannot know which one it was."""
        ports = (given.port,) if given.port else tuple(DEFAULT_PORTS.values())
        return any(Authority(given.host, port) in self.with_port for port in ports)

    def _below(self, host: str) -> bool:
        return bool(self.below) and host.endswith(self.below)


def host_list(listen_host: str, entries: Iterable[str]) -> HostList:
    """Loopback and the listen address always; an entry that is not a host allows nothing."""
    own = LOOPBACK if _is_wildcard_address(listen_host) else (*LOOPBACK, _bracketed(listen_host.lower()))
    cleaned = [_bracketed(entry.strip().lower()) for entry in entries]
    parsed = [found for entry in cleaned if (found := authority(entry))]
    return HostList(
        own=frozenset(own),
        any_port=frozenset((*own, *(found.host for found in parsed if found.port is None))),
        with_port=frozenset(found for found in parsed if found.port),
        below=tuple(entry[1:] for entry in cleaned if entry.startswith("*.") and len(entry) > 2),
        everything="*" in cleaned,
    )


@dataclass(frozen=True, slots=True)
class OriginList:
    """Compiled `allowed_origins`, beside pages that this gateway itself served."""

    exact: frozenset[str]
    hosts: HostList
    everything: bool

    def names(self, origin: str) -> bool:
        """Whether an entry names this origin."""
        found = _ORIGIN.fullmatch(origin.lower())
        return found is not None and _without_default_port(found) in self.exact

    def allows(self, origin: str, host: str) -> bool:
        """Of a request with this `Host`. `null` is what sandboxed frames and files send: it names nobody and is never
        allowed."""
        found = _ORIGIN.fullmatch(origin.lower())
        if not found:
            return False
        return self.everything or _without_default_port(found) in self.exact or self._own(found, authority(host))

    def _own(self, found: re.Match[str], addressed: Authority | None) -> bool:
        """At a name of ours, and at the port that was addressed. At a name of `allowed_hosts`, which stands for a proxy
        in front, also at the port that is named there, or at the usual one; that proxy may not pass the `Host` on."""
        given, scheme = authority(found["authority"]), found["scheme"]
        if given is None or scheme not in DEFAULT_PORTS or not self.hosts.named(given):
            return False
        ports = [each.port or DEFAULT_PORTS[scheme] for each in (given, addressed) if each is not None]
        if given.host in self.hosts.own:
            return addressed is not None and addressed.host in self.hosts.own and ports[0] == ports[1]
        if addressed is not None and given.host == addressed.host and ports[0] == ports[1]:
            return True
        return given in self.hosts.with_port or (given.port is None and self.hosts.names(given))


def origin_list(hosts: HostList, entries: Iterable[str]) -> OriginList:
    cleaned = [entry.strip().lower().rstrip("/") for entry in entries]
    matches = [found for entry in cleaned if (found := _ORIGIN.fullmatch(entry))]
    return OriginList(frozenset(map(_without_default_port, matches)), hosts, everything="*" in cleaned)


def _without_default_port(origin: re.Match[str]) -> str:
    """Browsers leave the default port out; people sometimes write it."""
    return origin[0].removesuffix(f":{DEFAULT_PORTS.get(origin['scheme'], '')}")
