"""
One gateway and one proxy for many sandboxes: `eclusa serve` and `eclusa run --service`. What a run of its own gets, a run of the
service gets; neither another sandbox nor a launcher that lies, is silent or dies costs anybody else.
"""
import os
import resource
import signal
import subprocess
import tempfile
import threading

import pytest

from lab.alone import Held
from lab.census import Census, assert_nothing_left
from lab.eclusa import USER_UID, Launch, Run, program, run_eclusa, unfinished
from lab.events import wait_until
from lab.service import POLICY, Service
from lab.service_client import COUNTERS, COUNTERS_READ, EXIT, GRANTED, LINES, LINES_READ, PACKET, Client, NETWORK, bare, event, lease
from lab.world import ORIGIN

PYTHON = "/usr/bin/python3"
# Prints a status, or the reason of a refusal, for each URL.
FETCH = """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=10).status, flush=True)
    except urllib.error.HTTPError as error:
        print(error.code, error.reason.split(" ")[0], flush=True)
    except OSError as error:
        print("failed", flush=True)
"""
SHORT = "lease_ask_ms=200,lease_tell_ms=200,lease_record_ms=2000,leave_ms=200"


def fetch(*urls):
    return [PYTHON, "-c", FETCH, *urls]


@pytest.fixture(scope="module")
def service(lab):
    made = Service(lab)
    yield made
    assert made.end() == 0, made.report()


@pytest.fixture
def own(lab):
    """A service of the test's own, which the test ends; before it the census was taken. @return (start, census)"""
    before, started = Census(lab), []

    def start(*args, **more):
        started.append(Service(lab, *args, **more))
        return started[-1]

    yield start, before
    for made in started:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()


def sleeps(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S"


def held_run(lab, service, profile, path, *args):
    """A run whose first request waits at the origin. @return (Popen, Held)"""
    held = Held(lab, path)
    process = service.launch(profile, fetch(f"https://allowed.test{path}", f"https://allowed.test/{profile}/after"), *args)
    assert held.arrived.wait(30), service.report()
    return process, held


def test_what_is_allowed_passes_and_its_twin_does_not(lab, service):
    connections = lab.origin.connections.mark()
    run = service.run("one", fetch("https://allowed.test/one/yes", "https://allowed.test/two/no"))
    assert run.status == 0 and run.output.split("\n")[:2] == ["200", "403 deny.path"], run.report()  # C
    targets = [r.target for r in lab.origin.requests(connections)]
    assert targets == ["/one/yes"], targets  # U
    codes = [e["status_code"] for e in run.events]  # L: the sandbox as a whole, in order
    assert codes[0] == "sandbox.start" and codes[-1] == "sandbox.exit" and codes.count("deny.path") == 1, run.report()
    network = run.result["network"]
    assert network["decisions"]["denied"] == 1 and network["dial_guard"], network
    denial, = run.result["denials"]
    assert denial["reason"] == "deny.path" and "[profile one]: allow allowed.test /two/no" in denial["hint"], denial
    start = run.events[0]
    assert start["actor"]["user"] == {"name": "root", "uid": "0"} and start["process"]["name"] == "python3", start
    assert {"profile:one"} <= set(start["metadata"]["labels"]), start
    assert run.result["audit"].startswith(service.audit + "/") and run.result["receipt"]["policy_sha256"]


def test_packets_past_the_proxy_are_counted_for_their_sandbox(lab, service):
    code = ("import socket\nfor address in ('169.254.169.254', '5.6.7.8'):\n s = socket.socket(); s.settimeout(5)\n"
            " try: s.connect((address, 443)); print('connected')\n except OSError as e: print(e.errno)\n")
    run = service.run("one", [PYTHON, "-c", code])
    assert run.output.split() == ["111", "111"], run.report()
    lab.canary.assert_silent()
    refused = {e["status_code"] for e in run.events if e.get("action_id") == 2}
    assert refused == {"deny.address-metadata", "deny.packet"}, run.report()
    assert {d["reason"] for d in run.result["denials"]} == refused


def test_two_sandboxes_have_their_own_rules_budgets_and_addresses(lab, service):
    connections = lab.origin.connections.mark()
    one, held_one = held_run(lab, service, "one", "/one/held")
    two, held_two = held_run(lab, service, "two", "/two/held")
    third = service.launch("two", fetch("https://wild.test/two/a", "https://wild.test/two/b", "https://allowed.test/one/x"))
    fourth = service.launch("two", fetch("https://wild.test/two/a", "https://wild.test/two/b"))
    third, fourth = service.end_of(third), service.end_of(fourth)
    held_one.go.set()
    held_two.go.set()
    one, two = service.end_of(one), service.end_of(two)
    assert one.output.split() == two.output.split() == ["200", "200"], one.report() + two.report()
    # Each has its one use, whatever the other one used; rules are those of the profile.
    assert third.output.split("\n")[:3] == ["200", "503 deny.quota", "403 deny.path"], third.report()
    assert fourth.output.split("\n")[:2] == ["200", "503 deny.quota"], fourth.report()
    seen = [r.target for r in lab.origin.requests(connections)]
    assert sorted(seen) == sorted(["/one/held", "/one/after", "/two/held", "/two/after", "/two/a", "/two/a"]), seen
    addresses = [{e["src_endpoint"]["ip"] for e in run.decisions()} for run in (one, two, third, fourth)]
    assert all(len(a) == 1 for a in addresses) and len(set.union(*addresses)) == 4, addresses


def test_another_file_of_the_log_begins_while_a_sandbox_runs(lab, service):
    process, held = held_run(lab, service, "one", "/one/rotated")
    files = len([name for name in os.listdir(service.audit) if name.endswith(".jsonl")])
    service.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len([n for n in os.listdir(service.audit) if n.endswith(".jsonl")]) > files, service.report)
    wait_until(lambda: len(service.logged("policy-loaded")) > 0, service.report)
    held.go.set()
    run = service.end_of(process)
    assert run.output.split() == ["200", "200"], run.report()
    assert run.result["network"]["decisions"]["allowed"] == len(run.decisions()) + len(run.tunnels()) == 4, run.report()


def test_what_streams_tells_denials_at_the_end(service):
    run = service.run("one", fetch("https://allowed.test/two/no"), "--stream")
    kinds = [line.split(b'"event":"')[1].split(b'"')[0] for line in run.stdout.splitlines() if b'"event":"' in line]
    assert kinds[0] == b"start" and b"denial" in kinds, run.stdout


@pytest.mark.parametrize("words,line", [
    (["--profile", "three"], "the service has no profile three"),
    ([], "several profiles: say --profile"),
    (["--profile", "one", "--allow", "allowed.test"], "--service and --allow can't be given together"),
    (["--profile", "one", "--policy", "/x"], "--service and --policy can't be given together"),
    (["--profile", "one", "--audit-dir", "/x"], "--service and --audit-dir can't be given together"),
    (["--profile", "one", "--resolver", "203.0.113.53"], "--service and --resolver can't be given together"),
])
def test_what_a_run_may_not_ask_for(lab, service, words, line):
    connections = lab.origin.connections.mark()
    process = service.launch(None, fetch("https://allowed.test/one/never"), *words)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 125 and line in stderr.decode(), (stdout, stderr)
    assert not lab.origin.connections.since(connections)
    assert not [e for e in service.events("sandbox.start") if "never" in str(e)]


def test_a_wrong_call_of_the_service_names_its_own_help():
    done = subprocess.run([program(), "serve", "--workers", "99"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (125, ""), done
    assert done.stderr == "eclusa serve: --workers takes a number from 1 to 8, not 99 (eclusa serve --help)\n"


def test_who_is_not_root_is_refused(lab, service):
    start = Launch(lab, ["run", f"--service={service.socket}", "--profile", "one", "--", "/bin/true"], user=USER_UID)
    process = start.popen()
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 125 and b"only root may use a service" in stderr, stderr
    assert os.stat(service.socket).st_mode & 0o777 == 0o600
    os.chmod(service.folder, 0o755)
    os.chmod(service.socket, 0o666)  # whatever the file system says, the service asks the kernel who it is
    code = ("import socket, struct\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            f"s.connect({service.socket!r})\nprint(s.recv(65536)[16:].split(b'\\0')[0].decode())\n")
    done = subprocess.run(["setpriv", f"--reuid={USER_UID}", "--clear-groups", PYTHON, "-c", code], capture_output=True, text=True,
                          timeout=30, check=False)
    os.chmod(service.socket, 0o600)
    assert done.stdout == "only root may use this service\n", done.stderr


def test_no_service_is_an_error_and_not_another_network(lab):
    run = Launch(lab, ["run", f"--service={lab.folder}/nowhere", "--", "/bin/true"]).popen()
    _, stderr = run.communicate(timeout=30)
    assert run.returncode == 125 and b"no service listens on" in stderr, stderr


PRETEND = """
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen()
print("listens", flush=True)
print(len(listener.accept()[0].recv(65536)))
"""


def test_no_one_but_root_can_pretend_to_be_the_service(lab):
    """It would choose the network, and what the run's result says of it."""
    with tempfile.TemporaryDirectory(prefix="pretend-", dir="/tmp") as folder:
        os.chown(folder, USER_UID, -1)
        path = f"{folder}/serve"
        with subprocess.Popen(["setpriv", f"--reuid={USER_UID}", "--clear-groups", PYTHON, "-c", PRETEND, path], stdout=subprocess.PIPE,
                              text=True) as other:
            assert other.stdout.readline() == "listens\n"
            run = Launch(lab, ["run", f"--service={path}", "--", "/bin/true"]).popen()
            _, stderr = run.communicate(timeout=30)
            assert run.returncode == 125 and f"is uid {USER_UID}, and not root" in stderr.decode(), stderr
            assert other.communicate(timeout=30)[0] == "0\n", "and it was told nothing"


MALFORMED = {
    "nothing": b"",
    "a byte": b"x",
    "a header": bare(1000),
    "another kind": bare(77),
    "counters before a lease": bare(COUNTERS),
    "lines before a lease": bare(LINES),
    "an event before a lease": event(),
    "a lease that is too short": lease()[:-1],
    "a lease that is too long": lease() + b"x",
    "much": b"x" * 60000,
}
REFUSED = {
    "a profile without end": lease("p" * 64),
    "an empty profile": lease(""),
    "an unknown profile": lease("three"),
    "a start that is an exit": lease(start=event(reason=EXIT, activity=2)),
    "a start of another class": lease(start=event(category=NETWORK)),
    "words without end": lease(start=event()[:8 + 4 * 3] + b"\xff\xff\xff\x7f" + event()[8 + 4 * 4:]),
}


def test_who_asks_for_nonsense_gets_nothing_and_others_are_served(service):
    starts = len(service.events("sandbox.start"))
    for what, message in MALFORMED.items():
        with Client(service.socket) as client:
            if message:
                client.send(message)
            else:
                client.sock.shutdown(1)
            assert client.hear()[0] is None, what
    for what, message in REFUSED.items():
        with Client(service.socket) as client:
            client.send(message)
            assert client.failure(), what
            assert client.hear()[0] is None, what
    assert len(service.events("sandbox.start")) == starts, "what is refused leaves no start behind"
    with Client(service.socket) as silent:
        assert service.run("one", ["/bin/true"]).status == 0
        silent.granted()
        assert service.run("one", ["/bin/true"]).status == 0


def test_ten_thousand_who_say_nothing_keep_nobody_out(service):
    clients, done = [], []

    def crowd():
        try:
            for _ in range(10000):
                clients.append(Client(service.socket))
                if len(clients) > 200:
                    clients.pop(0).sock.close()
        finally:
            done.append(len(clients))

    thread = threading.Thread(target=crowd)
    thread.start()
    served = 0
    while not done:
        run = service.run("one", ["/bin/true"])
        assert run.status == 0, run.report()
        served += 1
    thread.join()
    for client in clients:
        client.sock.close()
    assert done == [200] and served and service.run("one", ["/bin/true"]).status == 0


def test_a_launcher_that_says_too_much_loses_its_lease(lab, service):
    with Client(service.socket) as client:
        name, fds = client.granted()
        client.send(event(kind=1002, reason=EXIT, activity=2))  # before it has asked for its end
        assert client.hear()[0] is None
        for fd in fds:
            os.close(fd)
    with Client(service.socket) as client:
        flood, fds = client.granted()
        client.send(bare(COUNTERS))
        assert client.hear()[0] == COUNTERS_READ
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                client.send(event(kind=1002, reason=PACKET, activity=5, category=NETWORK))
        for fd in fds:
            os.close(fd)

    def ends():
        return {e["container"]["uid"]: e for e in service.events("sandbox.exit")}

    wait_until(lambda: {name, flood} <= set(ends()), service.report)
    assert {ends()[n]["unmapped"]["eclusa"]["verdict"] for n in (name, flood)} == {"supervisor"}
    told = [e for e in service.events("deny.packet") if e["container"]["uid"] == flood]
    assert len(told) == 128


@pytest.mark.parametrize("numbers", [(1, 1, 0, 0, 0, 0), (2**64 - 1,) * 6], ids=["small", "too large for readers of the log"])
def test_what_a_launcher_may_tell_of_its_sandbox(service, numbers):
    with Client(service.socket) as client:
        name, fds = client.granted()
        assert len(fds) == 2, "the namespace, and the roots that the proxy trusts"
        for fd in fds:
            os.close(fd)
        client.send(bare(COUNTERS))
        assert client.hear()[0] == COUNTERS_READ
        client.send(event(kind=1002, reason=EXIT, activity=2, verdict="ok", numbers=numbers), bare(LINES))
        kind, data, fds = client.hear()
        assert kind == LINES_READ and data[8:12] == bytes(4), data
        text = os.pread(fds[0], 1 << 20, 0).decode()
        assert [line.count(f'"uid":"{name}"') for line in text.splitlines()] == [1, 1], text
        with pytest.raises(OSError):
            os.write(fds[0], b"x")
        os.close(fds[0])


def test_a_policy_that_is_loaded_again_holds_for_who_runs(own, lab):
    service = own[0]()
    process, held = held_run(lab, service, "one", "/one/reload")
    service.write_policy(POLICY.replace("GET /one/**", "GET /one/reload"))
    status, answer = service.reload()
    assert status == 0 and answer["loaded"], answer
    held.go.set()
    run = service.end_of(process)
    assert run.output.split("\n")[:2] == ["200", "403 deny.path"], run.report()
    assert not [r for r in lab.origin.requests() if r.target == "/one/after" and r.host == "never"]
    for text, why in (
            (POLICY.replace("[profile two]", "[profile zwei]"), "two"),
            (POLICY + "allow wild.test:444 addr=10.0.0.0/8\n", "10.0.0.0/8"),
            (POLICY + "allow ip:198.51.100.7:443\n", "198.51.100.7/32"),
            ("nonsense\n", "main.allow:1")):
        service.write_policy(text)
        status, answer = service.reload()
        assert status != 0 and why in str(answer), answer
    again = service.run("one", fetch("https://allowed.test/one/x"))
    assert again.output.startswith("403 deny.path"), "what was in force stays\n" + again.report()
    assert service.end() == 0, service.report()


def test_a_log_that_verifies_and_no_file_that_is_unfinished(own, lab):
    service = own[0]("--workers", "3")
    with_two = [service.launch("two", fetch("https://allowed.test/two/v", "https://allowed.test/no")) for _ in range(6)]
    for process in with_two:
        assert service.end_of(process).output.split("\n")[:2] == ["200", "403 deny.path"]
    assert service.end() == 0, service.report()
    done = subprocess.run([program(), "audit", "verify", "--audit-dir", service.audit], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not unfinished(service.audit)


@pytest.mark.parametrize("victim", ["eclusa-netd", "eclusa-super", "eclusa-keeper", "serve"])
def test_a_service_that_dies_ends_its_runs(own, lab, victim):
    service = own[0]("--ready", "2")
    process, held = held_run(lab, service, "one", "/one/dies")
    os.kill(service.process.pid if victim == "serve" else service.child(victim), signal.SIGKILL)
    run = service.end_of(process)
    held.go.set()
    assert run.status == 125 and run.result["verdict"] == "supervisor", run.report()
    assert service.process.wait(timeout=30) != 0
    assert_nothing_left(lab, own[1], ignore=("cgroups", "descriptors", "files"))
    again = Service(lab, folder=service.folder)  # on the same socket and the same log
    assert again.run("one", fetch("https://allowed.test/one/again")).output == "200\n"
    assert again.end() == 0, again.report()
    assert_nothing_left(lab, own[1], ignore=("cgroups", "descriptors", "files"))
    ends = [e for e in again.events("sandbox.exit") if e["container"]["uid"] == run.result["id"]]
    assert [e["unmapped"]["eclusa"]["verdict"] for e in ends] in (["supervisor"], ["unknown"]), again.report()
    done = subprocess.run([program(), "audit", "verify", "--audit-dir", service.audit], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_worker_that_dies_is_replaced_and_the_sandbox_goes_on(own, lab):
    service = own[0]()
    process, held = held_run(lab, service, "one", "/one/worker")
    os.kill(service.child("eclusa-worker"), signal.SIGKILL)
    run = service.end_of(process)
    held.go.set()
    assert run.status == 0 and run.output.split() == ["failed", "200"], run.report()
    assert [e["unmapped"]["eclusa"].get("recovered") for e in run.events
            if e.get("http_request", {}).get("url", {}).get("path") == "/one/worker"] == [True], run.report()
    assert service.end() == 0, service.report()


def test_a_launcher_that_dies_ends_its_sandbox_alone(own, lab):
    service = own[0]("--ready", "0")
    warm = service.run("one", ["/bin/true"])
    assert warm.status == 0, warm.report()
    before = Census(lab)
    process, held = held_run(lab, service, "one", "/one/launcher")
    other, held_other = held_run(lab, service, "two", "/two/launcher")
    name = service.events("sandbox.start")[-2]["container"]["uid"]
    process.kill()
    process.communicate()
    held.go.set()
    end, = [e for e in service.wait_events("sandbox.exit", 2) if e["container"]["uid"] == name]
    assert end["unmapped"]["eclusa"]["verdict"] == "supervisor", end
    codes = [e["status_code"] for e in service.events() if e.get("container", {}).get("uid") == name]
    assert codes[-1] == "sandbox.exit" and len(codes) > 2, codes
    held_other.go.set()
    assert service.end_of(other).output.split() == ["200", "200"]
    assert_nothing_left(lab, before, ignore=("cgroups", "descriptors", "files"))
    assert service.run("one", ["/bin/true"]).status == 0
    assert_nothing_left(lab, before, ignore=("descriptors",))
    assert service.end() == 0, service.report()


def test_packets_are_told_of_a_sandbox_whose_launcher_died(lab, service):
    code = ("import socket, urllib.request\nfor address in ('169.254.169.254', '169.254.169.254', '5.6.7.8'):\n s = socket.socket(); s.settimeout(5)\n"
            " try: s.connect((address, 443))\n except OSError: pass\n"
            "urllib.request.urlopen('https://allowed.test/one/packets')\n")
    held, ends = Held(lab, "/one/packets"), len(service.events("sandbox.exit"))
    process = service.launch("one", [PYTHON, "-c", code])
    assert held.arrived.wait(30), service.report()
    name = service.events("sandbox.start")[-1]["container"]["uid"]
    twin, twin_held = held_run(lab, service, "two", "/two/packets")
    twin_name = service.events("sandbox.start")[-1]["container"]["uid"]
    for launcher in (process, twin):
        launcher.kill()
        launcher.communicate()
    held.go.set()
    twin_held.go.set()
    service.wait_events("sandbox.exit", ends + 2)
    lab.canary.assert_silent()
    told = {e["status_code"]: e["unmapped"]["eclusa"]["count"] for e in service.events() if e.get("action_id") == 2 and e["container"]["uid"] == name}
    assert told.keys() == {"deny.address-metadata", "deny.packet"} and told["deny.address-metadata"] >= 2, service.report()
    assert not [e for e in service.events() if e.get("action_id") == 2 and e["container"]["uid"] == twin_name], service.report()


def test_a_launcher_that_is_silent_is_not_waited_for(own, lab):
    service = own[0](env={"ECLUSA_LIMITS": SHORT})
    with Client(service.socket) as client:
        assert client.hear()[0] is None, "it never asked"
    with Client(service.socket) as client:
        name, fds = client.granted()
        for fd in fds:
            os.close(fd)
        client.send(bare(COUNTERS))
        assert client.hear()[0] == COUNTERS_READ
        assert client.hear()[0] is None, "it never told its end"
    end, = service.wait_events("sandbox.exit", 1)
    assert end["container"]["uid"] == name and end["unmapped"]["eclusa"]["verdict"] == "supervisor", end
    assert service.end() == 0, service.report()


def test_without_descriptors_it_waits_for_some(own):
    """A launcher that can't be accepted waits in the queue, and costs the service nothing there."""
    service = own[0]()
    usual = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (16, usual[1]))  # fewer, and poll(2) fails
    silent = [Client(service.socket) for _ in range(16)]
    with Client(service.socket) as client:
        client.send(lease())
        wait_until(lambda: service.logged("not-accepted"), service.report)
        wait_until(lambda: sleeps(service.process.pid), "it asks again and again")
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, usual)
        kind, _, fds = client.hear()
        assert kind == GRANTED
        for fd in fds:
            os.close(fd)
    for other in silent:
        other.sock.close()
    assert service.run("one", ["/bin/true"]).status == 0
    assert service.end() == 0, service.report()


def test_as_many_sandboxes_as_it_may_have_and_not_one_more(own):
    service = own[0]("--leases", "2")
    with Client(service.socket) as one, Client(service.socket) as two, Client(service.socket) as three:
        for client in (one, two):
            for fd in client.granted()[1]:
                os.close(fd)
        three.send(lease())
        assert "as many sandboxes as it may" in three.failure()
    service.wait_events("sandbox.exit", 2)
    run = service.run("one", ["/bin/true"])
    assert run.status == 0, run.report()
    assert service.end() == 0, service.report()


def test_many_runs_leave_nothing(own, lab):
    service = own[0]("--ready", "0", "--workers", "2")
    assert service.run("one", ["/bin/true"]).status == 0
    before = Census(lab)
    for _ in range(200):
        process = service.launch("one", ["/bin/true"])
        assert process.wait(timeout=60) == 0
        process.communicate()
    crowd = [service.launch("two", ["/bin/true"]) for _ in range(50)]
    for process in crowd:
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, (stdout, stderr, service.report())
    assert_nothing_left(lab, before, ignore=("descriptors",))
    assert len(service.events("sandbox.start")) == len(service.events("sandbox.exit")) + 1 == 252  # its own has not ended
    assert service.end() == 0, service.report()
    assert_nothing_left(lab, own[1], ignore=("cgroups", "descriptors", "files"))


def test_a_service_does_not_start_where_one_is(own, lab):
    service = own[0]()
    other = Service(lab, ready=False, folder=service.folder)
    assert other.process.wait(timeout=30) != 0
    assert service.run("one", ["/bin/true"]).status == 0
    assert service.end() == 0, service.report()


def test_a_run_without_the_service_has_its_own_network(lab, service):
    """The twin: nothing but --service leads to it."""
    starts = len(service.events("sandbox.start"))
    run = run_eclusa(lab, [], fetch("https://allowed.test/one/lone"), policy=[f"allowed.test:443 GET /one/** addr={ORIGIN}/32"])
    assert run.output == "200\n", run.report()
    assert len(service.events("sandbox.start")) == starts
