"""The second tier: what isn't in the store here is fetched from a remote one, what is stored here is sent there.

Any file system of `fsspec` will do (the extra `remote`): `s3://`, `gs://`,
`file://`. Objects are envelopes as on the disk, one a file, kernels packed
into one each; they are verified as those are, and a record fetched lies in
the local store from then on.

All of it happens in one thread of its own. Reading waits for that thread, but
a process loses no more than `timeout` seconds in all by a remote that is down
or slow: every wait that is slow or in vain is taken off a budget, and once
that is spent the remote is left alone, but for a probe in the background now
and then. Writing is never waited for, but at the process's end for what is
left of the budget.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

log = logging.getLogger("aotdyn.store")

PATIENT = 0.1
"Seconds that an answer may take without being taken off the budget."

BACK_OFF = (30.0, 600.0)
"Seconds between two probes of a remote that is down: the first, and the longest."

WAITING = 1000
"Uploads that may wait; what comes then isn't sent."

_remotes: dict[tuple[str, float], Remote] = {}


class Packed(msgspec.Struct, frozen=True, array_like=True):
    """A kernel as one object: the envelope of its manifest, and its files."""

    manifest: bytes
    files: dict[str, bytes]


class _Task:
    """Something for the thread: `done` is set with `result`, or with None where it failed."""

    __slots__ = ("done", "failed", "result", "run")

    def __init__(self, run: Callable[[Any], Any]) -> None:
        self.run = run
        self.done = threading.Event()
        self.result: Any = None
        self.failed: Exception | None = None


class Remote:
    """A remote store: `read`, `names` and `write` by path under its URL.

    Args:
        url: of the folder, as fsspec takes it.
        timeout: seconds that a process may lose by it.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self.url = url.rstrip("/")
        self.budget = self.timeout = timeout
        self.told = False
        self._start()

    def _start(self) -> None:
        """Be as new, in the process at hand: a thread doesn't live on in a fork."""
        self._process = os.getpid()
        self._tasks: queue.Queue[_Task] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._waiting = 0
        self._pause = BACK_OFF[0]
        self._probe_at = 0.0

    @property
    def down(self) -> bool:
        """Whether it is left alone, having cost what it may."""
        return self.budget <= 0

    def read(self, path: str) -> bytes | None:
        """An object; None where there is none, or none in time."""
        return self._ask(lambda files: _read(files, self._at(path)))

    def names(self, path: str) -> list[str]:
        """Names of the objects in a folder; none where it isn't there, or not in time."""
        return self._ask(lambda files: _names(files, self._at(path))) or []

    def write(self, path: str, read: Callable[[], bytes | None]) -> None:
        """Send what `read` gives, some time; not where there is such an object."""
        self._alive()
        if self.down or self._waiting >= WAITING:
            return
        self._waiting += 1

        def send(files: Any) -> None:
            try:
                if not self.down and not files.exists(self._at(path)) and (data := read()) is not None:
                    _write(files, self._at(path), data)
            finally:
                self._waiting -= 1

        self._submit(_Task(send))

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until what was to be sent is, `seconds` or what is left of the budget at most. Whether it is."""
        if self._process != os.getpid() or self._thread is None or self.down:
            return True
        task = _Task(lambda files: True)
        self._submit(task)
        done = task.done.wait(self.budget if seconds is None else seconds)
        if not done:
            from aotdyn.report.plural import counted

            log.warning("aotdyn: the remote cache %s is slow: %s not sent", self.url, counted(self._waiting, "entry"))
        return done

    def _at(self, path: str) -> str:
        return f"{self.url.partition('://')[2] if '://' in self.url else self.url}/{path}"

    def _alive(self) -> None:
        if self._process != os.getpid():
            self._start()

    def _ask(self, run: Callable[[Any], Any]) -> Any:
        """What the thread answers, if it does so while there is patience left."""
        self._alive()
        if self.down:
            self._probe()
            return None
        task = _Task(run)
        begun = time.monotonic()
        self._submit(task)
        answered = task.done.wait(self.budget)
        lost = time.monotonic() - begun - (PATIENT if answered and task.failed is None else 0.0)
        self.budget -= max(lost, 0.0) if answered else self.budget
        if task.failed is not None:
            self.budget -= self.timeout / 4  # one that fails at once isn't asked for ever
        if self.down:
            self._given_up("it didn't answer in time" if task.failed is None else _words(task.failed))
        return task.result

    def _given_up(self, reason: str) -> None:
        self._probe_at = time.monotonic() + self._pause
        if not self.told:
            self.told = True
            log.warning("aotdyn: the remote cache %s is left alone: %s; what is stored here is used", self.url, reason)

    def _probe(self) -> None:
        """See in the background, ever more rarely, whether it is there again."""
        if time.monotonic() < self._probe_at:
            return
        self._pause = min(self._pause * 2, BACK_OFF[1])
        self._probe_at = time.monotonic() + self._pause

        def probe(files: Any) -> None:
            begun = time.monotonic()
            files.exists(self._at("probe"))
            if time.monotonic() - begun < PATIENT:
                self.budget, self._pause = self.timeout / 4, BACK_OFF[0]

        self._submit(_Task(probe))

    def _submit(self, task: _Task) -> None:
        self._tasks.put(task)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="aotdyn remote cache", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        files = None
        while True:
            task = self._tasks.get()
            try:
                files = files or _files(self.url, self.timeout)
                task.result = task.run(files)
            except FileNotFoundError:
                pass
            except Exception as error:  # whatever a file system's library raises: it is told, and counts against it
                task.failed = error
                log.debug("the remote cache %s failed", self.url, exc_info=error)
            task.done.set()


def _files(url: str, timeout: float) -> Any:
    """The file system of a URL."""
    import fsspec

    options: dict[str, Any] = {"use_listings_cache": False, "skip_instance_cache": True}
    if url.startswith("s3:"):
        options["config_kwargs"] = {"connect_timeout": timeout, "read_timeout": timeout, "retries": {"max_attempts": 1}}
        if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
            options["endpoint_url"] = endpoint
    return fsspec.filesystem(url.partition("://")[0] if "://" in url else "file", **options)


def _read(files: Any, path: str) -> bytes:
    return files.cat_file(path)


def _names(files: Any, path: str) -> list[str]:
    return [str(each).rstrip("/").rpartition("/")[2] for each in files.ls(path, detail=False)]


def _write(files: Any, path: str, data: bytes) -> None:
    """Write an object; where that isn't done in one step, by a name of its own, which then changes."""
    if "file" not in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,)):
        files.pipe_file(path, data)
        return
    files.makedirs(path.rpartition("/")[0], exist_ok=True)
    made = f"{path}.tmp-{os.getpid()}"
    files.pipe_file(made, data)
    os.replace(made, path)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def remote(url: str, timeout: float) -> Remote:
    """The remote at a URL, the same for all stores of this process."""
    found = _remotes.get((url, timeout))
    if found is None:
        if not _remotes:
            atexit.register(_flush)
        found = _remotes[url, timeout] = Remote(url, timeout)
    return found


def _flush() -> None:
    for each in _remotes.values():
        each.flush()
