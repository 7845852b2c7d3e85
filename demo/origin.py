"""
The world of the demo, in a network namespace of its own: an HTTPS service with exchange rates, another host that
collects whatever it is sent, and what must not be reached: a metadata endpoint and a private admin page.
Writes one JSON line per request that arrived, so that the story can tell what really left the sandbox.

  origin.py LOG CERTIFICATE KEY READY     prints nothing; creates the file READY when every address listens
"""
import http.server
import json
import ssl
import sys
import threading

RATES = "198.51.100.10"
COLLECTOR = "198.51.100.20"
METADATA = "169.254.169.254"
ADMIN = "192.168.77.1"

RATES_CSV = """currency,eur_per_unit
EUR,1.0000
USD,0.8612
GBP,1.1547
CHF,1.0693
SEK,0.0912
"""
BODIES = {
    RATES: ("text/csv", RATES_CSV),
    COLLECTOR: ("text/plain", "thank you\n"),
    METADATA: ("text/plain", "iam-role: demo-role, token: demo-token-not-a-secret\n"),
    ADMIN: ("text/html", "<h1>Internal admin page</h1>\n"),
}


class Log:
    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.lock = threading.Lock()

    def write(self, **record):
        with self.lock:
            print(json.dumps(record), file=self.file, flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10

    def answer(self):
        length = int(self.headers.get("content-length") or 0)
        received = len(self.rfile.read(min(length, 1 << 20)))
        here = self.server.server_address[0]
        self.server.log.write(address=here, host=self.headers.get("host"), method=self.command,
                              path=self.path, received=received)
        kind, text = BODIES[here]
        body = text.encode()
        if here == RATES and self.path != "/v1/rates.csv":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *_arguments):
        """Silent: the log is in JSON."""


def serve(address, port, log, context=None):
    server = http.server.ThreadingHTTPServer((address, port), Handler)
    server.daemon_threads = True
    server.log = log
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main(log_path, certificate, key, ready):
    log = Log(log_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    serve(RATES, 443, log, context)
    serve(COLLECTOR, 443, log, context)
    serve(METADATA, 80, log)
    serve(ADMIN, 80, log)
    with open(ready, "w", encoding="utf-8"):
        pass
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
