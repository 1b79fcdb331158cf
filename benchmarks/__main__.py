"""All benchmarks, each in a process of its own: python -m benchmarks [--only NAME] [--quick] [--json]."""

from __future__ import annotations

import argparse
import subprocess
import sys

from . import setting

PARTS = {"core": ["--json"], "speed": ["--json"], "reproduction": ["--json"], "hindsight": [], "modelling": []}
"""Part -> the words that make it print JSON, if it can."""


def main() -> int:
    """Run the parts one after the other; the first that fails decides the exit code."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--only", choices=sorted(PARTS))
    words.add_argument("--quick", action="store_true", help="the core alone")
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    wanted = [asked.only] if asked.only else ["core"] if asked.quick else list(PARTS)
    for part in wanted:
        print(f"# {part}", file=sys.stderr)
        flags = PARTS[part] if asked.json else []
        code = subprocess.call([sys.executable, "-m", f"benchmarks.{part}", *flags], cwd=setting.ROOT)
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
