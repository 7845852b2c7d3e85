"""Waiting for events: under a deadline, woken by the event where there is one, else by looking at the state."""
import select
import threading
import time

DEADLINE = 60.0  # of a machine that is busy with other things: whoever waits for an event loses nothing by it


def wait_until(holds, what, deadline=DEADLINE):
    """Look until holds() is true; state that nothing announces (processes, links, folders) is looked at again and again."""
    end = time.monotonic() + deadline
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"did not happen within {deadline:g} s: {what() if callable(what) else what}")
        select.select([], [], [], 0.005)


class Record:
    """An append-only list that can be waited on."""

    def __init__(self):
        self.items = []
        self.changed = threading.Condition()

    def add(self, item):
        with self.changed:
            self.items.append(item)
            self.changed.notify_all()

    def touch(self):
        """An item changed."""
        with self.changed:
            self.changed.notify_all()

    def mark(self):
        with self.changed:
            return len(self.items)

    def since(self, mark=0):
        with self.changed:
            return self.items[mark:]

    def wait(self, holds, what, deadline=DEADLINE):
        """Until holds(items) is true."""
        with self.changed:
            if not self.changed.wait_for(lambda: holds(self.items), deadline):
                raise AssertionError(f"did not happen within {deadline:g} s: {what}")
