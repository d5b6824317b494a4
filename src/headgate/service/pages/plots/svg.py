"""Elements of SVG as text that needs no further escaping."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape


def element(name: str, *content: str, **attributes: str | float | None) -> Markup:
    """An element; attributes that are ``None`` are left out, ``_`` stands for a dash and one at the end for nothing.

    >>> element("text", "a < b", class_="tick", text_anchor="end", x=1.25)
    Markup('<text class="tick" text-anchor="end" x="1.25">a &lt; b</text>')
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(number(value) if isinstance(value, int | float) else value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{Markup().join(escape(part) for part in content)}</{name}>")


def number(value: float) -> str:
    """A coordinate: a tenth of a unit is less than a pixel of any screen.

    >>> number(12.0), number(12.345)
    ('12', '12.3')
    """
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:.1f}".removesuffix(".0")


def points(pairs: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in pairs)


def percent(share: float) -> str:
    return f"{number(100 * share)}%"
