#!/usr/bin/env node

import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// Loading the modules takes half of a command's time, so compiled code is cached in node_modules. If the folder is not
// writable, the modules are compiled each time.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/farebox'))

const { runCli } = await import('./app/cli-program.ts')
const { registrationsFor } = await import('./app/commands.ts')
const { demoCommands } = await import('../tools/demo-history/main.ts')
const { onNpmExit } = await import('./app/npm-watch.ts')

// The reader of the output is gone, such as "head": exit with the code of SIGPIPE.
process.stdout.on('error', () => process.exit(128 + 13))
process.stderr.on('error', () => undefined)

// Exit explicitly, so that the exit handlers stop child processes such as Postgres (src/platform/postgres/binaries.ts).
for (const [signal, number] of [
  ['SIGHUP', 1],
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const)
  process.once(signal, () => process.exit(128 + number))
onNpmExit(process.env, () => process.exit(128 + 1))

const args = process.argv.slice(2)
process.exitCode = await runCli(args, [...(await registrationsFor(args)), ...demoCommands], {
  out: (text) => process.stdout.write(`${text}\n`),
  err: (text) => process.stderr.write(`${text}\n`),
  columns: process.stdout.columns,
  environment: process.env,
  clock: Date.now,
  // Imported here, because help and commands without a database do not need these modules.
  open: async (options) => {
    const { openCliContext } = await import('./app/open-context.ts')
    const { readConfig } = await import('./app/config.ts')
    const { limitMemory } = await import('./platform/cli/limit-memory.ts')
    limitMemory()
    return openCliContext(readConfig(process.env), process.env.LOG_LEVEL !== undefined, Date.now, options)
  },
})
