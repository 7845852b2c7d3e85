"""
Start-to-exit time of `true` in several launchers, interleaved: one of each per round. Prints medians of time and of processor time, and
ratios to bwrap within the run; then how many of them end in a second with eight at once. Exit status 1 when a launcher failed.

  start.py WORK ROUNDS GAP_MS
"""
import json
import os
import statistics
import subprocess
import sys
import threading
import time

WARM_UP = 3
AT_ONCE = 8
TURNS = 3
TRUE = "/usr/bin/true"
AIMS = {"eclusa run": 1.0, "eclusa run --allow": 2.0, "eclusa run --service": 2.0}
AIM_AT_ONCE = 1.2


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


def start_service(work):
    """`eclusa serve`, for root. @return (process, words of a run that uses it), or (None, None)"""
    if os.getuid() != 0:
        return None, None
    policy, place = os.path.join(work, "serve.allow"), os.path.join(work, "serve")
    with open(policy, "w", encoding="utf-8") as file:
        file.write("policy 1\n[profile bench]\nallow allowed.test\n")
    eclusa = os.path.abspath(os.environ["BUILD"] + "/eclusa")
    process = subprocess.Popen([eclusa, "serve", "--policy", policy, "--profile", "bench", "--socket", place, "--audit-dir",
                                os.path.join(work, "audit-serve")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if not process.stdout.readline().startswith("ready "):
        raise SystemExit("eclusa serve does not start")
    return process, [eclusa, "run", f"--service={place}", "--", TRUE]


def run_once(argv, number):
    argv = [f"eclusa-bench-{os.getpid()}-{number}" if word == "ID" else word for word in argv]
    null = os.open("/dev/null", os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, descriptor) for descriptor in (0, 1, 2)]
    started = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    taken = time.perf_counter() - started
    os.close(null)
    return taken, used.ru_utime + used.ru_stime, os.waitstatus_to_exitcode(status)


def measure(cases, rounds, gap):
    times = {name: [] for name in cases}
    cpu = {name: [] for name in cases}
    failures = {name: 0 for name in cases}
    for number in range(rounds + WARM_UP):
        for name, argv in cases.items():
            taken, used, status = run_once(argv, number)
            failures[name] += status != 0
            if number >= WARM_UP:
                times[name].append(taken * 1000)
                cpu[name].append(used * 1000)
            time.sleep(gap / 1000)
    return times, cpu, failures


def at_once(argv, rounds):
    """Runs that end in a second."""
    def row(thread):
        for number in range(rounds):
            run_once(argv, f"{thread}-{number}")

    threads = [threading.Thread(target=row, args=(thread,)) for thread in range(AT_ONCE)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return AT_ONCE * rounds / (time.perf_counter() - started)


def show_at_once(cases, rounds):
    names = [name for name in ("bwrap --unshare-all", "eclusa run") if name in cases]
    rates = {name: [] for name in names}
    for _ in range(TURNS):
        for name in names:
            rates[name].append(at_once(cases[name], rounds))
    base = statistics.median(rates[names[0]])
    for name in names:
        rate = statistics.median(rates[name])
        aim = "" if name == names[0] else f"   aim >= {AIM_AT_ONCE}  {'met' if rate >= AIM_AT_ONCE * base else 'missed'}"
        print(f"{name:<22}{rate:>8.0f}/s{'':>21}{rate / base:>8.2f}x{aim}   {AT_ONCE} at once")


def show_failure(argv):
    done = subprocess.run([w if w != "ID" else "eclusa-bench-why" for w in argv], capture_output=True, text=True, check=False)
    return f"status {done.returncode}: {done.stderr.strip()[-300:]}"


def main(work, rounds, gap):
    cases = launchers(work)
    service, words = start_service(work)
    if service:
        cases["eclusa run --service"] = words
    try:
        times, cpu, failures = measure(cases, rounds, gap)
    finally:
        if service:
            service.terminate()
            service.wait()
    base = statistics.median(times["bwrap --unshare-all"])
    print(f"start to exit of `true`, {rounds} rounds, interleaved, {gap:g} ms apart")
    print(f"{'':<22}{'median':>10}{'p95':>10}{'processor':>11}{'to bwrap':>9}   aim")
    for name, values in sorted(times.items(), key=lambda item: statistics.median(item[1])):
        median = statistics.median(values)
        aim = ""
        if failures[name]:
            aim = "failed"
        elif name in AIMS:
            aim = f"<= {AIMS[name]:.1f}  {'met' if median <= AIMS[name] * base else 'missed'}"
        tail = sorted(values)[int(len(values) * 0.95)]
        used = statistics.median(cpu[name])
        print(f"{name:<22}{median:>7.2f} ms{tail:>7.2f} ms{used:>8.2f} ms{median / base:>8.2f}x   {aim}")
    for name, count in failures.items():
        if count:
            print(f"{name}: {count} runs failed; {show_failure(cases[name])}")
    show_at_once(cases, max(1, rounds // 6))
    return 1 if any(failures.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
