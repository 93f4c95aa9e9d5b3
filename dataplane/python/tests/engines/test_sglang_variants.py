"""What test_sglang.py holds for one server, for other models, layouts and ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import SGLang, checkpoint
from .test_sglang import WHOLE, Servers, check, prompt

pytestmark = [pytest.mark.node, pytest.mark.full]


@dataclass(frozen=True)
class Variant:
    model: str = "llama"
    flags: tuple[str, ...] = ()
    cache_flags: tuple[str, ...] = ()
    writers: int = 1


DIRECT = ("--hicache-io-backend", "direct", "--hicache-mem-layout", "page_first_direct")
TWO_RANKS = ("--tp-size", "2")
VARIANTS = {
    "direct": Variant(cache_flags=DIRECT),
    "buffer-only": Variant(cache_flags=("--hicache-host-memory-mode", "buffer_only")),
    "tp2": Variant(flags=TWO_RANKS, writers=2),
    "mla": Variant(model="mla"),
    "mla-direct": Variant(model="mla", cache_flags=DIRECT),
    "mla-tp2": Variant(model="mla", flags=TWO_RANKS),  # rank 0 stores for both
}


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Variant:
    return VARIANTS[request.param]


@pytest.fixture(scope="module")
def servers(
    variant: Variant,
    sglang: SGLang,
    engines: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    model = checkpoint(engines, folder, variant.model, 1)
    with ExitStack() as stack:
        yield Servers(sglang, model, folder, stack, variant.flags, variant.cache_flags)


def test_another_machine_has_the_prefix(servers: Servers, variant: Variant) -> None:
    plain = servers.plain.ask(prompt(1))
    (first,) = servers.stored(1, writers=variant.writers)
    assert first.cached == 0
    check(first, plain)
    second = servers.b.ask(prompt(1))
    assert second.stored == WHOLE
    check(second, plain)
