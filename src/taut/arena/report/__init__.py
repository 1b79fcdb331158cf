"""The report of the arena: an interactive page, tables, a page for the documentation, and a table
for a paper.

Read `board` first (what a leaderboard says of a learner), then `tables` (Markdown and LaTeX) and
`page` (what the interactive page contains).
"""

from .board import text, write_tables
from .page import page_of, write_data, write_page
from .tables import latex, write_docs

__all__ = ["latex", "page_of", "text", "write_data", "write_docs", "write_page", "write_tables"]
