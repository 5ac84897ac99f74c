"""Random programs, run plainly, compiled and warm: `python -m tests.fuzz --help`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "differential"))
