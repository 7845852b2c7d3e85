"""
A sandbox can't reach its own record (case I05): no path and no descriptor leads there. That each refusal has exactly one record (I02) is asked
by `assert_denied_once` in every other file of cases.
"""
import json
import os
import tempfile

from lab.eclusa import run_eclusa

# Looks for the log by name, everywhere but in the kernel's own file systems, and through whatever it was started with.
PROGRAM = """
import json, os, sys
folder, found, tried = sys.argv[1], [], {}
for top, folders, files in os.walk("/"):
    if top == "/":
        folders[:] = [name for name in folders if name not in ("proc", "sys", "dev", "usr")]
    found += [os.path.join(top, name) for name in files + folders if name.endswith((".ring", ".jsonl")) or name == os.path.basename(folder)]
for name in ("", "index.jsonl", "open"):
    for how in (os.O_RDONLY, os.O_WRONLY | os.O_APPEND):
        try:
            tried[f"{name} {how}"] = os.open(os.path.join(folder, name), how)
        except OSError as error:
            tried[f"{name} {how}"] = error.strerror
descriptors = {}
for number in range(3, 256):
    try:
        descriptors[number] = os.readlink(f"/proc/self/fd/{number}")
        os.write(number, b"forged\\n")
        descriptors[number] += " takes bytes"
    except OSError:
        pass
print(json.dumps([found, sorted(set(map(str, tried.values()))), descriptors]))
"""


def test_I05_a_sandbox_can_not_touch_its_own_record(lab, who):
    audit = tempfile.mkdtemp(prefix="audit-own-record-", dir=lab.folder)
    os.chown(audit, who or 0, who or 0)
    run = run_eclusa(lab, [], ["/usr/bin/python3", "-c", PROGRAM, audit], policy=["allowed.test GET /**"], user=who, audit_dir=audit)
    assert run.status == 0, run.report()
    found, answers, descriptors = json.loads(run.output)
    assert found == [] and answers == ["No such file or directory"], run.report()
    assert descriptors == {}, run.report()
    assert [e["status_code"] for e in run.events if e["class_uid"] == 1007] == ["sandbox.start", "sandbox.exit"]
    # The twin: outside of it the same names are there.
    assert os.path.exists(os.path.join(audit, "index.jsonl")) and os.path.exists(os.path.join(audit, "open"))
