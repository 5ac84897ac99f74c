"""How code comes under the compiler: import hook, activation, running a program.

This room sits on top: it may import every other, and none but the command line
and `aotdyn/__init__.py` imports it. What it asks of the runtime stands in
`attach`.
"""
