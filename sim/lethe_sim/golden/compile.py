"""How the golden model is compiled, and how to do without.

With the environment variable ``LETHE_NO_JIT`` set to anything but nothing, or Numba's own ``NUMBA_DISABLE_JIT``,
`jit` leaves functions as they are: the model then runs in plain Python, a few hundred times slower and with the same
results.

Compiled code is cached in a directory whose name is a digest of every source it could depend on: Numba
itself looks only at the file of the outermost function, and would miss a change in what that one calls.
"""

import enum
import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from lethe.spec import capture, events, random, stages, topology, trace, wire
from lethe.spec.services import flow, relay

JIT = not os.environ.get("LETHE_NO_JIT") and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def _sources() -> str:
    """A digest of this package's sources and of the specification's constants, which are compiled in."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted(here.rglob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    for module in (capture, events, flow, relay, random, stages, topology, trace, wire):
        for name, value in sorted(vars(module).items()):
            if isinstance(value, int | tuple | dict | wire.Crc):
                digest.update(f"{name}={value}".encode())
            elif isinstance(value, enum.EnumType):
                digest.update(f"{name}={[*value.__members__.items()]}".encode())  # pyrefly: ignore[bad-argument-type]
    return digest.hexdigest()[:16]


def _cache_directory() -> str:
    """The first place that can be written: the user's choice, the user's cache, a temporary directory."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    candidates = [Path(home) / "lethe", Path(tempfile.gettempdir()) / f"lethe-{os.getuid()}"]
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        candidates.insert(0, Path(chosen))
    for candidate in candidates:
        path = candidate / f"golden-{_sources()}"
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK):
            return str(path)
    return tempfile.mkdtemp(prefix="lethe-")


def _plain(function):
    return function


def _slice(start, offset):
    return start[offset:]


def _as_it_is(function, *arguments):
    return function


class Functions:
    """Functions by name, as one argument: ``stack.step(…)``; what they are is known when the caller is compiled.

    ``name`` stands for what they do: code that was compiled for others of the same name is used for these.
    """

    def __init__(self, name: str, **functions: Any):
        self.name = name
        self.__dict__ |= functions
        _name_functions(self)


def _nothing(functions: Functions) -> None:
    """Plain Python knows them by themselves."""


_name_functions: Any = _nothing

#: A decorator: the function compiled on first call and cached on disk, or as it is with the compiler off.
jit: Any = _plain
#: The same, but never inlined, so that compiling is faster: for functions called once a message or once a cycle.
apart: Any = _plain
#: ``bound(function, *arguments)``: the function compiled for the types of these arguments.  A call of it does not look
#: up the types of its arguments, since with tuples the look-up takes longer than a cycle of a block.  So arguments of
#: other types are not noticed, and are read wrongly.
bound: Any = _as_it_is
#: ``pointer(array)``: where an array's memory begins, passed on at no cost and indexed like the array.
pointer: Any = np.asarray
#: ``at(start, offset)``: the memory from element ``offset`` on.
at: Any = _slice

if JIT:
    try:
        with warnings.catch_warnings(action="ignore"):
            import numba
            from numba import types
            from numba.core.typing.templates import AttributeTemplate
            from numba.extending import (
                NativeValue,
                infer_getattr,
                intrinsic,
                lower_getattr_generic,
                models,
                register_model,
                unbox,
            )
    except ValueError as error:
        raise OSError(f"Numba does not start: {error}; check the environment variables NUMBA_*") from None

    _config: Any = getattr(numba, "config")  # noqa: B009 (not in its type hints)
    _njit: Any = numba.njit  # its type hints lack some options
    _DIRECTORY = _cache_directory()

    def _apart(function):
        return _compiled(function, forceinline=False)

    def _name_by_content(function):
        """Give a closure a name that depends on the functions in it.

        `ports` of a system with flow and `ports` of one with relay have one text, but other functions in their cells.
        Numba links code from the disk cache by a symbol: the function's name and a number, which counts the functions
        that the process compiled.  Two processes can give both closures one symbol, and then a process that loads both
        calls the first for the second.  With the names of the cells in the symbol this cannot be.
        """
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        parts = [getattr(cell, "py_func", cell) for cell in cells]
        names = [f"{part.__module__}.{part.__qualname__}" if callable(part) else repr(part) for part in parts]
        if names:
            function.__qualname__ += "_" + hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]

    def _compiled(function, forceinline=True):
        _name_by_content(function)
        called = _dispatcher(function, forceinline, from_python=True)
        # Compiled code calls a version that Python cannot call: the code that converts the arguments was a third of the
        # compile time, and few functions are called both ways.
        inside = _dispatcher(_copy(function, f"{function.__qualname__}_inside"), forceinline, from_python=False)
        # One version for all constants that an argument may be, instead of one for each: half the compile time.
        called.get_call_template = lambda args, kws: inside.get_call_template(
            tuple(map(_plainly, args)), {name: _plainly(kind) for name, kind in kws.items()}
        )
        called.get_overload = inside.get_overload
        return called

    def _dispatcher(function, forceinline, from_python):
        kept, _config.CACHE_DIR = _config.CACHE_DIR, _DIRECTORY
        try:
            return _njit(
                # What is made of others at run time is part of its callers, which are on disk.
                cache=function.__closure__ is None,
                error_model="numpy",
                # All in one piece: a cycle is many small functions, and calls with arguments were a quarter of it.
                forceinline=forceinline,
                no_cfunc_wrapper=True,
                no_cpython_wrapper=not from_python,
            )(function)
        finally:
            _config.CACHE_DIR = kept

    def _copy(function, qualname):
        copy = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__module__, copy.__qualname__ = function.__module__, qualname
        return copy

    def _plainly(kind):
        return kind.dtype if isinstance(kind, types.IntEnumMember) else types.unliteral(kind)

    def _bound(function, *arguments):
        kinds = tuple(map(numba.typeof, arguments))
        function.compile(kinds)
        return function.overloads[kinds].entry_point

    def _pointer(typing, array):
        def generate(context, builder, signature, args):
            return context.make_array(signature.args[0])(context, builder, args[0]).data

        return types.CPointer(array.dtype)(array), generate

    def _at(typing, start, offset):
        def generate(context, builder, signature, args):
            return builder.gep(args[0], [args[1]])

        return start(start, types.intp), generate

    _FUNCTIONS: dict[str, Functions] = {}

    class FunctionsType(types.Type):
        """`Functions` in compiled code: a name."""

    register_model(FunctionsType)(models.OpaqueModel)

    @infer_getattr
    class _ByName(AttributeTemplate):
        key = FunctionsType

        def generic_resolve(self, kind, name):
            return self.context.resolve_value_type(getattr(_FUNCTIONS[kind.name], name))

    @lower_getattr_generic(FunctionsType)
    def _get_function(context, builder, kind, value, name):
        return context.get_dummy_value()

    @unbox(FunctionsType)
    def _unbox(kind, found, c):
        return NativeValue(c.context.get_dummy_value())

    def _name(functions):
        functions._numba_type_ = FunctionsType(functions.name)
        _FUNCTIONS[functions.name] = functions

    _name_functions = _name
    jit, apart, bound, pointer, at = _compiled, _apart, _bound, intrinsic(_pointer), intrinsic(_at)
