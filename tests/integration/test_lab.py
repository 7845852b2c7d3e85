"""
The laboratory is not deaf: what the other tests take as silence would be heard. The same probes and clients, run without a sandbox
in the host's namespace, get through; the canary, the origin, the name server and the census each notice what they are for.
"""
import json
import os
import socket
import subprocess
import sys

import pytest

from lab import probe
from lab.census import Census, assert_nothing_left
from lab.events import wait_until
from lab.world import HOST_ADDRESSES, ORIGIN, PUBLIC, Lab


@pytest.fixture()
def fresh(lab):
    """A laboratory of one's own, whose canary may be woken."""
    made = Lab()
    yield made
    made.close()


def send_from_host(lab, kind, address, port):
    def go():
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind) as sock:
            sock.settimeout(3)
            sock.connect((address, port))
            sock.send(b"here")

    lab.host.inside(go)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM], ids=["tcp", "udp"])
@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", *HOST_ADDRESSES, "10.0.0.5", "169.254.169.254", "8.8.8.8", "::1",
                                     "2001:db8:113::10"])
def test_the_canary_hears_every_address(fresh, kind, address):
    fresh.canary.assert_silent()
    send_from_host(fresh, kind, address, 4321)
    with pytest.raises(AssertionError, match="canary"):
        fresh.canary.assert_silent()
    fresh.canary.heard.wait(len, "what the canary's listener heard")
    assert any("4321" in place for place in fresh.canary.counts()[1])


def test_the_canary_hears_what_comes_from_outside(fresh):
    def go():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((ORIGIN, 0))
            sock.sendto(b"knock", (HOST_ADDRESSES[0], 22))

    fresh.world.inside(go)
    fresh.canary.heard.wait(len, "what the canary's listener heard")
    assert fresh.canary.counts()[0]["got"] == 1


def test_agreed_traffic_is_served_and_silent(lab):
    """Without a sandbox and a proxy the origin answers for allowed and denied names alike, and logs both."""
    mark, asked = lab.origin.connections.mark(), lab.dns.log.mark()
    for host in ("allowed.test", "denied.test"):
        done = subprocess.run(
            lab.host.command("curl", "-sS", "--cacert", lab.certificates.ca_file, "--resolve", f"{host}:443:{ORIGIN}",
                             f"https://{host}/bare"), capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"]})
        assert done.stdout == f"GET {host} /bare\n", done.stderr
    assert [(c.sni, r.target) for c in lab.origin.connections.since(mark) for r in c.requests] == [
        ("allowed.test", "/bare"), ("denied.test", "/bare")]

    def ask():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(3)
            sock.sendto(b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\6public\4test\0\0\1\0\1", ("203.0.113.53", 53))
            return sock.recv(512)

    assert lab.host.inside(ask).endswith(socket.inet_aton(PUBLIC))
    assert [str(q) for q in lab.dns.log.since(asked)] == ["public.test A/udp"]
    lab.canary.assert_silent()


def test_the_probe_gets_through_where_nothing_stops_it(fresh):
    """In the host's namespace the same look finds open doors: its refusals are the sandbox's merit."""
    script = (f"import json, sys; sys.path.insert(0, {os.path.dirname(probe.__file__)!r}); import probe; "
              f"print(json.dumps([probe.try_tcp({ORIGIN!r}, 443), probe.try_tcp('8.8.8.8', 853), probe.try_udp('127.0.0.1', 9)[0]]))")
    done = subprocess.run(fresh.host.command(sys.executable, "-c", script), capture_output=True, text=True, timeout=60)
    origin, elsewhere, udp = json.loads(done.stdout)
    assert origin[0] == elsewhere[0] == "CONNECTED" and udp == "WATCHDOG", done.stdout + done.stderr


@pytest.mark.parametrize("bad,reason", [("expired", "expired"), ("notyet", "not yet valid"), ("selfsigned", "self"),
                                        ("wrongname", "match"), ("unknownroot", "issuer"), ("good", "")])
def test_certificates_are_bad_in_the_way_they_say(lab, bad, reason):
    host = f"{bad}.wild.test"  # not here: cnonly, which curl itself would take
    done = subprocess.run(
        lab.host.command("curl", "-sS", "--cacert", lab.certificates.ca_file, "--resolve", f"{host}:443:{ORIGIN}", f"https://{host}/"),
        capture_output=True, text=True, timeout=60, env={"PATH": os.environ["PATH"]})
    assert (done.returncode == 0) == (bad == "good") and reason in done.stderr, done.stderr


def test_the_census_notices_a_survivor_and_its_namespaces(lab):
    before = Census(lab)
    # An orphan of a parent that is gone, in namespaces of its own.
    parent = subprocess.Popen(["sh", "-c", "unshare --net --uts -- sleep 60 & echo $!"], stdout=subprocess.PIPE)
    pid = int(parent.stdout.readline())
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: len(Census(lab).more_than(before).get("namespaces", ())) == 2, "two namespaces more")
    assert "processes" in Census(lab).more_than(before)
    with pytest.raises(AssertionError, match="sleep"):
        assert_nothing_left(lab, before, deadline=0.1)
    os.kill(pid, 9)
    assert_nothing_left(lab, before)


def test_the_census_notices_links_and_tables(lab):
    before = Census(lab)
    lab.host.run("ip", "link", "add", "left0", "type", "veth", "peer", "name", "left1")
    lab.host.run("nft", "add", "table", "inet", "left")
    more = Census(lab).more_than(before)
    assert more == {"links": ["left0", "left1"], "tables": ["table inet left"]}
    lab.host.run("ip", "link", "del", "left0")
    lab.host.run("nft", "delete", "table", "inet", "left")
    assert_nothing_left(lab, before)
