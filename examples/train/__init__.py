"""How the demo checkpoints are made: our own stories, a small tokenizer, a diffusion model and its autoregressive twin."""
