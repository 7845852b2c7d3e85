"""
A policy that changes under connections whose bytes pass: spliced, of tcp rules, WebSocket; and what rules have counted. What
is denied now is cut before anything that comes later is decided; what is allowed still notices nothing, and counts on.
"""
import ssl

import pytest

from lab.alone import Alone, Client, Held, fetch, policy
from lab.events import wait_until
from lab.passing import PORT, Passing
from lab.world import ORIGIN

OTHER = f"allow allowed.test:80 GET /** addr={ORIGIN}/32 id=other"
RULES = {
    "splice": f"allow spliced.test:443 tls=splice addr={ORIGIN}/32 id=passed up=100k",
    "tcp": f"allow tcp raw.test:{PORT} addr={ORIGIN}/32 id=passed up=100k",
    "websocket": f"allow allowed.test:443 GET /ws addr={ORIGIN}/32 id=passed upgrade=websocket up=100k",
}
NOT_ANYMORE = {  # what denies, and what is in the record
    "splice": ("", "name"), "tcp": ("", "name"), "websocket": ("", "port"),
    "splice-inspected": (f"allow spliced.test:443 GET /** addr={ORIGIN}/32 id=passed", "another way"),
    "tcp-address": (f"allow tcp raw.test:{PORT} addr=203.0.113.99/32 id=passed", "address"),
    "tcp-denied": (RULES["tcp"] + "\ndeny raw.test", "deny"),
    "websocket-upgrade": (f"allow allowed.test:443 GET /ws addr={ORIGIN}/32 id=passed", "WebSocket"),
    "websocket-path": (f"allow allowed.test:443 GET /ws2 addr={ORIGIN}/32 id=passed upgrade=websocket", "path"),
}


def start(lab, machine, kind):
    return Alone(lab, machine, policy(RULES[kind], OTHER))


def sequence(event):
    return event["metadata"]["sequence"]


def is_open_there(lab, servers, kind, mark):
    """Whether the world's side of the connection is."""
    if kind == "tcp":
        return servers.connections.since(mark[0])[0].open
    return lab.origin.connections.since(mark[1])[0].open


@pytest.mark.parametrize("case", NOT_ANYMORE)
def test_what_is_denied_now_is_cut(lab, machine, servers, case):
    kind = case.split("-")[0]
    rules, says = NOT_ANYMORE[case]
    alone = start(lab, machine, kind)
    mark = servers.connections.mark(), lab.origin.connections.mark()
    with Passing(lab, alone, kind) as passing:
        passing.echo(b"before")
        alone.load(*rules.split("\n"), OTHER)
        with Client(alone) as later:
            assert later.get_plain("http://allowed.test/later")[0] == 200
        assert passing.client.ended() in ("eof", "reset"), "C"
        wait_until(lambda: not is_open_there(lab, servers, kind, mark), "U: the world's side is gone")
    assert alone.end() == 0
    (revoked,) = alone.events("deny.revoked")
    (after,) = alone.events("allow.rule", "/later")
    assert sequence(revoked) < sequence(after), "L: before anything that was asked later"
    assert "policy has changed" in revoked["status_detail"] and says in revoked["status_detail"], "L"
    assert revoked["traffic"]["bytes_out"] >= len("before"), "L: with what had passed"


@pytest.mark.parametrize("limit", [80_000, 100_000, 150_000], ids=["tighter", "equal", "looser"])
@pytest.mark.parametrize("kind", RULES)
def test_what_is_allowed_still_notices_nothing_and_counts_on(lab, machine, servers, kind, limit):
    """What passed before counts, and the new rule says how much more may."""
    alone = start(lab, machine, kind)
    with Passing(lab, alone, kind) as passing:
        passing.echo(b"u" * 60_000)
        alone.load(RULES[kind].replace("up=100k", f"up={limit // 1000}k"), OTHER, "allow more.test")
        assert passing.client.is_open()
        passing.echo(b"u" * 10_000)
        if kind == "splice":
            passing.client.ask("spliced.test", "/cut", "POST", "Content-Length: 120000\r\n")
        with pytest.raises((EOFError, ConnectionError, ssl.SSLEOFError)):
            passing.client.send(b"u" * 120_000)
            while True:
                passing.client.more()
    assert alone.end() == 0, alone.report()
    assert not alone.events("deny.revoked")
    (cut,) = alone.events("deny.budget")
    assert limit * 0.8 < cut["traffic"]["bytes_out"] <= limit * 1.024, "L"
    assert cut["policy"]["version"] == digest_at_start(alone), "L: the verdict is the one that it began with"


def digest_at_start(alone):
    return alone.events("policy.loaded")[0]["entity"]["uid"]


def test_counters_go_on_over_a_reload_by_the_rules_id(lab, machine):
    """Requests, uses of a life, uses at once: of the same id, whatever else of the rule or the policy has changed."""
    counted = f"allow allowed.test:443 GET /counted addr={ORIGIN}/32 id=counted requests=3"
    once = f"allow allowed.test:443 GET /once addr={ORIGIN}/32 id=once max-uses=1"
    alone = Alone(lab, machine, policy(counted, once, OTHER))
    assert [fetch(alone, "allowed.test", path) for path in ("/counted", "/counted", "/once")] == [200] * 3
    alone.load(counted + " note=changed", once, "allow more.test")
    seen = lab.origin.connections.mark()
    assert [fetch(alone, "allowed.test", path) for path in ("/counted", "/counted", "/once")] == [200, 403, 503], "C"
    assert [r.target for r in lab.origin.requests(seen)] == ["/counted"], "U"
    alone.load(counted.replace("id=counted", "id=renamed"), once)
    assert fetch(alone, "allowed.test", "/counted") == 200, "another id is another rule"
    assert alone.end() == 0
    assert len(alone.events("deny.budget")) == 1 and len(alone.events("deny.quota")) == 1, "L"


def test_uses_at_once_are_given_back_after_a_reload(lab, machine):
    rule = f"allow allowed.test:443 GET /** addr={ORIGIN}/32 id=few conns=1"
    alone = Alone(lab, machine, policy(rule))
    held = Held(lab, "/few", b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nbegin")
    with Client(alone) as client:
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/few")
        assert client.head()[0] == 200
        alone.load(rule, OTHER)
        seen = lab.origin.connections.mark()
        assert fetch(alone, "allowed.test", "/second") == 503, "C"
        assert not lab.origin.requests(seen), "U"
        held.go.set()
        assert client.take(8) == b"beginend"
        alone.wait_event("allow.rule", "/few")
        assert fetch(alone, "allowed.test", "/third") == 200
    assert alone.end() == 0
    assert len(alone.events("deny.limit", "/second")) == 1, "L"
