"""Ask the search of a built site, without a browser: the script that answers queries in browsers
runs in Node.js, which the site needs for its mathematics too."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path

__all__ = ["SEPARATOR", "hits", "problems"]

SEPARATOR = r"""[\s\-,:;!?=()\[\]{}"`/*|]+|\.(?!\d)|&[lg]t;"""
"""Where the search splits texts into words. With the default, which splits at spaces and hyphens
only, words keep their punctuation, and a search for "problem" ended in an error of lunr.js."""

ASK = """
const fs = require("fs"), vm = require("vm");
const [script, index] = process.argv.slice(1);
const listeners = [], answers = [];
const scope = {
  addEventListener: (name, listener) => listeners.push(listener),
  postMessage: message => answers.push(message), console, importScripts() {},
};
scope.self = scope;
vm.createContext(scope);
vm.runInContext(fs.readFileSync(script, "utf8"), scope);
const pages = JSON.parse(fs.readFileSync(index, "utf8"));
pages.options = {suggest: false};
const ask = async message => {
  listeners.forEach(listener => listener({data: message}));
  while (!answers.length) await new Promise(resolve => setImmediate(resolve));
  return answers.shift();
};
(async () => {
  await ask({type: 0, data: pages});
  const hits = {};
  for (const query of JSON.parse(fs.readFileSync(0, "utf8"))) {
    const items = (await ask({type: 2, data: query})).data.items;
    hits[query] = items.slice(0, 10).map(found => found[0].location.split("#")[0]);
  }
  console.log(JSON.stringify(hits));
})();
"""


def hits(site: Path, queries: Iterable[str]) -> dict[str, list[str]]:
    """Return the first ten pages that the search finds for each query."""
    (script,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    done = subprocess.run(
        ["node", "-e", ASK, str(script), str(site / "search" / "search_index.json")],
        input=json.dumps(list(queries)),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def problems(site: Path) -> list[str]:
    """Return one line per learner whose page is not among the first ten that a search for its name
    finds. Of these, taut.js moves the page with exactly that name to the first place."""
    names = sorted(page.parent.name for page in site.glob("learners/*/index.html"))
    return [
        f'search: "{name}" finds {", ".join(pages) or "nothing"}; expected learners/{name}/'
        for name, pages in hits(site, names).items()
        if f"learners/{name}/" not in pages
    ]
