// Tests the pages of a running demo in an emulated network: its watch, its map, and files directly from nodes. Environment variables: LINK (the sign-in
// link), CHROMIUM, and those of reader.mjs.

import assert from "node:assert/strict";

import { browser, isAccessible, longTransfer, openRunningTransfer, reader } from "./reader.mjs";

const { LINK } = process.env;
const HUB = new URL(LINK).origin;

try {
  const { page, pageErrors } = await reader();
  await page.goto(LINK);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  assert.ok(!page.url().includes("key="), "the key does not stay in the address");

  // The alarm, its path, and the history of a day.
  await page.goto(`${HUB}/watch`);
  await page.getByRole("row", { name: /geneva to perth.*loss/ }).first().waitFor();
  await isAccessible(page, "watch");
  await page.getByRole("link", { name: /^geneva to perth: / }).click();
  await page.getByRole("heading", { name: "geneva to perth" }).waitFor();
  await page.getByText("Packet loss, forward and reverse").waitFor();
  await page.locator(".u-wrap").first().waitFor();
  await page.getByText("The round-trip time is 2").waitFor();
  await isAccessible(page, "a path");
  await page.getByRole("link", { name: "year" }).click();
  await page.getByText("Packet loss, forward and reverse").waitFor();
  await page.getByLabel("Note what happened").fill("a <b>spade</b>");
  await page.getByRole("button", { name: "Note it" }).click();
  await page.getByText("a <b>spade</b>").waitFor();
  for (const view of ["alarms", "talkers", "interfaces", "nodes"]) {
    await page.goto(`${HUB}/watch/${view}`);
    await page.getByRole("link", { name: "As JSON" }).waitFor();
    await isAccessible(page, view);
  }

  await page.goto(`${HUB}/hosts/geneva`);
  await page.getByRole("columnheader", { name: "Should be" }).waitFor();
  assert.ok((await page.locator("tbody tr").count()) > 10, "rules of the audit");
  await isAccessible(page, "a host");

  // The map has the three sites, and its table the flow.
  await page.goto(`${HUB}/map`);
  await page.getByText("perth", { exact: true }).first().waitFor();
  assert.equal(await page.locator(".map .site").count(), 3);
  await page.getByRole("row", { name: /^amsterdam perth / }).waitFor();
  await isAccessible(page, "map");

  // A running transfer has a chart of its rate.
  await openRunningTransfer(page, HUB);
  await isAccessible(page, "a transfer that moves");

  // An operator lowers the mark of the link, and the transfers get slower; then the owner limits a transfer, and it gets slower still.
  const before = await settled(page, science, (bitS) => bitS > 80e6);
  await page.goto(`${HUB}/operate`);
  const mark = page.getByLabel("Percent of amsterdam-perth");
  await setMark(page, mark, "20");
  const halved = await settled(page, science, (bitS) => bitS < 65e6);
  const limited = await limitedTo8(page);
  console.log(`${megabits(before)} below a mark of a half, ${megabits(halved)} below one of a fifth, ${megabits(limited)} with a limit of 8`);
  // The limit is lifted first: on a busy machine the transfer ends while the page is looked at.
  await page.getByLabel("Rate limit, Mbit/s").fill("0");
  await page.getByRole("button", { name: "Limit", exact: true }).click();
  await isAccessible(page, "a transfer that was limited");
  await page.goto(`${HUB}/operate`);
  await setMark(page, mark, "50");

  // Files come directly from the nodes, at the addresses for browsers.
  const described = await page.evaluate(() => fetch("/api/v1/collaboration").then((answer) => answer.json()));
  const geneva = described.endpoint.geneva;
  await page.goto(`${HUB}/files?left=${encodeURIComponent(`${geneva.urls[0]}data/field-7/`)}`);
  await page.getByRole("button", { name: "Look at observation.fits" }).click();
  await page.getByText("TELESCOP= 'DEMO").waitFor();
  await page.getByRole("button", { name: "Look at field.svg" }).click();
  await page.getByRole("img", { name: "field.svg" }).waitFor();
  await isAccessible(page, "an image");
  assert.deepEqual(pageErrors, []);
} finally {
  await browser.close();
}

function megabits(bitS) {
  return `${(bitS / 1e6).toFixed(1)} Mbit/s`;
}

/** Sets a mark, and waits until the page shows it. */
async function setMark(page, mark, percent) {
  await mark.fill(percent);
  await page.getByRole("row").filter({ has: mark }).getByRole("button", { name: "Set the mark" }).click();
  await page.getByRole("cell", { name: new RegExp(`^${percent} %`) }).waitFor();
}

/** The rate of the transfers of a job; undefined if the job has ended. */
async function rateOf(page, id) {
  return page.evaluate(async (id) => {
    const [job, moving] = await Promise.all([`/api/v1/jobs/${id}`, `/api/v1/jobs/${id}/transfers`].map((path) => fetch(path).then((answer) => answer.json())));
    return job.ended === undefined ? moving.transfers.reduce((sum, one) => sum + one.rate_bit_s, 0) : undefined;
  }, id);
}

/** The rate of all running jobs of the science community: one may end at any time, and the demo begins another. */
async function science(page) {
  const { jobs } = await page.evaluate(() => fetch("/api/v1/jobs?limit=20").then((answer) => answer.json()));
  const rates = await Promise.all(jobs.filter((job) => job.state === "running" && job.community === "science").map((job) => rateOf(page, job.id)));
  return rates.reduce((sum, bitS) => sum + (bitS ?? 0), 0);
}

/** Limits a job on its page, and waits until it keeps the limit; if the job ends before that, another job is limited. */
async function limitedTo8(page) {
  for (;;) {
    const id = await longTransfer(page);
    await page.goto(`${HUB}/transfers/${id}`);
    await page.getByLabel("Rate limit, Mbit/s").fill("8");
    await page.getByRole("button", { name: "Limit", exact: true }).click();
    const bitS = await settled(page, () => rateOf(page, id), (bitS) => bitS === undefined || bitS < 9e6);
    if (bitS !== undefined) return bitS;
  }
}

/** Waits until a rate has been as wanted for three seconds, and returns it. */
async function settled(page, measured, isWished) {
  const end = Date.now() + 60_000;
  for (let seconds = 0; ; ) {
    const bitS = await measured(page);
    seconds = bitS !== 0 && isWished(bitS) ? seconds + 1 : 0;
    if (seconds === 3) return bitS;
    assert.ok(Date.now() < end, `the rate is ${megabits(bitS ?? 0)}`);
    await page.waitForTimeout(1000);
  }
}
