"""`eclusa policy replay`: a log judged again by other policy files, and what of it flips."""
import json
import os
import resource
import subprocess

import pytest

from lab.eclusa import is_sanitized, program

UID = "01938f1e-7a53-7cc1-9b1e-%012x"


def tool(*words, **more):
    return subprocess.run([program(), "policy", "replay", *map(str, words)], capture_output=True, text=True, timeout=300, **more)


def event(number, method, host, path, code="allow.rule", action=1, **more):
    """As the proxy writes it; @more: port, scheme, would, query, request_body, response_body, ip, profile, tls_mode."""
    request = {"http_method": method, "body_length": more.get("request_body", 0)}
    ours = {"mode": "observe" if "would" in more else "enforce", "tls_mode": more.get("tls_mode", "inspect")}
    if path:
        request["url"] = {"scheme": more.get("scheme", "https"), "path": path}
    if "would" in more:
        ours["would"] = more["would"]
    if more.get("query"):
        ours["has_query"] = True
    made = {"class_uid": 4002, "status_code": code, "action_id": action, "start_time": 1795961863000, "metadata": {"uid": UID % number},
            "policy": {"uid": more.get("profile", "p")}, "firewall_rule": {"uid": "r1", "desc": "old.allow:3"},
            "dst_endpoint": {"hostname": host, "port": more.get("port", 443)}, "http_request": request,
            "http_response": {"code": 200, "body_length": more.get("response_body", 0)}, "unmapped": {"eclusa": ours}}
    if "ip" in more:
        made["dst_endpoint"]["ip"] = more["ip"]
    return made


@pytest.fixture
def log(tmp_path):
    def write(*events, name="a.jsonl"):
        path = tmp_path / name
        path.write_text("".join((e if isinstance(e, str) else json.dumps(e)) + "\n" for e in events))
        return path
    return write


@pytest.fixture
def new(tmp_path):
    def write(*rules, profile="p"):
        path = tmp_path / "new.allow"
        path.write_text("\n".join(["policy 1", f"[profile {profile}]", *rules, ""]))
        return path
    return write


def test_nothing_flips(log, new):
    path = log(event(1, "CONNECT", "a.test", ""), event(2, "GET", "a.test", "/x"),
               event(3, "GET", "b.test", "/x", "deny.default", 2), event(4, "GET", "a.test", "/y", "observe.would-deny", would="deny.path"))
    ran = tool(path, new("allow a.test"))
    assert (ran.returncode, ran.stdout) == (0, "4 judged, 0 flip\n"), ran.stderr


def test_flips_are_told_once_with_both_rules(log, new):
    policy = new("allow a.test /x", "allow b.test", "deny a.test ANY /no")
    path = log(*[event(n, "GET", "a.test", "/y") for n in range(1, 4)], event(1, "GET", "a.test", "/y"),
               event(5, "GET", "b.test", "/x", "deny.default", 2), event(6, "GET", "a.test", "/no", "observe.would-deny", would="deny.path"),
               event(7, "GET", "a.test", "/x", query=True))
    ran = tool(path, policy)
    assert ran.returncode == 1
    assert ran.stdout.splitlines() == [
        "denied: GET https://a.test/y  allow.rule -> deny.path  (3 times)  [p]",
        "      was by r1 old.allow:3", f"      is  by {policy}:3: allow a.test /x",
        "allowed: GET https://b.test/x  deny.default -> allow.rule  [p]",
        "      was by r1 old.allow:3", f"      is  by {policy}:4: allow b.test",
        "denied: GET https://a.test/no  observe.would-deny -> deny.rule  [p]",
        "      was by r1 old.allow:3", f"      is  by {policy}:5: deny a.test ANY /no",
        "6 judged, 5 flip"], ran.stdout
    said = json.loads(tool("--json", path, policy).stdout)
    assert (said["judged"], said["flipped"], [f["count"] for f in said["flips"]]) == (6, 5, [3, 1, 1])
    assert said["flips"][0]["old"] == {"reason": "allow.rule", "rule": "r1", "place": "old.allow:3"}
    assert (said["flips"][0]["new"]["reason"], said["flips"][0]["new"]["line"]) == ("deny.path", 3)
    assert said["flips"][2]["old"]["would"] == "deny.path"


@pytest.mark.parametrize("more, rule, reason", [
    ({"query": True}, "allow a.test query=deny", "deny.query"),
    ({"port": 8443}, "allow a.test", "deny.port"),
    ({"scheme": "http", "port": 80}, "allow a.test:80 scheme=https", "deny.scheme"),
    ({"request_body": 11}, "allow a.test req-body=10", "deny.size"),
    ({"response_body": 1025}, "allow a.test resp-body=1k", "deny.size"),
    ({"ip": "10.1.2.3"}, "allow a.test", "deny.address-private"),
    ({}, "allow a.test expires=2020-01-01", "deny.expired"),
    ({}, "allow a.test POST", "deny.method"),
])
def test_what_is_judged(log, new, more, rule, reason):
    """Each of them denies, and a rule that is wide enough does not."""
    path = log(event(1, "GET", "a.test", "/x", **more))
    ran = tool(path, new(rule))
    assert ran.returncode == 1 and f"allow.rule -> {reason}" in ran.stdout, ran.stdout
    wide = "allow a.test:80,443,8443 req-body=1k resp-body=2k addr=10.0.0.0/8"
    assert tool(path, new(wide)).returncode == 0


def test_an_address_that_was_refused_may_be_opened(log, new):
    path = log(event(1, "CONNECT", "a.test", "", "deny.address-private", 2, ip="10.1.2.3"))
    assert tool(path, new("allow a.test")).returncode == 0
    path = log(event(1, "GET", "a.test", "/", "deny.address-private", 2, ip="10.1.2.3", scheme="http", port=80))
    ran = tool(path, new("allow a.test:80 addr=10.1.2.3/32"))
    assert ran.returncode == 1 and "deny.address-private -> allow.rule" in ran.stdout


def test_what_is_not_judged_is_counted(log, new):
    packets = {"class_uid": 4001, "status_code": "deny.packet", "action_id": 2, "metadata": {"uid": UID % 9},
               "unmapped": {"eclusa": {"intercept": "packet", "count": 5}}}
    path = log(event(1, "GET", "a.test", "/t/[redacted:40]"), event(2, "GET", "a..test", "/"), event(3, "GET", "a.test", "/../x"),
               packets, event(4, "GET", "a.test", "/x", "deny.upstream-cert", 2), event(5, "GET", "a.test", "/", profile="other"),
               event(6, "GET", "a.test", "/" + "x" * 50 + "[cut:99]"), event(7, "GET", "a.test", "/ok"), "no json", "",
               {"class_uid": 1007, "metadata": {"uid": UID % 10}})
    ran = tool(path, new("allow a.test"))
    assert ran.returncode == 0
    assert ran.stdout == ("1 judged, 0 flip; not judged: 1 redacted path, 1 cut path, 2 no valid request, 1 packets, "
                          "1 refused for another reason than rules, 1 of a profile that is not there\n")
    said = json.loads(tool("--json", path, new("allow a.test")).stdout)
    assert said["not_judged"] == {"redacted": 2, "invalid": 2, "packets": 1, "other_reason": 1, "no_profile": 1}
    ran = tool("--profile", "q", path, new("allow b.test", profile="q"))
    assert ran.returncode == 1 and ran.stdout.startswith("denied: GET https://a.test/"), ran.stdout


def test_a_folder_and_several_logs(log, new, tmp_path):
    log(event(1, "GET", "a.test", "/x"), name="a.jsonl")
    b = log(event(2, "GET", "b.test", "/x"), name="b.jsonl")
    assert tool(tmp_path, new("allow a.test")).stdout.endswith("2 judged, 1 flip\n")
    assert tool(b, b, new("allow a.test")).stdout.endswith("1 judged, 1 flip\n")


def test_hostile_lines_do_not_reach_the_terminal(log, new):
    hostile = event(1, "GET", "a.test", "/x", "deny.default", 2)
    hostile["firewall_rule"] = {"uid": "r\x1b[31m\nallowed: forged", "desc": "\u202eplace\r"}
    ran = tool(log(hostile, event(2, "GET", "a.test\n", "/"), event(3, "GET\x1b", "a.test", "/"), event(4, "GET", "a.test", "/\x1b")),
               new("allow a.test"))
    assert ran.returncode == 1 and not set("\x1b\r\u202e") & set(ran.stdout)
    assert [line for line in ran.stdout.splitlines() if line.startswith("allowed: ")] == [
        "allowed: GET https://a.test/x  deny.default -> allow.rule  [p]"]


@pytest.mark.parametrize("words", [(), ("NEW",), ("/nonexistent", "NEW"), ("LOG", "/nonexistent"), ("LOG", "BAD"),
                                   ("--profile", "no", "LOG", "NEW"), ("--fold", "LOG", "NEW"), ("EMPTY", "NEW")])
def test_usage_and_unreadable(log, new, tmp_path, words):
    bad = tmp_path / "bad.allow"
    bad.write_text("policy 1\n[profile p]\nallow a.test nonsense\n")
    (tmp_path / "empty").mkdir()
    places = {"LOG": log(event(1, "GET", "a.test", "/")), "NEW": new("allow a.test"), "BAD": bad, "EMPTY": tmp_path / "empty"}
    ran = tool(*[places.get(word, word) for word in words])
    assert (ran.returncode, ran.stdout) == (2, "") and len(ran.stderr.splitlines()) == 1


def test_a_large_log_takes_bounded_memory(log, new, tmp_path):
    """A segment of the largest size: its time is the parser's, its memory a few bytes an event."""
    if is_sanitized():
        pytest.skip("a SAN=1 build needs more address space than the limit")
    path = tmp_path / "large.jsonl"
    line = json.dumps(event(0, "GET", "a.test", "/x") | {"padding": "x" * 6000}) + "\n"
    head, tail = line.split(UID % 0)
    with open(path, "w", encoding="ascii") as file:
        for number in range((256 << 20) // len(line)):
            file.write(head + UID % (number + 1) + tail)
    policy = new("allow b.test")
    ran = tool(path, policy, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (96 << 20, 96 << 20)))
    assert ran.returncode == 1 and f"({os.path.getsize(path) // len(line)} times)" in ran.stdout.splitlines()[0], ran.stderr
    assert len(ran.stdout.splitlines()) == 4
