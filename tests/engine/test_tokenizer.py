"""One tokenizer for the threads that bring requests and the one that writes answers."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from diffusion_worker.models.tokenizer import Tokenizer, load_tokenizer
from transformers import AutoTokenizer

from tests.engine.checkpoints import save_tokenizer


def test_a_long_prompt_holds_no_answer_up(tmp_path: Path) -> None:
    save_tokenizer(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    began, may_end = threading.Event(), threading.Event()
    real = tokenizer._tokenizer

    class Slow:
        def __call__(self, text: str) -> Any:
            began.set()
            may_end.wait(20)
            return real(text)

        def decode(self, *arguments: Any, **options: Any) -> str:
            return str(real.decode(*arguments, **options))

    tokenizer._tokenizer = Slow()
    with ThreadPoolExecutor(1) as pool:
        prompt = pool.submit(tokenizer.encode, "a long prompt")
        assert began.wait(20)
        decoded = tokenizer.decode(real("the fox")["input_ids"])
        assert not prompt.done()
        may_end.set()
        assert prompt.result(20)
    assert decoded == "the fox"


def test_texts_go_in_and_out_at_the_same_time(tmp_path: Path) -> None:
    """With a checkpoint whose tokenizer was saved with truncation and padding, which it must forget first."""
    save_tokenizer(tmp_path)
    saved = AutoTokenizer.from_pretrained(tmp_path)
    saved.backend_tokenizer.enable_truncation(8)
    saved.backend_tokenizer.enable_padding()
    saved.save_pretrained(tmp_path)
    tokenizer = Tokenizer(AutoTokenizer.from_pretrained(tmp_path))
    text = "the fox and the hen went down to the river 🦊 " * 50
    token_ids = tokenizer.encode(text)
    with ThreadPoolExecutor(4) as pool:
        results = [
            pool.submit(*job)
            for _ in range(200)
            for job in ((tokenizer.encode, text), (tokenizer.encode_continuation, text), (tokenizer.decode, token_ids))
        ]
    assert [each.result() for each in results] == [token_ids, token_ids, text] * 200
