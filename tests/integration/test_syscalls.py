"""
The filter of system calls: what a sandboxed program may call, how refusals are told, and that they cost the supervisor
nothing. As root and as an ordinary user; sandbox-launcher/filter_table.c is what the kernel's answers are compared with.
"""
import json
import os
import signal
import subprocess

import pytest

from lab.box import PYTHON
from lab.eclusa import ROOT, program, read_audit

CALL = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"


@pytest.fixture(scope="module")
def prober():
    build = os.path.dirname(os.path.abspath(program()))
    path = os.path.join(build, "tests", "probe_calls")
    subprocess.run(["make", "-s", f"BUILD={build}", path], cwd=ROOT, check=True)
    return path


def of_calls(result):
    return [d for d in result["denials"] if d["reason"] == "sandbox.violation"]


def test_every_number_of_every_abi_is_answered_as_the_table_says(box, prober):
    inside = os.path.join(box.home, "probe_calls")
    with open(prober, "rb") as source, open(inside, "wb") as file:
        file.write(source.read())
    os.chmod(inside, 0o755)
    # with a folder of the host's that it may write to, so that all rows hold
    status, result = box.result("--output-limit", "1M", "--in", inside, "--bind", f"{box.make_folder('bound')}:/bound:rw",
                                "--", "./probe_calls")
    assert status == 0, result
    expected = subprocess.run([prober, "expect"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    got = result["stdout"].splitlines()
    assert len(got) == len(expected) > 3 * 590
    assert [(g, e) for g, e in zip(got, expected) if g != e] == []
    # and exactly those rows that say so are told
    told = int(subprocess.run([prober, "told"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert sum(d["count"] for d in of_calls(result)) + result["denials_left_out"] == told > 40


def test_a_refusal_is_told_to_the_program_the_caller_and_the_log(box):
    status, result = box.result("--", PYTHON, "-c", CALL + "for i in range(2):\n"
                                "    print(libc.mount(b'none', b'/tmp/a b', b'tmpfs', 0, 0), ctypes.get_errno())")
    assert status == 0, result
    assert result["stdout"] == "-1 1\n-1 1\n"
    (denial,) = of_calls(result)
    assert {k: denial[k] for k in ("syscall", "path", "error", "rule", "count")} == \
        {"syscall": "mount", "path": "/tmp/a b", "error": "EPERM", "rule": "mount", "count": 2}
    assert denial["arguments"] == {"source": "none", "target": "/tmp/a b", "type": "tmpfs", "flags": 0}
    assert denial["executable"] == os.path.realpath(PYTHON)
    assert "--tmpfs" in denial["detail"]
    events = [e for e in read_audit(box.audit) if e["container"]["uid"] == result["id"]]
    assert [e["status_code"] for e in events] == ["sandbox.start", "sandbox.violation", "sandbox.exit"]
    event = events[1]
    assert (event["class_uid"], event["activity_id"], event["status"]) == (1007, 99, "Failure")
    assert event["message"] == 'sandbox.violation mount(source="none", target="/tmp/a b", type="tmpfs", flags=0) (2)'
    assert event["process"]["name"] == os.path.basename(denial["executable"])
    assert event["unmapped"]["eclusa"]["rule"] == "mount"
    shown = subprocess.run([program(), "audit", "tail", "--audit-dir", box.audit, "-n", "1000"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert f'{os.path.realpath(PYTHON)}: mount(source="none", target="/tmp/a b", type="tmpfs", flags=0) (2)\n' in shown
    assert event["unmapped"]["eclusa"]["count"] == 2


def test_people_read_what_was_refused_and_what_to_do(box):
    status, out, err = box.run("--", PYTHON, "-c", CALL + "print(libc.shmget(0, 4096, 0o1600))")
    assert (status, out) == (0, "-1\n")
    assert "denied shmget(key=0, size=0x1000, flags=0x380) by /usr/bin/python3" in err
    assert "use mmap" in err


def test_probes_that_programs_make_in_passing_are_not_told(box):
    status, result = box.result("--", PYTHON, "-c", CALL + "print([libc.syscall(n, 0, 0, 0, 0, 0) for n in (425, 435, 444, 5000)])")
    assert (status, result["stdout"]) == (0, "[-1, -1, -1, -1]\n")
    assert of_calls(result) == []


def test_the_families_of_sockets_are_few(box):
    status, result = box.result("--", PYTHON, "-c", """
import json, socket
seen = {}
for family, kind, protocol in ((1, 1, 0), (2, 1, 0), (10, 2, 0), (16, 3, 0), (17, 3, 3), (38, 5, 0), (40, 1, 0), (16, 3, 12), (2, 1, 132),
                               (9, 2, 0), (29, 3, 1)):
    try:
        socket.socket(family, kind, protocol).close()
        seen[f"{family} {protocol}"] = 0
    except OSError as error:
        seen[f"{family} {protocol}"] = error.errno
print(json.dumps([seen, socket.if_nameindex()]))""")
    assert status == 0, result
    seen, interfaces = json.loads(result["stdout"])
    assert seen == {"1 0": 0, "2 0": 0, "10 0": 0, "16 0": 0, "17 3": 97, "38 0": 97, "40 0": 97, "16 12": 93, "2 132": 93, "9 0": 97,
                    "29 1": 97}
    assert interfaces == [[1, "lo"]]
    assert [d["rule"].removeprefix("socket: domain = ") for d in of_calls(result)] == \
        ["AF_PACKET", "AF_ALG", "AF_VSOCK", "AF_NETLINK", "socket"]


def test_route_netlink_can_ask_and_not_change(box):
    seen = box.python("""
import json, socket, struct
answers = []
for kind, flags in ((18, 0x301), (16, 0x5)):  # RTM_GETLINK dump; RTM_NEWLINK of lo: down
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    sock.send(struct.pack("=IHHII", 32, kind, flags, 1, 0) + struct.pack("=BBHiII", 0, 0, 0, 1, 0, 1))
    _, kind, _, _, _ = struct.unpack("=IHHII", (got := sock.recv(65536))[:16])
    answers.append([kind, struct.unpack("=i", got[16:20])[0] if kind == 2 else 0])
print(json.dumps(answers))""")
    assert seen == [[16, 0], [2, -1]]


def test_a_call_of_another_architecture_ends_the_program_and_says_so(box):
    status, result = box.result("--", PYTHON, "-c", "import ctypes, mmap\ncode = mmap.mmap(-1, 4096, prot=7)\n"
                                "code.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n"  # mov $20, %eax; int $0x80; ret
                                "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()")
    assert (result["verdict"], result["signal"], status) == ("signal", signal.SIGSYS, 128 + signal.SIGSYS)
    assert any("32 bits" in hint for hint in result["hints"])


def test_a_loop_of_refusals_does_not_keep_the_supervisor_busy(root_box):
    loop = CALL + "import time\nbegin = time.monotonic()\n" \
        "for _ in range(400): libc.unshare(0x10000000)\nprint(time.monotonic() - begin)"
    status, result = root_box.result("--", PYTHON, "-c", loop)
    assert status == 0, result
    (denial,) = of_calls(result)
    assert denial["count"] == 400
    assert float(result["stdout"]) >= (400 - 256 - 1) * 0.01, "256 at once, then one every 10 ms at most"


def test_many_distinct_refusals_are_counted(box):
    status, result = box.result("--", PYTHON, "-c", CALL + "for i in range(40):\n    libc.chroot(b'/%d' % i)")
    assert status == 0
    assert [d["path"] for d in of_calls(result)] == [f"/{i}" for i in range(32)]
    assert result["denials_left_out"] == 8
    events = [e for e in read_audit(box.audit) if e["container"]["uid"] == result["id"]]
    assert [e["status_code"] for e in events] == ["sandbox.start"] + 33 * ["sandbox.violation"] + ["sandbox.exit"]
    assert events[-2]["unmapped"]["eclusa"]["count"] == 8


def test_threads_and_processes_that_are_refused_at_once_get_their_answers(box):
    status, result = box.result("--pids-limit", "64", "--", PYTHON, "-c", CALL + """
import os, threading
def work():
    for _ in range(10):
        assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == 1
pids = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        os._exit(0)
    pids.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]) for p in pids])""")
    assert (status, result["stdout"]) == (0, "[0, 0, 0, 0]\n"), result
    assert sum(d["count"] for d in of_calls(result)) == 160


def test_a_caller_that_is_killed_while_it_waits_leaves_nothing(box):
    status, result = box.result("--", PYTHON, "-c", CALL + """
import os, signal, time
for _ in range(260): libc.unshare(0x10000000)  # from now on answers take their time
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        while True: libc.unshare(0x10000000)
    time.sleep(0.001)  # lets it get in, at some point of the way
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
print(libc.unshare(0x10000000))""")
    assert (status, result["verdict"], result["stdout"]) == (0, "ok", "-1\n"), result
