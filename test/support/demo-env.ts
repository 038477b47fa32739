import { randomBytes } from 'node:crypto'

export const metricsToken = randomBytes(16).toString('hex')

/** What opens /metrics, and what /readyz says is wrong, at the services of these tests. */
export const asOperator = { headers: { authorization: `Bearer ${metricsToken}` } }

/**
 * Settings of processes of the service that share a database: the demo, keys of their own, no rate limits. Each call
 * makes other keys.
 */
export const demoEnv = (databaseUrl: string, dataDir: string) => ({
  DATABASE_URL: databaseUrl,
  FAREBOX_DATA: dataDir,
  FAREBOX_DEMO: 'on',
  FAREBOX_RATE_LIMIT: 'off',
  FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
  FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
  FAREBOX_METRICS_TOKEN: metricsToken,
  LOG_LEVEL: 'error',
})
