// Opens pages in headless Chromium, at desktop and phone width, in light and dark, and on paper: axe must report no
// violation, nothing may be wider than the window, run, or be loaded, and every screenshot is kept.
//
//   node look.mjs BROWSER OUT PAGE...
//
// playwright-core and axe-core are found through NODE_PATH. One JSON line per page and view, then `violations: N`.
import { createRequire } from "node:module";
import { readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(join(process.env.NODE_PATH ?? ".", "here.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [browserPath, out, ...pages] = process.argv.slice(2);
const views = [
  { name: "desktop-light", width: 1280, height: 900, colorScheme: "light" },
  { name: "desktop-dark", width: 1280, height: 900, colorScheme: "dark" },
  { name: "phone-light", width: 390, height: 844, colorScheme: "light" },
  { name: "phone-dark", width: 390, height: 844, colorScheme: "dark" },
];

const browser = await chromium.launch({
  executablePath: browserPath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
let faults = 0;
const fault = (...words) => {
  faults += 1;
  console.log("FAULT", ...words);
};

for (const path of pages) {
  const name = basename(path, ".html");
  const url = pathToFileURL(path).href;
  // A page of hundreds of kilobytes is looked at twice; its screenshots are of the first screen.
  const large = statSync(path).size > 300_000;
  for (const view of views.filter((_, n) => !large || n === 0 || n === 3)) {
    const context = await browser.newContext({
      viewport: { width: view.width, height: view.height },
      colorScheme: view.colorScheme,
      deviceScaleFactor: view.width < 500 ? 2 : 1,
    });
    const page = await context.newPage();
    page.on("dialog", (dialog) => {
      fault(name, view.name, "a dialog opened:", dialog.message());
      dialog.dismiss();
    });
    page.on("request", (request) => request.url() === url || fault(name, view.name, "loads", request.url()));
    page.on("console", (message) => fault(name, view.name, "console:", message.text()));
    await page.goto(url);
    const seen = await page.evaluate(() => ({
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      active: document.querySelectorAll("script, iframe, object, embed, form, link, img, base, [onerror], [onload], [onclick]").length,
      elements: document.querySelectorAll("*").length,
      headings: [...document.querySelectorAll("h1, h2, h3")].map((h) => h.tagName),
      ran: window.canary ?? null,
      covered: [...document.querySelectorAll("svg")].reduce((n, svg) => {
        const plates = [...svg.querySelectorAll("rect.plate")].map((plate) => plate.getBoundingClientRect());
        const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        return n + plates.filter((a, at) => plates.slice(at + 1).some((b) => meet(a, b))).length;
      }, 0),
      small: [...document.querySelectorAll(".drawing svg text")].filter((t) => t.getBoundingClientRect().height < 11).length,
    }));
    if (seen.overflow > 0) fault(name, view.name, "is", seen.overflow, "px wider than the window");
    if (seen.covered > 0) fault(name, view.name, "has", seen.covered, "plates of lanes that cover each other");
    if (seen.small > 0) fault(name, view.name, "has", seen.small, "words in the picture that are too small to read");
    if (seen.active > 0) fault(name, view.name, "has", seen.active, "elements that act or load");
    if (seen.ran !== null) fault(name, view.name, "ran a script of the report:", seen.ran);
    await page.screenshot({ path: join(out, `${name}-${view.name}.png`), fullPage: !large });
    // What is folded must be readable, too.
    await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) fault(name, view.name, "unfolded is", wide, "px wider than the window");
    await page.evaluate(axe);
    const result = await page.evaluate(() => axe.run(document, { resultTypes: ["violations", "incomplete"] }));
    for (const v of result.violations) {
      fault(name, view.name, "axe:", v.id, v.help, "|", v.nodes.length, "x, first:", v.nodes[0].html.slice(0, 200), v.nodes[0].failureSummary ?? "");
    }
    for (const v of result.incomplete) {
      console.log("unsure", name, view.name, v.id, v.nodes.length, v.nodes[0].html.slice(0, 160), v.nodes[0].any[0]?.message ?? "");
    }
    if (!large && view.name === "desktop-light") {
      await page.screenshot({ path: join(out, `${name}-${view.name}-unfolded.png`), fullPage: true });
    }
    console.log(JSON.stringify({ page: name, view: view.name, passes: result.passes.length, violations: result.violations.length, elements: seen.elements }));
    await context.close();
  }
  const context = await browser.newContext({ colorScheme: "dark" });
  const page = await context.newPage();
  await page.goto(url);
  const pdf = await page.pdf({ path: join(out, `${name}.pdf`), format: "A4" });
  if (pdf.length < 10_000) fault(name, "prints", pdf.length, "bytes");
  await context.close();
}
await browser.close();
console.log(`faults: ${faults}`);
process.exit(faults > 0 ? 1 : 0);
