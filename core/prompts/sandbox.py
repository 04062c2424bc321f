"""A sandbox for templates by unknown authors: they see only their values and finish quickly.

Jinja2's sandbox isolates a template from the program but bounds neither time nor memory. This module counts loops and
calls, measures output, and refuses operations that would turn a few letters into a text of any length.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.nodes import EvalContext
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from core.errors import UsageError

STEPS = 50_000
"""Loop iterations and calls in one rendering."""
CHARACTERS = 20_000_000
"""Characters written in one rendering, intermediate texts included."""
MAX_LENGTH = 5_000_000
"""Characters of a text, or items of a collection."""
MAX_ITEMS = 200_000
"""Items of a list, nested lists included."""
_MAX_NUMBER = 10_000
"""Largest width or count."""
BREAKS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, MemoryError)
"""Errors of a template that does not fit its values."""
_GROWING = ("batch", "center", "format", "indent", "join", "replace", "slice", "truncate", "urlize", "wordwrap")
_WIDE = re.compile(r"\d{5}")
_SIZED = (str, bytes, list, tuple, dict)
_MAX_INDENT = 16
_METHODS = frozenset(
    (
        "capitalize casefold count endswith find format format_map index isalnum isalpha isascii isdecimal isdigit "
        "islower isnumeric isspace istitle isupper lower lstrip partition removeprefix removesuffix replace rfind "
        "rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper"
    ).split()
)
"""Methods of a text that a template may call.

Others (``translate``, ``expandtabs``, ``join``, ``zfill``) can turn a few letters into a text of any length, or a text
into bytes.
"""


@dataclass
class _Spent:
    steps: int = 0
    characters: int = 0


_spent: ContextVar[_Spent | None] = ContextVar("spent", default=None)


def _charge(*, steps: int = 0, characters: int = 0) -> None:
    spent = _spent.get()
    if spent is None:  # a constant expression during compilation
        return
    spent.steps += steps
    spent.characters += characters
    if spent.steps > STEPS:
        raise SecurityError(f"its loops and calls take more than {STEPS:,} steps.")
    if spent.characters > CHARACTERS:
        raise SecurityError(f"it writes more than {CHARACTERS:,} characters.")


def _bounded(value: Any) -> Any:
    if isinstance(value, _SIZED) and len(value) > MAX_LENGTH:
        raise SecurityError(f"it makes a value longer than {MAX_LENGTH:,}.")
    return value


def _weighed(value: Any) -> Any:
    """Return a value after a check of its total size; a few nested lists can contain one text a million times."""
    if not isinstance(value, list | tuple | dict):
        return value
    weight, parts, waiting = 0, 0, [value]
    while waiting:
        container = waiting.pop()
        inner = [*container, *container.values()] if isinstance(container, dict) else container
        parts += len(inner)
        if parts > MAX_ITEMS:
            raise SecurityError(f"it makes lists of more than {MAX_ITEMS:,} things.")
        for part in inner:
            weight += 2 + (len(part) if isinstance(part, str | bytes) else 2)
            if isinstance(part, list | tuple | dict):
                waiting.append(part)
            if weight > MAX_LENGTH:
                raise SecurityError(f"it makes a value longer than {MAX_LENGTH:,}.")
    return value


def _made(value: Any) -> Any:
    """Return a list or dict of the template, and count it as a step, so that none can double itself forever."""
    _charge(steps=1)
    return _weighed(value)


def _text(value: Any) -> str:
    return str(_bounded(_weighed(value)))


def _grows(value: Any, arguments: Iterable[Any]) -> None:
    """Refuse arguments (widths, counts, inserted words) that would make ``value`` very much longer."""
    size = len(value) if isinstance(value, _SIZED) else 1
    for argument in arguments:
        if isinstance(argument, int) and abs(argument) > _MAX_NUMBER:
            raise SecurityError(f"{argument:,} is too wide, or too often.")
        if size * (len(argument) if isinstance(argument, str) else 1) > CHARACTERS:
            raise SecurityError(f"it makes a value longer than {MAX_LENGTH:,}.")
    if isinstance(value, str) and _WIDE.search(value) and any(sign in value for sign in "%{"):
        raise SecurityError("it formats a value wider than anybody reads.")


def _guarded(name: str, do: Callable[..., Any]) -> Callable[..., Any]:
    """Return the filter with checks of its arguments and its result."""

    @functools.wraps(do)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        at = int(bool(args) and isinstance(args[0], Context | EvalContext | jinja2.Environment))
        for argument in (*args[at:], *kwargs.values()):
            _weighed(argument)
        widths = (*args[at + 1 :], *kwargs.values())
        if name in ("tojson", "indent") and any(isinstance(n, int) and n > _MAX_INDENT for n in widths):
            raise SecurityError(f"an indent is at most {_MAX_INDENT}.")
        if name in _GROWING and len(args) > at:
            value = args[at]
            if name == "join" and not isinstance(value, str):
                value = list(islice(value, STEPS + 1))
                args = (*args[:at], value, *args[at + 1 :])
                _charge(steps=len(value), characters=sum(len(item) for item in value if isinstance(item, str)))
            _grows(value, (*args[at + 1 :], *kwargs.values()))
        return _bounded(do(*args, **kwargs))

    return guarded


def _counted(items: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield the items of a loop, and count each iteration with the ``size`` of its literal text."""
    for item in items:
        _charge(steps=1, characters=size)
        yield item


def _written(value: Any) -> str:
    text = value if isinstance(value, str) else _text(value)
    _charge(characters=len(text))
    return text


class _Watched(NodeTransformer):
    """Inserts the counting filters into a template: around loop iterables, concatenations, lists and dicts."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self._environment = environment

    def visit_For(self, node: nodes.For) -> nodes.Node:
        size = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
        assert isinstance(node.iter, nodes.Expr)
        node.iter = self._filter(node.iter, "_counted", nodes.Const(size))
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        concat = self.generic_visit(node)
        assert isinstance(concat, nodes.Concat)
        concat.nodes = [self._filter(part, "_text") for part in concat.nodes]
        return self._filter(concat, "_bounded")

    def _counted(self, node: nodes.Expr) -> nodes.Node:
        literal = self.generic_visit(node)
        assert isinstance(literal, nodes.Expr)
        # the target of `{% set a, b = … %}` is a tuple that nothing is read from
        return literal if getattr(literal, "ctx", "load") != "load" else self._filter(literal, "_made")

    visit_List = visit_Tuple = visit_Dict = _counted

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:
        node.filter = self._filter(node.filter, "_bounded")
        return self.generic_visit(node)

    def _filter(self, node: nodes.Expr | None, name: str, *arguments: nodes.Expr) -> nodes.Filter:
        line = getattr(node, "lineno", 1)
        return nodes.Filter(node, name, list(arguments), [], None, None, lineno=line, environment=self._environment)


class _BoundedEnvironment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        template = _Watched(self).visit(super()._parse(source, name, filename))
        assert isinstance(template, nodes.Template)
        return template

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _weighed(left), _weighed(right)
        numbers = [abs(operand) for operand in (left, right) if isinstance(operand, int)]
        if operator == "%":
            _grows(left, right if isinstance(right, tuple) else (right,))
        elif operator == "*" and len(numbers) == 1:
            if (
                numbers[0] * max(len(operand) if isinstance(operand, _SIZED) else 1 for operand in (left, right))
                > MAX_LENGTH
            ):
                raise SecurityError(f"{numbers[0]:,} times is too often.")
        elif len(numbers) == 2 and operator in ("*", "**"):
            bits = numbers[0].bit_length() * (numbers[1] if operator == "**" else 1) + numbers[1].bit_length()
            if bits > _MAX_NUMBER:
                raise SecurityError("it makes a number longer than anybody reads.")
        return _bounded(super().call_binop(context, operator, left, right))

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        _charge(steps=1)
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str | bytes):
            if getattr(obj, "__name__", "") not in _METHODS:
                raise SecurityError(f"a prompt cannot call {getattr(obj, '__name__', 'this')!r} of a text.")
            _grows(owner, (*args, *kwargs.values()))
        for argument in (*args, *kwargs.values()):
            _weighed(argument)
        return _bounded(super().call(context, obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        formatter = super().wrap_str_format(value)
        if formatter is None:
            return None

        def filled(*args: Any, **kwargs: Any) -> str:
            _grows(value.__self__, (*args, *kwargs.values()))
            return formatter(*args, **kwargs)

        return filled


ENVIRONMENT: Final[jinja2.Environment] = _BoundedEnvironment(
    undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, finalize=_written
)
"""The environment of all templates; a line with only a block tag leaves no empty line."""
ENVIRONMENT.filters = {name: _guarded(name, do) for name, do in ENVIRONMENT.filters.items()}
ENVIRONMENT.filters |= {"_counted": _counted, "_bounded": _bounded, "_made": _made, "_text": _text}
del ENVIRONMENT.globals["lipsum"]


@functools.cache
def compiled(source: str) -> jinja2.Template:
    """Compile a template.

    Obvious access to private names is refused here, any other when the template is rendered.

    Raises:
        SecurityError: The template uses a private name.
        TemplateSyntaxError: The template is invalid Jinja2.
    """
    try:
        tree = ENVIRONMENT.parse(source)
        template = ENVIRONMENT.from_string(source)
    except (*BREAKS, SyntaxError) as error:  # a SyntaxError of the generated Python code
        raise jinja2.TemplateSyntaxError(f"it cannot be translated ({error})", 1) from error
    names = [node.attr for node in tree.find_all(nodes.Getattr)]
    names += [str(node.arg.value) for node in tree.find_all(nodes.Getitem) if isinstance(node.arg, nodes.Const)]
    private = next((name for name in names if name.startswith("_")), None)
    if private is not None:
        raise SecurityError(f"a prompt cannot use {private!r}.")
    return template


def rendered(template: jinja2.Template, name: str, values: Mapping[str, Any]) -> str:
    """Render a template; raise ``UsageError`` if it is unsafe or fails."""
    token = _spent.set(_Spent())
    try:
        return template.render(**values)
    except SecurityError as error:
        raise UsageError(f"{name} is no safe template: {error}") from error
    except (jinja2.TemplateError, *BREAKS) as error:
        raise UsageError(f"{name} cannot be filled in: {error}") from error
    finally:
        _spent.reset(token)
