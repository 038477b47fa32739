import { randomBytes } from 'node:crypto'
import { percentile } from '../percentile.ts'
import { type Lag, watchLag } from './lag.ts'
import { runLoad } from './load.ts'
import type { LoadResult, Times } from './load-process.ts'
import type { TpcB } from './pgbench.ts'

/** What is ordered, by whose keys. */
export type Scenario = {
  readonly name: string
  readonly keys: readonly string[]
  readonly bodies: readonly string[]
  readonly customer?: string
}

/** Runs TPC-B of pgbench with the clients and the duration of a load. */
export type Peer = (clients: number, times: Times) => Promise<TpcB>

/** Turns of one length, together. */
export type Rate = Pick<LoadResult, 'perSecond' | 'p50Ms' | 'p99Ms'>

export type Row = Rate & {
  readonly name: string
  /** Null without pgbench. */
  readonly tpcB: Rate | null
  /** The standard error of the mean of the rounds' ratios to TPC-B; null without pgbench, or of one round. */
  readonly ratioError: number | null
  /** How far each group of read models is behind, at the 99th percentile of the samples, by name. */
  readonly lagP99Ms: ReadonlyMap<string, number>
  /** Answers that were no order, by their status. */
  readonly others: Readonly<Record<string, number>>
}

/** Often enough for a percentile of the lag, and seldom enough not to move it. */
const lagPauseMs = 500

const rising = (a: number, b: number): number => a - b

const lagP99Of = (samples: readonly Lag[]): ReadonlyMap<string, number> =>
  new Map(
    [...(samples[0]?.keys() ?? [])].map((group) => [
      group,
      percentile(samples.map((sample) => sample.get(group) ?? 0).sort(rising), 0.99),
    ]),
  )

/** The turns of a row as one. */
export const together = (turns: readonly Pick<LoadResult, 'perSecond' | 'latenciesMs'>[]): Rate => {
  const latenciesMs = turns.flatMap((each) => each.latenciesMs).sort(rising)
  return {
    perSecond: turns.reduce((sum, each) => sum + each.perSecond, 0) / turns.length,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
  }
}

/** How far the mean of the rounds' ratios may be from that of endless rounds: its standard error. */
export const ratioErrorOf = (
  ours: readonly { readonly perSecond: number }[],
  theirs: readonly { readonly perSecond: number }[],
): number | null => {
  const ratios = theirs.map(({ perSecond }, round) => ours[round]!.perSecond / perSecond)
  if (ratios.length < 2) return null
  const mean = ratios.reduce((sum, each) => sum + each, 0) / ratios.length
  const squares = ratios.reduce((sum, each) => sum + (each - mean) ** 2, 0)
  return Math.sqrt(squares / (ratios.length - 1) / ratios.length)
}

/** Answers of all turns that had another status, and how many. */
export const othersOf = (turns: readonly LoadResult[], expected: string): Record<string, number> => {
  const others: Record<string, number> = {}
  for (const { statuses } of turns)
    for (const [status, count] of Object.entries(statuses))
      if (status !== expected) others[status] = (others[status] ?? 0) + count
  return others
}

/** One turn of a scenario: `connections` clients that order as fast as they are answered. */
export const order = (
  base: URL,
  { keys, bodies, customer }: Scenario,
  connections: number,
  times: Times,
): Promise<LoadResult> =>
  runLoad({
    host: base.hostname,
    port: Number(base.port),
    connections,
    path: '/api/v1/orders',
    run: randomBytes(4).toString('hex'),
    keys,
    bodies,
    ...(customer === undefined ? {} : { customer }),
    ...times,
  })

/**
 * Measures every scenario in every round, TPC-B right before each: a machine's speed moves within minutes, and orders
 * slow down over a run (bench/notes/orders-a-second.md, fifteenth round), so whole rows one after the other would
 * each stand for another minute.
 * Every second round goes backwards, so that no scenario always follows the same one.
 * @param onTurn called before each turn
 */
export const measureRounds = async (
  base: URL,
  scenarios: readonly Scenario[],
  peer: Peer | null,
  {
    clients,
    rounds,
    times,
    onTurn,
  }: {
    readonly clients: number
    readonly rounds: number
    readonly times: Times
    readonly onTurn: () => void
  },
): Promise<readonly Row[]> => {
  const measured = scenarios.map((scenario) => ({
    scenario,
    ours: [] as LoadResult[],
    theirs: [] as TpcB[],
    lags: [] as Lag[],
  }))
  for (let round = 0; round < rounds; round += 1)
    for (const { scenario, ours, theirs, lags } of round % 2 === 0 ? measured : measured.toReversed()) {
      onTurn()
      if (peer) theirs.push(await peer(clients, times))
      const watched = watchLag(base, lagPauseMs)
      ours.push(await order(base, scenario, clients, times))
      lags.push(...(await watched()))
    }
  return measured.map(({ scenario: { name }, ours, theirs, lags }) => ({
    name,
    ...together(ours),
    tpcB: theirs.length > 0 ? together(theirs) : null,
    ratioError: ratioErrorOf(ours, theirs),
    lagP99Ms: lagP99Of(lags),
    others: othersOf(ours, '201'),
  }))
}
