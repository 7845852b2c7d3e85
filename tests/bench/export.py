"""
How fast eclusa-export gives a log to a receiver of syslog over TLS 1.3 on loopback, and to a file. In a network namespace of the
caller's. The receiver is OpenSSL's own server, which reads and throws away: whatever it costs is not ours.

  export.py BUILD FOLDER EVENTS
"""
import os
import resource
import socket
import subprocess
import sys
import time

PORT = 6514


def certificate(folder):
    key, cert = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", "/CN=siem.test", "-addext", "subjectAltName=DNS:siem.test"], check=True, capture_output=True)
    return key, cert


def export(build, folder, audit, name, *settings):
    """@return seconds until everything is delivered, and of them those of a processor."""
    config = os.path.join(folder, f"{name}.conf")
    user = ["user nobody"] if os.geteuid() == 0 else []
    with open(config, "w", encoding="utf-8") as file:
        file.write("\n".join(["export 1", f"audit-dir {audit}", f"state-dir {folder}/state-{name}", *user, *settings]) + "\n")
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([os.path.join(build, "eclusa-export"), "--config", config, "--once"], check=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tell(what, events, size, taken, processor):
    """On a machine that does other work, too, the second number is the one to read."""
    print(f"export: {what:24} {events / taken:8.0f} events/s, {size / taken / 1e6:.0f} MB/s; {processor / events * 1e6:.1f} us of a processor "
          f"each: {events / processor:.0f} events/s", flush=True)


def main(build, folder, events):
    os.chmod(folder, 0o755)
    audit = os.path.join(folder, "audit")
    size = int(subprocess.run([os.path.join(build, "tests/export_bench"), audit, str(events)], check=True, capture_output=True).stdout)
    key, cert = certificate(folder)
    server = subprocess.Popen(["openssl", "s_server", "-accept", f"127.0.0.1:{PORT}", "-key", key, "-cert", cert, "-tls1_3", "-quiet"],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", PORT)) == 0:
                    break
        taken = export(build, folder, audit, "tls", "sink s syslog", f"server 127.0.0.1:{PORT}", f"ca {cert}", "name siem.test",
                       "confirm 100ms")
    finally:
        server.kill()
        server.wait()
    tell("to syslog over TLS 1.3", events, size, *taken)
    out = os.path.join(folder, "out")
    os.makedirs(out)
    os.chmod(out, 0o777)
    taken = export(build, folder, audit, "file", "sink s file", f"path {out}/log", "sync no")
    tell("to a file", events, size, *taken)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
