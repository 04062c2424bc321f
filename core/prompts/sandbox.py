"""Templates by unknown authors: a small part of Jinja2, which can neither run code nor grow a text.

A template is checked before it is compiled: whatever is not listed here is refused with its line. What is left reads
values, their fields and their parts, and writes them; a rendering is bounded in loops and in characters.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from itertools import count
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from core.errors import UsageError

MAX_SOURCE = 200_000
"""Characters of a template."""
STEPS = 50_000
"""Iterations of all loops in one rendering."""
CHARACTERS = 20_000_000
"""Characters of one rendering."""
MAX_DEPTH = 3
"""Loops inside each other."""
BREAKS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError, MemoryError)
"""Errors of a template that does not fit its values."""
_STATEMENTS = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign)
_EXPRESSIONS = (
    *(nodes.Name, nodes.Const, nodes.Getattr, nodes.Getitem, nodes.Tuple, nodes.CondExpr, nodes.Not, nodes.And),
    *(nodes.Or, nodes.Test, nodes.Compare, nodes.Operand, nodes.Filter),
)
_VALUES = (nodes.Name, nodes.Getattr, nodes.Getitem)
_COMPARISONS = ("eq", "ne", "lt", "lteq", "gt", "gteq")
_WRITABLE = (str, int, float, list, tuple, type(None), jinja2.Undefined)
_steps: ContextVar[Iterator[int]] = ContextVar("steps")


def _text(value: Any) -> str:
    if not isinstance(value, _WRITABLE):
        raise SecurityError(f"it writes a {type(value).__name__}, which is neither a text nor a number.")
    return str(value)


def _join(value: Iterable[Any], between: str = "") -> str:
    texts = [_text(part) for part in value]
    if sum(map(len, texts)) + len(between) * len(texts) > CHARACTERS:
        raise SecurityError(f"it writes more than {CHARACTERS:,} characters.")
    return between.join(texts)


def _counted(items: Iterable[Any]) -> Iterator[Any]:
    steps = _steps.get()
    for item in items:
        if next(steps) >= STEPS:
            raise SecurityError(f"its loops take more than {STEPS:,} steps.")
        yield item


ENVIRONMENT: Final[jinja2.Environment] = ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True, finalize=_text
)
"""The environment of all templates; a line with only a block tag leaves no empty line."""
ENVIRONMENT.filters = {"join": _join, "length": len, "_counted": _counted}
ENVIRONMENT.tests = {"none": lambda value: value is None}
ENVIRONMENT.globals = {}


def _fault(node: nodes.Node, *, written: bool) -> str:
    """Return what a template may not do, or an empty text; ``written``: the value of the node is written at once."""
    match node:
        case nodes.Getattr(attr=str(name)) | nodes.Getitem(arg=nodes.Const(value=str(name))):
            return f"the private name {name!r}" if name.startswith("_") else ""
        case nodes.Getitem(arg=nodes.Const(value=int())):
            return ""
        case nodes.Getitem():
            return "an index that is neither a number nor a name"
        case nodes.Tuple(ctx="load"):
            return "a list of values"
        case nodes.Test(name=name, args=args) if name != "none" or args:
            return f"the test {name!r}"
        case nodes.Operand(op=op) if op not in _COMPARISONS:
            return f"the comparison {op!r}"
        case nodes.For(recursive=True):
            return "a recursive loop"
        case nodes.For(iter=items) if not isinstance(items, _VALUES):
            return "a loop over something other than a value"
        case nodes.Filter(name="length", node=value, args=[]) if isinstance(value, _VALUES):
            return "" if not (node.kwargs or node.dyn_args or node.dyn_kwargs) else "an argument of a filter"
        case nodes.Filter(name="join", node=value, args=[] | [nodes.Const(value=str())]) if isinstance(value, _VALUES):
            if node.kwargs or node.dyn_args or node.dyn_kwargs:
                return "an argument of a filter"
            return "" if written else "a join whose text is not written at once"
        # packs copied from a release name specialties by a table: {"Cardiology": "Heart"}.get(specialty, specialty)
        case nodes.Call(
            node=nodes.Getattr(node=nodes.Dict(), attr="get"), args=[nodes.Name(), nodes.Name()], kwargs=[]
        ):
            return "an argument of a table" if node.dyn_args or node.dyn_kwargs else ""
        case nodes.Pair(key=nodes.Const(), value=nodes.Const()) | nodes.Dict():
            return ""
        case nodes.Filter(name=name):
            return f"the filter {name!r} here"
    return "" if isinstance(node, _STATEMENTS + _EXPRESSIONS) else type(node).__name__


def _check(node: nodes.Node, depth: int = 0, line: int = 1, *, written: bool = False) -> None:
    """Raise ``SecurityError`` for the first part of a template that is not allowed, and count the other loops."""
    line = getattr(node, "lineno", None) or line  # an operator has no line
    if fault := _fault(node, written=written):
        raise SecurityError(
            f"line {line} uses {fault}: a prompt has values with their fields and indexes, if, "
            "for, set, comparisons, not, and, or, `is none`, join and length."
        )
    if isinstance(node, nodes.For):
        depth += 1
        if depth > MAX_DEPTH:
            raise SecurityError(f"line {node.lineno} has more than {MAX_DEPTH} loops inside each other.")
    for child in node.iter_child_nodes():
        is_written = isinstance(node, nodes.Output) or (written and isinstance(node, nodes.CondExpr))
        _check(child, depth, line, written=is_written)
    if isinstance(node, nodes.For):
        assert isinstance(node.iter, nodes.Expr)
        node.iter = nodes.Filter(node.iter, "_counted", [], [], None, None, lineno=line, environment=node.environment)


@functools.cache
def compiled(source: str) -> jinja2.Template:
    """Compile a template.

    Raises:
        SecurityError: The template uses more of Jinja2 than prompts may.
        TemplateSyntaxError: The template is invalid Jinja2.
    """
    if len(source) > MAX_SOURCE:
        raise SecurityError(f"it has more than {MAX_SOURCE:,} characters.")
    try:
        tree = ENVIRONMENT.parse(source)
        _check(tree)
        return ENVIRONMENT.from_string(tree)
    except (*BREAKS, SyntaxError) as error:  # a SyntaxError of the generated Python code
        raise jinja2.TemplateSyntaxError(f"it cannot be translated ({error})", 1) from error


def rendered(template: jinja2.Template, name: str, values: Mapping[str, Any]) -> str:
    """Render a template; raise ``UsageError`` if it is unsafe or fails."""
    token = _steps.set(count())
    pieces, characters = [], 0
    try:
        for piece in template.generate(**values):
            pieces.append(piece)
            characters += len(piece)
            if characters > CHARACTERS:
                raise SecurityError(f"it writes more than {CHARACTERS:,} characters.")
    except SecurityError as error:
        raise UsageError(f"{name} is no safe template: {error}") from error
    except (jinja2.TemplateError, *BREAKS) as error:
        raise UsageError(f"{name} cannot be filled in: {error}") from error
    finally:
        _steps.reset(token)
    return "".join(pieces)
