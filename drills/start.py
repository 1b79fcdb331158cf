"""Do what docs/start.md says, as a stranger would, and print how long each part takes.

Run: python -m drills.start. The repository is cloned into a temporary folder, the commands of the
section "Install" are run there, then all Python of the page. Nothing of this environment is used.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "start.md"


def commands(text: str) -> list[str]:
    """Return the commands that install taut; cloning is done by the drill itself."""
    block = re.findall(r"^```\n(.*?)^```$", text, re.S | re.M)[0]
    lines = block.splitlines()
    return [line for line in lines if not line.startswith(("git clone", "cd "))]


def script(text: str) -> str:
    """Return the Python of the page as one program, which prints the certificate."""
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M))


def processor_time() -> float:
    """Return the seconds of processor time that all ended child processes took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Clone, install and run; return the exit code of what failed first."""
    text = PAGE.read_text()
    clean = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "taut"
        program = Path(folder) / "start.py"
        program.write_text(script(text))
        steps = {
            "clone": f"git clone -q {ROOT} {clone}",
            "install": f"cd {clone} && " + " && ".join(commands(text)),
            "certificate": f"{clone}/.venv/bin/python {program}",
        }
        for name, command in steps.items():
            begun, used = time.monotonic(), processor_time()
            ended = subprocess.run(
                ["bash", "-c", command], env=clean | {"MPLBACKEND": "Agg"}, check=False
            )
            print(
                f"{name}: {time.monotonic() - begun:.0f} s on the clock, "
                f"{processor_time() - used:.0f} s of processor time",
                flush=True,
            )
            if ended.returncode:
                return ended.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
