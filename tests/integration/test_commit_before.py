"""
`set commit before`: a decision is on the disk before anything that it lets pass leaves, be it a question for a name; and the event that
something is under way, which other profiles have for what lasts or is large.
"""
import os
import signal

import pytest

from lab.alone import PROFILE, Alone, Client, allow, fetch, policy
from lab.events import DEADLINE, wait_until
from lab.exchanges import END, SHUT, captured, exchange, response, send, socks, tls
from lab.oracles import Batch
from lab.raw_server import RawServers
from lab.world import ORIGIN

STRICT = policy("set commit before", allow("allowed.test:80,443 GET,POST /** req-body=4m"))
PLAIN = policy(allow("allowed.test:80,443 GET,POST /** req-body=4m"))


@pytest.fixture(name="left")
def fixture_left(lab):
    """What has left the machine since: questions for names, connections."""
    marks = lab.origin.connections.mark(), lab.dns.log.mark()
    return lambda: (len(lab.origin.connections.since(marks[0])), len(lab.dns.log.since(marks[1])))


def opens(alone):
    """Method of each event that says that something is under way."""
    return [e["http_request"]["http_method"] for e in alone.events() if e["unmapped"]["eclusa"].get("open")]


def test_nothing_leaves_while_the_recorder_stands_still(lab, machine, who, left):
    alone = Alone(lab, machine, STRICT, user=who)
    recorder = wait_until(lambda: alone.child("eclusa-recorder"), "recorder")
    os.kill(recorder, signal.SIGSTOP)
    with Client(alone) as client, Client(alone) as other:
        client.send("CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n")
        assert fetch(alone, "denied.test", "/no") == 403, "C: who is denied does not wait; by then the other one was judged"
        assert left() == (0, 0), "U: not even a question for the name"
        assert client.is_open()
        other.send("GET http://allowed.test/plain HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        assert fetch(alone, "denied.test", "/no") == 403
        assert left() == (0, 0) and other.is_open(), "U"
        os.kill(recorder, signal.SIGCONT)
        assert client.head()[0] == 200
        assert other.answer()[0] == 200
    assert left()[0] >= 1
    assert alone.end() == 0, alone.report()
    assert sorted(opens(alone)) == ["CONNECT", "GET"], "L"
    codes = [(e["http_request"]["http_method"], bool(e["unmapped"]["eclusa"].get("open"))) for e in alone.events("allow.rule")]
    assert sorted(codes) == [("CONNECT", False), ("CONNECT", True), ("GET", False), ("GET", True)]
    assert len({e["metadata"]["uid"] for e in alone.events("allow.rule")}) == 4, "each has an id of its own"
    assert len({e["metadata"]["correlation_uid"] for e in alone.events("allow.rule")}) == 2


def test_the_twin_without_it_does_not_wait(lab, machine, left):
    alone = Alone(lab, machine, PLAIN)
    recorder = wait_until(lambda: alone.child("eclusa-recorder"), "recorder")
    os.kill(recorder, signal.SIGSTOP)
    assert fetch(alone, "allowed.test", "/at-once") == 200
    assert left()[0] == 1
    os.kill(recorder, signal.SIGCONT)
    assert alone.end() == 0 and opens(alone) == []


def test_nothing_leaves_while_the_recorder_dies_before_the_disk_has_it(lab, machine, left):
    """Again and again, as often as it is started anew: then the proxy ends, and what it had decided is on record all the same."""
    alone = Alone(lab, machine, STRICT, env={"ECLUSA_FAULT": "recorder-before-commit"})
    with Client(alone) as client:
        client.send("CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n")
        assert alone.process.wait(timeout=DEADLINE) == 1, alone.report()
    assert left() == (0, 0), "U"
    alone.end()
    assert alone.events("allow.rule"), "L"


def test_what_is_not_on_the_disk_in_time_is_refused(lab, machine, left):
    alone = Alone(lab, machine, STRICT, env={"ECLUSA_LIMITS": "commit_ms=200"})
    recorder = wait_until(lambda: alone.child("eclusa-recorder"), "recorder")
    with wait_until(lambda: tunnel_that_was_asked(alone), "a decision that is on the disk in time") as client:
        before = left()
        seen = len(lab.origin.requests(0))
        os.kill(recorder, signal.SIGSTOP)
        client.ask("allowed.test", "/late")
        status, body = client.answer()
        assert status == 503 and b"deny.audit-full" in body, "C"
    assert fetch(alone, "allowed.test", "/later") == 503, "C"
    assert left() == before and len(lab.origin.requests(0)) == seen, "U"
    os.kill(recorder, signal.SIGCONT)
    wait_until(lambda: fetch(alone, "allowed.test", "/again") == 200, "it goes on")
    assert alone.end() == 0, alone.report()
    assert len(alone.events("deny.audit-full", "/late")) == 1, "L"


def tunnel_that_was_asked(alone):
    """None where the disk of a busy machine takes longer than the limit."""
    client = Client(alone)
    if client.tunnel("allowed.test") is client and client.get("allowed.test", "/first")[0] == 200:
        return client
    client.sock.close()
    return None


def test_each_request_in_a_tunnel_has_its_own(lab, machine, who):
    alone = Alone(lab, machine, STRICT, user=who)
    with Client(alone) as client:
        client.tunnel("allowed.test")
        for n in range(5):
            assert client.get("allowed.test", f"/own-{n}")[0] == 200
    assert alone.end() == 0
    assert sorted(opens(alone)) == ["CONNECT"] + 5 * ["GET"]
    for n in range(5):
        first, last = alone.events("allow.rule", f"/own-{n}")
        assert first["unmapped"]["eclusa"].get("open") and "end_time" not in first, "L: the decision stands before its end"
        assert "end_time" in last and first["metadata"]["correlation_uid"] == last["metadata"]["correlation_uid"]


def test_a_profile_may_be_made_strict_while_it_runs(lab, machine):
    alone = Alone(lab, machine, PLAIN)
    assert fetch(alone, "allowed.test", "/before") == 200
    before = alone.load("set commit before", allow("allowed.test:80,443 GET,POST /** req-body=4m"))
    assert before["before"] != before["after"], "the digest tells"
    assert fetch(alone, "allowed.test", "/after") == 200
    assert alone.end() == 0
    assert sorted(opens(alone)) == ["CONNECT", "GET"]


def test_I03_what_lasts_or_is_large_is_visible_before_it_ends(lab, machine, who):
    alone = Alone(lab, machine, PLAIN, user=who, env={"ECLUSA_LIMITS": "open_ms=1500,open_bytes=100000"})
    with Client(alone) as client:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/short")[0] == 200
        client.send("POST /large HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 300000\r\n\r\n" + "x" * 200000)
        (large,) = [e for e in alone.wait_event("allow.rule", "/large") if e["unmapped"]["eclusa"].get("open")]
        assert large["traffic"]["bytes_out"] > 100000 and "end_time" not in large
        wait_until(lambda: opens(alone).count("CONNECT") == 1, alone.report)
        client.send("y" * 100000)
        assert client.answer()[0] == 200
    assert alone.end() == 0
    assert sorted(opens(alone)) == ["CONNECT", "POST"], "once each, and not what was short"
    assert len(alone.events("allow.rule", "/large")) == 2
    assert PROFILE in str(large["metadata"]["labels"])


# --- the other doors, in a sandbox

GREETING = b"SSH-2.0-lab\r\n"
DOORS_POLICY = f"""policy 1

[profile doors]
allow allowed.test:80,443 GET /** addr={ORIGIN}/32 id=name
allow spliced.test:443 tls=splice addr={ORIGIN}/32 id=spliced
allow tcp banner.test:2201 addr={ORIGIN}/32 id=raw
"""
STEPS = {  # id -> (host, port, what follows, decisions by door: with SOCKS the tunnel has one of its own)
    "tls": ("allowed.test", 443, lambda path: [tls("allowed.test"), *get(path)], (2, 2)),
    "plain": ("allowed.test", 80, lambda path: get(path), (1, 2)),
    "splice": ("spliced.test", 443, lambda path: [tls("spliced.test", verify=False), *get(path, "spliced.test")[:2]], (1, 1)),
    "raw": ("banner.test", 2201, lambda _: [send(b"ping"), SHUT, END], (1, 1)),
}
DOORS = ("transparent", "socks5")  # as the log calls them


def get(path, host="allowed.test"):
    return [send(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), response(), END]


def visits():
    for case, (host, port, steps, _) in STEPS.items():
        yield captured(f"{case}/transparent", host, port, *steps(f"{case}-transparent"))
        yield exchange(f"{case}/socks5", socks(host, port), *steps(f"{case}-socks5"))


@pytest.fixture(name="doors", scope="module")
def fixture_doors(lab):
    heard = []

    def greet(connection):
        heard.append(connection)
        connection.send(GREETING)
        while connection.read():
            pass

    servers = RawServers(lab.world, {2201: greet})
    lab.canary.agree(ORIGIN, "tcp", "2201")
    for name in ("spliced.test", "banner.test"):
        lab.dns.zone[name] = [ORIGIN]
    lab.doors = {"strict": lab.write("strict.allow", DOORS_POLICY.replace("[profile doors]", "[profile doors]\nset commit before")),
                 "plain": lab.write("plain.allow", DOORS_POLICY)}
    yield heard
    servers.close()


@pytest.fixture(name="strict", scope="module")
def fixture_strict(lab, doors, who):
    return Batch(lab, list(visits()), policy=lab.doors["strict"], user=who)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", STEPS)
def test_each_door_has_its_decision_on_the_disk_first(strict, case, door):
    seen = strict[f"{case}/{door}"]
    assert (GREETING if case == "raw" else b"HTTP/1.1 200 OK") in seen.received, "C" + strict.explain(f"{case}/{door}")
    events = [e for e in strict.run.events if e.get("src_endpoint", {}).get("port") == seen.port and e["class_uid"] != 4003]
    first = [e for e in events if e["unmapped"]["eclusa"].get("open")]
    assert len(first) == STEPS[case][3][DOORS.index(door)] and len(events) == 2 * len(first), "L" + strict.explain(f"{case}/{door}")
    assert events.index(first[0]) == 0 and all(e["unmapped"]["eclusa"]["intercept"] == door for e in events), "L"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("mode", ["strict", "plain"])
def test_nothing_leaves_by_any_door_while_the_disk_has_no_decision(lab, doors, left, mode, door):
    """The recorder dies each time that a decision is waited for, until the run is given up. The twin does not wait: all of it leaves."""
    before = len(doors)
    knocks = [visit for visit in visits() if visit["id"].endswith(door)]
    batch = Batch(lab, knocks, policy=lab.doors[mode], env={"ECLUSA_FAULT": "recorder-before-commit"})
    if mode == "plain":
        assert batch.run.status == 0 and len(doors) == before + 1 and left()[0] >= 2, batch.run.report()
        return
    assert batch.run.status != 0 and batch.run.result["verdict"] == "supervisor", "C" + batch.run.report()
    assert left() == (0, 0) and len(doors) == before, "U: not even a question for a name" + batch.run.report()
    decided = {e["unmapped"]["eclusa"]["intercept"] for e in batch.run.events if str(e.get("status_code")).startswith("allow.") and "unmapped" in e}
    assert door in decided, "L" + batch.run.report()
