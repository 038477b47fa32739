import type { Denied } from './ports.ts'

export type Protocol = 'http' | 'connect' | 'socks5' | 'udp'

/** What the data plane measures. Nothing here names a target or a customer. */
export type ProxyMetrics = {
  /** A client connected. */
  connected(): void
  disconnected(): void
  /** Bytes began to pass for one admission; the other one ends it. */
  opened(protocol: Protocol): void
  closed(protocol: Protocol): void
  refused(status: number, error: Denied['error']): void
  /** One try to reach a target through an exit. */
  dialled(kind: string, outcome: 'connected' | 'exit_failed' | 'target_failed', ms: number): void
  passed(direction: 'up' | 'down', bytes: number): void
  /** A fault of the gateway itself ended one connection. */
  faulted(): void
}

export const noMetrics: ProxyMetrics = {
  connected: () => undefined,
  disconnected: () => undefined,
  opened: () => undefined,
  closed: () => undefined,
  refused: () => undefined,
  dialled: () => undefined,
  passed: () => undefined,
  faulted: () => undefined,
}
