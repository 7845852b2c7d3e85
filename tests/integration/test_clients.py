"""
Clients that people use work unmodified through the proxy: curl, Python's urllib and requests, pip with an index and npm
with a registry of the test's own. Each has a twin that is denied and says why.
"""
import base64
import hashlib
import json
import os
import shutil

import pytest

from clients.packages import tarball_of_module, wheel_of_package
from lab.eclusa import run_eclusa
from lab.oracles import NAME_DENIED
from lab.origin import answer
from lab.world import ORIGIN

INDEX, REGISTRY = "index.test", "registry.test"


@pytest.fixture(scope="module")
def services(lab):
    """An index and a registry on the origin, under names of their own."""
    lab.dns.zone[INDEX] = lab.dns.zone[REGISTRY] = [ORIGIN]
    package, module = wheel_of_package(), tarball_of_module()
    digest = hashlib.sha256(package).hexdigest()
    page = f'<!DOCTYPE html><a href="/files/labpackage-1.0-py3-none-any.whl#sha256={digest}">labpackage</a>'.encode()
    lab.origin.on("/simple/labpackage/", answer("200 OK", page, ["Content-Type: text/html"]))
    lab.origin.on("/files/labpackage-1.0-py3-none-any.whl", answer("200 OK", package, ["Content-Type: application/zip"]))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(module).digest()).decode()
    document = {"name": "labmodule", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "labmodule", "version": "1.0.0", "main": "index.js",
        "dist": {"tarball": f"https://{REGISTRY}/labmodule/-/labmodule-1.0.0.tgz", "integrity": integrity}}}}
    lab.origin.on("/labmodule", answer("200 OK", json.dumps(document).encode(), ["Content-Type: application/json"]))
    lab.origin.on("/labmodule/-/labmodule-1.0.0.tgz", answer("200 OK", module, ["Content-Type: application/octet-stream"]))
    return lab


# id -> (command, host that it needs, what its output must hold). The text of the denied twin holds the reason phrase.
URLLIB = "import urllib.request; print(urllib.request.urlopen('{scheme}://allowed.test/urllib').read().decode())"
REQUESTS = "import requests; r = requests.get('{scheme}://allowed.test/requests'); r.raise_for_status(); print(r.text)"
CLIENTS = {
    "curl-https": (["curl", "-sS", "--fail", "https://allowed.test/curl"], "allowed.test", "GET allowed.test /curl"),
    "curl-http": (["curl", "-sS", "--fail-with-body", "http://allowed.test/curl"], "allowed.test", "GET allowed.test /curl"),
    "urllib-https": (["/usr/bin/python3", "-c", URLLIB.format(scheme="https")], "allowed.test", "GET allowed.test /urllib"),
    "urllib-http": (["/usr/bin/python3", "-c", URLLIB.format(scheme="http")], "allowed.test", "GET allowed.test /urllib"),
    "requests-https": (["/usr/bin/python3", "-c", REQUESTS.format(scheme="https")], "allowed.test", "GET allowed.test /requests"),
    "requests-http": (["/usr/bin/python3", "-c", REQUESTS.format(scheme="http")], "allowed.test", "GET allowed.test /requests"),
    "pip": (["/bin/sh", "-c", "/usr/bin/python3 -m pip install --no-input --disable-pip-version-check --retries 1 "
             f"--index-url https://{INDEX}/simple --target /tmp/site labpackage && "
             "PYTHONPATH=/tmp/site /usr/bin/python3 -c 'import labpackage; print(labpackage.ANSWER)'"], INDEX, "42\n"),
    "npm": (["/bin/sh", "-c", "mkdir /tmp/app && cd /tmp/app && npm install --no-audit --no-fund --no-update-notifier "
             f"--fetch-retries 0 --registry https://{REGISTRY}/ labmodule && node -p 'require(\"labmodule\")'"], REGISTRY, "42\n"),
}
PLACES = {"curl-http": ":80", "urllib-http": ":80", "requests-http": ":80"}
# requests prints the phrase for http only; pip and npm say the status of a CONNECT, the rest the whole phrase.
DENIED_SAYS = {"npm": ("403", "Forbidden", "deny.default"), "curl-https": ("403",)}


def run_client(lab, who, case, host):
    command, _, _ = CLIENTS[case]
    if command[0] == "/bin/sh" and "npm" in case and not shutil.which("npm", path="/usr/bin"):
        pytest.skip("there is no npm in /usr/bin")
    rule = f"{host}{PLACES.get(case, '')} GET,HEAD /** addr={ORIGIN}/32"
    return run_eclusa(lab, ["--timeout", "60s", "--cpu-time", "60s", "--memory", "1G"], command, policy=[rule], user=who)


@pytest.mark.parametrize("case", CLIENTS)
def test_works_unmodified(services, who, case):
    _, host, expected = CLIENTS[case]
    mark = services.origin.connections.mark()
    run = run_client(services, who, case, host)
    assert run.status == 0 and expected in run.output, run.report()
    sent = services.origin.requests(mark)
    assert sent and {r.host for r in sent} == {host}, f"U: {sent}"
    events = run.decisions()
    assert len(events) == len(sent) and {e["status_code"] for e in events} == {"allow.rule"}, "L" + run.report()
    assert {e["dst_endpoint"]["hostname"] for e in events} == {host}, "L"
    assert run.result["denials"] == [], run.report()
    services.canary.assert_silent()


@pytest.mark.parametrize("case", CLIENTS)
def test_denied_twin(services, who, case):
    """The same command, with a rule for another host."""
    _, host, expected = CLIENTS[case]
    mark, questions = services.origin.connections.mark(), services.dns.log.mark()
    run = run_client(services, who, case, "other.test")
    assert run.status not in (0, 124, 125) and expected not in run.output, "C" + run.report()
    said = run.result["stdout"] + run.result["stderr"]
    assert any(text in said for text in DENIED_SAYS.get(case, ("deny.default",))), "C: the client says why" + run.report()
    assert not services.origin.connections.since(mark), "U"
    assert not services.dns.log.since(questions), "U"
    denials = run.decisions()
    assert denials and {e["status_code"] for e in denials} <= NAME_DENIED, "L" + run.report()
    assert {e["dst_endpoint"]["hostname"] for e in denials} == {host}, "L"
    hint = run.result["denials"][0]
    assert host in json.dumps(hint) and "deny.default" in json.dumps(hint), run.report()
    services.canary.assert_silent()


def test_the_clients_see_no_ca_key(services, who):
    """What they trust is a certificate; no file, variable or descriptor inside holds a private key of ours."""
    script = ("grep -rls 'PRIVATE KEY' /etc /tmp /work /out /home /run /proc/self/environ 2>/dev/null | "
              "grep -v -e /etc/ssl/private | head; env | grep -c 'PRIVATE KEY'; true")
    run = run_eclusa(services, [], ["/bin/sh", "-c", script], user=who)
    assert run.output.split() == ["0"], run.report()
