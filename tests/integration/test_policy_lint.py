"""`eclusa policy lint`: findings with their place, and an exit status that a pipeline can use."""
import json
import pathlib
import re
import subprocess

import pytest

from lab.eclusa import program

ROOT = pathlib.Path(__file__).resolve().parents[2]


def lint(*args):
    return subprocess.run([program(), "policy", "lint", *map(str, args)], capture_output=True, text=True, timeout=30)


def test_a_clean_policy_says_nothing(tmp_path):
    path = tmp_path / "a.allow"
    path.write_text("policy 1\n[profile p]\nallow a.test\n")
    ran = lint(path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_findings_have_their_place_and_status_1(tmp_path):
    path = tmp_path / "a.allow"
    path.write_text("policy 1\n[profile p]\nallow a.test reqbody=1\nallow *.test\n")
    ran = lint(path)
    assert ran.returncode == 1
    assert ran.stdout.splitlines() == [
        f"{path}:3:14: error: unknown-attribute: unknown attribute 'reqbody'; did you mean req-body?",
        f"{path}:4:7: error: host: the wildcard covers a whole public suffix; name at least two labels "
        "(the public suffix list does not know 'test'; by its default rule it is one)",
    ]
    ran = lint("--json", path)
    assert ran.returncode == 1
    said = json.loads(ran.stdout)
    assert said["errors"] == 2
    assert said["findings"][1] == {
        "file": str(path), "line": 4, "column": 7, "severity": "error", "code": "host",
        "text": "the wildcard covers a whole public suffix; name at least two labels "
                "(the public suffix list does not know 'test'; by its default rule it is one)"}


def test_a_wrong_expectation_is_a_finding(tmp_path):
    path = tmp_path / "a.allow"
    path.write_text("policy 1\n[profile p]\nallow a.test\nexpect allow GET https://b.test/\n")
    ran = lint(path)
    assert ran.returncode == 1
    assert ran.stdout.startswith(f"{path}:4:1: error: expect: expected allow, got deny.default")


def test_rules_that_never_decide_or_end_are_warnings(tmp_path):
    path = tmp_path / "a.allow"
    path.write_text("policy 1\n[profile p]\nallow a.test expires=2020-01-01\nallow b.test\ndeny .b.test id=no-b\n")
    expired = f"{path}:3:1: warning: expired: this rule ended with 2020-01-01 in profile p and matches nothing"
    unreachable = (f"{path}:4:1: warning: unreachable: never decides: no-b ({path}:5) "
                   "denies all that this rule allows")
    ran = lint(path)
    assert (ran.returncode, ran.stdout.splitlines()) == (1, [expired, unreachable])
    ran = lint("--strict", path)
    assert (ran.returncode, ran.stdout.splitlines()) == (1, [expired.replace("warning", "error", 1), unreachable])
    ran = lint("--at", "2019-01-01", path)
    assert ran.stdout.splitlines() == [unreachable]


def test_findings_as_sarif(tmp_path):
    path = tmp_path / "a b:c%.allow"
    path.write_text("policy 1\n[profile p]\nallow a.test reqbody=1\n")
    ran = lint("--sarif", path)
    assert ran.returncode == 1
    said = json.loads(ran.stdout)
    assert said["version"] == "2.1.0"
    [run] = said["runs"]
    assert run["tool"]["driver"]["name"] == "eclusa policy lint"
    [result] = run["results"]
    assert (result["ruleId"], result["level"]) == ("unknown-attribute", "error")
    assert result["message"]["text"].startswith("unknown attribute 'reqbody'")
    [location] = result["locations"]
    place = location["physicalLocation"]
    assert place["region"] == {"startLine": 3, "startColumn": 14}
    assert place["artifactLocation"]["uri"] == f"file://{tmp_path}/a%20b%3Ac%25.allow"
    assert json.loads(lint("--sarif", ROOT / "allowlists").stdout)["runs"][0]["results"] == []
    assert lint("--sarif", "--json", path).returncode == 2


@pytest.mark.parametrize("args", [["/nonexistent/policy"], [], ["--unknown"], [""]])
def test_what_cannot_be_read_is_status_2(args):
    ran = lint(*args)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1


def test_the_shipped_files_are_clean():
    for path in [ROOT / "allowlists", *(ROOT / "allowlists").glob("*.allow")]:
        assert lint(path).returncode == 0, path


def test_the_policies_of_the_tutorial_are_clean(tmp_path):
    blocks = re.findall(r"^```\n(policy 1\n.*?)^```", (ROOT / "allowlists/README.md").read_text(), re.S | re.M)
    assert len(blocks) == 2
    (tmp_path / "common").mkdir()
    (tmp_path / "common/deny-always.allow").write_text("policy 1\n")
    for block in blocks:
        path = tmp_path / "a.allow"
        path.write_text(block)
        ran = lint(path)
        assert ran.returncode == 0, ran.stdout + ran.stderr
