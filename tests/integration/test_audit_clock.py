"""The clock is set while a proxy runs, forward and back: the log says so, and stays whole and in order. Only that proxy's view of the clock moves."""
import json
import os
import re
import struct
import subprocess

from lab.alone import Alone, allow, fetch, policy
from lab.eclusa import ROOT, program

RULES = policy(allow("allowed.test:80,443 GET /**"))
HOUR_MS = 3600 * 1000


def set_clock(path, step_ms):
    with open(path, "r+b" if os.path.exists(path) else "wb") as file:
        file.write(struct.pack("=q", step_ms))


def test_a_clock_that_is_set_is_told_and_order_is_kept(lab, machine):
    build = os.path.dirname(os.path.abspath(program()))
    preload = os.path.join(build, "tests", "clock_step.so")
    subprocess.run(["make", "-s", f"BUILD={build}", preload], cwd=ROOT, check=True)
    step = os.path.join(lab.folder, "clock-step")
    set_clock(step, 0)
    alone = Alone(lab, machine, RULES, env={"LD_PRELOAD": preload, "ECLUSA_TEST_CLOCK": step})
    assert fetch(alone, "denied.test", "/before") == 403
    before = alone.wait_event("deny.default")[0]
    assert alone.events("audit.clock") == []
    set_clock(step, HOUR_MS)
    alone.wait_event("audit.clock")
    assert fetch(alone, "denied.test", "/ahead") == 403
    ahead = alone.wait_event("deny.default", count=2)[1]
    set_clock(step, 0)
    told = alone.wait_event("audit.clock", count=2)
    assert fetch(alone, "denied.test", "/after") == 403
    after = alone.wait_event("deny.default", count=3)[2]
    assert alone.end() == 0
    for event, way in zip(told, ("forward", "back"), strict=True):
        found = re.fullmatch(rf"the clock was set {way} by (\d+) ms", event["status_detail"])
        assert found and abs(int(found.group(1)) - HOUR_MS) < 1000, event["status_detail"]
    assert ahead["time"] - before["time"] >= HOUR_MS and ahead["time"] > after["time"]
    in_order = [before, told[0], ahead, told[1], after]
    for key in (lambda e: e["metadata"]["sequence"], lambda e: e["unmapped"]["eclusa"]["mono_ns"]):
        assert [key(e) for e in in_order] == sorted(key(e) for e in in_order)
    said = subprocess.run([program(), "audit", "verify", "--json", "--audit-dir", alone.audit], capture_output=True, text=True, check=False)
    assert said.returncode == 0 and json.loads(said.stdout)["findings"] == [], said.stdout
