#!/usr/bin/env node

import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// Half of a command's time is the reading of its modules: what was compiled for the last one is kept beside the packages.
// Where nothing can be written there, all is read as ever.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/farebox'))

const { runCli } = await import('./app/cli-program.ts')
const { registrationsFor } = await import('./app/commands.ts')
const { registerDemo } = await import('../tools/demo-history/main.ts')
const { onNpmExit } = await import('./app/npm-watch.ts')

// Whoever read the answer is gone, such as "head": this ends as a signal would end it.
process.stdout.on('error', () => process.exit(128 + 13))
process.stderr.on('error', () => undefined)

// Each is an end: what the command started, such as a Postgres, ends with this process (src/platform/postgres/binaries.ts).
for (const [signal, number] of [
  ['SIGHUP', 1],
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const)
  process.once(signal, () => process.exit(128 + number))
onNpmExit(process.env, () => process.exit(128 + 1))

const args = process.argv.slice(2)
process.exitCode = await runCli(args, [...(await registrationsFor(args)), registerDemo], {
  out: (text) => process.stdout.write(`${text}\n`),
  err: (text) => process.stderr.write(`${text}\n`),
  columns: process.stdout.columns,
  environment: process.env,
  clock: Date.now,
  // Loaded here: help, and commands without a database, need none of it.
  open: async (options) => {
    const { openCliContext } = await import('./app/open-context.ts')
    const { readConfig } = await import('./app/config.ts')
    return openCliContext(readConfig(process.env), process.env.LOG_LEVEL !== undefined, Date.now, options)
  },
})
