"""A service around one player: decisions over HTTP, observations that are durable once they are
acknowledged.

    GET  /decision     {"round": 7, "decision": {"wind": 0.4, "gas": 0.6}}
    POST /observation  {"key": "meter-7", "round": 7, "z": {"price": 80, "load": 0.9}}
    POST /skip         {"key": "meter-7", "round": 7, "reason": "no meter"}
    GET  /metrics      numbers in Prometheus' text format
    GET  /alarms       the last events: refused rounds, refuted constants, violations

A request with a key that was answered before gets the same answer again, so clients may repeat it
until they are answered. A round that is over or not the next is answered with 409. A body that is
not as above, and data that the player refuses, are answered with 422. The answer and the player's
new state are one transaction of SQLite, which is on the disk before the answer is sent. If it
fails, the player takes the round back.

Install with `pip install fastapi uvicorn` besides taut. Run with
`python examples/service/service.py state.sqlite [--port 8000]`.
"""

import argparse
import socket
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, FiniteFloat

import taut

TABLES = """
CREATE TABLE IF NOT EXISTS player (id INTEGER PRIMARY KEY CHECK (id = 1), content BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, round INTEGER UNIQUE NOT NULL);
CREATE TABLE IF NOT EXISTS alarms (event TEXT, round INTEGER, message TEXT,
                                   time TEXT DEFAULT CURRENT_TIMESTAMP);
"""
LIMITS = {"price": taut.Limits(-500.0, 15_000.0), "load": taut.Limits(0.0, 2.0, change=0.5)}


class Readings(BaseModel, extra="forbid", strict=True):
    price: FiniteFloat
    load: FiniteFloat


class Skip(BaseModel, extra="forbid", strict=True):
    key: str
    round: int
    reason: str = ""


class Observation(BaseModel, extra="forbid", strict=True):
    key: str
    round: int
    z: Readings


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
        self._events: list[taut.Event] = []  # alarms that are not in the database yet
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.row_factory = sqlite3.Row
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
            self.player.on(event, self._events.append)
        self.player.on("violated", self._events.append, tolerance=0.05)

    def decision(self) -> dict[str, Any]:
        """Return the round about to be played and its decision."""
        with self._lock:
            state = self.player.state()
            return {"round": state["round"], "decision": state["decision"]}

    def observe(self, request: Observation) -> dict[str, int]:
        """Observe a round, once for each key."""
        return self._once(request, lambda: self.player.observe(dict(request.z)))

    def skip(self, request: Skip) -> dict[str, int]:
        """Go on without an observation, once for each key."""
        return self._once(request, lambda: self.player.skip(request.reason))

    def _once(self, request: Observation | Skip, act: Callable[[], None]) -> dict[str, int]:
        select = "SELECT round FROM answers WHERE key = ?"
        with self._lock:
            answered = self._database.execute(select, (request.key,)).fetchone()
            expected = answered[0] if answered else self.player.round
            if request.round != expected:
                wrong = "this key has another round" if answered else "this is not the next round"
                raise HTTPException(409, {"error": wrong, "expected": expected})
            if not answered:
                try:
                    act()
                except (TypeError, ValueError) as error:
                    self._refused += 1
                    self._write_alarms()
                    raise HTTPException(422, {"error": str(error)}) from error
                self._store(request)
        return {"round": request.round, "next": request.round + 1}

    def _store(self, request: Observation | Skip) -> None:
        """Write the answer and the player in one transaction, or take the round back."""
        execute = self._database.execute
        try:
            content = self.player.to_bytes(history=False)
            execute("BEGIN IMMEDIATE")
            execute("INSERT INTO answers VALUES (?, ?)", (request.key, request.round))
            execute("INSERT OR REPLACE INTO player VALUES (1, ?)", (content,))
            self._write_alarms()
            execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                execute("ROLLBACK")
            self.player.undo()
            raise

    def _write_alarms(self) -> None:
        events = [(event.name, event.round, event.message) for event in self._events]
        self._events.clear()
        insert = "INSERT INTO alarms (event, round, message) VALUES (?, ?, ?)"
        self._database.executemany(insert, events)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def alarms(self) -> list[dict[str, Any]]:
        """Return the last events, newest first."""
        select = "SELECT * FROM alarms ORDER BY rowid DESC LIMIT 100"
        with self._lock:
            return [dict(row) for row in self._database.execute(select)]

    def metrics(self) -> str:
        """Return what Prometheus reads."""
        with self._lock:
            player, refused = self.player, self._refused
            round, unknown, totals = player.round, player.unknown, player.totals
        values = {
            "taut_round": round,
            "taut_rounds_unknown": unknown,
            "taut_observations_refused_total": refused,
            "taut_loss_total": totals.loss,
            'taut_violation_total{constraint="line"}': totals.violation[0],
            'taut_violation_peak{constraint="line"}': totals.peak[0],
        }
        return "".join(f"{name} {float(value):.17g}\n" for name, value in values.items())


def application(service: Service) -> FastAPI:
    """Return the paths above. Their functions run in FastAPI's thread pool."""
    app = FastAPI(title="taut", description=__doc__ or "")
    app.get("/decision")(service.decision)
    app.post("/observation")(service.observe)
    app.post("/skip")(service.skip)
    app.get("/metrics", response_class=PlainTextResponse)(service.metrics)
    app.get("/alarms")(service.alarms)

    @app.exception_handler(RequestValidationError)
    def wrong(_: Request, error: RequestValidationError) -> JSONResponse:
        """Name the fields. FastAPI's own answer repeats the input, and cannot write NaN."""
        fields = [".".join(map(str, part["loc"])) + ": " + part["msg"] for part in error.errors()]
        return JSONResponse({"detail": {"error": "; ".join(fields)}}, 422)

    return app


def main() -> None:
    """Serve until the process is ended."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    words.add_argument("database")
    words.add_argument("--port", type=int, default=8000, help="0 for any that is free")
    asked = words.parse_args()
    jax.config.update("jax_enable_x64", True)
    taut.engine.cache(f"{asked.database}.compiled")  # a restart need not compile again
    service = Service(asked.database)
    listening = socket.create_server(("127.0.0.1", asked.port))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(application(service), log_level="warning")
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        service.close()


if __name__ == "__main__":
    main()
