"""
Cases A06, A11 and A12. A11: for every name of A01-A10 the same verdict and reason through each door that there is (CONNECT and
SOCKS5, absolute form, a request inside of a tunnel with and without TLS, and the transparent door, where DNS may stop it first) and by `eclusa policy explain`. A06 and A12: policy text that is
hostile is refused with its place, whoever reads it, and nothing is started under a part of it.
"""
import json
import os
import subprocess

import pytest

from lab.eclusa import USER_UID, program, run_eclusa
from lab.exchanges import connect as connect_step
from lab.exchanges import END, captured, exchange, fetch, response, send, socks, tls, tunnel
from lab.oracles import Batch
from lab.world import ORIGIN

# Every rule has both ports, so that a name is judged by nothing but its name, whatever the door.
POLICY = f"""policy 1

[profile parity]
allow allowed.test:80,443 GET,HEAD /** addr={ORIGIN}/32 id=name
allow *.wild.test:80,443 GET,HEAD /** addr={ORIGIN}/32 id=wild
allow paths.wild.test:80,443 GET,POST /v1/** query=deny addr={ORIGIN}/32 id=paths
deny secret.wild.test id=secret
deny paths.wild.test GET /v1/secret id=secret-path
"""

ALLOW, DEFAULT, RULE, INVALID, PORT = "allow.rule", "deny.default", "deny.rule", "deny.name-invalid", "deny.port"
NAMES = {
    "secret.wild.test": RULE, "secret.wild.test.": RULE, "allowed.test": ALLOW, "allowed.test.": ALLOW, "allowed.test..": INVALID,  # A01
    "SeCrEt.WILD.Test": RULE, "ALLOWED.TEST": ALLOW, "AnY.WiLd.TEST": ALLOW,  # A02
    "[denied.test]": INVALID, "[allowed.test]": INVALID, "[[::1]]": INVALID,  # A03
    "denied.test": DEFAULT, "notallowed.test": DEFAULT, "allowed.test.evil.test": DEFAULT, "evilwild.test": DEFAULT,  # A04
    "wild.test.evil.test": DEFAULT, "xallowed.test": DEFAULT,
    "wild.test": DEFAULT, "a.wild.test": ALLOW, "a.b.wild.test": DEFAULT, ".wild.test": INVALID, "a..wild.test": INVALID,  # A05
    "a_b.wild.test": ALLOW,
    **{f"denied.test{chr(byte)}.wild.test": INVALID for byte in (0x00, 0x01, 0x0b, 0x1b, 0x7f, 0x80, 0xff)},  # A07
    **{f"denied.test{text}.wild.test": INVALID for text in ("%23", "%00", "%2f", "%40", "%3a443", "%2e", "%", "%zz")},  # A08
    "allowed.test@denied.test": INVALID, "allowed.test\\@denied.test": INVALID, "denied.test#@allowed.test": INVALID,  # A09
    "denied.test?@allowed.test": INVALID, "": INVALID,
}
PORTS = {  # A10
    **{port: PORT for port in ("22", "25", "853", "8443", "65535")},
    **{port: INVALID for port in ("0", "65536", "443x", "+443", "00443", "443:443", "-1", "")},
}


def connect(authority):
    """CONNECT as bytes, since a name here may be any."""
    return [send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"), response(), END]


def absolute(url, method="GET", host="allowed.test"):
    return [send(f"{method} {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), response(), END]


def plain_get(host, target="/", method="GET"):
    return [send(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), response(method), END]


def explain(policy, method, url):
    ran = subprocess.run([program(), "policy", "explain", "--json", "--policy", policy, "--", "parity", method, url],
                         capture_output=True, timeout=60)
    assert ran.returncode in (0, 1), ran.stderr
    said = json.loads(ran.stdout)
    assert ran.returncode == (0 if said["verdict"] == "allow" else 1)
    return said["reason"]


def is_valid(name):
    return NAMES[name] != INVALID


@pytest.fixture(scope="module")
def policy(lab):
    return lab.write("parity.allow", POLICY)


@pytest.fixture(scope="module")
def doors(lab, policy):
    """One sandbox that knocks with every name at every door."""
    knocks = []
    for number, (name, wanted) in enumerate(NAMES.items()):
        authority = name + ":443" if wanted != ALLOW else None
        if authority:
            knocks.append(exchange(f"connect-{number}", connect(authority)))
        knocks.append(exchange(f"absolute-{number}", absolute(f"http://{name}/", host=name if is_valid(name) else "allowed.test")))
        if is_valid(name):
            knocks.append(exchange(f"tunnel-{number}", fetch(name)))
            knocks.append(exchange(f"plain-tunnel-{number}", connect_step(f"{name}:80"), plain_get(name)))
            knocks.append(exchange(f"socks-tls-{number}", socks(name), tls(name), plain_get(name)))
            knocks.append(captured(f"captured-tls-{number}", name, 443, tls(name), plain_get(name)))
            knocks.append(captured(f"captured-plain-{number}", name, 80, plain_get(name)))
        knocks.append(exchange(f"socks-plain-{number}", socks(name, 80), plain_get(name)))
        knocks.append(exchange(f"inside-{number}", tunnel("allowed.test"), absolute("/", host=name)))
    for port in PORTS:
        knocks.append(exchange(f"connect-port-{port}", connect(f"allowed.test:{port}")))
        if port.isdigit() and str(int(port)) == port and int(port) < 65536:
            knocks.append(exchange(f"socks-port-{port}", socks("allowed.test", int(port))))
            if int(port) > 0:  # the gateway refuses port 0
                knocks.append(captured(f"captured-tls-port-{port}", "allowed.test", int(port), tls("allowed.test")))
                knocks.append(captured(f"captured-plain-port-{port}", "allowed.test", int(port), plain_get(f"allowed.test:{port}")))
        if port:  # "http://allowed.test:/" has the scheme's port (RFC 3986 3.2.3): not the same question as CONNECT's
            knocks.append(exchange(f"absolute-port-{port}", absolute(f"http://allowed.test:{port}/")))
    return Batch(lab, knocks, policy=policy)


def reason_at(doors, knock):
    """What the log says of the exchange; the client was told the same."""
    events = doors.events(knock)
    assert len(events) == 1, doors.explain(knock)
    reason = events[0]["status_code"]
    denial = doors[knock].denial()
    if doors[knock].last.do == "socks":
        assert doors[knock].status == 2 and reason != ALLOW, "C: not allowed (RFC 1928 6)" + doors.explain(knock)
        return reason
    assert (doors[knock].status == 200) == (reason == ALLOW), doors.explain(knock)
    assert denial is None or denial["reason"] == reason, doors.explain(knock)
    return reason


def captured_reasons(doors, number):
    """At the transparent door. A name that no rule admits has no address, and the log has the question; then there is no connection."""
    got = {}
    for door in ("captured-tls", "captured-plain"):
        seen = doors[f"{door}-{number}"]
        if seen.error is None:
            got[door] = reason_at(doors, seen.id)
        else:
            assert "gaierror" in seen.error and not doors.events(seen.id), doors.explain(seen.id)
            assert NAMES[list(NAMES)[number]] != ALLOW, doors.explain(seen.id)
    return got


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.encode("unicode_escape").decode() or "empty")
def test_A11_a_name_gets_the_same_answer_at_every_door(doors, policy, name):
    number, wanted = list(NAMES).index(name), NAMES[name]
    got = {"absolute": reason_at(doors, f"absolute-{number}")}
    if wanted != ALLOW:
        got["connect"] = reason_at(doors, f"connect-{number}")
    if is_valid(name):
        got.update({door: reason_at(doors, f"{door}-{number}") for door in ("tunnel", "plain-tunnel", "socks-tls")})
        got.update(captured_reasons(doors, number))
    got["socks-plain"] = reason_at(doors, f"socks-plain-{number}")
    if "\0" not in name:  # no argument of a program holds it
        asked = name.encode("latin-1")
        got["explain CONNECT"] = explain(policy, "CONNECT", asked + b":443")
        got["explain http"] = explain(policy, "GET", b"http://" + asked + b"/")
        got["explain https"] = explain(policy, "GET", b"https://" + asked + b"/")
    assert set(got.values()) == {wanted}, got


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name.encode("unicode_escape").decode() or "empty")
def test_A11_inside_a_tunnel_only_its_own_name_is_served(doors, name):
    """The Host of a request in a tunnel to allowed.test: its own name in any spelling, or a refusal."""
    reason = reason_at(doors, f"inside-{list(NAMES).index(name)}")
    if name.lower().rstrip(".") == "allowed.test" and is_valid(name):
        assert reason == ALLOW
    else:
        assert reason in ({"deny.host-mismatch"} if is_valid(name) else {INVALID, "deny.host-mismatch", "deny.smuggling"}), reason


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port or "none")
def test_A11_a_port_gets_the_same_answer_at_every_door(doors, policy, port):
    got = {"connect": reason_at(doors, f"connect-port-{port}"),
           "explain CONNECT": explain(policy, "CONNECT", f"allowed.test:{port}")}
    if f"socks-port-{port}" in doors.seen:
        got["socks"] = reason_at(doors, f"socks-port-{port}")
    if f"captured-tls-port-{port}" in doors.seen:
        got.update({door: reason_at(doors, f"{door}-port-{port}") for door in ("captured-tls", "captured-plain")})
    if port:
        got["absolute"] = reason_at(doors, f"absolute-port-{port}")
        got["explain http"] = explain(policy, "GET", f"http://allowed.test:{port}/")
        got["explain https"] = explain(policy, "GET", f"https://allowed.test:{port}/")
    assert set(got.values()) == {PORTS[port]}, got


def test_A11_what_was_refused_went_nowhere(doors):
    """Only names that some rule allows were asked for, dialled, and asked by; the canary heard nothing."""
    allowed = {name.lower().rstrip(".") for name, reason in NAMES.items() if reason == ALLOW}
    assert {q.name for q in doors.questions} == allowed
    assert {r.host for r in doors.requests} == allowed
    doors.assert_canary_silent()


# A method or path rule that holds over TLS also holds over plain HTTP.
REQUESTS = {
    ("GET", "/v1/x"): ALLOW, ("POST", "/v1/x"): ALLOW, ("GET", "/v1/./y/../x"): ALLOW, ("GET", "/v1/"): ALLOW,
    ("PUT", "/v1/x"): "deny.method", ("DELETE", "/v1/x"): "deny.method", ("HEAD", "/v1/x"): "deny.method",
    ("GET", "/v2/x"): "deny.path", ("GET", "/v1"): "deny.path", ("GET", "/v1/../v2"): "deny.path",
    ("GET", "/v1/x?q=1"): "deny.query", ("GET", "/v1/x?"): "deny.query",
    ("GET", "/v1/secret"): RULE, ("GET", "/v1//secret"): RULE, ("GET", "/v1/%73ecret"): RULE, ("POST", "/v1/secret"): ALLOW,
    ("GET", "/v1/..%2fx"): "deny.smuggling", ("GET", "/v1/a%2fb"): "deny.smuggling", ("GET", "/v1/%2e%2e/x"): "deny.smuggling",
}


METHOD_DOORS = ("http", "https", "http-tunnel", "http-socks", "https-socks", "http-captured", "https-captured")


def test_A11_methods_and_paths_are_judged_alike_over_tls_and_in_the_clear(lab, tmp_path):
    # *.wild.test would allow what the narrower rule refuses: here it stands alone
    path = lab.write("methods.allow", POLICY.replace("allow *.wild.test", "# allow *.wild.test"))
    host = "paths.wild.test"
    knocks = []
    for number, (method, target) in enumerate(REQUESTS):
        ask = f"Host: {host}\r\nConnection: close\r\n" + ("Content-Length: 0\r\n" if method in ("POST", "PUT") else "")
        knocks.append(exchange(f"http-{number}", send(f"{method} http://{host}{target} HTTP/1.1\r\n{ask}\r\n"), response(method), END))
        asked = [send(f"{method} {target} HTTP/1.1\r\n{ask}\r\n"), response(method), END]
        knocks.append(exchange(f"https-{number}", tunnel(host), asked))
        knocks.append(exchange(f"http-tunnel-{number}", connect_step(f"{host}:80"), asked))
        knocks.append(exchange(f"http-socks-{number}", socks(host, 80), asked))
        knocks.append(exchange(f"https-socks-{number}", socks(host), tls(host), asked))
        knocks.append(captured(f"http-captured-{number}", host, 80, asked))
        knocks.append(captured(f"https-captured-{number}", host, 443, tls(host), asked))
    batch = Batch(lab, knocks, policy=path)
    different = []
    for number, ((method, target), wanted) in enumerate(REQUESTS.items()):
        got = {door: reason_at(batch, f"{door}-{number}") for door in METHOD_DOORS}
        got.update({f"explain {scheme}": explain(path, method, f"{scheme}://{host}{target}") for scheme in ("http", "https")})
        if set(got.values()) != {wanted}:
            different.append((method, target, wanted, got))
    assert not different
    assert len(batch.requests) == len(METHOD_DOORS) * list(REQUESTS.values()).count(ALLOW), "U: only what was allowed"


SCHEME_POLICY = f"""policy 1

[profile parity]
allow tls.test:443 GET /** addr={ORIGIN}/32
allow pinned.test:443 tls=splice addr={ORIGIN}/32
allow plain.test:80 GET /** scheme=http addr={ORIGIN}/32
deny half.test scheme=http
allow half.test:443 GET /** addr={ORIGIN}/32
"""
# host, port, scheme of what is sent there -> the reason
SCHEMES = {("tls.test", 443, "http"): "deny.scheme", ("pinned.test", 443, "http"): "deny.scheme", ("plain.test", 80, "https"): "deny.scheme",
           ("half.test", 443, "http"): RULE, ("tls.test", 443, "https"): ALLOW, ("plain.test", 80, "http"): ALLOW}


def test_A11_a_scheme_is_judged_alike_at_every_door(lab):
    """Whatever a tunnel was opened for: what comes in it, TLS or a request, is judged by what rules say of that."""
    path, knocks = lab.write("schemes.allow", SCHEME_POLICY), []
    for host in {host for host, _, _ in SCHEMES}:
        lab.dns.zone[host] = [ORIGIN]
    for number, (host, port, scheme) in enumerate(SCHEMES):
        asked = [*([tls(host)] if scheme == "https" else []), *plain_get(f"{host}:{port}")]
        knocks.append(exchange(f"connect-{number}", connect_step(f"{host}:{port}"), asked))
        knocks.append(exchange(f"socks-{number}", socks(host, port), asked))
        knocks.append(captured(f"captured-{number}", host, port, asked))
        if scheme == "http":
            knocks.append(exchange(f"absolute-{number}", absolute(f"http://{host}:{port}/", host=f"{host}:{port}")))
    batch, different = Batch(lab, knocks, policy=path), {}
    for number, (question, wanted) in enumerate(SCHEMES.items()):
        host, port, scheme = question
        doors = ["connect", "socks", "captured", *(["absolute"] if scheme == "http" else [])]
        got = {door: [e["status_code"] for e in batch.events(f"{door}-{number}")] for door in doors}
        got["explain"] = [explain(path, "GET", f"{scheme}://{host}:{port}/")]
        if scheme == "http" and wanted != ALLOW:
            told = {door: batch[f"{door}-{number}"].denial() for door in doors}
            got["told"] = sorted({denial and denial["reason"] for denial in told.values()}, key=str)
        if set(map(tuple, got.values())) != {(wanted,)}:
            different[question] = got
    assert not different, different
    assert {r.host.split(":")[0] for r in batch.requests} == {"tls.test", "plain.test"}, "U"


# What stands after "policy 1\n[profile p]\nallow fine.test\n": line 4.
A06 = ["*", "*.test", "www*.test", "sub*.wild.test", "a.*.test", "*.*.wild.test", "***.wild.test"]
HOSTILE_LINES = {
    **{f"A06-{entry}": f"allow {entry}\n".encode() for entry in A06},
    **{f"A06-deny-{entry}": f"deny {entry}\n".encode() for entry in A06},
    "A12-hash": b"allow a#b.test\n",
    "A12-semicolon": b"allow a;b.test\n",
    "A12-quote": b'allow "a.test"\n',
    "A12-single-quote": b"allow 'a.test'\n",
    "A12-nul": b"allow a\0.test\n",
    "A12-carriage-return": b"allow a.test\r\n",
    "A12-escape": b"allow a\x1b.test\n",
    "A12-blank": b"allow a .test\n",
    "A12-newline": b"allow\na.test\n",
    "A12-brace": b"allow a.test}\n",
    "A12-backquote": b"allow `a.test`\n",
    "A12-dollar": b"allow $(a).test\n",
    "A12-bytes": b"allow a\xff.test\n",
    "A12-bidi": "allow a\u202etest.example\n".encode(),
    "A12-mixed-script": b"allow xn--pple-43d.test\n",
    "A12-unclosed-quote": b'allow a.test note="x\n',
    "A12-long-line": b"allow a.test note=" + b"x" * 5000 + b"\n",
    "A12-link-out": b"include ../outside.allow\n",
    "A12-address-without-its-keyword": b"allow 203.0.113.10\n",
}
LINES_BEFORE = b"policy 1\n[profile p]\nallow fine.test\n"


def readers(path):
    """Everything that reads a policy, and the status with which it refuses one."""
    tool = [program(), "policy"]
    yield [*tool, "lint", path], 1
    yield [*tool, "test", path], 1
    yield [*tool, "explain", "--policy", path, "p", "GET", "https://fine.test/"], 2
    yield [*tool, "show", path], 2
    yield [*tool, "diff", path, path], 2
    yield [f"{program()}-proxy", "--listen", "127.0.0.1:0", "--policy", path, "--profile", "p"], 2


@pytest.mark.parametrize("case", HOSTILE_LINES)
def test_hostile_text_is_refused_with_its_place_by_every_reader(tmp_path, case):
    path = tmp_path / "x.allow"
    path.write_bytes(LINES_BEFORE + HOSTILE_LINES[case])
    for words, status in readers(str(path)):
        ran = subprocess.run(words, capture_output=True, timeout=60, cwd=tmp_path)
        said = (ran.stdout + ran.stderr).decode("utf-8", "replace")
        assert ran.returncode == status, (words, said)
        assert f"{path}:4:" in said and ": error: " in said, (words, said)
        assert not set(ran.stdout + ran.stderr) & (set(range(32)) - {10} | {127}), "raw control bytes on a terminal"


def files_of_folder(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str) and content.startswith("-> "):
            path.symlink_to(content[3:])
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


HOSTILE_FILES = {  # files, the policy among them, and what the message names
    "missing": ({}, "p.allow", "p.allow"),
    "empty": ({"p.allow": ""}, "p.allow", "p.allow:1:1: error: version"),
    "ten-megabytes-in-a-line": ({"p.allow": b"policy 1\n#" + b"x" * 10_485_760}, "p.allow", "p.allow"),
    "a-line-of-a-megabyte": ({"p.allow": b"policy 1\n#" + b"x" * 1_000_000}, "p.allow", "p.allow:2:"),
    "too-many-rules": ({"p.allow": "policy 1\n[profile p]\n" + "".join(f"allow h{n}.test\n" for n in range(20_001))},
                       "p.allow", "p.allow:20003:1: error: too-many"),
    "include-loop": ({"p.allow": "policy 1\ninclude q.allow\n[profile p]\n", "q.allow": "policy 1\ninclude p.allow\n"},
                     "p.allow", "q.allow:2:9: error: include"),
    "include-itself": ({"p.allow": "policy 1\ninclude p.allow\n[profile p]\n"}, "p.allow", "p.allow:2:9: error: include"),
    "include-out": ({"d/p.allow": "policy 1\ninclude ../q.allow\n[profile p]\n", "q.allow": "policy 1\n"}, "d/p.allow", "p.allow:2:9:"),
    "include-absolute": ({"p.allow": "policy 1\ninclude /etc/passwd\n"}, "p.allow", "p.allow:2:9:"),
    "include-link-out": ({"d/p.allow": "policy 1\ninclude q.allow\n", "d/q.allow": "-> ../secret", "secret": "policy 1\n"},
                         "d/p.allow", "q.allow"),
    "folder-link-out": ({"d/p.allow": "policy 1\n[profile p]\n", "d/q.allow": "-> ../secret", "secret": "policy 1\n"}, "d", "q.allow"),
    "empty-folder": ({"d/readme": "x"}, "d", "d"),
    "device": ({"p.allow": "-> /dev/zero"}, "p.allow", "p.allow"),
}


@pytest.mark.parametrize("case", HOSTILE_FILES)
def test_hostile_files_are_refused_by_name_in_bounded_memory(tmp_path, case):
    files, policy_name, named = HOSTILE_FILES[case]
    files_of_folder(tmp_path, files)
    for words in (["policy", "show", str(tmp_path / policy_name)], ["run", "--policy", str(tmp_path / policy_name), "--", "true"]):
        ran = subprocess.run(["bash", "-c", 'ulimit -v 1000000; exec "$@"', "-", program(), *words], capture_output=True, text=True,
                             timeout=60, cwd=tmp_path)
        assert ran.returncode == (2 if words[0] == "policy" else 125), ran.stderr
        assert named in ran.stderr and ran.stdout == "", ran.stderr


MARK = "started"


@pytest.mark.parametrize("case", [*HOSTILE_LINES, "A12-missing", "A12-zero-bytes", "A12-unreadable"])
def test_nothing_is_started_under_a_part_of_a_policy(lab, case):
    """The run ends before there is a sandbox: no program, no audit folder with events, no packet."""
    user = USER_UID if case == "A12-unreadable" else None
    content = {"A12-zero-bytes": b"", "A12-unreadable": LINES_BEFORE}.get(case)
    path = lab.write("hostile.allow", content if content is not None else LINES_BEFORE + HOSTILE_LINES.get(case, b""))
    if case == "A12-unreadable":
        os.chmod(path, 0)
    if case == "A12-missing":
        os.unlink(path)
    questions = lab.dns.log.mark()
    run = run_eclusa(lab, [], ["/bin/echo", MARK], policy=path, user=user)
    assert run.status == 125 and run.result["verdict"] == "setup", run.report()
    place = path if content is None and case in HOSTILE_LINES else "hostile.allow"
    assert any(place in error for error in run.result["errors"]), run.report()
    if case in HOSTILE_LINES:
        assert any(f"{path}:4:" in error for error in run.result["errors"]), run.report()
    assert MARK not in run.result["stdout"] and run.events == [], run.report()
    assert not lab.dns.log.since(questions)
    lab.canary.assert_silent()


@pytest.mark.parametrize("entry", A06)
def test_A06_on_the_command_line(entry):
    ran = subprocess.run([program(), "run", "--allow", entry, "--", "/bin/echo", MARK], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 125 and ran.stdout == "", ran.stderr
    assert "--allow:1:" in ran.stderr


def test_A12_an_empty_list_starts_and_refuses_everything(lab):
    path = lab.write("closed.allow", "policy 1\n\n[profile closed]\n")
    batch = Batch(lab, [exchange("https", fetch("allowed.test")), exchange("http", absolute("http://allowed.test/"))], policy=path)
    for knock in ("https", "http"):
        batch.assert_refused(knock, 403, {DEFAULT})
