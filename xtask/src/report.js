// Appended to a report by `cargo xtask report`: lists its faults in an element that Chromium prints.
addEventListener("load", () => setTimeout(() => {
  const faults = [];
  const fault = (name, list) => [...list].forEach((what) => faults.push(`${name}: ${what}`));
  const start = (element) => element.outerHTML.slice(0, 80);
  const box = (element) => element.getBoundingClientRect();
  fault("error", window.faults);
  const asked = performance.getEntriesByType("resource").map((it) => it.name);
  fault("request for", asked.filter((it) => !/^(data|blob):/.test(it)));
  fault("wider than the window", [...document.querySelectorAll("body, body *")]
    .filter((it) => box(it).right > document.documentElement.clientWidth + 1).map(start));
  for (const svg of document.querySelectorAll("svg")) {
    const texts = [...svg.querySelectorAll("text")].map((it) => [it.textContent, box(it)]);
    fault("overlapping texts", texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([, q]) => p.left < q.right - 1 &&
      q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3).map(([b]) => `${a} / ${b}`)));
  }
  for (const card of document.querySelectorAll(".charts > *, .tables > *, .log")) {
    const edge = box(card);
    fault("beyond its card", [...card.querySelectorAll("*")].filter((it) => box(it).width > 0 &&
      (box(it).right > edge.right || box(it).left < edge.left)).map(start));
  }
  const text = document.getElementById("data").textContent;
  const data = JSON.parse(text);
  const link = document.getElementById("download");
  const conditions = [data.schema === "tickline/2", data.costs.length > 5, data.track.points.length > 5,
    data.latencies.length === 2, document.querySelectorAll("figure").length >= 3, !link.hidden, link.href.startsWith("blob:")];
  fault("data that is not there", conditions.flatMap((ok, i) => (ok ? [] : [`condition ${i}`])));
  const isDark = getComputedStyle(document.body).color.match(/\d+/g)[0] > 128;
  if (isDark !== matchMedia("(prefers-color-scheme: dark)").matches) faults.push("the colours are those of the other scheme");
  (window.download?.text() ?? Promise.resolve()).then((stored) => {
    if (stored !== text) faults.push("what is downloaded is not the report's data");
    const found = document.createElement("script");
    found.type = "application/json";
    found.id = "faults";
    found.textContent = JSON.stringify({ isDark, faults });
    document.body.append(found);
  });
}, 200));
