"""
The executor without network: what a sandboxed program can see, reach and leave, and how its end is told. Everything runs
as root and as an ordinary user; one behaviour a test.
"""
import base64
import fcntl
import glob
import hashlib
import json
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

import pytest

from lab.box import ENVIRONMENT, PYTHON, Box  # noqa: F401
from lab.eclusa import USER_UID, install, program, read_audit
from lab.census import abandoned_groups, descendants
from lab.events import DEADLINE, wait_until



# What is visible

def test_only_descriptors_0_to_2_are_open(box):
    extra = [os.open("/", os.O_RDONLY | os.O_DIRECTORY), os.open("/etc/shadow", os.O_RDONLY)]
    try:
        seen = box.python("import os, json; print(json.dumps([[f, os.readlink('/proc/self/fd/' + f)] for f in "
                          "os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)]))", pass_fds=extra)
    finally:
        for fd in extra:
            os.close(fd)
    own = {fd: to for fd, to in seen if not to.startswith("/proc/")}
    assert set(own) == {"0", "1", "2"}
    assert own["0"] == "/dev/null"
    assert own["1"].startswith("pipe:") and own["2"].startswith("pipe:")


def test_nothing_of_the_callers_environment_is_there(box):
    seen = box.python("import os, json; print(json.dumps(dict(os.environ)))")
    assert seen == {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "HOME": "/home/sandbox", "LANG": "C.UTF-8"}


def test_variables_are_set_or_passed_by_name_only(box):
    seen = box.python("import os, json; print(json.dumps([os.environ.get(n) for n in ('A', 'CALLERS_SECRET', 'NOPE')]))",
                      "-e", "A=1", "-e", "CALLERS_SECRET", "-e", "NOPE")
    assert seen == ["1", "hunter2", None]


def test_only_own_processes_are_there(box):
    seen = box.python("import os, json; print(json.dumps(sorted(p for p in os.listdir('/proc') if p.isdigit())))")
    assert seen == ["2"]


def test_the_first_process_can_not_be_read(box):
    seen = box.python("""
import ctypes, json, os
libc, found = ctypes.CDLL(None, use_errno=True), []
for pid in (1, os.getppid()):
    for name in ("environ", "mem", "cmdline", "maps", "root", "cwd", "exe", "fd", "stat"):
        path = f"/proc/{pid}/{name}"
        try:
            os.listdir(path) if name in ("fd", "root", "cwd") else open(path, "rb").read(1)
            found.append(path)
        except OSError:
            pass
if libc.ptrace(16, 1, 0, 0) == 0 or libc.process_vm_readv(1, 0, 0, 0, 0, 0) == 0:
    found.append("traced")
print(json.dumps(found))""")
    assert seen == []


def test_only_the_own_tmpfs_folders_are_writable(box):
    seen = box.python("""
import json, os
found = []
for folder, folders, files in os.walk("/"):
    if os.access(folder, os.W_OK):
        found.append(folder)
        folders[:] = []
    if folder == "/proc":
        folders[:] = ["self", "sys", "irq", "bus", "fs"]
    for name in files:
        path = os.path.join(folder, name)
        if not os.path.islink(path) and os.access(path, os.W_OK):
            found.append(path)
print(json.dumps(sorted(found)))""", "--timeout", "60s", "--cpu-time", "60s")
    devices = [f"/dev/{name}" for name in ("full", "null", "random", "urandom", "zero")]
    assert [p for p in seen if p not in devices and not p.startswith("/proc/")] == [
        "/dev/shm", "/home/sandbox", "/out", "/tmp", "/work"]
    # /proc is mounted read-only: what access() calls writable there can't be opened for writing
    opened = box.python("import json\nfound = []\nfor n in ('self/comm', 'self/oom_score_adj', 'sys/kernel/hostname', "
                        "'sys/user/max_user_namespaces', 'sysrq-trigger'):\n    try:\n        open('/proc/' + n, 'w')\n"
                        "        found.append(n)\n    except OSError:\n        pass\nprint(json.dumps(found))")
    assert opened == []


def test_mounts_carry_their_flags(box):
    seen = box.python("import json; print(json.dumps(open('/proc/self/mountinfo').read().splitlines()))")
    for line in seen:
        fields = line.split()
        where, flags = fields[4], fields[5].split(",")
        assert "nosuid" in flags, line
        if not where.startswith("/dev/") and not where.startswith("/proc/"):
            assert "nodev" in flags, line
        if where not in ("/tmp", "/work", "/out", "/home/sandbox", "/dev/shm"):
            assert "ro" in flags, line
    kinds = {line.split(" - ")[1].split()[0] for line in seen}
    assert not kinds & {"cgroup", "cgroup2", "sysfs", "debugfs", "tracefs", "securityfs", "bpf"}, kinds


def test_all_capability_sets_are_zero(box):
    seen = box.python("import json; print(json.dumps(dict(l.split(':\\t', 1) for l in open('/proc/self/status').read()"
                      ".splitlines() if ':\\t' in l)))")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(seen[name], 16) == 0, name
    assert seen["NoNewPrivs"] == "1" and seen["Seccomp"] == "2"
    assert seen["Uid"].split() == ["1000"] * 4 and seen["Gid"].split() == ["1000"] * 4


def test_dev_holds_few_devices_and_no_terminal(box):
    seen = box.python("import json, os; print(json.dumps(sorted(os.listdir('/dev'))))")
    assert seen == ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]


def test_there_is_no_network_but_lo(box):
    seen = box.python("""
import json, socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(1)
c = socket.create_connection(s.getsockname(), 5)
refused = []
for where in (("192.0.2.1", 80), ("169.254.169.254", 80), ("10.255.255.254", 3128)):
    try:
        socket.create_connection(where, 5)
    except OSError as e:
        refused.append(e.errno)
print(json.dumps([[n for _, n in socket.if_nameindex()], refused, open("/proc/net/route").read().count("\\n"),
                  open("/etc/resolv.conf").read()]))""")
    assert seen == [["lo"], [101, 101, 101], 1, ""]


def test_as_root_the_sandbox_has_a_host_uid_of_its_own(root_box):
    process = root_box.popen("--timeout", "60s", "--", "sleep", "60")
    try:
        def uids():
            found = set()
            for pid in descendants(process.pid):
                try:
                    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                        text = file.read()
                except OSError:
                    continue
                if "Name:\tsleep" in text and "NSpid:" in text and len(text.split("NSpid:")[1].split("\n")[0].split()) == 2:
                    found.add(text.split("Uid:")[1].split()[0])
            return found

        seen = wait_until(uids, "the program runs")
        assert "0" not in seen and "1000" not in seen
    finally:
        process.kill()
        process.communicate()


# What is refused

def test_terminal_input_can_not_be_injected(box):
    main, terminal = pty.openpty()
    try:
        process = box.popen("-i", "--", PYTHON, "-c", """
import ctypes, fcntl, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for request in (0x5412, 0x5412 | 1 << 32, 0x541c, 0x541c | 1 << 32):
    for fd in (0, 1, 2):
        if libc.syscall(16, fd, ctypes.c_ulong(request), ctypes.c_char_p(b"x")) == 0:
            sys.exit(9)
try:
    os.open("/dev/tty", os.O_RDWR)
    sys.exit(8)
except OSError:
    pass
sys.exit(0 if os.getsid(0) == os.getpid() and not any(os.isatty(fd) for fd in range(3)) else 7)""",
                            stdin=terminal)
        assert process.wait(60) == 0
        os.set_blocking(main, False)
        with pytest.raises(BlockingIOError):
            os.read(main, 1)
    finally:
        os.close(main)
        os.close(terminal)


def test_no_new_user_namespace(box):
    seen = box.python("""
import ctypes, errno, json, os, threading
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    return errno.errorcode[ctypes.get_errno()] if libc.syscall(*args) == -1 else "worked"
user = 0x10000000
results = [call(272, user), call(56, user | 17, 0, 0, 0, 0), call(435, 0, 0), call(308, 0, user)]
try:
    open("/proc/sys/user/max_user_namespaces", "w")
    results.append("worked")
except OSError:
    results.append("refused")
t = threading.Thread(target=lambda: results.append("thread")); t.start(); t.join()
if os.fork() == 0:
    os._exit(0)
results.append(os.wait()[1])
print(json.dumps(results))""")
    assert seen == ["EPERM", "EPERM", "ENOSYS", "EPERM", "refused", "thread", 0]


def test_the_first_process_can_not_be_held_back(box):
    """Limits, scheduling and priority of pid 1, by which a program would end its run as if Eclusa had failed."""
    status, result = box.result("--", PYTHON, "-c", """
import json, os, resource, signal, time
done = []
def attempt(name, call):
    try:
        call()
        done.append(name)
    except OSError:
        pass
attempt("cpu", lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)))
attempt("files", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)))
attempt("affinity", lambda: os.sched_setaffinity(1, {0}))
attempt("scheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
attempt("all", lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt("group", lambda: os.setpriority(os.PRIO_PGRP, 1, 19))
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    os.kill(1, signal.SIGUSR1)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
os.sched_setaffinity(0, os.sched_getaffinity(0))
os.setpriority(os.PRIO_PROCESS, os.getpid(), 5)
print(json.dumps(done))""")
    assert (status, result["verdict"], result["stdout"]) == (0, "ok", "[]\n"), result


def test_a_real_time_caller_does_not_make_a_real_time_program(root_box):
    drop = subprocess.run(["chrt", "-f", "1", "true"], check=False, capture_output=True)
    if drop.returncode:
        pytest.skip("no real-time class here")
    done = subprocess.run(["chrt", "-f", "1", *root_box.words("--", PYTHON, "-c", """
import os, resource
print(os.sched_getscheduler(0), resource.getrlimit(resource.RLIMIT_RTPRIO), resource.getrlimit(resource.RLIMIT_NICE))
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
except OSError:
    print("refused")""")], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "0 (0, 0) (0, 0)\nrefused\n", done


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64")
def test_rings_keys_and_tracing_do_not_exist(box):
    seen = box.python("import ctypes, json\nlibc = ctypes.CDLL(None, use_errno=True)\nprint(json.dumps([libc.syscall(n, 0, 0, 0, "
                      "0, 0) for n in (425, 426, 427, 101, 310, 311, 250, 248, 321, 298, 323, 165, 438)]))")
    assert set(seen) == {-1}


def test_the_audit_log_is_out_of_reach(box):
    seen = box.python(f"import json, os; print(json.dumps([os.path.exists({box.audit!r}), os.path.exists('/var/log'), "
                      "os.path.exists('/root'), os.path.exists('/run/eclusa')]))")
    assert seen == [False] * 4


def test_sockets_of_host_daemons_are_not_visible(box):
    path = os.path.join(box.home, "daemon.sock")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as abstract:
        server.bind(path)
        server.listen(1)
        abstract.bind("\0eclusa-test-daemon")
        abstract.listen(1)
        seen = box.python(f"""
import json, socket
results = []
for where in ({path!r}, "\\0eclusa-test-daemon", "/run/dbus/system_bus_socket", "/run/systemd/private"):
    try:
        socket.socket(socket.AF_UNIX).connect(where)
        results.append(where)
    except OSError:
        pass
print(json.dumps(results))""")
    assert seen == []


# Files in and out

def test_an_input_is_there_and_can_not_be_changed(box):
    path = box.write("in.txt", "one\n")
    status, result = box.result("--in", "in.txt", "--in", "in.txt:two.txt", "--", "sh", "-c",
                                "cat in.txt two.txt; echo x >in.txt; rm -f in.txt; chmod 777 in.txt; mv in.txt z; ls")
    assert status == 0
    assert result["stdout"] == "one\none\nin.txt\ntwo.txt\n"
    with open(path, encoding="utf-8") as file:
        assert file.read() == "one\n"
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_folder_is_shown_whole_and_read_only(box):
    folder = os.path.join(box.home, "data")
    if not os.path.exists(folder):
        os.mkdir(folder)
    box.write("data/a", "a")
    if box.user:
        os.chown(folder, box.user, box.user)
    status, result = box.result("--in", "data", "--", "sh", "-c", "cat data/a; touch data/b")
    assert result["stdout"] == "a" and status != 0
    assert os.listdir(folder) == ["a"]


# A program that tries to leave by what lies in /work: each way in `reached`
LEAVE = """
import fcntl, json, os, socket, stat
reached, seen = [], []
for where, folders, files in os.walk("/work"):
    for name in files:
        path = os.path.join(where, name)
        mode = os.lstat(path).st_mode
        if stat.S_ISSOCK(mode):
            seen.append(name)
            try:
                socket.socket(socket.AF_UNIX).connect(path)
                reached.append(path)
            except OSError as error:
                seen.append(error.errno)
        elif stat.S_ISFIFO(mode):
            seen.append(name)
            try:
                os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), b"out")
                reached.append(path)
            except OSError as error:
                seen.append(error.errno)
        elif name == "locked":
            seen.append(name)
            fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
print(json.dumps([reached, sorted(map(str, seen))]), flush=True)
if os.path.exists("/work/wait"):
    import time
    time.sleep(100)
"""


class LiveFolder:
    """A folder of the caller's with a socket that is listened at, a FIFO that is read from, and a file."""

    def __init__(self, box, name, places=("",)):
        self.path = os.path.join(box.home, name)
        self.ends = []
        for place in places:
            folder = os.path.join(self.path, place)
            os.makedirs(folder)
            server = socket.socket(socket.AF_UNIX)
            server.bind(os.path.join(folder, "socket"))
            server.listen(1)
            os.mkfifo(os.path.join(folder, "fifo"))
            self.ends += [server.detach(), os.open(os.path.join(folder, "fifo"), os.O_RDONLY | os.O_NONBLOCK)]
            with open(os.path.join(folder, "locked"), "w", encoding="utf-8") as file:
                file.write("text")
            for end in ("socket", "fifo", "locked", ""):
                os.chmod(os.path.join(folder, end), 0o777)
                if box.user:
                    os.chown(os.path.join(folder, end), box.user, box.user)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in self.ends:
            os.close(end)
        shutil.rmtree(self.path)


def test_sockets_and_fifos_of_a_folder_lead_nowhere(box):
    with LiveFolder(box, "live", ("", "deep")):
        assert box.python(LEAVE, "--in", "live") == [[], sorted(["socket", "111", "fifo", "6", "locked"] * 2)]
        assert box.python("import json; print(json.dumps(open('live/deep/locked').read()))", "--in", "live") == "text"


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_lock_inside_is_not_one_outside(box, what):
    with LiveFolder(box, "live"):
        shown = "live" if what == "folder" else "live/locked"
        process = box.popen("-q", "--timeout", "100s", "--in", shown, "--in", f"{box.write('wait', '')}:wait", "--", PYTHON, "-c", LEAVE)
        try:
            assert "locked" in json.loads(process.stdout.readline())[1]
            with open(os.path.join(box.home, "live", "locked"), encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("name", ["socket", "fifo"])
def test_a_single_input_is_a_file_or_a_folder(box, name):
    with LiveFolder(box, "live"):
        status, out, err = box.run("--in", f"live/{name}", "--", "echo", "ran")
    assert (status, out) == (125, "")
    assert err == f"eclusa: --in: live/{name}: neither a file nor a folder\n"


def test_a_folder_that_can_not_be_an_overlay_holds_files_only_or_is_refused(box):
    """Another file system below it, of which an overlay would show nothing: one of the refusals that can be had anywhere."""
    folder = os.path.join(box.home, "joined")
    script = (f"mkdir -p {folder}/below && mount -t tmpfs none {folder}/below && echo text >{folder}/below/file && %s "
              f"exec {' '.join(box.words('--in', 'joined', '--', 'cat', 'joined/below/file'))}")
    try:
        done = [subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script % more], cwd=box.home,
                               env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
                for more in ("", f"mkfifo {folder}/below/fifo &&")]
    finally:
        shutil.rmtree(folder)
    assert (done[0].returncode, done[0].stdout, done[0].stderr) == (0, "text\n", "")
    assert (done[1].returncode, done[1].stdout) == (125, "")
    assert done[1].stderr.count("\n") == 1 and "pass files" in done[1].stderr


def test_folders_of_etc_are_parts_of_one_overlay_and_what_is_mounted_there_is_shown(box):
    """Nothing else of /etc is in them. Another file system there is no part of it, and would be hidden by it."""
    seen = box.python("import json; print(json.dumps([line.split() for line in open('/proc/self/mountinfo')]))")
    parts = [line for line in seen if " overlay " in " ".join(line) and line[4].startswith("/etc/")]
    assert parts and len({line[2] for line in parts}) == 1 and all("/etc" + line[3] == line[4] for line in parts), seen
    show = "cat /etc/alternatives/mark; ls /etc/alternatives/.. | grep -c shadow"
    words = " ".join(box.words("--", "sh", "-c", f"'{show}'"))
    script = f"mount -t tmpfs none /etc/alternatives && echo mounted >/etc/alternatives/mark && exec {words}"
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], cwd=box.home, env=ENVIRONMENT,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "mounted\n0\n", done.stderr
    words = " ".join(box.words("--", "sh", "-c", "'cat /etc/ssl/certs/mark; grep /etc/ssl/certs /proc/self/mountinfo'"))
    script = ("mount -t tmpfs none /etc/ssl && mkdir -p /etc/ssl/certs && echo deeper >/etc/ssl/certs/mark && "
              f"chmod -R a+rX /etc/ssl && exec {words}")
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], cwd=box.home, env=ENVIRONMENT,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("deeper\n") and " overlay " in done.stdout, (done.stdout, done.stderr)
    show = "grep -c \"/etc/.*overlay\" /proc/self/mountinfo; sha256sum </etc/services"
    words = " ".join(box.words("--", "sh", "-c", f"'{show}'"))
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                           f"mount --bind /etc/hosts /etc/hosts && exec {words}"], cwd=box.home, env=ENVIRONMENT,
                          capture_output=True, text=True, timeout=60, check=False)  # as in a container: each folder has its own, files are copied
    with open("/etc/services", "rb") as file:
        services = hashlib.sha256(file.read()).hexdigest()
    assert done.stdout == f"{sum(os.path.isdir(line[4]) for line in parts)}\n{services}  -\n", done.stderr
    words = " ".join(box.words("--", "grep", "-c", '"/usr .*overlay"', "/proc/self/mountinfo"))
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", f"mount -t tmpfs none /usr/games && exec {words}"],
                          cwd=box.home, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "0\n", "shown as it is, as an overlay would hide what is mounted there"


def test_names_of_inputs_may_hold_anything(box):
    for name in ("a:b,c\\\\d ", "\u00e9\n"):
        box.write(name, "1")
        os.makedirs(os.path.join(box.home, name + "f"), 0o755, exist_ok=True)
        box.write(name + "f/x", "2")
        seen = box.python("import json, os; print(json.dumps([open(f'{p}').read() for p in ('f1', 'f2/x')]))",
                          "--in", name + ":f1", "--in", name + "f:f2")
        assert seen == ["1", "2"]


def test_the_callers_folder_is_not_mounted(box):
    box.write("secret.txt", "s")
    status, out, err = box.run("--", "cat", "secret.txt")
    assert status == 1 and "s" != out
    assert "--in secret.txt" in err
    assert "--in" not in box.run("-q", "--", "cat", "secret.txt")[2]


def test_results_are_regular_files_only(box):
    target = os.path.join(box.home, "results")
    status, result = box.result("--out", "results/", "--", PYTHON, "-c", """
import os
os.chdir("/out")
open("good.json", "w").write("{}")
os.mkdir("deep"); open("deep/t.csv", "w").write("a,b")
os.symlink("/etc/hostname", "x"); os.symlink("/proc/self", "hop"); os.mkfifo("fifo")
open("one", "w").write("1"); os.link("one", "two")
try:
    os.mknod("dev", 0o20666, os.makedev(1, 3))
except OSError:
    pass
""")
    assert status == 0, result
    assert {a["path"]: (a["size"], a["media_type"]) for a in result["artifacts"]} == {
        "good.json": (2, "application/json"), "deep/t.csv": (3, "text/csv")}
    assert all(len(a["sha256"]) == 64 for a in result["artifacts"])
    for name in ("x", "hop", "fifo", "one", "two"):
        assert any(line.startswith(f"/out/{name}: skipped") for line in result["errors"]), name
    left = sorted(os.path.relpath(os.path.join(d, n), target) for d, _, names in os.walk(target) for n in names)
    assert left == ["deep/t.csv", "good.json"]
    shutil.rmtree(target)


@pytest.mark.parametrize("args, lost, kept", [
    ((), None, 4),
    (("--out-files", "4"), None, 4),
    (("--out-files", "3"), "too many results: --out-files", 3),
    (("--out-file-limit", "64K"), None, 4),
    (("--out-file-limit", "65535"), "exceeds --out-file-limit", 3),
    (("--out-limit", "65K"), None, 4),
    (("--out-limit", "64K"), "results exceed --out-limit", None),
])
def test_results_have_limits_of_number_and_size(box, args, lost, kept):
    """A file with holes counts with its whole length; each limit, and one past it. A name is bytes."""
    target = os.path.join(box.home, "limited")
    status, result = box.result("--out", target, *args, "--", PYTHON, "-c", """
import os
os.mkdir("/out/d")
for name in (b"a", b"d/b", b"\\xff\\n"): open(b"/out/" + name, "w").write("x")
open("/out/sparse", "w").truncate(65536)""".replace("\\\\", "\\"))
    shutil.rmtree(target)
    names = [base64.b64decode(a["path"]) if a.get("path_base64") else a["path"].encode() for a in result["artifacts"]]
    assert (status, result["verdict"]) == ((0, "ok") if lost is None else (125, "output")), result
    assert kept is None or len(names) == kept
    assert set(names) <= {b"a", b"d/b", b"\xff\n", b"sparse"} and (lost is None or lost in str(result["errors"])), result


def test_equal_names_are_kept_unless_overwritten(box):
    make = ("--", "sh", "-c", "echo new >/out/r")
    assert box.result("--out", "again", *make)[0] == 0
    status, result = box.result("--out", "again", *make)
    assert (status, result["verdict"]) == (125, "output")
    assert any("--overwrite" in line for line in result["errors"])
    assert box.result("--out", "again", "--overwrite", *make)[0] == 0
    assert os.listdir(os.path.join(box.home, "again")) == ["r"]


# Verdicts

def verdict(box, *args, **more):
    status, result = box.result(*args, **more)
    return status, result["verdict"], result


@pytest.mark.parametrize("text, status, name", [
    ("true", 0, "ok"), ("exit 7", 7, "exit"), ("kill -TERM $$", 143, "signal"), ("kill -9 $$", 137, "signal"),
    ("exit 125", 125, "exit"), ("exit 137", 137, "exit")])
def test_an_end_of_its_own_is_the_programs(box, text, status, name):
    got = verdict(box, "--", "sh", "-c", text)
    assert got[:2] == (status, name)
    assert got[2]["exit_code"] == (status if name in ("ok", "exit") else None)
    assert got[2]["signal"] == ({143: 15, 137: 9}[status] if name == "signal" else None)


def test_the_wall_limit_fires_on_time_whoever_holds_the_streams(box):
    start = time.monotonic()
    status, name, result = verdict(box, "--timeout", "300ms", "--", "sh", "-c", "setsid sleep 60 & trap '' TERM; sleep 60")
    assert (status, name) == (124, "wall")
    assert time.monotonic() - start < 30
    assert 300 <= result["decided_by_ms"] < 30_000


def test_the_cpu_limit_counts_all_processes(box):
    status, name, result = verdict(box, "--cpu-time", "400ms", "--cpus", "2", "--", "sh", "-c",
                                   "while :; do :; done & while :; do :; done")
    assert (status, name) == (152, "cpu")
    assert 400 <= result["decided_by_ms"] < 4000


@pytest.mark.parametrize("text", [
    # children that nobody waits for: the kernel adds their time to nobody's
    "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nend = time.monotonic() + 100\n"
    "while time.monotonic() < end:\n    if os.fork() == 0:\n        own = time.process_time() + 0.05\n"
    "        while time.process_time() < own: pass\n        os._exit(0)\n    try: os.wait()\n    except OSError: pass",
    # a process that can't be traced, and so is not in anybody else's /proc
    "import ctypes, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nend = time.monotonic() + 100\n"
    "while time.monotonic() < end: pass"], ids=["not-waited-for", "hidden"])
def test_the_cpu_limit_counts_those_who_hide(box, text):
    status, name, result = verdict(box, "--cpu-time", "500ms", "--timeout", "100s", "--", PYTHON, "-c", text)
    assert (status, name) == (152, "cpu"), result
    assert 500 <= result["decided_by_ms"] < 3000
    assert result["limits"]["cpu_time_scope"] == ("cgroup" if result["limits"]["cgroup"] != "none" else "sampled")


def test_socket_buffers_are_within_a_limit(root_box):
    """Of loopback connections; as root, where a control group counts them. An ordinary user: see docs/limits.md."""
    status, result = root_box.result("--memory", "64M", "--", PYTHON, "-c", """
import socket
server, kept = socket.create_server(("127.0.0.1", 0), backlog=64), []
for _ in range(40):
    a = socket.create_connection(server.getsockname())
    kept += [a, server.accept()[0]]
    a.setblocking(False)
    try:
        while True:
            a.send(bytes(65536))
    except BlockingIOError:
        pass
text = open("/proc/net/sockstat").read()
print(int(text.split("TCP: ")[1].split(" mem ")[1].split()[0]) * 4096 >> 20)""")
    if status == 0:  # else it was ended by the limit, which is as well
        assert int(result["stdout"]) < 64 + 32


def test_the_memory_limit_is_told(root_box):
    status, name, result = verdict(root_box, "--memory", "64M", "--", PYTHON, "-c", "x = bytearray(200 << 20)")
    assert (status, name, result["decided_by_bytes"]) == (137, "oom", 64 << 20)
    assert result["usage"]["memory_peak_bytes"] <= 64 << 20


def test_the_process_limit_is_told(root_box):
    status, name, result = verdict(root_box, "--pids-limit", "8", "--", "sh", "-c",
                                   "for i in 1 2 3 4 5 6 7 8 9; do sleep 9 & done; wait")
    assert (status, name, result["decided_by"]) == (2, "pids", 8)


def test_limits_hold_without_a_control_group(box):
    if not box.user:
        pytest.skip("root has control groups")
    status, name, result = verdict(box, "--memory", "64M", "--", PYTHON, "-c", "x = bytearray(200 << 20)")
    assert (status, name) == (1, "exit") and "MemoryError" in result["stderr"]
    assert result["limits"]["cgroup"] == "none" and result["limits"]["separate_uid"] is False
    assert verdict(box, "--pids-limit", "8", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 9 & done; wait")[0] == 2
    status, _, err = box.run("--require", "cgroup", "--", "true")
    assert status == 125 and err.count("\n") == 1 and "--require cgroup" in err


def test_a_full_folder_is_told(box):
    status, name, result = verdict(box, "--out-limit", "1M", "--", "sh", "-c", "head -c 2M /dev/zero >/out/x")
    assert (status, name, result["decided_by_bytes"]) == (1, "disk", 1 << 20)
    status, name, result = verdict(box, "--memory", "128M", "--", "sh", "-c", "head -c 100M /dev/zero >/tmp/x")
    assert (status, name, result["decided_by_bytes"]) == (1, "disk", 64 << 20)
    assert "/tmp, /work, /home/sandbox and /dev/shm" in result["errors"][0]


def test_folders_that_share_their_room_are_apart_in_all_else(box):
    """One file system of half the memory: what is in one takes room from the others, and can't be reached or linked from there."""
    status, name, result = verdict(box, "--memory", "128M", "--", "sh", "-c", "head -c 40M /dev/zero >/work/x && head -c 40M /dev/zero >/dev/shm/x")
    assert (status, name, result["decided_by_bytes"]) == (1, "disk", 64 << 20), result
    status, _, result = verdict(box, "--", "sh", "-c", "touch /work/x; ln /work/x /tmp/x; ls -a /tmp /dev/shm ~ /work/..|grep x$; stat -c %a /tmp ~ /dev/shm .")
    assert (status, result["stdout"].split()) == (0, ["1777", "755", "1777", "755"]), result
    assert "cross-device" in result["stderr"]


@pytest.mark.parametrize("command, status", [("no-such-program", 127), ("/no/such", 127), ("/etc/passwd", 126), ("/usr", 126)])
def test_a_program_that_can_not_start_is_told_as_shells_do(box, command, status):
    got, name, result = verdict(box, "--", command)
    assert (got, name) == (status, "exit")
    assert result["errors"]


def test_streams_are_cut_at_the_limit_and_the_program_goes_on(box):
    status, result = box.result("--output-limit", "10", "--", "sh", "-c",
                                "head -c 100000 /dev/zero | tr '\\0' x; printf 123 >&2; echo done >/out/done", "--")
    assert status == 0
    assert result["stdout"] == "x" * 10 and result["stderr"] == "123"
    assert result["truncated"] == {"stdout": 99990, "stderr": 0}


def test_bytes_that_are_not_utf8_come_in_base64(box):
    _, result = box.result("--", "printf", "a\\377")
    assert (result["stdout"], result["stdout_base64"]) == ("Yf8=", True)


def test_streams_pass_through_without_json(box):
    status, out, err = box.run("-q", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (status, out, err) == (3, "out\n", "err\n")


def test_a_reader_who_leaves_ends_the_program(box):
    process = box.popen("-q", "--timeout", "30s", "--", "sh", "-c", "while echo y; do :; done 2>/dev/null")
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(DEADLINE) in (141, 0, 2)


def test_a_slow_reader_does_not_stop_the_clocks(box):
    process = box.popen("-q", "--timeout", "500ms", "--", "cat", "/dev/zero")
    wait_until(lambda: unread(process.stdout) >= fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ) or process.poll() is not None, "it waits for us")
    killed = threading.Timer(DEADLINE, process.kill)
    killed.start()
    process.stdout.read()
    assert process.wait(DEADLINE) == 124
    killed.cancel()


def unread(stream):
    return struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))[0]


def test_standard_input_is_passed_only_when_asked(box):
    assert box.run("--", "cat", data=b"hello")[1] == ""
    assert box.run("-i", "--", "cat", data=b"hello" * 100000)[1] == "hello" * 100000
    assert box.run("-i", "--", "true", data=b"hello" * 100000)[0] == 0


def test_signals_of_the_caller_reach_the_program(box):
    process = box.popen("-q", "--", "sh", "-c", "trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.1; done",
                        start_new_session=True)
    assert process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=DEADLINE)
    assert (out, process.returncode) == (b"got\n", 5)


def test_the_second_signal_means_it(box):
    process = box.popen("-q", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done",
                        start_new_session=True)
    assert process.stdout.readline() == b"ready\n"
    wait_until(lambda: os.killpg(process.pid, signal.SIGTERM) or process.poll() is not None, "it ends")
    assert process.returncode == 143
    process.communicate()


@pytest.mark.parametrize("how", [[], ["--json"], ["--stream"]], ids=["text", "json", "stream"])
def test_a_reader_who_takes_nothing_does_not_keep_the_run(box, how):
    """The time limit ends the program; the wait for whoever reads its output ends by a signal, when all is recorded."""
    reader, writer = os.pipe()
    process = box.popen("--timeout", "300ms", *how, "--", "sh", "-c", "head -c 900000 /dev/zero; sleep 60", stdout=writer)
    children = f"/proc/{process.pid}/task/{process.pid}/children"

    def waits():
        with open(children, encoding="ascii") as file:
            return not file.read() and not select.select([], [writer], [], 0)[1]

    def ended():
        process.terminate()
        return process.poll() is not None

    try:
        wait_until(waits, "nothing is left but output")
        assert process.poll() is None, "twin: without a signal it waits"
        wait_until(ended, "a signal ends it")
    finally:
        process.kill()
        _, err = process.communicate()
        os.close(reader)
        os.close(writer)
    assert process.returncode in (124, 125, -signal.SIGTERM), err
    last = max(glob.glob(f"{box.audit}/2*.jsonl"), key=os.path.getmtime)
    with open(last, encoding="utf-8") as file:
        event = json.loads(file.readlines()[-1])
    assert (event["status_code"], event["unmapped"]["eclusa"]["verdict"]) == ("sandbox.exit", "wall")


@pytest.mark.parametrize("how", ["--json", "--stream"])
def test_names_of_results_do_not_cost_the_caller_the_result(box, how):
    """Six bytes in JSON for each of a name: all that may be there would be 100 MB."""
    status, out, err = box.run(how, "--out", f"names{how}", "--", PYTHON, "-c", """
import os
os.chdir("/out")
for _ in range(14):
    os.mkdir("\\x01" * 250)
    os.chdir("\\x01" * 250)
for i in range(1000): open("f%d" % i, "w").close()""")
    result = json.loads(out.splitlines()[-1])
    assert (status, result["verdict"]) == (125, "output"), err
    assert 500 < len(result["artifacts"]) < 600 and result["decided_by"] == 1000 - len(result["artifacts"])
    assert "names of the results are too long together" in str(result["errors"])
    shutil.rmtree(os.path.join(box.home, f"names{how}"))


def test_what_is_left_out_of_results_is_counted(box):
    result = box.result("--out", "links", "--", PYTHON, "-c",
                        "import os\nfor i in range(2000): os.symlink('x', '/out/' + 'n' * 200 + str(i))")[1]
    assert len(result["errors"]) + result["errors_left_out"] == 2000 and result["artifacts"] == []


def test_the_limit_that_fired_names_its_flag(box):
    assert "wall limit 1 s: --timeout 4s" in box.run("--timeout", "1s", "--", "sleep", "9")[2]
    assert "cpu limit 300 ms: --cpu-time" in box.run("--cpu-time", "300ms", "--", "sh", "-c", "while :; do :; done")[2]
    assert box.run("-q", "--timeout", "200ms", "--", "sleep", "9")[2] == ""


# Bad input: one line, 125, nothing done

@pytest.mark.parametrize("args", [
    ["--no-such-option", "--", "true"], ["-z", "--", "true"], [], ["--"], ["--in", "missing", "--", "true"],
    ["--memory", "lots", "--", "true"], ["--out", "/proc/1/x", "--", "true"], ["--policy", "missing.allow", "--", "true"],
    ["--allow", "a..example.com", "--", "true"], ["--allow", "a.example.com", "--policy", "x", "--", "true"],
    ["--in", "/dev/null", "--", "true"], ["--json=yes", "--", "true"], ["--timeout"], ["--spec", "missing.json"],
    ["--profile", "x", "--", "true"], ["--overwrite", "--", "true"]])
def test_bad_input_is_one_line_and_125(box, args):
    before = sorted(os.listdir(box.home)), len(os.listdir(box.audit))
    status, out, err = box.run(*args)
    assert status == 125
    assert json.loads(out)["verdict"] == "setup" if "--spec" in args else out == ""
    assert err.startswith("eclusa: ") and err.count("\n") == 1, err
    assert (sorted(os.listdir(box.home)), len(os.listdir(box.audit))) == before


@pytest.mark.parametrize("document", ["", "{", "[]", '{"argv":["true"],"argv":["id"]}', '{"argv":["true"],"x":1}',
                                      '{"argv":"true"}', '{"argv":["true"],"memory":"x"}', '{"argv":["true"],"in":["missing"]}'])
def test_a_bad_spec_is_one_line_and_125(box, document):
    status, _, err = box.run("--spec", "-", data=document.encode())
    assert status == 125
    assert err.startswith("eclusa: ") and err.count("\n") == 1, err


def test_a_spec_means_what_options_mean(box):
    status, out, err = box.run("--spec", "-", data=json.dumps({
        "argv": [PYTHON, "-"], "stdin": "import os; print(os.environ['A'], open('n').read())", "env": {"A": "1"},
        "in": [box.write("n.txt", "2") + ":n"], "timeout": "20s"}).encode())
    assert (status, err) == (0, "")
    assert json.loads(out)["stdout"] == "1 2\n"


def test_nothing_runs_when_the_audit_log_can_not_be_written(box):
    blocked = os.path.join(box.home, "blocked")
    box.write("blocked", "a file, not a folder")
    process = subprocess.run([*box.words()[:-1], blocked, "--", "echo", "ran"], capture_output=True, text=True,
                             cwd=box.home, env=ENVIRONMENT, timeout=60)
    assert (process.returncode, process.stdout) == (125, "")
    assert process.stderr.count("\n") == 1


# Records and leftovers

def test_a_run_without_network_is_recorded(box):
    _, result = box.result("--", "sh", "-c", "exit 4")
    events = [e for e in read_audit(box.audit) if e.get("container", {}).get("uid") == result["id"]]
    assert [e["status_code"] for e in events] == ["sandbox.start", "sandbox.exit"]
    assert events[1]["exit_code"] == 4 and events[1]["unmapped"]["eclusa"]["verdict"] == "exit"


def test_no_process_survives_its_run(box):
    mark = f"31{os.getpid():07}"
    start = time.monotonic()
    status, _, _ = box.run("-q", "--", "sh", "-c", f"setsid sleep {mark} & (sleep {mark} &) ; exit 6")
    assert status == 6 and time.monotonic() - start < 14  # the wall limit would be 15 s
    process = box.popen("-q", "--", "sh", "-c", f"setsid sleep {mark} & echo up; sleep {mark}")
    process.stdout.readline()
    process.kill()
    process.wait()
    wait_until(lambda: not sleepers(mark), lambda: sleepers(mark))
    process.communicate()


def sleepers(mark):
    """Processes that belong to a run with this mark: its shell, what the shell started, the sandbox's first process."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if mark.encode() in file.read():
                    found.append(path)
        except OSError:
            continue
    return found


def test_many_runs_leave_nothing(box):
    before = abandoned_groups(), open("/proc/self/mountinfo", encoding="utf-8").read()
    for _ in range(20):
        assert box.run("-q", "--", "true")[0] == 0
    many = [box.popen("-q", "--", "sleep", "0.2") for _ in range(8)]
    for process in many:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert abandoned_groups() - before[0] == set()
    assert open("/proc/self/mountinfo", encoding="utf-8").read() == before[1]


@pytest.mark.parametrize("point", ["launch-planned", "launch-cloned", "launch-running", "launch-collecting", "launch-recorded"])
def test_a_kill_at_any_point_leaves_nothing_after_the_next_start(root_box, point):
    before = abandoned_groups()
    mark = f"32{os.getpid():07}"
    process = subprocess.run(root_box.words("--out", "killed", "--", "sh", "-c", f"sleep {mark} & sleep 0.1"),
                             env={**ENVIRONMENT, "ECLUSA_FAULT": point}, cwd=root_box.home, capture_output=True, timeout=60)
    assert process.returncode == -9
    wait_until(lambda: not sleepers(mark), lambda: sleepers(mark))
    wait_until(lambda: root_box.run("-q", "--", "true")[0] == 0 and not abandoned_groups() - before, lambda: abandoned_groups() - before)


def test_a_kill_while_results_are_delivered_leaves_no_part_of_one(root_box):
    for more in (), ("--overwrite",):  # the second of two, in both
        process = subprocess.run(root_box.words("--out", "cut", *more, "--", "sh", "-c", "echo 1 >/out/one; echo 2 >/out/two"),
                                 env={**ENVIRONMENT, "ECLUSA_FAULT": "launch-delivering:2"}, cwd=root_box.home, capture_output=True,
                                 timeout=60)
        names = os.listdir(os.path.join(root_box.home, "cut"))
        assert process.returncode == -9 and len(names) == 1 and names[0] in ("one", "two"), names


LINKED_ETC = """
mkdir {0} {0}/etc {0}/secret && cp -a /etc/. {0}/etc && cd {0} && mv etc/ssl etc/elsewhere && rm -r etc/alternatives
echo kept >secret/mark; echo theirs >etc/elsewhere/certs/mark; chmod -R a+rX etc/elsewhere secret
ln -s {0}/secret etc/alternatives; ln -s elsewhere etc/ssl; chmod a+rx .; mount --bind etc /etc && exec {1}
"""


def test_links_in_etc_are_shown_or_lead_to_a_folder_by_itself(box):
    """A folder that is a link stays one, which leads nowhere inside; one that is reached by a link has its own overlay."""
    folder = os.path.join(box.folder, "linked")
    show = "readlink /etc/alternatives; cat /etc/alternatives/mark; cat /etc/ssl/certs/mark; stat -c %d /etc/ssl/certs /etc/fonts"
    words = " ".join(box.words("--", "sh", "-c", f"'{show}'"))
    try:
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", LINKED_ETC.format(folder, words)],
                              env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    finally:
        shutil.rmtree(folder)
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"{folder}/secret", "theirs"] and "kept" not in done.stdout, (done.stdout, done.stderr)
    assert len(lines) == 4 and lines[2] != lines[3], "overlays of their own"


def test_programs_people_use_run(box):
    status, result = box.result("--timeout", "100s", "--cpu-time", "100s", "--", "sh", "-ec", """
python3 - <<'END'
import matplotlib; matplotlib.use("Agg")
import matplotlib.pyplot, numpy, pandas, multiprocessing, subprocess, ssl, sqlite3, threading
assert numpy.linalg.inv(numpy.eye(50)).sum() == 50
pandas.DataFrame({"a": [1, 2]}).plot().get_figure().savefig("/out/a.png")
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
assert subprocess.run(["true"]).returncode == 0
END
git init -q r && cd r && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m x && git log --oneline | grep -q x
echo 'int main(void){return 0;}' >a.c && cc -o a a.c && ./a
curl --version >/dev/null; command -v node >/dev/null && node -e 'require("fs").writeFileSync("/tmp/x", "1")'; true
""")
    assert status == 0, result


def test_as_root_an_input_of_another_owner_is_readable(root_box):
    path = root_box.write("theirs", "t")
    os.chown(path, 4711, 4711)
    assert root_box.run("--in", "theirs", "--", "cat", "theirs")[:2] == (0, "t")
    os.chmod(path, 0)  # its owner may not read it, root may: it comes as a copy
    assert root_box.run("--in", "theirs", "--", "cat", "theirs")[:2] == (0, "t")
    assert root_box.run("--in", "theirs", "--", "sh", "-c", "echo x >theirs || rm -f theirs || exit 5")[0] == 5


def test_refused_user_namespaces_name_the_remedy(root_box):
    # the limit counts per namespace: set in one of our own, the host's stays as it is
    words = " ".join(root_box.words("--", "echo", "ran"))
    process = subprocess.run(["unshare", "--user", "--map-root-user", "sh", "-c",
                              f"echo 0 >/proc/sys/user/max_user_namespaces && exec {words}"],
                             capture_output=True, text=True, timeout=60, cwd=root_box.home)
    assert (process.returncode, process.stdout) == (125, ""), process.stderr
    assert process.stderr.count("\n") == 1 and "user namespaces are refused" in process.stderr
    assert "sysctl -w user.max_user_namespaces" in process.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q"]))
