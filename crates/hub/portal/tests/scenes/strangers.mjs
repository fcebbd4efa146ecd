import assert from "node:assert/strict";

import { browser, HUB, KEY, reader, signIn, SOURCE, TARGET } from "../reader.mjs";

/** Attacks by pages of other sites. */
export async function strangers() {
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
  assert.equal((await forged.request.get(`${HUB}/api/v1/whoami`)).status(), 401, "a forged session is refused");
  await forged.close();

  // Another site shows the portal in a frame: the browser shows nothing there.
  const frame = await context.newPage();
  await frame.setContent(`<iframe src="${HUB}" title="portal"></iframe>`);
  await frame.waitForTimeout(1_000);
  const texts = await Promise.all(frame.frames().slice(1).map((one) => one.locator("body").innerText().catch(() => "")));
  assert.ok(texts.every((text) => !text.includes("Transfers")), texts.join());
  await context.close();
}
