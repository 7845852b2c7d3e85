"""Cases B01, B02, B04, B06-B08 and B10: the proxy resolves, the guard admits, the admitted address is dialled."""
import os

import pytest

from lab import eclusa
from lab.dns import NXDOMAIN
from lab.exchanges import END, exchange, fetch, response, send, tunnel
from lab.oracles import ADDRESS_DENIED, NAME_DENIED, NAME_INVALID, Batch
from lab.world import HOST_ADDRESSES, HOST_ADDRESSES_6, ORIGIN, PUBLIC

SPECIAL = (
    "127.0.0.1", "10.0.0.5", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.1",
    "192.0.2.1", "198.18.0.1", "198.51.100.1", "168.63.129.16", *HOST_ADDRESSES, "0.0.0.0", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "203.0.113.11",  # beside the exempted /32
)
METADATA = {"169.254.169.254", "100.100.100.200", "168.63.129.16"}
MAPPED = ("::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:ffff:a9fe:a9fe", "::ffff:203.0.113.11")
NUMERIC = ("2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "017700000001", "169.254.43518", "127.0.0.1.",
           "1.2.3", "0x")
LITERALS = {
    "B02-mapped-hex": ("CONNECT [::ffff:7f00:1]:443", 403, ADDRESS_DENIED),
    "B02-mapped-dotted": ("CONNECT [::FFFF:10.0.0.1]:443", 403, ADDRESS_DENIED),
    "B07-v4": (f"CONNECT {ORIGIN}:443", 403, ADDRESS_DENIED | NAME_DENIED),
    "B07-v4-public": (f"CONNECT {PUBLIC}:443", 403, NAME_DENIED),
    "B07-v6": ("CONNECT [2001:db8::10]:443", 403, ADDRESS_DENIED | NAME_DENIED),
    "B07-zone": ("CONNECT [fe80::1%25eth0]:443", 400, NAME_INVALID),
    "B07-zone-as-suffix": ("CONNECT [::1%25.wild.test]:443", 400, NAME_INVALID),
    "B07-unbracketed": ("CONNECT ::1:443", 400, NAME_INVALID),
    "B07-get": (f"GET http://{ORIGIN}/", 403, ADDRESS_DENIED | NAME_DENIED),
}


def label_of(address):
    return "at-" + address.replace(".", "-").replace(":", "-").strip("-")


def name_of(address):
    return f"{label_of(address)}.wild.test"


@pytest.fixture(scope="module")
def listed(lab, who):
    """Names that are on the list, whose addresses are not for anyone; and one good and one public name beside them."""
    for address in SPECIAL + MAPPED + HOST_ADDRESSES_6:
        lab.dns.zone[name_of(address)] = [address]
    visits = [exchange(a, fetch(name_of(a), "/never")) for a in SPECIAL + MAPPED + HOST_ADDRESSES_6]
    visits += [exchange("good", fetch("allowed.test", "/good")), exchange("public", fetch("public.test", "/public"))]
    return Batch(lab, visits, user=who)


@pytest.fixture(scope="module")
def literals(lab, who):
    visits = [exchange(name, send(f"{line} HTTP/1.1\r\nHost: {line.split()[1].removeprefix('http://').rstrip('/')}\r\n\r\n"),
                       response(), END) for name, (line, _, _) in LITERALS.items()]
    visits += [exchange(f"B06-{n}", send(f"CONNECT {n}:443 HTTP/1.1\r\nHost: {n}:443\r\n\r\n"), response(), END)
               for n in NUMERIC]
    return Batch(lab, visits, user=who)


def assert_address_denied(batch, address):
    """The name is looked up, since it is listed; then nothing is dialled."""
    batch.assert_status(address, 403)
    batch.assert_ended(address)
    asked = [q for q in batch.questions if q.name == name_of(address)]
    assert asked, "U: the listed name was not looked up" + batch.explain(address)
    assert {c.local[0] for c in batch.connections} <= {ORIGIN, PUBLIC}, f"U: dialled {batch.connections}"
    batch.assert_canary_silent()
    event = batch.assert_denied_once(address, ADDRESS_DENIED)
    assert event["dst_endpoint"]["hostname"] == name_of(address), batch.explain(address)
    assert event["severity_id"] == 4
    return event


@pytest.mark.parametrize("address", SPECIAL)
def test_B01_listed_name_at_a_special_address(listed, address):
    event = assert_address_denied(listed, address)
    if address in METADATA:
        assert event["status_code"] == "deny.address-metadata"


@pytest.mark.parametrize("address", MAPPED)
def test_B02_listed_name_at_a_mapped_address(listed, address):
    assert_address_denied(listed, address)


@pytest.mark.parametrize("address", HOST_ADDRESSES_6)
def test_B01_listed_name_at_the_hosts_own_v6_address(listed, address):
    assert_address_denied(listed, address)


@pytest.mark.parametrize("case,host,address", [("good", "allowed.test", ORIGIN), ("public", "public.test", PUBLIC)])
def test_B01_twin_an_opened_and_a_public_address_are_dialled(listed, case, host, address):
    listed.assert_status(case, 200)
    assert [c.local for c in listed.connections if c.sni == host] == [(address, 443)], "U"
    event = listed.assert_allowed(case)[0]
    assert event["dst_endpoint"]["ip"] == address


@pytest.mark.parametrize("case", LITERALS)
def test_literal_targets(literals, case):
    _, status, codes = LITERALS[case]
    literals.assert_refused(case, status, codes)


@pytest.mark.parametrize("spelling", NUMERIC)
def test_B06_numeric_spellings(literals, spelling):
    literals.assert_refused(f"B06-{spelling}", {400, 403}, NAME_INVALID | ADDRESS_DENIED)


def test_B06_B07_twin_dotted_quad_with_a_rule_for_the_name_only(listed):
    """The same address, by its name, is served: see the good twin; here the count of what was dialled in all."""
    assert len([c for c in listed.connections if c.local[0] == ORIGIN]) == 1


def test_B04_rebinding(lab, who):
    """First answer good, every later one loopback: one question a connection attempt, and the canary hears nothing."""
    host = f"rebind-{who or 0}.wild.test"
    lab.dns.zone[host] = lambda before, kind: [ORIGIN] if before == 0 else ["127.0.0.1"]
    batch = Batch(lab, [exchange("first", fetch(host, "/first"))], user=who)
    batch.assert_status("first", 200)
    assert host in batch["first"].of("tls")[0].names
    asked = [q.kind for q in batch.questions if q.name == host]
    assert asked.count("A") == 1 and len(asked) <= 2, f"U: {asked}"
    assert [(c.local, c.sni) for c in batch.connections] == [((ORIGIN, 443), host)], "U"
    batch.assert_allowed("first")
    batch.assert_canary_silent()


def test_B04_twin_later_answers_are_judged_too(lab, who):
    """In one sandbox, two tunnels after one another: the second meets the second answer, or the pooled connection."""
    host = f"rebind-twice-{who or 0}.wild.test"
    lab.dns.zone[host] = lambda before, kind: [ORIGIN] if before == 0 else ["127.0.0.1"]
    batch = Batch(lab, [exchange("first", fetch(host, "/first")), exchange("second", fetch(host, "/second"))],
                  user=who, threads=1)
    batch.assert_status("first", 200)
    batch.assert_status("second", {200, 403})
    if batch["second"].status == 403:
        batch.assert_denied_once("second", ADDRESS_DENIED)
        assert len(batch.requests) == 1, "U"
    assert {c.local for c in batch.connections} == {(ORIGIN, 443)}, "U"
    batch.assert_canary_silent()


def test_B08_denied_names_are_not_looked_up(lab, who):
    """A thousand secrets as first labels, by each door that has a name: nobody is asked."""
    def visit(number):
        host = f"c2VjcmV0{number:03d}.exfil.denied.test"
        if number % 2:
            return exchange(str(number), send(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n"), response(), END)
        return exchange(str(number), send(f"GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"), response(), END)

    batch = Batch(lab, [visit(n) for n in range(1000)], user=who)
    for number in range(1000):
        batch.assert_status(str(number), 403)
    batch.assert_no_question()
    batch.assert_no_connection()
    denials = [e for e in batch.run.decisions() if e["action_id"] == 2]
    assert len(denials) == 1000 and {e["status_code"] for e in denials} <= NAME_DENIED, f"L: {len(denials)}"
    assert len({e["dst_endpoint"]["hostname"] for e in denials}) == 1000, "L"


def test_B08_a_denied_name_as_sni_is_not_looked_up(lab, who):
    """In a tunnel to an allowed host: only that host may be asked for."""
    batch = Batch(lab, [exchange("sni", tunnel("allowed.test", sni="c2VjcmV0.exfil.denied.test", verify=False), END)], user=who)
    assert batch["sni"].of("tls")[0].error, "C" + batch.explain("sni")
    assert not [q for q in batch.questions if "denied.test" in q.name], f"U: {batch.questions}"
    batch.assert_no_connection()
    batch.assert_denied_once("sni", {"deny.sni-mismatch"})


@pytest.fixture()
def host_files(lab, tmp_path):
    """Words that run the rest in a mount namespace whose /etc tells of a search list and of a line for allowed.test."""
    resolv = lab.write("resolv.conf", "nameserver 203.0.113.53\nsearch corp.test\noptions ndots:5\n")
    hosts = lab.write("hosts", f"127.0.0.1 localhost\n{ORIGIN} nxdomain.wild.test allowed.test\n10.0.0.5 allowed.test\n")
    aliases = lab.write("aliases", "nxdomain allowed.test\n")
    script = 'mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'
    return (["unshare", "--mount", "--", "sh", "-c", script, "sh", resolv, hosts],
            {"RES_OPTIONS": "ndots:9 attempts:5", "LOCALDOMAIN": "corp.test", "HOSTALIASES": aliases})


def test_B10_search_suffix_and_hosts_file_do_not_apply(lab, who, host_files):
    host = "nxdomain.wild.test"
    lab.dns.zone[host] = NXDOMAIN
    lab.dns.zone[f"{host}.corp.test"] = ["10.0.0.5"]
    before, env = host_files
    batch = Batch(lab, [exchange("nx", fetch(host)), exchange("twin", fetch("allowed.test", "/b10"))],
                  user=who, before=before, env=env)
    batch.assert_status("nx", 502)
    asked = [q for q in batch.questions if q.name != "allowed.test"]
    assert {q.name for q in asked} == {host}, f"U: {asked}"
    assert sorted(q.kind for q in asked) in (["A"], ["A", "AAAA"]), f"U: a single absolute question: {asked}"
    assert [r.target for r in batch.requests] == ["/b10"], "U"
    denials = [e for e in batch.events("nx") if e["status_code"] == "error.upstream"]
    assert len(denials) == 1, "L" + batch.explain("nx")
    batch.assert_status("twin", 200)
    batch.assert_allowed("twin")
    assert [q.name for q in batch.questions if q.name == "allowed.test"], "U: the hosts file answered"
    batch.assert_canary_silent()


def test_B10_the_systems_resolver_is_used_only_as_an_address(lab, who, host_files):
    """Without --resolver: the nameserver of /etc/resolv.conf, and still no suffix."""
    host = "nxdomain.wild.test"
    lab.dns.zone[host] = NXDOMAIN
    before, env = host_files
    audit = os.path.join(lab.folder, f"audit-b10-{who or 0}")
    os.makedirs(audit, exist_ok=True)
    if who:
        os.chown(audit, who, who)
    words = [w for w in eclusa.network_args(lab, audit) if w not in ("--resolver", "203.0.113.53:53")]
    marks = lab.dns.log.mark()
    script = ("import urllib.request\nfor h in ('nxdomain.wild.test', 'allowed.test'):\n"
              " try: print(urllib.request.urlopen(f'https://{h}/system').status)\n"
              " except Exception as e: print(e)\n")
    launch = eclusa.Launch(lab, ["run", "--json", *words, "--", "/usr/bin/python3", "-c", script], user=who,
                           audit_dir=audit, before=before, env=env)
    process = launch.popen()
    stdout, stderr = process.communicate(timeout=60)
    run = eclusa.Run(launch.words, who, process.returncode, stdout, stderr.decode(), audit)
    lab.runs.append(run)
    lines = run.output.splitlines()
    assert "502" in lines[0] and lines[1] == "200", run.report()
    assert {q.name for q in lab.dns.log.since(marks)} == {host, "allowed.test"}, "U"
    lab.canary.assert_silent()
