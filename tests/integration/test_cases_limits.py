"""
Cases H01-H04 and E07: what a client or a host can make large, many or slow. Sizes of heads on both sides, in a sandbox; connections, descriptors and
memory of the worker, of the proxy alone, where they can be counted from outside.
"""
import hashlib
import os
import socket
import ssl
import struct

import pytest

from lab.alone import Alone, allow, policy
from lab.events import DEADLINE, wait_until
from lab.exchanges import END, exchange, response, send, tunnel
from lab.oracles import Batch

HOST = "allowed.test"
MANY = "".join(f"X-{n}: y\r\n" for n in range(10_000))
LIMIT = {"deny.limit"}


def request(path, *fields, method="GET", inside=True):
    at = "" if inside else f"http://{HOST}"
    return "\r\n".join([f"{method} {at}{path} HTTP/1.1", f"Host: {HOST}", *fields]) + "\r\n\r\n"


HEADS = {  # id -> (request, statuses, reasons)
    "H02-line": (lambda inside: request("/" + "a" * 1_000_000, inside=inside), {414}, LIMIT),
    "H02-field": (lambda inside: request("/", "X: " + "a" * 1_000_000, inside=inside), {431}, LIMIT),
    "H02-fields": (lambda inside: request("/", MANY[:-2], inside=inside), {431}, LIMIT),
    "H02-fields-257": (lambda inside: request("/", *[f"X-{n}: y" for n in range(256)], inside=inside), {431}, LIMIT),
    "H02-method": (lambda inside: request("/", method="A" * 33, inside=inside), {501, 400}, LIMIT | {"deny.protocol", "deny.smuggling"}),
    "H02-name": (lambda inside: request("/", "X" * 70_000 + ": y", inside=inside), {431}, LIMIT),
    "H02-options": (lambda inside: request("/", "Connection: " + ", ".join(f"x{n}" for n in range(33)), inside=inside), {431}, LIMIT),
    "H02-trailers": (lambda inside: request("/trailers", "Transfer-Encoding: chunked", method="POST", inside=inside)
                     + "0\r\n" + MANY, {431}, LIMIT),
    "H02-extension": (lambda inside: request("/extension", "Transfer-Encoding: chunked", method="POST", inside=inside)
                      + "5;" + "a" * 100_000, {400}, LIMIT),
}
TWINS = {
    "H02-cookie-of-16k": lambda inside: request("/cookie", "Cookie: " + "c" * 16_384, "Connection: close", inside=inside),
    "H02-255-fields": lambda inside: request("/fields", "Connection: close", *[f"X-{n}: y" for n in range(254)], inside=inside),
    "H02-path-of-8000": lambda inside: request("/" + "p" * 7_999, "Connection: close", inside=inside),
}
ANSWERS = {
    "H02-up-line": b"HTTP/1.1 200 " + b"a" * 1_000_000 + b"\r\n\r\n",
    "H02-up-field": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
    "H02-up-fields": b"HTTP/1.1 200 OK\r\n" + MANY.encode() + b"\r\n",
    "H02-up-trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + MANY.encode() + b"\r\n",
}
DOORS = ("plain", "tunnel")


@pytest.fixture(scope="module")
def heads(lab, who):
    for name, text in ANSWERS.items():
        lab.origin.on(f"/{name}", text)

    def visit(name, text):
        for door in DOORS:
            way = [] if door == "plain" else tunnel(HOST)
            yield exchange(f"{name}/{door}", *way, send(text(door == "tunnel")), response(), END)

    texts = {**{name: text for name, (text, *_) in HEADS.items()}, **TWINS,
             **{name: lambda inside, path=f"/{name}": request(path, inside=inside) for name in ANSWERS}}
    return Batch(lab, [one for name, text in texts.items() for one in visit(name, text)], user=who)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", HEADS)
def test_what_is_too_large_is_refused(heads, case, door):
    name = f"{case}/{door}"
    _, statuses, reasons = HEADS[case]
    heads.assert_status(name, statuses)
    heads.assert_ended(name)
    heads.assert_denied_once(name, reasons)
    heads.assert_bytes_absent(b"X-9999", b"a" * 20_000)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", TWINS)
def test_what_is_within_the_limits_passes(heads, case, door):
    name = f"{case}/{door}"
    heads.assert_status(name, 200)
    heads.assert_allowed(name)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", ANSWERS)
def test_a_host_that_sends_too_much_is_a_fault(heads, case, door):
    name = f"{case}/{door}"
    if case != "H02-up-trailers":  # its head has gone by then: cut
        heads.assert_status(name, 502)
    heads.assert_ended(name)
    event, = heads.events(name)
    assert event["status_code"] == "error.upstream", "L" + heads.explain(name)
    assert len(heads[name].received) < 20_000, "C: none of it" + heads.explain(name)


# --- the same with settings of one's own: at the limit, and one past it

SMALL = "line_bytes=100,head_bytes=1000,head_fields=10,method_bytes=7,connection_options=3,chunk_line_bytes=20,trailer_bytes=100,trailer_fields=3,interims=2"
CHUNKED = "Transfer-Encoding: chunked"


def line_of(length, path, inside):
    rest = len(request(path, inside=inside).split("\r\n", 1)[0])
    return request(path + "/" + "l" * (length - rest - 1), inside=inside)


def head_of(length, path, inside):
    return request(path, "X: " + "h" * (length - len(request(path, "X: ", inside=inside))), inside=inside)


def chunked(path, inside, *, line="2\r\n", trailers="\r\n"):
    return request(path, CHUNKED, method="POST", inside=inside) + line + "hi\r\n0\r\n" + trailers


SIZES = {  # id -> (what to send for a size, largest size, status one past it)
    "line": (line_of, 100, 414),
    "head": (head_of, 1000, 431),
    "fields": (lambda count, path, inside: request(path, *[f"X-{n}: y" for n in range(count - 1)], inside=inside), 10, 431),
    "method": (lambda length, path, inside: request(path, method="OPTIONS" if length == 7 else "A" * length, inside=inside), 7, 501),
    "options": (lambda count, path, inside: request(path, "Connection: x0", *[f"Connection: x{n}" for n in range(1, count)], inside=inside), 3, 431),
    "chunk-line": (lambda size, path, inside: chunked(path, inside, line="2;" + "e" * (size - 4) + "\r\n"), 20, 400),
    "trailers": (lambda size, path, inside: chunked(path, inside, trailers="T:" + "t" * (size - 6) + "\r\n\r\n"), 100, 431),
    "trailer-fields": (lambda count, path, inside: chunked(path, inside, trailers="T:\r\n" * count + "\r\n"), 3, 431),
    "interims": (lambda _, path, inside: request(path, inside=inside), 2, 502),
    "up-head": (lambda _, path, inside: request(path, inside=inside), 1000, 502),
    "up-trailers": (lambda _, path, inside: request(path, inside=inside), 3, None),  # its head has gone by then: cut
}
UP = {
    "interims": lambda count: b"HTTP/1.1 102 Processing\r\n\r\n" * count + b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "up-head": lambda size: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: " + b"h" * (size - 43) + b"\r\n\r\n",
    "up-trailers": lambda count: f"HTTP/1.1 200 OK\r\n{CHUNKED}\r\n\r\n2\r\nhi\r\n0\r\n".encode() + b"T:\r\n" * count + b"\r\n",
}


@pytest.fixture(scope="module")
def small(lab, who):
    visits = []
    for name, (text, most, _) in SIZES.items():
        for side, size in (("at", most), ("past", most + 1)):
            if name in UP:
                lab.origin.on(f"/small/{name}/{side}", UP[name](size))
            for door in DOORS:
                way = [] if door == "plain" else tunnel(HOST)
                sent = text(size, f"/small/{name}/{side}", door == "tunnel")
                last = [END] if side == "past" else []
                visits.append(exchange(f"{name}-{side}/{door}", *way, send(sent), response(), *last))
    return Batch(lab, visits, user=who, env={"ECLUSA_LIMITS": SMALL})


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", SIZES)
def test_what_is_at_a_size_that_was_set_passes(small, case, door):
    name = f"{case}-at/{door}"
    small.assert_status(name, 200)
    small.assert_allowed(name)
    assert [r for r in small.requests if r.target.startswith(f"/small/{case}/at")], "U" + small.explain(name)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", SIZES)
def test_what_is_one_past_a_size_that_was_set_is_refused(small, case, door):
    name = f"{case}-past/{door}"
    status = SIZES[case][2]
    if status is not None:
        small.assert_status(name, status)
    small.assert_ended(name)
    if case in UP:
        event, = small.events(name)
        assert event["status_code"] == "error.upstream", "L" + small.explain(name)
        return
    small.assert_denied_once(name, LIMIT)
    assert not [r for r in small.requests if r.target.startswith(f"/small/{case}/past")], "U: no whole request"


# --- the worker, seen from outside

RULES = policy(allow(f"{HOST}:80,443 GET,POST /** req-body=1g resp-body=1g up=100g id=all"), allow("*.wild.test:443 GET /** id=wild"))


class Worker:
    def __init__(self, alone):
        self.alone, self.pid = alone, alone.child("eclusa-worker")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def peak(self):
        """Bytes of memory that it ever had."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def dial(alone):
    return alone.machine.inside(lambda: socket.create_connection(("127.0.0.1", alone.port), DEADLINE))


def read_all(sock):
    data = b""
    try:
        while more := sock.recv(65536):
            data += more
    except ConnectionError:
        pass
    return data


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.fixture(name="alone")
def fixture_alone(lab, machine):
    made = Alone(lab, machine, RULES, env={"ECLUSA_LIMITS": "connections=40,leave_ms=200,header_ms=60000,linger_ms=500"})
    yield made
    made.end()


def test_H01_one_connection_too_many_is_refused_with_a_record(alone):
    held = [dial(alone) for _ in range(40)]
    for sock in held:
        sock.sendall(b"GET ht")  # slow heads hold what they hold
    more = dial(alone)
    more.sendall(b"GET http://allowed.test/ HTTP/1.1\r\n\r\n")
    said = read_all(more)
    assert said.startswith(b"HTTP/1.1 503 deny.limit"), said
    alone.wait_event("deny.limit")
    socks = dial(alone)
    socks.sendall(b"\x05\x01\x00")
    assert read_all(socks).startswith((b"\x05\xff", b"HTTP/1.1 503")), "C: in the words of SOCKS, if its own had come"
    alone.wait_event("deny.limit", count=2)
    for sock in [*held, more, socks]:
        sock.close()
    again = dial(alone)
    wait_until(lambda: Worker(alone).descriptors() < 60, "places are free again")
    again.sendall(b"GET http://allowed.test/after HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n")
    assert read_all(again).startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))


def test_H04_nothing_leaks_however_connections_end(alone):
    """1,200 connections: ended by the client first, by the proxy, by resets, in the middle of everything."""
    worker = Worker(alone)
    whole = b"GET http://allowed.test/x HTTP/1.1\r\nHost: allowed.test\r\n\r\n"

    def cycle(number):
        sock = dial(alone)
        kind = number % 6
        if kind == 0:
            sock.sendall(whole.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert read_all(sock).startswith(b"HTTP/1.1 200")
        elif kind == 1:
            sock.sendall(whole)
            sock.recv(65536)
        elif kind == 2:
            sock.sendall(whole)
            return reset(sock)
        elif kind == 3:
            sock.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n")
            sock.recv(65536)
            return reset(sock)
        elif kind == 4:
            sock.sendall(b"\x05\x01\x00\x05\x01\x00\x03\x0callowed.test\x00\x50")
            sock.recv(65536)
        else:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n")
            read_all(sock)
        return sock.close()

    for number in range(60):
        cycle(number)
    wait_until(lambda: worker.descriptors() <= 60, "the first ones are over")
    baseline = worker.descriptors()
    for number in range(1200):
        cycle(number)
    wait_until(lambda: worker.descriptors() <= baseline + 8, lambda: f"descriptors: {worker.descriptors()}, before {baseline}")
    cycle(0)
    assert worker.pid == alone.child("eclusa-worker"), "the same worker"


def test_H03_denied_names_get_no_certificate_and_many_names_no_more_memory(alone):
    """150 names below a wildcard, then 300 that no rule names: all are judged, the cache is bounded, the worker lives."""
    worker = Worker(alone)
    context = ssl.create_default_context(cafile=alone.ca)

    def shake(target, name):
        sock = dial(alone)
        sock.sendall(f"CONNECT {target}:443 HTTP/1.1\r\n\r\n".encode())
        head = sock.recv(65536)
        if b" 200 " not in head:
            sock.close()
            return head.split(b" ")[1].decode()
        try:
            with context.wrap_socket(sock, server_hostname=name) as tls_sock:
                return [value for _, value in tls_sock.getpeercert()["subjectAltName"]]
        except ssl.SSLError as error:
            return error.reason
        finally:
            sock.close()

    for number in range(150):
        assert shake(f"n{number}.wild.test", f"n{number}.wild.test") == [f"n{number}.wild.test"]
    grown = worker.peak()
    assert {shake(f"n{number}.denied.test", f"n{number}.denied.test") for number in range(150)} == {"403"}
    assert {shake("n1.wild.test", f"x{number}.wild.test") for number in range(150)} == {"TLSV1_UNRECOGNIZED_NAME"}
    assert worker.peak() < grown + (8 << 20) and worker.pid == alone.child("eclusa-worker")


@pytest.mark.parametrize("way", ["up", "down"])
def test_E07_large_bodies_take_no_memory(lab, alone, way):
    """64 MiB each way; the worker's peak stays where it was."""
    worker, size, block = Worker(alone), 64 << 20, bytes(range(256)) * 1024
    lab.origin.on("/large", lambda _request, connection: (connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size),
                                                          [connection.send(block) for _ in range(size // len(block))]))
    got = hashlib.sha256()

    def swallow(_request, connection):  # before the body is parsed, and instead of it
        came = connection.plain[sum(len(r.raw) for r in connection.requests):]
        got.update(came)
        left = size - len(came)
        while left > 0:
            data = connection.sock.recv(1 << 20)
            if not data:
                raise EOFError
            got.update(data)
            left -= len(data)
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        raise EOFError

    lab.origin.on_head("/swallow", swallow)
    sock = dial(alone)
    sock.sendall(b"GET http://allowed.test/small HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
    sock.recv(65536)
    before = worker.peak()
    want = hashlib.sha256()
    for _ in range(size // len(block)):
        want.update(block)
    if way == "up":
        sock.sendall(f"POST http://allowed.test/swallow HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n".encode())
        for _ in range(size // len(block)):
            sock.sendall(block)
        assert read_all(sock).endswith(b"ok"), alone.report()
    else:
        sock.sendall(b"GET http://allowed.test/large HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n")
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(4096)
        got.update(head.split(b"\r\n\r\n", 1)[1])
        while data := sock.recv(1 << 20):
            got.update(data)
    assert got.digest() == want.digest()
    assert worker.peak() < before + (4 << 20), f"{worker.peak()} after {before}"
