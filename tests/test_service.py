"""The example service: what is acknowledged is in the database, once. `python -m drills.service`
kills it."""

import json
import sqlite3
import threading
import urllib.error
import urllib.request
from http.server import ThreadingHTTPServer

import pytest
from drills.service import data_of, example

SERVICE = example()


def sent(key, number, **changed):
    return {"key": key, "round": number, "z": {**data_of(number), **changed}}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    return SERVICE.Service(str(tmp_path_factory.mktemp("service") / "state.sqlite"))


def test_a_round_is_taken_once_for_each_key_and_survives(service):
    status, answer = service.take(sent("a", 1), skip=False)
    assert (status, json.loads(answer)) == (200, {"round": 1, "next": 2})
    assert service.take(sent("a", 1), skip=False) == (200, answer)  # the same answer again
    status, other = service.take(sent("b", 1), skip=False)
    assert (status, json.loads(other)["expected"]) == (409, 2)
    status, refused = service.take(sent("c", 2, load=99.0), skip=False)
    assert status == 422
    assert "z['load']: got 99 in round 2; expected at most 2" in json.loads(refused)["error"]
    assert service.take({"key": "d", "round": "x"}, skip=False)[0] == 400
    assert service.take(sent("e", 2), skip=True)[0] == 200
    path = service._database.execute("PRAGMA database_list").fetchone()[2]
    again = SERVICE.Service(path)
    assert again.decision() == service.decision()
    assert (again.player.round, again.player.unknown) == (3, 1)
    assert [alarm["event"] for alarm in again.alarms()] == ["refused"]


def test_a_round_that_cannot_be_stored_is_taken_back(service, monkeypatch):
    before, number = service.player.to_bytes(), service.player.round

    class Broken:
        in_transaction = False

        def execute(self, text, *given):
            if text.startswith("SELECT"):
                return service_database.execute(text, *given)
            raise sqlite3.OperationalError("disk is full")

    service_database = service._database
    monkeypatch.setattr(service, "_database", Broken())
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        service.take(sent("f", number), skip=False)
    assert service.player.to_bytes() == before


def test_the_paths_answer_over_http(service):
    handler = type("Handler", (SERVICE.Handler,), {"service": service})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}"

        def read(path, body=None):
            with urllib.request.urlopen(address + path, body) as answer:
                return answer.read().decode()

        number = json.loads(read("/decision"))["round"]
        body = json.dumps(sent("g", number)).encode()
        assert json.loads(read("/observation", body))["next"] == number + 1
        metrics = read("/metrics")
        assert f"taut_round {number + 1}\n" in metrics
        assert 'taut_violation_total{constraint="line"}' in metrics
        assert json.loads(read("/alarms"))[0]["event"] == "refused"
        for path, content in (("/nothing", None), ("/observation", b"{")):
            with pytest.raises(urllib.error.HTTPError) as caught:
                read(path, content)
            caught.value.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
