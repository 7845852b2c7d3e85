"""
Cases A01-A05 and A07-A10: one form of a name, and what a rule's name covers. All refusals of a user are one sandbox's
exchanges, all admissions another's, so that "nothing went upstream" is said of everything at once.
"""
import glob

import pytest

from lab.exchanges import END, exchange, fetch, response, send, tls
from lab.oracles import NAME_DENIED, NAME_INVALID, PORT_DENIED, Batch

MALFORMED = NAME_INVALID | {"deny.smuggling"}
CONTROL_BYTES = (0x00, 0x01, 0x0b, 0x1b, 0x7f, 0x80, 0xff)
SECRET = "s3cret-userinfo"


def raw(text):
    """Bytes as the cases write them, and whatever comes back."""
    return [send(text), response(), END]


def connect_to(target, host=None):
    head = f"CONNECT {target} HTTP/1.1\r\n" + (f"Host: {host}\r\n" if host else "")
    return raw(head + "\r\n")


def get(target, host="x"):
    return raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")


# id -> (steps, status, codes). A CONNECT without Host is HTTP/1.0 practice and C11's matter: each has one here.
REFUSED = {
    "A01-denied-with-a-dot": (connect_to("secret.wild.test.:443", "secret.wild.test.:443"), 403, NAME_DENIED),
    "A01-two-dots": (connect_to("allowed.test..:443", "allowed.test..:443"), 400, NAME_INVALID),
    "A02-denied-in-mixed-case": (connect_to("SeCrEt.WILD.Test:443", "SeCrEt.WILD.Test:443"), 403, NAME_DENIED),
    "A03-get-brackets": (get("http://[denied.test]/", "[denied.test]"), 400, NAME_INVALID),
    "A03-connect-brackets": (connect_to("[allowed.test]:443", "[allowed.test]:443"), 400, NAME_INVALID),
    "A03-double-brackets": (connect_to("[[::1]]:443", "[[::1]]:443"), 400, NAME_INVALID),
    "A05-apex": (connect_to("wild.test:443", "wild.test:443"), 403, NAME_DENIED),
    "A05-two-labels": (connect_to("a.b.wild.test:443", "a.b.wild.test:443"), 403, NAME_DENIED),
    "A05-empty-label": (connect_to(".wild.test:443", ".wild.test:443"), 400, NAME_INVALID),
}
for name in ("notallowed.test", "allowed.test.evil.test", "evilwild.test", "wild.test.evil.test", "xallowed.test"):
    REFUSED[f"A04-{name}"] = (connect_to(f"{name}:443", f"{name}:443"), 403, NAME_DENIED)
for byte in CONTROL_BYTES:
    REFUSED[f"A07-byte-{byte:02x}"] = (
        connect_to(f"denied.test{chr(byte)}.wild.test:443", "denied.test:443"), 400, NAME_INVALID)
for text in ("%23", "%00", "%2f", "%40", "%3a443", "%2e", "%", "%zz"):
    host = f"denied.test{text}.wild.test"
    REFUSED[f"A08-connect-{text[1:] or 'bare'}"] = (connect_to(f"{host}:443", f"{host}:443"), 400, NAME_INVALID)
REFUSED["A08-get-23"] = (get("http://denied.test%23.wild.test/"), 400, NAME_INVALID)
for label, target in {
    "userinfo": "http://allowed.test@denied.test/",
    "userinfo-password": f"http://user:{SECRET}@allowed.test/",
    "backslash": "http://allowed.test\\@denied.test/",
    "fragment": "http://denied.test#@allowed.test/",
    "query-at": "http://denied.test?@allowed.test/",
    "no-slashes": "http:allowed.test/",
    "no-host": "http:///allowed.test/",
    "no-scheme": "//allowed.test/",
    "gopher": "gopher://allowed.test/",
}.items():
    REFUSED[f"A09-{label}"] = (get(target, "allowed.test"), 400, MALFORMED | {"deny.protocol", "deny.scheme"})
for port in ("22", "25", "853", "8443"):
    REFUSED[f"A10-unlisted-{port}"] = (connect_to(f"allowed.test:{port}", f"allowed.test:{port}"), 403, PORT_DENIED)
for port in ("0", "65536", "443x", "+443", " 443", "00443", "443:443", ""):
    REFUSED[f"A10-malformed-{port.replace(' ', 'blank-') or 'none'}"] = (
        connect_to(f"allowed.test:{port}", "allowed.test:443"), 400, MALFORMED)

ALLOWED = {
    "A01-one-dot": ("allowed.test.", "allowed.test"),
    "A02-upper-case": ("ALLOWED.TEST", "allowed.test"),
    "A02-wild-mixed-case": ("AnY.WiLd.TEST", "any.wild.test"),
    "A03-plain-twin": ("allowed.test", "allowed.test"),
    "A04-one-label-twin": ("notsecret.wild.test", "notsecret.wild.test"),
    "A05-one-label": ("a.wild.test", "a.wild.test"),
    "A07-underscore-twin": ("a_b.wild.test", "a_b.wild.test"),
}


@pytest.fixture(scope="module")
def refusals(lab, who):
    return Batch(lab, [exchange(name, steps) for name, (steps, _, _) in REFUSED.items()], user=who)


@pytest.fixture(scope="module")
def admissions(lab, who):
    """Spelled as in the case towards the proxy, and by its one form in TLS and Host, as clients do."""
    def visit(name, spelled, one_form):
        return exchange(name, {"do": "connect", "target": f"{spelled}:443"}, tls(one_form),
                        send(f"GET /{name} HTTP/1.1\r\nHost: {spelled}\r\nConnection: close\r\n\r\n"), response(), END)

    return Batch(lab, [visit(name, *names) for name, names in ALLOWED.items()], user=who)


@pytest.mark.parametrize("case", REFUSED)
def test_refused(refusals, case):
    _, status, codes = REFUSED[case]
    event = refusals.assert_refused(case, status, codes)
    if case.startswith("A10-unlisted"):
        assert event["dst_endpoint"]["port"] == int(case.split("-")[-1]), refusals.explain(case)
    if codes == NAME_DENIED:
        assert event["dst_endpoint"]["hostname"] == event["dst_endpoint"]["hostname"].lower().rstrip(".")


@pytest.mark.parametrize("case", ALLOWED)
def test_allowed(admissions, case):
    """The dotless lower-case form in certificate, upstream SNI, Host and audit."""
    host = ALLOWED[case][1]
    admissions.assert_status(case, 200)
    assert host in admissions[case].of("tls")[0].names, "C: certificate" + admissions.explain(case)
    sent = [(c, r) for c in admissions.connections for r in c.requests if r.target == f"/{case}"]
    assert len(sent) == 1, "U: one request" + admissions.explain(case)
    connection, request = sent[0]
    assert (connection.sni, request.host) == (host, host), "U" + admissions.explain(case)
    assert {q.name for q in admissions.questions} <= {h for _, h in ALLOWED.values()}, "U: names asked for"
    event = admissions.assert_allowed(case)[0]
    assert event["dst_endpoint"]["hostname"] == host and event["dst_endpoint"]["port"] == 443
    assert event["http_request"]["url"]["hostname"] == host
    admissions.assert_canary_silent()


def test_A07_bytes_are_escaped_in_the_audit(refusals):
    """Every line was read as JSON already; no raw control byte stands in any."""
    for path in glob.glob(f"{refusals.run.audit_dir}/*.jsonl"):
        with open(path, "rb") as file:
            bad = set(file.read()) & (set(range(32)) - {10} | {127})
    assert not bad, f"L: control bytes {bad}"


def test_A09_credentials_go_nowhere(refusals):
    assert SECRET not in str(refusals.run.events), "L"
    refusals.assert_bytes_absent(SECRET.encode())
    assert SECRET not in str(refusals.run.result["denials"])


def test_A02_policy_in_mixed_case_under_a_turkish_locale(lab, who):
    """The rules are folded as ASCII, whatever the locale: I must not become a dotless i."""
    policy = lab.write("mixed.allow", "policy 1\n\n[profile p]\nallow InSide.WILD.Test:443 GET /** addr=203.0.113.10/32\n")
    batch = Batch(lab, [exchange("upper", fetch("INSIDE.WILD.TEST")), exchange("lower", fetch("inside.wild.test")),
                        exchange("twin", fetch("other.wild.test"))],
                  user=who, policy=policy, env={"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"})
    for case in ("upper", "lower"):
        batch.assert_status(case, 200)
        assert batch.assert_allowed(case)[0]["dst_endpoint"]["hostname"] == "inside.wild.test"
    batch.assert_status("twin", 403)
    batch.assert_denied_once("twin", NAME_DENIED)
    assert {c.sni for c in batch.connections} == {"inside.wild.test"}, "U"
    batch.assert_canary_silent()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_each_door_has_an_allow_and_a_deny(lab, who, scheme):
    """The bench itself: both names have the same address, so only the name makes the difference."""
    def visit(host):
        if scheme == "https":
            return exchange(host, fetch(host, "/door"))
        return exchange(host, send(f"GET http://{host}/door HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
                        response(), END)

    batch = Batch(lab, [visit("allowed.test"), visit("denied.test")], user=who)
    batch.assert_status("allowed.test", 200)
    batch.assert_status("denied.test", 403)
    assert [r.host for r in batch.requests] == ["allowed.test"], "U"
    assert {q.name for q in batch.questions} == {"allowed.test"}, "U"
    event = batch.assert_allowed("allowed.test")[0]
    assert event["http_response"]["code"] == 200 and event["firewall_rule"]["uid"] == "bench-allowed"
    assert event["firewall_rule"]["desc"].startswith("bench.allow:") or "bench.allow:" in event["firewall_rule"]["desc"]
    batch.assert_denied_once("denied.test", NAME_DENIED)
    batch.assert_canary_silent()
