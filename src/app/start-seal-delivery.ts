import { Gauge, type Registry } from 'prom-client'
import {
  type Delivery,
  type DeliveryLag,
  lagText,
  readDeliveryLag,
  startDelivery,
} from '../books/witness/delivery.ts'
import type { Clock } from '../kernel/clock.ts'
import { asked } from '../platform/http/asked-gauges.ts'
import type { Probe } from '../platform/http/health.ts'
import { openStore } from '../platform/outgoing/store/open.ts'
import type { Core } from './core.ts'

/** What `/readyz` notes of the place that seals go to; none where none was set. Orders never wait for it. */
export const sealTargetProbes = (core: Core): readonly Probe[] => {
  const { place } = core.config.sealTarget
  if (place === null) return []
  const check = async (): Promise<string | null> => {
    const lag = await readDeliveryLag(core, place)
    return lag.seals === 0 && lag.problem === null ? null : lagText(lag, core.clock())
  }
  return [{ name: 'seal target', note: true, check }]
}

const registerLag = (core: Core, registry: Registry, lagNow: () => Promise<DeliveryLag>): void => {
  const lag = asked(lagNow)
  const gauge = (name: string, help: string, read: (found: DeliveryLag) => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const found = await lag()
        if (found === null) this.remove()
        else this.set(read(found))
      },
    })
  }
  gauge(
    'farebox_seal_target_behind_seals',
    'How many seals the log has, and their target has not.',
    ({ seals }) => seals,
  )
  gauge(
    'farebox_seal_target_behind_seconds',
    'The age of the first seal that their target has not.',
    ({ since }) => (since === null ? 0 : Math.max(0, (core.clock() - Date.parse(since)) / 1000)),
  )
  gauge(
    'farebox_seal_target_problem',
    '1 while a seal cannot be brought to its target; /readyz and the log lines say why.',
    ({ problem }) => (problem === null ? 0 : 1),
  )
}

/** Brings seals to where the settings say; null where they say nothing. */
export const startSealDelivery = async (
  core: Core,
  registry: Registry,
  systemClock: Clock,
): Promise<Delivery | null> => {
  const { place, access } = core.config.sealTarget
  if (place === null) return null
  registerLag(core, registry, () => readDeliveryLag(core, place))
  return startDelivery({ ...core, place, store: await openStore(place, access, systemClock) })
}
