import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { operate } from '../../support/operator.ts'

/** A fresh account with this much money and a key that buys and scrapes, by the operator's commands. */
export const scrapingAccount = async (
  env: NodeJS.ProcessEnv,
  cents: number,
): Promise<{ readonly accountId: string; readonly key: string }> => {
  const done = async (...args: readonly string[]) => {
    const { code, out, err } = await operate([...args, '--json'], env)
    assert.equal(code, 0, err)
    return JSON.parse(out)
  }
  const email = `${randomBytes(6).toString('hex')}@example.com`
  const { accountId } = await done('accounts', 'create', '--email', email)
  const { key } = await done('keys', 'create', '--account', accountId, '--scopes', 'buy,scrape')
  await done(
    ...['wallet', 'credit', '--kind=payment', '--account', accountId],
    ...['--cents', String(cents), '--reference', 'start'],
  )
  return { accountId, key }
}
