"""The allowlists that are shipped: clean, in their one layout, tested rule by rule, each host with the page that documents it."""
import json
import pathlib
import re
import subprocess

import pytest

from lab.eclusa import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "allowlists"
FILES = sorted(FOLDER.rglob("*.allow"))
NAMES = ["brazil-finance", "common/deny-always", "github-download", "huggingface", "research", "websearch-none"]


def policy(*words):
    return subprocess.run([program(), "policy", *map(str, words)], capture_output=True, text=True, timeout=60)


def test_there_are_the_promised_ones():
    assert [str(path.relative_to(FOLDER))[:-len(".allow")] for path in FILES] == NAMES


@pytest.mark.parametrize("path", [FOLDER, *FILES], ids=["all", *NAMES])
def test_lint_finds_nothing_even_when_strict(path):
    ran = policy("lint", "--json", "--strict", path)
    said = json.loads(ran.stdout)
    assert (ran.returncode, [f for f in said["findings"] if f["severity"] != "note"]) == (0, [])


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_each_is_in_its_one_layout_and_its_tests_pass(path):
    assert policy("fmt", "--check", path).returncode == 0
    ran = policy("test", path)
    assert ran.returncode == 0 and re.fullmatch(r"[1-9]\d* passed, 0 failed\n", ran.stdout)
    assert re.search(r"^require .*\btests\b", path.read_text(), re.M), "so that lint asks a test of every rule"
    assert "expect deny" in path.read_text()


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_every_rule_stands_below_the_page_that_documents_its_host(path):
    sources = 0  # of the paragraph, or of the file's head
    for line in path.read_text().splitlines():
        sources = sources + 1 if re.match(r"# https://\S+", line) else sources
        if re.match(r"(allow|deny) ", line):
            assert sources > 0, line


def test_what_is_shipped_only_reads():
    said = json.loads(policy("show", "--json", FOLDER).stdout)
    for profile in said["profiles"]:
        for rule in profile["rules"]:
            words = rule["text"].split()
            if words[0] == "allow":
                assert words[2] in ("GET", "GET,HEAD"), rule


def test_every_profile_denies_what_is_always_denied():
    said = json.loads(policy("show", "--json", FOLDER).stdout)
    common = {line.split()[1] for line in (FOLDER / "common/deny-always.allow").read_text().splitlines() if line.startswith("deny ")}
    assert len(common) > 20
    for profile in said["profiles"]:
        denied = {rule["text"].split()[1] for rule in profile["rules"] if rule["text"].startswith("deny ")}
        assert common <= denied, profile["name"]
