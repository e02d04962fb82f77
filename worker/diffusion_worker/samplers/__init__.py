"""Samplers: pure functions on tensors named as in the papers. No models, no state, no global random numbers."""
