import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { groups } from '../../projections/groups.ts'
import { runCli } from '../../src/app/cli-program.ts'
import { readConfig } from '../../src/app/config.ts'
import { openCliContext } from '../../src/app/open-context.ts'
import { commands as auditCommands } from '../../src/audit/commands.ts'
import { openLog } from '../platform/eventstore/open-postgres.ts'
import { caughtUp, startEngine } from '../platform/projections/engine.ts'
import { testDatabase } from '../support/postgres.ts'

export const secret = () => randomBytes(32).toString('base64')

/** A database, a directory for files, and the command line on both. */
export const commandLine = async (t: TestContext) => {
  const { url, pool } = await testDatabase(t)
  const log = await openLog(url)
  t.after(() => log.close())
  // Only a demo has a moved clock.
  await pool.query('insert into work.demo default values')
  const directory = await mkdtemp(join(tmpdir(), 'farebox-audit-'))
  t.after(() => rm(directory, { recursive: true }))
  const env = {
    DATABASE_URL: url,
    FAREBOX_DATA: directory,
    FAREBOX_MASTER_KEY: secret(),
    FAREBOX_SEAL_KEY: secret(),
    // The tests append to the log by themselves.
    FAREBOX_SIGNING: 'off',
    // The events of these tests reach into February 2027; none of them is to be of the future.
    FAREBOX_CLOCK_OFFSET_MS: String(120 * 86_400_000),
  }
  const run = async (...args: string[]) => runWith({}, ...args)
  const runWith = async (over: Record<string, string>, ...args: string[]) => {
    const out: string[] = []
    const err: string[] = []
    const code = await runCli(args, auditCommands, {
      environment: { ...env, ...over },
      clock: Date.now,
      out: (text) => out.push(text),
      err: (text) => err.push(text),
      open: (options) => openCliContext(readConfig({ ...env, ...over }), false, Date.now, options),
    })
    const text = out.join('\n')
    return { code, out: text, err: err.join('\n'), json: () => JSON.parse(text) }
  }
  const fold = async (): Promise<void> => {
    // A new process: it caches nothing that was appended before the log was changed.
    const reopened = await openLog(url)
    const engine = await startEngine(t, pool, reopened, groups)
    await caughtUp(engine, reopened)
    await engine.stop()
    await reopened.close()
  }
  const file = (name: string): string => join(directory, name)
  return { url, pool, log, env, run, runWith, fold, file }
}
