import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { openAuditor } from '../../src/app/auditor.ts'
import { readConfig } from '../../src/app/config.ts'
import { type DemoFile, readDemoFile, writeDemoFile } from '../../src/app/demo/demo-file.ts'
import { openFarebox, roles } from '../../src/app/start.ts'
import { createLogger } from '../../src/platform/http/logging.ts'
import { demoEnv, demoKeys } from './demo-env.ts'
import { emptyDatabase, ensureTemplate } from './postgres.ts'
import { seededTemplateOf } from './postgres-server.ts'

type Seed = { readonly keys: ReturnType<typeof demoKeys>; readonly demo: DemoFile }

/** The code may change between two runs on one server: each run seeds its own database. */
const templateName = seededTemplateOf(process.env.FAREBOX_TEST_RUN ?? String(process.pid))

const inFolder = async <Value>(use: (dataDir: string) => Promise<Value>): Promise<Value> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'farebox-seed-'))
  try {
    return await use(dataDir)
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** The work of a service's first start: the demo is created, sealed and folded into every read table. */
const seed = ({ url }: { readonly url: string }): Promise<Seed> =>
  inFolder(async (dataDir) => {
    const keys = demoKeys()
    const config = readConfig({ ...demoEnv(url, dataDir, keys), PORT: '0', FAREBOX_SEAL_SECONDS: '1' })
    const parts = {
      config,
      systemClock: Date.now,
      logger: createLogger('fatal'),
      kill: () => process.kill(process.pid, 'SIGKILL'),
    }
    const farebox = await openFarebox({ ...parts, roles, monotonicMs: () => performance.now() })
    await farebox.projecting.caughtUp(60_000)
    const auditor = await openAuditor(parts)
    await auditor.core.projecting.caughtUp(60_000)
    await auditor.close()
    await farebox.close()
    const demo = await readDemoFile(dataDir)
    if (demo === null) throw new Error('the template has no demo')
    return { keys, demo }
  })

let seeded: Promise<Seed> | null = null

/**
 * A database on which a service has started once, as settings for the next one: a start on it finds the demo
 * and the folded read tables, and is ready in a fraction of the time. All services of a run share the log's
 * id, the keys and the demo's accounts. `demo.json` is put into the folder.
 */
export const seededDatabase = async (t: TestContext, dataDir: string) => {
  seeded ??= ensureTemplate(templateName, seed) as Promise<Seed>
  const { keys, demo } = await seeded
  const { url } = await emptyDatabase(t, templateName)
  await writeDemoFile(dataDir, demo)
  return demoEnv(url, dataDir, keys)
}
