"""
Events over HTTP: each kind of sink against a receiver as strict as the real one, which is stopped, slow, restarted, full of faults, or
refuses. Every event arrives at least once and, the first time, in order; what comes again has the same id; what the
receiver will never take is in the quarantine file, and nothing else is.
"""
import contextlib
import json
import os
import signal
import ssl
import subprocess
import tempfile

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from lab.census import become_reaper, descendants, reap
from lab.certificates import DAY, Certificates
from lab.eclusa import program
from lab.events import wait_until
from lab.made_log import MadeLog
from lab.namespaces import Namespace
from lab.receivers import Bulk, Collector, Fault, Otlp, Receiver

TOKEN = "11111111-2222-3333-4444-555555555555"
KINDS = ("ndjson", "splunk-hec", "elastic-bulk", "otlp")
PORT = 8088


class Ground:
    """A namespace with loopback alone, an audit folder, a receiver, and an exporter between them."""

    def __init__(self, folder):
        self.folder = folder
        self.namespace = Namespace()
        self.log = MadeLog(os.path.join(folder, "audit"))
        self.state = os.path.join(folder, "state")
        self.errors = open(os.path.join(folder, "errors"), "w+", encoding="utf-8")
        self.process = None
        self.receivers = []
        self.environment = dict(os.environ)

    def close(self):
        self.kill()
        for receiver in self.receivers:
            receiver.stop()
        self.namespace.close()
        self.errors.close()

    def receiver(self, kind, **more):
        make = {"ndjson": Receiver, "splunk-hec": Collector, "elastic-bulk": Bulk, "otlp": Otlp}[kind]
        if kind == "splunk-hec":
            more.setdefault("token", TOKEN)
        made = make(self.namespace, PORT + len(self.receivers), **more)
        self.receivers.append(made)
        return made

    def secret(self, text):
        fd, path = tempfile.mkstemp(dir=self.folder)
        with os.fdopen(fd, "w") as file:
            file.write(text + "\n")
        return path

    def start(self, kind, *settings, url=None, token=TOKEN):
        config = os.path.join(self.folder, "export.conf")
        lines = ["export 1", f"audit-dir {self.log.folder}", f"state-dir {self.state}", "user nobody", f"sink s {kind}",
                 f"url {url or f'http://127.0.0.1:{PORT}'}", "retry-least 20ms", "retry-most 200ms", *settings]
        if kind == "splunk-hec":
            lines += [f"token {self.secret(token)}", "acknowledge-poll 20ms"]
        for name, value in (("timeout", "10s"), ("batch-lines", 7)):
            if not any(line.startswith(name) for line in lines):
                lines.append(f"{name} {value}")
        with open(config, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        self.process = subprocess.Popen(
            self.namespace.command(os.path.join(os.path.dirname(program()), "eclusa-export"), "--config", config),
            stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors, env=self.environment)

    def kill(self):
        """All of its processes at once."""
        if self.process:
            self.process.send_signal(signal.SIGSTOP)  # so that it starts no other sink
            pids = [self.process.pid, *descendants(self.process.pid)]
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
            wait_until(lambda: reap() or not set(pids) & set(descendants()), "its processes are gone")
            self.process = None

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def quarantine(self):
        path = os.path.join(self.state, "s.quarantine.jsonl")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def all_arrive(self, receiver, but=()):
        """Once at least; for the first time in the order of the log."""
        wanted = [uid for uid in self.log.uids if uid not in but]
        wait_until(lambda: set(wanted) <= set(receiver.accepted.since()) or self.process.poll() is not None,
                   lambda: (self.said(), receiver.violations))
        assert list(dict.fromkeys(receiver.accepted.since())) == wanted
        assert receiver.violations == []

    def nothing_is_quarantined(self):
        assert self.quarantine() == []


@pytest.fixture(name="ground")
def make_ground(tmp_path):
    become_reaper()
    made = Ground(str(tmp_path))
    yield made
    print(made.said())
    made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_events_arrive_once_and_in_order(ground, kind):
    receiver = ground.receiver(kind).start()
    ground.log.add(25)
    ground.log.close()
    ground.start(kind)
    ground.all_arrive(receiver)
    ground.log.add(25)
    ground.all_arrive(receiver)
    assert len(receiver.accepted.since()) == 50
    ground.nothing_is_quarantined()


@pytest.mark.parametrize("kind", KINDS)
def test_faults_on_the_way_lose_nothing(ground, kind):
    receiver = ground.receiver(kind).start()
    receiver.faults = [
        Fault(), Fault(status=503, fields=[("Retry-After", "1")], body=b"busy"), Fault("reset"), Fault("taken-half"),
        Fault(status=429), Fault("taken-reset"), Fault("half-close"), Fault(status=502), Fault(), Fault(status=504)]
    ground.log.add(40)
    ground.start(kind, "timeout 2s")
    ground.all_arrive(receiver)
    assert receiver.faults == []
    ground.nothing_is_quarantined()


@pytest.mark.parametrize("kind", KINDS)
def test_a_receiver_that_is_stopped_and_comes_back_gets_all(ground, kind):
    receiver = ground.receiver(kind)
    ground.log.add(10)
    ground.start(kind)
    wait_until(lambda: "sink-failed" in ground.said(), ground.said)
    receiver.start()
    ground.all_arrive(receiver)
    receiver.stop()
    ground.log.add(10)
    receiver.start()
    ground.all_arrive(receiver)
    ground.nothing_is_quarantined()


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_receiver_is_asked_again_with_the_same_ids(ground, kind):
    receiver = ground.receiver(kind).start()
    slow = Fault("hold")
    receiver.faults = [slow]
    ground.log.add(10)
    ground.start(kind, "timeout 1s")
    ground.all_arrive(receiver)
    slow.release()
    again = receiver.accepted.since()
    assert len(again) > 10 and set(again) == set(ground.log.uids)
    ground.nothing_is_quarantined()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [401, 403, 404, 405, 407])
def test_who_refuses_the_sender_gets_all_later_and_nothing_is_given_up(ground, kind, status):
    receiver = ground.receiver(kind).start()
    receiver.standing = Fault(status=status, body=b"not you")
    ground.log.add(20)
    ground.start(kind)
    receiver.requests.wait(lambda items: len(items) >= 6, "it is tried again")
    assert receiver.accepted.since() == []
    ground.nothing_is_quarantined()
    assert f"HTTP {status}: not you" in ground.said()
    receiver.standing = None
    ground.all_arrive(receiver)
    ground.nothing_is_quarantined()


@pytest.mark.parametrize("kind", KINDS)
def test_redirects_are_not_followed(ground, kind):
    receiver, elsewhere = ground.receiver(kind).start(), ground.receiver("ndjson").start()
    receiver.faults = [Fault(status=s, fields=[("Location", f"http://127.0.0.1:{elsewhere.port}/")]) for s in (301, 302, 307, 308)]
    ground.log.add(5)
    ground.start(kind)
    ground.all_arrive(receiver)
    assert elsewhere.requests.since() == []
    ground.nothing_is_quarantined()


@pytest.mark.parametrize("kind", KINDS)
def test_poison_alone_is_quarantined(ground, kind):
    receiver = ground.receiver(kind).start()
    ground.log.add(40)
    receiver.poison = {ground.log.uids[n] for n in (0, 3, 17, 18, 39)}
    ground.start(kind, "batch-lines 40")
    ground.all_arrive(receiver, but=receiver.poison)
    wait_until(lambda: len(ground.quarantine()) == 5, lambda: (ground.quarantine(), ground.said()))
    assert {uid for uid in ground.log.uids if uid in json.dumps(ground.quarantine())} == receiver.poison


@pytest.mark.parametrize("kind", KINDS)
def test_an_exporter_that_is_killed_goes_on_where_it_was(ground, kind):
    receiver = ground.receiver(kind).start()
    ground.log.add(30)
    for _ in range(4):
        held = Fault("hold")
        receiver.faults = [Fault(), held]
        mark = receiver.requests.mark()
        ground.start(kind)
        receiver.requests.wait(lambda items: len([r for r in items[mark:] if "ack" not in r.path]) >= 2, "two requests")
        ground.kill()
        held.release()
        ground.log.add(10)
    receiver.faults = []
    ground.start(kind)
    ground.all_arrive(receiver)
    ground.nothing_is_quarantined()


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_are_compressed_when_told_and_the_environments_proxy_is_not_used(ground, kind):
    receiver, proxy = ground.receiver(kind).start(), ground.receiver("ndjson").start()
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        ground.environment[name] = f"http://127.0.0.1:{proxy.port}"
    ground.log.add(10)
    ground.start(kind, "gzip yes")
    ground.all_arrive(receiver)
    assert proxy.requests.since() == []
    assert all(r.fields["content-encoding"] == "gzip" for r in receiver.requests.since())


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_without_end_is_not_read_to_its_end(ground, kind):
    receiver = ground.receiver(kind).start()
    receiver.faults = [Fault(status=200, body=b"x" * (5 << 20)), Fault(status=503, body=b"y" * (5 << 20))]
    ground.log.add(5)
    ground.start(kind)
    ground.all_arrive(receiver)
    assert "the answer is longer than anything that is read" in ground.said()
    ground.nothing_is_quarantined()


@pytest.mark.parametrize("kind", ("splunk-hec", "elastic-bulk", "otlp"))
def test_a_success_of_somebody_else_is_none(ground, kind):
    receiver = ground.receiver(kind).start()
    receiver.faults = [Fault(status=200, body=b"<html>sign in</html>")] * 3
    ground.log.add(5)
    ground.start(kind)
    ground.all_arrive(receiver)
    ground.nothing_is_quarantined()


def test_names_are_looked_up_by_a_process_that_is_confined(ground):
    receiver = ground.receiver("ndjson").start()
    ground.log.add(5)
    ground.start("ndjson", url=f"http://localhost:{PORT}/")
    ground.all_arrive(receiver)


# -- TLS --------------------------------------------------------------------------------------------------------
class Tls:
    def __init__(self, folder):
        self.certificates = Certificates(folder)
        self.files = {}
        key = self.certificates.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                                  serialization.NoEncryption())
        leaf = self.certificates.good.issue(self.certificates.key, "exporter", ["exporter.test"], -DAY, DAY,
                                            usage=ExtendedKeyUsageOID.CLIENT_AUTH)
        self.files["certificate"] = self._write(folder, "client.pem", leaf.public_bytes(serialization.Encoding.PEM))
        self.files["key"] = self._write(folder, "client.key", key)
        self.folder = folder

    @staticmethod
    def _write(folder, name, text):
        path = os.path.join(folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(text)
        return path

    def context(self, authority, names, client=False, start=-DAY, end=DAY):
        leaf = authority.issue(self.certificates.key, "receiver", names, start, end)
        path = self._write(self.folder, f"server-{os.urandom(4).hex()}.pem", leaf.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path, self.files["key"])
        if client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.certificates.ca_file)
        return context


@pytest.mark.parametrize("kind", KINDS)
def test_events_travel_over_tls_that_is_checked(ground, kind):
    tls = Tls(ground.folder)
    good = tls.context(tls.certificates.good, ["127.0.0.1"])
    bad = {"unknown": tls.context(tls.certificates.unknown, ["127.0.0.1"]),
           "other name": tls.context(tls.certificates.good, ["other.test"]),
           "expired": tls.context(tls.certificates.good, ["127.0.0.1"], start=-2 * DAY, end=-DAY)}
    receiver = ground.receiver(kind)
    ground.log.add(5)
    for name, context in bad.items():
        receiver.context = context
        receiver.start()
        ground.start(kind, f"ca {tls.certificates.ca_file}", url=f"https://127.0.0.1:{PORT}")
        wait_until(lambda: "sink-failed" in ground.said(), ground.said)
        ground.kill()
        receiver.stop()
        assert receiver.requests.since() == [], name
        ground.errors.truncate(0)
    receiver.context = good
    receiver.start()
    ground.start(kind, f"ca {tls.certificates.ca_file}", url=f"https://127.0.0.1:{PORT}")
    ground.all_arrive(receiver)


def test_the_exporter_shows_its_certificate(ground):
    tls = Tls(ground.folder)
    receiver = ground.receiver("ndjson", context=tls.context(tls.certificates.good, ["127.0.0.1"], client=True)).start()
    ground.log.add(5)
    words = [f"ca {tls.certificates.ca_file}"]
    ground.start("ndjson", *words, url=f"https://127.0.0.1:{PORT}")
    wait_until(lambda: "sink-failed" in ground.said(), ground.said)
    ground.kill()
    assert receiver.requests.since() == []
    words += [f"cert {tls.files['certificate']}", f"key {tls.files['key']}"]
    ground.start("ndjson", *words, url=f"https://127.0.0.1:{PORT}")
    ground.all_arrive(receiver)


# -- one kind ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ("ndjson", "elastic-bulk", "otlp"))
def test_credentials_are_those_of_the_file(ground, kind):
    receiver = ground.receiver(kind, authorization="ApiKey secret-of-the-file").start()
    ground.log.add(5)
    ground.start(kind, f"authorization {ground.secret('ApiKey wrong')}")
    receiver.requests.wait(lambda items: len(items) >= 3, "it is tried")
    ground.kill()
    ground.nothing_is_quarantined()
    ground.start(kind, f"authorization {ground.secret('ApiKey secret-of-the-file')}")
    ground.all_arrive(receiver)
    assert "secret-of-the-file" not in ground.said()


@pytest.mark.parametrize("status", (400, 401, 503))
@pytest.mark.parametrize("kind", KINDS)
def test_a_credential_that_a_receiver_says_back_is_not_told(ground, kind, status):
    secret = "said-back-by-the-receiver"
    credentials = {"token": secret} if kind == "splunk-hec" else {"authorization": f"ApiKey {secret}"}
    receiver = ground.receiver(kind, **credentials).start()
    said = json.dumps({"text": f"no: {secret} ({secret})", "code": 4, "error": {"type": "no", "reason": secret}})
    receiver.standing = Fault(status=status, body=said.encode())
    ground.log.add(3)
    settings = [] if kind == "splunk-hec" else [f"authorization {ground.secret(credentials['authorization'])}"]
    ground.start(kind, *settings, "batch-lines 1", token=secret)
    receiver.requests.wait(lambda items: len(items) >= 3, "it is tried")
    receiver.standing = None
    wait_until(lambda: len(receiver.accepted.since()) + len(ground.quarantine()) >= 3, lambda: ground.said())
    wait_until(lambda: os.path.exists(os.path.join(ground.state, "metrics.json")), lambda: ground.said())
    with open(os.path.join(ground.state, "metrics.json"), encoding="utf-8") as file:
        told = ground.said() + json.dumps(ground.quarantine()) + file.read()
    assert secret not in told and "*" * len(secret) in told


def test_a_collector_with_another_token_gets_all_later(ground):
    receiver = ground.receiver("splunk-hec").start()
    ground.log.add(5)
    ground.start("splunk-hec", token="wrong")
    receiver.requests.wait(lambda items: len(items) >= 3, "it is tried")
    ground.kill()
    assert "Invalid token" in ground.said()
    ground.nothing_is_quarantined()
    ground.start("splunk-hec")
    ground.all_arrive(receiver)


def test_acknowledgements_that_come_late_are_waited_for(ground):
    receiver = ground.receiver("splunk-hec", acks="held").start()
    ground.log.add(20)
    ground.start("splunk-hec")
    receiver.polls.wait(lambda items: len(items) >= 5, "it asks again")
    assert len(receiver.accepted.since()) == 20
    ground.kill()  # not acknowledged: not delivered
    ground.start("splunk-hec")
    receiver.accepted.wait(lambda items: len(items) == 40, "all of it again")
    receiver.release()
    receiver.polls.wait(lambda items: items and all(items[-1].values()), "all of it acknowledged")
    ground.log.add(1)
    ground.all_arrive(receiver)
    assert len(receiver.accepted.since()) == 41


def test_acknowledgements_that_never_come_mean_again(ground):
    receiver = ground.receiver("splunk-hec", acks="never").start()
    ground.log.add(20)
    ground.start("splunk-hec", "acknowledge-within 1s")
    receiver.accepted.wait(lambda items: len(items) >= 40, "all of it again")
    channels = {r.fields["x-splunk-request-channel"] for r in receiver.requests.since()}
    assert len(channels) == 2
    receiver.release()
    ground.all_arrive(receiver)
    ground.nothing_is_quarantined()


def test_a_collector_that_forgot_what_it_parsed_gets_it_again(ground):
    receiver = ground.receiver("splunk-hec", acks="held").start()
    ground.log.add(20)
    ground.start("splunk-hec", "acknowledge-within 1s")
    receiver.polls.wait(lambda items: items, "it asks")
    receiver.restart()
    receiver.release()
    receiver.indexed.wait(lambda items: set(items) == set(ground.log.uids), "all of it is indexed")
    ground.nothing_is_quarantined()


def test_a_collector_without_acknowledgements_is_believed_when_told_so(ground):
    receiver = ground.receiver("splunk-hec", acks=None).start()
    ground.log.add(5)
    ground.start("splunk-hec")
    receiver.requests.wait(lambda items: len(items) >= 3, "it is tried")
    ground.kill()
    assert "acknowledgements enabled" in ground.said()
    ground.start("splunk-hec", "acknowledge no")
    ground.all_arrive(receiver)
    assert receiver.polls.since() == []


def test_bulk_items_are_tried_again_alone(ground):
    receiver = ground.receiver("elastic-bulk").start()
    ground.log.add(14)
    receiver.item_faults = {ground.log.uids[2]: [429, 503], ground.log.uids[3]: [409], ground.log.uids[9]: [403, 404]}
    ground.start("elastic-bulk")
    wanted = set(ground.log.uids) - {ground.log.uids[3]}
    receiver.accepted.wait(lambda items: set(items) == wanted, "all of them")
    assert len(receiver.accepted.since()) == len(wanted)
    assert receiver.violations == []
    ground.nothing_is_quarantined()


def test_records_that_otlp_rejects_are_kept_and_not_sent_again(ground):
    receiver = ground.receiver("otlp").start()
    receiver.reject = [0, 2]
    ground.log.add(21)
    ground.start("otlp")
    wait_until(lambda: len(ground.quarantine()) == 7, ground.said)
    ground.all_arrive(receiver, but=ground.log.uids[7:9])
    assert len(receiver.accepted.since()) == 19
    assert "2 of 7 rejected: too old" in json.dumps(ground.quarantine())


def test_what_otlp_forbids_to_send_again_is_not(ground):
    receiver = ground.receiver("otlp").start()
    receiver.faults = [Fault(status=500)] * 14
    ground.log.add(14)
    ground.start("otlp")
    ground.all_arrive(receiver, but=ground.log.uids[:7])
    wait_until(lambda: len(ground.quarantine()) == 7, ground.said)
    bodies = [r.raw for r in receiver.requests.since()]
    assert len(bodies) == len(set(bodies))
