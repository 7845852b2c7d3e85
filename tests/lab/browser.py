"""
Headless Chromium by Playwright, where both are there: Chromium as the system's package, Playwright's library by the npm that the
user has, into the build folder, once.
"""
import os
import shutil
import subprocess

import pytest

from lab.eclusa import ROOT

PLAYWRIGHT = "playwright-core@1.65.1"
FOLDER = os.path.join(ROOT, "build", "node")


def environment():
    """@return variables under which a Node script finds both; skips the test where they can't be had."""
    chromium = shutil.which("chromium", path="/usr/bin") or shutil.which("chromium")
    if chromium is None or shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("there is no chromium, node or npm: make deps-test installs them")
    if not os.path.isdir(os.path.join(FOLDER, "node_modules", "playwright-core")):
        os.makedirs(FOLDER, exist_ok=True)
        done = subprocess.run(["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", FOLDER, PLAYWRIGHT],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120)
        if done.returncode != 0:
            pytest.skip(f"npm can't install {PLAYWRIGHT}: {done.stdout.decode(errors='replace')[-300:]}")
    return {**os.environ, "NODE_PATH": os.path.join(FOLDER, "node_modules"), "CHROMIUM": chromium}
