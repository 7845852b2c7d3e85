"""`eclusa env`: the same variables as in a sandbox, in each form, and those for a proxy that runs alone."""
import json
import sqlite3
import ssl
import subprocess

import pytest

from lab.eclusa import program, run_eclusa
from lab.world import ORIGIN

RULE = [f"allowed.test GET /** addr={ORIGIN}/32"]
OWN = {"PATH", "HOME", "LANG", "PWD", "SHLVL", "_"}
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def env(*words):
    return subprocess.run([program(), "env", *words], capture_output=True, text=True, timeout=60)


def printed(*words):
    done = env(*words)
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout


@pytest.mark.parametrize("proxy_env", ["on", "off"])
def test_it_prints_what_a_sandbox_has(lab, who, proxy_env):
    run = run_eclusa(lab, ["--proxy-env", proxy_env], ["/usr/bin/env", "-0"], policy=RULE, user=who)
    inside = dict(item.split("=", 1) for item in run.output.split("\0") if item)
    wanted = json.loads(printed("--json", "--proxy-env", proxy_env))
    assert {name: value for name, value in inside.items() if name not in OWN} == wanted
    assert ("HTTPS_PROXY" in wanted) == ("NODE_USE_ENV_PROXY" in wanted) == (proxy_env == "on")
    assert "SSL_CERT_FILE" in wanted


def test_a_sandbox_without_network_has_none_of_them(lab, who):
    run = run_eclusa(lab, [], ["/usr/bin/env", "-0"], policy=None, user=who)
    assert {item.split("=", 1)[0] for item in run.output.split("\0") if item} <= OWN, run.report()


def test_a_shell_reads_every_value_as_it_is(tmp_path):
    odd = tmp_path / "it's a \"$HOME\" `x`"
    odd.mkdir()
    (odd / "ca.pem").write_text(PEM)
    words = ("--proxy", "http://[::1]:8080", "--ca", str(odd / "ca.pem"))
    shown = subprocess.run(["/bin/sh", "-c", 'eval "$1" && exec env -0', "sh", printed("--shell", *words)], env={},
                           stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
    read = dict(item.split("=", 1) for item in shown.split("\0") if item)
    wanted = json.loads(printed("--json", *words))
    assert {name: read.get(name) for name in wanted} == wanted and wanted["CURL_CA_BUNDLE"] == str(odd / "ca.pem")
    refused = env("--dotenv", *words)
    assert refused.returncode == 1 and refused.stdout == "" and "--dotenv" in refused.stderr


def test_a_file_of_variables_has_each_on_a_line():
    lines = printed("--dotenv").splitlines()
    assert dict(line.split("=", 1) for line in lines) == json.loads(printed("--json"))


def test_only_what_is_there_is_told(tmp_path):
    (tmp_path / "ca.pem").write_text(PEM)
    proxy = json.loads(printed("--json", "--proxy", "http://127.0.0.1:3128"))
    roots = json.loads(printed("--json", "--ca", str(tmp_path / "ca.pem")))
    assert "HTTPS_PROXY" in proxy and "SSL_CERT_FILE" not in proxy and "trustStore" not in proxy["JAVA_TOOL_OPTIONS"]
    assert "SSL_CERT_FILE" in roots and not [name for name in roots if "PROXY" in name.upper()]


def test_files_are_made_for_clients_of_a_proxy_that_runs_alone(lab, tmp_path):
    """What is made holds the system's roots and the authority, and a client that obeys the variables trusts both."""
    to = tmp_path / "made" / "here"
    for _ in range(2):  # the second time over the first
        shown = json.loads(printed("--json", "--ca", lab.certificates.ca_file, "--dir", str(to)))
    assert shown["SSL_CERT_FILE"] == str(to / "ca-bundle.pem") and f"trustStore={to}/java.p12 " in shown["JAVA_TOOL_OPTIONS"]
    bundle = (to / "ca-bundle.pem").read_text()
    with open(lab.certificates.ca_file, encoding="utf-8") as file:
        authority = file.read()
    with open("/etc/ssl/certs/ca-certificates.crt", encoding="utf-8") as file:
        assert bundle.startswith(file.read()) and bundle.endswith(authority)
    database = sqlite3.connect(to / "nssdb" / "cert9.db")
    assert database.execute("select a11 from nssPublic where a11 is not null").fetchone()[0] == ssl.PEM_cert_to_DER_cert(
        "-----BEGIN" + authority.split("-----BEGIN")[1])
    store = subprocess.run(["openssl", "pkcs12", "-in", to / "java.p12", "-nokeys", "-passin", "pass:", "-nomacver"], capture_output=True,
                           check=True, timeout=60)
    assert store.stdout.count(b"-----BEGIN CERTIFICATE-----") == bundle.count("-----BEGIN CERTIFICATE-----")


def test_roots_of_the_proxy_are_among_those_that_are_made(lab, tmp_path):
    """A host that is not inspected shows its own certificate, of an authority that only the proxy was told of."""
    with open(lab.certificates.ca_file, encoding="utf-8") as file:
        root = file.read()
    own = tmp_path / "own.pem"
    own.write_text(subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=proxy",
                                   "-keyout", "/dev/null"], capture_output=True, text=True, check=True, timeout=30).stdout)
    words = ("--json", "--ca", str(own), "--dir", str(tmp_path / "made"))
    for more, there in (((), False), (("--upstream-ca", lab.certificates.ca_file), True)):
        printed(*words, *more)
        bundle = (tmp_path / "made" / "ca-bundle.pem").read_text()
        assert (root.split("-----BEGIN")[1] in bundle) == there and bundle.endswith(own.read_text())
    store = subprocess.run(["openssl", "pkcs12", "-in", tmp_path / "made" / "java.p12", "-nokeys", "-passin", "pass:", "-nomacver"],
                           capture_output=True, text=True, check=True, timeout=30).stdout
    assert store.count("-----BEGIN CERTIFICATE-----") == bundle.count("-----BEGIN CERTIFICATE-----")


def test_wrong_words_say_what_is_wrong(lab, tmp_path):
    (tmp_path / "none.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    with open(lab.certificates.ca_file, encoding="utf-8") as file:
        (tmp_path / "good.pem").write_text(file.read())
    for words, status, text in [
        (("--proxy", "socks5://a:1"), 2, "such as http://"), (("--proxy",), 2, "a value is missing"), (("-x",), 2, "not an option"),
        (("--proxy-env", "yes"), 2, "neither on nor off"), (("--proxy-env", "on", "--proxy", "http://a:1"), 2, "sandbox"),
        (("--ca", "a", "--ca", "b"), 2, "twice"), (("--dir", "a"), 2, "--dir needs --ca"),
        (("--ca", "a", "--upstream-ca", "b"), 2, "--upstream-ca needs --dir"),
        (("--ca", str(tmp_path / "good.pem"), "--dir", str(tmp_path / "to"), "--upstream-ca", str(tmp_path / "absent")), 1, "absent"),
        (("--ca", str(tmp_path / "good.pem"), "--dir", "/proc/none"), 1, "--dir"), (("--ca", str(tmp_path / "absent")), 1, "No such file"),
        (("--ca", str(tmp_path / "none.pem")), 1, "no certificate"),
    ]:
        done = env(*words)
        assert (done.returncode, done.stdout) == (status, "") and text in done.stderr, (words, done)
