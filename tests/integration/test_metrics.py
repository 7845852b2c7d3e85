"""Metrics of the proxy alone: numbers that agree with what clients, origin and audit log saw, in a format that is read strictly."""
import os
import re
import shutil
import signal
import socket
import subprocess

import pytest

from lab.alone import Alone, Client, allow, fetch, policy
from lab.eclusa import USER_UID
from lab.events import DEADLINE, wait_until
from lab.exposition import parse, value

RULES = policy(allow("allowed.test:80,443 GET /**"))
DECISIONS = "eclusa_proxy_decisions_total"


def port_of(alone):
    alone.wait_logged("metrics port=")
    return int(re.search(r"metrics port=(\d+)", alone.logged("metrics port=")[0]).group(1))


def ask(alone, port, request=b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"):
    """@return (status, fields, body), or None when it was closed without an answer."""
    sock = alone.machine.inside(lambda: socket.create_connection(("127.0.0.1", port), DEADLINE))
    return exchange(sock, request)


def exchange(sock, request):
    data = b""
    with sock:
        sock.sendall(request)
        while True:
            try:
                more = sock.recv(65536)
            except ConnectionResetError:
                break
            if not more:
                break
            data += more
    if not data:
        return None
    head, body = data.split(b"\r\n\r\n", 1)
    line, *fields = head.decode().split("\r\n")
    fields = {key.lower(): text for key, text in (field.split(": ", 1) for field in fields)}
    assert int(fields["content-length"]) == len(body) and fields["connection"] == "close"
    return int(line.split(" ")[1]), fields, body


def metrics(alone, port):
    status, fields, body = ask(alone, port)
    assert status == 200 and fields["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parse(body.decode("ascii"))


def test_numbers_are_those_of_the_log(lab, machine, who):
    alone = Alone(lab, machine, RULES, "--metrics", "127.0.0.1:0", user=who)
    port = port_of(alone)
    before = metrics(alone, port)
    assert sum(before[DECISIONS][1].values()) == 0
    with Client(alone) as client:
        client.tunnel("allowed.test")
        for n in range(3):
            assert client.get("allowed.test", f"/{n}")[0] == 200
            wait_until(lambda: value(metrics(alone, port), "eclusa_proxy_upstream_waiting") == 1, "the host's connection waits")
        assert value(metrics(alone, port), "eclusa_proxy_connections_open") == 1
        wait_until(lambda: value(metrics(alone, port), "eclusa_proxy_audit_open_decisions") == 1, "only the tunnel is open")
    assert fetch(alone, "denied.test", "/no") == 403
    assert fetch(alone, "<script>\x22.test", "/no") in (400, 403)
    wait_until(lambda: value(metrics(alone, port), "eclusa_proxy_connections_open") == 0, "connections have ended")
    after = metrics(alone, port)

    def decisions():
        return [e for e in alone.events() if "action_id" in e and not e["unmapped"]["eclusa"].get("open")]

    wait_until(lambda: len(decisions()) == value(after, "eclusa_proxy_request_seconds_count"), "the log has what was counted")
    events = decisions()
    for (_, labels), number in after[DECISIONS][1].items():
        code = dict(labels)["reason"]
        assert number == sum(e["status_code"] == code for e in events), (code, alone.report())
    for way in ("in", "out"):
        assert value(after, "eclusa_proxy_bytes_total", direction=way) == sum(e["traffic"]["bytes_" + way] for e in events)
    assert value(after, "eclusa_proxy_handshakes_total", side="client", result="ok") == 1
    assert value(after, "eclusa_proxy_handshakes_total", side="upstream", result="ok") == 1
    assert value(after, "eclusa_proxy_upstream_connections_total") == 1
    assert value(after, "eclusa_proxy_upstream_reused_total") == 3
    assert value(after, "eclusa_proxy_first_byte_seconds_count") == 3
    assert value(after, "eclusa_proxy_request_seconds_count") == len(events)
    assert value(after, "eclusa_proxy_policy_stale") == 0
    assert alone.end() == 0


def test_labels_are_fixed(lab, machine):
    """Whatever peers ask for, there are as many samples as before, and none that holds their words."""
    alone = Alone(lab, machine, RULES, "--metrics", "127.0.0.1:0")
    port = port_of(alone)
    before = {key for _, samples in metrics(alone, port).values() for key in samples}
    for n in range(20):
        assert fetch(alone, f"peer-{n}.test", f"/words-{n}") == 403
    after = {key for _, samples in metrics(alone, port).values() for key in samples}
    assert after == before
    assert b"peer" not in ask(alone, port)[2]
    assert alone.end() == 0


def test_a_worker_that_is_killed_takes_no_number_along(lab, machine):
    alone = Alone(lab, machine, RULES, "--metrics", "127.0.0.1:0")
    port = port_of(alone)
    assert fetch(alone, "denied.test", "/no") == 403
    client = Client(alone)
    client.tunnel("allowed.test")
    assert client.get("allowed.test", "/")[0] == 200
    wait_until(lambda: value(metrics(alone, port), "eclusa_proxy_connections_open") == 1, "a connection stands")
    wait_until(lambda: value(metrics(alone, port), "eclusa_proxy_upstream_waiting") == 1, "and one to the host")
    os.kill(alone.child("eclusa-worker"), signal.SIGKILL)
    wait_until(lambda: value(metrics(alone, port), "eclusa_proxy_connections_open") == 0, "the new worker has begun")
    assert value(metrics(alone, port), "eclusa_proxy_upstream_waiting") == 0
    client.sock.close()
    assert value(metrics(alone, port), DECISIONS, verdict="denied", reason="deny.default") == 1
    assert alone.end() == 0


def test_a_policy_that_is_refused_is_stale(lab, machine):
    alone = Alone(lab, machine, RULES, "--metrics", "127.0.0.1:0")
    port = port_of(alone)
    loaded = value(metrics(alone, port), "eclusa_proxy_policy_loaded_timestamp_seconds")
    alone.write_policy("nonsense\n")
    assert alone.reload()[0] != 0
    stale = metrics(alone, port)
    assert value(stale, "eclusa_proxy_policy_stale") == 1 and value(stale, "eclusa_proxy_policy_absent") == 0
    assert value(stale, "eclusa_proxy_policy_loaded_timestamp_seconds") == loaded
    alone.write_policy(RULES + "allow more.test GET /**\n")
    assert alone.reload()[0] == 0
    fresh = metrics(alone, port)
    assert value(fresh, "eclusa_proxy_policy_stale") == 0
    assert value(fresh, "eclusa_proxy_policy_loaded_timestamp_seconds") > loaded
    assert alone.end() == 0


@pytest.mark.parametrize("request_,status", [
    (b"GET / HTTP/1.0\n\n", 200), (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", 200), (b"GET /other HTTP/1.1\r\n\r\n", 404),
    (b"POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405), (b"nonsense\r\n\r\n", 400), (b"\r\n\r\n", 400),
    (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 5000 + b"\r\n\r\n", None)])
def test_what_may_be_asked(lab, machine, alone_asked, request_, status):
    answer = ask(alone_asked, port_of(alone_asked), request_)
    assert (answer and answer[0]) == status
    assert ask(alone_asked, port_of(alone_asked))[0] == 200, "it goes on"


@pytest.fixture(name="alone_asked", scope="module")
def fixture_alone_asked(lab, machine):
    alone = Alone(lab, machine, RULES, "--metrics", "127.0.0.1:0")
    yield alone
    assert alone.end() == 0


def test_who_says_nothing_keeps_nobody_out(lab, machine, alone_asked):
    port = port_of(alone_asked)
    idle = [machine.inside(lambda: socket.create_connection(("127.0.0.1", port), DEADLINE)) for _ in range(7)]
    assert ask(alone_asked, port)[0] == 200
    assert fetch(alone_asked, "denied.test", "/no") == 403
    more = [machine.inside(lambda: socket.create_connection(("127.0.0.1", port), DEADLINE)) for _ in range(20)]
    assert fetch(alone_asked, "denied.test", "/no") == 403, "the proxy itself does not wait for them"
    for sock in idle + more:
        sock.close()
    assert ask(alone_asked, port)[0] == 200


def test_a_unix_socket_is_for_its_user(lab, machine):
    alone = Alone(lab, machine, RULES, "--metrics", os.path.join(lab.folder, "metrics.sock"))
    path = os.path.join(lab.folder, "metrics.sock")
    assert os.stat(path).st_mode & 0o777 == 0o600
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    assert exchange(sock, b"GET /metrics HTTP/1.1\r\n\r\n")[0] == 200
    denied = subprocess.run(["setpriv", f"--reuid={USER_UID}", "--clear-groups", "/usr/bin/python3", "-c",
                             f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"], capture_output=True, check=False)
    assert denied.returncode != 0 and b"PermissionError" in denied.stderr
    assert alone.end() == 0
    assert not os.path.exists(path)


@pytest.mark.parametrize("where,says", [("203.0.113.1:9187", "loopback"), ("0.0.0.0:9187", "loopback"), ("metrics.sock", "loopback"),
                                        ("127.0.0.1", "loopback"), ("/" + "x" * 200, "at most")])
def test_where_it_may_not_be(lab, machine, where, says):
    alone = Alone(lab, machine, RULES, "--metrics", where, ready=False)
    assert alone.process.wait(DEADLINE) == 1 and alone.end() == 1
    assert alone.logged("metrics: ") and alone.logged(says), alone.report()


def test_a_file_that_is_no_socket_is_not_replaced(lab, machine):
    path = os.path.join(lab.folder, "precious")
    with open(path, "w", encoding="utf-8") as file:
        file.write("mine")
    alone = Alone(lab, machine, RULES, "--metrics", path, ready=False)
    assert alone.process.wait(DEADLINE) == 1
    with open(path, encoding="utf-8") as file:
        assert file.read() == "mine"


def test_promtool_agrees(lab, machine, alone_asked):
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool (Debian: prometheus)")
    done = subprocess.run([promtool, "check", "metrics"], input=ask(alone_asked, port_of(alone_asked))[2], capture_output=True, check=False)
    assert done.returncode == 0 and done.stderr == b"", done
