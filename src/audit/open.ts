import { Gauge, type Registry } from 'prom-client'
import type { Clock } from '../kernel/clock.ts'
import type { CloseStack } from '../kernel/resource-scope.ts'
import type { Core, Projecting } from '../platform/feature/core.ts'
import { registerGauge, sharedPerScrape } from '../platform/http/gauges.ts'
import type { Probe } from '../platform/http/health.ts'
import { openStore } from '../platform/outgoing/open-object-store.ts'
import {
  type Delivery,
  type DeliveryLag,
  lagText,
  readDeliveryLag,
  startDelivery,
} from './external-seals/deliver-seals.ts'
import { requireInvariantsHold, startViolationMonitor } from './invariant-monitor.ts'
import { sealKeyOf } from './seals/seal-key.ts'
import { startSealer } from './seals/sealer.ts'
import { startSignatureWatch } from './signatures/signature-watch.ts'

/** Seals the log as far as it keeps the laws, and stops the accounts whose events break one. */
export const startAuditing = (
  core: Core,
  closing: CloseStack,
  { feed, progress }: Projecting,
  { registry, onSeal }: { readonly registry: Registry; readonly onSeal: () => void },
): void => {
  const { config, pool } = core
  const key = sealKeyOf(core.keys.seal)
  const signatures =
    config.laws && config.eventStoreUrl === null
      ? startSignatureWatch({ ...core, feed, publicKey: key.publicKey })
      : null
  if (signatures !== null) closing.add(signatures.stop)
  const sealer = startSealer({
    ...core,
    onSeal,
    feed,
    key,
    every: config.seal,
    ...(config.laws && {
      cleared: (position, signal) => requireInvariantsHold({ pool, progress, signatures }, position, signal),
    }),
  })
  closing.add(sealer.stop)
  registerGauge(registry, {
    name: 'farebox_seal_problem',
    help: '1 while the log is not sealed because of a problem, which the log lines name.',
    read: () => (sealer.problem() === null ? 0 : 1),
  })
  if (!config.laws) return
  const guard = startViolationMonitor({ ...core, progress })
  closing.add(guard.stop)
  registerGauge(registry, {
    name: 'farebox_law_problem',
    help: '1 while an event of the log breaks a law and no operator decided about it.',
    read: () => (guard.problem() === null ? 0 : 1),
  })
}

/** What `/readyz` notes of the place that seals go to; none where none was set. Orders never wait for it. */
export const sealTargetProbes = (core: Core): readonly Probe[] => {
  const { location } = core.config.sealTarget
  if (location === null) return []
  const check = async (): Promise<string | null> => {
    const lag = await readDeliveryLag(core, location)
    return lag.seals === 0 && lag.problem === null ? null : lagText(lag, core.clock())
  }
  return [{ name: 'seal target', note: true, check }]
}

const registerLag = (core: Core, registry: Registry, lagNow: () => Promise<DeliveryLag>): void => {
  const lag = sharedPerScrape(lagNow)
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
  const { location, access } = core.config.sealTarget
  if (location === null) return null
  registerLag(core, registry, () => readDeliveryLag(core, location))
  return startDelivery({ ...core, place: location, store: await openStore(location, access, systemClock) })
}
