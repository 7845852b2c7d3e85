"""
A policy that changes while the proxy runs (F07): what triggers it, that it is all or nothing, which flows it cuts and which
it leaves alone, what is recorded, and what a start has when the files are gone.
"""
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

from lab.alone import PROFILE, Alone, Client, Held, allow, fetch, policy
from lab.eclusa import is_sanitized, program
from lab.events import DEADLINE, wait_until
from lab.raw_server import RawServers
from lab.world import ORIGIN, PUBLIC

WIDE = allow("allowed.test:80,443 GET,POST /** req-body=1m id=wide")
NARROW = allow("allowed.test:80,443 GET /other/** id=narrow")
GONE = allow("elsewhere.test:443 GET /** id=gone")
CUT_MS = 100  # after the policy is in force


@pytest.fixture(name="alone")
def fixture_alone(lab, machine):
    made = Alone(lab, machine, policy(WIDE))
    yield made
    assert made.end() == 0, made.report()


def digests(alone):
    """(before, after) of each policy.loaded."""
    found = []
    for event in alone.events("policy.loaded"):
        found.append((event["entity"].get("uid"), event.get("entity_result", {}).get("uid")))
    return found


# --- what triggers a load

def test_the_command_loads_and_says_what_changed(lab, machine, alone):
    assert fetch(alone, "allowed.test", "/a") == 200
    first = alone.load(GONE)
    assert first["before"] != first["after"] and not first["stale"]
    seen, asked = lab.origin.connections.mark(), lab.dns.log.mark()
    assert fetch(alone, "allowed.test", "/b") == 403, "C"
    assert not lab.origin.connections.since(seen) and not lab.dns.log.since(asked), "U"
    second = alone.load(WIDE)
    assert (second["before"], second["after"]) == (first["after"], first["before"])
    assert fetch(alone, "allowed.test", "/c") == 200
    denied = alone.wait_event("deny.default")[0]
    assert denied["policy"]["version"] == first["after"], "L"
    assert alone.wait_event("allow.rule", "/a")[0]["policy"]["version"] == first["before"], "L"
    wait_until(lambda: len(digests(alone)) == 3, "three policies were in force")
    assert digests(alone)[1:] == [(first["before"], first["after"]), (first["after"], first["before"])], "L"


def test_the_same_files_are_loaded_when_asked_and_nothing_changes(alone):
    status, said = alone.reload()
    assert status == 0 and said["before"] == said["after"]


def test_sighup_loads(alone):
    alone.write_policy(policy(GONE))
    alone.hang_up()
    alone.wait_logged("policy-loaded")
    assert fetch(alone, "allowed.test", "/") == 403


@pytest.mark.parametrize("how", ["replaced", "written", "included", "another-file"])
def test_watched_files_are_loaded_when_they_change(lab, machine, how):
    alone = Alone(lab, machine, policy(WIDE), "--watch")
    if how in ("included", "another-file"):
        alone.end()
        folder = os.path.dirname(alone.policy)
        alone.write_policy("policy 1\ninclude more/part.allow\n" + policy("use part").split("\n", 1)[1])
        os.mkdir(os.path.join(folder, "more"))
        alone.write_policy(f"policy 1\n[group part]\n{WIDE}\n", "more/part.allow")
        alone = Alone(lab, machine, alone.policy, "--watch")
    assert fetch(alone, "allowed.test", "/") == 200
    if how == "replaced":
        alone.write_policy(policy(GONE))
    elif how == "written":
        with open(alone.policy, "w", encoding="ascii") as file:
            file.write(policy(GONE))
    elif how == "included":
        alone.write_policy(f"policy 1\n[group part]\n{GONE}\n", "more/part.allow")
    else:
        alone.write_policy(policy(GONE))
    alone.wait_logged("policy-loaded")
    assert fetch(alone, "allowed.test", "/") == 403
    assert alone.end() == 0


def test_a_mount_that_swaps_a_link_is_seen(lab, machine):
    """As a ConfigMap's volume does: the folder's files are links through one link, which is replaced."""
    folder = os.path.join(lab.folder, "mounted")
    for version, rule in (("v1", WIDE), ("v2", GONE)):
        os.makedirs(os.path.join(folder, version))
        with open(os.path.join(folder, version, "main.allow"), "w", encoding="ascii") as file:
            file.write(policy(rule))
    os.symlink("v1", os.path.join(folder, "data"))
    os.symlink("data/main.allow", os.path.join(folder, "main.allow"))
    alone = Alone(lab, machine, os.path.join(folder, "main.allow"), "--watch")
    assert fetch(alone, "allowed.test", "/") == 200
    os.symlink("v2", os.path.join(folder, "data.new"))
    os.rename(os.path.join(folder, "data.new"), os.path.join(folder, "data"))
    alone.wait_logged("policy-loaded")
    assert fetch(alone, "allowed.test", "/") == 403
    assert alone.end() == 0


def make_version(folder, name, rule):
    os.makedirs(os.path.join(folder, name))
    with open(os.path.join(folder, name, "main.allow"), "w", encoding="ascii") as file:
        file.write(policy(rule))


def changes_over(lab, machine, path, change):
    """What @change does to @path is loaded, and one more file in what is there then is seen, too."""
    alone = Alone(lab, machine, path, "--watch")
    assert fetch(alone, "allowed.test", "/") == 200
    change()
    wait_until(lambda: len(digests(alone)) == 2, alone.report)
    seen, asked = lab.origin.connections.mark(), lab.dns.log.mark()
    assert fetch(alone, "allowed.test", "/") == 403, "C"
    assert not lab.origin.connections.since(seen) and not lab.dns.log.since(asked), "U"
    alone.wait_event("deny.default")
    with open(os.path.join(path, "main.allow"), "w", encoding="ascii") as file:
        file.write(policy(WIDE))
    wait_until(lambda: len(digests(alone)) == 3, alone.report)
    assert fetch(alone, "allowed.test", "/") == 200
    assert alone.end() == 0


def test_a_folder_that_another_one_replaces_is_followed(lab, machine):
    parent = tempfile.mkdtemp(dir=lab.folder)
    make_version(parent, "rules", WIDE)
    make_version(parent, "next", GONE)

    def change():
        os.rename(os.path.join(parent, "rules"), os.path.join(parent, "old"))
        os.rename(os.path.join(parent, "next"), os.path.join(parent, "rules"))

    changes_over(lab, machine, os.path.join(parent, "rules"), change)


@pytest.mark.parametrize("path", ["", "current", "current/more"], ids=["volume", "link", "below-a-link"])
def test_a_swapped_link_is_followed_wherever_it_is_in_the_path(lab, machine, path):
    """A ConfigMap as a volume: files are links through one link, which is replaced; and releases, one of which is current."""
    parent = tempfile.mkdtemp(dir=lab.folder)
    below = "more" if path == "current/more" else ""
    make_version(parent, os.path.join("v1", below), WIDE)
    make_version(parent, os.path.join("v2", below), GONE)
    os.symlink("v1", os.path.join(parent, "current"))
    if not path:
        os.symlink("current/main.allow", os.path.join(parent, "main.allow"))

    def change():
        os.symlink("v2", os.path.join(parent, "new"))
        os.rename(os.path.join(parent, "new"), os.path.join(parent, "current"))

    changes_over(lab, machine, os.path.join(parent, path).rstrip("/"), change)


def test_files_that_are_only_touched_change_nothing(lab, machine):
    alone = Alone(lab, machine, policy(WIDE), "--watch")
    os.utime(alone.policy)
    alone.write_policy(policy(WIDE))
    alone.write_policy(policy(GONE), "other.txt")
    alone.write_policy(policy(WIDE, NARROW.replace("narrow", "more")))  # this one does, after the others
    alone.wait_logged("policy-loaded")
    assert len(alone.logged("policy-loaded")) == 1
    assert alone.end() == 0
    assert len(alone.events("policy.loaded")) == 2


def test_without_watch_a_changed_file_waits(alone):
    alone.write_policy(policy(GONE))
    assert fetch(alone, "allowed.test", "/") == 200
    assert not alone.logged("policy-loaded")


# --- what goes wrong

@pytest.mark.parametrize("text, says", [
    (None, "No such file"), ("policy 1\n[profile bench]\nallow *.test\n", "main.allow:3"),
    ("policy 1\n[profile other]\nallow allowed.test\n", "other"),
    (policy(WIDE, "expect deny GET https://allowed.test/"), "main.allow:5"),
], ids=["missing", "error", "profile-gone", "expect-failed"])
def test_a_bad_policy_is_refused_whole_and_says_where(lab, machine, alone, text, says):
    with Client(alone) as client:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/one")[0] == 200
        if text is None:
            os.unlink(alone.policy)
        else:
            alone.write_policy(text)
        status, said = alone.reload()
        assert status == 1 and not said["loaded"] and says in said["text"], said
        assert client.get("allowed.test", "/two")[0] == 200, "an open tunnel goes on"
    assert fetch(alone, "allowed.test", "/three") == 200
    assert fetch(alone, "denied.test", "/") == 403, "the old policy still denies"
    event = alone.wait_event("policy.rejected")[0]
    assert event["class_uid"] == 3004 and event["status_id"] == 2 and says in event["status_detail"], "L"
    alone.write_policy(policy(WIDE))
    assert alone.reload()[0] == 0


def test_a_wrong_file_that_is_watched_is_told_once_and_its_repair_is_seen(lab, machine):
    alone = Alone(lab, machine, policy(WIDE), "--watch")
    alone.write_policy("policy 1\nnonsense\n")
    alone.wait_logged("policy-rejected")
    os.utime(alone.policy)
    alone.write_policy("policy 1\nnonsense\n")
    alone.write_policy(policy(GONE))
    alone.wait_logged("policy-loaded")
    assert len(alone.logged("policy-rejected")) == 1
    assert fetch(alone, "allowed.test", "/") == 403
    assert alone.end() == 0
    assert len(alone.events("policy.rejected")) == 1


def test_nobody_else_may_ask(lab, machine):
    alone = Alone(lab, machine, policy(WIDE))
    os.chmod(alone.folder, 0o755)
    os.chmod(alone.state, 0o755)
    os.chmod(os.path.join(alone.state, "control"), 0o777)  # even so

    def ask():
        os.setgroups([])
        os.setgid(61235)
        os.setuid(61235)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.connect(os.path.join(alone.state, "control"))
            sock.settimeout(DEADLINE)
            try:
                sock.send(b"\1\0\0\0\0\0\0\0")
                return sock.recv(4096)
            except (ConnectionError, BrokenPipeError):
                return b""

    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if ask() == b"" else 1)
        except BaseException:  # the child only ever exits
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not alone.logged("policy-loaded")
    assert alone.reload()[0] == 0, "the proxy's own user may"
    alone.end()


def test_nonsense_on_the_control_socket_is_dropped(alone):
    for data in (b"", b"x", b"\2\0\0\0\0\0\0\0", b"\1" * 65000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.connect(os.path.join(alone.state, "control"))
            if data:
                sock.send(data)
    idle = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(8)]
    for sock in idle:
        sock.connect(os.path.join(alone.state, "control"))
    for sock in idle:
        sock.close()
    wait_until(lambda: alone.reload()[0] == 0, "it still answers")


def test_no_proxy_there_is_status_2(lab, machine):
    done = subprocess.run([program(), "policy", "reload", lab.folder], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done


# --- flows

def test_a_request_that_the_new_policy_denies_is_cut(lab, machine, alone):
    """F07, inside of a tunnel, with a part of the answer passed on already: a cut that looks like none but a cut."""
    held = Held(lab, "/held", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nbegin")
    with Client(alone) as client:
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/held")
        assert client.head()[0] == 200 and client.take(5) == b"begin"
        alone.load(NARROW)
        assert client.ended() in ("eof", "reset"), "C"
        wait_until(lambda: not held.connection.open or held.go.set(), "U: the origin's side is gone")
    event = alone.wait_event("deny.revoked", "/held")[0]
    assert event["action_id"] == 2 and "policy has changed" in event["status_detail"], "L"


@pytest.mark.parametrize("door", ["tunnel", "plain"])
def test_a_request_without_an_answer_yet_gets_a_refusal(lab, machine, alone, door):
    held = Held(lab, "/silent")
    with Client(alone) as client:
        if door == "tunnel":
            client.tunnel("allowed.test")
            client.ask("allowed.test", "/silent")
        else:
            client.send("GET http://allowed.test/silent HTTP/1.1\r\nHost: allowed.test\r\n\r\n")
        held.arrived.wait(60)
        alone.load(NARROW)
        status, body = client.answer()
        assert status == 403 and json.loads(body)["reason"] == "deny.revoked", "C"
        assert client.ended() in ("eof", "reset"), "C"
        held.go.set()
        wait_until(lambda: not held.connection.open, "U")
    alone.wait_event("deny.revoked", "/silent")


def test_an_upload_that_the_new_policy_denies_is_cut(lab, machine, alone):
    mark = lab.origin.connections.mark()
    with Client(alone) as client:
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/up", "POST", "Content-Length: 1000\r\n")
        client.send(b"u" * 500)
        lab.origin.connections.wait(lambda all_: any(b"u" * 500 in c.plain for c in all_[mark:]), "half of it arrived")
        alone.load(NARROW)
        assert client.answer()[0] == 403, "C"
    wait_until(lambda: not any(c.open for c in lab.origin.connections.since(mark)), "U: cut")
    assert not [r for r in lab.origin.requests(mark) if r.body], "U: it never looked complete"
    alone.wait_event("deny.revoked", "/up")


def test_an_idle_tunnel_to_a_host_that_is_denied_is_closed(lab, machine, alone):
    with Client(alone) as client, Client(alone) as silent:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/once")[0] == 200
        silent.tunnel("allowed.test")  # no request yet
        alone.load(GONE)
        assert client.ended() in ("eof", "reset") and silent.ended() in ("eof", "reset"), "C"
    revoked = alone.wait_event("deny.revoked", count=2)
    assert {e["http_request"]["http_method"] for e in revoked} == {"CONNECT"}, "L"


def test_a_cut_comes_at_once(alone):
    """In one of ten tries at least: a busy machine stops the proxy, or its client, for a while."""
    took = []
    while not took or min(took) >= CUT_MS:
        assert len(took) < 10, f"C: {took} ms"
        alone.load(WIDE)
        with Client(alone) as client:
            client.tunnel("allowed.test")
            assert client.get("allowed.test", "/once")[0] == 200
            alone.load(GONE)
            started = time.monotonic()
            assert client.ended() in ("eof", "reset"), "C"
            took.append((time.monotonic() - started) * 1000)


def test_an_idle_tunnel_stays_while_its_host_may_be_asked_for_anything(lab, machine, alone):
    with Client(alone) as client:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/free")[0] == 200
        alone.load(NARROW)
        assert client.is_open()
        assert client.get("allowed.test", "/other/x")[0] == 200
        status, body = client.get("allowed.test", "/free")
        assert status == 403 and json.loads(body)["reason"] == "deny.path", "C: the next request has the new policy"


def test_an_address_that_is_not_opened_anymore_is_let_go(lab, machine, alone):
    held = Held(lab, "/address", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nbegin")
    with Client(alone) as client, Client(alone) as idle:
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/address")
        assert client.head()[0] == 200
        client.take(5)
        idle.tunnel("allowed.test")
        assert idle.get("allowed.test", "/idle")[0] == 200  # by a connection of its own
        alone.load("allow allowed.test:443 GET /** addr=203.0.113.99/32 id=elsewhere")
        assert client.ended() in ("eof", "reset") and idle.ended() in ("eof", "reset"), "C"
        held.go.set()
    seen = lab.origin.connections.mark()
    assert fetch(alone, "allowed.test", "/new") == 403, "C"
    assert not lab.origin.connections.since(seen), "U"
    assert "address" in alone.wait_event("deny.revoked", "/address")[0]["status_detail"], "L"


def test_a_name_that_is_being_looked_up_is_dialled_by_the_new_policy(lab, machine):
    """The question is out, the answer comes after the change: nothing is dialled."""
    alone = Alone(lab, machine, policy(allow("slow.test GET /**")))
    gate = threading.Event()
    lab.dns.zone["slow.test"] = lambda _count, _kind: [ORIGIN] if gate.wait(60) else []
    mark, asked = lab.origin.connections.mark(), lab.dns.log.mark()
    with Client(alone) as client:
        client.send("CONNECT slow.test:443 HTTP/1.1\r\nHost: slow.test:443\r\n\r\n")
        wait_until(lambda: [q for q in lab.dns.log.since(asked) if q.name == "slow.test"], "it is looked up")
        alone.load(GONE)
        status, body = client.answer()
        assert status == 403 and json.loads(body)["reason"] == "deny.revoked", "C"
        gate.set()
    assert alone.end() == 0
    assert not lab.origin.connections.since(mark), "U"
    assert len(alone.events("deny.revoked")) == 1, "L"


@pytest.mark.parametrize("door", ["connect", "socks"])
@pytest.mark.parametrize("left", [[PUBLIC], []], ids=["one-left", "none-left"])
def test_an_address_that_was_admitted_and_not_dialled_yet_is_judged_anew(lab, machine, left, door):
    """The tunnel is open, its client has said nothing yet: the change comes between look-up and dial."""
    lab.dns.zone["two.test"] = [ORIGIN, *left]
    alone = Alone(lab, machine, policy(f"allow two.test:80 GET /** addr=public,{ORIGIN}/32"))
    mark = lab.origin.connections.mark()
    with Client(alone) as client:
        if door == "connect":
            client.send("CONNECT two.test:80 HTTP/1.1\r\nHost: two.test:80\r\n\r\n")
            assert client.head()[0] == 200
        else:
            client.send(b"\5\1\0\5\1\0\3\x08two.test\0\x50")
            assert client.take(4) == b"\5\0\5\0" and client.take(8)
        alone.load("allow two.test:80 GET /**")
        with contextlib.suppress(ConnectionError):  # it may be cut already
            client.send("GET /now HTTP/1.1\r\nHost: two.test\r\n\r\n")
        if left:
            assert client.answer()[0] == 200, "C"
        else:
            assert client.ended() in ("eof", "reset"), "C"
    assert alone.end() == 0
    assert [c.local[0] for c in lab.origin.connections.since(mark)] == left, "U"
    revoked = alone.events("deny.revoked")
    assert [e["http_request"]["http_method"] for e in revoked] == ([] if left else ["CONNECT"]), "L"
    assert all("address" in e["status_detail"] for e in revoked), "L"
    assert len(alone.events("allow.rule", "/now")) == len(left), "L"


def test_a_dial_that_is_under_way_goes_on_with_the_addresses_that_are_still_open(lab, machine):
    """The first address takes nobody, the next one would be tried in a minute: the change is what ends the wait."""
    nobody = "203.0.113.99"
    machine.ip(f"route replace {nobody}/32 dev world2",
               f"neigh replace {nobody} lladdr 02:00:00:00:00:99 dev world2")  # which nobody has: no answer at all, not even of ARP
    lab.dns.zone["slow.test"] = [nobody, PUBLIC]
    alone = Alone(lab, machine, policy(f"allow slow.test:80 GET /** addr=public,{nobody}/32"),
                  env={"ECLUSA_LIMITS": "dial_delay_ms=60000,dial_ms=60000,leave_ms=500"})
    mark = lab.origin.connections.mark()
    with Client(alone) as client:
        client.send("GET http://slow.test/now HTTP/1.1\r\nHost: slow.test\r\n\r\n")
        wait_until(lambda: nobody in machine.run("ss", "-tnH", "state", "syn-sent"), "it is dialled")
        alone.load("allow slow.test:80 GET /**")
        assert client.answer()[0] == 200, "C"
        assert nobody not in machine.run("ss", "-tnH", "state", "syn-sent")
    assert alone.end() == 0
    assert [c.local[0] for c in lab.origin.connections.since(mark)] == [PUBLIC], "U"
    assert len(alone.events("allow.rule", "/now")) == 1 and not alone.events("deny.revoked"), "L"


def test_a_looser_policy_disturbs_nobody(lab, machine, alone):
    held = Held(lab, "/kept", b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nbegin")
    with Client(alone) as client, Client(alone) as idle:
        idle.tunnel("allowed.test")
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/kept")
        assert client.head()[0] == 200 and client.take(5) == b"begin"
        first = alone.load(WIDE, GONE)
        assert client.is_open() and idle.is_open()
        held.go.set()
        assert client.take(3) == b"end"
        assert idle.get("allowed.test", "/idle")[0] == 200
        assert client.get("allowed.test", "/next")[0] == 200
    kept = alone.wait_event("allow.rule", "/kept")[0]
    assert kept["policy"]["version"] == first["before"], "L: judged by the old one"
    assert alone.wait_event("allow.rule", "/next")[0]["policy"]["version"] == first["after"], "L"
    assert not alone.events("deny.revoked")


def test_a_body_limit_that_shrinks_holds_for_the_next_request_only(lab, machine, alone):
    """The new policy does not deny the request: it ends under the verdict that it began with."""
    mark = lab.origin.connections.mark()
    with Client(alone) as client:
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/limit", "POST", "Content-Length: 1000\r\n")
        client.send(b"v" * 500)
        lab.origin.connections.wait(lambda all_: any(b"v" * 500 in c.plain for c in all_[mark:]), "half of it arrived")
        alone.load(WIDE.replace("req-body=1m", "req-body=10"))
        client.send(b"v" * 500)
        assert client.answer()[0] == 200
        client.ask("allowed.test", "/limit", "POST", "Content-Length: 11\r\n")
        assert client.answer()[0] == 413


@pytest.mark.parametrize("mode", ["enforce", "observe"])
@pytest.mark.parametrize("limit,code", [("up=1k", "deny.budget"), ("down=1k", "deny.budget"), ("time=1ms", "deny.limit"),
                                        ("up=1m", None)])
def test_bytes_that_pass_unread_go_on_within_the_new_limits(lab, machine, limit, code, mode):
    """Nothing else would end them, and what observing let pass without a limit has one when that ends."""
    def echo(connection):
        while data := connection.read():
            connection.send(data)

    servers = RawServers(lab.world, {2301: echo})
    lab.dns.zone["raw.test"] = [ORIGIN]
    alone = Alone(lab, machine, policy(f"set mode {mode}", allow("tcp raw.test:2301 up=1m id=raw")))
    try:
        with Client(alone) as client:
            client.send("CONNECT raw.test:2301 HTTP/1.1\r\nHost: raw.test:2301\r\n\r\n")
            assert client.head()[0] == 200
            client.send(b"v" * 1000)
            assert client.take(1000) == b"v" * 1000
            alone.load(allow(f"tcp raw.test:2301 {limit} id=raw"))
            with contextlib.suppress(OSError):
                client.send(b"w" * 1000)
            if code is None:
                assert client.take(1000) == b"w" * 1000, "C"
                return
            with pytest.raises((EOFError, ConnectionError)):
                client.take(1000)
        (event,) = alone.wait_event(code)
        assert event["firewall_rule"]["uid"] == "raw", "L"
        assert event["traffic"]["bytes_in" if limit.startswith("down") else "bytes_out"] <= 1 << 10, "L"
        wait_until(lambda: not servers.connections.since(0)[-1].open, "the connection ends")
        assert servers.connections.since(0)[-1].end == "reset", "U"
    finally:
        assert alone.end() == 0, alone.report()
        servers.close()


# --- all or nothing

def test_a_worker_that_is_killed_while_it_takes_the_policy(lab, machine):
    """Its successor has the policy in force, whichever that is by then; the others are not held up."""
    alone = Alone(lab, machine, policy(WIDE), env={"ECLUSA_FAULT": "worker-prepared"})
    worker = alone.child("eclusa-worker")
    alone.write_policy(policy(GONE))
    status, said = alone.reload()
    assert status == 0, said
    wait_until(lambda: alone.child("eclusa-worker") not in (None, worker), "another worker")
    seen = lab.origin.connections.mark()
    assert fetch(alone, "allowed.test", "/") == 403, "C"
    assert not lab.origin.connections.since(seen), "U"
    assert alone.end() == 0
    assert len(alone.events("policy.loaded")) == 2, "L"


@pytest.mark.parametrize("point", ["super-policy-begun", "super-policy-prepared", "super-policy-committed"])
def test_super_killed_while_the_policy_changes_leaves_nothing_open(lab, machine, point):
    alone = Alone(lab, machine, policy(WIDE), env={"ECLUSA_FAULT": point})
    alone.write_policy(policy(GONE))
    status, _ = alone.reload()
    assert status in (1, 2)
    assert alone.end() == 1
    again = Alone(lab, machine, alone.policy, state=alone.state)
    assert fetch(again, "allowed.test", "/") == 403
    assert again.end() == 0


def test_the_recorder_killed_while_the_policy_changes_loses_no_event(lab, machine, alone):
    os.kill(alone.child("eclusa-recorder"), signal.SIGKILL)
    alone.load(GONE)
    alone.load(WIDE)
    assert fetch(alone, "allowed.test", "/") == 200
    wait_until(lambda: len(alone.events("policy.loaded")) == 3, alone.report)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def memory_kib(pid):
    """What it has for itself; the ring of the log, which fills, is a file."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))


def test_two_hundred_loads_under_load_leak_nothing(lab, machine):
    alone = Alone(lab, machine, policy(WIDE))
    stop, failures, served = threading.Event(), [], []

    def load():
        while not stop.is_set():
            try:
                with Client(alone) as client:
                    client.tunnel("allowed.test")
                    for path in ("/other/1", "/other/2", "/other/3"):
                        status = client.get("allowed.test", path)[0]
                        served.append(status)
                        if status != 200:
                            failures.append(status)
            except (OSError, EOFError, AssertionError) as error:
                failures.append(repr(error))

    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    names = ["eclusa-super", "eclusa-keeper", "eclusa-recorder", "eclusa-worker"]
    try:
        def rounds(count):
            for n in range(count):
                alone.load(NARROW if n % 2 else WIDE)

        rounds(40)  # every allocator has its pools
        pids = [alone.process.pid, *(alone.child(name) for name in names)]
        before = [(descriptors(p), memory_kib(p)) for p in pids]
        rounds(200)
        wait_until(lambda: len(served) > 100 or failures, "requests are served meanwhile")
        after = [(descriptors(p), memory_kib(p)) for p in pids]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[:5]
    for name, (fds, kib), (fds_after, kib_after) in zip(["front", *names], before, after):
        assert fds_after <= fds + 12, f"{name}: {fds} -> {fds_after} descriptors"  # flows come and go
        if not is_sanitized():  # whose allocator keeps what was freed
            assert kib_after <= kib + 1500, f"{name}: {kib} -> {kib_after} KiB"
    assert alone.end() == 0
    assert len(alone.events("policy.loaded")) == 241


# --- starts without files

def test_the_last_good_policy_is_in_force_when_the_files_are_broken(lab, machine, who):
    alone = Alone(lab, machine, policy(WIDE), user=who)
    alone.end()
    alone.write_policy("policy 1\nnonsense\n")
    again = Alone(lab, machine, alone.policy, "--watch", state=alone.state, user=who)
    assert again.logged("policy-last-good") and again.logged("policy-not-loaded"), again.errors
    assert fetch(again, "allowed.test", "/stale") == 200
    assert fetch(again, "denied.test", "/") == 403
    event = again.wait_event("allow.rule", "/stale")[0]
    assert event["unmapped"]["eclusa"]["policy_stale"] is True, "L"
    assert again.wait_event("policy.loaded")[0]["unmapped"]["eclusa"]["policy_origin"] == "last-good", "L"
    assert "main.allow" in again.wait_event("policy.rejected")[0]["status_detail"], "L"
    again.write_policy(policy(WIDE))  # the same rules as the copy: not stale anymore all the same
    again.wait_logged("policy-loaded")
    assert fetch(again, "allowed.test", "/fresh") == 200
    assert "policy_stale" not in again.wait_event("allow.rule", "/fresh")[0]["unmapped"]["eclusa"], "L"
    assert again.end() == 0


@pytest.mark.parametrize("damage", ["removed", "changed", "cut"])
def test_everything_is_denied_when_the_copy_is_lost_too(lab, machine, damage):
    alone = Alone(lab, machine, policy(WIDE))
    alone.end()
    os.unlink(alone.policy)
    copy = os.path.join(alone.state, "policy.last-good")
    if damage == "removed":
        os.unlink(copy)
    else:
        with open(copy, "r+b") as file:
            if damage == "cut":
                file.truncate(os.path.getsize(copy) - 1)
            else:
                file.seek(-5, os.SEEK_END)
                file.write(b"X")
    again = Alone(lab, machine, alone.policy, "--watch", state=alone.state)
    assert again.logged("policy-absent")
    seen, asked = lab.origin.connections.mark(), lab.dns.log.mark()
    assert fetch(again, "allowed.test", "/") == 503, "C"
    with Client(again) as client:
        status, body = client.get_plain("http://allowed.test/")
        assert status == 503 and json.loads(body)["reason"] == "deny.policy-stale", "C"
    assert not lab.origin.connections.since(seen) and not lab.dns.log.since(asked), "U"
    assert len(again.wait_event("deny.policy-stale", count=2)) == 2, "L"
    again.write_policy(policy(WIDE))
    again.wait_logged("policy-loaded")
    assert fetch(again, "allowed.test", "/") == 200, "and the files, once they are there, are taken"
    assert again.end() == 0


def test_a_refused_policy_does_not_become_the_last_good_one(lab, machine, alone):
    alone.load(NARROW)
    alone.write_policy("policy 1\nnonsense\n")
    assert alone.reload()[0] == 1
    with open(os.path.join(alone.state, "policy.last-good"), encoding="ascii") as file:
        kept = file.read()
    assert "narrow" in kept and "nonsense" not in kept


def test_without_a_state_folder_a_bad_file_changes_nothing_while_it_runs(lab, machine):
    alone = Alone(lab, machine, policy(WIDE))
    alone.end()
    plain = Alone(lab, machine, alone.policy, arguments=[
        "--listen", "127.0.0.1:0", "--policy", alone.policy, "--profile", PROFILE, "--audit-dir", alone.audit,
        "--upstream-ca", lab.certificates.ca_file, "--resolver", "203.0.113.53:53", "--ca-out", alone.ca])
    plain.ca = alone.ca
    alone.write_policy("policy 1\nnonsense\n")
    plain.hang_up()
    plain.wait_logged("policy-rejected")
    assert fetch(plain, "allowed.test", "/") == 200
    assert plain.end() == 0
