"""
How a program is started in each sandbox: Eclusa and its peers with what they do by default, and without any. A peer's words
are those of its own manual for running a program on a read-only view of the host; nothing is tightened, nothing loosened.
"""
import json
import os
import shutil
import subprocess
import tempfile


class Executor:
    """@work: a folder of its own. @probe: the static program. words() is what starts it inside."""
    name = ""
    note = ""          # the command line, for people
    memory = False     # whether words() takes a limit of memory
    results = False    # whether it delivers files
    rootfs = False     # whether it takes the caller's root

    def __init__(self, work, probe):
        self.work, self.probe = work, probe
        self.count = 0

    @classmethod
    def is_there(cls):
        return shutil.which(cls.name) is not None

    def words(self, argv, memory=None, project=None, rootfs=None):
        """@argv: of the probe. @project: a folder of the caller's, shown where there is a place for it."""
        raise NotImplementedError

    def clean(self):
        """Take away what its runs left."""

    def options(self, words):
        """A program with a name that looks like an option, or None where there is no command line."""
        return self.words(words)


class Eclusa(Executor):
    name, note = "eclusa", "eclusa run --in probe -- ./probe"
    memory = results = True

    def __init__(self, work, probe, program, drop=()):
        super().__init__(work, probe)
        self.program, self.drop = program, drop
        self.audit = os.path.join(work, "audit")
        words = [*drop, program, "run", "--help"]
        self.rootfs = "--rootfs" in subprocess.run(words, capture_output=True, text=True, check=False).stdout

    def base(self, *words):
        return [*self.drop, self.program, "run", "-q", "-i", "--audit-dir", self.audit, *words]

    def words(self, argv, memory=None, project=None, rootfs=None):
        options = ["--memory", str(memory)] if memory else []
        if rootfs:
            return self.base(*options, "--rootfs", rootfs, "--", "/probe", *argv)
        if project:
            options += ["--in", project]
        return self.base(*options, "--in", f"{self.probe}:probe", "--", "./probe", *argv)

    def options(self, words):
        return self.base("--", *words)


class Bubblewrap(Executor):
    name = "bwrap"
    note = "bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --proc /proc --dev /dev --tmpfs /tmp"
    rootfs = True

    def words(self, argv, memory=None, project=None, rootfs=None):
        host = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--symlink", "usr/bin", "/bin"]
        view = ["--ro-bind", rootfs, "/"] if rootfs else host
        bind = [] if rootfs else ["--ro-bind", self.probe, "/probe"]
        return ["bwrap", "--unshare-all", "--die-with-parent", *view, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", *bind, "--",
                "/probe", *argv]

    def options(self, words):
        return ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--", *words]


class Nsjail(Executor):
    name, note = "nsjail", "nsjail -Mo --chroot ROOT -- /probe"
    rootfs = True

    def words(self, argv, memory=None, project=None, rootfs=None):
        return ["nsjail", "-q", "-Mo", "--chroot", rootfs or make_root(self), "--", "/probe", *argv]


class Firejail(Executor):
    name, note = "firejail", "firejail --quiet probe"

    def words(self, argv, memory=None, project=None, rootfs=None):
        return ["firejail", "--quiet", self.probe, *argv]

    def options(self, words):
        return ["firejail", "--quiet", "--", *words]


class Runtime(Executor):
    """An OCI runtime with what its `spec` command writes."""
    rootfs = True

    def words(self, argv, memory=None, project=None, rootfs=None):
        self.count += 1
        bundle = os.path.join(self.work, f"{self.name}-{self.count}")
        os.mkdir(bundle)
        subprocess.run([self.name, "spec"], cwd=bundle, check=True, capture_output=True)
        path = os.path.join(bundle, "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["process"].update(terminal=False, args=["/probe", *argv])
        config["root"]["path"] = rootfs or make_root(self)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return [*self.base(), "run", "--bundle", bundle, self.container(self.count)]

    def base(self):
        return [self.name, f"--root={self.work}/{self.name}-state"]

    @staticmethod
    def container(number):
        return f"escape-{os.getpid()}-{number}"

    def clean(self):
        for number in range(1, self.count + 1):
            subprocess.run([*self.base(), "delete", "--force", self.container(number)], check=False, capture_output=True)

    def options(self, words):
        return None


class Crun(Runtime):
    name, note = "crun", "crun spec; crun run"

    def base(self):
        return ["crun", "--cgroup-manager=cgroupfs", f"--root={self.work}/crun-state"]


class Runc(Runtime):
    name, note = "runc", "runc spec; runc run"


class Podman(Executor):
    """Without its network, for which it makes a bridge and packet rules on the host that stay."""
    name, note = "podman", "podman run --rm --network none --rootfs ROOT /probe"
    rootfs = True

    def words(self, argv, memory=None, project=None, rootfs=None):
        return ["podman", f"--root={self.work}/podman", f"--runroot={self.work}/podman-run", "--cgroup-manager=cgroupfs", "run", "--rm", "-i",
                "--network", "none", "--rootfs", rootfs or make_root(self), "/probe", *argv]

    def options(self, words):
        return None


class Nothing(Executor):
    """
    No sandbox: the probes themselves, so that it is seen that they prove something. Namespaces of their own keep what they
    reach from the host: its processes, mounts, IPC objects and control groups are out of sight.
    """
    name, note = "nothing", "the probe alone, in namespaces that keep it from the host's processes and mounts"

    def words(self, argv, memory=None, project=None, rootfs=None):
        if "survivors" in argv:
            return [self.probe, *argv]
        network = ["--net"] if "network-changes" in argv else []
        private = ("for folder in /dev/shm /sys/fs/cgroup /mnt; do mount -t tmpfs none $folder; done; mkdir /sys/fs/cgroup/pids;"
                   '"$@"; exit $?')
        return ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", *network, "sh", "-c", private, "sh", self.probe,
                *argv]


PEERS = (Bubblewrap, Nsjail, Firejail, Crun, Runc, Podman)


def make_root(executor):
    """A root that holds the probe and the folders that every runtime mounts on."""
    root = tempfile.mkdtemp(prefix=f"{executor.name}-root-", dir=executor.work)
    os.chmod(root, 0o755)
    for name in ("proc", "dev", "sys", "tmp", "etc"):
        os.mkdir(os.path.join(root, name), 0o755)
    shutil.copy(executor.probe, os.path.join(root, "probe"))
    return root
