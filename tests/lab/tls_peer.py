"""
Runs inside the sandbox: `python3 tls_peer.py SPEC`. SPEC is a JSON list of {"name", "host", "sni", "pieces", "resume"}: TLS in a tunnel to host, its
hello cut in a way of which clients are capable, then one GET. Prints what was seen: the leaf by openssl's strict verifier, its names and dates.
"""
import datetime
import hashlib
import itertools
import json
import os
import socket
import ssl
import subprocess
import sys
import urllib.parse

SOURCE_PORTS = itertools.count(20000)


def tunnel(host):
    proxy = urllib.parse.urlsplit(os.environ["http_proxy"])
    sock = socket.create_connection((proxy.hostname, proxy.port), 20, ("", next(SOURCE_PORTS)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(4096)
    assert head.startswith(b"HTTP/1.1 200"), head
    return sock


def records(hello, size):
    """The same message in records of so many bytes."""
    body = hello[5:]
    parts = [body[at:at + size] for at in range(0, len(body), size)]
    return b"".join(hello[:3] + len(part).to_bytes(2, "big") + part for part in parts)


def send_hello(sock, hello, how):
    if how == "bytes":
        for at in range(len(hello)):
            sock.sendall(hello[at:at + 1])
    elif how in ("records-1", "records-2"):
        sock.sendall(records(hello, int(how[-1])))
    elif how == "records-last":
        sock.sendall(records(hello, len(hello) - 6))
    else:
        sock.sendall(hello)


class Client:
    def __init__(self, spec):
        context = ssl.create_default_context()
        context.check_hostname = False
        if spec.get("pieces") == "large":  # the server's name comes behind it, past 8 KB
            context.set_alpn_protocols([f"x{n:03}{'y' * 200}" for n in range(40)] + ["http/1.1"])
        self.sock = tunnel(spec["host"])
        self.how = spec.get("pieces")
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=spec.get("sni", spec["host"]))

    def flush(self, first=False):
        data = self.outgoing.read()
        if data and first:
            send_hello(self.sock, data, self.how)
        elif data:
            self.sock.sendall(data)

    def drive(self, step):
        first = True
        while True:
            try:
                value = step()
                self.flush()
                return value
            except ssl.SSLWantReadError:
                self.flush(first)
                first = False
                data = self.sock.recv(65536)
                if data:
                    self.incoming.write(data)
                else:
                    self.incoming.write_eof()


def certificate(der):
    pem = ssl.DER_cert_to_PEM_cert(der)
    with open("/tmp/leaf.pem", "w", encoding="ascii") as file:
        file.write(pem)
    strict = subprocess.run(["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", os.environ["SSL_CERT_FILE"], "/tmp/leaf.pem"],
                            capture_output=True, text=True, check=False)
    text = subprocess.run(["openssl", "x509", "-in", "/tmp/leaf.pem", "-noout", "-text"], capture_output=True, text=True, check=False).stdout
    key = subprocess.run(["openssl", "x509", "-in", "/tmp/leaf.pem", "-noout", "-pubkey"], capture_output=True, text=True, check=False).stdout
    return {"strict": "OK" if strict.returncode == 0 else strict.stdout + strict.stderr, "text": text,
            "key": hashlib.sha256(key.encode()).hexdigest()}


def when(text):
    return datetime.datetime.strptime(text, "%b %d %H:%M:%S %Y GMT")


def visit(spec):
    seen = {}
    client = Client(spec)
    seen["port"] = client.sock.getsockname()[1]
    client.drive(client.tls.do_handshake)
    peer = client.tls.getpeercert()
    now = datetime.datetime.utcnow()
    seen.update(names=[value for _, value in peer["subjectAltName"]], serial=peer["serialNumber"], issuer=str(peer["issuer"]),
                lifetime_s=(when(peer["notAfter"]) - when(peer["notBefore"])).total_seconds(),
                backdated_s=(now - when(peer["notBefore"])).total_seconds(), reused=bool(client.tls.session_reused),
                **certificate(client.tls.getpeercert(True)))
    client.tls.write(f"GET /{spec['name']} HTTP/1.1\r\nHost: {spec['host']}\r\nConnection: close\r\n\r\n".encode())
    client.flush()
    seen["status"] = int(client.drive(lambda: client.tls.read(65536)).split(b" ")[1])
    return seen


def resume(spec):
    """A session of one tunnel, offered in another: by one context, as clients keep them."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # whose sessions have ids beside tickets
    seen, session = {}, None
    for host in (spec["resume"], spec["host"]):
        sock = tunnel(host)
        seen["port"] = sock.getsockname()[1]
        tls = context.wrap_socket(sock, server_hostname=host, session=session)
        session = tls.session
        seen.update(reused=tls.session_reused, names=[value for _, value in tls.getpeercert()["subjectAltName"]])
        tls.sendall(f"GET /resume HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        seen["status"] = int(tls.recv(65536).split(b" ")[1])
    return seen


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        specs = json.load(file)
    out = {}
    for spec in specs:
        try:
            one = resume(spec) if "resume" in spec else visit(spec)
        except (OSError, ssl.SSLError) as error:
            one = {"error": f"{type(error).__name__}: {error}", "port": next(SOURCE_PORTS) - 1}
        out[spec["name"]] = one
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
