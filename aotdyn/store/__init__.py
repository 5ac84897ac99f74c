"""The on-disk cache: what one process traced and compiled, found again by the next.

`store.Store` is the room's face to the runtime; `environment` says which
entries may be used, `layout` where they lie, `integrity` and `disk` how a file
is believed and written, `signing` by whom, `records` and `kernels` what is in
one. `claims` says who compiles what, `usage` what is in use, `remote` and
`fetch` are the second tier. `inventory`, `evict`, `bundle`, `show`, `why` and
`cli` serve `python -m aotdyn cache` and are never loaded by a warm process.
docs/design/security.md says what all of it promises.

May import: the standard library, msgspec, `aotdyn.errors`, `aotdyn.config` and
`runtime.variant`; `show`, `why`, `inventory` and `bundle` look into guards,
graph, rewrite and backends, to print and to check.
"""
