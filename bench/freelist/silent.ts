import { createServer } from 'node:net'

/*
 * A process that listens on every address of this machine and is stopped right away (SIGSTOP): its queue takes two
 * connections, and later connection attempts get no answer, as from a host that is down.
 */
const server = createServer((socket) => socket.destroy())
server.listen({ host: '0.0.0.0', port: 0, backlog: 1 }, () => {
  process.stdout.write(`${JSON.stringify((server.address() as { readonly port: number }).port)}\n`)
})
