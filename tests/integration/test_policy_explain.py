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
from lab.world import POLICY
from test_cases_names import ALLOWED, REFUSED


def explain(*words):
    ran = subprocess.run([program(), "policy", "explain", "--json", *words], capture_output=True, timeout=30)
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


@pytest.mark.parametrize("case", ALLOWED)
def test_allowed(bench, case):
    spelled, one_form = ALLOWED[case]
    for method, target in (("CONNECT", f"{spelled}:443"), ("GET", f"https://{spelled}/{case}")):
        said = explain("--policy", bench, "bench", method, target)
        assert (said["verdict"], said["reason"], said["request"]["host"]) == ("allow", "allow.rule", one_form), said


def test_a_door_makes_no_difference(bench):
    """The same name by CONNECT, https and, where port 80 is open, http."""
    for host, verdict, reason in (("allowed.test", "allow", "allow.rule"), ("denied.test", "deny", "deny.default")):
        for words in (("CONNECT", f"{host}:443"), ("GET", f"https://{host}/"), ("GET", f"http://{host}/")):
            said = explain("--policy", bench, "bench", *words)
            assert (said["verdict"], said["reason"]) == (verdict, reason), (words, said)


def test_the_answer_names_rule_place_and_edit(bench):
    said = explain("--policy", bench, "bench", "PUT", "https://x.wild.test:8443/")
    assert said["reason"] == "deny.port"
    assert said["rule"]["id"] == "bench-wild" and said["rule"]["line"] == 5 and said["rule"]["file"] == bench
    assert said["near_misses"][0]["differs"] == ["port", "method"]
    assert said["edit"] == {"action": "add", "text": "add this rule to the profile",
                            "add": "allow x.wild.test:8443 PUT /"}
    with open(os.path.join(os.path.dirname(bench), "edited.allow"), "w", encoding="ascii") as file:
        file.write(POLICY + said["edit"]["add"] + "\n")
    assert explain("--policy", file.name, "PUT", "https://x.wild.test:8443/")["verdict"] == "allow"


def test_rules_of_the_command_line_and_a_day():
    rule = "a.test expires=2027-06-30"
    assert explain("--allow", rule, "--at", "2027-06-30", "GET", "https://a.test/")["verdict"] == "allow"
    assert explain("--allow", rule, "--at", "2027-07-01", "GET", "https://a.test/")["reason"] == "deny.expired"


@pytest.mark.parametrize("words", [
    ("GET", "https://a.test/"), ("--allow", "a.test", "GET"), ("--allow", "a b c", "GET", "https://a.test/"),
    ("--allow", "a.test", "--policy", "x", "GET", "https://a.test/"), ("--allow", "a.test", "no", "GET", "https://a.test/"),
    ("--allow", "a.test", "--at", "tomorrow", "GET", "https://a.test/"), ("--allow",)])
def test_usage(words):
    ran = subprocess.run([program(), "policy", "explain", *words], capture_output=True, text=True, timeout=30)
    assert (ran.returncode, ran.stdout) == (2, "") and ran.stderr
