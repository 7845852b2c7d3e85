"""The demo, as root and as an ordinary user: what should fail fails, or it exits with another status than 0."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
USER = 54321  # no account of this host

AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="changes the user")


@pytest.fixture(name="clone")
def fixture_clone():
    """The demo beside the built programs, in a folder that any user reaches."""
    with tempfile.TemporaryDirectory() as name:
        clone = pathlib.Path(name)
        clone.chmod(0o755)
        shutil.copytree(ROOT / "demo", clone / "demo")
        (clone / "build").mkdir()
        for program in ("eclusa", "eclusa-netd", "eclusa-proxy"):
            shutil.copy(BUILD / program, clone / "build" / program)
        yield clone


def run_demo(clone, user=()):
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(clone), "LANG": "C.UTF-8"}
    return subprocess.run([*user, str(clone / "demo/run.sh")], env=environment, capture_output=True, text=True, timeout=120, check=False)


def give_away(clone):
    for path in [clone, *clone.rglob("*")]:
        os.chown(path, USER, USER)


def test_the_demo_holds_what_it_promises(clone):
    done = run_demo(clone)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCEEDED" not in done.stdout
    assert (clone / "build/demo/results/chart.png").stat().st_size > 10_000
    assert json.loads((clone / "build/demo/results/report.json").read_text())["invoices"] == 60


@needs_root
def test_an_ordinary_user_gets_the_same_refusals(clone):
    give_away(clone)
    done = run_demo(clone, AS_USER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("refused ") >= 5


@pytest.mark.parametrize("rule", ["collector.example.net GET,POST /** addr=198.51.100.20/32 req-body=1m"])
def test_the_demo_fails_when_something_gets_through(clone, rule):
    script = clone / "demo/run.sh"
    text = script.read_text()
    changed = text.replace("--upstream-ca", f"--allow '{rule}' --upstream-ca", 1)
    assert changed != text
    script.write_text(changed)
    done = run_demo(clone)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "succeeded in the sandbox: POST https://collector.example.net/upload" in done.stdout
