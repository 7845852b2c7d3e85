"""`eclusa policy show`, `diff` and `fmt`, as a person and a pipeline use them."""
import json
import os
import re
import subprocess

import pytest

from lab.eclusa import ROOT, program

OLD = "policy 1\n[profile p]\nallow a.test\nallow b.test resp-body=1k\n[profile gone]\nallow z.test\n"
NEW = "policy 1\n# Reads more.\n[profile p]\nallow   A.test HEAD,GET,POST\nallow b.test resp-body=2k\n"


def tool(*words):
    return subprocess.run([program(), "policy", *map(str, words)], capture_output=True, text=True, timeout=60)


@pytest.fixture
def files(tmp_path):
    for name, text in (("old", OLD), ("new", NEW)):
        (tmp_path / f"{name}.allow").write_text(text)
    return tmp_path / "old.allow", tmp_path / "new.allow"


def test_show_prints_a_policy_with_the_same_decisions(files, tmp_path):
    old, _ = files
    ran = tool("show", "--profile", "p", old)
    assert ran.returncode == 0
    assert f"allow b.test:443 GET,HEAD /** req-body=0 resp-body=1k up=1m  # {old}:4" in ran.stdout.splitlines()
    again = tmp_path / "again.allow"
    again.write_text(ran.stdout)
    said, repeated = (json.loads(tool("show", "--json", "--profile", "p", path).stdout) for path in (old, again))
    assert said["profiles"][0]["effective"] == repeated["profiles"][0]["effective"]
    assert [p["name"] for p in json.loads(tool("show", "--json", old).stdout)["profiles"]] == ["p", "gone"]


def test_a_profile_that_waits_for_the_disk_is_shown_and_compared(files, tmp_path):
    old, _ = files
    strict = tmp_path / "strict.allow"
    strict.write_text(OLD.replace("[profile p]\n", "[profile p]\nset commit before\n"))
    assert "set commit before" in tool("show", "--profile", "p", strict).stdout.splitlines()
    assert json.loads(tool("show", "--json", "--profile", "p", strict).stdout)["profiles"][0]["commit"] == "before"
    again = tmp_path / "again.allow"
    again.write_text(tool("show", strict).stdout)
    same = tool("diff", strict, again)
    assert same.returncode == 0 and "commit" not in same.stdout, same.stdout
    weaker, stronger = tool("diff", strict, old), tool("diff", old, strict)
    assert weaker.returncode == 1 and "profile p: commit was before, is after" in weaker.stdout
    assert stronger.returncode == 0 and "profile p: commit was after, is before" in stronger.stdout
    said = json.loads(tool("diff", "--json", old, strict).stdout)["profiles"]
    assert [p["commit"] for p in said if p["name"] == "p"] == [{"old": "after", "new": "before"}]


def test_diff_tells_decisions_and_fails_on_wider_ones(files):
    old, new = files
    ran = tool("diff", old, new)
    assert ran.returncode == 1
    lines = ran.stdout.splitlines()
    assert "  allowed: POST https://a.test/" in lines
    assert "  wider: GET https://b.test/ (resp-body)" in lines
    assert f"      was allow.rule by {old}:6: allow z.test" in lines
    assert lines[-1] == "1 allowed, 1 denied, 2 wider, 0 narrower"
    said = json.loads(tool("diff", "--json", old, new).stdout)
    assert (said["allowed"], said["denied"], said["wider"], said["complete"]) == (1, 1, 2, True)
    assert [(p["name"], p["state"]) for p in said["profiles"]] == [("p", "in both"), ("gone", "removed")]
    ran = tool("diff", old, old)
    assert (ran.returncode, ran.stdout) == (0, "0 allowed, 0 denied, 0 wider, 0 narrower\n")


def test_diff_is_content_when_less_is_allowed(files, tmp_path):
    less = tmp_path / "less.allow"
    less.write_text("policy 1\n[profile p]\nallow a.test /x\n")
    ran = tool("diff", files[0], less)
    assert ran.returncode == 0 and ran.stdout.splitlines()[-1] == "0 allowed, 3 denied, 0 wider, 0 narrower"


def test_fmt_checks_prints_and_writes(files):
    _, new = files
    formatted = "policy 1\n\n# Reads more.\n[profile p]\nallow a.test GET,HEAD,POST\nallow b.test resp-body=2k\n"
    new.chmod(0o640)
    ran = tool("fmt", new)
    assert (ran.returncode, ran.stdout) == (0, formatted)
    ran = tool("fmt", "--check", new)
    assert (ran.returncode, ran.stdout) == (1, f"{new}\n") and new.read_text() == NEW
    ran = tool("fmt", "--write", new.parent)
    assert ran.returncode == 0 and new.read_text() == formatted and new.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(new.parent)) == ["new.allow", "old.allow"]
    assert tool("fmt", "--check", new.parent).returncode == 0


def test_fmt_leaves_alone_what_it_cannot_read(tmp_path):
    path = tmp_path / "a.allow"
    path.write_text('policy 1\nallow a.test note="x\n')
    ran = tool("fmt", "--write", path)
    assert ran.returncode == 1
    assert ran.stdout == f"{path}:2:19: error: syntax: the quote is not closed on this line\n"
    assert path.read_text() == 'policy 1\nallow a.test note="x\n'


@pytest.mark.parametrize("words", [
    ("show",), ("show", "/nonexistent"), ("show", "--profile", "no", "OLD"), ("diff", "OLD"), ("diff", "OLD", "/nonexistent"),
    ("fmt", "/nonexistent"), ("fmt", "--check", "--write", "OLD"), ("fmt", "FOLDER"), ("show", "--write", "OLD"), ("nothing",)])
def test_usage_and_unreadable(files, words):
    ran = tool(*[{"OLD": files[0], "FOLDER": files[0].parent}.get(word, word) for word in words])
    assert (ran.returncode, ran.stdout) == (2, "") and ran.stderr


def test_wrong_usage_says_the_right_one(files):
    assert tool("diff", files[0]).stderr == "eclusa policy: wrong number of words: eclusa policy diff [--at DATE] OLD NEW\n"
    assert tool("lnit", files[0]).stderr == "eclusa policy: unknown subcommand lnit; did you mean lint?\n"
    assert "methods of rules are in upper case" in tool("explain", "--allow", "a.test", "get", "https://a.test/").stdout


def test_a_file_that_is_no_log_is_none(files):
    for words in (("replay", files[0], files[0]), ("suggest", files[0]), ("lint", "--observed", files[0], files[0])):
        ran = tool(*words)
        assert (ran.returncode, ran.stdout) == (2, "") and ran.stderr.endswith(": no line of it is of an audit log\n")


def keys_of(value):
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


def test_the_manual_names_each_key_of_json(files, tmp_path):
    """Of every tool that the laboratory is not needed for."""
    with open(os.path.join(ROOT, "docs/man/eclusa-policy.1"), encoding="utf-8") as file:
        section = file.read().split(".Ss What \\-\\-json prints")[1].split("\n.S")[0]
    old, new = files
    wrong = tmp_path / "wrong.allow"
    wrong.write_text(OLD + "expect deny GET https://z.test/\n")
    key = tmp_path / "key.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True, timeout=60)
    public = tmp_path / "key.pub"
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True, capture_output=True, timeout=60)
    public.chmod(0o644)
    for words in (["lint", wrong], ["test", wrong], ["explain", "--policy", old, "p", "POST", "https://a.test/x?q"],
                  ["show", old], ["diff", old, new], ["fmt", "--check", new], ["sign", "--key", key, old],
                  ["verify", "--trust", public, old, new]):
        ran = tool(words[0], "--json", *words[1:])
        assert ran.returncode in (0, 1), (words, ran.stderr)
        entry = section.split(f".It Cm {words[0]}\n")[1].split(".It Cm")[0] + section.split(".Bl")[0]
        unsaid = {k for k in keys_of(json.loads(ran.stdout)) if not re.search(rf"\b{k}\b", entry)}
        assert not unsaid, (words[0], unsaid)


def test_a_lone_dash_is_a_word():
    ran = subprocess.run([program(), "policy", "import", "--from", "hosts", "-"], input="a.example.com\n", capture_output=True,
                         text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "deny a.example.com  # stdin:1"), ran.stderr
