// Takes the pictures of the portal for docs/portal.md, in three sizes, from a demo. Environment variables: LONGHAUL (the program), CHROMIUM, OUT (a
// directory).

import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { browser, openRunningTransfer } from "./reader.mjs";

const { LONGHAUL, OUT } = process.env;
const SIZES = [[1280, 800], [768, 1024], [360, 740]];
/** The wait before the pictures of the watch, until it has data. */
const SETTLED_MS = Number(process.env.SETTLED_MS ?? 120_000);

mkdirSync(OUT, { recursive: true });
const demo = spawn(LONGHAUL, ["demo"], { stdio: ["ignore", "pipe", "inherit"] });
let link;
for await (const line of createInterface({ input: demo.stdout })) {
  link ??= /sign in: +(\S+)/.exec(line)?.[1];
  if (line.includes("Ctrl-C")) break;
}
try {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
  const picture = async (name) => {
    for (const [width, height] of SIZES) {
      await page.setViewportSize({ width, height });
      await page.waitForTimeout(500);
      await page.screenshot({ path: join(OUT, `${name}-${width}.png`) });
    }
    await page.setViewportSize({ width: 1280, height: 800 });
  };
  await page.goto(link);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  const hub = new URL(link).origin;
  const described = await page.evaluate(() => fetch("/api/v1/collaboration").then((answer) => answer.json()));
  const at = (endpoint, path) => encodeURIComponent(described.endpoint[endpoint].urls[0] + path);
  await page.goto(`${hub}/files?left=${at("geneva", "data/field-7/")}&right=${at("amsterdam", "data/")}`);
  await page.getByRole("button", { name: "Look at observation.fits" }).click();
  await page.getByText("TELESCOP").waitFor();
  await picture("files");
  await page.waitForTimeout(SETTLED_MS);
  await page.goto(`${hub}/watch/geneva/perth`);
  await page.locator(".u-wrap").first().waitFor();
  await picture("path");
  await page.goto(`${hub}/map`);
  await page.locator(".map .site").first().waitFor();
  await page.waitForTimeout(3_000);
  await picture("map");
  await openRunningTransfer(page, hub);
  await page.locator(".u-wrap").first().waitFor();
  await page.waitForTimeout(10_000);
  await picture("transfer");
} finally {
  await browser.close();
  demo.kill("SIGINT");
}
