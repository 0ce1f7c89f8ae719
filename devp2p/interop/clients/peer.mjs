// Connects to a node as a peer, with @ethereumjs/devp2p, and prints its name and its chain:
//   node peer.mjs DIR ID PORT
// where DIR has node_modules, ID is the node's key in hexadecimal, and PORT leads to it.
import { randomBytes } from 'node:crypto'
import { pathToFileURL } from 'node:url'

const [dir, id, port] = process.argv.slice(2)
const load = (name) => import(pathToFileURL(`${dir}/node_modules/@ethereumjs/${name}/dist/esm/index.js`).href)
const { RLPx, ETH } = await load('devp2p')
const { Common, Hoodi } = await load('common')

const hex = (b) => Buffer.from(b).toString('hex')
const rlpx = new RLPx(new Uint8Array(randomBytes(32)), {
  capabilities: [ETH.eth68],
  common: new Common({ chain: Hoodi }),
  maxPeers: 1,
})
const fail = (what) => (err) => {
  console.error(what, err)
  process.exit(1)
}
rlpx.events.on('error', fail('rlpx:'))
rlpx.events.on('peer:error', (_, err) => fail('peer:')(err))
rlpx.events.on('peer:removed', (_, reason) => fail('the node ended the connection:')(reason))
rlpx.events.on('peer:added', (peer) => {
  const hello = peer.getHelloMessage()
  const eth = peer.getProtocols()[0]
  eth.events.once('status', (status) => {
    console.log(JSON.stringify({ client: hello.clientId && Buffer.from(hello.clientId).toString(), genesis: hex(status.genesisHash), version: eth.getVersion() }))
    process.exit(0)
  })
  const genesis = Buffer.from('bbe312868b376a3001692a646dd2d7d1e4406380dfd86b98aa8a34d1557c971b', 'hex')
  eth.sendStatus({ td: new Uint8Array([1]), bestHash: genesis, genesisHash: genesis })
})
setTimeout(fail('no status in a minute'), 60000)
rlpx.connect({ id: new Uint8Array(Buffer.from(id, 'hex')), address: '127.0.0.1', tcpPort: Number(port), udpPort: Number(port) }).catch(fail('connect:'))
