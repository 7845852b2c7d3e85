"""
Observe mode: what enforcing would refuse passes, and the log says with which reason; what observe mode does not relax (explicit deny rules,
addresses, TLS identity, framing) is refused all the same. Each case has the twin that enforces.
"""
import json

import pytest

from lab.eclusa import run_eclusa
from lab.world import PUBLIC

RULE = "allow known.test GET /in req-body=0 resp-body=1k query=deny"
# what a program asks -> what enforcing says
REQUESTS = {
    "default": (["curl", "-sS", "--fail", "https://open.test/x"], "deny.default"),
    "path": (["curl", "-sS", "--fail", "https://known.test/out"], "deny.path"),
    "method": (["curl", "-sS", "--fail", "-X", "DELETE", "https://known.test/in"], "deny.method"),
    "query": (["curl", "-sS", "--fail", "https://known.test/in?q=secret"], "deny.query"),
    "enc-slash": (["curl", "-sS", "--fail", "--path-as-is", "https://known.test/in%2fx"], "deny.path"),
    "port": (["curl", "-sS", "--fail", "http://known.test/in"], "deny.port"),
    "request-size": (["curl", "-sS", "--fail", "-X", "GET", "--data", "x" * 100, "https://known.test/in"], "deny.size"),
    "response-size": (["curl", "-sS", "--fail", "https://known.test/in"], "deny.size"),
}


@pytest.fixture(scope="module")
def services(lab):
    from lab.origin import answer
    lab.dns.zone["open.test"] = lab.dns.zone["known.test"] = [PUBLIC]
    lab.canary.agree(PUBLIC, "tcp", "80")
    lab.origin.on("/in", answer("200 OK", b"y" * 3000, ["Content-Type: text/plain"]))
    return lab


def policy(mode, *rules):
    return "\n".join(["policy 1", "", "[profile p]", f"set mode {mode}", *rules, ""])


def go(lab, who, text, *commands):
    script = "; ".join(f"({' '.join(json.dumps(word) for word in command)}) >/dev/null || echo failed" for command in commands)
    return run_eclusa(lab, ["--timeout", "60s", "--cpu-time", "30s", "--pids-limit", "64"], ["/bin/sh", "-c", script],
                      policy=lab.write("observe.allow", text), user=who)


def last(events):
    """The request's event, not its tunnel's."""
    return [e for e in events if e.get("http_request", {}).get("http_method") != "CONNECT"][-1]


def ours(event):
    return event["unmapped"]["eclusa"]


@pytest.mark.parametrize("case", REQUESTS)
def test_what_enforcing_refuses_passes_and_is_told(services, case):
    command, reason = REQUESTS[case]
    mark = services.origin.connections.mark()
    observed = go(services, None, policy("observe", RULE), command)
    assert services.origin.requests(mark), "U" + observed.report()
    event = last(observed.decisions())
    assert (event["status_code"], ours(event)["would"], ours(event)["mode"]) == ("observe.would-deny", reason, "observe"), observed.report()
    assert (event["action"], event["disposition"], event["status_id"]) == ("Allowed", "Logged", 1)
    assert event["policy"]["is_applied"] is False
    assert ("allow" in ours(event)) == (reason != "deny.size")
    assert ours(event).get("has_query", False) == (case == "query") and "secret" not in json.dumps(event)
    assert observed.result["network"]["decisions"]["observed"] == 1 and observed.result["denials"] == []
    assert "failed" not in observed.output, "C" + observed.report()
    hints = [hint for hint in observed.result["hints"] if "observe mode" in hint]
    assert len(hints) == 1 and hints[0].startswith("1 request was allowed only by observe mode"), observed.report()

    mark = services.origin.connections.mark()
    enforced = go(services, None, policy("enforce", RULE), command)
    assert "failed" in enforced.output, "C" + enforced.report()
    assert enforced.decisions()[-1]["status_code"] == reason, "L" + enforced.report()
    if case != "response-size":
        assert not services.origin.requests(mark), "U" + enforced.report()
    assert enforced.result["network"]["decisions"]["observed"] == 0
    assert not [hint for hint in enforced.result["hints"] if "observe mode" in hint]
    services.canary.assert_silent()


def test_what_stays_enforced(services, who):
    """An explicit deny, private and metadata addresses, literal private addresses, a malformed request: no observing lets them pass."""
    services.dns.zone["inside.test"] = ["192.168.50.1"]
    services.dns.zone["cloud.test"] = ["169.254.169.254"]
    mark = services.origin.connections.mark()
    run = go(services, who, policy("observe", RULE, "deny open.test ANY /never"),
             *[["curl", "-sS", "--fail", "--path-as-is", url] for url in (
                 "https://open.test/never", "http://inside.test/", "http://cloud.test/", "http://192.168.50.1/",
                 "http://169.254.169.254/latest", "https://open.test/a/%2e%2e/never")])
    assert run.output.split() == ["failed"] * 6, "C" + run.report()
    assert not services.origin.requests(mark), "U"
    reasons = [e["status_code"] for e in run.decisions() if e["http_request"]["http_method"] != "CONNECT"]
    assert reasons == ["deny.rule", "deny.address-private", "deny.address-metadata", "deny.address-private", "deny.address-metadata",
                       "deny.smuggling"], "L" + run.report()
    assert run.result["network"]["decisions"]["observed"] == 0
    services.canary.assert_silent()


def test_one_rule_observes_and_the_others_do_not(services, who):
    run = go(services, who, policy("enforce", RULE + " mode=observe", "allow open.test /ok"),
             ["curl", "-sS", "--fail", "https://known.test/out"], ["curl", "-sS", "--fail", "https://open.test/not-ok"],
             ["curl", "-sS", "--fail", "https://open.test/ok"])
    assert run.output.split() == ["failed"], "C" + run.report()
    events = [e for e in run.decisions() if e["http_request"]["http_method"] != "CONNECT"]
    assert [(e["status_code"], ours(e).get("would"), ours(e)["mode"]) for e in events] == [
        ("observe.would-deny", "deny.path", "observe"), ("deny.path", None, "enforce"), ("allow.rule", None, "enforce")], run.report()
    assert run.result["network"]["decisions"]["observed"] == 1


def test_a_request_that_fails_later_was_observed_all_the_same(services):
    """Of a name without an address, and of plain HTTP where TLS is spoken."""
    run = go(services, None, policy("observe", RULE), ["curl", "-sS", "--fail", "https://nowhere.test/x"],
             ["curl", "-sS", "--fail", "http://known.test:443/in"])
    seen = [(e["status_code"], ours(e)["would"], e["action"]) for e in run.decisions()]
    assert seen == [("error.upstream", "deny.default", "Allowed"), ("error.upstream", "deny.scheme", "Allowed")], run.report()


def test_the_line_for_people(services):
    from lab.eclusa import Launch, network_args
    import tempfile
    audit = tempfile.mkdtemp(prefix="audit-", dir=services.folder)
    path = services.write("observe.allow", policy("observe"))
    start = Launch(services, ["run", *network_args(services, audit, path), "--", "curl", "-sS", "https://open.test/x"], audit_dir=audit)
    process = start.popen()
    _, stderr = process.communicate(timeout=60)
    lines = [line for line in stderr.decode().splitlines() if "observe mode" in line]
    assert process.returncode == 0 and len(lines) == 1, stderr
    assert lines[0].startswith("eclusa: 1 request was allowed only by observe mode: eclusa policy suggest "), stderr
