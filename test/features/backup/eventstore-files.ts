import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const page = readFileSync(join(import.meta.dirname, '../../../docs/operations/backup-and-restore.md'), 'utf8')

/** The commands of the backup page between two words of it, unchanged. */
const documented = (mark: string): string => {
  const block = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].find(([, text]) => text?.includes(mark))?.[1]
  assert.ok(block, `docs/operations/backup-and-restore.md shows how to ${mark}`)
  return block
}

/** Runs the documented commands in a server's directory of data. */
const shell = async (mark: string, db: string, backup: string): Promise<void> => {
  const text = documented(mark).replaceAll('/var/lib/eventstore', db).replaceAll('/backup/eventstore', backup)
  await run('bash', ['-euo', 'pipefail', '-c', text])
}

/** Copies the files of a server, as the backup page describes. */
export const backUpLog = (db: string, backup: string): Promise<void> => shell('find index', db, backup)
/** Puts a copy into the empty directory of a stopped server, as the backup page describes. */
export const putLogBack = (db: string, backup: string): Promise<void> => shell('truncate.chk', db, backup)
