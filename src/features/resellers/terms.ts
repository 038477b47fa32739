import { accountRef } from '../../domain/accounts/fold.ts'
import { type Catalog, createCatalog } from '../../domain/catalog/catalog.ts'
import { catalogRef } from '../../domain/catalog/fold.ts'
import type { ResellerRail } from '../../domain/payments/payments.ts'
import {
  decideOwnPrices,
  decideTerms,
  type OwnPriceChange,
  type TermsChange,
  type TermsRefusal,
} from '../../domain/resellers/decide.ts'
import { type Terms, termsFold } from '../../domain/resellers/fold.ts'
import type { Cause } from '../../kernel/event.ts'
import type { AccountId } from '../../kernel/ids.ts'
import { termsStream } from '../../kernel/streams.ts'
import type { CommandRunner } from '../../platform/commands/command.ts'
import { handle, type Result, readState } from '../../platform/commands/command.ts'
import type { GatewayCredentials } from '../payments/index.ts'
import type { BotCredentials, ResellerCredentials } from './gateway-credentials.ts'

export type TermsResult<Made = object> = Result<TermsRefusal, Made>

/** Changes of a reseller's terms: events on its `terms-…` stream, with their actor. */
export type Resellers = {
  /** Refusals: those of `decideTerms`. */
  change(
    reseller: AccountId,
    change: Omit<TermsChange, 'gateway' | 'bot'>,
    cause: Cause,
  ): Promise<TermsResult>
  /** The reseller's own change of prices. Refusals: those of `decideOwnPrices`. */
  setPrices(reseller: AccountId, change: OwnPriceChange, cause: Cause): Promise<TermsResult>
  /** Null removes the gateway. Its existing invoices are still followed. Refusals: as for `change`. */
  setGateway(
    reseller: AccountId,
    rail: ResellerRail,
    credentials: GatewayCredentials | null,
    cause: Cause,
  ): Promise<TermsResult>
  /** Null removes the bot. Refusals: as for `change`. */
  setBot(reseller: AccountId, credentials: BotCredentials | null, cause: Cause): Promise<TermsResult>
  /** The terms and the catalogue in the log, or why there are no terms. */
  read(
    reseller: AccountId,
    cause: Cause,
  ): Promise<TermsResult<{ readonly terms: Terms; readonly catalog: Catalog }>>
}

const termsRef = (reseller: AccountId) => ({ stream: termsStream(reseller), fold: termsFold })

export const createResellers = ({
  runner,
  credentials,
}: {
  readonly runner: CommandRunner
  readonly credentials: ResellerCredentials
}): Resellers => {
  const change = (
    reseller: AccountId,
    termsChange: TermsChange,
    cause: Cause,
    decide = decideTerms,
  ): Promise<TermsResult> => {
    const decider = {
      ...termsRef(reseller),
      others: {
        account: accountRef(reseller),
        catalog: catalogRef,
      },
    }
    return handle(
      runner,
      { ...cause, name: 'change-terms', account: reseller },
      decider,
      (terms, { others }) => decide({ terms, ...others }, termsChange),
    )
  }

  /**
   * Credentials are stored first, where they have no effect. If no event refers to them they are deleted; after a crash
   * they remain unused.
   */
  const changeTo = async (
    reseller: AccountId,
    reference: string,
    termsChange: TermsChange,
    cause: Cause,
  ): Promise<TermsResult> => {
    const result = await change(reseller, termsChange, cause)
    if (result.outcome === 'refused') await credentials.drop(reference)
    return result
  }

  return {
    change: (reseller, termsChange, cause) => change(reseller, termsChange, cause),
    setPrices: (reseller, prices, cause) => change(reseller, prices, cause, decideOwnPrices),
    async setGateway(reseller, rail, secrets, cause) {
      if (secrets === null) return change(reseller, { gateway: { rail, to: null } }, cause)
      const storedGateway = await credentials.storeGateway(reseller, rail, secrets)
      return changeTo(reseller, storedGateway.reference, { gateway: { rail, to: storedGateway } }, cause)
    },
    async setBot(reseller, secrets, cause) {
      if (secrets === null) return change(reseller, { bot: null }, cause)
      const bot = await credentials.storeBot(reseller, secrets)
      return changeTo(reseller, bot.reference, { bot }, cause)
    },
    async read(reseller, cause) {
      const result = await change(reseller, {}, cause)
      if (result.outcome === 'refused') return result
      return {
        ...result,
        terms: await readState(runner, { ...cause, name: 'read-terms' }, termsRef(reseller)),
        catalog: createCatalog(await readState(runner, { ...cause, name: 'read-catalog' }, catalogRef)),
      }
    },
  }
}
