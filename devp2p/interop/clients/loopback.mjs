// Loaded before a client (node --import), it binds the client's sockets to loopback, whatever the client asks for.
import dgram from 'node:dgram'
import net from 'node:net'

const bind = dgram.Socket.prototype.bind
dgram.Socket.prototype.bind = function (...args) {
  const done = args.find((a) => typeof a === 'function')
  const port = typeof args[0] === 'object' && args[0] !== null ? args[0].port : args[0]
  return bind.call(this, { port: typeof port === 'number' ? port : 0, address: '127.0.0.1' }, done)
}

const listen = net.Server.prototype.listen
net.Server.prototype.listen = function (...args) {
  const done = args.find((a) => typeof a === 'function')
  const first = typeof args[0] === 'object' && args[0] !== null ? args[0] : { port: Number(args[0]) }
  return listen.call(this, { ...first, host: '127.0.0.1' }, done)
}
