"""eclusa without a network, in folders of its own: for what a sandbox sees, leaves and how its end is told."""
import json
import os
import subprocess
import tempfile

from lab.eclusa import install, program

PYTHON = "/usr/bin/python3"
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "CALLERS_SECRET": "hunter2", "LD_DEBUG_OUTPUT": "/tmp/x"}


class Folders:
    """Of a user, below one folder."""

    def __init__(self, folder, user):
        self.folder, self.user = str(folder), user
        os.chmod(self.folder, 0o755)

    def make_folder(self, name):
        path = os.path.join(self.folder, name)
        os.mkdir(path, 0o755)
        if self.user:
            os.chown(path, self.user, self.user)
        return path


class Box(Folders):
    """eclusa as root or as an ordinary user, with folders of its own."""

    def __init__(self, user):
        super().__init__(tempfile.mkdtemp(prefix="sandbox-"), user)
        # without network only eclusa itself is needed
        self.program = install(os.path.join(self.folder, "bin"), ("eclusa-netd", "eclusa-proxy")) if user else program()
        self.home = self.make_folder("home")
        self.audit = self.make_folder("audit")

    def write(self, name, text, mode=0o600):
        """A file of the caller's own."""
        path = os.path.join(self.home, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        if self.user:
            os.chown(path, self.user, self.user)
        return path

    def words(self, *args):
        drop = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "--"] if self.user else []
        return [*drop, self.program, "run", "--audit-dir", self.audit, *args]

    def popen(self, *args, **more):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        environment = {**ENVIRONMENT, "HOME": self.home}
        return subprocess.Popen(self.words(*args), cwd=self.home, env=environment, **{**options, **more})

    def run(self, *args, data=None, **more):
        process = self.popen(*args, **{**({"stdin": subprocess.PIPE} if data is not None else {}), **more})
        try:
            out, err = process.communicate(data, timeout=200)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"eclusa does not end: {args} {out!r} {err!r}") from None
        return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    def result(self, *args, **more):
        patience = [] if "--timeout" in args or "--spec" in args else ["--timeout", "120s"]  # 15 s are little on a busy machine
        status, out, err = self.run("--json", *patience, *args, **more)
        try:
            return status, json.loads(out)
        except ValueError:
            raise AssertionError(f"no result: status {status}, {out!r}, {err!r}") from None

    def python(self, text, *args, **more):
        """What a Python program prints as JSON."""
        status, result = self.result(*args, "--", PYTHON, "-c", text, **more)
        assert status == 0, result
        return json.loads(result["stdout"])
