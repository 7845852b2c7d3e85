"""
The transparent door: clients that know no proxy. The gateway hands their connections to the proxy, which knows the host by the address
that its own DNS gave, or by the address itself where an ip: rule opens it; the first bytes say what the connection carries. For the
verdicts of names and paths see test_cases_parity.py, for the gateway alone test_gateway.py.
"""
import pytest

from lab.eclusa import run_eclusa
from lab.exchanges import END, SHUT, captured, response, send, tls, until
from lab.oracles import Batch
from lab.raw_peer import hello_bytes, with_ech
from lab.raw_server import RawServers
from lab.world import ORIGIN

GREETING = b"SSH-2.0-lab\r\n"
POLICY = f"""policy 1

[profile capture]
allow allowed.test:80,443 GET /** addr={ORIGIN}/32 id=name
allow allowed.test:8080 GET /** scheme=http addr={ORIGIN}/32 id=plain-only
allow *.wild.test:80,443 GET /** addr={ORIGIN}/32 id=wild
allow inside.test:80,443 GET /** id=inside
allow nowhere.test:80,443,2299 GET /** addr={ORIGIN}/32 id=nowhere
allow spliced.test:443 tls=splice addr={ORIGIN}/32 id=spliced
allow tcp banner.test:2201-2299 addr={ORIGIN}/32 id=raw
allow ip:{ORIGIN}:80 GET /** id=literal-plain
allow ip:{ORIGIN}:443 GET /** id=literal
allow tcp ip:{ORIGIN}:2202 id=literal-raw
allow ip:198.18.200.0/24:80 GET /** id=pool-plain
allow tcp ip:198.18.200.0/24:2202 id=pool-raw
"""
GET = "GET /{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"
SSH = b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"


def get(path, host="allowed.test", method="GET"):
    return [send(GET.format(path, host).replace("GET", method, 1)), response(method), END]


def echo(connection):
    connection.send(GREETING)
    while data := connection.read():
        connection.send(data)


@pytest.fixture(scope="module")
def world(lab):
    servers = RawServers(lab.world, {2201: echo, 2202: echo, 8080: lambda c: (c.read(), c.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n8080"))})
    lab.canary.agree(ORIGIN, "tcp", "2201-2299, 8080")
    for name in ("nowhere.test", "spliced.test"):
        lab.dns.zone[name] = [ORIGIN]
    lab.dns.zone["inside.test"] = ["10.0.0.5"]
    lab.capture = lab.write("capture.allow", POLICY)
    yield servers
    servers.close()


ADMITTED = {
    "tls": ("allowed.test", 443, [tls("allowed.test"), *get("tls")]),
    "tls-upper": ("ALLOWED.test", 443, [tls("ALLOWED.Test"), *get("upper")]),
    "tls-wild": ("a.wild.test", 443, [tls("a.wild.test"), *get("wild", "a.wild.test")]),
    "plain": ("allowed.test", 80, get("plain")),
    "plain-absolute": ("allowed.test", 80, [send(GET.format("x", "allowed.test").replace("/x", "http://allowed.test/absolute")), response(), END]),
    "plain-other-port": ("allowed.test", 8080, get("plain-8080", "allowed.test:8080")),
    "plain-in-bytes": ("allowed.test", 80, [*[send(bytes([b])) for b in GET.format("bytes", "allowed.test").encode()], response(), END]),
    "keep-alive": ("allowed.test", 80, [send("GET /1 HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response(), *get("2")]),
    "literal-plain": (ORIGIN, 80, get("literal", ORIGIN)),
}
RAW = {
    "raw": ("banner.test", 2201, [send(b"ping"), SHUT, END]),
    "raw-literal": (ORIGIN, 2202, [send(b"ping"), SHUT, END]),
}


@pytest.fixture(scope="module")
def admitted(lab, world, who):
    visits = [captured(name, *case[:2], *case[2]) for name, case in {**ADMITTED, **RAW}.items()]
    visits.append(captured("splice", "spliced.test", 443, tls("spliced.test", verify=False), get("spliced", "spliced.test")[:2]))
    visits.append(captured("raw-silent", "banner.test", 2201, until(b"\n"), SHUT, END))
    return Batch(lab, visits, policy=lab.capture, user=who)


@pytest.mark.parametrize("case", ADMITTED)
def test_requests_of_clients_that_know_no_proxy_are_judged(admitted, case):
    assert b"HTTP/1.1 200 OK" in admitted[case].received, "C" + admitted.explain(case)
    events = admitted.assert_allowed(case, 2 if case == "keep-alive" else 1)
    host, port = ADMITTED[case][:2]
    for event in events:
        assert event["unmapped"]["eclusa"]["intercept"] == "transparent", "L"
        assert (event["dst_endpoint"]["hostname"], event["dst_endpoint"]["ip"], event["dst_endpoint"]["port"]) == (host.lower(), ORIGIN, port), "L"
    tunnels = admitted.run.tunnels(admitted[case].port)
    assert [t["unmapped"]["eclusa"].get("tls_mode") for t in tunnels] == (["inspect"] if "tls" in case else []), "L"


def test_question_connection_and_request_have_one_id(admitted):
    port = admitted["tls-wild"].port
    question = [e for e in admitted.run.events if e["class_uid"] == 4003 and e["query"]["hostname"] == "a.wild.test"]
    ids = {e["metadata"]["correlation_uid"] for e in question[:1] + admitted.events("tls-wild") + admitted.run.tunnels(port)}
    assert len(question) >= 1 and len(ids) == 1, "L" + admitted.explain("tls-wild")


def test_each_admitted_request_left_once_and_under_its_name(admitted):
    sent = sorted((r.host, r.target) for r in admitted.requests)
    assert ("allowed.test", "/tls") in sent and (ORIGIN, "/literal") in sent and ("allowed.test", "/absolute") in sent, "U"
    assert len([r for r in sent if r[1] == "/bytes"]) == 1, "U"
    admitted.assert_canary_silent()


@pytest.mark.parametrize("case", RAW)
def test_raw_bytes_pass_and_the_server_speaks_first(admitted, case):
    assert admitted[case].received == GREETING + b"ping", "C" + admitted.explain(case)
    event, = admitted.events(case)
    assert (event["status_code"], event["class_uid"]) == ("allow.rule", 4001), "L"
    assert event["unmapped"]["eclusa"]["intercept"] == "transparent", "L"


def test_a_client_that_waits_for_the_server_is_not_kept_waiting(admitted):
    """It says nothing before the server's first line."""
    assert admitted["raw-silent"].received.startswith(GREETING), "C" + admitted.explain("raw-silent")


def test_spliced_tls_shows_the_origins_own_certificate(admitted):
    assert b"HTTP/1.1 200 OK" in admitted["splice"].received, "C" + admitted.explain("splice")
    event, = admitted.run.tunnels(admitted["splice"].port)
    assert (event["status_code"], event["unmapped"]["eclusa"]["tls_mode"]) == ("allow.splice", "splice"), "L"


def split_hello(name, size):
    """In records of @size bytes, and each of their bytes in a segment of its own as far as the kernel lets it."""
    message = hello_bytes(name, "3")[5:]
    records = b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part
                       for part in (message[at:at + size] for at in range(0, len(message), size)))
    return [send(records[at:at + 7]) for at in range(0, len(records), 7)]


# Hellos as bytes: what the answer begins with, and what the log says.
HELLOS = {
    "inspect-split": ("allowed.test", split_hello("allowed.test", 40), b"\x16", "allow.rule"),
    "inspect-ech": ("allowed.test", [send(with_ech(hello_bytes("allowed.test", "3")))], b"\x16", "allow.rule"),
    "splice-split": ("spliced.test", split_hello("spliced.test", 40), b"\x16", "allow.splice"),
    "splice-ech": ("spliced.test", [send(with_ech(hello_bytes("spliced.test", "3")))], b"\x15\x03\x03\x00\x02\x02\x31", "deny.ech"),
    "splice-split-elsewhere": ("spliced.test", split_hello("allowed.test", 40), b"\x15\x03\x03\x00\x02\x02\x70", "deny.address-mismatch"),
    "inspect-split-elsewhere": ("allowed.test", split_hello("denied.test", 40), b"\x15\x03", "deny.address-mismatch"),
}


@pytest.fixture(scope="module")
def hellos(lab, world, who):
    visits = [captured(name, case[0], 443, *case[1], until(case[2]), SHUT) for name, case in HELLOS.items()]
    return Batch(lab, visits, policy=lab.capture, user=who)


@pytest.mark.parametrize("case", HELLOS)
def test_a_hello_is_read_in_whatever_pieces_it_comes(hellos, case):
    _, _, answer, reason = HELLOS[case]
    assert hellos[case].received.startswith(answer), "C" + hellos.explain(case)
    events = hellos.run.decisions(hellos[case].port) + hellos.run.tunnels(hellos[case].port)
    assert [e["status_code"] for e in events] == [reason], "L" + hellos.explain(case)


# host, port, steps, reason; how the client sees it: a status, "alert", or "reset"
REFUSED = {
    "port-plain": ("allowed.test", 81, get("x", "allowed.test:81"), "deny.port", 403),
    "port-tls": ("allowed.test", 444, [tls("allowed.test")], "deny.port", "alert"),
    "port-ssh": ("allowed.test", 22, [send(SSH), END], "deny.port", "reset"),
    "scheme-tls": ("allowed.test", 8080, [tls("allowed.test")], "deny.scheme", "alert"),
    "scheme-plain": ("allowed.test", 443, get("x", "allowed.test:443"), "deny.scheme", 403),
    "method": ("allowed.test", 80, get("x", method="DELETE"), "deny.method", 403),
    "no-sni": ("allowed.test", 443, [tls(None, verify=False)], "deny.no-sni", "alert"),
    "sni-mismatch": ("allowed.test", 443, [tls("a.wild.test")], "deny.address-mismatch", "alert"),
    "sni-not-allowed": ("allowed.test", 443, [tls("denied.test")], "deny.address-mismatch", "alert"),
    "splice-no-sni": ("spliced.test", 443, [tls(None, verify=False)], "deny.no-sni", "alert"),
    "splice-mismatch": ("spliced.test", 443, [tls("allowed.test")], "deny.address-mismatch", "alert"),
    "host-mismatch": ("allowed.test", 80, get("x", "a.wild.test"), "deny.address-mismatch", 421),
    "absolute-elsewhere": ("allowed.test", 80, [send("GET http://a.wild.test/ HTTP/1.1\r\nHost: a.wild.test\r\n\r\n"), response(), END],
                           "deny.address-mismatch", 421),
    "connect": ("allowed.test", 80, [send("CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n"), response(), END],
                "deny.protocol", 400),
    "noise": ("allowed.test", 443, [send(b"\0\1\2\3 what is this\r\n"), END], "deny.not-tls", "reset"),
    "ssh-on-a-web-port": ("allowed.test", 443, [send(SSH), END], "deny.not-tls", "reset"),
    "ssh-on-a-port-of-http": ("allowed.test", 8080, [send(SSH), END], "deny.not-tls", "reset"),
    "silence": ("allowed.test", 443, [END], "deny.not-tls", "reset"),
    "half-a-word": ("allowed.test", 80, [send(b"GE"), SHUT, END], "deny.not-tls", "reset"),
    "proxy-header": ("allowed.test", 80, [send(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n" + GET.format("x", "allowed.test").encode()), END],
                     "deny.not-tls", "reset"),
    "folded": ("allowed.test", 80, [send("GET / HTTP/1.1\r\nHost: allowed.test\r\nX: a\r\n b\r\n\r\n"), response(), END], "deny.smuggling", 400),
    "pool": ("198.18.3.4", 443, [END], "deny.address-private", "reset"),
    "pool-opened": ("198.18.200.4", 80, get("x", "198.18.200.4"), "deny.address-private", "reset"),
    "pool-opened-raw": ("198.18.200.4", 2202, [END], "deny.address-private", "reset"),
    "pool-tls": ("198.19.255.254", 443, [send(b"\x16\x03\x01"), END], "deny.address-private", "reset"),
    "literal-port": (ORIGIN, 8081, get("x", f"{ORIGIN}:8081"), "deny.port", 403),
    "literal-sni": (ORIGIN, 443, [tls("allowed.test")], "deny.address-mismatch", "alert"),
}
CUT = {  # on tcp rules: recorded as one decision that ended so
    "raw-tls": ("banner.test", 2201, [send(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"), END], "deny.protocol"),
    "raw-http": ("banner.test", 2201, [send(GET.format("x", "banner.test")), END], "deny.protocol"),
}
UPSTREAM = {
    "method-tls": ("allowed.test", 443, [tls("allowed.test"), *get("x", method="DELETE")], "deny.method", 403),
    "host-mismatch-tls": ("allowed.test", 443, [tls("allowed.test"), *get("x", "a.wild.test")], "deny.host-mismatch", 421),
    "inside-tls": ("inside.test", 443, [tls("inside.test"), *get("x", "inside.test")], "deny.address-private", 403),
    "inside-plain": ("inside.test", 80, get("x", "inside.test"), "deny.address-private", 403),
    "nowhere-tls": ("nowhere.test", 2299, [tls("nowhere.test"), *get("x", "nowhere.test:2299")], "error.upstream", 502),
    "nowhere-raw": ("banner.test", 2298, [END], "error.upstream", "reset"),
    "upstream-cert": (ORIGIN, 443, [tls(None, verify=False), *get("x", ORIGIN)], "deny.upstream-cert", 502),
}


@pytest.fixture(scope="module")
def refused(lab, world, who):
    visits = [captured(name, *case[:2], *case[2]) for name, case in REFUSED.items() if name != "silence"]
    return Batch(lab, visits, policy=lab.capture, user=who)


@pytest.fixture(scope="module")
def silent(lab, world, who):
    """Apart from those who speak, and may be late on a busy machine."""
    return Batch(lab, [captured("silence", *REFUSED["silence"][:2], *REFUSED["silence"][2])], policy=lab.capture, user=who,
                 env={"ECLUSA_LIMITS": "header_ms=200"})


@pytest.fixture(scope="module")
def failed(lab, world, who):
    visits = [captured(name, *case[:2], *case[2]) for name, case in {**CUT, **UPSTREAM}.items()]
    return Batch(lab, visits, policy=lab.capture, user=who)


def assert_told(batch, case, how):
    seen = batch[case]
    if isinstance(how, int):
        assert seen.status == how and seen.ended, "C" + batch.explain(case)
    elif how == "alert":
        assert "TLSV1" in (seen.last.alert or ""), "C" + batch.explain(case)
    else:
        assert not seen.received and (seen.last.end if seen.steps else "reset" in seen.error and "reset") == "reset", "C" + batch.explain(case)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_told_in_the_clients_own_words(refused, silent, case):
    host, _, _, reason, how = REFUSED[case]
    refused = silent if case == "silence" else refused
    assert_told(refused, case, how)
    event = refused.assert_denied_once(case, {reason}, total=len(refused.events(case)))
    assert event["unmapped"]["eclusa"]["intercept"] == "transparent", "L"
    assert event["dst_endpoint"].get("hostname", event["dst_endpoint"].get("ip")) == host, "L" + refused.explain(case)


@pytest.mark.parametrize("case, rule", [("port-ssh", f"tcp allowed.test:22 addr={ORIGIN}/32"), ("ssh-on-a-web-port", None),
                                        ("ssh-on-a-port-of-http", f"tcp allowed.test:8080 addr={ORIGIN}/32")])
def test_for_another_protocol_a_tcp_rule_is_suggested(refused, case, rule):
    event, = refused.events(case)
    assert event["unmapped"]["eclusa"].get("allow") == rule, "L" + refused.explain(case)


@pytest.mark.parametrize("case", ["pool", "pool-opened", "pool-opened-raw"])
def test_no_rule_is_proposed_for_an_address_that_stands_for_nothing(refused, case):
    event, = refused.events(case)
    assert "stands for no name" in event["status_detail"] and "allow" not in event["unmapped"]["eclusa"], "L" + refused.explain(case)


def test_nothing_of_what_was_refused_left(refused, silent):
    for batch in (refused, silent):
        batch.assert_no_question()
        batch.assert_no_connection()


@pytest.mark.parametrize("case", CUT)
def test_what_another_rule_is_for_cuts_raw_bytes(failed, case):
    event, = failed.events(case)
    assert event["status_code"] == CUT[case][3], "L" + failed.explain(case)
    assert "reset" in {step.end for step in failed[case].steps}, "C" + failed.explain(case)


@pytest.mark.parametrize("case", UPSTREAM)
def test_what_fails_towards_the_host_is_told_in_the_clients_own_words(failed, case):
    _, _, _, reason, how = UPSTREAM[case]
    assert_told(failed, case, how)
    denials = [e for e in failed.events(case) if e["status_id"] == 2]
    assert [e["status_code"] for e in denials] == [reason], "L" + failed.explain(case)
    failed.assert_canary_silent()


FLOOD = """
import errno, json, socket
place = socket.getaddrinfo("allowed.test", 443, proto=socket.IPPROTO_TCP)[0][4]
def refused():
    with socket.socket() as sock: # its answer is not waited for: more than the limit have to be asked for in a second, whatever else runs
        sock.setblocking(False)
        sock.connect_ex(place)
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
print(json.dumps([place, any(refused() for _ in range(2_000_000))]))
"""


def test_connections_beyond_those_of_a_second_are_told_as_that(lab, world):
    """Not as ones to a private address, which the name's address here looks like, nor as ones past the proxy."""
    run = run_eclusa(lab, ["--timeout", "150s", "--cpu-time", "150s"], ["/usr/bin/python3", "-c", FLOOD], policy=lab.capture)
    place, refused = run.json()
    assert refused, "C"
    denied = [e for e in run.events if e.get("action_id") == 2]
    assert denied and {(e["status_code"], e["unmapped"]["eclusa"]["address_class"]) for e in denied} == {("deny.rate", "connections")}, "L" + run.report()
    assert {(e["dst_endpoint"]["ip"], e["dst_endpoint"]["port"]) for e in denied if "dst_endpoint" in e} == {tuple(place)}, "L"
    assert [(d["reason"], d["class"]) for d in run.result["denials"]] == [("deny.rate", "connections")], run.report()
    assert "connections in a second" in run.result["denials"][0]["detail"] and not run.result["hints"], run.report()
    lab.canary.assert_silent()
