"""
Tells what the demo did, and checks it: whatever should have failed must have failed, at three places: in what the program
saw, in what arrived at the other side, and in the audit log. Exit status 0 only if all of it holds.

  story.py WORK      the folder that run.sh filled
"""
import glob
import hashlib
import json
import os
import shlex
import sys
import urllib.parse

WIDTH = 100
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
TOKEN = "demo-token-of-the-caller"


def paint(code, text):
    return f"\x1b[{code}m{text}\x1b[0m" if COLOUR else text


def plain(text):
    """What a sandbox wrote may not steer the terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def heading(text):
    print("\n" + paint("1", text))


class Story:
    def __init__(self, work):
        self.work = work
        self.problems = []
        self.result = self.load("result.json")
        self.status = self.read("status").strip()
        self.events = self.load_events("audit")
        self.bare = self.load("bare/attempts.json", [])
        self.tried = self.load("results/attempts.json", [])
        arrived = [json.loads(line) for line in self.read("lab/requests.jsonl").splitlines()]
        self.arrived = arrived[int(self.read("bare/requests") or 0):]

    def path(self, name):
        return os.path.join(self.work, name)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def load(self, name, otherwise=None):
        try:
            return json.loads(self.read(name))
        except ValueError:
            return {} if otherwise is None else otherwise

    def load_events(self, folder):
        lines = []
        for name in sorted(glob.glob(self.path(folder + "/[0-9]*.jsonl"))):
            with open(name, encoding="utf-8") as file:
                lines += [json.loads(line) for line in file if line.startswith("{")]
        return lines

    def must(self, holds, problem):
        if not holds:
            self.problems.append(problem)
        return holds

    def refusal(self, host, door, target):
        """The audit event of one attempt."""
        for event in self.events:
            there = event.get("dst_endpoint", {})
            if event.get("action_id") == 2 and host in (there.get("hostname"), there.get("ip")) \
                    and (event.get("unmapped", {}).get("eclusa", {}).get("intercept") == "packet") == (door == "packet"):
                return event
        self.problems.append(f"the audit log has no refusal of: {target}")
        return None

    def refusal_of_packets(self, address_class, target):
        for event in self.events:
            ours = event.get("unmapped", {}).get("eclusa", {})
            if ours.get("intercept") == "packet" and ours.get("address_class") == address_class:
                return event
        self.problems.append(f"the audit log has no refusal of: {target}")
        return None

    def tell_job(self):
        usage = self.result.get("usage", {})
        heading("The job")
        print("  report.py reads 60 invoices, fetches exchange rates from https://rates.example.com, and writes averages,\n"
              "  outliers and a picture. It runs in a sandbox that may GET one path of one host:")
        print("\n    " + self.command())
        self.must(self.status == "0" and self.result.get("verdict") == "ok",
                  f"the sandboxed run ended with status {self.status}, verdict {self.result.get('verdict')}: "
                  + (self.read("stderr").strip() or str(self.result.get("stderr", "")).strip()
                     or str(self.result.get("errors", "")))[-600:])
        print(f"\n  {paint('32', 'ok')}  {plain(self.result.get('stdout', '')).rstrip('?')}")
        wall, peak = usage.get("wall_ms"), usage.get("memory_peak_bytes")
        if wall is not None:
            print(f"      sandbox {self.result.get('id')}, {wall / 1000:.1f} s, "
                  + (f"{peak / 1e6:.0f} MB at most" if peak else "peak of memory not measured"))
        for event in self.events:
            if event.get("action_id") == 1 and event.get("class_uid") == 4002:
                rule = event.get("firewall_rule", {})
                url = event.get("http_request", {}).get("url", {}).get("url_string", "")
                print(f"      allowed {event['http_request'].get('http_method')} {plain(url)} by rule {rule.get('desc')}")
        self.must(self.read("results/report.json") == self.read("bare/report.json") != "",
                  "report.json differs from what the program writes without a sandbox")
        self.must(self.read_bytes("results/chart.png").startswith(b"\x89PNG"), "chart.png is not a picture")

    def command(self):
        """As a person would type it, an option a line."""
        words = [shlex.quote(word) for word in self.read("command").split("\0")[:-1]]
        lines, options = [words[:2]], words[2:]
        for word in options:
            if word.startswith("--") and lines[-1] != ["--"]:
                lines.append([word])
            else:
                lines[-1].append(word)
        return " \\\n        ".join(" ".join(line) for line in lines)

    def read_bytes(self, name):
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def tell_attempts(self):
        heading("What the note in invoice INV-0031 asked for, and the program obeyed")
        self.must(len(self.tried) == len(self.bare) > 0, "the program did not try everything that it tries without a sandbox")
        for entry in self.tried:
            self.tell_attempt(entry, next((b for b in self.bare if b["target"] == entry["target"]), None))

    def tell_attempt(self, entry, bare):
        target = plain(entry["target"])
        refused = self.must(not entry["succeeded"], f"succeeded in the sandbox: {target}: {plain(entry['saw'])}")
        mark = paint("32", "refused  ") if refused else paint("31", "SUCCEEDED")
        print(f"\n  {mark} {paint('1', target)}")
        without = f"it worked: {bare['saw']}" if bare and bare["succeeded"] else (bare or {}).get("saw", "not tried")
        print(f"      without Eclusa   {plain(without)[:WIDTH - 23]}")
        print(f"      the program saw  {plain(entry['saw'])[:WIDTH - 23]}")
        self.explain(entry, target)

    def explain(self, entry, target):
        if entry["what"] == "read":
            print("      why              the sandbox has its own process and mount namespaces; nothing of the caller is in them")
            return
        host = urllib.parse.urlsplit(target.split(" ", 1)[-1]).hostname if entry["what"] != "connect" \
            else target.split()[2].split(":")[0]
        if entry["what"] == "connect":
            event = self.refusal_of_packets("metadata" if host == "169.254.169.254" else "private", target)
        else:
            event = self.refusal(host, "explicit", target)
        if event is None:
            return
        ours = event.get("unmapped", {}).get("eclusa", {})
        rule = event.get("firewall_rule", {}).get("desc")
        if ours.get("intercept") == "packet":
            rule = rule or "the gateway lets no packet pass but those to the proxy"
        print(f"      why              {event.get('status_code')}: {plain(event.get('status_detail', ''))}")
        print(f"      rule             {plain(rule or 'none names it: the default is to refuse')}")
        if ours.get("allow"):
            print(f"      to admit it      --allow '{plain(ours['allow'])}'")

    def check_world(self):
        """The other side: exactly one request, and the right one."""
        seen = [(r["method"], r["host"], r["path"]) for r in self.arrived]
        self.must(seen == [("GET", "rates.example.com", "/v1/rates.csv")], f"the other side received {seen}")
        self.must(sum(r["received"] for r in self.arrived) == 0, "bytes of a body left the sandbox")
        self.must(sum(1 for b in self.bare if b["succeeded"]) >= 6, "without a sandbox the attempts do not work, so they prove nothing")
        everything = "".join(self.read(n) for n in ("result.json", "results/attempts.json", "results/report.json"))
        self.must(TOKEN not in everything, "the caller's token was seen inside")
        codes = [event.get("status_code") for event in self.events]
        for code in ("sandbox.start", "sandbox.exit"):
            self.must(code in codes, f"the audit log has no {code}")
        denied = {(denial.get("reason"), denial.get("host")) for denial in self.result.get("denials", [])}
        self.must({("deny.default", "collector.example.net"), ("deny.address-metadata", "169.254.169.254"),
                   ("deny.address-private", "192.168.77.1")} <= denied, f"the result tells of these denials only: {denied}")
        for artifact in self.result.get("artifacts", []):
            digest = hashlib.sha256(self.read_bytes("results/" + artifact["path"])).hexdigest()
            self.must(artifact["sha256"] == digest, f"the digest of {artifact['path']} is wrong")
        names = sorted(a["path"] for a in self.result.get("artifacts", []))
        self.must(names == ["attempts.json", "chart.png", "report.json"], f"the artifacts are {names}")

    def tell_result(self):
        heading("What the other side saw")
        for record in self.arrived:
            print(f"  {plain(record['method'])} https://{plain(record['host'])}{plain(record['path'])}, {record['received']} bytes of body")
        if not self.problems:
            print("  and nothing else")
        self.tell_layers()
        heading("Where things are")
        segments = glob.glob(self.path("audit/[0-9]*.jsonl"))
        log = segments[-1] if segments else self.path("audit")
        for what, where in (("picture", self.path("results/chart.png")), ("report", self.path("results/report.json")),
                            ("result of the run", self.path("result.json")), (f"audit log, {len(self.events)} events", log)):
            print(f"  {what:<22} {where}")
        print(f"  {'read the log':<22} jq -r '.message' {log}")

    def tell_layers(self):
        limits, network = self.result.get("limits", {}), self.result.get("network", {})
        missing = [text for absent, text in (
            (limits.get("cgroup") == "none", "a cgroup: resource limits stand in for it"),
            (not limits.get("separate_uid"), "a user id of its own for the sandbox"),
            (not network.get("dial_guard"), "the packet filter around the proxy")) if absent]
        if missing:
            print("  As this user the run had to do without: " + "; ".join(missing) + ".")

    def tell_npm(self):
        if not os.path.exists(self.path("npm.status")):
            return
        heading("npm, unmodified, from the registry that it is configured for")
        package = self.load("npm/package.json")
        result = self.load("npm.json")
        fine = self.must(package.get("name") == "is-number" and self.read("npm.status").strip() == "0",
                         "npm did not install is-number: " + (str(result.get("stderr", "")) + self.read("npm.stderr"))[-800:])
        if fine:
            allowed = sum(e.get("action_id") == 1 and e.get("class_uid") == 4002 for e in self.load_events("audit-npm"))
            print(f"  {paint('32', 'ok')}  is-number {plain(package.get('version'))} installed, {allowed} requests allowed and recorded")

    def tell(self):
        print(paint("1", "Eclusa: an analyst's job, and what an invoice told it to do"))
        self.tell_job()
        self.tell_attempts()
        self.check_world()
        self.tell_result()
        self.tell_npm()
        if self.problems:
            heading(paint("31", "This did not go as it must:"))
            for problem in self.problems:
                print("  - " + plain(problem))
        return 1 if self.problems else 0


if __name__ == "__main__":
    sys.exit(Story(sys.argv[1]).tell())
