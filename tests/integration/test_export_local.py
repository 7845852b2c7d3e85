"""
Sinks on this host: a file that others rotate, standard output, the journal. And what is the exporter's own: its user and rights, its
state, files of the log that go on, come back, or are gone.
"""
import glob
import json
import os
import re
import signal
import subprocess
import tempfile

import pytest

from lab.events import wait_until
from lab.exporter import Export, exporter
from lab.made_log import Chain, MadeLog
from lab.syslog_receivers import JOURNALD, Journal, Journald


@pytest.fixture(name="export")
def make_export():
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    folder = tempfile.TemporaryDirectory()  # that another user may look into
    made = Export(folder.name)
    os.makedirs(os.path.join(made.folder, "out"))
    os.chmod(os.path.join(made.folder, "out"), 0o777)
    yield made
    print(made.said())
    made.close()
    folder.cleanup()


def out(export, name="out.jsonl"):
    return os.path.join(export.folder, "out", name)


def uids_of(*paths):
    found = []
    for path in paths:
        with open(path, "rb") as file:
            whole = file.read().rpartition(b"\n")[0]  # a line that is being written is none yet
        found += [json.loads(line)["metadata"]["uid"] for line in whole.splitlines()]
    return found


def to_file(export, *settings):
    export.configure(["sink s file", f"path {out(export)}", *settings])


# ---- the file


def test_a_file_gets_the_lines_of_the_log(export):
    to_file(export)
    export.log.add(30)
    assert export.once().returncode == 0
    with open(out(export), "rb") as got, open(export.log.segment.path, "rb") as log:
        assert got.read() == log.read()
    assert os.stat(out(export)).st_mode & 0o777 == 0o640


def test_a_file_that_is_rotated_is_followed(export):
    to_file(export)
    export.start()
    for number in range(5):
        export.log.add(10)
        wait_until(lambda: os.path.exists(out(export)) and len(uids_of(out(export))) == 10, lambda: export.said())
        os.rename(out(export), out(export, f"out.jsonl.{number}"))
    assert uids_of(*sorted(glob.glob(out(export, "out.jsonl.*")))) == export.log.uids


def test_a_last_line_that_was_torn_stays_one_line(export):
    to_file(export)
    with open(out(export), "w", encoding="utf-8") as file:
        file.write('{"torn')
    os.chmod(out(export), 0o666)
    export.log.add(2)
    assert export.once().returncode == 0
    with open(out(export), encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert lines[0] == '{"torn' and [json.loads(line)["metadata"]["uid"] for line in lines[1:]] == export.log.uids


def test_a_link_in_the_files_place_is_not_followed(export):
    to_file(export)
    os.symlink(os.path.join(export.folder, "elsewhere"), out(export))
    export.log.add(1)
    export.start()
    export.wait_metrics(lambda m: m.get("retries", 0) >= 2, "it is refused")
    assert not os.path.exists(os.path.join(export.folder, "elsewhere"))


def test_a_file_in_csv_has_the_names_of_its_columns_once(export):
    to_file(export, "format csv")
    export.log.add(3)
    assert export.once().returncode == 0
    export.log.add(3)
    assert export.once().returncode == 0
    with open(out(export), encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert len(lines) == 7 and sum(line == lines[0] for line in lines) == 1


# ---- standard output


def test_standard_output(export):
    export.configure(["sink s stdout"])
    export.log.add(50)
    done = export.once()
    assert [json.loads(line)["metadata"]["uid"] for line in done.stdout.splitlines()] == export.log.uids


def test_standard_output_that_nobody_reads_holds_the_sink_back_alone(export):
    export.configure(["sink o stdout"], ["sink s file", f"path {out(export)}"])
    read, write = os.pipe()
    export.log.add(2000)
    export.start(stdout=write)
    os.close(write)
    wait_until(lambda: os.path.exists(out(export)) and len(uids_of(out(export))) == 2000, lambda: export.said())
    text = b""
    while text.count(b"\n") < 2000:
        text += os.read(read, 65536)
    assert [json.loads(line)["metadata"]["uid"] for line in text.splitlines()] == export.log.uids
    os.close(read)
    assert export.end() == 0


# ---- the journal


@pytest.fixture(name="journal")
def make_journal(export):
    made = Journal(out(export, "journal"))
    export.configure(["sink s journald", f"socket {made.path}", "timeout 2s"])
    yield made
    made.stop()


def test_the_journal_gets_fields(export, journal):
    export.log.add(40)
    assert export.once().returncode == 0
    journal.entries.wait(lambda e: len(e) == 40, "all entries")
    assert journal.uids() == export.log.uids
    first = journal.entries.since()[0]
    assert first["PRIORITY"] == "4" and first["SYSLOG_IDENTIFIER"] == "eclusa" and first["ECLUSA_CODE"] == "deny.path"
    assert json.loads(first["MESSAGE"])["metadata"]["uid"] == first["ECLUSA_UID"]


def test_an_entry_that_no_datagram_holds_goes_as_a_sealed_file(export, journal):
    with open("/proc/sys/net/core/wmem_max", encoding="utf-8") as file:
        most = int(file.read())
    if most > 1 << 22:
        pytest.skip("this host's datagrams are larger than lines")
    export.log.add(1, note="n" * 60000)
    export.log.add(300, note="n" * 30000)
    assert export.once().returncode == 0
    journal.entries.wait(lambda e: len(e) == 301, "all entries")
    assert journal.uids() == export.log.uids


def test_a_journal_that_comes_late_and_comes_again_misses_nothing(export, journal):
    journal.stop()
    export.log.add(20)
    export.start()
    export.wait_metrics(lambda m: m.get("retries", 0) >= 2, "it tries again")
    journal.start()
    journal.entries.wait(lambda e: len(e) == 20, "all entries")
    journal.stop()
    export.log.add(20)
    export.wait_metrics(lambda m: m.get("lag_events", 0) > 0, "it waits")
    journal.start()
    journal.entries.wait(lambda e: len(e) == 40, "all entries")
    assert list(dict.fromkeys(journal.uids())) == export.log.uids


@pytest.fixture(name="journald")
def make_journald(export):
    if not os.path.exists(JOURNALD):
        pytest.skip("this host has no systemd-journald")
    made = Journald(os.path.join(export.folder, "out", "j"))
    export.configure(["sink s journald", f"socket {made.path}", "timeout 1s"])
    yield made
    made.stop()


def test_journald_itself_has_every_event(export, journald):
    export.log.add(40)
    export.log.add(1, note="n" * 60000)
    assert export.once().returncode == 0
    wait_until(lambda: len(journald.entries()) == 41, journald.said)
    found = journald.entries()
    assert [e["ECLUSA_UID"] for e in found] == export.log.uids
    for entry in found:
        assert json.loads(entry["MESSAGE"])["metadata"]["uid"] == entry["ECLUSA_UID"] and entry["_TRANSPORT"] == "journal"
    assert found[0]["PRIORITY"] == "4" and found[0]["ECLUSA_CODE"] == "deny.path"


def test_journald_that_is_stopped_slow_and_started_again_has_every_event(export, journald):
    journald.stop()
    export.log.add(20)
    export.start()
    export.wait_metrics(lambda m: m.get("retries", 0) >= 2, "it tries again")
    journald.start()
    wait_until(lambda: len(journald.entries()) == 20, journald.said)
    journald.pause()
    export.log.add(3000)
    export.wait_metrics(lambda m: m.get("lag_events", 0) > 0, "it waits")
    journald.go_on()
    wait_until(lambda: len(set(journald.uids())) == 3020, journald.said)
    assert list(dict.fromkeys(journald.uids())) == export.log.uids


# ---- the exporter


def children(export):
    return [int(p) for p in subprocess.run(["pgrep", "-P", str(export.process.pid)], capture_output=True, text=True, check=False)
            .stdout.split()]


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return dict(re.findall(r"^(\w+):\s*(.*)$", file.read(), re.M))


def test_rights_are_those_that_are_needed(export):
    import pwd
    to_file(export)
    export.log.add(1)
    export.start()
    wait_until(lambda: os.path.exists(out(export)), lambda: export.said())
    nobody = str(pwd.getpwnam("nobody").pw_uid)
    first, sink = status_of(export.process.pid), status_of(children(export)[0])
    read_only = "%016x" % (1 << 2)  # CAP_DAC_READ_SEARCH
    assert first["Uid"].split() == [nobody] * 4 and sink["Uid"].split() == [nobody] * 4
    assert first["CapEff"] == first["CapPrm"] == read_only and first["NoNewPrivs"] == "1"
    for name in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert sink[name] == "0" * 16
    assert sink["NoNewPrivs"] == "1" and sink["Seccomp"] == "2"
    cursor = os.path.join(export.state, "s.cursor")
    wait_until(lambda: os.path.exists(cursor), export.said)
    assert os.stat(cursor).st_mode & 0o777 == 0o600


def test_root_has_to_say_whom_to_become(export):
    to_file(export)
    with open(export.config, encoding="utf-8") as file:
        text = file.read()
    for line, said in (("", "has no 'user NAME'"), ("user root\n", "is root"), ("user nobody-at-all\n", "there is none")):
        with open(export.config, "w", encoding="utf-8") as file:
            file.write(text.replace("user nobody\n", line))
        done = export.once()
        assert done.returncode == 1 and said in done.stderr, done.stderr


def test_a_state_folder_is_one_exporters(export):
    to_file(export)
    export.start()
    wait_until(lambda: os.path.exists(os.path.join(export.state, "metrics.json")), lambda: export.said())
    done = export.once()
    assert done.returncode == 1 and "another eclusa-export is using it" in done.stderr
    assert export.end() == 0


def test_a_state_folder_that_others_may_write_to_is_refused(export):
    to_file(export)
    os.makedirs(export.state)
    done = export.once()
    assert done.returncode == 1 and "belongs to somebody else: chown" in done.stderr
    os.chown(export.state, 65534, 65534)
    os.chmod(export.state, 0o777)
    done = export.once()
    assert done.returncode == 1 and "chmod go-w" in done.stderr


def test_a_damaged_cursor_is_told_and_nothing_is_sent(export):
    to_file(export)
    export.log.add(5)
    assert export.once().returncode == 0
    with open(os.path.join(export.state, "s.cursor"), "a", encoding="utf-8") as file:
        file.write("x\n")
    export.log.add(5)
    export.start()
    wait_until(lambda: "s.cursor in the state folder is damaged" in export.said(), lambda: export.said())
    assert uids_of(out(export)) == export.log.uids[:5]


def test_a_damaged_cursor_ends_what_is_to_end(export):
    to_file(export)
    export.log.add(5)
    assert export.once().returncode == 0
    with open(os.path.join(export.state, "s.cursor"), "a", encoding="utf-8") as file:
        file.write("x\n")
    done = export.once()
    assert done.returncode == 1 and "s.cursor in the state folder is damaged" in done.stderr


def test_a_sink_that_is_killed_is_started_again(export):
    to_file(export)
    export.start()
    for number in range(1, 4):
        export.log.add(10)
        wait_until(lambda: os.path.exists(out(export)) and len(set(uids_of(out(export)))) == 10 * number, lambda: export.said())
        pid = children(export)[0]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: children(export) not in ([], [pid]), lambda: export.said())
    export.all_arrive(lambda: uids_of(out(export)))


def has_ended(pid):
    """Also if nobody has waited for it yet: its parent is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_sinks_end_with_the_exporter_however_it_ends(export):
    to_file(export)
    for how in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        export.start()
        wait_until(lambda: children(export), "a sink")
        pid = children(export)[0]
        export.end(how)
        wait_until(lambda: has_ended(pid), "the sink ends")


def test_many_files_and_files_that_the_index_lacks(export):
    to_file(export)
    for _ in range(300):
        export.log.add(2)
        export.log.close()
    stray = Chain(os.path.join(export.log.folder, "20261129T999999Z-sb-stray.jsonl"), "sb-stray", "}}}")
    stray.append({"time": 1, "metadata": {"version": "1.8.0", "uid": "stray", "sequence": 1}, "unmapped": {"eclusa": {"mode": "x"}}})
    export.log.uids.append("stray")
    assert export.once().returncode == 0
    export.all_arrive(lambda: uids_of(out(export)))
    assert len(uids_of(out(export))) == 601
    assert export.cursor().count("segment ") == 1  # the stray one, which nobody closed
    assert export.once().returncode == 0 and len(uids_of(out(export))) == 601


def test_a_chain_that_goes_on_in_another_file_keeps_its_order(export):
    to_file(export, "batch-lines 3")
    export.log.add(50)
    first = export.log.segment
    export.log._entry("closed")
    second = Chain(first.path.replace("T000001Z", "T000002Z"), first.name, "}}}")
    second.sequence, second.head = first.sequence, first.head
    export.log.segment = second
    export.log.add(50)
    export.log._entry("opened")
    assert export.once().returncode == 0
    assert uids_of(out(export)) == export.log.uids


def test_what_is_no_file_of_the_log_holds_nothing_back(export):
    to_file(export)
    export.log.add(3)
    os.symlink("/etc/passwd", os.path.join(export.log.folder, "20261129T000009Z-sb-link.jsonl"))
    os.mkdir(os.path.join(export.log.folder, "20261129T000009Z-sb-folder.jsonl"))
    os.mkfifo(os.path.join(export.log.folder, "20261129T000009Z-sb-pipe.jsonl"))
    done = export.once()
    assert done.returncode == 0 and done.stderr.count("file-ignored") == 3, done.stderr
    assert uids_of(out(export)) == export.log.uids


def test_a_chain_in_files_that_no_index_has_keeps_its_order(export):
    to_file(export, "batch-lines 3")
    export.log.add(5)
    first = export.log.segment
    for number in range(2, 9):
        part = Chain(first.path.replace("T000001Z", f"T00000{number}Z"), first.name, "}}}")
        part.sequence, part.head = export.log.segment.sequence, export.log.segment.head
        export.log.segment = part
        export.log.add(5)
    os.unlink(export.log.index.path)
    assert export.once().returncode == 0
    assert uids_of(out(export)) == export.log.uids


@pytest.mark.parametrize("is_up", (True, False))
def test_a_folder_in_the_place_of_one_that_was_moved_away_is_read_from_its_beginning(export, is_up):
    to_file(export)
    for _ in range(3):
        export.log.add(2)
        export.log.close()
    if is_up:
        export.start()
        wait_until(lambda: os.path.exists(out(export)) and len(uids_of(out(export))) == 6, lambda: export.said())
    else:
        assert export.once().returncode == 0
    os.rename(export.log.index.path, os.path.join(export.folder, "index.jsonl"))
    made = MadeLog(os.path.join(export.folder, "other"))
    made.files = 100
    for _ in range(8):  # its index is longer than the one before
        made.add(2)
        made.close()
    for path in [*glob.glob(os.path.join(made.folder, "2*.jsonl")), made.index.path]:
        os.rename(path, os.path.join(export.log.folder, os.path.basename(path)))
    if is_up:
        assert export.end() == 0
    done = export.once()
    assert done.returncode == 0 and "index-replaced" in done.stderr + export.said()
    assert set(made.uids) <= set(uids_of(out(export)))
    assert export.once().stderr == ""


def test_a_file_that_is_closed_again_is_read_on(export):
    to_file(export)
    export.log.add(5)
    segment = export.log.segment
    export.log.close()
    assert export.once().returncode == 0 and export.once().returncode == 0
    assert "segment" not in export.cursor()
    export.log.segment = segment
    export.log.add(2)
    export.log.close()
    assert export.once().returncode == 0
    assert uids_of(out(export)) == export.log.uids


def test_a_file_that_is_gone_before_its_lines_were_delivered_is_counted(export):
    to_file(export)
    export.log.add(5)
    assert export.once().returncode == 0
    export.log.add(4)
    path = export.log.segment.path
    export.log.close()
    os.unlink(path)
    export.log.add(1)
    done = export.once()
    assert done.returncode == 0 and "file-lost" in done.stderr
    assert export.metrics()["lost"] == 4
    assert uids_of(out(export)) == export.log.uids[:5] + export.log.uids[9:]


def test_what_was_gone_before_a_sink_was_there_is_no_loss(export):
    to_file(export)
    export.log.add(5)
    path = export.log.segment.path
    export.log.close()
    os.unlink(path)
    export.log.add(1)
    done = export.once()
    assert done.returncode == 0 and "file-lost" not in done.stderr and export.metrics()["lost"] == 0


def test_a_torn_end_of_a_file_that_is_closed_is_its_end(export):
    to_file(export)
    export.start()
    export.log.add(3)
    with open(export.log.segment.path, "ab") as file:
        file.write(b'{"torn')
    wait_until(lambda: os.path.exists(out(export)) and len(uids_of(out(export))) == 3, lambda: export.said())
    export.log.close()
    export.wait_metrics(lambda m: m["state"] == "idle" and m["lag_bytes"] == 0, "done with it")
    assert export.end() == 0 and "segment" not in export.cursor()


# ---- the check


def check(export, *words):
    return subprocess.run([exporter(), "--check", export.config, *words], capture_output=True, text=True, timeout=60)


def test_a_check_says_what_is_wrong_and_where(export):
    to_file(export)
    assert (check(export).returncode, check(export).stdout) == (0, "")
    secret = out(export, "key")
    with open(secret, "w", encoding="utf-8") as file:
        file.write("no key\n")
    os.chmod(secret, 0o644)
    export.configure(["sink s syslog", "server h.test:1", f"ca {secret}", f"cert {secret}", f"key {secret}"])
    done = check(export)
    assert done.returncode == 1 and f"{export.config}:11:5: error: secret: key: {secret}" in done.stdout and "chmod 600" in done.stdout
    os.chmod(secret, 0o600)
    done = check(export)
    assert done.returncode == 1 and "no certificate in PEM" in done.stdout
    found = json.loads(check(export, "--json").stdout)
    assert found["errors"] == 1 and found["findings"][0]["code"] == "open"
    os.unlink(export.config)
    assert check(export).returncode == 2


def test_wrong_usage_is_told(export):
    for words in ([], ["--config"], ["--config", "a", "--check", "b"], ["--check", "a", "--once"], ["--config", "a", "--json"], ["x"]):
        done = subprocess.run([exporter(), *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, words
