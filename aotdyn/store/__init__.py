"""The on-disk cache: what one process traced and compiled, found again by the next.

`store.Store` is the room's face to the runtime; `environment` says which
entries may be used, `layout` where they lie, `integrity` and `disk` how a file
is believed and written, `records` and `kernels` what is in one. `inventory`,
`show` and `cli` serve `python -m aotdyn cache` and are never loaded by a warm
process.

May import: the standard library, msgspec, `aotdyn.errors`, `aotdyn.config` and
`runtime.variant`; `show` alone looks into guards, graph and rewrite, to print.
"""
