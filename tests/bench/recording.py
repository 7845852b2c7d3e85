"""
What recording costs a worker: its processor time for an inspected keep-alive request, with all of the log and with none, in one run, in turns.
The second program is the benchmark's own (unrecorded.c). A core makes as many requests per second as fit into it, so the difference of
the times is that of the rates. Also what the recorder takes beside.

    recording.py WORK [REQUESTS] [ROUNDS]       inside of a network namespace with lo up
"""
import os
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time

from passage import BUILD, certificates, connect, family

SECURE = 9443
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: text/plain\r\n\r\n" + 100 * b"x"
POLICY = f"""policy 1

[profile bench]
allow inspected.test:{SECURE} GET /** addr=127.0.0.0/8 up=1g id=inspected
"""


def origin(work):
    """In a process of its own, so that it shares no interpreter with the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{work}/origin.pem", f"{work}/key.pem")
    listener = socket.create_server(("127.0.0.1", SECURE))

    def serve(sock):
        try:
            sock = context.wrap_socket(sock, server_side=True)
            while data := sock.recv(65536):
                sock.sendall(ANSWER * data.count(b"\r\n\r\n"))
        except OSError:
            pass

    if os.fork() == 0:
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def start(work, name):
    folder = f"{work}/{name}"
    os.mkdir(folder)
    for file_name, text in (("bench.allow", POLICY), ("hosts", "127.0.0.1 inspected.test\n")):
        with open(f"{folder}/{file_name}", "w", encoding="ascii") as file:
            file.write(text)
    program = f"{BUILD}/eclusa-proxy" if name == "recorded" else f"{BUILD}/tests/eclusa-proxy-unrecorded"
    proxy = subprocess.Popen(
        [program, "--listen", "127.0.0.1:0", "--policy", f"{folder}/bench.allow", "--profile", "bench", "--ca-out", f"{folder}/ca.pem",
         "--upstream-ca", f"{work}/origin.pem", "--hosts", f"{folder}/hosts", "--audit-dir", f"{folder}/audit"],
        stdout=subprocess.PIPE, text=True)
    return proxy, int(proxy.stdout.readline().split(":")[1]), f"{folder}/ca.pem"


def member(proxy, name):
    for pid in family(proxy.pid):
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            if file.read().strip() == name:
                return pid
    return None


def cpu_ns(pid):
    """Of all that it has run: proc(5), schedstat."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0])


def ask(port, ca, requests):
    context = ssl.create_default_context(cafile=ca)
    sock = context.wrap_socket(connect(port, f"inspected.test:{SECURE}"), server_hostname="inspected.test")
    sock.sendall(request := f"GET /v1/rates HTTP/1.1\r\nHost: inspected.test:{SECURE}\r\nUser-Agent: bench/1\r\n\r\n".encode())
    left, length = requests, len(sock.recv(65536))  # the first one also says how long an answer is
    while left := left - 1:
        sock.sendall(request)
        got = 0
        while got < length:
            data = sock.recv(65536)
            assert data, "the proxy ended the connection"
            got += len(data)
    sock.close()


def main():
    work, requests, rounds = sys.argv[1], int(dict(enumerate(sys.argv)).get(2, 1000)), int(dict(enumerate(sys.argv)).get(3, 41))
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, processors[:1])  # waking somebody on another one costs a worker more than all of the log
    certificates(work)
    origin(work)
    time.sleep(0.2)
    seen = {"recorded": [], "unrecorded": []}
    proxies = {name: start(work, name) for name in seen}
    for proxy, _, _ in proxies.values():
        os.sched_setaffinity(member(proxy, "eclusa-recorder"), processors[-1:])
    recorder = []
    for number in range(rounds + 1):  # the first one warms up
        for name, (proxy, port, ca) in sorted(proxies.items(), reverse=number % 2):  # whoever is first, and what else runs, falls on both alike
            pids = [member(proxy, f"eclusa-{role}") for role in ("worker", "recorder")]
            used = [cpu_ns(pid) for pid in pids]
            ask(port, ca, requests)
            us = [(cpu_ns(pid) - before) / 1e3 / requests for pid, before in zip(pids, used)]
            if number > 0:
                seen[name].append(us[0])
                recorder += [us[1]] if name == "recorded" else []
    with_log, without = (statistics.median(seen[name]) for name in ("recorded", "unrecorded"))
    share = statistics.median(1 - b / a for a, b in zip(seen["recorded"], seen["unrecorded"]))
    print(f"recording: a worker's time for an inspected keep-alive request, median of {rounds} x {requests}")
    print(f"  without the log {without:6.1f} us   with it {with_log:6.1f} us, {100 * share:4.1f} % of it for recording (median of rounds); "
          f"the recorder, beside it, {statistics.median(recorder):4.1f} us: {with_log / statistics.median(recorder):.1f}x as fast")
    for proxy, _, _ in proxies.values():
        proxy.terminate()
        proxy.wait()


if __name__ == "__main__":
    main()
