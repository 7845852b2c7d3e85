"""eclusa-export over an audit folder that a test makes, in a namespace with loopback alone."""
import glob
import json
import os
import re
import signal
import subprocess

from lab.eclusa import program
from lab.events import DEADLINE, wait_until
from lab.made_log import MadeLog
from lab.namespaces import Namespace


def exporter():
    return os.path.join(os.path.dirname(program()), "eclusa-export")


class Export:
    """Folders below @folder: audit, state, and what a test puts beside them."""

    def __init__(self, folder):
        self.folder = folder
        os.chmod(folder, 0o755)
        self.namespace = Namespace()
        self.log = MadeLog(os.path.join(folder, "audit"))
        self.state = os.path.join(folder, "state")
        self.config = os.path.join(folder, "export.conf")
        self.errors = open(os.path.join(folder, "errors"), "w+", encoding="utf-8")
        self.process = None
        self.user = "nobody"

    def close(self):
        self.kill()
        self.namespace.close()
        self.errors.close()

    def configure(self, *sinks):
        """Each sink a list of lines, the first "sink NAME KIND"."""
        lines = ["export 1", f"audit-dir {self.log.folder}", f"state-dir {self.state}", f"user {self.user}"]
        for sink in sinks:
            lines += [sink[0], "retry-least 20ms", "retry-most 200ms", *sink[1:]]
        with open(self.config, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def command(self, *words):
        return self.namespace.command(exporter(), "--config", self.config, *words)

    def start(self, stdout=None):
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=stdout or self.errors, stderr=self.errors)

    def once(self, timeout=DEADLINE):
        """Until everything is delivered."""
        return subprocess.run(self.command("--once"), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        status = self.process.wait(timeout=DEADLINE)
        self.process = None
        return status

    def kill(self):
        if self.process:
            self.end(signal.SIGKILL)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def metrics(self, name="s"):
        try:
            with open(os.path.join(self.state, "metrics.json"), encoding="utf-8") as file:
                return next(s for s in json.load(file)["sinks"] if s["name"] == name)
        except FileNotFoundError:
            return {}

    def cursor(self, name="s"):
        with open(os.path.join(self.state, f"{name}.cursor"), encoding="utf-8") as file:
            return file.read()

    def quarantine(self, name="s"):
        path = os.path.join(self.state, f"{name}.quarantine.jsonl")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def wait_metrics(self, holds, what):
        return wait_until(lambda: holds(self.metrics() or {"state": None}), lambda: (what, self.metrics(), self.said()))

    def chains(self):
        """Of each file of the log, the ids in it."""
        for path in glob.glob(os.path.join(self.log.folder, "2*.jsonl")):
            with open(path, encoding="utf-8") as file:
                yield re.findall(r'"metadata":\{"version":"1.8.0","uid":"([^"]+)"', file.read())

    def all_arrive(self, uids, deadline=DEADLINE):
        """@uids: what a receiver has now, each time it is asked. At least once each; for the first time in the order of its file."""
        wait_until(lambda: set(self.log.uids) <= set(uids()), lambda: (len(set(uids())), len(self.log.uids), self.said(), self.metrics()),
                   deadline)
        first = {uid: number for number, uid in reversed(list(enumerate(uids())))}
        for chain in self.chains():
            numbers = [first[uid] for uid in chain]
            assert numbers == sorted(numbers), chain
