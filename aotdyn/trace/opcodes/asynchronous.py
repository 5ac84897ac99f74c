"""Coroutines: everything that may wait is Python's."""

from __future__ import annotations

from .table import breaks

WAITS = "A coroutine waits (`await`, `async for` or `async with`)."
HINT = "Move the computation into a plain function, and call it from the coroutine."

for _name in ("GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR"):
    breaks(_name, WAITS, HINT)
breaks("ASYNC_GEN_WRAP", "An asynchronous generator yields.", HINT)
