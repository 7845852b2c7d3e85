"""
Proxies side by side, all on one core with their clients and the world's server: what a tunnel, a handshake, a certificate, a request,
a byte and an idle tunnel cost through eclusa-proxy, with policy and log on, through the peers that are installed, and with no proxy (direct).
In turns, so that other load falls on all alike: read the ratios. Processor time is that of the whole proxy for one operation. `a second of the core`
counts the time that proxy, clients and the world's server had of it, whatever else ran: on a machine with nothing else to do it is the rate.

    proxies.py WORK [ROUNDS] [MILLISECONDS]      inside of a network namespace with lo up; ROWS=S1,S4 only these; IDLE=1000 tunnels in S6

haproxy speaks no CONNECT: its clients go to it directly, by SNI, and its tunnel is a relay. It is set not to reuse connections and sessions,
Squid does not either. `S2 full` goes round 1,000 hosts, 250 in each round, so that ours has no connection and no session left of any; their
certificates are there already, but mitmproxy's, which is too slow to ask for all. `S2` and `S4` are one host.
"""
import json
import os
import shutil
import ssl
import statistics
import subprocess
import sys
import time
from socket import create_connection

from passage import BUILD, family
from recording import cpu_ns

PLAIN, SECURE = 18081, 18443
HOSTS, COLD = 1000, 200  # of the rows that go round many names; ours keeps 128 connections
QUARTER = HOSTS // 4
LOAD = f"{BUILD}/tests/load"
CORE = ["taskset", "-c", str(max(os.sched_getaffinity(0)))]
SQUID_HELPER = "/usr/lib/squid/security_file_certgen"

POLICY = f"""policy 1

[profile bench]
allow *.bench.test:{SECURE} GET /** addr=127.0.0.1/32 resp-body=4g up=1000g id=inspected
allow *.bench.test:{PLAIN} GET /** scheme=http addr=127.0.0.1/32 resp-body=4g up=1000g id=plain
allow tcp raw.test:{PLAIN} addr=127.0.0.1/32 id=raw
"""


def certificates(work):
    def make(*words):
        subprocess.run(["openssl", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=work)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    for name in ("ca", "originca"):
        make("req", "-x509", *key, "-subj", f"/CN=bench {name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
             "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    for name, issuer in (("origin", "originca"), ("leaf", "ca")):
        make("req", *key, "-subj", "/CN=bench", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        with open(f"{work}/extension", "w", encoding="ascii") as file:
            file.write("subjectAltName=DNS:*.bench.test\nextendedKeyUsage=serverAuth\n")
        make("x509", "-req", "-in", f"{name}.csr", "-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key", "-CAcreateserial", "-days", "2",
             "-extfile", "extension", "-out", f"{name}.pem")
    for name in ("ca", "leaf"):
        with open(f"{work}/{name}-both.pem", "w", encoding="ascii") as file:
            for part in ("pem", "key"):
                with open(f"{work}/{name}.{part}", encoding="ascii") as source:
                    file.write(source.read())
    os.chmod(f"{work}/ca.key", 0o600)


class Proxy:
    """One that runs. @front: how clients reach it. @ports: of inspected tunnels and of plain ones; None: it has none."""

    world = None  # the server's process

    def __init__(self, name, front, ports, words=None, folder=None):
        self.name, self.front, self.inspects, self.relays = name, front, *ports
        self.process = words and subprocess.Popen([*CORE, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=folder)

    def wait(self):
        for port in filter(None, (self.inspects, self.relays)):
            end = time.monotonic() + 20
            while True:
                try:
                    create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if time.monotonic() > end or (self.process and self.process.poll() is not None):
                        return False
                    time.sleep(0.05)
        return True

    def memory_kib(self):
        total = 0
        for pid in family(self.process.pid):
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        return total

    def cpu(self):
        return sum(cpu_ns(pid) for pid in family(self.process.pid)) / 1e9 if self.process else 0

    def client(self, port, tls, mode, at_once, *rest):
        """@rest: milliseconds, operations, names, the first one."""
        words = [LOAD, "client", port, self.front, int(tls), SECURE if tls else PLAIN, mode, at_once, *rest]
        return [*CORE, *map(str, words)]

    def run(self, tls, *more):
        port = self.inspects if tls else self.relays
        if not port:
            return None
        before, world = self.cpu(), cpu_ns(Proxy.world.pid)
        with subprocess.Popen(self.client(port, tls, *more), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            seen = json.loads(client.stdout.readline())
            if not seen:  # all are connected
                before = self.cpu()
                client.stdin.write("x")
                client.stdin.close()
                seen = json.loads(client.stdout.readline())
        seen["proxy"] = self.cpu() - before
        seen["core"] = seen["proxy"] + seen["cpu"] + (cpu_ns(Proxy.world.pid) - world) / 1e9
        return seen


def config(work, name, text):
    folder = f"{work}/{name}"
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o777)
    with open(f"{folder}/conf", "w", encoding="ascii") as file:
        file.write(text)
    return folder, f"{folder}/conf"


def ours(work):
    folder, _ = config(work, "ours", "")
    with open(f"{folder}/bench.allow", "w", encoding="ascii") as file:
        file.write(POLICY)
    os.environ["ECLUSA_LIMITS"] = "connections=16000"
    return Proxy("eclusa", "connect", (9100, 9100), [
        f"{BUILD}/eclusa-proxy", "--listen", "127.0.0.1:9100", "--policy", f"{folder}/bench.allow", "--profile", "bench", "--ca", f"{work}/ca.pem",
        "--ca-key", f"{work}/ca.key", "--upstream-ca", f"{work}/originca.pem", "--hosts", f"{work}/hosts", "--audit-dir", f"{folder}/audit"])


def haproxy(work):
    folder, path = config(work, "haproxy", f"""global
  maxconn 9000
  nbthread 1
  tune.ssl.ssl-ctx-cache-size 2000
defaults
  timeout connect 5s
  timeout client 120s
  timeout server 120s
listen inspect
  mode http
  bind 127.0.0.1:9200 ssl crt {work}/leaf-both.pem generate-certificates ca-sign-file {work}/ca-both.pem
  http-reuse never
  server o 127.0.0.1:{SECURE} ssl verify required ca-file {work}/originca.pem sni ssl_fc_sni no-ssl-reuse
listen relay
  mode tcp
  bind 127.0.0.1:9201
  server o 127.0.0.1:{PLAIN}
""")
    return Proxy("haproxy", "sni", (9200, 9201), ["haproxy", "-f", path, "-db"], folder)


def squid(work):
    helper = os.path.exists(SQUID_HELPER)
    folder, path = config(work, "squid", f"""pid_filename none
cache_log none
access_log none
cache deny all
cache_store_log none
hosts_file {work}/hosts
visible_hostname bench
max_filedescriptors 20000
shutdown_lifetime 0 seconds
http_access allow all
acl step1 at_step SslBump1
http_port 127.0.0.1:9300 ssl-bump tls-cert={work}/ca-both.pem generate-host-certificates=on dynamic_cert_mem_cache_size=64MB
http_port 127.0.0.1:9301
sslcrtd_program {SQUID_HELPER} -s {work}/squid/db -M 64MB
sslcrtd_children 4 startup=2 idle=1
tls_outgoing_options cafile={work}/originca.pem
ssl_bump peek step1
ssl_bump bump all
""")
    if helper:
        subprocess.run([SQUID_HELPER, "-c", "-s", f"{folder}/db", "-M", "64MB"], check=True, stdout=subprocess.DEVNULL)
        for root, folders, files in os.walk(folder):
            for name in (root, *(os.path.join(root, n) for n in folders + files)):
                shutil.chown(name, "proxy")
    return Proxy("squid", "connect", (9300 if helper else None, 9301), ["squid", "-n", f"b{os.getpid()}", "-N", "-f", path], folder)


def tinyproxy(work):
    folder, path = config(work, "tinyproxy", f"Port 9400\nListen 127.0.0.1\nTimeout 120\nMaxClients 2000\nLogLevel Critical\nLogFile \"{work}/tinyproxy/log\"\n")
    return Proxy("tinyproxy", "connect", (None, 9400), ["tinyproxy", "-d", "-c", path], folder)


def mitmproxy(work):
    folder, _ = config(work, "mitmproxy", "")
    with open(f"{folder}/mitmproxy-ca.pem", "w", encoding="ascii") as file, open(f"{work}/ca-both.pem", encoding="ascii") as source:
        file.write(source.read())
    return Proxy("mitmproxy", "connect", (9500, None), [
        "mitmdump", "-q", "--listen-host", "127.0.0.1", "-p", "9500", "--set", f"confdir={folder}", "--set", "flow_detail=0",
        "--set", f"ssl_verify_upstream_trusted_ca={work}/originca.pem"], folder)


PEERS = {"haproxy": ("haproxy", haproxy), "squid": ("squid", squid), "tinyproxy": ("tinyproxy", tinyproxy), "mitmproxy": ("mitmdump", mitmproxy)}


def start(work):
    all_, skipped = [Proxy("direct", "direct", (SECURE, PLAIN)), ours(work)], []
    for name, (program, make) in PEERS.items():
        if shutil.which(program):
            all_.append(make(work))
        else:
            skipped.append(name)
    running = [proxy for proxy in all_ if proxy.wait()]
    return all_, running, skipped + [f"{proxy.name} (did not start)" for proxy in all_ if proxy not in running]


def verify(proxy, work):
    """The certificate that its clients get is one for the name, by its CA."""
    context = ssl.create_default_context(cafile=f"{work}/{'originca' if proxy.front == 'direct' else 'ca'}.pem")
    with create_connection(("127.0.0.1", proxy.inspects), 10) as sock:
        if proxy.front == "connect":
            sock.sendall(f"CONNECT h1.bench.test:{SECURE} HTTP/1.1\r\nHost: h1.bench.test:{SECURE}\r\n\r\n".encode())
            while not sock.recv(4096).endswith(b"\r\n\r\n"):
                pass
        with context.wrap_socket(sock, server_hostname="h1.bench.test"):
            pass


def print_row(title, seen, number, form):
    """@seen: a list of measurements for each proxy, @number of one of them; medians, and their part of the direct one."""
    medians = {name: statistics.median(map(number, runs)) for name, runs in seen.items() if runs}
    words = []
    for name, value in medians.items():
        part = f" {value / medians['direct']:.2f}x" if name != "direct" and medians.get("direct") else ""
        failed = sum(run["failed"] for run in seen[name])
        words.append(f"{name} {form % value}{part}" + (f" ({failed} failed)" if failed else ""))
    print(f"  {title:46} " + "   ".join(words), flush=True)


def rate(run):
    return run["done"] / run["seconds"]


def core_rate(run):
    return run["done"] / run["core"]


def cost(run):
    return run["proxy"] / max(run["done"], 1) * 1e6


def megabytes(run):
    return run["bytes"] / 1e6 / run["seconds"]


def core_megabytes(run):
    return run["bytes"] / 1e6 / run["core"]


def measure(proxies, rounds, *job):
    """@job: its end may be a function of the round, for the first host."""
    seen = {proxy.name: [] for proxy in proxies}
    for number in range(rounds):
        for proxy in proxies:
            run = proxy.run(*(word(number) if callable(word) else word for word in job))
            if run and run["done"]:
                seen[proxy.name].append(run)
    return seen


def rates(title, proxies, rounds, *job):
    seen = measure(proxies, rounds, *job)
    print_row(f"{title}, a second", seen, rate, "%.0f")
    if "new" in job:
        print_row("   a second of the core", seen, core_rate, "%.0f")
    print_row("   the proxy's processor time, us", {n: r for n, r in seen.items() if n != "direct"}, cost, "%.0f")
    return seen


def idle(proxies, count):
    for proxy in proxies:
        if not proxy.process or not proxy.inspects:
            continue
        before = proxy.memory_kib()
        words = proxy.client(proxy.inspects, True, "idle", 1, 120000, count, 1, 1)
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            seen = json.loads(client.stdout.readline())
            print(f"  S6 memory of an idle inspected tunnel, KiB         {proxy.name} {(proxy.memory_kib() - before) / max(seen['done'], 1):.1f}"
                  f" ({seen['done']} tunnels{', %d failed' % seen['failed'] if seen['failed'] else ''})", flush=True)
            client.stdin.close()


def rows(running, rounds, ms):
    wanted = set(filter(None, os.environ.get("ROWS", "").split(",")))
    inspecting = [proxy for proxy in running if proxy.inspects]
    relaying = [proxy for proxy in running if proxy.relays]
    quick = [proxy for proxy in inspecting if proxy.name != "mitmproxy"]

    def want(row):
        return not wanted or row in wanted

    if want("S3"):  # first of all, while no name was seen
        for title in ("S3 first sight of a name", "S3 the same names again"):
            seen = measure([p for p in inspecting if p.name != "direct"], 1, True, "new", 1, 60000, COLD, COLD, HOSTS + 1)
            print_row(f"{title}, us", seen, lambda run: run["p50_us"], "%.0f")
    if want("S1"):
        rates("S1 new plain tunnels, 50 at once", relaying, rounds, False, "new", 50, ms, 0, 1, 1)
    if want("S2"):
        rates("S2 new inspected tunnels, 50 at once", inspecting, rounds, True, "new", 50, ms, 0, 1, 1)
        for proxy in quick:
            proxy.run(True, "new", 50, 60000, HOSTS, HOSTS, 1)
        rates(f"S2 full handshakes to {HOSTS} hosts, 50 at once", inspecting, rounds, True, "new", 50, ms, 0, QUARTER, lambda n: 1 + n % 4 * QUARTER)
    if want("S4"):
        rates("S4 inspected keep-alive GETs, 50 at once", inspecting, rounds, True, "keep", 50, ms, 0, 1, 1)
        seen = measure(inspecting, rounds, True, "keep", 1, ms, 0, 1, 1)
        print_row("S4 one at a time, p50 us", seen, lambda run: run["p50_us"], "%.0f")
    if want("S5"):
        bulk = ("bulk", 1, 60000, int(os.environ.get("MIB", "256")) << 20, 1, 1)
        for title, proxies, tls in (("S5 inspected bytes, MB/s", quick, True), ("S5 bytes through a plain tunnel, MB/s", relaying, False)):
            seen = measure(proxies, rounds, tls, *bulk)
            print_row(title, seen, megabytes, "%.0f")
            print_row("   a second of the core", seen, core_megabytes, "%.0f")
    if want("S6"):
        idle(quick, int(os.environ.get("IDLE", "1000")))


def main():
    work, rounds, ms = sys.argv[1], *(int(word) for word in (sys.argv[2:] + ["5", "500"][len(sys.argv) - 2:]))
    os.chmod(work, 0o755)
    certificates(work)
    with open(f"{work}/hosts", "w", encoding="ascii") as file:
        file.write("127.0.0.1 raw.test\n" + "".join(f"127.0.0.1 h{n}.bench.test\n" for n in range(1, HOSTS + COLD + 1)))
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w", encoding="ascii") as file:
        file.write("20000 65535")
    world = Proxy.world = subprocess.Popen([*CORE, LOAD, "origin", str(PLAIN), str(SECURE), f"{work}/origin.pem", f"{work}/origin.key"])
    all_, running, skipped = start(work)
    try:
        for proxy in running:
            if proxy.inspects:
                verify(proxy, work)
        print(f"proxies: one core, median of {rounds} rounds of {ms} ms; not here: {', '.join(skipped) or 'none'}")
        rows(running, rounds, ms)
    finally:
        for process in [world, *(proxy.process for proxy in all_ if proxy.process)]:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
