"""`eclusa policy lint`: findings with their place, and an exit status that a pipeline can use."""
import json
import pathlib
import re
import subprocess

import pytest

from lab.eclusa import program

ROOT = pathlib.Path(__file__).resolve().parents[2]


def lint(*args):
    return subprocess.run([program(), "policy", "lint", *map(str, args)], capture_output=True, text=True, timeout=60)


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


def test_a_note_is_no_finding(tmp_path):
    path = tmp_path / "a.allow"
    path.write_text("policy 1\n[profile p]\nallow *.a.test\n")
    ran = lint("--json", path)
    said = json.loads(ran.stdout)
    assert (ran.returncode, said["errors"], said["warnings"]) == (0, 0, 0)
    assert [(f["severity"], f["code"], f["line"]) for f in said["findings"]] == [("note", "wildcard", 3)]


def test_rules_that_no_recorded_request_hits(tmp_path):
    path, log = tmp_path / "a.allow", tmp_path / "audit"
    path.write_text("policy 1\n[profile p]\nallow a.test /x query=deny\nallow b.test\nallow c.test\n"
                    "expect allow GET https://c.test/\n[profile q]\nallow b.test\n")
    log.mkdir()
    event = {"class_uid": 4002, "start_time": 1795973103642, "status_code": "allow.rule", "policy": {"uid": "p"},
             "dst_endpoint": {"hostname": "a.test", "port": 443},
             "http_request": {"http_method": "GET", "url": {"scheme": "https", "path": "/x"}},
             "unmapped": {"eclusa": {"mode": "enforce", "tls_mode": "inspect"}}}
    seen = log / "20261129T172503Z-sb-x.jsonl"
    untested = (f"{path}:%d:1: warning: untested: no expect line and no request that was observed "
                "is decided by this rule")
    seen.write_text(json.dumps(event) + "\nnot a line\n")
    ran = lint("--observed", log, path)
    assert (ran.returncode, ran.stdout.splitlines()) == (1, [untested % 4, untested % 8])
    event["unmapped"]["eclusa"]["has_query"] = True  # refused, so that rule did not allow it
    seen.write_text(json.dumps(event) + "\n")
    assert lint("--observed", log, path).stdout.splitlines() == [untested % 3, untested % 4, untested % 8]
    assert lint("--observed", seen, path).returncode == 1
    ran = lint("--observed", "/nonexistent/log", path)
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1)


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
    clean = json.loads(lint("--sarif", ROOT / "allowlists").stdout)["runs"][0]["results"]
    assert {(r["ruleId"], r["level"]) for r in clean} == {("wildcard", "note")}
    assert lint("--sarif", "--json", path).returncode == 2


def test_columns_of_sarif_are_code_points(tmp_path):
    """Ours are bytes: the same unless the line has other characters before the place."""
    path = tmp_path / "a.allow"
    path.write_text('policy 1\n[profile p]\nallow a.test note="\u00e9\U0001f600" reqbody=1\nallow b.test reqbody=1\n')
    regions = [r["locations"][0]["physicalLocation"]["region"] for r in json.loads(lint("--sarif", path).stdout)["runs"][0]["results"]]
    assert regions == [{"startLine": 3, "startColumn": 24}, {"startLine": 4, "startColumn": 14}]
    assert [f["column"] for f in json.loads(lint("--json", path).stdout)["findings"]] == [28, 14]


def is_sarif(said):
    """What SARIF 2.1.0 requires of the objects that are used, and the values that it lists."""
    assert said["version"] == "2.1.0" and said["$schema"].endswith("/sarif-schema-2.1.0.json")
    assert set(said) <= {"$schema", "version", "runs"}
    for run in said["runs"]:
        assert set(run) <= {"tool", "results", "columnKind"} and run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        assert run["tool"]["driver"]["name"] and set(run["tool"]["driver"]) <= {"name", "version"}
        for result in run["results"]:
            assert set(result) == {"ruleId", "level", "message", "locations"}
            assert result["level"] in ("none", "note", "warning", "error") and re.fullmatch(r"[a-z-]+", result["ruleId"])
            assert set(result["message"]) == {"text"} and result["message"]["text"]
            for location in result["locations"]:
                place = location["physicalLocation"]
                assert re.fullmatch(r"(file:///)?([\w.~/-]|%[0-9A-F]{2})+", place["artifactLocation"]["uri"], re.A)
                assert place["region"]["startLine"] >= 1 and place["region"]["startColumn"] >= 1


def test_sarif_has_what_the_standard_requires(tmp_path):
    for name, text in (("a.allow", "policy 1\n[profile p]\nallow *.a.test:80\nallow \u00fc.test\nallow \"x\n"),
                       ("b c.allow", "policy 1\n[profile p]\nallow *.a.test:80\nallow b.test expires=2020-01-01\n"),
                       ("clean.allow", "policy 1\n"), ("empty.allow", "")):
        (tmp_path / name).write_text(text)
        said = json.loads(lint("--sarif", tmp_path / name).stdout)
        is_sarif(said)
        lines = json.loads(lint("--json", tmp_path / name).stdout)["findings"]
        assert [r["level"] for r in said["runs"][0]["results"]] == [f["severity"] for f in lines]
    is_sarif(json.loads(lint("--sarif", *tmp_path.glob("*.allow")).stdout))


@pytest.mark.parametrize("args", [["/nonexistent/policy"], [], ["--unknown"], [""]])
def test_what_cannot_be_read_is_status_2(args):
    ran = lint(*args)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1
