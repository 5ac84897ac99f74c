"""What happened, for people and programs: counters and events, logs, notices.

Every room may import this one; it imports the standard library, `aotdyn.config`
and `aotdyn.errors` only.
"""
