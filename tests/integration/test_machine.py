"""
The machine as a sandbox is told of it in /proc: as large as its limits, and nothing of how busy the host is.
"""
import fcntl
import json
import os
import struct
import subprocess
import tempfile

import pytest

from lab.box import ENVIRONMENT, PYTHON
from lab.rootfs import make_rootfs

HIDDEN = ("buddyinfo", "cgroups", "cmdline", "diskstats", "interrupts", "key-users", "keys", "kcore", "locks", "mdstat", "partitions",
          "sched_debug", "schedstat", "softirqs", "sysrq-trigger", "timer_list", "zoneinfo")
HIDDEN_FOLDERS = ("acpi", "fs", "pressure", "scsi")
LOOK = """
import json, os, sys
seen = {"count": os.cpu_count(), "load": os.getloadavg(), "pages": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")}
for name in ("cpuinfo", "meminfo", "stat", "vmstat", "loadavg", "uptime", "swaps", *sys.argv[1].split(",")):
    try:
        with open("/proc/" + name) as file:
            seen[name] = file.read()
    except OSError as error:
        seen[name] = error.errno
for name in sys.argv[2].split(","):
    seen[name] = os.listdir("/proc/" + name) if os.path.exists("/proc/" + name) else []
written = []
for name in ("meminfo", "cpuinfo", "loadavg", "zoneinfo", "fs/x"):
    for call in (lambda path: open(path, "w"), lambda path: os.chmod(path, 0o666), os.unlink):
        try:
            call("/proc/" + name)
            written.append(name)
        except OSError:
            pass
seen["written"] = written
print(json.dumps(seen))
"""


def look(box, *args):
    status, result = box.result(*args, "--", PYTHON, "-c", LOOK, ",".join(HIDDEN), ",".join(HIDDEN_FOLDERS))
    assert status == 0, result
    assert result["receipt"]["layers"]["proc"]["active"]
    return json.loads(result["stdout"])


def host(name):
    with open(f"/proc/{name}", encoding="ascii", errors="replace") as file:
        return file.read()


def lines(text):
    """@return name and value of each line "name: value"; of the first of a name."""
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


@pytest.fixture(scope="module")
def seen(box):
    """While somebody on the host has a lock of the kind that has no process: that of others is not shown to other process namespaces."""
    with tempfile.TemporaryFile() as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        assert "OFDLCK" in host("locks"), "twin: here it is shown"
        return look(box, "--memory", "96M", "--cpus", "1")


def test_memory_is_the_limit(seen):
    memory = lines(seen["meminfo"])
    assert memory["MemTotal"] == memory["MemFree"] == memory["MemAvailable"] == f"{96 << 10} kB"
    assert memory["SwapTotal"] == memory["Cached"] == memory["Committed_AS"] == "0 kB"
    assert seen["vmstat"].startswith(f"nr_free_pages {(96 << 10) // 4}\n")
    assert seen["swaps"].count("\n") == 1 and seen["pages"] == 96 << 20
    real = lines(host("meminfo"))  # twin: the host's are other ones
    assert real["MemTotal"] != memory["MemTotal"] and real["MemTotal"] not in seen["meminfo"]


def test_processors_are_those_of_the_limit(seen):
    assert seen["count"] == 1 and "cpu0 " in seen["stat"] and "cpu1 " not in seen["stat"]
    one, real = lines(seen["cpuinfo"]), lines(host("cpuinfo"))
    assert seen["cpuinfo"].count("processor") == 1 and one["processor"] == "0"
    assert {name for name in real if one.get(name) != real[name]} <= {"siblings", "cpu cores", "core id", "apicid", "initial apicid",
                                                                      "physical id", "cpu MHz"}
    assert len(one.get("flags", one.get("Features", "")).split()) > 5, "programs choose their code by them"


def test_how_busy_the_host_is_is_not_told(seen):
    assert seen["loadavg"] == "0.00 0.00 0.00 1/1 1\n" and seen["load"] == [0, 0, 0]
    counts = [line.split()[1:] for line in seen["stat"].splitlines() if line.startswith(("cpu", "ctxt", "intr", "softirq"))]
    assert {number for numbers in counts for number in numbers} == {"0"}
    assert seen["uptime"].split()[1] == "0.00"
    assert {name: seen[name] for name in HIDDEN if seen[name] not in ("", 2)} == {}
    assert {name: seen[name] for name in HIDDEN_FOLDERS if seen[name]} == {}
    assert any(host(name) for name in ("interrupts", "zoneinfo")), "twin: here they tell something"
    assert float(host("uptime").split()[1]) > 0


def test_ages_of_processes_are_right(seen):
    """They count from the start of the kernel, which is the host's: a clock tells it as well."""
    booted = int(next(line for line in host("stat").splitlines() if line.startswith("btime")).split()[1])
    told = int(next(line for line in seen["stat"].splitlines() if line.startswith("btime")).split()[1])
    assert abs(booted - told) <= 1 and 0 < float(seen["uptime"].split()[0]) <= float(host("uptime").split()[0])


def test_none_of_it_can_be_changed(seen):
    assert seen["written"] == []


def test_more_processors_than_the_run_may_use_are_not_shown(root_box):
    there = len(os.sched_getaffinity(0))
    assert look(root_box, "--cpus", "1000")["count"] == there
    assert look(root_box, "--cpus", "0.5")["count"] == 1
    if there > 1:
        shown = look(root_box, "--cpus", "1.5")
        assert shown["count"] == 2 and shown["cpuinfo"].count("processor\t: 1\n") == 1
        words = root_box.words("--json", "--cpus", "2", "--", "sh", "-c", "getconf _NPROCESSORS_ONLN; nproc")
        done = subprocess.run(["taskset", "-c", str(min(os.sched_getaffinity(0))), *words], cwd=root_box.home, env=ENVIRONMENT,
                              capture_output=True, text=True, timeout=60, check=True)
        assert json.loads(done.stdout)["stdout"] == "1\n1\n"


SYSINFO = """
import ctypes, mmap, os, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
own = ctypes.create_string_buffer(b"x" * 128)
print(libc.sysinfo(own), struct.unpack_from("qLLLLLLLLLHHxxxxLLI", own.raw)[1:], own.raw[112:126])
for address in (0, 8, 1 << 46, (1 << 63) + 8, -8):
    ctypes.set_errno(0)
    print(libc.sysinfo(ctypes.c_void_p(address)), ctypes.get_errno())
if os.fork() == 0:  # a process that no other may read
    libc.prctl(4, 0, 0, 0, 0)
    os._exit(libc.sysinfo(own) & 1)
print(os.waitstatus_to_exitcode(os.wait()[1]))
threads = [threading.Thread(target=lambda: [os.getloadavg() for _ in range(300)]) for _ in range(4)]
print([t.start() for t in threads] and [t.join() for t in threads], libc.sysinfo(own))
"""


def test_a_call_that_tells_of_the_machine_is_answered_for_the_sandbox(box):
    """The launcher writes it into the caller's memory: where there is none, nowhere."""
    status, result = box.result("--memory", "96M", "--", PYTHON, "-c", SYSINFO)
    lines = result["stdout"].splitlines()
    assert status == 0 and result["denials"] == [], result
    size = 96 << 20
    assert lines[0] == f"0 {(0, 0, 0, size, size, 0, 0, 0, 0, 1, 0, 0, 0, 1)} {b'x' * 14}"
    assert lines[1:6] == ["-1 14"] * 5 and lines[6:] == ["1" if box.user else "0", "[None, None, None, None] 0"], result


def test_a_root_of_the_callers_has_them_too(root_box):
    root = make_rootfs(os.path.join(root_box.folder, "machine-root"), ("sh", "cat", "ls", "grep"))
    status, result = root_box.result("--rootfs", root, "--memory", "96M", "--", "sh", "-c",
                                     "grep MemTotal /proc/meminfo; cat /proc/loadavg /proc/interrupts /proc/zoneinfo; ls /proc/fs")
    assert (status, result["stdout"].split()) == (0, ["MemTotal:", str(96 << 10), "kB", "0.00", "0.00", "0.00", "1/1", "1"]), result
    assert result["receipt"]["layers"]["proc"]["active"]


@pytest.mark.parametrize("words", [("node", "-p", "v8.getHeapStatistics().heap_size_limit"),
                                   ("sh", "-c", "java -XX:+PrintFlagsFinal -version | sed -n 's/.* MaxHeapSize *= *\\([0-9]*\\).*/\\1/p'")],
                         ids=["node", "java"])
def test_a_program_that_sizes_itself_by_memory_stays_below_the_limit(root_box, words):
    """Node.js takes a share of MemTotal for its heap, Java one of what sysinfo() says: of the host's that is more than the run may have."""
    if not os.access(f"/usr/bin/{words[-1].split()[0] if words[0] == 'sh' else words[0]}", os.X_OK):
        pytest.skip(f"needs {words}")
    status, result = root_box.result("--memory", "512M", "--timeout", "60s", "--cpu-time", "60s", "--", *words)
    assert status == 0 and 64 << 20 <= int(result["stdout"]) < 512 << 20, result
