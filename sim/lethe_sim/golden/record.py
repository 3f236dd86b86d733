"""Named fields in arrays of whole numbers: ``slot.live`` instead of a column's number.

A `Record` names the numbers from some place of an array on; it owns none.  The golden model keeps all that an NI or a
router knows in a few long arrays, and reads and writes it through records.  In compiled code a record is an address,
and a field costs what an element of the array costs.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from .compile import JIT

R = TypeVar("R", bound="Record")


class _Bits:
    """A field that has some bits of a number, which it shares with others (set by `Record`)."""

    def __init__(self, count: int):
        self.count, self.shift = count, 0
        self.mask = (1 << count) - 1


#: Bits of a number that fields share: all but its sign.
_BITS = 63


class _Many:
    """A field of several numbers (``record`` is None) or several records."""

    def __init__(self, record: "type[Record] | None", count: int):
        self.record, self.count = record, count


def numbers(count: int) -> Any:
    """A field of ``count`` numbers: ``stage: Any = numbers(4)``, read as ``ni.stage[2]``."""
    return _Many(None, count)


def records(record: "type[Record]", count: int) -> Any:
    """A field of ``count`` records: ``ladders: Any = records(Hold, 2)``, read as ``ni.ladders[1].hold``."""
    return _Many(record, count)


def bits(count: int) -> Any:
    """A field that is never negative and has so many bits: ``limit: Any = bits(8)``.

    Such fields that follow one another share a number, as long as they fit: a table is smaller, and more of it is in
    the cache.  A value that does not fit is cut off.
    """
    return _Bits(count)


class Record:
    """The names of some whole numbers that lie together.  Subclasses annotate the names in their order.

    ``Slot(words, place)`` names the numbers from ``words[place]`` on, ``Slot(words, place, 3)`` those of the fourth of
    the slots that begin there; ``words`` is an array, or a record that lies in one.  ``Slot.live`` is the number of
    the field, for columns of NumPy arrays; ``Slot.size`` is how many numbers a slot has.
    """

    size: ClassVar[int]
    layout: ClassVar[dict[str, tuple[int, _Many | _Bits | None]]]

    def __init_subclass__(cls):
        cls.layout, at, used = {}, 0, 0
        for name in cls.__annotations__:
            kind = cls.__dict__.get(name)
            if isinstance(kind, _Bits) and 0 < used <= _BITS - kind.count:
                kind.shift = used
                at -= 1
            cls.layout[name] = at, kind
            setattr(cls, name, _Part(at, kind) if isinstance(kind, _Bits) else _Field(at, kind))
            at += kind.count * (kind.record.size if kind.record else 1) if isinstance(kind, _Many) else 1
            used = kind.shift + kind.count if isinstance(kind, _Bits) else 0
        cls.size = at
        _name_in_compiled_code(cls)

    def __init__(self, words: "np.ndarray | Record", place: int = 0, number: int = 0):
        if isinstance(words, Record):
            place, words = words._place + place, words._words
        self._words, self._place = words, place + number * type(self).size

    @cached_property
    def address(self) -> int:
        """Where the first number is in memory.  It is kept, since every call of compiled code needs it."""
        return self._words.ctypes.data + self._words.itemsize * int(self._place)

    def row(self, place: int) -> np.ndarray:
        """The numbers from ``place`` on."""
        return self._words[self._place + place :]


class Rows(Generic[R]):
    """Records of one kind that follow one another: ``ports[5].free_from``."""

    def __init__(self, record: type[R], words: np.ndarray | Record, place: int = 0):
        self._record, self._words, self._place = record, words, place

    def __getitem__(self, number: int) -> R:
        return self._record(self._words, self._place, number)


class _Field:
    """Reads and writes one field of a record."""

    def __init__(self, at: int, many: _Many | None):
        self._at, self._many = at, many

    def __get__(self, record, owner):
        if record is None:
            return self._at
        at = record._place + self._at
        if self._many is None:
            return record._words[at]
        return record._words[at:] if self._many.record is None else Rows(self._many.record, record._words, at)

    def __set__(self, record, value):
        record._words[record._place + self._at] = value


class _Part:
    """Reads and writes a field of some bits."""

    def __init__(self, at: int, bits: _Bits):
        self._at, self._bits = at, bits

    def __get__(self, record, owner):
        if record is None:
            return self._at
        return record._words[record._place + self._at] >> self._bits.shift & self._bits.mask

    def __set__(self, record, value):
        at, bits = record._place + self._at, self._bits
        kept = int(record._words[at]) & ~(bits.mask << bits.shift)
        record._words[at] = kept | (int(value) & bits.mask) << bits.shift


def table(record: type[R]) -> "Callable[[Any], Rows[R]]":
    """A function that names the numbers of an array as records: ``table(Port)(words)[5].free_from``."""

    def rows(words):
        return Rows(record, words)

    _name_rows_in_compiled_code(rows, record)
    return rows


def _words(record):
    return record._words[record._place :]


#: ``raw(record)``: the numbers of a record by their places.
raw: Any = _words


def _nothing(*_) -> None:
    """Plain Python knows the names by itself."""


_name_in_compiled_code: Any = _nothing
_name_rows_in_compiled_code: Any = _nothing

if JIT:
    import operator

    from llvmlite import ir
    from numba import types
    from numba.core.typing.templates import AttributeTemplate
    from numba.extending import (
        NativeValue,
        infer_getattr,
        intrinsic,
        lower_builtin,
        lower_getattr_generic,
        lower_setattr_generic,
        models,
        register_model,
        type_callable,
        unbox,
    )

    _POINTER = types.CPointer(types.int64)
    _ADDRESS = ir.IntType(64).as_pointer()

    class RecordType(types.Type):
        """A record in compiled code."""

        def __init__(self, record):
            self.record = record
            super().__init__(f"{record.__module__}.{record.__qualname__}")

    class RowsType(types.Type):
        """Records that follow one another."""

        def __init__(self, record):
            self.record = record
            super().__init__(f"rows of {record.__module__}.{record.__qualname__}")

    @register_model(RecordType)
    @register_model(RowsType)
    class _AddressModel(models.PrimitiveModel):
        def __init__(self, manager, kind):
            super().__init__(manager, kind, _ADDRESS)

    @infer_getattr
    class _RecordFields(AttributeTemplate):
        key = RecordType

        def generic_resolve(self, kind, name):
            if name in kind.record.layout:
                many = kind.record.layout[name][1]
                if not isinstance(many, _Many):
                    return types.int64
                return _POINTER if many.record is None else RowsType(many.record)
            return None

    def _number(value):
        return ir.Constant(ir.IntType(64), value)

    def _step(builder, address, count):
        return builder.gep(address, [_number(count)])

    @lower_getattr_generic(RecordType)
    def _get_field(context, builder, kind, address, name):
        at, field = kind.record.layout[name]
        found = _step(builder, address, at)
        if isinstance(field, _Bits):
            return builder.and_(builder.lshr(builder.load(found), _number(field.shift)), _number(field.mask))
        return found if field else builder.load(found)

    @lower_setattr_generic(RecordType)
    def _set_field(context, builder, signature, args, name):
        kind, _ = signature.args
        value = context.cast(builder, args[1], signature.args[1], types.int64)
        at, field = kind.record.layout[name]
        place = _step(builder, args[0], at)
        if isinstance(field, _Bits):
            kept = builder.and_(builder.load(place), _number(~(field.mask << field.shift)))
            value = builder.shl(builder.and_(value, _number(field.mask)), _number(field.shift))
            value = builder.or_(kept, value)
        builder.store(value, place)

    @type_callable(operator.getitem)
    def _type_item(context):
        def typer(rows, number):
            if isinstance(rows, RowsType) and isinstance(number, types.Integer):
                return RecordType(rows.record)
            return None

        return typer

    @lower_builtin(operator.getitem, RowsType, types.Integer)
    def _get_item(context, builder, signature, args):
        number = context.cast(builder, args[1], signature.args[1], types.int64)
        size = ir.Constant(ir.IntType(64), signature.args[0].record.size)
        return builder.gep(args[0], [builder.mul(number, size)])

    def _raw(typing, record):
        return _POINTER(record), lambda context, builder, signature, args: args[0]

    raw = intrinsic(_raw)

    @unbox(RecordType)
    def _unbox(kind, found, c):
        address = c.pyapi.object_getattr_string(found, "address")
        value = c.pyapi.long_as_voidptr(address)
        c.pyapi.decref(address)
        return NativeValue(c.builder.bitcast(value, _ADDRESS), is_error=c.pyapi.c_api_error())

    def _name(record):
        kind = RecordType(record)
        record._numba_type_ = kind

        @type_callable(record)
        def type_record(context):
            def typer(words, place=None, number=None):
                if isinstance(words, RecordType) or words == _POINTER:
                    return kind
                return None

            return typer

        def make(context, builder, signature, args):
            address = args[0]
            if len(args) > 1:
                address = builder.gep(address, [context.cast(builder, args[1], signature.args[1], types.int64)])
            if len(args) > 2:
                number = context.cast(builder, args[2], signature.args[2], types.int64)
                address = builder.gep(address, [builder.mul(number, ir.Constant(ir.IntType(64), record.size))])
            return address

        for words in (types.CPointer, RecordType):
            lower_builtin(record, words)(make)
            lower_builtin(record, words, types.Integer)(make)
            lower_builtin(record, words, types.Integer, types.Integer)(make)

    def _name_rows(rows, record):
        kind = RowsType(record)

        @type_callable(rows)
        def type_rows(context):
            def typer(words):
                return kind if words == _POINTER else None

            return typer

        @lower_builtin(rows, types.CPointer)
        def make(context, builder, signature, args):
            return args[0]

    _name_in_compiled_code = _name
    _name_rows_in_compiled_code = _name_rows
