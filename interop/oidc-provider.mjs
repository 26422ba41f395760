// An OpenID provider of others, for tests of the sign-in. Usage:
//   node oidc-provider.mjs PORT REDIRECT_URI
// Its own pages for development take any login and any password.
import Provider from "oidc-provider";

const [port, redirect] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: "sidequest", client_secret: "not a secret in a test", redirect_uris: [redirect] }],
  claims: { openid: ["sub"], profile: ["name"], email: ["email", "email_verified"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, name: `Person ${id}`, email: `${id}@corp.example`, email_verified: true }),
  }),
  pkce: { required: () => true },
  cookies: { keys: ["a key of a test"] },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
