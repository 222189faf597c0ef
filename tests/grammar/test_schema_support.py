from __future__ import annotations

from benchmarks.schemas.document import DOCUMENT, render


def test_the_documents_tables_are_those_of_the_data():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == render(text), "run: python -m benchmarks.schemas.document"
    assert "| `uniqueItems` | validation | validation |" in text
