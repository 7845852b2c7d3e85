"""
Observe, suggest, enforce: a run in observe mode leaves a log from which `eclusa policy suggest` makes rules; the same run passes under
them without a denial, and whatever it did not do is denied.
"""
import json
import os
import re
import shutil
import subprocess

import pytest

from lab.eclusa import program, run_eclusa
from lab.origin import answer
from lab.world import ORIGIN, PUBLIC
from test_clients import tarball, wheel

INDEX, REGISTRY = "index.test", "registry.test"
MARK = "TO" + "DO"
OBSERVING = "policy 1\n\n[profile p]\nset mode observe\n"


def tool(*words, **more):
    return subprocess.run([program(), "policy", *map(str, words)], capture_output=True, text=True, timeout=60, **more)


def suggest(*words, status=0):
    ran = tool("suggest", *words)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def services(lab):
    """An index and a registry at public addresses, as real ones are. Names of modules are scoped: a path with an encoded slash."""
    import base64
    import hashlib
    for name in (INDEX, REGISTRY, "allowed.test", "upload.test"):
        lab.dns.zone[name] = [PUBLIC]
    package, module = wheel(), tarball()
    digest = hashlib.sha256(package).hexdigest()
    page = f'<!DOCTYPE html><a href="/files/labpackage-1.0-py3-none-any.whl#sha256={digest}">labpackage</a>'.encode()
    lab.origin.on("/simple/labpackage/", answer("200 OK", page, ["Content-Type: text/html"]))
    lab.origin.on("/files/labpackage-1.0-py3-none-any.whl", answer("200 OK", package, ["Content-Type: application/zip"]))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(module).digest()).decode()
    document = {"name": "@lab/labmodule", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "@lab/labmodule", "version": "1.0.0", "main": "index.js",
        "dist": {"tarball": f"https://{REGISTRY}/@lab/labmodule/-/labmodule-1.0.0.tgz", "integrity": integrity}}}}
    body = answer("200 OK", json.dumps(document).encode(), ["Content-Type: application/json"])
    lab.origin.on("/@lab%2flabmodule", body)
    lab.origin.on("/@lab%2Flabmodule", body)
    lab.origin.on("/@lab/labmodule/-/labmodule-1.0.0.tgz", answer("200 OK", module, ["Content-Type: application/octet-stream"]))
    return lab


PIP = ["/bin/sh", "-c", "/usr/bin/python3 -m pip install --no-input --disable-pip-version-check --retries 1 "
       f"--index-url https://{INDEX}/simple --target /tmp/site labpackage && "
       "PYTHONPATH=/tmp/site /usr/bin/python3 -c 'import labpackage; print(labpackage.ANSWER)'"]
NPM = ["/bin/sh", "-c", "mkdir /tmp/app && cd /tmp/app && npm install --no-audit --no-fund --no-update-notifier "
       f"--fetch-retries 0 --registry https://{REGISTRY}/ @lab/labmodule && node -p 'require(\"@lab/labmodule\")'"]
ARGS = ["--timeout", "60s", "--cpu-time", "60s", "--memory", "1G"]


@pytest.mark.parametrize("client", ["pip", "npm"])
def test_the_loop_closes(services, who, client, tmp_path):
    if client == "npm" and not shutil.which("npm", path="/usr/bin"):
        pytest.skip("there is no npm in /usr/bin")
    command, host = (PIP, INDEX) if client == "pip" else (NPM, REGISTRY)
    observed = run_eclusa(services, ARGS, command, policy=services.write("observing.allow", OBSERVING), user=who)
    assert observed.status == 0 and "42\n" in observed.output, observed.report()
    requests = observed.result["network"]["decisions"]["observed"]
    events = [e for e in observed.decisions() if e["http_request"]["http_method"] != "CONNECT"]
    assert requests == len(events) > 0, observed.report()
    assert {e["status_code"] for e in events} == {"observe.would-deny"}, observed.report()
    assert any("only by observe mode" in hint for hint in observed.result["hints"])

    text = suggest(observed.result["audit"])
    assert f"\nallow {host} GET" in text and text.count(f"ticket={MARK}") == text.count("\nallow ")
    assert "query=deny" in text and "**" not in text
    assert ("enc-slash=literal" in text) == (client == "npm")
    path = services.write(f"suggested-{client}.allow", text)
    assert tool("test", path).returncode == 0 and tool("fmt", "--check", path).returncode == 0
    replayed = tool("replay", observed.result["audit"], path)
    assert replayed.returncode == 0 and ", 0 flip" in replayed.stdout, replayed.stdout

    enforced = run_eclusa(services, ARGS, command, policy=path, user=who)
    assert enforced.status == 0 and "42\n" in enforced.output, enforced.report()
    assert enforced.result["denials"] == [] and enforced.result["network"]["decisions"]["observed"] == 0
    assert {e["status_code"] for e in enforced.decisions()} == {"allow.rule"}, enforced.report()

    mark, questions = services.origin.connections.mark(), services.dns.log.mark()
    outside = ["/bin/sh", "-c", f"curl -sS --fail https://{host}/other; curl -sS --fail https://allowed.test/; false"]
    denied = run_eclusa(services, ARGS, outside, policy=path, user=who)
    assert denied.status == 1, "C" + denied.report()
    assert not [r for r in services.origin.requests(mark) if r.path == "/other"], "U"
    assert "allowed.test" not in {q.name for q in services.dns.log.since(questions)}, "U"
    assert {d["reason"] for d in denied.result["denials"]} == {"deny.path", "deny.default"}, "L" + denied.report()
    services.canary.assert_silent()
