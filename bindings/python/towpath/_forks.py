"""What a forked child inherits answers NotReady there, which waits for no thread that the child has not."""
import os
import threading


class ForkedLock:
    """`with lock.here():` A forked child has another lock; a thread that had the parent's lets go of that one alone."""

    def __init__(self):
        self._lock, self._process = threading.Lock(), os.getpid()

    def here(self):
        if self._process != os.getpid():
            self._lock, self._process = threading.Lock(), os.getpid()
        return self._lock
