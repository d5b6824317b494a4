"""Plotly's script is made smaller only where its form is known, and what is kept is kept to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest
from plotly.offline import get_plotlyjs

from headgate.render import page
from headgate.render.page import require_plotly, write_page
from headgate.render.plotly_bundle import smaller_bundle

HEAD = "var Plotly=(()=>{var W=(e,t)=>()=>(t||e((t={exports:{}}).exports,t),t.exports),E=(e,t)=>()=>(e&&(t=e(e=0)),t);"
MODULES = {
    "core": "(a,b)=>{b.exports={register(){}}}",
    "shared": "(a,b)=>{b.exports={brace:\"}\",other:'{',pattern:/[}/]{2}/,told:`{${[`}`,{}]}`}}",
    "bar0": '(a,b)=>{var s=shared();b.exports={moduleType:"trace",name:"bar"}}',
    "bar": "(a,b)=>{b.exports=bar0()}",
    "globe": '(a,b)=>{heavy();b.exports={moduleType:"trace",name:"globe"}}',
    "heavy": "(a,b)=>{b.exports=shared()}",
    "entry": "(a,b)=>{var r=core();r.register([bar(),globe()]);b.exports=r}",
}
TAIL = "return entry()})();/* }} */"


def bundle(**changes: str) -> str:
    modules = "".join(f"var {name}=W({text});" for name, text in (MODULES | changes).items())
    return f"{HEAD}{modules}{TAIL}"


def test_what_nothing_asks_for_any_more_is_left_out() -> None:
    smaller = smaller_bundle(bundle(), {"bar"})
    assert smaller is not None
    assert ";var globe=0;var heavy=0;" in smaller
    assert "r.register([bar()])" in smaller
    for name in ("core", "shared", "bar0", "bar"):
        assert f"var {name}=W({MODULES[name]});" in smaller
    assert smaller.startswith(HEAD)
    assert smaller.endswith(TAIL)


@pytest.mark.parametrize(
    ("script", "drawn"),
    [
        ("var Plotly = {};", {"bar"}),
        (bundle(), {"bar", "box"}),
        (bundle(heavy="(a,b)=>{{}"), {"bar"}),
        (bundle(other="(a,b)=>{x.register([bar()])}"), {"bar"}),
        (bundle().replace("})();", "})"), {"bar"}),
        (bundle().replace("{exports:{}}", "{}"), {"bar"}),
    ],
    ids=["no-bundle", "a-kind-it-has-not", "uneven-braces", "two-lists", "no-end", "no-wrapper"],
)
def test_a_form_that_is_not_known_is_left_alone(script: str, drawn: set[str]) -> None:
    assert smaller_bundle(script, drawn) is None


def test_the_packages_bundle_has_a_form_that_is_known() -> None:
    whole = get_plotlyjs()
    smaller = smaller_bundle(whole)
    assert smaller is not None
    assert len(smaller) < len(whole) / 3
    assert smaller.startswith(whole[:200]), "with whose work it is"
    assert smaller_bundle(smaller) == smaller


def test_what_cannot_be_made_smaller_is_carried_whole_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("plotly.offline.get_plotlyjs", lambda: "var Plotly = {}; // another form")
    assert require_plotly() == page._packed("var Plotly = {}; // another form")
    assert caplog.messages == [
        "plotly's script has a form that is not known here, so a report carries all of it and is 2 MB large."
    ]


def test_a_kind_of_plot_that_the_script_has_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'heatmap' is not drawn in reports: add it to plotly_bundle.DRAWN"):
        write_page(tmp_path / "page.html", title="", head="", sections=(), figures=[{"data": [{"type": "heatmap"}]}])
