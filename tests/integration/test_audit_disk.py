"""
A disk that is full (case I04): nothing passes without a record, the denials are on record all the same, one alarm tells the operator,
and it goes on by itself once there is room.
"""
import os
import subprocess
import tempfile
import threading

from lab.eclusa import Launch, network_args, program, read_audit
from lab.events import DEADLINE, wait_until
from lab.world import ORIGIN

# Asks again and again, until it was served, then refused, then served again. Each answer is a line.
PROGRAM = """
import sys, time, urllib.error, urllib.request
seen, n = [], 0
end = time.monotonic() + 60
while seen != [200, 503, 200] and time.monotonic() < end:
    n += 1
    try:
        status = urllib.request.urlopen(f"https://allowed.test/disk-{n}").status
    except urllib.error.HTTPError as error:
        status = error.code
    except OSError as error:
        status = 503 if "503" in str(error) else 0
    if not seen or seen[-1] != status:
        seen.append(status)
        print(status, n, flush=True)
"""
# 12 MiB of it are the ring's. What is in it is kept for the test, which has no way into the mount namespace afterwards.
SCRIPT = 'mount -t tmpfs -o size=16m,mode=0755 none "$1"; chown "$2" "$1"; from=$1 to=$3; shift 3; "$@"; status=$?; cp -a "$from/." "$to"; exit $status'


class Streams:
    """Lines of both streams of a process, as they come."""

    def __init__(self, process):
        self.out, self.err = [], []
        self.readers = [threading.Thread(target=self.read, args=ends, daemon=True)
                        for ends in ((process.stdout, self.out), (process.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    def join(self):
        """Until the last one was read."""
        for reader in self.readers:
            reader.join(DEADLINE)

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.append(line.decode("utf-8", "replace").rstrip("\n"))


def fill(path):
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65536))
        except OSError:
            pass
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass


def test_I04_a_full_disk_denies_until_there_is_room_again(lab, who):
    folder, kept = (tempfile.mkdtemp(prefix=prefix, dir=lab.folder) for prefix in ("audit-disk-", "audit-kept-"))
    os.chmod(kept, 0o777)
    words = ["run", *network_args(lab, folder, [f"allowed.test GET /** addr={ORIGIN}/32"]), "--timeout", "80s", "--",
             "/usr/bin/python3", "-c", PROGRAM]
    before = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", SCRIPT, "sh", folder, str(who or 0), kept]
    mark = lab.origin.connections.mark()
    process = Launch(lab, words, user=who, audit_dir=folder, before=before).popen()
    said = Streams(process)
    inside = f"/proc/{process.pid}/root{folder}"
    wait_until(lambda: any(line.startswith("200 ") for line in said.out), "the first answer")
    fill(f"{inside}/filler")
    wait_until(lambda: any(line.startswith("503 ") for line in said.out), "a refusal")
    passed = len(lab.origin.requests(mark))
    wait_until(lambda: any("audit-not-writable" in line for line in said.err), "the alarm")
    assert len(lab.origin.requests(mark)) == passed, "U: nothing passes while nothing can be recorded"
    os.unlink(f"{inside}/filler")
    assert process.wait(100) == 0, (said.out, said.err)
    said.join()
    assert [line.split()[0] for line in said.out] == ["200", "503", "200"], said.out
    alarms = [line for line in said.err if line.startswith("eclusa-proxy: ")]
    assert [("not-writable" in a, "writable-again" in a) for a in alarms] == [(True, False), (False, True)], alarms
    events = read_audit(kept)
    states = [e["status_code"] for e in events if e["class_uid"] == 6002 and e["status_code"] != "audit.checkpoint"]
    assert states == ["deny.audit-full", "audit.recovered"], states
    refused = [e for e in events if e["status_code"] == "deny.audit-full" and e["class_uid"] == 4002]
    assert refused and all(e["action_id"] == 2 for e in refused), "L: denials have room of their own"
    logged = {e["http_request"]["url"].get("path") for e in events if e.get("action_id") == 1 and "url" in e.get("http_request", {})}
    seen = {r.target for r in lab.origin.requests(mark)}
    assert seen <= logged, f"L: {sorted(seen - logged)}"
    assert events[-1]["status_code"] == "sandbox.exit"
    sound = subprocess.run([program(), "audit", "verify", "--audit-dir", kept], stdout=subprocess.PIPE, check=False)
    assert sound.returncode == 0, sound.stdout.decode()
