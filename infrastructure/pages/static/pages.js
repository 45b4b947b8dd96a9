// Follows the tables as events come, and lets the arrow keys step. The pages work without it.
"use strict";
(() => {
  const live = () => document.getElementById("live");
  const said = document.getElementById("live-said");
  const state = document.getElementById("live-state");

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("input, select, textarea, [role=region]")) return;
    const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    const link = rel && document.querySelector(`a[rel=${rel}]`);
    if (link) link.click();
  });

  if (!live() || !window.EventSource) return;

  // The newest stands at the right end of a road.
  for (const road of live().querySelectorAll(".scroll")) road.scrollLeft = road.scrollWidth;

  const number = new Intl.NumberFormat(navigator.languages);
  let seen = Number(live().dataset.position);
  let isBusy = false;

  const announce = (fresh) => {
    const before = new Set([...live().querySelectorAll("[data-said]")].map((each) => each.dataset.said));
    return [...fresh.querySelectorAll("[data-said]")]
      .map((each) => each.dataset.said)
      .filter((text) => !before.has(text) && !text.endsWith("betting"));
  };

  // A road that showed its end shows it again when it has grown.
  const whereScrolled = (each) =>
    each.scrollLeft + each.clientWidth >= each.scrollWidth - 5 ? each.scrollWidth + 1000 : each.scrollLeft;

  // Changes only what is different, so that the focus and a scrolled road stay where they are.
  const exchange = (fresh) => {
    const texts = announce(fresh);
    const parts = new Map([...live().querySelectorAll("[data-part]")].map((each) => [each.dataset.part, each]));
    for (const part of fresh.querySelectorAll("[data-part]")) {
      const old = parts.get(part.dataset.part);
      const scrolled = [...(old ? old.querySelectorAll(".scroll") : [])].map(whereScrolled);
      if (!old) {
        live().append(part);
      } else if (old.outerHTML !== part.outerHTML) {
        const href = old.contains(document.activeElement) && document.activeElement.getAttribute("href");
        old.replaceWith(part);
        part.querySelectorAll(".scroll").forEach((each, place) => { each.scrollLeft = scrolled[place] ?? 0; });
        if (href) [...part.querySelectorAll("a")].find((a) => a.getAttribute("href") === href)?.focus();
      }
    }
    live().dataset.position = fresh.dataset.position;
    if (texts.length) said.textContent = texts.join("; ");
  };

  const renew = async () => {
    if (isBusy) return;
    isBusy = true;
    try {
      while (Number(live().dataset.position) < seen) {
        const wanted = seen;
        const asked = performance.now();
        const answer = await fetch(`${location.pathname}?part=1`, { credentials: "same-origin" });
        if (!answer.ok) throw new Error(answer.statusText);
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("live");
        if (!fresh) throw new Error("no tables in the answer");
        exchange(document.adoptNode(fresh));
        state.textContent = `Live, at position ${number.format(Number(live().dataset.position))}.`;
        // The read models may be a moment behind; and a page that takes long is asked for less often.
        const isBehind = Number(live().dataset.position) < wanted;
        const pause = Math.max(isBehind ? 250 : 60, 2 * (performance.now() - asked));
        await new Promise((done) => { setTimeout(done, pause); });
      }
    } catch {
      state.textContent = "The tables cannot be read just now.";
      setTimeout(renew, 2000);
    } finally {
      isBusy = false;
    }
  };

  const events = new EventSource(live().dataset.events);
  const take = (event) => {
    seen = Math.max(seen, Number(event.lastEventId) || 0);
    renew();
  };
  for (const topic of ["message", ...live().dataset.topics.split(" ")]) events.addEventListener(topic, take);
  events.addEventListener("open", () => { state.textContent = "Live."; });
  events.addEventListener("error", () => {
    const isOver = events.readyState === EventSource.CLOSED;
    state.textContent = isOver ? "Not live." : "Not live: trying to connect again.";
  });
  window.addEventListener("pagehide", () => events.close());
})();
