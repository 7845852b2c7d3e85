"""
Cases C01-C06, C10-C13 and C16: HTTP/1.1 heads and authority. Each is sent as plain absolute-form, inside of an intercepted
tunnel, and inside of one in the clear; no byte of what is refused may reach the origin, and one deny record tells why.
"""
import pytest

from lab.exchanges import END, connect, exchange, response, send, tunnel
from lab.oracles import FRAMING, NAME_DENIED, Batch

DOORS = ("plain", "tunnel", "clear")
INNER = "GET /inner HTTP/1.1\r\nHost: denied.test\r\n\r\n"
CHUNKED = "5\r\nhello\r\n0\r\n\r\n"
HOST_MISMATCH = {"deny.host-mismatch"}


def head(method, path, fields, host="Host: allowed.test"):
    """A request; its target is put into absolute form where the door is plain. @fields: whole lines."""
    lines = [f"{method} {{at}}{path} HTTP/1.1", *([host] if host else []), *fields]
    return "\r\n".join(lines) + "\r\n\r\n"


def post(*fields):
    return head("POST", "/", fields)


# id -> (text with {at} where absolute form has scheme and host, codes, statuses)
REFUSED = {
    "C01-length-then-chunked": (post("Content-Length: 50", "Transfer-Encoding: chunked") + "0\r\n\r\n" + INNER, FRAMING, 400),
    "C01-chunked-then-length": (post("Transfer-Encoding: chunked", "Content-Length: 50") + "0\r\n\r\n" + INNER, FRAMING, 400),
    "C02-two-fields": (post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + CHUNKED, FRAMING, {400, 501}),
    "C04-fold": (head("GET", "/", ["X: a\r\n Transfer-Encoding: chunked"]), FRAMING, 400),
    "C04-fold-by-tab": (head("GET", "/", ["X: a\r\n\tb"]), FRAMING, 400),
    "C04-fold-of-nothing": (head("GET", "/", ["X: a\r\n "]), FRAMING, 400),
    "C04-fold-in-length": (post("Content-Length:\r\n 5") + "hello", FRAMING, 400),
    "C05-space-before-colon": (post("Transfer-Encoding : chunked") + CHUNKED, FRAMING, 400),
    "C05-tab-before-colon": (head("GET", "/", ["Host\t: denied.test"]), FRAMING, 400),
    "C05-first-line-indented": (head("GET", "/", ["Host: allowed.test"], host=" Host: denied.test"), FRAMING, 400),
    "C05-parenthesis-in-name": (head("GET", "/", ["X(: y"]), FRAMING, 400),
    "C05-no-name": (head("GET", "/", [": x"]), FRAMING, 400),
    "C06-bare-lf": ("GET {at}/ HTTP/1.1\nHost: allowed.test\n\n", FRAMING, 400),
    "C06-bare-cr": (head("GET", "/", ["X: a\rTransfer-Encoding: chunked"]), FRAMING, 400),
    "C06-nul": (head("GET", "/", ["X: a\0b"]), FRAMING, 400),
    "C06-lf-in-value": (head("GET", "/", ["X: a\nHost: denied.test"]), FRAMING, 400),
    "C11-two-equal-hosts": (head("GET", "/", ["Host: allowed.test"]), FRAMING | HOST_MISMATCH, 400),
    "C11-two-different-hosts": (head("GET", "/", ["Host: denied.test"]), FRAMING | HOST_MISMATCH, 400),
    "C11-no-host": (head("GET", "/", [], host=None), FRAMING | HOST_MISMATCH, 400),
}
for value in ("chunked,", ",chunked", "chunked, gzip", "gzip, chunked", "xchunked", '"chunked"', "identity", "chunked chunked"):
    REFUSED[f"C02-[{value}]"] = (post(f"Transfer-Encoding: {value}") + CHUNKED, FRAMING | {"deny.protocol"}, {400, 501})
for label, values in {"twice": ("5", "5"), "two-values": ("5", "6"), "list": ("5, 5",), "empty": ("",), "plus": ("+5",),
                      "minus": ("-1",), "hex": ("0x5",), "blank": ("5 5",), "wrap": ("18446744073709551621",),
                      "empty-and-5": ("", "5")}.items():
    REFUSED[f"C03-{label}"] = (post(*[f"Content-Length: {v}" for v in values]) + "hello", FRAMING, 400)
for label, value in {"list": "allowed.test, denied.test", "userinfo": "a@allowed.test", "blank": "allowed.test denied.test"}.items():
    REFUSED[f"C11-{label}"] = (head("GET", "/", [], host=f"Host: {value}"),
                               FRAMING | HOST_MISMATCH | {"deny.name-invalid"}, 400)

# What must pass, and how it must look when it leaves: id -> (text, field, value at the origin, body)
ALLOWED = {
    "C02-case": (post("Transfer-Encoding: Chunked") + CHUNKED, "transfer-encoding", "chunked", b"hello"),
    "C02-trailing-tab": (post("Transfer-Encoding: chunked\t") + CHUNKED, "transfer-encoding", "chunked", b"hello"),
    "C01-twin-chunked": (post("Transfer-Encoding: chunked") + CHUNKED, "transfer-encoding", "chunked", b"hello"),
    "C03-twin-length": (post("Content-Length: 5") + "hello", "content-length", "5", b"hello"),
    "C05-twin": (head("GET", "/", ["X: y"]), "x", "y", b""),
    "C04-twin": (head("GET", "/", ["X: a  b"]), "x", "a  b", b""),
    "C06-twin": (head("GET", "/", ["X: a b"]), "x", "a b", b""),
    "C11-twin-case-and-port": (head("GET", "/", [], host="Host: ALLOWED.test:{port}"), "host", "allowed.test", b""),
}


def through(door, text, *after):
    """The steps that send @text by that door and read what comes."""
    if door == "plain":
        return [send(text.replace("{at}", "http://allowed.test").replace("{port}", "80")), *after]
    way = tunnel("allowed.test") if door == "tunnel" else [connect("allowed.test:80")]
    return [*way, send(text.replace("{at}", "").replace("{port}", "443" if door == "tunnel" else "80")), *after]


@pytest.fixture(scope="module")
def refusals(lab, who):
    return Batch(lab, [exchange(f"{name}/{door}", through(door, text, response(), END))
                       for name, (text, _, _) in REFUSED.items() for door in DOORS], user=who)


@pytest.fixture(scope="module")
def admissions(lab, who):
    def mark(text, name, door):
        return text.replace("{at}/ ", f"{{at}}/{name}/{door} ").replace("\r\n", "\r\nConnection: close\r\n", 1)

    return Batch(lab, [exchange(f"{name}/{door}", through(door, mark(text, name, door), response(), END))
                       for name, (text, *_) in ALLOWED.items() for door in DOORS], user=who)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", REFUSED)
def test_refused(refusals, case, door):
    name = f"{case}/{door}"
    _, codes, statuses = REFUSED[case]
    refusals.assert_status(name, statuses)
    refusals.assert_ended(name)
    refusals.assert_no_request_byte()
    refusals.assert_denied_once(name, codes)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", ALLOWED)
def test_allowed(admissions, case, door):
    name = f"{case}/{door}"
    _, field, value, body = ALLOWED[case]
    admissions.assert_status(name, 200)
    sent = [r for r in admissions.requests if r.target == f"/{case}/{door}"]
    assert len(sent) == 1, "U: one request" + admissions.explain(name)
    assert [v.lower() for v in sent[0].get(field)] == [value] and sent[0].body == body, f"U: {sent[0].raw!r}"
    assert sent[0].host == "allowed.test", "U: the Host that was checked"
    assert len(sent[0].get("content-length")) + len(sent[0].get("transfer-encoding")) <= 1, f"U: {sent[0].raw!r}"
    admissions.assert_allowed(name)
    admissions.assert_canary_silent()


@pytest.fixture(scope="module")
def authorities(lab, who):
    """C03's leading zero, C10-C13: exchanges some of whose requests are served."""
    second = "GET /after HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
    body = "GET http://allowed.test/body HTTP/1.1\r\nHost: x\r\n\r\n"
    return Batch(lab, [
        *[exchange(f"C03-zero/{door}", through(
            door, head("POST", "/C03-zero", ["Content-Length: 05", "Connection: close"]) + "hello", response(), END))
          for door in DOORS],
        exchange("C10-target-allowed", send("GET http://allowed.test/C10-x HTTP/1.1\r\nHost: denied.test\r\n"
                                            "Connection: close\r\n\r\n"), response(), END),
        exchange("C10-target-denied", send("GET http://denied.test/C10-y HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response(), END),
        exchange("C11-port", tunnel("allowed.test"), send("GET /C11-port HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n"), response(), END),
        exchange("C12-origin-form", tunnel("allowed.test"), send("GET /C12-1 HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response(),
                 send("GET /C12-2 HTTP/1.1\r\nHost: denied.test\r\n\r\n"), response(), send(second), END),
        exchange("C12-absolute-form", tunnel("allowed.test"), send("GET /C12-1 HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response(),
                 send("GET http://denied.test/C12-3 HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response(), send(second), END),
        exchange("C12-twin", tunnel("allowed.test"), send("GET /C12-a HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response(),
                 send("GET /C12-b HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response()),
        exchange("C13-post", send("POST http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n"
                                  f"Content-Length: {len(body)}\r\n\r\n{body}"), response(), END),
        exchange("C13-connect", send("CONNECT denied.test:443 HTTP/1.1\r\nHost: denied.test:443\r\n\r\n"
                                     "GET http://allowed.test/C13-pipelined HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response(), END),
    ], user=who)


@pytest.mark.parametrize("door", DOORS)
def test_C03_leading_zero(authorities, door):
    """A choice: accepted and written canonically, or refused; never passed as it is."""
    name = f"C03-zero/{door}"
    if authorities[name].status == 400:
        authorities.assert_bytes_absent(b"C03-zero")
        authorities.assert_denied_once(name, FRAMING)
        return
    authorities.assert_status(name, 200)
    assert {tuple(r.get("content-length")) for r in authorities.requests if r.target == "/C03-zero"} == {("5",)}, "U"
    authorities.assert_allowed(name)


def test_C10_the_target_decides(authorities):
    name = "C10-target-allowed"
    sent = [r for r in authorities.requests if "C10-x" in r.target]
    if authorities[name].status == 200:
        assert [r.host for r in sent] == ["allowed.test"], f"U: {sent}"
        authorities.assert_allowed(name)
    else:
        authorities.assert_status(name, {400, 421})
        assert not sent, "U"
        authorities.assert_denied_once(name, FRAMING | HOST_MISMATCH)
    authorities.assert_bytes_absent(b"denied.test")


def test_C10_reverse_is_denied_by_the_target(authorities):
    authorities.assert_status("C10-target-denied", 403)
    authorities.assert_denied_once("C10-target-denied", NAME_DENIED)
    authorities.assert_bytes_absent(b"C10-y")


def test_C11_another_port_in_a_tunnel(authorities):
    authorities.assert_status("C11-port", {421, 403, 400})
    authorities.assert_ended("C11-port")
    authorities.assert_denied_once("C11-port", HOST_MISMATCH | {"deny.port"} | FRAMING)
    authorities.assert_bytes_absent(b"C11-port")


@pytest.mark.parametrize("case,target", [("C12-origin-form", b"C12-2"), ("C12-absolute-form", b"C12-3")])
def test_C12_second_request_names_another_host(authorities, case, target):
    seen = authorities[case]
    assert [step.status for step in seen.of("response")][0] == 200, authorities.explain(case)
    authorities.assert_status(case, {403, 421, 400})
    authorities.assert_ended(case)
    assert b"HTTP/1.1" not in seen.last.data, "C: something was answered after the refusal" + authorities.explain(case)
    authorities.assert_bytes_absent(target, b"denied.test", b"/after")
    authorities.assert_denied_once(case, HOST_MISMATCH | NAME_DENIED, total=2)


def test_C12_twin_two_requests_for_the_host(authorities):
    assert authorities["C12-twin"].statuses == [200, 200, 200], authorities.explain("C12-twin")
    assert {"/C12-a", "/C12-b"} <= {r.target for r in authorities.requests}
    authorities.assert_allowed("C12-twin", 2)


@pytest.mark.parametrize("case", ["C13-post", "C13-connect"])
def test_C13_what_follows_a_refusal_is_not_a_request(authorities, case):
    seen = authorities[case]
    assert seen.received.count(b"HTTP/1.1 ") == 1, "C: one response" + authorities.explain(case)
    authorities.assert_status(case, 403)
    assert b"connection: close" in seen.received.lower(), authorities.explain(case)
    authorities.assert_ended(case)
    authorities.assert_denied_once(case, NAME_DENIED)
    authorities.assert_bytes_absent(b"/body", b"C13-pipelined")


def test_authorities_never_reach_the_denied_host(authorities):
    assert {r.host for r in authorities.requests} == {"allowed.test"}, "U"
    assert {q.name for q in authorities.questions} == {"allowed.test"}, "U"
    authorities.assert_canary_silent()


BODILESS = {
    "head": ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1488324\r\n\r\n", 200, "1488324"),
    "304": ("GET", b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 5\r\n\r\n", 304, "5"),
    "204": ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", 204, None),
}


@pytest.fixture(scope="module")
def bodiless(lab, who):
    for name, (_, answer, _, _) in BODILESS.items():
        lab.origin.on(f"/C16-{name}", answer)

    def pair(name, method, door):
        at = "http://allowed.test" if door == "plain" else ""
        start = {"plain": [], "tunnel": tunnel("allowed.test"), "clear": [connect("allowed.test:80")]}[door]
        return exchange(f"{name}/{door}", start,
                        send(f"{method} {at}/C16-{name} HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response(method),
                        send(f"GET {at}/C16-{name}-second HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response())

    return Batch(lab, [pair(name, method, door) for name, (method, *_) in BODILESS.items() for door in DOORS], user=who)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", BODILESS)
def test_C16_bodiless_responses(bodiless, case, door):
    _, _, status, length = BODILESS[case]
    name = f"{case}/{door}"
    first, second = bodiless[name].of("response")[:2]
    assert (first.status, second.status) == (status, 200), "C" + bodiless.explain(name)
    assert f"GET allowed.test /C16-{case}-second".encode() in second.body, "C: the right second response" + bodiless.explain(name)
    assert first.ms < 20_000 and second.ms < 20_000, "C: it waited for a body" + bodiless.explain(name)
    if length:
        assert f"content-length: {length}".encode() in first.data.lower(), "C: length unchanged" + bodiless.explain(name)
    events = bodiless.assert_allowed(name, 2)
    assert sorted(e["http_response"]["code"] for e in events) == sorted([status, 200]), "L" + bodiless.explain(name)
    assert [r.target for r in bodiless.requests].count(f"/C16-{case}-second") == len(DOORS), "U: once a door"
    bodiless.assert_canary_silent()
