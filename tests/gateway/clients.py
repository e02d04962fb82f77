"""What people use against OpenAI's API: the official clients for Python and Node, and curl. One way to call all of them."""

import asyncio
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import openai
from openai import AsyncOpenAI

from cluster import debian
from tests.gateway import node

Kind = Literal["chat", "completion", "helper", "models", "model"]
"""`helper`: the clients' own way to stream a chat and put it together."""
Json = dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """What a client makes of an error."""

    kind: str
    """The exception's class; empty for curl."""
    status: int | None
    code: str | None
    param: str | None
    message: str


@dataclass(frozen=True)
class Outcome:
    """What came of a call, in the client's own objects as JSON."""

    body: Json | None = None
    chunks: list[Json] = field(default_factory=list)
    error: Failure | None = None

    @property
    def texts(self) -> list[str]:
        """The text of each choice, whole or put together from its chunks."""
        texts: dict[int, str] = {}
        for part in [self.body] if self.body else self.chunks:
            for choice in part["choices"]:
                said = choice.get("message") or choice.get("delta") or choice
                texts[choice["index"]] = texts.get(choice["index"], "") + (
                    said.get("content") or said.get("text") or ""
                )
        return [texts[index] for index in sorted(texts)]

    @property
    def finish_reasons(self) -> list[str]:
        """Of all choices."""
        parts = [self.body] if self.body else self.chunks
        return [choice["finish_reason"] for part in parts for choice in part["choices"] if choice["finish_reason"]]

    @property
    def usage(self) -> Json:
        """The answer's, or the only one among the chunks."""
        (usage,) = [part["usage"] for part in ([self.body] if self.body else self.chunks) if part.get("usage")]
        return dict(usage)


class Client(Protocol):
    """A client of the API at `url`, with or without /v1 as it likes."""

    async def call(self, url: str, kind: Kind, body: Json, *, key: str = "none", retries: int = 0) -> Outcome:
        """Make one call."""


class Python:
    """https://pypi.org/project/openai"""

    async def call(self, url: str, kind: Kind, body: Json, *, key: str = "none", retries: int = 0) -> Outcome:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=retries, timeout=60) as client:
            chunks: list[Json] = []
            try:
                match kind:
                    case "models":
                        models = await client.models.list()
                        return Outcome({"data": [model.model_dump() for model in models.data]})
                    case "model":
                        return Outcome((await client.models.retrieve(body["model"])).model_dump())
                    case "helper":
                        async with client.chat.completions.stream(**_python(body)) as stream:
                            return Outcome((await stream.get_final_completion()).model_dump())
                    case "chat":
                        answer = await client.chat.completions.create(**_python(body))
                    case "completion":
                        answer = await client.completions.create(**_python(body))
                if not body.get("stream"):
                    return Outcome(answer.model_dump())
                async for chunk in answer:
                    chunks.append(chunk.model_dump())  # noqa: PERF401 - those before an error count
            except openai.APIError as error:
                status = getattr(error, "status_code", None)
                failure = Failure(type(error).__name__, status, error.code, error.param, error.message)
                return Outcome(chunks=chunks, error=failure)
        return Outcome(chunks=chunks)


def _python(body: Json) -> Json:
    # The client has named arguments for OpenAI's parameters, and one for all others.
    extra = {name: body[name] for name in ("drafts", "workload", "sampler") if name in body}
    return {name: value for name, value in body.items() if name not in extra} | {"extra_body": extra}


class Node:
    """https://www.npmjs.com/package/openai"""

    async def call(self, url: str, kind: Kind, body: Json, *, key: str = "none", retries: int = 0) -> Outcome:
        packages = await asyncio.to_thread(node.packages)
        call = {
            "packages": str(packages),
            "url": f"{url}/v1",
            "key": key,
            "retries": retries,
            "kind": kind,
            "body": body,
        }
        said = await _run(str(node.NODE), str(node.SCRIPT), given=json.dumps(call))
        found = json.loads(said)
        return Outcome(found["body"], found["chunks"], Failure(**found["error"]) if found["error"] else None)


_PATHS: Mapping[Kind, str] = {
    "chat": "/v1/chat/completions",
    "completion": "/v1/completions",
    "models": "/v1/models",
}


class Curl:
    """As in OpenAI's documentation. Debian's `curl`; it does not retry, and has no helper."""

    async def call(self, url: str, kind: Kind, body: Json, *, key: str = "none", retries: int = 0) -> Outcome:
        if shutil.which("curl") is None:
            await asyncio.to_thread(debian.ensure, ["curl"])
        path = f"/v1/models/{body['model']}" if kind == "model" else _PATHS[kind]
        command = ["curl", "-sSN", "--max-time", "20", "-w", "\n%{http_code}", "-H", f"Authorization: Bearer {key}"]
        if kind not in ("model", "models"):
            command += ["-H", "Content-Type: application/json", "-d", "@-"]
        said, _, status = (await _run(*command, f"{url}{path}", given=json.dumps(body))).rpartition("\n")
        if int(status) >= 400:
            return Outcome(error=_failure(json.loads(said)["error"], status=int(status)))
        if not body.get("stream"):
            return Outcome(json.loads(said))
        events = [line.removeprefix("data: ") for line in said.splitlines() if line]
        chunks = [json.loads(event) for event in events if event != "[DONE]"]
        if chunks and "error" in chunks[-1]:
            assert events[-1] != "[DONE]"
            return Outcome(chunks=chunks[:-1], error=_failure(chunks[-1]["error"], status=None))
        assert events[-1] == "[DONE]"
        return Outcome(chunks=chunks)


def _failure(error: Json, *, status: int | None) -> Failure:
    return Failure("", status, error["code"], error["param"], error["message"])


async def _run(*command: str, given: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate(given.encode())
    assert process.returncode == 0, f"{command[0]} failed: {err.decode()}"
    return out.decode()


CLIENTS: dict[str, Client] = {"python": Python(), "node": Node(), "curl": Curl()}
