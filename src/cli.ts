#!/usr/bin/env node
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// Half of a command's time is the reading of its modules: what was compiled for the last one is kept beside the packages.
// Where nothing can be written there, all is read as ever.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/farebox'))

const { openCliContext } = await import('./cli/open-context.ts')
const { runCli } = await import('./cli/program.ts')
const { rooms } = await import('./cli-rooms.ts')
const { readConfig } = await import('./config.ts')

process.exitCode = await runCli(process.argv.slice(2), rooms, {
  out: (text) => process.stdout.write(`${text}\n`),
  err: (text) => process.stderr.write(`${text}\n`),
  columns: process.stdout.columns,
  environment: process.env,
  open: ({ makes }) =>
    openCliContext(readConfig(process.env), process.env.LOG_LEVEL !== undefined, Date.now, makes),
})
