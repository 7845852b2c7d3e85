"""
Network namespaces of the test's own, held by descriptors of the test process: no name, no mount, nothing to
clean up. A thread of this process can enter one, so that a test's servers listen inside it.
"""
import ctypes
import os
import subprocess
import threading

CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def in_thread(function):
    """Run in a thread of its own, whose namespace may differ from the process's; return or raise what it did."""
    box = {}

    def body():
        try:
            box["value"] = function()
        except BaseException as error:  # handed to the caller, whatever it is
            box["error"] = error

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if "error" in box:
        raise box["error"]
    return box["value"]


class Namespace:
    def __init__(self, path=None):
        """A new one, or the one at @path, such as /proc/PID/ns/net."""
        def make():
            _check(libc.unshare(CLONE_NEWNET), "unshare")
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path else in_thread(make)
        self.inode = os.fstat(self.fd).st_ino
        self.servers = []  # those of the lab in here: each has `connections`, and settle()
        if not path:
            self.ip("link set lo up")

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def marks(self):
        """What settle() takes later."""
        return [(server, server.connections.mark()) for server in self.servers]

    @staticmethod
    def settle(marks):
        """
        Wait until the servers are through with every connection since then. Once the other ends are gone: what they sent may still be on
        its way to the record.
        """
        for server, mark in marks:
            server.settle(mark)

    @property
    def path(self):
        """For other processes, as long as this one holds it."""
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def inside(self, function):
        """Call @function in a thread that is in this namespace: sockets made there belong to it."""
        def body():
            _check(libc.setns(self.fd, CLONE_NEWNET), "setns")
            return function()

        return in_thread(body)

    def command(self, *words):
        """The words that run a command in here."""
        return ["nsenter", f"--net={self.path}", "--", *words]

    def run(self, *words, text=None):
        done = subprocess.run(self.command(*words), input=text, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr or done.stdout}")
        return done.stdout

    def ip(self, *lines):
        self.run("ip", "-batch", "-", text="\n".join(lines) + "\n")
