"""What a model costs: bytes of KV for each token, seconds of a prefill. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peercache_bench.errors import BenchError


def bytes_per_token(config: Mapping[str, Any], element_bytes: int) -> int:
    """Of a model's config.json, over all layers and ranks. Raises BenchError."""
    text = config.get("text_config", config)  # of models that also see
    layers = _field(text, "num_hidden_layers")
    if "kv_lora_rank" in text:
        return (
            layers
            * (_field(text, "kv_lora_rank") + _field(text, "qk_rope_head_dim"))
            * element_bytes
        )
    heads = _field(text, "num_attention_heads")
    dim = text.get("head_dim") or _field(text, "hidden_size") // heads
    return 2 * layers * int(text.get("num_key_value_heads") or heads) * int(dim) * element_bytes


def _field(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or value < 1:
        raise BenchError(f"the model's config.json has no {name}: give --bytes-per-token instead")
    return value


@dataclass(frozen=True)
class Prefill:
    """Seconds of a prefill: constant + linear x new + quadratic x new x (new + 2 x prefix)."""

    constant: float
    linear: float
    quadratic: float = 0.0

    def seconds(self, new: int, prefix: int) -> float:
        return self.constant + self.linear * new + self.quadratic * new * (new + 2 * prefix)

    @staticmethod
    def of_rates(constant: float, rates: Sequence[tuple[int, float]]) -> Prefill:
        """Through one or two measured points: tokens of a prompt, and tokens a second."""
        seconds = [(n, n / rate - constant) for n, rate in rates]
        if any(s <= 0 for _, s in seconds):
            raise BenchError("--overhead is longer than a prefill of --prefill: lower it")
        (n, s), *more = seconds
        if not more:
            return Prefill(constant, s / n)
        ((m, t),) = more
        if n == m:
            raise BenchError("--prefill has two rates for one length: give two lengths")
        quadratic = (s / n - t / m) / (n - m)
        linear = s / n - quadratic * n
        if quadratic < 0 or linear <= 0:
            raise BenchError(
                "--prefill: the longer prompt must have the lower rate, but not so low that short "
                "prompts would cost nothing"
            )
        return Prefill(constant, linear, quadratic)
