"""Receivers of syslog and of the journal's datagrams: real ones, started on loopback of a namespace, and one of our own that misbehaves on demand."""
import array
import glob
import json
import mmap
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading

from lab.events import Record, wait_until

RSYSLOG = """
global(workDirectory="{work}" maxMessageSize="64k" defaultNetstreamDriverCAFile="{ca}"
  defaultNetstreamDriverCertFile="{cert}" defaultNetstreamDriverKeyFile="{key}")
module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="x509/name" permittedPeer=["{peer}"])
module(load="imptcp")
main_queue(queue.type="direct")
template(name="j" type="list" option.jsonf="on") {{ property(outname="msgid" name="msgid" format="jsonf")
  property(outname="sd" name="structured-data" format="jsonf") property(outname="host" name="hostname" format="jsonf")
  property(outname="app" name="app-name" format="jsonf") property(outname="pri" name="pri" format="jsonf")
  property(outname="time" name="timereported" dateFormat="rfc3339" format="jsonf")
  property(outname="msg" name="msg" format="jsonf") }}
ruleset(name="r" queue.type="direct") {{ action(type="omfile" file="{out}" template="j") }}
input(type="{module}" port="{port}" address="127.0.0.1" ruleset="r")
"""

SYSLOG_NG = """@version: 3.38
options {{ keep-hostname(yes); stats-freq(0); }};
source s {{ syslog(ip(127.0.0.1) port({port}) transport("tls") log-msg-size(65536)
  tls(key-file("{key}") cert-file("{cert}") ca-file("{ca}") peer-verify(required-trusted))); }};
destination d {{ file("{out}" template("$(format-json msgid=$MSGID sd=$SDATA host=$HOST app=$PROGRAM msg=$MSG uid=${{.SDATA.eclusa@32473.uid}})\\n")); }};
log {{ source(s); destination(d); }};
"""
SYSLOG_NG_PACKAGES = ("syslog-ng-core", "libivykis0", "libnet1", "libwrap0")


class Daemon:
    """A receiver that is a program of its own. Lines of its output are JSON objects."""

    def __init__(self, namespace, folder, port):
        self.namespace, self.folder, self.port = namespace, folder, port
        self.out = os.path.join(folder, "out.log")
        self.work = os.path.join(folder, "work")
        os.makedirs(self.work, exist_ok=True)
        self.process = None

    def launch(self, *words, **environment):
        log = open(os.path.join(self.folder, "receiver.log"), "ab")
        self.process = subprocess.Popen(self.namespace.command(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        env=dict(os.environ, **environment))
        log.close()
        wait_until(self.answers, self.said, deadline=60)

    def said(self):
        with open(os.path.join(self.folder, "receiver.log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def answers(self):
        assert self.process.poll() is None, self.said()

        def try_it():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.port)) == 0
        return self.namespace.inside(try_it)

    def stop(self, how=signal.SIGTERM):
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(how)
            self.process.wait(timeout=60)
            self.process = None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def messages(self):
        if not os.path.exists(self.out):
            return []
        with open(self.out, encoding="utf-8") as file:
            text = file.read()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def uids(self):
        return [json.loads(m["msg"])["metadata"]["uid"] for m in self.messages()]


class Rsyslog(Daemon):
    """@tls: (ca, cert, key, the name that a client's certificate must have), or None."""

    def __init__(self, namespace, folder, port, tls=None):
        super().__init__(namespace, folder, port)
        ca, cert, key, peer = tls or ("", "", "", "nobody.test")
        text = RSYSLOG.format(work=self.work, ca=ca, cert=cert, key=key, peer=peer, out=self.out, port=port,
                              module="imtcp" if tls else "imptcp")
        if not tls:
            text = re.sub(r"(?m)^module\(load=\"imtcp\".*$", "", text).replace(
                f'defaultNetstreamDriverCAFile=""\n  defaultNetstreamDriverCertFile="" defaultNetstreamDriverKeyFile=""', "")
        self.config = os.path.join(folder, "rsyslog.conf")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self):
        self.launch("rsyslogd", "-n", "-f", self.config, "-i", os.path.join(self.folder, "rsyslog.pid"))


def syslog_ng(cache):
    """
    syslog-ng without installing it, since Debian's conflicts with rsyslog: its packages, unpacked. @return the folder, or None and a reason.
    """
    root = os.path.join(cache, "root")
    if not os.path.exists(os.path.join(root, "usr/sbin/syslog-ng")):
        os.makedirs(root, exist_ok=True)
        try:
            got = subprocess.run(["apt-get", "-q", "download", *SYSLOG_NG_PACKAGES], cwd=cache, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return None, "syslog-ng can't be fetched: no answer"
        if got.returncode != 0:
            return None, f"syslog-ng can't be fetched: {got.stderr.strip()[-200:]}"
        for package in glob.glob(os.path.join(cache, "*.deb")):
            subprocess.run(["dpkg", "-x", package, root], check=True, timeout=60)
    return root, None


class SyslogNg(Daemon):
    def __init__(self, namespace, folder, port, root, tls):
        super().__init__(namespace, folder, port)
        self.root = root
        ca, cert, key = tls
        self.config = os.path.join(folder, "syslog-ng.conf")
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(SYSLOG_NG.format(port=port, ca=ca, cert=cert, key=key, out=self.out))

    def start(self):
        library = os.path.join(self.root, "usr/lib")
        modules = glob.glob(os.path.join(library, "syslog-ng/*/")) or [os.path.join(library, "syslog-ng")]
        paths = ":".join([library, os.path.join(library, "syslog-ng"), os.path.join(library, "x86_64-linux-gnu"), os.path.join(self.root, "lib/x86_64-linux-gnu")])
        self.launch(os.path.join(self.root, "usr/sbin/syslog-ng"), "-F", "--no-caps", "-f", self.config,
                    "-R", os.path.join(self.work, "persist"), "-p", os.path.join(self.work, "pid"), "-c", os.path.join(self.work, "ctl"),
                    "--module-path", ":".join(modules), LD_LIBRARY_PATH=paths)


FRAME = re.compile(rb"([1-9][0-9]{0,9}) ")
MESSAGE = re.compile(
    r"<(\d{1,3})>1 (\S+) (\S{1,255}) (\S{1,48}) (\S{1,128}) (\S{1,32}) (\[(?:[^\]\\\"]|\"(?:[^\"\\\]]|\\.)*\")*\]|-) (.*)\Z", re.S)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)\Z")


class Message:
    """A message, strictly (RFC 5424)."""

    def __init__(self, data):
        found = MESSAGE.match(data.decode("utf-8"))
        assert found, data[:300]
        self.pri, self.time, self.host, self.app, self.proc, self.msgid, self.sd, self.msg = found.groups()
        assert self.time == "-" or TIME.match(self.time), self.time
        assert not self.msg.startswith("\ufeff")


class Strict:
    """
    A receiver of frames by octet counting that takes nothing else. @take_bytes: how much of a connection is read before it is reset, once
    each; @context: TLS. What was read counts, as a program's that wrote it down.
    """

    def __init__(self, namespace, port, context=None):
        self.namespace, self.port, self.context = namespace, port, context
        self.messages, self.problems = Record(), []
        self.known = []           # ids of the messages that were looked at
        self.resets = []          # bytes after which a connection is reset, one each
        self.gate = threading.Event()  # while it is clear nothing is read
        self.gate.set()
        self.delay = 0
        self.connections = 0
        self.socket = None
        self.closing = False
        self.live = set()
        self.start()

    def start(self):
        def listen():
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", self.port))
            s.listen(16)
            return s
        self.closing = False
        self.socket = self.namespace.inside(listen)
        threading.Thread(target=self.accept, args=(self.socket,), daemon=True).start()

    def stop(self):
        """Nobody listens, and what is connected is reset."""
        self.closing = True
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for s in list(self.live):
            self.reset(s)

    @staticmethod
    def reset(s):
        try:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, array.array("i", [1, 0]).tobytes())
            s.shutdown(socket.SHUT_RD)
        except OSError:
            pass
        s.close()

    def accept(self, listener):
        while not self.closing:
            try:
                s, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        self.live.add(s)
        limit = self.resets.pop(0) if self.resets else None
        try:
            stream = self.context.wrap_socket(s, server_side=True) if self.context else s
            self.live.add(stream)
            self.read(stream, limit)
        except (OSError, ssl.SSLError) as error:
            self.problems.append(repr(error))
        except AssertionError as error:
            self.problems.append(f"violation: {error}")
            self.reset(s)
        finally:
            self.live.discard(s)

    def read(self, stream, limit):
        data, total = b"", 0
        while True:
            while not self.gate.wait(0.05):
                if self.closing:
                    return
            more = stream.recv(16384)
            if not more:
                assert not data, f"an end within a frame: {data[:100]}"
                if self.context:
                    try:
                        stream.unwrap()
                    except (OSError, ValueError):  # SSLError is one; ValueError where the peer is gone already
                        pass
                stream.close()
                return
            total += len(more)
            data = self.take(data + more)
            if limit is not None and total >= limit:
                self.reset(stream)
                return
            if self.delay:
                threading.Event().wait(self.delay)  # being slow is what is tested

    def take(self, data):
        while True:
            found = FRAME.match(data)
            if not found:
                assert len(data) < 11, data[:100]
                return data
            length = int(found.group(1))
            if len(data) < found.end() + length:
                return data
            self.messages.add(Message(data[found.end():found.end() + length]))
            data = data[found.end() + length:]

    def uids(self):
        self.known += [json.loads(m.msg)["metadata"]["uid"] for m in self.messages.since(len(self.known))]
        return list(self.known)


class Journal:
    """The journal's socket: entries, from datagrams and sealed memory files."""

    def __init__(self, path):
        self.path, self.entries, self.by_file = path, Record(), 0
        self.start()

    def start(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o666)
        threading.Thread(target=self.serve, args=(self.socket,), daemon=True).start()

    def stop(self):
        os.unlink(self.path)
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def serve(self, s):
        while True:
            try:
                data, controls, _, _ = s.recvmsg(1 << 20, socket.CMSG_SPACE(4))
            except OSError:
                return
            if not data and not controls:
                return
            for _, _, fds in controls:
                fd = array.array("i", fds)[0]
                with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as memory:
                    data = bytes(memory)
                os.close(fd)
                self.by_file += 1
            self.entries.add(dict(line.split("=", 1) for line in data.decode().splitlines()))

    def uids(self):
        return [e["ECLUSA_UID"] for e in self.entries.since()]


JOURNALD = "/usr/lib/systemd/systemd-journald"
JOURNAL_MOUNTS = """set -e
mount --make-rprivate /
mount -t tmpfs none /run
mkdir -p /run/log/journal /run/systemd/journal.eclusa
mount --bind "$1/run" /run/systemd/journal.eclusa
mount --bind "$1/log" /var/log
exec {journald} eclusa
"""


class Journald:
    """systemd-journald itself, an instance of its own: its socket and its files are below @folder, and the machine's journal is not touched."""

    def __init__(self, folder):
        self.folder, self.process = folder, None
        self.path = os.path.join(folder, "run", "socket")
        for name in ("run", "log/journal"):
            os.makedirs(os.path.join(folder, name))
        self.start()

    def start(self):
        for name in os.listdir(os.path.join(self.folder, "run")):  # systemd would hold the socket; without it one that is dead stays
            os.unlink(os.path.join(self.folder, "run", name))
        log = open(os.path.join(self.folder, "journald.log"), "ab")
        self.process = subprocess.Popen(["unshare", "--mount", "sh", "-c", JOURNAL_MOUNTS.format(journald=JOURNALD), "sh", self.folder],
                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        log.close()
        wait_until(self.answers, self.said, deadline=60)

    def answers(self):
        assert self.process.poll() is None, self.said()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            return s.connect_ex(self.path) == 0

    def said(self):
        with open(os.path.join(self.folder, "journald.log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-4000:]

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process:
            self.go_on()
            self.process.terminate()
            self.process.wait(timeout=60)
            self.process = None

    def entries(self):
        """What journalctl finds of the exporter's, in the journal's order."""
        folders = glob.glob(os.path.join(self.folder, "log/journal/*"))
        if not folders:
            return []
        got = subprocess.run(["journalctl", "--directory", folders[0], "--all", "--no-pager", "--output", "json", "SYSLOG_IDENTIFIER=eclusa"],
                             capture_output=True, text=True, timeout=60, check=False)
        return [json.loads(line) for line in got.stdout.splitlines()]

    def uids(self):
        return [e["ECLUSA_UID"] for e in self.entries()]


def have(name):
    return shutil.which(name) is not None
