# Two commands: `make reproduce` and `make test`. Both set everything up in .venv with pinned versions.
# Compiling all installed modules takes as long as installing them; Python compiles those that are used.
PYTHON ?= python3
BIN := .venv/bin
# Containers often forbid that; then each of the tests' many processes compiles JAX and CVXPY for three seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: reproduce arena test cases lint drill fuzz mutants floors newest docs figures notebooks gallery bench chromium format readme clean

reproduce: .venv/ready
	$(BIN)/taut reproduce all --out reproduction

# Every learner on every stream (less than 30 minutes on two cores), then the page and the leaderboard in the documentation.
arena: .venv/ready
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[arena]"
	-$(BIN)/python -m pip install --quiet --no-deps obp grid2op pymgrid
	$(BIN)/taut arena run --out arena-results
	$(BIN)/taut arena report arena-results --docs docs/arena.md

# mypy uses one core and takes a minute, so it runs beside the tests; so do the two installations.
test:
	$(MAKE) --jobs 2 .venv/ready chromium
	$(MAKE) --jobs 2 lint cases

cases: .venv/ready
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation site: all code is executed, all figures are drawn, warnings and broken links are errors.
docs: .venv/ready
	$(BIN)/python -m website --out site

# The figures of README and of the documentation, with the data that they show in docs/figures.
figures: .venv/ready
	$(BIN)/python -m website.figures

# Run the tutorials and store their outputs in the notebooks, which GitHub shows.
notebooks: .venv/ready
	$(BIN)/python -m website.notebooks

# Draw the pictures of the gallery from the examples.
gallery: .venv/ready
	$(BIN)/python -m website.gallery

bench: .venv/ready
	$(BIN)/python -m benchmarks

# Kill processes at random moments, tear files and fill the disk; prints what was lost (nothing). Then many new problems.
# The first part takes at most MINUTES (and a little), whatever the machine. At the end every learner plays its
# golden games, plays with and without passes and passes all checks, and every model is played; the tests take a few of them.
MINUTES ?= 20
drill: .venv/ready
	$(BIN)/python -m drills.crash --minutes $(MINUTES)
	$(BIN)/python -m drills.dask_fleet
	$(BIN)/python -m drills.memory
	$(BIN)/python -m drills.long_life
	$(BIN)/python -m drills.sequences
	$(BIN)/python -m drills.service
	$(BIN)/python -m tests.golden.check --cache .xla_cache
	$(BIN)/python tests/play/passes_agree.py .xla_cache all
	$(BIN)/pytest -n 2 --dist loadfile --long

# Call public functions with wrong arguments; prints the errors that do not say what is wrong.
fuzz: .venv/ready
	$(BIN)/python -m drills.fuzz

# Change the source in one place at a time, run the tests of that module, and print the share of changes that they notice.
# Without stored bytecode, which would hide a change that is as long as what it replaces.
mutants: .venv/ready
	$(BIN)/pip install -q -c constraints.txt --no-build-isolation -e '.[mutants]'
	PYTHONDONTWRITEBYTECODE=1 TAUT_TEST_CACHE=.xla_cache nice $(BIN)/python -m drills.mutants

# Run the tests with the lowest declared version of every dependency, and with the newest.
floors: .venv/ready
	$(PYTHON) -m venv .venv-floors
	$(BIN)/python -m drills.versions > .venv-floors/lowest.txt
	.venv-floors/bin/pip install -q --no-compile -r .venv-floors/lowest.txt hatchling editables
	.venv-floors/bin/pip install -q --no-compile --no-deps --no-build-isolation -e .
	TAUT_TEST_CACHE=$(CURDIR)/.venv-floors/xla .venv-floors/bin/pytest -n 2 --dist loadfile

newest:
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/pip install -q --no-compile --upgrade -e '.[dev,docs]' hatchling editables
	TAUT_TEST_CACHE=$(CURDIR)/.venv-newest/xla .venv-newest/bin/pytest -n 2 --dist loadfile

# Browser tests use Debian's Chromium: installed where it is missing and we may, skipped elsewhere.
chromium:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && { apt-get install -y -q chromium >/dev/null 2>&1 || { apt-get update -q >/dev/null && apt-get install -y -q chromium >/dev/null; }; }; } \
	  || echo "Chromium is not installed: the browser tests will be skipped"

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt --no-compile hatchling editables
	$(BIN)/pip install -q -c constraints.txt --no-compile --no-build-isolation -e '.[dev,docs]'
	touch $@

clean:
	rm -rf .venv .venv-floors .venv-newest .site site reproduction .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .xla_cache .mutants.json

# Write the table of learners between its two marks in docs/learners.md.
readme: .venv/ready
	$(BIN)/taut learners --markdown > learners.table
	sed -e '/<!-- learners: begin -->/,/<!-- learners: end -->/{//!d;}' -e '/<!-- learners: begin -->/r learners.table' docs/learners.md > learners.new
	mv learners.new docs/learners.md && rm learners.table
