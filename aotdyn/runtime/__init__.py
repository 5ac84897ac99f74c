"""What a warm process needs: entries, binding, dispatch, continuations, helpers of epilogues.

Imports torch, guards and the standard library; the tracer and compilers only through `runtime.cold`.
"""
