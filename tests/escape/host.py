"""What a caller of a sandbox has outside of it: a folder with a secret, sockets, a terminal; and what became of them."""
import contextlib
import fcntl
import glob
import json
import os
import pty
import selectors
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
import uuid

from escape.executors import make_root

RUN_SECONDS = 60


def pids_of(text):
    """Processes, zombies not counted, with @text on their command line."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if text.encode() in file.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


class Done:
    """A run that has ended: status, streams, the probe's lines by class."""

    def __init__(self, status, output, error):
        self.status, self.output, self.error = status, output, error
        self.lines = {}
        for line in output.splitlines():
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                self.lines[found["class"]] = found

    def answer(self, name):
        """@return (state, what was seen)."""
        found = self.lines.get(name)
        if found is None:
            return "-", f"no answer, status {self.status}: {self.error.strip()[-200:]}"
        return ("REACHED" if found["reached"] else "blocked"), found["saw"]


class Started:
    """A run that goes on."""

    def __init__(self, process):
        self.process = process

    def wait_for(self, word):
        with selectors.DefaultSelector() as ready:
            ready.register(self.process.stdout, selectors.EVENT_READ)
            deadline, seen = time.monotonic() + RUN_SECONDS, b""
            while word.encode() not in seen and ready.select(deadline - time.monotonic()):
                part = os.read(self.process.stdout.fileno(), 4096)
                if not part:
                    return False
                seen += part
        return word.encode() in seen

    def kill(self):
        self.process.kill()
        self.process.wait()

    def error(self):
        self.kill()
        return f"status {self.process.returncode}: {self.process.stderr.read().decode('utf-8', 'replace').strip()[-200:]}"


class Host:
    """@user: whose everything is, None: ours."""

    def __init__(self, user=None):
        self.user = user
        self.folder = tempfile.mkdtemp(prefix="escape-")
        os.chmod(self.folder, 0o755)
        self.token = uuid.uuid4().hex
        self.caller = self.make_folder("caller")
        self.project = self.make_folder("caller/project")
        self.write(os.path.join(self.caller, "secret"), self.token)
        self.sockets = [self._listen(socket.AF_UNIX, os.path.join(self.caller, "daemon.sock")),
                        self._listen(socket.AF_UNIX, f"\0escape-{self.token}"), self._listen(socket.AF_INET, ("127.0.0.1", 0))]
        os.chmod(os.path.join(self.caller, "daemon.sock"), 0o777)
        self.port = self.sockets[2].getsockname()[1]
        threading.Thread(target=self._say_token, daemon=True).start()
        self.main, self.terminal = pty.openpty()
        self._count = 0

    def close(self):
        for server in self.sockets:
            server.close()
        os.close(self.main)
        os.close(self.terminal)
        for pid in pids_of(self.token):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for folder in ("/dev/shm", "/tmp", "/var/tmp", "/run/lock"):  # where a probe without a sandbox leaves a mark
            with contextlib.suppress(OSError):
                os.unlink(f"{folder}/escape-{self.token}")
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _listen(family, address):
        server = socket.socket(family)
        server.bind(address)
        server.listen(16)
        return server

    def _say_token(self):
        while True:
            try:
                client, _ = self.sockets[2].accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                client.sendall(self.token.encode())

    def make_folder(self, name):
        path = os.path.join(self.folder, name)
        if os.path.exists(path):
            path = tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder)
        else:
            os.mkdir(path)
        os.chmod(path, 0o755)
        self.give(path)
        return path

    def make_file(self, name, text):
        folder = self.make_folder(f"{name}-folder")
        path = os.path.join(folder, name)
        self.write(path, text)
        return path

    def write(self, path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.give(path)

    def give(self, path):
        """To the user who runs the sandbox."""
        if self.user:
            os.chown(path, self.user, self.user)

    def make_root(self, executor):
        root = make_root(executor)
        for where, folders, files in os.walk(root):
            for name in ("", *folders, *files):
                self.give(os.path.join(where, name))
        return root

    def _as_session_leader(self):
        os.setsid()
        fcntl.ioctl(self.terminal, termios.TIOCSCTTY, 0)

    def popen(self, words, leaks=False, **streams):
        options = dict(streams)
        if leaks:  # a careless caller: folder, secret and terminal stay open, the folder is where it works
            held = [os.open(self.caller, os.O_RDONLY | os.O_DIRECTORY), os.open(os.path.join(self.caller, "secret"), os.O_RDONLY)]
            options.update(pass_fds=held, cwd=self.caller, stdin=self.terminal, preexec_fn=self._as_session_leader)
        try:
            return subprocess.Popen(words, **{"cwd": self.folder, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                                              "stderr": subprocess.PIPE, "env": {"PATH": os.environ["PATH"], "HOME": self.folder},
                                              **options})
        finally:
            for fd in options.get("pass_fds", ()):
                os.close(fd)

    def run(self, words, leaks=False):
        """Until the launcher ends: not until its streams do, which something that stays could hold."""
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
            process = self.popen(words, leaks, stdout=output, stderr=error)
            try:
                process.wait(RUN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                error.write(b"\ndoes not end")
            texts = []
            for file in (output, error):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
        return Done(process.returncode, *texts)

    def arguments(self, names):
        return [self.caller, self.token, str(self.port), *names]

    def probe(self, executor, names, leaks=False, **how):
        return self.run(executor.words(self.arguments(names), **how), leaks)

    @contextlib.contextmanager
    def start(self, executor, names):
        process = self.popen(executor.words(self.arguments(names)))
        started = Started(process)
        try:
            yield started
        finally:
            started.kill()
            process.communicate()

    def terminal_input(self):
        """Whether something was typed into the caller's terminal by somebody else."""
        os.set_blocking(self.terminal, False)
        attributes = termios.tcgetattr(self.terminal)
        attributes[3] &= ~termios.ICANON
        termios.tcsetattr(self.terminal, termios.TCSANOW, attributes)
        try:
            return bool(os.read(self.terminal, 16))
        except BlockingIOError:
            return False
        finally:
            os.set_blocking(self.terminal, True)

    @staticmethod
    def gone_within(seconds, text):
        """@return the first process with @text that is there after @seconds, or None. It is killed then."""
        deadline = time.monotonic() + seconds
        while (left := pids_of(text)) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        return left[0] if left else None
