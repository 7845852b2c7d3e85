"""Runs beside one another: what one run's policy opens or refuses is nothing to another's proxy."""
import subprocess
import tempfile

from lab.events import wait_until
from lab.eclusa import Launch, network_args, run_eclusa
from lab.exchanges import CLIENT
from lab.world import ORIGIN

FETCH = "import urllib.request; print(urllib.request.urlopen('https://allowed.test/beside').status)"


def guards(lab):
    return lab.host.run("nft", "list", "tables").count("eclusa-guard")


def test_a_narrower_policy_beside_does_not_narrow_this_one(lab):
    audit = tempfile.mkdtemp(prefix="audit-beside-", dir=lab.folder)
    words = ["run", "-i", *network_args(lab, audit, ["elsewhere.test"]), "--timeout", "60s", "--", "/bin/cat"]
    other = Launch(lab, words, audit_dir=audit).popen(stdin=subprocess.PIPE)
    try:
        wait_until(lambda: guards(lab) == 1, "the other run's guard")
        other.stdin.write(b"up\n")
        other.stdin.flush()
        assert other.stdout.readline() == b"up\n", "the other run is under way"
        run = run_eclusa(lab, ["--in", f"{CLIENT}:x.py"], ["/usr/bin/python3", "-c", FETCH],
                         policy=[f"allowed.test GET /** addr={ORIGIN}/32"])
        assert (run.status, run.output) == (0, "200\n"), run.report()
    finally:
        other.stdin.close()
        assert other.wait(timeout=60) == 0, other.stderr.read()
    lab.canary.assert_silent()
