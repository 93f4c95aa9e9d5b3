"""What the lanes measured, as tables printed at the end."""

from __future__ import annotations

import pytest


class Report:
    """Rows under their headers, in the order of the tests."""

    def __init__(self) -> None:
        self.tables: dict[str, list[str]] = {}

    def add(self, header: str, row: str) -> None:
        self.tables.setdefault(header, []).append(row)


_REPORT = pytest.StashKey[Report]()


@pytest.fixture(scope="session")
def report(pytestconfig: pytest.Config) -> Report:
    return pytestconfig.stash.setdefault(_REPORT, Report())


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    report = config.stash.get(_REPORT, Report())
    if report.tables:
        terminalreporter.section("measured")
    for header, rows in report.tables.items():
        for line in (header, *rows, ""):
            terminalreporter.write_line(line)
