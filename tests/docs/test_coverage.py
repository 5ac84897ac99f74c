"""`docs/coverage.md` is what the tracer's tables say."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "coverage.py"


def test_the_page_is_current():
    done = subprocess.run([sys.executable, str(SCRIPT), "--check"], check=False)
    assert done.returncode == 0, "run: python docs/coverage.py"
