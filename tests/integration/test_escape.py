"""
Classes of published escapes (tests/escape): all of them are blocked, as root and as an ordinary user; and without a sandbox
the same probes get through, so that they prove something.
"""
import os
import subprocess

import pytest

from escape.classes import BLOCKED, CLASSES, NONE, REACHED, judge
from escape.executors import Eclusa, Nothing
from escape.host import Host
from lab.eclusa import ROOT, install, program

# What only a launcher could get wrong.
NO_LAUNCHER = {"argument-options", "result-links", "result-targets", "masked-path-links", "setup-links"}


@pytest.fixture(scope="module")
def probe():
    if os.geteuid() != 0:
        pytest.skip("needs root, to be both root and an ordinary user")
    build = os.path.dirname(os.path.abspath(program()))
    path = os.path.join(build, "tests", "escape_probe")
    subprocess.run(["make", "-s", f"BUILD={build}", path], cwd=ROOT, check=True)
    return path


@pytest.fixture()
def host(who, probe):
    made = Host(who)
    path = os.path.join(made.folder, "probe")
    with open(probe, "rb") as source, open(path, "wb") as file:
        file.write(source.read())
    os.chmod(path, 0o755)
    made.probe_path = path
    yield made
    made.close()


def test_every_class_is_blocked(host, who):
    drop = ("setpriv", f"--reuid={who}", f"--regid={who}", "--clear-groups", "--") if who else ()
    eclusa = install(os.path.join(host.folder, "bin"), ("eclusa-netd", "eclusa-proxy")) if who else os.path.abspath(program())
    executor = Eclusa(host.folder, host.probe_path, eclusa, drop)
    host.give(host.folder)
    found = judge(executor, host)
    assert {name: answer for name, answer in found.items() if answer[0] != BLOCKED} == {}
    assert len(found) == len(CLASSES) >= 32


def test_without_a_sandbox_they_get_through(host, who):
    if who:
        pytest.skip("the namespaces that keep the host from the probes are made as root")
    found = judge(Nothing(host.folder, host.probe_path), host)
    assert {name: answer for name, answer in found.items() if answer[0] != REACHED and name not in NO_LAUNCHER} == {}
    assert {found[name][0] for name in NO_LAUNCHER} <= {NONE, BLOCKED}
