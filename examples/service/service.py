"""A service around one player: decisions over HTTP, observations that are durable once they are
acknowledged.

    GET  /decision     {"round": 7, "decision": {"wind": 0.4, "gas": 0.6}}
    POST /observation  {"key": "meter-7", "round": 7, "z": {...}}
    POST /skip         {"key": "meter-7", "round": 7, "reason": "no meter"}
    GET  /metrics      numbers in Prometheus' text format
    GET  /alarms       the last events: refused rounds, refuted constants, violations

Only the standard library is used besides taut: `http.server` and `sqlite3`. A request with a key
that was answered before gets the same answer again, so clients may repeat it until they are
answered. A round that is over or not the next is answered with 409, data that are refused with 422.
The answer and the player's new state are one transaction of SQLite, which is on the disk before the
answer is sent. If it fails, the player takes the round back.

Run with `python examples/service/service.py state.sqlite [--port 8000]`.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jax
import jax.numpy as jnp

import taut

TABLES = """
CREATE TABLE IF NOT EXISTS player (id INTEGER PRIMARY KEY CHECK (id = 1), content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, round INTEGER UNIQUE NOT NULL,
                                    answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS alarms (id INTEGER PRIMARY KEY, time REAL, event TEXT, round INTEGER,
                                   message TEXT);
"""
LIMITS = {"price": taut.Limits(-500.0, 15_000.0), "load": taut.Limits(0.0, 2.0, change=0.5)}


def problem() -> taut.Problem:
    """Two units share a load, at a price for the gas; together they must not exceed 1.2."""

    def cost(x: Any, z: Any) -> Any:
        return z["price"] / 100 * x[1] + 10 * (x[0] + x[1] - z["load"]) ** 2

    return taut.Problem(
        cost,
        lambda x: {"line": jnp.sum(x) - 1.2},
        taut.Box(0.0, 1.0, shape=2),
        coordinate_names=("wind", "gas"),
        domain_binds=True,
    )


class Service:
    """One player and its database. All methods may be called from several threads.

    Arguments:
        path: the SQLite file; the player in it goes on.
    """

    def __init__(self, path: str) -> None:
        self._lock, self._refused = threading.Lock(), 0
        self._events: list[tuple[Any, ...]] = []  # alarms that are not in the database yet
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")  # a commit waits for the disk
        self._database.executescript(TABLES)
        saved = self._database.execute("SELECT content FROM player").fetchone()
        options: dict[str, Any] = {"limits": LIMITS, "on_refuted": "warn"}
        if saved:
            self.player = taut.Player.from_bytes(saved[0], problem(), **options)
        else:
            self.player = taut.Player(problem(), **options)
        for event in ("refused", "refuted", "bound"):
            self.player.on(event, self._alarm)
        self.player.on("violated", self._alarm, tolerance=0.05)

    def decision(self) -> dict[str, Any]:
        """Return the round about to be played and its decision."""
        with self._lock:
            state = self.player.state()
            return {"round": state["round"], "decision": state["decision"]}

    def take(self, request: dict[str, Any], skip: bool) -> tuple[int, str]:
        """Observe or skip a round, once for each key. Returns the HTTP status and the answer."""
        key = request.get("key")
        if not isinstance(key, str) or not isinstance(request.get("round"), int):
            return 400, json.dumps({"error": "expected a text `key` and a whole number `round`"})
        with self._lock:
            known = self._database.execute("SELECT answer FROM answers WHERE key = ?", (key,))
            answered = known.fetchone()
            if answered:
                return 200, str(answered[0])
            if request["round"] != self.player.round:
                expected = {"error": "this is not the next round", "expected": self.player.round}
                return 409, json.dumps(expected)
            try:
                if skip:
                    self.player.skip(str(request.get("reason", "")))
                else:
                    self.player.observe(request.get("z"), round=request["round"])
            except (TypeError, ValueError) as error:
                self._refused += 1
                self._write_alarms()
                return 422, json.dumps({"error": str(error)})
            answer = json.dumps({"round": request["round"], "next": self.player.round})
            self._store(key, request["round"], answer)
            return 200, answer

    def _store(self, key: str, round: int, answer: str) -> None:
        """Write the answer and the player in one transaction, or take the round back."""
        content, execute = self.player.to_bytes(history=False), self._database.execute
        try:
            execute("BEGIN IMMEDIATE")
            execute("INSERT INTO answers VALUES (?, ?, ?)", (key, round, answer))
            execute("INSERT OR REPLACE INTO player VALUES (1, ?)", (content,))
            self._write_alarms()
            execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                execute("ROLLBACK")
            self.player.undo()
            raise

    def _alarm(self, event: taut.Event) -> None:
        """Note an event. It is written later: what a hook raises would reach `observe`, after the
        round was taken over."""
        self._events.append((time.time(), event.name, event.round, event.message))

    def _write_alarms(self) -> None:
        events, self._events = self._events, []
        self._database.executemany(
            "INSERT INTO alarms (time, event, round, message) VALUES (?, ?, ?, ?)", events
        )

    def alarms(self) -> list[dict[str, Any]]:
        """Return the last events, newest first."""
        names = ("time", "event", "round", "message")
        with self._lock:
            found = self._database.execute(
                "SELECT time, event, round, message FROM alarms ORDER BY id DESC LIMIT 100"
            ).fetchall()
        return [dict(zip(names, row, strict=True)) for row in found]

    def metrics(self) -> str:
        """Return what Prometheus reads."""
        with self._lock:
            state, names = self.player.state(), self.player.constraint_names or ()
            totals = self.player.totals
            lines = [
                f"taut_round {state['round']}",
                f"taut_rounds_unknown {state['unknown']}",
                f"taut_observations_refused_total {self._refused}",
                f"taut_loss_total {float(totals.loss):.17g}",
            ]
            for name, violation, peak in zip(names, totals.violation, totals.peak, strict=True):
                lines.append(f'taut_violation_total{{constraint="{name}"}} {violation:.17g}')
                lines.append(f'taut_violation_peak{{constraint="{name}"}} {peak:.17g}')
        return "\n".join(lines) + "\n"


class Handler(BaseHTTPRequestHandler):
    """The paths above."""

    service: Service
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with a decision, metrics or alarms."""
        pages = {"/decision": self.service.decision, "/alarms": self.service.alarms}
        if self.path == "/metrics":
            self._answer(200, self.service.metrics(), "text/plain; version=0.0.4")
        elif self.path in pages:
            self._answer(200, json.dumps(pages[self.path]()))
        else:
            self._answer(404, json.dumps({"error": "no such path"}))

    def do_POST(self) -> None:
        """Take an observation or skip a round."""
        if self.path not in ("/observation", "/skip"):
            self._answer(404, json.dumps({"error": "no such path"}))
            return
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            request = body if isinstance(body, dict) else {}
        except ValueError as error:
            self._answer(400, json.dumps({"error": f"the body is no JSON: {error}"}))
            return
        self._answer(*self.service.take(request, skip=self.path == "/skip"))

    def _answer(self, status: int, text: str, kind: str = "application/json") -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged; events are, by taut."""


def main() -> None:
    """Serve until the process is ended."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    words.add_argument("database")
    words.add_argument("--port", type=int, default=8000, help="0 for any that is free")
    words.add_argument("--compiled", help="folder of compiled programs, for a quick start")
    asked = words.parse_args()
    jax.config.update("jax_enable_x64", True)
    if asked.compiled:
        taut.engine.cache(asked.compiled)
    Handler.service = Service(asked.database)
    server = ThreadingHTTPServer(("127.0.0.1", asked.port), Handler)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
