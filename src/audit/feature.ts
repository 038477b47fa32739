import { Gauge } from 'prom-client'
import type { Clock } from '../kernel/clock.ts'
import type { CloseStack } from '../kernel/resource-scope.ts'
import { type Core, type ServerCore, yieldingLog } from '../platform/feature/core.ts'
import type { Feature } from '../platform/feature/feature.ts'
import { sharedPerScrape } from '../platform/http/gauges.ts'
import type { Probe } from '../platform/http/health.ts'
import { openStore, type StoreSettings } from '../platform/outgoing/open-object-store.ts'
import { readCheckpoint } from '../platform/projections/checkpoint.ts'
import { worker } from '../platform/work/worker.ts'
import { readWorkerRuns } from '../platform/work/worker-runs.ts'
import { type CheckedEvents, createCheckedEvents } from './checked-events.ts'
import { readGuardProblem } from './checks/database-guards-check.ts'
import { type Delivery, lagText, readDeliveryLag, startDelivery } from './external-seals/deliver-seals.ts'
import {
  readAllOpenViolations,
  readUncheckedProblem,
  requireInvariantsHold,
  startViolationMonitor,
} from './invariant-monitor.ts'
import { invariantGroup } from './invariants/invariants.ts'
import { lateMs, unsealedWait, waitAfter } from './overdue-checks.ts'
import { auditRoutes } from './routes.ts'
import { sealer, startSealer } from './seals/sealer.ts'
import { sealKeyOf } from './seals/seals-file.ts'
import type { AuditAction } from './settings.ts'
import { rememberSignatures } from './signatures/check-signatures.ts'
import { readSignaturesChecked, startSignatureWatch } from './signatures/signature-watch.ts'
import { openUnsealedCheck } from './signatures/unsealed-check.ts'
import { createVerificationRuns, sealPages, verificationPages } from './verification-pages.ts'
import { runVerification, verifiedGroups } from './verification-runs.ts'
import { openViolationsText } from './violations.ts'

export type AuditSettings = {
  /** Whether events are checked against the invariants. */
  readonly checkInvariants: boolean
  readonly auditAction: AuditAction
  /** A seal is due after this many new events, or this many seconds after the first of them. */
  readonly seal: { readonly events: number; readonly seconds: number }
  /** The target that each seal is delivered to. */
  readonly sealTarget: StoreSettings
}

const secondsText = (ms: number): string => `${Math.round(ms / 1000)} s`

/** The position up to which the auditor checked the log, and the open violations up to there. */
const readFindings = async (core: ServerCore, checked: CheckedEvents) => {
  const through = (await readCheckpoint(core.pool, invariantGroup.name))?.position ?? 0
  // The tables exist from the first checked event on.
  const open =
    through === 0 ? { count: 0, first: null } : await readAllOpenViolations({ ...core, checked }, through)
  return { through, open }
}

/** The probe of violations. It is a note: orders can still be placed. */
const violationProbe = (core: ServerCore, checked: CheckedEvents): Probe => ({
  name: 'laws',
  note: true,
  check: async () => openViolationsText((await readFindings(core, checked)).open),
})

/** What the auditor follows the log with, and the position that each check has reached. */
const followingChecks = (core: ServerCore) => [
  {
    name: 'invariants',
    gauge: 'farebox_invariants_lag_seconds',
    what: 'against the invariants',
    position: async () => (await readCheckpoint(core.pool, invariantGroup.name))?.position ?? 0,
  },
  ...(core.isLogInPostgres
    ? [
        {
          name: 'signatures',
          gauge: 'farebox_signatures_lag_seconds',
          what: 'for their signatures',
          position: async () => readSignaturesChecked(core.pool, await core.log.logId()),
        },
      ]
    : []),
]

/**
 * The probes of the auditor's position. They are notes, apart from the violations: one problem hides no other. The service
 * can move the checkpoint of the invariants, so the auditor's record must cover it.
 */
const lagProbes = (core: ServerCore, checked: CheckedEvents): readonly Probe[] =>
  followingChecks(core).map(({ name, what, position }) => ({
    name,
    note: true,
    check: async () => {
      const through = await position()
      const waitedMs = (await waitAfter(core, through)) ?? 0
      if (waitedMs <= lateMs)
        return name === 'invariants' && core.isLogInPostgres
          ? readUncheckedProblem(checked, { after: 0, through })
          : null
      return `events wait for ${secondsText(waitedMs)} to be checked ${what}: the auditor does not run, or its log lines say what stops it`
    },
  }))

/** How long events have waited for a seal, milliseconds; null: no seal is overdue. */
const overdueSealMs = async (
  core: Parameters<typeof unsealedWait>[0],
  everySeconds: number,
): Promise<number | null> => {
  const waitedMs = (await unsealedWait(core)) ?? 0
  return waitedMs > everySeconds * 1000 + lateMs ? waitedMs : null
}

/**
 * The probe of overdue seals, whatever stops the sealer, in this process or another, e.g. a session that has its lock.
 * It is also a note.
 */
export const sealProbe = (core: Parameters<typeof unsealedWait>[0], everySeconds: number): Probe => ({
  name: 'seals',
  note: true,
  check: async () => {
    const waitedMs = await overdueSealMs(core, everySeconds)
    return waitedMs === null
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

/** Gauges of one query, which are absent while there is no answer. */
const registerGauges = <Value>(
  { registry }: Pick<ServerCore, 'registry'>,
  query: () => Promise<Value>,
  gauges: readonly (readonly [name: string, help: string, read: (value: Value) => number])[],
): void => {
  const answer = sharedPerScrape(query)
  for (const [name, help, read] of gauges)
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        const value = await answer()
        if (value === null) this.remove()
        else this.set(read(value))
      },
    })
}

/** What the auditor found and did, read from its tables. */
const registerAuditGauges = (
  core: ServerCore,
  {
    checkInvariants,
    seal,
    sealTarget: { location },
  }: Pick<AuditSettings, 'checkInvariants' | 'seal' | 'sealTarget'>,
  checked: CheckedEvents,
): void => {
  const { pool, clock } = core
  // The service's role can write the runs of workers, but no seals.
  const hasSealProblem = async (): Promise<boolean> =>
    ((await readWorkerRuns(pool, clock())).get(sealer.name)?.failures ?? 0) > 0 ||
    (await overdueSealMs(core, seal.seconds)) !== null
  registerGauges(core, hasSealProblem, [
    [
      'farebox_seal_problem',
      '1 while the log is not sealed because of a problem, which the log lines of the auditor name.',
      Number,
    ],
  ])
  if (checkInvariants)
    for (const { gauge, what, position } of followingChecks(core))
      registerGauges(core, async () => (await waitAfter(core, await position())) ?? 0, [
        [
          gauge,
          `The age of the first event that the auditor has not checked ${what}.`,
          (ms) => Math.max(0, ms / 1000),
        ],
      ])
  if (checkInvariants)
    registerGauges(core, () => readFindings(core, checked), [
      [
        'farebox_law_problem',
        '1 while an event of the log violates an invariant and no operator acknowledged it.',
        ({ open }) => Math.min(1, open.count),
      ],
      [
        'farebox_open_violations',
        'Violations of invariants that no operator acknowledged.',
        ({ open }) => open.count,
      ],
    ])
  if (location !== null)
    registerGauges(core, () => readDeliveryLag(core, location), [
      [
        'farebox_seal_target_behind_seals',
        'How many seals the log has, and their target has not.',
        ({ seals }) => seals,
      ],
      [
        'farebox_seal_target_behind_seconds',
        'The age of the first seal that their target has not.',
        ({ since }) => (since === null ? 0 : Math.max(0, (core.clock() - Date.parse(since)) / 1000)),
      ],
      [
        'farebox_seal_target_problem',
        '1 while a seal cannot be brought to its target; /readyz and the log lines say why.',
        ({ problem }) => (problem === null ? 0 : 1),
      ],
    ])
}

/** Starts the delivery of seals to the configured target; null without a target. */
const startSealDelivery = async (
  core: Core,
  { location, access }: StoreSettings,
  systemClock: Clock,
): Promise<Delivery | null> => {
  if (location === null) return null
  return startDelivery({ ...core, place: location, store: await openStore(location, access, systemClock) })
}

/** Starts sealing the log and reporting violations of invariants: the work of the auditor. */
export const startAuditing = async (
  core: Core & Pick<ServerCore, 'projecting'>,
  closing: CloseStack,
  {
    checkInvariants,
    auditAction,
    seal,
    sealTarget,
    systemClock,
    checked,
  }: AuditSettings & { readonly systemClock: Clock; readonly checked: CheckedEvents },
): Promise<void> => {
  const { isLogInPostgres } = core
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
    ...(isLogInPostgres &&
      checkInvariants && {
        checkedEvents: checked.count,
        openSignatures: (sealed) => openUnsealedCheck({ ...core, publicKey, verifySignature }, sealed),
      }),
    ...(checkInvariants &&
      auditAction !== 'alarm' && {
        cleared: (range, signal) => requireInvariantsHold({ ...core, progress, checked }, range, signal),
      }),
  })
  closing.add(sealer.stop)
  if (!checkInvariants) return
  const monitor = startViolationMonitor({ ...core, checked, progress, blocks: auditAction === 'block' })
  closing.add(monitor.stop)
}

export const auditorWatch = worker({
  name: 'auditor-watch',
  about: 'Raises an alarm when the auditor is late or has found something',
  trigger: { everyMs: 60_000 },
  per: 'process',
  process: 'server',
})

/** Logs the problem of each probe when it begins. */
const watchAuditor = ({ scheduler, logger }: ServerCore, probes: readonly Probe[]) => {
  const known = new Set<string>()
  return scheduler.start(auditorWatch, async () => {
    for (const { name, check } of probes) {
      const problem = await check()
      if (problem === null) known.delete(name)
      else if (!known.has(name)) {
        known.add(name)
        logger.fatal({ check: name, problem }, 'the audit has a problem')
      }
    }
  })
}

export const open = (
  core: ServerCore,
  { checkInvariants, seal, sealTarget }: Pick<AuditSettings, 'checkInvariants' | 'seal' | 'sealTarget'>,
): Feature & { readonly probes: readonly Probe[] } => {
  const { pool, log, clock, keys, isLogInPostgres } = core
  const verifications = createVerificationRuns(async (request) => {
    const { publicKey } = sealKeyOf(keys.seal)
    const wholeLog = yieldingLog(core)
    const dependencies = {
      pool,
      log: wholeLog,
      groups: verifiedGroups(checkInvariants),
      logInPostgres: isLogInPostgres,
      clock,
      master: keys.master,
    }
    return (await runVerification(dependencies, { ...request, publicKey, exported: null })).run
  })
  core.closing.add(verifications.stop)
  const probing = { ...core, ...core.probing }
  const checked = createCheckedEvents({ ...probing, master: keys.master })
  registerAuditGauges(probing, { checkInvariants, seal, sealTarget }, checked)
  const probes = [
    ...(checkInvariants
      ? [violationProbe(probing, checked), ...lagProbes(probing, checked), guardProbe(probing)]
      : []),
    sealProbe(probing, seal.seconds),
    ...sealTargetProbes(probing, sealTarget),
  ]
  return {
    routes: auditRoutes(core),
    pages: [...verificationPages({ pool, verifications }), ...sealPages({ log, clock })],
    workers: [() => watchAuditor(core, probes)],
    probes,
  }
}
