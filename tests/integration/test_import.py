"""
`eclusa policy import`: what comes out loads, passes its own tests and a strict lint; what can't be said is told; tools are asked
with care. And the loop: import what npm and pip are set to, run them under it, and nothing else works.
"""
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from lab.eclusa import program, run_eclusa
from lab.world import ORIGIN
from test_clients import INDEX, REGISTRY, services  # noqa: F401 (a fixture)


def tool(*words, **options):
    return subprocess.run([program(), "policy", *map(str, words)], capture_output=True, text=True, timeout=100, check=False, **options)


def assert_good(path):
    """It loads, its expect lines hold, a strict lint finds nothing, and it is in its one layout."""
    for words in (("test", path), ("lint", "--strict", path), ("fmt", "--check", path)):
        done = tool(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr, pathlib.Path(path).read_text())


SQUID = """acl SSL_ports port 443
acl ads dstdomain .ads.example.com
acl work dstdomain .example.com "names.txt"
http_access deny !SSL_ports
http_access deny ads
http_access allow work
http_access deny all
"""
SMOKESCREEN = """version: v1
services:
  - name: crawler
    project: data
    action: enforce
    allowed_domains: [api.example.com, "*.files.example"]
  - name: trial
    project: data
    action: report
    allowed_domains: []
"""
SRT = {"network": {"allowedDomains": ["api.example.com", "*.files.example:8443"], "deniedDomains": ["old.api.example.com"]}}
HOSTS = "127.0.0.1 localhost\n0.0.0.0 ads.example.com\n||track.example^\n"


@pytest.mark.parametrize("source, text, holds", [
    ("squid", SQUID, ["deny .ads.example.com  # list:2", "allow .example.com  # list:3", "allow h.example  # names.txt:1"]),
    ("squid", ".example.com\nh.example\n", ["allow .example.com  # list:1", "allow h.example  # list:2"]),
    ("smokescreen", SMOKESCREEN, ["[profile crawler]", "set mode observe", "allow **.files.example  # list:6"]),
    ("srt", json.dumps(SRT), ["allow api.example.com  # list: network.allowedDomains[0]", "allow **.files.example:8443"]),
    ("hosts", HOSTS, ["deny ads.example.com  # list:2", "deny .track.example  # list:3"]),
])
def test_lists_become_policies_that_load(tmp_path, source, text, holds):
    (tmp_path / "list").write_text(text)
    (tmp_path / "names.txt").write_text("h.example\n")
    done = tool("import", "--from", source, "list", "-o", "out.allow", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    out = (tmp_path / "out.allow").read_text()
    for line in holds:
        assert line in out, out
    assert_good(tmp_path / "out.allow")
    piped = tool("import", "--from", source, cwd=tmp_path, input=text)
    assert piped.returncode == 0 and piped.stdout == out.replace("list:", "stdin:")


def test_what_cannot_be_said_is_told_and_kept_as_a_comment(tmp_path):
    (tmp_path / "list").write_text(".example.com\n.com\n192.0.2.1\n")
    done = tool("import", "--from", "squid", "list", cwd=tmp_path)
    assert done.returncode == 1
    assert [line.split(":")[:3] for line in done.stderr.splitlines()] == [
        ["list", "3", " warning"], ["list", "2", " warning"]]
    assert done.stdout.count("# not imported: list:") == 2 and "allow .com" not in done.stdout
    (tmp_path / "out.allow").write_text(done.stdout)
    assert_good(tmp_path / "out.allow")


def test_a_list_whose_order_matters_is_refused_and_nothing_is_written(tmp_path):
    (tmp_path / "list").write_text(
        "acl a dstdomain x.y.example.com\nacl b dstdomain .y.example.com\nacl c dstdomain .example.com\n"
        "http_access allow a\nhttp_access deny b\nhttp_access allow c\nhttp_access deny all\n")
    (tmp_path / "out.allow").write_text("before\n")
    done = tool("import", "--from", "squid", "list", "--output", "out.allow", cwd=tmp_path)
    assert done.returncode == 1 and "list:2: error: nothing was imported: its order matters" in done.stderr
    assert (tmp_path / "out.allow").read_text() == "before\n" and len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("words", [
    (), ("--from", "nothing"), ("--from", "squid", "/nonexistent"), ("--from", "npm", "file"), ("--from", "squid", "--online", "x"),
    ("--from", "squid", "a", "b"), ("--from", "srt", "--json", "x"), ("--from", "srt", "--profile", "a b", "x"), ("--from",)])
def test_wrong_usage_is_status_2(words):
    done = tool("import", *words)
    assert (done.returncode, done.stdout) == (2, "") and len(done.stderr.splitlines()) == 1


# The user's own tools

class Tools:
    """A folder of programs that answer as npm, pip and apt-get do."""

    def __init__(self, folder):
        self.folder = folder / "bin"
        self.folder.mkdir()
        self.home = folder / "home"
        self.home.mkdir()
        self.env = {"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(self.home)}

    def write(self, name, script):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def ask(self, source, *words, env=None, **options):
        """In a network namespace without a way out, where the test may make one: no name is asked of a real server."""
        alone = [shutil.which("unshare"), "--net", "--"] if os.getuid() == 0 else []
        return subprocess.run([*alone, program(), "policy", "import", "--from", source, *map(str, words)], capture_output=True, text=True,
                              timeout=100, check=False, env={**self.env, **(env or {})}, cwd=self.home, **options)


@pytest.fixture(name="tools")
def fixture_tools(tmp_path):
    return Tools(tmp_path)


NPM = 'test "$*" = "config list --json" || exit 9\necho \'{"registry":"https://npm.example/","@own:registry":"https://u:secret@own.example/npm/"}\''
PIP = """case "$*" in
"install --help") printf -- '  -i, --index-url <url>  Base URL of the index (default https://u:****@index.example/simple). This\\n' ;;
"config list") printf "global.extra-index-url='https://u:secret@more.example/simple'\\n" ;;
*--report*) echo '{"install":[{"download_info":{"url":"https://files.example/packages/ab/pip-1-py3-none-any.whl"}}]}' ;;
*) exit 9 ;;
esac"""
APT = ('test "$1 $2" = "indextargets --format" || exit 9\n'
       "printf 'http://deb.example/debian/ yes /etc/apt/sources.list:1\\nhttps://own.example/apt/ yes /etc/apt/own.list:2\\n'")


def test_tools_are_asked_for_what_they_use(tools, tmp_path):
    for name, script in (("npm", NPM), ("pip", PIP), ("apt-get", APT)):
        tools.write(name, script)
    wanted = {"npm": ["allow npm.example GET,HEAD /** id=npm-1 enc-slash=literal query=deny", "# npm config list: @own:registry"],
              "pip": ["allow index.example GET,HEAD /simple/** id=pip-index", "allow more.example", "import with --online"],
              "apt": ["allow deb.example:80 GET,HEAD /debian/** id=apt-1", "# apt-get indextargets: /etc/apt/own.list:2"]}
    for source, lines in wanted.items():
        done = tools.ask(source, "-o", tmp_path / f"{source}.allow")
        assert (done.returncode, done.stderr) == (0, ""), done
        text = (tmp_path / f"{source}.allow").read_text()
        assert all(line in text for line in lines) and "secret" not in text and "files.example" not in text, text
        assert_good(tmp_path / f"{source}.allow")


@pytest.mark.skipif(os.getuid() != 0, reason="needs a network namespace, so that no name is asked of a real server")
def test_online_asks_pip_for_the_files_and_looks_names_up(tools):
    tools.write("pip", PIP)
    done = tools.ask("pip", "--online")
    assert done.returncode == 0 and "allow files.example GET,HEAD /packages/** id=pip-files" in done.stdout
    assert "index.example has no address here" in done.stdout
    tools.write("pip", PIP.replace("*--report*) echo", "*--report*) echo offline >&2; exit 1; echo"))
    done = tools.ask("pip", "--online")
    assert done.returncode == 1 and "allow index.example" in done.stdout
    assert "not imported: the host of the files: pip failed: offline" in done.stderr
    tools.write("npm", NPM.replace("npm.example", "localhost"))
    done = tools.ask("npm", "--online")
    assert done.returncode == 0 and "localhost is at 127.0.0.1 (loopback), which an import does not open" in done.stdout
    assert "addr=" not in done.stdout


def test_a_tool_gets_few_variables_and_no_input(tools):
    tools.write("npm", "env | sort >env; cat >input; " + NPM)
    done = tools.ask("npm", env={"SECRET_TOKEN": "x", "NODE_OPTIONS": "x", "LD_PRELOAD": "", "npm_config_registry": "https://x.example",
                                 "HTTPS_PROXY": "http://x"}, input="typed")
    assert done.returncode == 0
    names = {line.split("=")[0] for line in (tools.home / "env").read_text().splitlines()} - {"PWD", "_", "SHLVL", "OLDPWD"}
    assert names == {"PATH", "HOME", "LC_ALL", "COLUMNS", "npm_config_registry"}
    assert (tools.home / "input").read_text() == ""


@pytest.mark.parametrize("script, says", [
    ("echo no >&2; echo why >&2; exit 3", "npm failed: why"),
    ("echo nonsense", "npm did not answer with one JSON object"),
    ("yes '{' | head -c 9000000", "npm wrote more than 8 MiB"),
    ("printf '\\033[31mred' >&2; exit 1", "npm failed: \\x1b[31mred"),
])
def test_a_tool_that_fails_is_told_in_one_line(tools, script, says):
    tools.write("npm", script)
    done = tools.ask("npm")
    assert done.returncode in (1, 2) and done.stdout == ""
    assert says in done.stderr and len(done.stderr.splitlines()) == 1, done


def test_a_tool_that_is_not_there(tools):
    done = tools.ask("npm", env={"PATH": str(tools.folder)})
    assert (done.returncode, done.stderr) == (2, "eclusa policy: there is no npm in PATH\n")


def test_a_program_in_the_working_folder_is_not_taken(tools):
    path = tools.home / "npm"
    path.write_text("#!/bin/sh\n" + NPM)
    path.chmod(0o755)
    assert tools.ask("npm", env={"PATH": f".::{tools.folder}"}).returncode == 2


def test_what_a_tool_leaves_behind_does_not_hold_the_import(tools):
    """A child that keeps the pipe is waited for no longer than the tool's time; one that does not is not waited for."""
    tools.write("npm", NPM + "\nsleep 300 >/dev/null 2>&1 & echo $! >child")
    started = time.monotonic()
    assert tools.ask("npm").returncode == 0
    assert time.monotonic() - started < 30
    os.kill(int((tools.home / "child").read_text()), 9)


@pytest.mark.skipif(os.getuid() != 0, reason="is about root")
@pytest.mark.parametrize("whose", ["program", "home", "folder"])
def test_root_does_not_obey_files_of_somebody_else(tools, whose):
    path = tools.write("npm", "touch ran; " + NPM)
    place = {"program": path, "home": tools.home, "folder": tools.home}[whose]
    os.chown(place, 65534, 65534)
    env = {"HOME": "/root"} if whose == "folder" else {}
    done = tools.ask("npm", env=env)
    assert done.returncode == 2 and "is not root's alone" in done.stderr, done
    assert not (tools.home / "ran").exists()


# The loop, in the laboratory

def imported(source, name, tmp_path):
    """The import of this machine's own tool, set to the laboratory by a variable; its host is on a private network there."""
    variable = {"npm": {"npm_config_registry": f"https://{REGISTRY}/"}, "pip": {"PIP_INDEX_URL": f"https://{INDEX}/simple"}}[source]
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    done = tool("import", "--from", source, cwd=home, env={"PATH": "/usr/bin:/bin", "HOME": str(home), **variable})
    assert done.returncode == 0, done.stderr
    text = done.stdout.replace(f"id={name}", f"id={name} addr={ORIGIN}/32")
    path = tmp_path / f"{source}.allow"
    path.write_text(text)
    assert tool("test", path).returncode == 0
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    return str(path)


NPM_INSTALL = ("mkdir /tmp/app && cd /tmp/app && npm install --no-audit --no-fund --no-update-notifier --fetch-retries 0 "
               f"--registry https://{REGISTRY}/ labmodule && node -p 'require(\"labmodule\")'")
LIMITS = ["--timeout", "60s", "--cpu-time", "60s", "--memory", "1G"]


@pytest.mark.skipif(not shutil.which("npm", path="/usr/bin"), reason="there is no npm in /usr/bin")
def test_npm_runs_under_what_was_imported_from_it(services, who, tmp_path):  # noqa: F811
    policy = imported("npm", "npm-1", tmp_path)
    mark = services.origin.connections.mark()
    run = run_eclusa(services, LIMITS, ["/bin/sh", "-c", NPM_INSTALL], policy=policy, user=who)
    assert run.status == 0 and "42\n" in run.output, run.report()
    assert {r.host for r in services.origin.requests(mark)} == {REGISTRY}
    assert {e["status_code"] for e in run.decisions()} == {"allow.rule"}, run.report()
    mark = services.origin.connections.mark()
    publish = f"import requests; print(requests.put('https://{REGISTRY}/labmodule', data='x').text)"
    run = run_eclusa(services, LIMITS, ["/usr/bin/python3", "-c", publish], policy=policy, user=who)
    assert "deny.method" in run.output, "C" + run.report()
    assert not services.origin.requests(mark), "U"
    assert "deny.method" in {e["status_code"] for e in run.decisions()}, "L" + run.report()
    services.canary.assert_silent()


def test_pip_reads_the_index_that_it_is_set_to_and_no_files_elsewhere(services, who, tmp_path):  # noqa: F811
    policy = imported("pip", "pip-index", tmp_path)
    script = ("/usr/bin/python3 -m pip install --no-input --disable-pip-version-check --retries 0 "
              f"--index-url https://{INDEX}/simple --target /tmp/site labpackage")
    mark = services.origin.connections.mark()
    run = run_eclusa(services, LIMITS, ["/bin/sh", "-c", script], policy=policy, user=who)
    assert run.status not in (0, 124, 125), run.report()
    assert [r.target for r in services.origin.requests(mark)] == ["/simple/labpackage/"], "U: the page, not the file"
    assert [e["status_code"] for e in run.decisions()] == ["allow.rule", "deny.path"], "L" + run.report()
    services.canary.assert_silent()
    with open(policy, "a", encoding="utf-8") as file:  # what --online, or a look at the denial, adds
        file.write(f"allow {INDEX} GET,HEAD /files/** query=deny id=pip-files addr={ORIGIN}/32\n")
    run = run_eclusa(services, LIMITS, ["/bin/sh", "-c", script], policy=policy, user=who)
    assert run.status == 0, run.report()
