"""Many runs in a row and many at once, with and without a network, leave every count as it was."""
import concurrent.futures
import glob
import os
import tempfile

import pytest

from lab.census import Census, assert_nothing_left
from lab.eclusa import Launch, network_args, run_eclusa, unfinished
from lab.exchanges import CLIENT
from lab.world import ORIGIN

# Process 1 of a container that waits for its own children and reaps no others.
CARELESS = """
import glob, subprocess, sys
for _ in range(3):
    child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    assert child.wait() == 0
states = [open(f).read().rsplit(")", 1)[1].split()[0] for f in glob.glob("/proc/[0-9]*/stat")]
print(states.count("Z"), len(states))
"""
FETCH = "import urllib.request; print(urllib.request.urlopen('https://allowed.test/{}').status)"
RULE = f"allowed.test GET /** addr={ORIGIN}/32"


def fetch(lab, who, path, audit_dir):
    return run_eclusa(lab, ["--in", f"{CLIENT}:x.py"], ["/usr/bin/python3", "-c", FETCH.format(path)], policy=[RULE],
                      user=who, audit_dir=audit_dir)


def assert_segments(folder, count):
    """A segment a run, and no ring or anything else."""
    assert len(glob.glob(f"{folder}/[0-9]*.jsonl")) == count
    assert not unfinished(folder)


@pytest.fixture()
def audit_dir(lab, who):
    folder = tempfile.mkdtemp(prefix="audit-many-", dir=lab.folder)
    if who:
        os.chown(folder, who, who)
    return folder


def test_twenty_in_a_row(lab, who, audit_dir):
    fetch(lab, who, "first", audit_dir)  # what is made once, such as a folder of cgroups, is made now
    before = Census(lab)
    mark = lab.origin.connections.mark()
    for number in range(20):
        run = fetch(lab, who, f"row-{number}", audit_dir)
        assert (run.status, run.output) == (0, "200\n"), run.report()
    assert_nothing_left(lab, before)
    assert [r.target for r in lab.origin.requests(mark)] == [f"/row-{n}" for n in range(20)], "U"
    assert_segments(audit_dir, 21)
    lab.canary.assert_silent()


def test_eight_at_once(lab, who, audit_dir):
    fetch(lab, who, "first", audit_dir)
    before = Census(lab)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda n: fetch(lab, who, f"at-once-{n}", audit_dir), range(8)))
    for run in runs:
        assert (run.status, run.output) == (0, "200\n"), run.report()
    assert len({run.result["id"] for run in runs}) == 8
    assert_nothing_left(lab, before)
    assert_segments(audit_dir, 9)
    lab.canary.assert_silent()


# $1 at once, each $2 in a row, of the command that follows; then whether each of them ended well.
MANY = """
at_once=$1 row=$2 number=0 pids=
shift 2
while [ $number -lt $at_once ]; do
    (i=0; while [ $i -lt $row ]; do "$@" || exit 1; i=$((i + 1)); done) &
    pids="$pids $!" number=$((number + 1))
done
for pid in $pids; do wait $pid || exit 1; done
"""


@pytest.mark.parametrize("at_once, row", [(1, 200), (50, 1)])
def test_many_without_network(lab, who, audit_dir, at_once, row):
    run_eclusa(lab, [], ["/bin/true"], policy=False, user=who, audit_dir=audit_dir)
    before = Census(lab)
    many = ("sh", "-c", MANY, "sh", str(at_once), str(row))
    words = ["run", "--audit-dir", audit_dir, "--timeout", "120s", "--", "/bin/true"]
    process = Launch(lab, words, user=who, audit_dir=audit_dir, before=many).popen()
    stdout, stderr = process.communicate(timeout=600)
    assert (process.returncode, stdout, stderr) == (0, b"", b"")
    assert_nothing_left(lab, before)
    assert_segments(audit_dir, at_once * row + 1)


def test_runs_that_fail_leave_nothing_either(lab, who, audit_dir):
    """Each kind of end: a usage error, a missing program, a wall limit with a survivor, a denial."""
    fetch(lab, who, "first", audit_dir)
    before = Census(lab)
    for args, command, status in (
        (["--no-such-option"], ["/bin/true"], 125),
        ([], ["/no/such/program"], 127),
        (["--timeout", "300ms"], ["/bin/sh", "-c", "setsid sleep 300 & sleep 300"], 124),
        ([], ["/bin/sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & exit 3"], 3),
        ([], ["/bin/sh", "-c", "kill -9 $$"], 137),
        ([], ["curl", "-sS", "https://denied.test/"], 56),
    ):
        run = run_eclusa(lab, args, command, policy=[RULE], user=who, audit_dir=audit_dir)
        assert run.status == status, run.report()
    assert_nothing_left(lab, before)
    lab.canary.assert_silent()


def test_no_zombie_is_left_to_a_process_1_that_reaps_nothing(lab, who, audit_dir):
    before = ("unshare", "--pid", "--fork", "--mount-proc", "/usr/bin/python3", "-c", CARELESS)
    words = ["run", "--json", *network_args(lab, audit_dir, [RULE]), "--", "/bin/true"]
    process = Launch(lab, words, user=who, audit_dir=audit_dir, before=before).popen()
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (0, b"0 1\n"), stderr.decode("utf-8", "replace")
