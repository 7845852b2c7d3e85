"""Connections to hosts between two requests: who gets one again, who does not, and how long it waits. TLS sessions that are resumed."""
import ssl
import threading

import pytest

from lab.alone import Alone, Client, allow, policy
from lab.events import wait_until
from lab.origin import answer
from lab.raw_server import RawServers
from lab.world import ORIGIN

SECURE = 8443  # of a server that resumes sessions
LIMITS = "leave_ms=500,pool_idle_ms=60000,pool_fresh_ms=60000,pool_lend_ms=1"
RULES = policy(allow("allowed.test:80,443 GET,POST /** req-body=1m id=allowed"), allow("*.wild.test GET,POST /** req-body=1m id=wild"),
               "allow twice.test GET /public/** id=public", allow("twice.test GET /opened/** id=opened"),
               allow(f"resumed.test:{SECURE} GET /** id=resumed"), allow(f"resumed.wild.test:{SECURE} GET /** id=other"))


@pytest.fixture(scope="module")
def alone(lab, machine):
    lab.dns.zone["twice.test"] = [ORIGIN]
    made = Alone(lab, machine, RULES, env={"ECLUSA_LIMITS": LIMITS})
    yield made
    made.end()


class World:
    """What the origin and the name server saw since now."""

    def __init__(self, lab):
        self.lab, self.mark, self.asked = lab, lab.origin.connections.mark(), lab.dns.log.mark()

    @property
    def connections(self):
        return self.lab.origin.connections.since(self.mark)

    @property
    def targets(self):
        return [[request.target for request in connection.requests] for connection in self.connections]

    def targets_of(self, host):
        return [[request.target for request in c.requests] for c in self.connections if c.sni == host]

    @property
    def questions(self):
        return self.lab.dns.log.since(self.asked)


def get(alone, host, path):
    """In a tunnel of its own. @return status"""
    with Client(alone) as client:
        return client.tunnel(host).get(host, path)[0]


def reused(alone, path):
    """What the log says of the one request for it."""
    event, = alone.wait_event("allow.rule", path)
    return event["unmapped"]["eclusa"].get("upstream_reused", False)


def test_a_tunnel_uses_the_connection_of_one_before(lab, alone):
    world = World(lab)
    assert [get(alone, "a.wild.test", f"/after/{n}") for n in range(3)] == [200] * 3
    assert world.targets == [["/after/0", "/after/1", "/after/2"]]
    assert [reused(alone, f"/after/{n}") for n in range(3)] == [False, True, True]
    assert len(world.questions) == 2, "A and AAAA, once"
    tls = [e["tls"]["certificate"]["subject"] for e in alone.events(path="/after/0") + alone.events(path="/after/2")]
    assert tls == ["CN=a.wild.test"] * 2, "the identity that was checked when it was made"


def test_a_tunnel_that_rests_lends_its_connection(lab, alone):
    world = World(lab)
    with Client(alone) as rests, Client(alone) as asks:
        assert rests.tunnel("b.wild.test").get("b.wild.test", "/lends/1")[0] == 200
        assert get(alone, "m.wild.test", "/while") == 200  # takes longer than a millisecond
        assert asks.tunnel("b.wild.test").get("b.wild.test", "/lends/2")[0] == 200
        assert world.targets_of("b.wild.test") == [["/lends/1", "/lends/2"]]
        assert get(alone, "m.wild.test", "/while") == 200
        assert rests.get("b.wild.test", "/lends/3")[0] == 200, "it borrows it back"
    assert world.targets_of("b.wild.test") == [["/lends/1", "/lends/2", "/lends/3"]]


def test_a_tunnel_at_work_keeps_its_connection(lab, machine):
    """It has rested for less than pool_lend_ms."""
    other = Alone(lab, machine, RULES, env={"ECLUSA_LIMITS": "leave_ms=500,pool_lend_ms=60000"})
    world = World(lab)
    with Client(other) as works:
        assert works.tunnel("l.wild.test").get("l.wild.test", "/keeps/1")[0] == 200
        assert get(other, "l.wild.test", "/other") == 200
        assert works.get("l.wild.test", "/keeps/2")[0] == 200
    assert world.targets == [["/keeps/1", "/keeps/2"], ["/other"]]
    other.end()


def test_two_at_once_have_one_each(lab, alone):
    world, arrived, go = World(lab), threading.Event(), threading.Event()

    def hold(_request, connection):
        arrived.set()
        go.wait(60)
        connection.send(answer("200 OK", b"late"))

    lab.origin.on("/held", hold)
    with Client(alone) as first:
        first.tunnel("c.wild.test").ask("c.wild.test", "/held")
        assert arrived.wait(60)
        assert get(alone, "c.wild.test", "/beside") == 200
        go.set()
        assert first.answer()[0] == 200
    assert sorted(world.targets) == [["/beside"], ["/held"]]


def test_another_host_port_or_scheme_is_another_connection(lab, alone):
    world = World(lab)
    assert get(alone, "d.wild.test", "/other/1") == 200
    assert get(alone, "e.wild.test", "/other/2") == 200  # the same address
    assert get(alone, "allowed.test", "/other/3") == 200
    with Client(alone) as client:
        assert client.get_plain("http://allowed.test/other/4")[0] == 200
        assert client.get_plain("http://allowed.test/other/5")[0] == 200
    assert world.targets == [["/other/1"], ["/other/2"], ["/other/3"], ["/other/4", "/other/5"]]
    assert [c.sni for c in world.connections] == ["d.wild.test", "e.wild.test", "allowed.test", None]


def test_the_guard_is_asked_again(lab, alone):
    """The connection stands, and the rule of this request does not open its address."""
    world = World(lab)
    assert get(alone, "twice.test", "/opened/1") == 200
    assert get(alone, "twice.test", "/public/1") == 403  # C
    assert get(alone, "twice.test", "/opened/2") == 200
    assert world.targets[0] == ["/opened/1", "/opened/2"] and "/public/1" not in sum(world.targets, [])  # U
    event, = alone.wait_event("deny.address-private", "/public/1")  # L
    assert event["action_id"] == 2


def test_the_guard_is_asked_for_the_rule_that_takes_it(lab, alone):
    """A tunnel whose connection was lent asks for something, by a rule that does not open the address of the one that it could have."""
    world = World(lab)
    with Client(alone) as first, Client(alone) as second:
        assert first.tunnel("twice.test").get("twice.test", "/opened/3")[0] == 200
        assert get(alone, "m.wild.test", "/while") == 200  # takes longer than a millisecond
        assert second.tunnel("twice.test").get("twice.test", "/opened/4")[0] == 200
        assert get(alone, "m.wild.test", "/while") == 200
        assert first.get("twice.test", "/public/2")[0] == 403  # C
    assert "/public/2" not in sum(world.targets, [])  # U
    assert alone.wait_event("deny.address-private", "/public/2")[0]["action_id"] == 2  # L


def close_after(lab, path):
    """The origin answers, and ends the connection without a word of that."""
    def act(_request, connection):
        connection.send(answer("200 OK", b"bye"))
        raise EOFError
    lab.origin.on(path, act)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_one_that_the_host_ended_is_not_used(lab, alone, method):
    world = World(lab)
    close_after(lab, "/last")
    host = f"last-{method.lower()}.wild.test"
    with Client(alone) as client:
        client.tunnel(host)
        assert client.get(host, "/last")[0] == 200
        wait_until(lambda: not world.connections[-1].open, "the origin ends it")
        client.ask(host, f"/next/{method}", method, "Content-Length: 0\r\n" if method == "POST" else "")
        assert client.answer()[0] == 200
    assert world.targets[-1] == [f"/next/{method}"] and not reused(alone, f"/next/{method}")


@pytest.mark.parametrize("method, status, seen", [("GET", 200, 2), ("POST", 502, 1)])
def test_only_what_may_be_repeated_is_sent_again(lab, alone, method, status, seen):
    """The host ends the connection as the next request comes: nobody knows what it did with it."""
    world, path = World(lab), f"/vanish/{method}"

    def act(_request, connection):
        if len(connection.requests) > 1:
            raise EOFError
        connection.send(answer("200 OK", b"here"))

    lab.origin.on(path, act)
    host = f"vanish-{method.lower()}.wild.test"
    with Client(alone) as client:
        client.tunnel(host)
        assert client.get(host, "/first")[0] == 200
        client.ask(host, path, method, "Content-Length: 0\r\n" if method == "POST" else "")
        assert client.answer()[0] == status
    assert sum(world.targets, []).count(path) == seen
    code = "allow.rule" if status == 200 else "error.upstream"
    assert len(alone.wait_event(code, path)) == 1, "one request, one record"


def test_what_may_not_be_repeated_takes_no_connection_that_has_waited(lab, machine):
    other = Alone(lab, machine, RULES, env={"ECLUSA_LIMITS": "leave_ms=500,pool_fresh_ms=1"})
    world = World(lab)
    with Client(other) as client:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/fresh/1")[0] == 200
        assert get(other, "f.wild.test", "/while") == 200  # takes longer than a millisecond
        assert client.get("allowed.test", "/fresh/2")[0] == 200
        assert get(other, "f.wild.test", "/while") == 200
        client.ask("allowed.test", "/fresh/3", "POST", "Content-Length: 0\r\n")
        assert client.answer()[0] == 200
    fresh = [t for t in world.targets if "/while" not in t]
    assert fresh == [["/fresh/1", "/fresh/2"], ["/fresh/3"]]
    other.end()


def test_they_wait_only_so_long_and_only_so_many(lab, machine):
    other = Alone(lab, machine, RULES, env={"ECLUSA_LIMITS": "leave_ms=500,pool_connections=2,pool_idle_ms=200"})
    world = World(lab)
    assert get(other, "g.wild.test", "/") == 200
    wait_until(lambda: not world.connections[0].open, "one that has waited for 200 ms is closed")
    other.end()
    other = Alone(lab, machine, RULES, env={"ECLUSA_LIMITS": "leave_ms=500,pool_connections=2"})
    world = World(lab)
    assert [get(other, f"{name}.wild.test", "/") for name in "hij"] == [200] * 3
    wait_until(lambda: not world.connections[0].open, "the third closes the first")
    assert [c.open for c in world.connections] == [False, True, True]
    other.end()


class Resuming:
    """A TLS server on SECURE that gives tickets, and takes them: of TLS 1.2 or 1.3. One request a connection."""

    def __init__(self, lab, version, names):
        self.reused, self.lab = [], lab
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = self.context.maximum_version = version
        lab.certificates.context("resumed.test")
        self.context.load_cert_chain(lab.certificates.paths["resumed.test"])
        for name in names:
            lab.dns.zone[name] = [ORIGIN]
        self.servers = RawServers(lab.world, {SECURE: self.serve})

    def serve(self, connection):
        with self.context.wrap_socket(connection.sock, server_side=True) as tls:
            self.reused.append(tls.session_reused)
            head = b""
            while b"\r\n\r\n" not in head and (data := tls.recv(65536)):
                head += data
            tls.sendall(answer("200 OK", b"x", ("Connection: close",)))


def get_at(alone, host):
    with Client(alone) as client:
        inside = client.tunnel(host, SECURE)
        inside.ask(f"{host}:{SECURE}", "/resumed")
        return inside.answer()[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_sessions_are_resumed_with_the_same_host(lab, machine, version):
    other = Alone(lab, machine, RULES)
    server = Resuming(lab, version, ["resumed.test", "resumed.wild.test"])
    try:
        assert [get_at(other, "resumed.test") for _ in range(3)] == [200] * 3
        assert server.reused == [False, True, True]
        assert get_at(other, "resumed.wild.test") == 502, "its certificate is for another name, and no ticket hides that"
        assert server.reused[3:] in ([], [False]), "the ticket of one host is not offered to another"
        events = other.wait_event("allow.rule", "/resumed", 3)
        assert {e["tls"]["certificate"]["subject"] for e in events} == {"CN=resumed.test"}
        assert len(other.wait_event("deny.upstream-cert")) == 1
    finally:
        server.servers.close()
        other.end()


def test_tickets_have_an_age(lab, machine):
    other = Alone(lab, machine, RULES, env={"ECLUSA_LIMITS": "leave_ms=500,ticket_ms=1"})
    server = Resuming(lab, ssl.TLSVersion.TLSv1_3, ["resumed.test"])
    try:
        assert [get_at(other, "resumed.test") for _ in range(2)] == [200] * 2
        assert server.reused == [False, False]
    finally:
        server.servers.close()
        other.end()


def test_connections_without_a_tunnel_end_with_the_policy(lab, machine):
    other = Alone(lab, machine, RULES)
    world = World(lab)
    assert get(other, "k.wild.test", "/") == 200
    assert world.connections[0].open
    other.load(*RULES.splitlines()[3:], "deny k.wild.test ANY /** id=gone")
    wait_until(lambda: not world.connections[0].open, "nobody may use it anymore")
    assert get_status(other, "k.wild.test") == 403
    assert len(world.connections) == 1
    other.end()


def get_status(alone, host):
    """Of a CONNECT that is refused."""
    with Client(alone) as client:
        return client.tunnel(host)
