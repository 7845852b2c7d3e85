"""
Signed policies while the proxy runs: whose signature a load needs is asked anew each time, what was signed by nobody who is
trusted changes nothing, and the log says who signed what came into force.
"""
import json

import pytest

from lab.alone import Alone, Client, allow, fetch, policy
from lab.events import DEADLINE
from lab.signing import Bench

WIDE = policy(allow("allowed.test:80,443 GET /** id=wide"))
GONE = policy(allow("elsewhere.test:443 GET /** id=gone"))


@pytest.fixture(name="bench")
def fixture_bench(tmp_path):
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    made = Bench(tmp_path)
    write(made, WIDE)
    return made


def write(bench, text, key=None):
    (bench.policy / "rules.allow").write_text(text)
    bench.sign(key)


def start(lab, machine, bench, *args, **more):
    return Alone(lab, machine, str(bench.policy), *args, **more)


def signers(alone):
    return [e["unmapped"]["eclusa"].get("policy_signer") for e in alone.events("policy.loaded")]


def stays(lab, alone, says):
    """A load is refused, and what was in force is: one host is reached, the other is not."""
    refused = len(alone.events("policy.rejected"))
    status, said = alone.reload()
    assert status == 1 and not said["loaded"] and says in said["text"], said
    assert fetch(alone, "allowed.test", "/still") == 200
    seen, asked = lab.origin.connections.mark(), lab.dns.log.mark()
    assert fetch(alone, "elsewhere.test", "/no") == 403, "C"
    assert not lab.origin.connections.since(seen) and not lab.dns.log.since(asked), "U"
    assert says in alone.wait_event("policy.rejected", count=refused + 1)[-1]["status_detail"], "L"


def test_a_load_takes_only_what_a_trusted_key_signed_and_says_which(lab, machine, bench):
    alone = start(lab, machine, bench, "--trust", str(bench.alice_public))
    (bench.policy / "rules.allow").write_text(GONE)
    stays(lab, alone, "its bytes are not those that were signed")
    bench.sign(bench.mallory)
    stays(lab, alone, "no signature of this manifest by a key that is trusted")
    bench.sign()
    assert alone.reload()[0] == 0
    assert fetch(alone, "allowed.test", "/gone") == 403
    assert alone.end() == 0
    assert signers(alone) == [bench.key_id(bench.alice_public)] * 2


def test_a_key_that_is_withdrawn_refuses_the_next_load(lab, machine, bench):
    before = bench.configure(f"trust {bench.alice_public}\n")
    alone = start(lab, machine, bench, before=before)
    write(bench, GONE)
    bench.configure(f"trust {bench.mallory_public}\n")
    stays(lab, alone, "no signature of this manifest by a key that is trusted")
    bench.configure("nonsense\n")
    stays(lab, alone, "/etc/eclusa/config:1")
    bench.configure(f"trust {bench.alice_public}\ntrust {bench.mallory_public}\n")
    write(bench, GONE, bench.mallory)
    assert alone.reload()[0] == 0, "one that is trusted since"
    assert alone.end() == 0
    assert signers(alone) == [bench.key_id(bench.alice_public), bench.key_id(bench.mallory_public)]


def test_the_file_of_an_option_is_read_again_too(lab, machine, bench):
    alone = start(lab, machine, bench, "--trust", str(bench.alice_public))
    bench.alice_public.write_bytes(bench.mallory_public.read_bytes())
    stays(lab, alone, "no signature of this manifest by a key that is trusted")
    assert alone.end() == 0


def test_another_signature_of_the_same_text_is_news(lab, machine, bench):
    trust = ["--trust", str(bench.alice_public), "--trust", str(bench.mallory_public)]
    alone = start(lab, machine, bench, "--watch", *trust)
    bench.sign(bench.mallory)
    alone.wait_logged("policy-loaded")
    assert alone.end() == 0
    assert signers(alone) == [bench.key_id(bench.alice_public), bench.key_id(bench.mallory_public)]


def test_the_copy_of_a_key_that_is_withdrawn_brings_nothing_back(lab, machine, bench):
    """A start without good files has the last good policy, if who signed it is trusted still."""
    before = bench.configure(f"trust {bench.alice_public}\n")
    alone = start(lab, machine, bench, before=before)
    assert alone.end() == 0
    (bench.policy / "rules.allow").write_text("policy 1\nnonsense\n")
    again = start(lab, machine, bench, before=before, state=alone.state)
    assert again.logged("policy-last-good"), again.errors
    assert fetch(again, "allowed.test", "/copy") == 200, "the twin: it is trusted"
    assert again.end() == 0
    assert signers(again) == [bench.key_id(bench.alice_public)]
    bench.configure(f"trust {bench.mallory_public}\n")
    last = start(lab, machine, bench, before=before, state=alone.state)
    assert last.logged("policy-absent") and last.logged("not trusted"), last.errors
    seen, asked = lab.origin.connections.mark(), lab.dns.log.mark()
    with Client(last) as client:
        status, body = client.get_plain("http://allowed.test/")
        assert status == 503 and json.loads(body)["reason"] == "deny.policy-stale", "C"
    assert not lab.origin.connections.since(seen) and not lab.dns.log.since(asked), "U"
    last.wait_event("deny.policy-stale")
    assert last.end() == 0


def test_nothing_unsigned_starts(lab, machine, bench):
    (bench.policy / "manifest.sig").unlink()
    alone = start(lab, machine, bench, "--trust", str(bench.alice_public), ready=False)
    assert alone.process.wait(timeout=DEADLINE) == alone.end() == 2
    assert any("manifest.sig: there is none" in line for line in alone.errors if line), alone.errors
