"""
Roots, folders and files of the caller's choice: --rootfs, --bind, --tmpfs. Whatever lies in them, nothing outside is made,
changed or reached.
"""
import os
import shutil
import socket
import tempfile

import pytest

from lab.box import PYTHON
from lab.eclusa import read_audit, run_eclusa
from lab.rootfs import make_rootfs

PLACES = ["dev", "dev/shm", "etc", "proc", "tmp", "work", "out", "home", "home/sandbox"]


class Ground:
    """A root, folders to show, and a victim outside that must stay as it is."""

    def __init__(self, box):
        self.box, self.user = box, box.user
        self.folder = tempfile.mkdtemp(prefix="ground-", dir=box.folder)
        os.chmod(self.folder, 0o755)
        self.root = make_rootfs(os.path.join(self.folder, "root"))
        self.victim = self.make("victim", inside="kept")
        self.data = self.make("data", f="data", sub=None)
        self.own()

    def make(self, name, **files):
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        for file, text in files.items():
            if text is None:
                os.mkdir(os.path.join(path, file))
            else:
                with open(os.path.join(path, file), "w", encoding="utf-8") as to:
                    to.write(text)
        self.own()
        return path

    def own(self):
        for folder, folders, files in os.walk(self.folder):
            for name in ["."] + folders + files:
                os.chown(os.path.join(folder, name), self.user or 0, self.user or 0, follow_symlinks=False)

    def root_with(self, links):
        """Another root, in which @links lead elsewhere."""
        root = tempfile.mkdtemp(prefix="hostile-", dir=self.folder)
        os.chmod(root, 0o755)
        for place, target in links.items():
            os.makedirs(os.path.dirname(os.path.join(root, place)), exist_ok=True)
            os.symlink(target, os.path.join(root, place))
        shutil.copytree(os.path.join(self.root, "usr"), os.path.join(root, "usr"), symlinks=True, dirs_exist_ok=True)
        for name in ("bin", "lib", "lib64"):
            if not os.path.lexists(os.path.join(root, name)):
                os.symlink(f"usr/{name}", os.path.join(root, name))
        self.own()
        return root

    def state(self, path):
        """Everything that a mount point or file made there would change."""
        return sorted((os.path.relpath(os.path.join(folder, name), path), st.st_mtime_ns, st.st_ctime_ns, st.st_mode, st.st_size)
                      for folder, folders, files in os.walk(path) for name in ["."] + folders + files
                      for st in [os.lstat(os.path.join(folder, name))])

    def refused(self, *args):
        """@return the error of a run that did not start."""
        before = self.state(self.folder)
        status, result = self.box.result(*args, "--", "touch", "/out/ran")
        assert (status, result["verdict"], result["exit_code"]) == (125, "setup", None), result
        assert self.state(self.folder) == before, "something outside was made or changed"
        return result["errors"][0]


@pytest.fixture(scope="module")
def ground(box):
    return Ground(box)


# A root of the caller's

def test_the_root_takes_the_place_of_the_hosts_files(ground):
    status, result = ground.box.result("--rootfs", ground.root, "--", "sh", "-c", """
cat /marker; id -u; [ ! -e /usr/bin/python3 ] || echo host; touch /x /usr/x /etc/x 2>/dev/null && echo writable
for at in /tmp /work /out /home/sandbox /dev/shm; do touch $at/x || echo $at; done; cat /etc/passwd | { read -r line; echo $line; }""")
    assert status == 0 and result["stdout"].split("\n")[:2] == ["from the root", "1000"], result
    assert result["stdout"].split("\n")[2].startswith("root:x:0:0") and len(result["stdout"].split("\n")) == 4, result
    assert result["receipt"]["layers"]["mounts"]["active"]


@pytest.mark.parametrize("target", ["absolute", "relative", "..", "/", "dangling", "inside"])
def test_G09_a_link_at_any_place_of_ours_lets_nothing_run(ground, target):
    depth = {place: "../" * (place.count("/") + 1) for place in PLACES}
    for place in PLACES:
        to = {"absolute": ground.victim, "relative": depth[place] + "victim", "..": depth[place] + "..", "/": "/",
              "dangling": "/nowhere/at/all", "inside": depth[place] + "usr"}[target]
        root = ground.root_with({place: to})
        error = ground.refused("--rootfs", root)
        assert f"/{place} is a link" in error, error
        shutil.rmtree(root)


def test_G09_links_where_files_of_ours_go_are_hidden(ground):
    outside = os.path.join(ground.victim, "inside")
    names = ["etc/passwd", "etc/resolv.conf", "etc/hosts", "dev/null", "dev/zero"]
    root = ground.root_with({name: outside for name in names})
    before = ground.state(ground.victim)
    status, result = ground.box.result("--rootfs", root, "--", "sh", "-c",
                                       "cat /etc/passwd; echo x >/dev/null; cat /dev/null; stat -c %F /dev/null /dev/zero")
    assert status == 0 and "sandbox:x:1000" in result["stdout"] and "kept" not in result["stdout"], result
    assert result["stdout"].endswith("character special file\ncharacter special file\n")
    assert ground.state(ground.victim) == before


def test_G09_links_for_compatibility_work(ground):
    root = ground.root_with({"var/run": "/run", "var/lock": "../run/lock", "etc/mtab": "/proc/self/mounts"})
    os.makedirs(os.path.join(root, "run/lock"))
    ground.own()
    status, result = ground.box.result("--rootfs", root, "--", "sh", "-c", "cd /var/lock && ls -d /var/run/. /bin/sh && cat /etc/mtab")
    assert status == 0 and "/var/run/.\n" in result["stdout"] and " overlay ro" in result["stdout"], result


def test_what_listens_in_a_root_is_not_reached(ground):
    root = make_rootfs(os.path.join(ground.folder, "listening"))
    ground.own()
    with socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(root, "s")
        listener.bind(path)
        listener.listen()
        os.chmod(path, 0o777)
        copied = os.path.join(ground.folder, "listening", "usr/bin/connect")
        with open(copied + ".c", "w", encoding="utf-8") as file:
            file.write('#include <errno.h>\n#include <stdio.h>\n#include <sys/socket.h>\n#include <sys/un.h>\nint main(void) {\n'
                       'struct sockaddr_un a = {AF_UNIX, "/s"}; int s = socket(AF_UNIX, SOCK_STREAM, 0);\n'
                       'printf("%d\\n", connect(s, (void *)&a, sizeof(a)) == 0 ? 0 : errno); return 0; }\n')
        assert os.system(f"gcc -static -o {copied} {copied}.c") == 0
        status, result = ground.box.result("--rootfs", root, "--", "connect")
        assert (status, result["stdout"]) == (0, "111\n"), result  # ECONNREFUSED
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("what", ["absent", "file"])
def test_a_root_that_is_no_folder_is_told(ground, what):
    path = os.path.join(ground.root, {"absent": "nowhere", "file": "marker"}[what])
    assert "--rootfs" in ground.refused("--rootfs", path)


def test_a_root_reaches_what_is_allowed(lab, who):
    """The certificate authority and the proxy are where clients look, also on a root that has no place for them."""
    root = make_rootfs(os.path.join(lab.folder, f"root-{who}"), ("sh", "curl"))
    os.makedirs(os.path.join(root, "etc/ssl"))
    os.symlink("../pki/tls/certs", os.path.join(root, "etc/ssl/certs"))  # as some distributions have it
    words = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}"]
    run = run_eclusa(lab, ["--rootfs", root, "--tmpfs", "/run/beside"], [*words, "https://allowed.test/"], user=who)
    assert (run.status, run.output) == (0, "200"), run.report()
    connections = lab.origin.connections.mark()
    denied = run_eclusa(lab, ["--rootfs", root], [*words, "https://denied.test/"], user=who)
    assert denied.status == 56 and [d["host"] for d in denied.result["denials"]] == ["denied.test"], denied.report()
    assert not lab.origin.connections.since(connections)


# Folders and files of the caller's

def test_a_bind_is_read_only(ground):
    before = ground.state(ground.data)
    status, result = ground.box.result("--bind", f"{ground.data}:/data", "--bind", f"{ground.data}/f:/etc/one", "--", "sh", "-c",
                                       "cat /data/f /etc/one; ls /data; echo x >/data/f || echo x >/etc/one || rm /data/f || exit 5")
    assert (status, result["stdout"]) == (5, "datadataf\nsub\n"), result
    assert ground.state(ground.data) == before
    start = [e for e in read_audit(ground.box.audit) if e["unmapped"]["eclusa"].get("inputs") and result["id"] in str(e)]
    assert [i["name"] for i in start[0]["unmapped"]["eclusa"]["inputs"]] == ["/data", "/etc/one"]


def test_a_bind_that_is_writable_is_written_to_as_its_owner(ground):
    work = ground.make("project", f="old")
    os.chown(work, ground.user or 4711, ground.user or 4711)
    status, result = ground.box.result("--bind", f"{work}:/work:rw", "--", "sh", "-c", "pwd; echo new >made; mkdir d; touch d/x; id -u")
    assert (status, result["stdout"]) == (0, "/work\n1000\n"), result
    for name in ("made", "d", "d/x"):
        assert os.stat(os.path.join(work, name)).st_uid == (ground.user or 4711), name
    with open(os.path.join(work, "made"), encoding="utf-8") as file:
        assert file.read() == "new\n"


SET_ID = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
os.umask(0)
bits = int(sys.argv[1], 8)
name = lambda what: ("/work/" + what).encode()
for made in ("chmod", "fchmod", "fchmodat", "fchmodat2"):
    os.close(os.open(name(made), os.O_CREAT | os.O_WRONLY, 0o755))
fd = os.open(name("fchmod"), os.O_RDONLY)
how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o755 | bits, 0)
call = lambda *words: libc.syscall(*words)
answers = {
    "chmod": libc.chmod(name("chmod"), 0o755 | bits), "fchmod": libc.fchmod(fd, 0o755 | bits),
    "fchmodat": call({"x86_64": 268, "aarch64": 53}[os.uname().machine], -100, name("fchmodat"), 0o755 | bits),
    "fchmodat2": call(452, -100, name("fchmodat2"), 0o755 | bits, 0),
    "open": libc.open(name("open"), os.O_CREAT | os.O_WRONLY, 0o755 | bits), "creat": libc.creat(name("creat"), 0o755 | bits),
    "openat": libc.openat(-100, name("openat"), os.O_CREAT | os.O_WRONLY, 0o755 | bits),
    "openat2": call(437, -100, name("openat2"), how, len(how)), "mknod": libc.mknod(name("mknod"), 0o100755 | bits, 0),
    "tmpfile": libc.open(b"/work", os.O_TMPFILE | os.O_WRONLY, 0o755 | bits)}
print(*(what for what, r in answers.items() if r >= 0))
"""


@pytest.mark.parametrize("place", ["/run", "/run/eclusa", "/run/eclusa/x"])
def test_nothing_is_mounted_over_what_clients_trust(ground, place):
    """They would all fail, with words about certificates."""
    for at in (["--tmpfs", place], ["--bind", f"{ground.data}:{place}"]):
        error = ground.refused("--allow", "data.example.com", *at)
        assert f"{place} would hide /run/eclusa" in error and "/run/NAME" in error
    status, result = ground.box.result("--tmpfs", "/run", "--", "sh", "-c", "echo x >/run/x")  # twin: without a network
    assert (status, result["verdict"]) == (0, "ok"), result


@pytest.mark.parametrize("bits", ["4000", "2000"])
def test_no_program_that_runs_as_its_owner_is_left_in_a_writable_folder(ground, bits):
    """It would be root's, where root bound the folder, for whoever starts it on the host."""
    work = ground.make(f"owned-{bits}")
    at = ["--bind", f"{work}:/work:rw"]
    status, result = ground.box.result(*at, "--", PYTHON, "-c", SET_ID, bits)
    assert (status, result["stdout"]) == (0, "\n"), result
    assert {name for name in os.listdir(work) if os.stat(os.path.join(work, name)).st_mode & 0o6000} == set()
    told = {(d["syscall"], d["error"]) for d in result["denials"]}
    assert {("fchmod", "EPERM"), ("openat", "EPERM")} <= told and all("--bind" in d["hint"] for d in result["denials"]), told
    log = [e for e in read_audit(ground.box.audit) if e["status_code"] == "sandbox.violation" and result["id"] in str(e)]
    assert len(log) == len(result["denials"])
    status, result = ground.box.result(*at, "--", PYTHON, "-c", SET_ID, "1000")  # twin: a bit that gives nobody anything
    assert (status, result["denials"]) == (0, []) and {"chmod", "fchmod", "openat", "tmpfile"} <= set(result["stdout"].split()), result


KEEP_SET_ID = """
import os, shutil, stat, subprocess
bits = lambda path: oct(os.stat(path).st_mode & 0o7777)
shutil.copy("/usr/bin/id", "/work/id"); os.chmod("/work/id", 0o6755)
shutil.copy("/work/id", "/out/id"); subprocess.run(["cp", "-p", "/work/id", "/tmp/id"], check=True)
os.chmod("/out/id", 0o6755); os.mkdir("/out/d"); os.chmod("/out/d", 0o2777)
uids = {subprocess.run([path, "-u"], capture_output=True, text=True, check=True).stdout for path in ("/tmp/id", "/out/id", "/work/id")}
fd = os.memfd_create("x"); os.fchmod(fd, 0o6755)
for made in ("/out/d/id", "/dev/shm/id"): shutil.copy("/work/id", made); os.chmod(made, 0o4755)
print(bits("/tmp/id"), bits("/out/id"), *uids)
"""


def test_such_a_bit_on_files_of_the_sandboxs_own_gives_nobody_anything(ground):
    """What unpacks and copies files sets them. No file system honours them, and no result has them."""
    out = ground.make("set-id-out")
    status, result = ground.box.result("--out", out, "--", PYTHON, "-c", KEEP_SET_ID)
    assert (status, result["stdout"].split(), result["denials"]) == (0, ["0o6755", "0o6755", "1000"], []), result
    modes = {name: os.stat(os.path.join(out, name)).st_mode & 0o7777 for name in ("id", "d", "d/id")}
    assert modes == {"id": 0o755, "d": 0o755, "d/id": 0o755}
    work = ground.make("set-id-work")  # twin: a folder of the host's beside them, and none of it is to be had
    status, result = ground.box.result("--bind", f"{work}:/bound:rw", "--", "sh", "-c", "touch x; chmod u+s x")
    assert status == 1 and result["denials"][0]["error"] == "EPERM"


@pytest.mark.parametrize("kind", ["socket", "fifo"])
def test_a_writable_folder_with_something_that_listens_is_refused(ground, kind):
    folder = ground.make(f"with-{kind}")
    path = os.path.join(folder, "deep")
    os.mkdir(path)
    listener = socket.socket(socket.AF_UNIX)
    if kind == "fifo":
        os.mkfifo(os.path.join(path, "x"))
    else:
        listener.bind(os.path.join(path, "x"))
        listener.listen()
    ground.own()
    assert "socket, FIFO or device" in ground.refused("--bind", f"{folder}:/work:rw")
    status, result = ground.box.result("--bind", f"{folder}:/data", "--", PYTHON, "-c", """
import os, socket, stat
try: socket.socket(socket.AF_UNIX).connect("/data/deep/x"); print("connected")
except OSError as error: print(type(error).__name__)""")  # twin: read-only it is there, and leads nowhere
    listener.close()
    assert status == 0 and result["stdout"] == "ConnectionRefusedError\n", result


def test_nothing_is_made_in_what_is_the_callers(ground):
    work, victim = ground.make("outer", here=None), ground.victim
    os.symlink(victim, os.path.join(work, "link"))
    os.symlink("../victim", os.path.join(work, "here", "up"))
    ground.own()
    at = ["--bind", f"{work}:/work:rw"]
    assert "/work/absent is not there" in ground.refused(*at, "--bind", f"{ground.data}:/work/absent")
    for place in ("link", "link/x", "here/up", "here/up/x"):
        error = ground.refused(*at, "--bind", f"{ground.data}:/work/{place}")
        assert "is a link" in error or "no folder" in error, error
    status, result = ground.box.result(*at, "--bind", f"{ground.data}:/work/here", "--", "cat", "/work/here/f")  # twin
    assert (status, result["stdout"]) == (0, "data"), result


def test_nothing_is_made_in_the_hosts_folders_or_a_root(ground):
    assert "/usr/share/absent is not there" in ground.refused("--bind", f"{ground.data}:/usr/share/absent")
    assert "/bin is a link" in ground.refused("--bind", f"{ground.data}:/bin/x")
    assert "/bin is a link" in ground.refused("--rootfs", ground.root, "--bind", f"{ground.data}:/bin/x")
    root = ground.root_with({"opt": ground.victim, "srv/x": "../../victim"})
    assert "/opt is a link" in ground.refused("--rootfs", root, "--tmpfs", "/opt/deep")
    assert "/srv/x is a link" in ground.refused("--rootfs", root, "--bind", f"{ground.data}:/srv/x")
    before = ground.state(ground.folder)
    status, result = ground.box.result("--rootfs", ground.root, "--bind", f"{ground.data}:/srv/x/y", "--tmpfs", "/usr/share/t",
                                       "--", "sh", "-c", "cat /srv/x/y/f; echo t >/usr/share/t/x; cat /usr/share/t/x")
    assert (status, result["stdout"]) == (0, "datat\n"), result
    assert ground.state(ground.folder) == before, "places are made in a layer of ours"


def test_a_folder_in_memory_has_its_size(ground):
    status, result = ground.box.result("--tmpfs", "/srv/t:1M", "--", "sh", "-c", "head -c 2000000 /dev/zero >/srv/t/x")
    assert (status, result["verdict"], result["decided_by_bytes"]) == (1, "disk", 1 << 20), result
    assert "--tmpfs /srv/t:4M" in result["errors"][0]
    status, result = ground.box.result("--tmpfs", "/srv/t", "--", "sh", "-c", "head -c 2000000 /dev/zero >/srv/t/x; mkdir /srv/t/d")
    assert status == 0, result


def test_a_name_in_an_error_is_escaped(ground):
    """Or it could write what it likes on the caller's terminal."""
    hostile, shown = "\x1b]0;x\x07\n", r"\x1b]0;x\x07\x0a"
    work = ground.make("writable")
    root = ground.root_with({hostile: "/nowhere"})
    with open(os.path.join(work, hostile), "w", encoding="utf-8"):
        pass
    ground.own()
    for args in (["--bind", f"{work}:/work:rw", "--bind", f"{ground.data}:/work/{hostile}"],
                 ["--bind", f"{ground.data}:/usr/{hostile}"], ["--rootfs", root, "--tmpfs", f"/{hostile}/x"],
                 ["--rootfs", root, "--bind", f"{ground.data}:/{hostile}"]):
        error = ground.refused(*args)
        assert shown in error and not any(byte in error for byte in hostile[-2:] + hostile[0]), error


@pytest.mark.parametrize("args", [
    ("--bind", "/tmp"), ("--bind", "/tmp:"), ("--bind", ":/x"), ("--bind", "/tmp:x"), ("--bind", "/tmp:/"), ("--bind", "/tmp:/a/../b"),
    ("--bind", "/tmp:/a//b"), ("--bind", "/tmp:/a/"), ("--bind", "/tmp:/proc"), ("--bind", "/tmp:/proc/x"), ("--bind", "/tmp:/dev/shm"),
    ("--bind", "/tmp:/out"), ("--bind", "/tmp:/home"), ("--bind", "/tmp:/.lower"), ("--bind", "/tmp:/" + "a" * 256),
    ("--bind", "/nowhere/at/all:/x"), ("--bind", "/dev/null:/x"), ("--bind", "/tmp:/x", "--bind", "/tmp:/x"),
    ("--bind", "/tmp:/x/y", "--bind", "/tmp:/x"), ("--bind", "/tmp:/work", "--in", "/etc/hostname"),
    ("--tmpfs", "x"), ("--tmpfs", "/x:0"), ("--tmpfs", "/x:1K"), ("--tmpfs", "/x:big"), ("--tmpfs", "/sys"), ("--rootfs", ""),
])
def test_a_place_that_can_not_be_is_told(ground, args):
    assert "--" in ground.refused(*args)


def test_a_spec_has_them_too(ground):
    status, out, _ = ground.box.run("--spec", "-", data=str({
        "argv": ["sh", "-c", "cat /marker /data/f; echo x >/srv/t/x"], "rootfs": ground.root, "bind": [f"{ground.data}:/data"],
        "tmpfs": ["/srv/t:64K"]}).replace("'", '"').encode())
    assert status == 0 and '"stdout":"from the root\\u000adata"' in out
