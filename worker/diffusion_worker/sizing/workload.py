"""What is asked of an engine at once."""

from dataclasses import dataclass

from diffusion_worker.config import MaskCache

from .dtypes import Dtype


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Rows of equal length that run together."""

    rows: int
    tokens: int  # prompt and answer of one row
    canvas: int  # 1 for an autoregressive model
    guidance: bool
    dtype: Dtype
    gpus: int
    attention_window: int | None = None  # of layers with full attention (EngineConfig.full_attention_window)
    attention_sink: int = 0
    mask_cache: MaskCache = MaskCache.PREFIX  # of mask models
    top_p: bool = True  # some row draws within top-p: any request may ask for it
    scores: bool = True  # texts are scored, by an autoregressive model

    @property
    def branches(self) -> int:
        """Canvases that each row has in a pass: guidance adds the one that does not see the prompt."""
        return 2 if self.guidance else 1

    @property
    def stored(self) -> int:
        """Tokens of one row with its last canvas, which may begin at its last token."""
        return self.tokens + self.canvas - 1
