"""
How fast the tools read a log of LINES lines (a million) in SEGMENTS files that overlap in time: wall and processor time, MB/s, the most memory, and
`wc -l` of the same files beside them.

    audit_tools.py FOLDER      makes the log there and removes it
"""
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ECLUSA = os.path.join(os.environ.get("BUILD", "build"), "eclusa")
LINES = int(os.environ.get("LINES", "1000000"))
SEGMENTS = 10
DAY_MS = 1795910400000  # 2026-11-29
UID = "01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c"


def write_log(folder):
    """Requests and packets, allowed and denied, to 5,000 hosts."""
    samples = (ROOT / "tests/cases/formats/lines.jsonl").read_text().splitlines()[:5]
    samples = [json.dumps(json.loads(line), separators=(",", ":")) + "\n" for line in samples]
    chance = random.Random(1)
    files = [open(os.path.join(folder, f"20261129T0000{n:02}Z-sb-{n:010}.jsonl"), "w", encoding="ascii", buffering=1 << 20) for n in range(SEGMENTS)]
    for n in range(LINES):
        line = samples[chance.randrange(len(samples))]
        line = line.replace("1795961863123", str(DAY_MS + n)).replace("files.test", f"h{chance.randrange(5000)}.test")
        files[n % SEGMENTS].write(line.replace(UID, f"{UID[:-10]}{n:08x}"))
    for file in files:
        file.close()


def measure(what, words, size):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what:<24} {size / wall / 1e6:8.0f} MB/s  {LINES / wall:10,.0f} lines/s  {wall:6.2f} s wall  {busy:6.2f} s busy  "
          f"{after.ru_maxrss / 1024:5.0f} MiB at most so far", flush=True)


def main(folder):
    write_log(folder)
    paths = sorted(str(path) for path in pathlib.Path(folder).glob("*.jsonl"))
    size = sum(os.path.getsize(path) for path in paths)
    print(f"{LINES:,} lines, {size / 1e6:,.0f} MB, {SEGMENTS} segments that overlap", flush=True)
    tool = [ECLUSA, "audit"]
    there = ["--audit-dir", folder]
    measure("wc -l", ["wc", "-l", *paths], size)
    measure("tail -n 10", [*tool, "tail", *there], size)
    measure("grep h77.test", [*tool, "grep", *there, "h77.test"], size)
    measure("export --format ocsf", [*tool, "export", *there, "--format", "ocsf"], size)
    measure("export --format csv", [*tool, "export", *there, "--format", "csv"], size)
    measure("export --format ecs", [*tool, "export", *there, "--format", "ecs"], size)
    measure("stats", [*tool, "stats", *there], size)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
