// Sends one ether through MetaMask's own block tracker and middleware, in the order of its network client for a network that the user
// added, and waits until it is mined: metamask.mjs URL KEY TO. The origin is that of the extension in Chrome.
import { createRequire } from "node:module";
const require = createRequire(process.env.CHIVE_WALLETS + "/");
const { PollingBlockTracker } = require("@metamask/eth-block-tracker");
const m = require("@metamask/eth-json-rpc-middleware");
const { JsonRpcEngine, createAsyncMiddleware } = require("@metamask/json-rpc-engine");
const { providerFromEngine, providerFromMiddleware } = require("@metamask/eth-json-rpc-provider");
const { BrowserProvider, Wallet, parseEther } = require("ethers");
const [url, key, to] = process.argv.slice(2);
const origin = "chrome-extension://nkbihfbeogaeaoehlefnkodbefgpgknn";

const asked = {};
const fetching = createAsyncMiddleware(async (req, res) => {
  asked[req.method] = (asked[req.method] ?? 0) + 1;
  const got = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", Origin: origin },
    body: JSON.stringify({ jsonrpc: "2.0", id: req.id, method: req.method, params: req.params }),
  });
  const answer = await got.json();
  if (answer.error) throw Object.assign(new Error(answer.error.message), { code: answer.error.code });
  res.result = answer.result;
});
const blockTracker = new PollingBlockTracker({ provider: providerFromMiddleware(fetching), pollingInterval: 2000 });
const engine = new JsonRpcEngine();
for (const part of [
  m.createBlockRefRewriteMiddleware({ blockTracker }),
  m.createBlockCacheMiddleware({ blockTracker }),
  m.createInflightCacheMiddleware(),
  m.createBlockTrackerInspectorMiddleware({ blockTracker }),
  fetching,
]) engine.push(part);
const provider = new BrowserProvider(providerFromEngine(engine));
const wallet = new Wallet(key, provider);
console.log("balance", await provider.getBalance(wallet.address));
const tx = await wallet.sendTransaction({ to, value: parseEther("1") });
console.log("sent", tx.hash);
const receipt = await tx.wait();
console.log("mined in block", receipt.blockNumber, "status", receipt.status, "asked", JSON.stringify(asked));
process.exit(receipt.status === 1 ? 0 : 1);
