"""What operators need: missing, late and wrong observations, guards, alarms, bytes, and players
that go on with another problem."""

import logging
import re

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import taut
from taut import storage
from taut.learners.dual_mirror import DualMirror
from taut.player.file import contents
from taut.player.memory import History

BOX = taut.Box(0.0, 1.0, shape=2)
NAMES = ("wind", "gas")


def cost(x, z):
    return z @ x


def total(x):
    return jnp.sum(x) - 1.2


def game(**options):
    return taut.Problem(cost, total, BOX, coordinate_names=NAMES, domain_binds=True, **options)


GAME = game(constants=taut.Constants(loss_lipschitz=3.0))
LATE = taut.DelayTolerant(taut.HalfSpace(eta=0.1, diameter=2.0), delay=2)
DATA = np.random.default_rng(0).normal(size=(700, 2)) - 0.3


def played(rounds=5, problem=GAME, learner="half-space", **options):
    player = taut.Player(learner, problem, **options)
    for z in DATA[:rounds]:
        player.observe(z)
    return player


def same(one, two):
    """Compare everything that files hold, and what is read."""
    headers, arrays = zip(contents(one), contents(two), strict=True)
    assert headers[0] == headers[1]
    assert arrays[0].keys() == arrays[1].keys()
    for name, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][name], err_msg=name)
    np.testing.assert_array_equal(one.decision, two.decision)
    assert one.round == two.round


# Rounds in their order.


def test_a_round_that_is_not_the_next_is_refused_and_the_next_is_named():
    player, other = played(), played()
    for number, why in ((5, "is over"), (7, "is not the next")):
        with pytest.raises(
            ValueError, match=f"round: got {number}, which {why}; expected 6"
        ) as caught:
            player.observe(DATA[5], round=number)
        assert caught.value.numbers == {"came": number, "expected": 6}
    same(player, other)
    player.observe(DATA[5], round=6)
    assert player.round == 7
    with pytest.raises(TypeError, match="round: got 'six'"):
        player.observe(DATA[6], round="six")


@pytest.mark.parametrize("rounds", [1, 3, 256, 512, 513, 700])
@pytest.mark.parametrize("read", [False, True])
def test_the_last_round_can_be_taken_back(rounds, read):
    data = np.random.default_rng(1).normal(size=(rounds, 2))
    player, other = taut.Player(GAME, history=64), taut.Player(GAME, history=64)
    for z in data[:-1]:
        player.observe(z)
        other.observe(z)
    player.observe(100 * np.ones(2))
    if read:  # what is buffered is then added up
        assert player.totals.loss is not None
        assert player.extremes.rounds == rounds
    player.undo()
    same(player, other)
    with pytest.raises(TypeError, match=f"undo: nothing can be taken back before round {rounds}"):
        player.undo()
    player.observe(data[-1])
    other.observe(data[-1])
    same(player, other)


def test_taking_back_thins_the_history_the_same_way():
    one, two = History(1, 1, rows=4), History(1, 1, rows=4)
    for t in range(1, 60):
        one.add(np.array([t, -1.0, 0.5]))
        one.take_back()
        for each in (one, two):
            each.add(np.array([t, -2.0, 0.5]))
        np.testing.assert_array_equal(one.rounds, two.rounds)
        np.testing.assert_array_equal(one._values(), two._values())


def test_after_the_first_round_was_taken_back_data_may_be_others():
    player = taut.Player(taut.Problem(lambda x, z: jnp.sum(z * x), total, BOX))
    player.observe(1.0)
    player.undo()
    player.observe(np.ones(2))
    with pytest.raises(TypeError, match="undo"):
        taut.Player.from_bytes(player.to_bytes(), player.problem).undo()


def test_undo_takes_back_what_was_really_played():
    player, other = played(), played()
    player.observe(DATA[5], played=np.array([0.1, 0.2]))
    player.undo()
    same(player, other)
    assert player._changed == 0


# Missing and late observations.


def test_a_skipped_round_teaches_nothing_and_is_counted_as_unknown(caplog):
    player, other = played(), played()
    before = player.decision
    with caplog.at_level(logging.INFO, "taut.player"):
        player.skip(reason="no meter")
    assert caplog.records[-1].taut_event == "skipped"
    assert "round 6 was skipped: no meter" in caplog.text
    assert (player.round, player.unknown, player.observed) == (7, 1, 5)
    np.testing.assert_array_equal(player.decision, before)
    assert np.isnan(player.history.excess[-1]).all()
    player.observe(DATA[5])
    other.observe(DATA[5])
    np.testing.assert_array_equal(player.decision, other.decision)
    assert player.totals.loss == other.totals.loss
    certificate = player.certificate()
    assert certificate.horizon == 6
    assert "Skipped and unknown: 1 round." in " ".join(certificate.notes)
    with_data = player.certificate(stream=DATA[:7])
    assert "not used, because some rounds were skipped" in " ".join(with_data.notes)
    again = taut.Player.from_bytes(player.to_bytes(), GAME)
    same(player, again)
    player.skip()
    player.undo()
    same(player, again)


def test_skipped_rounds_move_the_previous_decision():
    moving = taut.Problem(
        lambda x, z, before: z @ x + jnp.sum((x - before) ** 2), total, BOX, previous=True
    )
    player = taut.Player(moving)
    player.observe(-np.ones(2))
    now = player.decision
    player.skip()
    player.observe(np.zeros(2))  # the loss is now that of moving from the same decision
    assert player.history.loss[-1] == 0
    np.testing.assert_allclose(player.history.decision[-1], now)


def test_late_rounds_are_as_good_as_those_of_a_simulation():
    """Three rounds late by two: what `Delayed(2)` plays."""
    run = taut.simulate(
        LATE, GAME, DATA[:20], feedback=taut.Delayed(2), record=("decisions", "loss")
    )
    player = taut.Player(LATE, GAME)
    decisions = []
    for t in range(20):
        decisions.append(player.decision)
        if t < 2:
            player.skip()
            continue
        # The simulation hands the round of two rounds ago over at the end of this round.
        player.observe_late(t - 1, DATA[t - 2])
        player.skip()
    np.testing.assert_allclose(np.stack(decisions), run.decisions[0], atol=1e-13)
    assert player.pending == (19, 20)
    np.testing.assert_allclose(player.totals.loss, run.loss[0, :18].sum())
    np.testing.assert_allclose(player.history.loss[:18], run.loss[0, :18])
    again = taut.Player.from_bytes(player.to_bytes(), GAME)
    for each in (player, again):
        each.observe_late(20, DATA[19])
        each.observe_late(19, DATA[18])
        assert (each.unknown, each.pending) == (0, ())
        np.testing.assert_allclose(each.totals.loss, run.loss.sum())
    same(player, again)
    exact = player.certificate(stream=DATA[:20])
    assert {row.quantity: row for row in exact.rows}["regret"].worst is not None


def test_rounds_that_cannot_come_late_any_more_are_refused_with_the_reason():
    player = taut.Player(LATE, GAME)
    for _ in range(4):
        player.skip()
    assert (player.pending, player.unknown) == ((3, 4), 4)
    before = player.to_bytes()
    with pytest.raises(ValueError, match=r"round: got 1, .*given up.*may still come: 3, 4"):
        player.observe_late(1, DATA[0])
    with pytest.raises(ValueError, match=r"round: got 9, which is not over; call player.observe"):
        player.observe_late(9, DATA[0])
    with pytest.raises(ValueError, match="z: got a value that is not finite in round 3"):
        player.observe_late(3, np.array([1.0, np.nan]))
    with pytest.raises(
        ValueError, match=r"round: got 3, which was skipped \(call player.observe_late\(3"
    ):
        player.observe(DATA[0], round=3)
    assert player.to_bytes() == before
    with pytest.raises(TypeError, match="observe_late: the guarantees of HalfSpace are proven for"):
        played().observe_late(2, DATA[0])


def test_a_late_round_is_no_longer_the_last_one():
    """Limits on the change look at the round before, and at no later one."""
    limits = taut.Limits(change=1.0)
    player = taut.Player(LATE, GAME, limits=limits)
    player.observe(np.zeros(2))
    player.skip()
    player.observe(np.full(2, 2.0))  # two rounds later it may be twice as far
    player.observe_late(2, np.full(2, -5.0))
    player.observe(np.full(2, 2.5))
    assert player.round == 5


def test_a_request_that_was_answered_is_forgotten_when_a_round_is_taken_back():
    sees = DualMirror(0.1, 9.0)
    problem = taut.Problem(lambda x, z: -z @ x, lambda x, z: x.sum() - 0.5, BOX)
    player = taut.Player(sees, problem, count=1)
    player.decide(np.ones(2))
    player.observe()
    player.decide(np.full(2, 2.0))
    player.undo()
    with pytest.raises(TypeError, match="observe: no request was made"):
        player.observe()


def test_a_file_whose_learner_had_another_state_is_migrated_to_its_decision(tmp_path):
    player = played()
    header, arrays = contents(player)
    fewer = {name: array for name, array in arrays.items() if name != "state/1"}
    storage.write_arrays(tmp_path / "old", {**header, "version": "0.1.0"}, fewer)
    with pytest.raises(ValueError, match=r"saved by taut 0\.1\.0: .*pass migrate=True to go on"):
        taut.Player.load(tmp_path / "old", GAME)
    again = taut.Player.load(tmp_path / "old", GAME, migrate=True)
    np.testing.assert_array_equal(again.decision, player.decision)
    assert again.round == player.round
    assert "all but the decision: the file is of taut 0.1.0" in " ".join(again.migration)


def test_entries_of_a_decision_may_be_given_by_name():
    player = played()
    for given in ({"gas": 0.5, "wind": 0.25}, pd.Series({"gas": 0.5, "wind": 0.25})):
        player.observe(DATA[6], played=given)
        assert player.history.decision[-1].tolist() == [0.25, 0.5]
    with pytest.raises(ValueError, match="decision: got the entries gas, sun; expected wind, gas"):
        player.observe(DATA[7], played={"gas": 0.5, "sun": 0.25})


# Guards and alarms.


def test_data_outside_the_limits_are_refused_with_the_numbers(caplog):
    limits = taut.Limits(-5.0, [5.0, 9.0], change=6.0)
    player, other = played(limits=limits), played(limits=limits)
    events = []
    player.on("refused", events.append)
    for z, text in (
        ([0.0, -5.5], r"z\[1\]: got -5.5 in round 6; expected at least -5"),
        ([5.5, 5.5], r"z\[0\]: got 5.5 in round 6; expected at most 5"),
        ([0.0, 8.0], r"z\[1\]: got 8 in round 6; expected a change of at most 6"),
    ):
        with pytest.raises(ValueError, match=text):
            player.observe(np.array(z))
    same(player, other)
    assert [event.numbers["entry"] for event in events] == ["z[1]", "z[0]", "z[1]"]
    assert events[0].numbers["value"] == -5.5
    record = caplog.records[0]
    assert (record.name, record.taut_event, record.taut_round) == ("taut.player", "refused", 6)
    assert record.taut_numbers["limit"] == -5.0
    again = taut.Player.from_bytes(player.to_bytes(), GAME, limits=limits)
    with pytest.raises(ValueError, match="a change of at most 6"):  # the last data are in the file
        again.observe(np.array([0.0, 8.0]))
    again.skip()
    again.observe(np.array([0.0, 8.0]))  # two rounds have passed
    again.undo()
    with pytest.raises(ValueError, match="at most 5"):
        again.observe(np.array([6.0, 0.0]))


def test_limits_by_name_and_by_a_function():
    problem = taut.Problem(lambda x, z: z["price"] * x.sum() + z["load"], total, BOX)
    player = taut.Player(problem, limits={"price": taut.Limits(0.0)})
    player.observe({"price": 1.0, "load": -3.0})
    with pytest.raises(ValueError, match=r"z\['price'\]: got -1 in round 2; expected at least 0"):
        player.observe({"price": -1.0, "load": 3.0})
    even = taut.Player(problem, limits=lambda z: z["load"] < 2)
    with pytest.raises(ValueError, match=r"z: got .* in round 1; expected data that .* accepts"):
        even.observe({"price": -1.0, "load": 3.0})
    unknown = taut.Player(problem, limits={"prize": taut.Limits(0.0)})
    with pytest.raises(ValueError, match="got limits for 'prize', which is not in the data"):
        unknown.observe({"price": 1.0, "load": 3.0})
    for wrong, text in (
        (3, "limits: got 3"),
        ({"price": 3}, "limits: got 3 for 'price'"),
    ):
        with pytest.raises(TypeError, match=text):
            taut.Player(problem, limits=wrong)
    with pytest.raises(ValueError, match=r"low: got 2\.0, above high=1\.0"):
        taut.Limits(2.0, 1.0)


def test_a_round_that_refutes_a_constant_is_refused_if_the_user_wants():
    absurd = np.array([1e4, 0.0])
    player, other = played(on_refuted="refuse"), played()
    seen = []
    player.on("refuted", seen.append)
    text = "loss_lipschitz: got 10000 in round 6; expected at most 3, as the problem states"
    with pytest.raises(ValueError, match=text):
        player.observe(absurd)
    same(player, other)
    assert seen[0].numbers == {"constant": "loss_lipschitz", "value": 1e4, "stated": 3.0}
    asked = played(on_refuted=lambda event: "warn" if event.numbers["value"] < 100 else "refuse")
    asked.observe(np.array([30.0, 0.0]))
    with pytest.raises(ValueError, match=text.replace("round 6", "round 7")):
        asked.observe(absurd)
    with pytest.raises(ValueError, match="on_refuted: got 'never'"):
        taut.Player(GAME, on_refuted="never")
    careless = played(on_refuted=lambda event: None)
    with pytest.raises((TypeError, ValueError), match=r"on_refuted\(event\): got None"):
        careless.observe(absurd)
    assert careless.round == 6


def test_warnings_of_refuted_constants_double_their_threshold(caplog):
    player = played()
    for size in (30.0, 31.0, 59.0, 61.0):
        player.observe(np.array([size, 0.0]))
    numbers = [record.taut_numbers for record in caplog.records]
    values = [each["value"] for each in numbers if each["constant"] == "loss_lipschitz"]
    assert values == [30.0, 61.0]
    assert "loss_lipschitz" in [one.name for one in player.certificate().refuted]


def test_violations_beyond_a_tolerance_and_bounds_are_reported():
    player = taut.Player(taut.ClippedOGD(1.0, 0.1), GAME)
    seen = []
    player.on("violated", seen.append, tolerance=0.5)
    player.observe(-np.ones(2))
    player.observe(-np.ones(2))  # at (1, 1), which exceeds 1.2 by 0.8
    assert [(event.round, event.numbers["constraint"]) for event in seen] == [(2, "g[0]")]
    assert seen[0].numbers["value"] == pytest.approx(player.history.excess[1, 0])
    player.on("violated", seen.append, tolerance=0.9)
    bounds = []
    player.on("bound", bounds.append, every=2)
    player.observe(-np.ones(2))
    player.observe(-np.ones(2))
    assert len(seen) == 1
    assert bounds == []  # no bound is exceeded
    for wrong, text in (
        (lambda: player.on("alarm", print), "event: got 'alarm'"),
        (lambda: player.on("refused", 3), "function: got 3"),
        (lambda: player.on("refused", print, tolerance=1.0), "tolerance: got 1.0"),
        (lambda: player.on("refused", print, every=3), "every: got 3"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            wrong()


def test_an_exceeded_bound_is_reported_by_the_certificate(monkeypatch):
    player = played()
    bounds = []
    player.on("bound", bounds.append)
    limit = taut.judge.certificate.Row.holds.fget
    monkeypatch.setattr(
        taut.judge.certificate.Row,
        "holds",
        property(lambda row: None if limit(row) is None else not limit(row)),
    )
    player.certificate(stream=DATA[:5])
    assert "regret" in [event.numbers["quantity"] for event in bounds]
    assert {event.round for event in bounds} == {5}
    assert all(event.numbers["value"] <= event.numbers["bound"] for event in bounds)


def test_what_a_hook_raises_reaches_the_caller_after_the_round_was_taken_over():
    player = played()

    def broken(event):
        raise RuntimeError("pager is off")

    player.on("refuted", broken)
    with pytest.raises(RuntimeError, match="pager is off"):
        player.observe(np.array([1e4, 0.0]))
    assert player.round == 7


# Bytes, tags and migration.


def test_bytes_are_the_file_and_the_history_is_optional(tmp_path):
    player = played(100)
    player.save(tmp_path / "player")
    assert (tmp_path / "player").read_bytes() == player.to_bytes()
    small = player.to_bytes(history=False)
    assert len(small) < len(player.to_bytes()) - 100 * 8 * 4
    again = taut.Player.from_bytes(small, GAME)
    assert (again.round, len(again.history.rounds)) == (101, 0)
    for each in (player, again):
        each.observe(DATA[100])
    np.testing.assert_array_equal(player.decision, again.decision)
    assert again.history.rounds.tolist() == [101]
    with pytest.raises(ValueError, match=r"content: got \d+ bytes, damaged or foreign"):
        taut.Player.from_bytes(small[:-40], GAME)
    with pytest.raises(TypeError, match="content: got 'text'"):
        taut.Player.from_bytes("text", GAME)


def test_swapped_names_other_functions_and_other_domains_are_refused_by_name():
    content = played().to_bytes()
    swapped = taut.Problem(cost, total, BOX, coordinate_names=NAMES[::-1])
    for problem, text in (
        (swapped, r"coordinate_names: got \['gas', 'wind'\]; expected \['wind', 'gas'\]"),
        (taut.Problem(lambda x, z: 2 * z @ x, total, BOX), "loss: got a function with the value"),
        (
            taut.Problem(cost, lambda x: jnp.sum(x) - 1.1, BOX),
            "constraints: got a function with the value",
        ),
        (taut.Problem(cost, total, taut.Box(0.0, 0.9, shape=2)), "got the domain Box"),
        (taut.Problem(lambda x, z: z["a"] @ x, total, BOX), "loss: got one that raised"),
    ):
        with pytest.raises(ValueError, match=f"{text}.*Pass migrate=True"):
            taut.Player.from_bytes(content, problem)
    rewritten = taut.Problem(jnp.dot, total, BOX)  # the same in other words
    assert taut.Player.from_bytes(content, rewritten).round == 6


def lowered(capacity, names=NAMES, domain=BOX):
    return taut.Problem(
        lambda x, z: z @ x[:2], lambda x: jnp.sum(x) - capacity, domain, coordinate_names=names
    )


def cuts_of(player):
    state = player._state().game.learner
    return np.asarray(state.cuts.normals), np.asarray(state.cuts.offsets)


def pushed():
    """A player that has met its constraint, and keeps a cut of it."""
    player = taut.Player(GAME)
    for _ in range(60):
        player.observe(-np.ones(2))
    assert np.any(cuts_of(player)[0] != 0)
    return player


@pytest.mark.parametrize(("capacity", "kept"), [(1.0, True), (1.15, True), (1.4, False)])
def test_cuts_that_still_hold_are_taken_over(capacity, kept, caplog):
    player = pushed()
    again = taut.Player.from_bytes(player.to_bytes(), lowered(capacity), migrate=True)
    assert np.any(cuts_of(again)[0] != 0) == kept
    assert any("kept cuts" in note for note in again.migration) == (not kept)
    assert (again.round, again.migrated, again.observed) == (61, 60, 0)
    np.testing.assert_allclose(again.decision, player.decision)
    state = again._state().game.learner
    assert float(state.slopes.total) == pytest.approx(120)
    for _ in range(60):
        again.observe(-np.ones(2))
    if capacity > 1.2:
        assert again.decision.sum() > 1.3  # the new capacity is used
    assert "migrated from another problem" in " ".join(again.certificate().notes)
    assert all(row.bound is None for row in again.certificate().rows)
    more = taut.Player.from_bytes(again.to_bytes(), lowered(capacity))
    assert (more.round, more.migration) == (121, again.migration)
    assert any("totals and history" in record.message for record in caplog.records)


def test_new_and_renamed_entries_are_matched_by_name():
    player = pushed()
    wider = lowered(1.2, ("sun", "gas", "wind2"), taut.Box(0.0, 1.0, shape=3))
    again = taut.Player.from_bytes(player.to_bytes(), wider, migrate={"wind": "wind2"})
    wind, gas = player.decision
    np.testing.assert_allclose(again.decision, [0.5, gas, wind], atol=1e-12)
    assert any("sun" in note for note in again.migration)
    for names, text in (
        ({"sea": "sun"}, r"migrate: got \['sea'\]"),
        ({"wind": "gas"}, "gives two entries one name"),
    ):
        with pytest.raises(ValueError, match=re.compile(text)):
            taut.Player.from_bytes(player.to_bytes(), wider, migrate=names)
    unnamed = taut.Problem(cost, total, taut.Box(0.0, 1.0, shape=3))
    with pytest.raises(ValueError, match="expected coordinate_names in both"):
        taut.Player.from_bytes(player.to_bytes(), unnamed, migrate=True)


def test_the_default_learner_gets_the_sizes_of_the_new_domain():
    derated = game_on = taut.Problem(
        cost, total, taut.Box(0.0, 0.5, shape=2), coordinate_names=NAMES
    )
    again = taut.Player.from_bytes(pushed().to_bytes(), derated, migrate=True)
    assert repr(again.learner) == repr(taut.Player(game_on).learner)
    assert np.all(again.decision <= 0.5)
    tuned = played(learner=taut.ClippedOGD(0.3, 5.0))
    other = taut.Player.from_bytes(tuned.to_bytes(), derated, migrate=True)
    assert any("learner of the old domain" in note for note in other.migration)


def test_a_problem_that_did_not_change_is_not_migrated():
    player = played()
    again = taut.Player.from_bytes(player.to_bytes(), GAME, migrate=True)
    same(player, again)
    assert (again.observed, again.migration) == (5, ())
    for wrong in ({"limits": 3}, {"on_refuted": 3}):
        (name,) = wrong
        with pytest.raises((TypeError, ValueError), match=f"^{name}: got 3"):
            taut.Player.from_bytes(player.to_bytes(), GAME, **wrong)


# Memory.


def test_memory_is_flat_without_a_history():
    player = taut.Player(GAME, history=0)
    sizes = []
    for t in range(1, 2049):
        player.observe(DATA[t % 700])
        if t in (1024, 2048):
            sizes.append(len(player.to_bytes()))
    assert sizes[0] == sizes[1]
    assert player.history.rounds.tolist() == []
    assert player.history.to_frame().shape == (0, 4)
    usual = played(300)
    nothing = played(300, history=0)
    assert usual.extremes.loss_lipschitz.value == nothing.extremes.loss_lipschitz.value
    np.testing.assert_array_equal(
        usual.extremes.loss_lipschitz.decision, nothing.extremes.loss_lipschitz.decision
    )


# Tables.


def test_rows_of_tables_are_taken_by_name_if_the_loss_takes_names():
    def priced(x, z):
        return z["price"] * x.sum() + (z["load"] - x[0]) ** 2

    times = pd.date_range("2026-01-01", periods=8, freq="5min")
    table = pd.DataFrame({"load": np.linspace(0, 1, 8), "price": 1.0}, index=times)
    problem = taut.Problem(priced, {"sum": lambda x: x.sum() - 1}, BOX, coordinate_names=NAMES)
    rows, dicts = taut.Player(problem), taut.Player(problem)
    for time, row in table.iterrows():
        rows.observe(row)
        dicts.observe({"price": row["price"], "load": row["load"]})
        assert time in times
    np.testing.assert_array_equal(rows.decision, dicts.decision)
    run = taut.simulate(problem, table, record=("loss",))
    np.testing.assert_allclose(run.loss[0], rows.history.loss)
    frame = rows.history.to_frame(times)
    assert list(frame.columns) == ["loss", "sum", "wind", "gas"]
    assert frame.index.equals(times)
    assert rows.history.to_frame(lambda t: t / 2).index.tolist() == [t / 2 for t in range(1, 9)]
    with pytest.raises(ValueError, match="times: got 7 times; expected those of all 8 rounds"):
        rows.history.to_frame(times[:7])
    with pytest.raises(TypeError, match=r"^times: got "):
        rows.history.to_frame(np.array(7))
    state = rows.state()
    assert state["decision"] == dict(zip(NAMES, rows.decision.tolist(), strict=True))
    assert state["constraint_names"] == ["sum"]


def test_a_table_can_be_the_data_of_one_round_and_arrays_stay_arrays():
    units = pd.DataFrame({"price": [1.0, 2.0], "limit": [0.5, 0.5]})
    named = taut.Problem(lambda x, z: z["price"] @ x - z["limit"].sum(), total, BOX)
    player = taut.Player(named)
    player.observe(units)
    assert player.history.loss[0] == pytest.approx(0.5 * 3 - 1)
    plain = taut.Player(taut.Problem(lambda x, z: z @ x, total, BOX))
    plain.observe(pd.Series([1.0, 2.0], index=["price", "limit"]))
    assert plain.history.loss[0] == pytest.approx(1.5)
