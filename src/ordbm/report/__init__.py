"""Pages that hold everything themselves: no scripts, fonts or links to anywhere."""

from ordbm.report.evaluation_page import write_report

__all__ = ["write_report"]
