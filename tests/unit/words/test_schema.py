"""Types, names and schemas: what is accepted, what it becomes, and what the refusals say."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import ArrayType, IntegerType, MapType, StringType, StructField, StructType

from txnclient.formats import schemas
from txnstatus import ddl
from txnstatus.ddl import MAX_TYPE_CHARACTERS, parse_names, parse_type, struct_text
from txnstatus.errors import InvalidArgument
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.names import check_table_name, fold, quoted
from txnstatus.proto import common_pb2 as common
from txnstatus.schema import Column, Schema, check_write_id

ATOMIC = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date"]
ATOMIC += ["timestamp", "timestamp_ntz"]


# ---- types


@pytest.mark.parametrize("name", ATOMIC)
def test_atomic_types_are_their_own_normal_form(name: str) -> None:
    assert parse_type(name) == parse_type(name.upper()) == parse_type(f"  {name}\n") == name


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("byte", "tinyint"),
        ("SHORT", "smallint"),
        ("Integer", "int"),
        ("long", "bigint"),
        ("real", "float"),
        ("decimal", "decimal(10,0)"),
        ("dec", "decimal(10,0)"),
        ("numeric(5)", "decimal(5,0)"),
        ("Decimal( 38 , 38 )", "decimal(38,38)"),
        ("array<long>", "array<bigint>"),
        ("ARRAY < ARRAY < Int > >", "array<array<int>>"),
        ("map<string, array<long>>", "map<string,array<bigint>>"),
        ("struct<A:long, b: struct<c:decimal(5,2)>>", "struct<A:bigint,b:struct<c:decimal(5,2)>>"),
        ("struct<a int, b string COMMENT 'it\\'s, b'>", "struct<a:int,b:string>"),
        (
            "struct<`unit price`:double, größe:int, `a:b,c>`:int>",
            "struct<`unit price`:double,`größe`:int,`a:b,c>`:int>",
        ),
        ("map<int,struct<x:map<string,dec>>>", "map<int,struct<x:map<string,decimal(10,0)>>>"),
    ],
)
def test_a_type_in_its_normal_form(text: str, normal: str) -> None:
    assert parse_type(text) == normal
    assert parse_type(normal) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "nothing",
        "int int",
        "int,",
        "bigint(4)",
        "decimal()",
        "decimal(,)",
        "decimal(0)",
        "decimal(39,0)",
        "decimal(5,6)",
        "decimal(5,2,1)",
        "decimal(5 2)",
        "decimal(5,2",
        "decimal(a,b)",
        "decimal(-1,0)",
        "array",
        "array<>",
        "array<int",
        "array<int>>",
        "array<int,int>",
        "map<int>",
        "map<int,int,int>",
        "struct<>",
        "struct<a>",
        "struct<a:>",
        "struct<a:int,>",
        "struct<a:int not null>",
        "struct<a:int,A:int>",
        "struct<a:int `b`>",
        "struct<`a``:int>",
        "struct<``:int>",
        "array<int> comment 'x'",
        "int; drop",
        "tab\x00le",
        "интеграл",
        "<" * 50,
    ],
)
def test_what_is_no_type_is_refused_by_its_own_text(text: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse_type(text)
    assert repr(text) in refusal.value.message


def test_of_a_type_that_there_is_not_those_are_told_that_there_are() -> None:
    with pytest.raises(InvalidArgument, match="'v': there is no type 'varchar'") as refusal:
        ddl.parse_columns("v varchar(10)")
    assert {"string,", "bigint,", "decimal(p,s),", "struct<..>"} <= set(refusal.value.hint.split(" "))


def test_a_type_nested_as_deeply_as_people_do_is_read() -> None:
    text = "array<" * 20 + "int" + ">" * 20
    assert parse_type(text) == text


@pytest.mark.parametrize("depth", [900, 5000])
def test_a_type_nested_too_deeply_is_refused(depth: int) -> None:
    """Types are read again when the log is applied, on a deeper stack: what passes here must not fail there."""
    with pytest.raises(InvalidArgument):
        parse_type("array<" * depth + "int" + ">" * depth)


def test_a_long_type_is_refused_before_it_is_read() -> None:
    """Reading took the square of its length: one request with a type of 549 kB kept a node busy for a minute."""
    with pytest.raises(InvalidArgument, match="characters"):
        parse_type(f"struct<{','.join(f'a{number}:int' for number in range(60_000))}>")


def test_types_side_by_side_are_not_nested() -> None:
    text = f"struct<{','.join(f'a{number}:array<int>' for number in range(1_000))}>"
    assert parse_type(text) == text


types = st.recursive(
    st.sampled_from(ATOMIC)
    | st.tuples(st.integers(1, 38), st.integers(0, 38))
    .filter(lambda d: d[1] <= d[0])
    .map(lambda d: f"decimal({d[0]},{d[1]})"),
    lambda inner: st.one_of(
        inner.map(lambda t: f"array<{t}>"),
        st.tuples(inner, inner).map(lambda t: f"map<{t[0]},{t[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda ts: f"struct<{','.join(f'f{i}:{t}' for i, t in enumerate(ts))}>"
        ),
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150)
@given(types)
def test_normal_forms_stay_and_survive_arrow(text: str) -> None:
    assert parse_type(text) == text
    columns = (Column("c", text),)
    assert schemas.to_columns(to_arrow(Schema(columns))) == columns


@settings(deadline=None, max_examples=200)
@given(st.text("abint<>(),: 1", max_size=20))
def test_any_text_is_a_type_or_refused(text: str) -> None:
    try:
        normal = parse_type(text)
    except InvalidArgument:
        return
    assert parse_type(normal) == normal


# ---- names


@pytest.mark.parametrize(
    "name",
    [
        "a.b",
        "_a._b",
        "Air.Flights_2024",
        "a" * 128 + "." + "b" * 128,
        "größe.заказы",
        "हिन्दी.テーブル",
        "my shop.two-words",
    ],
)
def test_table_names(name: str) -> None:
    assert check_table_name(name) == name


@pytest.mark.parametrize("name", ["t.cafe\u0301", "cafe\u0301.t"])
def test_of_two_names_that_look_the_same_one_is_a_table_s(name: str) -> None:
    """Both were, and a program that was typed elsewhere found an empty table, or none."""
    with pytest.raises(InvalidArgument, match="not composed as in Unicode's form NFC, which looks the same"):
        check_table_name(name)
    assert check_table_name(unicodedata.normalize("NFC", name))


@pytest.mark.parametrize(
    "name",
    [
        *("", "a", ".b", "a.", "a.b.c", "1a.b", "a.1b", "-a.b", "a/../b.c", "a.b\n", " a.b", "a .b", "a" * 129 + ".b"),
        *("ж" * 101 + ".b", "a.b\u200b", "a.[b]", "a.\ud800", "a.b=1", "a.%2e"),
    ],
)
def test_what_is_no_table_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        check_table_name(name)
    assert repr(name) in refusal.value.message


@pytest.mark.parametrize("write_id", ["abcd1234", "A" * 64])
def test_write_ids(write_id: str) -> None:
    assert check_write_id(write_id) == write_id


@pytest.mark.parametrize(
    "write_id", ["", "short12", "A" * 65, "../../etc", "with_underscore", "abcd1234\n", "a/b/c/d/e"]
)
def test_what_is_no_write_id_is_refused(write_id: str) -> None:
    """It names a directory: nothing that could lead elsewhere."""
    with pytest.raises(InvalidArgument):
        check_write_id(write_id)


# ---- schemas


def columns(**kinds: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in kinds.items())


FLIGHTS = Schema(columns(id="bigint", day="date", carrier="string", note="string"), ("day", "carrier"), ("id",))


def test_a_schema_comes_over_the_wire_as_it_was() -> None:
    schema = Schema((Column("id", "bigint", nullable=False), Column("day", "date")), ("day",), ("id",))
    assert Schema.from_wire(common.TableSchema.FromString(schema.to_wire().SerializeToString())) == schema


@pytest.mark.parametrize(
    ("made", "partition_by", "primary_key", "said"),
    [
        ((), (), (), "at least one column"),
        (columns(**{"": "int"}), (), (), "'': it has 0 characters"),
        (columns(**{"x" * 129: "int"}), (), (), "it has 129 characters"),
        (columns(**{" a": "int"}), (), (), "' a': it begins or ends with a space"),
        (columns(a="int", **{"b`c": "int"}), ("b`c",), (), "'b`c' cannot be a partition column"),
        (columns(**{"a\x1b[1mb": "int"}), (), (), r"'a\\x1b\[1mb': control characters"),
        ((Column("e\u0301", "int"),), (), (), "letters are not composed as in Unicode's form NFC"),
        (columns(a="int", **{"b/c": "int"}), ("b/c",), (), "'b/c' cannot be a partition column"),
        (columns(_PARTITION_day="int"), (), (), "'_PARTITION_day'.*taken"),
        ((Column("a", "int", comment="x" * 1001),), (), (), "'a': a comment of 1001"),
        (columns(_partition_day="int"), (), (), "'_partition_day'.*taken"),
        (columns(_tmp_metadata_Row_index="int"), (), (), "'_tmp_metadata_Row_index': it is what Spark calls"),
        (columns(a="int", A="int"), (), (), "'A' appears twice"),
        (columns(a="long"), (), (), "'a': type 'long' is not in its normal form"),
        (columns(a="nothing"), (), (), "'nothing'"),
        (columns(a="int"), ("b",), (), "partition column 'b'"),
        (columns(a="int"), (), ("b",), "primary key column 'b'"),
        (columns(a="int", b="int"), ("a", "a"), (), "name a column twice"),
        (columns(a="int", b="int"), (), ("b", "b"), "name a column twice"),
        (columns(a="int"), ("a",), (), "every column is a partition column"),
        (columns(a="int", b="int"), ("a", "b"), (), "every column is a partition column"),
        (columns(a="int", b="double"), ("b",), (), "'b' of type double cannot"),
        (columns(a="int", b="float"), (), ("b",), "key column 'b' is float: rows cannot be known by such a key"),
        (columns(a="int", b="double"), (), ("a", "b"), "key column 'b' is double"),
        (columns(a="int", b="array<int>"), (), ("b",), "key column 'b' is array<int>"),
        (columns(a="int", b="struct<x:int>"), (), ("b",), "key column 'b' is struct"),
        (columns(a="int", b="map<int,int>"), (), ("b",), "key column 'b' is map"),
        (columns(a="int", b="timestamp"), ("b",), (), "'b' of type timestamp cannot"),
        (columns(a="int", b="array<int>"), ("b",), (), "'b' of type array<int> cannot"),
        (columns(a="int", b="binary"), ("b",), (), "'b' of type binary cannot"),
        (columns(**{f"a{n}": "int" for n in range(2_001)}), (), (), "2001 columns: 2000 are possible"),
        (columns(**{f"a{n}": "int" for n in range(40)}), tuple(f"a{n}" for n in range(33)), (), "33 partition columns"),
        (
            columns(a="int", b="x" * (1 << 20)),
            (),
            (),
            "characters in names, types, comments and defaults: 131072 are possible",
        ),
    ],
)
def test_a_schema_that_breaks_a_rule_is_refused(
    made: tuple[Column, ...], partition_by: tuple[str, ...], primary_key: tuple[str, ...], said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        Schema(made, partition_by, primary_key).check()


def test_columns_are_called_as_people_call_them() -> None:
    names = ["1st", "a b", "größe", "заказ", "unit price (€)", "a.b", "a/b=c", "ID", "hi'\"there", "हिन्दी", "日"]
    Schema(columns(**dict.fromkeys(names, "int")), ("größe", "हिन्दी", "a b")).check()


@pytest.mark.parametrize("pair", ["ID id", "É é", "ﬀ FF", "ß SS", "ı I", "K k", "é e\u0301"])
def test_names_that_spark_takes_for_one_are_one(pair: str) -> None:
    one, other = pair.split()
    assert fold(one) == fold(other)


@pytest.mark.parametrize("kind", ["boolean", "tinyint", "smallint", "int", "bigint", "decimal(9,2)", "string", "date"])
def test_what_can_be_a_partition_column(kind: str) -> None:
    Schema(columns(a="int", b=kind), ("b",)).check()


def test_data_with_the_same_columns_in_any_order_is_right() -> None:
    FLIGHTS.require_same_columns(tuple(reversed(FLIGHTS.columns)), "air.flights")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (columns(id="bigint", day="date", carrier="string"), "'note' .string. of table air.flights is missing"),
        (
            columns(id="int", day="date", carrier="string", note="string"),
            "'id' .* is bigint; in the data .* int",
        ),
        (columns(id="bigint", day="date", carrier="string", note="string", x="int"), "'x' of the data is not a column"),
        (columns(ID="bigint", day="date", carrier="string", note="string"), "'id' .* is missing"),
        ((), "'id' .* is missing"),
    ],
)
def test_data_with_other_columns_is_refused_by_name(found: tuple[Column, ...], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        FLIGHTS.require_same_columns(found, "air.flights")


# ---- schemas as users have them


EXPECTED = (Column("id", "bigint"), Column("price", "decimal(10,2)"), Column("tags", "map<string,array<int>>"))


@pytest.mark.parametrize(
    "given_schema",
    [
        "id long, price decimal(10,2), tags map<string,array<int>>",
        "id: long, `price` : decimal(10,2), tags map<string,array<int>>",
        "`id` BIGINT,\n  `price` decimal( 10 , 2 ) , tags map<string, array<integer>>",
        {"id": "long", "price": "decimal(10,2)", "tags": "map<string,array<int>>"},
        pa.schema(
            [("id", pa.int64()), ("price", pa.decimal128(10, 2)), ("tags", pa.map_(pa.string(), pa.list_(pa.int32())))]
        ),
    ],
)
def test_a_schema_as_text_mapping_or_arrow(given_schema: object) -> None:
    assert schemas.to_columns(given_schema) == EXPECTED


def test_ddl_says_what_may_be_null_and_what_it_is() -> None:
    text = "`Unit Price` double NOT NULL COMMENT 'net, it\\'s \\\\', größe int comment \"cm\", b struct<`a b`:int>"
    assert schemas.to_columns(text) == (
        Column("Unit Price", "double", nullable=False, comment="net, it's \\"),
        Column("größe", "int", comment="cm"),
        Column("b", "struct<`a b`:int>"),
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("'it''s'", "it's"),
        ('"it\'s"', "it's"),
        ('"a ""b"""', 'a "b"'),
        ("'a \"\"b'", 'a ""b'),
        (r"'\'\"\\'", "'\"\\"),
        (r"'\n\t\r\b\Z\%\_\q'", "\n\t\r\b\x1a\\%\\_q"),
        (r"'\u00e9\U0001F4A9\101'", "é\U0001f4a9A"),
        ("'a\nb'", "a\nb"),
        ("''", ""),
    ],
)
def test_a_comment_reads_as_a_string_of_spark_sql(written: str, meant: str) -> None:
    """`'it''s'` was refused, and \\u, \\b, \\% came out as their letters."""
    assert schemas.to_columns(f"a int COMMENT {written}, b int") == (
        Column("a", "int", comment=meant),
        Column("b", "int"),
    )


@pytest.mark.parametrize("written", [r"'\ud800'", r"'\U00110000'"])
def test_an_escape_that_is_no_character_is_refused(written: str) -> None:
    with pytest.raises(InvalidArgument, match=r"'a': \\[uU]\w+ in a comment is no character"):
        schemas.to_columns(f"a int COMMENT {written}")


_NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Zl", "Zp"]), min_size=1, max_size=20).filter(
    lambda name: name == name.strip() and name.isprintable()
)


@given(names=st.lists(_NAMES | st.text("`a' \"", min_size=1, max_size=6), min_size=1, max_size=4), data=st.data())
def test_names_and_comments_of_any_letters_are_read_as_they_are_written(names: list[str], data: st.DataObject) -> None:
    """A backquote in a name could not be written, though Spark doubles it; printed, it ended the name."""
    some = len(names)
    comments = data.draw(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=some, max_size=some))
    signs = data.draw(st.lists(st.sampled_from("'\""), min_size=some, max_size=some))
    made = tuple(Column(name, "int", comment=comment) for name, comment in zip(names, comments, strict=True))
    texts = [text.replace("\\", "\\\\").replace(sign, 2 * sign) for text, sign in zip(comments, signs, strict=True)]
    written = (
        f"{quoted(name)} int COMMENT {sign}{text}{sign}" for name, text, sign in zip(names, texts, signs, strict=True)
    )
    assert schemas.to_columns(", ".join(written)) == made
    assert tuple(each.name for each in schemas.to_columns(schemas.ddl(Schema(made)))) == tuple(names)


@given(_NAMES.filter(lambda name: not name.lower().startswith(("_partition_", "_txn_"))))
def test_a_struct_with_fields_of_any_letters_reads_back(name: str) -> None:
    text = struct_text([(unicodedata.normalize("NFC", name), "int")])
    assert parse_type(text) == text


def test_a_text_that_is_nowhere_closed_is_read_once() -> None:
    """Each sign that could have begun a string was looked for the end of: 12 s on a node's loop for one CreateTable."""
    text = "'" + "\\'" * ((MAX_TYPE_CHARACTERS - 1) // 2)
    assert ddl._TOKEN.findall(text) == [("", "'", "")]
    with pytest.raises(InvalidArgument, match='expected a type, not "\'"'):
        parse_type(text)


def test_comments_come_over_the_wire_and_from_arrow() -> None:
    schema = Schema((Column("a", "int", comment="of [apples]"),))
    assert Schema.from_wire(schema.to_wire()) == schema
    assert schemas.to_columns(to_arrow(schema)) == schema.columns


@pytest.mark.parametrize(
    "text", ["a" * MAX_TYPE_CHARACTERS + "a", "array<" * 9000, "struct<" + "a:int," * 9000 + "b:int>"]
)
def test_a_type_as_long_as_a_book_is_refused_without_being_read(text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"it has {len(text)} characters"):
        parse_type(text)


def test_arrow_types_that_spark_has_only_one_of() -> None:
    found = schemas.to_columns(
        pa.schema(
            [
                ("a", pa.large_string()),
                ("b", pa.dictionary(pa.int32(), pa.string())),
                ("c", pa.timestamp("ns", "Europe/Berlin")),
                ("d", pa.timestamp("s")),
                ("e", pa.large_list(pa.float32())),
                ("f", pa.list_(pa.int8(), 3)),
                ("g", pa.uint32()),
                ("h", pa.uint64()),
                ("i", pa.date64()),
                pa.field("j", pa.large_binary(), nullable=False),
            ]
        )
    )
    kinds = ["string", "string", "timestamp", "timestamp_ntz", "array<float>", "array<tinyint>", "bigint"]
    assert [column.type for column in found] == [*kinds, "decimal(20,0)", "date", "binary"]
    assert [column.nullable for column in found] == [True] * 9 + [False]


@pytest.mark.parametrize(
    ("given_schema", "said"),
    [
        ("id", "'id': expected a type, not the end"),
        ("", "column 1 of '': expected the name of a column"),
        ("id bigint,", "column 2 .*expected the name of a column, not the end"),
        ("id bigint x string", "'id': after its type NOT NULL, DEFAULT and COMMENT .* not 'x'"),
        ("id bigint PRIMARY KEY", "'id': after its type .* not 'PRIMARY'"),
        ("id bigint NOT x", "'id': expected NULL after NOT, not 'x'"),
        ("id bigint COMMENT x", "'id': expected a comment in quotes, not 'x'"),
        ("unit-price double", "'unit': expected a type, not '-'"),
        ("id bigint, `x", "column 2 .*expected the name of a column, not '`'"),
        ("id bigint, x nothing", "column 'x'.*'nothing'"),
        ({"id": "nothing"}, "column 'id'"),
        (pa.schema([("t", pa.time64("us"))]), "column 't'.*time64"),
        (pa.schema([("n", pa.list_(pa.duration("s")))]), "column 'n'.*duration"),
        (42, "not int"),
        (["id"], "not list"),
        (None, "not NoneType"),
    ],
)
def test_a_schema_that_cannot_be_is_refused_by_column(given_schema: object, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        schemas.to_columns(given_schema)


def test_a_schema_in_arrow_keeps_names_order_and_nullability() -> None:
    schema = Schema((Column("b", "timestamp", nullable=False), Column("a", "timestamp_ntz")))
    assert to_arrow(schema) == pa.schema(
        [pa.field("b", pa.timestamp("us", "UTC"), nullable=False), pa.field("a", pa.timestamp("us"))]
    )


def test_a_schema_as_ddl_reads_back() -> None:
    assert [(c.name, c.type) for c in schemas.to_columns(schemas.ddl(FLIGHTS))] == [
        (c.name, c.type) for c in FLIGHTS.columns
    ]


def test_the_columns_of_a_key_take_no_nulls() -> None:
    """With keys that nobody looked at, rows without a key were committed."""
    assert [column.nullable for column in FLIGHTS.columns] == [False, True, True, True]


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("s", pa.struct([pa.field("a", pa.int32(), nullable=False)]))]),
        pa.schema([("s", pa.list_(pa.struct([pa.field("a", pa.int32(), nullable=False)])))]),
        StructType([StructField("s", StructType([StructField("a", IntegerType(), False)]))]),
        StructType([StructField("s", MapType(StringType(), StructType([StructField("a", IntegerType(), False)])))]),
    ],
)
def test_a_field_inside_a_column_that_takes_no_nulls_is_refused(schema: object) -> None:
    """It was dropped in silence, and a null committed; DDL of the same was refused."""
    with pytest.raises(InvalidArgument, match="column 's': its field 'a' takes no nulls"):
        schemas.require_nothing_inside(schema)


def test_what_spark_infers_of_elements_is_not_looked_at() -> None:
    schemas.require_nothing_inside(StructType([StructField("s", ArrayType(IntegerType(), False), False)]))
    schemas.require_nothing_inside("s struct<a: int>")


@pytest.mark.parametrize("names", [[], ["id"], ["a`b", "ü", "x y", "a, b"]])
def test_names_are_read_as_they_are_quoted(names: list[str]) -> None:
    assert parse_names(", ".join(map(quoted, names))) == names


def test_plain_names_are_read_and_others_are_refused() -> None:
    assert parse_names("id, Day,`a, b`") == ["id", "Day", "a, b"]
    for text in ("a,", ",", "a,,b", "a b", "`a", "1.5"):
        with pytest.raises(InvalidArgument, match=f"columns {text!r}: expected"):
            parse_names(text)
