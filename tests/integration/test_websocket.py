"""
WebSocket by upgrade=websocket rules: the switch is judged and checked, frames pass as bytes both ways, whole and counted. Other
switches do not happen. Cases C14, E09.
"""
import base64
import hashlib
import json
import os
import struct

import pytest

from lab.eclusa import run_eclusa
from lab.events import wait_until
from lab.world import ORIGIN

CLIENT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab", "ws_client.py")
KEY = base64.b64encode(bytes(range(16))).decode()
ACCEPT = base64.b64encode(hashlib.sha1((KEY + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
FRAMES = [1, 125, 126, 65535, 262144, 262144]
OVERHEAD = {1: 6, 125: 6, 126: 8, 65535: 8, 262144: 14}

POLICY = f"""policy 1

[profile websocket]
allow allowed.test:443 GET /ws/** upgrade=websocket addr={ORIGIN}/32 id=ws up=8m
allow allowed.test:443 GET,POST /** addr={ORIGIN}/32 id=no-ws
allow allowed.test:80 GET /ws/** upgrade=websocket addr={ORIGIN}/32 id=ws-plain up=8m
allow a.wild.test:443 GET /ws/** upgrade=websocket addr={ORIGIN}/32 id=ws-small up=100k
allow b.wild.test:443 GET /ws/** upgrade=websocket addr={ORIGIN}/32 id=ws-down up=8m down=64k
"""


def frame(payload, opcode=2):
    """A server's: not masked."""
    length = len(payload)
    head = bytes([length]) if length < 126 else b"\x7e" + struct.pack(">H", length) if length < 65536 else (
        b"\x7f" + struct.pack(">Q", length))
    return bytes([0x80 | opcode]) + head + payload


def switch(accept=ACCEPT, upgrade="websocket", connection="Upgrade", more=""):
    return (f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: {upgrade}\r\nConnection: {connection}\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n{more}\r\n").encode()


class Frames:
    """The client's, unmasked."""

    def __init__(self, connection):
        self.connection, self.data = connection, b""

    def take(self, length):
        while len(self.data) < length:
            data = self.connection.read()
            if not data:
                raise EOFError
            self.data += data
        taken, self.data = self.data[:length], self.data[length:]
        return taken

    def next(self):
        opcode, length = self.take(2)
        length &= 127
        if length > 125:
            length = int.from_bytes(self.take(2 if length == 126 else 8), "big")
        mask = self.take(4)
        masked = self.take(length)
        return opcode & 15, bytes(a ^ b for a, b in zip(masked, mask * (length // 4 + 1)))


def echo(_request, connection):
    """The first frame comes with the 101."""
    connection.send(switch(more="Sec-WebSocket-Protocol: chat\r\n") + frame(b"hello", 1))
    frames = Frames(connection)
    while True:
        opcode, payload = frames.next()
        connection.send(frame(payload, opcode))
        if opcode == 8:
            raise EOFError


def flood(_request, connection):
    connection.send(switch() + frame(b"hello", 1))
    for _ in range(100):
        connection.send(frame(bytes(10000)))
    raise EOFError


def answers(data):
    def act(_request, connection):
        connection.send(data)
        connection.read()
        raise EOFError
    return act


SCRIPTS = {
    "/ws/echo": echo,
    "/ws/flood": flood,
    "/ws/quiet": answers(switch() + frame(b"hello", 1)),
    "/ws/wrong-accept": answers(switch(accept=ACCEPT[:-2] + "A=")),
    "/ws/no-accept": answers(switch().replace(b"Sec-WebSocket-Accept", b"X-Accept")),
    "/ws/two-accepts": answers(switch(more=f"Sec-WebSocket-Accept: {ACCEPT}\r\n")),
    "/ws/other-protocol": answers(switch(upgrade="h2c")),
    "/ws/no-connection": answers(switch(connection="keep-alive")),
    "/ws/declines": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
    "/unasked": answers(switch()),
}


@pytest.fixture(scope="module")
def world(lab):
    for path, script in SCRIPTS.items():
        lab.origin.on(path, script)
    lab.websocket = lab.write("websocket.allow", POLICY)
    return lab


def exchanges(lab, *specs, user=None, limits=None):
    """One after another. @return the run, what each client saw, and the origin's connections once they have ended."""
    mark = lab.origin.connections.mark()
    spec = lab.write(f"exchanges-{len(lab.runs)}.json", json.dumps([{"host": "allowed.test", "id": s["path"], **s} for s in specs]))
    run = run_eclusa(lab, ["--in", f"{CLIENT}:ws_client.py", "--in", f"{spec}:exchanges.json", "--timeout", "60s"],
                     ["/usr/bin/python3", "ws_client.py", "exchanges.json"], policy=lab.websocket, user=user,
                     env={"ECLUSA_LIMITS": limits} if limits else None)
    seen = {one["id"]: one for one in run.json()}
    wait_until(lambda: all(not c.open for c in lab.origin.connections.since(mark)), "the origin's connections end")
    return run, seen, lab.origin.connections.since(mark)


def decision(run, seen):
    events = run.decisions(seen["port"])
    assert len(events) == 1, [run.brief(e) for e in events]
    return events[0]


@pytest.mark.parametrize("spec", [{}, {"plain": True}, {"glue": True}], ids=["tls", "plain", "glued"])
def test_frames_pass_both_ways(world, who, spec):
    run, seen, (connection,) = exchanges(world, {"path": "/ws/echo", "frames": FRAMES, "end": "close", **spec}, user=who)
    one = seen["/ws/echo"]
    assert one["status"] == 101 and one["greeting"] == "hello", one
    assert one["frames"] == [True] * len(FRAMES) and one["close"] == "03e8", one
    assert one["end"] in ("eof", "cut"), one
    assert "Sec-WebSocket-Protocol: chat\r\n" in one["head"] and one["head"].count("Upgrade: websocket\r\n") == 1, one
    request, = connection.requests
    assert request.get("upgrade") == ["websocket"] and request.get("connection") == ["Upgrade"], "U" + str(request.fields)
    assert request.get("sec-websocket-key") == [KEY] and request.get("sec-websocket-protocol") == ["chat"], "U"
    event = decision(run, one)
    assert event["status_code"] == "allow.rule" and event["http_response"]["code"] == 101, run.brief(event)
    assert event["firewall_rule"]["uid"] == ("ws-plain" if spec.get("plain") else "ws"), run.brief(event)
    assert event["traffic"]["bytes_out"] == len(connection.plain), (event["traffic"], len(connection.plain))
    assert event["traffic"]["bytes_out"] == len(request.raw) + sum(n + OVERHEAD[n] for n in FRAMES) + 8
    assert event["traffic"]["bytes_in"] == len(one["head"]) + 7 + sum(n + OVERHEAD[n] - 4 for n in FRAMES) + 4


@pytest.fixture(scope="module")
def refused(world, who):
    key = f"Sec-WebSocket-Key: {KEY}\r\n"
    ask = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
    return exchanges(
        world, {"path": "/not-allowed"}, {"path": "/ws/no-key", "head": ask}, {"path": "/ws/two-keys", "head": ask + key + key},
        {"path": "/ws/short-key", "head": ask + "Sec-WebSocket-Key: YWJj\r\n"},
        {"path": "/ws/body", "head": ask + key + "Content-Length: 5\r\n"}, user=who)


@pytest.mark.parametrize("path,status", [("/not-allowed", 403), ("/ws/no-key", 400), ("/ws/two-keys", 400),
                                         ("/ws/short-key", 400), ("/ws/body", 400)])
def test_a_switch_that_is_not_allowed_or_not_valid_reaches_nobody(refused, path, status):
    run, seen, connections = refused
    assert seen[path]["status"] == status and "deny.protocol" in seen[path]["head"], seen[path]
    assert [r.target for c in connections for r in c.requests] == [], "U"
    event = decision(run, seen[path])
    assert event["status_code"] == "deny.protocol" and event["action_id"] == 2, run.brief(event)
    if path == "/not-allowed":
        assert "upgrade=websocket" in seen[path]["rest"], seen[path]


@pytest.fixture(scope="module")
def dropped(world, who):
    """Other switches are not asked for (RFC 9110 7.8: a request goes on without)."""
    return exchanges(
        world,
        {"path": "/h2c", "head": "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"},
        {"path": "/anything", "head": "Connection: Upgrade, close\r\nUpgrade: anything\r\n"},
        {"path": "/ws/list", "head": f"Connection: Upgrade, close\r\nUpgrade: websocket, h2c\r\nSec-WebSocket-Key: {KEY}\r\n"},
        {"path": "/post", "method": "POST",
         "head": f"Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: {KEY}\r\nContent-Length: 0\r\n"}, user=who)


@pytest.mark.parametrize("path", ["/h2c", "/anything", "/ws/list", "/post"])
def test_C14_other_switches_are_not_passed_on(dropped, path):
    run, seen, connections = dropped
    assert seen[path]["status"] == 200 and decision(run, seen[path])["status_code"] == "allow.rule", seen[path]
    request, = [r for c in connections for r in c.requests if r.target == path]
    assert not request.get("upgrade") and not request.get("http2-settings") and "pgrade" not in str(request.get("connection")), "U"


@pytest.fixture(scope="module")
def answered(world, who):
    paths = ["/ws/wrong-accept", "/ws/no-accept", "/ws/two-accepts", "/ws/other-protocol", "/ws/no-connection"]
    return exchanges(world, *[{"path": path} for path in paths], {"path": "/unasked", "head": ""}, user=who)


@pytest.mark.parametrize("path", ["/ws/wrong-accept", "/ws/no-accept", "/ws/two-accepts", "/ws/other-protocol",
                                  "/ws/no-connection", "/unasked"])
def test_a_101_that_does_not_answer_the_request_is_a_fault(answered, path):
    run, seen, _ = answered
    assert seen[path]["status"] == 502 and "error.upstream" in seen[path]["head"], seen[path]
    assert "101" not in seen[path]["head"], seen[path]
    assert decision(run, seen[path])["status_code"] == "error.upstream"


def test_a_host_may_decline_and_early_bytes_are_a_request_then(world, who):
    run, seen, (connection,) = exchanges(world, {"path": "/ws/declines", "glue": True, "frames": [10]}, user=who)
    assert seen["/ws/declines"]["status"] == 200, seen
    assert [r.target for r in connection.requests] == ["/ws/declines"], "U"
    assert len(connection.plain) == len(connection.requests[0].raw), "U: no frame"
    reasons = [e["status_code"] for e in run.decisions(seen["/ws/declines"]["port"])]
    assert reasons == ["allow.rule", "deny.smuggling"], reasons


def test_what_a_rule_grants_ends_the_frames(world, who):
    run, seen, connections = exchanges(
        world, {"host": "a.wild.test", "path": "/ws/echo", "id": "up", "frames": [50000, 262144]},
        {"host": "b.wild.test", "path": "/ws/flood", "id": "down"}, user=who)
    assert seen["up"]["frames"] in ([True, False], [True]) and seen["up"]["end"] == "cut", seen  # cut: after it was sent, or before
    assert seen["down"]["status"] == 101 and seen["down"]["end"] == "cut", seen
    assert len(connections[0].plain) <= 100 * 1024, connections
    for name in ("up", "down"):
        event = decision(run, seen[name])
        assert event["status_code"] == "deny.budget" and event["action_id"] == 2, run.brief(event)
    assert decision(run, seen["down"])["traffic"]["bytes_in"] <= 64 * 1024


def test_a_quiet_socket_is_cut_and_an_abort_passes_on(world, who):
    run, seen, connections = exchanges(
        world, {"path": "/ws/quiet", "id": "idle"}, {"path": "/ws/quiet", "id": "abort", "end": "abort"},
        user=who, limits="idle_ms=1000")
    assert seen["idle"]["status"] == 101 and seen["idle"]["end"] == "cut", seen
    assert decision(run, seen["idle"])["status_code"] == "error.timeout"
    assert decision(run, seen["abort"])["status_code"] == "allow.rule"
    assert all(c.error for c in connections), f"U: resets, not orderly ends: {connections}"
