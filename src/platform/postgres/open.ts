import { setTimeout as sleep } from 'node:timers/promises'
import { DataInUse } from './data-lock.ts'
import { type EmbeddedPostgres, roleUrlsOf, startEmbeddedPostgres } from './embedded.ts'
import { withStartFiles } from './errors.ts'

/** An opened Postgres. `failed` resolves if it is the embedded one of this process and ended by itself. */
export type OpenPostgres = {
  readonly url: string
  /** The same database as its owner, who migrates. Null: the role of `url` is the owner, or no owner is known. */
  readonly ownerUrl: string | null
  /** The same database with the auditor's role. Null: the auditor uses the role of `url`. */
  readonly auditorUrl: string | null
  readonly failed: Promise<Error>
  /** Stops it if this process started it. */
  stop(): Promise<void>
}

const neverFails = new Promise<Error>(() => {})

const externalPostgres = (
  addresses: Pick<OpenPostgres, 'url' | 'ownerUrl' | 'auditorUrl'>,
): OpenPostgres => ({
  ...addresses,
  failed: neverFails,
  stop: async () => undefined,
})

const pauseMs = 50

/** How long to wait for another command to end, or for a server to start, milliseconds: pauses alone are counted. */
const commandWaitMs = 60_000

/** How long to wait for a server that may be stopping before its data counts as in use, milliseconds. */
const stoppingWaitMs = 5_000

/**
 * The user's Postgres, or the embedded one. A server waits for a command that uses the data, and fails if another
 * server uses the data and does not stop. A command uses a running server's Postgres, waits for another command, or
 * starts Postgres itself.
 * @param makes whether a missing cluster is created; default: by a server only
 * @throws DataInUse, FareboxNotInstalled, StartRefused
 */
export const openPostgres = async (
  where: {
    readonly databaseUrl: string | null
    readonly databaseOwnerUrl: string | null
    readonly databaseAuditorUrl: string | null
    readonly dataDir: string
  },
  role: 'server' | 'command',
  makes: boolean = role === 'server',
): Promise<OpenPostgres> => {
  const { databaseUrl, databaseOwnerUrl: ownerUrl, databaseAuditorUrl: auditorUrl } = where
  if (databaseUrl !== null) return externalPostgres({ url: databaseUrl, ownerUrl, auditorUrl })
  for (let waitedMs = 0; ; waitedMs += pauseMs) {
    const started = await tryStart(where.dataDir, role, makes)
    if (!(started instanceof DataInUse)) return started
    const { user } = started
    if (role === 'command' && user?.role === 'server' && user.url !== null)
      return externalPostgres({
        url: user.url,
        ...((await roleUrlsOf(where.dataDir, user.url)) ?? { ownerUrl: null, auditorUrl: null }),
      })
    const waitMs = role === 'server' && user?.role === 'server' ? stoppingWaitMs : commandWaitMs
    if (waitedMs >= waitMs) throw started
    await sleep(pauseMs)
  }
}

const tryStart = async (
  dataDir: string,
  role: string,
  makes: boolean,
): Promise<EmbeddedPostgres | DataInUse> => {
  try {
    return await withStartFiles(dataDir, () => startEmbeddedPostgres({ dataDir, role, makes }))
  } catch (error) {
    if (error instanceof DataInUse) return error
    throw error
  }
}
