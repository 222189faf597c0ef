"""The JSON Schema of a pydantic type, and the one by which its values are written.

JSON Schema has one `date-time`, pydantic has naive and aware ones; a `uuid4` or an `ipv6network` is no format that JSON
Schema knows. What is shown and validated says as much as pydantic's own schema does; what is written is held to
patterns of which every text, or nearly every one, is accepted.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any

from pydantic import EncodedStr, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticOmit

from agentform.errors import UnsupportedSchema
from agentform.json_schema.keywords import Schema, SchemaDict
from agentform.json_schema.walk import map_subschemas
from agentform.schema.descriptions import WRITTEN_AS
from agentform.schema.digit_patterns import NOTHING, numbers
from agentform.schema.duration_patterns import duration_pattern
from agentform.schema.keyword_order import in_reading_order
from agentform.schema.time_patterns import date_pattern
from agentform.schema.zone_patterns import MomentBounds, moment_pattern, time_of_day_pattern

__all__ = ["pydantic_schema", "written_schema"]

_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(\.{_BYTE}){{3}}"
_GROUP = "[0-9a-f]{1,4}"
_IPV6 = rf"({_GROUP}:){{7}}{_GROUP}|({_GROUP}:){{1,3}}(:{_GROUP}){{1,3}}|::({_GROUP}:){{0,3}}{_GROUP}|::"
_IPV4_NETWORK = rf"{_BYTE}(\.0){{3}}/8|{_BYTE}\.{_BYTE}(\.0){{2}}/16|({_BYTE}\.){{3}}0/24|{_IPV4}(/32)?"
_IPV6_NETWORK = rf"{_GROUP}::/16|({_GROUP}:){{2}}:/32|({_GROUP}:){{3}}:/48|({_GROUP}:){{4}}:/64|({_IPV6})(/128)?"
_HEX = "[0-9a-f]"
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_UNITS = "([kmgtpeKMGTPE]i?)?[bB]"
_COMPLEX = r"[+-]?[0-9]{1,9}(\.[0-9]{1,9})?([+-][0-9]{1,9}(\.[0-9]{1,9})?j)?"
_IN_URLS = r"[^\x00-\x20\x22\x3c\x3e\x5c\x5e\x60\x7b-\x7d\x7f]"
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?"
_HOST = rf"({_IPV4}|({_LABEL}\.)*[A-Za-z]([A-Za-z0-9]{{0,30}})?)"
_USER = "([A-Za-z0-9._-]+(:[A-Za-z0-9._-]+)?@)?"
_BYTE_SIZE = "^\\s*(\\d*\\.?\\d+)\\s*(\\w+)?"
_BASE64 = "([{0}]{{4}})*([{0}]{{2}}==|[{0}]{{3}}=)?"

_PATTERNS = {
    "base64": _BASE64.format("A-Za-z0-9+/"),
    "base64url": _BASE64.format("A-Za-z0-9_-"),
    "ipv6": _IPV6,
    "ipv4network": _IPV4_NETWORK,
    "ipv6network": _IPV6_NETWORK,
    "ipv4interface": rf"{_IPV4}(/(3[0-2]|[12]?[0-9]))?",
    "ipv6interface": rf"({_IPV6})(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?",
    "ipvanyaddress": f"{_IPV4}|{_IPV6}",
    "ipvanynetwork": f"{_IPV4_NETWORK}|{_IPV6_NETWORK}",
    "ipvanyinterface": rf"{_IPV4}(/(3[0-2]|[12]?[0-9]))?|({_IPV6})(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?",
} | {f"uuid{v}": f"{_HEX}{{8}}-{_HEX}{{4}}-{v}{_HEX}{{3}}-[89ab]{_HEX}{{3}}-{_HEX}{{12}}" for v in range(1, 9)}
"""By pydantic's format: a whole text, for formats of which JSON Schema's are wider or none."""
_KEYS = {
    "integer": "-?(0|[1-9][0-9]{0,14})",
    "number": r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?",
}
"""By JSON type: how keys of a map say it."""
_OF_TEXT = "x-of-text"
_MOST_EXACT = 15
"""Digits that a float tells apart."""
_MOST_KEYS = 32
"""Whole numbers that are listed where they are keys."""
_ONE_DAY = timedelta(days=1)


def pydantic_schema(adapter: TypeAdapter[Any], *, titles: bool = True) -> SchemaDict:
    """The schema as pydantic gives it, with what it leaves unsaid of the keys of maps, in the order of listings."""
    return in_reading_order(_generated(adapter, _Generate if titles else _GenerateBare))


def written_schema(adapter: TypeAdapter[Any], *, titles: bool = True) -> SchemaDict:
    """The schema that what is written should keep to."""
    made: Any = _with_patterns(_generated(adapter, _GenerateWritten if titles else _GenerateWrittenBare))
    return made


def _generated(adapter: TypeAdapter[Any], generator: type[GenerateJsonSchema]) -> SchemaDict:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return adapter.json_schema(mode="validation", by_alias=True, schema_generator=generator)


class _Generate(GenerateJsonSchema):
    """Pydantic's own generator, silent about defaults that are not JSON: they are only left out."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def dict_schema(self, schema: Any) -> Any:
        """Keys are texts in JSON, whatever they become."""
        made = super().dict_schema(schema)
        keys: Any = schema.get("keys_schema")
        if keys is not None and made.get("properties") is None:
            names = self._names(keys)
            if names is not None:
                made["propertyNames"] = names
        return made

    def _names(self, keys: Any) -> SchemaDict | None:
        """What the keys of a map are as texts, where their own schema does not say it of texts."""
        if keys.get("type") == "enum" and keys.get("sub_type") == "int":
            return {"enum": [str(int(member.value)) for member in keys["members"]]}
        said = self.generate_inner(keys)
        if keys.get("type") == "literal" or "enum" in said:
            values = keys.get("expected", said.get("enum"))
            return {"enum": [value for value in values if isinstance(value, str)]}
        if said.get("type") == "boolean":
            return {"enum": ["true", "false"]}
        if said.get("type") == "integer" and {"minimum", "maximum"} <= said.keys():
            return _numbered(int(said["minimum"]), int(said["maximum"]))
        return {"pattern": f"^({_KEYS[said['type']]})$"} if said.get("type") in _KEYS else None

    def model_field_schema(self, schema: Any) -> Any:
        return _with_a_key(schema, super().model_field_schema)

    def dataclass_field_schema(self, schema: Any) -> Any:
        return _with_a_key(schema, super().dataclass_field_schema)

    def typed_dict_field_schema(self, schema: Any) -> Any:
        return _with_a_key(schema, super().typed_dict_field_schema)


class _GenerateBare(_Generate):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class _GenerateWritten(_Generate):
    def dict_schema(self, schema: Any) -> Any:
        made = super().dict_schema(schema)
        return {**made, "additionalProperties": False} if "patternProperties" in made else made

    def tagged_union_schema(self, schema: Any) -> Any:
        """What tells the arms apart has to be written, also where an arm has a default for it."""
        made = super().tagged_union_schema(schema)
        name = made.get("discriminator", {}).get("propertyName")
        return made if name is None else {**made, "oneOf": [_requiring(name, arm) for arm in made["oneOf"]]}

    def date_schema(self, schema: Any) -> Any:
        return _whole(date_pattern(*_days(schema)), "date")

    def datetime_schema(self, schema: Any) -> Any:
        return _whole(_moments(schema), "date-time")

    def timedelta_schema(self, schema: Any) -> Any:
        low, high = schema.get("ge", schema.get("gt")), schema.get("le", schema.get("lt"))
        return _whole(duration_pattern(low, high, above="gt" in schema, below="lt" in schema), "duration")

    def complex_schema(self, schema: Any) -> Any:
        return _whole(_COMPLEX, "complex")

    def url_schema(self, schema: Any) -> Any:
        made = super().url_schema(schema)
        return made if not schema.get("allowed_schemes") else _url(made, schema)

    def multi_host_url_schema(self, schema: Any) -> Any:
        made = super().multi_host_url_schema(schema)
        return made if not schema.get("allowed_schemes") else _url(made, schema)

    def function_after_schema(self, schema: Any) -> Any:
        made = super().function_after_schema(schema)
        decodes_text = isinstance(getattr(schema["function"]["function"], "__self__", None), EncodedStr)
        return {**made, _OF_TEXT: True} if decodes_text else made

    def time_schema(self, schema: Any) -> Any:
        low, high = schema.get("ge", schema.get("gt", time.min)), schema.get("le", schema.get("lt", time.max))
        above, below = "gt" in schema, "lt" in schema
        return _whole(time_of_day_pattern(low, high, schema.get("tz_constraint"), above=above, below=below), "time")

    def decimal_schema(self, schema: Any) -> Any:
        """A number: its bounds and digits can be said of that, but not of a text."""
        made: SchemaDict = next(arm for arm in super().decimal_schema(schema)["anyOf"] if arm["type"] == "number")
        places, digits = schema.get("decimal_places"), schema.get("max_digits")
        if digits is not None and places is None:
            places = max(digits - 1, 0)
        if places is not None and "multipleOf" not in made:
            made["multipleOf"] = float(f"1e-{places}") if places else 1
        if digits is not None:
            whole = min(digits - (schema.get("decimal_places") or 0), _MOST_EXACT)
            most = 10**whole - 1 if schema.get("decimal_places") is None else 10**whole - (made.get("multipleOf") or 0)
            made["maximum"] = min(made.get("maximum", most), most)
            made["minimum"] = max(made.get("minimum", -most), -most)
        return made


class _GenerateWrittenBare(_GenerateWritten, _GenerateBare):
    pass


def _with_patterns(schema: Schema) -> Schema:
    if isinstance(schema, bool):
        return schema
    made = map_subschemas(schema, lambda _, item: _with_patterns(item))
    pattern = _PATTERNS.get(str(made.get("format")))
    if made.pop(_OF_TEXT, False):
        pattern = _base64_of_ascii("-_" if made.get("format") == "base64url" else "+/")
    if made.get("pattern") == _BYTE_SIZE:
        made["pattern"] = rf"^[0-9]{{1,9}}(\.[0-9]{{1,3}})? ?({_UNITS})?$"
    if pattern is not None and "pattern" not in made:
        made = {key: value for key, value in made.items() if key != "format"}
        made |= {"pattern": f"^({pattern})$", WRITTEN_AS: schema["format"]}
    return made


def _with_a_key(schema: Any, made: Callable[[Any], Any]) -> Any:
    """What a field's schema is, if there is a key for it; one that is read from inside another value has none."""
    alias = schema.get("validation_alias")
    if not isinstance(alias, list) or any(isinstance(path, list) and len(path) == 1 for path in alias):
        return made(schema)
    if schema.get("schema", {}).get("type") == "default":
        raise PydanticOmit
    said = "a field without default is read from inside another value, and its schema has no key for it"
    raise UnsupportedSchema(f"{said}: give its AliasPath {alias} a plain name beside it, in AliasChoices")


def _requiring(name: str, arm: Any) -> Any:
    return {**arm, "required": list(dict.fromkeys([*arm.get("required", ()), name]))}


def _numbered(low: int, high: int) -> SchemaDict:
    """Whole numbers as keys: listed, or of one sign by their digits."""
    if 0 <= high - low < _MOST_KEYS:
        return {"enum": [str(number) for number in range(low, high + 1)]}
    return {"pattern": f"^({numbers(low, high) if low >= 0 else _KEYS['integer']})$"}


def _moments(schema: Any) -> str:
    low, high = schema.get("ge", schema.get("gt")), schema.get("le", schema.get("lt"))
    now = datetime.now()
    if schema.get("now_op") == "past":
        high = high or now.replace(hour=23, minute=59, second=59, microsecond=0)
    elif schema.get("now_op") == "future":
        low = low or now.replace(hour=0, minute=0, second=0, microsecond=0)
    bounds = MomentBounds(low=low, high=high, above="gt" in schema, below="lt" in schema)
    return moment_pattern(bounds, schema.get("tz_constraint"))


def _days(schema: Any) -> tuple[date, date]:
    """The first and the last day within the bounds, of which none is between them if the last is the earlier."""
    low, high = schema.get("ge", date.min), schema.get("le", date.max)
    today = datetime.now().date()
    above = [schema["gt"]] if "gt" in schema else []
    below = [schema["lt"]] if "lt" in schema else []
    above += [today] if schema.get("now_op") == "future" else []
    below += [today] if schema.get("now_op") == "past" else []
    low = max([low, *(min(day, date.max - _ONE_DAY) + _ONE_DAY for day in above)])
    high = min([high, *(max(day, date.min + _ONE_DAY) - _ONE_DAY for day in below)])
    return low, high


def _base64_of_ascii(extra: str) -> str:
    """Whole texts that decode to ASCII, which is UTF-8 of every length: the top bit of each byte is not set."""
    every = _ALPHABET + extra
    ones = [every[:32], _only(every, lambda value: value % 16 < 8), _only(every, lambda value: value % 4 < 2), every]
    first, second, third, fourth = (f"[{re.escape(chars)}]" for chars in ones)
    one = f"{first}[{_only(every, lambda value: value % 16 == 0)}]=="
    two = f"{first}{second}[{re.escape(_only(every, lambda value: value % 4 == 0))}]="
    return f"({first}{second}{third}{fourth})*({one}|{two})?"


def _only(alphabet: str, holds: Callable[[int], bool]) -> str:
    return "".join(char for value, char in enumerate(alphabet) if holds(value))


def _url(made: Any, schema: Any) -> SchemaDict:
    schemes = "|".join(map(re.escape, schema["allowed_schemes"]))
    kept = {key: value for key, value in made.items() if key not in ("format", "minLength")}
    place = f"({_HOST})?/" if schema["allowed_schemes"] == ["file"] else f"{_USER}{_HOST}(:[0-9]{{1,4}})?"
    return {**kept, "pattern": f"^({schemes})://{place}([/?#]{_IN_URLS}*)?$", WRITTEN_AS: made["format"]}


def _whole(pattern: str, said: str) -> SchemaDict:
    if pattern == NOTHING:
        return {"not": {}}
    return {"type": "string", "pattern": f"^{pattern}$", WRITTEN_AS: said}
