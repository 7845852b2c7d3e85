"""
`eclusa policy explain` gives the verdicts and reasons of the proxy: every case of names and ports that
test_cases_names.py sends through the proxy is asked here, and has to get what is expected there.
"""
import base64
import json
import os
import re
import subprocess

import pytest

from lab.eclusa import program
from lab.exchanges import END, exchange, fetch, response, send
from lab.oracles import Batch
from lab.world import ORIGIN, POLICY
from test_cases_names import ALLOWED, REFUSED


def explain(*words):
    ran = subprocess.run([program(), "policy", "explain", "--json", *words], capture_output=True, timeout=60)
    assert ran.returncode in (0, 1), ran.stderr
    said = json.loads(ran.stdout)
    assert ran.returncode == (0 if said["verdict"] == "allow" else 1)
    return said


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    path = tmp_path_factory.mktemp("policy") / "bench.allow"
    path.write_text(POLICY)
    return str(path)


def words_of(steps):
    """Method and target of the bytes that the case sends."""
    line = base64.b64decode(steps[0]["data"]).split(b"\r\n")[0]
    return re.fullmatch(rb"([A-Z]+) (.*) HTTP/1\.1", line, re.S).groups()


@pytest.mark.parametrize("case", [c for c in REFUSED if c != "A07-byte-00"])  # no argument holds a NUL byte
def test_refused(bench, case):
    steps, _, codes = REFUSED[case]
    method, target = words_of(steps)
    said = explain("--policy", bench, "--", "bench", method, target)
    assert said["verdict"] == "deny" and said["reason"] in codes, said


# What only bytes on a connection can be: a request line of more than three parts, a path without a host, a version's place.
ONLY_ON_THE_WIRE = {"A10-malformed-blank-443", "A09-no-scheme"}


def test_the_proxy_gives_the_same_reasons(lab, bench):
    """Reason by reason against what the proxy writes down, one sandbox for all."""
    cases = {c: steps for c, (steps, _, _) in REFUSED.items() if c != "A07-byte-00" and c not in ONLY_ON_THE_WIRE}
    batch = Batch(lab, [exchange(name, steps) for name, steps in cases.items()])
    different = []
    for case, steps in cases.items():
        reason = batch.events(case)[0]["status_code"]
        said = explain("--policy", bench, "--", "bench", *words_of(steps))
        if said["reason"] != reason:
            different.append((case, reason, said["reason"]))
    assert not different


@pytest.mark.parametrize("case", ALLOWED)
def test_allowed(bench, case):
    spelled, one_form = ALLOWED[case]
    for method, target in (("CONNECT", f"{spelled}:443"), ("GET", f"https://{spelled}/{case}")):
        said = explain("--policy", bench, "bench", method, target)
        assert (said["verdict"], said["reason"], said["request"]["host"]) == ("allow", "allow.rule", one_form), said


PATHS = f"""policy 1
[profile p]
allow allowed.test:80,443 GET /v1/** query=deny addr={ORIGIN}/32
deny allowed.test GET /v1/secret
deny old.test /x
allow old.test expires=2020-01-01 addr={ORIGIN}/32
"""
URLS = [f"{scheme}://{rest}" for scheme in ("http", "https") for rest in (
    "allowed.test/v1/x", "allowed.test/v1/./y/../x", "allowed.test/v2", "allowed.test/v1/x?q", "allowed.test/v1/a%2fb",
    "allowed.test/v1/..%2fx", "allowed.test/v1/%zz", "allowed.test/v1/secret", "allowed.test/v1//secret", "old.test/x",
    "old.test/y", "other.test/..%2fx", "allowed.test:444/v1/x")]


def test_the_proxy_gives_the_same_reasons_to_paths(lab):
    """In a tunnel and in absolute form, which judge in a different order."""
    def visit(url):
        scheme, host, path = re.fullmatch(r"(https?)://([^/]+)(/.*)", url).groups()
        name, _, port = host.partition(":")
        if scheme == "https":
            return exchange(url, fetch(name, path, int(port or 443)))
        return exchange(url, send(f"GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), response(), END)

    policy = lab.write("paths.allow", PATHS)
    batch = Batch(lab, [visit(url) for url in URLS], policy=policy)
    for url in URLS:
        events = batch.events(url)
        assert len(events) == 1, batch.explain(url)
        assert explain("--policy", policy, "GET", url)["reason"] == events[0]["status_code"], batch.explain(url)


def test_the_answer_names_rule_place_and_edit(bench):
    said = explain("--policy", bench, "bench", "PUT", "https://x.wild.test:8443/")
    assert said["reason"] == "deny.port"
    assert said["rule"]["id"] == "bench-wild" and said["rule"]["line"] == 5 and said["rule"]["file"] == bench
    assert said["near_misses"][0]["differs"] == ["port", "method"]
    assert said["edit"] == {"action": "add", "text": "add this rule to the profile",
                            "add": f"allow x.wild.test:8443 PUT / addr={ORIGIN}/32"}
    with open(os.path.join(os.path.dirname(bench), "edited.allow"), "w", encoding="ascii") as file:
        file.write(POLICY + said["edit"]["add"] + "\n")
    assert explain("--policy", file.name, "PUT", "https://x.wild.test:8443/")["verdict"] == "allow"


NEW = """policy 1
[profile p]
allow a.test POST /v1/** req-body=8m up=64m window=1h rate=50/s header-deny=cookie id=api
allow s.test tls=splice id=s
allow tcp t.test:22 id=t
allow ip:203.0.113.0/24:8443 id=i
allow o.test /x mode=observe id=o
"""


def test_limits_passages_and_observing_are_said(tmp_path):
    path = tmp_path / "new.allow"
    path.write_text(NEW)

    def ask(method, url):
        ran = subprocess.run([program(), "policy", "explain", "--policy", path, method, url], capture_output=True, text=True, timeout=60)
        return ran.returncode, ran.stdout.splitlines(), explain("--policy", str(path), method, url)

    status, lines, said = ask("POST", "https://a.test/v1/x")
    effect = "allow a.test:443 POST /v1/** header-deny=cookie req-body=8m resp-body=1g rate=50/s up=64m window=1h"
    assert (status, lines[0][:10], lines[2]) == (0, "allow.rule", f"  in full: {effect}")
    assert (said["rule"]["effect"], said["rule"]["transport"], said["rule"]["observe"]) == (effect, "inspect", False)
    assert len(lines) == 3, "an allowed request is told of no other hosts"
    status, lines, said = ask("GET", "https://s.test/")
    assert (status, lines[0][:12], lines[3]) == (0, "allow.splice", "  TLS passes unopened: its requests are not judged, nor recorded")
    assert said["rule"]["transport"] == "splice" and "up=1m" in said["rule"]["effect"], "a default that nobody wrote"
    status, lines, said = ask("CONNECT", "t.test:22")
    assert (status, said["rule"]["transport"], lines[3]) == (0, "tcp", "  bytes pass unread, and TLS or HTTP is cut")
    assert ask("GET", "https://t.test:22/")[2]["reason"] == "deny.protocol"
    assert ask("GET", "https://203.0.113.7:8443/")[0] == 0
    status, lines, said = ask("GET", "https://203.0.113.7/")
    assert (status, said["reason"], said["edit"]["action"]) == (1, "deny.port", "none") and "only an ip: rule" in said["edit"]["text"]
    status, lines, said = ask("GET", "https://o.test/y")
    assert (status, said["reason"], said["would"]) == (0, "observe.would-deny", "deny.path")
    assert lines[1] == "  enforced it is deny.path" and lines[-1] == "  allow o.test /y", "what enforcing needs"
    status, lines, said = ask("CONNECT", "u.test:2222")
    assert lines[-1] == "  or, for a protocol that is neither TLS nor HTTP: allow tcp u.test:2222"


def test_rules_of_the_command_line_and_a_day():
    rule = "a.test expires=2027-06-30"
    assert explain("--allow", rule, "--at", "2027-06-30", "GET", "https://a.test/")["verdict"] == "allow"
    assert explain("--allow", rule, "--at", "2027-07-01", "GET", "https://a.test/")["reason"] == "deny.expired"


@pytest.mark.parametrize("words", [
    ("GET", "https://a.test/"), ("--allow", "a.test", "GET"), ("--allow", "a b c", "GET", "https://a.test/"),
    ("--allow", "a.test", "--policy", "x", "GET", "https://a.test/"), ("--allow", "a.test", "no", "GET", "https://a.test/"),
    ("--allow", "a.test", "--at", "tomorrow", "GET", "https://a.test/"), ("--allow",),
    ("--allow", "a.test", "https://a.test/", "GET")])
def test_usage(words):
    ran = subprocess.run([program(), "policy", "explain", *words], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (2, "") and ran.stderr
