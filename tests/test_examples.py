"""Every example runs on the real model; the README's Python blocks run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
DOCS = [ROOT / "README.md", ROOT / "docs" / "choosing.md"]
BLOCKS = [block for doc in DOCS for block in re.findall(r"```python\n(.*?)```", doc.read_text(), re.DOTALL)]

pytestmark = pytest.mark.model


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_examples():
    assert EXAMPLES
    assert BLOCKS


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, weights_folder):
    assert run(str(example)).strip()


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_readme_block_runs(number, weights_folder, tmp_path):
    file = tmp_path / "block.py"
    file.write_text(BLOCKS[number])
    assert run(str(file)).strip()
