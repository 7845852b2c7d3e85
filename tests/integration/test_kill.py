"""
kill -9 of eclusa, netd and the proxy's super, at each point that the programs name and at seeded moments: nothing passes
that was not allowed, nothing is left, and the audit tells of every request that the origin saw.
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time

import pytest

from lab.census import Census, assert_nothing_left, descendants, processes
from lab.eclusa import ROOT, USER_UID, Launch, Run, is_sanitized, network_args, read_audit, run_eclusa, unfinished
from lab.events import DEADLINE, wait_until
from lab.world import ORIGIN

FOLDERS = ("netd", "proxy", "sandbox-launcher", "cli", "audit", "ipc")
SEEDS = range(int(os.environ.get("ECLUSA_KILL_SEEDS", "20")))  # more for a soak
VICTIMS = ("eclusa", "eclusa-netd", "eclusa-super")
# Points that only a restart-worthy process passes: the run may go on after it.
RESTARTED = ("worker", "recorder", "keeper-signed")
# Points after which the run is over: nothing of it can go wrong any more.
OVER = ("netd-finishing",)
# Points that only a service passes.
SERVICE = ("super-policy", "super-segment", "serve-")

# What the sandbox does for as long as it may: what is allowed, and what is not, by every way there is.
PAYLOAD = """
import socket, sys, urllib.request
name, rounds = sys.argv[1], int(sys.argv[2])
open("/out/result", "w").close()
for n in range(rounds):
    for url in (f"https://allowed.test/{name}-{n}", f"https://denied.test/{name}-{n}", f"http://denied.test/{name}-{n}"):
        try:
            urllib.request.urlopen(url, timeout=60).read()
        except OSError:
            pass
    for address in ("203.0.113.10", "169.254.169.254", "192.168.50.1"):
        with socket.socket() as sock:
            sock.settimeout(20)
            sock.connect_ex((address, 443))
"""


def fault_points():
    pattern = re.compile(r'\bfault_point\("([^"]+)"\)')
    return sorted({point for folder in FOLDERS for path in pathlib.Path(ROOT, folder).glob("*.c")
                   for point in pattern.findall(path.read_text(encoding="utf-8")) if not point.startswith(SERVICE)})


class Attempt:
    """One run that will be hurt, and what must hold afterwards."""

    def __init__(self, lab, user, name, rounds=4, env=None):
        self.lab, self.user, self.name = lab, user, name
        self.audit = tempfile.mkdtemp(prefix="audit-kill-", dir=lab.folder)
        if user:
            os.chown(self.audit, user, user)
        self.before = Census(lab)
        self.connections, self.questions = lab.origin.connections.mark(), lab.dns.log.mark()
        out = tempfile.mkdtemp(prefix="out-kill-", dir=lab.folder)
        os.chown(out, user or 0, user or 0)
        rules = network_args(lab, self.audit, [f"allowed.test GET /** addr={ORIGIN}/32"])
        self.launch = Launch(lab, ["run", "--json", *rules, "--timeout", "300s", "--out", out, "--", "/usr/bin/python3", "-c", PAYLOAD,
                                   name, str(rounds)], user=user, audit_dir=self.audit, env=env)
        self.process = self.launch.popen()

    def victim(self, name):
        """The pid of eclusa itself, or of its own child with that name; None once all is over."""
        if name == "eclusa":
            return self.process.pid
        for pid, (parent, comm, state) in processes().items():
            if parent == self.process.pid and comm == name and state != "Z":
                return pid
        return None

    def finish(self):
        """It ends by itself, soon."""
        try:
            stdout, stderr = self.process.communicate(timeout=2 * DEADLINE)
        except subprocess.TimeoutExpired:
            left = descendants(self.process.pid)
            self.process.kill()
            self.process.communicate()
            pytest.fail(f"eclusa hung after the kill; its processes: {left}")
        run = Run(self.launch.words, self.user, self.process.returncode, stdout, stderr.decode("utf-8", "replace"), self.audit)
        self.lab.runs.append(run)
        return run

    def assert_nothing_passed(self):
        seen = self.lab.origin.connections.since(self.connections)
        assert {c.local for c in seen} <= {(ORIGIN, 443)} and {c.sni for c in seen} <= {"allowed.test", None}, f"U: {seen}"
        requests = self.lab.origin.requests(self.connections)
        assert {r.host for r in requests} <= {"allowed.test"}, f"U: {requests}"
        assert {q.name for q in self.lab.dns.log.since(self.questions)} <= {"allowed.test"}, "U"
        self.lab.canary.assert_silent()

    def assert_recovered(self):
        """After a next start: no ring, no cgroup; and every request that the origin saw is in the log."""
        again = run_eclusa(self.lab, [], ["/bin/true"], user=self.user, audit_dir=self.audit)
        assert again.status == 0, again.report()
        assert_nothing_left(self.lab, self.before)
        assert not unfinished(self.audit)
        logged = {e["http_request"]["url"].get("path") for e in read_audit(self.audit)
                  if e.get("action_id") == 1 and "url" in e.get("http_request", {})}
        seen = {r.target for r in self.lab.origin.requests(self.connections)}
        assert seen <= logged, f"L: the origin saw {sorted(seen - logged)}, which no line tells of"

    def assert_all(self):
        self.assert_nothing_passed()
        assert_nothing_left(self.lab, self.before, ignore=("cgroups", "files"))
        self.assert_recovered()
        self.assert_nothing_passed()


@pytest.mark.parametrize("point", fault_points())
def test_kill_at_a_named_point(lab, who, point):
    attempt = Attempt(lab, who, point, env={"ECLUSA_FAULT": point})
    run = attempt.finish()
    if point.startswith("launch-"):
        assert run.status == -signal.SIGKILL, "the point was not passed\n" + run.report()
    elif point in OVER:
        assert run.status == 0, run.report()
    elif not point.startswith(RESTARTED):
        assert run.status == 125, "the point was not passed\n" + run.report()
        assert run.result["verdict"] in ("setup", "supervisor"), run.report()
    attempt.assert_all()


@pytest.fixture(scope="module")
def duration(lab):
    """How long the run takes when nobody is killed, so that the moments cover all of it."""
    attempt = Attempt(lab, None, "whole")
    started = time.monotonic()
    run = attempt.finish()
    assert run.status == 0, run.report()
    taken = time.monotonic() - started
    attempt.assert_all()
    assert len(lab.origin.requests(attempt.connections)) == 4, "the twin: what is allowed does pass"
    return taken


@pytest.mark.parametrize("seed", SEEDS)
def test_kill_at_a_seeded_moment(lab, duration, seed):
    """Root and an ordinary user in turn, a victim and a moment by the seed."""
    choice = random.Random(seed)
    user, victim = (USER_UID if seed % 2 and not is_sanitized() else None), choice.choice(VICTIMS)
    moment = choice.uniform(0, duration)
    attempt = Attempt(lab, user, f"seed-{seed}")
    try:
        attempt.process.wait(moment)  # the moment itself, not a wait for something
    except subprocess.TimeoutExpired:
        pass
    pid = wait_until(lambda: attempt.victim(victim) or attempt.process.poll() is not None, f"{victim} is there")
    if pid is not True:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    run = attempt.finish()
    assert run.status in ((-signal.SIGKILL, 0) if victim == "eclusa" else (125, 0)), f"{victim} at {moment:.3f} s\n{run.report()}"
    if run.status == 125:
        assert run.result["verdict"] in ("supervisor", "setup"), run.report()
    attempt.assert_all()


@pytest.mark.parametrize("victim", VICTIMS)
def test_kill_while_a_request_is_open(lab, who, victim):
    """The origin has the request and has not answered: its decision is in the log after the next start."""
    name = f"open-{victim}-{who or 0}"
    held = []
    lab.origin.on(f"/{name}-0", lambda request, connection: held.append(connection))
    attempt = Attempt(lab, who, name)
    lab.origin.connections.wait(
        lambda items: any(r.target == f"/{name}-0" for c in items for r in c.requests), "the request at the origin")
    os.kill(attempt.victim(victim), signal.SIGKILL)
    run = attempt.finish()
    assert run.status == (-signal.SIGKILL if victim == "eclusa" else 125), run.report()
    attempt.assert_all()
    events = [e for e in read_audit(attempt.audit)
              if e.get("http_request", {}).get("url", {}).get("path") == f"/{name}-0"]
    assert events and len({e["metadata"]["uid"] for e in events}) == 1, f"L: {events}"
    for connection in held:
        connection.close()
