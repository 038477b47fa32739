import { Counter, Histogram, type Registry } from 'prom-client'
import { registerGauge } from '../platform/http/gauges.ts'
import type { ProxyMetrics } from './gateway-ports.ts'

/** Prometheus metrics of the data plane. They never contain a target, a plan or a customer. */
export const createGatewayMetrics = (registry: Registry): ProxyMetrics => {
  const registers = [registry]
  let connections = 0
  let tunnels = 0
  registerGauge(registry, {
    name: 'farebox_gateway_connections',
    help: 'Client connections that are open.',
    read: () => connections,
  })
  registerGauge(registry, {
    name: 'farebox_gateway_tunnels',
    help: 'Tunnels and requests that pass bytes now.',
    read: () => tunnels,
  })
  const opened = new Counter({
    name: 'farebox_gateway_tunnels_total',
    help: 'Tunnels and requests that were let through, by protocol.',
    labelNames: ['protocol'] as const,
    registers,
  })
  const bytes = new Counter({
    name: 'farebox_gateway_bytes_total',
    help: 'Bytes passed on the side of the clients; up is from them.',
    labelNames: ['direction'] as const,
    registers,
  })
  const refusals = new Counter({
    name: 'farebox_gateway_refusals_total',
    help: 'Refusals by the gateway, by status and X-Proxy-Error.',
    labelNames: ['status', 'error'] as const,
    registers,
  })
  const dialled = new Histogram({
    name: 'farebox_gateway_dial_duration_seconds',
    help: 'From dialling an exit to the connection with the target, by the kind of the exit and how it ended.',
    labelNames: ['kind', 'outcome'] as const,
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  })
  const faults = new Counter({
    name: 'farebox_gateway_faults_total',
    help: 'Connections that an unexpected exception in the gateway ended. Each is a bug in Farebox and is logged.',
    registers,
  })
  return {
    connected: () => {
      connections += 1
    },
    disconnected: () => {
      connections -= 1
    },
    opened: (protocol) => {
      tunnels += 1
      opened.inc({ protocol })
    },
    closed: () => {
      tunnels -= 1
    },
    refused: (status, error) => refusals.inc({ status: String(status), error }),
    dialled: (kind, outcome, ms) => dialled.observe({ kind, outcome }, ms / 1_000),
    faulted: () => faults.inc(),
    countBytes: (direction, count) => bytes.inc({ direction }, count),
  }
}
