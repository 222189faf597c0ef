"""A tokenizer of a few pieces by longest match, so that tests can choose what merges with what."""

from __future__ import annotations

from collections.abc import Sequence

from agentform.runtime.scripted.byte_tokenizer import ByteTokenizer

__all__ = ["PieceTokenizer"]


class PieceTokenizer(ByteTokenizer):
    """Bytes, and the given pieces (two or more bytes each) as tokens of their own from id 1000 on."""

    def __init__(self, pieces: Sequence[str]) -> None:
        super().__init__()
        self._pieces = {piece.encode(): 1000 + i for i, piece in enumerate(dict.fromkeys(pieces))}
        self._spelt = {i: piece for piece, i in self._pieces.items()}

    def encode(self, text: str, *, control: bool = False) -> tuple[int, ...]:
        ids: list[int] = []
        for run in self._runs(super().encode(text, control=control)):
            ids += [run[0]] if run[0] in (self.START, self.END) else self._merge(bytes(run))
        return tuple(ids)

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode([i for token in ids for i in self._spelt.get(token, (token,))])

    def _runs(self, ids: Sequence[int]) -> list[list[int]]:
        runs: list[list[int]] = []
        for token in ids:
            if runs and token < self.START and runs[-1][0] < self.START:
                runs[-1].append(token)
            else:
                runs.append([token])
        return runs

    def _merge(self, data: bytes) -> list[int]:
        ids: list[int] = []
        while data:
            piece = max((p for p in self._pieces if data.startswith(p)), key=len, default=data[:1])
            ids.append(self._pieces.get(piece, piece[0]))
            data = data[len(piece) :]
        return ids
