"""Running the product in the lab, as root or as an ordinary user, and reading what it left: result, status, audit."""
import fcntl
import glob
import json
import os
import shutil
import subprocess
import tempfile

from lab.events import wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
USER_UID = 61234  # no passwd entry, no subuid range
PROGRAMS = ("eclusa", "eclusa-netd", "eclusa-proxy")


def program():
    """$ECLUSA, else eclusa in $BUILD, else build/eclusa."""
    return os.environ.get("ECLUSA") or os.path.join(os.environ.get("BUILD") or os.path.join(ROOT, "build"), "eclusa")


def is_sanitized():
    """Whether it is a SAN=1 build: its shadow memory does not fit under the address limit that an ordinary user's run has."""
    with open(program(), "rb") as file:
        return b"__asan_init" in file.read()


def install(folder, leave_out=()):
    """The programs where any user can run them. @return the path of eclusa."""
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o755)
    for name in PROGRAMS:
        if name not in leave_out:
            to = os.path.join(folder, name)
            shutil.copy(os.path.join(os.path.dirname(program()), name), to)
            os.chmod(to, 0o755)
    return os.path.join(folder, "eclusa")


def read_whole_lines(path):
    """A run beside this one may be writing its last line at this very moment: wait until it is whole."""
    text = []

    def whole():
        with open(path, "rb") as file:
            text[:] = [file.read()]
        return not text[0] or text[0].endswith(b"\n")

    wait_until(whole, f"{path} ends in a whole line")
    return text[0].splitlines()


def read_audit(folder):
    """Every event of every segment, in the order of their names, without the index. A line that is no JSON object fails the test."""
    events = []
    for path in sorted(glob.glob(os.path.join(folder, "[0-9]*.jsonl"))):
        for number, line in enumerate(read_whole_lines(path), 1):
            try:
                events.append(json.loads(line))
            except ValueError as error:
                raise AssertionError(f"{path}:{number}: {error}: {line[:200]!r}") from error
    return events


def unfinished(folder):
    """What an audit folder holds beside segments: rings and marks of runs that are going on, or ended without completing them."""
    return sorted(path for path in glob.glob(os.path.join(folder, "**"), recursive=True)
                  if not os.path.isdir(path) and not (path.endswith(".jsonl") and os.path.dirname(path) == folder.rstrip("/")))


def is_released(folder):
    """Nobody holds a file of an audit folder that the next start has to complete."""
    for path in glob.glob(os.path.join(folder, "open", "*")):
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
    return True


class Run:
    """A run of eclusa that has ended."""

    def __init__(self, words, user, status, stdout, stderr, audit_dir):
        self.words, self.user, self.status = words, user, status
        self.stdout, self.stderr, self.audit_dir = stdout, stderr, audit_dir
        self.events = read_audit(audit_dir)
        try:
            self.result = json.loads(stdout)
        except ValueError:
            self.result = None

    @property
    def output(self):
        """What the program in the sandbox wrote to its standard output."""
        assert self.result is not None, self.report()
        return self.result["stdout"]

    def json(self):
        """That output, as JSON; the run must have been good."""
        assert self.status == 0, self.report()
        return json.loads(self.output)

    def decisions(self, port=None):
        """
        Events with a decision about traffic; of one connection if its source port is given. A tunnel that was opened has
        a record of its own beside those of the requests in it: see tunnels().
        """
        return [e for e in self._traffic(port) if not self._is_open_tunnel(e)]

    def tunnels(self, port=None):
        return [e for e in self._traffic(port) if self._is_open_tunnel(e)]

    def _traffic(self, port):
        """Of what lasts long, the event at its end: the one that says that it is open comes on top."""
        return [e for e in self.events if e.get("class_uid") in (4001, 4002) and not e["unmapped"]["eclusa"].get("open")
                and (port is None or e.get("src_endpoint", {}).get("port") == port)]

    @staticmethod
    def _is_open_tunnel(event):
        return event.get("status_code", "").startswith("allow.") and event.get("http_request", {}).get("http_method") == "CONNECT"

    @staticmethod
    def brief(event):
        """An event on one line, for people who look for what went wrong."""
        source, destination, url = (event.get(k, {}) for k in ("src_endpoint", "dst_endpoint", "http_request"))
        return " ".join(map(str, (
            event.get("status_code"), event.get("status_detail"), "from", source.get("ip"), source.get("port"),
            "to", destination.get("hostname"), destination.get("ip"), destination.get("port"),
            url.get("http_method"), url.get("url", {}).get("path"), event.get("http_response", {}).get("code"),
            event.get("unmapped", {}).get("eclusa", {}).get("recovered", ""))))

    def report(self):
        lines = [f"$ {' '.join(self.words)}", f"user {self.user}, status {self.status}",
                 "stdout: " + self.stdout.decode("utf-8", "replace")[:3000],
                 "stderr: " + self.stderr[:3000], f"audit, {len(self.events)} events:"]
        return "\n".join(lines + ["  " + self.brief(e) for e in self.events[:25]])


class Launch:
    """How to start eclusa in a lab: words, environment, folders."""

    def __init__(self, lab, args, user=None, env=None, audit_dir=None, before=(), eclusa=None):
        """@user: None = root, else a uid. @before: words of a command that runs the rest. @eclusa: another copy."""
        self.user = user
        self.audit_dir = audit_dir or tempfile.mkdtemp(prefix="audit-", dir=lab.folder)
        self.state_dir = tempfile.mkdtemp(prefix="state-", dir=lab.folder)
        if user:
            for folder in (self.audit_dir, self.state_dir):
                os.chown(folder, user, user)
            if not eclusa:
                eclusa = os.path.join(lab.folder, "bin", "eclusa")
                if not os.path.exists(eclusa):
                    install(os.path.dirname(eclusa))
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all", "--"] if user else []
        self.words = lab.host.command(*before, *as_user, eclusa or program(), *args)
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.state_dir,
                    "XDG_STATE_HOME": self.state_dir, **(env or {})}

    def popen(self, **more):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.words, env=self.env, cwd=self.state_dir, **{**options, **more})


def network_args(lab, audit_dir, policy=True):
    """@policy: True = the bench's, a path, or a list of --allow rules."""
    rules = ["--policy", lab.policy] if policy is True else ["--policy", policy] if isinstance(policy, str) else [
        word for rule in policy for word in ("--allow", rule)]
    return [*rules, "--upstream-ca", lab.certificates.ca_file, "--resolver", "203.0.113.53:53", "--audit-dir", audit_dir]


def run_eclusa(lab, args, command, policy=True, user=None, timeout=200, data=None, **launch):
    """`eclusa run --json` with @args and the program @command, as @user; @policy False: no network is asked for."""
    audit_dir = launch.pop("audit_dir", None) or tempfile.mkdtemp(prefix="audit-", dir=lab.folder)
    network = network_args(lab, audit_dir, policy) if policy else ["--audit-dir", audit_dir]
    patience = [] if "--timeout" in args else ["--timeout", "120s"]  # 15 s are little on a busy machine
    words = ["run", "--json", *network, *patience, *args, "--", *command]
    start = Launch(lab, words, user=user, audit_dir=audit_dir, **launch)
    if user:
        os.chown(audit_dir, user, user)
    marks = lab.world.marks()
    process = start.popen(stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL)
    try:
        stdout, stderr = process.communicate(data, timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        stderr += b"\n(the test gave up waiting)"
    run = Run(start.words, user, process.returncode, stdout, stderr.decode("utf-8", "replace"), audit_dir)
    lab.runs.append(run)
    lab.world.settle(marks)
    assert "Sanitizer" not in run.stderr and "runtime error:" not in run.stderr, run.report()  # of a SAN=1 build
    return run
