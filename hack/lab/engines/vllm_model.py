"""Makes a tiny model of random weights, with a tokenizer of a word a token:

vllm_model.py FOLDER SEED          a checkpoint
vllm_model.py FOLDER SEED MODEL    a LoRA adapter for that checkpoint
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
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = 1024
HIDDEN = 256
RANK = 8


def checkpoint(folder: Path) -> None:
    config = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        vocab_size=WORDS,
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    words = Tokenizer(WordLevel({f"w{i}": i for i in range(WORDS)}, unk_token="w0"))
    words.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="w0", bos_token="w1", eos_token="w2"
    ).save_pretrained(folder)


def adapter(folder: Path, model: str) -> None:
    tensors = {}
    for layer in range(2):
        name = f"base_model.model.model.layers.{layer}.self_attn.v_proj"
        tensors[f"{name}.lora_A.weight"] = torch.randn(RANK, HIDDEN, dtype=torch.bfloat16)
        tensors[f"{name}.lora_B.weight"] = torch.randn(128, RANK, dtype=torch.bfloat16)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA",
        "base_model_name_or_path": model,
        "r": RANK,
        "lora_alpha": RANK,
        "target_modules": ["v_proj"],
        "bias": "none",
        "task_type": "CAUSAL_LM",
    }
    (folder / "adapter_config.json").write_text(json.dumps(settings))


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]))
    if len(sys.argv) > 3:
        adapter(Path(sys.argv[1]), sys.argv[3])
    else:
        checkpoint(Path(sys.argv[1]))
