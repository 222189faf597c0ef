import subprocess
import sys

import pytest

from agentform.errors import InvalidInput
from agentform.schema.target import load
from agentform.schema.validate import SchemaValidator

_FRESH = """
import sys
from agentform.schema.target import load
target = load({"type": "object", "properties": {"at": {"type": "string", "format": "iri"}}, "required": ["at"]})
assert not target.validator.check({"at": 3}) == ()
before = "rfc3987_syntax" in sys.modules
assert target.validator.check({"at": "https://example.org/ü"}) == ()
assert target.validator.check({"at": "not an iri"})
print(before, "rfc3987_syntax" in sys.modules)
"""


def test_the_parser_of_iris_is_imported_when_an_iri_is_checked():
    done = subprocess.run([sys.executable, "-c", _FRESH], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("format_name", ["iri", "iri-reference"])
def test_iris_are_checked(format_name: str):
    target = load({"type": "string", "format": format_name})
    assert target.validator.build("http://example.org/é") == "http://example.org/é"
    with pytest.raises(InvalidInput):
        target.validator.build("http://exa mple.org/<>")


def test_who_imports_the_parser_meanwhile_gets_one_that_works():
    code = (
        "from agentform.schema import jsonschema_library as library\n"
        "with library._deferred('rfc3987_syntax'):\n"
        "    from rfc3987_syntax import is_valid_syntax, parse\n"
        "import rfc3987_syntax\n"
        "assert is_valid_syntax('iri', 'a:b') and not is_valid_syntax('iri', ' ')\n"
        "assert parse('iri', 'a:b') == rfc3987_syntax.parse('iri', 'a:b')\n"
        "assert isinstance(rfc3987_syntax.grammar, str)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("format_name", ["iri", "iri-reference"])
def test_an_iri_that_would_take_long_to_parse_is_none(format_name: str):
    validator = SchemaValidator({"format": format_name})
    assert validator.check("http://a/" + "a" * 900) == ()
    assert validator.check("http://a/" + "a" * 100_000) != ()
