"""
Events over syslog: to rsyslog over TCP and mutual TLS, to syslog-ng over TLS, and to a strict receiver of our own that is stopped, slow,
stalled, resets, and refuses. Every event arrives at least once and, the first time, in order, whoever is killed.
"""
import glob
import json
import os
import random
import re
import signal
import ssl
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization

from lab.certificates import DAY, Certificates
from lab.events import wait_until
from lab.exporter import Export
from lab.syslog_receivers import Daemon, Rsyslog, Strict, SyslogNg, have, syslog_ng

PORT = 6514
PEM = serialization.Encoding.PEM


class Papers:
    """Certificates of the receiver, and of a client that it knows, as files."""

    def __init__(self, folder):
        self.folder = folder
        self.made = Certificates(folder)
        self.ca = self.made.ca_file
        self.key = self.write("key.pem", self.made.key.private_bytes(
            PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()), 0o600)
        self.server = self.leaf("siem.test")
        self.client = self.write("client.pem", self.client_certificate("egress.test"))

    def write(self, name, data, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        os.chmod(path, mode)
        return path

    def leaf(self, name):
        return self.write(f"{name}.pem", self.made._leaf(name).public_bytes(PEM))

    def client_certificate(self, name, authority=None):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
        import datetime
        authority = authority or self.made.good
        now = datetime.datetime.utcnow()
        return (x509.CertificateBuilder().subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
                .issuer_name(authority.subject).public_key(self.made.key.public_key()).serial_number(x509.random_serial_number())
                .not_valid_before(now - DAY).not_valid_after(now + DAY)
                .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
                .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
                .sign(authority.key, hashes.SHA256())).public_bytes(PEM)

    def settings(self, name="siem.test"):
        return [f"ca {self.ca}", f"cert {self.client}", f"key {self.key}", f"name {name}"]

    def context(self, version=ssl.TLSVersion.TLSv1_3, ask=True):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = version
        context.load_cert_chain(self.server, self.key)
        if ask:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca)
        return context


@pytest.fixture(name="papers", scope="module")
def make_papers(tmp_path_factory):
    return Papers(str(tmp_path_factory.mktemp("papers")))


@pytest.fixture(name="export")
def make_export(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    made = Export(str(tmp_path))
    yield made
    print(made.said())
    made.close()


def sink(*settings, port=PORT):
    return ["sink s syslog", f"server 127.0.0.1:{port}", "confirm 300ms", "batch-bytes 16k", "timeout 5s", *settings]


def tcp(*settings):
    return sink("transport tcp", *settings)


@pytest.fixture(name="strict", params=["tcp", "tls"])
def make_strict(request, export, papers):
    """A receiver and an exporter that is configured for it."""
    made = Strict(export.namespace, PORT, papers.context() if request.param == "tls" else None)
    export.configure(tcp() if request.param == "tcp" else sink(*papers.settings()))
    yield made
    made.gate.set()
    made.stop()


# ---- real receivers


@pytest.fixture(name="daemon", params=["rsyslog-tcp", "rsyslog-tls", "syslog-ng-tls"])
def make_daemon(request, export, papers, tmp_path, tmp_path_factory):
    folder = str(tmp_path / "receiver")
    os.makedirs(folder)
    if request.param == "syslog-ng-tls":
        cache = os.environ.get("ECLUSA_SYSLOG_NG") or str(tmp_path_factory.getbasetemp() / "syslog-ng")
        os.makedirs(cache, exist_ok=True)
        root, why = syslog_ng(cache)
        if root is None:
            pytest.skip(why)
        made = SyslogNg(export.namespace, folder, PORT, root, (papers.ca, papers.server, papers.key))
    else:
        if not have("rsyslogd"):
            pytest.skip("rsyslogd is not installed")
        tls = (papers.ca, papers.server, papers.key, "egress.test") if request.param == "rsyslog-tls" else None
        made = Rsyslog(export.namespace, folder, PORT, tls)
    export.configure(tcp() if request.param == "rsyslog-tcp" else sink(*papers.settings()))
    yield made
    made.stop(signal.SIGKILL)


def test_a_real_receiver_gets_every_event_once(export, daemon):
    daemon.start()
    export.log.add(200)
    export.log.close()
    export.log.add(100)
    done = export.once()
    assert done.returncode == 0, done.stderr
    export.all_arrive(daemon.uids)
    assert len(daemon.uids()) == 300
    first = daemon.messages()[0]
    assert first["msgid"] == "deny.path" and first["host"] == "gw01" and first["app"] == "eclusa"
    assert 'sandbox="sb-made000001"' in str(first["sd"]) or first.get("uid") == export.log.uids[0]
    assert json.loads(first["msg"])["http_request"]["url"]["path"] == "/\u00e9\"\\"


RECIPES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "siem.md")


class Recipe(Daemon):
    """rsyslogd with what the documentation tells to paste, names of files aside; it writes the events themselves."""

    def __init__(self, namespace, folder, text):
        super().__init__(namespace, folder, PORT)
        self.config = os.path.join(folder, "rsyslog.conf")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self):
        self.launch("rsyslogd", "-n", "-f", self.config, "-i", os.path.join(self.folder, "rsyslog.pid"))

    def uids(self):
        return [event["metadata"]["uid"] for event in self.messages()]


def placed(text, places):
    for place, path in places.items():
        assert place in text, place
        text = text.replace(place, path)
    return text


def test_what_the_documentation_says_to_paste_works(export, papers, tmp_path):
    """Both halves of the recipe for rsyslog, from the page: events arrive as they are in the log; a client of another CA sends nothing."""
    if not have("rsyslogd"):
        pytest.skip("rsyslogd is not installed")
    with open(RECIPES, encoding="utf-8") as file:
        page = file.read().split("### rsyslog")[1].split("### ")[0]
    receiver, exporter = re.findall(r"```\n(.*?)```", page, re.S)
    made = Recipe(export.namespace, str(tmp_path), placed(receiver, {
        "/etc/rsyslog/ca.pem": papers.ca, "/etc/rsyslog/server.pem": papers.leaf("logs.example.com"), "/etc/rsyslog/server.key": papers.key,
        "/var/log/eclusa/all.jsonl": str(tmp_path / "out.log")}))
    made.start()
    try:
        for authority, arrives in ((papers.made.unknown, False), (None, True)):
            places = {"/etc/eclusa/siem-ca.pem": papers.ca, "/etc/eclusa/export.key": papers.key, "logs.example.com:6514": f"127.0.0.1:{PORT}",
                      "/etc/eclusa/export.pem": papers.write("export.pem", papers.client_certificate("egress.example.com", authority))}
            lines = [line.strip() for line in placed(exporter, places).splitlines()]
            export.configure([*lines[lines.index("sink siem syslog"):], "name logs.example.com", "confirm 300ms"])
            if not arrives:
                export.log.add(20)
                export.start()
                wait_until(lambda: export.metrics("siem").get("retries", 0) >= 2, lambda: ("it is turned away", export.metrics("siem"), export.said()))
                assert export.end() == 0 and made.uids() == []
                continue
            done = export.once()
            assert done.returncode == 0, done.stderr
            export.all_arrive(made.uids)
        with open(next(iter(glob.glob(os.path.join(export.log.folder, "2*.jsonl")))), encoding="utf-8") as file:
            assert {e["metadata"]["uid"]: e for e in made.messages()} == {e["metadata"]["uid"]: e for e in map(json.loads, file)}
    finally:
        made.stop(signal.SIGKILL)


def test_a_real_receiver_that_comes_late_stops_and_comes_again_misses_nothing(export, daemon):
    export.log.add(50)
    export.start()
    export.wait_metrics(lambda m: m.get("retries", 0) >= 2, "it tries again")
    daemon.start()
    export.all_arrive(daemon.uids)
    for _ in range(3):
        export.log.add(400)
        daemon.stop()
        export.log.add(100)
        daemon.start()
        export.all_arrive(daemon.uids)
    assert export.end() == 0 and export.quarantine() == []


def test_a_real_receiver_that_stalls_gets_everything_once_it_goes_on(export, daemon):
    daemon.start()
    export.start()
    export.log.add(20)
    export.all_arrive(daemon.uids)
    daemon.pause()
    export.log.add(3000)
    export.wait_metrics(lambda m: m.get("lag_events", 0) > 0, "events wait")
    daemon.go_on()
    export.all_arrive(daemon.uids)
    export.wait_metrics(lambda m: m["state"] == "idle" and m["lag_bytes"] == 0, "nothing waits")


def test_a_real_receiver_gets_everything_from_an_exporter_that_is_killed_again_and_again(export, daemon):
    daemon.start()
    choose = random.Random(7)
    for _ in range(12):
        export.log.add(choose.randrange(1, 300))
        if choose.random() < 0.5:
            export.log.close()
        export.start()
        wanted = choose.randrange(len(export.log.uids))
        wait_until(lambda: len(set(daemon.uids())) >= wanted, lambda: (wanted, export.said()))
        export.kill()
    export.start()
    export.all_arrive(daemon.uids)


def test_a_real_receiver_refuses_a_client_that_it_does_not_know(export, daemon, papers):
    if "client" not in open(export.config, encoding="utf-8").read():
        pytest.skip("without TLS there are no clients to know")
    stranger = papers.write("stranger.pem", papers.client_certificate("stranger.test", papers.made.unknown))
    daemon.start()
    export.log.add(5)
    settings = [s if not s.startswith("cert ") else f"cert {stranger}" for s in papers.settings()]
    export.configure(sink(*settings))
    export.start()
    export.wait_metrics(lambda m: m.get("retries", 0) >= 2, "it is refused")
    assert daemon.uids() == [] and export.metrics()["delivered"] == 0
    export.end()
    export.configure(sink(*papers.settings()))
    export.start()
    export.all_arrive(daemon.uids)


# ---- our own receiver


def test_messages_are_as_rfc_5424_says(export, strict):
    export.log.add(3, firewall_rule={"uid": 'a"b]c\\'})
    assert export.once().returncode == 0
    export.all_arrive(strict.uids)
    message = strict.messages.since()[0]
    assert message.pri == str(16 * 8 + 4) and message.proc == "-"
    assert re.fullmatch(r'\[eclusa@32473 sandbox="sb-made000001" rule="a\\\\\\"b\\]c\\\\\\\\" action="Denied" uid="%s"\]'
                        % export.log.uids[0], message.sd), message.sd
    assert strict.problems == []


@pytest.mark.parametrize("name,start", [("cef", "CEF:0|"), ("leef", "LEEF:2.0|"), ("ecs", "{"), ("ocsf-bare", "{")])
def test_other_formats(export, strict, name, start):
    export.log.add(10)
    with open(export.config, "a", encoding="utf-8") as file:
        file.write(f"format {name}\n")
    assert export.once().returncode == 0
    messages = strict.messages.since()
    assert len(messages) == 10 and all(m.msg.startswith(start) for m in messages)
    assert all(f'uid="{uid}"' in m.sd for uid, m in zip(export.log.uids, messages))


def test_what_a_reset_connection_had_not_read_is_sent_again(export, strict):
    strict.resets = [1, 20000, 50000, 100000, 200000]
    export.log.add(1000)
    export.start()
    export.all_arrive(strict.uids)
    assert strict.resets == []
    export.wait_metrics(lambda m: m["state"] == "idle", "everything is confirmed")
    assert export.metrics()["resent"] > 0


def test_what_waits_unread_when_a_receiver_dies_is_sent_again(export, strict):
    """Its kernel has acknowledged it, and nobody will ever read it."""
    strict.gate.clear()
    export.start()
    export.log.add(30)
    wait_until(lambda: strict.connections > 0, "a connection")
    export.wait_metrics(lambda m: m.get("batches", 0) > 0, "it is sent")
    assert export.metrics()["delivered"] == 0
    strict.stop()
    strict.gate.set()
    strict.start()
    export.all_arrive(strict.uids)


def test_a_slow_receiver_holds_the_exporter_back_within_its_memory(export, strict):
    strict.gate.clear()
    export.log.add(20000)
    export.start()
    export.wait_metrics(lambda m: m.get("lag_bytes", 0) > 8 << 20, "most of it waits in the log")
    children = subprocess.run(["pgrep", "-P", str(export.process.pid)], capture_output=True, text=True, check=False).stdout.split()
    assert len(children) == 1
    with open(f"/proc/{children[0]}/status", encoding="utf-8") as file:
        resident = int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1))
    assert resident < 64 << 10, resident
    strict.gate.set()
    strict.delay = 0.001
    export.all_arrive(strict.uids, deadline=120)


def test_an_exporter_that_is_killed_at_any_moment_loses_nothing(export, strict):
    choose = random.Random(11)
    for _ in range(25):
        export.log.add(choose.randrange(1, 200))
        if choose.random() < 0.3:
            export.log.close()
        export.start()
        wanted = choose.randrange(len(export.log.uids) + 1)
        wait_until(lambda: len(set(strict.uids())) >= wanted, lambda: (wanted, export.said()))
        export.kill()
    export.start()
    export.all_arrive(strict.uids)
    assert [p for p in strict.problems if "violation" in p and "an end within" not in p] == []


def test_what_is_delivered_is_not_sent_again_after_an_orderly_end(export, strict):
    export.log.add(100)
    export.start()
    export.all_arrive(strict.uids)
    export.wait_metrics(lambda m: m["state"] == "idle", "everything is confirmed")
    assert export.end() == 0
    export.log.add(50)
    assert export.once().returncode == 0
    assert strict.uids() == export.log.uids


def test_events_are_sent_while_they_are_written(export, strict):
    export.start()
    for count in range(1, 8):
        export.log.add(1)
        wait_until(lambda: len(strict.uids()) >= count, lambda: export.said())
    with open(export.log.segment.path, "ab") as file:
        file.write(b'{"half')
    export.log.index.append({"kind": "noise", "sequence": export.log.index.sequence + 1})
    with open(export.log.segment.path, "ab") as file:
        file.write(b'":true}\n')
    wait_until(lambda: len(strict.messages.since()) >= 8, lambda: export.said())
    assert strict.messages.since()[7].msg == '{"half":true}'


def test_poison_goes_to_quarantine_and_what_is_behind_it_goes_on(export, strict):
    export.log.add(2)
    with open(export.log.segment.path, "ab") as file:
        file.write(b"no json\n" + b"x" * 200000 + b"\n")
    export.log.add(1, note="n" * 20000)
    export.log.add(2)
    too_long = export.log.uids[2]
    assert export.once().returncode == 0
    assert strict.uids() == [u for u in export.log.uids if u != too_long]
    kept = export.quarantine()
    assert [k["why"] for k in kept] == ["no JSON object", "the line is longer than 64 KiB",
                                        "the message is longer than message-bytes, 16384"]
    assert kept[0]["line"] == "no json" and json.loads(kept[2]["line"])["metadata"]["uid"] == too_long
    assert export.metrics()["quarantined"] == 3
    assert export.once().returncode == 0 and len(export.quarantine()) == 3


# ---- TLS


def refused(export, *said):
    """Said in one of these ways: a reset may overtake the alert that says why."""
    export.log.add(3)
    export.start()
    export.wait_metrics(lambda m: m.get("retries", 0) >= 2, "it is refused")
    assert any(way in export.metrics()["failure"] for way in said), export.metrics()
    assert export.metrics()["delivered"] == 0
    export.end()


@pytest.mark.parametrize("name,said", [("other.test", "hostname mismatch"), ("127.0.0.1", "IP address mismatch")])
def test_a_receiver_of_another_name_gets_nothing(export, papers, name, said):
    strict = Strict(export.namespace, PORT, papers.context())
    export.configure(sink(*papers.settings(name)))
    refused(export, said)
    assert strict.messages.since() == []
    strict.stop()


def test_a_receiver_of_another_ca_gets_nothing(export, papers):
    strict = Strict(export.namespace, PORT, papers.context())
    other = papers.write("other-ca.pem", papers.made.unknown.pem())
    export.configure(sink(f"ca {other}", *papers.settings()[1:]))
    refused(export, "certificate")
    assert strict.messages.since() == []
    strict.stop()


def test_a_receiver_that_speaks_tls_1_2_gets_nothing(export, papers):
    strict = Strict(export.namespace, PORT, papers.context(ssl.TLSVersion.TLSv1_2))
    export.configure(sink(*papers.settings()))
    refused(export, "protocol version")
    assert strict.messages.since() == []
    strict.stop()


def test_a_receiver_that_wants_a_certificate_and_gets_none_has_nothing_delivered(export, papers):
    strict = Strict(export.namespace, PORT, papers.context())
    export.configure(sink(f"ca {papers.ca}", "name siem.test"))
    refused(export, "certificate required", "reset by peer")
    strict.stop()


# ---- UDP


def test_udp_only_when_loss_is_asked_for(export):
    import socket
    export.configure(sink("transport udp"))
    done = export.once()
    assert done.returncode == 2 and "export.conf:" in done.stderr and "lossy yes" in done.stderr

    def bind():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind(("127.0.0.1", PORT))
        made.settimeout(10)
        return made
    receiver = export.namespace.inside(bind)
    export.configure(sink("transport udp", "lossy yes"))
    export.log.add(3)
    assert export.once().returncode == 0
    assert [json.loads(receiver.recv(65536).decode().split("] ", 1)[1])["metadata"]["uid"] for _ in range(3)] == export.log.uids
    receiver.close()
