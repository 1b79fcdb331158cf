"""Commands of the arena: run the contest, report it, and add results from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .commands import Json, WithJax

app = typer.Typer(
    name="arena",
    help="The standard benchmark: every learner on every stream.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


_Folder = Annotated[Path, typer.Argument(help="The folder that `taut arena run` wrote.")]


def _names(values: list[str] | None) -> list[str] | None:
    """The values of an option that can be repeated and takes lists separated by commas."""
    return (
        None
        if values is None
        else [name.strip() for value in values for name in value.split(",") if name.strip()]
    )


@app.command(cls=WithJax)
def run(
    learners: Annotated[
        list[str] | None,
        typer.Option(
            "--learners",
            "-l",
            help="Names, separated by commas, or my_package:MyLearner; by default all.",
        ),
    ] = None,
    streams: Annotated[
        list[str] | None,
        typer.Option("--streams", "-s", help="Names, separated by commas; by default all."),
    ] = None,
    horizons: Annotated[
        list[str] | None,
        typer.Option(
            "--horizons",
            "-T",
            help="Numbers of rounds, separated by commas; by default 256, 1024, 4096 and 16384.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="The number of seeds; by default 10.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for results.")] = Path(
        "arena-results"
    ),
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Few learners, streams and rounds: less than two minutes."),
    ] = False,
    grid: Annotated[
        bool,
        typer.Option("--grid/--no-grid", help="Whether to play the grid of parameters as well."),
    ] = True,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", help="The address of a Dask scheduler, as in tcp://host:8786."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", help="The number of threads; by default one per core."),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Play cells again that failed before.")
    ] = False,
    json_out: Json = False,
) -> None:
    """Play every learner that applies on every stream. The same command continues where it was
    interrupted."""
    from ..arena.report import text
    from ..arena.run import HORIZONS, QUICK, SEEDS, play

    if jobs is not None and scheduler is not None:
        raise ValueError(
            "--jobs: got a number beside --scheduler; expected one of them, as the workers of a "
            "cluster have their own number"
        )
    chosen: dict[str, Any] = {"horizons": HORIZONS, "seeds": SEEDS} | (dict(QUICK) if quick else {})
    for name, value in (
        ("learners", _names(learners)),
        ("streams", _names(streams)),
        ("seeds", seeds),
    ):
        if value is not None:
            chosen[name] = value
    if horizons is not None:
        chosen["horizons"] = [_rounds(horizon) for horizon in _names(horizons) or ()]
    played = play(
        out,
        **chosen,
        grid=grid,
        executor=jobs if scheduler is None else scheduler,
        retry=retry,
        progress=not json_out,
    )
    if json_out:
        listed = ("cells", "new", "left_out", "failed", "broken")
        typer.echo(
            json.dumps(
                {"folder": str(out), **{name: getattr(played, name) for name in listed}}, indent=1
            )
        )
    else:
        for stream, learner, reason in played.left_out:
            if not learner:
                typer.echo(f"{stream} is skipped: {reason}")
        if played.cells > len(played.failed):
            typer.echo(text(out))
        typer.echo(
            f"{played.cells} cells, {played.new} of them new, in {out}. {len(played.left_out)} "
            "pairs of stream and learner do not apply; left_out.json has the reasons. See also: "
            f"taut arena report {out}"
        )
    _complain(played)


def _complain(played: Any) -> None:
    """Say which cells failed and which bounds were exceeded, and exit with 1 if there are any."""
    for text in played.failed[:10]:
        typer.echo(f"taut: a cell failed: {text}", err=True)
    for text in played.broken[:10]:
        typer.echo(f"taut: a bound was exceeded: {text}", err=True)
    if played.failed or played.broken:
        typer.echo(
            f"taut: {len(played.failed)} cells failed, {len(played.broken)} bounds were exceeded",
            err=True,
        )
        raise typer.Exit(1)


def _rounds(text: str) -> int:
    """A number of rounds: 4096 or 2^12."""
    base, power, exponent = text.partition("^")
    try:
        return int(base) ** int(exponent) if power else int(base)
    except ValueError:
        raise ValueError(
            f"--horizons: got {text!r}; expected numbers of rounds, as in 256,1024 or 2^8"
        ) from None


@app.command(cls=WithJax)
def report(
    folder: _Folder = Path("arena-results"),
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The page; by default report.html in the folder."),
    ] = None,
    latex: Annotated[bool, typer.Option("--latex", help="Print a LaTeX table instead.")] = False,
    learners: Annotated[
        list[str] | None,
        typer.Option("--learners", "-l", help="The rows of the LaTeX table, separated by commas."),
    ] = None,
    site: Annotated[
        str,
        typer.Option("--site", help="The address of the documentation, to link methods to it."),
    ] = "",
    docs: Annotated[
        Path | None,
        typer.Option(
            "--docs",
            help="Also renew the leaderboard in this page of the documentation, and the numbers of "
            "the interactive page.",
        ),
    ] = None,
    json_out: Json = False,
) -> None:
    """Write one page with all results, which needs no network; or print a table for a paper."""
    from ..arena import report as pages

    if latex:
        typer.echo(pages.latex(folder, tuple(_names(learners) or ())), nl=False)
        return
    page = pages.write_page(folder, out, site)
    written = [str(page), *map(str, pages.write_tables(folder, page))]
    if docs is not None:
        pages.write_docs(folder, docs)
        written += map(str, (docs, pages.write_data(folder, docs.with_name("arena-board.json.gz"))))
    typer.echo(json.dumps(written) if json_out else "\n".join(written))


@app.command(cls=WithJax)
def check(
    folder: Annotated[Path, typer.Argument(help="The folder of a submission.")],
    json_out: Json = False,
) -> None:
    """Compute the results of a submission from its decisions, and say what is wrong with it."""
    from ..arena import submission
    from ..display import counted

    checked = submission.check(folder)
    rows: list[dict[str, Any]] = [
        {
            "stream": result.stream,
            "horizon": result.horizon,
            "seeds": result.seeds,
            **{name: sum(column) / len(column) for name, column in result.values.items()},
        }
        for result in checked.results
    ]
    if json_out:
        content = {"results": rows, "complaints": list(checked.complaints)}
        typer.echo(json.dumps(content, indent=1))
    else:
        for row in rows:
            typer.echo(
                f"{row['stream']}, {counted(row['horizon'], 'round')}, "
                f"{counted(row['seeds'], 'seed')}: regret "
                f"{row['regret']:.6g}, violation {row['violation']:.6g}"
            )
    for text in checked.complaints:
        typer.echo(f"taut: {text}", err=True)
    if checked.complaints:
        raise typer.Exit(1)


@app.command("add-result", cls=WithJax)
def add_result(
    folder: _Folder,
    submission: Annotated[Path, typer.Argument(help="The folder of a submission.")],
    json_out: Json = False,
) -> None:
    """Check a submission, and add its results to a board. Results are never overwritten."""
    from ..arena.submission import add_submission

    added = add_submission(folder, submission)
    paths = [str(folder / "results" / result.file) for result in added]
    typer.echo(json.dumps({"files": paths}) if json_out else "\n".join(paths))
