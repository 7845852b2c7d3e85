"""
Tries 32 and more classes of published escapes in Eclusa and in what other sandboxes are installed, and prints one table.
Probes are harmless: they try what an escape needs first, in throwaway folders, and take back what they got.

  run.py ECLUSA PROBE [--json] [--only EXECUTOR[,EXECUTOR...]] [--why]

  --json   one object: each class, each executor, its state and what was seen
  --only   of eclusa, bwrap, nsjail, firejail, crun, runc, podman, nothing (no sandbox: shows that the probes prove something)
  --why    what was seen, below the table

Exit status 1 when something was reached in Eclusa, or could not be tried there.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from escape.classes import BLOCKED, CLASSES, NONE, judge  # noqa: E402 (needs the path above)
from escape.executors import PEERS, Eclusa, Nothing  # noqa: E402
from escape.host import Host  # noqa: E402


def executors(program, probe, host, only):
    made = [Eclusa(host.folder, probe, os.path.abspath(program))]
    made += [kind(host.folder, probe) for kind in PEERS if kind.is_there()]
    made += [Nothing(host.folder, probe)]
    names = only.split(",") if only else [executor.name for executor in made if executor.name != "nothing"]
    absent = set(names) - {executor.name for executor in made}
    if absent:
        print(f"not here: {', '.join(sorted(absent))}; there are: {', '.join(executor.name for executor in made)}", file=sys.stderr)
        sys.exit(2)
    return [executor for executor in made if executor.name in names]


def print_table(found, made, why):
    width = max(len(name) for name, _ in CLASSES)
    print(f"{'':<{width}}  " + "".join(f"{executor.name:<10}" for executor in made) + "published")
    for name, published in CLASSES:
        print(f"{name:<{width}}  " + "".join(f"{found[executor.name][name][0]:<10}" for executor in made) + published)
    blocked = [sum(found[executor.name][name][0] == BLOCKED for name, _ in CLASSES) for executor in made]
    tried = [sum(found[executor.name][name][0] != NONE for name, _ in CLASSES) for executor in made]
    print(f"{'blocked, of those tried':<{width}}  " + "".join(f"{f'{b}/{t}':<10}" for b, t in zip(blocked, tried)))
    print()
    for executor in made:
        print(f"{executor.name}: {executor.note}")
    for executor in made if why else ():
        for name, _ in CLASSES:
            print(f"{executor.name} {name}: {found[executor.name][name][1]}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("probe")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--why", action="store_true")
    asked = parser.parse_args()
    host, made = Host(), []
    try:
        made = executors(asked.program, os.path.abspath(asked.probe), host, asked.only)
        found = {executor.name: judge(executor, host) for executor in made}
    finally:
        for executor in made:
            executor.clean()
        host.close()
    if asked.json:
        print(json.dumps({"classes": [{"name": name, "published": published, "executors": {
            executor.name: dict(zip(("state", "saw"), found[executor.name][name])) for executor in made}} for name, published in CLASSES]}))
    else:
        print_table(found, made, asked.why)
    ours = found.get("eclusa", {})
    sys.exit(any(state != BLOCKED for state, _ in ours.values()))


if __name__ == "__main__":
    main()
