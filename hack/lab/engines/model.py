"""Makes a tiny model of random weights, with a tokenizer of a word a token:

model.py llama FOLDER SEED    with grouped-query attention
model.py mla FOLDER SEED      with multi-head latent attention, as DeepSeek-V2 has it

Weights of the attention are large enough for one wrong page of KV to move log-probabilities.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

Weights = dict[str, torch.Tensor]

WORDS = 1024
HIDDEN = 256
INNER = 512
LAYERS = 2
HEADS = 4
COMMON = {
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "vocab_size": WORDS,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}
LLAMA = {
    **COMMON,
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
}
LATENT, ROTATED, PLAIN, VALUE = 512, 64, 128, 128
MLA = {
    **COMMON,
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "num_key_value_heads": HEADS,
    "rms_norm_eps": 1e-6,
    "q_lora_rank": None,
    "kv_lora_rank": LATENT,
    "qk_rope_head_dim": ROTATED,
    "qk_nope_head_dim": PLAIN,
    "v_head_dim": VALUE,
    # SGLang has the rotation of this model on a CPU with this scaling alone.
    "rope_scaling": {
        "type": "yarn",
        "factor": 2,
        "original_max_position_embeddings": 2048,
        "mscale": 0.707,
        "mscale_all_dim": 0.707,
        "beta_fast": 32,
        "beta_slow": 1,
    },
    # No layer has experts, but the configuration has to name some.
    "first_k_dense_replace": LAYERS,
    "moe_layer_freq": 1,
    "moe_intermediate_size": 128,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "greedy",
    "scoring_func": "softmax",
    "norm_topk_prob": False,
    "routed_scaling_factor": 1.0,
    "ep_size": 1,
    "seq_aux": True,
}


def random(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape) * 0.05 * scale).to(torch.bfloat16)


def ones(size: int) -> torch.Tensor:
    return torch.ones(size, dtype=torch.bfloat16)


def llama_attention() -> Weights:
    return {
        "q_proj": random(HIDDEN, HIDDEN, scale=2.5),
        "k_proj": random(128, HIDDEN, scale=2.5),
        "v_proj": random(128, HIDDEN, scale=2),
        "o_proj": random(HIDDEN, HIDDEN, scale=2),
    }


def mla_attention() -> Weights:
    return {
        "q_proj": random(HEADS * (PLAIN + ROTATED), HIDDEN),
        "kv_a_proj_with_mqa": random(LATENT + ROTATED, HIDDEN),
        "kv_a_layernorm": ones(LATENT),
        "kv_b_proj": random(HEADS * (PLAIN + VALUE), LATENT),
        "o_proj": random(HIDDEN, HEADS * VALUE, scale=2),
    }


def checkpoint(folder: Path, config: dict[str, object]) -> None:
    weights = {
        "model.embed_tokens.weight": random(WORDS, HIDDEN),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": random(WORDS, HIDDEN, scale=4),
    }
    for i in range(LAYERS):
        attention = mla_attention() if config is MLA else llama_attention()
        layer = {
            **{f"self_attn.{name}": weight for name, weight in attention.items()},
            "mlp.gate_proj": random(INNER, HIDDEN),
            "mlp.up_proj": random(INNER, HIDDEN),
            "mlp.down_proj": random(HIDDEN, INNER),
            "input_layernorm": ones(HIDDEN),
            "post_attention_layernorm": ones(HIDDEN),
        }
        weights.update({f"model.layers.{i}.{name}.weight": w for name, w in layer.items()})
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    words = Tokenizer(WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w0"))
    words.pre_tokenizer = WhitespaceSplit()
    words.save(str(folder / "tokenizer.json"))
    special = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "w0",
        "bos_token": "w1",
        "eos_token": "w2",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(special))


if __name__ == "__main__":
    kind, to, seed = sys.argv[1:]
    torch.manual_seed(int(seed))
    checkpoint(Path(to), {"llama": LLAMA, "mla": MLA}[kind])
