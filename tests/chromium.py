"""Pages in a headless Chromium, which report as JSON what they find in themselves, in the attribute
`data-probe`."""

import html
import json
import re
import shutil
import subprocess

import pytest

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync --hide-scrollbars "
    "--enable-logging=stderr --dump-dom --window-size=1400,1000"
)
PATIENCE = 240
"""Seconds after which a browser that does not end is an error."""
# A window cannot be as narrow as a phone, a frame can.
FRAME = """<!DOCTYPE html><body><script>
addEventListener("message", event => document.documentElement.setAttribute("data-probe", event.data));
</script><iframe src="page.html" style="width: {width}px; height: 900px; border: 0"></iframe></body>"""


def require():
    """Return the path of Chromium; skip the test where it is not installed."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("Chromium is not installed: apt-get install chromium, or run make test as root")
    return chromium


def browse(address, profile):
    """Open an address; return what the page found in itself, and what the console says."""
    command = [require(), *FLAGS.split(), f"--user-data-dir={profile}", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    (found,) = re.findall(r'data-probe="([^"]*)"', done.stdout)
    return json.loads(html.unescape(found)), re.findall(r"CONSOLE.*", done.stderr)


def browse_framed(page, probe, width, folder):
    """Open a page with a script at the end of its body that posts what it finds to the frame around
    it, which has this width."""
    assert page.count("</body>") == 1
    (folder / "page.html").write_text(
        page.replace("</body>", f"<script>{probe}</script></body>"), "utf-8"
    )
    (folder / "frame.html").write_text(FRAME.format(width=width), "utf-8")
    return browse((folder / "frame.html").as_uri(), folder / "profile")
