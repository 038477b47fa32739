import type { TestContext } from 'node:test'
import pino from 'pino'
import { groups, hot } from '../../../projections/groups.ts'
import { createAccounts } from '../../../src/features/accounts/account-service.ts'
import { createWallets } from '../../../src/features/wallet/wallet-service.ts'
import type { KeyCap, KeyScope } from '../../../src/kernel/scopes.ts'
import { createLogFeed } from '../../../src/platform/projections/feed.ts'
import { createProjectionRunner } from '../../../src/platform/projections/projection-runner.ts'
import { createReads } from '../../../src/platform/projections/read-your-writes.ts'
import { codec, postgresWorld, runnerOver } from '../../platform/commands/world.ts'

export const cause = { correlationId: 'run_test', actor: { kind: 'operator', name: 'tester' } } as const

/** Services on a real log; `elsewhere` is another process's runner on the same database. */
export const serviceWorld = async (t: TestContext) => {
  const logger = pino({ level: 'silent' })
  const { pool, url, wire, elsewhere } = await postgresWorld(t)
  const open = (log: typeof elsewhere) => {
    const runner = runnerOver(log)
    t.after(() => runner.close())
    return { runner, accounts: createAccounts({ pool, runner, logger }), wallets: createWallets({ runner }) }
  }
  const other = open(elsewhere)
  return { pool, url, logger, log: wire, ...open(wire), elsewhere: other }
}

/**
 * The same with the real projections running. Reads wait longer for them than in the service: only a test of
 * stopped projections should see a refused read on a loaded machine.
 */
export const projectedWorld = async (t: TestContext, readsWaitMs = 20_000) => {
  const world = await serviceWorld(t)
  const { pool, log, logger } = world
  const feed = createLogFeed({ log, decode: codec.decode, onError: () => undefined })
  const projections = createProjectionRunner({
    pool,
    log,
    feed,
    decode: codec.decode,
    groups,
    logger,
    clock: Date.now,
  })
  await projections.start()
  t.after(async () => {
    projections.resume()
    await projections.stop()
    await feed.close()
  })
  const reads = createReads({ progress: projections.progress, log, group: hot.name, timeoutMs: readsWaitMs })
  const watch = projections.progress.watch(hot.name, ['accounts', 'keys'])
  return { ...world, projections, reads, watch }
}

/** An account with a key that may buy. */
export const buyer = async (
  { accounts }: Pick<Awaited<ReturnType<typeof serviceWorld>>, 'accounts'>,
  options: {
    readonly email?: string
    readonly cap?: KeyCap | null
    readonly reseller?: boolean
    readonly expiresAtMs?: number
    readonly networks?: readonly string[]
    readonly scopes?: readonly KeyScope[]
  } = {},
) => {
  const { email = 'buyer@example.com', cap = null, reseller = false, scopes = ['buy'], ...held } = options
  const made = await accounts.create({ email, reseller }, cause)
  if (made.outcome === 'refused') throw new Error(`refused: ${made.refusal.code}`)
  const { accountId } = made
  const issued = await accounts.issueKey({ accountId, scopes, cap, ...held }, cause)
  if (issued.outcome === 'refused') throw new Error(`refused: ${issued.refusal.code}`)
  return { accountId, keyId: issued.keyId, key: issued.key }
}
