"""Inductor's question whether the compiler knows the processor's vector instructions, answered faster.

Inductor compiles torch's vector headers for each set of instructions that the
processor has, and loads the result in a Python of its own: half a minute of
one processor on a fresh machine, seconds after that, in every process. Here the
compiler is asked for a few lines with the same flags.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def vector_instructions() -> Iterator[None]:
    """Answer the question for a block; where the answer isn't a clear yes, inductor asks as it does."""
    from torch._inductor import config, cpu_vec_isa

    if sys.platform != "linux" or platform.machine() != "x86_64" or config.cpp.vec_isa_ok is not None:
        yield
        return
    checked = cpu_vec_isa.x86_isa_checker()
    sets = [isa for isa in cpu_vec_isa.supported_vec_isa_list if all(flag in checked for flag in str(isa).split())]
    if not sets or not all(_accepts(isa.build_arch_flags()) for isa in sets):
        yield
        return
    with config.patch({"cpp.vec_isa_ok": True}):
        yield


@functools.cache
def _accepts(flags: str) -> bool:
    """Whether the C++ compiler takes these flags, and makes an object of a program that adds vectors."""
    from torch._inductor import cpp_builder, exc

    program = "#include <immintrin.h>\nfloat f(const float* x) { return _mm_cvtss_f32(_mm_loadu_ps(x)); }\n"
    try:
        compiler = cpp_builder.get_cpp_compiler()
        command = [*compiler.split(), "-x", "c++", *flags.split(), "-S", "-o", "-", "-"]
        done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError, exc.InvalidCxxCompiler):
        return False
    return done.returncode == 0
