"""Which lines start a thread that may end the process."""

from __future__ import annotations

import pytest
from threads import bare, parse

HEADER = """
  std::thread thread_;
  std::thread maker_, server_;
  std::vector<std::thread> helpers_;
  std::array<std::thread, 8> openers_;
  std::optional<std::thread> late_;
"""


def problems(text: str, name: str = "dataplane/src/a/b.cc", allowed: str = "") -> list[str]:
    files = {"dataplane/src/a/b.h": HEADER, name: text}
    return bare(list(files), lambda file: files[file], parse(allowed))


@pytest.mark.parametrize(
    "line",
    [
        "thread_ = std::thread([this] { Run(); });",
        "std::jthread helper{[] {}};",
        "B::B() : x_(1), thread_([this] { Run(); }) {}",
        "  server_{[this] { Run(); }};",
        "helpers_.emplace_back([this] { Help(); });",
        "late_.emplace([this] { Run(); });",
        "later_ = std::make_unique<std::thread>([this] { Run(); });",
        "auto later = std::async(std::launch::async, [] {});",
        "pthread_create(&thread, nullptr, &Run, nullptr);",
    ],
)
def test_a_thread_that_throws_is_refused(line: str) -> None:
    (problem,) = problems(line)
    assert problem.startswith("dataplane/src/a/b.cc:1: ")
    assert "StartThread" in problem


@pytest.mark.parametrize(
    "line",
    [
        "auto thread = StartThread([this] { Run(); });",
        "thread_ = std::move(*thread);",
        "if (thread_.joinable()) thread_.join();",
        "Result<std::thread> thread = StartThread([this] { Run(); });",
        "for (std::thread* thread : {&maker_, &server_}) thread->join();",
        "helpers_.push_back(std::move(*helper));",
        "return std::thread::hardware_concurrency();",
        "std::this_thread::sleep_for(pause);",
        "// thread_ = std::thread([this] { Run(); });",
        "std::thread none{};",
    ],
)
def test_what_starts_none_or_by_the_helper_is_not(line: str) -> None:
    assert problems(line) == []


@pytest.mark.parametrize(
    "name",
    ["dataplane/src/a/b_test.cc", "dataplane/src/a/b_testing.h", "dataplane/src/base/thread.h"],
)
def test_tests_and_the_helper_may(name: str) -> None:
    assert problems("std::thread([] {});", name) == []


def test_the_list_names_those_that_do_alone() -> None:
    bad = "thread_ = std::thread([this] { Run(); });"
    listed = "dataplane/src/a/b.cc  # at start\n"
    assert problems(bad, allowed=listed) == []
    (problem,) = problems("", allowed=listed)
    assert "take it out" in problem
