import type pg from 'pg'
import type { AccountId } from '../../kernel/ids.ts'
import { trimEnd } from '../../kernel/trim-end.ts'
import type { ResellerCredentials } from '../../market/resellers/credentials.ts'
import { readTerms } from '../../market/resellers/gateways.ts'
import { publicOutgoing, type Send, sandboxOutgoing } from '../../platform/outgoing/send.ts'
import { createTelegram, telegramUrl } from './telegram.ts'
import type { ResellerBot } from './worker.ts'

export type Bots = {
  /** The bot that the reseller has set up; null without one. */
  of(reseller: AccountId): Promise<ResellerBot | null>
  close(): Promise<void>
}

/**
 * The bots of resellers: which one stands in their terms, its token in the vault. A bot whose address is the sandbox's
 * is the stand-in; every other one is called over https, on a public address.
 */
export const createBots = (deps: {
  readonly pool: pg.Pool
  readonly credentials: Pick<ResellerCredentials, 'bot'>
  /** Where the stand-ins answer; null where none run. */
  readonly sandboxUrl: string | null
}): Bots => {
  const { pool, credentials, sandboxUrl } = deps
  const outgoing = publicOutgoing()
  const local = sandboxUrl === null ? null : sandboxOutgoing(sandboxUrl)
  const sendTo = (apiUrl: string): Send =>
    local !== null && sandboxUrl !== null && new URL(apiUrl).origin === new URL(sandboxUrl).origin
      ? local.send
      : outgoing.send
  return {
    of: async (reseller) => {
      const { bot, shop } = await readTerms(pool, reseller)
      const found = bot && (await credentials.bot(bot.reference))
      if (!found) return null
      const apiUrl = trimEnd(found.apiUrl ?? telegramUrl, '/')
      const messenger = createTelegram({ token: found.token, apiUrl, send: sendTo(apiUrl) })
      return { messenger, merchantName: shop.merchantName }
    },
    close: async () => {
      await outgoing.close()
      await local?.close()
    },
  }
}
