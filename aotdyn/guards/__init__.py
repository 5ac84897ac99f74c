"""What tracing relied on: how objects are reached (sources) and what must hold of them (kinds).

Imports torch and the standard library; nothing of trace, rewrite's bytecode or the store.
"""
