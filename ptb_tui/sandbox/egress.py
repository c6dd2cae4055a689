"""Which hosts a gateway lets a sandbox reach. Pure: names and addresses in, decisions out.

Three layers, all of which must agree: the host's name against the allow-list (none given: every name); the addresses
it has, of which loopback, link-local and the metadata services of clouds are never reached; and an exception to the
second layer only by a rule that names the very address (or `localhost`) itself.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from ptb_tui.core.errors import ConfigError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*\Z")
_PART = r"(?:0x[0-9a-f]{1,16}|[0-9]{1,16})"
# 127.1, 2130706433, 0x7f.0.0.1: all are addresses to the C library
_NUMBER = re.compile(rf"{_PART}(?:\.{_PART}){{0,3}}\Z")
_METADATA = frozenset(
    ipaddress.ip_address(text) for text in ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")
)
_METADATA_NAMES = (
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def literal(host: str) -> Address | None:
    """The address a text stands for in any spelling the C library takes, without brackets; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    if _NUMBER.match(host):
        try:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):
            return None
    return None


def normal(host: str) -> str | None:
    """One spelling for a host: addresses canonical, names lower-case ASCII without a final dot; None for neither."""
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    host = host.removesuffix(".").lower()
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii").lower()
        except UnicodeError:
            return None
    if "%" in host:  # zones of link-local addresses
        return None
    address = literal(host)
    if address is not None:
        return str(address)
    return host if _NAME.match(host) and not _NUMBER.match(host) else None


def split(authority: str, default: int | None = None) -> tuple[str, int] | None:
    """Host (normal) and port of `host:port` or `[v6]:port`; None when it is neither."""
    if authority.endswith("]") or ":" not in authority:
        name, port = authority, "" if default is None else str(default)
    else:
        name, _, port = authority.rpartition(":")
    if ":" in name and not name.startswith("["):
        return None
    host = normal(name)
    if host is None or not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        return None
    return host, int(port)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an allow-list; `host` beginning with a dot stands for every name below it, `port` None for any."""

    host: str
    port: int | None

    def matches(self, host: str, port: int) -> bool:
        """Whether the rule names this host (in its normal spelling) and port."""
        if self.port not in (None, port):
            return False
        return host == self.host or (self.host.startswith(".") and host.endswith(self.host))


def rule(text: str) -> Rule:
    """Read `host:port`, `host` (any port), `*.host` or `*.host:port`. ConfigError for anything else."""
    below = text.startswith("*.")
    body = text[2:] if below else text
    found: tuple[str, int | None] | None = split(body)
    if found is None:
        host = normal(body) if body.startswith("[") or ":" not in body else None
        found = (host, None) if host else None
    if found is None or (below and literal(found[0]) is not None):
        raise ConfigError(f"{text!r} is no rule for the network; one is like api.example.org:443 or *.example.org")
    return Rule(f".{found[0]}" if below else found[0], found[1])


def danger(address: Address) -> str:
    """Why an address is never reached without its own rule; "" for all others. Wrapped IPv4 is unwrapped."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and int(address) >> 32 == 0 and int(address) > 1:  # the old ::a.b.c.d form
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return danger(inner)
    if address.is_loopback or address.is_unspecified:
        return "the host's loopback"
    if address in _METADATA:
        return "a metadata service"
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast or (address.version == 4 and (address.packed[0] == 0 or address.packed[0] >= 240)):
        return "no address of one host"
    return ""


@dataclass(frozen=True, slots=True)
class Policy:
    """`allow` None lets every name through; `also` are rules that hold besides, for ports of the host's loopback."""

    allow: tuple[Rule, ...] | None = None
    also: tuple[Rule, ...] = ()

    def refusal(self, host: str, port: int) -> str:
        """Why this name is not to be looked up at all; "" when it may be."""
        if any(one.matches(host, port) for one in (*(self.allow or ()), *self.also)):
            return ""
        if self.allow is not None:
            return "not on the allow-list"
        if host in _METADATA_NAMES:
            return "a metadata service"
        return ""

    def reachable(self, host: str, port: int, address: Address) -> str:
        """Why this address of the host is not to be connected to; "" when it may be."""
        reason = danger(address)
        return "" if not reason or self.pinned(host, port, address) else reason

    def pinned(self, host: str, port: int, address: Address) -> bool:
        """Whether a rule names this very address, or the host is `localhost` and a rule says so."""
        named = {str(address)} | ({"localhost"} if host == "localhost" and address.is_loopback else set())
        rules = (*(self.allow or ()), *self.also)
        return any(one.host in named and one.port in (None, port) for one in rules)


@dataclass(frozen=True, slots=True)
class Upstream:
    """A proxy of the site through which the gateway itself must go."""

    host: str
    port: int
    tls: bool
    authorization: str  # value of Proxy-Authorization, secret; "" without


def bypasses(no_proxy: Sequence[str], host: str) -> bool:
    """Whether the host's own NO_PROXY (names, suffixes, networks, `*`) sends this host past the proxy."""
    address = literal(host)
    for word in no_proxy:
        entry = word.strip().lower().removeprefix("*")
        if not entry:
            if word.strip() == "*":
                return True
            continue
        if address is not None:
            try:
                if address in ipaddress.ip_network(entry, strict=False):
                    return True
            except ValueError:
                pass
        elif host == entry.lstrip(".") or host.endswith(f".{entry.lstrip('.')}"):
            return True
    return False
