import type { Watch } from '../deadlines.ts'
import type { Failure } from '../failures.ts'
import type { Denied, Spending } from '../ports.ts'
import { type Hand, reset, type Wire } from '../wire.ts'
import type { Cuts } from './cuts.ts'
import { createPump, type Pump } from './pump.ts'

export type TunnelParts = {
  readonly client: Wire
  readonly upstream: Wire
  readonly spending: Spending
  readonly watch: Watch
  readonly cuts: Cuts
  readonly idleMs: number
  readonly lingerMs: number
  passed(direction: 'up' | 'down', bytes: number): void
  /** Both connections are over; null: as they should be. */
  done(error: Failure | null): void
}

const nothing = Buffer.alloc(0)

/** Passes bytes both ways until both sides have ended, one of them fails, or it is cut. */
export const runTunnel = (parts: TunnelParts): void => {
  const { client, upstream, spending, watch, cuts, idleMs, lingerMs, passed, done } = parts
  let over = false
  let error: Failure | null = null
  let cutting = false
  let uncut = (): void => undefined

  const cut = (why: Failure): void => {
    error ??= why
    if (cutting) return
    cutting = true
    up.stop()
    down.stop()
    // What was sold still goes out, to a side that does not read it no longer than this.
    watch.within(lingerMs, () => {
      client.socket.destroy()
      upstream.socket.destroy()
    })
    client.socket.destroySoon()
    upstream.socket.destroySoon()
  }
  const denied = (why: Denied): void => cut(why.error)
  const pumpTo = (to: Wire, from: Wire, direction: 'up' | 'down'): Pump =>
    createPump({
      to,
      spending,
      direction,
      passed: (bytes) => {
        watch.touch()
        passed(direction, bytes)
      },
      resume: from.resume,
      denied,
    })
  const up = pumpTo(upstream, client, 'up')
  const down = pumpTo(client, upstream, 'down')

  /** Over as soon as nothing can pass any more; the sockets may still have to be told. */
  const leave = (): void => {
    if (over || !client.socket.destroyed || !upstream.socket.destroyed) return
    over = true
    up.stop()
    down.stop()
    uncut()
    watch.stop()
    done(error)
  }
  /** One side failed: the other gets what it was sent, and then a reset, so that it does not take the part for the whole. */
  const breakOff = ({ socket }: Wire): void => {
    if (socket.destroyed) return
    if (socket.writableLength === 0) {
      reset(socket)
      return
    }
    watch.within(lingerMs, () => reset(socket))
    // Its callback comes when all that was written before is out.
    socket.write(nothing, () => reset(socket))
  }
  const handOf = (own: Wire, out: Pump, back: Pump, other: Wire, whenBroken: Failure): Hand => {
    let ended = false
    return {
      bytes: out.write,
      end: () => {
        ended = true
        watch.touch()
        out.end()
      },
      drain: () => {
        watch.touch()
        back.drained()
      },
      closed: (fault) => {
        if (fault !== null) {
          error ??= whenBroken
          out.stop()
          breakOff(other)
        } else if (!ended || !own.socket.writableFinished) other.socket.destroy() // we closed it ourselves
        leave()
      },
      holds: out.holds,
    }
  }
  watch.within(idleMs, () => cut('idle_timeout'))
  client.use(handOf(client, up, down, upstream, 'client_reset'))
  upstream.use(handOf(upstream, down, up, client, 'target_reset'))
  uncut = cuts.on(spending.ended, denied)
}
