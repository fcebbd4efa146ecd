// A person's way through the portal, in a real browser: started by the end-to-end tests of the program with a hub and two nodes.
//
// The environment says where: HUB (its URL), KEY (an operator's), SOURCE and TARGET (URLs of a folder, and of where it is to be), CHROMIUM.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const { HUB, KEY, SOURCE, TARGET, CHROMIUM } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WAIT_MS = 60_000;

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });

/** A reader with cookies of his own; all that his pages ask for is noted. */
async function reader(options = {}) {
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
async function isAccessible(page, what) {
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

async function signIn(page, key) {
  await page.getByLabel("Access key or token").fill(key);
  await page.keyboard.press("Enter");
}

/** Signs in, moves a folder, watches it arrive, comes back, signs out. */
async function firstTransfer() {
  const { context, page, asked, complaints } = await reader();
  const begun = performance.now();
  await page.goto(HUB);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  console.log(`first view after ${Math.round(performance.now() - begun)} ms`);
  await isAccessible(page, "sign in");

  await signIn(page, `${KEY.slice(0, -8)}AAAAAAAA`);
  await page.getByText("ask an operator of the hub for a new one").waitFor();
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  const [cookie] = (await context.cookies()).filter((one) => one.name.includes("longhaul-hub"));
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.secure], [true, "Strict", HUB.startsWith("https:")]);
  assert.ok(!(await page.evaluate(() => document.cookie)).includes("longhaul"), "a script sees no session");
  await page.getByText("Nothing has been submitted yet").waitFor();
  await isAccessible(page, "no transfers");

  // By keyboard alone.
  await page.getByRole("link", { name: "New transfer" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "New transfer" }).waitFor();
  await isAccessible(page, "new transfer");
  const from = page.getByRole("group", { name: "From" });
  const to = page.getByRole("group", { name: "To" });
  await from.getByLabel("URL", { exact: true }).fill("nowhere");
  await to.getByLabel("URL", { exact: true }).fill(TARGET);
  await page.getByRole("button", { name: "Move" }).click();
  await page.locator(".trouble").waitFor();
  await from.getByLabel("URL", { exact: true }).fill(SOURCE);
  await page.getByRole("button", { name: "Move" }).click();
  await page.getByRole("heading", { name: /^Transfer / }).waitFor();
  const address = page.url();
  await page.locator("dd .state.done").waitFor();
  await page.getByText("there and verified").waitFor();
  await isAccessible(page, "a transfer");

  // The address is all of the view: reloaded, gone back, opened by somebody else.
  await page.reload();
  await page.locator("dd .state.done").waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "New transfer" }).waitFor();
  await page.getByRole("link", { name: "Transfers", exact: true }).click();
  await page.locator("tbody tr").first().waitFor();
  await isAccessible(page, "transfers");
  const second = await context.newPage();
  await second.goto(address);
  await second.locator("dd .state.done").waitFor();

  // A name that would be markup is text.
  assert.equal(await page.evaluate(() => window.broken), undefined);

  // Signed out in one tab, the other one has to sign in, too.
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await second.getByRole("heading", { name: "Sign in" }).waitFor();
  await context.addCookies([cookie]);
  const again = await context.request.get(`${HUB}/api/v1/whoami`);
  assert.equal(again.status(), 401, "a session that has ended is kept by nobody");

  const own = new URL(HUB).origin;
  assert.deepEqual(asked.filter((url) => new URL(url).origin !== own), [], "nobody else is asked for anything");
  assert.deepEqual(complaints, []);
  await context.close();
}

/** Picks a folder in one pane, and moves it into the other one. */
async function twoPanes() {
  const { context, page, asked, complaints } = await reader();
  await page.goto(`${HUB}/files`);
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Files" }).waitFor();
  const left = page.getByRole("region", { name: "Left folder" });
  const right = page.getByRole("region", { name: "Right folder" });
  await left.getByLabel("Endpoint").selectOption({ label: "one" });
  await left.getByRole("button", { name: "data/" }).click();
  await left.getByRole("button", { name: "run/" }).click();
  await left.getByText("[U+202E]").waitFor();
  await right.getByLabel("Endpoint").selectOption({ label: "two" });
  await right.getByRole("button", { name: "data/" }).click();
  await right.getByText("run/").waitFor();
  await isAccessible(page, "files");
  // By keyboard: found, marked, moved.
  await left.getByLabel("Find").fill("f3");
  await left.getByRole("checkbox", { name: "Mark f3" }).focus();
  await page.keyboard.press("Space");
  await left.getByText("1 marked, 100 kB in files").waitFor();
  await left.getByRole("button", { name: "Move 1 to the right" }).click();
  await page.getByRole("heading", { name: /^Transfer / }).waitFor();
  await page.locator("dd .state.done").waitFor();
  await page.goBack();
  await right.getByText("f3").waitFor();

  // A file comes from its node, by a link that the node signs: the hub has none of its bytes.
  const opened = context.waitForEvent("page").catch(() => undefined);
  const answered = page.waitForResponse((response) => response.url().endsWith("/api/v1/downloads"));
  await left.getByRole("button", { name: "Download f3" }).click();
  const { url } = await (await answered).json();
  assert.notEqual(new URL(url).origin, new URL(HUB).origin);
  const fetched = await context.request.get(url);
  assert.deepEqual([fetched.status(), (await fetched.body()).length], [200, 100_000]);
  const other = await context.request.get(url.replace("/run/f3", "/run/f4"));
  assert.ok([401, 403].includes(other.status()), `the link is for one file: ${other.status()}`);
  const written = await context.request.put(url, { data: "x" });
  assert.ok([401, 403].includes(written.status()), `the link is for reading: ${written.status()}`);
  await (await opened)?.close();

  // A folder of many files has few rows in the page, and the last one can be reached.
  await left.getByRole("button", { name: "/ data" }).click();
  await left.getByRole("button", { name: "many/" }).click();
  await left.getByText("5,000 of 5,000 entries").waitFor();
  assert.ok((await left.locator("tbody tr").count()) < 100);
  await left.getByRole("region", { name: "What is in the left folder" }).evaluate((box) => box.scrollTo(0, box.scrollHeight));
  await left.getByText("n4999").waitFor();

  // What is not there is told in the hub's words.
  await page.goto(`${HUB}/files?left=${encodeURIComponent("lh://nowhere.example/x/")}`);
  await left.getByText("no endpoint of the collaboration has URLs like").waitFor();
  const own = new URL(HUB).origin;
  assert.deepEqual(asked.filter((url) => new URL(url).origin !== own), []);
  assert.deepEqual(complaints, []);
  await context.close();
}

/** Finds a data set, sees where it is, and has a second copy made. */
async function dataSets() {
  const { context, page, complaints } = await reader();
  await page.goto(`${HUB}/data`);
  await signIn(page, KEY);
  await page.getByText("Nothing is in the catalogue yet").waitFor();
  const send = (method, path, body) =>
    page.evaluate(
      async ([method, path, body]) => {
        const headers = { "Content-Type": "application/json" };
        const answer = await fetch(path, { method, headers, body: JSON.stringify(body) });
        if (!answer.ok) throw new Error(await answer.text());
      },
      [method, path, body],
    );
  await send("PUT", "/api/v1/scopes/s", {});
  await send("POST", "/api/v1/data", { data: [{ name: "s:run/7", kind: "dataset" }] });
  const replicas = [{ endpoint: "one" }];
  await send("POST", "/api/v1/data", { data: [{ name: "s:f0", bytes: 100_000, replicas }], into: "s:run/7" });
  await page.reload();
  await page.getByRole("link", { name: "s", exact: true }).click();
  await page.getByLabel("Name, with * for anything").fill("run*");
  await page.getByRole("button", { name: "Find" }).click();
  await page.getByRole("link", { name: "s:run/7" }).click();
  await page.getByRole("heading", { name: "s:run/7" }).waitFor();
  await page.getByText("100 kB in 1 files").waitFor();
  await isAccessible(page, "a data set");
  await page.getByRole("textbox", { name: "where" }).fill("nowhere");
  await page.getByRole("button", { name: "Make the rule" }).click();
  await page.getByText("cannot be placed").waitFor();
  await page.getByRole("textbox", { name: "where" }).fill("two");
  await page.getByRole("button", { name: "Make the rule" }).click();
  await page.getByText("(ok)").waitFor();
  await page.getByRole("row", { name: /^two 1 files/ }).waitFor();
  await page.goto(`${HUB}/watch`);
  await page.getByText("This hub watches no paths").waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
}

/** An operator looks at the queue, and drains an endpoint. */
async function operation() {
  const { context, page, complaints } = await reader();
  await page.goto(`${HUB}/operate`);
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Operation" }).waitFor();
  await page.getByLabel("Why, for whoever asks").fill("<img src=x onerror=window.broken=1>\u202e new disks");
  await page.getByRole("button", { name: "Drain endpoint" }).or(page.getByRole("button", { name: /^Drain one/ })).first().click();
  await page.getByText("[U+202E] new disks").waitFor();
  assert.equal(await page.evaluate(() => window.broken), undefined, "what people write is text");
  await isAccessible(page, "operation");
  await page.getByRole("button", { name: /^Start one/ }).click();
  await page.getByRole("button", { name: /^Drain one/ }).waitFor();
  await page.getByRole("link", { name: "Queue and shares" }).click();
  await page.getByRole("heading", { name: "Queue and shares" }).waitFor();
  await page.getByText("Nothing waits and nothing moves").waitFor();
  await isAccessible(page, "queue");
  await page.goto(`${HUB}/no/such/page`);
  await page.getByRole("heading", { name: "There is no such page" }).waitFor();
  assert.deepEqual(complaints, []);
  await context.close();
}

/** What pages of other sites try. */
async function strangers() {
  const { context, page } = await reader();
  await page.goto(HUB);
  await signIn(page, KEY);
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  const order = { files: [{ sources: [SOURCE], target: `${TARGET}-stolen` }] };
  for (const headers of [{ "Sec-Fetch-Site": "cross-site" }, { Origin: "https://evil.example" }, {}]) {
    const answer = await context.request.post(`${HUB}/api/v1/jobs`, { data: order, headers });
    assert.equal(answer.status(), 403, JSON.stringify(headers));
  }
  const [cookie] = (await context.cookies()).filter((one) => one.name.includes("longhaul-hub"));
  const forged = await browser.newContext({ ignoreHTTPSErrors: true });
  await forged.addCookies([{ ...cookie, value: "f".repeat(64) }]);
  assert.equal((await forged.request.get(`${HUB}/api/v1/whoami`)).status(), 401, "nobody guesses a session");
  await forged.close();

  // Another site shows the portal in its page: the browser shows nothing.
  const frame = await context.newPage();
  await frame.setContent(`<iframe src="${HUB}" title="portal"></iframe>`);
  await frame.waitForTimeout(1_000);
  const texts = await Promise.all(frame.frames().slice(1).map((one) => one.locator("body").innerText().catch(() => "")));
  assert.ok(texts.every((text) => !text.includes("Transfers")), texts.join());
  await context.close();
}

try {
  await firstTransfer();
  await twoPanes();
  await dataSets();
  await operation();
  await strangers();
} finally {
  await browser.close();
}
