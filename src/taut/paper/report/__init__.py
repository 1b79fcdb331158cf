"""The report of a reproduction: one HTML page with all figures embedded.

`page` collects the contents from the output folder of `taut reproduce`; `page.html.jinja` is the template.
"""

from .page import write_report

__all__ = ["write_report"]
