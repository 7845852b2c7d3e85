"""
Observe, suggest, enforce: a run in observe mode leaves a log from which `eclusa policy suggest` makes rules; the same run passes under
them without a denial, and whatever it did not do is denied.
"""
import base64
import hashlib
import json
import shutil
import subprocess

import pytest

from clients.packages import tarball_of_module, wheel_of_package
from lab.eclusa import program, run_eclusa
from lab.origin import answer
from lab.world import ORIGIN, PUBLIC
from test_replay import event

INDEX, REGISTRY = "index.test", "registry.test"
MARK = "TO" + "DO"
OBSERVING = "policy 1\n\n[profile p]\nset mode observe\n"


def tool(*words, **more):
    return subprocess.run([program(), "policy", *map(str, words)], capture_output=True, text=True, timeout=60, **more)


def suggest(*words, status=0):
    ran = tool("suggest", *words)
    assert ran.returncode == status, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def services(lab):
    """An index and a registry at public addresses, as real ones are. Names of modules are scoped: a path with an encoded slash."""
    for name in (INDEX, REGISTRY, "allowed.test", "upload.test"):
        lab.dns.zone[name] = [PUBLIC]
    package, module = wheel_of_package(), tarball_of_module()
    digest = hashlib.sha256(package).hexdigest()
    page = f'<!DOCTYPE html><a href="/files/labpackage-1.0-py3-none-any.whl#sha256={digest}">labpackage</a>'.encode()
    lab.origin.on("/simple/labpackage/", answer("200 OK", page, ["Content-Type: text/html"]))
    lab.origin.on("/files/labpackage-1.0-py3-none-any.whl", answer("200 OK", package, ["Content-Type: application/zip"]))
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(module).digest()).decode()
    document = {"name": "@lab/labmodule", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
        "name": "@lab/labmodule", "version": "1.0.0", "main": "index.js",
        "dist": {"tarball": f"https://{REGISTRY}/@lab/labmodule/-/labmodule-1.0.0.tgz", "integrity": integrity}}}}
    body = answer("200 OK", json.dumps(document).encode(), ["Content-Type: application/json"])
    lab.origin.on("/@lab%2flabmodule", body)
    lab.origin.on("/@lab%2Flabmodule", body)
    lab.origin.on("/@lab/labmodule/-/labmodule-1.0.0.tgz", answer("200 OK", module, ["Content-Type: application/octet-stream"]))
    return lab


PIP = ["/bin/sh", "-c", "/usr/bin/python3 -m pip install --no-input --disable-pip-version-check --retries 1 "
       f"--index-url https://{INDEX}/simple --target /tmp/site labpackage && "
       "PYTHONPATH=/tmp/site /usr/bin/python3 -c 'import labpackage; print(labpackage.ANSWER)'"]
NPM = ["/bin/sh", "-c", "mkdir /tmp/app && cd /tmp/app && npm install --no-audit --no-fund --no-update-notifier "
       f"--fetch-retries 0 --registry https://{REGISTRY}/ @lab/labmodule && node -p 'require(\"@lab/labmodule\")'"]
ARGS = ["--timeout", "60s", "--cpu-time", "60s", "--memory", "1G"]


@pytest.mark.parametrize("client", ["pip", "npm"])
def test_the_loop_closes(services, who, client, tmp_path):
    if client == "npm" and not shutil.which("npm", path="/usr/bin"):
        pytest.skip("there is no npm in /usr/bin")
    command, host = (PIP, INDEX) if client == "pip" else (NPM, REGISTRY)
    observed = run_eclusa(services, ARGS, command, policy=services.write("observing.allow", OBSERVING), user=who)
    assert observed.status == 0 and "42\n" in observed.output, observed.report()
    requests = observed.result["network"]["decisions"]["observed"]
    events = [e for e in observed.decisions() if e["http_request"]["http_method"] != "CONNECT"]
    assert requests == len(events) > 0, observed.report()
    assert {e["status_code"] for e in events} == {"observe.would-deny"}, observed.report()
    assert any("only by observe mode" in hint for hint in observed.result["hints"])

    text = suggest(observed.result["audit"])
    assert f"\nallow {host} GET" in text and text.count(f"ticket={MARK}") == text.count("\nallow ")
    assert "query=deny" in text and "**" not in text
    assert ("enc-slash=literal" in text) == (client == "npm")
    path = services.write(f"suggested-{client}.allow", text)
    assert tool("test", path).returncode == 0 and tool("fmt", "--check", path).returncode == 0
    replayed = tool("replay", observed.result["audit"], path)
    assert replayed.returncode == 0 and ", 0 flip" in replayed.stdout, replayed.stdout

    enforced = run_eclusa(services, ARGS, command, policy=path, user=who)
    assert enforced.status == 0 and "42\n" in enforced.output, enforced.report()
    assert enforced.result["denials"] == [] and enforced.result["network"]["decisions"]["observed"] == 0
    assert {e["status_code"] for e in enforced.decisions()} == {"allow.rule"}, enforced.report()

    mark, questions = services.origin.connections.mark(), services.dns.log.mark()
    outside = ["/bin/sh", "-c", f"curl -sS --fail https://{host}/other; curl -sS --fail https://allowed.test/; false"]
    denied = run_eclusa(services, ARGS, outside, policy=path, user=who)
    assert denied.status == 1, "C" + denied.report()
    assert not [r for r in services.origin.requests(mark) if r.path == "/other"], "U"
    assert "allowed.test" not in {q.name for q in services.dns.log.since(questions)}, "U"
    assert {d["reason"] for d in denied.result["denials"]} == {"deny.path", "deny.default"}, "L" + denied.report()
    services.canary.assert_silent()


def test_writes_and_private_addresses_take_a_flag(services, who):
    """What a program sends, and hosts inside, are told but not allowed, until a person says so; then the same run passes."""
    services.dns.zone["inside.test"] = [ORIGIN]
    observing = services.write("observing.allow", OBSERVING + f"allow inside.test /never addr={ORIGIN}/32\n")
    command = ["/bin/sh", "-c", "curl -sS --fail -d data https://upload.test/up && curl -sS --fail https://inside.test/in"]
    observed = run_eclusa(services, ARGS, command, policy=observing, user=who)
    assert observed.status == 0, observed.report()
    ran = tool("suggest", observed.result["audit"])
    assert ran.returncode == 1 and "\nallow " not in ran.stdout
    assert [line for line in ran.stderr.splitlines() if "--allow-write" in line and "1 requests" in line]
    assert [line for line in ran.stderr.splitlines() if "--allow-private" in line and "1 requests" in line]
    assert "# 1 POST to upload.test:443 (p): they write; taken in by --allow-write\n" in ran.stdout
    path = services.write("refusing.allow", ran.stdout)
    denied = run_eclusa(services, ARGS, command, policy=path, user=who)
    assert denied.status != 0 and denied.result["network"]["decisions"]["allowed"] == 0, denied.report()

    path = services.write("writing.allow", suggest("--allow-write", "--allow-private", observed.result["audit"]))
    enforced = run_eclusa(services, ARGS, command, policy=path, user=who)
    assert enforced.status == 0 and enforced.result["denials"] == [], enforced.report()
    services.canary.assert_silent()


@pytest.fixture
def log(tmp_path):
    def write(*lines):
        path = tmp_path / "log.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path
    return write


def observed_event(number, method, host, path, **more):
    return event(number, method, host, path, "observe.would-deny", would="deny.default", **{"ip": "5.6.7.8", **more})


def test_what_it_says_as_json(log):
    path = log(observed_event(1, "GET", "a.test", "/x"), observed_event(2, "PUT", "a.test", "/x"), observed_event(3, "GET", "a..test", "/"))
    ran = tool("suggest", "--json", path)
    said = json.loads(ran.stdout)
    assert ran.returncode == 1 and (said["rules"], said["requests"], said["not_valid"], said["too_many"]) == (1, 2, 1, 0)
    assert said["left_out"] == [{"profile": "p", "host": "a.test", "port": 443, "method": "PUT", "path": "/x", "why": "they write",
                                 "option": "--allow-write", "requests": 1}]
    assert said["policy"] == tool("suggest", path).stdout


def test_several_logs_and_folders_and_profiles(log, tmp_path):
    path = log(observed_event(1, "GET", "a.test", "/x"), observed_event(2, "GET", "b.test", "/x", profile="other"))
    text = suggest(path, tmp_path)
    assert text.count("# 1 request,") == 2 and "\n[profile other]\n" in text, "an event counts once"
    assert "other" not in suggest("--profile", "p", tmp_path)


def test_hosts_fold_on_request(log):
    path = log(*[observed_event(n, "GET", f"n{n}.cdn.example", f"/o/{n}00") for n in range(1, 6)])
    ran = tool("suggest", path)
    assert ran.returncode == 0 and "*" not in ran.stdout and "--fold" in ran.stderr
    text = suggest("--fold", path)
    assert text.count("\nallow ") == 1 and "\nallow *.cdn.example GET /o/* query=deny " in text
    again = tool("replay", path, log_policy(path, text))
    assert again.returncode == 0 and again.stdout == "5 judged, 0 flip\n"


def log_policy(beside, text):
    path = beside.parent / "suggested.allow"
    path.write_text(text)
    return path


HOSTILE = "evil.test\nallow evil.test"


def test_hostile_lines_make_no_policy(log):
    """A log from elsewhere: no line of it becomes policy text, whatever it says of hosts, methods, paths and profiles."""
    lines = [observed_event(1, "GET", HOSTILE, "/"), observed_event(2, "GET\nallow evil.test", "a.test", "/"),
             observed_event(3, "GET", "a.test", "/\nallow evil.test"), observed_event(4, "GET", "a.test", "/", profile="p]\nallow evil.test\n[profile q"),
             observed_event(5, "GET", "a.test ticket=evil", "/"), observed_event(6, "GET", "a.test", "/x\" evil=\""),
             observed_event(7, "GET", "any", "/"), "{\"evil\":", "[" * 5000, observed_event(8, "GET", "a.test", "/\u2028evil")]
    ran = tool("suggest", "--allow-write", "--allow-private", "--fold", log(*lines))
    assert ran.returncode == 1
    assert "evil" not in ran.stdout and "\nallow " not in ran.stdout, ran.stdout
    assert "left out: 7 events that are no valid request" in ran.stderr, ran.stderr
    assert tool("lint", log_policy(log(), ran.stdout)).returncode != 2


@pytest.mark.parametrize("words", [(), ("/nonexistent",), ("--write", "LOG"), ("--profile",), ("/dev/null",)])
def test_usage_and_unreadable(log, words):
    ran = tool("suggest", *[{"LOG": log()}.get(word, word) for word in words])
    assert (ran.returncode, ran.stdout) == (2, "") and len(ran.stderr.splitlines()) == 1


def test_a_log_without_observing_is_an_empty_policy(log):
    ran = tool("suggest", log(event(1, "GET", "a.test", "/")))
    assert ran.returncode == 0 and "allow" not in ran.stdout and "no request" in ran.stderr
