"""The engine alone, in this process: one prompt in the terminal, or files of prompts and texts.

Data passes in this order: `arguments` say which engine; `jsonl` reads and checks the input, and knows what is done already;
`batch` or `score` turn lines into requests and events into results; `run` keeps the engine full.
"""
