import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptb_tui.core.errors import ConfigError
from ptb_tui.sandbox.egress import Upstream
from ptb_tui.sandbox.proxying import Bad, parse, site_proxies, upstream


def head(first: str, *fields: str) -> bytes:
    return "\r\n".join((first, *fields, "", "")).encode("latin-1")


def test_connect() -> None:
    found = parse(head("CONNECT API.example.org:443 HTTP/1.1", "Host: whatever", "Proxy-Authorization: Basic x"))
    assert (found.host, found.port, found.tunnel) == ("api.example.org", 443, True)
    assert parse(head("CONNECT [::1]:80 HTTP/1.1")).authority == "[::1]:80"


def test_a_plain_request_is_written_anew() -> None:
    found = parse(
        head(
            "GET http://Example.org/a?b=c#d HTTP/1.1",
            "Host: other.example",
            "Accept: */*",
            "Connection: keep-alive, X-Hop",
            "X-Hop: 1",
            "Proxy-Authorization: Basic x",
        )
    )
    assert found.forwarded(None) == (
        b"GET /a?b=c HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
    through = found.forwarded(Upstream("p", 1, False, "Basic y"))
    assert (
        through.startswith(b"GET http://example.org/a?b=c HTTP/1.1\r\n") and b"Proxy-Authorization: Basic y" in through
    )
    assert parse(head("GET http://example.org:8080?x HTTP/1.1")).forwarded(None).startswith(b"GET /?x HTTP/1.1\r\n")


def test_the_length_of_a_body_is_known_or_not() -> None:
    first = "POST http://a.example/ HTTP/1.1"
    assert parse(head(first)).length == 0
    assert parse(head(first, "Content-Length: 12")).length == 12
    assert parse(head(first, "Content-Length: 12", "content-length: 13")).length is None
    assert parse(head(first, "Content-Length: +1")).length is None
    assert parse(head(first, "Transfer-Encoding: chunked", "Content-Length: 1")).length is None
    kept = parse(head(first, "Connection: content-length", "Content-Length: 3")).forwarded(None)
    assert b"Content-Length: 3" in kept


@pytest.mark.parametrize(
    "raw",
    [
        head("GET / HTTP/1.1"),
        head("GET https://a.example/ HTTP/1.1"),
        head("GET http://u:p@a.example/ HTTP/1.1"),
        head("GET http:///x HTTP/1.1"),
        head("CONNECT a.example HTTP/1.1"),
        head("CONNECT a.example:443 HTTP/2"),
        head("connect a.example:443 HTTP/1.1"),
        head("CONNECT  a.example:443 HTTP/1.1"),
        head("CONNECT a.example:443 HTTP/1.1", " folded: x"),
        head("CONNECT a.example:443 HTTP/1.1", "no colon"),
        head("GET http://a.example/ HTTP/1.1", "X: a\nHost: b"),
        head("GET http://a.example/ HTTP/1.1", "X : a"),
        head("GET http://a.example/\n HTTP/1.1"),
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\r\n\r\n",
    ],
)
def test_what_is_not_understood_is_refused(raw: bytes) -> None:
    with pytest.raises(Bad):
        parse(raw)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=60).map(
            lambda text: head(f"GET http://{text} HTTP/1.1"[:90].encode("ascii", "replace").decode())
        ),
    )
)
def test_parse_is_total(raw: bytes) -> None:
    try:
        found = parse(raw + b"\r\n\r\n")
    except Bad:
        return
    written = found.forwarded(None) if not found.tunnel else found.connect_words(Upstream("p", 1, False, ""))
    assert written.endswith(b"\r\n\r\n") and b"\n" not in written.replace(b"\r\n", b"")
    assert written.count(b"\r\n\r\n") == 1


def test_the_sites_proxy() -> None:
    assert upstream("http://user:p%40ss@Proxy.example:3128/") == Upstream(
        "proxy.example", 3128, False, "Basic dXNlcjpwQHNz"
    )
    assert upstream("proxy.example").port == 80 and upstream("https://proxy.example").tls
    for url in ("socks5://x:1", "http://", "http://x:99999"):
        with pytest.raises(ConfigError):
            upstream(url)
    secure, plain, past = site_proxies({"https_proxy": "http://a.example:1", "NO_PROXY": "x,.y"})
    assert secure == plain == Upstream("a.example", 1, False, "") and past == ["x", ".y"]
    assert site_proxies({})[:2] == (None, None)
