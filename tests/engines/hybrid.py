"""Models of unlike layers, with random weights: sliding windows as Gemma 3 has them, recurrent states as Qwen3-Next."""
import conversations
import harness
from harness import Engine, one_by_one, prompt, say, towpath

HYBRID = {"disable_hybrid_kv_cache_manager": False}
LENGTHS = [700, 150, 433, 64, 1201, 330]


def make_windows(folder):
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig
    return _save(folder, Gemma3ForCausalLM, Gemma3TextConfig(
        vocab_size=harness.VOCABULARY, hidden_size=512, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=8,
        num_key_value_heads=4, head_dim=64, sliding_window=64, max_position_embeddings=8192, dtype="bfloat16",
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2, initializer_range=0.09,
        tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2))


def make_states(folder):
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM
    return _save(folder, Qwen3NextForCausalLM, Qwen3NextConfig(
        vocab_size=harness.VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=64,
        linear_value_head_dim=64, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=128, initializer_range=0.06,
        shared_expert_intermediate_size=128, max_position_embeddings=8192, dtype="bfloat16"))


def _save(folder, kind, config):
    import torch
    torch.manual_seed(1234)
    kind(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def lives(work, model):
    """Alone; saved; loaded after a restart, as far as vLLM's own prefix cache reaches; with a bit flipped."""
    prompts = [prompt(60 + seed, length) for seed, length in enumerate(LENGTHS)]
    args = {"enable_prefix_caching": True, **HYBRID}
    with Engine(model, **args) as engine:
        computed, _ = one_by_one(engine, prompts)
        cached, reach = one_by_one(engine, prompts)
    assert len({tuple(tokens) for tokens in computed}) == len(prompts), f"the model says the same to all: {computed}"
    connector = towpath(directory=str(work / "kv"))
    with Engine(model, connector, **args) as engine:
        say("first life")
        assert one_by_one(engine, prompts) == (computed, [0] * len(prompts))
        engine.sync()
        kept = engine.figures()["worker"]["saved_blocks"]
    with Engine(model, connector, **args) as engine:
        say("second life")
        tokens, loaded = one_by_one(engine, prompts)
        assert loaded == reach, f"{loaded} tokens loaded, and vLLM's own cache has {reach}"
        assert tokens == cached, f"{tokens} is not {cached}"
        assert engine.figures()["worker"]["failed_blocks"] == 0
    size = harness.segments(work / "kv")[0].stat().st_size
    for place in range(4096 + 2000, size, 3 * 4096):
        harness.flip(harness.segments(work / "kv")[0], place)
    with Engine(model, connector, **args) as engine:
        say("third life, with bits flipped everywhere")
        tokens, loaded = one_by_one(engine, prompts)
        failed = engine.figures()["worker"]["failed_blocks"]
        for got, alone, own, reached in zip(tokens, computed, cached, loaded):
            assert got == (own if reached else alone), f"{got} is neither {alone} nor {own}, with {reached} tokens loaded"
    return f"{len(prompts)} prompts, tokens identical; {kept} blocks kept, {sum(reach)} tokens loaded of {sum(reach)} that vLLM's " \
           f"own cache had; bits flipped everywhere: {failed} blocks failed, tokens identical"


def hybrid_windows(work):
    return lives(work, make_windows(work / "hybrid"))


def hybrid_states(work):
    return lives(work, make_states(work / "hybrid"))
