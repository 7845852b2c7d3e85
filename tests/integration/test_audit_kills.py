"""
Nothing is lost: while eight clients ask as fast as they can, worker, recorder and in the end super are killed -9 again and again. The
origin's own count against the log: every request that it saw is there, and the chain is whole. `make soak` does it 1,000 times.
"""
import os
import random
import signal
import subprocess
import tempfile

import pytest

from lab.census import descendants, processes
from lab.eclusa import Launch, network_args, program, read_audit, run_eclusa, unfinished
from lab.events import DEADLINE, wait_until
from lab.world import ORIGIN

KILLS = int(os.environ.get("ECLUSA_AUDIT_KILLS", "50"))
A_RUN = 9  # of which one is the last, of super; a member may be started again ten times
RUNS = range(-(-KILLS // A_RUN))

PROGRAM = """
import sys, threading, urllib.request
name = sys.argv[1]
def ask(thread):
    n = 0
    while True:
        n += 1
        for url in (f"https://allowed.test/{name}-{thread}-{n}", f"https://denied.test/{name}-{thread}-{n}"):
            try:
                urllib.request.urlopen(url, timeout=5).read()
            except OSError:
                pass
threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(8)]
for thread in threads:
    thread.start()
threads[0].join()
"""


def pids_of(process, name):
    below = set(descendants(process.pid))
    return [pid for pid, (_, comm, state) in processes().items() if pid in below and comm == name and state != "Z"]


def kill(process, name, choice):
    """One process of that name, which a successor then replaces. False: all is over already."""
    found = wait_until(lambda: pids_of(process, name) or process.poll() is not None, f"{name} is there")
    if found is True:
        return False
    victim = choice.choice(found)
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass
    wait_until(lambda: victim not in pids_of(process, name), f"{name} is dead")
    return True


@pytest.mark.parametrize("number", RUNS)
def test_no_request_that_the_origin_saw_is_missing(lab, number):
    choice, name = random.Random(number), f"kills-{number}"
    audit = tempfile.mkdtemp(prefix="audit-kills-", dir=lab.folder)
    mark = lab.origin.connections.mark()
    rules = network_args(lab, audit, [f"allowed.test GET /** addr={ORIGIN}/32"])
    process = Launch(lab, ["run", "--json", *rules, "--timeout", "300s", "--cpu-time", "300s", "--", "/usr/bin/python3", "-c", PROGRAM, name],
                     audit_dir=audit).popen()
    for kills in range(A_RUN):
        seen = len(lab.origin.requests(mark))
        more = choice.randrange(1, 6)  # so many more are under way or over when it strikes
        wait_until(lambda s=seen, m=more: len(lab.origin.requests(mark)) >= s + m or process.poll() is not None, "load")
        last = kills == A_RUN - 1
        assert kill(process, "eclusa-super" if last else choice.choice(("eclusa-worker", "eclusa-recorder")), choice), "the run goes on"
    stdout, stderr = process.communicate(timeout=DEADLINE)
    assert process.returncode == 125, (stdout[-2000:], stderr[-2000:])
    again = run_eclusa(lab, [], ["/bin/true"], policy=False, audit_dir=audit)
    assert again.status == 0 and not unfinished(audit), again.report()
    events = read_audit(audit)
    logged = {e["http_request"]["url"].get("path") for e in events if e.get("action_id") == 1 and "url" in e.get("http_request", {})}
    seen = {r.target for r in lab.origin.requests(mark)}
    assert len(seen) >= A_RUN and seen <= logged, f"L: the origin saw {sorted(seen - logged)}, which no line tells of"
    numbers = {}
    for event in events:
        numbers.setdefault(event["unmapped"]["eclusa"]["chain"], []).append(event["metadata"]["sequence"])
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values()), "no gap"
    sound = subprocess.run([program(), "audit", "verify", "--audit-dir", audit], stdout=subprocess.PIPE, check=False)
    assert sound.returncode == 0, sound.stdout.decode()
