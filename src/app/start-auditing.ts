import type { Registry } from 'prom-client'
import { lawsHold, startLawGuard } from '../books/audit/law-guard.ts'
import { sealKeyOf } from '../books/audit/seal-key.ts'
import { startSealer } from '../books/audit/sealer.ts'
import { startSignatureWatch } from '../books/audit/signing/watch.ts'
import type { Closing } from '../kernel/closing.ts'
import { registerGauge } from '../platform/http/runtime-metrics.ts'
import type { Core } from './core.ts'
import type { Projecting } from './projecting.ts'

/** Seals the log as far as it keeps the laws, and stops the accounts whose events break one. */
export const startAuditing = (
  core: Core,
  closing: Closing,
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
      cleared: (position, signal) => lawsHold({ pool, progress, signatures }, position, signal),
    }),
  })
  closing.add(sealer.stop)
  registerGauge(registry, {
    name: 'farebox_seal_problem',
    help: '1 while the log is not sealed because of a problem, which the log lines name.',
    read: () => (sealer.problem() === null ? 0 : 1),
  })
  if (!config.laws) return
  const guard = startLawGuard({ ...core, progress })
  closing.add(guard.stop)
  registerGauge(registry, {
    name: 'farebox_law_problem',
    help: '1 while an event of the log breaks a law and no operator decided about it.',
    read: () => (guard.problem() === null ? 0 : 1),
  })
}
