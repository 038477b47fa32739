import { Gauge, type Registry } from 'prom-client'
import { groups } from '../../projections/groups.ts'
import type { Clock } from '../kernel/clock.ts'
import type { CloseStack } from '../kernel/resource-scope.ts'
import { type Core, type ServerCore, yieldingLog } from '../platform/feature/core.ts'
import type { Feature } from '../platform/feature/feature.ts'
import { registerGauge, sharedPerScrape } from '../platform/http/gauges.ts'
import type { Probe } from '../platform/http/health.ts'
import { openStore, type StoreSettings } from '../platform/outgoing/open-object-store.ts'
import type { CheckedEvents } from './checked-events.ts'
import { readGuardProblem } from './checks/database-guards-check.ts'
import {
  type Delivery,
  type DeliveryLag,
  lagText,
  readDeliveryLag,
  startDelivery,
} from './external-seals/deliver-seals.ts'
import { readViolationProblem, requireInvariantsHold, startViolationMonitor } from './invariant-monitor.ts'
import { invariantGroup } from './invariants/invariants.ts'
import { lateMs, unsealedWait, waitAfter } from './overdue-checks.ts'
import { auditRoutes } from './routes.ts'
import { startSealer } from './seals/sealer.ts'
import { sealKeyOf } from './seals/seals-file.ts'
import type { ViolationEffect } from './settings.ts'
import { rememberSignatures } from './signatures/check-signatures.ts'
import { startSignatureWatch } from './signatures/signature-watch.ts'
import { openUnsealedCheck } from './signatures/unsealed-check.ts'
import { createVerificationRuns, sealPages, verificationPages } from './verification-pages.ts'
import { runVerification } from './verification-runs.ts'

export type AuditSettings = {
  /** Whether events are checked against the invariants. */
  readonly checkInvariants: boolean
  readonly onViolation: ViolationEffect
  /** A seal is due after this many new events, or this many seconds after the first of them. */
  readonly seal: { readonly events: number; readonly seconds: number }
  /** The target that each seal is delivered to. */
  readonly sealTarget: StoreSettings
}

const caughtUpWithinMs = 1_000

const secondsText = (ms: number): string => `${Math.round(ms / 1000)} s`

/** The probe of violations. It is a note: orders can still be placed. */
const violationProbe = (core: ServerCore, checked: CheckedEvents): Probe => ({
  name: 'laws',
  note: true,
  check: async () => {
    const { progress } = core.projecting
    if (!(await progress.reached(invariantGroup.name, 0, caughtUpWithinMs))) return 'not checked yet'
    const through = progress.position(invariantGroup.name)
    const problem = await readViolationProblem({ ...core, checked }, through)
    if (problem !== null) return problem
    if (await progress.reached(invariantGroup.name, await core.log.head(), caughtUpWithinMs)) return null
    const waitedMs = (await waitAfter(core, progress.position(invariantGroup.name))) ?? 0
    return waitedMs <= lateMs
      ? null
      : `events wait for ${secondsText(waitedMs)} to be checked: see what stops the projection "${invariantGroup.name}"`
  },
})

/**
 * The probe of overdue seals, whatever stops the sealer, in this process or another, e.g. a session that has its lock.
 * It is also a note.
 */
export const sealProbe = (core: Parameters<typeof unsealedWait>[0], everySeconds: number): Probe => ({
  name: 'seals',
  note: true,
  check: async () => {
    const waitedMs = (await unsealedWait(core)) ?? 0
    return waitedMs <= everySeconds * 1000 + lateMs
      ? null
      : `events wait for ${secondsText(waitedMs)} to be sealed: see the log lines of the sealer, or another session holds its lock`
  },
})

/**
 * The cache time of the guard comparison, milliseconds. Anyone may poll `/readyz`, and the comparison takes Postgres
 * tens of milliseconds.
 */
const guardCacheMs = 5_000

/** The probe of changes that could hide a violation. It is a note: orders can still be placed. */
const guardProbe = ({ pool }: ServerCore): Probe => {
  let cached: { readonly atMs: number; readonly problem: string | null } | null = null
  return {
    name: 'guards',
    note: true,
    check: async () => {
      const nowMs = performance.now()
      if (cached === null || nowMs - cached.atMs > guardCacheMs)
        cached = { atMs: nowMs, problem: await readGuardProblem(pool) }
      return cached.problem
    },
  }
}

/** The notes of `/readyz` about the seal target; none without a target. Orders never wait for it. */
const sealTargetProbes = (core: Core, { location }: StoreSettings): readonly Probe[] => {
  if (location === null) return []
  const check = async (): Promise<string | null> => {
    const lag = await readDeliveryLag(core, location)
    return lag.seals === 0 && lag.problem === null ? null : lagText(lag, core.clock())
  }
  return [{ name: 'seal target', note: true, check }]
}

const registerLag = (core: Core, registry: Registry, lagNow: () => Promise<DeliveryLag>): void => {
  const lag = sharedPerScrape(lagNow)
  const gauge = (name: string, help: string, read: (currentLag: DeliveryLag) => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const currentLag = await lag()
        if (currentLag === null) this.remove()
        else this.set(read(currentLag))
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

/** Starts the delivery of seals to the configured target; null without a target. */
const startSealDelivery = async (
  core: ServerCore,
  { location, access }: StoreSettings,
  systemClock: Clock,
): Promise<Delivery | null> => {
  if (location === null) return null
  registerLag(core, core.registry, () => readDeliveryLag(core, location))
  return startDelivery({ ...core, place: location, store: await openStore(location, access, systemClock) })
}

/** Starts sealing the log and reporting violations of invariants. */
export const startAuditing = async (
  core: ServerCore,
  closing: CloseStack,
  {
    checkInvariants,
    onViolation,
    seal,
    sealTarget,
    systemClock,
    checked,
  }: AuditSettings & { readonly systemClock: Clock; readonly checked: CheckedEvents },
): Promise<void> => {
  const { registry, isLogInPostgres } = core
  const { feed, progress } = core.projecting
  const delivery = await startSealDelivery(core, sealTarget, systemClock)
  if (delivery !== null) closing.add(delivery.stop)
  const key = sealKeyOf(core.keys.seal)
  const { publicKey } = key
  const verifySignature = rememberSignatures()
  if (checkInvariants && isLogInPostgres)
    closing.add(startSignatureWatch({ ...core, feed, publicKey, verifySignature, checked }).stop)
  const sealer = startSealer({
    ...core,
    onSeal: () => delivery?.wake(),
    feed,
    key,
    every: seal,
    ...(isLogInPostgres && checkInvariants && { checkedEvents: checked.count }),
    ...(checkInvariants &&
      onViolation !== 'alarm' && {
        ...(isLogInPostgres && {
          openSignatures: (sealed) => openUnsealedCheck({ ...core, publicKey, verifySignature }, sealed),
        }),
        cleared: (range, signal) => requireInvariantsHold({ ...core, progress, checked }, range, signal),
      }),
  })
  closing.add(sealer.stop)
  registerGauge(registry, {
    name: 'farebox_seal_problem',
    help: '1 while the log is not sealed because of a problem, which the log lines name.',
    read: () => (sealer.problem() === null ? 0 : 1),
  })
  if (!checkInvariants) return
  const monitor = startViolationMonitor({ ...core, checked, progress, blocks: onViolation === 'block' })
  closing.add(monitor.stop)
  registerGauge(registry, {
    name: 'farebox_law_problem',
    help: '1 while an event of the log violates an invariant and no operator acknowledged it.',
    read: () => Math.min(1, monitor.open().count),
  })
  registerGauge(registry, {
    name: 'farebox_open_violations',
    help: 'Violations of invariants that no operator acknowledged.',
    read: () => monitor.open().count,
  })
}

export const open = (
  core: ServerCore,
  {
    checkInvariants,
    seal,
    sealTarget,
    checked,
  }: Pick<AuditSettings, 'checkInvariants' | 'seal' | 'sealTarget'> & { readonly checked: CheckedEvents },
): Feature & { readonly probes: readonly Probe[] } => {
  const { pool, log, clock, keys, isLogInPostgres } = core
  const verifications = createVerificationRuns(async (request) => {
    const { publicKey } = sealKeyOf(keys.seal)
    const wholeLog = yieldingLog(core)
    const dependencies = {
      pool,
      log: wholeLog,
      groups,
      logInPostgres: isLogInPostgres,
      clock,
      master: keys.master,
    }
    return (await runVerification(dependencies, { ...request, publicKey, exported: null })).run
  })
  core.closing.add(verifications.stop)
  return {
    routes: auditRoutes(core),
    pages: [...verificationPages({ pool, verifications }), ...sealPages({ log, clock })],
    probes: [
      ...(checkInvariants ? [violationProbe(core, checked), guardProbe(core)] : []),
      sealProbe(core, seal.seconds),
      ...sealTargetProbes(core, sealTarget),
    ],
  }
}
