import { once } from 'node:events'
import { access, constants } from 'node:fs/promises'
import { get, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type DataUser, readDataUser } from '../../platform/postgres/data-lock.ts'
import { hasOwnSessions, poolerProblem, poolerRemedy } from '../../platform/postgres/pooler.ts'
import { keyNames } from '../../platform/vault/keys.ts'
import type { Config } from '../config.ts'
import { urlOf } from '../listen.ts'
import { note, type Outcome, ok, wrong } from './finding.ts'

const hasAccess = (path: string, mode: number): Promise<boolean> =>
  access(path, mode).then(
    () => true,
    () => false,
  )

/** The directory of the embedded Postgres and of the generated keys. */
export const checkData = async ({ dataDir, databaseUrl, masterKey, sealKey }: Config): Promise<Outcome> => {
  if (databaseUrl !== null) return ok(`${dataDir}; the database is the one of DATABASE_URL`)
  if (!(await hasAccess(join(dataDir, 'postgres'), constants.F_OK)))
    return wrong(
      `${dataDir} holds no Farebox`,
      'set FAREBOX_DATA to the directory that holds yours, or make a new one with npm start',
    )
  if (!(await hasAccess(dataDir, constants.R_OK | constants.W_OK)))
    return wrong(`this user may not read and write ${dataDir}`, 'run it as the user of the server')
  const configuredKeys = { master: masterKey, seal: sealKey }
  for (const name of keyNames) {
    const path = join(dataDir, `${name}.key`)
    if (configuredKeys[name] === null && !(await hasAccess(path, constants.R_OK)))
      return wrong(
        `${path} is missing or cannot be read`,
        `put it back from a backup, or set FAREBOX_${name.toUpperCase()}_KEY`,
      )
  }
  return ok(dataDir)
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** The server that locks the data; null if there is none, or if the database is not the embedded one. */
const serverOf = async ({ dataDir, databaseUrl }: Config): Promise<DataUser | null> => {
  if (databaseUrl !== null) return null
  const dataUser = await readDataUser(dataDir).catch(() => null)
  return dataUser?.role === 'server' && isAlive(dataUser.pid) ? dataUser : null
}

/** The answer of `/readyz` at this address; null: no answer. */
const readiness = async (
  url: string,
  token: string | null,
): Promise<{ readonly status: number; readonly body: string } | null> => {
  // `/readyz` lists the failing checks only with the token.
  const headers = token === null ? {} : { authorization: `Bearer ${token}` }
  try {
    // Not `fetch`: its first call takes a tenth of this command's processor time.
    const request = get(`${url}/readyz`, { headers, signal: AbortSignal.timeout(5_000) })
    // The request emits an error for an incomplete body. The answer then rejects, too.
    request.on('error', () => undefined)
    const [answer] = (await once(request, 'response')) as [IncomingMessage]
    return { status: answer.statusCode ?? 0, body: await text(answer) }
  } catch {
    return null
  }
}

const notReadyReason = (body: string): string => {
  try {
    const { checks, error } = JSON.parse(body) as { checks?: Record<string, string>; error?: string }
    const failing = Object.entries(checks ?? {}).filter(([, state]) => state !== 'ok')
    return failing.length > 0
      ? failing.map(([name, state]) => `${name}: ${state}`).join('; ')
      : (error ?? body)
  } catch {
    return 'it is not a Farebox'
  }
}

/** Whether a server runs, and its address. */
export const checkServer = async (config: Config): Promise<Outcome> => {
  const dataUser = await serverOf(config)
  const process = dataUser === null ? '' : ` (process ${dataUser.pid})`
  if (config.port === 0)
    return dataUser === null
      ? note('none uses the data; with PORT=0 it could listen anywhere')
      : ok(`process ${dataUser.pid} runs, on a port that the system chose (PORT=0)`)
  const url = urlOf(config)
  const answer = await readiness(url, config.metricsToken)
  if (answer === null)
    return dataUser === null
      ? note(`none answers on ${url}`, 'start one with npm start')
      : wrong(
          `process ${dataUser.pid} uses the data, and nothing answers on ${url}`,
          'wait for its start to end, read its log, or set HOST and PORT to those that it was started with',
        )
  if (config.databaseUrl === null && dataUser === null)
    return wrong(
      `something answers on ${url}, and it does not use the data of this FAREBOX_DATA`,
      'set FAREBOX_DATA, or PORT, to those of the intended server',
    )
  return answer.status === 200
    ? ok(`ready on ${url}${process}`)
    : wrong(`not ready on ${url}${process}: ${notReadyReason(answer.body)}`, 'read its log')
}

/** Whether payments are real. With a database of its own, a sandbox is most likely a mistake. */
export const checkPayments = ({ payments, databaseUrl }: Config): Outcome => {
  if (payments.gateways.length > 0) return ok(payments.gateways.map(({ provider }) => provider).join(', '))
  if (payments.sandbox === null) return note('no provider is configured: only credits by hand pay')
  return databaseUrl === null
    ? note('a sandbox takes them: no money moves')
    : note(
        'a sandbox takes them beside the database of DATABASE_URL: customers get balance without paying',
        'in a real installation set FAREBOX_DEMO=off and remove FAREBOX_SANDBOX_URL',
      )
}

/** The providers of scrapers, from the settings only: no provider is called. */
export const checkScrapers = ({ scrapers, payments }: Config): Outcome => {
  const hosts = scrapers.providers.map(({ baseUrl }) => new URL(baseUrl).host)
  if (hosts.length > 0) return ok(`fetched from ${hosts.join(', then from ')}`)
  if (payments.sandbox !== null) return note('the sandbox answers them, with invented data')
  return note('no provider is configured: every call is answered 503', 'set FAREBOX_SCRAPERS_KEY')
}

/** No finding if the database does not accept three connections: the database check reports that. */
export const checkSessions = async (databaseUrl: string): Promise<readonly Outcome[]> => {
  const own = await hasOwnSessions(databaseUrl)
  if (own === null) return []
  return [
    own ? ok('each connection to the database has a session of its own') : wrong(poolerProblem, poolerRemedy),
  ]
}
