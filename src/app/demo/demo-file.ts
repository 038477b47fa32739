import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder } from '../../platform/postgres/data-lock.ts'
import { readStartFile, StartRefused } from '../../platform/postgres/errors.ts'
import type { Migrations } from '../../platform/postgres/migrate.ts'

export type DemoAccount = { readonly accountId: string; readonly key: string }

/** `demo.json` under FAREBOX_DATA, mode 600: the addresses and keys to try the service. */
export type DemoFile = {
  readonly baseUrl: string
  readonly buyer: DemoAccount
  readonly reseller: DemoAccount
  /** Its key only calls scrapers and reads the wallet. `walletKey` pays into the wallet. */
  readonly scraper: DemoAccount & { readonly walletKey: string }
  /** The address of the sandbox, which simulates payment providers; null: it does not run. */
  readonly sandbox: string | null
}

const pathIn = (dataDir: string): string => join(dataDir, 'demo.json')

/** Null when this directory has no such file. */
export const readDemoFile = async (dataDir: string): Promise<DemoFile | null> => {
  const path = pathIn(dataDir)
  try {
    return JSON.parse(await readStartFile(path)) as DemoFile
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    if (error instanceof SyntaxError)
      throw new StartRefused(
        `${path} is no JSON. Put it back from a backup, or move it away: then no demo keys are shown.`,
        { cause: error },
      )
    throw error
  }
}

/** Replaces the file atomically, so that readers never see a part of it. */
export const writeDemoFile = async (dataDir: string, demo: DemoFile): Promise<void> => {
  await makeFolder(dataDir)
  const path = pathIn(dataDir)
  await writeFile(`${path}.new`, `${JSON.stringify(demo, null, 2)}\n`, { mode: 0o600 })
  await rename(`${path}.new`, path)
}

/** The progress of the demo data in this database: one row after seeding began. */
export const migrations: Migrations = {
  '0020_demo': `
    create table work.demo (
      singleton boolean primary key default true check (singleton),
      began_at timestamptz not null default clock_timestamp(),
      finished_at timestamptz
    );
  `,
}
