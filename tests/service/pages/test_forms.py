"""Every form: what it would do is shown first, done when it is confirmed, and refused without a token or a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest

from headgate.service.config.model import AccessRules
from headgate.service.gate import COOKIE, csrf_of
from headgate.service.pages.changing import DONE
from headgate.service.pages.forms import FORMS
from headgate.service.store.changes import ChangeKind, JobChange
from tests.service.services import Served, served

HTML = {"Accept": "text/html"}
RULES = """\
rules:
  - name: queue too long
    scale_out: count
    by: 2
    never_above: 4
    when: {metric: backlog, above: 100, for_at_least: 10s}
"""
FILLED: dict[str, dict[str, str]] = {
    "pause": {"direction": "in", "operator": "*", "lasts": "30m"},
    "size": {"operator": "count", "size": "3", "lasts": "10m"},
    "mode": {"mode": "recommend", "lasts": ""},
    "bounds": {"operator": "count", "fewest": "2", "most": "6"},
    "objective": {"objective": "latency p99 < 5s"},
    "policy": {"policy": "hpa", "settings": "scale_in_window_s = 2m"},
    "settings": {"settings": "idle_for_s = 2m", "guards": ""},
    "period": {"name": "office", "operator": "*", "forbid": "scale in", "during": "* 8-17 * * mon-fri"},
    "rules": {"rules": RULES},
}


@pytest.fixture
def service() -> Iterator[Served]:
    with served() as running:
        yield running


class Browser:
    """A signed-in user with a cookie and the CSRF token of a page."""

    def __init__(self, service: Served, who: str = "operator") -> None:
        self._service = service
        self._secret = service.tokens[who]
        self.headers = {**HTML, "Cookie": f"{COOKIE}={self._secret}", "Origin": "http://127.0.0.1"}

    def send(self, form: str, step: str = "", **fields: str) -> tuple[int, str]:
        values = {"csrf": csrf_of(self._secret), "form": form, "why": "a test", "step": step, **fields}
        answer = self._service.client().post("/jobs/clicks/change", data=values, headers=self.headers)
        return answer.status_code, answer.headers.get("location", answer.text)


def in_force(service: Served) -> tuple[JobChange, ...]:
    return service.service.fleet.job("clicks").changes


def test_the_page_has_every_form_for_who_may_operate(service: Served) -> None:
    answer = service.client().get("/jobs/clicks/change", headers=Browser(service).headers)
    assert answer.status_code == 200
    assert {*re.findall(r'name="form" value="(\w+)"', answer.text)} == {*FORMS} - {"revert", "resume"}


def test_every_form_is_tried_and_has_something_to_say_when_it_was_done() -> None:
    assert {*FILLED, "resume", "revert"} == {*FORMS} == {*DONE}


@pytest.mark.parametrize("form", FILLED)
def test_a_form_shows_what_it_would_do_and_does_it_when_confirmed(service: Served, form: str) -> None:
    browser = Browser(service)
    status, text = browser.send(form, **FILLED[form])
    assert status == 200
    assert "Is this what you mean?" in text
    assert in_force(service) == ()
    # What the page sends on is what was filled in.
    sent = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', text))
    for name, value in FILLED[form].items():
        if "\n" not in value:
            assert unescape(sent[name]) == value
    status, text = browser.send(form, "do", **FILLED[form])
    assert (status, text) == (303, f"/jobs/clicks?done={form}")
    assert [change.who for change in in_force(service)] == ["operator"]
    entry = service.service.store.audit.entries(job="clicks")[-1]
    assert (entry.who, entry.why) == ("operator", "a test")
    shown = service.client().get(f"/jobs/clicks?done={form}", headers=HTML).text
    assert DONE[form] in shown
    assert "a test" in shown


def test_resuming_ends_pauses_and_says_when_there_is_none(service: Served) -> None:
    browser, job = Browser(service), service.service.fleet.job("clicks")
    status, text = browser.send("resume", operator="*")
    assert status == 400
    assert "nothing to resume" in text
    browser.send("pause", "do", **FILLED["pause"])
    assert browser.send("resume", operator="*")[0] == 200
    assert browser.send("resume", "do", operator="*")[0] == 303
    assert job.changes == ()


def test_a_change_is_taken_back(service: Served) -> None:
    browser, job = Browser(service), service.service.fleet.job("clicks")
    browser.send("mode", "do", mode="recommend")
    assert str(job.spec.mode) == "recommend"
    assert browser.send("revert", kind="mode", name="")[0] == 200
    assert browser.send("revert", "do", kind="mode", name="")[0] == 303
    assert str(job.spec.mode) == "act"
    assert browser.send("revert", kind="mode", name="")[0] == 400


def test_forms_change_what_they_say(service: Served) -> None:
    browser, job = Browser(service), service.service.fleet.job("clicks")
    for form in ("bounds", "objective", "policy", "period", "pause", "size"):
        assert browser.send(form, "do", **FILLED[form])[0] == 303, form
    found = {change.kind: change for change in job.changes}
    assert job.spec.operator("count").max_instances == 6
    assert str(job.spec.end_to_end) == "latency p99 < 5s"
    assert job.spec.policy == "hpa"
    assert job.spec.settings == {"scale_in_window_s": "2m"}
    assert job.spec.constraints[0].name == "office"
    assert found[ChangeKind.SIZE].body == {"size": 3}
    assert found[ChangeKind.PAUSE].until_s is not None


@pytest.mark.parametrize(
    ("form", "fields", "message"),
    [
        ("pause", {"direction": "sideways"}, "direction"),
        ("pause", {"lasts": "a while"}, "a while"),
        ("pause", {"operator": "cuont"}, "cuont"),
        ("pause", {"why": " "}, "why"),
        ("size", {"operator": "count", "size": "99", "lasts": "10m"}, "99"),
        ("size", {"operator": "count", "size": "3", "lasts": ""}, "lasts"),
        ("size", {"operator": "count", "size": "many", "lasts": "1m"}, "many"),
        ("bounds", {"operator": "count", "fewest": "5", "most": "2"}, "2"),
        ("bounds", {"operator": "count", "fewest": "", "most": "2"}, "needed"),
        ("bounds", {"operator": "cuont", "fewest": "1", "most": "2"}, "cuont"),
        ("objective", {"objective": "latency p95 > 10"}, "latency p95"),
        ("policy", {"policy": "hpo"}, "hpo"),
        ("policy", {"policy": "hpa", "settings": "no setting"}, "key = value"),
        ("policy", {"policy": "hpa", "settings": "speed = 3"}, "speed"),
        ("policy", {"policy": "rules", "settings": "file = /etc/passwd"}, "names a file"),
        ("settings", {"settings": ""}, "nothing was filled in"),
        ("period", {"name": "", "during": ""}, "needs one"),
        ("period", {"name": "x", "operator": "*", "forbid": "any scaling", "during": "at noon"}, "at noon"),
        ("rules", {"rules": "rules: [{nmae: x}]"}, "nmae"),
        ("launch", {}, "launch"),
    ],
)
def test_a_form_that_cannot_be_used_says_why_and_changes_nothing(
    service: Served, form: str, fields: dict[str, str], message: str
) -> None:
    browser, job = Browser(service), service.service.fleet.job("clicks")
    for step in ("", "do"):
        status, text = browser.send(form, step, **fields)
        assert status == 400
        problem = re.search(r'<p class="notice problem" role="alert">(.*?)</p>', text, re.DOTALL)
        assert problem is not None
        assert message in problem[1]
    assert job.changes == ()


def test_without_a_token_nothing_is_changed(service: Served) -> None:
    values = {"form": "pause", "why": "a test", "step": "do", **FILLED["pause"]}
    answer = service.client().post("/jobs/clicks/change", data=values, headers=HTML)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/login?next=")
    assert service.service.fleet.job("clicks").changes == ()


def test_who_may_only_read_changes_nothing(service: Served) -> None:
    status, text = Browser(service, "reader").send("pause", "do", **FILLED["pause"])
    assert status == 403
    assert "Not allowed" in text
    assert service.service.fleet.job("clicks").changes == ()


@pytest.mark.parametrize("wrong", [{"csrf": "guessed"}, {"csrf": ""}])
def test_a_form_that_is_not_of_this_service_changes_nothing(service: Served, wrong: dict[str, str]) -> None:
    status, text = Browser(service).send("pause", "do", **FILLED["pause"], **wrong)
    assert status == 403
    assert "not one of this service" in text
    assert service.service.fleet.job("clicks").changes == ()


def test_a_page_of_another_site_changes_nothing(service: Served) -> None:
    browser = Browser(service)
    browser.headers["Origin"] = "http://example.org"
    assert browser.send("pause", "do", **FILLED["pause"])[0] == 403
    assert service.service.fleet.job("clicks").changes == ()


NASTY = (
    "\x00",
    "9" * 400,
    "nan",
    "-1",
    "<script>alert(1)</script>",
    "'; drop table audit",
    "é😀",
    "x" * 20_000,
    "* * *",
)


@pytest.mark.parametrize("form", sorted(FILLED))
def test_whatever_is_written_into_a_field_is_used_or_refused_in_a_sentence(form: str) -> None:
    with served(access=AccessRules(requests_per_s=10_000)) as service:
        browser = Browser(service)
        for field in FILLED[form]:
            for value in NASTY:
                status, text = browser.send(form, **{**FILLED[form], field: value})
                assert status in (200, 400), (field, value[:20])
                assert "<script>alert" not in text
                assert status == 200 or 'role="alert"' in text
        assert in_force(service) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Europe/Berlin"}, "period name 'Europe/Berlin' is not allowed; up to 63 letters"),
        ({"why": "a\x00b"}, "a text with a NUL character cannot be stored"),
        ({"during": "* 8-17 * * mon\x00"}, "a text with a NUL character cannot be stored"),
    ],
)
def test_a_period_that_cannot_be_named_or_stored_is_refused(
    service: Served, changes: dict[str, str], message: str
) -> None:
    status, answer = Browser(service).send("period", **{**FILLED["period"], **changes})
    assert status == 400
    assert message in unescape(answer)


def test_a_form_with_too_many_fields_is_refused(service: Served) -> None:
    status, text = Browser(service).send("pause", **{f"field{number}": "" for number in range(60)})
    assert status == 400
    assert "a form with 64 fields is not usable; at most 50 are." in text
