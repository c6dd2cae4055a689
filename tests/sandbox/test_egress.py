import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.errors import ConfigError
from ptb_tui.sandbox.egress import Policy, bypasses, danger, literal, normal, rule, split

HOSTS = st.one_of(st.text(max_size=30), st.ip_addresses().map(str), st.from_regex(r"[A-Za-z0-9.\-_\[\]:%x]{1,40}"))


def test_every_spelling_of_loopback_is_loopback() -> None:
    for text in (
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "[::1]",
        "0",
        "0.0.0.0",
        "[::]",
        "127.9.9.9",
    ):
        host = normal(text)
        assert host is not None and danger(literal(host) or ipaddress.ip_address("8.8.8.8")), text
    for text in ("::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::ffff:169.254.169.254"):
        assert danger(ipaddress.ip_address(text)), text


def test_metadata_and_link_local_are_dangers_and_the_rest_is_not() -> None:
    for text in (
        "169.254.169.254",
        "fd00:ec2::254",
        "fe80::1",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
        "ff02::1",
    ):
        assert danger(ipaddress.ip_address(text)), text
    for text in ("8.8.8.8", "10.0.0.1", "192.168.1.1", "2606:4700::1111", "64:ff9b::808:808", "fd12::1"):
        assert not danger(ipaddress.ip_address(text)), text


def test_rules() -> None:
    assert rule("API.Example.org:443").matches("api.example.org", 443)
    assert not rule("api.example.org:443").matches("api.example.org", 80)
    assert not rule("api.example.org:443").matches("evil-api.example.org", 443)
    assert rule("*.example.org").matches("a.b.example.org", 8443)
    assert not rule("*.example.org").matches("example.org", 443)
    assert not rule("*.example.org").matches("badexample.org", 443)
    assert rule("[::1]:80").matches("::1", 80) and rule("::1".join("[]")).matches("::1", 9)
    assert rule("bücher.example").matches("xn--bcher-kva.example", 443)
    for text in (
        "",
        "*",
        "*.",
        "a b",
        "http://x",
        "x:0",
        "x:99999",
        "x:",
        "*.10.0.0.1",
        "a/b",
        "*.*.x",
        "[::1",
        "x:80:80",
    ):
        with pytest.raises(ConfigError):
            rule(text)


def test_only_a_rule_with_the_very_address_opens_loopback() -> None:
    here = ipaddress.ip_address("127.0.0.1")
    named = Policy(allow=(rule("model.example:80"),))
    assert not named.refusal("model.example", 80) and named.reachable("model.example", 80, here)
    exact = Policy(allow=(rule("127.0.0.1:80"),))
    assert not exact.refusal("127.0.0.1", 80) and not exact.reachable("127.0.0.1", 80, here)
    assert exact.refusal("127.0.0.1", 81) and exact.reachable("127.0.0.1", 81, here)
    assert Policy(also=(rule("localhost:80"),)).pinned("localhost", 80, here)
    assert not Policy(also=(rule("localhost:80"),)).pinned("evil.example", 80, here)
    open_ = Policy(also=(rule("127.0.0.1:80"),))
    assert not open_.refusal("example.org", 443) and open_.reachable("127.0.0.1", 81, here)
    assert open_.refusal("metadata.google.internal", 80)


@given(HOSTS)
def test_normal_is_total_and_idempotent(text: str) -> None:
    host = normal(text)
    if host is not None:
        assert host.isascii() and host == host.lower()
        assert normal(f"[{host}]" if ":" in host else host) == host


@given(HOSTS, st.one_of(st.integers(-5, 70000).map(str), st.text(max_size=6)))
def test_split_is_total(host: str, port: str) -> None:
    found = split(f"{host}:{port}")
    assert found is None or 0 < found[1] < 65536


@given(st.ip_addresses())
def test_no_policy_without_rules_reaches_a_danger(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert Policy().reachable("some.example", 80, address) == danger(address)


def test_no_proxy() -> None:
    words = [" .corp.example ", "exact.example", "10.0.0.0/8", ""]
    for host, past in (
        ("a.corp.example", True),
        ("corp.example", True),
        ("acorp.example", False),
        ("exact.example", True),
        ("10.1.2.3", True),
        ("11.1.2.3", False),
    ):
        assert bypasses(words, host) is past, host
    assert bypasses(["*"], "anything") and not bypasses([], "anything")
