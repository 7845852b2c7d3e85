"""
What clients and hosts do with a connection, through every door that carries requests: events that come one by one (SSE), pipelining, keep-alive,
slow and silent ones on both sides, aborts. The rest of cases E: test_clients.py, test_websocket.py, test_cases_bodies.py, test_cases_leaves.py.
"""
import threading

import pytest

from lab.events import wait_until
from lab.exchanges import ABORT, END, connect, exchange, fetch_beside, response, send, socks, trickle, tunnel, until
from lab.oracles import Batch
from lab.world import ORIGIN

HOST = "allowed.test"
WAYS = {"plain": [], "tunnel": tunnel(HOST), "clear": [connect(f"{HOST}:80")], "socks": [socks(HOST, 80)]}
DOORS = tuple(WAYS)
EVENTS = 4
LIMITS = "header_ms=2000,idle_ms=2000,linger_ms=500"  # what is honest in them takes longer on a busy machine
POLICY = f"""policy 1

[profile clients]
allow {HOST}:80,443 GET,POST /** req-body=1m addr={ORIGIN}/32 id=clients
allow wait.wild.test:80 GET /got/** addr={ORIGIN}/32 id=wait
"""


def request(door, path, method="GET", *fields):
    at = f"http://{HOST}" if door == "plain" else ""
    return "\r\n".join([f"{method} {at}{path} HTTP/1.1", f"Host: {HOST}", *fields]) + "\r\n\r\n"


def visits(cases, steps):
    return [exchange(f"{case}/{door}", *WAYS[door], *steps(case, door)) for case in cases for door in DOORS]


class Feed:
    """Sends an event when the client has told of the one before. Whether one was late is known here."""

    def __init__(self, door, chunked):
        self.got = [threading.Event() for _ in range(EVENTS)]
        self.told = 0
        self.chunked = chunked
        self.door = door

    def serve(self, _request, connection):
        how = b"Transfer-Encoding: chunked\r\n\r\n" if self.chunked else b"Connection: close\r\n\r\n"
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + how)
        for number in range(EVENTS):
            event = b"data: %d\n\n" % number
            connection.send(b"%x\r\n%s\r\n" % (len(event), event) if self.chunked else event)
            if not self.got[number].wait(60):
                raise EOFError
            self.told += 1
        if self.chunked:
            connection.send(b"0\r\n\r\n")
        else:
            raise EOFError


@pytest.fixture(scope="module")
def feeds(lab, who):
    lab.clients = lab.write("clients.allow", POLICY)
    feeds = {f"{kind}/{door}": Feed(door, kind == "chunked") for kind in ("chunked", "until-end") for door in DOORS}
    for name, feed in feeds.items():
        lab.origin.on(f"/sse/{name}", feed.serve)
        for number in range(EVENTS):
            def told(_request, connection, event=feed.got[number]):
                event.set()
                connection.send(b"HTTP/1.1 204 No Content\r\n\r\n")
            lab.origin.on(f"/got/{name}/{number}", told)

    def ask(case, door):
        follow = [[until(b"data: %d\n\n" % number), fetch_beside("wait.wild.test", f"/got/{case}/{door}/{number}")] for number in range(EVENTS)]
        return [send(request(door, f"/sse/{case}/{door}", "GET", "Connection: close")), *[step for pair in follow for step in pair], END]

    batch = Batch(lab, visits(["chunked", "until-end"], ask), policy=lab.clients, user=who)
    batch.feeds = feeds
    return batch


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["chunked", "until-end"])
def test_an_event_arrives_before_the_next_is_sent(feeds, kind, door):
    name = f"{kind}/{door}"
    assert feeds.feeds[name].told == EVENTS, "U: each was acknowledged" + feeds.explain(name)
    assert [step.end for step in feeds[name].of("until")] == [None] * EVENTS and feeds[name].last.end == "eof", "C" + feeds.explain(name)
    feeds.assert_allowed(name)


@pytest.fixture(scope="module")
def pipelines(lab, who, feeds):
    def ask(case, door):
        first = "".join(request(door, f"/pipe/{door}/{n}") for n in range(3))
        if case == "allowed":
            return [send(first + request(door, f"/pipe/{door}/3", "GET", "Connection: close")), *[response() for _ in range(4)], END]
        if case == "denied":
            return [send(first + request(door, f"/pipe/{door}/denied", "DELETE") + request(door, f"/pipe/{door}/behind")),
                    *[response() for _ in range(4)], END]
        body = request(door, f"/pipe/{door}/post", "POST", "Content-Length: 5") + "hello"
        return [send(body + request(door, f"/pipe/{door}/last", "GET", "Connection: close")), response(), response(), END]

    return Batch(lab, visits(["allowed", "denied", "body"], ask), policy=lab.clients, user=who)


@pytest.mark.parametrize("door", DOORS)
def test_pipelined_requests_are_judged_and_answered_in_order(pipelines, door):
    seen = [step.body for step in pipelines[f"allowed/{door}"].of("response")]
    assert seen == [f"GET {HOST} /pipe/{door}/{n}\n".encode() for n in range(4)], "C" + pipelines.explain(f"allowed/{door}")
    pipelines.assert_allowed(f"allowed/{door}", 4)
    seen = pipelines[f"body/{door}"].of("response")
    assert [step.body.split()[-1] for step in seen] == [f"/pipe/{door}/post".encode(), f"/pipe/{door}/last".encode()]
    assert [r.body for r in pipelines.requests if r.target == f"/pipe/{door}/post"] == [b"hello"], "U"


@pytest.mark.parametrize("door", DOORS)
def test_behind_a_denied_request_nothing_is_answered(pipelines, door):
    name = f"denied/{door}"
    assert [step.status for step in pipelines[name].of("response")] == [200, 200, 200, 403], "C" + pipelines.explain(name)
    pipelines.assert_ended(name)
    assert b"HTTP/1.1" not in pipelines[name].last.data, "C: nothing behind it" + pipelines.explain(name)
    pipelines.assert_bytes_absent(f"/pipe/{door}/denied".encode(), f"/pipe/{door}/behind".encode())
    pipelines.assert_denied_once(name, {"deny.method"}, total=4)


SLOW = {  # statuses, reason
    "slow-head": ({408}, "deny.limit"),
    "slow-body": ({408}, "deny.limit"),
    "silent-host": ({504}, "error.timeout"),
    "half-an-answer": ({200}, "error.timeout"),
}


@pytest.fixture(scope="module")
def slow(lab, who, feeds):
    over = threading.Event()

    def silent(_request, _connection):
        over.wait(60)  # the proxy gives up long before
        raise EOFError

    def halves(_request, connection):
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        silent(None, None)

    for door in DOORS:
        lab.origin.on(f"/silent-host/{door}", silent)
        lab.origin.on(f"/half-an-answer/{door}", halves)

    def ask(case, door):
        if case == "slow-head":  # progress does not put the deadline off
            return [send(request(door, f"/{case}/{door}")[:-2]), trickle("X-A: b\r\n"), response(), END]
        if case == "slow-body":
            return [send(request(door, f"/{case}/{door}", "POST", "Content-Length: 5") + "he"), response(), END]
        return [send(request(door, f"/{case}/{door}")), response(), END]

    batch = Batch(lab, [
        *visits(SLOW, ask),
        exchange("idle", connect(f"{HOST}:80"), send(request("clear", "/idle")), response(), END),
    ], policy=lab.clients, user=who, env={"ECLUSA_LIMITS": LIMITS}, threads=20)
    over.set()
    return batch


@pytest.fixture(scope="module")
def openings(lab, who, feeds):
    return Batch(lab, [
        exchange("slow-hello", connect(f"{HOST}:443"), trickle(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300)), END),
        exchange("slow-method", connect(f"{HOST}:80"), trickle("G"), END),
        exchange("slow-connect", trickle("CONNECT allowed.test:443 HTTP/1.1\r\nX: "), response(), END),
    ], policy=lab.clients, user=who, env={"ECLUSA_LIMITS": "header_ms=1000,handshake_ms=1000"})


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", SLOW)
def test_H01_slow_peers_meet_their_deadlines(slow, case, door):
    name = f"{case}/{door}"
    statuses, reason = SLOW[case]
    slow.assert_status(name, statuses)
    slow.assert_ended(name)
    event, = slow.events(name)
    assert event["status_code"] == reason, "L" + slow.explain(name)
    if case in ("slow-head", "slow-body"):
        assert not any(r.target == f"/{name}" and r.body for r in slow.requests), "U: no whole request"


@pytest.mark.parametrize("case,reasons", [("slow-hello", {"deny.not-tls", "deny.limit"}), ("slow-method", {"deny.not-tls"}),
                                          ("slow-connect", {"deny.limit"})])
def test_H01_slow_openings_meet_their_deadlines(openings, case, reasons):
    openings.assert_ended(case)
    openings.assert_no_connection()
    openings.assert_denied_once(case, reasons)


def test_H01_an_idle_connection_ends_in_order(slow):
    slow.assert_status("idle", 200)
    assert slow["idle"].last.end == "eof", "C" + slow.explain("idle")
    slow.assert_allowed("idle")


@pytest.fixture(scope="module")
def aborts(lab, who, feeds):
    ended = {}

    def floods(request_, connection):
        try:
            connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
            while True:
                connection.send(bytes(65536))
        except OSError:
            ended[request_.target].set()
            raise

    for door in DOORS:
        ended[f"/flood/{door}"] = threading.Event()
        lab.origin.on(f"/flood/{door}", floods)
        lab.origin.on_head(f"/half/{door}", lambda _request, connection: connection.send(b"HTTP/1.1 103 Early Hints\r\n\r\n"))

    def ask(case, door):
        if case == "flood":
            return [send(request(door, f"/flood/{door}")), until(b"\r\n\r\n"), ABORT]
        return [send(request(door, f"/{case}/{door}", "POST", "Content-Length: 1000") + "half"), until(b"\r\n\r\n"), ABORT]

    batch = Batch(lab, visits(["flood", "half"], ask), policy=lab.clients, user=who)
    batch.ended = ended
    wait_until(lambda: all(not c.open for c in batch.connections), "the origin's connections end")
    return batch


@pytest.mark.parametrize("door", DOORS)
def test_an_abort_of_the_client_is_one_towards_the_host(aborts, door):
    assert aborts.ended[f"/flood/{door}"].wait(10), "U: the host was not told" + aborts.explain(f"flood/{door}")
    event, = aborts.events(f"flood/{door}")
    assert event["traffic"]["bytes_in"] < 100_000_000 and "client" in event["status_detail"], "L" + aborts.explain(f"flood/{door}")
    event, = aborts.events(f"half/{door}")
    assert "client" in event["status_detail"], "L" + aborts.explain(f"half/{door}")
    assert not any(r.target == f"/half/{door}" and r.body for r in aborts.requests), "U: no whole request"
