"""From a request to a row, or to an error that says what was wrong with it."""

import logging
import secrets
from collections.abc import Callable

from diffusion_worker.engine.output import Output
from diffusion_worker.engine.penalties import LogitShifts
from diffusion_worker.engine.row import Emit, EmitScore, Row
from diffusion_worker.engine.runner import Runner, UnsupportedParameterError
from diffusion_worker.engine.scorer import ScoreRow
from diffusion_worker.models.errors import NoChatTemplateError, TemplateError
from diffusion_worker.samplers.settings import Settings
from diffusion_worker.wire import ErrorEvent, GenerateRequest, ScoreRequest

_log = logging.getLogger(__name__)


class RefusedError(Exception):
    """A request that cannot be run; carries the event for its submitter."""

    def __init__(self, event: ErrorEvent) -> None:
        super().__init__(event.message)
        self.event = event


def admit_request(request: GenerateRequest, *, runner: Runner, emit: Emit) -> Row:
    """Tokenize and check a request.

    RefusedError when its prompt is empty, malformed or too long, or when it asks for what the engine cannot do.
    """
    try:
        settings = runner.settings_for(request)
    except UnsupportedParameterError as error:
        raise _refused(str(error), param=error.param) from error
    param = _given(request, "prompt", "prompt_token_ids", "messages")
    prompt_token_ids = _checked(_prompt_token_ids(request, runner, param), runner=runner, param=param)
    limit = runner.limits.max_sequence_length
    room = limit - len(prompt_token_ids)
    if room < 1:
        raise _refused(
            f"the prompt has {len(prompt_token_ids)} tokens and leaves no room for an answer: this model takes "
            f"{limit} tokens, prompt and answer together; shorten the prompt",
            code="context_length_exceeded",
            param=param,
        )
    if request.max_tokens is not None and request.max_tokens > room:
        total = len(prompt_token_ids) + request.max_tokens
        raise _refused(
            f"this model takes {limit} tokens, prompt and answer together, but {total} were asked for: "
            f"{len(prompt_token_ids)} in the prompt and max_tokens {request.max_tokens}; shorten either",
            code="context_length_exceeded",
            param=param,
        )
    max_tokens = request.max_tokens or room
    return Row(
        request_id=request.request_id,
        prompt_token_ids=prompt_token_ids,
        max_tokens=max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=_seed_of(request, settings),
        output=Output(
            tokenizer=runner.tokenizer,
            eos_token_ids=runner.eos_token_ids,
            max_tokens=max_tokens,
            stops=request.stop,
        ),
        emit=emit,
        settings=settings,
        shifts=LogitShifts.of(request),
        logprobs=request.logprobs,
        drafts=request.drafts,
        background=request.background,
        pending=list(prompt_token_ids),
    )


def admit_score(request: ScoreRequest, *, runner: Runner, emit: EmitScore) -> ScoreRow:
    """Tokenize and check a text to score; RefusedError when prompt or completion is empty, malformed or too long."""
    if runner.scorer is None:
        raise _refused("a diffusion model has no likelihood of a text; ask an autoregressive arm", param="type")
    if request.include_eos and not runner.eos_token_ids:
        raise _refused("this model has no token that ends an answer; leave include_eos out", param="include_eos")
    prompt_param = _given(request, "prompt", "prompt_token_ids", "messages")
    prompt = _checked(_prompt_token_ids(request, runner, prompt_param), runner=runner, param=prompt_param)
    param = _given(request, "completion", "completion_token_ids")
    given = request.completion_token_ids
    if given is None:
        given = _encoded(lambda: runner.tokenizer.encode_continuation(request.completion or ""), request, param)
    completion = _checked(given, runner=runner, param=param)
    limit, total = runner.limits.max_sequence_length, len(prompt) + len(completion)
    if total > limit:
        raise _refused(
            f"this model takes {limit} tokens, prompt and completion together, but these have {total}; shorten either",
            code="context_length_exceeded",
            param=param,
        )
    text = runner.tokenizer.decode(completion) if request.completion is None else request.completion
    return ScoreRow(
        request_id=request.request_id,
        prompt_token_ids=prompt,
        completion_token_ids=completion,
        include_eos=request.include_eos,
        text_bytes=len(text.encode()),
        emit=emit,
    )


def _given(request: GenerateRequest | ScoreRequest, *names: str) -> str:
    return next(name for name in names if getattr(request, name) is not None)


def _checked(token_ids: list[int], *, runner: Runner, param: str) -> list[int]:
    """Token ids that the model has an embedding for; some tokenizers know special tokens that it has none for."""
    if not token_ids:
        raise _refused(f"the {param.partition('_')[0]} is empty; {param} must give at least one token", param=param)
    vocab_size = runner.limits.vocab_size
    unknown = [token_id for token_id in token_ids if not 0 <= token_id < vocab_size]
    if unknown:
        raise _refused(
            f"{param} has token {unknown[0]}, but this model's token ids are 0 to {vocab_size - 1}", param=param
        )
    return token_ids


def _prompt_token_ids(request: GenerateRequest | ScoreRequest, runner: Runner, param: str) -> list[int]:
    if request.prompt_token_ids is not None:
        return request.prompt_token_ids
    if request.prompt is not None:
        prompt = request.prompt
        return _encoded(lambda: runner.tokenizer.encode(prompt), request, param)
    return _encoded(lambda: runner.tokenizer.encode_chat(request.messages or []), request, param)


def _encoded(encode: Callable[[], list[int]], request: GenerateRequest | ScoreRequest, param: str) -> list[int]:
    try:
        return encode()
    except (NoChatTemplateError, TemplateError) as error:
        raise _refused(str(error), param=param) from error
    except Exception as error:  # whatever a checkpoint's tokenizer or template raises concerns this request alone
        _log.exception("the %s of request %s could not be made into tokens", param, request.request_id)
        raise _refused(
            f"this model's tokenizer failed on {param} ({type(error).__name__})", param=param, code="engine_error"
        ) from error


def _seed_of(request: GenerateRequest, settings: Settings | None) -> int:
    if settings is not None and settings.deterministic:
        return 0  # whatever the request says: only the first canvas and new noise come from it
    if request.seed is not None:
        return request.seed
    if request.temperature == 0:
        return 0  # who asks for the most likely tokens expects the same answer each time, renoised positions included
    return secrets.randbits(32)


def _refused(message: str, *, param: str, code: str = "invalid_request") -> RefusedError:
    return RefusedError(ErrorEvent.model_validate({"code": code, "message": message, "param": param}))
