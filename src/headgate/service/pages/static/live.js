// Keeps a page up to date: server-sent events announce changes, and the parts of the page that changed are replaced.
(function () {
  "use strict";
  const pulse = document.querySelector(".pulse");
  const stream = document.body.dataset.stream;
  const LEAST_MS = 900, AGAIN_MS = 2000;
  let requested = 0, waiting = null;

  function say(state, words) {
    if (!pulse) { return; }
    pulse.dataset.state = state;
    pulse.title = words;
    pulse.querySelector("span").textContent = words;
  }

  // ------------------------------------------------------------------------------------------------- exchanging
  // What each part showed last, as it came: what a script did to it since does not count.
  const shown = new WeakMap();
  document.querySelectorAll("[data-part]").forEach(function (part) { shown.set(part, part.innerHTML); });
  let restoring = false;

  function exchange(page) {
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    document.querySelectorAll("[data-part]").forEach(function (part) {
      const fresh = page.querySelector('[data-part="' + part.dataset.part + '"]');
      // A part with an open tooltip is not replaced.
      if (!fresh || fresh.innerHTML === shown.get(part) || part.querySelector(".tip")) { return; }
      shown.set(part, fresh.innerHTML);
      part.querySelectorAll("details[open][id]").forEach(function (one) {
        const same = fresh.querySelector("#" + CSS.escape(one.id));
        if (same) { same.open = true; }
      });
      const places = Array.from(part.querySelectorAll(".scroll, ol.story"), function (one) { return [one.scrollLeft, one.scrollTop]; });
      part.replaceChildren.apply(part, Array.from(fresh.childNodes));
      part.querySelectorAll(".scroll, ol.story").forEach(function (one, index) {
        if (places[index]) { one.scrollLeft = places[index][0]; one.scrollTop = places[index][1]; }
      });
    });
    if (focused && document.activeElement === document.body) {
      const same = document.querySelector('[data-part] [href="' + CSS.escape(focused) + '"]');
      // A tooltip that was closed stays closed.
      restoring = true;
      if (same) { same.focus({ preventScroll: true }); }
      restoring = false;
    }
    document.title = page.title;
    setClocks();
    point();
  }

  let requests = 0, answered = 0;

  // A slow answer does not replace what a later request brought.
  function isNews(number) {
    if (number < answered) { return false; }
    answered = number;
    return true;
  }

  async function refresh() {
    waiting = null;
    requested = Date.now();
    const number = requests += 1;
    try {
      const answer = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" } });
      if (answer.redirected || answer.status === 401 || answer.headers.has("Headgate-Leader")) { location.reload(); return; }
      const text = await answer.text();
      if (!isNews(number)) { return; }
      if (answer.ok) {
        exchange(new DOMParser().parseFromString(text, "text/html"));
        if (live && source.readyState === EventSource.OPEN) { say("live", "live"); }
      } else if (answer.status === 404) {
        // The page stays readable; a job may return.
        say("away", "not there any more");
      } else {
        again();
      }
    } catch (error) {
      again();
    }
  }

  function again() {
    say("away", "no answer; trying again");
    setTimeout(refreshSoon, AGAIN_MS);
  }

  function refreshSoon() {
    if (waiting === null && !document.hidden) {
      waiting = setTimeout(refresh, Math.max(0, requested + LEAST_MS - Date.now()));
    }
  }

  let source = null, live = false;

  function listen() {
    const opened = source = new EventSource(stream);
    // Not on "open": the headers of the answer come before the service listens for changes on behalf of this page.
    opened.addEventListener("listening", function () { say("live", "live"); live = true; refreshSoon(); });
    opened.addEventListener("change", refreshSoon);
    opened.addEventListener("error", function () {
      live = false;
      say("away", "no answer; trying again");
      // A browser reconnects by itself unless the answer is an error, as of a service that is starting. A standby
      // answers with a page of its own.
      if (opened.readyState === EventSource.CLOSED) { setTimeout(function () { listen(); refreshSoon(); }, AGAIN_MS); }
    });
  }

  if (stream) {
    listen();
    document.addEventListener("visibilitychange", refreshSoon);
    window.addEventListener("pagehide", function () { source.close(); });
    // A page from the browser's history is shown unchanged.
    window.addEventListener("pageshow", function (event) { if (event.persisted) { listen(); } });
  }

  // ------------------------------------------------------------------------------------------------ local times
  const clock = document.querySelector("[data-clock]"), CLOCK = "headgate-clock";

  function isLocal() { return localStorage.getItem(CLOCK) === "local"; }

  function two(number) { return String(number).padStart(2, "0"); }

  // Each text is turned by as much as the local clock is ahead of UTC at that time.
  function setClocks() {
    if (!clock) { return; }
    clock.textContent = isLocal() ? "local; show UTC" : "UTC; show local";
    document.querySelectorAll("time[datetime]").forEach(function (element) {
      if (!element.dataset.utc) { element.dataset.utc = element.textContent; }
      const at = new Date(element.getAttribute("datetime")), utc = element.dataset.utc;
      const date = at.getFullYear() + "-" + two(at.getMonth() + 1) + "-" + two(at.getDate());
      const moment = two(at.getHours()) + ":" + two(at.getMinutes()) + ":" + two(at.getSeconds());
      element.textContent = isLocal()
        ? utc.replace(/\d{4}-\d\d-\d\d/, date).replace(/\d\d:\d\d:\d\d/, moment).replace(/\bUTC\b/, "local") : utc;
    });
  }

  if (clock) {
    clock.hidden = false;
    document.querySelector("[data-utc]").hidden = true;
    clock.addEventListener("click", function () { localStorage.setItem(CLOCK, isLocal() ? "utc" : "local"); setClocks(); });
    setClocks();
  }

  // --------------------------------------------------------------------------------------------- reading a value
  let share = null;

  function valueAt(plot, where) {
    const x = 1000 * where, top = Number(plot.dataset.top), read = [];
    plot.querySelectorAll("polyline").forEach(function (line) {
      const points = line.points;
      if (!points.numberOfItems || x < points.getItem(0).x - 12 || x > points.getItem(points.numberOfItems - 1).x + 12) { return; }
      let low = 0, high = points.numberOfItems - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (points.getItem(middle).x <= x) { low = middle; } else { high = middle - 1; }
      }
      const value = top * (1 - points.getItem(low).y / 100);
      const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
      read.push(line.dataset.name + " " + String(Number(value.toFixed(digits))));
    });
    return read.join(" · ");
  }

  function ago(plot, where) {
    const from = Number(plot.dataset.from), seconds = Math.round(from + where * (Number(plot.dataset.to) - from));
    const size = Math.abs(seconds), text = size < 120 ? size + "s" : Math.floor(size / 60) + "m " + (size % 60) + "s";
    return seconds < 0 ? text + " ago" : seconds > 0 ? "in " + text : "now";
  }

  // One place in time, in all plots at once.
  function point() {
    document.querySelectorAll(".cross").forEach(function (one) { one.remove(); });
    document.querySelectorAll("figure[data-plot]").forEach(function (figure) {
      const plot = figure.querySelector(".plot"), read = figure.querySelector(".read");
      if (!plot || !read) { return; }
      if (read.dataset.now === undefined) { read.dataset.now = read.textContent; }
      if (share === null) { read.textContent = read.dataset.now; return; }
      const text = valueAt(plot, share), box = plot.getBoundingClientRect(), outer = figure.getBoundingClientRect();
      read.textContent = (text ? text + " · " : "") + ago(plot, share);
      const cross = document.createElement("div");
      cross.className = "cross";
      figure.appendChild(cross);
      cross.style.left = box.left - outer.left + share * box.width + "px";
      cross.style.top = box.top - outer.top + "px";
      cross.style.height = box.height + "px";
    });
  }

  document.addEventListener("pointermove", function (event) {
    const plot = event.target.closest && event.target.closest(".plot");
    const box = plot && plot.getBoundingClientRect();
    const next = box ? Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) : null;
    if (next !== share) { share = next; point(); }
  });

  // ----------------------------------------------------------------------------------------------- what a marker shows
  let tip = null;

  function hide() {
    if (tip) { tip.remove(); tip = null; }
    document.querySelectorAll(".shown").forEach(function (one) { one.classList.remove("shown"); });
  }

  function show(mark) {
    hide();
    const row = document.getElementById(mark.getAttribute("href").slice(1));
    const figure = mark.closest("figure");
    if (!row || !figure) { return; }
    tip = document.createElement("div");
    tip.className = "tip story";
    tip.setAttribute("role", "tooltip");
    row.querySelectorAll(":scope > .change, :scope > div > p").forEach(function (one) { tip.appendChild(one.cloneNode(true)); });
    figure.appendChild(tip);
    const at = mark.querySelector("path").getBoundingClientRect(), outer = figure.getBoundingClientRect();
    const left = at.left - outer.left + at.width / 2 - tip.offsetWidth / 2;
    tip.style.left = Math.max(6, Math.min(left, outer.width - tip.offsetWidth - 6)) + "px";
    tip.style.top = at.top - outer.top - tip.offsetHeight - 10 + "px";
    mark.classList.add("shown");
    row.classList.add("shown");
  }

  ["pointerover", "focusin"].forEach(function (kind) {
    document.addEventListener(kind, function (event) {
      const mark = event.target.closest && event.target.closest(".mark");
      if (mark && !(restoring && kind === "focusin")) { show(mark); } else if (kind === "pointerover" || !event.target.closest(".tip")) { hide(); }
    });
  });
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") { hide(); } });
}());
