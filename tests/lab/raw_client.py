"""
Runs inside the sandbox: `python3 raw_client.py SPEC [THREADS]`. SPEC is a JSON list of exchanges, each with one
connection to the proxy that the environment names; prints a JSON list of what each saw. Needs the standard library only.

An exchange is {"id", "steps": [{"do": ..}]}, and with "to": [host, port] its connection goes there, as that of a client that knows no proxy:
  send data          raw bytes (base64), inside TLS once it is up
  head               read one response head
  response method    read one response whole; interim ones are steps of "responses" before it
  connect target     CONNECT with Host, then read the head; another status than 200 reads to the end and stops
  socks host port    SOCKS5 up to the reply, whose code is the status; host as text, or bytes of an address; another code than 0 stops
  tls sni verify     handshake; sni null: none; verify false: any certificate is taken; name: whom to verify
  beside host path   a plain GET on another connection, whose source port is the kernel's
  until mark         read up to these bytes
  trickle data       a byte each 10 ms, until the other side says something or ends the connection
  abort              end with a reset
  end                read until the connection ends
  shut               end the sending direction
A step's outcome: {"do", "data" (base64), "status", "end": "eof"|"reset"|"timeout", "error", "alert", "ms"}.
"""
import base64
import concurrent.futures
import functools
import itertools
import json
import os
import select
import socket
import ssl
import struct
import sys
import time
import urllib.parse

WATCHDOG_S = 25.0
SOURCE_PORTS = itertools.count(10000)  # one each, so that the log tells exchanges apart by it: the kernel would give one twice


class Peer:
    def __init__(self, to=None, source=None):
        if not to:
            proxy = urllib.parse.urlsplit(os.environ.get("http_proxy") or os.environ["HTTP_PROXY"])
            to = proxy.hostname, proxy.port
        self.to = tuple(to)
        self.sock = socket.socket()
        self.sock.settimeout(WATCHDOG_S)
        self.sock.bind(("", next(SOURCE_PORTS) if source is None else source))
        self.port = self.sock.getsockname()[1]
        self.data = b""
        self.end = None
        self.was_reset = False  # which a send was told: a read has what came before it, and then an end of the other kind

    def more(self):
        """Read once; False at the end, whose kind is then known."""
        if self.end:
            return False
        try:
            data = self.sock.recv(65536)
        except ssl.SSLEOFError:
            self.end = "eof"  # without close_notify
            return False
        except ssl.SSLError:
            raise
        except ConnectionError:
            self.end = "reset"
            return False
        except TimeoutError:
            self.end = "timeout"
            return False
        if not data:
            self.end = "reset" if self.was_reset else "eof"
            return False
        self.data += data
        return True

    def take(self, length):
        taken, self.data = self.data[:length], self.data[length:]
        return taken

    def take_until(self, mark):
        while mark not in self.data:
            if not self.more():
                return self.take(len(self.data))
        return self.take(self.data.index(mark) + len(mark))

    def take_exactly(self, length):
        while len(self.data) < length and self.more():
            pass
        return self.take(length)

    def take_rest(self):
        while self.more():
            pass
        return self.take(len(self.data))


def status_of(head):
    words = head.split(b"\r\n")[0].split(b" ")
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else None


def field_of(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def read_response(peer, method):
    """(head, body) of one final response; interim heads are skipped."""
    head = peer.take_until(b"\r\n\r\n")
    while (status_of(head) or 0) // 100 == 1 and status_of(head) != 101:
        head = peer.take_until(b"\r\n\r\n")
    status = status_of(head)
    if status is None or method == "HEAD" or status in (101, 204, 304):
        return head, b""
    if (field_of(head, b"transfer-encoding") or b"").lower() == b"chunked":
        body = b""
        while True:
            line = peer.take_until(b"\r\n")
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError:
                return head, body
            if size == 0:
                while peer.take_until(b"\r\n") not in (b"\r\n", b""):
                    pass
                return head, body
            body += peer.take_exactly(size)
            peer.take_exactly(2)
    length = field_of(head, b"content-length")
    return head, peer.take_exactly(int(length)) if length is not None else peer.take_rest()


@functools.cache
def context_of(verify, alpn):
    context = ssl.create_default_context()
    context.check_hostname = False
    if not verify:
        context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def context_for(step):
    return context_of(step.get("verify", True), tuple(step.get("alpn") or ()))


def start_tls(peer, step):
    peer.sock = context_for(step).wrap_socket(peer.sock, server_hostname=step.get("sni"))
    outcome = {"version": peer.sock.version(), "alpn": peer.sock.selected_alpn_protocol()}
    certificate = peer.sock.getpeercert()
    if certificate:
        outcome["names"] = [value for _, value in certificate.get("subjectAltName", ())]
    return outcome


def socks_request(step):
    host = base64.b64decode(step["host"])
    kind = step.get("kind", 3)
    address = bytes([len(host)]) + host if kind == 3 else host
    return bytes([5, step.get("command", 1), 0, kind]) + address + step["port"].to_bytes(2, "big")


def run_socks(peer, step):
    """Greeting and request, each when the one before was answered, or both at once."""
    greeting, request = b"\x05\x01\x00", socks_request(step)
    peer.sock.sendall(greeting + request if step.get("glued") else greeting)
    method = peer.take_exactly(2)
    if method == b"\x05\x00" and not step.get("glued"):
        peer.sock.sendall(request)
    reply = peer.take_exactly(10) if method == b"\x05\x00" else b""
    outcome = {"data": method + reply, "status": reply[1] if len(reply) > 1 else None, "end": peer.end}
    if outcome["status"] != 0:
        outcome.update(body=peer.take_rest(), end=peer.end, stop=True)
    return outcome


def run_step(peer, step):
    what = step["do"]
    if what == "send":
        peer.sock.sendall(base64.b64decode(step["data"]))
        return {}
    if what == "shut":
        peer.sock.shutdown(socket.SHUT_WR)
        return {}
    if what == "tls":
        return start_tls(peer, step)
    if what == "head":
        head = peer.take_until(b"\r\n\r\n")
        return {"data": head, "status": status_of(head), "end": peer.end}
    if what == "response":
        head, body = read_response(peer, step.get("method", "GET"))
        return {"data": head, "body": body, "status": status_of(head), "end": peer.end}
    if what == "end":
        rest = peer.take_rest()
        return {"data": rest, "end": peer.end}
    if what == "until":
        data = peer.take_until(base64.b64decode(step["mark"]))
        return {"data": data, "end": peer.end}
    if what == "trickle":
        sent = 0
        for byte in itertools.cycle(base64.b64decode(step["data"])):
            if select.select([peer.sock], [], [], 0.01)[0]:
                return {"sent": sent}
            peer.sock.sendall(bytes([byte]))
            sent += 1
    if what == "abort":
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.sock.close()
        return {"stop": True}
    if what == "beside":
        other = Peer(source=0)
        other.sock.connect(other.to)
        other.sock.sendall(f"GET http://{step['host']}{step['path']} HTTP/1.1\r\nHost: {step['host']}\r\nConnection: close\r\n\r\n".encode())
        return {"data": other.take_rest()}
    if what == "socks":
        return run_socks(peer, step)
    if what == "connect":
        target = step["target"].encode("latin-1")
        peer.sock.sendall(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")
        head = peer.take_until(b"\r\n\r\n")
        outcome = {"data": head, "status": status_of(head), "end": peer.end}
        if outcome["status"] != 200:
            outcome.update(body=peer.take_rest(), end=peer.end, stop=True)
        return outcome
    raise ValueError(what)


def run_exchange(exchange):
    seen = {"id": exchange["id"], "steps": []}
    peer = None
    try:
        peer = Peer(exchange.get("to"))
        seen["port"] = peer.port
        peer.sock.connect(peer.to)
        for step in exchange["steps"]:
            started = time.monotonic()
            try:
                outcome = run_step(peer, step)
            except (OSError, ssl.SSLError) as error:
                outcome = {"error": f"{type(error).__name__}: {error}", "alert": getattr(error, "reason", None)}
                peer.was_reset |= isinstance(error, ConnectionResetError)
                if isinstance(error, (ConnectionError, ssl.SSLEOFError)):
                    outcome["end"] = "reset"
            outcome["do"], outcome["ms"] = step["do"], int((time.monotonic() - started) * 1000)
            for key in ("data", "body"):
                if key in outcome:
                    outcome[key] = base64.b64encode(outcome[key]).decode()
            seen["steps"].append(outcome)
            # A send may meet a connection that the other side refused and ended already: what it said is still read.
            if outcome.get("stop") or ("error" in outcome and step["do"] not in ("send", "shut")):
                break
    except OSError as error:
        seen["error"] = f"{type(error).__name__}: {error}"
    finally:
        if peer:
            peer.sock.close()
    return seen


def main():
    with open(sys.argv[1], encoding="ascii") as file:
        exchanges = json.load(file)
    for step in (step for exchange in exchanges for step in exchange["steps"] if step["do"] == "tls"):
        context_for(step)  # reads all roots: not while a connection waits for its hello
    with concurrent.futures.ThreadPoolExecutor(int(sys.argv[2]) if len(sys.argv) > 2 else 8) as pool:
        json.dump(list(pool.map(run_exchange, exchanges)), sys.stdout)


if __name__ == "__main__":
    main()
