"""
Cases C04 (responses), C07-C09, C15, C17, C18, E07, E08 and H05: what comes behind a request's head, and what hosts answer. Each through every
door that carries requests: absolute form, an intercepted tunnel, a tunnel in the clear, and SOCKS.
"""
import gzip
import hashlib
import threading

import h11
import pytest

from lab.events import wait_until
from lab.exchanges import END, HEAD, connect, exchange, fetch_beside, response, send, socks, tunnel
from lab.oracles import FRAMING, Batch
from lab.origin import answer
from lab.world import ORIGIN

HOST = "allowed.test"
WAYS = {
    "plain": [],
    "tunnel": tunnel(HOST),
    "clear": [connect(f"{HOST}:80")],
    "socks": [socks(HOST, 80)],
}
DOORS = tuple(WAYS)
POLICY = f"""policy 1

[profile bodies]
allow {HOST}:80,443 GET,HEAD,POST,OPTIONS /** req-body=64m resp-body=64m up=4g addr={ORIGIN}/32 id=bodies
allow wait.wild.test:80 GET /over/** addr={ORIGIN}/32 id=wait
allow {HOST}:80,443 POST /small/** req-body=8 addr={ORIGIN}/32 id=small
"""
INNER = "GET /inner HTTP/1.1\r\nHost: denied.test\r\n\r\n"


def request(door, method, path, *fields, close=False):
    at = f"http://{HOST}" if door == "plain" else ""
    lines = [f"{method} {at}{path} HTTP/1.1", f"Host: {HOST}", *fields, *(["Connection: close"] if close else [])]
    return send("\r\n".join(lines) + "\r\n\r\n")


def visits(cases, steps):
    """An exchange for each case and door. @steps: of (case, door), what follows once the way is open."""
    return [exchange(f"{case}/{door}", *WAYS[door], *steps(case, door)) for case in cases for door in DOORS]


@pytest.fixture(scope="module")
def world(lab):
    lab.bodies = lab.write("bodies.allow", POLICY)
    return lab


def settled(lab, batch):
    """The requests that the origin got, once it is through with every connection of the batch."""
    wait_until(lambda: all(not c.open for c in batch.connections), "the origin's connections end")
    return batch.requests


# --- C07-C09: chunked requests

BAD_CHUNKS = {
    "C07-prefix": "0x5\r\nhello\r\n0\r\n\r\n",
    "C07-plus": "+5\r\nhello\r\n0\r\n\r\n",
    "C07-minus": "-5\r\nhello\r\n0\r\n\r\n",
    "C07-blank-before": " 5\r\nhello\r\n0\r\n\r\n",
    "C07-word-behind": "5 x\r\nhello\r\n0\r\n\r\n",
    "C07-underscore": "5_0\r\nhello\r\n0\r\n\r\n",
    "C07-empty": "\r\nhello\r\n0\r\n\r\n",
    "C07-17-digits": "00000000000000005\r\nhello\r\n0\r\n\r\n",
    "C08-lf-in-extension": "5;a\nb\r\nhello\r\n0\r\n\r\n",
    "C08-cr-in-extension": "5;a\rb\r\nhello\r\n0\r\n\r\n",
    "C08-nul-in-extension": "5;a\0\r\nhello\r\n0\r\n\r\n",
    "C08-size-ends-in-lf": "5\nhello\r\n0\r\n\r\n",
    "C08-data-ends-in-lf": "5\r\nhello\n0\r\n\r\n",
    "C08-last-ends-in-lf": "5\r\nhello\r\n0\n\n",
    "C09-no-end-of-data": f"5\r\nhello0\r\n\r\n{INNER}",
    "C09-more-than-said": f"5\r\nhello!\r\n0\r\n\r\n{INNER}",
    "trailer-folded": f"5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n{INNER}",
    "trailer-without-name": f"5\r\nhello\r\n0\r\n: a\r\n\r\n{INNER}",
    "trailer-ends-in-lf": f"5\r\nhello\r\n0\r\nX: a\n\r\n{INNER}",
}
GOOD_CHUNKS = {  # text, what the body comes to
    "C07-twin": ("5\r\nhello\r\n0\r\n\r\n", b"hello"),
    "C07-twin-zeros": ("0000000000000005\r\nhello\r\n000\r\n\r\n", b"hello"),
    "C07-twin-upper-case": ("A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    "C08-twin-extension": ("5;name=\"a b\"\r\nhello\r\n0;last\r\n\r\n", b"hello"),
    "C08-twin-blank-before-extension": ("5 ;x\r\nhello\r\n0\r\n\r\n", b"hello"),
    "C09-twin-two": ("2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", b"hello"),
    "twin-trailer": ("5\r\nhello\r\n0\r\nX-Checksum: 1\r\nHost: denied.test\r\n\r\n", b"hello"),
}
HUGE = {"C07-80000000": "80000000", "C07-ffffffff": "ffffffff", "C07-ffffffffffffffff": "ffffffffffffffff", "C07-9": "9"}


@pytest.fixture(scope="module")
def chunks(world, who):
    def ask(case, door):
        text = BAD_CHUNKS.get(case) or GOOD_CHUNKS.get(case, (None,))[0] or f"{HUGE[case]}\r\nabc"
        path = f"/small/{case}" if case in HUGE else f"/{case}"
        return [request(door, "POST", f"{path}/{door}", "Transfer-Encoding: chunked", close=case in GOOD_CHUNKS), send(text), response(), END]

    batch = Batch(world, visits([*BAD_CHUNKS, *GOOD_CHUNKS, *HUGE], ask), policy=world.bodies, user=who)
    settled(world, batch)
    return batch


def whole_bodies(batch, path):
    """Bodies of requests to the path that the origin took for whole."""
    return [r.body for r in batch.requests if r.target == path and r.body]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", BAD_CHUNKS)
def test_a_malformed_chunk_ends_the_connection(chunks, case, door):
    name = f"{case}/{door}"
    chunks.assert_status(name, 400)
    chunks.assert_ended(name)
    assert chunks[name].received.count(b"HTTP/1.1 400") == 1, "C: once" + chunks.explain(name)
    assert not whole_bodies(chunks, f"/{name}"), "U: no whole request"
    chunks.assert_bytes_absent(b"/inner", b"denied.test")
    chunks.assert_denied_once(name, FRAMING)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", GOOD_CHUNKS)
def test_chunks_are_framed_anew(chunks, case, door):
    name = f"{case}/{door}"
    chunks.assert_status(name, 200)
    assert whole_bodies(chunks, f"/{name}") == [GOOD_CHUNKS[case][1]], "U" + chunks.explain(name)
    chunks.assert_bytes_absent(b"name=", b";last", b";x", b"X-Checksum", b"denied.test")
    chunks.assert_allowed(name)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", HUGE)
def test_a_size_that_is_legal_and_too_large_meets_the_limit_at_once(chunks, case, door):
    name = f"{case}/{door}"
    chunks.assert_status(name, 413)
    chunks.assert_ended(name)
    assert not whole_bodies(chunks, f"/small/{name}"), "U: no whole request"
    chunks.assert_denied_once(name, {"deny.size"})


# --- C15: interim responses, and answers before the body

BODY = b"x" * 1000


def continues(_request, connection):
    connection.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")


def declines(_request, connection):
    connection.send(answer("401 Unauthorized", b"no\n"))


@pytest.fixture(scope="module")
def interims(world, who):
    for door in DOORS:
        for case in ("continue", "no-expect"):
            world.origin.on_head(f"/C15-{case}/{door}", continues)
        world.origin.on_head(f"/C15-declined/{door}", declines)
        world.origin.on(f"/C15-flood/{door}", b"HTTP/1.1 102 Processing\r\n\r\n" * 100 + answer("200 OK"))

    def ask(case, door):
        path = f"/C15-{case}/{door}"
        if case == "flood":
            return [request(door, "GET", path), response(), END]
        expect = ["Expect: 100-continue"] if case != "no-expect" else []
        head = request(door, "POST", path, f"Content-Length: {len(BODY)}", *expect, close=case != "declined")
        if case == "declined":  # the body never comes
            return [head, response(), END]
        return [head, *([HEAD, HEAD] if expect else [HEAD]), send(BODY), HEAD, END]

    return Batch(world, visits(["continue", "no-expect", "declined", "flood"], ask), policy=world.bodies, user=who)


@pytest.mark.parametrize("door", DOORS)
def test_C15_one_100_comes_to_who_waits_for_it(interims, door):
    name = f"C15-continue/{door}".removeprefix("C15-")
    assert [s.status for s in interims[name].of("head")] == [103, 100, 200], "C" + interims.explain(name)
    assert [r.body for r in interims.requests if r.target == f"/C15-{name}"] == [BODY], "U"
    assert [r.get("expect") for r in interims.requests if r.target == f"/C15-{name}"] == [["100-continue"]], "U"
    interims.assert_allowed(name)
    name = f"no-expect/{door}"
    assert [s.status for s in interims[name].of("head")] == [103, 200], "C: no 100 to who does not" + interims.explain(name)
    interims.assert_allowed(name)


@pytest.mark.parametrize("door", DOORS)
def test_C15_an_answer_before_the_body_ends_the_connection(interims, door):
    name = f"declined/{door}"
    interims.assert_status(name, 401)
    interims.assert_ended(name)
    assert b"connection: close" in interims[name].received.lower() and b" 100 " not in interims[name].received, interims.explain(name)
    event, = interims.assert_allowed(name)
    assert event["http_response"]["code"] == 401 and "before the request was complete" in event["status_detail"], "L"


@pytest.mark.parametrize("door", DOORS)
def test_C15_interims_without_end_are_a_fault(interims, door):
    name = f"flood/{door}"
    interims.assert_status(name, 502)
    interims.assert_ended(name)
    event, = interims.events(name)
    assert event["status_code"] == "error.upstream" and "interim" in event["status_detail"], "L"


# --- C04, C17, C18: responses

INJECTED = answer("200 OK", b"injected")
FAULTY = {
    "C04-fold": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "C04-fold-in-length": b"HTTP/1.1 200 OK\r\nContent-Length:\r\n 5\r\n\r\nhello",
    "C01-both": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "C03-two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "C02-other-coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "C06-nul": b"HTTP/1.1 200 OK\r\nX: a\0\r\nContent-Length: 0\r\n\r\n",
    "C06-bare-lf": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "version": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    "status": b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
}
MORE_THAN_ONE = {
    "C17-behind-204": b"HTTP/1.1 204 No Content\r\n\r\n" + INJECTED,
    "C17-behind-nothing": answer("200 OK") + INJECTED,
    "C17-behind-a-body": answer("200 OK", b"right") + INJECTED,
    "C17-behind-chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nright\r\n0\r\n\r\n" + INJECTED,
    "C17-behind-304": b"HTTP/1.1 304 Not Modified\r\n\r\n" + INJECTED,
}
CUT = {
    "cut-length": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
    "cut-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nshort",
    "cut-last-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5x\r\nshort\r\n0\r\n\r\n",
}
HOP = ("Connection: close, X-Secret, Host, Content-Length, Authorization", "X-Secret: 1", "Proxy-Authorization: Basic eA==",
       "Proxy-Connection: keep-alive", "TE: trailers", "Keep-Alive: 5", "Authorization: Bearer t", "Content-Length: 0")
RESPONSE_HOP = (b"HTTP/1.1 200 OK\r\nConnection: X-Secret, Content-Length\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n"
                b"Alt-Svc: h3=\":443\"\r\nProxy-Connection: close\r\nTrailer: X\r\nUpgrade: h2c\r\nX-Kept: 1\r\nContent-Length: 2\r\n\r\nok")


def sends_twice(text, over):
    """The second once the first is through, to a connection that is idle then. @over: set when the proxy has ended it."""
    first, second = text[:-len(INJECTED)], text[-len(INJECTED):]

    def action(_request, connection):
        connection.send(first)
        connection.send(second)
        try:
            while connection.read():
                pass
        finally:
            over.set()
    return action


def sends_and_ends(text):
    def action(_request, connection):
        connection.send(text)
        raise EOFError
    return action


@pytest.fixture(scope="module")
def answers(world, who):
    for door in DOORS:
        for case, text in FAULTY.items():
            world.origin.on(f"/{case}/{door}", text)
        for case, text in MORE_THAN_ONE.items():
            world.origin.on(f"/{case}/{door}", text)
        over = threading.Event()
        world.origin.on(f"/C17-idle/{door}", sends_twice(MORE_THAN_ONE["C17-behind-a-body"], over))
        world.origin.on(f"/over/{door}", lambda _request, connection, over=over: connection.send(
            answer("200 OK" if over.wait(60) else "500 Not Ended")))
        for case, text in CUT.items():
            world.origin.on(f"/{case}/{door}", sends_and_ends(text))
        world.origin.on(f"/C18-response/{door}", RESPONSE_HOP)

    def ask(case, door):
        path = f"/{case}/{door}"
        if case in FAULTY or case in CUT:
            return [request(door, "GET", path), response(), END]
        if case == "C18-request":
            return [request(door, "POST", path, *HOP), response(), END]
        if case == "C18-response":
            return [request(door, "GET", path), response(), request(door, "GET", "/second", close=True), response(), END]
        wait = [fetch_beside("wait.wild.test", f"/over/{door}")] if case == "C17-idle" else []
        return [request(door, "GET", path), response("GET"), *wait, request(door, "GET", f"/second/{case}/{door}", close=True), response(), END]

    batch = Batch(world, visits([*FAULTY, *MORE_THAN_ONE, *CUT, "C18-request", "C18-response"], ask), policy=world.bodies, user=who)
    # One after another: until the proxy hears it, a connection that has more to say serves whoever asks for that host.
    batch.idle = Batch(world, visits(["C17-idle"], ask), policy=world.bodies, user=who, threads=1)
    settled(world, batch)
    return batch


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", FAULTY)
def test_a_malformed_response_is_a_502(answers, case, door):
    name = f"{case}/{door}"
    answers.assert_status(name, 502)
    answers.assert_ended(name)
    event, = answers.events(name)
    assert event["status_code"] == "error.upstream", "L" + answers.explain(name)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", [*MORE_THAN_ONE, "C17-idle"])
def test_C17_what_follows_a_response_answers_nothing(answers, case, door):
    answers = answers.idle if case == "C17-idle" else answers
    name = f"{case}/{door}"
    assert b"injected" not in answers[name].received, "C" + answers.explain(name)
    assert f"/second/{name}".encode() in answers[name].of("response")[-1].body, "C: the right answer" + answers.explain(name)
    used, = [c for c in answers.connections if f"/{name}" in [r.target for r in c.requests]]
    assert used.requests[-1].target == f"/{name}", "U: that connection is used no more" + answers.explain(name)
    answers.assert_allowed(name, 2)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", CUT)
def test_an_answer_that_was_cut_never_looks_complete(answers, case, door):
    name = f"{case}/{door}"
    step, = answers[name].of("response")
    assert answers[name].ended and len(step.body) < 100 and b"\r\n0\r\n\r\n" not in step.data + step.body, "C" + answers.explain(name)
    if door != "tunnel":  # there it is an end without close_notify, which this client does not tell
        assert answers[name].last.end == "reset", "C" + answers.explain(name)
    event, = answers.events(name)
    assert event["status_code"] == "error.upstream", "L" + answers.explain(name)


@pytest.mark.parametrize("door", DOORS)
def test_C18_hop_by_hop_fields_end_here(answers, door):
    name = f"C18-request/{door}"
    if answers[name].status == 400:  # nominating a field of the message itself is refused
        answers.assert_denied_once(name, FRAMING)
        answers.assert_bytes_absent(b"C18-request/" + door.encode())
    else:
        sent, = [r for r in answers.requests if r.target == f"/{name}"]
        fields = {key.lower(): value for key, value in sent.fields}
        assert fields["host"] == HOST and fields["authorization"] == "Bearer t" and fields["content-length"] == "0", sent.raw
        assert not {"x-secret", "proxy-authorization", "proxy-connection", "te", "keep-alive"} & set(fields), sent.raw
    name = f"C18-response/{door}"
    first = answers[name].of("response")[0]
    names = {line.split(b":")[0].lower() for line in first.data.split(b"\r\n")[1:] if line}
    assert first.status == 502 or (first.body == b"ok" and names == {b"x-kept", b"content-length"}), "C" + answers.explain(name)
    answers.assert_bytes_absent(b"eA==")


# --- E07, E08, H05: large, slow, half-closed, compressed

UPLOAD = bytes(range(256)) * 4096  # 1 MiB
PARTS = 4
BOMB = gzip.compress(bytes(16 << 20), 9)  # 16 KiB that come to 16 MiB
BIG = hashlib.sha256(b"seed").digest() * (5_000_000 // 32)


def partial(_request, connection):
    connection.send(b"HTTP/1.1 206 Partial Content\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-%d/9000000\r\n"
                    b"Accept-Ranges: bytes\r\nContent-Length: %d\r\n\r\n" % (len(BIG) - 1, len(BIG)) + BIG)


@pytest.fixture(scope="module")
def large(world, who):
    chunk = b"%x\r\n" % len(UPLOAD) + UPLOAD + b"\r\n"
    for door in DOORS:
        world.origin.on(f"/E08/{door}", partial)
        world.origin.on(f"/H05-down/{door}", answer("200 OK", BOMB, ("Content-Encoding: gzip",)))
        # "the first half is here", so that the client's pause is over when the origin says so
        world.origin.on_head(f"/E07-pause/{door}", lambda _request, connection: connection.send(b"HTTP/1.1 103 Early Hints\r\n\r\n"))

    def ask(case, door):
        path = f"/{case}/{door}"
        if case == "E07-upload":
            return [request(door, "POST", path, "Transfer-Encoding: chunked", close=True), send(chunk * PARTS), send("0\r\n\r\n"), response(), END]
        if case == "E07-pause":
            return [request(door, "POST", path, "Transfer-Encoding: chunked", close=True), send("5\r\nhel"), HEAD, send("lo\r\n0\r\n\r\n"), response(), END]
        if case == "E07-options":
            return [request(door, "OPTIONS", path, "Transfer-Encoding: chunked", close=True), send("2\r\nok\r\n0\r\n\r\n"), response(), END]
        if case == "H05-up":
            return [request(door, "POST", path, "Content-Encoding: gzip", f"Content-Length: {len(BOMB)}", close=True), send(BOMB), response(), END]
        shut = [{"do": "shut"}] if door != "tunnel" and case == "E08" else []
        return [request(door, "GET", path, "Accept-Encoding: gzip", "Range: bytes=0-"), *shut, response(), *([END] if shut else [])]

    batch = Batch(world, visits(["E07-upload", "E07-pause", "E07-options", "E08", "H05-up", "H05-down"], ask), policy=world.bodies, user=who,
                  threads=4)
    settled(world, batch)
    return batch


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case,body", [("E07-upload", UPLOAD * PARTS), ("E07-pause", b"hello"), ("E07-options", b"ok"), ("H05-up", BOMB)],
                         ids=["upload", "pause", "options", "compressed"])
def test_bodies_go_up_as_they_are(large, case, body, door):
    name = f"{case}/{door}"
    large.assert_status(name, 200)
    sent, = [r for r in large.requests if r.target == f"/{name}"]
    assert hashlib.sha256(sent.body).digest() == hashlib.sha256(body).digest(), f"U: {len(sent.body)} bytes"
    chunked = case != "H05-up"
    assert bool(sent.get("transfer-encoding")) == chunked and bool(sent.get("content-length")) != chunked, "U: framed as it came"
    event, = large.assert_allowed(name)
    assert event["http_request"]["body_length"] == len(body), "L" + large.explain(name)


@pytest.mark.parametrize("door", DOORS)
def test_E08_a_half_closed_client_gets_all_of_it_as_it_is(large, door):
    name = f"E08/{door}"
    step = large[name].of("response")[0]
    assert step.status == 206 and hashlib.sha256(step.body).digest() == hashlib.sha256(BIG).digest(), "C: " + str(len(step.body))
    for field in (b"Content-Encoding: gzip", b"Accept-Ranges: bytes", b"Content-Length: %d" % len(BIG), b"Content-Range: bytes 0-"):
        assert field.lower() in step.data.lower(), f"C: {field!r} in {step.data!r}"
    if door != "tunnel":
        large.assert_ended(name)
    large.assert_allowed(name)


@pytest.mark.parametrize("door", DOORS)
def test_H05_a_compressed_answer_is_passed_as_it_is(large, door):
    step, = large[f"H05-down/{door}"].of("response")
    assert step.body == BOMB and b"content-encoding: gzip" in step.data.lower(), "C" + large.explain(f"H05-down/{door}")


# --- what another strict parser makes of it


def read_by_h11(connection):
    """The requests of a connection as h11 reads them: [method, target, host, body, whether it is whole]."""
    parser, found = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 17), []
    parser.receive_data(bytes(connection.plain))
    while (event := parser.next_event()) is not h11.NEED_DATA:
        if isinstance(event, h11.Request):
            found.append([event.method.decode(), event.target.decode(), dict(event.headers)[b"host"].decode(), b"", False])
        elif isinstance(event, h11.Data):
            found[-1][3] += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            found[-1][4] = True
        elif event is h11.PAUSED:  # another request follows
            parser.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
            parser.send(h11.EndOfMessage())
            parser.start_next_cycle()
        else:
            break
    return found


@pytest.mark.parametrize("name", ["chunks", "interims", "answers", "large"])
def test_h11_reads_the_same_requests(request, who, name):
    """Of everything that left: what the lab's lax parser took for a request is one to a strict one, with the same body, and there are no more."""
    batch = request.getfixturevalue(name)
    assert len(batch.requests) > 10
    for connection in batch.connections:
        read = read_by_h11(connection)
        assert [r[:3] for r in read] == [[r.method, r.target, r.host] for r in connection.requests], connection
        for seen, asked in zip(read, connection.requests):
            assert not seen[4] or seen[3] == asked.body or not asked.body, (seen[:3], len(seen[3]), len(asked.body))
            assert asked.body == b"" or seen[4], "whole to the one, cut to the other"
