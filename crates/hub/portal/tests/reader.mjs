// What all scenes need: readers with cookies of their own, and what axe finds.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

export const { HUB, KEY, SOURCE, TARGET, CHROMIUM } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WAIT_MS = 60_000;

export const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });

/** A reader with cookies of his own; all that his pages ask for is noted. */
export async function reader(options = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const asked = [];
  const complaints = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    // Whoever is refused is told so in the page; the browser says it again.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) complaints.push(message.text());
  });
  return { context, page, asked, complaints };
}

/** What axe finds, at the widths that people have, in light and dark. */
export async function isAccessible(page, what) {
  for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [360, "light"]]) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe);
    const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
    const told = found.violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html).join(" ")}`);
    assert.deepEqual(told, [], `${what} at ${width} px, ${colorScheme}`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(overflow <= 0, `${what} is ${overflow} px wider than ${width} px`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

export async function signIn(page, key) {
  await page.getByLabel("Access key or token").fill(key);
  await page.keyboard.press("Enter");
}

/** The id of a transfer of a demo that has just begun, and takes a while. */
export async function longOne(page) {
  for (;;) {
    const { jobs } = await page.evaluate(() => fetch("/api/v1/jobs?limit=20").then((answer) => answer.json()));
    const one = jobs.find((job) => job.state === "running" && job.community === "science");
    if (one) return one.id;
    await page.waitForTimeout(500);
  }
}
