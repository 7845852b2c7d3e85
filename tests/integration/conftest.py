"""Fixtures of the integration tests. They make packets, so all of it happens in namespaces that they make as root."""
import os
import shutil
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from lab.alone import Machine  # noqa: E402 (needs the path above)
from lab.box import Box  # noqa: E402
from lab.census import become_reaper  # noqa: E402
from lab.eclusa import USER_UID, is_sanitized, program  # noqa: E402
from lab.passing import echo_servers  # noqa: E402
from lab.world import Lab  # noqa: E402


def pytest_configure(config):
    """What goes wrong in a server of the lab is a failure of the test beside it."""
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture(scope="module")
def lab(request):
    """One laboratory a module."""
    if os.geteuid() != 0:
        pytest.skip("the laboratory needs root: it plays host and world in namespaces")
    if not os.access(program(), os.X_OK):
        pytest.fail(f"{program()} is not there: run make first")
    become_reaper()
    made = Lab()
    request.node.lab = made
    yield made
    made.close()


@pytest.fixture(scope="module", params=[None, USER_UID], ids=["root", "user"])
def who(request):
    """Whom a run belongs to: root, or an ordinary user's uid."""
    if request.param and os.access(program(), os.X_OK) and is_sanitized():
        pytest.skip("a SAN=1 build runs as root only")
    return request.param


@pytest.fixture(scope="module", params=[None, USER_UID], ids=["root", "user"])
def box(request):
    if os.geteuid() != 0:
        pytest.skip("needs root, to be both root and an ordinary user")
    made = Box(request.param)
    yield made
    shutil.rmtree(made.folder)


@pytest.fixture(scope="module")
def root_box():
    if os.geteuid() != 0:
        pytest.skip("needs root")
    made = Box(None)
    yield made
    shutil.rmtree(made.folder)


@pytest.fixture(scope="module")
def machine(lab):
    """Where the proxy alone runs, beside the laboratory's world."""
    made = Machine(lab)
    yield made
    made.close()


@pytest.fixture(scope="module")
def servers(lab):
    """Send back whatever they get: lab/passing.py."""
    made = echo_servers(lab)
    yield made
    made.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """The last run's words, streams and audit lines beside a failure."""
    outcome = yield
    report = outcome.get_result()
    made = getattr(item.getparent(pytest.Module), "lab", None)
    if report.failed and made is not None and made.runs and "$ nsenter" not in str(report.longrepr):
        report.sections.append(("last run of eclusa", made.runs[-1].report()))
