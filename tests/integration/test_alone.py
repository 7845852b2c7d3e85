"""eclusa-proxy alone: starting, refusing to start, its CA, its end, and what the death of each of its parts leaves open."""
import os
import signal
import socket
import stat
import subprocess

import pytest

from lab.alone import PROFILE, Alone, Client, Held, allow, fetch, policy
from lab.eclusa import is_released, program, unfinished
from lab.events import DEADLINE, wait_until
from lab.world import RESOLVER

RULES = policy(allow("allowed.test:80,443 GET /**"))
BINARY = os.path.join(os.path.dirname(program()), "eclusa-proxy")


@pytest.fixture(name="marks")
def fixture_marks(lab):
    return lab.origin.connections.mark(), lab.dns.log.mark()


def test_an_allowed_request_passes_and_a_denied_one_is_refused(lab, machine, who, marks):
    alone = Alone(lab, machine, RULES, user=who)
    with Client(alone) as client:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/first")[0] == 200
        assert client.get("allowed.test", "/second")[0] == 200
    with Client(alone) as client:
        assert client.get_plain("http://allowed.test/plain")[0] == 200
    requests = [r.target for r in lab.origin.requests(marks[0])]
    assert requests == ["/first", "/second", "/plain"], "U"
    seen, asked = lab.origin.connections.mark(), lab.dns.log.mark()
    assert fetch(alone, "denied.test", "/no") == 403, "C"
    with Client(alone) as client:
        status, body = client.get_plain("http://denied.test/no")
        assert status == 403 and b"deny.default" in body, "C"
    assert not lab.origin.connections.since(seen) and not lab.dns.log.since(asked), "U"
    assert alone.end() == 0, alone.report()
    assert len(alone.events("deny.default")) == 2, "L"
    assert [len(alone.events("allow.rule", path)) for path in ("/first", "/second", "/plain")] == [1, 1, 1], "L"
    assert [e["status_code"] for e in alone.events()][0] == "sandbox.start"
    assert [e["status_code"] for e in alone.events()][-1] == "sandbox.exit"
    assert unfinished(alone.audit) == []
    assert {e["container"]["uid"] for e in alone.events("allow.rule")} == {alone.events("sandbox.exit")[0]["container"]["uid"]}


def test_a_private_address_is_refused_though_the_name_is_allowed(lab, machine, marks):
    lab.dns.zone["inside.test"] = ["10.9.8.7"]
    alone = Alone(lab, machine, policy("allow inside.test GET /**"))
    assert fetch(alone, "inside.test", "/x") == 403, "C"
    assert not lab.origin.connections.since(marks[0]), "U"
    alone.end()
    assert alone.events("deny.address-private"), "L"


def test_it_takes_as_many_descriptors_as_it_may(lab, machine):
    alone = Alone(lab, machine, RULES, before=["prlimit", "--nofile=256:4096", "--"])
    worker = wait_until(lambda: alone.child("eclusa-worker"), "a worker")
    for process in (alone.process.pid, worker):
        with open(f"/proc/{process}/limits", encoding="ascii") as file:
            (line,) = [line for line in file if line.startswith("Max open files")]
        assert line.split()[3:5] == ["4096", "4096"], process
    assert alone.end() == 0, alone.report()


def test_its_processes_are_confined(lab, machine, who):
    alone = Alone(lab, machine, RULES, user=who)
    for name in ("eclusa-super", "eclusa-keeper", "eclusa-recorder", "eclusa-worker"):
        pid = wait_until(lambda n=name: alone.child(n), name)
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        assert fields["NoNewPrivs"] == "1" and int(fields["CapEff"], 16) == 0, name
        assert fields["Uid"].split("\t")[0] not in ("0",), f"{name} runs as the host's root"
        assert name == "eclusa-super" or fields["Seccomp"] == "2", name
    alone.end()


REFUSED = [
    (["--listen", "0.0.0.0:0"], "--remote-clients"),
    (["--listen", "[::]:0"], "--remote-clients"),
    (["--listen", "203.0.114.1:0"], "--remote-clients"),
    (["--listen", "localhost:1"], "--listen takes ADDRESS:PORT"),
    (["--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"], "twice"),
    (["--ca", "/dev/null"], "belong together"),
    (["--nonsense"], "nonsense"),
    (["word"], "no word"),
    (["--profile", ""], "empty"),
]


@pytest.mark.parametrize("more, says", REFUSED, ids=[" ".join(r[0]) for r in REFUSED])
def test_wrong_usage_is_one_line_and_status_125(machine, more, says):
    words = [] if "--listen" in more else ["--listen", "127.0.0.1:0"]
    profile = [] if "--profile" in more else ["--profile", PROFILE]
    done = subprocess.run(machine.command(BINARY, *words, "--policy", "/nowhere", *profile, *more),
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 125 and done.stdout == "", done
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_called_without_a_word_it_says_what_is_missing():
    done = subprocess.run([BINARY], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (125, "", "eclusa-proxy: --listen is missing (eclusa-proxy --help)\n")


def test_an_address_that_others_reach_is_taken_when_asked_for(lab, machine):
    alone = Alone(lab, machine, RULES, "--remote-clients", arguments=None)
    alone.end()
    more = Alone(lab, machine, RULES, ready=False, arguments=[
        "--listen", "203.0.114.1:0", "--remote-clients", "--policy", alone.policy, "--profile", PROFILE, "--audit-dir", alone.audit])
    line = more.output.get(timeout=DEADLINE)
    assert line and line.startswith("ready 203.0.114.1:"), more.report()
    assert more.end() == 0


@pytest.mark.parametrize("text, says", [
    (None, "No such file"), (b"", "policy"), (b"policy 1\n[profile bench]\nallow a\0b.test\n", "main.allow:3"),
    (b"policy 1\n[profile bench]\nallow *.test\n", "main.allow:3"),
    (b"policy 1\n[profile other]\nallow allowed.test\n", "other"),
], ids=["missing", "empty", "hostile", "too-wide", "another-profile"])
def test_without_a_policy_it_does_not_start(lab, machine, text, says):
    """Case A12."""
    alone = Alone(lab, machine, RULES)
    alone.end()
    os.unlink(alone.policy)
    if text is not None:
        with open(alone.policy, "wb") as file:
            file.write(text)
    again = Alone(lab, machine, alone.policy, ready=False)
    assert again.output.get(timeout=DEADLINE) is None, "it must not say that it is ready"
    assert again.end() == 2
    assert any(line and says in line for line in again.errors), again.errors
    assert not os.path.exists(os.path.join(again.state, "policy.last-good"))


def test_the_only_profile_needs_no_name(lab, machine, marks):
    """It stays the one of the first policy; where there are several, or none is known, somebody has to say which."""
    alone = Alone(lab, machine, RULES)
    alone.end()
    words = ["--listen", "127.0.0.1:0", "--policy", alone.policy, "--audit-dir", alone.audit, "--state-dir", alone.state,
             "--upstream-ca", lab.certificates.ca_file, "--resolver", f"{RESOLVER}:53", "--ca-out", alone.ca]
    again = Alone(lab, machine, alone.policy, arguments=words)
    again.ca, again.audit = alone.ca, alone.audit
    assert fetch(again, "allowed.test", "/unnamed") == 200, "C" + again.report()
    assert fetch(again, "denied.test", "/unnamed") == 403, "C"
    again.write_policy("policy 1\n[profile other]\nallow denied.test\n")
    again.hang_up()
    again.wait_logged("policy-rejected")
    assert fetch(again, "allowed.test", "/still") == 200, "C"
    assert again.end() == 0
    assert [r.target for r in lab.origin.requests(marks[0])] == ["/unnamed", "/still"], "U"
    assert {e["policy"]["uid"] for e in again.events("allow.rule") + again.events("deny.default")} == {PROFILE}, "L"
    again.write_policy(open(alone.policy, encoding="utf-8").read() + f"[profile {PROFILE}]\n")
    copied = Alone(lab, machine, alone.policy, arguments=words)  # of two profiles it takes none; its copy has one
    assert copied.end() == 0 and copied.logged("policy-last-good") and copied.logged("other"), copied.errors
    with open(os.path.join(alone.state, "policy.last-good"), "wb") as file:
        file.write(b"damaged")
    last = Alone(lab, machine, alone.policy, arguments=words, ready=False)
    assert last.output.get(timeout=DEADLINE) is None and last.end() == 2, last.errors


def test_an_empty_profile_starts_and_denies_everything(lab, machine, marks):
    """Case A12."""
    alone = Alone(lab, machine, policy())
    assert fetch(alone, "allowed.test", "/") == 403
    assert not lab.origin.connections.since(marks[0])
    alone.end()
    assert alone.events("deny.default")


@pytest.fixture(name="ca_files", scope="module")
def fixture_ca_files(tmp_path_factory):
    """Name -> (certificate, key)."""
    folder = tmp_path_factory.mktemp("ca")

    def make(name, kind, extensions=("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"), days="30", **more):
        key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", *kind, "-nodes", "-keyout", key, "-out", certificate, "-days", days,
                        "-subj", f"/CN={name}", *[w for e in extensions for w in ("-addext", e)], *more.get("args", ())],
                       check=True, capture_output=True)
        return str(certificate), str(key)

    curve = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made = {"ec": make("ec", curve), "rsa": make("rsa", ["rsa:2048"]), "small": make("small", ["rsa:1024"]),
            "leaf": make("leaf", curve, ("basicConstraints=critical,CA:FALSE",)),
            "ed25519": make("ed25519", ["ed25519"])}
    made["mixed"] = made["ec"][0], made["rsa"][1]
    made["swapped"] = made["ec"][1], made["ec"][0]
    return made


@pytest.mark.parametrize("name", ["ec", "rsa"])
def test_leaves_are_signed_by_the_operators_ca(lab, machine, who, ca_files, name):
    certificate, key = ca_files[name]
    if who:
        own = os.path.join(lab.folder, f"{name}.key")
        with open(key, "rb") as source, open(own, "wb") as file:
            file.write(source.read())
        with open(certificate, "rb") as source, open(own + ".pem", "wb") as file:
            file.write(source.read())
        os.chmod(own, 0o600)
        os.chown(own, who, who)
        certificate, key = own + ".pem", own
    alone = Alone(lab, machine, RULES, "--ca", certificate, "--ca-key", key, user=who)
    assert fetch(alone, "allowed.test", "/own-ca", ca=certificate) == 200
    assert alone.end() == 0


@pytest.mark.parametrize("name, says", [
    ("small", "2048"), ("leaf", "CA:TRUE"), ("ed25519", "elliptic"), ("mixed", "not the certificate's"), ("swapped", "no certificate")])
def test_a_ca_that_clients_would_not_take_is_refused(lab, machine, ca_files, name, says):
    certificate, key = ca_files[name]
    alone = Alone(lab, machine, RULES, "--ca", certificate, "--ca-key", key, ready=False)
    assert alone.output.get(timeout=DEADLINE) is None
    assert alone.end() == 1
    assert any(line and says in line for line in alone.errors), alone.errors


def test_the_certificate_is_there_whole_before_it_is_ready(lab, machine):
    alone = Alone(lab, machine, RULES)
    with open(alone.ca, encoding="ascii") as file:
        text = file.read()
    assert text.startswith("-----BEGIN CERTIFICATE-----") and text.endswith("-----END CERTIFICATE-----\n")
    assert "PRIVATE" not in text and stat.S_IMODE(os.stat(alone.ca).st_mode) == 0o644
    assert os.listdir(os.path.dirname(alone.ca)).count("ca.pem") == 1 and not os.path.exists(alone.ca + ".new")
    alone.end()


def test_sigint_ends_it_in_order_with_open_connections_recorded(lab, machine):
    alone = Alone(lab, machine, RULES)
    with Client(alone) as client:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/before-the-end")[0] == 200
        assert alone.end(signal.SIGINT) == 0
        assert client.ended() in ("eof", "reset")
    assert alone.events("allow.rule", "/before-the-end")
    assert [e for e in alone.events("allow.rule") if e["http_request"]["http_method"] == "CONNECT"]


def test_a_state_folder_has_one_proxy(lab, machine):
    alone = Alone(lab, machine, RULES)
    other = Alone(lab, machine, alone.policy, state=alone.state, ready=False)
    assert other.output.get(timeout=DEADLINE) is None and other.end() == 1
    assert any(line and "another proxy uses" in line for line in other.errors), other.errors
    assert fetch(alone, "allowed.test", "/still") == 200
    alone.end()


def refuses(machine, port):
    """Nobody accepts there."""
    def connect():
        with socket.socket() as sock:
            sock.settimeout(5)
            return sock.connect_ex(("127.0.0.1", port)) != 0
    return machine.inside(connect)


@pytest.mark.parametrize("victim", ["eclusa-worker", "eclusa-recorder"])
def test_a_killed_part_is_replaced_and_loses_no_record(lab, machine, who, marks, victim):
    alone = Alone(lab, machine, RULES, user=who)
    with Client(alone) as client:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/before")[0] == 200
        pid = alone.child(victim)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: alone.child(victim) not in (None, pid), "another one")
        if victim == "eclusa-worker":
            assert client.ended() in ("eof", "reset")
    assert fetch(alone, "denied.test", "/no") == 403
    assert fetch(alone, "allowed.test", "/after") == 200
    assert alone.end() == 0
    assert {r.target for r in lab.origin.requests(marks[0])} == {"/before", "/after"}, "U"
    assert alone.events(path="/before") and alone.events(path="/after"), "L"


@pytest.mark.parametrize("victim", ["eclusa-super", "eclusa-keeper", "front"])
def test_a_killed_part_that_can_not_be_replaced_leaves_nothing_open(lab, machine, who, marks, victim):
    alone = Alone(lab, machine, RULES, user=who)
    with Client(alone) as client:
        client.tunnel("allowed.test")
        assert client.get("allowed.test", "/before")[0] == 200
        pids = [alone.child(n) for n in ("eclusa-super", "eclusa-keeper", "eclusa-recorder", "eclusa-worker")]
        os.kill(alone.process.pid if victim == "front" else alone.child(victim), signal.SIGKILL)
        assert client.ended() in ("eof", "reset"), "C"
        status = alone.process.wait(DEADLINE)
    assert status == (-signal.SIGKILL if victim == "front" else 1), alone.report()
    wait_until(lambda: all(state_of(pid) == "Z" for pid in pids) and is_released(alone.audit), "all of its processes are gone")
    assert refuses(machine, alone.port), "C"
    assert [r.target for r in lab.origin.requests(marks[0])] == ["/before"], "U"
    again = Alone(lab, machine, alone.policy, user=who, arguments=[
        "--listen", "127.0.0.1:0", "--policy", alone.policy, "--profile", PROFILE, "--audit-dir", alone.audit])
    assert again.end() == 0
    assert alone.events(path="/before"), "L"
    ends = alone.events("sandbox.exit")
    assert len(ends) == 2, "L: each life has an end"


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


# --- its end

LONG = {"ECLUSA_LIMITS": "leave_ms=86400000"}  # what waits for that never ends in a test
BEGIN = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nbegin"


def leave(alone):
    alone.process.send_signal(signal.SIGTERM)
    alone.wait_logged("leaving")


def refused(alone):
    """Nobody listens anymore."""
    try:
        with Client(alone):
            return False
    except ConnectionRefusedError:
        return True


def test_what_is_under_way_may_end_and_nothing_new_begins(lab, machine):
    alone = Alone(lab, machine, RULES, env=LONG)
    held = Held(lab, "/held", BEGIN)
    with Client(alone) as client, Client(alone) as plain, Client(alone) as idle, Client(alone) as silent:
        idle.tunnel("allowed.test")
        assert idle.get("allowed.test", "/before")[0] == 200
        assert plain.get_plain("http://allowed.test/before")[0] == 200
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/held")
        assert client.head()[0] == 200 and client.take(5) == b"begin"
        leave(alone)
        assert idle.ended() == plain.ended() == silent.ended() == "eof", "what waits for a request is closed in order"
        wait_until(lambda: refused(alone), "no connection is taken")
        assert client.is_open()
        held.go.set()
        assert client.take(3) == b"end" and client.ended() == "eof"
    assert alone.process.wait(timeout=DEADLINE) == 0, alone.report()
    assert alone.end() == 0
    assert len(alone.events("allow.rule", "/held")) == 1 and not alone.logged("cut")
    assert alone.events()[-1]["status_code"] == "sandbox.exit" and unfinished(alone.audit) == []


def test_a_request_without_an_answer_yet_learns_that_it_is_the_last(lab, machine):
    alone = Alone(lab, machine, RULES, env=LONG)
    held = Held(lab, "/late")
    with Client(alone) as client:
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/late")
        held.arrived.wait(DEADLINE)
        leave(alone)
        wait_until(lambda: refused(alone), "the worker leaves")
        held.go.set()
        status, fields = client.head()
        assert status == 200 and fields["connection"] == "close"
    assert alone.process.wait(timeout=DEADLINE) == 0
    assert alone.end() == 0


@pytest.mark.parametrize("how", ["deadline", "second-signal"])
def test_what_takes_longer_is_cut_and_recorded(lab, machine, how):
    alone = Alone(lab, machine, RULES, env=LONG if how == "second-signal" else {"ECLUSA_LIMITS": "leave_ms=300"})
    held = Held(lab, "/cut", BEGIN)
    with Client(alone) as client:
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/cut")
        assert client.head()[0] == 200 and client.take(5) == b"begin"
        leave(alone)
        if how == "second-signal":
            assert client.is_open()
            alone.process.send_signal(signal.SIGTERM)
        assert client.ended() in ("eof", "reset"), "C: 8 bytes were announced"
        wait_until(lambda: not held.connection.open or held.go.set(), "U")
    assert alone.process.wait(timeout=DEADLINE) == 0
    assert alone.end() == 0
    assert bool(alone.logged("cut")) == (how == "deadline")
    (event,) = alone.events("allow.rule", "/cut")
    assert "cut: the sandbox has ended" in event["status_detail"], "L"
    assert alone.events()[-1]["status_code"] == "sandbox.exit" and unfinished(alone.audit) == []


def test_a_policy_that_changes_meanwhile_still_revokes(lab, machine):
    alone = Alone(lab, machine, RULES, env=LONG)
    Held(lab, "/leaving", BEGIN)
    with Client(alone) as client:
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/leaving")
        assert client.head()[0] == 200 and client.take(5) == b"begin"
        leave(alone)
        alone.load("allow elsewhere.test")
        assert client.ended() in ("eof", "reset"), "C"
    assert alone.process.wait(timeout=DEADLINE) == 0
    assert alone.end() == 0
    assert len(alone.events("deny.revoked", "/leaving")) == 1, "L"


def test_a_worker_that_dies_while_it_leaves_ends_it(lab, machine):
    alone = Alone(lab, machine, RULES, env=LONG)
    Held(lab, "/dies", BEGIN)
    with Client(alone) as client:
        client.tunnel("allowed.test")
        client.ask("allowed.test", "/dies")
        assert client.head()[0] == 200 and client.take(5) == b"begin"
        leave(alone)
        wait_until(lambda: refused(alone), "the worker leaves")
        os.kill(alone.child("eclusa-worker"), signal.SIGKILL)
        assert client.ended() in ("eof", "reset")
    assert alone.process.wait(timeout=DEADLINE) == 0, alone.report()
    assert alone.end() == 0
    (event,) = alone.events("allow.rule", "/dies")
    assert event["unmapped"]["eclusa"]["recovered"] is True, "L"
    assert unfinished(alone.audit) == []
