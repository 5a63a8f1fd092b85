// `cargo xtask report` appends this script to a report. It lists the faults in an element that Chromium prints.
addEventListener("load", () => setTimeout(() => {
  const faults = [];
  const fault = (name, list) => [...list].forEach((what) => faults.push(`${name}: ${what}`));
  const start = (element) => element.outerHTML.slice(0, 80);
  const box = (element) => element.getBoundingClientRect();
  fault("error", window.faults);
  const asked = performance.getEntriesByType("resource").map((one) => one.name);
  fault("request for", asked.filter((one) => !/^(data|blob):/.test(one)));
  fault("wider than the window", [...document.querySelectorAll("body, body *")]
    .filter((one) => box(one).right > document.documentElement.clientWidth + 1).map(start));
  for (const svg of document.querySelectorAll("svg")) {
    const texts = [...svg.querySelectorAll("text")].map((one) => [one.textContent, box(one)]);
    fault("overlapping texts", texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([, q]) => p.left < q.right - 1 &&
      q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3).map(([b]) => `${a} / ${b}`)));
  }
  const cards = [...document.querySelectorAll("article, .charts > *, .across > *, .tables > *, .log")];
  fault("cards that touch", cards.flatMap((a, i) => cards.slice(i + 1).map((b) => [box(a), box(b), b])
    .filter(([p, q]) => p.left < q.right && q.left < p.right && q.top - p.bottom < 8 && p.top - q.bottom < 8)
    .map(([, , b]) => start(b))));
  for (const card of cards) {
    const edge = box(card);
    fault("beyond its card", [...card.querySelectorAll("*")].filter((one) => box(one).width > 0 &&
      (box(one).right > edge.right || box(one).left < edge.left)).map(start));
  }
  const text = document.getElementById("data").textContent;
  const data = JSON.parse(text);
  const link = document.getElementById("download");
  const conditions = [data.schema === "tickline/2", data.costs.length > 5, data.track.points.length > 5,
    data.latencies.length === 2, document.querySelectorAll("figure").length >= 3, !link.hidden, link.href.startsWith("blob:")];
  fault("data that is not there", conditions.flatMap((ok, i) => (ok ? [] : [`condition ${i}`])));
  const isDark = getComputedStyle(document.body).color.match(/\d+/g)[0] > 128;
  if (isDark !== matchMedia("(prefers-color-scheme: dark)").matches) faults.push("the colours are those of the other scheme");
  if (window.download !== text) faults.push("what is downloaded is not the report's data");
  const found = document.createElement("script");
  found.type = "application/json";
  found.id = "faults";
  found.textContent = JSON.stringify({ isDark, faults });
  document.body.append(found);
}, 200));
