"""
eclusa doctor: what it says of this host as root and as an ordinary user, what it says where something is missing, and that a run
does then what it said. Each lack is made in namespaces of its own.
"""
import json
import os
import re
import subprocess

import pytest

from lab.box import Folders
from lab.census import abandoned_groups, become_reaper, descendants, reap
from lab.eclusa import install, is_sanitized
from lab.events import wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECKS = ["kernel", "user-namespaces", "namespaces", "proc", "files", "overlay", "seccomp", "landlock", "cgroup", "programs", "nft", "veth",
          "tproxy", "dial-guard", "uids", "ca-bundle", "resolver", "audit-folder", "audit-key"]
RULE = ["--allow", "allowed.test addr=127.0.0.1/32"]


class Host(Folders):
    """Where doctor and runs are asked: a user, a folder, and a command that makes the lack."""

    def __init__(self, folder, user, leave_out=()):
        super().__init__(folder, user)
        self.program = install(os.path.join(self.folder, "bin"), leave_out)
        self.home = self.make_folder("home")
        self.audit = self.make_folder("audit")

    def ask(self, *words, lack=None, home=None):
        """@lack: shell commands as root in a mount namespace of their own, or, with `own-user`, in a user namespace of the user's."""
        drop = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "--"] if self.user else []
        command = [*drop, self.program, *words]
        if lack and lack.startswith("own-user "):
            inner = lack.removeprefix("own-user ")
            command = [*drop, "unshare", "--user", "--map-root-user", "sh", "-ec", f'{inner}\nexec "$@"', "sh", self.program, *words]
        elif lack:
            command = ["unshare", "--mount", "sh", "-ec", f'{lack}\nexec "$@"', "sh", *command]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home or self.home,
                       **{name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}}
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=200, check=False)

    def doctor(self, **how):
        """@return its status and the checks by name."""
        asked = self.ask("doctor", "--json", **how)
        assert asked.stderr == "", asked.stderr
        told = json.loads(asked.stdout)
        assert asked.returncode == (0 if told["holds"] else 1)
        assert told["holds"] == (not any(check["loses"] for check in told["checks"]))
        assert [check["name"] for check in told["checks"]] == CHECKS
        for check in told["checks"]:
            assert set(check) == {"name", "state", "loses", "text", "remedy"} and check["text"]
            assert check["loses"] or check["state"] != "fail"
            assert not check["loses"] or check["state"] != "ok"
        return asked.returncode, {check["name"]: check for check in told["checks"]}

    def run(self, *words, **how):
        asked = self.ask("run", "--json", "--audit-dir", self.audit, *words, "--", "true", **how)
        return asked.returncode, json.loads(asked.stdout)


@pytest.fixture()
def host(tmp_path, who):
    if os.geteuid() != 0:
        pytest.skip("lacks are made by root")
    for parent in list(tmp_path.parents)[:3]:
        if parent.stat().st_uid == 0 and str(parent) != "/tmp":
            parent.chmod(parent.stat().st_mode | 0o011)
    become_reaper()
    return Host(tmp_path, who)


def failed(checks):
    return {name for name, check in checks.items() if check["state"] == "fail"}


def refused(status, result):
    """The program never ran; which of our programs noticed it first decides the verdict."""
    return status == 125 and result["verdict"] in ("setup", "supervisor") and result["errors"] and result["exit_code"] is None


def census():
    """What a check could leave on the host."""
    reap()
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = file.read()
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=False).stdout
    links = sorted(os.listdir("/sys/class/net"))
    return abandoned_groups(), mounts, re.findall(r".*eclusa-probe.*|.*eclusa-gateway.*", tables), links, descendants()


def test_this_host_runs_what_doctor_says(host):
    status, checks = host.doctor()
    assert failed(checks) == set(), checks
    ran, result = host.run(*RULE)
    assert (ran, result["verdict"]) == (0, "ok"), result
    if host.user:
        assert status == 1
        assert all(checks[name]["loses"] and checks[name]["remedy"] == "sudo eclusa run ..." for name in ("dial-guard", "uids"))
        assert f"uid {host.user}" in checks["uids"]["text"]
    else:
        assert [checks[name]["state"] for name in ("dial-guard", "uids")] == ["ok", "ok"]
    rung = result["limits"]["cgroup"]
    assert checks["cgroup"]["text"].endswith(f"rung {rung}") or (rung == "none" and "rung none" in checks["cgroup"]["text"])


def test_words_say_the_same_as_json(host):
    _, checks = host.doctor()
    shown = host.ask("doctor")
    lines = [line.split(None, 2) for line in shown.stdout.splitlines() if re.match(r"(ok|warn|fail)\b", line)]
    assert [tuple(line) for line in lines] == [(check["state"], name, check["text"]) for name, check in checks.items()]
    remedies = re.findall(r"^ +try: (.*)$", shown.stdout, re.M)
    assert remedies == [check["remedy"] for check in checks.values() if check["remedy"]]
    assert ("does not hold" in shown.stdout) == (shown.returncode == 1)


def test_nothing_is_left_and_nothing_made(host):
    kept = ("/var/log/eclusa", "/var/lib/eclusa", "/run/eclusa")
    before, there = census(), [os.path.exists(path) for path in kept]
    host.doctor()
    assert census() == before and [os.path.exists(path) for path in kept] == there
    assert os.listdir(host.home) == [] and os.listdir(host.audit) == []


def test_covered_proc(host):
    lack = "mount --bind /dev/null /proc/timer_list"
    status, checks = host.doctor(lack=lack)
    assert status == 1 and failed(checks) == {"proc"}
    assert "/proc/timer_list is covered" in checks["proc"]["text"]
    assert "umount /proc/timer_list" in checks["proc"]["remedy"] and "systempaths=unconfined" in checks["proc"]["remedy"]
    ran, result = host.run(lack=lack)
    assert (ran, result["verdict"]) == (125, "setup") and "fresh /proc" in result["errors"][0]
    # the remedy helps
    assert failed(host.doctor(lack=f"{lack}\numount /proc/timer_list")[1]) == set()


def test_no_cgroups(host):
    lack = "mount -t tmpfs tmpfs /sys/fs/cgroup"
    status, checks = host.doctor(lack=lack)
    assert status == 1 and failed(checks) == set()
    assert (checks["cgroup"]["state"], checks["cgroup"]["loses"]) == ("warn", True)
    assert checks["cgroup"]["text"].startswith("none: ") and "rung none" in checks["cgroup"]["text"]
    assert "Delegate=yes" in checks["cgroup"]["remedy"]
    ran, result = host.run(lack=lack)
    assert result["limits"]["cgroup"] == "none"
    assert ran == 0 or is_sanitized()  # whose shadow memory does not fit under a limit for each process
    ran, result = host.run("--require", "cgroup", lack=lack)
    assert (ran, result["verdict"]) == (125, "setup")


def test_no_user_namespaces(host):
    lack = "own-user echo 0 > /proc/sys/user/max_user_namespaces"
    status, checks = host.doctor(lack=lack)
    needing = {"user-namespaces", "namespaces", "proc", "files", "overlay", "cgroup", "nft", "veth", "tproxy"}
    assert status == 1 and failed(checks) == needing
    for name in needing:
        assert checks[name]["remedy"].startswith("sysctl -w user.max_user_namespaces=1000"), name
    ran, result = host.run(lack=lack)
    assert (ran, result["verdict"]) == (125, "setup") and checks["user-namespaces"]["remedy"] in result["errors"][0]


@pytest.mark.parametrize("name, value, remedy", [
    ("apparmor_restrict_unprivileged_userns", 1, "give eclusa an AppArmor profile with `userns,`, or sysctl -w "
     "kernel.apparmor_restrict_unprivileged_userns=0, or run as root"),
    ("unprivileged_userns_clone", 0, "sysctl -w kernel.unprivileged_userns_clone=1, or run as root")])
def test_a_policy_against_user_namespaces_is_named(host, name, value, remedy):
    """Settings that other kernels have, played by a file in their place while namespaces are refused by one that all have."""
    lack = (f"own-user echo 0 > /proc/sys/user/max_user_namespaces; exec unshare --mount sh -ec 'mount -t tmpfs tmpfs /proc/sys/kernel; "
            f"echo {value} > /proc/sys/kernel/{name}; exec \"$@\"' sh \"$@\"")
    status, checks = host.doctor(lack=lack)
    assert status == 1 and checks["user-namespaces"]["state"] == "fail" and checks["user-namespaces"]["remedy"] == remedy
    ran, result = host.run(lack=lack)
    assert (ran, result["verdict"]) == (125, "setup") and remedy in result["errors"][0]


def test_no_network_namespaces(host):
    lack = "own-user echo 0 > /proc/sys/user/max_net_namespaces"
    status, checks = host.doctor(lack=lack)
    assert status == 1 and failed(checks) == {"namespaces", "nft", "veth"}
    assert checks["namespaces"]["remedy"] == "sysctl -w user.max_net_namespaces=1000" and checks["tproxy"]["state"] == "warn"
    for words in ([], RULE):
        assert refused(*host.run(*words, lack=lack)), words


@pytest.mark.parametrize("capability, names", [("sys_admin", {"files", "nft", "veth", "dial-guard"}), ("net_admin", {"nft", "veth", "dial-guard"}),
                                               ("setuid", {"uids"}), ("setgid", {"uids"}), ("setfcap", set())])
def test_root_without_a_capability(host, capability, names):
    if host.user:
        pytest.skip("an ordinary user has none")
    lack = f"exec setpriv --bounding-set=-{capability} --inh-caps=-{capability} -- " + '"$@"'
    _, checks = host.doctor(lack=lack)
    assert names <= failed(checks)
    assert all("--cap-add" in checks[name]["remedy"] for name in names)
    ran, result = host.run(*RULE, lack=lack)
    assert refused(ran, result) if failed(checks) else ran == 0, result


def test_no_netd(tmp_path, who, host):
    os.unlink(os.path.join(os.path.dirname(host.program), "eclusa-netd"))
    status, checks = host.doctor()
    wanted = {"programs", "nft", "veth"} | (set() if who else {"dial-guard"})
    assert status == 1 and failed(checks) == wanted
    assert all("eclusa-netd" in checks[name]["text"] and checks[name]["remedy"] == "make install" for name in wanted)
    ran, result = host.run(*RULE)
    assert (ran, result["verdict"]) == (125, "setup") and "eclusa-netd" in result["errors"][0]
    assert host.run()[0] == 0  # without a network it is not asked for


def test_another_programs_proxy(host):
    proxy = os.path.join(os.path.dirname(host.program), "eclusa-proxy")
    with open(proxy, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho eclusa-proxy 0.0.1\n")
    _, checks = host.doctor()
    assert failed(checks) == {"programs"} and checks["programs"]["text"].endswith(": eclusa-proxy 0.0.1")
    assert refused(*host.run(*RULE))


def test_a_check_that_hangs_is_ended(host):
    netd = os.path.join(os.path.dirname(host.program), "eclusa-netd")
    before = descendants()
    with open(netd, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\n[ "$2" != cable ] || sleep 1000 & wait\n')
    _, checks = host.doctor()
    assert checks["veth"]["state"] == "fail" and checks["veth"]["text"] == "no answer within 5 s"
    wait_until(lambda: reap() or descendants() == before, lambda: descendants())


def test_no_roots(host):
    lack = "mount -t tmpfs tmpfs /etc/ssl && { [ ! -d /etc/pki ] || mount -t tmpfs tmpfs /etc/pki; }"
    status, checks = host.doctor(lack=lack)
    assert status == 1 and failed(checks) == {"ca-bundle"}
    assert checks["ca-bundle"]["remedy"] == "apt-get install ca-certificates"
    assert host.run(*RULE, lack=lack)[1]["verdict"] == "setup"


def test_a_log_that_can_not_be_written(host):
    lack = f"mount --bind -o ro {host.home} {host.home}" if host.user else "mkdir -p /var/log && mount -t tmpfs -o ro tmpfs /var/log"
    status, checks = host.doctor(lack=lack)
    assert status == 1 and failed(checks) == {"audit-folder"}
    assert checks["audit-folder"]["remedy"] == "eclusa run --audit-dir DIR"
    asked = host.ask("run", *RULE, "--", "true", lack=lack)
    assert asked.returncode == 125 and "audit folder" in asked.stderr
    assert host.run(*RULE, lack=lack)[0] == 0  # with --audit-dir, which is the remedy
    if host.user:
        assert checks["audit-key"]["state"] == "warn" and checks["audit-key"]["loses"]


def test_a_key_that_others_can_read(host):
    state = os.path.join(host.home, ".local/state/eclusa")
    if not host.user:
        pytest.skip("root's key has one place, which is the host's")
    os.makedirs(state)
    key = os.path.join(state, "audit-key.pem")
    with open(key, "w", encoding="utf-8") as file:
        file.write("a key\n")
    os.chmod(key, 0o644)
    for folder in (key, state, os.path.dirname(state), os.path.dirname(os.path.dirname(state))):
        os.chown(folder, host.user, host.user)
    status, checks = host.doctor()
    assert status == 1 and failed(checks) == {"audit-key"} and checks["audit-key"]["remedy"] == f"chmod 600 {key}"
    assert host.run(*RULE)[1]["verdict"] == "setup"


def test_wrong_usage_and_help(host):
    for words in (["--jsn"], ["x"], ["--json", "--json=1"]):
        asked = host.ask("doctor", *words)
        assert (asked.returncode, asked.stdout) == (2, "") and words[-1] in asked.stderr
    asked = host.ask("doctor", "--help")
    assert asked.returncode == 0 and "usage: eclusa doctor" in asked.stdout


def test_can_not_look(host):
    if not host.user:
        pytest.skip("root may always make a process")
    words = ["setpriv", f"--reuid={host.user}", f"--regid={host.user}", "--clear-groups", "--", "prlimit", "--nproc=1", host.program, "doctor"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (2, "") and "kernel can't be tried" in ran.stderr


def test_the_manual_names_every_check():
    with open(os.path.join(ROOT, "docs/man/eclusa-doctor.1"), encoding="utf-8") as file:
        page = file.read()
    assert [name for name in re.findall(r"^\.It Li (\S+)$", page, re.M) if name in CHECKS] == CHECKS
    with open(os.path.join(ROOT, "packaging/completion/eclusa.bash"), encoding="utf-8") as file:
        completion = file.read()
    assert re.search(r"doctor\).*--json --help", completion)
