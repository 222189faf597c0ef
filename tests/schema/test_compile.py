"""Schemas compile into the leaves that they should, and every listed value is legal."""

import json
from contextlib import suppress
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from agentform.errors import UnsupportedSchema
from agentform.schema.form import Choice, Fixed, Free, Record, Repeat, Subset, Union, leaves, pointer
from agentform.schema.target import load
from agentform.schema.validate import SchemaValidator
from tests.support.growth import growth


def root(schema, **options):
    return load(schema, **options).form.root


def leaf(schema, **options):
    """The node of a property with the schema."""
    return root({"type": "object", "properties": {"x": schema}, "required": ["x"]}, **options).fields[0].node


class Color(Enum):
    red = "red"
    green = "green"


class Size(IntEnum):
    small = 1
    large = 9


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: int = Field(9, ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str | None = None


class Tree(BaseModel):
    v: int
    kids: list["Tree"] = []


class Chain(BaseModel):
    value: bool
    next: "Chain | None" = None


@pytest.mark.parametrize(
    ("schema", "options", "why"),
    [
        ({"type": "boolean"}, (True, False), "boolean"),
        ({"enum": ["a", "b", "a"]}, ("a", "b"), "enum of 2"),
        ({"type": "integer", "minimum": 1, "maximum": 5}, (1, 2, 3, 4, 5), "integer range 1..5"),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3}, (1, 2), "integer range 1..2"),
        (
            {"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 25},
            (0, 25, 50, 75, 100),
            "integer range 0..100",
        ),
        ({"type": ["boolean", "null"]}, (True, False, None), "boolean or null"),
        ({"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}, ("a", "b", None), "enum of 3"),
        ({"oneOf": [{"const": 1}, {"const": 2}, {"enum": [3, "x"]}]}, (1, 2, 3, "x"), "enum of 4"),
        ({"oneOf": [{"const": [1]}, {"const": [1.0]}, {"const": "a"}, {"const": "b"}]}, ("a", "b"), "enum of 2"),
        ({"enum": ["a", "bb", "ccc"], "maxLength": 2, "type": "string"}, ("a", "bb"), "enum of 2"),
        ({"enum": [1, "a", None], "type": ["string", "null"]}, ("a", None), "enum of 2"),
        ({"enum": [1, 2, 3], "not": {"const": 2}}, (1, 3), "enum of 2"),
    ],
)
def test_closed_schemas_become_choices(schema, options, why):
    node = leaf(schema)
    assert isinstance(node, Choice)
    assert node.options == options
    assert [type(value) for value in node.options] == [type(value) for value in options]
    assert node.why == why


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ({"const": {"a": [1]}}, {"a": [1]}, "const"),
        ({"enum": ["only"]}, "only", "const"),
        ({"type": "null"}, None, "null"),
        ({"type": "integer", "minimum": 3, "maximum": 3}, 3, "const"),
        ({"enum": [1, 2], "minimum": 2}, 2, "const"),
    ],
)
def test_single_values_are_fixed(schema, value, why):
    node = leaf(schema)
    assert isinstance(node, Fixed)
    assert (node.value, node.why) == (value, why)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "pattern": "^a+$"}, "pattern"),
        ({"type": "string", "format": "date"}, "format date"),
        ({"type": "number"}, "number"),
        ({"type": "integer", "minimum": 0, "maximum": 32}, "integer range 0..32"),
        ({"type": "array", "items": {"type": "string"}}, "array of string"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "open map"),
        ({"type": "object"}, "open map"),
        ({"type": "integer", "minimum": 0, "maximum": 2**80}, f"integer range 0..{2**80}"),
    ],
)
def test_open_schemas_are_free_with_their_own_schema(schema, why):
    node = leaf(schema)
    assert isinstance(node, Free)
    assert (node.schema, node.why) == (schema, why)


def test_a_range_of_32_is_a_choice_and_one_of_33_is_free():
    assert isinstance(leaf({"type": "integer", "minimum": 1, "maximum": 32}), Choice)
    assert isinstance(leaf({"type": "integer", "minimum": 1, "maximum": 33}), Free)


def test_values_of_different_types_are_kept_apart():
    node = leaf({"enum": [1, 1.0, True, "1", None, [1], {"a": 1}, 1]})
    assert json.dumps(node.options) == '[1, 1.0, true, "1", null, [1], {"a": 1}]'


def test_enum_members_and_their_description():
    class Model(BaseModel):
        c: Color = Field(description="what\n   colour\n\nmore text")
        s: Size

    first, second = root(Model).fields
    assert first.node.options == ("red", "green")
    assert first.node.description == "what colour"
    assert second.node.options == (1, 9)


def test_referenced_description_is_used_when_the_property_has_none():
    class Model(BaseModel):
        pet: Cat
        other: Cat = Field(description="the other one")

    first, second = root(Model).fields
    assert first.node.description == "A cat."
    assert second.node.description == "the other one"


def test_fault_02_discriminated_union_keeps_its_arm():
    class Model(BaseModel):
        pet: Annotated[Cat | Dog, Field(discriminator="kind")]

    union = root(Model).fields[0].node
    assert isinstance(union, Union)
    assert (union.labels, union.discriminator) == (("cat", "dog"), "kind")
    assert [arm.fields[0].node.value for arm in union.arms] == ["cat", "dog"]


def test_union_without_discriminator_keyword_finds_the_common_tag():
    class Model(BaseModel):
        pet: Cat | Dog

    union = root(Model).fields[0].node
    assert (union.labels, union.discriminator) == (("cat", "dog"), "kind")


def test_union_labels_are_titles_then_types_and_unique():
    class A(BaseModel):
        x: int

    class B(BaseModel):
        y: int

    assert leaf_of(A | B | str | int).labels == ("A", "B", "string", "integer")
    assert leaf_of(list[int] | list[str]).labels == ("array of integer", "array of string")
    same = leaf({"anyOf": [{"type": "string", "minLength": 3}, {"type": "string", "pattern": "^x"}]})
    assert len(set(same.labels)) == 2


def leaf_of(kind):
    return root(kind)


def test_fault_01_optional_list_is_a_list_or_null():
    class Model(BaseModel):
        tags: list[str] | None

    node = root(Model).fields[0].node
    assert node.labels == ("array", "null")
    assert node.arms[0].schema == {"type": "array", "items": {"type": "string"}}
    assert load(Model).validator.build({"tags": ["x"]}).tags == ["x"]


def test_fault_03_recursive_model_is_free_below_the_first_repeat():
    value, kids = root(Tree).fields
    assert isinstance(value.node, Free)
    assert kids.node.why == "array of Tree"
    deep = [{"v": 1, "kids": [{"v": 2, "kids": [{"v": 3, "kids": []}]}]}]
    assert not SchemaValidator(kids.node.schema).check(deep)
    assert SchemaValidator(kids.node.schema).check([{"kids": []}])
    below = root(Chain).fields[1].node
    assert below.arms[0].why == "recursive: Chain"
    assert not SchemaValidator(below.arms[0].schema).check({"value": True, "next": {"value": False}})


def test_fault_04_references_into_arrays_and_properties_resolve():
    schema = {
        "type": "object",
        "properties": {
            "x": {"type": "array", "prefixItems": [{"enum": ["p", "q"]}, {"type": "string"}]},
            "y": {"$ref": "#/properties/x/prefixItems/0"},
            "z": {"type": "array", "items": {"$ref": "#/properties/x/prefixItems/0"}},
        },
    }
    _, second, third = root(schema).fields
    assert second.node.options == ("p", "q")
    check = SchemaValidator(third.node.schema).check
    assert (check(["p"]), bool(check(["r"]))) == ((), True)


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": "https://e.x/a", "$defs": {"s": {"$anchor": "n", "enum": [1, 2]}}, "$ref": "#n"},
        {"$id": "https://e.x/a", "definitions": {"s": {"enum": [1, 2]}}, "$ref": "a#/definitions/s"},
        {"$defs": {"in": {"$id": "https://e.x/in", "$defs": {"s": {"enum": [1, 2]}}, "$ref": "#/$defs/s"}},
         "$ref": "https://e.x/in"},
        {"$defs": {"a/b~c %": {"enum": [1, 2]}}, "$ref": "#/$defs/a~1b~0c%20%25"},
    ],
)  # fmt: skip
def test_references_by_anchor_id_and_escaped_pointer(schema):
    assert root(schema).options == (1, 2)


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("https://example.com/x.json", "nothing is fetched"),
        ("#/$defs/no", "points at nothing"),
        ("#/required", "not a schema"),
        ("#nowhere", "not in this document"),
    ],
)
def test_references_that_lead_nowhere_are_refused(ref, said):
    with pytest.raises(UnsupportedSchema, match=said) as caught:
        load({"type": "object", "required": ["x"], "properties": {"x": {"$ref": ref}}})
    assert caught.value.pointer == "/properties/x/$ref"


def test_references_in_a_circle_are_refused():
    with pytest.raises(UnsupportedSchema, match="circle"):
        load({"$ref": "#"})
    with pytest.raises(UnsupportedSchema, match="circle"):
        load(
            {
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}},
                "$ref": "#/$defs/a",
            }
        )


def test_optional_properties_are_always_written_when_a_value_means_absence():
    class Model(BaseModel):
        closed: Color = Color.red
        nullable: Color | None = None
        free: str = "x"
        free_null: str | None = None
        free_null_default: str | None = "x"
        odd: Literal["a", "b"] = None  # type: ignore[assignment]
        anything: Any = None

    written = {field.name for field in root(Model).fields if field.required}
    assert written == {"closed", "nullable", "free_null"}


def test_optional_without_default_stays_optional_unless_null_is_legal():
    made = root(
        {
            "type": "object",
            "properties": {
                "a": {"enum": [1, 2]},
                "b": {"enum": [1, None]},
                "c": {"type": ["string", "null"]},
            },
        }
    )
    assert [field.required for field in made.fields] == [False, True, True]


def test_boolean_schemas():
    made = root({"type": "object", "properties": {"any": True, "never": False}})
    assert [(field.name, field.node.schema) for field in made.fields] == [("any", True)]
    assert root(True).schema is True
    for never in (False, {"type": "object", "properties": {"a": False}, "required": ["a"]}, {"enum": []}):
        with pytest.raises(UnsupportedSchema, match="no value satisfies"):
            load(never)


def test_fault_05_and_06_open_objects_stay_open():
    assert leaf({"type": "object", "additionalProperties": {"type": "integer"}}).why == "open map"
    only_required = load({"type": "object", "required": ["a"]})
    assert isinstance(only_required.form.root, Free)
    assert only_required.validator.check({"a": 1}) == ()
    assert only_required.validator.check({})[0].pointer == "/a"


def test_fault_24_no_arguments_is_an_empty_record():
    assert root({"type": "object", "properties": {}}) == Record(path=(), fields=())
    assert root({"type": "object", "additionalProperties": False}) == Record(path=(), fields=())


def test_required_but_unlisted_properties_get_the_additional_schema():
    made = root(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a", "b"],
            "additionalProperties": {"type": "boolean"},
        }
    )
    assert [field.name for field in made.fields] == ["a", "b"]
    assert made.fields[1].node.options == (True, False)


def test_all_of_merges():
    made = root(
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"a": {"maxLength": 3}, "b": {"type": "boolean"}}, "required": ["b"]},
            ]
        }
    )
    first, second = made.fields
    assert first.node.schema == {"type": "string", "maxLength": 3}
    assert (first.required, second.required) == (True, True)
    assert leaf({"allOf": [{"minimum": 1}, {"maximum": 2}], "type": "integer"}).options == (1, 2)
    assert leaf({"allOf": [{"enum": [1, 2, 3]}, {"enum": [2, 3, 4]}]}).options == (2, 3)


def test_all_of_with_additional_properties_heeds_both_sides():
    closed = {"properties": {"a": {"type": "string"}}, "additionalProperties": False}
    other = {"properties": {"a": {"minLength": 1}, "b": {"type": "string"}}}
    made = root({"type": "object", "allOf": [closed, other]})
    assert [field.name for field in made.fields] == ["a"]


def test_what_cannot_be_merged_stays_beside_the_leaf():
    node = leaf({"type": "string", "pattern": "^a", "allOf": [{"pattern": "b$"}]})
    check = SchemaValidator(node.schema).check
    assert not check("ab")
    assert check("a")
    assert check("b")


def test_disjoint_all_of_is_refused():
    with pytest.raises(UnsupportedSchema, match="no value satisfies"):
        load({"allOf": [{"type": "string"}, {"type": "integer"}]})


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("if", {"required": ["a"]}),
        ("dependentRequired", {"a": ["b"]}),
        ("dependentSchemas", {"a": {"required": ["b"]}}),
        ("not", {"required": ["b"]}),
        ("propertyNames", {"maxLength": 3}),
        ("minProperties", 1),
        ("maxProperties", 1),
        ("unevaluatedProperties", False),
        ("anyOf", [{"required": ["a"]}, {"required": ["b"]}]),
    ],
)
def test_keywords_across_a_record_are_left_to_validation_and_said(keyword, value):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        keyword: value,
    }
    form = load({"type": "object", "properties": {"x": schema}}).form
    assert isinstance(form.root.fields[0].node, Record)
    assert [(r.pointer, r.what) for r in form.relaxed] == [("/properties/x", f"{keyword}: left to validation")]


def test_overlapping_one_of_is_said():
    assert "oneOf" in load({"oneOf": [{"type": "integer"}, {"type": "number"}]}).form.relaxed[0].what
    assert load({"oneOf": [{"type": "string"}, {"type": "number"}]}).form.relaxed == ()


def test_arms_keep_what_stands_beside_them():
    made = root(
        {
            "type": "object",
            "properties": {"id": {"type": "string"}},
            "required": ["id"],
            "oneOf": [
                {"properties": {"a": {"type": "boolean"}}, "title": "A"},
                {"type": "object", "title": "B"},
            ],
        }
    )
    assert made.labels == ("A", "B")
    assert [[field.name for field in arm.fields] for arm in made.arms] == [["id", "a"], ["id"]]


def test_unknown_keywords_are_refused_or_listed():
    schema = {
        "type": "object",
        "properties": {"nullable": {"type": "string", "nullable": True}, "enum": True},
    }
    with pytest.raises(UnsupportedSchema, match="nullable") as caught:
        load(schema)
    assert caught.value.pointer == "/properties/nullable/nullable"
    assert load(schema, lenient=True).form.relaxed[0].pointer == "/properties/nullable/nullable"
    fine = {"const": {"foo": 1}, "default": {"bar": 1}, "examples": [{"baz": 1}], "x-order": 3}
    assert load({"type": "object", "properties": {"x": fine}}).form.relaxed == ()


def test_older_drafts():
    draft4 = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 2}},
    }
    assert root(draft4).fields[0].node.options == (1, 2)
    tuple7 = leaf({"type": "array", "items": [{"type": "string"}], "additionalItems": False})
    assert tuple7.schema == {"type": "array", "prefixItems": [{"type": "string"}], "items": False}
    form = load({"type": "object", "properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"]}}).form
    assert form.relaxed[0].what == "dependentRequired: left to validation"
    newer = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "string", "const": "ignored there"}
    assert isinstance(root(newer), Free)
    with pytest.raises(UnsupportedSchema):
        load({"if": None})
    with pytest.raises(UnsupportedSchema, match="draft"):
        load({"$schema": "http://json-schema.org/draft-03/schema#"})


def test_deep_and_wide_schemas_stay_bounded():
    schema: dict = {"type": "boolean"}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}}
    found = list(leaves(root(schema)))
    assert [leaf.why for leaf in found] == ["nested deeply"]
    assert len(found[0].path) == 33
    defs = {f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}} for n in range(30)}
    wide = {"$defs": {**defs, "d30": {"type": "boolean"}}, "$ref": "#/$defs/d0"}
    assert len(list(leaves(root(wide)))) < 20_000


def test_fault_14_big_enums_load_whole_and_in_time_that_grows_as_they_do():
    def load(num_options: int) -> None:
        names = [f"option {n}" for n in range(num_options)]
        assert leaf({"type": "string", "enum": names, "maxLength": 99}).options == tuple(names)
        assert leaf({"oneOf": [{"const": name} for name in names]}).options == tuple(names)

    assert growth(load, 2_500, times=8) < 24


def test_fault_12_and_13_literals_are_exact():
    class Model(BaseModel):
        a: Literal["名古屋", "Österreich"]
        b: Literal["a\n   b", 'say "hi"']

    first, second = root(Model).fields
    assert first.node.options == ("名古屋", "Österreich")
    assert second.node.options == ("a\n   b", 'say "hi"')


def test_paths_and_pointers():
    made = root({"type": "object", "properties": {"a/b": {"type": "object", "properties": {"~": True}}}})
    assert [pointer(leaf.path) for leaf in leaves(made)] == ["/a~1b/~0"]


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=4), st.sampled_from([0.5, 1.0, 2.0]))
LOW = st.integers(-99, 99)
CLOSED = st.one_of(
    st.builds(lambda v: {"enum": v}, st.lists(SCALARS, min_size=1, max_size=6)),
    st.builds(lambda v: {"const": v}, SCALARS),
    st.just({"type": "boolean"}),
    st.builds(lambda lo, n: {"type": "integer", "minimum": lo, "maximum": lo + n}, LOW, st.integers(0, 40)),
    st.builds(
        lambda v, kinds: {"enum": v, "type": kinds},
        st.lists(SCALARS, min_size=1, max_size=6),
        st.lists(st.sampled_from(["string", "integer", "null", "number"]), min_size=1, unique=True),
    ),
)  # fmt: skip
NESTED = st.recursive(
    CLOSED,
    lambda inner: st.one_of(
        st.builds(lambda arms: {"anyOf": arms}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda arms: {"oneOf": arms}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"allOf": parts}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(
            lambda props: {"type": "object", "properties": props, "required": list(props)},
            st.dictionaries(st.text(max_size=3), inner, min_size=1, max_size=3),
        ),
    ),
    max_leaves=6,
)


def first_values(node):
    """A few whole values that the form allows."""
    match node:
        case Fixed():
            return [node.value]
        case Choice():
            return list(node.options)
        case Record():
            columns = [first_values(field.node) for field in node.fields]
            rows = max(map(len, columns), default=1)
            names = [field.name for field in node.fields]
            return [{n: c[row % len(c)] for n, c in zip(names, columns, strict=True)} for row in range(rows)]
        case Union():
            return [value for arm in node.arms for value in first_values(arm)]
        case Subset():
            return [list(node.options[: node.min_items]), list(node.options[: node.max_items])]
        case Repeat():
            items = [first_values(item)[0] for item in node.items]
            return [items[: node.min_items], items]
        case _:
            return []


@settings(max_examples=150, deadline=None)
@given(NESTED)
def test_every_value_that_a_closed_form_allows_is_valid(schema):
    target = None
    with suppress(UnsupportedSchema):
        target = load(schema)
    assume(target is not None)
    assume(not target.form.relaxed)
    assume(not any(isinstance(leaf, Free) for leaf in leaves(target.form.root)))
    for value in first_values(target.form.root):
        assert target.validator.check(value) == ()


KEYWORDS = st.sampled_from(
    ["type", "properties", "$ref", "allOf", "anyOf", "items", "enum", "const", "required", "$id", "not", "if"]
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYWORDS, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYWORDS, JSON, max_size=5))
def test_nothing_but_unsupported_schema_is_raised(schema):
    with suppress(UnsupportedSchema):
        load(schema, lenient=True)


def test_a_set_of_literals_is_one_yes_or_no_per_option():
    class Shirt(BaseModel):
        colours: Annotated[set[Literal["red", "green", "blue"]], Field(min_length=1, max_length=2)]

    node = load(Shirt).form.root.fields[0].node
    assert isinstance(node, Subset)
    assert (set(node.options), node.min_items, node.max_items) == ({"red", "green", "blue"}, 1, 2)


def test_a_short_list_of_closed_records_is_repeated_and_a_long_or_open_one_is_free():
    class Item(BaseModel):
        size: Literal["S", "M"]
        gift: bool

    def node_of(kind):
        return load(TypeAdapter(kind).json_schema()).form.root

    short = node_of(Annotated[list[Item], Field(min_length=1, max_length=3)])
    assert isinstance(short, Repeat)
    assert [leaf.path for leaf in leaves(short)][:3] == [("0", "size"), ("0", "gift"), ("1", "size")]
    assert (len(short.items), short.min_items) == (3, 1)
    assert isinstance(node_of(list[Item]), Free)
    assert isinstance(node_of(Annotated[list[str], Field(max_length=3)]), Free)
