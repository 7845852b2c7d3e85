"""
DNS of a sandbox (cases B08, B09; K7): the proxy answers by UDP and TCP from policy alone, strictly, at once, and asks nobody. All that
a user's sandbox can try is one run; a parser that is not ours (dnspython) reads the answers.
"""
import json
import os
import signal
import subprocess

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from lab import dns_client, probe
from lab.census import descendants
from lab.eclusa import Launch, network_args, read_audit, run_eclusa
from lab.events import wait_until
from lab.world import ORIGIN, RESOLVER

CLIENT, PROBE = os.path.abspath(dns_client.__file__), os.path.abspath(probe.__file__)
SERVICE = "10.255.255.254"
AT_ONCE_MS = 4500  # a stub resolver waits for 5,000 before it asks again
BLOCKED, NOT_SUPPORTED = 15, 21
FLOOD = 1000

MUSL = r"""
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
		char text[64] = "";
		int r = getaddrinfo(argv[i], "443", &hints, &found);
		if (r == 0 && found->ai_family == AF_INET)
			inet_ntop(AF_INET, &((struct sockaddr_in *)found->ai_addr)->sin_addr, text, sizeof(text));
		printf("%s %s\n", argv[i], r == 0 ? text : gai_strerror(r));
	}
	return 0;
}
"""

# lookup() is glibc's getaddrinfo, resolve*() c-ares.
NODE = """
const dns = require("dns").promises;
(async () => {
	for (const [how, name] of [["lookup", "allowed.test"], ["lookup", "denied.test"], ["resolve4", "allowed.test"],
		["resolve6", "allowed.test"], ["resolve4", "denied.test"], ["resolveTxt", "allowed.test"]]) {
		try { console.log(how, name, JSON.stringify(await dns[how](name))); }
		catch (error) { console.log(how, name, error.code); }
	}
})();
"""


def question(name, kind="A", **more):
    return dns.message.make_query(name, kind, **{"id": 0x4711, **more})


def wire(name, kind="A", **more):
    return question(name, kind, **more).to_wire()


# id -> question, rcode, "A" if an address is the answer, extended error.
QUESTIONS = {
    "allowed": (question("allowed.test"), "NOERROR", "A", None),
    "allowed-edns": (question("allowed.test", use_edns=0, payload=4096), "NOERROR", "A", None),
    "allowed-mixed-case": (question("aLLoWeD.TesT", use_edns=0), "NOERROR", "A", None),
    "wild": (question("any.wild.test", use_edns=0), "NOERROR", "A", None),
    "allowed-AAAA": (question("allowed.test", "AAAA", use_edns=0), "NOERROR", None, None),
    "allowed-HTTPS": (question("allowed.test", "HTTPS", use_edns=0), "NOERROR", None, None),
    "allowed-SVCB": (question("allowed.test", "SVCB", use_edns=0), "NOERROR", None, None),
    "allowed-TXT": (question("allowed.test", "TXT", use_edns=0), "NOERROR", None, None),
    "allowed-SRV": (question("any.wild.test", "SRV", use_edns=0), "NOERROR", None, None),
    "allowed-ANY": (question("allowed.test", "ANY", use_edns=0), "REFUSED", None, NOT_SUPPORTED),
    "allowed-NS": (question("allowed.test", "NS", use_edns=0), "NOERROR", None, None),
    "allowed-AXFR": (question("allowed.test", "AXFR", use_edns=0), "REFUSED", None, NOT_SUPPORTED),
    "version.bind": (question("version.bind", "TXT", rdclass="CH", use_edns=0), "REFUSED", None, NOT_SUPPORTED),
    "denied": (question("denied.test"), "NXDOMAIN", None, None),
    "denied-edns": (question("denied.test", use_edns=0), "NXDOMAIN", None, BLOCKED),
    "denied-AAAA": (question("denied.test", "AAAA", use_edns=0), "NXDOMAIN", None, BLOCKED),
    "denied-HTTPS": (question("denied.test", "HTTPS", use_edns=0), "NXDOMAIN", None, BLOCKED),
    "denied-TXT": (question("c2VjcmV0.txt.denied.test", "TXT", use_edns=0), "NXDOMAIN", None, NOT_SUPPORTED),
    "secret": (question("secret.wild.test", use_edns=0), "NXDOMAIN", None, BLOCKED),
    "apex": (question("wild.test", use_edns=0), "NOERROR", None, BLOCKED),
    "apex-TXT": (question("wild.test", "TXT", use_edns=0), "NOERROR", None, NOT_SUPPORTED),
    "above": (question("test", "AAAA", use_edns=0), "NOERROR", None, BLOCKED),
    "dot-in-a-label": (question("denied\\.test.wild.test", use_edns=0), "NXDOMAIN", None, BLOCKED),
    "nul-in-a-label": (question("denied.test\\000.wild.test", use_edns=0), "NXDOMAIN", None, BLOCKED),
    "root": (question(".", use_edns=0), "NXDOMAIN", None, BLOCKED),
    "number": (question("10.0.0.1", use_edns=0), "NXDOMAIN", None, BLOCKED),
    "longest": (question(".".join(["a" * 63] * 3 + ["b" * 61]), use_edns=0), "NXDOMAIN", None, BLOCKED),
    "reverse": (question("1.0.0.10.in-addr.arpa", "PTR", use_edns=0), "NXDOMAIN", None, BLOCKED),
}

# id -> bytes, the rcode (None: there is no answer)
HOSTILE = {
    "nothing": (b"", None),
    "short": (b"\x47\x11\x01\x00\x00\x01", None),
    "an-answer": (b"\x47\x11\x81" + wire("allowed.test")[3:], None),
    "no-question": (b"\x47\x11\x01\x00" + b"\0" * 8, 1),
    "two-questions": (b"\x47\x11\x01\x00\x00\x02" + wire("allowed.test")[6:] + wire("denied.test")[12:], 1),
    "update": (b"\x47\x11\x28\x00" + wire("allowed.test")[4:], 4),
    "status": (b"\x47\x11\x10\x00" + wire("allowed.test")[4:], 4),
    "pointer-to-itself": (wire("allowed.test")[:12] + b"\xc0\x0c\0\1\0\1", 1),
    "pointer-behind-a-label": (wire("allowed.test")[:12] + b"\x01a\xc0\x0c\0\1\0\1", 1),
    "name-of-256": (wire("allowed.test")[:12] + (b"\x3f" + b"a" * 63) * 3 + b"\x3e" + b"b" * 62 + b"\0\0\1\0\1", 1),
    "label-of-64": (wire("allowed.test")[:12] + b"\x40" + b"a" * 64 + b"\0\0\1\0\1", 1),
    "no-end": (wire("allowed.test")[:-6], 1),
    "trailing-garbage": (wire("allowed.test") + b"x", 1),
    "two-edns": (b"\x47\x11\x01\x00\x00\x01\0\0\0\0\0\x02" + wire("allowed.test", use_edns=0)[12:] + wire("allowed.test", use_edns=0)[-11:], 1),
    "edns-version": (wire("allowed.test", use_edns=0)[:-5] + b"\1\0\0\0\0", 0),  # BADVERS: its other bits are in EDNS
    "too-long": (wire("allowed.test") + b"\0" * 1300, 1),
}
NOT_BY_TCP = ("nothing", "too-long")  # closed: there is no message that is so short or so long

COMMANDS = {
    "getent": ["getent", "ahosts", "allowed.test"],
    "getent-denied": ["getent", "hosts", "denied.test"],
    "getent-relative": ["getent", "hosts", "allowed"],
    "musl": ["./musl", "allowed.test", "denied.test", "any.wild.test"],
    "node": ["node", "-e", NODE],
    "nsswitch": ["grep", "^hosts:", "/etc/nsswitch.conf"],
}
NAMES = ("allowed.test", "ALLOWED.test", "any.wild.test", "denied.test", "secret.wild.test", "allowed", "localhost", "sandbox", "x.localhost")


@pytest.fixture(scope="module")
def musl(lab):
    """A statically linked program with musl's stub resolver, which takes no other answer than NOERROR and NXDOMAIN."""
    source, to = lab.write("musl.c", MUSL), os.path.join(lab.folder, "musl")
    subprocess.run(["musl-gcc", "-static", "-O1", "-o", to, source], check=True)
    os.chmod(to, 0o755)
    return to


@pytest.fixture(scope="module")
def inside(lab, who, musl):
    """One sandbox that asks everything; @return the run, what it saw, and what the name server was asked meanwhile."""
    bytes_of = {**{name: row[0].to_wire() for name, row in QUESTIONS.items()}, **{name: row[0] for name, row in HOSTILE.items()}}
    what = {"udp": {name: data.hex() for name, data in bytes_of.items()},
            "tcp": {name: data.hex() for name, data in bytes_of.items() if name not in NOT_BY_TCP},
            "names": NAMES, "commands": COMMANDS, "flood": [f"c2vjcmv0{n}.exfil.denied.test" for n in range(FLOOD)]}
    mark = lab.dns.log.mark()
    run = run_eclusa(lab, ["--in", f"{CLIENT}:dns_client.py", "--in", f"{lab.write('what.json', json.dumps(what))}:what.json",
                           "--in", f"{musl}:musl", "--timeout", "90s", "--memory", "1G", "--pids-limit", "128"],
                     ["/usr/bin/python3", "dns_client.py", "what.json"], user=who, env={"ECLUSA_LIMITS": "questions=100000"})
    return run, run.json(), lab.dns.log.since(mark)


def records(run):
    return [e for e in run.events if e.get("class_uid") == 4003]


def counted(events):
    return sum(e["unmapped"]["eclusa"].get("count", 1) for e in events)


@pytest.mark.parametrize("way", ["udp", "tcp"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_has_its_answer(inside, name, way):
    run, seen, _ = inside
    asked, rcode, address, extended = QUESTIONS[name]
    answer, who_said = seen[way][name]
    assert who_said == SERVICE, "C: from whom it was asked"
    read = dns.message.from_wire(bytes.fromhex(answer))  # all of it, or it raises
    assert dns.rcode.to_text(read.rcode()) == rcode, f"C: {read}\n{run.report()}"
    assert read.id == asked.id and read.flags & dns.flags.QR and read.flags & dns.flags.RA and not read.flags & dns.flags.TC, read
    assert read.question[0].name.labels == asked.question[0].name.labels, "C: in the letters of the question"
    assert (read.edns >= 0) == (asked.edns >= 0), "C: EDNS for who speaks it"
    assert not any(item.address.startswith(ORIGIN) for rrset in read.answer for item in rrset), "C: nobody's real address"
    if address:
        assert [item.address.split(".")[:2] for rrset in read.answer for item in rrset] == [["198", "18"]], read
        assert read.answer[0].ttl <= 60
    else:
        assert not read.answer, read
    if rcode == "NXDOMAIN" or (rcode == "NOERROR" and not address):  # RFC 2308
        assert [rrset.rdtype for rrset in read.authority] == [dns.rdatatype.SOA] and read.authority[0][0].minimum <= 60, read
    errors = [o for o in read.options if o.otype == dns.edns.EDE]
    assert [o.code for o in errors] == ([extended] if extended else []), read
    assert all(o.text.startswith("deny.") for o in errors), errors


@pytest.mark.parametrize("way", ["udp", "tcp"])
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_question_is_an_error_or_nothing(inside, name, way):
    if way == "tcp" and name in NOT_BY_TCP:
        pytest.skip("no message by TCP")
    _, seen, _ = inside
    answer = bytes.fromhex(seen[way][name][0])
    _, rcode = HOSTILE[name]
    assert (answer[3] & 15 if answer else None) == rcode, f"C: {answer}"
    assert not answer or (answer[2] & 0x80 and int.from_bytes(answer[6:8], "big") == 0), "C: a response without an answer"


def test_programs_find_what_is_allowed_at_once_and_nothing_else(inside):
    run, seen, _ = inside
    names = {name: found for name, (found, _) in seen["names"].items()}
    address = names["allowed.test"][0]
    assert address.startswith("198.18.") and names["ALLOWED.test"] == [address], f"C: {names}\n{run.report()}"
    assert names["any.wild.test"][0].startswith("198.18.") and names["any.wild.test"] != [address]
    for name in ("denied.test", "secret.wild.test", "allowed"):
        assert names[name] == -2, f"C: {name}: {names[name]}, not EAI_NONAME"
    assert "127.0.0.1" in names["localhost"] and names["x.localhost"] == ["127.0.0.1"] and names["sandbox"] == ["127.0.0.1"]
    commands = seen["commands"]
    assert commands["getent"][1].split()[0] == address and commands["getent-denied"][:2] == [2, ""] and commands["getent-relative"][0] == 2
    assert commands["musl"][1].splitlines() == [
        f"allowed.test {address}", "denied.test Name does not resolve", f"any.wild.test {names['any.wild.test'][0]}"], commands["musl"]
    assert commands["node"][1].splitlines() == [
        f'lookup allowed.test {{"address":"{address}","family":4}}', "lookup denied.test ENOTFOUND", f'resolve4 allowed.test ["{address}"]',
        "resolve6 allowed.test ENODATA", "resolve4 denied.test ENOTFOUND", "resolveTxt allowed.test ENODATA"], commands["node"]
    assert commands["nsswitch"][1].split() == ["hosts:", "files", "dns"]
    slow = {name: row for name, row in {**seen["names"], **commands}.items() if row[-1] > AT_ONCE_MS and name != "node"}
    assert not slow, f"C: something waited: {slow}"


def test_nobody_was_asked_and_nothing_left(inside, lab):
    run, _, asked = inside
    assert not asked, f"U: {asked[:10]}\n{run.report()}"
    lab.canary.assert_silent()


def test_each_denied_name_is_on_record(inside):
    run, _, _ = inside
    denied = [e for e in records(run) if e["action_id"] == 2]
    names = {(e["query"]["hostname"], e["status_code"]) for e in denied if "query" in e}
    for wanted in (("denied.test", "deny.default"), ("secret.wild.test", "deny.rule"), ("wild.test", "deny.default"), ("wild.test", "deny.dns-type"),
                   ("test", "deny.default"), ("allowed", "deny.default"),
                   ("c2vjcmv0.txt.denied.test", "deny.dns-type"), ("denied\\046test.wild.test", "deny.name-invalid"),
                   ("1.0.0.10.in-addr.arpa", "deny.dns-name"), ("version.bind", "deny.dns-type")):
        assert wanted in names, f"L: {wanted} is not in {sorted(names)}"
    assert all(e["type_uid"] == 400302 and e["status_id"] == 2 and e["unmapped"]["eclusa"]["intercept"] == "dns" for e in denied)
    secret = next(e for e in denied if e.get("query", {}).get("hostname") == "secret.wild.test")
    assert secret["firewall_rule"]["uid"] == "bench-secret" and secret["rcode"] == "NXDomain", secret
    assert counted(e for e in denied if e["status_code"] == "deny.protocol") >= len(HOSTILE), "L: what was no question"
    assert ("denied.test", "deny.default") in {(d.get("host"), d["reason"]) for d in run.result["denials"]}, run.result


def test_each_answered_name_is_on_record_once(inside):
    run, seen, _ = inside
    answered = [e for e in records(run) if e["action_id"] == 1]
    assert sorted(e["query"]["hostname"] for e in answered) == ["allowed.test", "any.wild.test"], f"L: {answered}"
    assert all(e["answers"][0]["rdata"].startswith("198.18.") and e["status_code"] == "allow.rule" for e in answered)
    first = next(e for e in answered if e["query"]["hostname"] == "allowed.test")
    assert [first["answers"][0]["rdata"]] == seen["names"]["allowed.test"][0] and first["firewall_rule"]["uid"] == "bench-allowed"


def test_B08_names_are_no_way_out(inside):
    """First labels that differ: each is refused, some are told one by one, all are counted, and the name server hears of none."""
    run, seen, asked = inside
    assert seen["flood"] == {"3": FLOOD}, f"C: {seen['flood']}"
    assert not [q for q in asked if q.name.endswith("denied.test")], "U"
    single = [e for e in records(run) if e.get("query", {}).get("hostname", "").endswith(".exfil.denied.test")]
    others = [e for e in records(run) if "more names than are told" in e["status_detail"]]
    assert single and counted(single + others) >= FLOOD, f"L: {counted(single)} one by one and {counted(others)} more"


SILENT = [(address, port) for address in (SERVICE, RESOLVER) for port in (137, 853, 5353, 5355)] + [(RESOLVER, 53), ("10.0.0.2", 53)]


def test_B09_no_other_name_server_answers(lab, who):
    """By UDP and TCP each try is refused at once, on whatever address and port."""
    tries = f"""
import json, probe
places = {SILENT!r} + [(probe.gateway_address(), 53)]
print(json.dumps([[probe.try_udp(*place) for place in places], [probe.try_tcp(*place) for place in places]]))
"""
    mark = lab.dns.log.mark()
    run = run_eclusa(lab, ["--in", f"{PROBE}:probe.py"], ["/usr/bin/python3", "-c", "import sys; sys.path.insert(0, '.')\n" + tries], user=who)
    udp, tcp = run.json()
    for outcome, took in udp + tcp:
        assert outcome in ("ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EACCES") and took < AT_ONCE_MS, f"C: {udp} {tcp}\n{run.report()}"
    assert not lab.dns.log.since(mark), "U"
    lab.canary.assert_silent()
    packets = [e for e in run.events if e.get("class_uid") == 4001 and e["status_code"].startswith("deny.")]
    assert counted(packets) >= len(udp) + len(tcp), f"L: {packets}"


ASKING = """
import socket, sys
for line in sys.stdin:
    try:
        print(socket.gethostbyname(line.strip()), flush=True)
    except OSError as error:
        print(error, flush=True)
"""


def test_addresses_survive_the_worker(lab):
    """kill -9 of it, and the next one knows what stood for what."""
    audit = os.path.join(lab.folder, "audit-dns-kill")
    os.makedirs(audit)
    launch = Launch(lab, ["run", "-i", *network_args(lab, audit), "--timeout", "60s", "--", "/usr/bin/python3", "-u", "-c", ASKING], audit_dir=audit)
    process = launch.popen(stdin=subprocess.PIPE)

    def ask(name):
        process.stdin.write(name.encode() + b"\n")
        process.stdin.flush()
        return process.stdout.readline().decode().strip()

    def workers():
        return [pid for pid, (name, state) in descendants(process.pid).items() if name == "eclusa-worker" and state != "Z"]

    try:
        first, other = ask("any.wild.test"), ask("allowed.test")
        assert first.startswith("198.18.") and other.startswith("198.18.") and first != other, process.stderr.read(2000)
        old = workers()
        assert len(old) == 1, descendants(process.pid)
        os.kill(old[0], signal.SIGKILL)
        wait_until(lambda: workers() not in ([], old), "there is another worker")
        assert ask("allowed.test") == other and ask("any.wild.test") == first, "C"
        assert ask("new.wild.test") not in (first, other), "C"
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    answered = [e["query"]["hostname"] for e in read_audit(audit) if e.get("class_uid") == 4003]
    assert "new.wild.test" in answered, f"L: {answered}"
    lab.canary.assert_silent()


def test_one_id_leads_from_the_question_to_the_refusal(lab, who):
    """Through DNS, connection and request, and the client has it, too. What comes next has ids of its own."""
    words = ["curl", "-sS", "--noproxy", "*", "https://allowed.test/other", "https://allowed.test/more"]
    run = run_eclusa(lab, [], words, user=who, policy=[f"allowed.test GET /v1/** addr={ORIGIN}/32"])
    told = [json.loads(text + "}")["request_id"] for text in run.output.replace("\n", "").split("}") if text]
    seen = [(e["class_uid"], e["status_code"], e["metadata"]["correlation_uid"]) for e in run.events if "dst_endpoint" in e]
    first = {row[:2] for row in seen if row[2] == told[0]}
    assert first == {(4003, "allow.rule"), (4002, "allow.rule"), (4002, "deny.path")}, f"L: {told} {seen}\n{run.report()}"
    assert told[1] != told[0] and {row[:2] for row in seen if row[2] == told[1]} == {(4002, "deny.path")}, seen


def test_observing_answers_every_name_but_denied_ones(lab, who):
    policy = lab.write(f"watch-{who or 0}.allow", "policy 1\n\n[profile watch]\nset mode observe\ndeny bad.test\n")
    os.chmod(policy, 0o644)
    what = lab.write(f"watch-{who or 0}.json", json.dumps({"names": ["whatever.test", "bad.test"]}))
    run = run_eclusa(lab, ["--in", f"{CLIENT}:dns_client.py", "--in", f"{what}:what.json"], ["/usr/bin/python3", "dns_client.py", "what.json"],
                     user=who, policy=policy)
    names = run.json()["names"]
    assert names["whatever.test"][0][0].startswith("198.18.") and names["bad.test"][0] == -2, f"C: {names}"
    seen = {e["query"]["hostname"]: e for e in records(run)}
    assert seen["whatever.test"]["status_code"] == "observe.would-deny" and seen["whatever.test"]["unmapped"]["eclusa"]["would"] == "deny.default"
    assert seen["bad.test"]["status_code"] == "deny.rule", "L"


def test_without_network_there_is_no_name_server(lab, who):
    run = run_eclusa(lab, [], ["/usr/bin/python3", "-c", "import socket\ntry:\n    socket.gethostbyname('allowed.test')\n"
                               "except OSError as error:\n    print(error.errno, open('/etc/resolv.conf').read() == '')"], policy=False, user=who)
    assert run.output.split() == ["-3", "True"], run.report()
