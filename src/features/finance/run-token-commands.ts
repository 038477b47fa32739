import { isKeyActive } from '../../domain/accounts/fold.ts'
import type { FinanceTokenRefusal } from '../../domain/finance/tokens.ts'
import { isoTime } from '../../kernel/clock.ts'
import type { CliContext } from '../../platform/cli/cli-context.ts'
import { expiryOf } from '../../platform/cli/options.ts'
import { CliMisuse, CliRefusal, fields, table } from '../../platform/cli/output.ts'
import { createFinanceTokenService } from './token-service.ts'

const refusalOf = (refusal: FinanceTokenRefusal, tokenId: string): CliRefusal => {
  switch (refusal.code) {
    case 'unknown_token':
      return new CliMisuse(
        `no finance token has the id ${tokenId}; "finance token list" shows them`,
        {},
        'not_found',
      )
    case 'expiry_passed':
      return new CliMisuse('the expiry is in the past')
    case 'too_many_keys':
      return new CliRefusal(
        'too_many_tokens',
        `${refusal.limit} tokens work, as many as there may be; revoke one first`,
      )
    default:
      return refusal satisfies never
  }
}

export type IssueOptions = {
  readonly name: string
  readonly expiresAt?: number
  readonly expiresInDays?: number
  readonly neverExpires?: true
}

export const create = async (context: CliContext, options: IssueOptions) => {
  const expiresAtMs = expiryOf(context, options)
  const issued = await createFinanceTokenService(context).issue({ name: options.name, expiresAtMs }, context)
  if (issued.outcome === 'refused') throw refusalOf(issued.refusal, '')
  const { keyId: tokenId, key: secret } = issued
  const expiresAt = expiresAtMs === null ? null : isoTime(expiresAtMs)
  return {
    json: { tokenId, token: secret, name: options.name, expiresAt },
    text: `${fields({ token: tokenId, name: options.name, 'expires at': expiresAt ?? 'never: it works until it is revoked' })}\n\n${secret}\n\nKeep it now: it is not shown again. Send it as Authorization: Bearer to /finance/v1.`,
  }
}

export const revoke = async (context: CliContext, tokenId: string) => {
  const result = await createFinanceTokenService(context).revoke(tokenId, context)
  if (result.outcome === 'refused') throw refusalOf(result.refusal, tokenId)
  const { changed } = result
  return {
    json: { tokenId, revoked: true, changed },
    text: changed ? `revoked ${tokenId}` : `${tokenId} was revoked already`,
  }
}

export const list = async (context: CliContext) => {
  const nowMs = context.clock()
  const tokens = [...(await createFinanceTokenService(context).read(context))].map(([tokenId, state]) => ({
    tokenId,
    name: state.name,
    prefix: state.displayPrefix,
    issuedAt: isoTime(state.issuedAtMs),
    expiresAt: state.expiresAtMs === null ? null : isoTime(state.expiresAtMs),
    state: state.revoked ? 'revoked' : isKeyActive(state, nowMs) ? 'works' : 'expired',
  }))
  const text = table(
    tokens,
    [
      { title: 'TOKEN', value: ({ tokenId }) => tokenId },
      { title: 'NAME', value: ({ name }) => name },
      { title: 'STARTS WITH', value: ({ prefix }) => prefix },
      { title: 'ISSUED AT', value: ({ issuedAt }) => issuedAt },
      { title: 'EXPIRES AT', value: ({ expiresAt }) => expiresAt ?? 'never' },
      { title: 'STATE', value: ({ state }) => state },
    ],
    'no finance tokens; "finance token create" makes one',
  )
  return { json: { tokens }, text }
}
