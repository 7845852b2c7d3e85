"""Listeners of a server of the lab, each with a thread, and whether all that knocked was let in and has been heard to its end."""
import select
import socket
import threading

from lab.events import wait_until


class Accepting:
    def __init__(self):
        self.listeners = []
        self.lock = threading.Lock()  # held from accept() until the connection is in the server's record

    def run(self, listener, take):
        """Call @take with each connection's socket, until the listener is closed."""
        while True:
            try:
                select.select([listener], [], [])
                with self.lock:
                    peer, _ = listener.accept()
                    take(peer)
            except (OSError, ValueError):  # ValueError: it was closed before select()
                return

    def settle(self, connections, mark, is_open):
        """Wait until nobody waits to be let in, and no connection since @mark is open."""
        def left():
            with self.lock:
                waiting = select.select(self.listeners, [], [], 0)[0]
                return [connection for connection in connections.since(mark) if is_open(connection)] + waiting

        wait_until(lambda: not left(), lambda: f"the lab's servers are through with {left()}")

    def close(self):
        for listener in self.listeners:
            try:
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listener.close()
        self.listeners.clear()
