"""
The ladder of control groups, on this host: which rung a run has, that it is inside, and that running out of memory ends the
whole of it. tests/v2 has the rungs of version 2.
"""
import glob
import os

import pytest

from lab.box import PYTHON
from lab.census import descendants
from lab.events import wait_until

GROUPS = "/sys/fs/cgroup"


def members(path):
    try:
        with open(f"{path}/cgroup.procs", encoding="ascii") as file:
            return set(map(int, file.read().split()))
    except OSError:  # it is gone
        return set()


def has_groups():
    return os.access(f"{GROUPS}/memory/cgroup.procs", os.W_OK) or os.path.exists(f"{GROUPS}/cgroup.subtree_control")


pytestmark = pytest.mark.skipif(not has_groups(), reason="no control groups to be had here")


def test_running_out_of_memory_ends_all_and_is_told(root_box):
    """A child that is killed for it would leave a parent that goes on, and says that all is well."""
    status, result = root_box.result("--memory", "32M", "--timeout", "60s", "--out", os.path.join(root_box.home, "oom"), "--", PYTHON, "-c", """
import os, signal, time
if os.fork() == 0:
    x = [bytearray(1 << 20) for _ in range(200)]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.wait()
time.sleep(50)
open("/out/went-on", "w")""")
    assert (status, result["verdict"], result["decided_by_bytes"]) == (137, "oom", 32 << 20), result
    assert result["artifacts"] == [] and result["usage"]["wall_ms"] < 40000


def test_a_run_that_stays_below_is_left_alone(root_box):
    status, result = root_box.result("--memory", "64M", "--", PYTHON, "-c", "x = bytearray(20 << 20)")
    assert (status, result["verdict"]) == (0, "ok") and 20 << 20 <= result["receipt"]["peaks"]["memory_bytes"] <= 64 << 20, result


def test_the_rung_is_told_and_the_program_is_on_it(root_box):
    process = root_box.popen("--", "sleep", "60")
    try:
        def group():
            """With the sandbox's first process and the program in it. Groups of other runs come and go."""
            return [path for path in glob.glob(f"{GROUPS}/**/eclusa-sb-*", recursive=True)
                    if len(members(path) & set(descendants(process.pid))) >= 2]
        where = wait_until(group, "the sandbox is in its group")
    finally:
        process.kill()
        process.communicate()
    rung = root_box.result("--", "true")[1]["receipt"]["cgroup"]
    unified = os.path.exists(f"{GROUPS}/cgroup.controllers")
    hybrid = os.path.exists(f"{GROUPS}/unified/cgroup.controllers")
    assert rung == ("v2" if unified else "hybrid" if hybrid else "v1") and where


def test_without_one_limits_are_told_as_what_they_are(box):
    result = box.result("--", "true")[1]
    lacks = result["receipt"]["cgroup"] == "none"
    assert lacks == (not result["receipt"]["layers"]["cgroup"]["active"]) == (result["limits"]["cpu_time_scope"] == "sampled")
    assert lacks == ("memfd_create" in result["receipt"]["layers"]["cgroup"].get("why", ""))
    assert lacks or box.user is None


def test_a_rate_of_disks_that_would_not_hold_is_refused(box):
    """Version 1 knows not whose the pages are that are written out later. tests/v2 has the rate that holds."""
    if box.result("--", "true")[1]["receipt"]["cgroup"].startswith("v2"):
        pytest.skip("version 2 may have it")
    audit = os.path.join(box.audit, "")
    status, result = box.result("--io-rate", "1M", "--out", os.path.join(box.home, "rate"), "--", "touch", "/out/ran")
    assert (status, result["verdict"]) == (125, "setup") and "--io-rate needs a control group of version 2" in result["errors"][0]
    assert not os.path.exists(os.path.join(box.home, "rate")) and result["audit"].startswith(audit)
    status, result = box.result("--", "true")  # twin
    assert (status, result["usage"]["io_read_bytes"], result["limits"]["io_rate_bytes"]) == (0, None, None)
