import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stepsOf } from '../src/platform/cli/progress-bar.ts'
import { installPeers } from './append/peers.ts'
import { type Bench, type BenchContext, figure } from './bench.ts'
import {
  type Contender,
  contenders,
  password,
  type Running,
  startContender,
  username,
} from './gateway/contenders.ts'
import type { Counted, Load } from './gateway/load.ts'
import type { Ports } from './gateway/target.ts'
import { cpuMicros } from './process-cpu.ts'

const idleTunnels = 5_000
const atOnce = { tunnels: 64, bulk: 16, requests: 64, idle: idleTunnels } as const
const maxSeconds = 4
/** Until a runtime has compiled what is used much: a proxy runs for months. */
const warmUpMs = 8_000

/** Of one load: by the clock, and by the processor time of the proxy alone. */
type Rate = { readonly perSecond: number; readonly perCoreSecond: number; readonly failed: number }
type Figures = {
  readonly tunnels: Rate
  readonly bulk: Rate
  readonly requests: Rate | null
  readonly idleKb: number
}

const script = (file: string, args: readonly string[]): ChildProcess =>
  spawn(process.execPath, [join(import.meta.dirname, 'gateway', file), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })

const printed = async <Value>(child: ChildProcess): Promise<Value> => {
  const [line] = (await once(child.stdout!, 'data')) as [Buffer]
  return JSON.parse(line.toString()) as Value
}

const loadOf = ({ contender, port }: Running, kind: Load['kind'], target: number, seconds: number): Load => ({
  kind,
  speaks: contender.speaks,
  authenticates: contender.authenticates,
  username,
  password,
  port,
  target,
  atOnce: atOnce[kind],
  ms: seconds * 1_000,
})

const runLoad = async (load: Load): Promise<Counted> => {
  const child = script('load.ts', [JSON.stringify(load)])
  const exited = once(child, 'exit')
  const counted = await printed<Counted>(child)
  await exited
  return counted
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0)
const cpuOf = async ({ pids }: Running): Promise<number> =>
  sum(await Promise.all(pids.map((pid) => cpuMicros(`/proc/${pid}`))))

const rateOf = async (running: Running, load: Load, per: 'count' | 'bytes'): Promise<Rate> => {
  await runLoad({ ...load, ms: warmUpMs })
  const before = await cpuOf(running)
  const counted = await runLoad(load)
  const spent = (await cpuOf(running)) - before
  return {
    perSecond: (counted[per] * 1_000) / counted.ms,
    perCoreSecond: (counted[per] * 1_000_000) / spent,
    failed: counted.failed,
  }
}

const residentKb = async (pid: number): Promise<number> => {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s*(\d+)/m.exec(status)?.[1] ?? Number.NaN)
}

/** What a fresh process holds with 5,000 tunnels over which nothing goes. */
const idleKbOf = async (running: Running, target: number): Promise<number> => {
  const child = script('load.ts', [JSON.stringify(loadOf(running, 'idle', target, 60))])
  const exited = once(child, 'exit')
  const { count } = await printed<Counted>(child)
  const kb = sum(await Promise.all(running.pids.map(residentKb)))
  child.stdin!.write('\n')
  await exited
  return count === idleTunnels ? kb : Number.NaN
}

const measure = async (
  contender: Contender,
  directory: string,
  ports: Ports,
  seconds: number,
): Promise<Figures> => {
  const withFresh = async <Value>(work: (running: Running) => Promise<Value>): Promise<Value> => {
    const running = await startContender(contender, directory)
    try {
      return await work(running)
    } finally {
      await running.stop()
    }
  }
  const idleKb = await withFresh((running) => idleKbOf(running, ports.idle))
  return withFresh(async (running) => ({
    requests:
      contender.speaks === 'http'
        ? await rateOf(running, loadOf(running, 'requests', ports.keepAlive, seconds), 'count')
        : null,
    bulk: await rateOf(running, loadOf(running, 'bulk', ports.flood, seconds), 'bytes'),
    tunnels: await rateOf(running, loadOf(running, 'tunnels', ports.once, seconds), 'count'),
    idleKb,
  }))
}

const column = (value: number, width: number): string =>
  (Number.isNaN(value) ? '–' : figure(value)).padStart(width)
const both = (rate: Rate | null, divisor = 1): string =>
  rate === null
    ? '–'.padStart(22)
    : `${column(rate.perSecond / divisor, 11)}${column(rate.perCoreSecond / divisor, 11)}`

const line = ({ name, authenticates }: Contender, { tunnels, bulk, requests, idleKb }: Figures): string => {
  const failed = tunnels.failed + bulk.failed + (requests?.failed ?? 0)
  return [
    `  ${name.padEnd(17)}${(authenticates ? 'yes' : 'no').padEnd(5)}`,
    both(tunnels),
    both(bulk, 1_000_000),
    both(requests),
    column(idleKb / 1_024, 9),
    failed > 0 ? `  ${failed} failed` : '',
  ].join('')
}

const compare = (ours: Figures, squid: Figures): string => {
  const times = (by: 'perSecond' | 'perCoreSecond'): string => {
    const of = (one: Rate | null, other: Rate | null): string =>
      one === null || other === null ? '–' : (one[by] / other[by]).toFixed(2)
    return `tunnels ${of(ours.tunnels, squid.tunnels)}, MB ${of(ours.bulk, squid.bulk)}, requests ${of(ours.requests, squid.requests)}`
  }
  return `farebox ÷ squid by the clock: ${times('perSecond')}; by core second: ${times('perCoreSecond')}`
}

const run = async ({ print, sizes, bar }: BenchContext): Promise<void> => {
  await installPeers()
  const directory = await mkdtemp(join(tmpdir(), 'farebox-bench-'))
  const targets = script('target.ts', [])
  try {
    const ports = await printed<Ports>(targets)
    const seconds = Math.min(sizes.seconds, maxSeconds)
    const all = await contenders()
    const found = new Map<string, Figures>()
    print(
      'one process a proxy, on one core ("two": two processes that share the port, on both); /s is by the clock,\n' +
        '/core-s by the processor time of the proxy alone, which\n' +
        'says what one core does when the load, on the same machine, does not hold it up\n\n' +
        `  proxy            auth  tunnels/s    /core-s       MB/s  MB/core-s requests/s    /core-s  MB idle`,
    )
    const step = stepsOf(bar, 'gateway', all.length, 'proxies')
    for (const [at, contender] of all.entries()) {
      step(at, at)
      const figures = await measure(contender, directory, ports, seconds)
      found.set(contender.name, figures)
      bar.end()
      print(line(contender, figures))
    }
    const [ours, squid] = [found.get('farebox'), found.get('squid')]
    print(ours && squid ? `\n  ${compare(ours, squid)}` : '\n  squid is not installed: no ratio')
  } finally {
    targets.kill()
    await rm(directory, { recursive: true, force: true })
  }
}

/** The data plane alone, with authentication and metering, compared with other proxies on the same core. */
export const gateway: Bench = {
  name: 'gateway',
  what: 'tunnels, bytes and plain requests a second of one gateway process, and its memory, compared with squid and others',
  run,
}
