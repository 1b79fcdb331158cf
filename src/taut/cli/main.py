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

from . import arena as arena_commands
from . import commands
from .with_jax import WithJax

if TYPE_CHECKING:
    from ..learners import Card


class _InOrder(TyperGroup):
    """Lists the commands in the order in which people need them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands: your own problem, choosing, the paper, the arena."""
        return [*ORDER, *(name for name in super().list_commands(ctx) if name not in ORDER)]


ORDER = (
    *("run", "certify", "plot", "compare", "learners"),
    *("reproduce", "figures", "arena", "bench"),
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

Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


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
    plain = (
        "name",
        "title",
        "losses",
        "regret",
        "violation",
        "cost",
        "reference",
        "needs_horizon",
        "aggregated",
    )
    return {
        **{name: getattr(card, name) for name in plain},
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
            help="A file with the demand for dispatch: an ISO-NE report or CSV. Can be repeated.",
        ),
    ] = None,
    json_out: Json = False,
) -> None:
    """Run the experiments of the paper and judge its claims.

    The figures and a report are written as well.
    """
    from ..paper.pipeline import run_all

    result = run_all(experiment, out, quick, seeds, tuple(map(str, demand or ())), quiet=json_out)
    if json_out:
        _say(result)


@app.command(cls=WithJax)
def figures(
    folder: Annotated[Path, typer.Argument(help="The output folder of `taut reproduce`.")] = Path(
        "reproduction"
    ),
    json_out: Json = False,
) -> None:
    """Draw the figures of stored results again.

    The report is written again as well. Nothing is simulated.
    """
    from ..paper.figures import draw_all
    from ..paper.report import write_report

    paths = [str(path) for path in draw_all(folder)]
    paths.append(str(write_report(folder)))
    if json_out:
        _say(paths)
    else:
        typer.echo("\n".join(paths))


@app.command()
def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Run only the core.")] = False,
    only: Annotated[
        str | None, typer.Option("--only", help="Run only this part of the suite.")
    ] = None,
    json_out: Json = False,
) -> None:
    """Compare the speed of taut with its alternatives.

    This needs a checkout of the repository.
    """
    import subprocess

    suite = Path.cwd() / "benchmarks"
    if not (suite / "__main__.py").is_file():
        raise FileNotFoundError(
            "benchmarks/ was not found; run this command in a checkout of taut's repository"
        )
    from .. import arguments

    if only is not None:
        arguments.one_of("--only", only, _bench_parts(suite))
    flags = [
        *(["--quick"] if quick else []),
        *(["--only", only] if only else []),
        *(["--json"] if json_out else []),
    ]
    raise typer.Exit(subprocess.call([sys.executable, "-m", "benchmarks", *flags]))


def _bench_parts(suite: Path) -> tuple[str, ...]:
    """Return the names of the parts of the benchmark suite, which its source lists."""
    import ast

    for node in ast.parse((suite / "__main__.py").read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PARTS":
            return tuple(ast.literal_eval(node.value))
    return ()


for _command in (commands.run, commands.compare, commands.certify, commands.plot):
    app.command(cls=WithJax)(_command)
app.add_typer(arena_commands.app)


def _say(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, default=float))


def _complain(text: str) -> None:
    typer.echo(f"taut: {text}", err=True)
