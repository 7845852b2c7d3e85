"""
More than 200 programs that misbehave (tests/faults), each in a sandbox with small limits: the verdict, how the program ended,
and the number that decided, as root; and as an ordinary user those that are told the same without a control group.
"""
import concurrent.futures
import os
import subprocess
import tempfile

import pytest

from faults.table import GROUPS, INPUTS, STATUS, count
from lab.eclusa import ROOT, is_sanitized, program, read_audit
from lab.events import wait_until

AT_ONCE = 4


@pytest.fixture(scope="module")
def fault():
    build = os.path.dirname(os.path.abspath(program()))
    path = os.path.join(build, "tests", "fault")
    subprocess.run(["make", "-s", f"BUILD={build}", path], cwd=ROOT, check=True)
    return path


@pytest.fixture(scope="module")
def inputs(box, fault):
    """Files beside the program, as options."""
    with open(fault, "rb") as file:
        files = {"fault": (file.read(), 0o755), **INPUTS}
    for name, (text, mode) in files.items():
        path = os.path.join(box.home, name)
        with open(path, "wb") as file:
            file.write(text)
        os.chmod(path, mode)
        if box.user:
            os.chown(path, box.user, box.user)
    return lambda names: [word for name in names for word in ("--in", name)]


def wrong(case, status, result):
    """@return what is told otherwise than it must be, or None."""
    want = {"verdict": case.verdict, **{key: case.told[key] for key in ("decided_by", "decided_by_bytes", "truncated") if key in case.told}}
    if case.code is not None:
        want.update({"exit_code": case.code, "signal": None} if case.code >= 0 else {"exit_code": None, "signal": -case.code})
        want["status"] = case.code if case.code >= 0 else 128 - case.code
    want["status"] = STATUS.get(case.verdict, 125 if case.verdict == "output" else want.get("status"))
    got = {key: {**result, "status": status}.get(key) for key in want}
    if got != want:
        return f"{got} instead of {want}"
    if "artifacts" in case.told and len(result["artifacts"]) != case.told["artifacts"]:
        return f"{len(result['artifacts'])} results instead of {case.told['artifacts']}"
    if result.get("decided_by_ms", 0) < case.told.get("least_ms", 0):
        return f"decided by {result['decided_by_ms']} ms"
    if case.verdict == "cpu" and result["usage"]["cpu_ms"] < case.told["least_ms"]:
        return f"usage says {result['usage']['cpu_ms']} ms"
    peak = result["usage"]["memory_peak_bytes"]
    if "peak" in case.told and not 0.9 * case.told["peak"] <= peak <= case.told["peak"]:
        return f"the peak is {peak}"
    return None


def judge(box, inputs, case):
    names = ["fault", *INPUTS] if case.told.get("inputs") else ["fault"]
    with tempfile.TemporaryDirectory(dir=box.home) as folder:
        os.chmod(folder, 0o777)
        options = [os.path.join(folder, word) if word == "results" else word for word in case.options]
        command = [word.removeprefix("?") for word in case.command]
        status, result = box.result(*inputs(names), *options, "--", *command)
    found = wrong(case, status, result)
    return found and f"{case}: {found}; {result['errors'][:2]}"


@pytest.mark.parametrize("group", GROUPS, ids=[group.__name__ for group in GROUPS])
def test_each_end_is_told_as_what_it_is(box, inputs, group):
    cases = [case for case in group() if case.anyone or case.user == bool(box.user)]
    if not cases:
        pytest.skip("told otherwise where there is no control group, or where there is one")
    if is_sanitized():
        pytest.skip("shadow memory and leaks' exit codes change what is told")
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = [answer for answer in pool.map(lambda case: judge(box, inputs, case), cases) if answer]
    assert not found, "\n".join(found)


def test_there_are_two_hundred():
    assert count() >= 200


def group_of(sandbox, controller):
    """The control group of a run that goes on."""
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(sandbox) and os.path.exists(os.path.join(path, controller)):
                return path
    return None


def number(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


def test_usage_is_what_the_kernel_counted(root_box, fault):
    """While the program waits, the group's own counters are read: they stand still until its end."""
    audit = tempfile.mkdtemp(dir=root_box.folder)
    words = [*root_box.words()[:-1], audit, "-q", "-i", "--in", fault, "--", "./fault", "burn-and-wait", "1000"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root_box.home) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            sandbox = read_audit(audit)[0]["container"]["uid"]
            cpu, memory = group_of(sandbox, "cpuacct.usage"), group_of(sandbox, "memory.max_usage_in_bytes")
            if not cpu or not memory:
                pytest.skip("no control groups of version 1: version 2 is tested by make test-v2")
            wait_until_still(os.path.join(cpu, "cpuacct.usage"))
            cpu_ms = number(os.path.join(cpu, "cpuacct.usage")) / 1e6
            peak = number(os.path.join(memory, "memory.max_usage_in_bytes"))
        finally:
            process.stdin.close()
            process.wait()
    usage = [event for event in read_audit(audit) if event["status_code"] == "sandbox.exit"][0]["unmapped"]["eclusa"]
    assert abs(usage["cpu_ms"] - cpu_ms) <= 0.01 * cpu_ms, (usage, cpu_ms)
    assert abs(usage["memory_peak_bytes"] - peak) <= 0.01 * peak, (usage, peak)
    assert cpu_ms >= 1000


def wait_until_still(path):
    """The program has written its word a moment before it waits."""
    seen = []

    def still():
        seen.append(number(path))
        return len(seen) > 40 and len(set(seen[-40:])) == 1  # which takes a fifth of a second at least

    wait_until(still, lambda: seen[-40:])
