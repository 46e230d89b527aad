"""Rows by many texts, such as ids: one parameter, however many they are.

`IN` of SQLAlchemy has a parameter for each and a text for each number of them: for a claim of some
hundred deliveries that costs more than SQLite's work. SQLite is given them as a JSON array,
PostgreSQL as an array.
"""

import json
from typing import Any, Final, cast

from sqlalchemy import ARRAY, Boolean, Dialect, Text, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ColumnElement
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

_SQLITE: Final = "sqlite"


class _Texts(TypeDecorator[Any]):
    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return Text() if dialect.name == _SQLITE else ARRAY(Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return json.dumps(list(value)) if dialect.name == _SQLITE else list(value)


class _Among(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True

    def self_group(self, against: Any = None) -> "_Among":
        """As it is: `= 1`, which SQLite would get for want of booleans, no index can serve."""
        del against
        return self


@compiles(_Among)
def _as_array(element: _Among, compiler: SQLCompiler, **given: Any) -> str:
    column, texts = (compiler.process(it, **given) for it in element.clauses)
    return f"{column} = ANY ({texts})"


@compiles(_Among, _SQLITE)
def _as_json(element: _Among, compiler: SQLCompiler, **given: Any) -> str:
    column, texts = (compiler.process(it, **given) for it in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({texts}))"  # noqa: S608 - texts is the name of a parameter


def among(column: ColumnElement[str], name: str) -> ColumnElement[bool]:
    """Whether a column holds one of the texts of the parameter `name`."""
    return cast("ColumnElement[bool]", _Among(column, bindparam(name, type_=_Texts())))
