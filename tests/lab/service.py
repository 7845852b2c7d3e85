"""`eclusa serve` in the lab's host namespace, and runs that take their network from it."""
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading

from lab.census import descendants
from lab.eclusa import Launch, Run, program, read_audit
from lab.events import DEADLINE, wait_until
from lab.world import ORIGIN, RESOLVER

POLICY = f"""policy 1

[profile one]
allow allowed.test:443 GET /one/** addr={ORIGIN}/32 id=one

[profile two]
allow allowed.test:443 GET /two/** addr={ORIGIN}/32 id=two
allow wild.test:443 GET /two/** addr={ORIGIN}/32 id=two-wild max-uses=1
"""


class Service:
    def __init__(self, lab, *args, policy=POLICY, env=None, ready=True, folder=None):
        self.lab = lab
        self.folder = folder or tempfile.mkdtemp(prefix="serve-", dir=lab.folder)
        self.audit = os.path.join(self.folder, "audit")
        self.state = os.path.join(self.folder, "state")
        self.socket = os.path.join(self.folder, "socket")
        self.policy = os.path.join(self.folder, "main.allow")
        self.write_policy(policy)
        self.words = lab.host.command(
            program(), "serve", "--policy", self.policy, "--profile", "one", "--profile", "two", "--socket", self.socket,
            "--audit-dir", self.audit, "--state-dir", self.state, "--upstream-ca", lab.certificates.ca_file,
            "--resolver", f"{RESOLVER}:53", *args)
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.folder, "ECLUSA_LIMITS": "leave_ms=500", **(env or {})})
        self.errors, self.output = [], queue.Queue()
        self.readers = [threading.Thread(target=self._read, args=(self.process.stdout, self.output.put), daemon=True),
                        threading.Thread(target=self._read, args=(self.process.stderr, self.errors.append), daemon=True)]
        for reader in self.readers:
            reader.start()
        if ready:
            line = self.output.get(timeout=DEADLINE)
            assert line == f"ready {self.socket}", (line, self.report())

    @staticmethod
    def _read(stream, take):
        for line in stream:
            take(line.rstrip("\n"))
        take(None)

    def write_policy(self, text):
        with open(self.policy + "~", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.policy + "~", self.policy)

    def report(self):
        lines = [f"$ {' '.join(self.words)}", *map(str, self.errors)]
        if os.path.isdir(self.audit):
            lines += [f"{e.get('container', {}).get('uid')} {e.get('status_code')} {e.get('status_detail')}" for e in read_audit(self.audit)]
        return "\n".join(lines)

    def reload(self):
        """`eclusa policy reload`. @return (exit status, what it printed as JSON)"""
        done = subprocess.run([program(), "policy", "reload", "--json", self.state], capture_output=True, text=True,
                              timeout=30, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def child(self, name):
        """The pid of its process with that name; None: there is none now."""
        for pid, (comm, state) in descendants(self.process.pid).items():
            if comm == name and state != "Z":
                return pid
        return None

    def launch(self, profile, command, *args, env=None, json_result=True):
        """A run that has begun. @return Popen"""
        words = ["run", *(["--json"] if json_result else []), f"--service={self.socket}", *(["--profile", profile] if profile else []),
                 *args, "--", *command]
        start = Launch(self.lab, words, env=env, audit_dir=self.audit)
        process = start.popen()
        process.words = start.words
        return process

    def end_of(self, process, timeout=60):
        """@return Run, whose events are those of its sandbox alone"""
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            stderr += b"\n(the test gave up waiting)"
        run = Run(process.words, None, process.returncode, stdout, stderr.decode("utf-8", "replace"), self.audit)
        assert "Sanitizer" not in run.stderr and "runtime error:" not in run.stderr, run.report()
        name = run.result["id"] if run.result else None
        run.events = [e for e in run.events if e.get("container", {}).get("uid") == name]
        self.lab.runs.append(run)
        return run

    def run(self, profile, command, *args, **more):
        return self.end_of(self.launch(profile, command, *args, **more))

    def logged(self, text):
        return [line for line in self.errors if line and text in line]

    def events(self, code=None):
        return [e for e in read_audit(self.audit) if code is None or e.get("status_code") == code]

    def wait_events(self, code, count):
        found = []

        def there():
            found[:] = self.events(code)
            return len(found) >= count

        wait_until(there, lambda: f"{code} x {count}:\n{self.report()}")
        return found

    def end(self, number=signal.SIGTERM):
        """@return exit status"""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=DEADLINE)
        for reader in self.readers:
            reader.join(DEADLINE)
        assert not any("Sanitizer" in line or "runtime error" in line for line in self.errors if line), self.report()
        return status
