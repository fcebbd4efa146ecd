// An OpenID Connect provider for tests. It writes its address to stdout, and reads the redirect URL of its client from stdin.
//
// Environment variable: CERTIFICATE (a file with the certificate and its key, PEM). It accepts every name; users whose name begins with `ops` are in the
// group `ops`.

import { createServer } from "node:https";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

const pem = readFileSync(process.env.CERTIFICATE);
let answer = (_request, response) => response.writeHead(503).end();
const server = createServer({ cert: pem, key: pem }, (request, response) => answer(request, response));
server.listen(0, "127.0.0.1", () => console.log(`listening on https://127.0.0.1:${server.address().port}`));

for await (const redirect of createInterface({ input: process.stdin })) {
  const provider = new Provider(`https://127.0.0.1:${server.address().port}`, {
    clients: [{ client_id: "hub", client_secret: "a secret: with marks", redirect_uris: [redirect], response_types: ["code"], grant_types: ["authorization_code"] }],
    pkce: { required: () => true },
    claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
    conformIdTokenClaims: false,
    cookies: { keys: ["tests"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: `id-of-${id}`, preferred_username: id, groups: id.startsWith("ops") ? ["all", "ops"] : ["all"] }),
    }),
  });
  answer = provider.callback();
  console.log("ready");
}
