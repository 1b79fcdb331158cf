"""The registry: names build learners, errors list what there is, others' methods are added and
removed."""

import dataclasses
import importlib
import importlib.metadata
from pathlib import Path

import pytest

import taut
from taut import bounds
from taut.judge.guarantees import setting_of
from taut.learners import Card, Growth, registry
from taut.testing import playing, problems

CONSTANTS = problems.TOY.problem.constants
HERE = Path(__file__).parent


@pytest.fixture
def added():
    """Names that a test adds are removed after it."""
    before = set(taut.LEARNERS)
    yield
    for name in set(taut.LEARNERS) - before:
        taut.LEARNERS.remove(name)


def test_names_are_those_of_the_cards_and_every_method_applies_somewhere():
    for name, card in taut.LEARNERS.items():
        assert name == card.name
        assert card.reference
        assert card.request_first or any(
            playing.applies(card, known) for known in problems.PROBLEMS
        ), name


@pytest.mark.parametrize(
    "family", [module.__name__.rpartition(".")[2] for module in registry.FAMILIES]
)
def test_every_family_has_a_test_file_that_runs_the_checks(family):
    text = (HERE / f"test_{family}.py").read_text()
    assert "@parametrize_with_checks(" in text
    assert "CARDS" in text


def test_a_name_builds_a_method_with_its_options():
    made = taut.learner("clipped-ogd", problems.TOY.problem, horizon=5_000, beta=0.6)
    assert made == taut.ClippedOGD.tuned(CONSTANTS, 5_000, beta=0.6)
    assert taut.learner("a-ogd", CONSTANTS) == taut.SaddlePoint.jenatton(CONSTANTS)
    assert taut.learner("ogd-clipped", CONSTANTS, horizon=99) == taut.SaddlePoint.mahdavi(
        CONSTANTS, 99, clipped=True
    )
    ball = taut.L1Ball(1.0, shape=2)
    made = taut.learner("projected-ogd", CONSTANTS, feasible=ball)
    assert repr(made) == repr(taut.ProjectedOGD.zinkevich(CONSTANTS, ball))


@pytest.mark.parametrize(
    ("call", "error", "texts"),
    [
        (
            lambda: taut.learner("nope", CONSTANTS),
            ValueError,
            ("learner: got 'nope'", "clipped-ogd", "drift-plus-penalty"),
        ),
        (lambda: taut.LEARNERS["nope"], KeyError, ("'nope'", "clipped-ogd")),
        (lambda: taut.learner(3, CONSTANTS), ValueError, ("learner: got 3",)),
        (
            lambda: taut.learner("a-ogd", taut.Constants()),
            ValueError,
            ("radius (R)", "loss_lipschitz (G_f)", "unknown"),
        ),
        (
            lambda: taut.learner("clipped-ogd", CONSTANTS),
            ValueError,
            ("horizon: got None", "clipped-ogd needs"),
        ),
        (
            lambda: taut.learner("clipped-ogd", horizon=9),
            ValueError,
            ("constants: got None", "a problem"),
        ),
        (
            lambda: taut.learner("projected-ogd", CONSTANTS),
            ValueError,
            ("feasible: got None", "exact projection"),
        ),
        (
            lambda: taut.learner("clipped-ogd", CONSTANTS, horizon=9, gamma=1),
            TypeError,
            ("gamma: clipped-ogd has no such option", "beta, alpha, rule"),
        ),
        (
            lambda: taut.learner("clipped-ogd", CONSTANTS, horizon=0),
            ValueError,
            ("horizon: got 0", "at least 1"),
        ),
        (lambda: taut.Card("x", 3), TypeError, ("make: got 3",)),
        (lambda: taut.Card("", taut.ClippedOGD.tuned), TypeError, ("name: got ''",)),
        (
            lambda: taut.Card("x", taut.ClippedOGD.tuned, growth={"speed": Growth("T", 1.0)}),
            ValueError,
            ("growth: got ['speed']", "regret"),
        ),
        (lambda: taut.register_learner(3), TypeError, ("card: got 3",)),
        (
            lambda: taut.register_learner(Card("clipped-ogd", taut.ClippedOGD.tuned)),
            ValueError,
            ("'clipped-ogd', which is already registered",),
        ),
        (lambda: taut.LEARNERS.remove("clipped-ogd"), ValueError, ("a method of taut",)),
    ],
)
def test_errors_say_what_there_is(call, error, texts):
    with pytest.raises(error) as raised:
        call()
    for text in texts:
        assert text in str(raised.value)


@pytest.mark.parametrize(
    "card", [c for c in taut.LEARNERS.values() if c.aggregated], ids=playing.name_of
)
def test_aggregated_methods_refuse_several_constraints(card):
    with pytest.raises(ValueError, match=r"constraint_count: got 21; expected 1.*max_of"):
        card.build(problems.DOUBLY.problem, 100)


@pytest.mark.parametrize(
    "card",
    [c for c in taut.LEARNERS.values() if c.losses == "strongly convex"],
    ids=playing.name_of,
)
def test_strongly_convex_methods_refuse_a_modulus_of_zero(card):
    with pytest.raises(ValueError, match="strong_convexity"):
        card.build(problems.TOY.problem, 100, feasible=problems.TOY.feasible)


@pytest.mark.usefixtures("added")
def test_methods_of_others_are_registered_by_a_decorator():
    @taut.register_learner(name="half-steps", reference="nobody")
    def half_steps(constants, horizon, factor=0.5):
        base = taut.ClippedOGD.tuned(constants, horizon)
        return taut.ClippedOGD(base.eta.value * factor, base.sigma)

    assert taut.LEARNERS["half-steps"].options == {"factor": 0.5}
    made = taut.learner("half-steps", CONSTANTS, horizon=100, factor=0.25)
    assert made.eta.value == pytest.approx(taut.ClippedOGD.tuned(CONSTANTS, 100).eta.value / 4)
    taut.register_learner(
        Card("half-steps", half_steps)
    )  # again, as in a notebook cell that is run twice

    assert taut.register_learner(name="half-steps")(taut.ClippedOGD.tuned) == taut.ClippedOGD.tuned
    assert "factor" not in taut.LEARNERS["half-steps"].options

    @taut.register_learner(name="mine", reference="nobody")
    @taut.learner_dataclass
    class Mine(taut.Learner):
        eta: float

        @classmethod
        def tuned(cls, constants):
            return cls(0.1)

        def init(self, x1, count):
            return taut.learners.State(x1, 1)

        def step(self, state, round):
            return state

    assert taut.learner("mine", CONSTANTS) == Mine(0.1)


@pytest.mark.usefixtures("added")
def test_methods_of_others_are_found_by_entry_points(monkeypatch):
    good = Card("theirs", taut.ClippedOGD.anytime)

    class Point:
        dist = None

        def __init__(self, name, value):
            self.name, self.value = name, value

        def load(self):
            if isinstance(self.value, Exception):
                raise self.value
            return self.value

    points = [
        Point("theirs", good),
        Point("other-name", good),
        Point("clipped-ogd", Card("clipped-ogd", taut.ClippedOGD.anytime)),
        Point("broken", ImportError("no such module")),
        Point("no-card", 3),
    ]
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: points if group == "taut.learners" else []
    )
    found = registry.Registry(registry.CARDS, Card, registry.GROUP, "learner", "taut.Card")
    with pytest.warns(UserWarning, match="is ignored") as warned:
        assert "theirs" in found
    assert len(warned) == 4
    assert found["theirs"] is good
    assert found["clipped-ogd"].make == taut.LEARNERS["clipped-ogd"].make


def test_guarantees_say_why_a_theorem_gives_nothing():
    setting = taut.Setting(taut.Constants(radius=1.0, loss_lipschitz=1.0), 2.0)
    found = list(taut.ClippedOGD(0.1, 4.0).guarantees(setting, 100))
    assert all(one.bound is None for one in found)
    assert "constraint_lipschitz (G_g)" in found[0].reason
    small = CONSTANTS.with_values(constraint_count=1)
    found = list(taut.ClippedOGD(0.1, 0.5).guarantees(taut.Setting(small, 2.0), 100))
    assert "sigma: got 0.5" in found[0].reason


def test_every_constant_that_a_bound_uses_is_among_its_assumptions():
    """A guarantee must change with each constant it assumes, and with no other."""
    numbers = dict.fromkeys(
        ("radius", "loss_lipschitz", "constraint_lipschitz", "loss_range", "constraint_range")
    )
    for card in taut.LEARNERS.values():
        for known in problems.PROBLEMS:
            if card.request_first or not playing.applies(card, known):
                continue
            problem = playing.as_played(card, known.problem)
            learner = playing.tuned(card, known)
            setting = setting_of(problem)
            before = list(learner.guarantees(setting, 100))
            for name in numbers:
                value = getattr(problem.constants, name)
                if value is None:
                    continue
                constants = problem.constants.with_values(**{name: 1.01 * value})
                changed = list(
                    learner.guarantees(dataclasses.replace(setting, constants=constants), 100)
                )
                for one, other in zip(before, changed, strict=True):
                    if one.bound != other.bound:
                        assert name in one.assumptions, (card.name, one.source, one.quantity, name)


def test_formulas_raise_outside_their_theorem_and_nothing_else_is_swallowed(monkeypatch):
    with pytest.raises(taut.learners.OutsideTheorem, match="sigma"):
        bounds.clipped_regret(
            horizon=10,
            eta=0.1,
            sigma=0.1,
            radius=1.0,
            loss_lipschitz=1.0,
            constraint_lipschitz=1.0,
            constraint_count=1,
        )
    setting = taut.Setting(CONSTANTS, 2.0)

    def buggy(**numbers):
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        setting.evaluate("regret", buggy, "nowhere")


def test_a_name_stands_for_the_learner_of_the_problem_and_the_horizon():
    problem = problems.TOY.problem
    for name in ("clipped-ogd", "half-space", "clipped-ogd-anytime"):
        horizon = 400 if taut.LEARNERS[name].needs_horizon else None
        assert repr(registry.as_learner(name, problem, 400)) == repr(
            taut.learner(name, problem, horizon=horizon)
        )
    assert registry.as_learner("clipped-ogd", problem, 400) != registry.as_learner(
        "clipped-ogd", problem, 100
    )
