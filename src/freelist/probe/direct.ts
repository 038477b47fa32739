import type { MonotonicClock } from '../../kernel/clock.ts'
import { createDeadlines } from '../../kernel/deadlines.ts'
import type { Seen } from '../judge/answer.ts'
import type { JudgeKeys } from '../judge/keys.ts'
import { createSockets } from './dial.ts'
import { getPlain, type JudgePlace } from './speak.ts'
import { createWire } from './wire.ts'

const sweepMs = 100

/**
 * Asks the judge without a proxy between: whether it answers, and from which address it sees this side.
 * @throws ProbeFailure, CheckUnavailable when it does not answer in time
 */
export const askDirectly = async (
  judge: JudgePlace,
  keys: JudgeKeys,
  nonce: string,
  { timeoutMs, monotonicMs }: { readonly timeoutMs: number; readonly monotonicMs: MonotonicClock },
): Promise<Seen> => {
  const sockets = createSockets(() => undefined)
  const deadlines = createDeadlines(monotonicMs, sweepMs)
  const watch = deadlines.watch()
  watch.within(timeoutMs, sockets.end)
  try {
    const socket = await sockets.dial({ ip: judge.ip, port: judge.httpPort })
    return await getPlain(createWire(socket), judge, { nonce, keys, proxied: false })
  } finally {
    watch.stop()
    deadlines.stop()
    sockets.end()
  }
}
