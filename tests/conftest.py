"""A folder with a program in it, run in a process of its own with a cache of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

THRIFT = "AOTDYN_THRIFT"
os.environ[THRIFT] = "off"  # tests of what tracing does trace at the first call; those of the policy set it back


class Project:
    """Files in a temporary folder, and processes started there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder.parent / "cache"
        self.env: dict[str, str] = {}

    def write(self, name: str, text: str) -> Path:
        """Write a file, indented as the test is."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def beside(self, package: str, program: str) -> None:
        """Write a package, `pkg`, outside of the program's folder, and the program, `app.py`: processes start there."""
        self.write("lib/pkg.py", package)
        self.write("app/app.py", program)
        self.folder = self.folder / "app"
        self.env["PYTHONPATH"] = f"{self.environment({})['PYTHONPATH']}:{self.folder.parent / 'lib'}"

    def environment(self, env: dict[str, str]) -> dict[str, str]:
        """The environment of a process: this one's without its AOTDYN_*, plus `env`."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AOTDYN_")}
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        ours = {"AOTDYN_CACHE_DIR": str(self.cache), "AOTDYN_STRICT": "1", "PYTHONPATH": path}
        ours[THRIFT] = "off"
        return {**kept, **ours, **self.env, **env}

    def python(self, *argv: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the interpreter with these arguments."""
        options = {"capture_output": True, "text": True, "timeout": 240, "cwd": self.folder, **options}
        return subprocess.run(
            [sys.executable, *map(str, argv)], env=self.environment(env or {}), check=False, **options
        )

    def run(self, *argv: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
        """`python -m aotdyn run` with these arguments."""
        return self.python("-m", "aotdyn", "run", *argv, env=env, **options)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty folder to put a program into."""
    tmp_path.chmod(0o700)
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stored by an earlier run is used, and a failure of ours fails."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("AOTDYN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("AOTDYN_STRICT", "1")
