// Sends one ether with ethers, and waits until it is mined: ethers.mjs URL KEY TO
import { createRequire } from "node:module";
const { JsonRpcProvider, Wallet, parseEther } = createRequire(process.env.CHIVE_WALLETS + "/")("ethers");
const [url, key, to] = process.argv.slice(2);
const provider = new JsonRpcProvider(url);
const tx = await new Wallet(key, provider).sendTransaction({ to, value: parseEther("1") });
console.log("sent", tx.hash);
const receipt = await tx.wait();
console.log("mined in block", receipt.blockNumber, "status", receipt.status);
provider.destroy();
process.exit(receipt.status === 1 ? 0 : 1);
