"""
What a rule grants beyond single messages: bytes up and down, uses, rates, uses at once, time. Each refusal and each cut is
looked at from three sides: what the client saw, what the origin got, what was recorded.
"""
import json
import os
import signal
import threading

import pytest

from lab.census import find_process
from lab.eclusa import Launch, Run, network_args, run_eclusa
from lab.origin import answer
from lab.world import ORIGIN

HOST, OTHER = "budget.test", "free.test"

# What the programs in the sandbox begin with.
PRELUDE = """
import json, os, socket, subprocess, sys, urllib.error, urllib.parse, urllib.request

def curl(url, *more, data=None):
    got = subprocess.run(["curl", "-sS", "-w", "\\n%{http_code}", *more, url], input=data, capture_output=True, timeout=60)
    body, _, status = got.stdout.rpartition(b"\\n")
    return {"exit": got.returncode, "status": int(status or 0), "length": len(body), "body": body[:2000].decode("latin-1")}

def get(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return {"status": answer.status, "body": answer.read()[:2000].decode("latin-1")}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "retry": error.headers.get("Retry-After"), "body": error.read().decode("latin-1")}
    except OSError as error:
        return {"status": 0, "body": str(error)}

def plain(head, body=b""):
    proxy = urllib.parse.urlsplit(os.environ["http_proxy"])
    sock = socket.create_connection((proxy.hostname, proxy.port), timeout=60)
    sock.sendall(head.replace("\\n", "\\r\\n").encode() + body)
    return sock

def drain(sock):
    got = b""
    try:
        while part := sock.recv(65536):
            got += part
        return {"end": "end", "text": got.decode("latin-1")}
    except ConnectionResetError:
        return {"end": "reset", "text": got.decode("latin-1")}
"""


@pytest.fixture(scope="module")
def origin(lab):
    """Answers that are large, or that do not come."""
    for name in (HOST, OTHER):
        lab.dns.zone[name] = [ORIGIN]
    gate, waiting = threading.Event(), threading.Semaphore(0)

    def chunks(_request, connection):
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(64):
            connection.send(b"4000\r\n" + b"d" * 0x4000 + b"\r\n")
        connection.send(b"0\r\n\r\n")

    def wait(_request, connection):
        waiting.release()
        gate.wait(30)
        connection.send(answer("200 OK", b"late"))

    def both(_request, connection):
        for _ in range(2):
            waiting.acquire(timeout=60)
        connection.send(answer("200 OK", b"both"))

    def hints(_request, connection):
        for _ in range(10):
            connection.send(b"HTTP/1.1 103 Early Hints\r\nLink: " + b"h" * 15000 + b"\r\n\r\n")
        connection.send(answer("200 OK", b"hinted"))

    lab.origin.on("/chunks", chunks)
    lab.origin.on("/hints", hints)
    lab.origin.on("/large", answer("200 OK", b"d" * (1 << 20)))
    lab.origin.on("/wait", wait)
    lab.origin.on("/both", both)
    yield lab
    gate.set()


@pytest.fixture
def spend(origin, who):
    """Run a program under a rule for HOST with these attributes, beside one for OTHER. @return the run, what the origin got of HOST."""

    def spend(attributes, program, target=f"{HOST}:80,443 GET,HEAD,POST,PUT /**"):
        rules = [f"allow {target} addr={ORIGIN}/32 id=budget {attributes}" if attributes is not None else target,
                 f"allow {OTHER}:80,443 GET /** addr={ORIGIN}/32 id=free"]
        policy = origin.write("budget.allow", "\n".join(["policy 1", "[profile budget]", *rules]) + "\n")
        mark = origin.origin.connections.mark()
        run = run_eclusa(origin, ["--timeout", "120s", "--output-limit", "8M"],
                         ["/usr/bin/python3", "-c", PRELUDE + program], policy=policy, user=who)
        return run, [c for c in origin.origin.connections.since(mark) if any(r.host == HOST for r in c.requests)]

    return spend


def denials(run, code):
    return [e for e in run.decisions() if e["status_code"] == code]


def traffic(event):
    return event["traffic"]


def test_an_upload_in_chunks_is_cut_and_never_whole(spend):
    run, connections = spend("up=300k req-body=16m", f"""
print(json.dumps(curl("https://{HOST}/up", "-T", "-", "-H", "Expect:", data=b"u" * (2 << 20))))
""")
    seen = run.json()
    assert seen["status"] == 403, f"C: {seen}"
    denial = json.loads(seen["body"])
    assert denial["reason"] == "deny.budget" and denial["rule"] == "budget", f"C: {denial}"
    assert denial["budget"]["limit"] == "up" and denial["budget"]["allowed"] == 300 << 10, f"C: {denial}"
    assert "up=" in denial["hint"], f"C: {denial}"
    (connection,) = connections
    assert len(connection.plain) <= 300 << 10, f"U: {len(connection.plain)}"  # what was on its way is lost to the reset
    assert not connection.plain.endswith(b"0\r\n\r\n") and connection.requests[0].body == b"", "U: it looks complete"
    (event,) = denials(run, "deny.budget")
    assert 200 << 10 < traffic(event)["bytes_out"] <= 300 << 10 and traffic(event)["bytes_out"] >= len(connection.plain), f"L: {event}"
    assert event["action_id"] == 2, f"L: {event}"


def test_the_answer_reaches_a_client_that_sends_on_before_it_reads(spend):
    run, connections = spend("up=300k req-body=1g", f"""
HEAD = "PUT http://{HOST}/up HTTP/1.1\\nHost: {HOST}\\nTransfer-Encoding: chunked\\n\\n"
CHUNK = b"10000\\r\\n" + b"u" * 65536 + b"\\r\\n"

def push(chunks):
    sock = plain(HEAD)
    try:
        for _ in range(chunks):
            sock.sendall(CHUNK)
    except (ConnectionResetError, BrokenPipeError):
        return "reset"
    return drain(sock)["text"]

print(json.dumps([push(64), push(1000)]))
""")
    told, endless = run.json()
    assert told.startswith("HTTP/1.1 403 ") and "deny.budget" in told, f"C: {told[:300]}"
    assert endless == "reset", f"C: {endless[:300]}"
    assert all(len(c.plain) <= 300 << 10 for c in connections), "U: more than the budget"
    assert [e["action_id"] for e in denials(run, "deny.budget")] == [2, 2], "L"


def test_an_upload_whose_length_is_too_much_is_refused_before_a_byte(spend):
    run, connections = spend("up=300k req-body=16m", f"""
print(json.dumps([curl("https://{HOST}/up", "--data-binary", "@-", "-H", expect, data=b"u" * (1 << 20))
                  for expect in ("Expect:", "Expect: 100-continue")]
                 + [curl("https://{HOST}/up", "--data-binary", "@-", data=b"u" * 290000)]))
""")
    first, second, twin = run.json()
    assert (first["status"], second["status"], twin["status"]) == (403, 403, 200), f"C: {run.output}"
    assert "deny.budget" in first["body"] and "deny.budget" in second["body"], f"C: {first}"
    assert [len(r.body) for c in connections for r in c.requests] == [290000], "U: only the twin"
    assert len(denials(run, "deny.budget")) == 2, f"L: {run.report()}"


def test_an_upload_with_a_length_is_cut_when_another_one_used_the_budget(spend):
    run, connections = spend("up=300k req-body=16m", f"""
head = "POST http://{HOST}/%s HTTP/1.1\\nHost: {HOST}\\nConnection: close\\nContent-Length: 200000\\n\\n"
slow = plain(head % "slow", b"s" * 1000)
fast = drain(plain(head % "fast", b"f" * 200000))
try:
    slow.sendall(b"s" * 199000)
except OSError:
    pass
print(json.dumps([fast, drain(slow)]))
""")
    fast, slow = run.json()
    assert fast["text"].startswith("HTTP/1.1 200"), f"C: {fast}"
    assert "403 deny.budget" in slow["text"] or slow["end"] == "reset", f"C: {slow}"
    assert "200 OK" not in slow["text"], f"C: {slow}"
    assert sum(len(c.plain) for c in connections) <= 300 << 10, "U: together no more than the budget"
    assert sorted(len(r.body) for c in connections for r in c.requests) == [0, 200000], "U: one whole, one cut"
    assert len(denials(run, "deny.budget")) == 1, f"L: {run.report()}"


def test_queries_carry_no_more_than_the_default_budget(spend):
    run, connections = spend("", f"""
import requests
session = requests.Session()
seen = [session.get("https://{HOST}/q?" + "x" * 7000, timeout=60) for _ in range(170)]
print(json.dumps([[one.status_code for one in seen], seen[-1].text, get("https://{OTHER}/")]))
""")
    statuses, last, other = run.json()
    passed = statuses.count(200)
    assert statuses == [200] * passed + [403] * (170 - passed) and 140 <= passed < 150, f"C: {passed} passed"
    assert json.loads(last)["reason"] == "deny.budget", f"C: {last}"
    assert other["status"] == 200, f"C: another rule has a budget of its own: {other}"
    got = sum(len(c.plain) for c in connections)
    assert (1 << 20) - 8000 < got <= 1 << 20, f"U: {got}"
    assert sum(len(c.requests) for c in connections) == passed, "U: nothing after it"
    assert len(denials(run, "deny.budget")) == 170 - passed, f"L: {run.report()}"


def test_a_cut_download_never_looks_complete(spend):
    run, _ = spend("down=600k", f"""
import requests
seen = [curl("https://{HOST}/chunks")]
try:
    seen.append({{"raised": "", "length": len(requests.get("https://{HOST}/chunks", timeout=60).content)}})
except requests.exceptions.RequestException as error:
    seen.append({{"raised": type(error).__name__}})
seen.append(drain(plain("GET http://{HOST}/chunks HTTP/1.1\\nHost: {HOST}\\n\\n")))
print(json.dumps(seen))
""")
    by_curl, by_requests, raw = run.json()
    assert by_curl["exit"] != 0 and by_curl["length"] < 600 << 10, f"C: {by_curl['exit']}"
    assert by_requests["raised"] or by_requests["length"] < 3000, f"C: {by_requests}"
    assert raw["end"] == "reset" or "403 deny.budget" in raw["text"], f"C: {raw['end']}"
    assert "\r\n0\r\n\r\n" not in raw["text"], "C: it looks complete"
    events = denials(run, "deny.budget")
    assert len(events) == 3 and 500 << 10 < traffic(events[0])["bytes_in"] <= 600 << 10, f"L: {run.report()}"


def test_interim_responses_count(spend):
    run, _ = spend("down=100k", f"""
seen = drain(plain("GET http://{HOST}/hints HTTP/1.1\\nHost: {HOST}\\n\\n"))
print(json.dumps([seen["text"][-4000:], len(seen["text"]), seen["text"].count("103 Early")]))
""")
    text, length, hints = run.json()
    assert "HTTP/1.1 403 deny.budget" in text and "hinted" not in text and hints == 6, f"C: {hints}"
    (event,) = denials(run, "deny.budget")
    assert traffic(event)["bytes_in"] == length, f"L: {traffic(event)} of {length}"


def test_a_download_by_requests_raises(spend):
    run, _ = spend("down=600k", f"""
import requests
try:
    print(json.dumps(len(requests.get("https://{HOST}/chunks", timeout=60).content)))
except requests.exceptions.RequestException as error:
    print(json.dumps(type(error).__name__))
""")
    assert run.json() in ("ChunkedEncodingError", "ConnectionError"), f"C: {run.output}"
    assert len(denials(run, "deny.budget")) == 1, f"L: {run.report()}"


def test_a_download_whose_length_is_too_much_is_refused(spend):
    run, _ = spend("down=600k", f"""
print(json.dumps([curl("https://{HOST}/large"), curl("https://{HOST}/small")]))
""")
    large, small = run.json()
    assert large["status"] == 403 and json.loads(large["body"])["budget"]["limit"] == "down", f"C: {large}"
    assert small["status"] == 200, f"C: {small}"
    assert len(denials(run, "deny.budget")) == 1, f"L: {run.report()}"


def test_a_rate_is_refused_with_the_time_to_wait(spend):
    run, connections = spend("rate=3/h", f"""
print(json.dumps([get("https://{HOST}/%d" % i) for i in range(5)]))
""")
    seen = run.json()
    assert [one["status"] for one in seen] == [200, 200, 200, 429, 429], f"C: {seen}"
    assert 1100 <= int(seen[3]["retry"]) <= 1200, f"C: {seen[3]}"
    assert json.loads(seen[4]["body"])["reason"] == "deny.rate", f"C: {seen[4]}"
    assert [r.target for c in connections for r in c.requests] == ["/0", "/1", "/2"], "U"
    assert len(denials(run, "deny.rate")) == 2, f"L: {run.report()}"


def test_uses_of_a_life_are_counted_by_rule(spend):
    run, connections = spend(None, f"""
print(json.dumps([get("https://{HOST}/" + path)["status"] for path in ("a/1", "a/2", "a/3", "b/1", "b/2")]))
""", target=f"allow {HOST}:443 GET /a/** addr={ORIGIN}/32 max-uses=2\nallow {HOST}:443 GET /b/** addr={ORIGIN}/32 max-uses=1")
    assert run.json() == [200, 200, 503, 200, 503], f"C: {run.output}"
    assert [r.target for c in connections for r in c.requests] == ["/a/1", "/a/2", "/b/1"], "U"
    assert len(denials(run, "deny.quota")) == 2, f"L: {run.report()}"


def test_each_sandbox_has_a_budget_of_its_own(spend):
    for _ in range(2):
        run, connections = spend("max-uses=1", f"""
print(json.dumps([get("https://{HOST}/%d" % i)["status"] for i in range(2)]))
""")
        assert run.json() == [200, 503], f"C: {run.output}"
        assert [r.target for c in connections for r in c.requests] == ["/0"], "U"
        assert len(denials(run, "deny.quota")) == 1, f"L: {run.report()}"


def test_a_window_begins_anew(spend):
    """Three are asked for at one moment: two pass, until the next window, which the refusal tells."""
    run, _ = spend("requests=2 window=700ms", f"""
import time
begin, passed, refused, others = time.monotonic(), 0, [], []
while passed < 5 or not refused:
    three = [plain("") for _ in range(3)]
    for sock in three:
        sock.sendall(b"GET http://{HOST}/ HTTP/1.1\\r\\nHost: {HOST}\\r\\nConnection: close\\r\\n\\r\\n")
    for text in [drain(sock)["text"] for sock in three]:
        head, _, body = text.partition("\\r\\n\\r\\n")
        if head.startswith("HTTP/1.1 200"):
            passed += 1
        elif head.startswith("HTTP/1.1 403"):
            refused.append([head, json.loads(body)["budget"]])
        else:
            others.append(head)
    time.sleep(refused[-1][1]["resets_in_ms"] / 1000 if refused else 0)
print(json.dumps([time.monotonic() - begin, refused[0], others]))
""")
    seconds, (head, budget), others = run.json()
    assert seconds >= 1.4 and others == [], f"C: {run.output}"
    assert budget["window_ms"] == 700 and 0 < budget["resets_in_ms"] <= 700 and "Retry-After: 1" in head.split("\r\n"), f"C: {head} {budget}"
    assert denials(run, "deny.budget"), f"L: {run.report()}"


def test_uses_at_once_and_their_time_are_limited(spend):
    run, connections = spend("conns=2 time=2s", f"""
import threading
seen = {{}}
def use(name):
    seen[name] = get("https://{HOST}/wait")
def ask(sock, host, path): # at once, on a connection that stands already
    sock.sendall(f"GET http://{{host}}{{path}} HTTP/1.1\\r\\nHost: {{host}}\\r\\nConnection: close\\r\\n\\r\\n".encode())
    return drain(sock)["text"]
both, third = plain(""), plain("")
held = [threading.Thread(target=use, args=(name,)) for name in ("one", "two")]
for thread in held:
    thread.start()
ask(both, "{OTHER}", "/both") # are in flight
third = ask(third, "{HOST}", "/third")
for thread in held:
    thread.join()
print(json.dumps([third, seen["one"], seen["two"], get("https://{HOST}/after")]))
""")
    third, one, two, after = run.json()
    assert third.startswith("HTTP/1.1 503 ") and json.loads(third.split("\r\n\r\n")[1])["budget"]["limit"] == "conns", f"C: {third}"
    assert one["status"] == two["status"] == 504, f"C: {one} {two}"
    budget = json.loads(one["body"])["budget"]
    assert budget["used"] >= 2000 and {**budget, "used": 0} == {"limit": "time", "allowed": 2000, "used": 0}, f"C: {one}"
    assert after["status"] == 200, f"C: their slots are free: {after}"
    assert len(denials(run, "deny.limit")) == 3, f"L: {run.report()}"


def test_a_killed_worker_gives_no_new_budget(origin, who):
    policy = origin.write("budget.allow", f"""policy 1
[profile budget]
allow {HOST}:443 GET,POST /** addr={ORIGIN}/32 up=300k req-body=1m conns=2 id=budget
allow {OTHER}:443 GET /** addr={ORIGIN}/32 max-uses=2 id=free
""")
    program = PRELUDE + f"""
body = b"u" * 250000
first = [get("https://{OTHER}/1")["status"], curl("https://{HOST}/up", "--data-binary", "@-", data=body)["status"]]
cut = get("https://{HOST}/kill") # does not return before the worker was killed
while (again := get("https://{OTHER}/2"))["status"] == 0:
    pass # until there is another one
second = curl("https://{HOST}/up", "--data-binary", "@-", data=body)
print(json.dumps([first, cut["status"], again["status"], get("https://{OTHER}/3")["status"], second,
                  get("https://{HOST}/small")["status"]]))
"""
    launched = threading.Event()

    def kill(_request, connection):
        launched.wait(30)
        os.kill(find_process(process.pid, "eclusa-worker"), signal.SIGKILL)
        connection.read()  # its end

    origin.origin.on("/kill", kill)
    mark = origin.origin.connections.mark()
    launch = Launch(origin, [], user=who)
    launch = Launch(origin, ["run", "--json", *network_args(origin, launch.audit_dir, policy), "--timeout", "60s", "--",
                             "/usr/bin/python3", "-c", program], user=who, audit_dir=launch.audit_dir)
    process = launch.popen()
    launched.set()
    stdout, stderr = process.communicate(timeout=90)
    run = Run(launch.words, who, process.returncode, stdout, stderr.decode("utf-8", "replace"), launch.audit_dir)
    origin.runs.append(run)
    first, cut, again, third, second, small = run.json()
    assert first == [200, 200] and cut != 200, f"C: {run.output}"
    assert again == 200 and third == 503, "C: one of two uses was left"
    assert second["status"] == 403 and "deny.budget" in second["body"], f"C: {second}"
    assert small == 200, "C: what was in flight in the killed worker is not anymore"
    uploads = [r for r in origin.origin.requests(mark) if r.target == "/up"]
    assert [len(r.body) for r in uploads] == [250000], "U"
    assert len(denials(run, "deny.budget")) == 1 and len(denials(run, "deny.quota")) == 1, f"L: {run.report()}"
