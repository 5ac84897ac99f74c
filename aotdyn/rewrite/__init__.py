"""Code objects: stubs in front of function bodies, continuations behind graph breaks, generated prologues.

What a warm start needs lies here (stubs, names, the table of originals), so
the room imports the standard library and `runtime.variant`'s structs alone.
`dialect` holds what all CPython versions share, `cpython311` what one doesn't.
"""
