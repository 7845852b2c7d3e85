"""The repository's own promises: gates that catch what they should, packages installed only if missing, an install tree."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("BUILD", str(ROOT / "build"))


def run(*argv, **options):
    return subprocess.run(argv, capture_output=True, text=True, timeout=400, check=False, **options)


@pytest.fixture(name="tree", scope="module")
def fixture_tree(tmp_path_factory):
    """A copy of a part of the source tree, a git repository of its own: enough for the gates to have work, and little of it."""
    copy = tmp_path_factory.mktemp("tree")
    wanted = ["Makefile", "VERSION", ".clang-format", "*/module.mk", "tests/check*", "common/slice.*", "packaging/*.sh", "docs/man/*"]
    for path in [path for pattern in wanted for path in ROOT.glob(pattern)]:
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    assert run("git", "init", "-q", cwd=copy).returncode == 0
    return copy


LONG_FUNCTION = "int long_one(int n)\n{\n" + "\tn++;\n" * 101 + "\treturn n;\n}\n"

VIOLATIONS = [
    ("format", "common/bad.c", "int  x;\n", "clang-formatted"),
    ("folders", "policy/bad.c", '#include "netd/netns.h"\n', "policy may not include netd/netns.h"),
    ("folders", "common/bad.c", '#include "slice.h"\n', "by path from the root"),
    ("folders", "proxy/bad.c", "#include <openssl/ssl.h>\n", "<openssl/ssl.h> is for"),
    ("folders", "cli/bad.c", "#include <seccomp.h>\n", "<seccomp.h> is for"),
    ("words", "audit/bad.c", "int f(char *a, char *b)\n{\n\treturn sprintf(a, b);\n}\n", "sprintf() is banned"),
    ("words", "cli/bad.c", "static int flag = SECCOMP_USER_NOTIF_FLAG_CONTINUE;\n", "CONTINUE is banned"),
    ("words", "audit/bad.c", "/* " + "TO" + "DO: later */\n", "unfinished"),
    ("sizes", "ipc/bad.c", LONG_FUNCTION, "long_one() has 105 lines"),
    ("sizes", "ipc/bad.c", "\n" * 801, "801 lines, at most 800"),
    ("headers", "ipc/bad.h", "struct a { uint64_t b; };\n", "uint64_t"),
    ("gcc", "ipc/bad.c", "int f(void)\n{\n\tint a = 1L << 40;\n\treturn a;\n}\n", "error"),
    ("clang", "ipc/bad.c", "int f(void)\n{\n\treturn 0;\n}\n", "missing-prototypes"),
    ("analyzer", "ipc/bad.c", "int f(int *a);\nint f(int *a)\n{\n\tif (a)\n\t\treturn 0;\n\treturn *a;\n}\n", "null pointer"),
    ("shell", "packaging/bad.sh", "#!/bin/sh\nrm $1/*\n", "SC2086"),
    ("manual", "docs/man/bad.1", ".Dd November 29, 2026\n.Dt BAD 1\n.Os\n.Sh NAME\n.Xy\n", "docs/man/bad.1"),
    ("python", "tests/bad.py", "def f(:\n", "tests/bad.py:1"),
]


@pytest.mark.parametrize("check, name, text, finding", VIOLATIONS, ids=[f"{v[0]}-{i}" for i, v in enumerate(VIOLATIONS)])
def test_a_gate_catches_what_it_is_for(tree, check, name, text, finding):
    bad = tree / name
    bad.parent.mkdir(parents=True, exist_ok=True)
    bad.write_text(text, encoding="utf-8")
    try:
        done = run("tests/check.sh", check, cwd=tree)
    finally:
        bad.unlink()
    assert done.returncode == 1, done.stdout + done.stderr
    assert finding in done.stdout
    assert done.stdout.endswith("0 passed, 1 failed, 0 skipped\n")


def test_banned_words_in_comments_and_strings_are_no_calls(tree):
    fine = tree / "audit/fine.c"
    fine.write_text('/* not sprintf() */\nconst char *const name = "system(3)";\n', encoding="utf-8")
    try:
        done = run("tests/check.sh", "words", cwd=tree)
    finally:
        fine.unlink()
    assert "fine.c" not in done.stdout


@pytest.fixture(name="fakes")
def fixture_fakes():
    """Package tools that lack one package, and write down what they are asked to do; for any user."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        yield make_fakes(folder)


def make_fakes(folder):
    tools = {
        "dpkg-query": 'for last; do :; done; [ "$last" = "$MISSING" ] && exit 1; echo -n installed',
        "apt-cache": "exit 0",
        "apt-get": 'echo "$@" >>"$CALLS"; [ -x /usr/sbin/policy-rc.d ] && /usr/sbin/policy-rc.d; echo "rc $?" >>"$CALLS"; exit 0',
    }
    for name, body in tools.items():
        (folder / name).write_text("#!/bin/sh\n" + body + "\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    calls = folder / "calls"
    calls.touch()
    calls.chmod(0o666)
    return {"PATH": f"{folder}:/usr/bin:/bin", "CALLS": str(calls), "MISSING": "none"}, calls


def test_nothing_is_installed_when_nothing_is_missing(fakes):
    environment, calls = fakes
    done = run(ROOT / "packaging/deps.sh", "deps", "deps-test", "deps-bench", "deps-v2", env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert calls.read_text() == ""


@pytest.mark.skipif(os.getuid() != 0, reason="needs a mount namespace")
def test_only_what_is_missing_is_installed_and_no_service_may_start(fakes):
    environment, calls = fakes
    script = f"mount -t tmpfs none /usr/sbin && {ROOT}/packaging/deps.sh deps && ls -A /usr/sbin"
    done = run("unshare", "--mount", "sh", "-c", script, env=dict(environment, MISSING="libnftnl-dev"))
    assert done.returncode == 0, done.stderr
    asked, forbidden = calls.read_text().splitlines()
    assert asked.endswith("--no-install-recommends install libnftnl-dev")
    assert forbidden == "rc 101"
    assert done.stdout == "deps: installing libnftnl-dev\n"  # and the file is gone again


@pytest.mark.skipif(os.getuid() != 0, reason="changes the user")
def test_an_ordinary_user_is_told_what_is_missing(fakes):
    environment, calls = fakes
    script = (ROOT / "packaging/deps.sh").read_text()
    done = run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-s", "--", "deps",
               input=script, env=dict(environment, MISSING="jq"), cwd="/")
    assert done.returncode == 1
    assert "apt-get install --no-install-recommends jq" in done.stderr
    assert calls.read_text() == ""


def test_an_unknown_set_of_packages_is_refused():
    assert run(ROOT / "packaging/deps.sh", "everything").returncode == 2


def test_install_puts_everything_below_destdir(tmp_path):
    done = run("make", "-s", f"BUILD={BUILD}", f"DESTDIR={tmp_path}", "PREFIX=/usr", "LIBEXECDIR=/usr/local/libexec/eclusa",
               "install", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert {"usr/bin/eclusa", "usr/local/libexec/eclusa/eclusa-netd", "usr/local/libexec/eclusa/eclusa-proxy",
            "usr/share/man/man1/eclusa-run.1", "usr/share/man/man8/eclusa-proxy.8", "usr/share/doc/eclusa/README.md",
            "usr/share/man/man1/eclusa-serve.1", "usr/share/bash-completion/completions/eclusa",
            "usr/lib/systemd/system/eclusa-serve.service", "usr/lib/systemd/system/eclusa-export.service"} <= found
    for unit in ("eclusa-serve", "eclusa-export"):
        text = (tmp_path / f"usr/lib/systemd/system/{unit}.service").read_text()
        program, = re.findall(r"^ExecStart=(\S+)", text, re.M)
        assert (tmp_path / program[1:]).name in os.listdir(tmp_path / "usr/bin") and program.startswith("/usr/bin/"), text
    version = run(str(tmp_path / "usr/bin/eclusa"), "--version")
    assert version.returncode == 0
    assert (ROOT / "VERSION").read_text().strip() in version.stdout


def test_links_of_the_pages_hold_here_and_where_they_are_installed(tmp_path):
    places = [f"DESTDIR={tmp_path}", "PREFIX=/usr"]
    assert run("make", "-s", f"BUILD={BUILD}", *places, "install", cwd=ROOT).returncode == 0
    pages = 0
    for folder in (ROOT, tmp_path / "usr/share/doc/eclusa"):
        for page in [*folder.glob("*.md"), *folder.glob("docs/**/*.md"), *folder.glob("allowlists/*.md")]:
            links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
            assert [link for link in links if not (page.parent / link).exists()] == [], page
            pages += 1
    assert pages > 20
    (tmp_path / "usr/bin/other").write_text("kept")
    done = run("make", "-s", f"BUILD={BUILD}", *places, "uninstall", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["other"]
    assert not (tmp_path / "usr/share/doc/eclusa").exists() and not (tmp_path / "usr/libexec/eclusa").exists()


def test_the_index_of_decisions_is_complete():
    index = (ROOT / "docs/decisions/README.md").read_text()
    pages = sorted(path.name for path in ROOT.glob("docs/decisions/0*.md"))
    assert pages and re.findall(r"\((0[^)]+)\)", index) == pages


@pytest.mark.parametrize("command, known", [("run", {"--allow", "--in", "--out", "--timeout"}), ("policy", {"--strict", "--sarif", "--at"}),
                                            ("audit", {"--pub", "--from", "--key"}), ("serve", {"--policy", "--leases", "--ca-key"}), ("env", {"--ca", "--dotenv"})])
def test_every_option_is_in_the_manual_and_the_completion(command, known):
    shown = run(f"{BUILD}/eclusa", command, "--help")
    assert shown.returncode == 0
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", shown.stdout)) - {"--help"}
    assert known <= options
    page = (ROOT / f"docs/man/eclusa-{command}.1").read_text().replace("\\-", "-")
    completion = (ROOT / "packaging/completion/eclusa.bash").read_text()
    missing = [option for option in sorted(options) if not re.search(rf"(Fl|\|) (\w , )?-{option[2:]}\b", page)]
    assert missing == []
    assert [option for option in sorted(options) if option not in completion] == []


def test_every_option_of_the_proxy_is_in_its_manual_and_completion():
    shown = run(f"{BUILD}/eclusa-proxy", "--help")
    assert shown.returncode == 0
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", shown.stdout))
    assert {"--listen", "--state-dir", "--ca-key"} <= options
    page = (ROOT / "docs/man/eclusa-proxy.8").read_text()
    completion = (ROOT / "packaging/completion/eclusa-proxy.bash").read_text()
    assert [option for option in sorted(options) if f"Fl {option[1:]}" not in page] == []
    assert [option for option in sorted(options) if option not in completion] == []
    described = set(re.findall(r"Fl -([a-z][a-z-]*)", page))
    assert sorted(described - {option[2:] for option in options}) == []


def sources(*patterns):
    return "\n".join(path.read_text() for pattern in patterns for path in sorted(ROOT.glob(pattern)))


def test_the_page_of_limits_names_those_of_the_code():
    page = (ROOT / "docs/limits.md").read_text()
    named = set(re.findall(r"`([A-Z0-9]+_[A-Z0-9_]+)`", page))
    defined = set(re.findall(r"#define\s+([A-Z0-9_]+)", sources("*/*.[ch]")))
    assert sorted(name for name in named - defined if not name.startswith("RLIMIT_")) == []  # those are the kernel's
    wanted = set(re.findall(r"#define ([A-Z0-9_]+) +[(\d\\I]", sources("proxy/limits.h")))
    assert len(wanted) > 20
    assert sorted(wanted - named) == []


def test_the_page_of_limits_has_the_settings_with_their_defaults():
    page = (ROOT / "docs/limits.md").read_text()
    body = re.search(r"struct limits limits_default\(void\)\n\{(.*?)\n\}", sources("proxy/limits.c"), re.S).group(1)
    defaults = re.findall(r"\.(\w+) = (\d+),", body)
    assert len(defaults) >= 10
    for key, number in defaults:
        row = next((line for line in page.splitlines() if f"| `{key}` |" in line), "")
        assert f"| {int(number):,}" in row, f"{key} = {number}"
