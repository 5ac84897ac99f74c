"""A full disk, a quota, a disk that becomes read-only, and SIGKILL, at each system call in turn."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
STEP = 1 if os.environ.get("AOTDYN_FULL") else 9


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs a C compiler, and LD_PRELOAD")
def test_faults_at_every_call(tmp_path):
    tmp_path.chmod(0o700)
    library = tmp_path / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "faults.c", "-ldl"], check=True)
    folder = tmp_path / "stores"
    folder.mkdir(0o700)
    path = os.pathsep.join([str(HERE.parent.parent), *sys.path])
    env = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": path}
    command = [sys.executable, str(HERE / "faults.py"), str(folder), str(STEP)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
    print(done.stdout)
