"""The drill of the example service: eight clients send observations while the service is killed at
random moments, and started again.

Run: python -m drills.service [--kills 30] [--seed 0]

Clients race for the rounds and repeat a request, with the same key, until it is answered. In the
end every round that was acknowledged must be in the database, once; and the player must be the one
that observed these rounds without any interruption.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import taut

SCRIPT = Path(__file__).parent.parent / "examples" / "service" / "service.py"
CLIENTS = 8


def data_of(round: int) -> dict[str, float]:
    """Return the data of a round."""
    rng = np.random.default_rng(round)
    return {"price": float(rng.uniform(0, 300)), "load": float(rng.uniform(0.8, 1.2))}


class Drill:
    """A service that is killed, and its clients.

    Arguments:
        folder: for the database and compiled programs.
    """

    def __init__(self, folder: Path) -> None:
        self.database = folder / "state.sqlite"
        self.address, self.over = "", threading.Event()
        self.acknowledged: list[tuple[str, int]] = []
        self.unexpected: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the service and wait until it listens."""
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, self.database, "--port=0"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError("the service did not start")

    def kill(self) -> None:
        """Kill the service at once."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]  # it is a pipe, see `start`

    def wait(self, rounds: int, seconds: float = 120.0) -> None:
        """Wait until so many more rounds are acknowledged."""
        aim, end = len(self.acknowledged) + rounds, time.monotonic() + seconds
        while len(self.acknowledged) < aim:
            if time.monotonic() > end:
                raise RuntimeError(f"no {rounds} rounds in {seconds} s; {self.unexpected}")
            time.sleep(0.001)

    def request(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request; status 0 if the service did not answer."""
        host = self.address.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=60)
        content = None if body is None else json.dumps(body)
        try:
            kind = {"Content-Type": "application/json"}
            connection.request("GET" if body is None else "POST", path, content, kind)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, ValueError, http.client.HTTPException):  # killed, or not started yet
            return 0, None
        finally:
            connection.close()

    def client(self, name: str) -> None:
        """Observe one round after the other, until the drill is over."""
        sent = 0
        while not self.over.is_set():
            status, found = self.request("/decision")
            if status != 200:
                time.sleep(0.02)
                continue
            sent, number = sent + 1, found["round"]
            body = {"key": f"{name}-{sent}", "round": number, "z": data_of(number)}
            status, answer = 0, None
            while status == 0 and not self.over.is_set():
                status, answer = self.request("/observation", body)
            with self._lock:
                if status == 200:
                    self.acknowledged.append((body["key"], answer["round"]))
                elif status not in (0, 409):
                    self.unexpected.append(f"{status}: {answer}")


def drill(folder: Path, kills: int, rng: random.Random) -> list[str]:
    """Kill the service so many times; return what was lost or doubled."""
    live = Drill(folder)
    live.start()
    clients = [threading.Thread(target=live.client, args=(f"c{i}",)) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        for _ in range(kills):
            live.wait(rng.randint(1, 60))
            time.sleep(rng.uniform(0, 0.01))
            live.kill()
            live.start()
        live.wait(20)
        live.over.set()
        for client in clients:
            client.join()
        _, last = live.request("/decision")
    finally:
        live.over.set()
        live.kill()
    return [*live.unexpected, *lost(live, last)]


def lost(live: Drill, last: Any) -> list[str]:
    """Compare what was acknowledged with the database, and the player with an uninterrupted one."""
    database = sqlite3.connect(live.database)
    stored = dict(database.execute("SELECT key, round FROM answers").fetchall())
    database.close()
    failures = []
    if sorted(stored.values()) != list(range(1, len(stored) + 1)):
        failures.append("the rounds in the database are not 1, 2, 3, ...")
    if len({number for _, number in live.acknowledged}) != len(live.acknowledged):
        failures.append("a round was acknowledged twice")
    for key, number in live.acknowledged:
        if stored.get(key) != number:
            failures.append(f"round {number} of {key} was acknowledged, and is {stored.get(key)}")
    if last["round"] != len(stored) + 1:
        failures.append(f"the player is before round {last['round']}, of {len(stored)} rounds")
    player = taut.Player(example().problem())
    for number in range(1, last["round"]):
        player.observe(data_of(number))
    if player.state()["decision"] != last["decision"]:
        failures.append("the decision is not that of a player without interruptions")
    print(f"{len(live.acknowledged)} of {len(stored)} rounds were acknowledged")
    return failures


def example() -> Any:
    """Return the module of the example."""
    spec = importlib.util.spec_from_file_location("service", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Run the drill and print what was lost."""
    words = argparse.ArgumentParser(description="Kill the example service and report what is lost.")
    words.add_argument("--kills", type=int, default=30)
    words.add_argument("--seed", type=int, default=0)
    asked = words.parse_args()
    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as folder:
        failures = drill(Path(folder), asked.kills, random.Random(asked.seed))
    print("\n".join(failures) or f"{asked.kills} kills: nothing was lost or doubled")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
