"""
SOCKS5 on the explicit port: a tunnel by name that is judged as CONNECT's is, and carries the same: TLS, requests in the clear, raw bytes
by a tcp rule. Everything else of SOCKS is refused with its reply code, and recorded. Verdicts by name: test_cases_parity.py.
"""
import pytest

from lab.alone import Alone, allow, policy
from lab.eclusa import run_eclusa
from lab.events import wait_until
from lab.exchanges import END, HEAD, exchange, response, send, socks, tls
from lab.oracles import Batch
from lab.raw_server import RawServers
from lab.world import ORIGIN

GREETING = b"SSH-2.0-lab\r\n"
POLICY = f"""policy 1

[profile socks]
allow allowed.test:80,443 GET /** addr={ORIGIN}/32 id=name
allow allowed.test:8080 GET /** scheme=http addr={ORIGIN}/32 id=plain-only
allow nowhere.test:443,2299 GET /** addr={ORIGIN}/32 id=nowhere
allow spliced.test:443 tls=splice addr={ORIGIN}/32 id=spliced
allow tcp banner.test:2201-2299 addr={ORIGIN}/32 id=raw
allow ip:{ORIGIN}:443 GET /** id=literal
"""
GET = "GET /{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"
V6 = bytes.fromhex("20010db8011300000000000000000010")
MAPPED = bytes(10) + b"\xff\xff" + bytes([127, 0, 0, 1])


def get(path, host="allowed.test"):
    return [send(GET.format(path, host)), response(), END]


def echo(connection):
    connection.send(GREETING)
    while data := connection.read():
        connection.send(data)


def byte_by_byte(data):
    return [send(data[at:at + 1]) for at in range(len(data))]


NAME = b"\x0callowed.test"
ADMITTED = {
    "tls": [socks("allowed.test"), tls("allowed.test"), *get("tls")],
    "plain": [socks("allowed.test", 80), *get("plain")],
    "plain-on-another-port": [socks("allowed.test", 8080), *get("plain-8080", "allowed.test:8080")],
    "upper-case-and-dot": [socks("ALLOWED.test.", 80), *get("upper")],
    "all-at-once": [socks("allowed.test", 80, glued=True), *get("glued")],
    "with-its-request": [send(b"\x05\x01\x00\x05\x01\x00\x03" + NAME + b"\x00\x50" + GET.format("whole", "allowed.test").encode()), response(), END],
    "byte-by-byte": [*byte_by_byte(b"\x05\x02\x02\x00\x05\x01\x00\x03" + NAME + b"\x00\x50"), *get("bytes")],
}
WITH_REPLIES = ("with-its-request", "byte-by-byte")  # their response begins with what SOCKS says


@pytest.fixture(scope="module")
def world(lab):
    servers = RawServers(lab.world, {2201: echo, 8080: lambda c: (c.read(), c.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n8080"))})
    lab.canary.agree(ORIGIN, "tcp", "2201-2299, 8080")
    lab.dns.zone["nowhere.test"] = [ORIGIN]
    lab.dns.zone["spliced.test"] = [ORIGIN]
    lab.socks = lab.write("socks.allow", POLICY)
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def admitted(lab, world, who):
    visits = [exchange(name, *steps) for name, steps in ADMITTED.items()]
    visits.append(exchange("raw", socks("banner.test", 2201), send(b"ping"), {"do": "shut"}, END))
    visits.append(exchange("literal", socks(bytes(map(int, ORIGIN.split("."))), 443), tls(None, verify=False),
                           send(f"GET /literal HTTP/1.1\r\nHost: {ORIGIN}\r\nConnection: close\r\n\r\n"), HEAD))
    return Batch(lab, visits, policy=lab.socks, user=who, env={"ECLUSA_LIMITS": "handshake_ms=2000"})


@pytest.mark.parametrize("case", ADMITTED)
def test_a_tunnel_by_name_carries_judged_requests(admitted, case):
    seen = admitted[case]
    assert b"HTTP/1.1 200 OK" in seen.received, admitted.explain(case)
    if case in WITH_REPLIES:
        assert seen.received.startswith(b"\x05\x00\x05\x00\x00\x01" + bytes(6) + b"HTTP/1.1 200"), "C" + admitted.explain(case)
    event, = admitted.assert_allowed(case)
    assert event["unmapped"]["eclusa"]["intercept"] == "socks5" and event["http_request"]["http_method"] == "GET", "L"
    tunnels = admitted.run.tunnels(seen.port)
    assert [t["unmapped"]["eclusa"]["intercept"] for t in tunnels] == ["socks5"], "L: one record of the tunnel"
    assert tunnels[0]["unmapped"]["eclusa"].get("tls_mode") == ("inspect" if case == "tls" else None), "L"


def test_raw_bytes_pass_and_the_server_speaks_first(admitted):
    assert GREETING + b"ping" in admitted["raw"].received, "C" + admitted.explain("raw")
    event, = admitted.events("raw")
    assert event["status_code"] == "allow.rule" and event["class_uid"] == 4001, "L"
    assert event["unmapped"]["eclusa"]["intercept"] == "socks5", "L"


def test_a_literal_is_judged_as_one(admitted):
    """As CONNECT to it is: dialled by its address, and the certificate has to name it, which the origin's does not."""
    assert admitted["literal"].steps[0].status == 0, "C" + admitted.explain("literal")
    assert admitted["literal"].status == 502 and admitted["literal"].ended is False, "C" + admitted.explain("literal")
    admitted.assert_denied_once("literal", {"deny.upstream-cert"})


@pytest.mark.parametrize("path, status, code", [("/v1/x", "200", "allow.rule"), ("/other", "403", "deny.path")])
def test_an_address_that_stands_for_a_name_is_judged_as_the_name(lab, world, who, path, status, code):
    """curl --socks5 looks the name up itself."""
    run = run_eclusa(lab, [], ["curl", "-sS", "--socks5", "10.255.255.254:3128", "-o", "/dev/null", "-w", "%{http_code} %{remote_ip}",
                               f"https://allowed.test{path}"], policy=[f"allowed.test /v1/** addr={ORIGIN}/32"], user=who)
    assert run.output.split()[0] == status, "C" + run.report()
    event, = (e for e in run.decisions() if e["http_request"]["http_method"] == "GET")
    assert (event["status_code"], event["dst_endpoint"]["hostname"]) == (code, "allowed.test"), "L" + run.report()
    assert event["unmapped"]["eclusa"]["intercept"] == "socks5", "L" + run.report()
    assert (path in {request.target for request in lab.origin.requests()}) == (status == "200"), "U"


# steps, what the client is told, the reason
REFUSED = {
    "bind": ([socks("allowed.test", 80, command=2)], 7, "deny.protocol"),
    "udp-associate": ([socks("allowed.test", 80, command=3)], 7, "deny.protocol"),
    "no-command": ([socks("allowed.test", 80, command=0)], 7, "deny.protocol"),
    "address-kind": ([socks("allowed.test", 80, kind=2)], 8, "deny.protocol"),
    "literal-no-rule": ([socks(bytes([203, 0, 113, 77]))], 2, "deny.address-private"),
    "literal-public": ([socks(bytes([5, 6, 7, 8]))], 2, "deny.default"),
    "literal-loopback": ([socks(bytes([127, 0, 0, 1]), 80)], 2, "deny.address-private"),
    "literal-of-no-name": ([socks(bytes([198, 18, 3, 4]))], 2, "deny.address-private"),
    "literal-metadata": ([socks(bytes([169, 254, 169, 254]), 80)], 2, "deny.address-metadata"),
    "literal-6": ([socks(V6)], 2, "deny.address-private"),
    "literal-mapped": ([socks(MAPPED)], 2, "deny.address-private"),
    "literal-as-a-name": ([socks("127.0.0.1", 80)], 2, "deny.address-private"),
    "numeric-name": ([socks("2130706433", 80)], 2, "deny.name-invalid"),
    "bare-6-as-a-name": ([socks("::1", 80)], 2, "deny.name-invalid"),
    "name-with-nul": ([socks("allowed.test\0", 80)], 2, "deny.name-invalid"),
    "name-with-port": ([socks("allowed.test:80", 80)], 2, "deny.name-invalid"),
    "empty-name": ([socks("", 80)], 2, "deny.name-invalid"),
    "port-0": ([socks("allowed.test", 0)], 2, "deny.name-invalid"),
    "other-name": ([socks("denied.test")], 2, "deny.default"),
    "other-port": ([socks("allowed.test", 22)], 2, "deny.port"),
}
RAW = {
    "reserved-byte": (b"\x05\x01\x00\x05\x01\x01\x03" + NAME + b"\x00\x50", b"\x05\x00\x05\x01\x00\x01" + bytes(6)),
    "version-in-the-request": (b"\x05\x01\x00\x04\x01\x00\x03" + NAME + b"\x00\x50", b"\x05\x00\x05\x01\x00\x01" + bytes(6)),
    "no-methods": (b"\x05\x00", b"\x05\xff"),
    "password-only": (b"\x05\x01\x02", b"\x05\xff"),
    "socks4": (b"\x04\x01\x00\x50\xcb\x00\x71\x0ame\0", b"\0\x5b" + bytes(6)),
    "socks4a": (b"\x04\x01\x00\x50\0\0\0\x01me\0allowed.test\0", b"\0\x5b" + bytes(6)),
}


@pytest.fixture(scope="module")
def refused(lab, world, who):
    visits = [exchange(name, *steps) for name, (steps, _, _) in REFUSED.items()]
    visits += [exchange(name, send(data), END) for name, (data, _) in RAW.items()]
    return Batch(lab, visits, policy=lab.socks, user=who)


@pytest.fixture(scope="module")
def late(lab, world, who):
    return Batch(lab, [exchange("slow", send(b"\x05\x01\x00\x05"), END), exchange("silent-greeting", send(b"\x05"), END)],
                 policy=lab.socks, user=who, env={"ECLUSA_LIMITS": "header_ms=1000"})


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_has_its_reply_code_and_a_record(refused, case):
    _, code, reason = REFUSED[case]
    assert refused[case].last.data == b"\x05\x00\x05" + bytes([code]) + b"\x00\x01" + bytes(6), "C" + refused.explain(case)
    refused.assert_refused(case, code, {reason})
    assert refused.events(case)[0]["unmapped"]["eclusa"]["intercept"] == "socks5", "L"


@pytest.mark.parametrize("case", RAW)
def test_what_is_no_request_of_socks5_is_refused_with_a_record(refused, case):
    assert refused[case].received == RAW[case][1] and refused[case].ended, "C" + refused.explain(case)
    refused.assert_no_question()
    refused.assert_no_connection()
    refused.assert_denied_once(case, {"deny.protocol"})


@pytest.mark.parametrize("case,told", [("slow", b"\x05\x00\x05\x02\x00\x01" + bytes(6)), ("silent-greeting", b"\x05\xff")])
def test_a_slow_request_meets_the_deadline_of_heads(late, case, told):
    assert late[case].received == told and late[case].ended, "C" + late.explain(case)
    late.assert_denied_once(case, {"deny.limit"})


@pytest.fixture(scope="module")
def failures(lab, world, who):
    """Tunnels that come to nothing, or carry what they must not."""
    return Batch(lab, [
        exchange("unreachable", socks("banner.test", 2298)),
        exchange("no-address", socks("nxdomain.test", 2201)),
        exchange("sni", socks("allowed.test"), tls("denied.test", verify=False)),
        exchange("tls-where-http-is", socks("allowed.test", 8080), tls("allowed.test", verify=False)),
        exchange("http-where-tls-is", socks("nowhere.test"), send("GET / HTTP/1.1\r\nHost: nowhere.test\r\n\r\n"), response(), END),
        exchange("http-where-a-splice-is", socks("spliced.test"), send("GET / HTTP/1.1\r\nHost: spliced.test\r\n\r\n"), response(), END),
        exchange("http-on-tcp", socks("banner.test", 2201), send("GET / HTTP/1.1\r\nHost: banner.test\r\n\r\n"), END),
        exchange("method", socks("allowed.test", 80), send("PUT /put HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 0\r\n\r\n"), response(), END),
        exchange("other-host", socks("allowed.test", 80), send("GET /other HTTP/1.1\r\nHost: denied.test\r\n\r\n"), response(), END),
        exchange("connect-inside", socks("allowed.test", 80), send("CONNECT denied.test:443 HTTP/1.1\r\nHost: denied.test\r\n\r\n"), response(), END),
        exchange("socks-behind-http", send("GET http://allowed.test/first HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), response(),
                 send(b"\x05\x01\x00"), response(), END),
        exchange("bad-host", socks("nowhere.test", 2299), send("GET / HTTP/1.1\r\n\r\n"), response(), END),
    ], policy=lab.write("socks-failures.allow", POLICY + f"allow tcp nxdomain.test:2201 addr={ORIGIN}/32\n"), user=who)


@pytest.mark.parametrize("case,code,reason", [("unreachable", 5, "error.upstream"), ("no-address", 4, "error.upstream")])
def test_a_host_that_is_not_there_is_said_in_the_reply(failures, case, code, reason):
    failures.assert_status(case, code)
    failures.assert_ended(case)
    event, = failures.events(case)
    assert event["status_code"] == reason and event["unmapped"]["eclusa"]["intercept"] == "socks5", "L" + failures.explain(case)


ANSWERED = ("http-where-tls-is", "http-where-a-splice-is", "bad-host")  # in HTTP, which they speak
ALERTS = {"sni": "UNRECOGNIZED_NAME", "tls-where-http-is": "ACCESS_DENIED"}


@pytest.mark.parametrize("case,reason", [("sni", "deny.sni-mismatch"), ("tls-where-http-is", "deny.scheme"),
                                         ("http-where-tls-is", "deny.scheme"), ("http-where-a-splice-is", "deny.scheme"),
                                         ("http-on-tcp", "deny.protocol"), ("bad-host", "deny.scheme")])
def test_first_bytes_that_no_rule_is_for_end_the_tunnel(failures, case, reason):
    assert failures[case].steps[0].status == 0, "C" + failures.explain(case)
    assert failures[case].ended or ALERTS[case] in failures[case].last.alert, "C" + failures.explain(case)
    refusal = failures[case].denial()
    assert (refusal and refusal["reason"]) == (reason if case in ANSWERED else None), "C" + failures.explain(case)
    failures.assert_denied_once(case, {reason})
    failures.assert_bytes_absent(b"Host: nowhere.test", b"Host: spliced.test", b"Host: banner.test")


@pytest.mark.parametrize("case,status,reason", [("method", 403, "deny.method"), ("other-host", 421, "deny.host-mismatch"),
                                                ("connect-inside", 400, "deny.protocol")])
def test_a_request_inside_is_refused_in_http(failures, case, status, reason):
    failures.assert_status(case, {status, 403, 421, 400})
    failures.assert_ended(case)
    failures.assert_denied_once(case, {reason})
    failures.assert_bytes_absent(b"/put", b"/other", b"CONNECT")


def test_only_a_connection_begins_with_socks(failures):
    assert failures["socks-behind-http"].statuses == [200, 400], "C" + failures.explain("socks-behind-http")
    assert len(failures.events("socks-behind-http")) == 2, "L" + failures.explain("socks-behind-http")


def test_curl_by_name_and_by_its_own_address(lab, world, who):
    """With the name the proxy decides; with an address that the client looked up itself there is none: refused."""
    lines = ["for p in socks5h socks5; do curl -sS --proxy $p://${http_proxy#http://} --noproxy '' "
             f"--resolve allowed.test:443:{ORIGIN} -o /dev/null -w '%{{http_code}}\\n' https://allowed.test/curl; done; true"]
    run = run_eclusa(lab, [], ["/bin/sh", "-c", *lines], policy=lab.write("curl.allow", POLICY.replace("allow ip:", "# allow ip:")), user=who)
    assert run.output.split() == ["200", "000"], run.report()
    assert [e["status_code"] for e in run.decisions()] == ["allow.rule", "deny.address-private"], run.report()


def test_the_proxy_alone_speaks_it(lab, machine, world):
    alone = Alone(lab, machine, policy(allow("allowed.test:80,443 GET /**")))
    mark = lab.origin.connections.mark()
    ran = [machine.run("sh", "-c", f"curl -sS --proxy socks5h://127.0.0.1:{alone.port} --noproxy '' --cacert {alone.ca} {url} || true")
           for url in ("https://allowed.test/alone", "http://allowed.test/alone", "https://denied.test/alone")]
    wait_until(lambda: alone.events("deny.default"), alone.report)
    assert [("GET allowed.test /alone" in out) for out in ran] == [True, True, False], alone.report()
    assert [(r.host, r.target) for r in lab.origin.requests(mark)] == 2 * [("allowed.test", "/alone")], "U"
    assert {e["unmapped"]["eclusa"]["intercept"] for e in alone.events("deny.default") + alone.events("allow.rule")} == {"socks5"}, "L"
