"""Triton's python-based backend `dlm`: what the python stub loads.

execute() blocks while all slots are taken. That keeps Triton's queue the waiting room, with its size limit and its
timeouts; if execute() returned at once, that queue would always be empty.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import triton_python_backend_utils as pb_utils

from diffusion_worker.config import EngineConfig
from diffusion_worker.wire import (
    EVENT_TENSOR,
    REQUEST_TENSOR,
    BlockEvent,
    DraftEvent,
    ErrorEvent,
    FinishEvent,
    ScoreEvent,
    encode_event,
)

if TYPE_CHECKING:
    from diffusion_worker.triton.backend import Backend


class TritonPythonModel:
    """The class that the stub looks for; its method names are Triton's."""

    _backend: "Backend"

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        """Add what every `dlm` model has in common, so that config.pbtxt need not say it."""
        config = auto_complete_model_config
        config.add_input({"name": REQUEST_TENSOR, "data_type": "TYPE_STRING", "dims": [1]})
        config.add_output({"name": EVENT_TENSOR, "data_type": "TYPE_STRING", "dims": [1]})
        config.set_model_transaction_policy({"decoupled": True})
        return config

    def initialize(self, args: dict[str, str]) -> None:  # noqa: ARG002 (Triton's signature)
        """Load the checkpoint; the server opens its ports after that."""
        # Imported here: the stub that only completes the configuration needs no torch.
        from diffusion_worker.triton import logs, refusal
        from diffusion_worker.triton.backend import Backend
        from diffusion_worker.triton.heartbeat import VARIABLE

        logs.configure()
        config = EngineConfig.model_validate_json((Path(pb_utils.get_model_dir()) / "model.json").read_bytes())
        heartbeat = os.environ.get(VARIABLE)
        with refusal.left_behind():
            self._backend = Backend(
                config, family=pb_utils.MetricFamily, heartbeat=Path(heartbeat) if heartbeat else None
            )

    def execute(self, requests: list[Any]) -> None:
        """Hand requests over; answers go out from another thread. Nothing may escape: it would fail the whole batch."""
        for request in requests:
            tensor = pb_utils.get_input_tensor_by_name(request, REQUEST_TENSOR)
            self._backend.accept(
                tensor.as_numpy().reshape(-1).tolist(),
                TritonSender(request.get_response_sender()),
                parameters=request.parameters(),
            )

    def is_ready(self) -> bool:
        """Asked by releases from 26.04 on; the launcher watches the others."""
        return self._backend.ready

    def finalize(self) -> None:
        """Called once every request has ended."""
        self._backend.close()


class TritonSender:
    """Events as responses of Triton."""

    def __init__(self, sender: Any) -> None:
        self._sender = sender

    def send(self, event: BlockEvent | DraftEvent | FinishEvent | ScoreEvent | ErrorEvent, *, final: bool) -> None:
        """One response with the event's JSON. The final flag must be on a response with data: alone, clients miss it."""
        data = np.array([[encode_event(event)]], dtype=np.object_)
        response = pb_utils.InferenceResponse([pb_utils.Tensor(EVENT_TENSOR, data)])
        self._sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if final else 0)

    def end(self) -> None:
        """The flag alone, for a client that is gone."""
        self._sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def is_cancelled(self) -> bool:
        """Asks Triton."""
        return bool(self._sender.is_cancelled())
