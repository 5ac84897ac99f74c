"""AOTDYN_LOG: which loggers under `aotdyn` speak, on stderr.

Warnings are always shown (by the standard library's handler of last resort
where the app configures none). `AOTDYN_LOG=guards,breaks` turns on the details
of these kinds.
"""

from __future__ import annotations

import logging
import sys

from aotdyn import config

_handler: logging.Handler | None = None


class _Stderr(logging.StreamHandler):
    """Writes to what `sys.stderr` is now, as the app may replace it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self):  # type: ignore[no-untyped-def]
        return sys.stderr


class _Formatter(logging.Formatter):
    """The logger's name in front, and not ours a second time: messages that may reach an app's handlers have that."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.removeprefix("aotdyn: ")
        return super().formatMessage(record)


def logger(name: str) -> logging.Logger:
    """The logger of a kind of event (one of config.LOGS)."""
    return logging.getLogger(f"aotdyn.{name}")


def enabled(name: str) -> bool:
    """Whether details of this kind are wanted; ask before you make an expensive message."""
    return logger(name).isEnabledFor(logging.DEBUG)


def setup(names: tuple[str, ...] | None = None) -> None:
    """Turn on the logs named in the options, or in `names`; idempotent."""
    global _handler
    config.check_variables()
    chosen = config.current().log if names is None else names
    if "all" in chosen:
        chosen = config.LOGS
    if chosen and _handler is None:
        _handler = _Stderr()
        _handler.setFormatter(_Formatter("%(name)s: %(message)s"))
        root = logging.getLogger("aotdyn")
        root.addHandler(_handler)
        root.propagate = False
    for name in config.LOGS:
        level = logging.DEBUG if name in chosen else logging.NOTSET
        if name != "all" and logger(name).level != level:  # setting one goes through all loggers of the process
            logger(name).setLevel(level)
