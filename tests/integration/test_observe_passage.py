"""
Observe mode where bytes pass: budgets of spliced, tcp and WebSocket connections are told and do not cut, what a deny rule says holds
all the same. Each case has the twin that enforces or denies.
"""
import json

import pytest

from lab.alone import Alone, Client, fetch, policy
from lab.passing import PORT, Passing
from lab.world import ORIGIN, PUBLIC

LIMIT = 20_000
RULES = {
    "splice": f"allow spliced.test:443 tls=splice addr={ORIGIN}/32 id=passed up=20k",
    "tcp": f"allow tcp raw.test:{PORT} addr={ORIGIN}/32 id=passed up=20k",
    "websocket": f"allow allowed.test:443 GET /ws addr={ORIGIN}/32 id=passed upgrade=websocket up=20k",
}


def observing(*rules):
    return policy("set mode observe", *rules)


def ours(event):
    return event["unmapped"]["eclusa"]


def there(lab, servers, kind, mark):
    """Bytes that the world has of the connection; of TLS, those inside."""
    if kind == "tcp":
        return servers.connections.since(mark[0])[0].length
    return sum(len(c.plain) for c in lab.origin.connections.since(mark[1]))


@pytest.mark.parametrize("how", ["rule", "profile", "enforced"])
@pytest.mark.parametrize("kind", RULES)
def test_a_budget_is_told_and_cuts_nothing(lab, machine, servers, kind, how):
    rule = RULES[kind] + (" mode=observe" if how == "rule" else "")
    alone = Alone(lab, machine, observing(rule) if how == "profile" else policy(rule))
    mark = servers.connections.mark(), lab.origin.connections.mark()
    with Passing(lab, alone, kind) as passing:
        if how == "enforced":
            with pytest.raises((EOFError, OSError)):
                passing.echo(b"u" * 60_000)
        else:
            passing.echo(b"u" * 60_000)
            assert there(lab, servers, kind, mark) >= 60_000, "U"
    assert alone.end() == 0, alone.report()
    (event,) = [e for e in alone.events() if e.get("traffic", {}).get("bytes_out", 0) > 10_000]
    if how == "enforced":
        assert there(lab, servers, kind, mark) <= LIMIT * 1.024, "U"
        assert event["status_code"] == "deny.budget", "L"
    else:
        assert (event["status_code"], ours(event)["would"], ours(event)["mode"]) == ("observe.would-deny", "deny.budget", "observe"), "L"
        assert event["traffic"]["bytes_out"] >= 60_000 and not alone.events("deny.budget"), "L"


@pytest.mark.parametrize("kind, deny", [("splice", "deny spliced.test"), ("tcp", f"deny any:{PORT}"), ("tcp", "deny .raw.test"),
                                        ("websocket", "deny allowed.test GET /ws"), ("none", "deny raw.test")])
def test_a_deny_rule_holds_in_a_profile_that_observes(lab, machine, servers, kind, deny):
    rule = [RULES[kind]] if kind in RULES else []
    alone = Alone(lab, machine, observing(*rule, deny))
    mark = servers.connections.mark(), lab.origin.connections.mark()
    asked = lab.dns.log.mark()
    with Client(alone) as client:
        if kind == "websocket":
            client.tunnel("allowed.test")
            client.ask("allowed.test", "/ws")
            status, body = client.answer()
        else:
            host = "spliced.test:443" if kind == "splice" else f"raw.test:{PORT}"
            client.send(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            status, body = client.answer()
            assert not lab.dns.log.since(asked), "U"
    assert status == 403 and json.loads(body)["reason"] == "deny.rule", "C"
    assert alone.end() == 0
    assert not servers.connections.since(mark[0]) and not lab.origin.requests(mark[1]), "U"
    (event,) = alone.events("deny.rule")
    assert event["action"] == "Denied" and "would" not in ours(event), "L"


def test_an_observing_profile_lets_pass_what_no_rule_denies(lab, machine):
    """The twin: paths and hosts beside those that are denied, told as what enforcing would refuse."""
    alone = Alone(lab, machine, observing(f"allow allowed.test GET /in/** addr={ORIGIN}/32", "deny allowed.test ANY /secret/**"))
    mark = lab.origin.connections.mark()
    assert fetch(alone, "allowed.test", "/out") == 200
    assert fetch(alone, "allowed.test", "/secret/x") == 403, "C"
    assert [r.target for r in lab.origin.requests(mark)] == ["/out"], "U"
    assert alone.end() == 0
    assert ours(alone.events("observe.would-deny", "/out")[0])["would"] == "deny.path", "L"
    assert len(alone.events("deny.rule", "/secret/x")) == 1, "L"


def test_framing_is_enforced_where_no_rule_says_tcp(lab, machine, servers):
    """An observing profile passes any name and port, and what follows has to be TLS or HTTP."""
    alone = Alone(lab, machine, observing("allow more.test"))
    lab.dns.zone["public.test"] = [PUBLIC]
    mark = servers.connections.mark()
    with Client(alone) as client:
        client.send(f"CONNECT public.test:{PORT} HTTP/1.1\r\nHost: public.test:{PORT}\r\n\r\n")
        assert client.head()[0] == 200
        client.send(b"SSH-2.0-x\r\n")
        assert client.ended() in ("eof", "reset"), "C"
    assert alone.end() == 0
    assert not any(c.length for c in servers.connections.since(mark)), "U"
    assert len(alone.events("deny.not-tls")) == 1, "L" + alone.report()


def test_addresses_are_enforced_for_what_is_only_observed(lab, machine, servers):
    alone = Alone(lab, machine, observing("allow more.test"))
    mark = servers.connections.mark()
    with Client(alone) as client:
        client.send(f"CONNECT raw.test:{PORT} HTTP/1.1\r\nHost: raw.test:{PORT}\r\n\r\n")
        status, body = client.answer()
        assert status == 403 and json.loads(body)["reason"] == "deny.address-private", "C"
    assert alone.end() == 0
    assert not servers.connections.since(mark), "U"
    assert len(alone.events("deny.address-private")) == 1, "L"
