"""
What passing bytes costs: MB/s of one connection from an origin to a client, direct, through a tcp rule, through a tls=splice
rule, and inspected; and the processor time that the proxy takes for a gigabyte. Also haproxy's relay, where $HAPROXY names it. All in
one run, in turns, on one loopback: read the ratios.

    passage.py WORK [MIB] [ROUNDS]       inside of a network namespace with lo up
"""
import os
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time

BUILD = os.environ.get("BUILD", "build")
BLOCK = bytes(1 << 20)
PLAIN, HELLO, SECURE, RELAY = 9101, 9102, 9443, 9100
TICK = os.sysconf("SC_CLK_TCK")

POLICY = f"""policy 1

[profile bench]
allow tcp raw.test:{PLAIN} addr=127.0.0.0/8 id=raw
allow spliced.test:{HELLO} tls=splice addr=127.0.0.0/8 id=spliced
allow inspected.test:{SECURE} GET /** addr=127.0.0.0/8 resp-body=64g id=inspected
"""

HAPROXY = f"""global
  nbthread 1
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  %s
listen relay
  bind 127.0.0.1:{RELAY}
  server origin 127.0.0.1:{PLAIN}
"""


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificates(work):
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=bench",
        "-addext", "subjectAltName=DNS:inspected.test", "-keyout", f"{work}/key.pem", "-out", f"{work}/origin.pem")


def send_all(sock, length):
    while length > 0:
        sock.sendall(BLOCK[:min(length, len(BLOCK))])
        length -= len(BLOCK)


def serve_plain(sock, length, _context):
    sock.recv(1)
    send_all(sock, length)


def serve_after_hello(sock, length, _context):
    sock.recv(65536)
    send_all(sock, length)


def serve_secure(sock, length, context):
    sock = context.wrap_socket(sock, server_side=True)
    while b"\r\n\r\n" not in sock.recv(65536):
        pass
    sock.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n".encode())
    send_all(sock, length)


def origin(work, length):
    """In a process of its own, so that it shares no interpreter with the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{work}/origin.pem", f"{work}/key.pem")
    listeners = [(socket.create_server(("127.0.0.1", port)), serve)
                 for port, serve in ((PLAIN, serve_plain), (HELLO, serve_after_hello), (SECURE, serve_secure))]

    def accept(listener, serve):
        while True:
            sock, _ = listener.accept()
            try:
                serve(sock, length, context)
            except OSError:
                pass
            sock.close()

    if os.fork() == 0:
        for listener, serve in listeners:
            threading.Thread(target=accept, args=(listener, serve)).start()
        while True:
            time.sleep(3600)


def receive(sock):
    buffer = bytearray(1 << 20)
    total = 0
    while n := sock.recv_into(buffer):
        total += n
    return total


def hello(name):
    """Of TLS 1.2, which gets its answer without a second one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    out = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return out.read()


def connect(port, target=None):
    sock = socket.create_connection(("127.0.0.1", port))
    if target:
        sock.sendall(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += sock.recv(1)
        assert b" 200 " in head, head
    return sock


def fetch(sock, ca):
    context = ssl.create_default_context(cafile=ca)
    sock = context.wrap_socket(sock, server_hostname="inspected.test", suppress_ragged_eofs=False)
    sock.sendall(f"GET /x HTTP/1.1\r\nHost: inspected.test:{SECURE}\r\nConnection: close\r\n\r\n".encode())
    buffer = bytearray(1 << 18)
    total = 0
    try:
        while n := sock.recv_into(buffer):
            total += n
    except ssl.SSLEOFError:
        pass  # this origin says no close_notify
    return total


def say(sock, first):
    sock.sendall(first)
    return receive(sock)


def cpu_of(pids):
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            ticks += sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
    return ticks / TICK


def family(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [pid] + [p for child in file.read().split() for p in family(int(child))]


def start_proxy(work):
    for name, text in (("bench.allow", POLICY), ("hosts", "127.0.0.1 raw.test spliced.test inspected.test\n")):
        with open(f"{work}/{name}", "w", encoding="ascii") as file:
            file.write(text)
    proxy = subprocess.Popen(
        [f"{BUILD}/eclusa-proxy", "--listen", "127.0.0.1:0", "--policy", f"{work}/bench.allow", "--profile", "bench", "--ca-out",
         f"{work}/ca.pem", "--upstream-ca", f"{work}/origin.pem", "--hosts", f"{work}/hosts", "--audit-dir", f"{work}/audit"],
        stdout=subprocess.PIPE, text=True)
    return proxy, int(proxy.stdout.readline().split(":")[1])


def main():
    work, mib, rounds = sys.argv[1], int(dict(enumerate(sys.argv)).get(2, 512)), int(dict(enumerate(sys.argv)).get(3, 5))
    length = mib << 20
    certificates(work)
    origin(work, length)
    proxy, port = start_proxy(work)
    first = hello("spliced.test")
    ways = {
        "direct": (None, lambda: say(connect(PLAIN), b"x")),
        "tcp rule": (proxy, lambda: say(connect(port, f"raw.test:{PLAIN}"), b"x")),
        "spliced": (proxy, lambda: say(connect(port, f"spliced.test:{HELLO}"), first)),
        "direct TLS": (None, lambda: fetch(connect(SECURE), f"{work}/origin.pem")),
        "inspected": (proxy, lambda: fetch(connect(port, f"inspected.test:{SECURE}"), f"{work}/ca.pem")),
    }
    relay = None
    if os.environ.get("HAPROXY"):
        with open(f"{work}/haproxy.cfg", "w", encoding="ascii") as file:
            file.write(HAPROXY % os.environ.get("HAPROXY_OPTION", ""))
        relay = subprocess.Popen([os.environ["HAPROXY"], "-f", f"{work}/haproxy.cfg"], stderr=subprocess.DEVNULL)
        time.sleep(1)
        ways["haproxy relay"] = (relay, lambda: say(connect(RELAY), b"x"))
    seen = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (process, act) in ways.items():
            pids = family(process.pid) if process else []
            began, used = time.monotonic(), cpu_of(pids)
            got = act()
            assert got >= length, (way, got)
            seen[way].append((got / 1e6 / (time.monotonic() - began), (cpu_of(pids) - used) / (got / 1e9)))
    print(f"passage: {mib} MiB towards the client, median of {rounds}")
    for way, results in seen.items():
        speed, cost = (statistics.median(column) for column in zip(*results))
        base = "direct TLS" if way in ("direct TLS", "inspected") else "direct"
        part = speed / statistics.median(r[0] for r in seen[base])
        print(f"  {way:14} {speed:7.0f} MB/s  {part:4.2f} of {base:10}" + (f"  {cost:5.2f} s of proxy a GB" if ways[way][0] else ""))
    for process in filter(None, (proxy, relay)):
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
