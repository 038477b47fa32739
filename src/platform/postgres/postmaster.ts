import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Launcher } from './binaries.ts'
import { tailOf } from './log-tail.ts'
import { StartRefused } from './start-refused.ts'

/**
 * Throughput without a loss of durability: `fsync`, `synchronous_commit` and `full_page_writes` stay on. Checkpoints
 * are rare and spread, so that full page images stay few. A new file of the write-ahead log is not filled with zeros first:
 * that stops every commit for the time it takes, and the disk is asked for the same space when the file is written.
 */
export const defaultSettings: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '256MB',
  wal_buffers: '16MB',
  wal_init_zero: 'off',
  min_wal_size: '512MB',
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  random_page_cost: '1.1',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_checkpoints: 'off',
  log_min_messages: 'warning',
  password_encryption: 'scram-sha-256',
}

const freePort = async (): Promise<number> => {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

/** Line 8 of `postmaster.pid` tells the state; line 1 whose file it is, for a killed Postgres left its own behind. */
const isReady = async (cluster: string, pid: number | undefined): Promise<boolean> => {
  const text = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')
  const lines = text.split('\n')
  return lines[0] === String(pid) && (lines[7]?.startsWith('ready') ?? false)
}

/** How long a start may take: crash recovery replays at most `max_wal_size` of log. */
const startTimeoutMs = 300_000

/** One try to start the postmaster; null when it ended before it was ready. */
const startPostmaster = async (
  launcher: Launcher,
  cluster: string,
  settings: Readonly<Record<string, string>>,
  logFd: number,
): Promise<{ child: ChildProcess; port: number } | null> => {
  const port = await freePort()
  const flags = Object.entries({ ...settings, port: String(port) }).flatMap(([k, v]) => ['-c', `${k}=${v}`])
  const child = launcher.spawn(launcher.postgres, ['-D', cluster, ...flags], logFd)
  let failed = false
  child.once('error', () => {
    failed = true
  })
  const deadlineMs = performance.now() + startTimeoutMs
  while (!(await isReady(cluster, child.pid))) {
    if (failed || child.exitCode !== null || child.signalCode !== null) return null
    if (performance.now() > deadlineMs) {
      child.kill('SIGQUIT')
      return null
    }
    await sleep(10)
  }
  return { child, port }
}

/** A port may be taken between its choice and its use, and backends of a postmaster that was killed take a moment to end. */
export const startWithRetries = async (
  launcher: Launcher,
  cluster: string,
  settings: Readonly<Record<string, string>>,
  logFile: string,
  logFd: number,
): Promise<{ child: ChildProcess; port: number }> => {
  for (let attempt = 1; attempt <= 5; attempt++) {
    const started = await startPostmaster(launcher, cluster, settings, logFd)
    if (started) return started
    await sleep(200 * attempt)
  }
  throw new StartRefused(
    `the embedded Postgres does not start; the end of ${logFile}:\n${await tailOf(logFile)}`,
  )
}

/** A fast shutdown; an immediate one, after which the next start replays the log, when that takes a minute. */
export const stopChild = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGINT')
  const late = setTimeout(() => child.kill('SIGQUIT'), 60_000)
  await exited
  clearTimeout(late)
}
