"""
What a run could leave: processes, namespaces, links, tables, cgroups, mounts, descriptors, files. The test process is
made the reaper of orphans, so that whatever outlives a run is found among its descendants.
"""
import ctypes
import fcntl
import glob
import os
import tempfile

from lab.events import DEADLINE, wait_until

PR_SET_CHILD_SUBREAPER = 36
NAMESPACE_KINDS = ("net", "mnt", "pid", "user", "ipc", "uts", "cgroup")


def become_reaper():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def _stat(pid):
    """(parent, name, state) or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            text = file.read()
    except OSError:
        return None
    name = text[text.index("(") + 1:text.rindex(")")]
    state, parent = text[text.rindex(")") + 2:].split()[:2]
    return int(parent), name, state


def processes():
    """pid -> (parent, name, state) of every process there is."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = _stat(int(entry))
            if stat:
                found[int(entry)] = stat
    return found


def descendants(root=None):
    """pid -> (name, state) of all below @root (default: this process). Orphans are reaped on the way."""
    root = root or os.getpid()
    everyone = processes()
    children = {}
    for pid, (parent, _, _) in everyone.items():
        children.setdefault(parent, []).append(pid)
    found, todo = {}, [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            found[pid] = everyone[pid][1:]
            todo.append(pid)
    return found


def reap(keep=()):
    """Take the exit status of adopted orphans; children that are someone's Popen are in @keep."""
    for pid, (parent, _, state) in processes().items():
        if parent == os.getpid() and state == "Z" and pid not in keep:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def find_process(root, name, index=0):
    """The pid of a descendant of @root with that name (/proc comm), or None."""
    found = sorted(pid for pid, (comm, state) in descendants(root).items() if comm == name and state != "Z")
    return found[index] if len(found) > index else None


def namespaces(pids):
    found = set()
    for pid in pids:
        for kind in NAMESPACE_KINDS:
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
            except OSError:
                pass
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for fd in descriptors:
            try:
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if target.split(":[")[0] in NAMESPACE_KINDS:
                found.add(target)
    return found


def cgroups():
    """Folders of ours in every hierarchy, but those that processes of other runs of this machine use."""
    found = set()
    for path in glob.glob("/sys/fs/cgroup/**/eclusa*", recursive=True):
        if os.path.isdir(path):
            found.add(path)
    return found


def abandoned_groups():
    """Control groups of runs whose launcher is gone: nobody holds their lock. Other runs of this machine may go on beside a test."""
    found = set()
    for path in cgroups():
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            found.add(path)
        except OSError:
            pass
        finally:
            os.close(fd)
    return found


def _foreign(path, mine):
    """Whether a cgroup folder holds processes, none of them this test's."""
    pids = set()
    for folder, _, files in os.walk(path):
        if "cgroup.procs" in files:
            try:
                with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
                    pids.update(map(int, file.read().split()))
            except OSError:
                pass
    return bool(pids) and not pids & mine


class Census:
    """A picture of everything at one moment."""

    def __init__(self, lab):
        mine = set(descendants())
        self.counts = {
            "processes": {f"{pid} {name}" for pid, (name, _) in descendants().items()},
            "namespaces": namespaces(mine | {os.getpid()}),
            "links": set(lab.host.links()),
            "tables": set(lab.host.tables()),
            "cgroups": {c for c in cgroups() if not _foreign(c, mine)},
            "mounts": set(open("/proc/self/mountinfo", encoding="utf-8").read().splitlines()),
            "descriptors": self._descriptors(),
            # Benchmarks and other tests of this machine have theirs in folders of their own.
            "files": {path for folder in (tempfile.gettempdir(), "/run", "/dev/shm") for name in ("eclusa", "eclusa-sb-*", ".eclusa*")
                      for path in glob.glob(os.path.join(folder, name))},
        }

    @staticmethod
    def _descriptors():
        """Of this process, by what they are; the lab's own sockets come and go with its peers."""
        found = set()
        for fd in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{fd}")
            except OSError:
                continue
            if not target.startswith(("socket:", "/proc/")):
                found.add(f"{fd} {target}")
        return found

    def more_than(self, earlier):
        """kind -> what is there now and was not then."""
        return {kind: sorted(now - earlier.counts[kind]) for kind, now in self.counts.items() if now - earlier.counts[kind]}


def assert_nothing_left(lab, before, ignore=(), deadline=DEADLINE):
    """Wait until nothing is there that was not there before."""
    last = {}

    def clean():
        reap()
        last.clear()
        last.update(Census(lab).more_than(before))
        for kind in ignore:
            last.pop(kind, None)
        return not last

    wait_until(clean, lambda: f"everything gone; left: {last}", deadline)
