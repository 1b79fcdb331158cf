"""The example service: what is acknowledged is in the database, once. `python -m drills.service`
kills it."""

import json
import sqlite3
import threading
import urllib.error
import urllib.request

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="the example needs fastapi and uvicorn")

from drills.service import data_of, example  # noqa: E402  # needs them

SERVICE = example()


def sent(key, number, **changed):
    return {"key": key, "round": number, "z": {**data_of(number), **changed}}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = SERVICE.Service(str(tmp_path_factory.mktemp("service") / "state.sqlite"))
    yield service
    service.close()


@pytest.fixture(scope="module")
def send(service):
    """Return a function that sends a request and returns the status and the answer."""
    listening = SERVICE.socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = uvicorn.Config(SERVICE.application(service), log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()

    def send(path, body=None):
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(address + path, content, kind)
            ) as answer:
                text = answer.read().decode()
                return answer.status, text if path == "/metrics" else json.loads(text)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    yield send
    server.should_exit = True
    thread.join()
    listening.close()


def test_a_round_is_taken_once_for_each_key_and_survives(service, send):
    taken = (200, {"round": 1, "next": 2})
    assert send("/observation", sent("a", 1)) == taken
    assert send("/observation", sent("a", 1)) == taken  # the same answer again
    status, answer = send("/observation", sent("b", 1))
    assert status == 409
    assert json.loads(answer)["detail"] == {"error": "this is not the next round", "expected": 2}
    status, answer = send("/observation", sent("a", 2))
    assert status == 409
    assert json.loads(answer)["detail"] == {"error": "this key has another round", "expected": 1}
    status, answer = send("/observation", sent("c", 2, load=99.0))
    assert status == 422
    assert "z['load']: got 99 in round 2; expected at most 2" in answer
    assert send("/skip", {"key": "e", "round": 2, "reason": "no meter"})[0] == 200
    path = service._database.execute("PRAGMA database_list").fetchone()[2]
    again = SERVICE.Service(path)
    assert again.decision() == service.decision() == send("/decision")[1]
    assert (again.player.round, again.player.unknown) == (3, 1)
    assert [alarm["event"] for alarm in again.alarms()] == ["refused"]
    assert again.alarms() == send("/alarms")[1]
    again.close()
    metrics = send("/metrics")[1]
    assert "taut_round 3\ntaut_rounds_unknown 1\ntaut_observations_refused_total 1\n" in metrics
    violation = service.player.totals.violation[0]
    assert f'taut_violation_total{{constraint="line"}} {violation:.17g}\n' in metrics


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "JSON decode error"),
        ({"key": "d", "z": data_of(3)}, "body.round: Field required"),
        (
            {"key": "d", "round": "3", "z": data_of(3)},
            "body.round: Input should be a valid integer",
        ),
        ({"key": "d", "round": 3, "z": {"price": 1.0}}, "body.z.load: Field required"),
        ({"key": "d", "round": 3, "z": {**data_of(3), "lod": 1.0}}, "body.z.lod: Extra inputs"),
        (
            {"key": "d", "round": 3, "z": {"price": float("nan"), "load": 1.0}},
            "body.z.price: Input should be a finite",
        ),
    ],
)
def test_a_wrong_body_is_named(service, send, body, said):
    before = service.player.to_bytes()
    status, answer = send("/observation", body)
    assert status == 422
    assert said in answer
    assert service.player.to_bytes() == before


class FullDisk:
    """A database that cannot commit."""

    def __init__(self, database):
        self._database = database

    def __getattr__(self, name):
        return getattr(self._database, name)

    def execute(self, text, *given):
        if text == "COMMIT":
            raise sqlite3.OperationalError("disk is full")
        return self._database.execute(text, *given)


def test_a_round_that_cannot_be_stored_is_taken_back(service, send):
    database, before, number = service._database, service.player.to_bytes(), service.player.round
    service._database = FullDisk(database)
    try:
        assert send("/observation", sent("f", number))[0] == 500
    finally:
        service._database = database
    assert service.player.to_bytes() == before
    assert service.player.round == number
    assert not database.in_transaction
    assert database.execute("SELECT * FROM answers WHERE key = 'f'").fetchone() is None
    assert send("/observation", sent("f", number)) == (200, {"round": number, "next": number + 1})
