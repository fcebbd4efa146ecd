import assert from "node:assert/strict";

import { browser, HUB, isAccessible, KEY, reader, signIn } from "../reader.mjs";

/** A person without an account, who has only a link. */
async function outsider(link) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  await page.goto(link);
  return { context, page };
}

async function share(page, { what, kind, password }) {
  const left = page.getByRole("region", { name: "Left folder" });
  await left.getByRole("checkbox", { name: `Mark ${what}` }).check();
  await left.getByRole("button", { name: "Share it" }).click();
  const form = left.getByRole("region", { name: "Share", exact: true });
  if (kind) await form.getByLabel("A person with the link").selectOption({ label: kind });
  if (password) await form.getByLabel("Password (optional)").fill(password);
  await isAccessible(page, "a link is made");
  await form.getByRole("button", { name: "Make the link" }).click();
  const link = await form.getByRole("textbox", { name: "Link", exact: true }).inputValue();
  await form.getByRole("button", { name: "Close" }).click();
  await left.getByRole("checkbox", { name: `Mark ${what}` }).uncheck();
  return link;
}

/** A folder is shared with a person without an account, and the link is ended. */
export async function sharing() {
  const { context, page, pageErrors } = await reader();
  await page.goto(`${HUB}/files`);
  await signIn(page, KEY);
  const left = page.getByRole("region", { name: "Left folder" });
  await left.getByLabel("Endpoint").selectOption({ label: "one" });
  await left.getByRole("button", { name: "data/" }).click();
  await left.getByText("science/").waitFor();
  const link = await share(page, { what: "science", password: "correct horse" });

  const guest = await outsider(link);
  await guest.page.getByLabel("Password").fill("wrong horse!");
  await guest.page.getByRole("button", { name: "Open" }).click();
  await guest.page.getByText("the password is wrong").waitFor();
  await guest.page.getByLabel("Password").fill("correct horse");
  await guest.page.getByRole("button", { name: "Open" }).click();
  await guest.page.getByText("image.fits").waitFor();
  await isAccessible(guest.page, "what is shared");
  const answered = guest.page.waitForResponse((response) => response.url().endsWith("/downloads"));
  await guest.page.getByRole("button", { name: "Download image.fits" }).click();
  const { url } = await (await answered).json();
  assert.notEqual(new URL(url).origin, new URL(HUB).origin, "the node sends it");
  assert.equal((await guest.context.request.get(url)).status(), 200);
  assert.ok([401, 403].includes((await guest.context.request.get(url.replace("image.fits", "cube.h5"))).status()), "for one file");
  for (const path of ["../run/f0", "%2e%2e/run/f0"]) {
    const beyond = await guest.context.request.post(link.replace("/s/", "/api/v1/shared/") + "/downloads", { data: { path } });
    assert.ok(beyond.status() >= 400, path);
  }

  // A drop box takes new files, shows nothing, and replaces nothing.
  const box = await outsider(await share(page, { what: "inbox", kind: "can add new files, and sees nothing" }));
  await isAccessible(box.page, "a drop box");
  const put = (text) => box.page.getByLabel("Files to put here").setInputFiles({ name: "result.txt", mimeType: "text/plain", buffer: Buffer.from(text) });
  await put("first");
  await box.page.getByText("result.txt: ✓ uploaded").waitFor();
  await put("second");
  await box.page.getByText("result.txt: ✗").waitFor();
  await box.context.close();

  // The owner ends the link.
  await page.goto(`${HUB}/shares`);
  await page.getByRole("button", { name: /End the link to .*science/ }).click();
  await page.getByRole("button", { name: /End the link to .*science/ }).waitFor({ state: "detached" });
  await isAccessible(page, "links");
  await guest.page.reload();
  await guest.page.getByText("has expired or was ended").waitFor();
  await guest.context.close();
  assert.deepEqual(pageErrors, []);
  await context.close();
}
