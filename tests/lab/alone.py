"""
eclusa-proxy alone: a machine of its own with a cable to the lab's world, where the proxy runs beside its clients. What leaves
is what the world's origin and name server record: the world takes every address for its own.
"""
import json
import os
import queue
import re
import select
import signal
import socket
import ssl
import subprocess
import tempfile
import threading

from lab.census import descendants
from lab.eclusa import install, program, read_audit
from lab.events import DEADLINE, Record, wait_until
from lab.namespaces import Namespace
from lab.origin import answer
from lab.world import ORIGIN, RESOLVER

PROFILE = "bench"


def policy(*rules):
    """A policy text of one profile."""
    return f"policy 1\n\n[profile {PROFILE}]\n" + "".join(f"{rule}\n" for rule in rules)


def allow(rest):
    """`allow` of something that the lab's origin serves."""
    return f"allow {rest} addr={ORIGIN}/32"


class Machine(Namespace):
    def __init__(self, lab):
        super().__init__()
        self.started = []  # processes: a failed test leaves its own
        self.ip(
            f"link add world2 type veth peer name world3 netns {lab.world.path}",
            "link set world2 up",
            "addr add 203.0.114.1/24 dev world2",
        )
        lab.world.ip("link set world3 up", "addr add 203.0.114.10/24 dev world3")
        self.ip("route add default via 203.0.114.10")

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()
        super().close()


class Alone:
    """A proxy that runs. Its folders outlive it, so that another one can be started on them."""

    def __init__(self, lab, machine, rules, *args, user=None, state=None, env=None, ready=True, arguments=None, before=()):
        """@rules: a policy text, or the path of one that is there. @arguments: all of them, instead of these. @before: words before its own."""
        self.lab, self.machine, self.user, self.before = lab, machine, user, list(before)
        self.folder = tempfile.mkdtemp(prefix="alone-", dir=lab.folder)
        self.audit = os.path.join(self.folder, "audit")
        self.state = state or os.path.join(self.folder, "state")
        self.ca = os.path.join(self.folder, "ca.pem")
        os.chmod(self.folder, 0o755)
        if user:
            os.chown(self.folder, user, user)
        if "\n" in rules:
            os.mkdir(os.path.join(self.folder, "rules"))
            os.chmod(os.path.join(self.folder, "rules"), 0o755)
            self.policy = os.path.join(self.folder, "rules", "main.allow")
            self.write_policy(rules)
        else:
            self.policy = rules
        arguments = arguments if arguments is not None else [
            "--listen", "127.0.0.1:0", "--policy", self.policy, "--profile", PROFILE, "--audit-dir", self.audit,
            "--state-dir", self.state, "--upstream-ca", lab.certificates.ca_file, "--resolver", f"{RESOLVER}:53",
            *([] if "--ca" in args else ["--ca-out", self.ca]), *args]
        self.start(arguments, env or {})
        if ready:
            self.wait_ready()

    def start(self, arguments, env):
        binary = os.path.join(os.path.dirname(program()), "eclusa-proxy")
        prefix = []
        if self.user:
            binary = os.path.join(self.lab.folder, "bin", "eclusa-proxy")
            if not os.path.exists(binary):
                install(os.path.dirname(binary))
            prefix = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "--inh-caps=-all", "--"]
        self.words = self.machine.command(*self.before, *prefix, binary, *arguments)
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.folder, "ECLUSA_LIMITS": "leave_ms=500", **env})
        self.machine.started.append(self.process)
        self.errors, self.output = [], queue.Queue()
        self.readers = [threading.Thread(target=self._read, args=(self.process.stdout, self.output.put), daemon=True),
                        threading.Thread(target=self._read, args=(self.process.stderr, self.errors.append), daemon=True)]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def _read(stream, take):
        for line in stream:
            take(line.rstrip("\n"))
        take(None)

    def wait_ready(self):
        line = self.output.get(timeout=DEADLINE)
        assert line is not None, self.report()
        found = re.fullmatch(r"ready 127\.0\.0\.1:(\d+)", line)
        assert found, line
        self.port = int(found.group(1))

    def report(self):
        lines = [f"$ {' '.join(self.words)}", *map(str, self.errors)]
        if os.path.isdir(self.audit):
            lines += [f"{e.get('status_code')} {e.get('status_detail')} {e.get('message')}" for e in read_audit(self.audit)]
        return "\n".join(lines)

    def write_policy(self, text, name=None):
        """As editors do: another file takes the name."""
        path = os.path.join(os.path.dirname(self.policy), name) if name else self.policy
        with open(path + "~", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path + "~", 0o644)
        if self.user:
            os.chown(path + "~", self.user, self.user)
        os.rename(path + "~", path)

    def child(self, name):
        """The pid of its process with that name; None: there is none now."""
        for pid, (comm, state) in descendants(self.process.pid).items():
            if comm == name and state != "Z":
                return pid
        return None

    def logged(self, text):
        return [line for line in self.errors if line and text in line]

    def wait_logged(self, text, count=1):
        wait_until(lambda: len(self.logged(text)) >= count, lambda: f"{text} x {count}:\n{self.report()}")

    def reload(self):
        """`eclusa policy reload`. @return (exit status, what it printed as JSON)"""
        done = subprocess.run([program(), "policy", "reload", "--json", self.state], capture_output=True, text=True,
                              timeout=DEADLINE, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def hang_up(self):
        self.process.send_signal(signal.SIGHUP)

    def load(self, *rules):
        """Replace the policy, and have it loaded."""
        self.write_policy(policy(*rules))
        status, answer = self.reload()
        assert status == 0 and answer["loaded"], (answer, self.report())
        return answer

    def end(self, number=signal.SIGTERM):
        """@return exit status"""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=DEADLINE)
        for reader in self.readers:
            reader.join(DEADLINE)
        assert not any("Sanitizer" in line or "runtime error" in line for line in self.errors if line), self.report()
        return status

    def events(self, code=None, path=None):
        """Of the log as it is now."""
        return [e for e in read_audit(self.audit)
                if (code is None or e.get("status_code") == code)
                and (path is None or e.get("http_request", {}).get("url", {}).get("path") == path)]

    def wait_event(self, code, path=None, count=1):
        found = []

        def there():
            found[:] = self.events(code, path)
            return len(found) >= count

        wait_until(there, lambda: f"{code} of {path} x {count}:\n{self.report()}")
        return found


class Client:
    """A connection of a client that trusts the proxy's CA."""

    def __init__(self, alone):
        self.alone = alone
        self.sock = alone.machine.inside(lambda: socket.create_connection(("127.0.0.1", alone.port), DEADLINE))
        self.data = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.encode())

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self.data += data

    def head(self):
        """@return (status, fields in lower case)"""
        while b"\r\n\r\n" not in self.data:
            self.more()
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        line, *fields = head.decode("latin-1").split("\r\n")
        return int(line.split(" ")[1]), {k.lower(): v.strip() for k, v in (f.split(":", 1) for f in fields)}

    def take(self, length):
        while len(self.data) < length:
            self.more()
        taken, self.data = self.data[:length], self.data[length:]
        return taken

    def answer(self):
        """@return (status, body) of a response with a length"""
        status, fields = self.head()
        return status, self.take(int(fields.get("content-length", 0)))

    def tunnel(self, host, port=443, ca=None):
        """@return self inside of TLS, or the status that CONNECT got."""
        self.send(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
        status, fields = self.head()
        if status != 200:
            self.take(int(fields.get("content-length", 0)))
            return status
        context = ssl.create_default_context(cafile=ca or self.alone.ca)
        self.sock = context.wrap_socket(self.sock, server_hostname=host)
        return self

    def ask(self, host, path, method="GET", extra=""):
        """One request in a tunnel; the answer is not read."""
        self.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{extra}\r\n")

    def get(self, host, path):
        self.ask(host, path)
        return self.answer()

    def get_plain(self, url):
        """Absolute-form. @return (status, body)"""
        host = url.split("/")[2]
        self.send(f"GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n")
        return self.answer()

    def ended(self, within=DEADLINE):
        """Wait for the end. @return "eof" or "reset"; fails if bytes come or nothing happens."""
        self.sock.settimeout(within)
        try:
            data = self.sock.recv(65536)
        except ssl.SSLEOFError:
            return "eof"
        except ConnectionError:
            return "reset"
        assert data == b"", f"bytes instead of an end: {data[:300]!r}"
        return "eof"

    def is_open(self):
        """Nothing has come, not even an end."""
        return not select.select([self.sock], [], [], 0)[0]


def fetch(alone, host, path, ca=None):
    """One GET over TLS. @return its status, or that of the CONNECT."""
    with Client(alone) as client:
        inside = client.tunnel(host, ca=ca)
        return inside if isinstance(inside, int) else client.get(host, path)[0]


class Held:
    """An answer of the origin that is sent in pieces, as the test says."""

    def __init__(self, lab, path, begin=b""):
        self.arrived, self.go, self.connection = threading.Event(), threading.Event(), None
        self.begin, self.ended = begin, Record()
        lab.origin.on(path, self)

    def __call__(self, request, connection):
        self.connection = connection
        if self.begin:
            connection.send(self.begin)
        self.arrived.set()
        if self.go.wait(60):
            connection.send(answer("200 OK", b"late") if not self.begin else b"end")
