"""One client in one sandbox: what it fetches from the lab's origin, and what all three parties say of it."""
import hashlib
import json

from clients.packages import tarball_of_module, wheel_of_package
from clients.table import CAPTURE, HOST
from lab.eclusa import run_eclusa
from lab.origin import answer
from lab.world import ORIGIN

OTHER = "other.test"
PAGE = f"https://{HOST}/client"
REFS = b"0123456789abcdef0123456789abcdef01234567\trefs/heads/main\n"
MARK = "what the origin answers"
EXPECTED = {"git over https": "0123456789abcdef0123456789abcdef01234567", "pip": "labpackage-1.0", "npm": "labmodule-1.0.0.tgz",
            "git over ssh": "lab-banner"}
LIMITS = ["--timeout", "60s", "--cpu-time", "60s", "--memory", "3G", "--pids-limit", "512", "--cpus", "2"]


def serve(lab):
    """Whatever some client of the table asks for."""
    wheel, module = wheel_of_package(), tarball_of_module()
    link = f'<a href="/client/labpackage-1.0-py3-none-any.whl#sha256={hashlib.sha256(wheel).hexdigest()}">labpackage</a>'
    document = {"name": "labmodule", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "labmodule", "version": "1.0.0", "dist": {"tarball": f"{PAGE}/labmodule/-/labmodule-1.0.0.tgz",
                                                          "shasum": hashlib.sha1(module).hexdigest()}}}}
    for path, body, kind in [
        ("/client", MARK.encode(), "text/plain"),
        ("/client.git/info/refs", REFS, "text/plain"),
        ("/client/simple/labpackage/", b"<!DOCTYPE html>" + link.encode(), "text/html"),
        ("/client/labpackage-1.0-py3-none-any.whl", wheel, "application/zip"),
        ("/client/labmodule", json.dumps(document).encode(), "application/json"),
    ]:
        lab.origin.on(path, answer("200 OK", body, [f"Content-Type: {kind}"]))


def run_client(lab, client, mode, host, who=None):
    """@host: the one that is allowed."""
    proxy_env = ["--proxy-env", "off"] if mode == CAPTURE else []
    inputs = [word for path in client.inputs for word in ("--in", path)]
    variables = [word for pair in client.env for word in ("-e", pair)]
    rule = client.rule.replace("{host}", host) + f" addr={ORIGIN}/32"
    return run_eclusa(lab, [*LIMITS, *proxy_env, *inputs, *variables], client.words(PAGE), policy=[rule], user=who)


def events_of(client, run):
    """@return those that name its host, and those that name another: what a browser asks for by itself."""
    def named(event):
        return event.get("dst_endpoint", {}).get("hostname") or event.get("query", {}).get("hostname")
    events = [event for event in run.events if event.get("class_uid") in (4001, 4002, 4003) and named(event)]
    return [e for e in events if named(e) == client.host], [e for e in events if named(e) != client.host]


def check_allowed(lab, client, mode, who=None):
    """@return the run. AssertionError: it was not as it should be."""
    mark = lab.origin.connections.mark()
    run = run_client(lab, client, mode, client.host, who)
    assert run.status == 0 and EXPECTED.get(client.name, MARK) in run.output, "C" + run.report()
    assert lab.origin.connections.since(mark), "U" + run.report()
    assert {request.host for request in lab.origin.requests(mark)} <= {client.host}, f"U: {lab.origin.requests(mark)}"
    events, others = events_of(client, run)
    traffic = [event for event in events if event["class_uid"] != 4003]
    assert traffic and {event["status_code"] for event in events} == {"allow.rule"}, "L" + run.report()
    assert {event["unmapped"]["eclusa"]["intercept"] for event in traffic} == {client.door(mode)}, "L: the door" + run.report()
    assert all(event["status_code"].startswith("deny.") for event in others), "L" + run.report()
    return run


def check_denied(lab, client, mode, who=None):
    mark, questions = lab.origin.connections.mark(), lab.dns.log.mark()
    run = run_client(lab, client, mode, OTHER, who)
    assert run.status not in (0, 124, 125) and EXPECTED.get(client.name, MARK) not in run.output, "C" + run.report()
    assert not lab.origin.connections.since(mark) and not lab.dns.log.since(questions), "U" + run.report()
    events, _ = events_of(client, run)
    assert events and all(event["status_code"].startswith("deny.") for event in events), "L" + run.report()
    return run
