"""
Runs inside the sandbox: `python3 probe.py WHAT...` prints one JSON object with an answer for each WHAT. Looks at the network
from there, and tries what must not work; each try ends by an event or by a watchdog that is itself a failure.
"""
import errno
import json
import os
import select
import socket
import subprocess
import sys
import time
import urllib.parse

WATCHDOG_S = 3.0


def proxy():
    url = urllib.parse.urlsplit(os.environ["http_proxy"])
    return url.hostname, url.port


def own_address():
    """The address from which the proxy is reached."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(proxy())
        return sock.getsockname()[0]


def gateway_address():
    """The other end of the /31."""
    parts = own_address().split(".")
    return ".".join(parts[:3] + [str(int(parts[3]) ^ 1)])


def name_of(number):
    return errno.errorcode.get(number, str(number))


def place_of(address, port):
    """What connect() takes; a link-local address needs the cable's index."""
    if not address.startswith(("fe80:", "ff02:")):
        return address, port
    return address, port, 0, max(index for index, _ in socket.if_nameindex())


def try_tcp(address, port):
    """Connected, an errno, or WATCHDOG; and how long it took."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    started = time.monotonic()
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        return [name_of(error.errno), 0]
    with sock:
        sock.setblocking(False)
        try:
            number = sock.connect_ex(place_of(address, port))
        except OSError as error:
            number = error.errno
        if number == errno.EINPROGRESS:
            if not select.select([], [sock], [], WATCHDOG_S)[1]:
                return ["WATCHDOG", int(WATCHDOG_S * 1000)]
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return [name_of(number) if number else "CONNECTED", int((time.monotonic() - started) * 1000)]


def try_udp(address, port):
    """Send, then wait for the refusal that ICMP brings."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    started = time.monotonic()
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect(place_of(address, port))
            sock.send(b"probe")
            if not select.select([sock], [], [], WATCHDOG_S)[0]:
                return ["WATCHDOG", int(WATCHDOG_S * 1000)]
            sock.recv(1500)
            return ["ANSWERED", 0]
    except OSError as error:
        return [name_of(error.errno), int((time.monotonic() - started) * 1000)]


def try_socket(family, kind, protocol):
    try:
        with socket.socket(family, kind, protocol):
            return "MADE"
    except OSError as error:
        return name_of(error.errno)


def try_icmp(address):
    """By a ping socket where there is one; a raw socket needs a capability."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as sock:
            sock.connect((address, 0))
            sock.send(b"\x08\0\0\0\0\0\0\0")
            if not select.select([sock], [], [], WATCHDOG_S)[0]:
                return "WATCHDOG"
            sock.recv(1500)
            return "ANSWERED"
    except OSError as error:
        return name_of(error.errno)


def interfaces():
    with open("/proc/net/dev", encoding="ascii") as file:
        return sorted(line.split(":")[0].strip() for line in file if ":" in line)


def routes():
    """[interface, destination, gateway, mask] of /proc/net/route, in its hexadecimal."""
    with open("/proc/net/route", encoding="ascii") as file:
        rows = [line.split() for line in file.read().splitlines()[1:]]
    return [[row[0], row[1], row[2], row[7]] for row in rows]


def routes6():
    """Routes over anything but lo."""
    try:
        with open("/proc/net/ipv6_route", encoding="ascii") as file:
            return [line.split()[0] for line in file if line.split()[-1] != "lo"]
    except FileNotFoundError:
        return []


def run(*words):
    """[status, output]; a program that is not there is status 127."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=10)
        return [done.returncode, done.stdout.decode("utf-8", "replace")[-500:]]
    except FileNotFoundError:
        return [127, "not found"]
    except PermissionError:
        return [126, "not permitted"]


def through_proxy(host):
    """The status line of a CONNECT, so that a probe can show that the way which is open still is."""
    with socket.create_connection(proxy(), timeout=10) as sock:
        sock.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
        return sock.recv(4096).split(b"\r\n")[0].decode()


def probe_shape():
    return {"interfaces": interfaces(), "routes": routes(), "routes6": routes6(), "own": own_address(),
            "resolv": open("/etc/resolv.conf", encoding="ascii").read() if os.path.exists("/etc/resolv.conf") else ""}


def probe_tcp():
    service, port = proxy()
    places = [(gateway_address(), 1), (gateway_address(), 22), (gateway_address(), port), (service, 853), (service, 80),
              (service, port + 1), ("127.0.0.1", 22), ("127.0.0.2", 80), ("10.0.0.1", 22), ("10.0.2.2", 22), ("10.200.0.1", 443),
              ("172.16.0.1", 443), ("192.168.50.1", 22), ("192.168.1.1", 443), ("169.254.169.254", 80), ("169.254.1.1", 80),
              ("100.64.0.1", 443), ("198.20.0.1", 443), ("203.0.113.1", 22), ("203.0.113.10", 80), ("203.0.113.10", 443),
              ("203.0.113.53", 53), ("1.2.3.4", 443), ("5.6.7.8", 443), ("8.8.8.8", 853)]
    return {f"{address}:{number}": try_tcp(address, number) for address, number in places}


ADDRESSES_6 = ("::1", "2001:db8:113::10", "2a00:1::1", "fd00::1", "fe80::1", "ff02::1")
HOST_NAMES = ("host.docker.internal", "gateway.docker.internal", "host.containers.internal", "kubernetes.default.svc", "metadata.google.internal")
HOST_ADDRESSES = ("127.0.0.1", "127.0.0.2", "10.0.2.2", "169.254.1.1", "192.168.50.1", "203.0.113.1", "1.2.3.4")


def resolve(name):
    try:
        return socket.getaddrinfo(name, 443)[0][4][0]
    except OSError as error:
        return type(error).__name__


def probe_host():
    """Names and addresses by which a host is known to guests, by look-up and through the proxy."""
    return {"names": {name: resolve(name) for name in HOST_NAMES}, "proxy": {host: through_proxy(host) for host in HOST_NAMES + HOST_ADDRESSES}}


def probe_others():
    return {"sctp": try_socket(socket.AF_INET, socket.SOCK_STREAM, 132), "dccp": try_socket(socket.AF_INET, 6, 33),
            "udplite": try_socket(socket.AF_INET, socket.SOCK_DGRAM, 136)}


def probe_tcp6():
    return {address: try_tcp(address, 443) for address in ADDRESSES_6}


def probe_udp6():
    return {address: try_udp(address, 443) for address in ADDRESSES_6}


def probe_udp():
    service, _ = proxy()
    places = [(service, 853), (gateway_address(), 53), ("203.0.113.53", 53), ("203.0.113.10", 443), ("203.0.113.10", 123),
              ("203.0.113.10", 9999), ("198.18.0.1", 443), ("8.8.8.8", 53), ("10.0.0.9", 9999), ("169.254.169.254", 53), ("5.6.7.8", 5353)]
    return {f"{address}:{number}": try_udp(address, number) for address, number in places}


def probe_icmp():
    return {"ping": {a: try_icmp(a) for a in ("203.0.113.10", proxy()[0], gateway_address())},
            "raw": try_socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
            "packet": try_socket(socket.AF_PACKET, socket.SOCK_RAW, 0)}


def probe_commands():
    link = [name for name in interfaces() if name != "lo"][0]
    return {" ".join(words): run(*words) for words in (
        ("nft", "flush", "ruleset"), ("nft", "list", "ruleset"), ("nft", "add", "table", "inet", "x"),
        ("ip", "link", "add", "x0", "type", "dummy"), ("ip", "link", "set", link, "down"),
        ("ip", "addr", "add", "10.0.0.9/8", "dev", link), ("ip", "route", "add", "default", "via", gateway_address()),
        ("ip", "neigh", "replace", gateway_address(), "lladdr", "02:00:00:00:00:01", "dev", link),
        ("sysctl", "-w", "net.ipv4.ip_forward=1"), ("sysctl", "-w", "net.ipv6.conf.all.disable_ipv6=0"),
        ("unshare", "--user", "--map-root-user", "--net", "true"), ("nsenter", "-t", "1", "-n", "true"))}


def probe_proxy():
    return {host: through_proxy(host) for host in ("allowed.test", "denied.test")}


def main():
    json.dump({what: globals()[f"probe_{what}"]() for what in sys.argv[1:]}, sys.stdout)


if __name__ == "__main__":
    main()
