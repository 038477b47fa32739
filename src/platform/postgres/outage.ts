/** Codes of Node and Postgres (SQLSTATE) that mean: not reachable, shutting down, out of connections, out of time. */
const socketCodes: readonly string[] = [
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOENT',
  'EAI_AGAIN',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
]
const sqlStates = /^(08...|53...|57014|57P0.|55P03|40001|40P01)$/

/** node-postgres gives these without a code. */
const driverMessages =
  /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error/

/** Whether an error of a query or a connection says that the database cannot answer just now; a retry may succeed. */
export const isDatabaseOutage = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false
  const { code } = error as { code?: unknown }
  if (typeof code === 'string') return socketCodes.includes(code) || sqlStates.test(code)
  return driverMessages.test(error.message)
}
