"""
allowlists/README.md, run: every console block is one shell session, in order, and each command prints what stands below it and
ends with the status that is said. A line of "..." stands for any lines. The world of the tutorial is the lab's.
"""
import os
import pathlib
import re
import subprocess

import pytest

from lab.alone import Machine
from lab.eclusa import program
from lab.origin import answer
from lab.world import PUBLIC

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "allowlists/README.md"
INSTALLED = "/usr/local/share/eclusa/allowlists"
RATES = b"day,rate\n2026-11-27,5.33\n"
# In front of the program: where the lab's names and certificates are. The tutorial's reader has the world's.
SHIM = """#!/bin/sh
case "$0 $1" in
*/eclusa' run') shift; exec {program} run --resolver 203.0.113.53:53 --upstream-ca {ca} "$@" ;;
*/eclusa-proxy*) exec {program}-proxy --resolver 203.0.113.53:53 --upstream-ca {ca} "$@" ;;
*) exec {program} "$@" ;;
esac
"""


class Command:
    def __init__(self, line):
        self.line, self.text, self.expected = line, [], []

    def __repr__(self):
        return f"{README.name}:{self.line}: $ " + "\n".join(self.text)


def commands():
    """Of every ```console block: a line "$ ..." with its continuations and here-document, then what it prints."""
    found, inside, ends = [], False, None
    for number, line in enumerate(README.read_text().splitlines(), 1):
        if line.startswith("```"):
            inside, ends = line == "```console", None
        elif not inside:
            continue
        elif ends:
            found[-1].text.append(line)
            ends = None if line == ends or (ends == "\\" and not line.endswith("\\")) else ends
        elif line.startswith("$ "):
            found.append(Command(number))
            found[-1].text.append(line[2:])
            document = re.search(r"<<'(\w+)'", line)
            ends = document.group(1) if document else "\\" if line.endswith("\\") else None
        else:
            found[-1].expected.append(line)
    return found


def fits(expected, printed):
    """Whether lines are those that were promised; "..." in a line is any text, as a line any lines."""
    if not expected:
        return not printed
    if expected[0] == "...":
        return fits(expected[1:], printed) or (bool(printed) and fits(expected, printed[1:]))
    pattern = ".*".join(re.escape(part) for part in expected[0].split("..."))
    return bool(printed) and re.fullmatch(pattern, printed[0]) is not None and fits(expected[1:], printed[1:])


def script(session):
    """One shell for all; between commands markers that leave $? as the command left it."""
    lines = ["set -m", "exec 2>&1"]
    for number, command in enumerate(session):
        lines += [f"printf '\\n@@ %s\\n' {number}; (exit ${{last:-0}})",
                  *(line.replace(INSTALLED, str(ROOT / "allowlists")) for line in command.text), "last=$?"]
    return "\n".join([*lines, "printf '\\n@@ end\\n'", "kill $(jobs -p) 2>/dev/null; exit 0", ""])


@pytest.fixture(scope="module")
def world(lab, tmp_path_factory):
    for name in ("data.example.com", "api.example.com", "cdn.example.com"):
        lab.dns.zone[name] = [PUBLIC]
    lab.origin.on("/rates/2026.csv", answer("200 OK", RATES, ["Content-Type: text/csv"]))
    lab.origin.on("/rates/2025.csv", answer("200 OK", RATES, ["Content-Type: text/csv"]))
    lab.origin.on("/v1/reports", answer("201 Created", b"stored\n", ["Content-Type: text/plain"]))
    folder = tmp_path_factory.mktemp("tutorial")
    tools = folder / "bin"
    tools.mkdir()
    for name in ("eclusa", "eclusa-proxy"):
        (tools / name).write_text(SHIM.format(program=os.path.abspath(program()), ca=lab.certificates.ca_file))
        (tools / name).chmod(0o755)
    (folder / "work").mkdir()
    machine = Machine(lab)
    yield machine, folder
    machine.close()


def test_the_tutorial_reproduces(world):
    machine, folder = world
    session = commands()
    assert len(session) > 20
    (folder / "session.sh").write_text(script(session))
    ran = subprocess.run(machine.command("bash", str(folder / "session.sh")), cwd=folder / "work", capture_output=True, text=True, timeout=200,
                         stdin=subprocess.DEVNULL, check=False, env={
                             "PATH": f"{folder}/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(folder),
                             "XDG_STATE_HOME": str(folder / "state"), "LC_ALL": "C.UTF-8"})
    parts = re.split(r"^@@ (\w+)\n", ran.stdout, flags=re.M)
    printed = {parts[i]: parts[i + 1].rstrip("\n").split("\n") if parts[i + 1].strip("\n") else [] for i in range(1, len(parts) - 1, 2)}
    assert "end" in printed, ran.stdout[-3000:] + ran.stderr[-1000:]
    wrong = [f"{command}\n--- promised\n" + "\n".join(command.expected) + "\n--- printed\n" + "\n".join(printed[str(number)])
             for number, command in enumerate(session) if not fits(command.expected, printed[str(number)])]
    assert not wrong, "\n\n".join(wrong)


def test_every_policy_of_the_page_is_part_of_the_session():
    """A block that looks like policy and is run by nothing could go stale."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", README.read_text(), re.S | re.M)
    assert all(kind == "console" for kind, text in blocks if "policy 1" in text)
