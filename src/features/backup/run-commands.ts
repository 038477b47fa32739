import { access, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isoTime } from '../../kernel/clock.ts'
import { positionToken } from '../../kernel/log-position.ts'
import type { BareContext, CliContext, CliSettings } from '../../platform/cli/cli-context.ts'
import { CliMisuse, type CliOutput, fields } from '../../platform/cli/output.ts'
import { stepsOf, withProgress } from '../../platform/cli/progress-bar.ts'
import { fileSink, UnwritableFile } from '../../platform/outgoing/file-sink.ts'
import { DatabaseClient } from '../../platform/postgres/client.ts'
import { type Migrations, migrate } from '../../platform/postgres/migrate.ts'
import { openPostgres } from '../../platform/postgres/open.ts'
import { clientConfig, createPool } from '../../platform/postgres/pool.ts'
import { fingerprintOf, keyNames, loadKeys } from '../../platform/vault/keys.ts'
import { type BackupHead, BackupRefused, createBackup } from './create-backup.ts'
import { checkBackup, restoreBackup } from './restore-backup.ts'

const asMisuse = (error: unknown): unknown =>
  error instanceof UnwritableFile ? new CliMisuse(error.message) : error

export const create = (
  context: CliContext,
  { out, force = false }: { readonly out: string; readonly force?: boolean },
): Promise<CliOutput> =>
  withProgress(async (bar) => {
    const { config, log, pool, clock } = context
    const isLogExternal = config.eventStoreUrl !== null
    const logHead: BackupHead['log'] | null = isLogExternal
      ? { kind: 'eventstoredb', logId: await log.logId(), position: await log.head() }
      : null
    const sink = await fileSink(out, { replace: force }).catch((error) => {
      throw asMisuse(error)
    })
    let step: ReturnType<typeof stepsOf> | null = null
    const client = await pool.connect()
    try {
      const created = await createBackup(client, sink, {
        createdAt: isoTime(clock()),
        log: logHead,
        onProgress: (doneCount, total) => {
          step ??= stepsOf(bar, 'backup', total, 'bytes')
          step(doneCount, doneCount)
        },
      })
      const { size } = await stat(out)
      const summary = { file: out, bytes: size, ...created, position: positionToken(created.position) }
      const note = isLogExternal
        ? '\nIt has no log: back up EventStoreDB as well (docs/operations/backup-and-restore.md).'
        : ''
      return {
        json: summary,
        text: `${fields(summary)}${note}\nStore master.key and seal.key (or the two settings) separately: without them it cannot be restored.`,
      }
    } catch (error) {
      await sink.abandon()
      throw asMisuse(error)
    } finally {
      client.release(true)
    }
  })

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

/** Keys are never created here: new ones would not match, and would block the right ones. */
const assertKeys = async (config: CliSettings, head: BackupHead): Promise<void> => {
  for (const [name, keySetting] of [
    ['master', config.masterKey],
    ['seal', config.sealKey],
  ] as const)
    if (keySetting === null && !(await exists(join(config.dataDir, `${name}.key`))))
      throw new CliMisuse(
        `put ${name}.key of the service that was backed up into ${config.dataDir} first, or set FAREBOX_${name.toUpperCase()}_KEY`,
        {},
        'key_refused',
      )
  const keys = await loadKeys(config, keyNames)
  for (const name of keyNames) {
    const backupKey = head.keys.find((key) => key.name === name)
    if (backupKey !== undefined && backupKey.fingerprint !== fingerprintOf(name, keys[name]))
      throw new CliMisuse(`the ${name} key is not the one of the backup`, {}, 'key_refused')
  }
}

const userOf = (url: string): string => decodeURIComponent(new URL(url).username)

/** @param migrations the migrations for a restored database */
export const restore =
  (migrations: Migrations) =>
  ({ readSettings }: BareContext, { file: path }: { readonly file: string }): Promise<CliOutput> =>
    withProgress(async (bar) => {
      const config = await readSettings()
      if (!(await exists(path))) throw new CliMisuse(`${path} cannot be read`)
      const checking = stepsOf(bar, 'check  ', 0, 'rows')
      const { head, rows } = await checkBackup(path, migrations, (doneCount) => checking(0, doneCount))
      if ((head.log.kind === 'eventstoredb') !== (config.eventStoreUrl !== null))
        throw new BackupRefused(`its log was in ${head.log.kind}: set EVENTSTORE_URL then, and only then`)
      await assertKeys(config, head)
      const { url, ownerUrl, auditorUrl, stop } = await openPostgres(config, 'command', true)
      const owner = { url: ownerUrl ?? url, applicationName: 'farebox-restore' }
      const client = new DatabaseClient(clientConfig(owner))
      client.on('error', () => undefined) // the query that waits gets it
      try {
        await client.connect()
        const step = stepsOf(bar, 'restore', rows, 'rows')
        await restoreBackup(client, path, migrations, (doneCount) => step(doneCount, doneCount))
        // The next command finds the database of this version, with the rights of the service and the auditor.
        const pool = createPool({ ...owner, max: 1 })
        const roles =
          ownerUrl === null
            ? {}
            : { service: userOf(url), auditor: auditorUrl ? userOf(auditorUrl) : undefined }
        await migrate(pool, migrations, roles).finally(() => pool.end())
      } finally {
        await client.end()
        await stop()
      }
      const { createdAt, log } = head
      const summary = { createdAt, rows, logId: log.logId, position: positionToken(log.position) }
      return {
        json: summary,
        text: `${fields(summary)}\nThe next start creates the read tables, or: bin/farebox projections rebuild all\nSeal what was not sealed yet: bin/farebox ledger seal\nThen check it: bin/farebox ledger verify`,
      }
    }).catch((error) => {
      if (!(error instanceof BackupRefused)) throw error
      throw new CliMisuse(`${path} is not restored, nothing was written: ${error.message}`, {}, 'no_backup')
    })
