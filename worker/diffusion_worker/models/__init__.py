"""Models: checkpoints from Hugging Face folders, forward passes over rows of different lengths, and their cache."""
