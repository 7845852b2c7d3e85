"""`eclusa top`: what is live, as JSON and on a terminal, which nothing in a log drives and which is left as it was."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import uuid

import pytest

from lab.alone import Alone, Client, allow, fetch, policy
from lab.eclusa import USER_UID, install, program
from lab.events import DEADLINE, wait_until

RULES = policy(allow("allowed.test:80,443 GET /**"))
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e\n\x9b31mx<script>"
# What top may send: show and clear the screen, the cursor, home, to the ends, bold and plain.
SEQUENCES = re.compile(rb"\x1b(?:\[\?1049[hl]|\[\?25[hl]|\[2J|\[H|\[K|\[J|\[1m|\[0m)")


def top(*args, binary=None, prefix=(), status=0):
    done = subprocess.run([*prefix, binary or program(), "top", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    assert done.returncode == status, done
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr
    return done.stdout if status == 0 else done.stderr.decode()


def binary_for_users(lab):
    """Where a proxy of an ordinary user may be running from already."""
    path = os.path.join(lab.folder, "bin", "eclusa")
    return path if os.path.exists(path) else install(os.path.dirname(path))


def pictured(*args, **kw):
    return json.loads(top("--once", "--json", *args, **kw))


def made_log(folder, hosts, name="20261129T000000-sb-hostile"):
    """A folder as one run has it that goes on."""
    os.makedirs(os.path.join(folder, "open"), exist_ok=True)
    path = os.path.join(folder, name + ".jsonl")
    with open(path, "a", encoding="utf-8") as file:
        for host in hosts:
            event = {"class_uid": 4002, "time": 1795961863123, "status_code": "deny.default" + host, "action_id": 2,
                     "metadata": {"uid": str(uuid.uuid4()), "labels": ["profile:" + host]}, "src_endpoint": {"uid": "sb-" + host},
                     "dst_endpoint": {"hostname": host}, "traffic": {"bytes_out": 1, "bytes_in": 2}, "unmapped": {"eclusa": {}}}
            file.write(json.dumps(event) + "\n")
    link = os.path.join(folder, "open", name)
    if not os.path.exists(link):
        os.link(path, link)
    return path


def test_live_sandboxes_and_their_counts(lab, machine, who):
    alone = Alone(lab, machine, RULES, user=who)
    prefix = ["setpriv", f"--reuid={who}", f"--regid={who}", "--clear-groups"] if who else []
    binary = binary_for_users(lab) if who else None

    def row():
        found = pictured("--audit-dir", alone.audit, binary=binary, prefix=prefix)["sandboxes"]
        return found[0] if found else {}

    with Client(alone) as client:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/x")[0] == 200
        assert fetch(alone, "denied.test", "/no") == 403
        wait_until(lambda: row().get("denied") == 1 and row().get("allowed") == 1, "both are counted")
        wait_until(lambda: row().get("open") == 1, "only the tunnel is open")
    assert row()["last_denied"] == "deny.default denied.test" and row()["profile"] == "bench"
    wait_until(lambda: row().get("open") == 0, "it is over")
    wait_until(lambda: row()["allowed"] == 2 and row()["denied"] == 1, "the tunnel, too")
    events = [e for e in alone.events() if "action_id" in e and not e["unmapped"]["eclusa"].get("open")]
    assert row()["bytes_out"] == sum(e["traffic"]["bytes_out"] for e in events)
    assert alone.end() == 0
    assert pictured("--audit-dir", alone.audit, binary=binary, prefix=prefix)["sandboxes"] == [], "it is not live anymore"


def test_another_user_sees_nothing(lab):
    folder = tempfile.mkdtemp(dir=lab.folder)
    made_log(folder, ["x.test"])
    binary = binary_for_users(lab)
    says = top("--once", "--audit-dir", folder, binary=binary, prefix=["setpriv", f"--reuid={USER_UID}", "--clear-groups"], status=2)
    assert "Permission denied" in says


def test_a_name_that_got_its_address_is_no_verdict(tmp_path):
    path = made_log(str(tmp_path), ["denied.test"])
    with open(path, encoding="utf-8") as file:
        denied = json.loads(file.read())
    with open(path, "a", encoding="utf-8") as file:
        for action in (1, 2):
            event = {**denied, "class_uid": 4003, "action_id": action, "metadata": {**denied["metadata"], "uid": str(uuid.uuid4())}}
            file.write(json.dumps(event) + "\n")
    row = pictured("--audit-dir", str(tmp_path))["sandboxes"][0]
    assert (row["allowed"], row["denied"]) == (0, 2)


def test_a_log_does_not_drive_what_is_printed(tmp_path):
    made_log(str(tmp_path), [HOSTILE])
    text = top("--once", "--audit-dir", str(tmp_path))
    assert set(text) <= set(range(0x20, 0x7f)) | {0x0a}
    assert len(text.splitlines()) == 5, "no line of its own"
    raw = top("--once", "--json", "--audit-dir", str(tmp_path))
    assert set(raw) <= set(range(0x20, 0x7f)) | {0x0a}
    assert "\\x1b" in json.loads(raw)["sandboxes"][0]["last_denied"]


def test_sinks_are_shown_and_drive_nothing_either(tmp_path):
    made_log(str(tmp_path), ["x.test"])
    state = tmp_path / "state"
    state.mkdir()
    (state / "metrics.json").write_text(json.dumps({"version": 1, "sinks": [
        {"name": "siem", "kind": "syslog", "state": "retrying", "lag_seconds": 77, "lag_events": 12, "lag_bytes": 3456,
         "delivered": 9, "quarantined": 1, "lost": 0, "failure": HOSTILE}]}))
    text = top("--once", "--audit-dir", str(tmp_path), "--export-state", str(state))
    assert set(text) <= set(range(0x20, 0x7f)) | {0x0a}
    assert re.search(rb"^siem +syslog +retrying +77s +12 +3\.3k +9 +1 +0 ", text, re.M), text
    assert pictured("--audit-dir", str(tmp_path), "--export-state", str(state))["sinks"][0]["lag_events"] == 12
    (state / "metrics.json").write_text("no JSON")
    assert "metrics.json is none" in top("--once", "--audit-dir", str(tmp_path), "--export-state", str(state), status=2)


@pytest.mark.parametrize("args", [("--json",), ("word",), ("--audit-dir",), ("--once", "--audit-dir", "/nonexistent"),
                                  ("--audit-dir", "x", "--audit-dir", "y"), ()])
def test_wrong_usage(args):
    assert top(*args, status=2).startswith("eclusa top: ")


class Screen:
    def __init__(self, *args, rows=12, columns=70):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([program(), "top", *args], stdin=self.slave, stdout=self.slave, stderr=subprocess.PIPE,
                                        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.data = b""

    def wait(self, text, since=0):
        deadline = time.monotonic() + DEADLINE
        while text not in self.data[since:]:
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, (text, self.data)
            self.data += os.read(self.master, 65536)
        return len(self.data)

    def end(self):
        status = self.process.wait(DEADLINE)
        assert self.process.stderr.read() == b""
        self.wait(b"\x1b[?1049l")
        after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        assert after == self.before, "the terminal is as it was"
        return status


@pytest.mark.parametrize("way", ["q", "ctrl-c", "term"])
def test_a_terminal_gets_only_our_sequences_and_is_left_as_it_was(tmp_path, way):
    path = made_log(str(tmp_path), [HOSTILE] + [f"h{n}.test" for n in range(40)])
    screen = Screen("--audit-dir", str(tmp_path))
    at = screen.wait(b"41 sandboxes")
    os.write(screen.master, b"s")
    at = screen.wait(b"by denied", at)
    made_log(str(tmp_path), ["new.test"])
    screen.wait(b"42 sandboxes", at)
    if way == "term":
        screen.process.send_signal(signal.SIGTERM)
    else:
        os.write(screen.master, b"q" if way == "q" else b"\x03")
    assert screen.end() == 0
    left = SEQUENCES.sub(b"", screen.data)
    assert set(left) <= set(range(0x20, 0x7f)) | {0x0a, 0x0d}, left
    frames = screen.data.split(b"\x1b[H")[1:]
    for frame in frames:
        lines = SEQUENCES.sub(b"", frame).split(b"\r\n")
        assert len(lines) <= 12 and all(len(line) <= 70 for line in lines), frame
    assert os.path.exists(path)
