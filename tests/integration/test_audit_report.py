"""
`eclusa audit report`: what it counts, that it stays bounded, and that nothing in a log becomes anything but text, seen in headless
Chromium with the network shut off.
"""
import base64
import hashlib
import html
import json
import os
import re
import subprocess
import uuid

import pytest

from lab.browser import environment
from lab.eclusa import ROOT, program

BASE_MS = 1795961863123
HOSTILE = [
    "<script>window.pwned=1;fetch('http://evil.test/')</script>",
    "</style><img src=http://evil.test/i onerror=window.pwned=1>",
    "\"><svg onload=window.pwned=1>", "' onmouseover='window.pwned=1", "javascript:window.pwned=1",
    "gnp.\u202egpj", "\x1b[31mred\x1b]0;title\x07", "{{script}}", "&lt;b&gt;", "zero\u200bwidth", "new\nline", "nul\x00byte",
    "\u2066isolate", "</script><script>window.pwned=1</script>", "<!--",
]
UNSEEN = {"\u202e": "U+202E", "\x1b": "U+001B", "\x07": "U+0007", "\u200b": "U+200B", "\n": "U+000A", "\x00": "U+0000", "\u2066": "U+2066"}


def shown(text):
    return "".join(UNSEEN.get(c, c) for c in text)


class Log:
    def __init__(self, folder):
        self.folder, self.lines, self.count = str(folder), [], 0

    def event(self, class_uid, code, offset_ms, **more):
        self.count += 1
        event = {"class_uid": class_uid, "status_code": code, "time": BASE_MS + offset_ms,
                 "metadata": {"uid": str(uuid.UUID(int=self.count)), "labels": ["profile:ci"]}, **more}
        event.setdefault("unmapped", {"eclusa": {}})
        self.lines.append(event)
        return event

    def decision(self, host, code="allow.rule", offset_ms=0, sandbox="sb-1", out=100, rule="pkg", would=None, allow=None, count=None,
                 place="main.allow:3", **more):
        eclusa = {key: value for key, value in (("would", would), ("allow", allow), ("count", count)) if value is not None}
        denied = code.startswith("deny.")
        return self.event(
            4002, code, offset_ms, action_id=2 if denied else 1, disposition_id=27 if code.startswith("error.") else 2 if denied else 1,
            firewall_rule={"uid": rule, "desc": place}, policy={"uid": "ci", "version": "d1"}, src_endpoint={"uid": sandbox},
            dst_endpoint={"hostname": host, "port": 443}, http_request={"http_method": "GET"},
            traffic={"bytes_out": out, "bytes_in": 1000}, unmapped={"eclusa": eclusa}, **more)

    def write(self, extra=b""):
        with open(os.path.join(self.folder, "20261129T000000-a.jsonl"), "wb") as file:
            for line in self.lines:
                file.write(json.dumps(line).encode() + b"\n")
            file.write(extra)
        return self


def report(log, *args, status=0):
    out = os.path.join(log.folder, "report.html")
    done = subprocess.run([program(), "audit", "report", "--audit-dir", log.folder, "-o", out, *args], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert done.returncode == status, done
    if status != 0:
        assert not os.path.exists(out)
        return done.stderr.decode()
    with open(out, encoding="utf-8") as file:
        return file.read()


def table(page, section):
    """The rows of a section's table as lists of texts; the footer's as the last ones."""
    part = page[page.index(f'aria-labelledby="{section}"'):]
    part = part[:part.index("</section>")]
    return [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
            for row in re.findall(r"<tr>(.*?)</tr>", part, re.S) if "<td" in row]


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path)


def test_counts(log):
    log.event(1007, "sandbox.start", 0, container={"uid": "sb-1"}, process={"cmd_line": "pip install x"})
    for n in range(3):
        log.decision("files.example", offset_ms=n)
    log.decision("evil.example", "deny.default", 10, rule="default", place="", allow="evil.example GET /", count=7)
    log.decision("new.example", "observe.would-deny", 20, would="deny.default", allow="new.example GET /")
    log.decision("slow.example", "error.timeout", 30)
    log.event(1007, "sandbox.exit", 40, container={"uid": "sb-1"}, exit_code=137, unmapped={"eclusa": {"verdict": "oom"}})
    log.event(3004, "policy.loaded", 50, entity={"uid": "d1", "name": "ci"}, entity_result={"uid": "d2", "name": "ci"})
    page = report(log.write())
    assert ["files.example", "3", "3", "0", "0", "0", "300 B", "2.9 KiB"] == table(page, "h-hosts")[1][:8]
    assert table(page, "h-denied") == [["evil.example", "7", "deny.default", "evil.example GET /", "default", "sb-1",
                                        table(page, "h-denied")[0][6]]]
    assert table(page, "h-would")[0][:4] == ["new.example", "1", "deny.default", "new.example GET /"]
    assert table(page, "h-sandboxes")[0][:7] == ["sb-1", "oom, status 137", "ci", "pip install x", "5", "7", "600 B"]
    assert [row[0] for row in table(page, "h-policies")] == ["d2", "d1"]
    assert ["sb-1", "pkg", "main.allow:3", "5", "0", "500 B"] == table(page, "h-rules")[0][:6]


def test_an_event_that_stands_twice_and_one_under_way_count_once(log):
    event = log.decision("files.example")
    log.lines.append(event)
    under_way = log.decision("files.example")
    under_way["unmapped"]["eclusa"]["open"] = True
    torn = log.decision("files.example")
    torn["unmapped"]["eclusa"]["torn"] = True
    assert table(report(log.write()), "h-hosts")[0][:2] == ["files.example", "1"]


def test_questions_count_where_they_were_denied(log):
    for code, action, host in (("deny.dns-name", 2, "evil.example"), ("allow.rule", 1, "files.example")):
        log.event(4003, code, 0, action_id=action, disposition_id=action, firewall_rule={"uid": "pkg"}, policy={"uid": "ci", "version": "d1"},
                  src_endpoint={"uid": "sb-1"}, dst_endpoint={"hostname": host}, query={"hostname": host, "type": "A"},
                  unmapped={"eclusa": {"count": 2}})
    log.decision("files.example")
    page = report(log.write())
    assert {row[0]: row[1:4] for row in table(page, "h-hosts")} == {"evil.example": ["2", "0", "2"], "files.example": ["1", "1", "0"]}
    assert [row[:3] for row in table(page, "h-denied")] == [["evil.example", "2", "deny.dns-name"]]


def test_a_time_is_kept_to(log):
    for hour in range(4):
        log.decision(f"h{hour}.example", offset_ms=hour * 3600000)
    page = report(log.write(), "--from", "2026-11-29T15:00", "--to", "2026-11-29T17:00:00Z")
    assert sorted(row[0] for row in table(page, "h-hosts")) == ["h1.example", "h2.example"]
    assert "2 more are before or after" in page
    assert report(log.write(), "--since", "2026-11-29T15:00", "--until", "2026-11-29T17:00:00Z").count("2 more are before or after") == 1


@pytest.mark.parametrize("args", [("--from", "soon"), ("--from", "2026-02-30"), ("--to", ""), ("--from", "2026-11-29T25:00"), ("--json",), ("word",),
                                  ("--from", "2026-11-30", "--to", "2026-11-29"), ("--from", "1h", "--since", "1h")])
def test_wrong_usage(log, args):
    log.decision("files.example")
    assert report(log.write(), *args, status=2).startswith("eclusa audit: ")


def test_many_hosts_end_in_others_and_the_heavy_one_stays(log):
    log.decision("exfil.example", out=1 << 40)
    for n in range(9000):
        log.decision(f"h{n}.example", "deny.default", n, rule="default", place="", allow=f"h{n}.example")
    page = report(log.write())
    rows = table(page, "h-hosts")
    assert len(rows) == 201 and rows[-1][0] == "others, in sum"
    assert "exfil.example" in [row[0] for row in rows]
    numbers = [int(row[1].replace(",", "")) for row in rows]
    assert sum(numbers) == 9001
    assert len(page) < 1 << 20


def test_lines_that_are_no_events_are_told(log):
    log.decision("files.example")
    page = report(log.write(b'{"torn":\n\x00\xff\n[1]\n'))
    assert "no events, torn or changed: <b>3</b>" in page


def test_only_what_has_its_hash_runs(log):
    page = report(log.write(b"{}\n"))
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1))
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        text, = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "http" not in policy


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What Chromium saw of a hostile log, at each size and scheme."""
    env = environment()
    log = Log(tmp_path_factory.mktemp("hostile"))
    for n, text in enumerate(HOSTILE):
        log.event(1007, "sandbox.start", n, container={"uid": text}, process={"cmd_line": text})
        log.decision(text, "deny.default", n, sandbox=text, rule=text, place=text, allow=text)
        log.decision(text, "observe.would-deny", n, sandbox=text, would=text, allow=text, out=n)
        log.decision(text, text, n)
        log.event(3004, "policy.rejected", n, entity={"uid": text, "name": text}, status_detail=text)
    for n in range(30):
        log.decision("files.pkg.example", offset_ms=n * 60000, out=1 << n)
        log.decision(f"h{n}.example", offset_ms=n * 60000, out=n * 1000)
    report(log.write())
    shots = os.path.join(ROOT, "build", "test-logs", "report")
    os.makedirs(shots, exist_ok=True)
    done = subprocess.run(["node", os.path.join(ROOT, "tests", "lab", "report_page.js"), os.path.join(log.folder, "report.html"), shots],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_nothing_of_the_log_runs_or_leaves(seen):
    assert len(seen) == 4
    for look in seen:
        assert not look["pwned"] and look["dialogs"] == 0 and look["errors"] == [], look
        assert [url for url in look["requests"] if not url.startswith("file://")] == []
        assert len(look["requests"]) == 1 and look["scripts"] == 1 and look["foreign"] == 0


def test_all_of_it_is_shown_as_text(seen):
    for text in HOSTILE:
        assert shown(text) in seen[0]["text"], text
    for character in UNSEEN:
        if character != "\n":
            assert character not in seen[0]["text"]


def test_no_size_scrolls_sideways(seen):
    assert {(look["size"], look["width"]) for look in seen} == {("phone", 390), ("desktop", 1440)}


def test_light_and_dark_differ(seen):
    by = {(look["size"], look["scheme"]): look["ground"] for look in seen}
    assert by["phone", "light"] != by["phone", "dark"] and by["desktop", "light"] != by["desktop", "dark"]


def test_tables_sort_by_pointer_and_by_keyboard(seen):
    look = next(one for one in seen if "hosts_by_name" in one)
    assert look["hosts_by_events"] == sorted(look["hosts_by_events"], reverse=True)
    assert look["sorted_name"] == "ascending"
    plain = [name for name in look["hosts_by_name"] if re.fullmatch(r"h\d+\.example", name)]
    assert plain == [f"h{n}.example" for n in range(30)]
    assert look["hosts_by_out"] == sorted(look["hosts_by_out"], reverse=True)
    assert look["hosts_by_out_rising"] == sorted(look["hosts_by_out"])
    assert look["focused"] == "Out"


def test_rows_can_be_looked_for(seen):
    look = next(one for one in seen if "filtered" in one)
    assert look["filtered"] and all("files.pkg.example" in row for row in look["filtered"])


def test_a_printer_gets_every_row_on_white(seen):
    look = next(one for one in seen if "print_rows" in one)
    assert look["print_rows"] and look["print_ground"] == "rgb(255, 255, 255)"
