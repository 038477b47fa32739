import type pg from 'pg'
import type { Logger } from 'pino'
import { decideAdoption } from '../domain/accounts/decide.ts'
import { type AccountState, accountRef } from '../domain/accounts/fold.ts'
import { decideTokenAdoption, financeTokenFold } from '../domain/finance/tokens.ts'
import { adoptionRef, decideAdoptionEnd } from '../domain/seals/adoption.ts'
import { decidePersonAdoption } from '../domain/staff/decide.ts'
import { personRef } from '../domain/staff/fold.ts'
import { adoptChats, apiKeyKind, emailCommitment, keyCommitment } from '../features/accounts/index.ts'
import { adoptDepositPages, readDeposit } from '../features/deposits/index.ts'
import { financeTokenKind } from '../features/finance/index.ts'
import { adoptWhitelists } from '../features/lines/index.ts'
import { adoptScrapeBatches } from '../features/scrapers/index.ts'
import { passkeyCommitment, staffEmailCommitment } from '../features/sign-in/index.ts'
import { type AccountId, type KeyId, newId } from '../kernel/ids.ts'
import { financeStream } from '../kernel/streams.ts'
import type { CommandRunner } from '../platform/commands/command.ts'
import { type CommandContext, handle, readState } from '../platform/commands/command.ts'
import type { Keys } from '../platform/vault/keys.ts'

type Dependencies = {
  readonly pool: pg.Pool
  readonly keys: Pick<Keys, 'master'>
  readonly runner: CommandRunner
}

/** Concurrent commands. */
const maxConcurrentCommands = 200

type EmailRow = { readonly id: string; readonly email: string; readonly salt: Buffer }
type KeyRow = {
  readonly id: string
  readonly account_id: AccountId
  readonly hash: Buffer
  readonly salt: Buffer
}
type PasskeyRow = {
  readonly id: string
  readonly subject_id: string
  readonly credential_id: string
  readonly public_key: Buffer
  readonly salt: Buffer
}
type TokenRow = { readonly id: string; readonly hash: Buffer; readonly salt: Buffer }

/** Rows of an older release without a commitment, from the table that the migrations filled. */
const rowsOf = async <Row extends pg.QueryResultRow>(
  pool: pg.Pool,
  what: string,
  { table, id, columns }: { readonly table: string; readonly id: string; readonly columns: string },
): Promise<readonly Row[]> =>
  (
    await pool.query<Row>(
      `select u.id, ${columns}, v.salt from vault.uncommitted u join vault.${table} v on v.${id} = u.id
        where u.what = $1::text and v.salt is not null order by u.id`,
      [what],
    )
  ).rows

/**
 * Whether any account is from an older release, which stored no e-mail commitment. Only then are deposit pages signed.
 * They are not in the log, so otherwise a forged row in `vault.uncommitted` would get forged deposit pages signed.
 */
const anyUncommitted = async (
  rows: readonly EmailRow[],
  stateOf: (account: AccountId) => Promise<AccountState>,
): Promise<boolean> => {
  for (const { id } of rows) {
    const account = await stateOf(id as AccountId)
    if (account !== null && account.emailCommitment === null) return true
  }
  return false
}

/** @param isOlder whether an older release wrote unsigned rows */
const adopt = async (
  { pool, keys, runner }: Dependencies,
  cause: CommandContext,
  emails: readonly EmailRow[],
  isOlder: boolean,
) => {
  const adoptAll = async <Item>(
    items: Iterable<Item>,
    adoptOne: (item: Item) => Promise<boolean>,
  ): Promise<number> => {
    let changed = 0
    const remaining = [...items]
    while (remaining.length > 0) {
      const results = await Promise.all(remaining.splice(0, maxConcurrentCommands).map(adoptOne))
      changed += results.filter(Boolean).length
    }
    return changed
  }

  const apiKeys = await rowsOf<KeyRow>(pool, 'api-key', {
    table: 'api_keys',
    id: 'key_id',
    columns: 'v.account_id, v.hash',
  })
  // Before any account gets a commitment, so that the start after an interrupted one signs them again.
  if (isOlder) {
    await adoptChats(pool, keys)
    await adoptScrapeBatches(pool, keys)
    await adoptDepositPages(pool, keys, async (id) => (await readDeposit(runner, id, cause))?.details ?? null)
  }

  const emailOf = new Map(emails.map((row) => [row.id, emailCommitment(row.id, row.salt, row.email)]))
  const keysOf = Map.groupBy(apiKeys, (row) => row.account_id as string)
  const accounts = await adoptAll(new Set([...emailOf.keys(), ...keysOf.keys()]), async (id) => {
    const accountId = id as AccountId
    const foundCommitments = {
      accountId,
      emailCommitment: emailOf.get(id) ?? null,
      keys: (keysOf.get(id) ?? []).map(({ id: keyId, hash, salt }) => ({
        keyId: keyId as KeyId,
        commitment: keyCommitment(apiKeyKind, { id: keyId, owner: accountId, salt, hash }),
      })),
    }
    return (
      await handle(runner, cause, accountRef(accountId), (state) => decideAdoption(state, foundCommitments))
    ).changed
  })

  const staff = await rowsOf<EmailRow>(pool, 'staff', { table: 'staff', id: 'staff_id', columns: 'v.email' })
  const passkeys = await rowsOf<PasskeyRow>(pool, 'passkey', {
    table: 'console_passkeys',
    id: 'passkey_id',
    columns: 'v.subject_id, v.credential_id, v.public_key',
  })
  const staffEmailOf = new Map(
    staff.map((row) => [row.id, staffEmailCommitment(row.id, row.salt, row.email)]),
  )
  const passkeysOf = Map.groupBy(passkeys, (row) => row.subject_id)
  const people = await adoptAll(
    new Set([...staffEmailOf.keys(), ...passkeysOf.keys()]),
    async (subjectId) => {
      const foundCommitments = {
        subjectId,
        emailCommitment: staffEmailOf.get(subjectId) ?? null,
        passkeys: (passkeysOf.get(subjectId) ?? []).map((row) => ({
          passkeyId: row.id,
          commitment: passkeyCommitment({
            passkeyId: row.id,
            subjectId,
            salt: row.salt,
            credentialId: row.credential_id,
            publicKey: row.public_key,
          }),
        })),
      }
      const ref = personRef(subjectId)
      return (await handle(runner, cause, ref, (state) => decidePersonAdoption(state, foundCommitments)))
        .changed
    },
  )

  const tokens = (
    await rowsOf<TokenRow>(pool, 'finance-token', {
      table: 'finance_tokens',
      id: 'token_id',
      columns: 'v.hash',
    })
  ).map(({ id, hash, salt }) => ({
    tokenId: id,
    commitment: keyCommitment(financeTokenKind, { id, owner: financeStream, salt, hash }),
  }))
  const tokensRef = { stream: financeStream, fold: financeTokenFold }
  await handle(runner, cause, tokensRef, (state) => decideTokenAdoption(state, tokens))

  const adopted = { accounts, people, tokens: tokens.length }
  await handle(runner, cause, adoptionRef, (completedAdoptions) =>
    decideAdoptionEnd(completedAdoptions, { type: 'CommitmentsAdopted', data: adopted }),
  )
  return adopted
}

/**
 * Appends commitments for the keys, passkeys, tokens, e-mails and whitelist entries that older releases stored in the
 * vault without one. It runs once, at the first start after the upgrade, before any other decision. Rows without a
 * commitment that appear later are not accepted as credentials.
 */
export const adoptCommitments = async (
  dependencies: Dependencies & { readonly logger: Pick<Logger, 'info'> },
): Promise<void> => {
  const { pool, runner, logger } = dependencies
  const cause = {
    actor: { kind: 'system', name: 'upgrade' },
    correlationId: newId<string>('run'),
    name: 'adopt-commitments',
  } as const
  // A finished adoption is never repeated, even if the table has rows again.
  const completedAdoptions = await readState(runner, cause, adoptionRef)
  const emails = await rowsOf<EmailRow>(pool, 'account', {
    table: 'accounts',
    id: 'account_id',
    columns: 'v.email',
  })
  const isOlder =
    !completedAdoptions.has('CommitmentsAdopted') &&
    (await anyUncommitted(emails, (id) => readState(runner, cause, accountRef(id))))
  if (!completedAdoptions.has('WhitelistsAdopted')) {
    const entries = await adoptWhitelists(dependencies, cause, isOlder)
    await handle(runner, cause, adoptionRef, (ended) =>
      decideAdoptionEnd(ended, { type: 'WhitelistsAdopted', data: { entries } }),
    )
    logger.info({ entries }, 'entries of whitelists of older releases are committed to from here on')
  }
  if (!completedAdoptions.has('CommitmentsAdopted')) {
    const adopted = await adopt(dependencies, cause, emails, isOlder)
    logger.info(adopted, 'keys, passkeys, tokens and e-mails of older releases are committed to from here on')
  }
  await pool.query('delete from vault.uncommitted')
}
