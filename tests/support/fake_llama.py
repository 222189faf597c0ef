"""What looks like llama.cpp's server, for faults that a real one does not have: bytes as tokens, a fixed text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

__all__ = ["FakeLlama"]

_END = 257
_SPELT = {256: "<s>", _END: "</s>"}
_PROPS = {
    "default_generation_settings": {"n_ctx": 128},
    "total_slots": 2,
    "model_path": "/models/fake.gguf",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "chat_template": "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}</s>{% endfor %}<s>assistant\n",
}
_TIMINGS = {"cache_n": 0, "prompt_n": 4}


class FakeLlama:
    """`transports` are arguments of `LlamaServer`; `fault` may answer a request of a running engine instead."""

    def __init__(self, text: str = "hello") -> None:
        self.text = text
        self.fault: Callable[[str, Any], httpx.Response | None] = lambda path, body: None
        self.asked: list[tuple[str, Any]] = []
        self.props = dict(_PROPS)

    @property
    def transports(self) -> dict[str, Any]:
        return {"transport": httpx.MockTransport(self._answer), "async_transport": httpx.MockTransport(self._faulty)}

    def _faulty(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.url.path, body))
        return self.fault(request.url.path, body) or self._answer(request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else {}
        match request.url.path:
            case "/props":
                return httpx.Response(200, json=self.props)
            case "/v1/models":
                return httpx.Response(200, json={"data": [{"id": "fake", "meta": {"n_vocab": 258}}]})
            case "/tokenize":
                return httpx.Response(200, json={"tokens": list(body["content"].encode())})
            case "/detokenize":
                text = "".join(_SPELT.get(i) or chr(i) for i in body["tokens"])
                return httpx.Response(200, json={"content": text})
            case "/completion":
                return self._completion(body)
        return httpx.Response(404, json={"error": {"message": "File Not Found", "code": 404}})

    def _completion(self, body: dict[str, Any]) -> httpx.Response:
        if body.get("grammar"):
            return httpx.Response(400, json={"error": {"message": "failed to parse grammar", "code": 400}})
        if body.get("stream"):
            return httpx.Response(200, text="".join(f"data: {json.dumps(event)}\n\n" for event in self.events(body)))
        drawn = body.get("post_sampling_probs")
        key, value, of = ("top_probs", 0.5, "prob") if drawn else ("top_logprobs", -3.0, "logprob")
        lifted = [token for token, _ in body.get("logit_bias", ())]
        ids = sorted(range(258), key=lambda token: token not in lifted) if drawn else list(range(258))
        ids = [i for i in ids if not (body.get("ignore_eos") and i == _END)]
        listed = [{"id": i, "bytes": [] if i in _SPELT else [i], of: value} for i in ids][: body.get("n_probs", 0)]
        return httpx.Response(
            200, json={"content": "a", "tokens": [97], "timings": _TIMINGS, "completion_probabilities": [{key: listed}]}
        )

    def events(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """Those of a stream: the text from where the prompt has it, as far as it may go."""
        written = self.text.encode()[: body["n_predict"]]
        told = [
            {"tokens": [i], "content": chr(i), "tokens_predicted": at, "stop": False, "timings": _TIMINGS}
            for at, i in enumerate(written, 1)
        ]
        kind = "limit" if len(written) == body["n_predict"] else "eos"
        return [*told, {"tokens": [], "tokens_predicted": len(written), "stop": True, "stop_type": kind}]
