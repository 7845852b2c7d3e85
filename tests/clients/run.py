"""
`make clients`: every client of the table, by variables and by capture, in a sandbox that may reach one host, and in one that may not.
Prints a table; exit status 1 if a client does not work that should, or works that should not.

    run.py [NAME]...   only clients whose name holds one of these words
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from clients import fetching, registries  # noqa: E402 (needs the path above)
from clients.table import CAPTURE, CLIENTS, VARIABLES, prepare  # noqa: E402
from lab.census import become_reaper  # noqa: E402
from lab.world import Lab  # noqa: E402


def outcome(lab, client, mode):
    """@return the door that it came through, or what is wrong, and why."""
    try:
        fetching.check_denied(lab, client, mode)
    except AssertionError as error:
        return "NOT DENIED", str(error)
    try:
        fetching.check_allowed(lab, client, mode)
    except AssertionError as error:
        return "FAILS", str(error)
    return client.door(mode), None


def row(lab, client):
    missing = client.missing()
    if missing:
        return (client.name, "-", "skipped", "skipped", missing), []
    words, failures = [], []
    for mode in (VARIABLES, CAPTURE):
        word, why = outcome(lab, client, mode)
        words.append(word)
        if why is not None:
            failures.append(f"{client.name}, by {mode}: {word}\n{why}")
    return (client.name, client.says_version(), *words, client.trust), failures


def main():
    chosen = [client for client in CLIENTS if len(sys.argv) < 2 or any(word.lower() in client.name.lower() for word in sys.argv[1:])]
    if not chosen:
        print("none is called so; there are: " + ", ".join(client.name for client in CLIENTS), file=sys.stderr)
        return 2
    if os.geteuid() != 0:
        print("make clients needs root: it plays host and world in namespaces", file=sys.stderr)
        return 2
    become_reaper()
    for line in prepare():
        print(f"not made: {line}", file=sys.stderr)
    lab, failures = Lab(), []
    fetching.serve(lab)
    print("| client | version | with variables | `--proxy-env off` | trusts by |\n|---|---|---|---|---|", flush=True)
    try:
        for client in chosen:
            cells, failed = row(lab, client)
            failures += failed
            print("| " + " | ".join(cells) + " |", flush=True)
        if len(sys.argv) < 2:
            failures += registries.rows()
    finally:
        lab.close()
    for failure in failures:
        print("\n" + failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
