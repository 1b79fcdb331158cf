"""The report of a reproduction: one HTML page with all figures embedded.

Read `page` first: it collects the contents from the output folder of `taut reproduce` and fills in
`page.html.jinja`.
"""

from .page import write_report

__all__ = ["write_report"]
