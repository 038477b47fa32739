#!/usr/bin/env node
import { openCliContext } from './cli/open-context.ts'
import { runCli } from './cli/program.ts'
import { rooms } from './cli-rooms.ts'
import { readConfig } from './config.ts'

process.exitCode = await runCli(process.argv.slice(2), rooms, {
  out: (text) => process.stdout.write(`${text}\n`),
  err: (text) => process.stderr.write(`${text}\n`),
  columns: process.stdout.columns,
  config: () => readConfig(process.env),
  open: () => openCliContext(readConfig(process.env), process.env.LOG_LEVEL !== undefined, Date.now),
})
