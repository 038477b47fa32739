import type pg from 'pg'
import type { Logger } from 'pino'
import { sealKeyOf } from '../audit/seals/seals-file.ts'
import { createBatchSigner, createSigningStop, type SignerOptions } from '../audit/signatures/signer.ts'
import type { Clock } from '../kernel/clock.ts'
import { createLogWait, type LogWait } from '../platform/commands/wait-for-log.ts'
import { parseAddress, shownAddress } from '../platform/eventstore/eventstoredb/address.ts'
import type { EventLog } from '../platform/eventstore/port.ts'
import type { BatchSigner } from '../platform/eventstore/postgres/append-batch.ts'
import { openPostgresLog } from '../platform/eventstore/postgres/log.ts'
import { clientConfig, type PoolOptions } from '../platform/postgres/pool.ts'
import type { Config } from './config.ts'

type LogOptions = {
  readonly config: Config
  readonly role: 'server' | 'auditor' | 'command'
  /** False: this process copies a log and signs nothing. */
  readonly signs?: false
  readonly logger: Logger
}

/**
 * Milliseconds. An EventStoreDB on a busy machine may need ten seconds for its first answer, and a cluster elects a
 * leader.
 */
export const logWaitMs = { server: 30_000, auditor: 30_000, command: 10_000 }

/** The wait for an EventStoreDB. The wait for the database covers a log in Postgres. */
export const logWaitFor = (url: string, { role, logger }: LogOptions): LogWait =>
  createLogWait({
    withinMs: logWaitMs[role],
    where: shownAddress(parseAddress(url)),
    onWait: (reason, waitedMs) =>
      logger.warn({ reason, waitedMs }, 'the log does not answer yet: waiting for it'),
  })

const signerFor = ({ config, signs }: LogOptions, signerOptions: SignerOptions): BatchSigner | undefined => {
  if (signs === false) return undefined
  return config.signing ? createBatchSigner(signerOptions) : createSigningStop(signerOptions)
}

/** Opens the log in Postgres, or in an EventStoreDB if its address is set. */
export const openLog = async (
  options: LogOptions,
  {
    pool,
    connection,
    sealKey,
    clock,
    clockOffsetMs,
    onSetBack,
  }: {
    readonly pool: pg.Pool
    readonly connection: PoolOptions
    readonly sealKey: Uint8Array
    readonly clock: Clock
    /** See the log in Postgres. */
    readonly clockOffsetMs: (() => number) | undefined
    readonly onSetBack: (error: Error) => void
  },
): Promise<EventLog> => {
  const { config, logger } = options
  const onTrouble = (message: string, error: unknown): void => logger.warn({ err: error }, message)
  if (config.eventStoreUrl !== null) {
    // The EventStoreDB client is a seventh of the files that a command loads, so it is loaded only when needed.
    const { eventStoreDbLog } = await import('../platform/eventstore/eventstoredb/log.ts')
    return eventStoreDbLog({ url: config.eventStoreUrl, onTrouble })
  }
  return openPostgresLog({
    pool,
    connection: clientConfig(connection),
    onTrouble,
    onSetBack,
    clockOffsetMs,
    signer: signerFor(options, { pool, sealKey: sealKeyOf(sealKey), clock, role: options.role }),
  })
}
