"""
The tools that read the log: tail, grep, stats, export. On the log of real runs, against what Python reads in it; on lines whose texts try to be
more than text; and on files as crashes and other writers leave them.
"""
import collections
import csv
import io
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time

import pytest

from lab.eclusa import program, read_audit, run_eclusa
from lab.events import DEADLINE, wait_until
from lab.world import ORIGIN

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINES = (ROOT / "tests/cases/formats/lines.jsonl").read_bytes().splitlines(keepends=True)
FORMATS = ("ocsf", "ocsf-bare", "ecs", "cef", "leef", "csv")
DAY_MS = 1795910400000  # 2026-11-29
# What a terminal or an editor acts on: C0, DEL, C1, line separators, marks of direction.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
EVIL = "=1+1\x1b]0;owned\x07\x1b[2J\r\n\u2028\u202e\u0085CEF:0|x|y\\|z=1 src=1.2.3.4\tdst=5.6.7.8,\"q"
PROGRAM = """
import urllib.request
for n in range(4):
    urllib.request.urlopen(f"https://allowed.test/page-{n}").read()
    for url in (f"https://denied.test/{n}", "https://allowed.test/outside"):
        try:
            urllib.request.urlopen(url)
        except OSError:
            pass
"""


def audit(tool, folder, *words, env=None, stdout=subprocess.PIPE):
    done = subprocess.run([program(), "audit", tool, "--audit-dir", folder, *words], stdin=subprocess.DEVNULL, stdout=stdout,
                          stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, check=False, timeout=60)
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr
    return done


def said(tool, folder, *words, status=0):
    done = audit(tool, folder, *words)
    assert (done.returncode, done.stderr) == (status, b""), done
    return done.stdout


def events_of(folder, *words, tool="grep", status=0):
    return [json.loads(line) for line in said(tool, folder, "--json", *words, status=status).splitlines()]


def on_terminal(tool, folder, *words, env=None):
    """What a terminal gets on standard output and error."""
    master, slave = pty.openpty()
    process = subprocess.Popen([program(), "audit", tool, "--audit-dir", folder, *words], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
                               env={**os.environ, "TERM": "xterm", **(env or {})})
    os.close(slave)
    got = b""
    try:
        while True:
            ready, _, _ = select.select([master], [], [], DEADLINE)
            assert ready, "it neither writes nor ends"
            part = os.read(master, 65536)
            got += part
            if not part:
                break
    except OSError:  # EIO: the other end is closed
        pass
    finally:
        os.close(master)
    assert process.wait(DEADLINE) in (0, 1)
    return got.replace(b"\r\n", b"\n").decode()


def write_log(folder, files):
    """{"20261129T000000Z-a": [line, ...]}"""
    for name, lines in files.items():
        (pathlib.Path(folder) / f"{name}.jsonl").write_bytes(b"".join(lines))
    return str(folder)


def line_at(ms, **more):
    event = {**json.loads(LINES[0]), "time": DAY_MS + ms, **more}
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


@pytest.fixture(scope="module", name="log")
def fixture_log(lab):
    folder = tempfile.mkdtemp(prefix="audit-tools-", dir=lab.folder)
    for words in (["/usr/bin/python3", "-c", PROGRAM], ["/bin/echo", EVIL], ["/bin/false"]):
        run_eclusa(lab, [], words, policy=[f"allowed.test GET /page-* addr={ORIGIN}/32"], audit_dir=folder)
    assert len(read_audit(folder)) > 20
    return folder


@pytest.fixture(name="hostile")
def fixture_hostile(tmp_path):
    evil = json.loads(LINES[11])
    for place in ("message", "status_detail"):
        evil[place] = EVIL
    evil["dst_endpoint"]["hostname"] = evil["container"]["name"] = evil["firewall_rule"]["uid"] = EVIL
    evil["unmapped"]["eclusa"]["allow"] = EVIL
    evil["metadata"]["uid"] = "01938f1e-7a53-7cc1-9b1e-2f4f6a1f0cff"
    process = json.loads(LINES[6])
    process["process"]["cmd_line"] = process["container"]["uid"] = EVIL
    # As they are in the line, too: JSON asks for escapes of C0 alone.
    lines = [json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for event in (evil, process)]
    return write_log(tmp_path, {"20261129T000000Z-a": [*LINES, *lines]})


def test_tail_prints_the_last_events_in_the_order_of_time(log):
    events = read_audit(log)
    lines = said("tail", log, "-n", "1000").decode().splitlines()
    assert len(lines) == len(events)
    assert [line[:24] for line in lines] == sorted(line[:24] for line in lines)
    assert said("tail", log).decode().splitlines() == lines[-10:]
    assert said("tail", log, "-n", "3").decode().splitlines() == lines[-3:]
    denied = next(line for line in lines if "deny.default" in line)
    assert re.fullmatch(r"\S+Z deny    deny\.default sb-\w+ (CONNECT|GET) \S*denied\.test\S* 403 .*rule=default: .+", denied)
    assert any(re.search(r"allow +allow\.rule sb-\w+ GET https://allowed\.test/page-0 200 out=\d+ in=\d+ rule=", line) for line in lines)
    assert sum("sandbox.exit" in line and "/bin/false: " in line and "status 1" in line for line in lines) == 1


def test_json_lines_are_those_of_the_log(log):
    written = sorted(line for path in pathlib.Path(log).glob("[0-9]*.jsonl") for line in path.read_bytes().splitlines())
    for words in (["tail", log, "--json", "-n", "1000"], ["grep", log, "--json"], ["export", log, "--format", "ocsf"]):
        assert sorted(said(*words).splitlines()) == written


def code(event):
    return event["status_code"]


FILTERS = {
    "--verdict deny": lambda e: code(e).startswith("deny."),
    "--verdict allow": lambda e: code(e).startswith("allow."),
    "--reason deny.path": lambda e: code(e) == "deny.path",
    "--host denied.test": lambda e: e.get("dst_endpoint", {}).get("hostname") == "denied.test",
    "--host DENIED.test": lambda e: e.get("dst_endpoint", {}).get("hostname") == "denied.test",
    "--host .test": lambda e: e.get("dst_endpoint", {}).get("hostname", "").endswith(".test"),
    "--rule default": lambda e: e.get("firewall_rule", {}).get("uid") == "default",
    "--profile run": lambda e: "profile:run" in e["metadata"]["labels"],
    "--class process": lambda e: e["class_uid"] == 1007,
    "--class http --verdict deny": lambda e: e["class_uid"] == 4002 and code(e).startswith("deny."),
    "--since 1h": lambda e: True,
    "--since yesterday --until now": lambda e: True,
    "--from yesterday --to now": lambda e: True,
    "page-2": lambda e: "page-2" in json.dumps(e),
}
NOTHING = ("--verdict observe", "--reason deny.ech", "--host denied.tes", "--host .denied.test", "--host .enied.test", "--rule defaul", "--profile runs",
           "--class dns", "--sandbox sb-0000000000", "--until yesterday", "nothing like this", "--sandbox --")


@pytest.mark.parametrize("words", FILTERS)
def test_filters_take_what_they_say(log, words):
    wanted = [e["metadata"]["uid"] for e in read_audit(log) if FILTERS[words](e)]
    assert wanted, "or it tests nothing"
    assert sorted(e["metadata"]["uid"] for e in events_of(log, *words.split())) == sorted(wanted)


@pytest.mark.parametrize("words", NOTHING)
def test_what_does_not_fit_is_not_there(log, words):
    for tool, status in (("grep", 1), ("tail", 0)):
        filters = words.split() if words.startswith("--") else [words]
        if tool == "grep" or words.startswith("--"):
            assert said(tool, log, *filters, status=status) == b""


def test_a_sandbox_is_found_by_its_id(log):
    sandboxes = collections.Counter(e["container"]["uid"] for e in read_audit(log) if "container" in e)
    assert len(sandboxes) == 3
    for sandbox, count in sandboxes.items():
        assert len(events_of(log, "--sandbox", sandbox)) == count


def test_stats_count_what_is_there(log):
    events = read_audit(log)
    stats = json.loads(said("stats", log, "--json", "-n", "200"))
    decisions = [e for e in events if "action_id" in e]
    assert stats["events"] == len(events) and stats["skipped"] == 0
    assert stats["denied"] == sum(e["action_id"] == 2 for e in decisions) > 0
    assert stats["allowed"] == sum(e["action_id"] == 1 for e in decisions) > 0
    assert {r["reason"]: r["events"] for r in stats["reasons"]} == collections.Counter(code(e) for e in decisions)
    assert {r["host"]: r["events"] for r in stats["hosts"]} == collections.Counter(e["dst_endpoint"]["hostname"] for e in decisions)
    (denied,) = [r for r in stats["denied_hosts"] if r["host"] == "denied.test"]
    assert denied["reason"] == "deny.default" and denied["allow"].startswith("denied.test")
    for table in ("hosts", "sandboxes"):
        assert sum(r["out"] for r in stats[table]) == stats["out"] == sum(e["traffic"]["bytes_out"] for e in decisions)
    text = said("stats", log).decode()
    assert "Denied hosts, and a rule that would allow them\n" in text and re.search(r"\d  deny\.default  denied\.test  denied\.test", text)
    assert json.loads(said("stats", log, "--json", "--verdict", "deny"))["allowed"] == 0


def parse_cef(line):
    """Strictly: seven bars that nothing escapes, then keys that a parser can tell from values."""
    header, at = [], 0
    for _ in range(7):
        found = re.compile(r"((?:[^\\|]|\\[\\|])*)\|").match(line, at)
        assert found, line
        header.append(re.sub(r"\\(.)", r"\1", found.group(1)))
        at = found.end()
    pairs, rest = [], line[at:]
    assert re.fullmatch(r"(\w+=(?:[^\\=]|\\[\\=rn])*(?: |$))*", rest), rest
    for key, value in re.findall(r"(\w+)=((?:[^\\=]|\\[\\=rn])*)(?= \w+=|$)", rest):
        pairs.append((key, re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m.group(1), m.group(1)), value)))
    assert len(dict(pairs)) == len(pairs) and " ".join(key for key, _ in pairs).count(" ") == rest.count("=") - rest.count("\\=") - 1
    return header, dict(pairs)


def parse_leef(line):
    head = line.split("|", 6)
    assert head[0] == "LEEF:2.0" and head[5] == "x09"
    pairs = [part.split("=", 1) for part in head[6].split("\t")]
    assert all(len(pair) == 2 and re.fullmatch(r"\w+", pair[0]) for pair in pairs) and len(dict(pairs)) == len(pairs)
    return head[:5], dict(pairs)


def parse_csv(text):
    assert "\r" not in text
    rows = list(csv.reader(io.StringIO(text), strict=True))
    assert {len(row) for row in rows} == {len(rows[0])} and len(rows) == text.count("\n")
    return [dict(zip(rows[0], row)) for row in rows[1:]]


def parse_ecs(line):
    def once(pairs):
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)
    return json.loads(line, object_pairs_hook=once)


def exported(folder, name, *words):
    return said("export", folder, "--format", name, *words).decode()


def visible(text):
    """As formats without escapes of their own show it."""
    return CONTROLS.sub(lambda m: f"\\u{ord(m.group()):04x}", text)


def test_exports_say_the_same_as_the_log(log):
    events = {e["metadata"]["uid"]: e for e in read_audit(log)}
    rows = {row["event_id"]: row for row in parse_csv(exported(log, "csv"))}
    cef = {pairs["externalId"]: (head, pairs) for head, pairs in map(parse_cef, exported(log, "cef").splitlines())}
    leef = {pairs["eventUid"]: (head, pairs) for head, pairs in map(parse_leef, exported(log, "leef").splitlines())}
    ecs = {e["event"]["id"]: e for e in map(parse_ecs, exported(log, "ecs").splitlines())}
    assert events.keys() == rows.keys() == cef.keys() == leef.keys() == ecs.keys()
    for uid, event in events.items():
        assert rows[uid]["reason"] == cef[uid][0][4] == leef[uid][0][4] == ecs[uid]["event"]["action"] == code(event)
        host = event.get("dst_endpoint", {}).get("hostname", "")
        assert (rows[uid]["host"], cef[uid][1].get("dhost", ""), ecs[uid].get("destination", {}).get("domain", "")) == (host,) * 3
        command = event.get("process", {}).get("cmd_line", "")
        assert rows[uid]["command"].removeprefix("'") == visible(command) and ecs[uid].get("process", {}).get("command_line", "") == command
        if "action_id" in event:
            assert ecs[uid]["event"]["type"][1] == {1: "allowed", 2: "denied"}[event["action_id"]]
            assert int(cef[uid][1]["out"]) == int(leef[uid][1]["srcBytes"]) == ecs[uid]["source"]["bytes"] == event["traffic"]["bytes_out"]
    bare = exported(log, "ocsf-bare").splitlines()
    assert len(bare) == len(events) and not any('"prev":' in line for line in bare)


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_text_stays_a_value_in_every_format(hostile, name):
    text = exported(hostile, name)
    count = len(LINES) + 2
    assert text.count("\n") == count + (name == "csv")
    if name in ("ecs", "cef", "leef", "csv"):
        assert not CONTROLS.search(text.replace("\n", "").replace("\t" if name == "leef" else "\n", ""))
    lines = text.split("\n")[:-1]
    if name == "csv":
        rows = parse_csv(text)
        assert rows[12]["host"] == "'" + visible(EVIL) and rows[13]["command"] == "'" + visible(EVIL)
        assert not any(value.lstrip()[:1] in tuple("=+-@\uff1d") and value for row in rows for value in row.values())
    elif name == "cef":
        pairs = parse_cef(lines[12])[1]
        assert pairs["dhost"] == CONTROLS.sub(lambda m: m.group() if m.group() in "\r\n" else visible(m.group()), EVIL)
        assert pairs["src"] == "10.66.0.2" and "dst" not in pairs
    elif name == "leef":
        pairs = parse_leef(lines[12])[1]
        assert pairs["dstHost"] == visible(EVIL) and pairs["src"] == "10.66.0.2" and "dst" not in pairs
    elif name == "ecs":
        assert parse_ecs(lines[12])["destination"]["domain"] == EVIL
    else:
        assert json.loads(lines[12])["dst_endpoint"]["hostname"] == EVIL


def test_no_text_of_a_peer_drives_a_terminal(hostile):
    tools = [("tail", "-n", "100"), ("tail", "--json"), ("grep",), ("grep", "--json"), ("stats",), *(("export", "--format", f) for f in FORMATS)]
    for tool, *words in tools:
        text = on_terminal(tool, hostile, *words)
        plain = re.sub(r"\x1b\[(?:|1|2|3[1236])m", "", text).replace("\n", "")
        found = CONTROLS.search(plain.replace("\t", "") if "leef" in words else plain)
        assert not found, (tool, words, found)
        assert "owned" in plain, "or it tests nothing"
    piped = said("tail", hostile, "-n", "100").decode() + said("stats", hostile).decode()
    assert not CONTROLS.search(piped.replace("\n", "")) and visible(EVIL) in piped


def test_verdicts_are_coloured_on_a_terminal_only(hostile):
    assert "\x1b[31m" in on_terminal("tail", hostile, "-n", "100")
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_terminal("tail", hostile, "-n", "100", env=env)
    assert "\x1b[31m" in on_terminal("tail", hostile, "-n", "100", env={"NO_COLOR": ""})
    assert b"\x1b" not in said("tail", hostile, "-n", "100")


def test_files_that_overlap_come_in_the_order_of_time(tmp_path):
    files = {f"20261129T0000{start:02}Z-x{start}": [line_at(1000 * start + 700 * n, message=f"{start}") for n in range(20)] for start in range(10)}
    folder = write_log(tmp_path, files)
    write_log(tmp_path, {"index": [b'{"kind":"opened","time":1}\n']})
    times = [json.loads(line)["time"] for line in exported(folder, "ocsf").splitlines()]
    assert len(times) == 200 and times == sorted(times)
    assert [e["time"] for e in events_of(folder, "-n", "50", tool="tail")] == times[-50:]
    since, until = "2026-11-29T00:00:05Z", "2026-11-29T01:00:07.5+01:00"
    assert [e["time"] for e in events_of(folder, "--since", since, "--until", until)] == [t for t in times if DAY_MS + 5000 <= t < DAY_MS + 7500]


def test_torn_ends_and_strange_lines_are_told_and_passed_over(tmp_path):
    whole = [line_at(n) for n in range(5)]
    strange = [b"no json\n", b"[1]\n", b"\n", b'{"status_detail":"\xff"}\n', b"x" * 200000 + b"\n"]
    folder = write_log(tmp_path, {"20261129T000000Z-a": [*whole[:2], *strange, *whole[2:4], whole[4][:300]],
                                  "20261129T000000Z-b": [whole[4][:-1]]})  # this one lacks nothing but its newline
    for tool, *words in (("tail", "-n", "100"), ("grep",), ("export", "--format", "csv")):
        done = audit(tool, folder, *words)
        assert done.returncode == 0 and done.stdout.count(b"\n") == 5 + (tool == "export")
        assert b"20261129T000000Z-a.jsonl: its last line is torn and left out\n" in done.stderr and b"-b.jsonl" not in done.stderr
        assert b"4 lines are no events and left out" in done.stderr
    stats = json.loads(audit("stats", folder, "--json").stdout)
    assert stats["skipped"] == 5


def test_an_export_appears_when_it_is_whole(log, tmp_path):
    target = tmp_path / "events.csv"
    target.write_text("old")
    assert audit("export", log, "--format", "csv", "-o", target).returncode == 0
    assert parse_csv(target.read_text()) == parse_csv(exported(log, "csv")) and target.stat().st_mode & 0o777 == 0o600
    target.write_text("old")
    assert audit("export", tmp_path / "missing", "--format", "csv", "-o", target).returncode == 2
    broken = pathlib.Path(shutil.copytree(log, tmp_path / "broken"))
    (broken / "20261129T000000Z-z.jsonl").mkdir()
    assert audit("export", broken, "--format", "csv", "-o", "/dev/full").returncode == 2
    assert audit("export", broken, "--format", "csv", "-o", tmp_path / "no" / "folder").returncode == 2
    assert target.read_text() == "old" and sorted(p.name for p in tmp_path.iterdir()) == ["broken", "events.csv"]
    with open("/dev/full", "wb") as full:
        done = audit("grep", log, stdout=full)
    assert done.returncode == 2 and b"standard output: No space left on device" in done.stderr


@pytest.mark.parametrize("words, part", [
    (["tail", "--verdict", "maybe"], "--verdict takes allow, deny, error or observe, not maybe"),
    (["tail", "--class", "4002"], "--class takes http"),
    (["tail", "--reason", "deny"], "--reason takes a code, such as deny.path, not deny"),
    (["tail", "--since", "soon"], "--since and --until take 2026-11-29"),
    (["tail", "--since", "1h", "--until", "2h"], "--until has to be after --since, not 2h"),
    (["tail", "-n", "10001"], "-n takes a number up to 10000, not 10001"),
    (["tail", "-n", "-1"], "-n takes a number"),
    (["tail", "word"], "wrong number of words: eclusa audit tail"),
    (["tail", "--host", "a", "--host", "b"], "an option stands twice: --host"),
    (["tail", "--format", "csv"], "unknown option --format"),
    (["grep", "-f"], "unknown option -f"),
    (["stats", "-n", "201"], "-n takes a number up to 200, not 201"),
    (["export"], "export needs --format ocsf|ocsf-bare|ecs|cef|leef|csv"),
    (["export", "--format", "CSV"], "--format takes ocsf, ocsf-bare, ecs, cef, leef or csv, not CSV"),
    (["export", "--format"], "a value is missing after --format"),
    (["export", "--format", "x\x1b[2J"], "not x\\x1b[2J;"),
])
def test_wrong_usage_is_told(tmp_path, words, part):
    done = audit(words[0], tmp_path, *words[1:])
    assert done.returncode == 2 and done.stdout == b"" and part in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_a_tool_that_is_nearly_one_is_named(tmp_path):
    done = audit("tial", tmp_path)
    assert done.returncode == 2 and done.stderr == b"eclusa audit: unknown subcommand tial; did you mean tail?\n"


@pytest.mark.parametrize("words", [["tail"], ["grep", "x"], ["stats"], ["export", "--format", "ocsf"]])
def test_a_folder_that_can_not_be_read_is_told(tmp_path, words):
    done = audit(words[0], tmp_path / "missing", *words[1:])
    assert done.returncode == 2 and b"missing: No such file or directory" in done.stderr


class Following:
    """`tail -f`, and what it has printed so far."""

    def __init__(self, folder, *words):
        self.process = subprocess.Popen([program(), "audit", "tail", "-f", "--audit-dir", folder, *words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.text = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def lines(self, count):
        end = time.monotonic() + DEADLINE
        while self.text.count(b"\n") < count:
            assert select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0], f"after {self.text!r}"
            part = self.process.stdout.read()
            assert part, "it ended: " + self.process.stderr.read().decode()
            self.text += part
        assert self.text.count(b"\n") == count
        return [json.loads(line)["message"] for line in self.text.splitlines()]


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


def test_following_gives_each_line_once_when_its_end_is_there(tmp_path):
    first = tmp_path / "20261129T000000Z-a.jsonl"
    torn = line_at(5, message="torn")
    folder = write_log(tmp_path, {"20261129T000000Z-a": [line_at(1, message="one"), line_at(2, message="two"), torn[:100]]})
    with Following(folder, "--json", "-n", "1", "--host", "files.test") as tail:
        assert tail.lines(1) == ["two"]
        append(first, torn[100:200])
        append(first, torn[200:] + line_at(6, message="six") + line_at(7, message="seven")[:50])
        assert tail.lines(3)[1:] == ["torn", "six"]
        append(tmp_path / "20261129T000001Z-b.jsonl", line_at(8, message="eight"))
        assert tail.lines(4)[3:] == ["eight"]
        append(first, line_at(7, message="seven")[50:] + line_at(9, message="not asked for", dst_endpoint={"hostname": "other.test"}))
        append(tmp_path / "index.jsonl", line_at(9, message="no segment"))
        (tmp_path / "open").mkdir()
        append(first, line_at(10, message="ten"))
        assert tail.lines(6)[4:] == ["seven", "ten"]
        os.link(first, tmp_path / "open" / "20261129T000000Z-a")
        append(tmp_path / "20261129T000001Z-b.jsonl", line_at(11, message="eleven"))
        tail.lines(7)
        append(tmp_path / "open" / "20261129T000000Z-a", line_at(12, message="through its second name"))
        assert tail.lines(8)[6:] == ["eleven", "through its second name"]


def test_following_a_run_shows_all_of_it(lab, log):
    folder = shutil.copytree(log, tempfile.mkdtemp(prefix="audit-follow-", dir=lab.folder), dirs_exist_ok=True)
    before = len(read_audit(folder))
    with Following(folder, "--json", "-n", "1") as tail:
        tail.lines(1)
        run = run_eclusa(lab, [], ["/usr/bin/python3", "-c", PROGRAM], policy=[f"allowed.test GET /page-* addr={ORIGIN}/32"], audit_dir=folder)
        new = len(run.events) - before
        assert new > 10
        tail.lines(1 + new)
    followed = [json.loads(line)["metadata"]["uid"] for line in tail.text.splitlines()[1:]]
    assert len(set(followed)) == new and set(followed) <= {e["metadata"]["uid"] for e in run.events}


def test_following_ends_with_its_reader(tmp_path):
    folder = write_log(tmp_path, {"20261129T000000Z-a": [line_at(1)]})
    tail = Following(folder, "--json")
    with tail:
        tail.lines(1)
        tail.process.stdout.close()
        wait_until(lambda: tail.process.poll() is not None, "tail -f ends")
