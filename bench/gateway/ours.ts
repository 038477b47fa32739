import { createHash, timingSafeEqual } from 'node:crypto'
import { anyTargeting } from '../../src/domain/exits/line.ts'
import { createGateway } from '../../src/gateway/gateway.ts'
import type { Admission, Denied, Exits, Route, Spending } from '../../src/gateway/gateway-ports.ts'

/**
 * Our data plane as a process of its own, with authentication, an exit chosen for each connection, and metering: the ports
 * are in memory, so that what is measured is the data plane. Prints a line when it listens.
 */
const [username = '', password = '', port = '0'] = process.argv.slice(2)

const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest()
const expected = hashOf(`${username}:${password}`)
const wrong: Denied = { denied: true, status: 407, error: 'wrong_credentials', detail: 'wrong credentials' }
const line: Admission['line'] = {
  base: username,
  targeting: anyTargeting,
  session: null,
  limitMegabytes: null,
  set: null,
}

let left = Number.MAX_SAFE_INTEGER
const spending: Spending = {
  take: (wanted) => {
    const granted = Math.min(wanted, left)
    left -= granted
    return granted
  },
  giveBack: (bytes) => {
    left += bytes
  },
  more: async () => null,
  ended: new AbortController().signal,
}
const route: Route = {
  denied: false,
  exit: { exitId: 'direct', via: { kind: 'direct', localAddress: null }, sandbox: true, udp: false },
  fallback: false,
  stickyMinutesLeft: null,
  done: () => undefined,
  close: () => undefined,
}
const exits: Exits = { route: async () => route }

const gateway = createGateway({
  access: {
    admit: async ({ credentials }) => {
      const given = hashOf(`${credentials?.username}:${credentials?.password}`)
      if (!timingSafeEqual(given, expected)) return wrong
      return {
        denied: false,
        holder: 'pln_bench',
        accountId: 'acc_bench',
        line,
        dedicated: null,
        spending,
        close: () => undefined,
      }
    },
  },
  exits,
  clock: () => performance.now(),
  logger: { debug: () => undefined, error: () => undefined },
})
process.stdout.write(`${await gateway.listen({ host: '127.0.0.1', port: Number(port), shared: true })}\n`)
