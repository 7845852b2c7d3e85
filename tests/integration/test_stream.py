"""--stream: output, refusals and the result of a run as lines of JSON, each when it happens."""
import base64
import json
import os
import subprocess

import pytest

from lab.box import PYTHON
from lab.eclusa import Launch, network_args


def lines_of(out):
    return [json.loads(line) for line in out.splitlines()]


def told(lines, name):
    """The bytes of a stream, put together again."""
    return b"".join(base64.b64decode(line["data"]) if line.get("base64") else line["data"].encode() for line in lines if line["event"] == name)


def test_output_comes_in_order_and_the_result_is_last(box):
    status, out, err = box.run("--stream", "--", "sh", "-c", "echo one; echo two >&2; exit 3")
    lines = lines_of(out)
    assert status == 3 and err == "" and [line["event"] for line in lines][::len(lines) - 1] == ["start", "result"], out
    assert told(lines, "stdout") == b"one\n" and told(lines, "stderr") == b"two\n"
    result = lines[-1]
    assert (result["verdict"], result["id"], result["stdout"], result["stderr"]) == ("exit", lines[0]["id"], None, None)
    assert result["receipt"]["layers"]["filter"]["active"]


def test_a_line_is_there_when_its_bytes_are(box):
    """The program goes on only once the test has seen its line."""
    with box.popen("--stream", "-i", "--", "sh", "-c", "echo ready; read -r word; echo got $word", stdin=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline())["event"] == "start"
        assert json.loads(process.stdout.readline()) == {"event": "stdout", "data": "ready\n"}
        process.stdin.write(b"it\n")
        process.stdin.close()
        rest = lines_of(process.stdout.read())
    assert process.returncode == 0 and told(rest, "stdout") == b"got it\n" and rest[-1]["verdict"] == "ok"


def test_every_byte_comes_whatever_it_is(box):
    status, out, _ = box.run("--stream", "--", PYTHON, "-c", """
import os, sys
for part in (b"\\xc3", b"\\xa9", b"\\xff", bytes(range(256)), "\\u20ac".encode()[:2]): os.write(1, part)
for i in range(40): os.write(2, b"%d" % (i % 10) * 65536)""")
    lines = lines_of(out)
    assert status == 0 and told(lines, "stdout") == b"\xc3\xa9\xff" + bytes(range(256)) + "\u20ac".encode()[:2]
    assert told(lines, "stderr") == b"".join(b"%d" % (i % 10) * 65536 for i in range(40))


def test_a_reader_who_leaves_ends_the_program(box):
    with box.popen("--stream", "--timeout", "30s", "--", "yes") as process:
        process.stdout.read(100)
        process.stdout.close()
        assert process.wait(60) == 125


def test_a_refused_call_is_told_when_it_was_made(box):
    program = "import socket\ntry: socket.socket(socket.AF_PACKET)\nexcept OSError: pass\ninput()\nsocket.socket(socket.AF_VSOCK)"
    with box.popen("--stream", "-i", "--", PYTHON, "-c", program, stdin=subprocess.PIPE) as process:
        seen = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert seen[1]["event"] == "denial" and seen[1]["syscall"] == "socket" and seen[1]["arguments"]["domain"] == 17, seen
        assert seen[1]["hint"] and seen[1]["reason"] == "sandbox.violation"
        process.stdin.write(b"\n")
        process.stdin.close()
        rest = lines_of(process.stdout.read())
    assert [line["arguments"]["domain"] for line in rest if line["event"] == "denial"] == [40]
    assert len(rest[-1]["denials"]) == 2


def test_a_run_that_does_not_start_has_a_result_only(box):
    for args in (("--in", "nowhere"), ("--require", "none"), ("--stream",), ("--tmpfs", "/x:1M", "--spec", "nowhere")):
        status, out, _ = box.run("--stream", *args, *([] if args == ("--stream",) else ["--", "true"]))
        assert status == 125 and [(line["event"], line["verdict"]) for line in lines_of(out)] == [("result", "setup")], args


@pytest.mark.parametrize("door", ["denied.test", "allowed.test"])
def test_a_refused_request_is_told_when_it_was_made(lab, who, door):
    """Twin: what is allowed is no denial."""
    audit = os.path.join(lab.folder, f"stream-{who}-{door}")
    os.mkdir(audit)
    words = ["run", "--stream", "-i", *network_args(lab, audit), "--", "sh", "-c", f"curl -s -o /dev/null https://{door}/; read -r word"]
    if who:
        os.chown(audit, who, who)
    start = Launch(lab, words, user=who, audit_dir=audit)
    connections = lab.origin.connections.mark()
    with start.popen(stdin=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline())["event"] == "start"
        denial = json.loads(process.stdout.readline()) if door == "denied.test" else None
        process.stdin.write(b"\n")
        process.stdin.close()
        rest = lines_of(process.stdout.read())
    result = rest[-1]
    assert process.returncode == 0, result
    if denial is None:
        assert [line["event"] for line in rest] == ["result"] and result["denials"] == [] and lab.origin.connections.since(connections)
        return
    assert (denial["event"], denial["host"], denial["reason"]) == ("denial", "denied.test", "deny.default"), denial
    assert denial["allow"] in denial["hint"] and [d["host"] for d in result["denials"]] == ["denied.test"] and "hint" in result["denials"][0]
    assert not lab.origin.connections.since(connections)
