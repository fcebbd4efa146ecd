// Shared parts of all scenes: readers, each with its own cookies, and the accessibility checks of axe.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

export const { HUB, KEY, SOURCE, TARGET, CHROMIUM } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WAIT_MS = 120_000;

export const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });

/** A reader with its own cookies; the requests and the errors of its pages are recorded. */
export async function reader(options = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const requests = [];
  const pageErrors = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("pageerror", (error) => pageErrors.push(error.message));
  page.on("console", (message) => {
    // The page shows a refusal itself; the browser reports it again.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) pageErrors.push(message.text());
  });
  return { context, page, requests, pageErrors };
}

/** Checks that axe finds nothing, at usual widths and in light and dark mode, and that the page is not wider than the window. */
export async function isAccessible(page, what) {
  for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [360, "light"]]) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await page.evaluate(axe);
    const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
    const violations = found.violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html).join(" ")}`);
    assert.deepEqual(violations, [], `${what} at ${width} px, ${colorScheme}`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(overflow <= 0, `${what} is ${overflow} px wider than ${width} px`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

export async function signIn(page, key) {
  await page.getByLabel("Access key or token").fill(key);
  await page.keyboard.press("Enter");
}

/** The id of a running transfer of a demo that takes a while. */
export async function longTransfer(page) {
  for (;;) {
    const { jobs } = await page.evaluate(() => fetch("/api/v1/jobs?limit=20").then((answer) => answer.json()));
    const one = jobs.find((job) => job.state === "running" && job.community === "science");
    if (one) return one.id;
    await page.waitForTimeout(500);
  }
}

/** Opens the page of a running transfer of a demo, with the chart of its rate: one may end before its page is there, and the demo begins another. */
export async function openRunningTransfer(page, hub) {
  for (let left = 10; ; left -= 1) {
    await page.goto(`${hub}/transfers/${await longTransfer(page)}`);
    const chart = page.getByText("Rate since this page was opened");
    try {
      return await chart.waitFor({ timeout: WAIT_MS / 10 });
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}
