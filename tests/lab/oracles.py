"""
The three oracles of a case: what the client saw (C), what left the proxy (U), what the audit says (L). A `Batch` is
one sandbox start with many raw exchanges; L is found by the source port of the exchange's connection.
"""
import json

from lab.eclusa import run_eclusa
from lab.exchanges import CLIENT, Seen

# The classes of the cases, in the product's own codes.
NAME_INVALID = {"deny.name-invalid"}
NAME_DENIED = {"deny.default", "deny.rule", "deny.name"}
PORT_DENIED = {"deny.port"}
ADDRESS_DENIED = {"deny.address-private", "deny.address-metadata", "deny.address-mismatch"}
FRAMING = {"deny.smuggling"}
TLS_IDENTITY = {"deny.sni-mismatch", "deny.no-sni", "deny.host-mismatch"}
TLS_UPSTREAM = {"deny.upstream-cert"}
NOT_TLS = {"deny.not-tls"}


class Batch:
    def __init__(self, lab, exchanges, user=None, policy=True, threads=8, args=(), **launch):
        self.lab = lab
        connections, questions = lab.origin.connections.mark(), lab.dns.log.mark()
        spec = lab.write(f"exchanges-{len(lab.runs)}.json", json.dumps(exchanges))
        self.run = run_eclusa(
            lab, ["--in", f"{CLIENT}:raw_client.py", "--in", f"{spec}:exchanges.json", "--timeout", "90s",
                  "--output-limit", "32M", *args],
            ["/usr/bin/python3", "raw_client.py", "exchanges.json", str(threads)], policy=policy, user=user, **launch)
        self.seen = {}
        if self.run.status == 0:
            self.seen = {raw["id"]: Seen(raw) for raw in self.run.json()}
        self.connections = lab.origin.connections.since(connections)
        self.questions = lab.dns.log.since(questions)
        self.canary = lab.canary.counts()

    def __getitem__(self, name):
        assert self.run.status == 0, self.run.report()
        return self.seen[name]

    def events(self, name):
        return self.run.decisions(self[name].port)

    def explain(self, name):
        events = "\n".join("  L " + self.run.brief(e) for e in self.events(name))
        return f"\n  C {self[name]}\n{events}\n  U {self.connections[:20]} {self.questions[:20]}"

    @property
    def requests(self):
        return [request for connection in self.connections for request in connection.requests]

    # C

    def assert_status(self, name, statuses):
        seen = self[name]
        wanted = {statuses} if isinstance(statuses, int) else set(statuses)
        assert seen.status in wanted, f"C: status {seen.status}, not {wanted}" + self.explain(name)

    def assert_ended(self, name):
        assert self[name].ended, "C: the connection was left open" + self.explain(name)

    # U

    def assert_no_question(self):
        assert not self.questions, f"U: the name server was asked {self.questions[:10]}"

    def assert_no_connection(self):
        assert not self.connections, f"U: the origin was dialled: {self.connections[:10]}"
        self.assert_canary_silent()

    def assert_no_request_byte(self):
        sent = [c for c in self.connections if c.plain]
        assert not sent, f"U: the origin got {[(c, bytes(c.plain[:300])) for c in sent[:5]]}"
        self.assert_canary_silent()

    def assert_canary_silent(self):
        packets, places = self.canary
        assert not any(packets.values()), f"U: the canary heard {packets}: {places}"
        self.lab.canary.assert_silent()

    def assert_bytes_absent(self, *needles):
        for connection in self.connections:
            for needle in needles:
                assert needle not in connection.plain, f"U: {needle!r} reached the origin: {bytes(connection.plain)!r}"

    # L

    def assert_denied_once(self, name, codes, total=1):
        """Exactly one denial with one of the codes, among @total decisions of that connection."""
        events = self.events(name)
        denials = [e for e in events if e.get("action_id") == 2]
        assert len(denials) == 1 and len(events) == total, \
            f"L: {len(denials)} denials among {len(events)} records, not 1 of {total}" + self.explain(name)
        assert denials[0]["status_code"] in codes, f"L: {denials[0]['status_code']}, not {codes}" + self.explain(name)
        assert denials[0]["status_id"] == 2 and denials[0]["disposition_id"] in (2, 6), self.explain(name)
        return denials[0]

    def assert_allowed(self, name, count=1):
        events = self.events(name)
        assert len(events) == count and all(e.get("action_id") == 1 for e in events), \
            f"L: not {count} allows" + self.explain(name)
        return events

    # all three

    def assert_refused(self, name, statuses, codes):
        """What the cases call "Refuse": status and close, nothing upstream, one record. For batches of refusals only."""
        self.assert_status(name, statuses)
        self.assert_ended(name)
        self.assert_no_question()
        self.assert_no_connection()
        event = self.assert_denied_once(name, codes)
        denial = self[name].denial()
        if denial:
            assert denial.get("reason") == event["status_code"], "C and L disagree" + self.explain(name)
        return event
