"""The documentation site: pages are assembled, their code is executed, figures are drawn, then
MkDocs builds the site.

Read `__main__` first, then `pages`, which says what the site consists of.
"""
