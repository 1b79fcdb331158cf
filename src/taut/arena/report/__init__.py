"""The report of the arena: an interactive page, a page for the documentation, a figure, and a table
for a paper.

Read `page` (what the interactive page contains), then `tables` (Markdown, LaTeX and the figure).
"""

from .page import page_of, payload, table_of, write_data, write_page, write_tables
from .tables import figure, latex, markdown

__all__ = [
    "figure",
    "latex",
    "markdown",
    "page_of",
    "payload",
    "table_of",
    "write_data",
    "write_page",
    "write_tables",
]
