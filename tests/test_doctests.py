"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pkgutil
import re

import pytest

import taut

HEAVY = ("taut.cli.main", "taut.paper")
"""Front ends, tested where they are used."""

MODULES = [
    found.name
    for found in pkgutil.walk_packages(taut.__path__, "taut.")
    if not found.name.startswith(HEAVY)
]
FINDER = doctest.DocTestFinder(exclude_empty=True)


class Nearly(doctest.OutputChecker):
    """Numbers need to agree in six digits only: the last ones are the processor's."""

    def check_output(self, want, got, optionflags):
        def rounded(text):
            return re.sub(
                r"-?\d+\.\d+(e[-+]?\d+)?", lambda number: f"{float(number.group()):.6g}", text
            )

        return super().check_output(rounded(want), rounded(got), optionflags)


def examples(name):
    return [test for test in FINDER.find(importlib.import_module(name)) if test.examples]


@pytest.mark.parametrize("name", ["taut", *MODULES])
def test_examples(name):
    runner = doctest.DocTestRunner(Nearly(), optionflags=doctest.NORMALIZE_WHITESPACE)
    report = []
    for test in examples(name):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


FIRST = (
    "taut.play.simulate",
    "taut.player.player",
    "taut.problem.problem",
    "taut.learners.clipped_ogd",
    "taut.learners.saddle_point",
    "taut.learners.drift_plus_penalty",
    "taut.learners.projected_ogd",
)


@pytest.mark.parametrize("name", FIRST)
def test_what_a_user_meets_first_has_an_example(name):
    assert examples(name)
