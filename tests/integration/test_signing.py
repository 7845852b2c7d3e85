"""
Signed policies: what `eclusa policy sign` writes, openssl(1) agrees with; and where the configuration or --trust asks for a
signature, a run under anything else ends before a packet leaves.
"""
import json
import os
import stat
import subprocess

import pytest

from lab.eclusa import program, run_eclusa
from lab.signing import RULES, Bench, openssl, tool
from lab.world import ORIGIN

CURL = ["curl", "-sS", "--fail-with-body", "http://allowed.test/signed"]


@pytest.fixture(name="bench")
def fixture_bench(tmp_path):
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    return Bench(tmp_path)


# The tools

def test_openssl_and_sha256sum_agree_with_what_is_written(bench):
    bench.sign()
    manifest, signature = bench.policy / "manifest", bench.policy / "manifest.sig"
    assert len(signature.read_bytes()) == 64
    assert [line.split("  ")[-1] for line in manifest.read_text().splitlines()] == [
        "# eclusa policy manifest 1", "common/deny.allow", "rules.allow"]
    verified = openssl("pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", bench.alice_public, "-in", manifest, "-sigfile", signature)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert subprocess.run(["sha256sum", "--quiet", "-c", "manifest"], cwd=bench.policy, check=False).returncode == 0
    assert stat.S_IMODE(manifest.stat().st_mode) == stat.S_IMODE(signature.stat().st_mode) == 0o644
    assert sorted(os.listdir(bench.policy)) == ["common", "manifest", "manifest.sig", "rules.allow"]


def test_a_signature_of_openssl_is_taken(bench):
    bench.sign(bench.mallory)
    manifest, signature = bench.policy / "manifest", bench.policy / "manifest.sig"
    assert openssl("pkeyutl", "-sign", "-rawin", "-inkey", bench.alice, "-in", manifest, "-out", signature).returncode == 0
    assert tool("verify", "--trust", bench.alice_public, bench.policy).returncode == 0


def test_the_key_id_is_the_digest_of_the_key(bench):
    bench.sign()
    der = openssl("pkey", "-pubin", "-in", bench.alice_public, "-outform", "DER").stdout
    digest = subprocess.run(["sha256sum"], input=der, capture_output=True, check=True).stdout.decode()
    assert bench.key_id(bench.alice_public) == digest[:16]
    said = json.loads(tool("verify", "--json", "--trust", bench.alice_public, bench.policy).stdout)
    assert said == {"policies": [{"path": str(bench.policy), "verified": True, "key_id": digest[:16]}]}


def test_any_of_several_keys_and_several_paths(bench):
    bench.sign()
    both = ["--trust", bench.mallory_public, "--trust", bench.alice_public]
    assert tool("verify", *both, bench.policy).returncode == 0
    single = bench.folder / "single.allow"
    single.write_text("policy 1\n[profile p]\nallow a.test\n")
    done = tool("verify", *both, bench.policy, single)
    assert done.returncode == 1
    assert f"untrusted: {single}.manifest: there is none" in done.stdout and f"{bench.policy}: signed by" in done.stdout
    assert tool("sign", "--key", bench.alice, single).returncode == 0
    assert tool("verify", *both, bench.policy, single).returncode == 0


CHANGES = {
    "changed include": lambda b: (b.policy / "common/deny.allow").write_text("policy 1\n"),
    "changed rules": lambda b: (b.policy / "rules.allow").write_text(RULES + "allow other.test\n"),
    "more rules": lambda b: (b.policy / "more.allow").write_text("policy 1\n"),
    "no manifest": lambda b: (b.policy / "manifest").unlink(),
    "no signature": lambda b: (b.policy / "manifest.sig").unlink(),
    "other key": lambda b: b.sign(b.mallory),
    "changed manifest": lambda b: (b.policy / "manifest").write_text((b.policy / "manifest").read_text().upper()),
    "link as manifest": lambda b: ((b.policy / "manifest").unlink(), (b.policy / "manifest").symlink_to("/etc/passwd")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_tool_refuses_what_was_not_signed(bench, change):
    bench.sign()
    trust = ["--trust", bench.alice_public]
    for words in (("verify",), ("lint",), ("test",), ("show",)):
        done = tool(*words, *trust, bench.policy)
        assert done.returncode == 0, done
    CHANGES[change](bench)
    for words, status in ((("verify", bench.policy), 1), (("lint", bench.policy), 1), (("test", bench.policy), 1),
                          (("show", bench.policy), 2), (("explain", "--policy", bench.policy, "GET", "https://a.test/"), 2)):
        done = tool(words[0], *trust, *words[1:])
        assert done.returncode == status, (words, done)
        assert "untrusted" in done.stdout + done.stderr and len((done.stdout + done.stderr).splitlines()) <= 2, done
    assert "untrusted" not in tool("lint", bench.policy).stdout  # who does not ask is not told


def test_sign_refuses_what_does_not_load_and_changes_nothing(bench):
    (bench.policy / "rules.allow").write_text("policy 1\nallow nonsense\n")
    done = tool("sign", "--key", bench.alice, bench.policy)
    assert done.returncode == 1 and f"{bench.policy}/rules.allow:2:" in done.stderr
    assert sorted(os.listdir(bench.policy)) == ["common", "rules.allow"]


@pytest.mark.parametrize("spoil, says", [
    (lambda b: b.alice.chmod(0o640), "others may read it: chmod 600"),
    (lambda b: b.alice.write_text("x"), "no Ed25519 private key in PEM"),
    (lambda b: b.alice.unlink(), "No such file"),
    (lambda b: b.alice.write_bytes(b.alice_public.read_bytes()), "no Ed25519 private key in PEM"),
    (lambda b: openssl("genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x", "-out", b.alice), "needs a password"),
])
def test_sign_says_what_is_wrong_with_a_key(bench, spoil, says):
    spoil(bench)
    done = tool("sign", "--key", bench.alice, bench.policy)
    assert done.returncode == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert sorted(os.listdir(bench.policy)) == ["common", "rules.allow"]


# Runs: a deny is seen by the caller, by the world that was not asked, and by the log

def refused(lab, bench, user, words, says, before=(), env=None):
    """A run that must end before anything of it reaches the world."""
    mark, questions = lab.origin.connections.mark(), lab.dns.log.mark()
    run = run_eclusa(lab, words, CURL, policy=False, user=user, before=before, env=env)
    assert run.status == 125 and run.result["verdict"] == "setup", run.report()
    assert any(says in line for line in run.result["errors"]), run.report()
    assert not lab.origin.connections.since(mark) and not lab.dns.log.since(questions), run.report()
    assert run.decisions() == [], run.report()
    lab.canary.assert_silent()
    return bench


def passes(lab, user, policy, words, before=(), env=None):
    mark = lab.origin.connections.mark()
    run = run_eclusa(lab, words, CURL, policy=policy, user=user, before=before, env=env)
    assert run.status == 0 and "GET allowed.test /signed" in run.output, run.report()
    assert len(lab.origin.requests(mark)) == 1
    assert {e["status_code"] for e in run.decisions()} == {"allow.rule"}, run.report()
    return run


def test_a_run_takes_only_what_the_key_signed(lab, who, bench):
    trust = ["--trust", str(bench.alice_public)]
    refused(lab, bench, who, ["--policy", str(bench.policy), *trust], "policy/manifest: there is none")
    bench.sign()
    run = passes(lab, who, str(bench.policy), trust)
    (start,) = [e for e in run.events if e["status_code"] == "sandbox.start"]
    assert start["unmapped"]["eclusa"]["policy_signer"] == bench.key_id(bench.alice_public)
    run = passes(lab, who, str(bench.policy), [])
    (start,) = [e for e in run.events if e["status_code"] == "sandbox.start"]
    assert "policy_signer" not in start["unmapped"]["eclusa"], "no signature was asked for: who signed is not known"
    (bench.policy / "common/deny.allow").write_text("policy 1\n")
    refused(lab, bench, who, ["--policy", str(bench.policy), *trust], "common/deny.allow: its bytes are not those that were signed")


def test_the_configuration_holds_without_an_option(lab, who, bench):
    before = bench.configure(f"# who signs\ntrust {bench.alice_public}\n")
    refused(lab, bench, who, ["--policy", str(bench.policy)], "policy/manifest: there is none", before)
    bench.sign(bench.mallory)
    refused(lab, bench, who, ["--policy", str(bench.policy)], "no signature of this manifest", before)
    refused(lab, bench, who, ["--policy", str(bench.policy), "--trust", str(bench.mallory_public)], "does not trust this key", before)
    refused(lab, bench, who, ["--allow", "allowed.test:80"], "--allow: only signed policies are trusted here", before)
    bench.sign()
    passes(lab, who, str(bench.policy), [], before)
    passes(lab, who, str(bench.policy), ["--trust", str(bench.alice_public)], before)


def test_no_variable_of_the_caller_switches_it_off(lab, who, bench):
    """Names that a reader of the code might hope for, an OpenSSL configuration, another home."""
    before = bench.configure(f"trust {bench.alice_public}\n")
    bench.sign(bench.mallory)
    broken = bench.folder / "openssl.cnf"
    broken.write_text("openssl_conf = nothing\n[nothing]\nproviders = none\n[none]\n")
    env = {"ECLUSA_CONFIG": "/dev/null", "ECLUSA_TRUST": str(bench.mallory_public), "OPENSSL_CONF": str(broken),
           "OPENSSL_MODULES": str(bench.folder), "XDG_CONFIG_HOME": str(bench.folder), "HOME": str(bench.folder)}
    refused(lab, bench, who, ["--policy", str(bench.policy)], "no signature of this manifest", before, env)
    bench.sign()
    passes(lab, who, str(bench.policy), [], before, env)


def test_rules_of_the_command_line_hold_where_the_configuration_says_so(lab, who, bench):
    before = bench.configure(f"trust {bench.alice_public}\nallow-rules yes\n")
    passes(lab, who, [f"allowed.test:80 GET,HEAD /** addr={ORIGIN}/32"], [], before)
    refused(lab, bench, who, ["--policy", str(bench.policy)], "policy/manifest: there is none", before)


@pytest.mark.parametrize("text, says", [
    ("trust\n", "/etc/eclusa/config:1:1: error: config: write: trust FILE"),
    ("trust /nonexistent.pub\n", "/etc/eclusa/config:1: /nonexistent.pub: No such file"),
    ("\n\nrelax yes\n", "/etc/eclusa/config:3:1: error: config: unknown setting 'relax'"),
])
def test_a_configuration_with_a_fault_lets_nothing_run(lab, who, bench, text, says):
    bench.sign()
    refused(lab, bench, who, ["--policy", str(bench.policy)], says, bench.configure(text))


@pytest.mark.parametrize("words, says", [
    (["--trust", "k.pub", "--allow", "a.test"], "--trust needs --policy"),
    (["--trust", "k.pub"], "--trust needs --policy"),
])
def test_trust_without_a_policy_is_wrong_usage(words, says):
    done = subprocess.run([program(), "run", *words, "--", "true"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 125 and says in done.stderr
