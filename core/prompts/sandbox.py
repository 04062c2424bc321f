"""Templates that anybody may have written: they see their values and nothing else, and end soon, whatever they say.

Jinja2's sandbox keeps a template from the program around it. It bounds neither time nor memory: here loops and calls
are counted, what is written is measured, and what would make a text of any length out of a few letters is refused
before it does.
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
"""Rounds of loops, and calls, of one filling in."""
CHARACTERS = 20_000_000
"""Written in one filling in, also into what is written in turn."""
LONGEST = 5_000_000
"""Characters of a value, or things in it."""
MOST_PARTS = 200_000
"""Things in a list and in all lists within it."""
_WIDEST = 10_000
"""A number that says how often or how wide."""
BREAKS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, MemoryError)
"""What a template may come to that is not made for what it is given."""
_GROWING = ("batch", "center", "format", "indent", "join", "replace", "slice", "truncate", "urlize", "wordwrap")
_WIDE = re.compile(r"\d{5}")
_SIZED = (str, bytes, list, tuple, dict)
_WIDEST_INDENT = 16
_METHODS = frozenset(
    (
        "capitalize casefold count endswith find format format_map index isalnum isalpha isascii isdecimal isdigit "
        "islower isnumeric isspace istitle isupper lower lstrip partition removeprefix removesuffix replace rfind "
        "rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper"
    ).split()
)
"""Methods of a text that a template may call; others (``translate``, ``expandtabs``, ``join``, ``zfill``) can make a
text of any length out of a few letters, or turn it into bytes."""


@dataclass
class _Spent:
    steps: int = 0
    characters: int = 0


_spent: ContextVar[_Spent | None] = ContextVar("spent", default=None)


def _charge(*, steps: int = 0, characters: int = 0) -> None:
    spent = _spent.get()
    if spent is None:  # a constant, while the template is translated
        return
    spent.steps += steps
    spent.characters += characters
    if spent.steps > STEPS:
        raise SecurityError(f"its loops and calls take more than {STEPS:,} steps.")
    if spent.characters > CHARACTERS:
        raise SecurityError(f"it writes more than {CHARACTERS:,} characters.")


def _bounded(value: Any) -> Any:
    if isinstance(value, _SIZED) and len(value) > LONGEST:
        raise SecurityError(f"it makes a value longer than {LONGEST:,}.")
    return value


def _weighed(value: Any) -> Any:
    """Return a value whose text would not be too long; a few lists in each other can hold one text a million times."""
    if not isinstance(value, list | tuple | dict):
        return value
    weight, parts, waiting = 0, 0, [value]
    while waiting:
        container = waiting.pop()
        inner = [*container, *container.values()] if isinstance(container, dict) else container
        parts += len(inner)
        if parts > MOST_PARTS:
            raise SecurityError(f"it makes lists of more than {MOST_PARTS:,} things.")
        for part in inner:
            weight += 2 + (len(part) if isinstance(part, str | bytes) else 2)
            if isinstance(part, list | tuple | dict):
                waiting.append(part)
            if weight > LONGEST:
                raise SecurityError(f"it makes a value longer than {LONGEST:,}.")
    return value


def _made(value: Any) -> Any:
    """Return a list or table that the template makes, and count what is in it: so none doubles itself for ever."""
    _charge(steps=1)
    return _weighed(value)


def _text(value: Any) -> str:
    return str(_bounded(_weighed(value)))


def _grows(value: Any, given: Iterable[Any]) -> None:
    """Refuse what would make ``value`` very much longer by what else is given: widths, counts, words put in."""
    size = len(value) if isinstance(value, _SIZED) else 1
    for one in given:
        if isinstance(one, int) and abs(one) > _WIDEST:
            raise SecurityError(f"{one:,} is too wide, or too often.")
        if size * (len(one) if isinstance(one, str) else 1) > CHARACTERS:
            raise SecurityError(f"it makes a value longer than {LONGEST:,}.")
    if isinstance(value, str) and _WIDE.search(value) and any(sign in value for sign in "%{"):
        raise SecurityError("it formats a value wider than anybody reads.")


def _guarded(name: str, do: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that makes nothing of any length."""

    @functools.wraps(do)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        at = int(bool(args) and isinstance(args[0], Context | EvalContext | jinja2.Environment))
        for given in (*args[at:], *kwargs.values()):
            _weighed(given)
        widths = (*args[at + 1 :], *kwargs.values())
        if name in ("tojson", "indent") and any(isinstance(n, int) and n > _WIDEST_INDENT for n in widths):
            raise SecurityError(f"an indent is at most {_WIDEST_INDENT}.")
        if name in _GROWING and len(args) > at:
            value = args[at]
            if name == "join" and not isinstance(value, str):
                value = list(islice(value, STEPS + 1))
                args = (*args[:at], value, *args[at + 1 :])
                _charge(steps=len(value), characters=sum(len(one) for one in value if isinstance(one, str)))
            _grows(value, (*args[at + 1 :], *kwargs.values()))
        return _bounded(do(*args, **kwargs))

    return guarded


def _counted(some: Iterable[Any], size: int) -> Iterator[Any]:
    """Yield what a loop goes over, and count its rounds, each with what stands in it."""
    for one in some:
        _charge(steps=1, characters=size)
        yield one


def _written(value: Any) -> str:
    text = value if isinstance(value, str) else _text(value)
    _charge(characters=len(text))
    return text


class _Watched(NodeTransformer):
    """Puts the counting into a template: around what loops go over, and what texts are put together to."""

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
        made = self.generic_visit(node)
        assert isinstance(made, nodes.Expr)
        # the target of `{% set a, b = … %}` is a tuple that nothing is read from
        return made if getattr(made, "ctx", "load") != "load" else self._filter(made, "_made")

    visit_List = visit_Tuple = visit_Dict = _counted

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:
        node.filter = self._filter(node.filter, "_bounded")
        return self.generic_visit(node)

    def _filter(self, node: nodes.Expr | None, name: str, *given: nodes.Expr) -> nodes.Filter:
        line = getattr(node, "lineno", 1)
        return nodes.Filter(node, name, list(given), [], None, None, lineno=line, environment=self._environment)


class _Bounded(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        found = _Watched(self).visit(super()._parse(source, name, filename))
        assert isinstance(found, nodes.Template)
        return found

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _weighed(left), _weighed(right)
        numbers = [abs(one) for one in (left, right) if isinstance(one, int)]
        if operator == "%":
            _grows(left, right if isinstance(right, tuple) else (right,))
        elif operator == "*" and len(numbers) == 1:
            if numbers[0] * max(len(one) if isinstance(one, _SIZED) else 1 for one in (left, right)) > LONGEST:
                raise SecurityError(f"{numbers[0]:,} times is too often.")
        elif len(numbers) == 2 and operator in ("*", "**"):
            bits = numbers[0].bit_length() * (numbers[1] if operator == "**" else 1) + numbers[1].bit_length()
            if bits > _WIDEST:
                raise SecurityError("it makes a number longer than anybody reads.")
        return _bounded(super().call_binop(context, operator, left, right))

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        _charge(steps=1)
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str | bytes):
            if getattr(obj, "__name__", "") not in _METHODS:
                raise SecurityError(f"a prompt cannot call {getattr(obj, '__name__', 'this')!r} of a text.")
            _grows(owner, (*args, *kwargs.values()))
        for given in (*args, *kwargs.values()):
            _weighed(given)
        return _bounded(super().call(context, obj, *args, **kwargs))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        found = super().wrap_str_format(value)
        if found is None:
            return None

        def filled(*args: Any, **kwargs: Any) -> str:
            _grows(value.__self__, (*args, *kwargs.values()))
            return found(*args, **kwargs)

        return filled


ENVIRONMENT: Final[jinja2.Environment] = _Bounded(
    undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, finalize=_written
)
"""How templates are read: a line with nothing but a block leaves no empty line behind."""
ENVIRONMENT.filters = {name: _guarded(name, do) for name, do in ENVIRONMENT.filters.items()}
ENVIRONMENT.filters |= {"_counted": _counted, "_bounded": _bounded, "_made": _made, "_text": _text}
del ENVIRONMENT.globals["lipsum"]


@functools.cache
def compiled(source: str) -> jinja2.Template:
    """Compile a template; what it must not reach is refused here where it is plain to see, else where it is filled in.

    Raises jinja2's ``SecurityError`` and ``TemplateSyntaxError``.
    """
    try:
        tree = ENVIRONMENT.parse(source)
        template = ENVIRONMENT.from_string(source)
    except (*BREAKS, SyntaxError) as error:  # of Python, into which it is translated
        raise jinja2.TemplateSyntaxError(f"it cannot be translated ({error})", 1) from error
    names = [node.attr for node in tree.find_all(nodes.Getattr)]
    names += [str(node.arg.value) for node in tree.find_all(nodes.Getitem) if isinstance(node.arg, nodes.Const)]
    private = next((name for name in names if name.startswith("_")), None)
    if private is not None:
        raise SecurityError(f"a prompt cannot use {private!r}.")
    return template


def rendered(template: jinja2.Template, name: str, values: Mapping[str, Any]) -> str:
    """Fill in a template; raise ``UsageError`` where it reaches for what is no value of the prompt, or breaks."""
    token = _spent.set(_Spent())
    try:
        return template.render(**values)
    except SecurityError as error:
        raise UsageError(f"{name} is no safe template: {error}") from error
    except (jinja2.TemplateError, *BREAKS) as error:
        raise UsageError(f"{name} cannot be filled in: {error}") from error
    finally:
        _spent.reset(token)
