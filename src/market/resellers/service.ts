import type { AccountId } from '../../kernel/ids.ts'
import type { ResellerRail } from '../../money/payments/rails.ts'
import type { CommandRunner } from '../../platform/eventstore/commands/command.ts'
import type { Cause } from '../../platform/eventstore/event.ts'
import { accountStream, catalogStream, termsStream } from '../../terms/streams.ts'
import { accountFold } from '../accounts/fold.ts'
import { catalogFold } from '../catalog/fold.ts'
import type { BotCredentials, GatewayCredentials } from './credential-forms.ts'
import type { ResellerCredentials } from './credentials.ts'
import { decideTerms, type TermsChange, type TermsRefusal } from './decide.ts'
import { type Terms, termsFold } from './fold.ts'

/** `changed` is false when what was asked for stood already. */
export type TermsResult =
  | { readonly outcome: 'done'; readonly changed: boolean }
  | { readonly outcome: 'refused'; readonly refusal: TermsRefusal }

/** Every change of a reseller's settings: events on its `terms-…` stream, with their actor. */
export type Resellers = {
  /** Refusals: those of `decideTerms`. */
  change(
    reseller: AccountId,
    change: Omit<TermsChange, 'gateway' | 'bot'>,
    cause: Cause,
  ): Promise<TermsResult>
  /** Null takes the gateway away; invoices that it has made are still followed. Refusals: as for `change`. */
  setGateway(
    reseller: AccountId,
    rail: ResellerRail,
    credentials: GatewayCredentials | null,
    cause: Cause,
  ): Promise<TermsResult>
  /** Null takes the bot away. Refusals: as for `change`. */
  setBot(reseller: AccountId, credentials: BotCredentials | null, cause: Cause): Promise<TermsResult>
  /** The terms as the log has them now, or why there are none. */
  read(
    reseller: AccountId,
    cause: Cause,
  ): Promise<{ readonly outcome: 'done'; readonly terms: Terms } | (TermsResult & { outcome: 'refused' })>
}

export const createResellers = ({
  runner,
  credentials,
}: {
  readonly runner: CommandRunner
  readonly credentials: ResellerCredentials
}): Resellers => {
  const run = async (reseller: AccountId, change: TermsChange, cause: Cause) => {
    const stream = termsStream(reseller)
    const { answer } = await runner.run({
      name: 'change-terms',
      streams: {
        account: { stream: accountStream(reseller), fold: accountFold },
        catalog: { stream: catalogStream, fold: catalogFold },
        terms: { stream, fold: termsFold },
      },
      decide(states) {
        const decision = decideTerms(states, change)
        const events = decision.outcome === 'decided' ? decision.events : []
        return {
          appends: events.length === 0 ? [] : [{ stream, events }],
          answer: { decision, terms: states.terms },
        }
      },
      actor: cause.actor,
      correlationId: cause.correlationId,
      account: reseller,
    })
    return answer
  }

  const change = async (reseller: AccountId, asked: TermsChange, cause: Cause): Promise<TermsResult> => {
    const { decision } = await run(reseller, asked, cause)
    return decision.outcome === 'refused'
      ? decision
      : { outcome: 'done', changed: decision.events.length > 0 }
  }

  /** Credentials are stored first and make nothing exist: what no event names is dropped, or left by a crash. */
  const changeTo = async (
    reseller: AccountId,
    reference: string,
    asked: TermsChange,
    cause: Cause,
  ): Promise<TermsResult> => {
    const result = await change(reseller, asked, cause)
    if (result.outcome === 'refused') await credentials.drop(reference)
    return result
  }

  return {
    change,
    async setGateway(reseller, rail, secrets, cause) {
      if (secrets === null) return change(reseller, { gateway: { rail, to: null } }, cause)
      const to = await credentials.storeGateway(reseller, rail, secrets)
      return changeTo(reseller, to.reference, { gateway: { rail, to } }, cause)
    },
    async setBot(reseller, secrets, cause) {
      if (secrets === null) return change(reseller, { bot: null }, cause)
      const bot = await credentials.storeBot(reseller, secrets)
      return changeTo(reseller, bot.reference, { bot }, cause)
    },
    async read(reseller, cause) {
      const { decision, terms } = await run(reseller, {}, cause)
      return decision.outcome === 'refused' ? decision : { outcome: 'done', terms }
    },
  }
}
