"""
What an analyst asks of the log of a run: who ran it, what went in, what came out, how long a query was, where packets went that did not
use the proxy, and how a run ended whose launcher was killed.
"""
import hashlib
import os
import signal
import tempfile

from lab.eclusa import Launch, network_args, read_audit, run_eclusa
from lab.events import DEADLINE, wait_until
from lab.world import ORIGIN

QUERY = "secret=hunter2SECRETvalue"
PROGRAM = f"""
import os, socket, urllib.request
urllib.request.urlopen("https://allowed.test/v1/x?{QUERY}").read()
with socket.socket() as sock:
    sock.settimeout(20)
    sock.connect_ex(("192.168.50.1", 443))
os.mkdir("/out/d")
for n in range(40):
    open(f"/out/d/{{n:02}}", "w").write(f"result {{n}}")
"""


def folder_for(lab, user, prefix):
    folder = tempfile.mkdtemp(prefix=prefix, dir=lab.folder)
    os.chown(folder, user or 0, user or 0)
    os.chmod(folder, 0o755)
    return folder


def ours(event):
    return event["unmapped"]["eclusa"]


def by_code(events, code):
    return [e for e in events if e["status_code"] == code]


def test_who_what_went_in_and_what_came_out(lab, who):
    source, out = folder_for(lab, who, "in-"), folder_for(lab, who, "out-")
    path = os.path.join(source, "program.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    os.chmod(path, 0o644)
    run = run_eclusa(lab, ["--in", path, "--in", f"{source}:data", "--out", out], ["/usr/bin/python3", "program.py"],
                     policy=[f"allowed.test GET /** addr={ORIGIN}/32"], user=who)
    assert run.status == 0, run.report()
    (start,), (end,) = by_code(run.events, "sandbox.start"), by_code(run.events, "sandbox.exit")
    assert start["actor"]["user"]["uid"] == str(who or 0), "the caller's, not that of its user namespace"
    assert start["actor"]["user"].get("name") == (None if who else "root")
    assert ours(start)["inputs"] == [{"name": "program.py", "size": len(PROGRAM)}, {"name": "data"}]
    results, left_out = ours(end)["results"], ours(end)["results_left_out"]
    assert (len(results), left_out) == (32, 8)
    for result in results:
        text = f"result {int(result['name'][2:])}".encode()
        assert (result["size"], result["sha256"]) == (len(text), hashlib.sha256(text).hexdigest())
    (request,) = [e for e in run.decisions() if e.get("http_request", {}).get("url", {}).get("path") == "/v1/x"]
    assert (ours(request)["has_query"], ours(request)["query_bytes"]) == (True, len(QUERY))
    (packets,) = by_code(run.events, "deny.address-private")
    assert packets.get("dst_endpoint", {}).get("ip") in (None, "192.168.50.1")  # of a packet that was seen whole, if one was
    assert packets["message"].startswith("deny.address-private packets to private addresses")


def test_a_killed_run_gets_an_end_at_the_next_start(lab, who):
    audit = folder_for(lab, who, "audit-")
    words = ["run", "--json", *network_args(lab, audit, ["allowed.test"]), "--", "/bin/sleep", "60"]
    launch = Launch(lab, words, user=who, audit_dir=audit)
    process = launch.popen()
    wait_until(lambda: by_code(read_audit(audit), "sandbox.start"), "the start is on record")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE)
    (start,) = by_code(read_audit(audit), "sandbox.start")

    def of_killed():
        """The recorder may have had the time for a checkpoint."""
        return [e for e in read_audit(audit) if e.get("container", {}).get("uid") == start["container"]["uid"]]

    def next_start():
        again = run_eclusa(lab, [], ["/bin/true"], policy=False, user=who, audit_dir=audit)
        assert again.status == 0, again.report()
        return len(of_killed()) > 1
    wait_until(next_start, "the parts of the killed run are gone, and it has an end")
    assert [e["status_code"] for e in of_killed()] == ["sandbox.start", "sandbox.exit"]
    end = of_killed()[1]
    assert (end["metadata"]["event_code"], end["status"]) == ("audit.recovered", "Failure")
    assert (ours(end)["verdict"], ours(end)["recovered"], end.get("exit_code")) == ("unknown", True, None)
    others = [e for e in by_code(read_audit(audit), "sandbox.exit") if e != end]
    assert {ours(e)["verdict"] for e in others} == {"ok"}, "the twin: who records its own end gets no other"
