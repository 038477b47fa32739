import type { ProgressBar } from '../src/platform/cli/progress-bar.ts'

/** How much is measured; every size has an option of `npm run bench` and a default that gives figures to quote. */
export type Sizes = {
  /** Of each load on orders, in all its rounds together, and of idling. */
  readonly seconds: number
  /** That each load on orders is measured in. */
  readonly rounds: number
  /** Of TPC-B; 150 is 15 million accounts, about 2.2 GB. */
  readonly scale: number
  /** The length of a long log; the short one has a tenth. */
  readonly events: number
  readonly deliveries: number
  /** Endpoints that a notice goes to. */
  readonly endpoints: number
  readonly callbacks: number
  readonly deposits: number
  /** That have traffic. */
  readonly plans: number
  readonly commands: number
  /** In the data that GETs read. */
  readonly orders: number
  /** Of the one wallet whose first order after a restart is measured. */
  readonly walletOrders: number
  /** Orders: prints the processor time of the parts of an order instead of rates. */
  readonly parts: boolean
}

export type BenchContext = {
  /** A Postgres where databases may be made. */
  readonly url: string
  readonly sizes: Sizes
  /** A line of the result, on standard output. */
  print(line: string): void
  /** What takes long, on standard error of a terminal. */
  readonly bar: ProgressBar
}

/** One part of `npm run bench`: it prints ours, a peer or a limit that was measured in the same run, and the ratio. */
export type Bench = {
  readonly name: string
  /** The measured figure and its comparison, for `--help`. */
  readonly what: string
  run(context: BenchContext): Promise<void>
}

/** A figure with thousands set apart. */
export const figure = (value: number, digits = 0): string =>
  value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })

/** Processor time that this process has used, milliseconds. */
export const cpuMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
