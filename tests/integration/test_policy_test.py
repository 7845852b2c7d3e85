"""`eclusa policy test`: expect lines, counted."""
import json
import subprocess

from lab.eclusa import program


def policy_test(*words):
    return subprocess.run([program(), "policy", "test", *map(str, words)], capture_output=True, text=True, timeout=60)


def test_lines_are_counted_and_failures_have_their_place(tmp_path):
    good, bad = tmp_path / "good.allow", tmp_path / "bad.allow"
    good.write_text("policy 1\n[profile p]\nallow a.test\nexpect allow GET https://a.test/\n")
    bad.write_text("policy 1\n[profile p]\nallow a.test\nexpect allow GET https://a.test/\n"
                   "expect allow GET https://b.test/\nexpect deny GET ftp://a.test/\n")
    ran = policy_test(good)
    assert (ran.returncode, ran.stdout) == (0, "1 passed, 0 failed\n")
    ran = policy_test(good, bad)
    assert ran.returncode == 1
    lines = ran.stdout.splitlines()
    assert lines[0].startswith(f"{bad}:5:1: error: expect: expected allow, got deny.default")
    assert lines[1].startswith(f"{bad}:6:17: error: url:")
    assert lines[2] == "2 passed, 2 failed"
    said = json.loads(policy_test("--json", good, bad).stdout)
    assert (said["passed"], said["failed"], said["judged"]) == (2, 2, True)
    assert [f["line"] for f in said["findings"]] == [5, 6]


def test_a_policy_that_does_not_load_is_not_called_good(tmp_path):
    path = tmp_path / "a.allow"
    path.write_text("policy 1\n[profile p]\nallow a.test typo=1\nexpect allow GET https://a.test/\n")
    ran = policy_test(path)
    assert ran.returncode == 1
    assert ran.stdout.splitlines()[1] == "0 passed, 0 failed; errors keep lines from being judged"
    assert policy_test("/nonexistent").returncode == 2
