import { randomBytes } from 'node:crypto'

export const metricsToken = randomBytes(16).toString('hex')

/** The token for /metrics, and for the details of /readyz, at the services of these tests. */
export const asOperator = { headers: { authorization: `Bearer ${metricsToken}` } }

/** Keys that nothing else has. */
export const demoKeys = () => ({
  FAREBOX_MASTER_KEY: randomBytes(32).toString('base64'),
  FAREBOX_SEAL_KEY: randomBytes(32).toString('base64'),
})

/** Settings of processes of the service that share a database: the demo, keys, no rate limits. */
export const demoEnv = (databaseUrl: string, dataDir: string, keys = demoKeys()) => ({
  DATABASE_URL: databaseUrl,
  FAREBOX_DATA: dataDir,
  FAREBOX_DEMO: 'on',
  FAREBOX_RATE_LIMIT: 'off',
  ...keys,
  FAREBOX_METRICS_TOKEN: metricsToken,
  LOG_LEVEL: 'error',
})
