"""
Cases D01-D05 (HTTP/1): the name in the tunnel, in the ClientHello, in the certificate and in Host is one; what is not TLS
gets nowhere; an upstream certificate that does not hold is never taken.
"""
import os

import pytest

from lab.certificates import BAD_KINDS
from lab.exchanges import END, connect, exchange, fetch, response, send, tunnel
from lab.oracles import NAME_DENIED, NOT_TLS, TLS_IDENTITY, TLS_UPSTREAM, Batch
from lab.eclusa import run_eclusa
from lab.origin import BANNER_TEXT

INSIDE = "GET /inside HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
MISMATCHES = {
    "D01-denied": ("allowed.test", "denied.test"),
    "D01-another-allowed": ("allowed.test", "a.wild.test"),
    "D01-parent": ("a.wild.test", "wild.test"),
    "D01-prefix": ("allowed.test", "allowed.test.evil.test"),
}
NOISE = {
    "D04-ssh": b"SSH-2.0-x\r\n",
    "D04-http": b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n",
    "D04-random": os.urandom(63) + b"\xff",
    "D04-ssh-to-a-server-that-speaks-first": b"SSH-2.0-x\r\n",
    "D04-silence": b"",
    "D04-silence-to-a-server-that-speaks-first": b"",
}


@pytest.fixture(scope="module")
def refusals(lab, who):
    """D01 and D04: nothing of these may open a connection upstream."""
    visits = [exchange(name, tunnel(host, sni=sni, verify=False), send(INSIDE), response(), END)
              for name, (host, sni) in MISMATCHES.items()]
    for name, noise in NOISE.items():
        target = "banner.test:2222" if "first" in name else "allowed.test:443"
        visits.append(exchange(name, connect(target), *([send(noise)] if noise else []), END))
    return Batch(lab, visits, user=who, threads=10)


@pytest.mark.parametrize("case", MISMATCHES)
def test_D01_sni_differs_from_the_connect_host(refusals, case):
    step = refusals[case].of("tls")[0]
    assert step.error and "UNRECOGNIZED_NAME" in (step.alert or step.error), "C: unrecognized_name" + refusals.explain(case)
    refusals.assert_no_connection()
    event = refusals.assert_denied_once(case, TLS_IDENTITY)
    assert event["dst_endpoint"]["hostname"] == MISMATCHES[case][0]
    assert event["unmapped"]["eclusa"]["host_sources"]["sni"] == MISMATCHES[case][1], refusals.explain(case)


@pytest.mark.parametrize("case", NOISE)
def test_D04_what_is_not_tls(refusals, case):
    seen = refusals[case]
    assert seen.statuses == [200], refusals.explain(case)
    assert seen.ended, "C: closed within the handshake deadline" + refusals.explain(case)
    assert BANNER_TEXT not in seen.received and b"SSH-" not in seen.received, "C" + refusals.explain(case)
    refusals.assert_no_connection()
    if case == "D04-http":  # judged as through every other door, and told in HTTP
        assert b"HTTP/1.1 403 deny.scheme" in seen.received, "C" + refusals.explain(case)
        refusals.assert_denied_once(case, {"deny.scheme"})
        return
    assert len(seen.last.data) < 10, "C: at most a TLS alert" + refusals.explain(case)
    refusals.assert_denied_once(case, NOT_TLS if NOISE[case] else NOT_TLS | {"error.timeout", "deny.limit"})


@pytest.fixture(scope="module")
def identities(lab, who):
    return Batch(lab, [
        exchange("D01-twin", fetch("allowed.test", "/D01-twin")),
        exchange("D02-host", tunnel("allowed.test"), send("GET /D02-host HTTP/1.1\r\nHost: denied.test\r\n\r\n"), response(), END),
        exchange("D02-other-allowed", tunnel("allowed.test"),
                 send("GET /D02-other HTTP/1.1\r\nHost: a.wild.test\r\n\r\n"), response(), END),
        exchange("D02-absolute", tunnel("allowed.test"),
                 send("GET https://denied.test/D02-absolute HTTP/1.1\r\nHost: denied.test\r\n\r\n"), response(), END),
        exchange("D02-twin", fetch("allowed.test", "/D02-twin")),
        exchange("D03-no-sni", tunnel("allowed.test", sni=None), send("GET /D03 HTTP/1.1\r\nHost: allowed.test\r\n"
                                                                     "Connection: close\r\n\r\n"), response(), END),
        exchange("D03-no-sni-other-host", tunnel("allowed.test", sni=None),
                 send("GET /D03-other HTTP/1.1\r\nHost: denied.test\r\n\r\n"), response(), END),
    ], user=who)


@pytest.mark.parametrize("case", ["D01-twin", "D02-twin"])
def test_one_name_everywhere_is_served(identities, case):
    identities.assert_status(case, 200)
    assert identities[case].of("tls")[0].names == ["allowed.test"], identities.explain(case)
    identities.assert_allowed(case)
    assert f"/{case}" in [r.target for r in identities.requests], "U"


@pytest.mark.parametrize("case,target", [("D02-host", b"D02-host"), ("D02-other-allowed", b"D02-other"),
                                         ("D02-absolute", b"D02-absolute"), ("D03-no-sni-other-host", b"D03-other")])
def test_D02_fronting_inside_the_tunnel(identities, case, target):
    identities.assert_status(case, {403, 421, 400})
    identities.assert_ended(case)
    identities.assert_bytes_absent(target, b"denied.test")
    identities.assert_denied_once(case, TLS_IDENTITY | NAME_DENIED)
    identities.assert_canary_silent()


def test_D03_no_sni(identities):
    """The leaf and the upstream SNI come from the CONNECT host, and inspection goes on."""
    identities.assert_status("D03-no-sni", 200)
    assert identities["D03-no-sni"].of("tls")[0].names == ["allowed.test"], identities.explain("D03-no-sni")
    assert [c.sni for c in identities.connections for r in c.requests if r.target == "/D03"] == ["allowed.test"], "U"
    identities.assert_allowed("D03-no-sni")


@pytest.fixture(scope="module")
def certificates(lab, who):
    """One after another, with clients that verify and clients that would take anything."""
    pem = run_eclusa(lab, [], ["/usr/bin/python3", "-c", PRINT_CA], user=who).output
    lab.certificates.imitate(pem.encode())
    visits = [exchange(f"{kind}/{door}", fetch(f"{kind}.wild.test", f"/D05-{kind}", verify=door == "verify"))
              for kind in BAD_KINDS for door in ("verify", "insecure")]
    visits.append(exchange("twin", fetch("good.wild.test", "/D05-good")))
    return Batch(lab, visits, user=who)


# The CA that this sandbox trusts beyond the system's roots is the last one of its bundle.
PRINT_CA = """
import os, re
text = open(os.environ["SSL_CERT_FILE"]).read()
found = re.findall("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", text, re.S)
extra = open(os.environ["NODE_EXTRA_CA_CERTS"]).read()
own = re.findall("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", extra, re.S)
print(own[0] if len(own) == 1 else found[-1])
"""


@pytest.mark.parametrize("door", ["verify", "insecure"])
@pytest.mark.parametrize("kind", BAD_KINDS)
def test_D05_bad_upstream_certificate(certificates, kind, door):
    name = f"{kind}/{door}"
    certificates.assert_status(name, 502)
    denial = certificates[name].denial()
    assert denial and denial["reason"] == "deny.upstream-cert" and len(str(denial)) > 60, "C: a readable reason" + certificates.explain(name)
    attempts = [c for c in certificates.connections if c.sni == f"{kind}.wild.test"]
    assert attempts and not any(c.plain for c in attempts), "U: no request byte" + certificates.explain(name)
    event = certificates.assert_denied_once(name, TLS_UPSTREAM)
    assert event["dst_endpoint"]["hostname"] == f"{kind}.wild.test"
    certificates.assert_canary_silent()


def test_D05_twin(certificates):
    certificates.assert_status("twin", 200)
    certificates.assert_allowed("twin")
    assert [r.target for r in certificates.requests] == ["/D05-good"], "U"


def test_D05_curl_insecure(lab, who):
    """The client's flag changes nothing: it is about the proxy's leaf, which is good anyway."""
    mark = lab.origin.connections.mark()
    script = "for h in selfsigned good; do curl -sk -o /dev/null -w '%{http_code} ' https://$h.wild.test/D05-curl; done"
    run = run_eclusa(lab, [], ["/bin/sh", "-c", script], user=who)
    assert run.output.split() in (["502", "200"], ["000", "200"]), run.report()
    assert [r.host for r in lab.origin.requests(mark)] == ["good.wild.test"], "U"
    assert [e["status_code"] for e in run.decisions()] == ["deny.upstream-cert", "allow.rule"], run.report()
    lab.canary.assert_silent()
