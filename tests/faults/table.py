"""
Programs that misbehave, and how each must be told: the verdict, how the program ended, and the number that decided. Most are
`fault` (fault.h) with small limits, so that a case takes milliseconds; some are what people write, in shell and Python.
"""
import signal

PYTHON = "/usr/bin/python3"
MIB = 1 << 20
SIGNALS = [s for s in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31, 34, 64)]
# what is put beside the program: name -> (bytes, mode)
INPUTS = {"plain": (b"text\n", 0o644), "garbage": (b"\x7fELF\x00garbage" * 9, 0o755), "empty": (b"", 0o755),
          "lost": (b"#!/no/such/interpreter\n", 0o755), "script": (b"#!/bin/sh\nexit 12\n", 0o755), "text": (b"exit 13\n", 0o755)}
SOON, ROOM = ["--timeout", "200ms"], ["--timeout", "120s"]


class Case:
    """@anyone: told the same to an ordinary user without a control group; @user: to nobody else."""

    def __init__(self, words, verdict, code=None, options=(), anyone=False, user=False, **told):
        self.words = words.split() if isinstance(words, str) else list(words)
        self.verdict, self.code, self.options, self.anyone, self.user = verdict, code, list(options), anyone, user
        self.told = told

    @property
    def command(self):
        """`fault ...`, unless it names another program."""
        return self.words if self.words[0].startswith(("/", ".", "?")) or self.words[0] == "sh" else ["./fault", *self.words]

    def __str__(self):
        return " ".join([*self.options, "--", *self.words])[:160]


def ends(code, *programs, **more):
    return [Case(program, "exit" if code else "ok", code, ROOM, anyone=True, decided_by=code, **more) for program in programs]


def signalled(number, *programs):
    return [Case(program, "signal", -number, ROOM, anyone=True, decided_by=number) for program in programs]


def exits():
    cases = [case for code in (0, 1, 2, 3, 42, 77, 100, 124, 125, 126, 127, 128, 130, 137, 139, 143, 152, 200, 254, 255)
             for case in ends(code, f"exit {code}")]
    cases += ends(5, "exit-at-once 5", "child exit 5", "exec exit 5", "children exit 5", "thread-exit 5", "first-thread-exit 5",
                  "streamless exit 5", "deaf exit 5", "beside-stopped exit 5", ["sh", "-c", "exit 5"], ["sh", "-c", "(exit 5)"],
                  [PYTHON, "-c", "raise SystemExit(5)"])
    cases += ends(0, "orphan exit 9", "orphan pause", "orphan spin", "ignored-child exit 4", "ignored-child signal 9", "exec exec exit 0",
                  "forks-in-turn 50", "beside-stopped exit 0", "streamless exit 0", "kill-all 9", "kill-all 15", "input", "burn 10",
                  ["sh", "-c", "setsid sleep 100 & exit 0"])
    cases += ends(1, [PYTHON, "-c", "1 / 0"], [PYTHON, "-c", "def f(): f()\nf()"], [PYTHON, "-c", "import nothing"], ["sh", "-c", "false"])
    cases += ends(9, "call 425", "call 5000", "call 250", "trace-me", "streamless flood-out 10", "fill-root 9", "signal 17", "signal 18",
                  "signal 23", "signal 20", "thread-signal 21")  # without a terminal's session nothing stops by these
    cases += ends(139, "child signal 11", "child address 8") + ends(137, "child kill-group 9", "children signal 9")[1:]
    return cases + ends(3, "kill-first 9", "kill-first 19", "kill-first 6")


def starts():
    """Programs that can't be started, and those that just can."""
    cases = [Case(words, "exit", code, ROOM, anyone=True, decided_by=code, inputs=True) for words, code in (
        (["?nothing"], 127), (["./nothing"], 127), (["/no/such/folder/x"], 127), (["./plain"], 126), (["./garbage"], 126), (["./empty"], 126),
        (["./lost"], 127), (["/tmp"], 126), (["./plain/x"], 127), (["/proc/self/mem"], 126), (["?" + "n" * 300], 127))]
    cases += [Case(["./script"], "exit", 12, ROOM, anyone=True, decided_by=12, inputs=True)]
    return cases + [Case(["./text"], "exit", 126, ROOM, anyone=True, decided_by=126, inputs=True)]


def signals():
    cases = [case for number in SIGNALS for case in signalled(number, f"signal {number}")]
    cases += signalled(signal.SIGSEGV, "address 0", "address 4096", "address 18446744073709547520", "jump", "constant", "exec address 0",
                       "thread-signal 11")
    cases += signalled(signal.SIGABRT, "abort", "core", [PYTHON, "-c", "import os; os.abort()"])
    cases += signalled(signal.SIGFPE, "divide") + signalled(signal.SIGILL, "instruction") + signalled(signal.SIGTRAP, "breakpoint")
    cases += signalled(signal.SIGBUS, "bus") + signalled(signal.SIGPIPE, "broken-pipe") + signalled(signal.SIGXFSZ, "file-size 4")
    cases += signalled(signal.SIGALRM, "alarm 5") + signalled(signal.SIGSYS, "foreign-call")
    cases += signalled(signal.SIGKILL, "deaf signal 9", "kill-group 9", "threads signal 9", ["sh", "-c", "kill -9 $$"])
    cases += signalled(signal.SIGTERM, "kill-first 15", "thread-signal 15", ["sh", "-c", "kill $$"])
    return cases + signalled(signal.SIGHUP, "kill-group 1") + signalled(signal.SIGINT, [PYTHON, "-c", "raise KeyboardInterrupt"])


def memory():
    def oom(mib, *programs):
        options = [*ROOM, "--memory", f"{mib}M", "--cpu-time", "30s"]
        return [Case(program, "oom", None, options, decided_by_bytes=mib * MIB, peak=mib * MIB) for program in programs]

    kinds = ("malloc", "malloc 64", "malloc 5000000", "calloc", "realloc", "brk", "private", "shared", "populate", "zero", "zero-shared",
             "copies", "memfd", "mapped-memfd", "all-folders", "pipes", "sockets", "page-tables", "copied-process")
    cases = oom(12, *kinds[:1], *kinds[2:])
    cases += oom(12, *(f"{who} {kind}" for who in ("child", "children", "threads", "exec")
                       for kind in ("malloc", "shared", "memfd", "populate")))
    # who was killed is not the program: all of the sandbox ends, and it is told
    cases += oom(12, "daemon malloc", "daemon shared", "daemon memfd", "ignored-child private", "ignored-child memfd", "ignored-child children malloc")
    cases += oom(12, "child child calloc", "deaf private", "streamless shared", "beside-stopped malloc")
    cases += oom(6, "files", "folders", "mappings", "stack", "threads page-tables")
    cases += oom(32, [PYTHON, "-c", "x = bytearray(100 << 20)"], [PYTHON, "-c", "x = []\nwhile True: x.append(bytes(99999))"],
                 [PYTHON, "-c", "x = 'a'\nwhile True: x += x"], ["sh", "-c", "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done"])
    small = [*ROOM, "--memory", "12M"]
    cases += [Case("locked", "exit", 9, small, decided_by=9), Case("descriptors", "exit", 9, small, decided_by=9),
              Case("deleted-file", "exit", 9, small, decided_by=9), Case("links", "disk", 9, small, decided_by_bytes=6 * MIB),
              Case("burn 5", "ok", 0, [*ROOM, "--memory", "4M"], decided_by=0)]
    return cases + [Case("stack", "signal", -signal.SIGSEGV, [*ROOM, "--memory", "32M"], decided_by=11)]


def pids():
    cases = []
    for limit in (4, 16):
        options = [*ROOM, "--pids-limit", str(limit), "--memory", "128M"]
        cases += [Case(program, "pids", 9, options, decided_by=limit) for program in
                  ("forks 9", "fork-tree", "clones", "zombies", "daemons", "many-threads", "deaf forks 9", "exec forks 9", "child forks 9")]
        cases += [Case(program, "ok", 0, options, decided_by=0) for program in ("forks 0", "forks-in-turn 40", "ignored-child forks 9")]
        cases += [Case("forks 3", "pids", 3, options, decided_by=limit)]
    options = [*ROOM, "--pids-limit", "8"]
    cases += [Case([PYTHON, "-c", "import os\nwhile True:\n    if os.fork() == 0:\n        import time; time.sleep(99)"], "pids", 1, options,
                   decided_by=8),
              Case([PYTHON, "-c", "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"],
                   "pids", 1, options, decided_by=8),
              Case(["sh", "-c", "set -e; while :; do sleep 99 & done"], "pids", 2, options, decided_by=8)]
    return cases


def processor():
    options = ["--timeout", "120s", "--cpu-time", "60ms", "--cpus", "2"]
    spins = ("spin", "spin-calls", "spin-yield", "spin-numbers", "spin-memory", "spin-files", "spin-forks", "spin-forgotten", "spin-nice",
             "spin-signals", "spin-short", "burn 5000")
    cases = [Case(program, "cpu", None, options, least_ms=60) for program in spins]
    cases += [Case(f"{who} spin", "cpu", None, options, least_ms=60) for who in
              ("child", "children", "threads", "daemon", "deaf", "exec", "streamless", "beside-stopped", "ignored-child", "child child")]
    cases += [Case(f"{who} spin-forks", "cpu", None, options, least_ms=60) for who in ("children", "daemon", "deaf")]
    cases += [Case(words, "cpu", None, options, least_ms=60) for words in
              (["sh", "-c", "while :; do :; done"], [PYTHON, "-c", "while True: pass"], [PYTHON, "-c", "sum(range(10**12))"],
               ["sh", "-c", "trap '' TERM XCPU INT; while :; do :; done"])]
    return cases + [Case("burn 20", "ok", 0, options, decided_by=0)]


def clock():
    waits = ("pause", "sleep", "poll", "select", "pipe", "full-pipe", "lock", "semaphore", "signal-wait", "wait", "accept", "flock", "fifo",
             "stop")
    cases = [Case(program, "wall", None, SOON, anyone=True, least_ms=200) for program in waits]
    cases += [Case(f"{who} pause", "wall", None, SOON, anyone=True, least_ms=200) for who in
              ("child", "children", "threads", "daemon", "deaf", "exec", "streamless", "beside-stopped", "child child")]
    cases += [Case(words, "wall", None, SOON, anyone=True, least_ms=200) for words in
              ("daemon exit 0", "signal 19", "flood-out 0", "flood-both 0", ["sh", "-c", "sleep 100"],
               ["sh", "-c", "trap '' TERM HUP INT; while :; do sleep 1; done"], [PYTHON, "-c", "import time; time.sleep(100)"],
               [PYTHON, "-c", "import threading; threading.Lock().acquire(); threading.Event().wait()"])]
    cases += [Case("spin", "wall", None, [*SOON, "--cpu-time", "60s"], anyone=True, least_ms=200)]
    return cases + [Case("sleep", "wall", None, ["--timeout", f"{ms}ms"], anyone=True, least_ms=ms) for ms in (1, 20, 90)]


def output():
    options = [*ROOM, "--output-limit", "64K"]
    floods = (
        ("flood-out 65536", "ok", 0, (0, 0)), ("flood-out 65537", "ok", 0, (1, 0)), ("flood-err 65537", "ok", 0, (0, 1)),
        ("flood-out 1000000", "ok", 0, (934464, 0)), ("flood-err 1000000", "ok", 0, (0, 934464)),
        ("flood-both 200000", "ok", 0, (134464, 134464)), ("flood-reopened 200000", "ok", 0, (134464, 0)),
        ("flood-bytewise 65600", "ok", 0, (64, 0)), ("flood-and-fail 200000", "exit", 7, (134464, 0)),
        ("flood-and-crash 200000", "signal", -6, (134464, 0)), ("child flood-out 200000", "ok", 0, (134464, 0)),
        ("children flood-err 100000", "ok", 0, (0, 334464)), ("exec flood-both 65537", "ok", 0, (1, 1)),
        ([PYTHON, "-c", "print('x' * 100000)"], "ok", 0, (34465, 0)), (["sh", "-c", "head -c 70000 /dev/zero"], "ok", 0, (4464, 0)),
        (["sh", "-c", "head -c 70000 /dev/zero >&2; exit 4"], "exit", 4, (0, 4464)))
    cases = [Case(words, verdict, code, options, anyone=True, truncated={"stdout": lost[0], "stderr": lost[1]})
             for words, verdict, code, lost in floods]
    return cases + [Case("exit 0", "ok", 0, [*ROOM, "--output-limit", "1"], anyone=True, truncated={"stdout": 0, "stderr": 0})]


def disk():
    options = [*ROOM, "--memory", "8M", "--out-limit", "1M"]
    cases = [Case(words, "disk", code, options, anyone=True, decided_by_bytes=size) for words, code, size in (
        ("fill-out 9", 9, MIB), ("fill-tmp 9", 9, 4 * MIB), ("fill-work 9", 9, 4 * MIB), ("fill-home 9", 9, 4 * MIB),
        ("fill-shm 9", 9, 4 * MIB), ("all-folders", 9, MIB),
        ("child fill-out 9", 9, MIB), ("exec fill-tmp 1", 1, 4 * MIB), ("fill-out 255", 255, MIB),
        (["sh", "-c", "head -c 2000000 /dev/zero >/out/x"], 1, MIB),
        (["sh", "-c", "head -c 2000000 /dev/zero | tee /out/x >/dev/null; exit 3"], 3, MIB))]
    cases += [Case("mapped-tmpfs", "disk", -signal.SIGBUS, options, anyone=True, decided_by_bytes=4 * MIB)]
    cases += [Case(words, "ok", 0, options, anyone=True, decided_by=0) for words in ("fill-out 0", "fill-tmp 0", "child fill-work 0")]
    results = [*options, "--out", "results"]
    cases += [Case(words, "ok", 0, results, anyone=True, decided_by=0, artifacts=count) for words, count in (
        ("allocate 500000", 1), ("sparse 500000", 1), ("many-files 100", 100), ("many-files 4096", 4096), ("deep 30", 1),
        ("long-name 255", 1),
        ("odd-name", 1), ("odd-kinds", 0), ("closed-modes", 1), ("remove-folders", 0), ("fill-out 0", 1))]
    cases += [Case(words, "output", code, results, anyone=True, decided_by=lost, artifacts=count) for words, code, lost, count in (
        ("sparse 50000000", 0, 1, 0), ("sparse 1048577", 0, 1, 0), ("many-files 4097", 0, 1, 4096), ("deep 40", 0, 1, 0))]
    return cases + [Case(words, "exit", 9, results, anyone=True, decided_by=9, artifacts=count) for words, count in (
        ("allocate 5000000", 1), ("long-name 256", 0))]


def without_groups():
    """What limits of each process, and looking at all of them, are told as."""
    small, soon = [*ROOM, "--memory", "64M"], ["--timeout", "120s", "--cpu-time", "300ms"]
    cases = [Case(program, "exit", 9, small, user=True, decided_by=9) for program in
             ("malloc", "calloc", "brk", "private", "child malloc", "zero")]
    return cases + [Case(program, "cpu", None, soon, user=True, least_ms=300) for program in
                    ("spin", "children spin", "daemon spin", "deaf spin")]


GROUPS = (exits, starts, signals, memory, pids, processor, clock, output, disk, without_groups)
STATUS = {"wall": 124, "cpu": 152, "oom": 137}


def count():
    return sum(len(group()) for group in GROUPS)


if __name__ == "__main__":
    for group in GROUPS:
        print(group.__name__, len(group()))
    print(count())
