"""
The log of a service goes on in one file after another: at a size, at an age, on SIGHUP; whoever is killed on the way. It stays one chain,
and `eclusa audit verify` finds nothing.
"""
import datetime
import glob
import json
import os
import signal
import subprocess

import pytest

from lab.alone import Alone, Client, allow, fetch, policy
from lab.eclusa import program, read_audit, unfinished
from lab.events import wait_until

RULES = policy(allow("allowed.test:80,443 GET /**"))


def logs(alone):
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(alone.audit, "[0-9]*.jsonl")))


def lines_of(alone, name):
    with open(os.path.join(alone.audit, name), "rb") as file:
        return [json.loads(line) for line in file]


def verify(alone, *words):
    done = subprocess.run([program(), "audit", "verify", "--json", "--audit-dir", alone.audit, *words], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=False)
    said = json.loads(done.stdout)
    assert done.returncode == (1 if said["findings"] else 0)
    return said


def assert_whole(alone, files):
    """One chain over all its files, each of which says what it follows, and a sound index."""
    said = verify(alone)
    assert said["findings"] == [] and said["unfinished"] == 0, said
    assert unfinished(alone.audit) == []
    names = logs(alone)
    assert len(names) >= files, names
    number, before = 0, "0" * 64
    for name in names:
        lines = lines_of(alone, name)
        assert lines[0]["status_code"] == ("sandbox.start" if name == names[0] else "audit.rotated"), name
        for line in lines:
            ours = line["unmapped"]["eclusa"]
            number += 1
            assert (line["metadata"]["sequence"], ours["prev"]) == (number, before), name
            before = ours["hash"]
        assert name == names[-1] or lines[-1]["status_code"] == "audit.checkpoint", f"{name} ends in a checkpoint"
    for name, follows in zip(names[1:], names):
        assert follows in lines_of(alone, name)[0]["status_detail"]
    assert lines_of(alone, names[-1])[-1]["status_code"] == "sandbox.exit"


def hang_up(alone):
    """SIGHUP, and the log is another file: the one before is closed."""
    count = len(logs(alone))
    alone.hang_up()
    wait_until(lambda: len(logs(alone)) > count and len(unfinished(alone.audit)) <= 3 and
               any(line.startswith(b'{"kind":"opened","segment":"' + logs(alone)[-1].encode()) for line in index(alone)), alone.report)


def index(alone):
    with open(os.path.join(alone.audit, "index.jsonl"), "rb") as file:
        return file.read().splitlines()


def test_the_log_goes_on_in_another_file_on_sighup(lab, machine, who):
    alone = Alone(lab, machine, RULES, user=who)
    for n in range(3):
        assert fetch(alone, "allowed.test", f"/before-{n}") == 200
        alone.wait_event("allow.rule", f"/before-{n}")
        hang_up(alone)
    assert fetch(alone, "allowed.test", "/after") == 200
    assert fetch(alone, "denied.test", "/no") == 403
    assert alone.end() == 0, alone.report()
    assert_whole(alone, 4)
    for n, name in enumerate(logs(alone)[:3]):
        assert any(e.get("http_request", {}).get("url", {}).get("path") == f"/before-{n}" for e in lines_of(alone, name)), name
    kinds = [(e["kind"], e["segment"]) for e in map(json.loads, index(alone))]
    assert sorted(kinds) == sorted((kind, name) for name in logs(alone) for kind in ("opened", "closed"))


def test_the_log_goes_on_in_another_file_at_its_size(lab, machine, who):
    alone = Alone(lab, machine, RULES, "--audit-segment-size", "64k", user=who)
    asked = 0
    while len(logs(alone)) < 3:
        with Client(alone) as client:
            client.tunnel("allowed.test")
            for _ in range(20):
                assert client.get("allowed.test", f"/size-{asked}")[0] == 200
                asked += 1
    assert alone.end() == 0, alone.report()
    assert_whole(alone, 3)
    paths = [e["http_request"]["url"].get("path") for e in read_audit(alone.audit) if e["class_uid"] == 4002]
    assert sorted(p for p in paths if p and p.startswith("/size-")) == sorted(f"/size-{n}" for n in range(asked)), "none twice, none lost"


def test_the_log_goes_on_in_another_file_at_its_age(lab, machine):
    alone = Alone(lab, machine, RULES, "--audit-segment-age", "1s")
    wait_until(lambda: len(logs(alone)) >= 3, alone.report)
    assert alone.end() == 0, alone.report()
    assert_whole(alone, 3)


@pytest.mark.parametrize("words, says", [(["--audit-segment-size", "1k"], "from 64k to 256m"), (["--audit-segment-size", "1g"], "from 64k"),
                                         (["--audit-segment-age", "1ms"], "from 1s"), (["--audit-segment-age", "soon"], "from 1s")])
def test_a_size_or_an_age_that_is_none_is_refused(lab, machine, words, says):
    alone = Alone(lab, machine, RULES, *words, ready=False)
    assert alone.output.get(timeout=60) is None and alone.end() == 125
    assert any(line and says in line for line in alone.errors), alone.errors


def started_again(alone):
    """The next start on the same folder, which completes what is there."""
    again = Alone(alone.lab, alone.machine, alone.policy, arguments=[
        "--listen", "127.0.0.1:0", "--policy", alone.policy, "--profile", "bench", "--audit-dir", alone.audit])
    assert again.end() == 0, again.report()
    return unfinished(alone.audit) == []


@pytest.mark.parametrize("point", ["recorder-next-file", "recorder-moved", "super-segment", "super-segment-taken"])
def test_whoever_is_killed_on_the_way_leaves_one_chain(lab, machine, point):
    """A recorder that dies there does so again each time that it is started anew, until the proxy gives up."""
    alone = Alone(lab, machine, RULES, env={"ECLUSA_FAULT": point})
    assert fetch(alone, "allowed.test", "/before") == 200
    alone.hang_up()
    assert alone.process.wait(timeout=60) == 1
    assert alone.end() == 1
    wait_until(lambda: started_again(alone), "the killed service is completed")
    said = verify(alone)
    assert said["findings"] == [] and said["unfinished"] == 0, (said, alone.report())
    assert alone.events("allow.rule", "/before"), "L"
    (end,) = [e for e in alone.events("sandbox.exit") if e["container"]["uid"] == alone.events("sandbox.start")[0]["container"]["uid"]]
    names = [name for name in logs(alone) if end["container"]["uid"] in name]
    assert lines_of(alone, names[-1])[-1] == end, "in the last file of its chain"


def test_a_service_that_is_killed_while_it_has_several_files_is_completed(lab, machine):
    alone = Alone(lab, machine, RULES)
    assert fetch(alone, "allowed.test", "/before") == 200
    hang_up(alone)
    assert fetch(alone, "allowed.test", "/after") == 200
    alone.process.send_signal(signal.SIGKILL)
    alone.process.wait()

    wait_until(lambda: started_again(alone), "the killed service is completed")
    said = verify(alone)
    assert said["findings"] == [] and said["chains"] >= 2, said
    ends = [e for e in read_audit(alone.audit) if e["status_code"] == "sandbox.exit" and e["unmapped"]["eclusa"].get("recovered")]
    assert len(ends) == 1, "one end, in the chain's last file"
    names = [name for name in logs(alone) if ends[0]["unmapped"]["eclusa"]["chain"] in name]
    assert len(names) == 2 and lines_of(alone, names[1])[-1] == ends[0]


def prune(alone, before_ms):
    moment = datetime.datetime.fromtimestamp(before_ms / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return subprocess.run([program(), "audit", "prune", "--before", moment, "--audit-dir", alone.audit], capture_output=True, text=True,
                          check=False)


def test_what_was_pruned_is_not_missing_and_what_was_taken_away_is(lab, machine, who):
    alone = Alone(lab, machine, RULES, user=who)
    for n in range(4):
        assert fetch(alone, "allowed.test", f"/file-{n}") == 200
        hang_up(alone)
    names = logs(alone)
    ended = {e["segment"]: e["time"] for e in map(json.loads, index(alone)) if e["kind"] == "closed"}
    done = prune(alone, ended[names[1]] + 1)
    assert done.returncode == 0 and done.stdout.startswith("2 files deleted"), done
    assert logs(alone) == names[2:], "what ended later stays, and what is being written"
    said = verify(alone)
    assert said["findings"] == [] and said["pruned"] == 2, said
    assert prune(alone, ended[names[1]] + 1).stdout.startswith("0 files deleted")
    os.unlink(os.path.join(alone.audit, names[2]))
    found = [(f["kind"], f["file"]) for f in verify(alone)["findings"]]
    assert ("missing", names[2]) in found and ("order", names[3]) in found, "the twin"
    future = prune(alone, ended[names[3]] + 10**9)
    assert future.returncode == 0 and logs(alone) == names[4:], "what is being written stays"
    assert alone.end() == 0, alone.report()


@pytest.mark.parametrize("words", [[], ["--before", "soon"], ["--before", "2026-01-01", "word"]])
def test_prune_says_what_it_takes(tmp_path, words):
    done = subprocess.run([program(), "audit", "prune", "--audit-dir", tmp_path, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done
