"""
The receipt of a run, which says what stood around the program as seen from inside, and what happens where a layer lacks: it
is told, or refused before the program starts.
"""
import hashlib
import os

import pytest

from lab.box import PYTHON
from lab.eclusa import install, read_audit, run_eclusa
from lab.outer_filter import SYS_LANDLOCK_CREATE_RULESET, SYS_STATFS, without

ALWAYS = ["namespaces", "mounts", "proc", "capabilities", "no-new-privs", "filter", "rlimits", "network"]
OPTIONAL = ["notify", "landlock", "cgroup", "uid", "dial-guard"]
x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86_64")


def active(receipt):
    return [name for name, layer in receipt["layers"].items() if layer["active"]]


def nothing_ran(box, status, result):
    """Of a program that makes a file in /out."""
    assert (status, result["verdict"], result["exit_code"], result["artifacts"]) == (125, "setup", None, []), result
    ends = [e for e in read_audit(box.audit) if e["unmapped"]["eclusa"].get("sandbox_id") == result["id"]]
    assert all(e["unmapped"]["eclusa"].get("verdict", "setup") == "setup" for e in ends)


def test_each_layer_is_told_with_how_it_was_seen(box):
    status, result = box.result("--memory", "64M", "--", "true")
    receipt = result["receipt"]
    assert status == 0 and list(receipt["layers"]) == ALWAYS + OPTIONAL
    assert all(layer.get("verified") if layer["active"] else layer.get("remedy") or layer.get("why")
               for layer in receipt["layers"].values())
    assert active(receipt)[:9] == ALWAYS + ["notify"] and "dial-guard" not in active(receipt)
    for layer in ("cgroup", "uid"):
        assert (layer in active(receipt)) == (box.user is None), receipt["layers"][layer]
    assert (receipt["cgroup"] == "none") == (box.user is not None)
    assert (receipt["landlock_abi"] > 0) == ("landlock" in active(receipt))
    assert receipt["kernel"].split()[1] == os.uname().release
    assert len(receipt["filter"]["sha256"]) == 64 and receipt["filter"]["instructions"] > 100 and receipt["policy_sha256"] is None
    assert receipt["limits"]["memory_bytes"] == 64 << 20 and receipt["peaks"]["memory_bytes"] > 0
    again = box.result("--", "true")[1]["receipt"]
    assert again["filter"] == receipt["filter"], "the same program has the same hash"


@pytest.mark.parametrize("layer", OPTIONAL + ["all"])
def test_what_is_required_is_there_or_nothing_runs(box, layer):
    target = os.path.join(box.home, "out")
    status, result = box.result("--require", layer, "--out", target, "--", "touch", "/out/ran")
    lacks = box.user is not None and layer in ("cgroup", "uid", "all")
    if lacks:
        nothing_ran(box, status, result)
        assert "--require" in result["errors"][0] and "run as root" in result["errors"][0]
    else:
        assert status == 0 and [a["path"] for a in result["artifacts"]] == ["ran"], result
        os.unlink(os.path.join(target, "ran"))


@x86_64
def test_a_kernel_without_landlock_is_told_or_refused(box):
    lacks = {"preexec_fn": without(SYS_LANDLOCK_CREATE_RULESET)}
    status, result = box.result("--", "true", **lacks)
    assert status == 0 and "landlock" not in active(result["receipt"]) and result["receipt"]["landlock_abi"] == 0
    status, result = box.result("--require", "landlock", "--", "true", **lacks)
    nothing_ran(box, status, result)
    assert "landlock" in result["errors"][0]


@x86_64
def test_a_layer_that_can_not_be_seen_from_inside_lets_nothing_run(box):
    status, result = box.result("--out", os.path.join(box.home, "none"), "--", "touch", "/out/ran", preexec_fn=without(SYS_STATFS))
    nothing_ran(box, status, result)
    assert "capabilities" in active(result["receipt"]) and "proc" not in active(result["receipt"])
    assert "proc" in result["errors"][0] and "as seen from inside" in result["errors"][0]


def test_an_unknown_layer_is_named_with_those_that_exist(box):
    status, result = box.result("--require", "cgroup,landlok", "--", "true")
    assert status == 125 and result["verdict"] == "setup" and result["receipt"] is None and "landlok" in result["errors"][0] and "landlock" in result["errors"][0]


def test_landlock_keeps_files_from_moving_out_of_the_writable_folders_only(box):
    """Twin: what programs do with files goes on as before."""
    assert box.python("""
import json, os, socket, tempfile
done = []
for at in ("/tmp", "/work", "/out", os.environ["HOME"], "/dev/shm"):
    os.makedirs(at + "/a/b"); open(at + "/a/f", "w").write("x"); os.link(at + "/a/f", at + "/a/b/g")
    os.rename(at + "/a/f", at + "/a/b/h"); os.truncate(at + "/a/b/h", 0); os.symlink("x", at + "/a/l"); os.mkfifo(at + "/a/p")
    socket.socket(socket.AF_UNIX).bind(at + "/a/s"); done.append(at)
    try: os.mknod(at + "/device", 0o60600, 0); done.append("device")
    except PermissionError: pass
open("/dev/null", "w").write("x"); open("/dev/stdout", "w").write("")
s = socket.socket(socket.AF_UNIX); s.bind("\\0name"); s.listen(); socket.socket(socket.AF_UNIX).connect("\\0name")
print(json.dumps(done))""") == ["/tmp", "/work", "/out", "/home/sandbox", "/dev/shm"]


def test_the_receipt_of_a_run_with_network(lab, who):
    run = run_eclusa(lab, ["--require", "network,notify"], ["/bin/true"], user=who)
    receipt = run.result["receipt"]
    assert run.status == 0 and receipt["links"] == 1 and "network" in active(receipt), run.report()
    assert ("dial-guard" in active(receipt)) == (who is None)
    assert len(receipt["policy_sha256"]) == 64 and receipt["policy_sha256"] != hashlib.sha256(b"").hexdigest()
    refused = run_eclusa(lab, ["--require", "dial-guard"], ["/bin/true"], user=who)
    assert (refused.status, refused.result["verdict"]) == ((125, "setup") if who else (0, "ok")), refused.report()


@pytest.mark.parametrize("lacks", ["eclusa-netd", "eclusa-proxy"])
def test_a_network_that_does_not_start_is_a_failed_set_up(lab, who, lacks):
    eclusa = install(os.path.join(lab.folder, f"without-{lacks}-{who}"), (lacks,))
    run = run_eclusa(lab, [], [PYTHON, "-c", "print('ran')"], user=who, eclusa=eclusa)
    assert (run.status, run.result["verdict"], run.result["stdout"]) == (125, "setup", ""), run.report()
    assert lacks in run.result["errors"][0]


@pytest.mark.parametrize("point", ["netd-started", "netd-gateway", "netd-listeners"])
def test_a_network_that_dies_while_it_starts_is_a_failed_set_up(lab, who, point):
    run = run_eclusa(lab, [], [PYTHON, "-c", "print('ran')"], user=who, env={"ECLUSA_FAULT": point})
    assert (run.status, run.result["verdict"], run.result["stdout"]) == (125, "setup", ""), run.report()
    assert "eclusa-netd was killed by signal 9" in run.result["errors"][0] and len(run.result["errors"]) == 1, run.report()
