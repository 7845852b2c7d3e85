"""
The gateway alone: eclusa-netd with this test as its launcher and its proxy, as root and as an ordinary user. What a
sandbox may reach, what it is refused and how fast, what is counted, and what is left when any of them is gone.
"""
import contextlib
import errno
import os
import select
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time

import pytest

from lab.eclusa import USER_UID
from lab.events import wait_until
from lab.namespaces import Namespace
from lab.netd import (LEASE_GRANTED, LEASE_PLACED, NETD, SANDBOX_REFUSED, WATCHDOG_S, Netd, captured_entry, check, kind_of, libc, opened_entry,
                      receive)

FAULTS = ["netd-started", "netd-guard", "netd-gateway", "netd-rules", "netd-listeners", "netd-namespace",
          "netd-link", "netd-element", "netd-granted"]
AT_ONCE_S = 0.5
CLONE_NEWNS = 0x00020000
OWN_UID = USER_UID + 1  # plays the proxy's

REFUSED = [  # address, class; {service} and its neighbours are filled in
    ("10.0.0.1", "private"),
    ("10.0.0.2", "private"),  # the gateway's own end
    ("10.0.0.5", "private"),  # the next sandbox's address
    ("172.16.0.1", "private"),
    ("192.168.1.1", "private"),
    ("100.64.0.1", "private"),
    ("169.254.169.254", "metadata"),
    ("100.100.100.200", "metadata"),
    ("168.63.129.16", "metadata"),
    ("169.254.1.1", "link-local"),
    ("198.20.0.5", "public"),
    ("203.0.113.10", "special"),
    ("0.0.0.1", "special"),
    ("240.0.0.1", "special"),
    ("1.1.1.1", "public"),
    ("8.8.8.8", "public"),
    ("10.255.255.254", "service-port"),
]


@pytest.fixture(autouse=True)
def needs_root_and_netd():
    if os.geteuid() != 0:
        pytest.skip("plays host and world in namespaces: needs root")
    if not os.access(NETD, os.X_OK):
        pytest.fail(f"{NETD} is not there: run make first")


@pytest.fixture
def netd(who):
    with Netd(uid=who) as made:
        made.accept_listeners()
        yield made


@pytest.fixture
def sandbox(netd):
    made = netd.lease()
    yield made
    made.close()


def in_gateway(netd, *words):
    return subprocess.run(["nsenter", f"--net=/proc/{netd.process.pid}/ns/net", *words], check=True,
                          capture_output=True, text=True).stdout


def connect(address, port):
    """errno of a TCP connection (0: connected), and how long it took."""
    with socket.socket() as sock:
        sock.settimeout(WATCHDOG_S)
        began = time.monotonic()
        return sock.connect_ex((address, port)), time.monotonic() - began


def ask_udp(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(WATCHDOG_S)
        sock.connect((address, port))
        try:
            sock.send(b"?")
            sock.recv(1)
        except OSError as error:
            return error.errno
    return 0


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def probe_raw(address, protocol, payload):
    """Type and code of the ICMP refusal of a packet of this protocol, and who sent it."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as answers, \
            socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol) as sender:
        answers.settimeout(WATCHDOG_S)
        sender.sendto(payload, (address, 0))
        while True:
            packet, (source, _) = answers.recvfrom(2048)
            if packet[20] == 3:
                return packet[20], packet[21], source


def syn(source, destination, port):
    """As a packet."""
    tcp = struct.pack("!HHIIBBHHH", 40000, port, 1, 0, 5 << 4, 2, 1024, 0, 0)
    pseudo = socket.inet_aton(source) + socket.inet_aton(destination) + struct.pack("!HH", 6, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", checksum(pseudo + tcp)) + tcp[18:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0)
    return head + socket.inet_aton(source) + socket.inet_aton(destination) + tcp


def send_forged_syn(source, destination, port):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
        sock.sendto(syn(source, destination, port), (destination, 0))


def tables(namespace):
    listed = subprocess.run(["nsenter", f"--net={namespace.path}", "nft", "list", "tables"], check=True,
                            capture_output=True, text=True)
    return listed.stdout.splitlines()


# What there is inside

def test_a_sandbox_has_lo_one_veth_and_one_route(sandbox):
    assert sandbox.shell("ls /proc/self/net > /dev/null; tail -n +3 /proc/thread-self/net/dev | cut -d: -f1").split() \
        == ["lo", "eth0"]
    assert sandbox.shell("ip -o -4 addr show dev eth0").split()[3] == sandbox.address + "/32"
    assert sandbox.shell("ip route show").split()[:5] == ["default", "via", "10.0.0.2", "dev", "eth0"]
    assert len(sandbox.shell("ip route show").splitlines()) == 1
    assert sandbox.shell("ip neigh show").split()[-1] == "PERMANENT"
    assert "numtxqueues 1 numrxqueues 1" in sandbox.shell("ip -d link show eth0")


def test_ipv6_does_not_exist_inside(sandbox, netd):
    assert sandbox.shell("ip -6 addr; ip -6 route") == ""

    def dial():
        found = []
        for address in ("2001:db8::1", "fd00::1", "fe80::1%eth0", "ff02::1%eth0", "::ffff:1.1.1.1"):
            with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as sock:
                sock.settimeout(WATCHDOG_S)
                try:
                    sock.connect(socket.getaddrinfo(address, 443, socket.AF_INET6, socket.SOCK_STREAM)[0][4])
                    found.append(address)
                except OSError as error:
                    assert error.errno in (errno.EADDRNOTAVAIL, errno.ENETUNREACH, errno.ECONNREFUSED,
                                           errno.EINVAL, errno.ENODEV), address
        return found

    assert sandbox.inside(dial) == []
    assert "meta nfproto != ipv4 counter packets 0" in in_gateway(netd, "nft", "list", "chain", "inet",
                                                                  "eclusa-gateway", "prerouting")


def test_settings_do_not_come_from_the_host(who):
    host = Namespace()
    try:
        host.inside(lambda: [open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii").write(value)
                             for name, value in (("conf/all/src_valid_mark", "1"), ("ip_forward", "1"),
                                                 ("conf/default/route_localnet", "1"))])
        with Netd(uid=who, host=host.fd if who is None else None) as netd:
            netd.accept_listeners()
            sandbox = netd.lease()
            for name in ("conf/all/src_valid_mark", "conf/lo/src_valid_mark", "ip_forward", "conf/default/route_localnet",
                         "conf/eth0/route_localnet", "conf/eth0/rp_filter"):
                assert sandbox.shell(f"cat /proc/sys/net/ipv4/{name}") == "0\n", name
            assert in_gateway(netd, "cat", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/icmp_ratelimit") == "0\n0\n"
            assert in_gateway(netd, "cat", "/proc/sys/net/ipv4/tcp_rmem").split()[2] == "262144"
            sandbox.close()
    finally:
        host.close()


# What it reaches

def test_the_service_port_is_the_only_door(netd, sandbox):
    assert sandbox.inside(connect, sandbox.service, sandbox.port)[0] == 0
    netd.listeners[0].settimeout(WATCHDOG_S)
    accepted, (peer, _) = netd.listeners[0].accept()
    accepted.close()
    assert peer == sandbox.address
    assert netd.counters() == dict.fromkeys(netd.counters(), 0)


def test_questions_reach_the_proxy_and_answers_come_back(netd, sandbox):
    def ask(door):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(WATCHDOG_S)
            sock.connect((sandbox.service, 53))
            sock.send(b"who?")
            question, asker = door.recvfrom(100)
            door.sendto(question + b" you", asker)
            return sock.recv(100), asker[0]

    door = netd.dns_udp[0]
    door.settimeout(WATCHDOG_S)
    assert sandbox.inside(ask, door) == (b"who? you", sandbox.address)
    assert sandbox.inside(connect, sandbox.service, 53)[0] == 0
    netd.dns_tcp[0].settimeout(WATCHDOG_S)
    accepted, (peer, _) = netd.dns_tcp[0].accept()
    accepted.close()
    assert peer == sandbox.address
    assert sandbox.inside(ask_udp, "203.0.113.53", 53) == errno.EHOSTUNREACH  # the twin: another server
    counters = netd.counters()
    assert counters.pop("udp") == 1
    assert set(counters.values()) == {0}


def test_every_door_is_steered_alike(who):
    """A sandbox has one worker: UDP and TCP, of each the socket of the same number."""
    with Netd(uid=who, workers=3) as netd:
        netd.accept_listeners()
        sandbox = netd.lease()

        def knock():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.sendto(b"?", (sandbox.service, 53))
            return connect(sandbox.service, 53)[0], connect(sandbox.service, sandbox.port)[0]

        assert sandbox.inside(knock) == (0, 0)
        own = (int.from_bytes(socket.inet_aton(sandbox.address), "big") >> 1) % 3
        for doors in (netd.listeners, netd.dns_udp, netd.dns_tcp):
            assert select.select(doors, [], [], WATCHDOG_S)[0] == [doors[own]]
        sandbox.close()


CAPTURED = ["198.18.0.5", "198.18.0.0", "198.19.255.255", "1.2.3.0", "1.2.3.255", "10.20.0.5", "169.254.169.254", "9.9.9.9", "9.9.9.10"]
NOT_CAPTURED = [("198.17.255.255", "public"), ("198.20.0.0", "public"), ("1.2.2.255", "public"), ("1.2.4.0", "public"),
                ("10.20.0.4", "private"), ("169.254.169.253", "link-local"), ("9.9.9.11", "public")]


@pytest.fixture
def capturing(who):
    """A gateway with ranges that ip: rules opened; some of them overlap."""
    ranges = [captured_entry("1.2.3.128", 25), captured_entry("1.2.3.0", 24), captured_entry("10.20.0.5", 32),
              captured_entry("169.254.169.254", 32), captured_entry("9.9.9.8", 31), captured_entry("9.9.9.10", 32),
              captured_entry("1.2.3.7", 32)]
    with Netd(uid=who, workers=3, captured=ranges) as netd:
        netd.accept_listeners()
        yield netd


def test_captured_connections_come_to_the_sandboxs_worker_and_tell_whom_they_meant(capturing):
    sandbox = capturing.lease()
    own = (int.from_bytes(socket.inet_aton(sandbox.address), "big") >> 1) % 3
    for address in CAPTURED:
        for port in (22, 443, 65535):
            assert sandbox.inside(connect, address, port)[0] == 0, address
            ready = select.select(capturing.transparent, [], [], WATCHDOG_S)[0]
            assert ready == [capturing.transparent[own]]
            accepted, (peer, _) = ready[0].accept()
            assert (accepted.getsockname(), peer) == ((address, port), sandbox.address)
            accepted.close()
    assert set(capturing.counters().values()) == {0}
    assert sandbox.inside(connect, "198.18.0.5", 0)[0] == errno.ECONNREFUSED
    assert capturing.counters()["special"] == 1
    for address, kind in NOT_CAPTURED:
        before = capturing.counters()[kind]
        assert sandbox.inside(connect, address, 443)[0] == errno.ECONNREFUSED, address
        assert capturing.counters()[kind] == before + 1, address
    assert select.select(capturing.transparent, [], [], 0)[0] == []
    sandbox.close()


@pytest.mark.parametrize("door", ["explicit", "transparent", "dns"])
def test_what_is_too_much_in_a_second_is_counted_as_that(capturing, door):
    """It is no packet to a wrong address or port, and none past the proxy."""
    sandbox = capturing.lease()
    kind = "questions" if door == "dns" else "connections"
    place = {"explicit": (sandbox.service, sandbox.port), "transparent": ("198.18.0.5", 443), "dns": (sandbox.service, 53)}[door]

    def flood():
        """More than the limit has to be sent in a second, whatever else runs: packets that are made beforehand."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) if door == "dns" else socket.socket(
                socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
            packet = b"?" if door == "dns" else syn(sandbox.address, *place)
            for _ in range(5000):
                sock.sendto(packet, place)

    assert set(capturing.counters().values()) == {0}
    for _ in range(50):  # the first 4,000 are within the limit, and 2,000 a second
        sandbox.inside(flood)
        if capturing.counters()[kind]:
            break
    counters = capturing.counters()
    assert counters.pop(kind) and set(counters.values()) == {0}
    assert {key[:2] + key[3:] for key in capturing.samples} == {(kind, *place)}
    sandbox.close()


def test_bytes_pass_on_a_captured_connection_both_ways(capturing):
    sandbox = capturing.lease()

    def talk():
        with socket.create_connection(("198.18.7.7", 25), WATCHDOG_S) as sock:
            sock.sendall(b"a" * 100_000)
            sock.shutdown(socket.SHUT_WR)
            got = b""
            while chunk := sock.recv(65536):
                got += chunk
            return got

    def serve():
        ready = select.select(capturing.transparent, [], [], WATCHDOG_S)[0]
        accepted, _ = ready[0].accept()
        with accepted:
            accepted.settimeout(WATCHDOG_S)
            got = b""
            while chunk := accepted.recv(65536):
                got += chunk
            accepted.sendall(got[::-1] + b"b")

    server = threading.Thread(target=serve)
    server.start()
    assert sandbox.inside(talk) == b"a" * 100_000 + b"b"
    server.join()
    sandbox.close()


def test_the_transparent_listener_is_no_door_by_itself(capturing):
    sandbox = capturing.lease()
    assert sandbox.inside(connect, sandbox.service, 3129)[0] == errno.ECONNREFUSED
    assert sandbox.inside(connect, "127.0.0.1", 3129)[0] == errno.ECONNREFUSED  # the sandbox's own
    assert sandbox.inside(connect, "10.0.0.2", 3129)[0] == errno.ECONNREFUSED
    for address in CAPTURED:
        assert sandbox.inside(ask_udp, address, 443) == errno.EHOSTUNREACH  # QUIC
    assert select.select(capturing.transparent, [], [], 0)[0] == []
    sandbox.close()


def test_without_a_proxy_captured_connections_are_refused(capturing):
    sandbox = capturing.lease()
    assert sandbox.inside(connect, "198.18.0.5", 443)[0] == 0
    for door in capturing.transparent:
        door.shutdown(socket.SHUT_RDWR)  # netd holds the same sockets
    assert sandbox.inside(connect, "198.18.0.5", 443)[0] == errno.ECONNREFUSED
    assert capturing.counters()["special"] == 1
    sandbox.close()


def test_a_range_that_is_none_is_refused(who):
    with Netd(uid=who, captured=[captured_entry("1.2.3.4", 33)]) as netd:
        assert netd.failure() == "captured addresses: Invalid argument"
        assert netd.process.wait(WATCHDOG_S) != 0


def test_F03_every_other_port_of_the_service_is_reset(sandbox, netd):
    def scan():
        return [port for port in range(1, 65536) if connect(sandbox.service, port)[0] != errno.ECONNREFUSED]

    assert sandbox.inside(scan) == [53, sandbox.port]
    assert netd.counters()["service-port"] == 65533


@pytest.mark.parametrize("address,kind", REFUSED)
def test_tcp_elsewhere_is_reset_at_once_and_counted(netd, sandbox, address, kind):
    assert sandbox.inside(connect, address, 443)[0] == errno.ECONNREFUSED
    counters = netd.counters()
    assert counters.pop(kind) == 1  # at once: a SYN that nobody answers is sent again, after a second
    assert set(counters.values()) == {0}


def test_loopback_inside_is_the_sandboxs_own(netd, sandbox):
    assert sandbox.inside(connect, "127.0.0.1", sandbox.port)[0] == errno.ECONNREFUSED
    assert set(netd.counters().values()) == {0}


def test_forty_of_forty_udp_probes_are_refused_at_once(netd, sandbox):
    def timed(address, port):
        began = time.monotonic()
        return ask_udp(address, port), time.monotonic() - began

    for address in ("203.0.113.53", sandbox.service):
        refusals = sandbox.inside(lambda to=address: [timed(to, port) for port in range(1000, 1040)])
        assert [code for code, _ in refusals] == [errno.EHOSTUNREACH] * 40
        assert statistics.median(took for _, took in refusals) < AT_ONCE_S  # a busy machine stops some of them for a while
    for port in (853, 5353, 5355, 137, 443, 123):
        assert sandbox.inside(ask_udp, sandbox.service, port) == errno.EHOSTUNREACH
    counters = netd.counters()
    assert counters.pop("udp") == 86
    assert set(counters.values()) == {0}


@pytest.mark.parametrize("protocol,payload", [
    (socket.IPPROTO_ICMP, struct.pack("!BBHHH", 8, 0, 0xF7FD, 1, 1)),
    (132, bytes(12)),  # SCTP
    (33, bytes(16)),  # DCCP
    (47, bytes(8)),  # GRE
])
def test_other_protocols_are_prohibited_at_once(netd, sandbox, protocol, payload):
    for address in ("203.0.113.10", "8.8.8.8", sandbox.service):
        assert sandbox.inside(probe_raw, address, protocol, payload) == (3, 13, "10.0.0.2")
    counters = netd.counters()
    assert (counters["special"], counters["public"], counters["service-port"]) == (1, 1, 1)


def test_a_forged_source_is_dropped_and_never_accepted(netd, sandbox):
    def forge():
        for source in ("10.0.0.5", "10.0.0.2", "127.0.0.1", sandbox.service, "203.0.113.7"):
            send_forged_syn(source, sandbox.service, sandbox.port)
        return connect(sandbox.service, sandbox.port)[0]

    assert sandbox.inside(forge) == 0
    netd.listeners[0].settimeout(WATCHDOG_S)
    accepted, (peer, _) = netd.listeners[0].accept()
    accepted.close()
    assert peer == sandbox.address
    assert select.select([netd.listeners[0]], [], [], 0)[0] == []
    assert "@sandboxes counter packets 5 " in in_gateway(netd, "nft", "list", "chain", "inet", "eclusa-gateway",
                                                         "prerouting")
    assert set(netd.counters().values()) == {0}


def test_arp_teaches_the_gateway_nothing(netd, sandbox):
    def ask():
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)) as sock:
            sock.bind(("eth0", 0x0806))
            own = sock.getsockname()[4]
            for last in range(100, 110):
                sender = own + bytes([10, 0, 0, last])
                sock.send(b"\xff" * 6 + own + struct.pack("!HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + sender
                          + bytes(6) + socket.inet_aton("10.0.0.2"))

    sandbox.inside(ask)
    assert sandbox.inside(connect, sandbox.service, sandbox.port)[0] == 0
    assert in_gateway(netd, "ip", "neigh", "show").split()[0] == sandbox.address
    assert len(in_gateway(netd, "ip", "neigh", "show").splitlines()) == 1


def test_refusals_beyond_the_limit_are_silent_and_still_counted(netd, sandbox):
    sent = 150_000

    def flood():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            done = 0
            while done < sent:
                try:
                    sock.sendto(b"", ("203.0.113.10", 9))
                    done += 1
                except OSError:
                    pass  # an earlier refusal, told here

    began = time.monotonic()
    sandbox.inside(flood)
    took = time.monotonic() - began
    assert netd.counters()["udp"] == sent
    lines = [line.split() for line in in_gateway(netd, "grep", "^Icmp:", "/proc/net/snmp").splitlines()]
    answered = dict(zip(*lines))["OutDestUnreachs"]
    assert 65536 <= int(answered) <= 65536 + 10_000 * (took + 1)


def test_some_refused_packets_are_looked_at_one_by_one(netd, sandbox):
    for _ in range(3):
        assert sandbox.inside(connect, "10.0.0.9", 22)[0] == errno.ECONNREFUSED
    assert sandbox.inside(connect, "169.254.169.254", 80)[0] == errno.ECONNREFUSED
    assert sandbox.inside(ask_udp, "8.8.8.8", 53) == errno.EHOSTUNREACH
    sandbox.inside(probe_raw, "203.0.113.10", 47, bytes(8))
    netd.counters()
    assert netd.samples == {("private", "10.0.0.9", 6, 22): 3, ("metadata", "169.254.169.254", 6, 80): 1,
                            ("udp", "8.8.8.8", 17, 53): 1, ("special", "203.0.113.10", 47, 0): 1}


def test_a_flood_is_counted_and_sampled_within_bounds(netd, sandbox):
    def flood():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            port = 1
            while port <= 3000:
                with contextlib.suppress(OSError):  # an earlier refusal, told here
                    sock.sendto(b"", ("203.0.113.10", port))
                    port += 1
    sandbox.inside(flood)
    assert netd.counters()["udp"] == 3000
    assert len(netd.samples) == 32 and all(key[:3] == ("udp", "203.0.113.10", 17) for key in netd.samples)


# Who holds what, and what is left

def test_netd_keeps_two_capabilities_and_hides(netd):
    with open(f"/proc/{netd.process.pid}/status", encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    kept = f"{1 << 12 | 1 << 21:016x}"
    assert (status["CapEff"], status["CapPrm"], status["CapInh"], status["CapAmb"]) == (kept, kept, "0" * 16, "0" * 16)
    assert status["NoNewPrivs"] == "1"
    kinds = {os.readlink(f"/proc/{netd.process.pid}/fd/{fd}").split(":")[0]
             for fd in os.listdir(f"/proc/{netd.process.pid}/fd") if int(fd) > 2}
    assert kinds == {"socket", "net"}


def test_a_lease_is_shown_before_it_is_served_and_granted_after(who):
    with Netd(uid=who) as netd:
        netd.accept_listeners()
        netd.ask_lease()
        shown, (place,) = receive(netd.launcher)
        assert kind_of(shown) == LEASE_PLACED
        assert not select.select([netd.launcher], [], [], 0)[0], "granted, and no proxy has said that it knows the sandbox"
        netd.acknowledge()
        granted, (namespace,) = receive(netd.launcher)
        assert kind_of(granted) == LEASE_GRANTED and granted[4:] == shown[4:]
        assert os.fstat(namespace).st_ino == os.fstat(place).st_ino
        os.close(place)
        os.close(namespace)


@pytest.mark.parametrize("end", ["launcher", "proxy", "kill"])
def test_nothing_is_left_when_a_side_ends(who, end):
    with Netd(uid=who) as netd:
        netd.accept_listeners()
        sandbox = netd.lease()
        if end == "kill":
            netd.process.send_signal(signal.SIGKILL)
        getattr(netd, end if end != "kill" else "launcher").close()
        if end == "launcher":
            assert netd.proxy.recv(4096)[:4] == struct.pack("=I", 10)  # SANDBOX_REMOVE, then the end
            assert netd.proxy.recv(4096) == b""
        assert netd.process.wait(WATCHDOG_S) == (-signal.SIGKILL if end == "kill" else 0)
        netd.end()
        # the gateway is gone with the last descriptor, and with it the far end of the cable
        wait_until(lambda: "eth0" not in sandbox.shell("cat /proc/thread-self/net/dev"), "the veth pair goes")
        sandbox.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_killed_at_a_fault_point_it_grants_nothing_more(who, fault):
    with Netd(uid=who, env={"ECLUSA_FAULT": fault}, start=False) as netd:
        try:
            netd.start(1)
            netd.ask_lease()
        except OSError:
            pass  # it was gone before it was asked
        granted = b""
        while True:
            ready = select.select([netd.proxy, netd.launcher], [], [], WATCHDOG_S)[0]
            assert ready, "neither channel ended"
            if netd.launcher in ready:
                try:
                    granted = netd.launcher.recv(65536)
                    if kind_of(granted) == LEASE_PLACED:
                        granted = b""
                        continue
                except ConnectionResetError:
                    pass  # it died with a message of ours unread
                break
            data, _, _, _ = netd.proxy.recvmsg(65536, socket.CMSG_SPACE(64))
            if data[:4] == struct.pack("=I", 8):
                netd.proxy.send(struct.pack("=I", 9) + data[4:])
            elif not data:
                break
        assert (granted != b"") == (fault == "netd-granted")
        assert netd.process.wait(WATCHDOG_S) == -signal.SIGKILL


# Set-up that fails

def forbid_namespaces():
    with open("/proc/sys/user/max_net_namespaces", "w", encoding="ascii") as file:
        file.write("1")


def make_settings_read_only():
    check(libc.unshare(CLONE_NEWNS))
    subprocess.run(["sh", "-c", "mount --make-rprivate / && mount --bind /proc/sys /proc/sys"
                    " && mount -o remount,bind,ro /proc/sys"], check=True)


def test_a_refused_namespace_is_named():
    with Netd(uid=USER_UID, before=forbid_namespaces) as netd:
        assert netd.failure() == "can't make the gateway's network namespace: No space left on device"
        assert netd.process.wait(WATCHDOG_S) != 0
        assert netd.proxy.recv(4096) == b""


def test_a_setting_that_cannot_be_made_is_named():
    with Netd(before=make_settings_read_only) as netd:
        assert "can't set /proc/sys/net/" in netd.failure()
        assert netd.process.wait(WATCHDOG_S) != 0
        assert netd.proxy.recv(4096) == b""


def test_malformed_messages_end_it_with_one_line(who):
    for message, line in ((b"\x02\0\0\0", "can't read the start message: Protocol error"),
                          (struct.pack("=II", 77, 0), "malformed start message"),
                          (struct.pack("=II", 2, 0) + bytes(6000), "malformed start message")):
        with Netd(uid=who, start=False) as netd:
            netd.launcher.send(message)
            assert netd.failure() == line
            assert netd.process.wait(WATCHDOG_S) != 0
    for workers in (0, 9):
        with Netd(uid=who, workers=workers) as netd:
            assert netd.failure() == f"{workers} workers: 1 to 8"


def test_a_connection_has_one_lease(netd, sandbox):
    netd.ask_lease("sb-0000000002")
    assert netd.failure() == "a connection has one lease"
    assert netd.process.wait(WATCHDOG_S) == 0
    assert sandbox.inside(connect, "127.0.0.1", 1)[0] == errno.ECONNREFUSED


def test_a_proxy_that_cannot_serve_the_sandbox_is_quoted(netd):
    netd.ask_lease()
    assert netd.proxy.recv(4096)[:4] == struct.pack("=I", 8)  # SANDBOX_ADD
    netd.proxy.send(struct.pack("=II16si1024s", SANDBOX_REFUSED, 0, b"sb-0000000009", -28, b"another one"))  # which nobody waits for
    netd.proxy.send(struct.pack("=II16si1024s", SANDBOX_REFUSED, 0, b"sb-0000000001", -28, b"proxy: can't serve another sandbox"))
    assert netd.failure() == "proxy: can't serve another sandbox"
    assert netd.process.wait(WATCHDOG_S) == 0


# The dial guard

class Host:
    """A namespace that plays the host: a public address, a private one, and a default route into the void."""

    def __init__(self):
        self.namespace = Namespace()
        self.namespace.ip("link add void arp off type veth peer name drain", "link set void up", "link set drain up",
                          "addr add 9.9.9.1/24 dev void", "addr add 10.1.1.1/24 dev void",
                          "addr add 2600::1/64 dev void nodad", "route add default via 9.9.9.2")

    def dial(self, uid, kind, address, port):
        """errno of a datagram or of a TCP connection that may not take long; None if it did not end."""
        script = ("import socket,sys,os\n"
                  f"os.setgroups([]); os.setgid({uid}); os.setuid({uid})\n"
                  f"s = socket.socket(socket.AF_INET6 if ':' in '{address}' else socket.AF_INET, socket.{kind})\n"
                  f"s.settimeout(1)\n"
                  "try:\n"
                  f"    s.connect(('{address}', {port})); s.send(b'x'); print(0)\n"
                  "except TimeoutError: print(None)\n"
                  "except OSError as e: print(e.errno)\n")
        done = subprocess.run(["nsenter", f"--net={self.namespace.path}", "/usr/bin/python3", "-c", script], check=True,
                              capture_output=True, text=True, timeout=WATCHDOG_S)
        return None if done.stdout.strip() == "None" else int(done.stdout)


@pytest.fixture
def host():
    made = Host()
    yield made
    made.namespace.close()


CLOSED = ["10.1.1.1", "10.1.1.9", "10.9.9.9", "127.0.0.1", "169.254.169.254", "168.63.129.16", "192.168.7.7", "9.9.9.1", "9.9.9.255",
          "198.18.0.1", "::1", "2600::1", "fd00::9", "fe80::9"]


def test_the_guard_keeps_the_proxys_uid_from_inside_addresses(host):
    with Netd(host=host.namespace.fd, guard_uid=OWN_UID) as netd:
        netd.accept_listeners()
        for address in CLOSED:
            if address != "fe80::9":
                assert host.dial(OWN_UID, "SOCK_STREAM", address, 80) in (
                    errno.ECONNREFUSED, errno.ENETUNREACH), address
                assert host.dial(OWN_UID, "SOCK_DGRAM", address, 53) in (
                    errno.EPERM, errno.EACCES, errno.ENETUNREACH), address
        assert host.dial(OWN_UID, "SOCK_DGRAM", "9.9.9.7", 53) == 0  # public
        assert host.dial(OWN_UID, "SOCK_DGRAM", "1.1.1.1", 53) == 0
        assert host.dial(OWN_UID, "SOCK_STREAM", "1.1.1.1", 443) is None  # a SYN that the void swallows
        assert host.dial(OWN_UID + 1, "SOCK_DGRAM", "10.9.9.9", 53) == 0  # another uid


def test_the_guard_opens_by_address_protocol_and_port(host):
    opened = [opened_entry("10.1.1.0", 24, socket.IPPROTO_TCP, 8000, 8010), opened_entry("127.0.0.53", 32, 0, 53, 53)]
    served = host.namespace.inside(lambda: [socket.create_server(("10.1.1.1", port)) for port in (8000, 8010, 8011)])
    with Netd(host=host.namespace.fd, guard_uid=OWN_UID, opened=opened) as netd:
        netd.accept_listeners()
        assert host.dial(OWN_UID, "SOCK_STREAM", "10.1.1.1", 8000) == 0
        assert host.dial(OWN_UID, "SOCK_STREAM", "10.1.1.1", 8010) == 0
        assert host.dial(OWN_UID, "SOCK_STREAM", "10.1.1.1", 8011) == errno.ECONNREFUSED
        assert host.dial(0, "SOCK_STREAM", "10.1.1.1", 8011) == 0
        assert host.dial(OWN_UID, "SOCK_DGRAM", "10.1.1.1", 8000) == errno.EPERM
        assert host.dial(OWN_UID, "SOCK_DGRAM", "127.0.0.53", 53) == 0
        assert host.dial(OWN_UID, "SOCK_DGRAM", "127.0.0.53", 54) == errno.EPERM
        assert host.dial(OWN_UID, "SOCK_DGRAM", "127.0.0.1", 53) == errno.EPERM
    for server in served:
        server.close()


def test_the_guard_takes_as_many_exceptions_as_a_message_holds(host):
    opened = [opened_entry(f"10.2.{i}.0", 24, 0, 1, 65535) for i in range(256)]
    with Netd(host=host.namespace.fd, guard_uid=OWN_UID, opened=opened) as netd:
        netd.accept_listeners()
        assert host.dial(OWN_UID, "SOCK_DGRAM", "10.2.255.1", 9) == 0
        assert host.dial(OWN_UID, "SOCK_DGRAM", "10.3.0.1", 9) == errno.EPERM


def test_the_guard_outlives_netd_and_a_flush_but_not_its_last_socket(host):
    with Netd(host=host.namespace.fd, guard_uid=OWN_UID) as netd:
        netd.accept_listeners()
        name = f"table inet eclusa-guard-{netd.process.pid}"
        assert tables(host.namespace) == [name]
        netd.process.kill()
        netd.process.wait(WATCHDOG_S)
        subprocess.run(["nsenter", f"--net={host.namespace.path}", "nft", "flush", "ruleset"], check=False,
                       capture_output=True)
        assert [line.split(" progname")[0] for line in tables(host.namespace)] == [name]
        assert host.dial(OWN_UID, "SOCK_STREAM", "10.9.9.9", 80) == errno.ECONNREFUSED
        os.close(netd.guard_fd)
        netd.guard_fd = None
        wait_until(lambda: tables(host.namespace) == [], "the guard's table goes")


@pytest.mark.parametrize("uid,opened", [(0, []), (OWN_UID, [opened_entry("10.0.0.0", 33, 6, 1, 1)]),
                                        (OWN_UID, [opened_entry("10.0.0.0", 8, 6, 2, 1)]),
                                        (OWN_UID, [opened_entry("10.0.0.0", 8, 132, 1, 1)])])
def test_a_guard_that_makes_no_sense_is_refused(host, uid, opened):
    with Netd(host=host.namespace.fd, guard_uid=uid, opened=opened) as netd:
        assert netd.failure() == "dial guard: Invalid argument"
        assert netd.process.wait(WATCHDOG_S) != 0
        assert tables(host.namespace) == []
