"""Run all benchmarks, each in its own process: python -m benchmarks [--only NAME] [--quick]
[--json].

Results are written to benchmarks/results. cooper and PyOL are installed from the package index into
separate environments; if that fails, they are skipped with a message.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from . import setting

PARTS = ("core", "speed", "passes", "limits", "reproduction", "hindsight", "modelling")
OPTIONS = {"speed": ["--outside"]}


def main() -> int:
    """Run the parts one after the other. If one fails, stop and return its exit code."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--only", choices=sorted(PARTS))
    words.add_argument("--quick", action="store_true", help="run only the core")
    words.add_argument("--json", action="store_true")
    asked = words.parse_args()
    wanted = [asked.only] if asked.only else ["core"] if asked.quick else list(PARTS)
    found = {}
    for part in wanted:
        print(f"# {part}", file=sys.stderr)
        options = [*OPTIONS.get(part, []), *(["--json"] if asked.json else [])]
        command = [sys.executable, "-m", f"benchmarks.{part}", *options]
        out = subprocess.PIPE if asked.json else None
        done = subprocess.run(command, cwd=setting.ROOT, check=False, text=True, stdout=out)
        if done.returncode:
            return done.returncode
        found[part] = json.loads(done.stdout) if asked.json else None
    if asked.json:
        print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
