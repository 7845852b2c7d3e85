"""
What a person or an agent is told: which word was wrong, what was lost, what was refused or failed and what to write where.
Each is one behaviour with its opposite: a hint that can't be followed is worse than none.
"""
import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile

import pytest

from lab.eclusa import Launch, network_args, program, run_eclusa

PYTHON = "/usr/bin/python3"
UNSEEN = "is a file of yours that the sandbox does not see"


class Desk:
    """A folder with a user's files, and eclusa called from it."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="messages-")
        os.mkdir(os.path.join(self.folder, "src"))
        self.write("fetch.py", "print(1)\n")
        self.write("src/app.py", "import sys; sys.exit(3)\n")
        self.write("x1.py", f"#!{PYTHON}\nimport sys; sys.exit(3)\n", 0o755)
        self.write("x2.py", "print(1)\n", 0o755)
        self.write("x3.py", "#!/opt/nothing\n", 0o755)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def run(self, *args, **more):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        words = [program(), "run", "--audit-dir", os.path.join(self.folder, "audit"), *args]
        done = subprocess.run(words, cwd=self.folder, timeout=60, check=False, text=True, **{**options, **more})
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def desk():
    if os.geteuid() != 0:
        pytest.skip("needs root")
    made = Desk()
    yield made
    shutil.rmtree(made.folder)


# Files

@pytest.mark.parametrize("args, hint", [
    (["--", PYTHON, "fetch.py"], f"fetch.py {UNSEEN}: --in fetch.py\n"),
    (["--", "./fetch.py"], f"./fetch.py {UNSEEN}: --in fetch.py\n"),
    (["--", PYTHON, "src/app.py"], f"src/app.py {UNSEEN}: --in src\n"),
    (["--in", "src/app.py", "--", PYTHON, "src/app.py"], "src/app.py is /work/app.py inside: call it app.py\n"),
    (["--in", "fetch.py:a.py", "--", PYTHON, "fetch.py"], "fetch.py is /work/a.py inside: call it a.py\n"),
    (["--in", "fetch.py", "--", "./fetch.py"], "./fetch.py is not executable: chmod +x ./fetch.py"),
    (["--in", "x2.py", "--", "./x2.py"], "./x2.py has no #! line"),
    (["--in", "x3.py", "--", "./x3.py"], "the interpreter in the #! line of ./x3.py is not in the sandbox"),
])
def test_a_hint_on_a_file_can_be_followed(desk, args, hint):
    err = desk.run(*args)[2]
    assert hint in err
    assert err.count(UNSEEN) == hint.count(UNSEEN)


def test_a_file_of_elsewhere_is_named_and_how_it_is_called(desk):
    path = os.path.join(desk.folder, "fetch.py")
    assert f"{path} {UNSEEN}: --in {path}, and call it fetch.py\n" in desk.run("--", PYTHON, path)[2]
    assert f"{path} is /work/fetch.py inside: call it fetch.py\n" in desk.run("--in", path, "--", PYTHON, path)[2]


@pytest.mark.parametrize("args", [["--in", "x1.py", "--", "./x1.py"], ["--in", "src", "--", PYTHON, "src/app.py"]])
def test_a_program_that_saw_its_file_and_failed_gets_no_hint_on_it(desk, args):
    status, _, err = desk.run(*args)
    assert status == 3
    assert UNSEEN not in err and "inside" not in err


def test_hints_are_apart_from_errors(desk):
    result = json.loads(desk.run("--json", "--", PYTHON, "fetch.py")[1])
    assert result["errors"] == []
    assert result["hints"] == [f"fetch.py {UNSEEN}: --in fetch.py"]


# Streams

@pytest.mark.parametrize("args", [["--", "echo", "x"], ["--", "seq", "1000000"], ["--json", "--", "true"], ["-q", "--", "echo"]])
def test_output_that_is_lost_is_an_error(desk, args):
    with open("/dev/full", "w", encoding="utf-8") as full:
        status, _, err = desk.run(*args, stdout=full)
    assert status == 125
    assert err.count("\n") == 1 and "standard output" in err and "No space left on device" in err


@pytest.mark.parametrize("args", [["--", "echo", "x"], ["--json", "--", "true"]])
def test_a_closed_standard_output_is_an_error(desk, args):
    words = [program(), "run", "--audit-dir", os.path.join(desk.folder, "audit"), *args]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 125 and b"standard output" in done.stderr


def test_a_reader_who_went_away_is_named(desk):
    for quiet, said in (([], "eclusa: standard output: nobody reads it any more\n"), (["-q"], "")):
        read, write = os.pipe()
        os.close(read)
        status, _, err = desk.run(*quiet, "--", "seq", "1000000", stdout=write)
        os.close(write)
        assert (status, err) == (128 + signal.SIGPIPE, said)


def test_results_that_are_lost_are_counted_and_the_folder_named(desk):
    desk.write("src/a", "old")
    args = ["--out", "src", "--", "sh", "-c", "echo new | tee /out/a >/out/b"]
    status, _, err = desk.run(*args)
    assert status == 125
    assert "eclusa: results: 1 lost, as they could not be put into src; 1 are there\n" in err
    assert "/out/a: exists in the target folder: --overwrite replaces it\n" in err
    for name in ("a", "b"):
        os.unlink(os.path.join(desk.folder, "src", name))


def test_input_that_waits_is_named(desk):
    path = os.path.join(desk.folder, "fetch.py")
    for args, said in ((["--", "wc", "-l"], True), (["-q", "--", "wc", "-l"], False), (["-i", "--", "wc", "-l"], False)):
        with open(path, "rb") as file:
            assert ("-i passes it" in desk.run(*args, stdin=file)[2]) == said
    assert "-i passes it" not in desk.run("--", "wc", "-l")[2]


def terminal(words, after=None, signals=0):
    """Runs @words with a terminal as standard error; sends SIGINT once @after is on it. @return status, what was on it."""
    main, side = pty.openpty()
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=side) as process:
        os.close(side)
        seen = b""
        while True:
            try:
                chunk = os.read(main, 4096)
            except OSError:  # the last holder of the other side is gone
                break
            seen += chunk
            if signals and after in seen:
                process.send_signal(signal.SIGINT)
                after, signals = b"^C again", signals - 1
        status = process.wait(timeout=60)
    os.close(main)
    return status, seen.decode()


def test_a_first_interrupt_says_what_a_second_one_does(desk):
    words = [program(), "run", "--audit-dir", os.path.join(desk.folder, "audit"), "--",
             "sh", "-c", "trap '' INT; echo up >&2; sleep 30"]
    status, seen = terminal(words, b"up", 2)
    assert status == 128 + signal.SIGINT
    assert seen.count("eclusa: waiting for the program to end; ^C again ends it") == 1


def test_a_terminal_is_told_what_an_ordinary_user_lacks(lab):
    for user, said in ((61234, 1), (None, 0)):
        audit = tempfile.mkdtemp(prefix="audit-", dir=lab.folder)
        start = Launch(lab, ["run", *network_args(lab, audit, ["allowed.test"]), "--", "true"], user=user, audit_dir=audit)
        status, seen = terminal(start.words)
        assert status == 0
        assert seen.count("eclusa: as an ordinary user: no packet filter around the proxy") == said, seen


# Wrong calls

@pytest.mark.parametrize("args, said", [
    (["--foo", "--json", "--", "true"], "unknown option"),
    (["--json", "--alow", "a.test", "--", "true"], "did you mean --allow?"),
    (["--json", "--allow", "--", "true"], "--allow needs RULE, and -- follows it"),
    (["--json", "-e", "--", "true"], "--env needs NAME[=VALUE], and -- follows it"),
    (["--json", "--memory", "1M", "--", "true"], "outside 4M to 64T"),
    (["--json"], "no program given"),
    (["--spec", "/nonexistent"], "No such file"),
    (["--json", "--out", "a", "--out", "b", "--", "true"], "--out is given twice"),
    (["--json", "--upstream-ca", "fetch.py", "--allow", "a.test", "--", "true"], "no PEM certificate"),
    (["--json", "--hosts", "fetch.py", "--allow", "a.test", "--", "true"], "no line ADDRESS NAME"),
    (["--json", "--hosts", "none", "--allow", "a.test", "--", "true"], "--hosts: none: No such file"),
    (["--json", "--upstream-ca", "none", "--allow", "a.test", "--", "true"], "--upstream-ca: none: No such file"),
    (["--json", "--resolver", "none", "--allow", "a.test", "--", "true"], "--resolver none: not ADDR[:PORT]"),
    (["--json", "--allow", "https://a.test/", "--", "true"], "a rule is no URL"),
])
def test_a_wrong_call_has_one_line_and_a_result(desk, args, said):
    status, out, err = desk.run(*args)
    result = json.loads(out)
    assert status == 125 and result["verdict"] == "setup"
    assert said in result["errors"][0] and said in err and err.count("\n") == 1


def test_a_second_policy_does_not_win_in_silence(desk):
    status, _, err = desk.run("--policy", "a", "--policy", "b", "--", "true")
    assert status == 125 and "--policy is given twice" in err


def test_help_and_version_are_where_one_looks_for_them(desk):
    assert desk.run("--version")[1].startswith("eclusa ")
    assert subprocess.run([program(), "help"], stdout=subprocess.PIPE, timeout=9, check=True).stdout.startswith(b"usage")


def test_a_variable_that_is_not_set_is_named(desk):
    assert "-e NOT_SET_HERE: not set here" in desk.run("-e", "NOT_SET_HERE", "--", "true")[2]


# Network

def plain(lab, args, command, policy, user=None):
    """A run with streams that pass through. @return status, standard error, what the audit folder holds."""
    audit = tempfile.mkdtemp(prefix="audit-", dir=lab.folder)
    start = Launch(lab, ["run", *network_args(lab, audit, policy), *args, "--", *command], user=user, audit_dir=audit)
    done = start.popen()
    err = done.communicate(timeout=60)[1].decode()
    return done.returncode, err, os.listdir(audit)


CURL = ["curl", "-sS", "-o", "/dev/null"]
ADDRESS = "addr=203.0.113.0/24"  # of the lab's servers


def test_without_a_network_the_failed_are_told(desk):
    hint = "this run has no network; if the program needs it: --allow HOST"
    assert hint in desk.run("--", "curl", "-sS", "https://data.example.com/")[2]
    assert hint not in desk.run("--", "true")[2]


def test_under_a_policy_the_hint_is_a_line_of_its_file(lab):
    policy = lab.write("hint.allow", f"policy 1\n[profile research]\nallow allowed.test GET /v1/** {ADDRESS}\n")
    _, err, logs = plain(lab, [], [*CURL, "https://allowed.test/v2"], policy)
    assert f"hint.allow:3); in {policy}, [profile research]: allow allowed.test /v2 {ADDRESS}\n" in err
    assert "--allow" not in err
    assert f"{next(name for name in logs if name[0].isdigit())}\n" in err
    run = run_eclusa(lab, [], [*CURL, "https://allowed.test/v2"], policy)
    denial = run.result["denials"][0]
    assert (denial["allow"], denial["allow_file"], denial["allow_profile"]) == (f"allowed.test /v2 {ADDRESS}", policy, "research")
    assert os.path.dirname(run.result["audit"]) == run.audit_dir and os.path.exists(run.result["audit"])
    lab.write("hint.allow", f"policy 1\n[profile research]\nallow allowed.test GET /v1/** {ADDRESS}\nallow {denial['allow']}\n")
    assert run_eclusa(lab, [], [*CURL, "https://allowed.test/v2"], policy).result["denials"] == []


def test_a_failed_request_is_told_with_its_reason(lab):
    _, err, _ = plain(lab, [], [*CURL, "https://nowhere.test/"], ["nowhere.test"])
    assert "eclusa: failed " in err and "nowhere.test:443" in err and "error.upstream: " in err and "audit log: " in err
    result = run_eclusa(lab, [], [*CURL, "https://nowhere.test/"], ["nowhere.test"]).result
    assert result["denials"] == [] and result["failures"][0]["reason"] == "error.upstream"
    assert result["failures"][0]["detail"]


def test_limits_that_nobody_watches_are_told_where_nothing_else_explains_the_end(lab):
    hint = "without a control group the end does not tell"
    for command, said in (([*CURL, "https://denied.test/"], 0), (["sh", "-c", "exit 7"], 1)):
        result = run_eclusa(lab, [], command, ["allowed.test"], user=61234).result
        assert result["verdict"] == "exit" and len(result["denials"]) == 1 - said
        watched = result["limits"]["cgroup"] != "none"
        assert sum(hint in h for h in result["hints"]) == (0 if watched else said), result["hints"]


def test_a_client_that_ignores_the_proxy_is_led_there_by_names_alone(lab):
    hint = "the program must use names"
    led = run_eclusa(lab, [], [*CURL, "--noproxy", "*", "https://allowed.test/"], [f"allowed.test {ADDRESS}"])
    assert led.status == 0 and led.result["hints"] == []
    denied = run_eclusa(lab, [], [*CURL, "--noproxy", "*", "https://denied.test/"], ["allowed.test"])
    assert [(d["host"], d["reason"]) for d in denied.result["denials"]] == [("denied.test", "deny.default")] and denied.result["hints"] == []
    direct = run_eclusa(lab, [], [*CURL, "--noproxy", "*", "https://203.0.113.10/"], ["allowed.test"])
    assert any("direct connections are refused: " + hint in line for line in direct.result["hints"])
    good = run_eclusa(lab, [], [*CURL, "https://allowed.test/"], [f"allowed.test {ADDRESS}"])
    assert good.status == 0 and good.result["hints"] == []
