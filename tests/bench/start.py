"""
Start-to-exit time of `true` in several launchers, interleaved: one of each per round. Prints medians, and ratios to
bwrap within the run. Exit status 1 when a launcher failed.

  start.py WORK ROUNDS GAP_MS
"""
import json
import os
import statistics
import subprocess
import sys
import time

WARM_UP = 3
TRUE = "/usr/bin/true"
AIMS = {"eclusa run": 1.0, "eclusa run --allow": 2.0}


def crun_bundle(work):
    """A bundle like the others' view: the host's /usr read-only, no network, unprivileged, limits by cgroup."""
    root = os.path.join(work, "bundle", "rootfs")
    for name in ("usr", "proc", "dev", "tmp", "etc"):
        os.makedirs(os.path.join(root, name))
    for name in ("bin", "sbin", "lib", "lib64"):
        if os.path.islink("/" + name):
            os.symlink(os.readlink("/" + name), os.path.join(root, name))
    bundle = os.path.dirname(root)
    subprocess.run(["crun", "spec"], cwd=bundle, check=True)
    path = os.path.join(bundle, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["process"].update(terminal=False, args=[TRUE], user={"uid": 65534, "gid": 65534},
                             capabilities={kind: [] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")})
    config["root"] = {"path": root, "readonly": True}
    config["mounts"] = [m for m in config["mounts"] if not m["destination"].startswith("/sys")]
    config["mounts"] += [{"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
                         {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "size=64m"]}]
    config["linux"]["resources"] = {"memory": {"limit": 512 << 20}, "pids": {"limit": 64}}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return bundle


def launchers(work):
    audit = os.path.join(work, "audit")
    eclusa = [os.path.abspath(os.environ["BUILD"] + "/eclusa"), "run", "--audit-dir", audit]
    cases = {
        "fork+exec": [TRUE],
        "bwrap --unshare-all": ["/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/", "/", TRUE],
        "eclusa run": eclusa + ["--", TRUE],
        "eclusa run --allow": eclusa + ["--allow", "allowed.test", "--", TRUE],
    }
    if os.getuid() == 0 and os.path.exists("/usr/bin/crun"):
        cases["crun run"] = ["/usr/bin/crun", "--cgroup-manager=cgroupfs", f"--root={work}/crun", "run",
                             "--bundle", crun_bundle(work), "ID"]
    return cases


def run_once(argv, number):
    argv = [f"eclusa-bench-{os.getpid()}-{number}" if word == "ID" else word for word in argv]
    null = os.open("/dev/null", os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, descriptor) for descriptor in (0, 1, 2)]
    started = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    taken = time.perf_counter() - started
    os.close(null)
    return taken, os.waitstatus_to_exitcode(status)


def measure(cases, rounds, gap):
    times = {name: [] for name in cases}
    failures = {name: 0 for name in cases}
    for number in range(rounds + WARM_UP):
        for name, argv in cases.items():
            taken, status = run_once(argv, number)
            failures[name] += status != 0
            if number >= WARM_UP:
                times[name].append(taken * 1000)
            time.sleep(gap / 1000)
    return times, failures


def show_failure(argv):
    done = subprocess.run([w if w != "ID" else "eclusa-bench-why" for w in argv], capture_output=True, text=True, check=False)
    return f"status {done.returncode}: {done.stderr.strip()[-300:]}"


def main(work, rounds, gap):
    cases = launchers(work)
    times, failures = measure(cases, rounds, gap)
    base = statistics.median(times["bwrap --unshare-all"])
    print(f"start to exit of `true`, {rounds} rounds, interleaved, {gap:g} ms apart")
    print(f"{'':<22}{'median':>10}{'p95':>10}{'to bwrap':>10}   aim")
    for name, values in sorted(times.items(), key=lambda item: statistics.median(item[1])):
        median = statistics.median(values)
        aim = ""
        if failures[name]:
            aim = "failed"
        elif name in AIMS:
            aim = f"<= {AIMS[name]:.1f}  {'met' if median <= AIMS[name] * base else 'missed'}"
        tail = sorted(values)[int(len(values) * 0.95)]
        print(f"{name:<22}{median:>7.2f} ms{tail:>7.2f} ms{median / base:>9.2f}x   {aim}")
    for name, count in failures.items():
        if count:
            print(f"{name}: {count} runs failed; {show_failure(cases[name])}")
    return 1 if any(failures.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
