"""Plotly's script with only what is drawn here in it.

The Python package brings the whole bundle: maps, globes, three dimensions, some forty kinds of plots. It is a list of
modules, each wrapped in a function that runs when another asks for it, and one that registers every kind of plot. Fewer
kinds are registered here, and a module that nothing asks for any more is left out. What is kept is kept to the letter.

    var A=wrap((exports,module)=>{…});var B=wrap((exports,module)=>{…A()…});…entry.register([bar(),box(),…])…
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

DRAWN = frozenset({"bar", "box"})
"""The kinds of plots that are drawn here, beside lines and points, which every bundle has."""

# How esbuild, which makes the bundle, defines the two functions that wrap modules; the first group is the name.
_WRAPPERS = (
    re.compile(r"([\w$]+)=\((\w),(\w)\)=>\(\)=>(?:\{try\{return |\()\3\|\|\2\(\(\3=\{exports:\{\}\}\)\.exports,\3\)"),
    re.compile(
        r"([\w$]+)=\((\w),(\w)(?:,\w)?\)=>\(\)=>(?:\{if\(\w\)throw \w\[0\];try\{return |\()\2&&\(\3=\2\(\2=0\)\)"
    ),
)
_BEGIN = re.compile(r"var Plotly=\(\(\)=>\{")
_END = ")();"
_REGISTERED = re.compile(r"\.register\(\[((?:[\w$]+\(\),?)+)\]\)")
_ASKED = re.compile(r"(?<![\w$.])([\w$]+)\(\)")
_KIND = re.compile(r'moduleType:"trace",name:"(\w+)"')
_PASSED_ON = re.compile(r"\.exports=([\w$]+)\(\)\}")

# Braces, and what may hold some that are none: texts, comments, and regular expressions (where no value ends).
_REGEX = r"/(?:[^\\/\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/"
_TOKEN = re.compile(
    r'"(?:[^"\\]+|\\.)*"' + r"|'(?:[^'\\]+|\\.)*'"
    r"|//[^\n]*|/\*.*?\*/"
    + rf"|(?<=[^\w$)\]}}\"'`]){_REGEX}|(?<=return){_REGEX}|(?<=typeof){_REGEX}|(?<=case){_REGEX}"
    + r"|[{}`]",
    re.DOTALL,
)
_TEMPLATE = re.compile(r"(?:[^`\\$]+|\\.|\$(?!\{))*", re.DOTALL)


class _Span(NamedTuple):
    begin: int
    end: int


def smaller_bundle(script: str, drawn: Collection[str] = DRAWN) -> str | None:
    """The script without the kinds of plots that are not drawn, or None where it does not have the form that is known.

    Args:
        script: The whole bundle, minified.
        drawn: The kinds of plots to keep, by plotly's names.
    """
    modules = _modules(script)
    listed = list(_REGISTERED.finditer(script))
    if modules is None or len(listed) != 1:
        return None
    (registered,) = listed
    names = _ASKED.findall(registered[1])
    kept_names = [name for name in names if _kind(script, modules, name) in drawn]
    entry = next((name for name, span in modules.items() if span.begin < registered.start() < span.end), None)
    if entry is None or len(kept_names) != len(drawn):
        return None

    def asked_by(texts: Iterable[str]) -> set[str]:
        return {name for text in texts for name in _ASKED.findall(text) if name in modules}

    asks = {name: asked_by([script[span.begin : span.end]]) for name, span in modules.items()}
    asks[entry] = (asks[entry] - set(names)) | set(kept_names)
    kept = _reached(asks, asked_by(_between(script, modules.values())))
    if entry not in kept:
        return None
    changes = [(_Span(*registered.span(1)), ",".join(f"{name}()" for name in kept_names))]
    changes += [(span, "0") for name, span in modules.items() if name not in kept]
    return _changed(script, changes)


def _modules(script: str) -> dict[str, _Span] | None:
    """Where each module's wrapped function stands, by the module's name; None if braces do not come out even."""
    wrappers = [found[1] for wrapper in _WRAPPERS if (found := wrapper.search(script))]
    begin = _BEGIN.search(script)
    if not wrappers or begin is None:
        return None
    start = re.compile(rf"=(?:{'|'.join(map(re.escape, wrappers))})\((?:\([\w$,]*\)|[\w$]+)=>\{{")
    starts = {found.end() - 1: found.start() for found in start.finditer(script, begin.end())}
    ends = _ends(script, begin.end(), starts.keys())
    if ends is None or ends.keys() != starts.keys():
        return None
    name = re.compile(r"[\w$]+$")
    modules = {}
    for brace, equals in starts.items():
        named = name.search(script, max(begin.end(), equals - 40), equals)
        if named is None:
            return None
        modules[named[0]] = _Span(equals + 1, ends[brace])
    return modules if len(modules) == len(starts) else None


def _ends(script: str, begin: int, starts: Collection[int]) -> dict[int, int] | None:
    """Where what opens at each of the outermost braces ends, its closing parenthesis included."""
    ends: dict[int, int] = {}
    opened: list[bool] = []  # For each open brace, whether it stands in a template.
    outermost = at = begin
    while found := _TOKEN.search(script, at):
        at = found.end()
        is_template = found[0] == "`"
        if found[0] == "{":
            outermost = outermost if opened else found.start()
            opened.append(False)
        elif found[0] == "}":
            if not opened:
                return ends if script.startswith(_END, at) else None
            is_template = opened.pop()
            if not opened and outermost in starts:
                ends[outermost] = at + len(")")
        if is_template:
            at, holds_value = _template_end(script, at)
            opened += [True] * holds_value
    return None


def _template_end(script: str, at: int) -> tuple[int, bool]:
    """Where a template's text ends, and whether it ends at a value in it, which is code again."""
    text = _TEMPLATE.match(script, at)
    end = at if text is None else text.end()
    holds_value = script.startswith("${", end)
    return end + (2 if holds_value else 1), holds_value


def _kind(script: str, modules: Mapping[str, _Span], name: str) -> str | None:
    """The kind of plot that a module brings, itself or by passing another's on."""
    for _ in range(4):
        if name not in modules:
            return None
        text = script[modules[name].begin : modules[name].end]
        if kind := _KIND.search(text):
            return kind[1]
        if (passed_on := _PASSED_ON.search(text)) is None:
            return None
        name = passed_on[1]
    return None


def _reached(asks: Mapping[str, set[str]], first: set[str]) -> set[str]:
    reached: set[str] = set()
    waiting = list(first)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += asks[name]
    return reached


def _between(script: str, spans: Iterable[_Span]) -> Iterable[str]:
    at = 0
    for span in sorted(spans):
        yield script[at : span.begin]
        at = span.end
    yield script[at:]


def _changed(script: str, changes: Iterable[tuple[_Span, str]]) -> str:
    pieces = []
    at = 0
    for span, text in sorted(changes):
        pieces += [script[at : span.begin], text]
        at = span.end
    return "".join([*pieces, script[at:]])
