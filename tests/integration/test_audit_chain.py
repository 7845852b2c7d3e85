"""
The chain of the log: what anybody changes, drops, moves or takes away shows, `eclusa audit verify` says where, and a signature
binds what a whole new chain would hide.
"""
import glob
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile

import pytest

from lab.eclusa import Launch, is_released, network_args, program, read_audit, run_eclusa
from lab.events import DEADLINE, wait_until
from lab.world import ORIGIN

PROGRAM = """
import urllib.request
for n in range(6):
    urllib.request.urlopen(f"https://allowed.test/chain-{n}").read()
    try:
        urllib.request.urlopen(f"https://denied.test/{n}")
    except OSError:
        pass
"""


def verify(folder, *words):
    done = subprocess.run([program(), "audit", "verify", "--json", "--audit-dir", folder, *words], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr.decode()


def findings(folder, *words):
    status, said = verify(folder, *words)
    found = [(f["kind"], f["file"], f.get("line", 0)) for f in said["findings"]]
    assert status == (1 if found else 0), said
    return found


def logs(folder):
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(folder, "[0-9]*.jsonl")))


class Log:
    """A folder with three runs, and how to spoil a copy of it."""

    def __init__(self, lab, folder, key):
        self.lab, self.folder, self.key = lab, folder, key

    def copy(self):
        made = tempfile.mkdtemp(prefix="audit-copy-", dir=self.lab.folder)
        shutil.rmtree(made)
        shutil.copytree(self.folder, made)
        return made

    def biggest(self):
        return max(logs(self.folder), key=lambda name: os.path.getsize(os.path.join(self.folder, name)))


@pytest.fixture(scope="module")
def log(lab):
    folder = tempfile.mkdtemp(prefix="audit-chain-", dir=lab.folder)
    for number in range(3):
        command = ["/usr/bin/python3", "-c", PROGRAM] if number == 1 else ["/bin/true"]
        run = run_eclusa(lab, [], command, policy=[f"allowed.test GET /** addr={ORIGIN}/32"], audit_dir=folder)
        assert run.status == 0, run.report()
    key = os.path.join(lab.folder, "audit-key.pub")
    with open(key, "wb") as file:
        subprocess.run([program(), "audit", "keygen"], stdout=file, stderr=subprocess.DEVNULL, check=True)
    return Log(lab, folder, key)


def lines_of(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read().splitlines(keepends=True)


def write_lines(folder, name, lines):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"".join(lines))


def test_what_nobody_touched_is_sound(log):
    status, said = verify(log.folder, "--pub", log.key)
    assert (status, said["findings"], said["files"], said["chains"]) == (0, [], 3, 3)
    assert said["checkpoints"] >= 3 and said["unsigned_chains"] == 1, "only the last run's end is in no later signature"
    status, said = verify(log.folder, "--pub", log.key, "--signed")
    assert status == 1 and said["findings"] == []


def test_hash_and_signature_can_be_checked_by_hand(log, tmp_path):
    """As docs/audit.md says: sha256sum and openssl need nothing of ours."""
    name = log.biggest()
    before = "0" * 64
    for line in lines_of(log.folder, name):
        body, rest = line.rstrip(b"\n").rsplit(b',"hash":"', 1)
        ours = json.loads(line)["unmapped"]["eclusa"]
        assert rest == ours["hash"].encode() + b'"}}}' and hashlib.sha256(body).hexdigest() == ours["hash"]
        assert ours["prev"] == before
        before = ours["hash"]
    (c,) = [e["unmapped"]["eclusa"]["checkpoint"] for e in read_audit(log.folder)
            if e["status_code"] == "audit.checkpoint" and e["unmapped"]["eclusa"]["chain"] in name]
    text = (f"eclusa checkpoint 1\nchain {c['of']}\nfirst {c['first']}\nlast {c['last']}\nhead {c['head']}\ntime {c['time']}\n"
            f"policy {c['policy']}\nclock {c['clock']} {c['clock_error_us']}\n")
    (tmp_path / "text").write_text(text)
    (tmp_path / "sig").write_bytes(bytes.fromhex(c["signature"]))
    check = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", log.key, "-rawin", "-in", tmp_path / "text", "-sigfile", tmp_path / "sig"]
    assert subprocess.run(check, stdout=subprocess.DEVNULL, check=False).returncode == 0
    (tmp_path / "text").write_text(text.replace("last ", "last 1"))
    assert subprocess.run(check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0


def test_one_flipped_byte_anywhere_is_found_where_it_is(log):
    folder, name = log.copy(), log.biggest()
    whole = b"".join(lines_of(folder, name))
    for at in range(7, len(whole), 173):
        spoiled = bytearray(whole)
        spoiled[at] ^= 1
        write_lines(folder, name, [bytes(spoiled)])
        line = whole[:at].count(b"\n") + 1
        found = findings(folder)
        assert found, f"byte {at}"
        assert found[0][1] == name and found[0][2] in (line, line + 1), f"byte {at} of line {line}: {found}"
    write_lines(folder, name, [whole])
    assert findings(folder) == [], "the twin"


def test_a_dropped_line_and_two_that_changed_places(log):
    folder, name = log.copy(), log.biggest()
    whole = lines_of(folder, name)
    write_lines(folder, name, whole[:4] + whole[5:])
    assert findings(folder)[0] == ("order", name, 5)
    write_lines(folder, name, [*whole[:4], whole[5], whole[4], *whole[6:]])
    assert findings(folder)[0] == ("order", name, 5)
    write_lines(folder, name, [*whole[:4], whole[4], whole[4], *whole[5:]])
    assert findings(folder)[0] == ("order", name, 6)
    write_lines(folder, name, whole[1:])
    assert findings(folder)[0][:2] == ("order", name)


def test_a_tail_that_was_cut_off(log):
    folder, name = log.copy(), log.biggest()
    whole = lines_of(folder, name)
    write_lines(folder, name, whole[:-1])
    assert findings(folder) == [("short", name, len(whole) - 1)]
    write_lines(folder, name, [*whole[:-1], whole[-1][:200]])
    assert [kind for kind, _, _ in findings(folder)] == ["torn", "short"]
    write_lines(folder, name, [])
    assert ("short", name, 0) in findings(folder)


def test_a_file_that_is_gone_and_one_that_is_an_older_copy(log):
    folder, name = log.copy(), log.biggest()
    whole = lines_of(folder, name)
    os.unlink(os.path.join(folder, name))
    assert findings(folder) == [("missing", name, 0)]
    write_lines(folder, name, whole[:3])  # as it was when the run had just begun
    assert findings(folder) == [("short", name, 3)]
    other = next(n for n in logs(folder) if n != name)
    shutil.copy(os.path.join(folder, other), os.path.join(folder, name))
    assert ("replaced", name, 1) in findings(folder)
    write_lines(folder, name, whole)
    shutil.copy(os.path.join(folder, name), os.path.join(folder, "20000101T000000Z-sb-x.jsonl"))
    assert ("unlisted", "20000101T000000Z-sb-x.jsonl", 0) in findings(folder)


def test_the_index_is_a_chain_itself(log):
    folder = log.copy()
    whole = lines_of(folder, "index.jsonl")
    os.unlink(os.path.join(folder, "index.jsonl"))
    assert findings(folder) == [("missing", "index.jsonl", 0)]
    write_lines(folder, "index.jsonl", whole[:2] + whole[3:])
    assert findings(folder)[0] == ("order", "index.jsonl", 3)
    write_lines(folder, "index.jsonl", [whole[0].replace(b'"last":1', b'"last":2'), *whole[1:]])
    assert findings(folder)[0] == ("changed", "index.jsonl", 1)
    write_lines(folder, "index.jsonl", whole[:2])  # an older copy of it: later logs say that they saw more
    kinds = [kind for kind, _, _ in findings(folder)]
    assert kinds.count("unlisted") == 2 and "index" in kinds
    # By the index: names of one second are in no order.
    last = [line for line in whole if b'"kind":"opened"' in line][-1].decode()
    for name in logs(folder):  # and with every file but the last gone, too
        if name not in whole[0].decode() and name not in last:
            os.unlink(os.path.join(folder, name))
    assert ("index", "index.jsonl", 0) in findings(folder), last


def reseal(lines, closing):
    """What somebody does who can write the files and has no key: a whole new chain."""
    made, before = [], "0" * 64
    for line in lines:
        body = line.split(b',"prev":"')[0] + b',"prev":"' + before.encode() + b'"'
        before = hashlib.sha256(body).hexdigest()
        made.append(body + b',"hash":"' + before.encode() + b'"' + closing + b"\n")
    return made


def forge(folder, name, spoil):
    """Change a log's lines, then make its chain and the index anew, so that all hashes fit."""
    lines = reseal([spoil(line) for line in lines_of(folder, name)], b"}}}")
    write_lines(folder, name, lines)
    heads = {e["metadata"]["sequence"]: e["unmapped"]["eclusa"]["hash"] for e in map(json.loads, lines)}
    index = []
    for line in lines_of(folder, "index.jsonl"):
        entry = json.loads(line)
        index.append(line.replace(entry["head"].encode(), heads[entry["last"]].encode()) if entry["segment"] == name else line)
    write_lines(folder, "index.jsonl", reseal(index, b"}"))


def test_a_chain_made_anew_is_told_by_its_signature(log):
    folder, name = log.copy(), logs(log.folder)[-1]
    forge(folder, name, lambda line: line.replace(b'"mode":"enforce"', b'"mode":"observe"'))
    kinds = {kind for kind, _, _ in findings(folder, "--pub", log.key)}
    assert "signature" in kinds, kinds
    forge(folder, name, lambda line: line.replace(b'"key":"', b'"kez":"'))  # no signature instead of a bad one
    status, said = verify(folder, "--pub", log.key, "--signed")
    assert status == 1 and said["unsigned_chains"] >= 1


def test_another_key_signs_nothing_here(log, tmp_path):
    other = tmp_path / "other.pem"
    subprocess.run([program(), "audit", "keygen", "--key", other], stdout=open(tmp_path / "other.pub", "wb"), stderr=subprocess.DEVNULL,
                   check=True)
    assert os.stat(other).st_mode & 0o777 == 0o600
    status, said = verify(log.folder, "--pub", str(tmp_path / "other.pub"))
    assert status == 1 and {f["kind"] for f in said["findings"]} == {"signature", "unsigned"}
    os.chmod(other, 0o640)
    refused = subprocess.run([program(), "audit", "keygen", "--key", other], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    assert refused.returncode == 2 and b"chmod 600" in refused.stderr


def test_a_folder_that_was_emptied_is_not_sound(log, tmp_path):
    for words in ((), ("--pub", log.key)):
        status, said = verify(str(tmp_path), *words)
        assert (status, said["sound"], said["lines"], said["findings"]) == (1, False, 0, []), words
    assert verify(log.folder)[0] == 0


def test_what_can_not_be_read_is_another_status(log, tmp_path):
    assert verify(str(tmp_path / "none"))[0] == 2
    assert verify(log.folder, str(tmp_path / "none.jsonl"))[0] == 2
    assert verify(log.folder, "--pub", "/dev/null")[0] == 2
    assert verify(log.folder, "--from", "x")[0] == 2
    assert verify(log.folder, "--signed")[0] == 2
    assert verify(log.folder, os.path.join(log.folder, log.biggest()))[0] == 0, "the twin"


@pytest.mark.parametrize("pattern", ["", "/*.jsonl"], ids=["the-folder", "all-files-of-it"])
def test_a_folder_among_the_files_is_no_finding_and_its_option_is_named(log, pattern):
    words = [program(), "audit", "verify", *sorted(glob.glob(log.folder + pattern))]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (2, "") and said.stderr.endswith(f": --audit-dir {log.folder}\n"), said.stderr


def test_lines_before_a_number_are_not_missed(log):
    folder, name = log.copy(), log.biggest()
    whole = lines_of(folder, name)
    write_lines(folder, name, [whole[0], whole[1].replace(b"enforce", b"enforcf"), *whole[2:]])
    assert findings(folder)[0] == ("changed", name, 2)
    assert findings(folder, "--from", "3") == []


def test_a_killed_run_continues_its_chain(lab, who):
    """The next start writes its end behind what it left, and the index has it."""
    audit = tempfile.mkdtemp(prefix="audit-killed-", dir=lab.folder)
    os.chown(audit, who or 0, who or 0)
    words = ["run", "--json", *network_args(lab, audit, ["allowed.test"]), "--", "/bin/sleep", "60"]
    process = Launch(lab, words, user=who, audit_dir=audit).popen()
    wait_until(lambda: read_audit(audit), "the start is on record")
    status, said = verify(audit)
    assert (status, said["unfinished"], said["findings"]) == (0, 1, [])
    (name,) = logs(audit)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE)
    wait_until(lambda: is_released(audit), "its recorder is gone, which may have had something to write")
    with open(os.path.join(audit, name), "ab") as file:
        file.write(b'{"class_uid":4002,"class_name":"HTTP')  # torn, as by a crash of the machine

    def next_start():
        run = run_eclusa(lab, [], ["/bin/true"], policy=False, user=who, audit_dir=audit)
        assert run.status == 0, run.report()
        return verify(audit)[1]["unfinished"] == 0
    wait_until(next_start, "the killed run is completed")
    assert findings(audit) == []
    events = [json.loads(line) for line in lines_of(audit, name)]
    assert [e["metadata"]["sequence"] for e in events] == list(range(1, len(events) + 1))
    assert any(e["unmapped"]["eclusa"].get("torn") for e in events), "the chain says so"
    assert any(b'"recovered":true' in line and name.encode() in line for line in lines_of(audit, "index.jsonl"))


def test_many_at_once_share_one_index(lab, who):
    audit = tempfile.mkdtemp(prefix="audit-many-", dir=lab.folder)
    os.chown(audit, who or 0, who or 0)
    started = [Launch(lab, ["run", "--json", "--audit-dir", audit, "--", "/bin/true"], user=who, audit_dir=audit).popen() for _ in range(24)]
    for process in started:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert findings(audit) == []
    assert len(logs(audit)) == 24 and len(lines_of(audit, "index.jsonl")) == 48


def test_a_user_has_an_own_key(lab, who):
    run = run_eclusa(lab, [], ["/bin/true"], policy=[f"allowed.test GET /** addr={ORIGIN}/32"], user=who)
    assert run.status == 0, run.report()
    (checkpoint,) = [e for e in run.events if e["status_code"] == "audit.checkpoint"]
    root = subprocess.run([program(), "audit", "keygen"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True).stderr.decode()
    key = checkpoint["unmapped"]["eclusa"]["checkpoint"]["key"]
    assert len(key) == 16 and (key in root) == (not who)
