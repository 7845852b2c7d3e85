"""
Cases E01 to E05: trust without manual steps. The table of tests/clients, of which those are tried here that `make deps-test` installs;
`make clients` tries all of it.
"""
import json
import os
import re
import subprocess

import pytest

from clients import fetching
from clients.table import CAPTURE, CLIENTS, SOURCES, VARIABLES, Client
from lab import browser
from lab.eclusa import ROOT, program, run_eclusa
from lab.world import ORIGIN

BY_NAME = {client.name: client for client in CLIENTS}
RULE = [f"allowed.test GET,HEAD /** addr={ORIGIN}/32"]
PRIVATE = {  # programs that read no variable of ours, as they are started with none
    "curl": ["/usr/bin/curl", "-sS", "--fail", "https://allowed.test/client"],
    "urllib": ["/usr/bin/python3", "-c", "import urllib.request as u; print(u.urlopen('https://allowed.test/client').read().decode())"],
    "requests": ["/usr/bin/python3", "-c", "import requests; print(requests.get('https://allowed.test/client').text)"],
    "wget": ["/usr/bin/wget", "-qO-", "-t1", "https://allowed.test/client"],
    "git": ["/usr/bin/git", "ls-remote", "https://allowed.test/client.git"],
}


@pytest.fixture(scope="module")
def served(lab):
    fetching.serve(lab)
    return lab


def need(client):
    for path in client.inputs:
        if not os.path.exists(path.split(":")[0]):
            pytest.skip(f"{path} is not there: make clients makes it")
    if client.missing():
        pytest.skip(client.missing())
    return client


@pytest.mark.parametrize("mode", [VARIABLES, CAPTURE])
@pytest.mark.parametrize("name", ["curl", "git over https", "Python urllib", "wget"])
def test_e01_trust_reaches_every_family(served, who, name, mode):
    fetching.check_allowed(served, need(BY_NAME[name]), mode, who)


@pytest.mark.parametrize("name", ["pip", "npm", "requests"])
def test_e01_by_capture_as_well(served, name):
    """By variables: test_clients.py."""
    fetching.check_allowed(served, need(BY_NAME[name]), CAPTURE)


@pytest.mark.parametrize("name", ["curl", "git over https", "git over ssh", "Python urllib"])
def test_e01_no_door_reaches_what_is_not_allowed(served, who, name):
    fetching.check_denied(served, need(BY_NAME[name]), CAPTURE, who)


def test_e01_a_protocol_of_its_own_is_captured(served, who):
    fetching.check_allowed(served, need(BY_NAME["git over ssh"]), CAPTURE, who)


@pytest.mark.parametrize("name", PRIVATE)
def test_e01_clients_with_an_empty_environment_trust_the_distributions_file(served, who, name):
    if not os.path.exists(PRIVATE[name][0]):
        pytest.skip(f"there is no {PRIVATE[name][0]}")
    run = run_eclusa(served, ["--proxy-env", "off"], ["/usr/bin/env", "-i", *PRIVATE[name]], policy=RULE, user=who)
    assert run.status == 0 and (fetching.MARK in run.output or "refs/heads/main" in run.output), run.report()
    assert {e["unmapped"]["eclusa"]["intercept"] for e in run.decisions()} == {"transparent"}, run.report()


def test_e01_the_table_of_variables_is_the_documented_one():
    shown = json.loads(subprocess.run([program(), "env", "--json"], capture_output=True, check=True, timeout=60).stdout)
    with open(os.path.join(ROOT, "docs", "clients.md"), encoding="utf-8") as file:
        page = file.read()
    rows = re.search(r"\| variable \|.*?\n\n", page, re.S).group(0)
    assert set(re.findall(r"`([A-Za-z0-9_]+)`", "".join(line.split("|")[1] for line in rows.strip().splitlines()))) == set(shown)


BUNDLE_SCRIPT = """
import os, ssl, subprocess, sys
paths = {n: v for n, v in os.environ.items() if v == os.environ['SSL_CERT_FILE']}
places = [p for p in ('/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt', '/etc/ssl/cert.pem', '/etc/ssl/ca-bundle.pem',
                      '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem', '/var/lib/ca-certificates/ca-bundle.pem')]
bundle = open(os.environ['SSL_CERT_FILE']).read()
assert all(open(p).read() == bundle for p in places), [p for p in places if open(p).read() != bundle]
certificates = ['-----BEGIN' + part for part in bundle.split('-----BEGIN')[1:]]
for certificate in (certificates[0], certificates[-1]):  # a public root, and ours
    open('/tmp/leaf.pem', 'w').write(certificate)
    subprocess.run(['openssl', 'verify', '-CAfile', os.environ['SSL_CERT_FILE'], '-no-CApath', '/tmp/leaf.pem'], check=True, stdout=2)
try:
    open(os.environ['SSL_CERT_FILE'], 'a')
except OSError as error:
    print(len(certificates), len(paths), type(error).__name__)
"""


def test_e02_variables_that_replace_name_the_full_bundle(served, who):
    """It holds the public roots, those of --upstream-ca and ours, is the same at each distribution's place, and can't be written to."""
    run = run_eclusa(served, [], ["/usr/bin/python3", "-c", BUNDLE_SCRIPT], policy=RULE, user=who)
    with open("/etc/ssl/certs/ca-certificates.crt", encoding="utf-8") as file:
        system = file.read().count("-----BEGIN CERTIFICATE-----")
    with open(served.certificates.ca_file, encoding="utf-8") as file:
        more = file.read().count("-----BEGIN CERTIFICATE-----")
    assert run.status == 0, run.report()
    count, variables, refused = run.output.split()
    assert int(count) == system + more + 1 and int(variables) > 12 and refused in ("OSError", "PermissionError"), run.report()


SPLICED = [f"spliced.wild.test:443 tls=splice addr={ORIGIN}/32", f"unknownroot.wild.test:443 tls=splice addr={ORIGIN}/32"]
SPEAKERS = {
    "curl": "curl -sS -o /dev/null -w '%{http_code}' https://{}/whole; echo \" $?\"",
    "urllib": "python3 -c \"import urllib.request as u; print(u.urlopen('https://{}/whole').status, 0)\" 2>/tmp/why || "
              "echo 000 $(grep -c CERTIFICATE_VERIFY_FAILED /tmp/why)",
    "openssl with the distribution's file": "env -u SSL_CERT_FILE -u CURL_CA_BUNDLE curl -sS -o /dev/null -w '%{http_code}' https://{}/whole; echo \" $?\"",
}


@pytest.mark.parametrize("mode", [VARIABLES, CAPTURE])
def test_e02_a_spliced_host_is_verified_by_the_roots_of_upstream_ca(served, who, mode):
    """Its certificate comes as it is: of an authority that --upstream-ca names, and for the twin of one that nobody names."""
    script = "\n".join(text.replace("{}", host) for text in SPEAKERS.values() for host in ("spliced.wild.test", "unknownroot.wild.test"))
    options = ["--proxy-env", "off"] if mode == CAPTURE else []
    before = served.origin.connections.mark()
    run = run_eclusa(served, options, ["/bin/sh", "-c", script], policy=SPLICED, user=who)
    said = [line.split() for line in run.output.splitlines()]
    assert [line[0] for line in said] == ["200", "000"] * len(SPEAKERS), "C" + run.report()
    assert all(code != "0" for _, code in said[1::2]), "C: it failed by its certificate" + run.report()
    assert {r.host for r in served.origin.requests(before)} == {"spliced.wild.test"}, "U: no request to whom the client does not trust"
    tunnels = [e for e in run.events if e.get("status_code") == "allow.splice" and "http_request" in e]
    assert len(tunnels) == len(said), "L" + run.report()


def test_e02_java_gets_the_roots_of_upstream_ca_as_well(served):
    run = run_eclusa(served, [], ["openssl", "pkcs12", "-in", "/run/eclusa/java.p12", "-nokeys", "-passin", "pass:changeit", "-nomacver"],
                     policy=RULE)
    with open(served.certificates.ca_file, encoding="utf-8") as file:
        wanted = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", file.read(), re.S)
    held = "".join(run.output.split())
    assert wanted and all("".join(one.split()) in held for one in wanted), run.report()[:2000]


def test_e02_databases_are_sound(served):
    """The one of NSS is whole, trusts one certificate for servers, and is the program's own; the one of Java is no private key's."""
    script = ("import sqlite3, os; p = os.path.expanduser('~/.pki/nssdb/cert9.db'); c = sqlite3.connect(p)\n"
              "print(c.execute('pragma integrity_check').fetchone()[0], c.execute('select count(*) from nssPublic').fetchone()[0],\n"
              " c.execute(\"select hex(ace536358) from nssPublic where hex(a0) = 'CE534353'\").fetchone()[0], oct(os.stat(p).st_mode & 0o777))\n")
    run = run_eclusa(served, [], ["/usr/bin/python3", "-c", script], policy=RULE)
    assert run.output.split() == ["ok", "2", "CE534352", "0o600"], run.report()
    store = run_eclusa(served, [], ["openssl", "pkcs12", "-in", "/run/eclusa/java.p12", "-nokeys", "-passin", "pass:changeit", "-nomacver"],
                       policy=RULE)
    trusted = re.findall(r"2\.16\.840\.1\.113894\.746875\.1\.1|[Tt]rusted key usage", store.output)  # newer ones have a name for it
    assert store.output.count("-----BEGIN CERTIFICATE-----") == len(trusted) > 50, store.report()[:2000]


@pytest.mark.parametrize("mode", [VARIABLES, CAPTURE])
@pytest.mark.parametrize("name", ["Node 20 fetch", "Node 24 fetch"])
def test_e03_nodes_own_fetch(served, name, mode):
    """The old one obeys no variable, and is captured. Neither ever goes direct: its twin is denied by either door."""
    client = need(BY_NAME[name])
    fetching.check_allowed(served, client, mode)
    fetching.check_denied(served, client, mode)


def test_e03_the_new_one_without_the_variable_is_captured(served):
    client = need(BY_NAME["Node 24 fetch"])
    blind = Client(client.name, client.program, client.version, client.command, client.trust, by_variables=False, inputs=client.inputs,
                   env=("NODE_USE_ENV_PROXY=0",))
    fetching.check_allowed(served, blind, VARIABLES)


@pytest.mark.parametrize("mode", [VARIABLES, CAPTURE])
@pytest.mark.parametrize("name", ["Java HttpClient", "Java URLConnection"])
def test_e04_java_is_told_by_options(served, name, mode):
    client = need(BY_NAME[name])
    fetching.check_allowed(served, client, mode)


def test_e04_java_without_options_trusts_the_distributions_store(served):
    client = need(BY_NAME["Java HttpClient"])
    if not os.path.exists("/etc/ssl/certs/java/cacerts"):
        pytest.skip("the distribution has no store of Java's")
    bare = Client(client.name, client.program, client.version, ["/usr/bin/env", "-i", *client.command], client.trust, by_variables=False,
                  inputs=client.inputs)
    fetching.check_allowed(served, bare, CAPTURE)
    fetching.check_denied(served, bare, CAPTURE)


@pytest.fixture(scope="module")
def chromium():
    """With the Playwright that other tests have, where `make clients` brought none."""
    environment = browser.environment()
    inputs = (f"{environment['NODE_PATH']}:tools", f"{SOURCES}/browser.js")
    client = BY_NAME["Chromium by Playwright"]
    return Client(client.name, client.program, client.version, client.command, client.trust, inputs=inputs, env=client.env)


def test_e05_chromium_trusts_the_database(served, chromium):
    fetching.check_allowed(served, chromium, VARIABLES)


def test_e05_chromium_verifies_all_the_same(served, chromium):
    """In a home without the database nothing vouches for the sandbox's authority."""
    elsewhere = Client(chromium.name, chromium.program, chromium.version, chromium.command, chromium.trust, inputs=chromium.inputs,
                       env=(*chromium.env, "HOME=/tmp"))
    mark = served.origin.connections.mark()
    run = fetching.run_client(served, elsewhere, VARIABLES, elsewhere.host)
    assert run.status == 1 and "ERR_CERT_AUTHORITY_INVALID" in run.result["stderr"] and fetching.MARK not in run.output, run.report()
    assert not served.origin.requests(mark), run.report()
