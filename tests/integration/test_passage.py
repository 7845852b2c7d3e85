"""
Connections that are passed on as bytes: TLS by tls=splice rules, anything else by tcp rules, and literal addresses by ip:
rules. What may be judged of them is, and each denial is looked at from three sides. Cases D01, D03, D04, E08, A10.
"""
import hashlib
import os
import ssl

import pytest

from lab.eclusa import run_eclusa
from lab.events import wait_until
from lab.exchanges import END, connect, exchange, fetch, response, send, tls, tunnel
from lab.oracles import Batch
from lab.raw_server import RawServers
from lab.world import ORIGIN

PEER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab", "raw_peer.py")
ECHO, SINK, SOURCE, RESETS, PARKED, RETRY, ADDRESS, SILENT, CLOSED = 2201, 2202, 2203, 2204, 2205, 8443, 8444, 2206, 2209
BIG = 5_000_000
BLOCK = bytes(range(256)) * 256
GREETING = b"SSH-2.0-lab\r\n"

POLICY = f"""policy 1

[profile passage]
allow allowed.test:443,8443 tls=splice addr={ORIGIN}/32 id=spliced up=64m
allow wild.test:443 tls=splice addr={ORIGIN}/32 id=wild up=64m
allow raw.test:2201-2209 tls=splice addr={ORIGIN}/32 id=spliced-raw up=64m
allow tcp banner.test:2201-2209 addr={ORIGIN}/32 id=raw up=64m
allow tcp banner.test:80,443 addr={ORIGIN}/32 id=raw-web
allow tcp small.test:2202 addr={ORIGIN}/32 id=raw-small up=100k
allow tcp down.test:2203 addr={ORIGIN}/32 id=raw-down up=64m down=1m
allow ip:{ORIGIN}:8444 GET /** id=literal
allow ip:{ORIGIN}:80 GET /** id=literal-plain
allow tcp ip:{ORIGIN}:2201 id=literal-raw
allow header.test:443 GET /** addr={ORIGIN}/32 header-deny=authorization,x-secret id=no-secrets
"""


def pattern(length):
    return (BLOCK * (length // len(BLOCK) + 1))[:length]


def echo(connection):
    connection.send(GREETING)
    while data := connection.read():
        connection.send(data)
    connection.send(b"bye")


def sink(connection):
    """All of the client's bytes first, then as many of our own."""
    connection.read_all()
    connection.send(pattern(BIG))


def source(connection):
    """All of our own first; the client's come after our end."""
    connection.send(pattern(BIG))
    connection.end_sending()
    connection.read_all()


def resets(connection):
    connection.read(1)
    connection.reset()


def parked(connection):
    connection.read_all(1000)


def retry_context(certificates):
    """Its one group is none that clients guess: it asks for a second ClientHello."""
    certificates.context("allowed.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.paths["allowed.test"])
    context.set_ecdh_curve("secp384r1")
    return context


@pytest.fixture(scope="module")
def world(lab):
    def secure(context):
        def serve(connection):
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls_end = context().wrap_bio(incoming, outgoing, server_side=True)
            while True:
                try:
                    tls_end.do_handshake()
                    request = tls_end.read(65536)
                    tls_end.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n" + request[:5])
                    connection.send(outgoing.read())
                    return
                except ssl.SSLWantReadError:
                    connection.send(outgoing.read())
                    data = connection.read()
                    if not data:
                        return
                    incoming.write(data)
        return serve

    servers = RawServers(lab.world, {
        ECHO: echo, SINK: sink, SOURCE: source, RESETS: resets, PARKED: parked, SILENT: lambda c: c.read_all(),
        RETRY: secure(lambda: retry_context(lab.certificates)), ADDRESS: secure(lambda: lab.certificates.context(ORIGIN))})
    lab.canary.agree(ORIGIN, "tcp", "2201-2209, 8443, 8444")
    for name in ("raw.test", "small.test", "down.test", "header.test"):
        lab.dns.zone[name] = [ORIGIN]
    lab.passage = lab.write("passage.allow", POLICY)
    yield servers
    servers.close()


def peers(lab, *exchanges, user=None, limits=None):
    """Raw exchanges one after another. @return the run, and what each client saw."""
    words = [word for steps in exchanges for word in ["+", *steps]][1:]
    run = run_eclusa(lab, ["--in", f"{PEER}:raw_peer.py", "--timeout", "80s"], ["/usr/bin/python3", "raw_peer.py", *words],
                     policy=lab.passage, user=user, env={"ECLUSA_LIMITS": limits} if limits else None)
    return run, run.json()


def events_of(run, seen):
    return run._traffic(seen["port"])


def only_event(run, seen):
    events = events_of(run, seen)
    assert len(events) == 1, (seen, [run.brief(e) for e in events])
    return events[0]


def settled(servers, mark):
    """The connections since then, once the servers are through with them."""
    wait_until(lambda: all(not c.open for c in servers.connections.since(mark)), "the servers' connections end")
    return servers.connections.since(mark)


def at_port(connections, port):
    """Ports have a thread each: what came first to one may be in the record behind what came to another."""
    return next(c for c in connections if c.port == port)


# --- spliced TLS


@pytest.fixture(scope="module")
def spliced(lab, world, who):
    ca = lab.certificates.ca_file
    script = (
        "set -x; curl -sS --cacert ca.pem -o /dev/null -w '%{http_code} %{ssl_verify_result}\\n' https://allowed.test/splice-curl;"
        " awk '/BEGIN/ {c = \"\"} {c = c $0 ORS} END {printf \"%s\", c}' $SSL_CERT_FILE >own.pem; openssl x509 -in own.pem -noout -subject;"
        " curl -sS --cacert own.pem https://allowed.test/splice-untrusted; echo status=$?;"
        " p=${http_proxy#http://}; echo | openssl s_client -proxy ${p%/} -connect allowed.test:443 -servername allowed.test"
        " -CAfile ca.pem -verify_return_error 2>/dev/null | grep -E 'issuer=|Verif';"
        " printf 'GET /retry HTTP/1.1\\r\\n\\r\\n' | openssl s_client -proxy ${p%/} -connect allowed.test:8443 -servername"
        " allowed.test -groups X25519:P-384 -CAfile ca.pem -verify_return_error -ign_eof 2>/dev/null | grep -E 'HTTP/1|Server Temp'")
    mark = lab.origin.connections.mark()
    run = run_eclusa(lab, ["--in", f"{ca}:ca.pem", "--timeout", "60s"], ["/bin/sh", "-c", script], policy=lab.passage, user=who)
    assert run.status == 0, run.report()
    return run, lab.origin.connections.since(mark)


def test_the_client_sees_the_origins_own_certificate(spliced):
    run, connections = spliced
    assert "200 0" in run.output, run.report()
    assert "issuer=CN = Lab test CA" in run.output and "Verification: OK" in run.output, run.report()
    assert "CN = Eclusa sandbox CA" in run.output, run.report()
    assert "status=60" in run.output, "C: this run's own CA does not stand behind it" + run.report()
    assert [r.target for c in connections for r in c.requests] == ["/splice-curl"], "U"
    assert all(c.sni == "allowed.test" for c in connections), "U"


def test_a_spliced_tunnel_has_one_record_with_its_bytes(spliced):
    run, connections = spliced
    events = [e for e in run.tunnels() if e["dst_endpoint"]["port"] == 443]
    assert len(events) == len(connections) == 3, run.report()
    assert run.decisions() == [], run.report()
    for event, connection in zip(events, connections):
        assert event["status_code"] == "allow.splice" and event["firewall_rule"]["uid"] == "spliced", run.report()
        assert event["class_uid"] == 4002 and event["activity_id"] == 1, event
        assert event["unmapped"]["eclusa"]["tls_mode"] == "splice", event
        assert event["traffic"]["bytes_out"] == len(connection.raw), (event["traffic"], connection)
        assert event["traffic"]["bytes_in"] > 500, event["traffic"]
        assert event["dst_endpoint"]["ip"] == ORIGIN, event


def test_a_second_hello_passes_when_it_says_the_same(spliced):
    run, _ = spliced
    assert "HTTP/1.1 200 OK" in run.output and "secp384r1" in run.output.replace("P-384", "secp384r1"), run.report()


REFUSED_HELLOS = {
    "deny.sni-mismatch": (["hello", "denied.test", "3"], "\x15\x03\x03\x00\x02\x02\x70"),
    "deny.sni-mismatch another allowed": (["hello", "wild.test", "3"], "\x15\x03\x03\x00\x02\x02\x70"),
    "deny.no-sni": (["hello", "-", "3"], "\x15\x03\x03\x00\x02\x02\x70"),
    "deny.ech": (["hello", "allowed.test", "3", "ech"], "\x15\x03\x03\x00\x02\x02\x31"),
    "deny.not-tls": (["say", "SSH-2.0-x\\r\\n"], ""),
    "deny.scheme": (["say", "GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n"], "HTTP/1.1 403 deny.scheme allowed.test\r\n"),
    "deny.not-tls malformed": (["say", "\\x16\\x03\\x01\\x00\\x05\\x01\\x00\\x00\\x01\\x03"], "\x15\x03\x03\x00\x02\x02\x32"),
    "deny.not-tls silence": (["rest"], ""),
}


@pytest.fixture(scope="module")
def refused(lab, world, who):
    marks = lab.origin.connections.mark(), lab.dns.log.mark()
    run, seen = peers(lab, *[["allowed.test:443", *steps, *([] if steps == ["rest"] else ["rest"])]
                             for steps, _ in REFUSED_HELLOS.values()], user=who, limits="handshake_ms=2000")
    return run, dict(zip(REFUSED_HELLOS, seen)), lab.origin.connections.since(marks[0])


@pytest.mark.parametrize("case", REFUSED_HELLOS)
def test_a_hello_that_is_refused_reaches_nobody(refused, case):
    run, seen, connections = refused
    assert seen[case]["status"] == 200 and seen[case]["end"] in ("eof", "reset"), seen[case]
    said = REFUSED_HELLOS[case][1]
    assert seen[case]["start"].startswith(said) and bool(said) == bool(seen[case]["start"]), (case, seen[case])
    assert connections == [], "U"
    event = only_event(run, seen[case])
    assert event["status_code"] == case.split()[0] and event["firewall_rule"]["uid"] == "spliced", run.brief(event)
    assert event["traffic"]["bytes_out"] == 0, event["traffic"]
    if "mismatch" in case:
        assert event["unmapped"]["eclusa"]["host_sources"]["sni"] == REFUSED_HELLOS[case][0][1], event


def test_a_second_hello_for_another_host_is_cut(lab, world, who):
    """The host asked for it, and the first one was right."""
    mark = world.connections.mark()
    run, seen = peers(
        lab,
        ["allowed.test:8443", "hello", "allowed.test", "3", "banner", "99", "hello", "denied.test", "3", "rest"],
        ["allowed.test:8443", "hello", "allowed.test", "3", "banner", "99", "hello", "allowed.test", "3", "ech", "rest"],
        ["allowed.test:8443", "hello", "allowed.test", "3", "banner", "99", "say", "\\x17\\x03\\x03\\x00\\x01x",
         "hello", "-", "3", "rest"], user=who)
    for one, reason in zip(seen, ("deny.sni-mismatch", "deny.ech", "deny.no-sni")):
        assert one["end"] == "reset", seen
        assert only_event(run, one)["status_code"] == reason, run.report()
    for connection in settled(world, mark):
        assert connection.end == "reset" and b"denied.test" not in connection.start, connection
        assert len(connection.start) == connection.length < 600, "U: the first hello and nothing else"


@pytest.mark.parametrize("alert", ["\\x15\\x03\\x03\\x00\\x02\\x01\\x5a", "\\x15\\x03\\x03\\x00\\x02\\x02\\x5a"], ids=["warning", "fatal"])
def test_nothing_passes_behind_an_alert_that_takes_a_second_hellos_place(lab, world, alert):
    """OpenSSL ignores user_canceled, and would take a hello for another host behind it."""
    mark = world.connections.mark()
    run, (seen,) = peers(lab, ["allowed.test:8443", "hello", "allowed.test", "3", "banner", "99", "say",
                               "\\x14\\x03\\x03\\x00\\x01\\x01" + alert, "hello", "denied.test", "3", "rest"])
    assert only_event(run, seen)["status_code"] == "allow.splice", run.report()
    (connection,) = settled(world, mark)
    assert b"denied.test" not in connection.start, f"U: {connection}"
    assert connection.start.endswith(alert.encode().decode("unicode_escape").encode("latin-1")), f"U: {connection}"


def test_an_origin_that_is_not_there_is_told_by_an_alert(lab, world, who):
    run, (seen,) = peers(lab, [f"raw.test:{CLOSED}", "hello", "raw.test", "3", "rest"], user=who)
    assert seen["start"] == "\x15\x03\x03\x00\x02\x02\x50", seen
    event = only_event(run, seen)
    assert event["status_code"] == "error.upstream" and "refused" in event["status_detail"], run.brief(event)


# --- raw TCP


@pytest.fixture(scope="module")
def raw(lab, world, who):
    mark = world.connections.mark()
    run, seen = peers(lab, [f"banner.test:{ECHO}", "banner", str(len(GREETING)), "say", "one", "shut", "rest"],
                      [f"banner.test:{ECHO}", "say", "SSH-2.0-client\\r\\n", "banner", "29", "shut", "rest"], user=who)
    return run, seen, settled(world, mark)


def test_a_server_may_speak_first(raw):
    run, (first, second), connections = raw
    assert first["banner"] == GREETING.decode() and first["start"] == "onebye" and first["end"] == "eof", first
    assert second["start"].endswith("bye") or second["banner"].endswith("bye"), second
    assert [bytes(c.start) for c in connections] == [b"one", b"SSH-2.0-client\r\n"], "U"
    event = only_event(run, first)
    assert event["status_code"] == "allow.rule" and event["firewall_rule"]["uid"] == "raw", run.brief(event)
    assert event["class_uid"] == 4001 and event["activity_id"] == 2, event
    assert event["traffic"]["bytes_out"] == 3 and event["traffic"]["bytes_in"] == len(GREETING) + 6, event["traffic"]
    assert event["dst_endpoint"]["hostname"] == "banner.test" and event["dst_endpoint"]["port"] == ECHO, event


CUT_OPENINGS = {
    "tls": ["hello", "banner.test", "3"],
    "tls-without-a-name": ["hello", "-", "2"],
    "get": ["say", "GET / HTTP/1.1\\r\\nHost: denied.test\\r\\n\\r\\n"],
    "unknown-method": ["say", "BREW /pot HTTP/1.1\\r\\n\\r\\n"],
    "http2": ["say", "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"],
    "empty-lines": ["say", "\\r\\n\\r\\nPOST / HTTP/1.1\\r\\n\\r\\n"],
    "control-byte": ["say", "\\x01GET / HTTP/1.1\\r\\n\\r\\n"],
    "proxy-header": ["say", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\\r\\nGET / HTTP/1.1\\r\\n\\r\\n"],
    "alert-before-tls": ["say", "\\x15\\x03\\x01\\x00\\x02\\x01\\x5a", "hello", "banner.test", "3"],
    "another-version": ["say", "\\x16\\x03\\xff\\x00\\x2f\\x01\\x00\\x00\\x2b\\x03\\x03"],
}


@pytest.fixture(scope="module")
def cut(lab, world, who):
    marks = world.connections.mark(), lab.origin.connections.mark()
    run, seen = peers(lab, *[[f"banner.test:{ECHO}", "banner", str(len(GREETING)), *steps, "rest"] for steps in CUT_OPENINGS.values()],
                      *[["banner.test:443", *steps, "rest"] for steps in CUT_OPENINGS.values()], user=who)
    wait_until(lambda: all(not c.open for c in lab.origin.connections.since(marks[1])), "the origin's connections end")
    return run, seen, settled(world, marks[0]), lab.origin.connections.since(marks[1])


@pytest.mark.parametrize("at,case", enumerate(CUT_OPENINGS))
def test_tls_and_http_are_cut_on_a_tcp_rule(cut, at, case):
    run, seen, connections, secure = cut
    for one in (seen[at], seen[at + len(CUT_OPENINGS)]):
        assert one["status"] == 200 and one["end"] == "reset", one
        event = only_event(run, one)
        assert event["status_code"] == "deny.protocol" and event["action_id"] == 2, run.brief(event)
        assert event["traffic"]["bytes_out"] == 0, event["traffic"]
    assert seen[at]["banner"] == GREETING.decode(), "C: the server's greeting does not wait"
    assert connections[at].length == 0, f"U: {connections[at]}"
    assert not any(c.raw for c in secure), f"U: {secure}"


def test_a_host_that_is_not_there_is_said_in_the_answer_to_connect(lab, world, who):
    batch = Batch(lab, [exchange("closed", connect(f"banner.test:{CLOSED}"), END)], policy=lab.passage, user=who)
    batch.assert_status("closed", 502)
    event, = batch.events("closed")
    assert event["status_code"] == "error.upstream", batch.explain("closed")
    assert batch["closed"].denial()["reason"] == "error.upstream"


# --- both ways, whole


@pytest.mark.parametrize("host,first", [("banner.test", []), ("raw.test", ["hello", "raw.test", "2"])], ids=["tcp", "splice"])
@pytest.mark.parametrize("reads", [["rest"], ["slow", "3000"]], ids=["fast", "slow"])
def test_half_closed_connections_carry_the_rest(lab, world, host, first, reads):
    mark = world.connections.mark()
    run, (seen, back) = peers(lab, [f"{host}:{SINK}", *first, "body", str(BIG), "shut", *reads],
                              [f"{host}:{SOURCE}", *first, *reads, "body", str(BIG), "shut"])
    digest = hashlib.sha256(pattern(BIG)).hexdigest()
    sunk, sourced = (at_port(settled(world, mark), port) for port in (SINK, SOURCE))
    for client, server in ((seen, sunk), (back, sourced)):
        assert (client["length"], client["digest"], client["end"]) == (BIG, digest, "eof"), client
        assert server.end == "eof" and server.length - BIG == (server.length - BIG if first else 0), server
        event = only_event(run, client)
        assert event["status_code"] == ("allow.splice" if first else "allow.rule"), run.brief(event)
        assert event["traffic"]["bytes_in"] == BIG and event["traffic"]["bytes_out"] == server.length, event["traffic"]
    if not first:
        assert sunk.digest.hexdigest() == digest and sourced.digest.hexdigest() == digest, "U"
    assert sunk.length == sourced.length >= BIG, (sunk, sourced)


def test_a_reset_of_one_side_is_a_reset_of_the_other(lab, world, who):
    mark = world.connections.mark()
    run, (ours, theirs) = peers(lab, [f"banner.test:{SILENT}", "say", "x", "body", "100000", "abort"],
                                [f"banner.test:{RESETS}", "say", "x", "rest"], user=who)
    connections = settled(world, mark)
    assert at_port(connections, SILENT).end == "reset", connections
    assert theirs["end"] == "reset" and theirs["length"] == 0, theirs
    for one in (ours, theirs):
        assert only_event(run, one)["status_code"] == "allow.rule", run.report()
    assert "the host" in only_event(run, theirs)["status_detail"], run.report()


def test_an_idle_connection_is_cut(lab, world, who):
    mark = world.connections.mark()
    run, (seen,) = peers(lab, [f"banner.test:{PARKED}", "say", "x", "rest"], user=who, limits="idle_ms=600")
    assert seen["end"] == "reset" and seen["length"] == 0, seen
    assert settled(world, mark)[0].end == "reset"
    assert only_event(run, seen)["status_code"] == "error.timeout", run.report()


def test_what_a_rule_grants_ends_the_connection(lab, world, who):
    mark = world.connections.mark()
    run, (up, down) = peers(lab, [f"small.test:{SINK}", "body", "1000000", "shut", "rest"],
                            [f"down.test:{SOURCE}", "rest"], user=who)
    assert up["end"] == "reset", up
    assert down["end"] == "reset" and down["length"] <= 1 << 20, down
    sunk = at_port(settled(world, mark), SINK)
    assert sunk.end == "reset" and sunk.length <= 100 * 1024, sunk
    for one in (up, down):
        assert only_event(run, one)["status_code"] == "deny.budget", run.report()


# --- literal addresses


@pytest.fixture(scope="module")
def literals(lab, world, who):
    get = f"GET /literal HTTP/1.1\r\nHost: {ORIGIN}:8444\r\nConnection: close\r\n\r\n"
    return Batch(lab, [
        exchange("inspected", connect(f"{ORIGIN}:8444"), tls(None), send(get), response(), END),
        exchange("named", connect(f"{ORIGIN}:8444"), tls("allowed.test", verify=False), send(get), response(), END),
        exchange("plain", send(f"GET http://{ORIGIN}/plain-literal HTTP/1.1\r\nHost: {ORIGIN}\r\nConnection: close\r\n\r\n"),
                 response(), END),
        exchange("raw", connect(f"{ORIGIN}:2201"), send("SSH-2.0-x\r\n"), {"do": "shut"}, END),
        exchange("other-port", connect(f"{ORIGIN}:2202"), END),
        exchange("other-address", connect("203.0.113.11:8444"), END),
        exchange("metadata", connect("169.254.169.254:8444"), END),
        exchange("private-name-of-it", connect("denied.test:8444"), END),
    ], policy=lab.passage, user=who)


@pytest.mark.parametrize("case,status,reason", [
    ("other-port", 403, {"deny.port", "deny.address-private"}),
    ("other-address", 403, {"deny.default", "deny.address-private"}),
    ("metadata", 403, {"deny.address-metadata"}),
    ("private-name-of-it", 403, {"deny.default"}),
])
def test_a_literal_that_no_rule_names_is_refused(literals, case, status, reason):
    literals.assert_status(case, status)
    literals.assert_denied_once(case, reason)


def test_a_literal_is_inspected_by_its_address(literals):
    literals.assert_status("inspected", 200)
    assert literals["inspected"].last.end == "eof"
    assert literals["plain"].status == 200, literals.explain("plain")
    assert "/plain-literal" in [r.target for r in literals.requests], "U"
    event, = literals.assert_allowed("inspected")
    assert event["firewall_rule"]["uid"] == "literal" and event["dst_endpoint"]["ip"] == ORIGIN, event
    event, = literals.assert_allowed("plain")
    assert event["firewall_rule"]["uid"] == "literal-plain", event
    assert not any(ORIGIN in str(question) for question in literals.questions), literals.questions


def test_a_name_in_the_hello_of_a_literal_is_a_mismatch(literals):
    step = literals["named"].of("tls")[0]
    assert "UNRECOGNIZED_NAME" in (step.alert or step.error), literals.explain("named")
    literals.assert_denied_once("named", {"deny.sni-mismatch"})


def test_a_literal_passes_raw_bytes(literals):
    assert b"SSH-2.0-lab" in literals["raw"].received and literals["raw"].received.endswith(b"bye"), literals.explain("raw")
    event, = literals.assert_allowed("raw")
    assert event["firewall_rule"]["uid"] == "literal-raw", event


# --- fields


def test_a_field_that_the_rule_does_not_take_is_refused(lab, world, who):
    def asks(field):
        return [*tunnel("header.test"), send(f"GET /{field.split(':')[0]} HTTP/1.1\r\nHost: header.test\r\n{field}\r\n\r\n"), response(), END]

    batch = Batch(lab, [exchange("twin", fetch("header.test", "/twin")), exchange("denied", asks("Authorization: Basic eA==")),
                        exchange("case", asks("X-SECRET:")), exchange("mark", asks("X_Secret: 1")), exchange("hop", [*tunnel("header.test"), send(
                            "GET /hop HTTP/1.1\r\nHost: header.test\r\nConnection: x-secret\r\nX-Secret: 1\r\n\r\n"), response(), END])],
                  policy=lab.passage, user=who)
    batch.assert_status("twin", 200)
    for name in ("denied", "case", "mark", "hop"):
        batch.assert_status(name, 403)
        event = batch.assert_denied_once(name, {"deny.rule"})
        assert "no-secrets" in event["status_detail"] and event["firewall_rule"]["uid"] == "no-secrets", batch.explain(name)
        assert "header-deny" in batch[name].denial()["message"], batch.explain(name)
    assert [r.target for r in batch.requests] == ["/twin"], "U"
