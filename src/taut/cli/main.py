"""The command line. Every command calls one function of the library and has --json. Errors are one
sentence."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from . import arena as arena_commands, commands
from .commands import Json, WithJax

if TYPE_CHECKING:
    from ..learners import Card


class _InOrder(TyperGroup):
    """Lists the commands in the order in which people need them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands: your own problem, choosing, the paper, the arena."""
        return [*ORDER, *(name for name in super().list_commands(ctx) if name not in ORDER)]


ORDER = (
    *("run", "certify", "plot", "compare", "recommend", "learners", "bound"),
    *("reproduce", "arena"),
)
"""The commands in the order in which help lists them."""

app = typer.Typer(
    name="taut",
    cls=_InOrder,
    help="Make decisions one round at a time that keep your limits.",
    no_args_is_help=True,
    add_completion=True,  # taut --install-completion
    rich_markup_mode=None,  # [g] in a help text is mathematics, not markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line. Errors print one sentence and exit with 1."""
    debug = "--debug" in sys.argv
    sys.argv[:] = [
        word for word in sys.argv if word != "--debug"
    ]  # accepted before and after the command
    try:
        app()
    except KeyboardInterrupt:
        _complain(
            "interrupted; finished experiments are kept, run the same command again to continue"
        )
        sys.exit(130)
    except Exception as error:  # it is printed as one sentence; --debug shows all of it
        if debug:
            raise
        _complain(str(error) or _reason(error))
        sys.exit(1)


def _reason(error: Exception) -> str:
    """Say why an error without a text was raised: JAX raises one where it has no device to compute
    on."""
    from ..engine import require_jax

    try:
        require_jax()
    except RuntimeError as reason:
        return str(reason)
    return type(error).__name__


def _version(wanted: bool) -> None:
    if wanted:
        from ..engine import VERSION

        typer.echo(VERSION)
        raise typer.Exit


_Version = Annotated[
    bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
]


@app.callback()
def _root(
    version: _Version = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Make decisions one round at a time that keep your limits."""


@app.command(cls=WithJax)
def learners(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, as in docs/learners.md.")
    ] = False,
    json_out: Json = False,
) -> None:
    """List all learners with their guarantees.

    Setting, growth rates, cost per round and reference are shown as well.
    """
    from ..learners import LEARNERS

    cards = list(LEARNERS.values())
    if json_out:
        _say([_described(card) for card in cards])
    elif markdown:
        typer.echo(learners_markdown(cards))
    else:
        from ..display import Grid

        typer.echo("Learners (b: the parameter beta; m: number of constraints)")
        shown = ("learner", "violation", "regret", "losses")
        rows = []
        for card in cards:
            cells = dict(zip(_COLUMNS, _cells(card), strict=True))
            cells["violation"] = re.sub(", (?=squared|peak)", "\n", cells["violation"])
            cells["losses"] = cells["losses"].replace(" ", "\n")
            rows.append(tuple(cells[name] for name in shown))
        typer.echo(Grid(shown, tuple(rows), left=shown))
        typer.echo("--json and --markdown show cost, horizon and reference as well.")


_COLUMNS = (
    "learner",
    "losses",
    "regret",
    "violation",
    "cost per round",
    "needs horizon",
    "reference",
)


def learners_markdown(cards: Iterable[Card]) -> str:
    """Return a table of learners in Markdown, with one row per card. Growth rates are shown with
    their conditions."""
    from ..display import markdown, markdown_code

    rows = [_COLUMNS, ("---",) * len(_COLUMNS)]
    rows += [(markdown_code(name), *map(markdown, rest)) for name, *rest in map(_cells, cards)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(card: Card) -> tuple[str, ...]:
    horizon = "yes" if card.needs_horizon else "no"
    return card.name, card.losses, card.regret, card.violation, card.cost, horizon, card.reference


def _described(card: Card) -> dict[str, Any]:
    plain = ("name", "title", "losses", "regret", "violation", "cost", "reference")
    return {
        **{name: getattr(card, name) for name in (*plain, "needs_horizon", "aggregated")},
        "assumptions": list(card.assumptions),
        "oracles": sorted(card.oracles),
        "needs": list(card.needs),
        "growth": {
            quantity: {
                "order": growth.text,
                "exponent": growth.exponent,
                "condition": growth.condition,
            }
            for quantity, growth in card.growth.items()
        },
    }


_Radius = Annotated[float, typer.Option("--radius", "-R", help="R, the radius of the domain.")]
_LossSlope = Annotated[
    float,
    typer.Option("--loss-lipschitz", "-f", help="G_f, a bound on the norm of the loss gradients."),
]
_Slope = Annotated[
    float,
    typer.Option(
        "--constraint-lipschitz", "-g", help="G_g, a bound on the norm of the constraint gradients."
    ),
]
_Count = Annotated[int, typer.Option("--constraints", "-m", help="m, the number of constraints.")]
_Reach = Annotated[
    float | None,
    typer.Option("--constraint-range", help="D, a bound on |g|. The default is 2 R G_g."),
]
_LossReach = Annotated[
    float | None,
    typer.Option("--loss-range", help="F, the range of a loss. The default is 2 R G_f."),
]
_Modulus = Annotated[
    float,
    typer.Option(
        "--strong-convexity", "-H", help="H, the modulus of strong convexity of the losses."
    ),
]
_Slater = Annotated[
    float | None,
    typer.Option("--slater", help="epsilon, such that some decision has g <= -epsilon."),
]
_Error = Annotated[
    float | None,
    typer.Option(
        "--error-bound",
        help="kappa, such that max(g, 0) >= kappa times the distance to the feasible set.",
    ),
]


@app.command(cls=WithJax)
def bound(
    horizon: Annotated[int, typer.Option("--horizon", "-T", help="Number of rounds.")],
    radius: _Radius,
    loss_lipschitz: _LossSlope,
    constraint_lipschitz: _Slope,
    learner: Annotated[
        str, typer.Argument(help="Name of a learner (see `taut learners`).")
    ] = "half-space",
    constraints: _Count = 1,
    constraint_range: _Reach = None,
    loss_range: _LossReach = None,
    strong_convexity: _Modulus = 0.0,
    slater: _Slater = None,
    error_bound: _Error = None,
    json_out: Json = False,
) -> None:
    """Print the bounds of a learner for given constants."""
    from .. import arguments
    from ..judge.guarantees import guarantees
    from ..learners import LEARNERS, Setting
    from ..problem.constants import Constants
    from ..problem.domains import Ball

    arguments.one_of("learner", learner, tuple(LEARNERS))
    arguments.count("horizon", horizon)
    known = Constants(
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_count=constraints,
        constraint_range=2 * radius * constraint_lipschitz
        if constraint_range is None
        else constraint_range,
        loss_range=2 * radius * loss_lipschitz if loss_range is None else loss_range,
        strong_convexity=strong_convexity,
        slater=slater,
        error_bound=error_bound,
    )
    made = LEARNERS[learner].build(known, horizon, feasible=Ball(radius, shape=1))
    bounds = guarantees(made, Setting(known, 2 * radius, initial_violation=0.0), horizon)
    if json_out:
        _say(
            {
                "learner": repr(made),
                "bounds": {g.quantity: {"bound": g.bound, "source": g.source} for g in bounds},
            }
        )
        return
    from ..display import Grid, Summary

    rows = tuple(
        (guarantee.quantity, f"{guarantee.bound:.6g}", guarantee.source) for guarantee in bounds
    )
    grid = Grid(("quantity", "bound", "source"), rows, left=("quantity", "source"))
    typer.echo(Summary(f"{learner}, T = {horizon}", (), (grid,), (repr(made),)).text())


@app.command(cls=WithJax)
def recommend(
    radius: _Radius,
    loss_lipschitz: _LossSlope,
    constraint_lipschitz: _Slope,
    constraints: _Count = 1,
    horizon: Annotated[
        int | None, typer.Option("--horizon", "-T", help="Number of rounds, if known.")
    ] = None,
    strong_convexity: _Modulus = 0.0,
    slater: _Slater = None,
    error_bound: _Error = None,
    per_round: Annotated[
        bool, typer.Option("--per-round", help="Rank by the peak violation instead of the total.")
    ] = False,
    weight: Annotated[
        float, typer.Option("--weight", help="The cost of one unit of violation in units of loss.")
    ] = 1.0,
    everything: Annotated[
        bool, typer.Option("--all", help="Print why other learners do not apply.")
    ] = False,
    json_out: Json = False,
) -> None:
    """Recommend a learner for given constants, with reasons.

    Constraints may change from round to round. In Python, taut.recommend(problem) also uses what
    can be proven of the problem, for example of fixed constraints.
    """
    from .. import arguments
    from ..judge.recommend import recommend as advise
    from ..problem.constants import Constants
    from ..problem.domains import Ball
    from ..problem.problem import Problem

    known = Constants(
        radius=radius,
        loss_lipschitz=loss_lipschitz,
        constraint_lipschitz=constraint_lipschitz,
        constraint_count=arguments.count("constraints", constraints),
        constraint_range=2 * radius * constraint_lipschitz,
        strong_convexity=strong_convexity,
        slater=slater,
        error_bound=error_bound,
    )
    # Nothing but the constants is known of the constraints, so they are functions of data that are
    # not there: what can be proven of a formula would be said of this formula only.
    problem = Problem(lambda x, z: z[0] @ x, lambda x, z: z[1] @ x, Ball(radius, shape=1), known)
    advice = advise(problem, horizon, per_round=per_round, weight=weight)
    if json_out:
        _say(advice.to_dict())
        return
    typer.echo(str(advice))
    if everything:
        typer.echo(advice.remarks())


@app.command(cls=WithJax)
def reproduce(
    experiment: Annotated[
        str, typer.Argument(help="toy, doubly-stochastic, dispatch, theory or all.")
    ] = "all",
    out: Annotated[
        Path, typer.Option("--out", help="The folder for results, figures and report.")
    ] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Use fewer and shorter horizons.")] = False,
    seeds: Annotated[
        int, typer.Option("--seeds", help="The number of random sequences to average over.")
    ] = 10,
    demand: Annotated[
        list[Path] | None,
        typer.Option(
            "--demand",
            help="A CSV file with times and the demand for dispatch in MW. Can be repeated.",
        ),
    ] = None,
    json_out: Json = False,
) -> None:
    """Run the experiments of the paper and judge its claims.

    The figures and a report are written as well; finished experiments are not simulated again.
    """
    from ..paper.reproduce import run_all

    result = run_all(experiment, out, quick, seeds, tuple(map(str, demand or ())), quiet=json_out)
    if json_out:
        _say(result)


for _command in (commands.run, commands.compare, commands.certify, commands.plot):
    app.command(cls=WithJax)(_command)
app.add_typer(arena_commands.app)


def _say(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, default=float))


def _complain(text: str) -> None:
    typer.echo(f"taut: {text}", err=True)
