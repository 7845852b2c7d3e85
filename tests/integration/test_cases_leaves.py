"""
Cases D06-D11 and E06: certificates on both sides, as hosts, the proxy and clients show them. Corners of names in a host's certificate fail; our leaves
pass strict verifiers, for long names as well, are new in each run, and a session of one name is none of another; hellos in pieces, and ALPN.
"""
import json
import os

import pytest

from lab.eclusa import run_eclusa
from lab.exchanges import END, connect, exchange, fetch, response, send, tls, tunnel
from lab.oracles import TLS_UPSTREAM, Batch
from lab.world import ORIGIN

PEER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lab", "tls_peer.py")
LONG = "a" * 63 + ".wild.test"  # one label below wild.test, 73 characters
LONGEST = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 51]) + ".wild.test"  # 253

POLICY = f"""policy 1

[profile leaves]
allow allowed.test:443 GET /** addr={ORIGIN}/32 id=name
allow **.wild.test:443 GET /** addr={ORIGIN}/32 id=wild
allow ip:{ORIGIN}:443 GET /** id=literal
"""
# The names of the certificate that a host shows: all of them look nearly right.
CORNERS = {
    "partial.wild.test": ["part*.wild.test"],
    "infix.wild.test": ["in*x.wild.test"],
    "above.wild.test": ["*.test"],
    "any.wild.test": ["*"],
    "deep.a.wild.test": ["*.wild.test"],
    "dot.wild.test": [".wild.test"],
    "subject.wild.test": [],  # a wildcard as its CN alone
    "wrong-purpose.wild.test": ["wrong-purpose.wild.test"],
    "constrained.wild.test": ["constrained.wild.test"],  # by a CA that may sign for other.test only
}


@pytest.fixture(scope="module")
def world(lab):
    lab.leaves = lab.write("leaves.allow", POLICY)
    for name in [*CORNERS, LONG, LONGEST]:
        lab.dns.zone[name] = [ORIGIN]
    for name, names in CORNERS.items():
        lab.certificates.corner(name, names)
    lab.certificates.corner("nameless.test", [ORIGIN])  # what a client gets that sends no SNI, as one to an address: as a name
    return lab


@pytest.fixture(scope="module")
def corners(world, who):
    visits = [exchange(name, fetch(name, "/D06")) for name in CORNERS]
    visits.append(exchange(ORIGIN, connect(f"{ORIGIN}:443"), tls(None, verify=False),
                           send(f"GET /D06 HTTP/1.1\r\nHost: {ORIGIN}\r\n\r\n"), response(), END))
    visits.append(exchange("twin", fetch("good.wild.test", "/D06-twin")))
    return Batch(world, visits, policy=world.leaves, user=who)


@pytest.mark.parametrize("name", [*CORNERS, ORIGIN])
def test_D06_a_certificate_that_nearly_fits_is_none(corners, name):
    corners.assert_status(name, 502)
    attempts = [c for c in corners.connections if c.sni == (None if name == ORIGIN else name)]
    assert attempts and not any(c.plain for c in attempts), "U: no request byte" + corners.explain(name)
    corners.assert_denied_once(name, TLS_UPSTREAM)


def test_D06_twin(corners):
    corners.assert_status("twin", 200)
    corners.assert_allowed("twin")


def clients(lab, *exchanges, user=None):
    """tls_peer.py in the sandbox, one exchange after another."""
    spec = lab.write(f"tls-{len(lab.runs)}.json", json.dumps(exchanges))
    run = run_eclusa(lab, ["--in", f"{PEER}:tls_peer.py", "--in", f"{spec}:spec.json", "--timeout", "60s"],
                     ["/usr/bin/python3", "tls_peer.py", "spec.json"], policy=lab.leaves, user=user)
    return run, run.json()


@pytest.fixture(scope="module")
def peers(world, who):
    pieces = [{"name": f"pieces-{how}", "host": "allowed.test", "pieces": how} for how in ("bytes", "records-1", "records-2", "records-last", "large")]
    return clients(
        world, {"name": "strict", "host": "allowed.test"}, {"name": "long", "host": LONG}, {"name": "longest", "host": LONGEST},
        {"name": "other-sni", "host": "allowed.test", "sni": "denied.test", "pieces": "records-1"},
        {"name": "resume-other", "host": "a.wild.test", "resume": "allowed.test"}, *pieces, user=who)


@pytest.mark.parametrize("name", ["strict", "long", "longest"])
def test_D07_D08_strict_verifiers_take_our_leaves(peers, name):
    run, seen = peers
    one = seen[name]
    assert one["status"] == 200 and one["strict"] == "OK", one
    assert one["names"] == [{"strict": "allowed.test", "long": LONG, "longest": LONGEST}[name]], one
    text = one["text"]
    for said in ("Subject: \n", "X509v3 Subject Alternative Name: critical", "TLS Web Server Authentication", "X509v3 Authority Key Identifier",
                 "X509v3 Subject Key Identifier", "X509v3 Key Usage: critical"):
        assert said in text, (said, text)
    assert one["lifetime_s"] <= 24 * 3600 and one["backdated_s"] > 60, one
    assert [e["status_code"] for e in run.decisions(one["port"])] == ["allow.rule"], "L"


@pytest.mark.parametrize("how", ["bytes", "records-1", "records-2", "records-last", "large"])
def test_D09_a_hello_in_pieces_gets_the_same_answer(peers, how):
    run, seen = peers
    one = seen[f"pieces-{how}"]
    assert one["status"] == 200 and one["names"] == ["allowed.test"], one
    assert [e["status_code"] for e in run.decisions(one["port"])] == ["allow.rule"], "L"


def test_D09_pieces_hide_no_other_name(peers):
    run, seen = peers
    one = seen["other-sni"]
    assert "UNRECOGNIZED_NAME" in one["error"], one
    assert [e["status_code"] for e in run.decisions(one["port"])] == ["deny.sni-mismatch"], "L"


def test_D10_keys_and_serials_are_new_in_each_run(world, who, peers):
    _, again = clients(world, {"name": "strict", "host": "allowed.test"}, user=who)
    first, second = peers[1]["strict"], again["strict"]
    assert first["serial"] != second["serial"] and first["key"] != second["key"] and first["issuer"] != second["issuer"]
    assert first["serial"] != peers[1]["long"]["serial"] and first["key"] == peers[1]["long"]["key"], "one key in a run"


FIND_KEYS = r"""
import os
marks = [b"PRIVATE KEY", b"-----BEGIN EC"]
found, looked = [], 0
texts = [("environment", "\0".join(f"{k}={v}" for k, v in os.environ.items()).encode())]
for folder, folders, files in os.walk("/"):
    folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/proc", "/sys", "/usr", "/dev/pts")]
    for name in files:
        path = os.path.join(folder, name)
        try:
            if os.path.isfile(path) and os.path.getsize(path) < 4 << 20:
                texts.append((path, open(path, "rb").read()))
        except OSError:
            pass
for fd in range(64):
    try:
        texts.append((f"fd {fd}", os.readlink(f"/proc/self/fd/{fd}").encode()))
    except OSError:
        pass
print(len(texts), [path for path, text in texts if any(mark in text for mark in marks) and path != "find.py" and not path.endswith("/find.py")])
"""


def test_D10_the_keys_are_out_of_reach(world, who):
    script = world.write("find.py", FIND_KEYS)
    run = run_eclusa(world, ["--in", f"{script}:find.py", "--timeout", "60s"], ["/usr/bin/python3", "find.py"], policy=world.leaves, user=who)
    count, found = run.output.split(" ", 1)
    lab_keys = [path for path in json.loads(found.replace("'", '"')) if not path.startswith("/etc/ssl/private")]
    assert int(count) > 20 and lab_keys == [], run.report()


def test_D11_a_session_of_one_name_is_none_of_another(peers):
    run, seen = peers
    one = seen["resume-other"]
    assert one["reused"] is False and one["names"] == ["a.wild.test"] and one["status"] == 200, one
    assert [e["status_code"] for e in run.decisions(one["port"])] == ["allow.rule"], "L"


@pytest.fixture(scope="module")
def protocols(world, who):
    def offer(*names):
        return [connect("allowed.test:443"), tls("allowed.test", alpn=list(names))]

    get = [send("GET /E06 HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n"), response(), END]
    return Batch(world, [exchange("both", *offer("h2", "http/1.1"), *get), exchange("http1", *offer("http/1.1"), *get),
                         exchange("none", *tunnel("allowed.test"), *get),
                         exchange("h2", *offer("h2"), *get), exchange("other", *offer("spdy/1", "http/1.0"), *get)],
                 policy=world.leaves, user=who)


@pytest.mark.parametrize("case", ["both", "http1", "none"])
def test_E06_a_client_that_offers_http1_is_served(protocols, case):
    protocols.assert_status(case, 200)
    assert protocols[case].of("tls")[0].alpn == (None if case == "none" else "http/1.1"), protocols.explain(case)
    protocols.assert_allowed(case)


@pytest.mark.parametrize("case", ["h2", "other"])
def test_E06_a_client_that_offers_others_only_is_told_so(protocols, case):
    step = protocols[case].of("tls")[0]
    assert "no application protocol" in step.error, "C" + protocols.explain(case)
    assert all(c.requests for c in protocols.connections), "U: nobody was dialled for it" + protocols.explain(case)
    event = protocols.assert_denied_once(case, {"deny.protocol"})
    assert "HTTP/1.1" in event["status_detail"] and "ALPN" in event["status_detail"], "L" + protocols.explain(case)
