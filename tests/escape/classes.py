"""
The classes of escapes: a name, what was published, and how it is tried. Most are probes of probe.c, many of them in one run;
what happens outside of the sandbox (links in what the launcher reads and writes, what is left) is tried here.
"""
import os
import stat

BLOCKED, REACHED, NONE = "blocked", "REACHED", "-"

# Probes of one run, and what was published.
PROBES = (
    ("runtime-program", "CVE-2019-5736"),
    ("leaked-descriptors", "CVE-2024-21626"),
    ("leaked-folder", "CVE-2024-21626"),
    ("host-files", "CVE-2026-120699, CVE-2026-47243"),
    ("planted-settings", "CVE-2026-25725"),
    ("kernel-settings", "CVE-2025-31133, CVE-2025-52881"),
    ("devices", "CVE-2026-96812"),
    ("mount-flags", "nsjail 283"),
    ("mount-calls", "CVE-2021-41133"),
    ("io-uring", "moby 46762"),
    ("user-namespaces", "CVE-2022-0185, CVE-2024-1086"),
    ("packet-filter", "CVE-2023-32233, CVE-2022-32250"),
    ("socket-families", "CVE-2017-7308, CVE-2021-26708"),
    ("foreign-calls", "firejail 87, graphene 89"),
    ("kernel-surface", "CVE-2014-9357 and others"),
    ("keyrings", "isolate 2.4"),
    ("argument-race", "sandlock 27, 111"),
    ("terminal", "CVE-2017-5226, CVE-2019-10063, CVE-2023-28100"),
    ("tracing", "GHSA-q7w7-m7vg-xxg8"),
    ("supervisor-secrets", "sandlock 11"),
    ("capabilities", "CVE-2022-29162"),
    ("new-rights", "CVE-2025-2713, OpenShell 803"),
    ("release-agent", "CVE-2022-0492"),
    ("own-groups", "CVE-2023-25809, nsjail 199"),
    ("core-dump", "isolate manual, core_pattern"),
    ("abstract-sockets", "CVE-2020-15257"),
    ("daemon-sockets", "landrun 43"),
    ("host-loopback", "slirp4netns 50"),
    ("ipc-objects", "nsjail-shm-dos"),
)


def inside(executor, host):
    """Every probe at once, with a folder and descriptors of the caller's left open, on a terminal that is the caller's."""
    done = host.probe(executor, [name for name, _ in PROBES], leaks=True, project=host.project)
    for name, _ in PROBES:
        yield name, *done.answer(name)
    if host.terminal_input():
        yield "terminal", REACHED, "a letter stands in the terminal's queue"


def survivors(executor, host):
    """A process of its own session that ignores signals; and a launcher that is killed before its program ends."""
    done = host.probe(executor, ["survivors"])
    state, saw = done.answer("survivors")
    left = host.gone_within(2, f"linger-{host.token}")
    yield "survivors", *((REACHED, f"{left} goes on") if left else (state, saw if state == NONE else "gone with the run"))


def network(executor, host):
    """As its own root, with a network of its own: what holds is not the sandbox's to change."""
    yield "network-changes", *host.probe(executor, ["network-changes"]).answer("network-changes")


def neighbours(executor, host):
    """Two sandboxes at once; the launcher of one is killed at last."""
    with host.start(executor, ["leave"]) as first:
        if not first.wait_for("left"):
            for name in ("shared-files", "shared-locks", "killed-launcher"):
                yield name, NONE, first.error()
            return
        done = host.probe(executor, ["shared-files", "shared-locks"])
        for name in ("shared-files", "shared-locks"):
            yield name, *done.answer(name)
        first.kill()
        left = host.gone_within(2, host.token)
        yield "killed-launcher", *((REACHED, "the program goes on") if left else (BLOCKED, "gone with its launcher"))


def memory(executor, host):
    """96 MiB in files, under a limit of 48 MiB where there are limits."""
    done = host.probe(executor, ["memory-files"], memory=48 << 20 if executor.memory else None)
    if done.lines or not executor.memory:
        yield "memory-files", *done.answer("memory-files")
    else:
        yield "memory-files", BLOCKED, f"ended by the limit, status {done.status}"


def argument_options(executor, host):
    """A program whose name is an option of the launcher's."""
    words = executor.options(["--version"])
    if words is None:
        yield "argument-options", NONE, "no command line"
        return
    done = host.run(words)
    read = done.status == 0 and any(character.isdigit() for character in done.output)
    yield "argument-options", REACHED if read else BLOCKED, (done.output.strip() or done.error)[:100].split("\n")[0]


def result_links(executor, host):
    """Links, a FIFO, a hard link left as results; and, where results go, a link that was there before."""
    if not executor.results:
        yield "result-links", NONE, "delivers no files"
        yield "result-targets", NONE, "delivers no files"
        return
    out, target = host.make_folder("results"), host.make_file("victim", "untouched")
    os.symlink(target, os.path.join(out, "planted"))
    host.give(out)
    script = (f"cd /out; ln -s {target} link; ln -s /etc/hostname name; ln -s /proc/self self; mkfifo fifo; echo x >one; ln one two; "
              f"ln -s {os.path.dirname(target)} up; echo changed >planted")
    host.run(executor.base("--out", out, "--overwrite", "--", "sh", "-c", script))
    found = sorted(os.listdir(out))
    odd = [name for name in found if name != "planted" and not stat.S_ISREG(os.lstat(os.path.join(out, name)).st_mode)]
    copied = [name for name in ("link", "name", "self", "up") if name in found]
    yield "result-links", REACHED if odd or copied else BLOCKED, f"delivered: {' '.join(found)}"
    with open(target, encoding="utf-8") as file:
        same = file.read() == "untouched"
    yield "result-targets", BLOCKED if same else REACHED, "the link's target is " + ("as it was" if same else "written")


# Places where launchers mount or make something, as links out of the root: CVE-2025-31133 and what followed.
LINKED = {"masked-path-links": ("dev/null", "dev/console", "dev/pts", "dev/shm", "proc/sysrq-trigger", "sys/firmware"),
          "setup-links": ("proc", "dev", "tmp", "sys", "etc", "run", "work", "home")}


def hostile_root(executor, host, name, targets):
    root, victim = host.make_root(executor), host.make_folder(f"victim-{name}")
    host.write(os.path.join(victim, "file"), "untouched")
    for number, path in enumerate(targets):
        place = os.path.join(root, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.isdir(place):
            os.rmdir(place)
        to = os.path.join(victim, "file") if path in ("dev/null", "dev/console", "proc/sysrq-trigger") else victim
        os.symlink(to if number % 2 else os.path.relpath(to, os.path.dirname(place)), place)
    host.give(victim)
    before = snapshot(victim)
    done = host.probe(executor, ["kernel-settings"], rootfs=root)
    changed = snapshot(victim) != before
    how = "refused to start" if not done.lines else "started"
    return (REACHED if changed else BLOCKED), f"{how}; outside of the root {'something changed' if changed else 'nothing changed'}"


def snapshot(folder):
    """Names, kinds, modes, owners and contents below @folder."""
    found = []
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(where, name)
            status = os.lstat(path)
            text = b""
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    text = file.read()
            found.append((path, status.st_mode, status.st_uid, text))
    return sorted(found), os.lstat(folder).st_mode


def root_links(executor, host):
    starts = executor.rootfs and host.probe(executor, ["kernel-settings"], rootfs=host.make_root(executor))
    for name, targets in LINKED.items():
        if not executor.rootfs:
            yield name, NONE, "takes no root of the caller's"
        elif not starts.lines:
            yield name, NONE, f"starts in no root at all: {starts.error.strip()[-200:]}"
        else:
            yield name, *hostile_root(executor, host, name, targets)


STEPS = (inside, survivors, network, neighbours, memory, argument_options, result_links, root_links)
OTHERS = (
    ("survivors", "sandlock 251, 252"),
    ("killed-launcher", "agent-os 3334"),
    ("network-changes", "gh-aw-firewall 129"),
    ("shared-files", "isolate 2.4"),
    ("shared-locks", "isolate 2.5"),
    ("memory-files", "moby 39004"),
    ("argument-options", "CVE-2024-32462"),
    ("result-links", "CVE-2024-28185"),
    ("result-targets", "CVE-2024-28189, CVE-2026-39861"),
    ("masked-path-links", "CVE-2025-31133, CVE-2025-52565, CVE-2026-88264"),
    ("setup-links", "GHSA-pxhw-h44j-8pfx, CVE-2026-1386"),
)
CLASSES = PROBES + OTHERS


def judge(executor, host):
    """@return class -> (state, what was seen). A class that was reached in one way is reached."""
    found = {}
    for step in STEPS:
        for name, state, saw in step(executor, host):
            if found.get(name, (None,))[0] != REACHED:
                found[name] = (state, saw)
    return {name: found.get(name, (NONE, "not tried")) for name, _ in CLASSES}
