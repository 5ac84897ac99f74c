"""Turning a graph into something that runs: `eager`, `inductor`, any callable, any name that torch knows.

`registry` is the face of the room. May import graph, store (as a type),
report and errors; nothing of trace or hook. torch's compilers load when a
graph is really compiled by them.
"""
