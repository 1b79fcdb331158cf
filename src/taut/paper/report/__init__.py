"""The report: one self-contained page about a reproduction, made from its folder and nothing else."""

from .page import write_report

__all__ = ["write_report"]
