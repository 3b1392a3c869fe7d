(() => {
  "use strict";
  const $ = (what, where = document) => where.querySelector(what);
  const all = (what, where = document) => [...where.querySelectorAll(what)];

  // What needs a script is shown where there is one.
  document.documentElement.classList.add("scripted");
  if (navigator.clipboard) document.documentElement.classList.add("can-copy");

  // Relative times go on. The server wrote them first, in the same words.
  const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const distance = (seconds) => {
    let left = Math.round(Math.abs(seconds));
    const parts = [];
    for (const [size, unit] of units) {
      const number = Math.floor(left / size);
      left %= size;
      if (number || parts.length) parts.push([number, unit]);
    }
    const text = parts.filter(([number], index) => !index || number)
      .slice(0, Math.abs(seconds) >= 172800 ? 1 : 2).map((part) => part.join(" ")).join(" ");
    return text ? (seconds > 0 ? `in ${text}` : `${text} ago`) : "now";
  };
  let ahead = Date.now() - Date.parse(document.body.dataset.now);  // of the clock of the server
  const tick = () => all("time[data-rel]").forEach((time) => {
    const text = distance((Date.parse(time.dateTime) - Date.now() + ahead) / 1000);
    if (time.textContent !== text) time.textContent = text;
  });
  setInterval(tick, 1000);

  // Live: an event says that something has changed, and the page is read again. Without events it is read every 5 s.
  const lamp = $("#live-switch");
  const live = () => $("#live[data-live]");
  let on = localStorage.getItem("live") !== "off", busy = false, fresh = Date.now(), stream = null, timer = null;
  const inUse = () => document.hidden || $("dialog[open]") || $("#live input[type=checkbox]:checked, #live input[type=radio][value='1']:checked") ||
    (document.activeElement && document.activeElement.matches("#live input, #live select, #live textarea")) ||
    String(getSelection());
  const refresh = async () => {
    if (!on || busy || !live() || inUse()) return;
    busy = true;
    try {
      const answer = await fetch(location.href);
      if (answer.redirected) { location.reload(); return; }  // to the log-in
      if (answer.status >= 500) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["#live", "#navigation"]) {
        const now = $(id), then = $(id, page);
        if (now && then && !inUse()) Idiomorph.morph(now, then.innerHTML, {
          morphStyle: "innerHTML", ignoreActiveValue: true,
          callbacks: { beforeAttributeUpdated: (name) => name !== "open" },  // what was unfolded stays so
        });
      }
      htmx.process(live());
      point();
      fresh = Date.now();
      ahead = fresh - Date.parse(page.body.dataset.now);
    } catch {
      // The lamp turns when nothing has come for ten seconds.
    } finally {
      busy = false;
      show();
    }
  };
  const show = () => {
    if (!lamp || !live()) return;
    const stale = on && !document.hidden && !inUse() && Date.now() - fresh > 15000;
    lamp.hidden = false;
    lamp.setAttribute("aria-pressed", on);
    lamp.classList.toggle("stale", stale);
    $(".word", lamp).textContent = !on ? "Not live" : stale ? "Connection lost" : "Live";
  };
  const poll = () => { clearInterval(timer); timer = setInterval(refresh, 5000); };
  const listen = () => {
    poll();
    if (!live() || !window.EventSource) return;
    stream = new EventSource(document.body.dataset.events);
    stream.onopen = () => { clearInterval(timer); timer = setInterval(refresh, 10000); };
    stream.onmessage = refresh;
    stream.onerror = () => { if (stream.readyState === 2) poll(); };
  };
  if (lamp && live()) {
    lamp.onclick = () => {
      on = !on;
      localStorage.setItem("live", on ? "on" : "off");
      if (!on && stream) stream.close();
      if (on) { listen(); refresh(); }
      show();
    };
    if (on) listen();
    setInterval(show, 1000);
    document.addEventListener("visibilitychange", refresh);
    show();
  }

  // Links and buttons with data-sheet open the form of another page in a dialog.
  const dialog = $("#dialog");
  const sheet = async (url) => {
    try {
      const answer = await fetch(url);
      const found = $("#sheet", new DOMParser().parseFromString(await answer.text(), "text/html"));
      if (!answer.ok || !found) { location.href = url; return; }
      dialog.replaceChildren(found);
      htmx.process(dialog);
      dialog.showModal();
    } catch { location.href = url; }
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-sheet]");
    if (link && !event.ctrlKey && !event.metaKey) { event.preventDefault(); sheet(link.href); }
    if (event.target.closest("[data-close]") && dialog.open) { event.preventDefault(); dialog.close(); }
    const copy = event.target.closest("[data-copy]");
    if (copy) navigator.clipboard.writeText($(copy.dataset.copy).textContent).then(() => { copy.textContent = "Copied"; });
    if (event.target === dialog) dialog.close();
  });
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button || !button.matches("[data-sheet]")) return;
    event.preventDefault();
    const boxes = all("input[type=checkbox][name=id]", event.target);
    if (boxes.length && !$("input[name=id]:checked, input[name=all][value='1']:checked", event.target)) {
      boxes[0].setCustomValidity("Mark some first.");
      boxes[0].reportValidity();
      boxes[0].setCustomValidity("");
      return;
    }
    const data = new FormData(event.target, button);
    sheet(`${event.target.getAttribute("action")}?${new URLSearchParams(data)}`);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) all("input[name=id]").forEach((box) => { box.checked = event.target.checked; });
    if (event.target.matches("[data-now]")) event.target.form.requestSubmit();
  });

  // Keys. The row that is at is known by its link: the list may change meanwhile.
  let at = "", before = "";
  const rows = () => all("tr[data-row]");
  const to = (row) => ($("a", row) || row.dataset).href;
  const here = () => at && rows().find((row) => to(row) === at);
  const point = () => rows().forEach((row) => row.classList.toggle("at", !!at && to(row) === at));
  const move = (step) => {
    const found = rows(), next = found[Math.max(0, Math.min(found.length - 1, found.indexOf(here()) + step))];
    if (!next) return;
    at = to(next);
    point();
    next.scrollIntoView({ block: "nearest" });
  };
  const mark = () => { const box = here() && $("input[name=id]", here()); if (box) box.checked = !box.checked; };
  const press = (act) => {
    if (!$("input[name=id]:checked")) mark();
    const button = $(`[data-key="${act}"]`);
    if (button) button.click();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea") || $("dialog[open]")) return;
    const key = event.key, go = before === "g" && $(`[data-go="${CSS.escape(key)}"]`);
    before = key;
    if (go) { location.href = go.href; return; }
    const acts = {
      "/": () => $("#find").focus(), "?": () => $("#keys").showModal(), j: () => move(1), k: () => move(-1),
      x: mark, p: () => press("pause"), r: () => press("run"),
    };
    if (key === "Enter" && here() && !event.target.closest("a, button, summary")) $("a", here()).click();
    else if (acts[key]) { event.preventDefault(); acts[key](); }
  });

  // A notice of what was done is said once: not again when the page is loaded again.
  if (new URLSearchParams(location.search).has("did")) {
    const url = new URL(location.href);
    ["did", "n", "undo", "failed", "at"].forEach((name) => url.searchParams.delete(name));
    history.replaceState(null, "", url);
  }
})();
