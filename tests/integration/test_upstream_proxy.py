"""Through a company's proxy: what it is asked for, what it is told, what it can't change, and who may reach it. And hosts with IPv6."""
import base64
import contextlib
import os
import socket
import threading

import pytest

from lab.alone import Alone, Client, allow, fetch, policy
from lab.census import descendants
from lab.eclusa import run_eclusa
from lab.events import DEADLINE
from lab.raw_server import RawServers
from lab.world import ORIGIN, PUBLIC

PORT = 3128
PROXY = "5.6.7.9"     # the world takes every address for its own
INSIDE = "10.77.0.1"  # of the company's own
LOGIN = "agent:pa55-word"
BASIC = base64.b64encode(LOGIN.encode()).decode()
RULES = policy(allow("*.wild.test:80,443 GET /** id=wild"), "allow private.test GET /** id=private",
               allow("tcp banner.test:2222 id=banner"), "allow inside.test:3128 GET /** id=inside")


class CompanyProxy:
    """Speaks CONNECT. @refuse: a whole answer by target, or by "*"."""

    def __init__(self, lab):
        self.lab, self.heads, self.refuse = lab, [], {}
        self.servers = RawServers(lab.world, {PORT: self.serve})

    def take(self):
        heads, self.heads = self.heads, []
        return heads

    @property
    def targets(self):
        return [head.split(" ")[1] for head in self.take()]

    def serve(self, connection):
        head = b""
        while b"\r\n\r\n" not in head:
            data = connection.read()
            if not data:
                return
            head += data
        self.heads.append(head.decode())
        target = head.decode().split(" ")[1]
        answer = self.refuse.get(target, self.refuse.get("*"))
        if answer is not None:
            connection.send(answer)
            return
        host, port = target.rsplit(":", 1)
        host = ORIGIN if host.endswith(".test") else host.strip("[]")
        upstream = self.lab.world.inside(lambda: socket.create_connection((host, int(port)), DEADLINE))
        first = upstream.recv(100) if port == "2222" else b""
        connection.send(b"HTTP/1.1 200 Connection established\r\nX-By: company\r\n\r\n" + first)
        back = threading.Thread(target=self.pump, args=(upstream, connection.sock), daemon=True)
        back.start()
        self.pump(connection.sock, upstream)
        back.join(DEADLINE)
        upstream.close()

    @staticmethod
    def pump(source, to):
        try:
            while data := source.recv(65536):
                to.sendall(data)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def company(lab):
    lab.dns.zone["private.test"] = ["10.1.2.3"]
    lab.dns.zone["inside.test"] = [INSIDE]
    places = f"{{ {PROXY}, {INSIDE} }}"
    for chain, way, port in (("output", "daddr", "dport"), ("lead_output", "daddr", "dport"),
                             ("prerouting", "saddr", "sport"), ("lead_prerouting", "saddr", "sport")):
        lab.host.run("nft", f"insert rule inet canary {chain} ip {way} {places} tcp {port} {PORT} accept")
    made = CompanyProxy(lab)
    yield made
    made.servers.close()


@pytest.fixture(scope="module")
def login(lab):
    path = lab.write("login", LOGIN + "\n")
    os.chmod(path, 0o600)
    return path


@pytest.fixture(scope="module")
def alone(lab, machine, company, login):  # pylint: disable=unused-argument
    made = Alone(lab, machine, RULES, "--upstream-proxy", f"http://{PROXY}:{PORT}", "--upstream-proxy-auth", login)
    yield made
    made.end()


def test_it_is_asked_for_the_checked_address(company, alone):
    assert fetch(alone, "a.wild.test", "/by/address") == 200
    head, = company.take()
    assert head == (f"CONNECT {ORIGIN}:443 HTTP/1.1\r\nHost: {ORIGIN}:443\r\n"
                    f"Proxy-Authorization: Basic {BASIC}\r\n\r\n")
    event, = alone.wait_event("allow.rule", "/by/address")
    assert event["dst_endpoint"]["ip"] == ORIGIN and "address" not in event["unmapped"]["eclusa"]
    assert event["tls"]["certificate"]["subject"] == "CN=a.wild.test", "verified from end to end"


def test_plain_requests_go_by_connect_as_well(company, alone):
    with Client(alone) as client:
        assert client.get_plain("http://b.wild.test/plain")[0] == 200
    assert company.targets == [f"{ORIGIN}:80"]


def test_what_follows_its_answer_at_once_is_not_lost(company, alone):
    with Client(alone) as client:
        client.send("CONNECT banner.test:2222 HTTP/1.1\r\nHost: banner.test:2222\r\n\r\n")
        assert client.head()[0] == 200
        assert client.take(8) == b"SSH-2.0-"
    assert company.targets == [f"{ORIGIN}:2222"]


def test_it_opens_no_address(company, alone):
    with Client(alone) as client:
        assert client.tunnel("private.test") == 403  # C
    assert company.take() == []  # U
    assert alone.wait_event("deny.address-private")[0]["action_id"] == 2  # L


REFUSALS = {
    "no": (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", "refused CONNECT with status 403"),
    "login": (b"HTTP/1.1 407 Authenticate\r\n\r\n", "it does not take the credentials"),
    "noise": (b"SSH-2.0-x\r\n\r\n", "without a valid answer"),
    "end": (b"", "without a valid answer"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_its_refusals_are_errors_with_words(company, alone, kind):
    answer, words = REFUSALS[kind]
    before = len(alone.events("error.upstream"))
    company.refuse["*"] = answer
    try:
        with Client(alone) as client:
            status, body = client.tunnel(f"{kind}.wild.test").get(f"{kind}.wild.test", "/")
        assert status == 502 and words in body.decode()
        event = alone.wait_event("error.upstream", count=before + 1)[-1]
        assert words in event["status_detail"]
    finally:
        company.refuse.clear()
        company.take()


def test_the_next_address_is_asked_for_when_one_can_not_be_reached(lab, company, alone):
    lab.dns.zone["two.wild.test"] = [ORIGIN, PUBLIC]
    alone.load(*RULES.splitlines()[3:], f"allow two.wild.test GET /** addr={ORIGIN}/32 id=two")
    company.refuse[f"{ORIGIN}:443"] = b"HTTP/1.1 504 Gateway Timeout\r\n\r\n"
    try:
        assert fetch(alone, "two.wild.test", "/two") == 200
        assert company.targets == [f"{ORIGIN}:443", f"{PUBLIC}:443"]
        assert alone.wait_event("allow.rule", "/two")[0]["dst_endpoint"]["ip"] == PUBLIC
    finally:
        company.refuse.clear()


def test_by_name_nothing_is_looked_up_and_the_log_says_so(lab, machine, company):
    other = Alone(lab, machine, RULES, "--upstream-proxy", f"http://{PROXY}:{PORT}", "--upstream-proxy-by-name")
    asked = lab.dns.log.mark()
    assert [fetch(other, "c.wild.test", path) for path in ("/by/name", "/by/name/again")] == [200, 200]
    head, = company.take()
    assert head == "CONNECT c.wild.test:443 HTTP/1.1\r\nHost: c.wild.test:443\r\n\r\n", "one connection for both"
    assert not lab.dns.log.since(asked)
    for path in ("/by/name", "/by/name/again"):
        event, = other.wait_event("allow.rule", path)
        assert event["unmapped"]["eclusa"]["address"] == "unchecked" and "ip" not in event["dst_endpoint"]
    assert fetch(other, "denied.test", "/") == 403
    assert company.take() == []
    with Client(other) as client:
        assert client.tunnel("10.1.2.3") == 403, "an address that the client chose is checked all the same"
    other.end()


def test_the_credentials_stay_with_the_proxy(alone):
    """Neither log nor words nor what other processes can read: command lines and environments."""
    for pid in [alone.process.pid, *descendants(alone.process.pid)]:
        for name in ("cmdline", "environ"):
            with open(f"/proc/{pid}/{name}", "rb") as file:
                text = file.read()
            assert b"pa55" not in text and BASIC.encode() not in text
    whole = "".join(map(str, alone.errors))
    for folder, _, names in os.walk(alone.audit):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                whole += file.read().decode("latin-1")
    assert "pa55" not in whole and BASIC not in whole


@pytest.mark.parametrize("words, what", [
    (["--upstream-proxy", "https://proxy.example:1"], "takes http://HOST:PORT"),
    (["--upstream-proxy", "http://proxy.example"], "takes http://HOST:PORT"),
    (["--upstream-proxy", "http://a:b@proxy.example:1"], "takes no credentials"),
    (["--upstream-proxy-by-name"], "need --upstream-proxy"),
    (["--upstream-proxy", "http://10.0.0.1:1", "--upstream-proxy-auth", "OPEN"], "others can read it"),
    (["--upstream-proxy", "http://10.0.0.1:1", "--upstream-proxy-auth", "EMPTY"], "not user:password"),
])
def test_what_is_no_proxy(lab, machine, words, what):
    open_file, empty = lab.write("open", LOGIN), lab.write("empty", "x\n")
    os.chmod(empty, 0o600)
    words = [{"OPEN": open_file, "EMPTY": empty}.get(word, word) for word in words]
    failed = Alone(lab, machine, RULES, *words, ready=False)
    assert failed.process.wait(DEADLINE) != 0
    for reader in failed.readers:
        reader.join(DEADLINE)
    assert any(what in line for line in failed.errors if line), failed.report()
    assert not any("pa55" in line for line in failed.errors if line)


@pytest.mark.parametrize("place", [PROXY, INSIDE])
def test_a_run_goes_through_it_and_nothing_else_reaches_it(lab, who, company, login, place):
    """Also where it has an address of the company's own, which the dial guard opens for it, and no rule does."""
    if who:
        os.chown(login, who, who)
    python = ("import urllib.request as u, urllib.error as e\n"
              "print(u.urlopen('https://allowed.test/run').status)\n"
              f"try: u.urlopen('https://inside.test:{PORT}/')\n"
              "except e.URLError as error: print('403' if ' 403 ' in str(error) else error)\n")
    rules = [f"allowed.test GET /** addr={ORIGIN}/32", f"inside.test:{PORT} GET /**"]
    run = run_eclusa(lab, ["--upstream-proxy", f"http://{place}:{PORT}", "--upstream-proxy-auth", login],
                     ["/usr/bin/python3", "-c", python], policy=rules, user=who)
    if who:
        os.chown(login, 0, 0)
    assert run.output.split() == ["200", "403"], run.report()  # C
    assert company.targets == [f"{ORIGIN}:443"]  # U
    codes = sorted(e["status_code"] for e in run.decisions())
    assert codes == ["allow.rule", "deny.address-private"], run.report()  # L


@pytest.fixture(scope="module")
def six(lab, machine):
    """The machine has IPv6 towards the world, where nothing answers at 2001:db8:113::dead."""
    machine.ip("addr add 2001:db8:114::1/64 dev world2 nodad")
    lab.world.ip("addr add 2001:db8:114::10/64 dev world3 nodad")
    machine.ip("route add default via 2001:db8:114::10")
    # The world takes every address for its own, but this one.
    for rule in ("add pref 10 to 2001:db8:114::1 lookup main", "add pref 20 lookup local", "del pref 0"):
        lab.world.run("ip", "-6", "rule", *rule.split())
    lab.world.run("nft", "add table ip6 silent; add chain ip6 silent in { type filter hook prerouting priority -300; }; "
                         "add rule ip6 silent in ip6 daddr 2001:db8:113::dead drop")
    rules = policy(f"allow *.six.test GET /** addr={ORIGIN}/32,2001:db8:113::/64 id=six")
    made = Alone(lab, machine, rules, env={"ECLUSA_LIMITS": "leave_ms=500,dial_delay_ms=200,dial_ms=2000"})
    yield made
    made.end()
    lab.world.run("nft", "delete table ip6 silent")


@pytest.mark.parametrize("name, addresses, reached", [
    ("only", ["2001:db8:113::10"], "2001:db8:113::10"),
    ("both", ["2001:db8:113::10", ORIGIN], "2001:db8:113::10"),
    ("silent", ["2001:db8:113::dead", ORIGIN], ORIGIN),
    ("many", [f"2001:db8:113::dea{n}" for n in "abc"] + ["2001:db8:113::dead", "2001:db8:113::10"], None),
])
def test_hosts_with_ipv6(lab, six, name, addresses, reached):
    host = f"{name}.six.test"
    lab.dns.zone[host] = addresses
    assert fetch(six, host, f"/{name}") == 200
    event, = six.wait_event("allow.rule", f"/{name}")
    assert event["dst_endpoint"]["ip"] == reached or (reached is None and event["dst_endpoint"]["ip"] != "2001:db8:113::dead")


def test_a_host_that_never_answers_ends_in_time(lab, six):
    lab.dns.zone["dead.six.test"] = ["2001:db8:113::dead"]
    with Client(six) as client:
        assert client.tunnel("dead.six.test").get("dead.six.test", "/")[0] == 504
    assert six.wait_event("error.timeout")[0]["dst_endpoint"]["hostname"] == "dead.six.test"
