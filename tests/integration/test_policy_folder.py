"""
A folder of policy files in a run: includes, groups, narrowed uses, profiles that extend others, defaults, deny rules of all profiles,
any, ports, expired rules. The run decides as `eclusa policy explain` says, and the world sees what was allowed alone.
"""
import json
import os
import subprocess

import pytest

from lab.eclusa import program, run_eclusa
from lab.world import ORIGIN, PUBLIC

FILES = {
    "10-base.allow": f"""policy 1
require owner tests
defaults owner=platform ticket=T-1 resp-body=1m
include common/deny.allow

[group pages]
allow allowed.test:80 GET,POST /pages/** /more/*/x  id=pages addr={ORIGIN}/32 rate=100/m
allow allowed.test:80 GET /old/**                   id=old   addr={ORIGIN}/32 expires=2020-01-01
deny  allowed.test    POST /pages/fixed/**          id=fixed

[profile base]
use pages req-body=10 max-uses=3
expect allow GET http://allowed.test/pages/a by=pages
expect deny POST http://allowed.test/pages/fixed/a by=fixed
""",
    "20-agent.allow": f"""policy 1

[profile agent extends base]
allow *.wild.test:80,8000-8010 GET query=deny  id=wild addr={ORIGIN}/32
allow any:80 GET /public/** ticket=T-2 id=anybody
""",
    "common/deny.allow": "policy 1\ndeny closed.test owner=platform id=closed\n",
}
REQUESTS = [  # method, URL, reason, rule
    ("GET", "http://allowed.test/pages/a", "allow.rule", "pages"),
    ("GET", "http://allowed.test/more/1/x", "allow.rule", "pages"),
    ("GET", "http://a.wild.test/q", "allow.rule", "wild"),
    ("GET", "http://any.test/public/x", "allow.rule", "anybody"),
    ("POST", "http://allowed.test/pages/fixed/a", "deny.rule", "fixed"),
    ("DELETE", "http://a.wild.test/q", "deny.method", "wild"),
    ("GET", "http://allowed.test/old/a", "deny.expired", "old"),
    ("GET", "http://a.wild.test/q?x", "deny.query", "wild"),
    ("GET", "http://b.a.wild.test/q", "deny.path", "anybody"),
    ("GET", "http://closed.test/public/x", "deny.rule", "closed"),
    ("GET", "http://any.test:8080/public/x", "deny.port", "anybody"),
]


@pytest.fixture(name="folder")
def fixture_folder(lab):
    lab.dns.zone["any.test"] = lab.dns.zone["closed.test"] = [PUBLIC]
    lab.canary.agree(PUBLIC, "tcp", "80")
    for name, text in FILES.items():
        os.makedirs(os.path.join(lab.folder, "rules", os.path.dirname(name)), exist_ok=True)
        path = lab.write(os.path.join("rules", name), text)
        os.chmod(path, 0o644)
    for path in ("rules", "rules/common"):
        os.chmod(os.path.join(lab.folder, path), 0o755)
    return os.path.join(lab.folder, "rules")


def of_urls(run, method, url):
    """The run's verdict on one of the requests: the only one with its method and path of its host."""
    host, _, path = url[len("http://"):].partition("/")
    path = "/" + path.partition("?")[0]
    found = [e for e in run.decisions() if e["http_request"]["http_method"] == method and e["http_request"]["url"]["path"] == path
             and e["http_request"]["url"]["hostname"] == host.partition(":")[0]
             and e["http_request"]["url"].get("port", 80) == int(host.partition(":")[2] or 80)
             and e["unmapped"]["eclusa"].get("has_query", False) == ("?" in url)]
    assert len(found) == 1, (method, url, run.report())
    return found[0]


def test_a_run_decides_as_explain_says(lab, folder, who):
    script = "; ".join(f"curl -sS -o /dev/null -w '%{{http_code}} ' -X {method} '{url}'" for method, url, _, _ in REQUESTS)
    mark = lab.origin.connections.mark()
    run = run_eclusa(lab, ["--timeout", "60s", "--profile", "agent"], ["/bin/sh", "-c", script], policy=folder, user=who)
    assert run.status == 0, run.report()
    allowed = [reason == "allow.rule" for _, _, reason, _ in REQUESTS]
    assert [status == "200" for status in run.output.split()] == allowed, "C" + run.report()
    there = [f"{r.method} {r.host}{r.target}" for r in lab.origin.requests(mark)]
    assert there == [f"{m} {u[len('http://'):]}" for m, u, reason, _ in REQUESTS if reason == "allow.rule"], "U"
    for method, url, reason, rule in REQUESTS:
        event = of_urls(run, method, url)
        said = subprocess.run([program(), "policy", "explain", "--json", "--policy", folder, "agent", method, url],
                              capture_output=True, text=True, timeout=60, check=False)
        explained = json.loads(said.stdout)
        assert (event["status_code"], event["firewall_rule"]["uid"]) == (reason, rule), "L" + run.report()
        assert (explained["reason"], explained["rule"]["id"]) == (reason, rule), said.stdout


def test_a_narrowed_use_holds(lab, folder, who):
    """req-body and max-uses of the use line, not of the group's rule."""
    url = "http://allowed.test/pages/b"
    script = f"curl -sS -o /dev/null -w '%{{http_code}} ' -d 12345678901 {url}; " + "; ".join(
        [f"curl -sS -o /dev/null -w '%{{http_code}} ' {url}"] * 4)
    mark = lab.origin.connections.mark()
    run = run_eclusa(lab, ["--timeout", "60s", "--profile", "agent"], ["/bin/sh", "-c", script], policy=folder, user=who)
    assert run.output.split() == ["413", "200", "200", "200", "503"], "C" + run.report()
    assert len(lab.origin.requests(mark)) == 3, "U"
    assert [e["status_code"] for e in run.decisions()] == ["deny.size"] + ["allow.rule"] * 3 + ["deny.quota"], "L"
