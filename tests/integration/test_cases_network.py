"""
What the issue and cases F05, F06 and F09 say of the network itself: one cable, one route, one open port; everything else
is refused at once; a sandbox can't change that, be someone else, or start where something could not be set up.
"""
import errno
import json
import os
import select
import socket
import statistics
import subprocess

import pytest

from lab import eclusa, probe
from lab.census import find_process
from lab.eclusa import Launch, install, network_args, run_eclusa
from lab.namespaces import Namespace

IP_TRANSPARENT = 19
PROBE = os.path.abspath(probe.__file__)
AT_ONCE_MS = 1000  # before a packet would be sent again
REFUSALS_TCP = {"ECONNREFUSED"}
REFUSALS_UDP = {"ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EACCES"}
REFUSALS_6 = {"ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT", "EACCES", "EPERM", "ECONNREFUSED"}


def are_at_once(answers):
    """[outcome, milliseconds]. Most of them: a busy machine stops some for a while."""
    return statistics.median(took for _, took in answers) < AT_ONCE_MS


def look(lab, who, *what, policy=True):
    return run_eclusa(lab, ["--in", f"{PROBE}:probe.py", "--timeout", "60s"], ["/usr/bin/python3", "probe.py", *what],
                      user=who, policy=policy)


@pytest.fixture(scope="module")
def inside(lab, who):
    """One sandbox that looks at everything."""
    run = look(lab, who, "shape", "tcp", "tcp6", "udp", "udp6", "icmp", "others", "host", "commands", "proxy")
    return run, run.json()


def test_interfaces_are_lo_and_one_cable(inside):
    run, seen = inside
    assert len(seen["shape"]["interfaces"]) == 2 and "lo" in seen["shape"]["interfaces"], run.report()


def test_the_one_route_leads_to_the_peer(inside):
    run, seen = inside
    shape = seen["shape"]
    assert len(shape["routes"]) in (1, 2), run.report()
    devices = {route[0] for route in shape["routes"]}
    assert devices <= set(shape["interfaces"]) - {"lo"}, run.report()
    own = [int(part) for part in shape["own"].split(".")]
    peer = own[:3] + [own[3] ^ 1]
    for _, destination, gateway, mask in shape["routes"]:
        octets = [int((gateway if gateway != "00000000" else destination)[i:i + 2], 16) for i in (6, 4, 2, 0)]
        assert octets == peer or (octets[:3] == own[:3] and octets[3] == own[3] & 0xfe and mask == "FEFFFFFF"), run.report()
    assert not shape["routes6"], run.report()


def test_the_resolver_file_names_the_proxy_alone(inside):
    run, seen = inside
    lines = [line.split() for line in seen["shape"]["resolv"].splitlines()]
    assert [line for line in lines if line[0] in ("nameserver", "search", "domain")] == [["nameserver", "10.255.255.254"]], run.report()


def test_tcp_is_refused_at_once_everywhere_but_at_the_one_port(inside, lab):
    run, seen = inside
    for place, (outcome, took) in seen["tcp"].items():
        assert outcome in REFUSALS_TCP, f"C: {place}: {outcome} after {took} ms\n{run.report()}"
    assert are_at_once(seen["tcp"].values()), f"C: {seen['tcp']}"
    lab.canary.assert_silent()


def test_F01_ipv6_goes_nowhere(inside, lab):
    run, seen = inside
    for place, (outcome, took) in [*seen["tcp6"].items(), *seen["udp6"].items()]:
        assert outcome in REFUSALS_6, f"C: {place}: {outcome} after {took} ms"
    assert are_at_once([*seen["tcp6"].values(), *seen["udp6"].values()]), "C"
    lab.canary.assert_silent()


def test_F02_udp_and_quic_are_refused_at_once(inside, lab):
    run, seen = inside
    for place, (outcome, took) in seen["udp"].items():
        assert outcome in REFUSALS_UDP, f"C: {place}: {outcome} after {took} ms"
    assert are_at_once(seen["udp"].values()), f"C: {seen['udp']}"
    lab.canary.assert_silent()


def test_F02_other_protocols_are_refused_at_once(inside, lab):
    run, seen = inside
    assert "MADE" not in seen["others"].values(), f"C: {seen['others']}"
    for place, outcome in seen["icmp"]["ping"].items():
        assert outcome not in ("WATCHDOG", "ANSWERED", "MADE"), f"C: {place}: {outcome}"
    assert seen["icmp"]["raw"] in ("EPERM", "EACCES", "ENOSYS", "EPROTONOSUPPORT"), seen["icmp"]
    assert seen["icmp"]["packet"] in ("EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT"), seen["icmp"]
    lab.canary.assert_silent()


def test_refused_packets_stand_in_the_audit_by_class(inside):
    run, _ = inside
    packets = [e for e in run.events if e.get("class_uid") == 4001 and e["status_code"].startswith("deny.")]
    counted = {e["unmapped"]["eclusa"].get("address_class"): e["unmapped"]["eclusa"].get("count") for e in packets}
    for name in ("private", "link-local", "metadata", "public", "service", "udp"):
        assert any(name in (key or "") and count for key, count in counted.items()), f"L: {name}: {counted}\n{run.report()}"
    assert all(e["activity_id"] == 5 and e["action_id"] == 2 for e in packets), "L: activity Refuse"
    meant = {(e["dst_endpoint"]["ip"], e["dst_endpoint"].get("port")) for e in packets if "dst_endpoint" in e}
    assert {("169.254.169.254", 80), ("203.0.113.53", 53)} <= meant, f"L: {meant}"


def test_F04_the_host_is_reached_by_no_name_and_no_address(inside, lab):
    run, seen = inside
    assert set(seen["host"]["names"].values()) == {"gaierror"}, f"C: {seen['host']}"
    for host, said in seen["host"]["proxy"].items():
        assert said.split()[1] == "403", f"C: {host}: {said}"
        events = [e for e in run.decisions() if e.get("dst_endpoint", {}).get("hostname") == host and e["class_uid"] == 4002]
        assert len(events) == 1 and events[0]["status_code"] in ("deny.default", "deny.address-private", "deny.address-metadata"), f"L: {host}"
    lab.canary.assert_silent()


def test_the_one_port_is_open_and_its_denial_recorded(inside):
    run, seen = inside
    assert seen["proxy"]["allowed.test"].split()[1] == "200", run.report()
    assert seen["proxy"]["denied.test"].split()[1:] == ["403", "deny.default", "denied.test"], run.report()
    denied = [e for e in run.decisions() if e.get("dst_endpoint", {}).get("hostname") == "denied.test"]
    assert len(denied) == 1, run.report()


def test_F05_its_root_cannot_undo_the_rules(inside, lab):
    run, seen = inside
    for words, (status, output) in seen["commands"].items():
        assert status != 0, f"C: `{words}` worked: {output}"
    after = look(lab, run.user, "tcp")
    assert {outcome for outcome, _ in after.json()["tcp"].values()} == REFUSALS_TCP
    lab.canary.assert_silent()


WAITING = """
import sys
sys.path.insert(0, ".")
import probe
print(probe.own_address(), probe.gateway_address(), *probe.proxy(), flush=True)
sys.stdin.readline()
print(probe.through_proxy("denied.test"), flush=True)
sys.stdin.readline()
"""


def spoof(namespace, sources, service, port):
    """Start connections from @sources in the sandbox's namespace, with a privilege that no sandbox has. @return sockets."""
    def go():
        socks = []
        for source in sources:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sock.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
            sock.setblocking(False)
            sock.bind((source, 0))
            assert sock.connect_ex((service, port)) == errno.EINPROGRESS
            socks.append(sock)
        return socks

    return namespace.inside(go)


def strangers(room):
    """Packets that the gateway dropped on arrival because interface and source do not belong together."""
    listing = json.loads(room.run("nft", "-j", "list", "ruleset"))["nftables"]
    rules = [item["rule"]["expr"] for item in listing if item.get("rule", {}).get("chain") == "prerouting"]
    return sum(part["counter"]["packets"] for expr in rules if {"drop": None} in expr and "sandboxes" in json.dumps(expr)
               for part in expr if "counter" in part)


def test_F06_another_source_address_gets_nowhere(lab, who):
    """
    From the sandbox's own cable, as root of the host would send it: SYNs to the proxy with other sources. Packets on one cable keep
    their order, so after the answer to an honest request the gateway has judged all of them: no half-open connection.
    """
    audit = os.path.join(lab.folder, f"audit-spoof-{who or 0}")
    os.makedirs(audit, exist_ok=True)
    os.chown(audit, who or 0, who or 0)
    launch = Launch(lab, ["run", "-i", *network_args(lab, audit), "--in", f"{PROBE}:probe.py", "--timeout", "60s", "--",
                          "/usr/bin/python3", "-c", WAITING], user=who, audit_dir=audit)
    process = launch.popen(stdin=subprocess.PIPE)
    try:
        line = process.stdout.readline().decode().split()
        assert len(line) == 4, process.stderr.read().decode()
        own, gateway, service, port = line[0], line[1], line[2], int(line[3])
        inside_pid = find_process(process.pid, "python3")
        cable = Namespace(f"/proc/{inside_pid}/ns/net")
        room = Namespace(f"/proc/{find_process(process.pid, 'eclusa-netd')}/ns/net")
        assert room.inode not in (cable.inode, lab.host.inode) and room.run("ss", "-Htln"), "netd lives in the gateway"
        neighbours = [own.rsplit(".", 1)[0] + f".{int(own.rsplit('.', 1)[1]) + n}" for n in (1, 2, 4)]
        assert strangers(room) == 0
        socks = spoof(cable, [*neighbours, gateway, service, "203.0.113.1"], service, port)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert b" 403 " in process.stdout.readline()
        half_open = room.run("ss", "-Htan", "state", "syn-recv")
        assert not half_open.strip(), f"C: the gateway answers {half_open}"
        assert strangers(room) >= len(socks), "U: each was dropped at the interface"  # and again where it is sent again, after a second
        for sock in socks:
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0 and not select.select([], [sock], [], 0)[1], "C"
            sock.close()
        cable.close()
        room.close()
        process.communicate(b"end\n", timeout=60)
    finally:
        process.kill()
        process.wait()
    events = [e for e in eclusa.read_audit(audit) if e.get("class_uid") == 4002]
    assert [e["src_endpoint"]["ip"] for e in events] == [own], f"L: {events}"
    lab.canary.assert_silent()


def test_without_network_there_is_lo_alone(lab, who):
    script = ("import json, socket\nnames = [n for _, n in socket.if_nameindex()]\n"
              "s = socket.socket()\ns.settimeout(3)\nr = s.connect_ex(('203.0.113.10', 443))\nprint(json.dumps([names, r]))\n")
    run = run_eclusa(lab, [], ["/usr/bin/python3", "-c", script], policy=False, user=who)
    names, number = run.json()
    assert names == ["lo"] and number in (101, 113), run.report()
    assert {e["status_code"] for e in run.events} == {"sandbox.start", "sandbox.exit"}, run.report()
    lab.canary.assert_silent()


LISTENER = """
import json, select, socket, sys
sock = socket.socket()
sock.bind(("0.0.0.0", 5555))
sock.listen(8)
print("ready", flush=True)
ready = select.select([sock, sys.stdin], [], [], 50)[0]
print("visited" if sock in ready else "alone" if ready else "watchdog")
"""
VISITOR = """
import json, sys
sys.path.insert(0, ".")
import probe
print(json.dumps({f"10.0.0.{n}": probe.try_tcp(f"10.0.0.{n}", 5555) for n in range(1, 12)}))
"""


def test_a_second_sandbox_is_unreachable(lab, who):
    audit = os.path.join(lab.folder, f"audit-pair-{who or 0}")
    os.makedirs(audit, exist_ok=True)
    if who:
        os.chown(audit, who, who)
    launch = Launch(lab, ["run", "-i", *network_args(lab, audit), "--timeout", "60s", "--", "/usr/bin/python3", "-c", LISTENER],
                    user=who, audit_dir=audit)
    first = launch.popen(stdin=subprocess.PIPE)
    try:
        assert first.stdout.readline() == b"ready\n", first.stderr.read().decode()
        second = run_eclusa(lab, ["--in", f"{PROBE}:probe.py"], ["/usr/bin/python3", "-c", VISITOR], user=who)
        for place, (outcome, _) in second.json().items():
            assert outcome == "ECONNREFUSED", f"C: {place}: {outcome}"
        assert are_at_once(second.json().values()), "C"
        stdout, _ = first.communicate(b"end\n", timeout=60)
        assert stdout == b"alone\n", "U: the first sandbox was visited"
    finally:
        first.kill()
        first.wait()
    lab.canary.assert_silent()


# F09: what is missing, and which word of the message names the step.

def without_program(name):
    def prepare(lab, folder):
        return {"eclusa": install(folder, leave_out=(name,))}, name
    return prepare


def failing_program(name):
    def prepare(lab, folder):
        path = install(folder, leave_out=(name,))
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 3\n")
        os.chmod(os.path.join(folder, name), 0o755)
        return {"eclusa": path}, ("netd" if "netd" in name else "proxy")
    return prepare


# Runs the rest under a filter to which one socket family or one flag of unshare is unknown, as on a lesser kernel.
LESSER_KERNEL = """
import ctypes, os, struct, sys
kind, *words = sys.argv[1:]
LD, JEQ, JSET, RET = 0x20, 0x15, 0x45, 0x06
def program(number, tests, error):
    code = [(LD, 0, 0, 0), (JEQ, 0, 2 * len(tests) + 1, number)]
    for at, (offset, op, value) in enumerate(tests):
        code += [(LD, 0, 0, offset), (op, 0, 2 * (len(tests) - at) - 1, value)]
    return code + [(RET, 0, 0, 0x00050000 | error), (RET, 0, 0, 0x7fff0000)]
if kind == "nft":
    code = program(41, [(16, JEQ, 16), (32, JEQ, 12)], 93)
else:
    code = program(272, [(16, JSET, 0x40000000)], 28)
raw = b"".join(struct.pack("HBBI", *line) for line in code)
buffer = ctypes.create_string_buffer(raw)
fprog = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, ctypes.c_char_p(fprog), 0, 0) != 0:
    raise OSError(ctypes.get_errno(), "seccomp")
os.execvp(words[0], words)
"""


def lesser_kernel(kind, word):
    def prepare(lab, folder):
        script = lab.write("lesser_kernel.py", LESSER_KERNEL)
        return {"before": ["/usr/bin/python3", script, kind]}, word
    return prepare


FAULTS = {
    "netd-missing": without_program("eclusa-netd"),
    "proxy-missing": without_program("eclusa-proxy"),
    "netd-fails": failing_program("eclusa-netd"),
    "proxy-fails": failing_program("eclusa-proxy"),
    "no-nftables-in-the-kernel": lesser_kernel("nft", ""),
    "namespace-refused": lesser_kernel("net", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_F09_a_set_up_that_fails_starts_nothing(lab, who, fault, tmp_path):
    folder = os.path.join(lab.folder, f"bin-{fault}-{who or 0}")
    more, word = FAULTS[fault](lab, folder)
    out = os.path.join(lab.folder, f"out-{fault}-{who or 0}")
    os.makedirs(out)
    os.chown(out, who or 0, who or 0)
    questions = lab.dns.log.mark()
    connections = lab.origin.connections.mark()
    run = run_eclusa(lab, ["--out", out], ["/bin/sh", "-c", "echo started; echo started >/out/started"], user=who, **more)
    assert run.status == 125, "C" + run.report()
    assert "started" not in json.dumps(run.result or {}).replace("not started", ""), run.report()
    assert not os.listdir(out), "C: the payload wrote"
    if run.result is not None:
        assert run.result["verdict"] == "setup", run.report()
        said = " ".join(map(str, run.result["errors"]))
    else:
        said = run.stderr
    assert said.strip() and word in said, f"C: names the step {word!r}: {run.report()}"
    assert not lab.dns.log.since(questions) and not lab.origin.connections.since(connections), "U"
    assert not [e for e in run.events if e.get("action_id") == 1], "L"
    lab.canary.assert_silent()


def test_F09_twin_the_same_copies_work_when_nothing_is_missing(lab, who):
    folder = os.path.join(lab.folder, f"bin-whole-{who or 0}")
    run = run_eclusa(lab, [], ["/bin/echo", "started"], user=who, eclusa=install(folder))
    assert (run.status, run.output) == (0, "started\n"), run.report()


def test_the_programs_are_the_ones_beside_eclusa(lab):
    """What F09's copies rely on, and that PATH is no way in."""
    assert os.path.dirname(eclusa.program())
    folder = lab.write("marker", "")
    evil = os.path.join(lab.folder, "evil")
    os.makedirs(evil, exist_ok=True)
    for name in ("eclusa-netd", "eclusa-proxy"):
        with open(os.path.join(evil, name), "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\necho ran >>{folder}\nexit 3\n")
        os.chmod(os.path.join(evil, name), 0o755)
    run = run_eclusa(lab, [], ["/bin/echo", "fine"], env={"PATH": f"{evil}:/usr/bin:/bin"})
    assert (run.status, run.output) == (0, "fine\n"), run.report()
    assert os.path.getsize(folder) == 0


def test_limits_for_laboratories_reach_the_proxy(lab, who):
    """docs/limits.md: ECLUSA_LIMITS in the environment of eclusa."""
    ask = """
import os, socket, urllib.parse
where = urllib.parse.urlsplit(os.environ["http_proxy"])
with socket.create_connection((where.hostname, where.port)) as s:
    s.send(b"GET http://allowed.test/" + b"x" * 100 + b" HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")
    print(s.recv(100).split(b" ")[1].decode())
"""
    for limits, status in (("line_bytes=100", "414"), ("line_bytes=200", "200")):
        run = run_eclusa(lab, [], ["/usr/bin/python3", "-c", ask], user=who, env={"ECLUSA_LIMITS": limits})
        assert (run.status, run.output) == (0, status + "\n"), run.report()
