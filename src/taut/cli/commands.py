"""Commands on a user's own problem: run, compare, certify and plot. Each calls one function of the
library."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ..extras import optional

if TYPE_CHECKING:
    from ..problem.problem import Problem


class WithJax(TyperCommand):
    """A command that computes: with float64 and a persistent compilation cache. They are set up
    when it is called, so that help and completion do not load JAX."""

    def invoke(self, ctx: Any) -> Any:
        """Set JAX up and run the command."""
        _prepare()
        return super().invoke(ctx)


def _prepare() -> None:
    """Enable float64, and a persistent compilation cache unless the user has configured one. Call
    before any JAX array."""
    import jax

    jax.config.update("jax_enable_x64", True)
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "taut"
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


DEFAULT = "half-space"
"""The learner that is played if none is named."""


def learner_names(incomplete: str) -> list[str]:
    """Return the names of learners that begin with a text, for completion in the shell."""
    from ..learners import LEARNERS

    return [name for name in LEARNERS if name.startswith(incomplete)]


_Problem = Annotated[
    str,
    typer.Argument(
        help="A Python file and a name in it, as in problem.py:game: a problem, or a function "
        "that returns one."
    ),
]
_Data = Annotated[
    Path,
    typer.Option(
        "--data", "-d", help="The stream: .csv, .parquet, .npy, .npz or .nc. Rows are rounds."
    ),
]
_Horizon = Annotated[
    int | None, typer.Option("--horizon", "-T", help="Number of rounds; by default all rows.")
]
_Seeds = Annotated[
    int | None,
    typer.Option("--seeds", help="Number of seeds, if the leading axis of the arrays is the seed."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
_Learner = Annotated[
    str,
    typer.Option(
        "--learner",
        "-l",
        help="Name of a learner (see taut learners).",
        autocompletion=learner_names,
    ),
]
_Learners = Annotated[
    list[str],
    typer.Option(
        "--learner", "-l", help="Name of a learner; repeat it.", autocompletion=learner_names
    ),
]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="An option of the learner, as in beta=0.5; can be repeated."),
]

_Advice = Annotated[
    str | None,
    typer.Option(
        "--advice",
        help="Columns of the data file whose names begin with this are what your own controller "
        "would play, in the order of a decision; an empty cell is missing advice.",
    ),
]


def run(
    problem: _Problem,
    data: _Data,
    learner: _Learner = DEFAULT,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file for the run.")] = Path(
        "run.nc"
    ),
    horizon: _Horizon = None,
    seeds: _Seeds = None,
    options: _Set = None,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Record the decisions too.")
    ] = False,
    advice: _Advice = None,
    json_out: Json = False,
) -> None:
    """Play a learner on your problem and data, and save the run."""
    from ..learners import learner as build
    from ..play.simulate import simulate
    from ..problem.streams import as_stream

    game, (stream, advised) = load_problem(problem), advice_apart(read_data(data), advice)
    rounds = as_stream(game.arrange(stream), horizon=horizon, seeds=seeds).horizon
    game = _with_constants(game, stream, rounds, seeds)
    made = build(learner, game, horizon=rounds, **_options(options))
    record = ("loss", "excess", "decisions") if decisions else ("loss", "excess")
    result = simulate(
        made,
        game,
        stream,
        horizon=rounds,
        seeds=seeds,
        record=record if advised is None else (*record, "weights"),
        progress=not json_out,
        advice=advised,
    )
    result.save(out)
    if json_out:
        totals = {name: _mean(value) for name, value in result.totals.to_dict().items()}
        typer.echo(
            json.dumps(
                {"run": str(out), "learner": repr(made), "rounds": rounds, "totals": totals},
                indent=1,
            )
        )
    else:
        typer.echo(str(result))
        again = f"--problem {problem} --data {data}" + (f" --seeds {seeds}" if seeds else "")
        typer.echo(f"saved to {out}; see also: taut certify {out} {again}, taut plot {out}")


def compare(
    problem: _Problem,
    data: _Data,
    learner: _Learners,
    horizon: _Horizon = None,
    seeds: _Seeds = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the table to this file.")] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the curves into this file.")
    ] = None,
    json_out: Json = False,
) -> None:
    """Compare several learners on your problem and data.

    Regret, all violations and the time per round are compared.
    """
    from ..judge.compare import compare as contest

    game, stream = load_problem(problem), read_data(data)
    game = _with_constants(game, stream, horizon, seeds)
    comparison = contest(learner, game, stream, horizon=horizon, seeds=seeds, progress=not json_out)
    if csv is not None:
        comparison.to_csv(csv)
    if figure is not None:
        import matplotlib as mpl

        mpl.use("Agg")
        comparison.plot()[0].figure.savefig(figure, dpi=150)
    typer.echo(json.dumps(comparison.to_dict(), indent=1) if json_out else str(comparison))


def certify(
    run: Annotated[Path, typer.Argument(help="A run that taut run saved.")],
    problem: Annotated[
        str,
        typer.Option(
            "--problem", help="The problem that was played, as in problem.py:game. The file is run."
        ),
    ],
    data: _Data,
    seeds: _Seeds = None,
    advice: _Advice = None,
    json_out: Json = False,
) -> None:
    """Print the certificate of a saved run.

    It has measured values, bounds and the checks of all assumptions.
    """
    from ..progress import counting
    from ..runs.run import Run

    saved = Run.load(run)
    stream, advised = advice_apart(read_data(data), advice)
    game = _with_constants(load_problem(problem), stream, saved.horizon, seeds)
    with counting(not json_out, None, "certifying"):
        certificate = saved.certificate(problem=game, stream=stream, seeds=seeds, advice=advised)
    typer.echo(json.dumps(certificate.to_dict(), indent=1) if json_out else str(certificate))


def plot(
    run: Annotated[Path, typer.Argument(help="A saved run.")],
    quantity: Annotated[
        str | None,
        typer.Option(
            "--quantity",
            "-q",
            help="loss, violation, excess, decision or weights; by default three panels.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The figure; by default the run with .png.")
    ] = None,
    json_out: Json = False,
) -> None:
    """Draw a saved run.

    Regret needs the problem and the data too; taut compare --figure draws it.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from ..runs.run import Run

    target = out or run.with_suffix(".png")
    axes = Run.load(run).plot(quantity)
    (axes if quantity else axes[0]).figure.savefig(target, dpi=150)
    typer.echo(json.dumps({"figure": str(target)}) if json_out else f"saved to {target}")


def load_problem(where: str) -> Problem:
    """Return the problem that "file.py:name" means."""
    from ..problem.problem import Problem

    file, colon, name = where.rpartition(":")
    path = Path(file)
    if not colon or not name.isidentifier():
        raise ValueError(
            f"problem: got {where!r}; expected a file and a name in it, as in problem.py:game"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"problem: got {where!r}, but there is no file {file!r}; expected a Python file"
        )
    spec = importlib.util.spec_from_file_location(f"taut_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"problem: got {where!r}; expected a file whose name ends with .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    problem = getattr(module, name, None)
    if problem is None:
        names = [n for n, value in vars(module).items() if isinstance(value, Problem)]
        raise ValueError(
            f"problem: got {where!r}, but {file} has no {name!r}; expected one of "
            f"{', '.join(names) or 'none'}"
        )
    problem = problem() if callable(problem) and not isinstance(problem, Problem) else problem
    if not isinstance(problem, Problem):
        raise TypeError(
            f"problem: got {where!r}, which is of class {type(problem).__name__}; expected a "
            "taut.Problem"
        )
    return problem


def _version(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(map(int, text.split(".")[:2]))


def read_data(path: Path) -> Any:
    """Return the stream in a file. The first column of a CSV file is its index if it holds no
    numbers."""
    import numpy as np

    if not path.is_file():
        raise FileNotFoundError(
            f"--data: got {path}, where there is no file; expected .csv, .parquet, .npy, .npz or "
            ".nc"
        )
    if path.suffix == ".npy":
        return np.load(path, mmap_mode="r", allow_pickle=False)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    if path.suffix == ".nc":
        xr = optional("xarray")

        return xr.load_dataset(path, engine="h5netcdf")
    pd = optional("pandas")

    if path.suffix == ".parquet":
        try:
            return pd.read_parquet(path)
        except ImportError as error:
            raise ImportError(
                f"--data: got {path}, which takes the package pyarrow to read; install it with: "
                'pip install "taut[cluster]"'
            ) from error
    if path.suffix != ".csv":
        raise ValueError(
            f"--data: got {path}; expected a file that ends with .csv, .parquet, .npy, .npz or .nc"
        )
    exact: Any = (
        {} if _version(pd.__version__) >= (3, 1) else {"float_precision": "round_trip"}
    )  # all digits, as later ones do
    table = pd.read_csv(path, **exact)
    _refuse_data_as_names(path, [str(name) for name in table.columns])
    first = table.columns[0]
    if table[first].dtype.kind not in "iuf":
        table = table.set_index(first)
        times = pd.to_datetime(table.index, errors="coerce", format="mixed")
        table.index = times if not times.isna().any() else table.index
    return table.iloc[:, 0] if table.shape[1] == 1 else table


def advice_apart(data: Any, prefix: str | None) -> tuple[Any, Any]:
    """Return the data without the columns of advice, and these as a table, or None without a
    prefix. An empty row of it is missing advice."""
    if prefix is None:
        return data, None
    columns = [str(name) for name in getattr(data, "columns", ())]
    chosen = [name for name in columns if name.startswith(prefix)]
    if not prefix or not chosen or len(chosen) == len(columns):
        known = f", which are {', '.join(columns)}" if columns else ""
        raise ValueError(
            f"--advice: got {prefix!r}; expected the beginning of the names of some columns, not "
            f"all, of a table with names{known}"
        )
    rest = data.drop(columns=chosen)
    advice = data[chosen]
    advice.columns = range(len(chosen))  # in the order of the file
    return (rest.iloc[:, 0] if rest.shape[1] == 1 else rest), advice


def _refuse_data_as_names(path: Path, names: list[str]) -> None:
    """Refuse a CSV file without a line of names, whose first round would be taken for names.

    Pandas writes numbers as names if a table has none, and then nothing above the index.
    """
    if names[0].startswith("Unnamed: 0") or not all(map(_is_datum, names)):
        return
    raise ValueError(
        f"--data: got {path}, whose first line is {', '.join(names[:4])}"
        f"{', ...' if len(names) > 4 else ''}; expected names of the columns, so that the first "
        "round is not taken for them. Add a line with names"
    )


def _is_datum(name: str) -> bool:
    """Return whether a name of a column is a number or a time. Pandas numbers equal names: 1,
    1.1."""
    pd = optional("pandas")

    try:
        float(name)
    except ValueError:
        return name[:1].isdigit() and not pd.isna(pd.to_datetime(name, errors="coerce"))
    return True


def _with_constants(game: Problem, stream: Any, horizon: int | None, seeds: int | None) -> Problem:
    """Return the problem with unknown constants estimated from the data; a certificate marks
    them."""
    import jax

    if None not in (game.constants.loss_lipschitz, game.constants.constraint_lipschitz):
        return game
    typer.echo(
        "taut: constants that the problem does not state are estimated from the data", err=True
    )
    known = game.estimate_constants(stream, jax.random.key(0), horizon=horizon, seeds=seeds)
    return game.with_constants(known)


def _options(entries: list[str] | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for entry in entries or ():
        name, equals, value = entry.partition("=")
        if not equals:
            raise ValueError(f"--set: got {entry!r}; expected name=value, as in beta=0.5")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


def _mean(value: Any) -> Any:
    import numpy as np

    return np.mean(value, axis=0).tolist()
