import { type Clock, isoTime } from '../../kernel/clock.ts'
import { newId } from '../../kernel/ids.ts'
import { createCustomerIds } from '../../market/customers/identity.ts'
import type { Actor } from '../../platform/eventstore/event.ts'
import type { MasterKey } from '../../platform/vault/master-key.ts'
import { recordEnd, recordStart, type Verification } from './runs.ts'
import { type VerifyDeps, type VerifyOptions, type VerifyResult, verifyLog } from './verify/verify.ts'

export type VerificationDeps = VerifyDeps & {
  readonly clock: Clock
  /** The master key: the resellers' own ids of customers are checked with it. */
  readonly master: MasterKey
}

export type VerificationAsked = Pick<VerifyOptions, 'publicKey' | 'exported' | 'onProgress' | 'signal'> & {
  readonly runId: string
  readonly actor: Actor
}

export const newRunId = (): string => newId<string>('vrf')

/** Verifies the log, and keeps the run on record from its start; one that throws is kept as ended without a verdict. */
export const runVerification = async (
  { clock, master, ...deps }: VerificationDeps,
  { actor, ...asked }: VerificationAsked,
): Promise<{ readonly run: Verification; readonly result: VerifyResult }> => {
  const { pool, log } = deps
  const { runId } = asked
  await recordStart(pool, { runId, logId: await log.logId(), actor, startedAt: isoTime(clock()) })
  try {
    const result = await verifyLog(deps, { ...asked, customerIdOf: createCustomerIds(master), clock })
    return { run: await recordEnd(pool, runId, isoTime(clock()), result), result }
  } catch (error) {
    await recordEnd(pool, runId, isoTime(clock()), null).catch(() => undefined) // the first error is what matters
    throw error
  }
}
